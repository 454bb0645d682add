"""`dperm audit`: try to break a claim."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dperm.commands.shared import JSON_OPTION, show
from dperm.commands.shared import say as tell
from dperm.words.wording import several

if TYPE_CHECKING:
    from dperm.audit.suite import Result


def audit(
    models: list[str] = typer.Argument(None, help="Estimator names, or certificate.json files of finished fits."),
    suite: bool = typer.Option(False, "--suite", help="Audit all estimators, relations, policies and planted bugs."),
    relation: str | None = typer.Option(None, help="Only this relation."),
    noise: str = typer.Option("secure", help="Noise policy of the estimators named: secure or exact."),
    minutes: float = typer.Option(1.0, help="Time for the statistical audits."),
    trials: int | None = typer.Option(None, help="Fits on each data set, whatever time they take; by default as many as fit."),
    processes: int = typer.Option(1, help="Worker processes."),
    only: str = typer.Option("", help="With --suite: only rows whose method or noise, and bugs whose name, contain this text."),
    out: Path | None = typer.Option(None, help="With --suite: write the page here (docs/audit.md)."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Fit MODEL many times on two neighbouring data sets and compare what can be told apart with what is claimed.

    A violation is proven at the stated confidence (exit code 1); its absence is evidence only as strong as the bound shown.

    Examples: dperm audit LogisticRegression --minutes 2; dperm audit model/certificate.json; dperm audit --suite
    """
    if minutes <= 0 or processes < 1 or (trials is not None and trials < 20):
        raise ValueError(
            f"Expected minutes > 0, processes ≥ 1 and trials ≥ 20, found {minutes}, {processes} and {trials}. "
            "Pass others."
        )
    if suite == bool(models):
        raise ValueError(
            "Expected estimator names or certificates, or --suite alone, found both or neither. Write e.g. "
            "`dperm audit LinearSVC`."
        )
    if suite:
        clean = _run_suite(minutes, processes, out, as_json, only)
    else:
        clean = _run_models(models, relation, noise, minutes, trials, processes, as_json)
    if not clean:
        raise typer.Exit(1)


def _run_models(
    models: list[str], relation: str | None, noise: str, minutes: float, trials: int | None, processes: int, as_json: bool
) -> bool:
    from dperm.audit.suite import estimator_cases, run_suite

    certificates = [name for name in models if name.endswith(".json")]
    names = tuple(name for name in models if not name.endswith(".json"))
    cases = estimator_cases(policies=(noise,), names=names) if names else []
    cases = [case for case in cases if relation is None or case.relation == relation]
    if certificates:
        from dperm.audit.published import certificate_case

        cases += [certificate_case(Path(path)) for path in certificates]
    if not cases:
        raise ValueError(f"Expected a relation that the estimator has a test for, found {relation!r}. Pass another --relation.")
    said = None if as_json else _say
    results = run_suite(cases, seconds=60 * minutes, processes=processes, trials=trials, progress=said)
    if as_json:
        show({"audits": [_record(result) for result in results], "not_run": _count(results, "not run")}, True)
    else:
        tell(_tally(results))
    return all(result.verdict != "violated" for result in results)


def _say(result: Result, done: int, total: int) -> None:
    case, found = result.case, result.found
    text = f"[{done}/{total}] {case.name}, {result.mechanism}, {case.relation}, {case.noise}: {result.words}"
    if found is None:
        text += f" ({result.note.removeprefix('not run: ')})"
    else:
        text += f" at δ = {found.delta:g}, {result.fits} fits each, confidence {found.confidence:.5g}"
    tell(text)


def _count(results: list[Result], verdict: str) -> int:
    return sum(result.verdict == verdict for result in results)


def _tally(results: list[Result]) -> str:
    """The last line: how many audits there were, and how many time did not suffice for."""
    counts = {word: _count(results, word) for word in ("violated", "holds", "inconclusive", "refused", "not run")}
    said = ", ".join(f"{count} {word}" for word, count in counts.items() if count or word in ("violated", "not run"))
    return f"{several(len(results), 'audit')}: {said}{' for want of time: raise --minutes' if counts['not run'] else ''}"


def _record(result: Result) -> dict[str, object]:
    case = result.case
    record: dict[str, object] = {
        "estimator": case.name,
        "mechanism": result.mechanism,
        "relation": case.relation,
        "noise": case.noise,
        "verdict": result.verdict,
        "note": result.note,
    }
    if result.found is not None and result.claim is not None:
        record |= {"claimed_epsilon": result.claim.epsilon(result.found.delta), "share": result.share, **result.found.summary()}
    return record


def _run_suite(minutes: float, processes: int, out: Path | None, as_json: bool, only: str) -> bool:
    from dperm.audit.closed_form import exact_rows
    from dperm.audit.page import commit, write_page, write_part
    from dperm.audit.planted import planted
    from dperm.audit.suite import curve_cases, estimator_cases, interval_cases, mechanism_cases, run_suite
    from dperm.privacy import RELATIONS

    started = time.perf_counter()
    at = commit(Path.cwd() / "audit.md")  # of the code that runs; by the end the tree may have moved on
    say = (lambda text: None) if as_json else tell
    exact = exact_rows(only)
    for row in exact:
        true = f"{row.true[0]:.3f} … {row.true[1]:.3f}"
        say(f"exact: {row.name}, {row.relation}: claimed {row.claimed:.4g}, true {true}: {row.verdict}")
    examined = []
    for plant in (plant for plant in planted() if only in plant.name):
        bad, good = plant.audit(broken=True, processes=processes), plant.audit(broken=False, processes=processes)
        examined.append((plant, bad, good))
        say(f"planted: {plant.name}: reported {bad.violates}, correct version accused {good.violates}, {bad.seconds:.0f} s")
    # The default relation first and the slow exact sampler last: should time run out, the least is lost.
    by_policy = (estimator_cases(policies=(policy,)) for policy in ("secure", "exact"))
    first, last = (sorted(found, key=lambda case: RELATIONS.index(case.relation)) for found in by_policy)
    named = [*mechanism_cases(), *interval_cases(), *curve_cases()]
    cases = [case for case in [*first, *named, *last] if only in case.method or only == case.noise]
    if not cases:
        raise ValueError(f"Expected a text that some method holds, or its noise, found {only!r}. Try e.g. --only intervals.")
    results = run_suite(cases, seconds=60 * minutes, processes=processes, progress=None if as_json else _say)
    spent = time.perf_counter() - started
    if out is not None and only:
        write_part(out, exact, results, only, examined, at=at)
    elif out is not None:
        write_page(out, exact, results, examined, seconds=spent, processes=processes, at=at)
    broken = sum(row.verdict == "violated" for row in exact) + sum(row.verdict == "violated" for row in results)
    missed = sum(not bad.violates for _, bad, _ in examined)
    accused = sum(bool(good.violates) for _, _, good in examined)
    counts = {"audits": len(exact) + len(results), "violations": broken, "planted bugs missed": missed}
    counts |= {"accused wrongly": accused, "not run for want of time": _count(results, "not run")}
    show({**counts, "minutes": round(spent / 60, 2), "page": str(out)}, as_json)
    return broken == 0 and missed <= 1 and accused == 0
