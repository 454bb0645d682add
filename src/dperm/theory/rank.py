"""The rank theorem (lecture 002, Theorem 4.1): unconstrained noisy GD on a GLM pays for rank, not for
dimension.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.privacy.gaussian import gaussian_mu
from dperm.theory.checks import printed_relation, relation_factor, theorem

RANK_RULES = ("exact", "consistent", "printed")


@theorem
def rank_risk(
    n: float,
    rank: float,
    lipschitz: float,
    seminorm: float,
    epsilon: float,
    delta: float,
    relation: str = "replace-one",
    *,
    steps: float | None = None,
    rule: str = "exact",
    as_printed: bool = False,
) -> float:
    """L‖θ*‖_M √(1/T + κ²·rank/(nμ)²); `steps=None`: the limit κL‖θ*‖_M√rank/(nμ).

    Mean-scale excess empirical risk, in expectation, of T unprojected noisy gradient steps from θ_0 = 0 on a
    generalised linear model whose features span `rank` dimensions; `seminorm` = ‖θ*‖_M, M the projector on
    that span.
    **Guarantee**: (ε, δ)-DP under `relation`. Conditions: no projection, no clipping bias, η = ‖θ*‖_M/√(T(L²
    + rank·σ²)) set from *public* bounds on rank and ‖θ*‖_M. Proof: the GD potential in ‖·‖_M; gradients lie
    in range(M), E‖MZ‖² = rank·σ². Lecture 002 Theorem 4.1, erratum E25. `as_printed=True` (or
    rule="printed"): L‖θ*‖_M√(1 + 2 rank ln(1/δ))/(εn); rule="consistent": the same with the 4 that the
    lecture's own σ implies.

    >>> round(rank_risk(1000, 20, 1, 1, epsilon=1, delta=1e-5), 6)
    0.033368
    >>> round(rank_risk(1000, 20, 1, 1, 1, 1e-5, as_printed=True), 6)
    0.021483
    >>> round(rank_risk(1000, 20, 1, 1, 1, 1e-5, rule="consistent"), 6)
    0.030365
    """
    size = lipschitz * seminorm
    factor = relation_factor(relation)
    if rule not in RANK_RULES:
        raise ValueError(f"Expected rule in {', '.join(RANK_RULES)}, found {rule!r}. Pass one of them.")
    if as_printed or rule != "exact":
        printed_relation(relation)
        if steps is not None:
            raise ValueError("Expected steps=None with the lecture's constants (they fix T = n²ε²). Drop steps.")
        constant = 2 if as_printed or rule == "printed" else 4
        return size * math.sqrt(1 + constant * rank * math.log(1 / delta)) / (epsilon * n)
    floor = 0.0 if steps is None else 1 / steps
    return size * math.sqrt(floor + rank * (factor / (n * gaussian_mu(epsilon, delta))) ** 2)


def row_space(X: ArrayLike, tolerance: float | None = None) -> NDArray[np.float64]:
    """U (d × rank): an orthonormal basis of the span of the rows, eigenvectors of Σxxᵀ with nonzero
    eigenvalue.

    `tolerance` is relative to the largest singular value (default max(n, d)·2⁻⁵²). Works through the smaller
    side, so that d = 10,000 with few rows costs little.

    >>> row_space([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]).shape
    (3, 1)
    """
    rows = np.asarray(X, dtype=float)
    if rows.ndim != 2 or rows.size == 0 or not np.all(np.isfinite(rows)):
        raise ValueError(f"Expected a finite matrix of rows, found shape {rows.shape}. Pass X with one record per row.")
    _, values, right = np.linalg.svd(rows, full_matrices=False)
    cut = (max(rows.shape) * np.finfo(float).eps if tolerance is None else tolerance) * values[0]
    return np.ascontiguousarray(right[values > cut].T)


def projector(X: ArrayLike, tolerance: float | None = None) -> NDArray[np.float64]:
    """M = U A Uᵀ, Aᵢ = 1 where the eigenvalue of Σxxᵀ is nonzero: the orthogonal projector on the rows' span.

    Lecture 002 Definition 4.2. M² = M = Mᵀ, Mx = x for every row, tr M = rank.

    >>> projector([[1.0, 1.0], [2.0, 2.0]]).round(3).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    basis = row_space(X, tolerance)
    return np.asarray(basis @ basis.T, dtype=float)


def seminorm(v: ArrayLike, M: ArrayLike) -> float:
    """‖v‖_M = √(vᵀMv), M positive semidefinite (d × d). Lecture 002 Definition 4.3.

    For the projector of `row_space` basis U this is ‖Uᵀv‖, see `basis_seminorm` when d is large.

    >>> seminorm([3.0, 4.0], [[1.0, 0.0], [0.0, 0.0]])
    3.0
    """
    vector, matrix = np.asarray(v, dtype=float).ravel(), np.asarray(M, dtype=float)
    if matrix.shape != (vector.size, vector.size):
        raise ValueError(
            f"Expected M of shape {(vector.size, vector.size)}, found {matrix.shape}. Pass projector(X) for the same d."
        )
    square = float(vector @ matrix @ vector)
    if square < -1e-9 * float(vector @ vector) * max(1.0, float(np.abs(matrix).max())):
        raise ValueError(f"Expected M positive semidefinite, found vᵀMv = {square:g}. Pass a projector or a Gram matrix.")
    return math.sqrt(max(square, 0.0))


def basis_seminorm(v: ArrayLike, basis: ArrayLike) -> float:
    """‖Uᵀv‖ for an orthonormal basis U (d × rank): the seminorm of the projector UUᵀ without forming it.

    >>> basis_seminorm([3.0, 4.0], [[1.0], [0.0]])
    3.0
    """
    return float(np.linalg.norm(np.asarray(basis, dtype=float).T @ np.asarray(v, dtype=float)))
