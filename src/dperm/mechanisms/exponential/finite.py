"""The exponential mechanism over a finite class: the private PAC learner.

    score(h) = -number of rows that h gets wrong;  release ĥ with P(ĥ = h) set by k·score,  k = ε/(κ·m)

**Theorem.** One row changes each score by 0 or 1 in one direction (nulled, added, removed: the changes span a range of 1) or
by at most 1 either way (replaced: range 2). Both samplers are (k·range)-DP, so k = ε/κ gives ε-DP, and k = ε/(κm) for a person
with m rows. The exponential law is also (k·range)²/8-zCDP (bounded range), which is what to book when many selections compose.
Proofs, and the sample sizes that follow: `docs/theorems/exponential.md`. The laws, and how they are drawn:

    exponential      P(h) ∝ exp(k·u_h)                                    = argmax_h k·u_h + Gumbel
    permute-and-flip P(h) = y_h ∫₀¹ Π_{j≠h} (1 - t·y_j) dt,  y = e^{k(u - max u)}   = argmax_h k·u_h + Exponential(1)
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dperm.mechanisms.conditions import check_options, unmet
from dperm.mechanisms.hypotheses.classes import Hypotheses
from dperm.mechanisms.hypotheses.stored import hypotheses_from_spec
from dperm.privacy import Concentrated, Event, Pure, calibrate, kappa
from dperm.problem import Problem
from dperm.release.asks import Decide, Program, Secret, Solve
from dperm.release.noise import Noise
from dperm.release.plan import Plan, Shape, Stage, StageSettings, Target, Vector, register
from dperm.rows.base import Block
from dperm.rows.exact import Counted, whole


def draw(scores: Vector, rate: float, sampler: str, noise: Noise) -> int:
    """One index from the law, by adding noise to every score and taking the largest: one pass, whatever the scores."""
    generator = noise.generator()
    drawn = generator.gumbel if sampler == "gumbel" else generator.standard_exponential
    return int(np.argmax(rate * scores + drawn(size=len(scores))))


SAMPLERS = ("permute-and-flip", "gumbel")
ACCOUNTING = ("pure", "concentrated")


@dataclass(frozen=True, eq=False)
class ErrorTerm(Counted):
    """Number of mistakes of every hypothesis; a row adds 0 or 1 (times a weight in [0, 1]) to each.

    **Sensitivity** √|H| in ℓ2 under every relation: each of |H| entries moves by at most 1. The selection does not use it; it
    uses that all entries move within one interval of length κ.
    """

    hypotheses: Hypotheses

    def tally(self, block: Block) -> Vector:
        weight = whole(np.ones(len(block.y)) if block.weight is None else np.clip(block.weight, 0.0, 1.0), 1.0)
        with np.errstate(all="ignore"):
            return self.hypotheses.errors(block.X, np.asarray(block.y, dtype=np.float64), weight)

    def sensitivity(self, relation: str) -> float:
        return math.sqrt(self.hypotheses.size)


@dataclass(frozen=True, eq=False)
class Choice(StageSettings):
    """The law over a declared class of rules."""

    rate: float
    size: int
    columns: int
    classes: list[float]
    sampler: str | None
    accounting: str
    hypotheses: dict[str, object]


@register
@dataclass(frozen=True)
class FiniteExponential:
    """Choose one of finitely many hypotheses privately.

    hypotheses   a `Hypotheses` object (or its spec)
    sampler      "permute-and-flip" (default: never a larger expected error at the same ε) or "gumbel" (the exponential law)
    accounting   "pure" books `Pure(ε)`; "concentrated" books `Concentrated(ε'²/8)` for the exponential law with ε' fitted to
    (ε, δ)

    **Guarantee**: ε-DP (pure), or ρ-zCDP with ρ fitted to (ε, δ), for the target's relation.

    >>> from dperm.mechanisms.hypotheses.classes import Thresholds
    >>> FiniteExponential(Thresholds(0.0, 1.0, 11)).sampler
    'permute-and-flip'
    """

    hypotheses: Any = None
    sampler: str | None = None
    accounting: str = "pure"

    name: ClassVar[str] = "finite-exponential"

    def __post_init__(self) -> None:
        check_options(self, among={"accounting": ACCOUNTING, "sampler": (None, *SAMPLERS)})
        if self.sampler is None:
            object.__setattr__(self, "sampler", "permute-and-flip" if self.accounting == "pure" else "gumbel")
        if isinstance(self.hypotheses, Mapping):
            object.__setattr__(self, "hypotheses", hypotheses_from_spec(self.hypotheses))

    def missing(self, problem: Problem, target: Target) -> list[str]:
        return unmet({
            "hypotheses= (for instance Thresholds(low, high, count))": not isinstance(self.hypotheses, Hypotheses),
            f"the zero-one loss, whose sum counts mistakes (found {problem.loss.name!r})": problem.loss.name != "zero-one",
            "rows without an intercept column (rules carry their own offsets)": problem.data.intercept,
            "delta > 0 with accounting='concentrated'": self.accounting == "concentrated" and target.delta == 0,
            "sampler='gumbel' with accounting='concentrated' (bounded range is proven for the exponential law)":
                self.accounting == "concentrated" and self.sampler != "gumbel",
        })

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        columns = self.hypotheses.columns
        if columns is not None and columns != shape.d:
            raise ValueError(f"Expected {columns} columns, as the hypotheses declare, found {shape.d}. Pass those columns.")
        event, budget = self._event(target)
        settings = Choice(
            rate=budget / (kappa(target.relation) * target.rows_per_person),
            size=self.hypotheses.size,
            columns=shape.d,
            classes=[problem.data.y.low, problem.data.y.high],
            sampler=self.sampler,
            accounting=self.accounting,
            hypotheses=self.hypotheses.spec(),
        )
        options = {"hypotheses": self.hypotheses.spec(), "sampler": self.sampler, "accounting": self.accounting}
        return Plan(self.name, options, (Stage("selection", event, settings),), target, shape, parameters=1)

    def _event(self, target: Target) -> tuple[Event, float]:
        if self.accounting == "pure":
            return Pure(target.epsilon), target.epsilon
        budget = calibrate(lambda scale: [Concentrated(scale**2 / 8)], target.epsilon, target.delta, target.relation)
        return Concentrated(budget**2 / 8), budget

    def program(self, plan: Plan, problem: Problem) -> Program:
        rate = plan.settings("selection", Choice).rate

        def select(secret: Secret) -> int:
            # A rule, ours or the caller's, may warn of one row. Filters are those of all threads: they are set once, out here.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                errors = secret.sum(ErrorTerm(self.hypotheses))
            return draw(-errors, rate, str(self.sampler), secret.noise)

        index = yield Solve(("selection",), select, kept="number")
        if not isinstance(index, int) or not 0 <= index < self.hypotheses.size:
            raise ValueError(f"hypothesis {index!r} is not one of the {self.hypotheses.size} declared")
        yield Decide({"hypothesis": self.hypotheses.describe(index), "coefficients": [float(index)]})
        return np.array([float(index)])
