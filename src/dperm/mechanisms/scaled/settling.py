"""How a descent ends since the second edition of the rule: momentum instead of a cap on steps, growing weights, shrinkage.

Everything here is post-processing or follows from what was released before the descent.

*Momentum.* Where S² is large the stable step is short, and the steps that a flow time asks for can pass what there is time for.
Heavy ball with momentum m moves step/(1 - m) of flow time a step and is stable up to 2(1 + m)/(curvature·λ_max): the same time
in fewer steps with more momentum.

*Growing weights.* In a regression the answer is the mean of all iterates with weights ∝ t. Its noise along a settled direction is
4/3 of the least possible, where the mean of the second half has 2; the first third has a ninth of the weight.

Early iterates are behind, and were clipped at the labels' scale and not at the residuals': where that costs more than it saves,
the mean of the second half is better. Since the third edition their difference Δ decides, of which the noise alone is known:
the answer is growing + (1 - noise/‖Δ‖²)₊·Δ, and the second half itself where its noise is not the larger one.

*Shrinkage.* θ of d slopes has noise of variance v = min(0.6·τ², 4/3)·(C/(μn))² along each column of unit variance, more where
columns are correlated. James and Stein's factor (1 - (d - 2)·v/‖θ‖²)₊ makes it better for every true θ in the model of Gaussian
noise, and leaves it alone where the signal is far above the noise.
"""

from __future__ import annotations

import numpy as np

from dperm.mechanisms.scaled.settings import MOMENTUM
from dperm.release.plan import Settings, Vector

MOST_MOMENTUM = 0.99  # a memory of a hundred steps
DRIFT = 1.8  # drift² between the last two quarters, in units of that between both means, where time is three time constants
GROWING = 4.0 / 3.0  # T·Σ weight² of weights ∝ t


def without_cap(settings: Settings) -> Settings:
    """The settings with the momentum at which their steps reach their flow time, as far as momentum can.

    >>> slow = without_cap({"flow_time": 200.0, "steps": 500, "step_size": 0.01})
    >>> round(slow["momentum"], 4), round(slow["step_size"] / (1 - slow["momentum"]) * 500, 6)
    (0.974, 200.0)
    """
    tau, steps, step = settings["flow_time"], settings["steps"], settings["step_size"]
    ratio = steps * step / ((1.0 + MOMENTUM) * tau)  # (1 - m)/(1 + m) of the momentum that is wanted
    momentum = min(max((1.0 - ratio) / (1.0 + ratio), MOMENTUM), MOST_MOMENTUM)
    longest = step * (1.0 + momentum) / (1.0 + MOMENTUM)
    return {**settings, "momentum": momentum, "step_size": min((1.0 - momentum) * tau / steps, longest)}


def weights(steps: int, *, growing: bool) -> Vector:
    """Weights of the iterates in the answer: all of them, growing, or the second half alike.

    >>> weights(3, growing=True).tolist(), weights(4, growing=False).tolist()
    ([0.16666666666666666, 0.3333333333333333, 0.5], [0.0, 0.0, 0.5, 0.5])
    """
    if growing:
        return np.asarray(np.arange(1, steps + 1) * (2.0 / (steps * (steps + 1))), dtype=np.float64)
    return np.repeat([0.0, 1.0 / (steps - steps // 2)], [steps // 2, steps - steps // 2])


def shrunken(theta: Vector, noise: float, settings: Settings, *, intercept: bool) -> Vector:
    """θ with its slopes multiplied by James and Stein's factor; `noise` is C/(μn), what one flow time's gradients are off by."""
    return pulled(theta, min(0.6 * settings["flow_time"] ** 2, GROWING) * noise**2, intercept=intercept)


def pulled(theta: Vector, variance: float, *, intercept: bool) -> Vector:
    """θ with its slopes multiplied by James and Stein's factor at that variance of a slope."""
    d = len(theta) - int(intercept)
    slopes = theta[:d]
    length = float(slopes @ slopes)
    factor = max(0.0, 1.0 - max(d - 2, 0) * variance / length) if length > 0 else 1.0
    return np.concatenate([slopes * factor, theta[d:]])


def blended(growing: Vector, late: Vector, last: Vector, first: float, second: float) -> tuple[Vector, float]:
    """(the answer, the variance of its noise along a settled direction) from the means of the iterates: growing weights, the
    second half, the last quarter.

    `first` and `second` are C/(μn) of the first third of the steps and of the others. With weights w the noise has variance
    T·Σ w²·(C/(μn))²: 2·second² for the late mean, 4/81·first² + 104/81·second² for the growing one, 3/2·second² together. Where
    columns are correlated it is larger; what the last two quarters differ by, 8 times the unit and some drift, tells by how much.
    """
    part = part_of_late(growing, late, last, first, second)
    ours, theirs, both = _noises(first, second)
    variance = part**2 * theirs + (1.0 - part) ** 2 * ours + 2.0 * part * (1.0 - part) * both
    return growing + part * (late - growing), variance * second**2


def _noises(first: float, second: float) -> tuple[float, float, float]:
    """Variances of the growing and of the late mean, and their covariance, in units of second²."""
    ratio = (first / second) ** 2 if second > 0 else 1.0
    return 4.0 / 81.0 * ratio + 104.0 / 81.0, 2.0, 1.5


def part_of_late(growing: Vector, late: Vector, last: Vector, first: float, second: float) -> float:
    """How far the answer of `blended` lies on the way from the growing mean to the late one, in [0, 1]."""
    ours, theirs, both = _noises(first, second)
    if ours >= theirs:
        return 1.0
    step, swing = late - growing, 2.0 * (last - late)
    length = float(step @ step)
    unit = max(len(step) * second**2, (float(swing @ swing) - DRIFT * length) / (8.0 - DRIFT / 3.0))
    return max(0.0, 1.0 - unit * (ours + theirs - 2.0 * both) / length) if length > 0 else 0.0
