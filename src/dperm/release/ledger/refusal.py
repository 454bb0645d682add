"""Why a plan does not fit into a ledger, and what to do: which of ε and δ is short, from public numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dperm.privacy.filters import Cost, Filter
from dperm.release.plan import Target
from dperm.words.wording import several


def why_refused(rule: Filter, costs: Sequence[Cost], cost: Cost, target: Target, *, closed: bool) -> str:
    """The sentences after "would exceed its budget"; `closed` after a first fit that took the whole budget."""
    if rule.delta == 0 and cost.pure is None:
        return "The ledger has delta=0 and takes pure fits only. Ask with delta=0, or create a ledger with a larger delta."
    failures = [entry.failure for entry in (*costs, cost)]
    if closed or math.fsum(failures) <= rule.failure:
        return f"{_asked(rule, costs, target, closed)} {_advice(rule, costs, cost, target, closed)}"
    free = [replace(entry, failure=0.0) for entry in (*costs, cost)]
    also = "" if rule.accepts(free) is not None else f" Epsilon is short too: {_asked(rule, costs, target, closed)}"
    return f"Delta is short{' (epsilon is not)' if not also else ''}: {_failing(rule, costs, cost, target)}{also}"


def _asked(rule: Filter, costs: Sequence[Cost], target: Target, closed: bool) -> str:
    at = f" at delta={target.delta:g}" if target.delta else ""
    left = 0.0 if closed else rule.left_epsilon(costs, target.delta or rule.delta)
    kind = "Gaussian" if rule.delta else "pure"
    return (
        f"asked for epsilon={target.epsilon:g}{at}, left is about epsilon={math.floor(left * 1000) / 1000:g}{at} for one more "
        f"{kind} fit after {several(len(costs), 'fit')}."
    )


def _advice(rule: Filter, costs: Sequence[Cost], cost: Cost, target: Target, closed: bool) -> str:
    left = 0.0 if closed else rule.left_epsilon(costs, target.delta or rule.delta)
    if rule.delta and cost.square is None and left > target.epsilon:
        return "This fit draws other noise, which takes more: ask for less, or for a method with Gaussian noise alone."
    return "Ask for less."


def _failing(rule: Filter, costs: Sequence[Cost], cost: Cost, target: Target) -> str:
    left = rule.left_delta(costs)
    smaller = _below(target.delta * left / cost.failure)
    ask = f"ask with delta={smaller:g} or less, " if smaller > 0 else ""
    return (
        "a release that may fail, as the threshold of private levels may, is paid from the part of delta that this ledger sets "
        f"aside for it, {rule.failure:.3g}; asked for {cost.failure:.3g}, left is {left:.3g} after "
        f"{several(len(costs), 'fit')}. Pass the "
        f"schema of an earlier profile (--schema), which needs none, {ask}or create a ledger with a larger delta."
    )


def _below(value: float) -> float:
    """Two digits, rounded down.

    >>> _below(2.5e-07), _below(0.0)
    (2.4e-07, 0.0)
    """
    if value <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{max(math.floor(value / unit * (1 - 1e-9)), 0) * unit:.2g}")
