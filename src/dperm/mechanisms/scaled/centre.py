"""Where rows are centred: a mean whose noise follows the spread of the rows and not the bounds that were declared for them.

    m₁ = (Σ clip(x, r₀) + N)/n;   r₁ = 90 % quantile of ‖x - m₁‖, from a histogram;   δ = (Σ clip(x - m₁, r₁) + N)/n
    m = m₁ + w·δ,   w = σ₁²/(σ₁² + σ₂²) with σ₁, σ₂ the noise of the two means

**Sensitivity**: κr₀, the histogram's 1 (√2 replaced) and κr₁, each enforced by its term; m₁ and r₁ are released before their use.
Under generous bounds r₁ is far below r₀, and with it the noise of m; under tight ones both means count alike, so that halving the
share costs nothing. The clip at a quantile keeps a few far rows from moving the centre. Everything here is pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dperm.problem import Problem
from dperm.release.plan import Shape
from dperm.terms.statistics import upper_quantile

EDITION = 3  # of the rule for lines; records that state none were made by the first
REACH = 0.9  # quantile of ‖x - m₁‖ beyond which rows are clipped in the second mean
NARROW = 0.0002  # a standard deviation below it, in units of the declared width, is not believed once the centre is refined


def check_edition(edition: int) -> None:
    if edition not in range(1, EDITION + 1):
        raise ValueError(f"Expected edition 1, 2 or {EDITION} of the rule, found {edition!r}. Leave it out to take the latest.")


def centring(problem: Problem, gaps: Sequence[int], edition: int) -> list[str]:
    """The releases that centre and scale, in order; without an intercept there is no centre."""
    mean = ["mean", *(["present"] if gaps else [])] if problem.data.intercept else []
    names = [*mean, "radius", "squares"]
    return names if edition == 1 else in_two_steps(names)


def in_two_steps(names: Sequence[str]) -> list[str]:
    """The names of releases with the mean in two steps; nothing to do where no mean is released.

    >>> in_two_steps(["mean", "present", "radius"])
    ['rough mean', 'present', 'rough radius', 'mean', 'radius']
    """
    if "mean" not in names:
        return list(names)
    rest = [name for name in names if name not in ("mean", "present")]
    place = rest.index("radius")
    return [*rest[:place], "rough mean", *(["present"] if "present" in names else []), "rough radius", "mean", *rest[place:]]


def divided(parts: Mapping[str, float]) -> dict[str, float]:
    """Shares where a release is made in two steps: those of mean and radius halved, that of the squares less what goes before."""
    parts = dict(parts)
    if "rough squares" in parts:
        parts["squares"] -= parts["rough squares"] + parts["square norms"] + parts.get("finer squares", 0.0)
    if "rough mean" in parts:
        parts |= {name: parts[name] / 2 for name in ("rough mean", "mean", "rough radius", "radius")}
    return parts


def reach(problem: Problem, shape: Shape, released: Mapping[str, Any]) -> float:
    """r₁."""
    return upper_quantile(np.asarray(released["rough radius"]), 2 * problem.data.x_norm, shape.n, REACH)


def believed_step(radius: float, reached: float, budget: Mapping[str, float]) -> float:
    """w: how much of the second mean is believed, both means being right up to their noise.

    >>> believed_step(1.0, 1.0, {"rough mean": 0.1, "mean": 0.1})
    0.5
    """
    first, second = (radius / budget["rough mean"]) ** 2, (reached / budget["mean"]) ** 2
    return first / (first + second)
