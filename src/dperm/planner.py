"""method="auto": a published decision table over public numbers. It never sees a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dperm.mechanisms.base import MECHANISMS, Shape, Target, mechanism_from_spec
from dperm.privacy import gaussian_mu, kappa
from dperm.problem import Problem


def expected_noise_ratio(problem: Problem, shape: Shape, target: Target) -> float:
    """ν₀ = √(d + 1)·√(d·K)/(0.85·μ·n), before any row is read: slightly high as a rule."""
    mu = gaussian_mu(target.epsilon, target.delta) / (kappa(target.relation) * target.rows_per_person)
    return math.sqrt((shape.d + 1) * shape.d * problem.loss.margins) / (0.85 * mu * shape.n)


def noise_warning(problem: Problem, shape: Shape, target: Target) -> tuple[str, ...]:
    """A sentence when the noise ratio says that little can be learnt (from 0.1), a louder one from 0.3."""
    ratio = expected_noise_ratio(problem, shape, target)
    if ratio < 0.1:
        return ()
    if ratio < 0.3:
        return (f"the noise ratio is about {ratio:.2g}: expect to lose about a point of accuracy; more rows or epsilon help",)
    return (
        f"LITTLE CAN BE LEARNT: the noise ratio is about {ratio:.2g} (0.1 is where it starts to hurt); pass more rows, fewer "
        "columns or a larger epsilon",
    )


def choose(
    method: Any, problem: Problem, shape: Shape, target: Target, *, asked_for: str, kinds: Sequence[str] = (), max_weight: float | None = None
) -> Any:
    """The mechanism for `method`: a name, "auto", or a mechanism object that is taken as it is.

    `asked_for` is "probabilities", "accuracy" or "coefficients".
    """
    if not isinstance(method, str):
        return method
    if method == "auto":
        return mechanism_from_spec("gradient", {})
    if method not in MECHANISMS:
        known = ", ".join(repr(name) for name in ["auto", *sorted(MECHANISMS)])
        raise ValueError(f"Expected method in {known}, found {method!r}.")
    return mechanism_from_spec(method, {})
