"""method="auto": a published decision table over public numbers. It never sees a row.

| asked for                                             | the first of these whose needs are met              |
|-------------------------------------------------------|-----------------------------------------------------|
| accuracy or coefficients, δ > 0                       | scaled-gradient, gradient                           |
| probabilities, δ > 0, noise ratio ν₀ ≤ 0.017          | scaled-objective, scaled-gradient, gradient         |
| probabilities, δ > 0, above it                        | scaled-gradient with clip 0.7·S, gradient           |
| the same where whitened descent pays (`whitened`)     | scaled-heads                                        |
| probabilities from embeddings                         | heads                                               |
| pure privacy (δ = 0)                                  | objective, output, exponential                      |

Whitened descent pays for embeddings of any size, and for tables of 192 to 2,048 columns that are numbers or flags, none declared
sparse, without weights, where the noise ratio of one class, ν₁ = ν₀/√K (two classes: K = 1), is at least 0.6. It also pays where
192 columns are numbers, ν₁ is at most 0.1 and the table has at most 10⁸ numbers: in its `wide` form.

Under add-remove the two objective methods need a declared bound on the number of rows (`most_rows=`): the table passes them over.

`compare` lists every alternative with what it lacks and the worst-case risk that its theorem predicts. Worst-case bounds inform;
they do not rank mechanisms at real n, so the table does not use them.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence

from dperm.mechanisms.exponential.continuous import DIMENSIONS
from dperm.mechanisms.gradient import Gradient
from dperm.mechanisms.registry import mechanism_from_spec
from dperm.mechanisms.scaled.heads import KINDS as HEADS_KINDS
from dperm.mechanisms.scaled.heads import LOSSES as HEADS_LOSSES
from dperm.mechanisms.scaled.heads import MOST as HEADS_COLUMNS
from dperm.mechanisms.scaled.noise_ratio import expected_noise_ratio
from dperm.problem import Problem
from dperm.release.plan import MECHANISMS, Mechanism, Shape, Target
from dperm.words.spelling import closest

# Above it the ridge that pays for objective perturbation costs more log-loss than the clip of the gradients: measured on adult,
# bank_full and synthetic rows (6 and 30 columns, 1,000 to 100,000 rows, both relations, ε from 0.1 to 3).
QUIET = 0.017
# Columns, and noise ratio of one class, from which whitened descent pays: measured on 13 tables of 123 to 1,024 columns with two,
# seven and ten classes (`docs/theorems/scaled-heads.md`). Up to the smaller ratio it pays with scaled columns (`wide`), in
# tables of at most `MOST_NUMBERS` numbers, whose turned rows are kept.
WIDE, NOISY, CALM, MOST_NUMBERS = 192, 0.6, 0.1, 10**8
CLASSES = ("probabilities", "accuracy")
NUMBERS = ("numeric", "free")  # columns of a wide table whose squares are cut by their own norm
PAYS_FOR_BOUNDS = ("scaled-gradient", "scaled-objective")
MOST_ROWS_OF_A_PERSON = 10  # of one person: beyond, the bound on so many Hessians wastes noise


def choose(
    method: Mechanism | str,
    problem: Problem,
    shape: Shape,
    target: Target,
    *,
    asked_for: str,
    kinds: Sequence[str] = (),
    max_weight: float | None = None,
    exact: bool = False,
    gaps: Sequence[int] = (),
) -> Mechanism:
    """The mechanism for `method`: a name, "auto", or a mechanism object that is taken as it is.

    `asked_for` is "probabilities", "embeddings" (the same from rows of length 1), "accuracy" or "coefficients"; `kinds` are the
    declared kinds of the encoded columns; `max_weight` the declared bound on sample weights, None without weights; `exact` that
    only the exact sampler may draw noise; `gaps` the columns whose missing cells take the private centre, where the method
    releases one.
    """
    if not isinstance(method, str):
        if isinstance(method, type) or not hasattr(method, "program"):
            told = f"the class {method.__name__}" if isinstance(method, type) else type(method).__name__
            raise ValueError(f"Expected method= as a name or a mechanism, found {told}. Pass e.g. 'auto' or Gradient(steps=100).")
        if "private" in kinds and "private" not in getattr(method, "kinds", ()):
            raise ValueError("Expected a method that pays for bounds, found one that does not. Use 'auto', or declare bounds.")
        return _weighed(_with_gaps(method, gaps), problem, max_weight)
    if method != "auto" and method not in MECHANISMS:
        able = ["auto", *(name for name in sorted(MECHANISMS) if _asks(name, asked_for) and covers(name, problem, target))]
        raise ValueError(
            f"Expected method in {', '.join(map(repr, able))}, found {method!r}.{closest(method, able)} 'auto' suits most."
        )
    name = method
    if method == "auto":
        weighted = max_weight is not None
        name = automatic(problem, shape, target, asked_for=asked_for, exact=exact, kinds=kinds, weighted=weighted)
    if "private" in kinds and name not in PAYS_FOR_BOUNDS:
        able = [repr(other) for other in PAYS_FOR_BOUNDS if covers(other, problem, target)]
        instead = "No method pays for them here. Declare them, or find them by `dperm profile` (dperm.profile(...).schema())."
        if able:
            instead = f"Use method={' or '.join(able)}, which pays for them, or declare them."
        raise ValueError(f"Expected declared bounds for method={name!r}, found bounds='private'. {instead}")
    built = build(name, problem, shape, target, asked_for=asked_for, kinds=kinds)
    return _weighed(_with_gaps(built, gaps), problem, max_weight)


def _asks(name: str, asked_for: str) -> bool:
    """Whether an estimator of linear models can ask for it; those of embeddings ask for others too."""
    return asked_for == "embeddings" or getattr(MECHANISMS[name], "linear", True)


def covers(name: str, problem: Problem, target: Target) -> bool:
    """Whether a mechanism can be asked for by its name alone, and lacks nothing for this problem."""
    try:
        return not mechanism_from_spec(name, {}).missing(problem, target)
    except (TypeError, ValueError):  # it is made with options of its estimator
        return False


def automatic(
    problem: Problem,
    shape: Shape,
    target: Target,
    *,
    asked_for: str,
    exact: bool = False,
    kinds: Sequence[str] = (),
    weighted: bool = False,
) -> str:
    """The decision table. The first mechanism in the row whose needs are met; the last one if none is."""
    if asked_for == "embeddings":
        row = ["heads"]
    elif target.delta == 0:
        row = list(PURE)
    elif asked_for in CLASSES and not weighted and whitened(problem, shape, target, kinds):
        row = ["scaled-heads", "scaled-gradient", "gradient"]
    elif asked_for == "probabilities" and not exact and quiet(problem, shape, target):  # a tilt is no noisy sum: no exact sampler
        row = ["scaled-objective", "scaled-gradient", "gradient"]
    else:
        row = ["scaled-gradient", "scaled-poisson", "gradient"]
    known = [name for name in row if name in MECHANISMS] or ["gradient"]
    for name in known:
        if not mechanism_from_spec(name, {}).missing(problem, target):
            return name
    return known[-1]


def whitened(problem: Problem, shape: Shape, target: Target, kinds: Sequence[str]) -> bool:
    """Classes from a table of many columns, each margin under much noise or little: where whitened coordinates pay."""
    many = problem.loss.name in HEADS_LOSSES and WIDE <= shape.d <= HEADS_COLUMNS
    # Rows that are mostly zeros would be held in full, for nothing on w8a.
    if not many or not all(kind in HEADS_KINDS and kind != "sparse" for kind in kinds):
        return False
    little = many_numbers(kinds) and calm(problem, shape, target) and shape.n * shape.d <= MOST_NUMBERS
    return little or noise_of_one_class(problem, shape, target) >= NOISY


def many_numbers(kinds: Sequence[str]) -> bool:
    """Columns whose squares are released in several steps."""
    return sum(kind in NUMBERS for kind in kinds) >= WIDE and not set(kinds) & {"sparse", "private"}


def noise_of_one_class(problem: Problem, shape: Shape, target: Target) -> float:
    """ν₁."""
    return expected_noise_ratio(problem, shape, target) / math.sqrt(problem.loss.margins)


def calm(problem: Problem, shape: Shape, target: Target) -> bool:
    """So little noise that whitened descent scales the columns first."""
    return noise_of_one_class(problem, shape, target) <= CALM


PURE = ("objective", "output", "exponential")


def pure_advice(refused: str, problem: Problem, shape: Shape, target: Target) -> str:
    """What to do where `refused` does not cover a problem under δ = 0: which mechanisms do, or what each of them lacks."""
    lacking, fitting = [], []
    for name in PURE:
        needs = list(mechanism_from_spec(name, {}).missing(problem, target))
        short = [re.sub(r" \((?!radius=)[^()]*\)", "", need) for need in needs if name != refused]  # its own were listed already
        if name == "exponential" and shape.parameters(problem) > DIMENSIONS:
            short.append(f"at most {DIMENSIONS} parameters, not {shape.parameters(problem)}")
        if short:
            lacking.append(f"{name!r} needs {' and '.join(short)}")
        elif not needs:
            fitting.append(repr(name))
    if fitting:
        return f" With delta=0 use {' or '.join(fitting)}; otherwise pass delta > 0."
    return f" With delta=0 no mechanism covers this problem as it is: {'; '.join(lacking)}. Pass delta > 0 unless one can be met."


def quiet(problem: Problem, shape: Shape, target: Target) -> bool:
    """Little noise for these public numbers, and few rows of one person."""
    return target.rows_per_person <= MOST_ROWS_OF_A_PERSON and expected_noise_ratio(problem, shape, target) <= QUIET


def build(
    name: str, problem: Problem, shape: Shape, target: Target, *, asked_for: str, kinds: Sequence[str]
) -> Mechanism:
    """A mechanism by name, with the declared kinds where it takes them, and what an estimator asks for beyond its defaults."""
    options: dict[str, object] = {}
    fields = {field.name for field in dataclasses.fields(MECHANISMS[name])}
    if "kinds" in fields:
        options["kinds"] = tuple(kinds)
    if "wide" in fields and many_numbers(kinds) and (name != "scaled-heads" or calm(problem, shape, target)):
        options["wide"] = True
    if name == "scaled-gradient" and asked_for == "probabilities" and problem.loss.name == "logistic":
        options |= {"aim": "probabilities", "start": "rate"}
    if name == "scaled-poisson":
        options["labels"] = "counts"
    return mechanism_from_spec(name, options)


def _with_gaps(mechanism: Mechanism, gaps: Sequence[int]) -> Mechanism:
    """The mechanism that counts the present cells of these columns, if it releases a centre; otherwise as it is."""
    takes = "gaps" in {field.name for field in dataclasses.fields(mechanism)}
    return dataclasses.replace(mechanism, gaps=tuple(gaps)) if takes and gaps else mechanism


def _weighed(mechanism: Mechanism, problem: Problem, max_weight: float | None) -> Mechanism:
    """The mechanism with the declared bound on weights, or a refusal where its theorem has no weights."""
    if max_weight is None:
        return mechanism
    if isinstance(mechanism, Gradient) and mechanism.bound == "clip":
        # Its clip comes after the weight, so weights cannot break it; without a wider clip they would have no effect.
        lipschitz = problem.row_norm * problem.loss.bounds(math.inf, problem.data.y).slope
        if mechanism.accounting == "hidden-state":
            mechanism = dataclasses.replace(mechanism, max_weight=max_weight)
        wanted = mechanism.clip is None and math.isfinite(lipschitz)
        return dataclasses.replace(mechanism, clip=lipschitz * max_weight) if wanted else mechanism
    if mechanism.name != "gradient" and "max_weight" in {field.name for field in dataclasses.fields(mechanism)}:
        return dataclasses.replace(mechanism, max_weight=max_weight)
    raise ValueError(
        f"Expected a method that takes sample weights, found {mechanism.name!r}, whose theorem has none. "
        "Use method='gradient' (or 'scaled-gradient'), or leave the weights out."
    )
