"""Several classes in `scaled-inference`: which terms they take, where the descent starts, and maps between bases of classes.

θ holds the K - 1 combinations of class coefficients that add up to 0 (`terms/softmax.py`), flattened; for one margin it is the
vector of coefficients itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dperm.mechanisms.scaled.settings import Public
from dperm.problem import Problem
from dperm.release.plan import Shape, Vector
from dperm.terms.inference import CurvatureMatrix, ScaleNumbers, Score, ScoreMatrix, ScoreSum
from dperm.terms.softmax import SoftmaxCurvature, SoftmaxNumbers, SoftmaxScore, SoftmaxScores, SoftmaxSum, class_basis

CLASS_COUNTS = "class counts"
CLASS_SHARE = 0.005  # of μ², as for the number of positives


class Terms(NamedTuple):
    """The four sums of a model's scores with rows weighted down beyond a radius."""

    gradient: ScoreSum
    curvature: CurvatureMatrix | SoftmaxCurvature
    scores: ScoreMatrix
    numbers: ScaleNumbers | SoftmaxNumbers


def terms_of(score: Score | SoftmaxScore, radius: float) -> Terms:
    if isinstance(score, SoftmaxScore):
        several = SoftmaxSum(score, radius), SoftmaxCurvature(score, radius), SoftmaxScores(score, radius)
        return Terms(*several, SoftmaxNumbers(score, radius))
    one = ScoreSum(score, radius), CurvatureMatrix(score, radius), ScoreMatrix(score, radius)
    return Terms(*one, ScaleNumbers(score, radius))


def several(problem: Problem) -> bool:
    return problem.loss.margins > 1


def combinations(problem: Problem) -> int:
    """How many vectors of coefficients data can tell: K - 1 of K classes, or one."""
    return max(problem.loss.margins - 1, 1)


def free_parameters(problem: Problem, shape: Shape) -> int:
    """Length of θ."""
    return shape.parameters(problem) // problem.loss.margins * combinations(problem)


def basis_of(problem: Problem) -> Vector:
    """From combinations to classes; [[1]] for one margin."""
    return class_basis(problem.loss.margins) if several(problem) else np.eye(1)


def class_shares(public: Public, released: Mapping[str, ArrayLike]) -> Vector | None:
    """Noisy shares of the classes, none below its own noise, adding up to 1."""
    if CLASS_COUNTS not in released:
        return None
    counts, n = np.asarray(released[CLASS_COUNTS], dtype=np.float64), public.shape.n
    least = public.target.rows_per_person / (public.budget[CLASS_COUNTS] * n) + 2.0 / n
    shares = np.maximum(counts / n, least)
    return np.asarray(shares / np.sum(shares))


def unevenness(shares: Vector | None) -> float | None:
    """(1 - Σπ²)/(K - 1): the mean curvature of a combination at these shares; 1/K for even ones."""
    return None if shares is None else float(1.0 - np.sum(shares**2)) / (len(shares) - 1)


def start_at(problem: Problem, shape: Shape, shares: Vector | None) -> Vector:
    """θ₀ = 0 with intercepts at the logarithms of the released shares."""
    theta = np.zeros((combinations(problem), shape.parameters(problem) // problem.loss.margins))
    if shares is not None and problem.data.intercept:
        theta[:, -1] = np.log(shares) @ basis_of(problem)
    return theta.reshape(-1)


def intercepts(problem: Problem, shape: Shape) -> Vector:
    """The directions (columns) of θ that are intercepts, one per combination; none without an intercept."""
    width = shape.parameters(problem) // problem.loss.margins
    one = np.eye(width)[:, width - (1 if problem.data.intercept else 0) :]
    return by_combination(problem, one)


def by_combination(problem: Problem, matrix: Vector) -> Vector:
    """The same matrix for every combination: I ⊗ matrix."""
    return np.asarray(np.kron(np.eye(combinations(problem)), matrix), dtype=np.float64) if several(problem) else matrix
