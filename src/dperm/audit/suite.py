"""Every estimator of ours × relation × noise policy, and every mechanism: claimed ε beside what an audit can prove.

The pair of neighbours differs in one record at the edge of the declared bounds (`cases`). What is audited is everything the
certificate covers: the coefficients, all values released on the way, and the noisy sums that the run drew (`transcript`).
An audit that finds nothing is evidence in proportion to its power, so the table shows the bound it reached.

Time is shared out in two rounds. In the first every row gets its part by the cost of a fit alone; in the second what is left
goes, by the same rule, to the rows whose bound is still small. Each round is an audit of its own with fresh fits and half of the
row's false-alarm rate, so that looking at the first cannot spoil the second. The number of fits in a round follows from clocks
alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dperm.audit.cases import Case, Observer, curve_cases, estimator_cases, mechanism_cases
from dperm.audit.intervals import interval_cases
from dperm.audit.transcript import Fitted
from dperm.audit.trials import Distinguished, distinguish
from dperm.privacy import GDP, Guarantee

__all__ = ["FAMILY", "Case", "Result", "curve_cases", "estimator_cases", "interval_cases", "mechanism_cases", "run_suite"]

LEAST, MOST = 120, 2000  # below some hundred fits not even perfect separation refutes a claim at the confidence of a whole table
OUT_OF_TIME = "not run: out of time"
FAMILY = 0.01  # chance that any correct row of one run of the suite is accused
ENOUGH = 0.25  # share of the claim that an audit must prove to be called evidence
CHOOSING = 0.35  # share of the fits that choose the test; the others count
FIRST_ROUND = 0.6  # share of the time


@dataclass(frozen=True)
class Result:
    """What came out; `found` is None where the estimator refuses the declaration, with the reason in `note`.

    `found` is the round that proved more, `fits` the number of fits of each data set in all rounds.
    """

    case: Case
    claim: Guarantee | None
    mechanism: str
    found: Distinguished | None
    note: str = ""
    fits: int = 0

    @property
    def share(self) -> float:
        """Which part of the claim is proven to be used: of ε at δ, or of μ where the claim is μ-GDP."""
        if self.found is None or not isinstance(self.claim, GDP):
            return self.epsilon_share
        return max(self.epsilon_share, self.found.mu_lower / self.claim.mu)

    @property
    def epsilon_share(self) -> float:
        """Which part of the claimed ε at δ is proven to be used."""
        if self.found is None or self.claim is None:
            return 0.0
        return self.found.epsilon_lower / self.claim.epsilon(self.found.delta)

    @property
    def verdict(self) -> str:
        """"inconclusive" where less than a quarter of the claim was proven to be used: it then says little for the claim."""
        if self.found is None:
            return "not run" if self.note == OUT_OF_TIME else "refused"
        if self.found.violates:
            return "violated"
        return "holds" if self.share >= ENOUGH else "inconclusive"

    @property
    def words(self) -> str:
        """The verdict with the bound that it rests on."""
        if self.found is None or self.claim is None:
            return self.verdict
        text = f"ε ≥ {self.found.epsilon_lower:.2f} of {self.claim.epsilon(self.found.delta):.3g}"
        if isinstance(self.claim, GDP):
            text += f", μ ≥ {self.found.mu_lower:.2f} of {self.claim.mu:.3g}"
        return f"{self.verdict} ({text})"


@dataclass
class _Ready:
    """A case that fits: its observer, what it claims, and the seconds of one fit."""

    case: Case
    observe: Observer
    model: Fitted
    seconds: float


def run_suite(
    cases: list[Case],
    *,
    seconds: float,
    processes: int = 1,
    trials: int | None = None,
    progress: Callable[[Result, int, int], None] | None = None,
) -> list[Result]:
    """Audit all cases in about `seconds` of wall time in all; each round of a case has 120 … 2,000 fits of each data set.

    With `trials` there is one round of so many fits, whatever time it takes. A first pass fits each case, to see which are
    refused and what a fit costs; only the others share the time and the false-alarm rate.
    """
    started = time.perf_counter()
    results: list[Result | None] = [None] * len(cases)
    ready: dict[int, _Ready] = {}
    for number, case in enumerate(cases):
        try:
            ready[number] = _prepared(case)
        except (ValueError, TypeError) as error:
            results[number] = Result(case, None, case.method, None, _reason(error))
    if progress is not None:
        for number, result in enumerate(results):
            if result is not None:
                progress(result, number + 1, len(cases))
    rounds = 1 if trials is not None else 2
    confidence = 1 - FAMILY / max(len(ready), 1) / rounds
    for place, share in enumerate((FIRST_ROUND, 1.0)[:rounds]):
        waiting = [number for number in ready if results[number] is None or results[number].verdict == "inconclusive"]  # type: ignore[union-attr]
        pace = 1.0  # how much longer fits take than when they were timed
        spent = planned = 0.0
        while waiting:
            number = waiting[0]
            left = share * seconds - (time.perf_counter() - started)
            count = trials or _fits(left * processes / pace, [ready[k].seconds for k in waiting])
            waiting.pop(0)
            if place == 0 and trials is None and left < -0.25 * seconds:
                results[number] = Result(ready[number].case, None, ready[number].case.method, None, OUT_OF_TIME)
            elif place == 0 or left > 0:
                begun = time.perf_counter()
                results[number] = _better(results[number], _audit(ready[number], count, confidence, processes))
                spent, planned = spent + time.perf_counter() - begun, planned + 2 * count * ready[number].seconds / processes
                pace = max(spent / planned, 0.5)
            if progress is not None:
                progress(results[number], number + 1, len(cases))  # type: ignore[arg-type]
    return [result for result in results if result is not None]


def _prepared(case: Case) -> _Ready:
    """Fit once to see what is claimed, and time fits of both data sets (the very first also pays for imports)."""
    if case.unfit:
        raise ValueError(case.unfit)
    model = case.build().fit(*case.data)
    observe = case.observer()
    begun = time.perf_counter()
    for data in (case.data, case.neighbour):
        observe(data)
    return _Ready(case, observe, model, (time.perf_counter() - begun) / 2)


def _fits(seconds: float, each: list[float]) -> int:
    """Fits of each data set for the first of the waiting cases: N_k ∝ 1/√cost_k with Σ 2·N_k·cost_k = seconds.

    Between equal numbers and equal times; both leave the slow or the cheap rows with little.

    >>> _fits(100.0, [0.01, 0.04]), _fits(100.0, [0.04, 0.01]), _fits(1.0, [0.01, 0.04])
    (1666, 833, 120)
    """
    return int(np.clip(seconds / (2 * float(np.sum(np.sqrt(each))) * each[0] ** 0.5), LEAST, MOST))


def _audit(ready: _Ready, trials: int, confidence: float, processes: int) -> Result:
    planned, delta = ready.model.plan_, ready.model.certificate_.delta
    found = distinguish(
        ready.observe, ready.case.data, ready.case.neighbour, trials, statistic=ready.observe.statistic, claim=planned.guarantee,
        delta=delta, confidence=confidence, processes=processes, choosing=CHOOSING,
        chunk=max(5, min(50, trials // (12 * processes))),
    )  # fmt: skip
    return Result(ready.case, planned.guarantee, planned.mechanism, replace(found, outcomes=_NOTHING), fits=trials)


_NOTHING = (np.zeros((0, 0)), np.zeros((0, 0)))  # a table of a hundred rows need not keep every outcome in memory


def _better(before: Result | None, after: Result) -> Result:
    """A violation in either round, else the larger bound; every bound holds at the confidence of its own round."""
    if before is None:
        return after
    best = max(before, after, key=lambda result: (bool(result.found and result.found.violates), result.share))
    return replace(best, fits=before.fits + after.fits)


def _reason(error: Exception) -> str:
    text = str(error)
    mark = "needs unmet: "
    return text[text.index(mark) + len(mark) :].rstrip(".") if mark in text else text
