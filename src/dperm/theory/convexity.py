"""Convexity and minimisers: the lectures' small exercises, each as the number that decides it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.theory.checks import ConditionError, theorem

Function = Callable[..., float]  # of a number, or of a row of numbers
NO_MINIMISER: Final[tuple[str, ...]] = ("separable", "open-set")


@theorem
def mean_lipschitz(constants: ArrayLike) -> float:
    """(G₁ + … + Gₙ)/n: a Lipschitz constant of the mean loss whose i-th record has the constant Gᵢ.

    If every record's loss is G-Lipschitz, so is their mean: |L(w) - L(w')| <= (1/n)Σ|ℓᵢ(w) - ℓᵢ(w')| <=
    (1/n)ΣGᵢ‖w - w'‖ <= G‖w - w'‖. Tight for linear losses with parallel gradients. The *sum* has n times as much,
    which is why sum and mean must not share a symbol (erratum E15). Lecture 003, exercise 2.3.

    >>> mean_lipschitz([1.0, 1.0, 1.0])
    1.0
    >>> mean_lipschitz([0.0, 3.0])
    1.5
    """
    found = _numbers("constants", constants)
    if found.ndim != 1 or np.any(found < 0):
        raise ValueError("Expected constants >= 0, one per record, found another shape or a negative one. Pass a list of bounds.")
    return float(found.mean())


@theorem
def jensen_gap(function: Function, points: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Σ pᵢ f(xᵢ) - f(Σ pᵢ xᵢ): never negative for a convex f (Jensen), so a negative gap refutes convexity.

    Proof from Lemma A.3: let m = Σpᵢxᵢ and g a subgradient of f at m; then f(xᵢ) >= f(m) + ⟨g, xᵢ - m⟩, and the
    second term averages to 0. `points` is one number or one row per point; `weights` are made to sum to 1 (default:
    equal). Lecture 003, exercise A.4.

    >>> jensen_gap(lambda x: x**2, [0.0, 2.0])
    1.0

    (x - 1)³ is not convex: its second derivative 6(x - 1) is negative below 1, and the gap between -1 and 1 shows it.

    >>> jensen_gap(lambda x: (x - 1) ** 3, [-1.0, 1.0])
    -3.0
    """
    where = _numbers("points", points)
    shares = np.full(len(where), 1.0 / len(where)) if weights is None else _numbers("weights", weights)
    if shares.shape != (len(where),) or np.any(shares < 0) or shares.sum() <= 0:
        raise ValueError("Expected weights >= 0, one per point and not all 0, found otherwise. Pass one share per point.")
    shares = shares / shares.sum()
    mean = shares @ where
    return float(sum(share * float(function(x)) for share, x in zip(shares, where)) - float(function(mean)))


@theorem
def subgradient_gap(function: Function, subgradient: ArrayLike, at: ArrayLike, points: ArrayLike) -> float:
    """min over the points u of f(u) - f(w) - ⟨g, u - w⟩: negative exactly when a point shows that g is no subgradient at w.

    Lemma A.3: f is convex on an open convex set if and only if it has a subgradient g at every w, f(u) >= f(w) +
    ⟨g, u - w⟩ for all u; where f is differentiable g = ∇f(w) is the only one. "Open" matters: -√x is convex on
    [0, 1] and has no subgradient at 0. Lecture 003, Lemma A.3.

    >>> subgradient_gap(abs, 0.5, 0.0, [-1.0, 2.0])
    1.0
    >>> subgradient_gap(abs, 1.5, 0.0, [-1.0, 2.0])
    -1.0
    """
    w, g, others = _numbers("at", at), _numbers("subgradient", subgradient), _numbers("points", points)
    if g.shape != w.shape or others.shape[1:] != w.shape:
        raise ValueError("Expected subgradient and points with the shape of `at`, found others. Pass vectors of one length.")
    base = float(function(w if w.ndim else float(w)))
    gaps = [float(function(u)) - base - float(np.sum(g * (u - w))) for u in others]
    return float(min(gaps))


@theorem
def two_layer_gap(loss: float, classes: float = 2) -> float:
    """ln K - ℓ: by how much the loss of a two-layer network exceeds its chord at the middle of two points. So it is not convex.

    Quiz of lecture 004: is the cross-entropy of softmax(tanh(xW₁ + b₁)W₂) convex in (W₁, b₁, W₂)? No. tanh is odd, so
    (W₁, b₁, W₂) and (-W₁, -b₁, -W₂) give the same network and the same loss ℓ. Half-way between them all weights are
    0, every class gets 1/K and the loss is ln K. Any weights better than guessing, ℓ < ln K, are a counterexample.
    (For other activations swap two hidden units instead of their signs.) Hence the theorems for convex losses do not
    speak of networks, and `MLPClassifier` relies on clipped gradients alone.

    >>> round(two_layer_gap(loss=0.1, classes=10), 4)
    2.2026
    """
    if classes < 2:
        raise ValueError(f"Expected classes >= 2, found {classes}. Pass the number of classes.")
    gap = math.log(classes) - loss
    if gap <= 0:
        raise ConditionError(f"Expected loss < ln(classes) = {gap + loss:.4g}, found {loss}. Pass weights better than guessing.")
    return gap


@theorem
def infimum_gap(example: str, reach: float) -> float:
    """F(θ) - inf F along a path on which F falls for ever: positive at every `reach`, so there is no arg min.

    * "separable": logistic loss on separable data. Along a separating direction every margin grows; with smallest
      margin `reach` the mean loss is at most ln(1 + e^{-reach}), with equality when all margins are equal. inf F = 0
      is not attained: the minimiser is "at infinity".
    * "open-set": F(θ) = θ on the open interval (0, 1), at θ = 1/(1 + reach). inf F = 0 lies outside the set.

    A closed bounded set and a continuous loss are enough for a minimiser to exist; so is a ridge, which makes F grow
    in every direction. That is why the lectures ask for closed C, and output and objective perturbation for λ > 0.

    >>> round(infimum_gap("separable", 10.0), 9)
    4.5399e-05
    >>> infimum_gap("open-set", 3.0)
    0.25
    """
    if example not in NO_MINIMISER:
        raise ValueError(f"Expected example in {', '.join(NO_MINIMISER)}, found {example!r}. Pass one of them.")
    return math.log1p(math.exp(-reach)) if example == "separable" else 1 / (1 + reach)


def _numbers(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """The values as finite floats, or a sentence that names the argument."""
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Expected finite numbers for {name}, found something else. Pass numbers.") from error
    if found.size == 0 or not np.all(np.isfinite(found)):
        raise ValueError(f"Expected finite numbers for {name}, found none or one that is not finite. Pass numbers.")
    return found
