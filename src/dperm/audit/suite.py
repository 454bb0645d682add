"""Every estimator of ours × relation × noise policy, and every mechanism: claimed ε beside what an audit can prove.

The pair of neighbours differs in one record at the edge of the declared bounds. What is audited is everything the certificate
covers: the coefficients, all values released on the way, and the noisy sums that the curator let out. An audit that finds nothing
is evidence in proportion to its power, so the table shows the bound it reached.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.audit.trials import Distinguished, distinguish
from dperm.curator import Curator
from dperm.noise import gaussian_scale
from dperm.privacy import RELATIONS, Guarantee

Vector = NDArray[np.float64]
N = 12
EPSILON, DELTA = 6.0, 1e-3  # loose enough that a hundred fits see something, tight enough that an error shows
LEAST = 120  # below some hundred fits not even perfect separation refutes a claim at the confidence of a whole table
OUT_OF_TIME = "not run: out of time"
FAMILY = 0.01  # chance that any correct row of one run of the suite is accused


@dataclass(frozen=True)
class Case:
    """One row of the table: how to build the estimator, and two neighbours."""

    name: str
    method: str
    relation: str
    noise: str
    build: Callable[[], Any]
    data: tuple[Any, ...]
    neighbour: tuple[Any, ...]

    def fit(self, data: tuple[Any, ...]) -> Vector:
        with noisy_sums() as seen:
            model = self.build().fit(*data)
        return np.concatenate([released_numbers(model), *gathered(seen)])


@dataclass(frozen=True)
class Result:
    """What came out; `found` is None where the estimator refuses the declaration, with the reason in `note`."""

    case: Case
    claim: Guarantee | None
    mechanism: str
    found: Distinguished | None
    note: str = ""

    @property
    def verdict(self) -> str:
        """"inconclusive" where the audit told the neighbours apart not at all: it then says nothing for the claim either."""
        if self.found is None:
            return "not run" if self.note == OUT_OF_TIME else "refused"
        if self.found.violates:
            return "VIOLATED"
        return "kept" if max(self.found.epsilon_lower, self.found.mu_lower) > 0 else "inconclusive"


def released_numbers(model: Any) -> Vector:
    """Coefficients and every number released on the way, in a fixed order: what the certificate covers."""
    release = model.release_
    parts = [np.ravel(np.asarray(release.w, dtype=np.float64))]
    for key in sorted(release.released):
        parts += list(_numbers(release.released[key]))
    return np.concatenate(parts)


@contextlib.contextmanager
def noisy_sums() -> Iterator[list[Vector]]:
    """Every noisy sum that any curator lets out meanwhile, in units of its own noise.

    The booked events cover them whether or not they are published.
    """
    seen: list[Vector] = []
    original = Curator.draw

    def draw(self: Curator, term: Any, mu: float, event: Any = None) -> Vector:
        value = original(self, term, mu, event)
        seen.append(np.ravel(value) / gaussian_scale(term.sensitivity(self.relation) * self.rows_per_person, mu))
        return value

    Curator.draw = draw  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        Curator.draw = original  # type: ignore[method-assign]


def gathered(sums: list[Vector]) -> list[Vector]:
    """Sums of one length added up and divided by √count: T steps that each see a record see it √T times better together."""
    sizes = sorted({len(value) for value in sums})
    return [np.sum([v for v in sums if len(v) == size], axis=0) / np.sqrt(sum(len(v) == size for v in sums)) for size in sizes]


def _numbers(value: Any) -> Iterator[Vector]:
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _numbers(value[key])
    elif isinstance(value, list | tuple) and any(isinstance(item, dict | list | tuple | str) for item in value):
        for item in value:
            yield from _numbers(item)
    elif not isinstance(value, str) and value is not None:
        yield np.ravel(np.asarray(value, dtype=np.float64))


def estimator_cases(*, policies: tuple[str, ...] = ("secure", "exact"), names: tuple[str, ...] | None = None) -> list[Case]:
    """Every estimator with its default method, for every relation and noise policy."""
    import dperm.estimators as estimators

    found = []
    for name in names if names is not None else tuple(estimators.__all__):
        if name not in estimators.__all__:
            raise ValueError(f"Expected an estimator in {', '.join(estimators.__all__)}, found {name!r}.")
        for relation in RELATIONS:
            for policy in policies:
                found += _cases(name, getattr(estimators, name), "auto", relation, policy, DELTA)
    return found


def mechanism_cases() -> list[Case]:
    """Every registered mechanism by name, through the estimators of the two basic losses, with δ > 0 and with δ = 0.

    Under δ = 0 only replace-one: the relation changes a scale there, and the estimators' own cases cover it.
    """
    import dperm.estimators as estimators
    from dperm.mechanisms.base import MECHANISMS

    found = []
    for method in sorted(MECHANISMS):
        for name in ("LogisticRegression", "LinearRegression"):
            for relation in RELATIONS:
                for delta in (DELTA, 0.0) if relation == "replace-one" else (DELTA,):
                    found += _cases(name, getattr(estimators, name), method, relation, "secure", delta)
    return found


def _cases(name: str, cls: Any, method: str, relation: str, policy: str, delta: float) -> list[Case]:
    """One case, or none where the estimator has no such option or no null row can be written."""
    fields = {field.name for field in dataclasses.fields(cls)}
    options: dict[str, Any] = {"epsilon": EPSILON, "delta": delta, "bounds": (-1, 1), "relation": relation, "noise": policy}
    if relation == "add-remove":
        options["nominal_n"] = N
    if "method" in fields:
        options["method"] = method
    labels = "y_bounds" in fields or "classes" in fields
    if "classes" in fields:
        options["classes"] = [0, 1]
    low, high, null = 0.0, 1.0, 7.0
    if "y_bounds" in fields:
        low, high, null = (0.0, 4.0, np.nan) if name == "PoissonRegressor" else (-1.0, 1.0, np.nan)
        options["y_bounds"] = (low, high)
    if name == "FiniteClassLearner":
        options["delta"] = 0.0
    if method == "exponential":
        options["radius"] = 1.0
    if not labels and relation == "zero-out":
        return []  # a null row is a missing label; data without labels cannot show one
    options = {key: value for key, value in options.items() if key in fields}
    data, neighbour = _pair(labels, relation, low, high, null)
    return [Case(name, method, relation, policy, _Builder(cls, options), data, neighbour)]


@dataclass(frozen=True)
class _Builder:
    """An estimator made anew for every trial; picklable."""

    cls: Any
    options: dict[str, Any]

    def __call__(self) -> Any:
        return self.cls(**self.options)


def _pair(labels: bool, relation: str, low: float, high: float, null: float) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """A dozen rows near 0 and one at the edge, whose label goes from one end to the other, to nothing, or away with its row."""
    X = 0.2 * np.random.default_rng(0).uniform(-1, 1, (N, 1))
    X[-1] = 1.0
    y = np.where(np.arange(N) % 2 == 0, low, high)
    y[-1] = high
    if not labels:
        other = X.copy()
        other[-1] = -1.0
        return ((X,), (X[:-1],)) if relation == "add-remove" else ((X,), (other,))
    if relation == "add-remove":
        return (X, y), (X[:-1], y[:-1])
    changed = y.copy()
    changed[-1] = low if relation == "replace-one" else null
    return (X, y), (X, changed)


def run_suite(
    cases: list[Case],
    *,
    seconds: float,
    processes: int = 1,
    trials: int | None = None,
    progress: Callable[[Result, int, int], None] | None = None,
) -> list[Result]:
    """Audit all cases in about `seconds` of wall time in all; each gets as many trials as its share allows (120 … 4,000),
    or `trials` where that is given.

    A first pass fits each case once, to see which are refused; only the others share the time and the false-alarm rate.
    """
    started = time.perf_counter()
    results: list[Result | None] = []
    ready: dict[int, tuple[Any, float]] = {}
    for number, case in enumerate(cases):
        begun = time.perf_counter()
        try:
            model = case.build().fit(*case.data)
        except (ValueError, TypeError) as error:
            results.append(Result(case, None, case.method, None, _reason(error)))
        else:
            results.append(None)
            ready[number] = model, time.perf_counter() - begun
    confidence = 1 - FAMILY / max(len(ready), 1)
    for number, case in enumerate(cases):
        if number in ready:
            model, each = ready.pop(number)
            left = seconds - (time.perf_counter() - started)
            if left < -0.25 * seconds and trials is None:
                results[number] = Result(case, None, case.method, None, OUT_OF_TIME)
            else:
                share = max(left, 0.0) / (len(ready) + 1)
                results[number] = _audit(case, model, trials or _affordable(case, each, share, processes), confidence, processes)
        if progress is not None:
            progress(results[number], number + 1, len(cases))  # type: ignore[arg-type]
    return [result for result in results if result is not None]


def _affordable(case: Case, each: float, seconds: float, processes: int) -> int:
    """How many fits of both data sets fit into the time; the first fit of all also paid for imports, so two more are timed."""
    started = time.perf_counter()
    for _ in range(2):
        case.fit(case.neighbour)
    each = min(each, (time.perf_counter() - started) / 2)
    return int(np.clip(0.9 * seconds * processes / (2 * each), LEAST, 4000))


def _audit(case: Case, model: Any, trials: int, confidence: float, processes: int) -> Result:
    claim, mechanism = model.plan_.guarantee, model.plan_.mechanism
    found = distinguish(
        case.fit, case.data, case.neighbour, trials, claim=claim, delta=model.certificate_.delta, confidence=confidence,
        processes=processes,
    )  # fmt: skip
    return Result(case, claim, mechanism, found)


def _reason(error: Exception) -> str:
    text = str(error)
    mark = "needs unmet: "
    return text[text.index(mark) + len(mark) :].rstrip(".") if mark in text else text
