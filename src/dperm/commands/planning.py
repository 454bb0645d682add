"""`dperm plan` and `dperm theory`: everything that can be said before a row is read."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

from dperm.commands import declaring as option
from dperm.commands.declaring import class_weights, given, made
from dperm.commands.ledgers import room_line
from dperm.commands.shared import JSON_OPTION, say, show
from dperm.commands.spoken import spoken
from dperm.commands.wishes import Wish
from dperm.words.spelling import closest
from dperm.words.wording import in_percent, several

if TYPE_CHECKING:
    from dperm.estimators.declaration import Declaration
    from dperm.estimators.outlook import Advice
    from dperm.release.plan import Plan

EXAMPLES = {"n": "10000", "d": "50", "delta": "1e-6", "alpha": "0.1", "beta": "0.05", "steps": "100", "hypotheses": "1000"}
EXAMPLES |= {"rank": "20", "rho": "0.001", "count": "100", "noise": "0.001", "gap": "10"}
ALSO = {  # one of several numbers that a theorem can do with
    "exponential-erm": ("radius=1",),
    "output-perturbation": ("radius=1", "delta=1e-6"),
    "objective-perturbation": ("radius=1", "delta=1e-6"),
    "projected-gradient": ("steps=100", "lipschitz=1", "diameter=1"),
    "gradient-descent": ("diameter=1",),
    "gradient-sensitivity": ("n=10000",),
    "lower-bound": ("kind=convex",),
    "generalisation-gap": ("hypotheses=1000", "beta=0.05"),
    "phased-sgd": ("smoothness=1",),
}
RISK = "mean loss of the fit above that of the best coefficients"
PLAIN = {"True": "true", "False": "false", "None": "null"}  # as Python writes them


@dataclass(frozen=True)
class Planned:
    """What `dperm plan` is asked."""

    n: int | None = typer.Option(None, help="Public (or nominal) number of rows.")
    d: int | None = typer.Option(None, help="Number of columns after encoding, each with a declared range; or pass --schema.")
    epsilon: float | None = typer.Option(None, help="Privacy budget.")
    delta: float | None = option.PURE_DELTA
    model: str | None = typer.Option(
        None,
        help="Estimator name, or logistic, svm, linear, ridge, huber, quantile, poisson, lasso, gam, mlp, embedding, mean, "
        "median; by default LogisticRegression, or by the target's type in the schema.",
    )
    method: str = typer.Option("auto", help="Mechanism, by its name; `dperm plan` lists them.")
    relation: str | None = option.MODEL_RELATION
    schema: Path | None = typer.Option(None, help="Plan for the columns and target of this schema.")
    intervals: bool = option.INTERVALS
    noise: str = option.NOISE
    class_weight: list[str] = option.CLASS_WEIGHT
    max_rows_per_person: int | None = option.MAX_ROWS
    max_weight: float | None = option.MAX_WEIGHT
    max_exposure: float | None = option.MAX_EXPOSURE
    target_risk: float | None = typer.Option(
        None,
        help=f"Also say how many rows, or which epsilon, each bound needs for this risk ({RISK}); without --epsilon, plan for "
        "the smallest of these.",
    )
    radius: float = typer.Option(1.0, help="Norm of the best coefficients, for the predicted risks.")
    target_width: float | None = typer.Option(
        None, help="With --intervals: which epsilon, or how many rows, give intervals so many times as wide as without privacy."
    )
    compare_accounting: bool = typer.Option(
        False, "--compare-accounting", help="The same by other accountants; alone with --model logistic, a table of noise levels."
    )
    ledger: Path | None = typer.Option(
        None, envvar="DPERM_LEDGER", help="Refuse what does not fit into this ledger any more; nothing is spent."
    )
    as_json: bool = JSON_OPTION

    def fit(self, n: int, **changed: object) -> Declaration:
        """The declared fit: of a schema's columns, or over columns with range [0, 1]."""
        from dperm.estimators import outlook
        from dperm.estimators.declaration import before_rows
        from dperm.estimators.declared import asked_intervals
        from dperm.tables.schema import Schema

        options = given(self) | changed
        if self.schema is not None:
            wish = Wish(self.model, self.intervals, self.class_weight or [], options)
            return before_rows(wish.estimator(Schema.load(self.schema)), n, None)
        kind, declared, classes = outlook.reference(self.model or "LogisticRegression", options)
        options |= {**asked_intervals(kind, self.intervals), **declared}
        return before_rows(made(kind, **options, class_weight=class_weights(self.class_weight, classes)), n, self.d)


def plan(asked: Planned) -> None:
    """Say what a fit would do, and predict the risk of every alternative, from public numbers alone. Reads no data.

    Without --epsilon: a table over several. The expected loss is what was measured on public tables with as much noise.

    Example: dperm plan --n 10000 --d 20

    Example: dperm plan --n 10000 --d 20 --epsilon 1 --target-risk 0.05

    Example: dperm plan --model logistic --compare-accounting
    """
    from dperm.choose import risks
    from dperm.estimators import outlook

    if asked.n is None and asked.compare_accounting:
        _objective_table(asked.model, asked.delta, asked.as_json)
        return
    if asked.n is None:
        columns = " --d 20" if asked.schema is None else ""
        raise ValueError(f"Expected --n, the number of rows, found no --n. Pass e.g. --n 10000{columns}.")
    if asked.schema is None and asked.d is None:
        raise ValueError("Expected --d or --schema, found neither. Pass the number of columns, e.g. --d 20.")
    if asked.schema is not None and asked.d is not None:
        raise ValueError("Expected --d or --schema, which says how many columns there are, found both. Leave one of them out.")
    if asked.target_width is not None and not asked.intervals:
        raise ValueError("Expected --intervals with --target-width, found --target-width alone. Pass both.")
    epsilon, why = asked.epsilon, ""
    if epsilon is None and asked.target_risk is None and asked.target_width is None:
        _say_epsilons([asked.fit(asked.n, epsilon=value) for value in EPSILONS], asked.as_json)
        return
    if epsilon is None:
        trial = asked.fit(asked.n, epsilon=1.0)
        if asked.target_risk is not None:
            epsilon, why = outlook.smallest_epsilon(trial, asked.target_risk, radius=asked.radius), "a bound needs for this risk"
        else:
            epsilon, why = outlook.epsilon_of_width(trial, asked.target_width), "gives such intervals"
    fit = asked.fit(asked.n, epsilon=epsilon)
    found = outlook.advise_for(fit, target_risk=asked.target_risk, radius=asked.radius, target_width=asked.target_width)
    planned = fit.plan()
    if asked.ledger is not None:
        from dperm.release.ledger.book import Ledger

        book = Ledger(asked.ledger)
        book.check(planned)
        found["ledger"] = room_line(asked.ledger, book.account(planned.target.delta or None), planned.target)
    if asked.compare_accounting:
        found["accounting"] = risks.compare_accounting(planned)
    if asked.as_json:
        show(found, True)
        return
    if asked.epsilon is None:
        say(f"No --epsilon given: planned for {epsilon:g}, the smallest that {why}.")
    _say_plan(found, planned)
    if asked.relation is None and found["relation"] != "replace-one":
        say(f"The relation is {found['relation']}, the default of {found['model']}; see --relation.")


def _say_plan(found: Advice, planned: Plan) -> None:
    """The answer first, then what the budget is spent on, then what else could be done. JSON has every stage with its numbers."""
    from dperm.pages.content import budget_parts

    if found["expected"] is not None:
        say(f"expected   {found['expected']['sentence']}")
    say(f"mechanism  {planned.mechanism}")
    target, shape = planned.target, planned.shape
    say(f"target     epsilon {target.epsilon:g} at delta {target.delta:g}, {target.relation}, n = {shape.n:,}, d = {shape.d:,}")
    parts = budget_parts(planned.events, target.delta, target.relation)
    shares = sorted(((part / (sum(parts) or 1.0), stage.name) for part, stage in zip(parts, planned.stages)), reverse=True)
    say(f"budget     {', '.join(f'{in_percent(share, 2)} {name}' for share, name in shares)}")
    for text in planned.assumptions:
        say(f"assumes    {text}")
    sentence = found["intervals"]["sentence"] if found.get("intervals") else None
    about = str(sentence).partition(":")[0]  # the plan's own words on it are of another width, where one is wanted
    notes = [text for text in (*planned.warnings, *planned.notes) if sentence is None or not text.startswith(about)]
    for text in (*notes, *([] if sentence is None else [str(sentence)])):
        say(f"note       {spoken(text)}")
    say(f"\nalternatives, with worst-case bounds on the risk ({RISK})")
    for row in found["alternatives"]:
        bound = "no bound" if row["predicted_risk"] is None else f"{row['predicted_risk']:.4g}"
        text = f"needs {spoken(row['needs'][0])}" if row["needs"] else several(row["passes"] or 0, "release")
        say(f"  {'*' if row['mechanism'] == found['mechanism'] else ' '} {row['mechanism']:<17} {bound:<10} {text}")
    say(found["risk_note"])
    needed = (("sample_size", found.get("sample_size")), ("epsilon_needed", found.get("epsilon_needed")))
    for title, table in (*needed, ("accounting", found.get("accounting"))):
        if table is not None:
            say("\n" + title.replace("_", " "))
            show({key.replace("_", " "): _short(value) for key, value in table.items()}, False)
    if "ledger" in found:
        say(f"\nledger     {found['ledger']}")
    say("\n" + found["odds_sentence"])


EPSILONS = (0.1, 0.3, 1.0, 3.0, 8.0)


def _say_epsilons(fits: list[Declaration], as_json: bool) -> None:
    """Without --epsilon: what several of them would give."""
    from dperm.choose.odds import odds, percent
    from dperm.estimators.outlook import expected_of, foreseen_intervals

    rows: list[dict[str, Any]] = [
        {
            "epsilon": fit.target.epsilon,
            "mechanism": fit.plan().mechanism,
            "even_bet_at_most": odds(fit.target.epsilon)["beliefs"][-1]["after_at_most"],
            "expected": expected_of(fit),
            **foreseen_intervals(fit, fit.plan(), None),
        }
        for fit in fits
    ]
    if as_json:
        show({"epsilons": rows}, True)
        return
    say("No --epsilon given: here is what some values give. An even bet about one record stays below the second column.")
    say(f"  {'epsilon':<8} {'even bet':<9} {'mechanism':<17} expected")
    for row in rows:
        sentence = "not measured for this model" if row["expected"] is None else row["expected"]["sentence"]
        words = sentence.partition(";")[0].rstrip(".")
        words += "; " + str(row["intervals"]["sentence"]).partition(" (")[0] if "intervals" in row else ""
        say(f"  {row['epsilon']:<8g} {percent(row['even_bet_at_most']):<9} {row['mechanism']!s:<17} {words}")
    say("Pass --epsilon with one of them for its plan; where the numbers come from: docs/accuracy.md.")


def _short(value: float | int | None) -> str:
    """A number for people: whole ones whole, others with three digits.

    >>> _short(157488), _short(0.2664651087036133), _short(None)
    ('157488', '0.266', 'no bound')
    """
    return "no bound" if value is None else f"{value}" if isinstance(value, int) else f"{value:.3g}"


def _objective_table(model: str | None, delta: float | None, as_json: bool) -> None:
    """σ of logistic objective perturbation at rows of norm 1, by accounting, for both kinds of neighbours."""
    from dperm.mechanisms.objective.accounting import compare_accounting as compare

    if model not in ("logistic", "LogisticRegression"):
        raise ValueError(f"Expected --model logistic for the table of noise levels, found {model!r}. Or pass --n and --epsilon.")
    tables = {
        relation: compare(delta=1e-6 if delta is None else delta, relation=relation) for relation in ("zero-out", "replace-one")
    }
    if as_json:
        show(tables, True)
        return
    columns = ("epsilon", "ridge", "half", "default", "redberg", "kst", "gaussian")
    for relation, rows in tables.items():
        say(f"\n{relation}, delta {rows[0]['delta']:g}: noise of objective perturbation, rows of norm 1")
        say("".join(f"{name:>10}" for name in columns))
        for row in rows:
            say("".join(f"{'n/a':>10}" if row[name] is None else f"{row[name]:>10.4f}" for name in columns))
    say("\nhalf, default: this library at half and all of its default ridge; gaussian: the floor, one Gaussian release.")


class PlotCommand(TyperCommand):
    """`--plot` without a file means this folder."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = []
        for word, after in zip(args, [*args[1:], "-"]):
            words.append(word)
            drawing = after.endswith((".svg", ".png"))
            if word == "--plot" and (after.startswith("-") or ("=" in after and not drawing) or theorem(after)):
                words.append(".")
        return super().parse_args(ctx, words)


def theorem(name: str) -> str | None:
    """The command line's name of a theorem, from that name or its function's, with hyphens or underscores.

    >>> theorem("pac_sample_size"), theorem("pac"), theorem("gradient_descent"), theorem("nothing")
    ('pac', 'pac', 'gradient-descent', None)
    """
    from dperm.theory import THEOREMS

    names = {function.__name__.replace("_", "-"): key for key, function in THEOREMS.items()} | {key: key for key in THEOREMS}
    return names.get(name.replace("_", "-"))


def theory(
    name: str | None = typer.Argument(None, help="A theorem; without it, all are listed."),
    numbers: list[str] = typer.Argument(None, help="Its numbers as name=value, e.g. n=10000 d=50 epsilon=1."),
    plot: Path | None = typer.Option(
        None, help="Draw its value against n (else epsilon, steps, count, alpha) into this SVG or PNG file; NAME.svg by default."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Evaluate a theorem of the lectures, corrected.

    Example: dperm theory gradient-descent n=10000 d=50 lipschitz=1 diameter=1 epsilon=1 delta=1e-6
    """
    from dperm.theory import THEOREMS

    if name is None:
        listed = {key: (inspect.getdoc(function) or "").splitlines()[0] for key, function in THEOREMS.items()}
        show(listed, as_json)
        return
    asked, found = name, theorem(name)
    if found is None:
        hint = closest(asked, [*THEOREMS, *(function.__name__ for function in THEOREMS.values())])
        raise ValueError(f"Expected a theorem in {', '.join(THEOREMS)}, found {asked!r}.{hint} Run `dperm theory` for the list.")
    name, function = found, THEOREMS[found]
    needed = [key for key, item in inspect.signature(function).parameters.items() if item.default is inspect.Parameter.empty]
    usual = [f"{key}={EXAMPLES.get(key, '1')}" for key in needed if key != "kind"]
    example = " ".join([*usual, *ALSO.get(name, ())])
    if plot is not None and not numbers:
        numbers = example.split()  # a picture needs some numbers: those of the example, which the answer names
    given = _numbers(name, function, numbers or [], example)
    if absent := [key for key in needed if key not in given]:
        raise ValueError(
            f"Expected {', '.join(needed)} for {name}, found no {', '.join(absent)}. Write `dperm theory {name} {example}`."
        )
    try:
        value = function(**given)
    except TypeError as error:
        raise ValueError(f"Expected numbers that {name} can use, found {given}: {error}.") from error
    if plot is not None:
        from dperm.report.gallery_curve import draw_theorem

        plot = plot / f"{name}.svg" if plot.is_dir() else plot
        if plot.suffix not in (".svg", ".png"):
            raise ValueError(f"Expected a file that ends in .svg or .png for --plot, found {str(plot)!r}. Rename it.")
        draw_theorem(name, function, given, plot)
    plain = float(value) if not isinstance(value, int) else int(value)
    if as_json:
        show({"theorem": name, **given, "value": plain, **({} if plot is None else {"plot": str(plot)})}, True)
    else:
        say(inspect.getdoc(function) or "")
        say(f"\n{name}({', '.join(f'{key}={item}' for key, item in given.items())}) = {value!s}")
        if plot is not None:
            say(f"drawn in {plot}")


def _numbers(name: str, function: Callable[..., object], words: list[str], example: str) -> dict[str, object]:
    known = inspect.signature(function).parameters
    found: dict[str, object] = {}
    for word in words:
        key, sign, text = word.partition("=")
        key = key.strip().lstrip("-").replace("-", "_")
        if not sign or key not in known:
            raise ValueError(
                f"Expected name=value with a name in {', '.join(known)} for {name}, found {word!r}. Write e.g. "
                f"`dperm theory {name} {example}`."
            )
        try:
            found[key] = json.loads(PLAIN.get(text, text if text[:1] != "." else f"0{text}"))
        except ValueError:
            if "str" not in str(known[key].annotation):
                raise ValueError(f"Expected a number for {key} of {name}, found {text!r}. Write e.g. {key}=1.") from None
            found[key] = text
    return found
