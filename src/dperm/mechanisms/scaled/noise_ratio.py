"""What the ratio of noise to signal, known before any row is read, lets a scaled method learn."""

from __future__ import annotations

import math

from dperm.privacy import gaussian_mu, kappa
from dperm.problem import Problem
from dperm.release.plan import Shape, Target


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
        return (f"the noise ratio is about {ratio:.2g}: expect to lose {_points(ratio)} of accuracy; more rows or epsilon help",)
    return (
        f"LITTLE CAN BE LEARNT: the noise ratio is about {ratio:.2g} (0.1 is where it starts to hurt); pass more rows, fewer "
        "columns or a larger epsilon",
    )


def _points(ratio: float) -> str:
    """Between 0.1 and 0.3. The middle of the benchmark fits lost 0.005 at 0.1, 0.0065 at 0.18 and 0.01 at 0.32.

    >>> _points(0.1), _points(0.29)
    ('about half a point', 'about a point')
    """
    return "about half a point" if ratio < 0.18 else "about a point"
