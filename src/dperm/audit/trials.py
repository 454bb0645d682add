"""Fit many times on two neighbouring data sets, and bound ε and μ from below.

    distinguish(fit, data, neighbour, trials)      any callable, or any estimator with scikit-learn's `fit`

The test is chosen on the first part of the trials (a half by default); its errors on the others give Clopper–Pearson limits.
"""

from __future__ import annotations

import hashlib
import itertools
import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from dperm.audit.bounds import check_levels, epsilon_lower, limits, mu_lower, profile_gap
from dperm.audit.scores import Matrix, ScoreFunction, Test, best_tests, candidates
from dperm.audit.workers import Job, Progress, Rows, as_table, longest, run_chunks
from dperm.estimators.base import PrivateEstimator
from dperm.privacy import ApproxDP, Guarantee, PureDP
from dperm.words.options import spelt_out
from dperm.words.progress import step_printer

CHUNK = 50


class Trying(TypedDict, total=False):
    """How trials are run, which changes nothing in what they show."""

    processes: int
    resume: str | Path | None
    progress: Progress | bool | None
    chunk: int


@dataclass(frozen=True)
class Distinguished:
    """What the trials prove, each bound with probability at least `confidence` on its own.

    epsilon_lower   ε(δ) of the mechanism is at least this
    mu_lower        it is not μ-GDP for any smaller μ
    violates        the claim handed in is refuted (None without a claim); `gap` is by how much the profile is exceeded
    repeats         how many outcomes occurred before, bit for bit: 0 for fresh continuous noise
    """

    epsilon_lower: float
    mu_lower: float
    violates: bool | None
    gap: float | None
    delta: float
    confidence: float
    trials: int
    statistics: dict[str, str]
    errors: dict[str, tuple[int, int]]
    repeats: int
    seconds: float
    outcomes: tuple[Matrix, Matrix] = field(repr=False)

    def summary(self) -> dict[str, object]:
        """The record without the outcomes, ready for JSON."""
        kept = ("epsilon_lower", "mu_lower", "violates", "delta", "confidence", "trials", "repeats")
        statistic = self.statistics["claim" if self.violates is not None else "epsilon"]
        return {**{name: getattr(self, name) for name in kept}, "statistic": statistic, "seconds": round(self.seconds, 2)}


@spelt_out(Trying, processes=1, resume=None, progress=None, chunk=CHUNK)
def distinguish(
    fit: object,
    data: object,
    neighbour: object,
    trials: int = 1000,
    *,
    statistic: str | ScoreFunction | Test = "auto",
    confidence: float = 0.99,
    delta: float = 1e-5,
    claim: Guarantee | float | None = None,
    choosing: float = 0.5,
    **trying: Unpack[Trying],
) -> Distinguished:
    """Lower bounds on ε(δ) and μ of `fit` from `trials` runs on each of two neighbouring data sets.

    fit        a function data ↦ numbers, or an unfitted estimator (then data is the tuple of arguments of its `fit`, or X alone)
    statistic  "auto", or a function from outcomes (trials × numbers) to a score that is larger on the neighbour; or a `Test`
               that was fixed before any trial, which is tried beside the automatic ones: nothing is chosen, so all trials count
    claim      what the mechanism promises: a guarantee (its whole profile is tested), or a number ε (at `delta`)
    processes  worker processes; global NumPy and Python generators are reseeded in each from the operating system
    resume     a file that keeps finished runs, so that an interrupted audit goes on where it stopped
    progress   True for a line on the terminal, or a function (done, total)
    choosing   the share of the trials that chooses the test; the others count
    chunk      runs handed to a worker at a time; what `resume` continues must have had the same

    A run that raises counts as an outcome of its own: failing on one data set more often than on the other is a leak too.

    **Guarantee**: if `fit` is (ε, δ)-private, epsilon_lower exceeds ε with probability at most 1 - confidence; if it satisfies
    the claim, `violates` is true with probability at most 1 - confidence.

    >>> generator = np.random.default_rng(0)
    >>> found = distinguish(lambda data: sum(data) + generator.laplace(0, 1.0), [0, 1], [0, 3], 2000, delta=0.0)
    >>> bool(1.5 < found.epsilon_lower <= 2.0)
    True
    """
    check_levels(delta, confidence)
    if trials < 20:
        raise ValueError(f"Expected trials ≥ 20, found {trials}. Half of them choose the test, half of them count.")
    chunk, progress = trying["chunk"], trying["progress"]
    if not 0.1 <= choosing <= 0.9 or chunk < 1:
        raise ValueError(f"Expected 0.1 ≤ choosing ≤ 0.9 and chunk ≥ 1, found {choosing} and {chunk}.")
    started = time.perf_counter()
    run = as_function(fit)
    if isinstance(progress, bool):
        progress = step_printer("audit") if progress else None
    store = _store(trying["resume"], data, neighbour, (trials, chunk))
    shown = run_chunks(Job(run, (data, neighbour), trials, chunk), trying["processes"], store, progress)
    if all(row is None for part in shown for row in part):
        run(data)  # every run failed: show the error instead of calling it indistinguishable
    on_data, on_neighbour = _table(shown[0], shown[1])
    half = int(choosing * trials)  # the first part, whatever it shows
    found = _tested((on_data, on_neighbour), half, statistic, as_guarantee(claim, delta), delta, confidence)
    return replace(found, seconds=time.perf_counter() - started)


def _tested(
    outcomes: tuple[Matrix, Matrix],
    half: int,
    statistic: str | ScoreFunction | Test,
    guarantee: Guarantee | None,
    delta: float,
    confidence: float,
) -> Distinguished:
    """The first `half` of the outcomes chooses the tests, the others count; for a test fixed beforehand all of them do."""
    on_data, on_neighbour = outcomes
    known = statistic if isinstance(statistic, Test) else None
    each = confidence if known is None else (1 + confidence) / 2  # two tests share the false alarms
    if known is not None or statistic == "auto":
        scores = candidates(on_data[:half], on_neighbour[:half])
    elif callable(statistic):
        scores = [("given", statistic)]
    else:
        raise ValueError(f"Expected statistic='auto', a function or a test, found {statistic!r}.")
    tests = best_tests(on_data[:half], on_neighbour[:half], scores, delta=delta, confidence=each, claim=guarantee)
    held = on_data[half:], on_neighbour[half:]
    best: dict[str, tuple[float, str, tuple[int, int]]] = {}
    for aim, test in tests.items():
        proven = []
        for tried, (one, other) in ((test, held), (known, outcomes)):
            if tried is not None:
                errors = tried.errors(one, other)
                value = _bound(aim, errors, (len(one), len(other)), guarantee, delta, each)
                proven.append((value, tried.name, errors))
        best[aim] = max(proven)
    gap = best["claim"][0] if guarantee is not None else None
    return Distinguished(
        epsilon_lower=best["epsilon"][0],
        mu_lower=best["mu"][0],
        violates=None if gap is None else gap > 0,
        gap=gap,
        delta=delta,
        confidence=confidence,
        trials=len(on_data),
        statistics={aim: name for aim, (_, name, _) in best.items()},
        errors={aim: errors for aim, (_, _, errors) in best.items()},
        repeats=_repeats(on_data) + _repeats(on_neighbour),
        seconds=0.0,
        outcomes=outcomes,
    )


def _bound(
    aim: str, errors: tuple[int, int], sizes: tuple[int, int], guarantee: Guarantee | None, delta: float, confidence: float
) -> float:
    """What the errors of a test prove for its aim: of ε, of μ, or by how much the claimed profile is exceeded."""
    if aim == "epsilon":
        return float(epsilon_lower(*errors, sizes, delta=delta, confidence=confidence))
    if aim == "mu":
        return float(mu_lower(*errors, sizes, confidence=confidence))
    assert guarantee is not None  # the aim "claim" has one
    return float(profile_gap(*limits(*errors, sizes, confidence), guarantee)[0])


def as_guarantee(claim: Guarantee | float | None, delta: float) -> Guarantee | None:
    """A number ε means (ε, δ); a guarantee is taken as it is."""
    if claim is None or isinstance(claim, Guarantee):
        return claim
    if not claim > 0:
        raise ValueError(f"Expected a claim ε > 0, found {claim}.")
    return PureDP(float(claim), "replace-one") if delta == 0 else ApproxDP(float(claim), delta, "replace-one")


def as_function(fit: object) -> Callable[[object], object]:
    """A function from data to numbers; an estimator is cloned, fitted and read off."""
    if not hasattr(fit, "fit"):
        if not callable(fit):
            raise ValueError(f"Expected a function or an estimator with fit, found {type(fit).__name__}.")
        return fit

    def run(data: object) -> NDArray[np.float64]:
        from sklearn.base import clone

        arguments = data if isinstance(data, tuple | list) else (data,)
        return coefficients(clone(fit).fit(*arguments))

    return run


def coefficients(model: PrivateEstimator) -> NDArray[np.float64]:
    """The fitted numbers of a model: coef_ and intercept_, or w_, or the location_ or index_ of a simpler one."""
    parts = [np.ravel(getattr(model, name)) for name in ("coef_", "intercept_") if hasattr(model, name)]
    if not parts:
        parts = [np.ravel(getattr(model, name)) for name in ("w_", "location_", "index_") if hasattr(model, name)][:1]
    if not parts:
        raise ValueError(
            f"Expected a fitted model with coef_, intercept_ or w_, found {type(model).__name__}. Pass a function data ↦ numbers."
        )
    return np.asarray(np.concatenate(parts), dtype=np.float64)


def _table(*outcomes: Rows) -> tuple[Matrix, Matrix]:
    """Outcomes as rows of equal length; the first column is 1 for a run that failed."""
    width = longest(*outcomes)
    for row in itertools.chain(*outcomes):
        if row is not None and len(row) != width:
            raise ValueError(f"Expected outcomes of equal length, found {len(row)} and {width} numbers. Pad them in fit.")
    first, second = (np.nan_to_num(as_table(part, width), nan=1e300, posinf=1e300, neginf=-1e300) for part in outcomes)
    return first, second


def _repeats(table: Matrix) -> int:
    return len(table) - len(np.unique(table, axis=0))


def _store(path: str | Path | None, data: object, neighbour: object, size: tuple[int, int]) -> tuple[Path, str] | None:
    """Where finished chunks are kept, and a fingerprint so that another audit's file is not continued by mistake."""
    if path is None:
        return None
    try:
        written = pickle.dumps((data, neighbour, size))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(f"Expected data that can be written for resume=, found {error}.") from error
    return Path(path), hashlib.sha256(written).hexdigest()
