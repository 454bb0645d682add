"""From a loss and a ridge to the noise of objective perturbation: this library's theorems, and the literature's for comparison.

Units: `bound` = W·L·R is the largest gradient of one record, `curvature` = C·W·R²/λ (self-bounding) or W·sup φ''·R²/λ. Gaussian
noise is N(0, (bound/D)²I), D from `calibrate_shift`; pure noise has density ∝ exp(−rate·‖b‖/bound), rate from `pure_rate`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dperm.privacy import calibrate_shift, gaussian_mu, gaussian_sigma, kappa
from dperm.problem import Interval, Loss

NOISE_KINDS = ("auto", "gaussian", "pure")
ACCOUNTING = ("tight", "cms-2011", "kst-2012", "redberg-2023")
LADDER = [2.0 ** (j / 2) for j in range(-2, 25)]
CLOSE = 1.05  # a default ridge keeps σ within 5 % of its limit for a very large ridge


@dataclass(frozen=True)
class LossForm:
    """How a loss enters the theorems: its form, and the constants that multiply the row norm and its square.

    >>> from dperm.problem import Interval, LogisticLoss
    >>> loss_form(LogisticLoss(), Interval(-1, 1))
    LossForm(form='self-bounding', slope=1.0, constant=1.0, curvature=0.25, classes=2)
    """

    form: str
    slope: float
    constant: float
    curvature: float
    classes: int = 2


def loss_form(loss: Loss, y: Interval) -> LossForm:
    """The sharpest form whose conditions the loss meets; slopes and curvatures over all margins.

    softmax: `slope` is 1 because its events take R/σ; the √2 of its gradient is inside the theorem.
    """
    bounds = loss.bounds(math.inf, y)
    if loss.margins > 1:
        return LossForm("softmax", 1.0, 1.0, bounds.curvature, loss.margins)
    if loss.self_bounding is not None:
        return LossForm("self-bounding", 1.0, loss.self_bounding, bounds.curvature)
    if loss.name == "log-cosh":
        return LossForm("log-cosh", bounds.slope, 1.0, bounds.curvature)
    form = "one-signed" if loss.name == "huberized-hinge" else "two-sided"
    return LossForm(form, bounds.slope, bounds.curvature, bounds.curvature)


def pure_epsilon(form: LossForm, rate: float, curvature: float, relation: str, rows: int = 1) -> float:
    """ε of the exact minimiser with noise density ∝ exp(−rate·‖b‖/bound).

    self-bounding  k·max_s [rate(κ−1+s) + log(1 + c·s(1−s))]
    log-cosh       k·max_a [rate(κ−1+a) + log(1 + c(1−a²))]
    otherwise      k·[κ·rate + log(1 + c)];  softmax √2κ·rate + (K−1)log(1 + c/K)

    **Guarantee**: ‖b‖ changes by at most the difference of two gradients, the slopes of a replaced record adding up; the
    log-determinant of k records is at most k times that of one, and counts for the records that leave only.

    >>> from dperm.problem import Interval, LogisticLoss
    >>> round(pure_epsilon(loss_form(LogisticLoss(), Interval(-1, 1)), 0.5, 0.5, "replace-one"), 12)
    1.0
    """
    a, c, both = rate, curvature, kappa(relation) - 1
    if form.form == "softmax":
        K = form.classes
        return math.sqrt(2) * a * (both + 1) + (K - 1) * math.log1p(c / K)
    if form.form == "self-bounding":
        s = _root(-a * c, a * c - 2 * c, a + c) if c > 0 else 1.0
        return rows * (a * (both + s) + math.log1p(c * s * (1 - s)))
    if form.form == "log-cosh":
        s = _root(-a * c, -2 * c, a * (1 + c)) if c > 0 else 1.0
        return rows * (a * (both + s) + math.log1p(c * (1 - s * s)))
    return rows * (a * (both + 1) + math.log1p(c))


def _root(square: float, linear: float, constant: float) -> float:
    """The root in [0, 1] of a derivative that starts positive and falls (of a concave function), or 1 when it stays positive."""
    if square + linear + constant >= 0:
        return 1.0
    if square == 0:
        return min(max(-constant / linear, 0.0), 1.0)
    discriminant = math.sqrt(max(linear * linear - 4 * square * constant, 0.0))
    for sign in (1, -1):
        root = (-linear + sign * discriminant) / (2 * square)
        if -1e-12 <= root <= 1 + 1e-12:
            return min(max(root, 0.0), 1.0)
    return 1.0


def pure_rate(form: LossForm, epsilon: float, curvature: float, relation: str, rows: int = 1) -> float:
    """The largest rate with pure_epsilon ≤ ε, rounded down. Zero or less cannot be met: raise.

    >>> from dperm.problem import Interval, LogisticLoss
    >>> logistic = loss_form(LogisticLoss(), Interval(-1, 1))
    >>> round(pure_rate(logistic, 1.0, 1.0, "replace-one"), 7), round(pure_rate(logistic, 1.0, 1.0, "zero-out"), 7)
    (0.4728218, 1.0)
    """
    low, high = 0.0, epsilon
    if pure_epsilon(form, 0.0, curvature, relation, rows) >= epsilon:
        raise ValueError(
            f"Expected a larger ridge, found one whose log-determinant alone costs epsilon={epsilon:g} "
            f"(curvature {curvature:g}). Raise the regularization or epsilon."
        )
    while high - low > 1e-14 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if pure_epsilon(form, middle, curvature, relation, rows) <= epsilon else (low, middle)
    return low


def default_ridge(form: LossForm, area: float, *, epsilon: float, delta: float, relation: str, rows: int, pure: bool) -> float:
    """λ from public numbers; `area` is W·R² (W·R_z·r_m for weighted rows).

    self-bounding, one row    C·area/ε for zero-out and add-remove; 2.5·C·area/ε for replace-one (2 with pure noise)
    everything else           the smallest λ on a ladder of steps √2 whose noise is within 5 % of what a huge λ would need

    The first line is where the log-determinant stops costing anything; a larger λ only adds bias.
    """
    unit = form.constant * area / epsilon
    if form.form == "self-bounding" and rows == 1:
        return unit * (1.0 if kappa(relation) == 1 else 2.0 if pure else 2.5)

    def size(ridge: float) -> float:
        curvature = form.constant * area / ridge
        try:
            if pure:
                return 1 / pure_rate(form, epsilon, curvature, relation, rows)
            return 1 / calibrate_shift(
                epsilon, delta, form=form.form, curvature=curvature, relation=relation, rows=rows, classes=form.classes
            )
        except ValueError:
            return math.inf

    limit = size(unit * 1e6)
    return float(next((unit * factor for factor in LADDER if size(unit * factor) <= CLOSE * limit), unit * LADDER[-1]))


def cms_rate(epsilon: float, hessian_ratio: float, relation: str) -> float:
    """Chaudhuri, Monteleoni and Sarwate 2011 (with R², which an implementation dropped): (ε − 2·log(1 + β/λ))/κ.

    >>> round(cms_rate(1.0, 0.125, "replace-one"), 3)
    0.382
    """
    return (epsilon - 2 * math.log1p(hessian_ratio)) / kappa(relation)


def kst_sigma(epsilon: float, delta: float) -> float:
    """Kifer, Smith and Thakurta 2012: σ/ζ = √(8·ln(2/δ) + 4ε)/ε for λ ≥ 2β/ε, ζ the change of the gradient: L, or 2L replaced.

    Half of ε pays for log(1 + β/λ) ≤ ε/2; the other half for (ζ² + 2ζσ|u|)/(2σ²) ≤ ε/2, true but for |u| > √(2 ln(2/δ)).
    With ζ = L a *replaced* record breaks it: one Huber row, ε = 1, claimed δ = 1e-9, has δ = 5.8e-8.

    >>> round(kst_sigma(1.0, 1e-6), 6)
    10.957612
    """
    return math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon


def redberg_curvature(hessian_ratio: float) -> float:
    """c with log(1 + c) = |log(1 − β/λ)|: Redberg, Koskela and Wang 2023 is the two-sided form with this curvature, for λ > β."""
    return hessian_ratio / (1 - hessian_ratio) if hessian_ratio < 1 else math.inf


def compare_accounting(
    epsilons: tuple[float, ...] = (0.1, 1.0, 4.0, 8.0), delta: float = 1e-6, *, row_norm: float = 1.0, relation: str = "zero-out"
) -> list[dict[str, object]]:
    """σ that logistic objective perturbation needs, by accounting, one dict per ε; None where a theorem does not apply.

    half, default    this library at λ = R²/(2ε) and λ = R²/ε (replace-one: half and the whole of the default ridge)
    redberg, kst     at the default ridge; `gaussian` is the floor of a single Gaussian release

    >>> [round(row["default"], 3) for row in compare_accounting((1.0, 8.0))]
    [4.225, 0.653]
    """
    rows = []
    R = row_norm
    for epsilon in epsilons:
        ridge = (1.0 if kappa(relation) == 1 else 2.5) * R * R / epsilon
        ratio = 0.25 * R * R / ridge
        redberg = redberg_curvature(ratio)
        row: dict[str, object] = {"epsilon": epsilon, "delta": delta, "ridge": ridge}
        for name, factor in (("half", 0.5), ("default", 1.0)):
            curvature = R * R / (ridge * factor)
            row[name] = R / calibrate_shift(epsilon, delta, curvature=curvature, relation=relation)
        row["redberg"] = row["kst"] = None
        if kappa(relation) == 1 and math.isfinite(redberg) and math.log1p(redberg) < epsilon:
            row["redberg"] = R / calibrate_shift(epsilon, delta, form="two-sided", curvature=redberg, relation=relation)
        if kappa(relation) == 2 and ridge >= 2 * 0.25 * R * R / epsilon:
            row["kst"] = kappa(relation) * R * kst_sigma(epsilon, delta)
        row["gaussian"] = gaussian_sigma(kappa(relation) * R, epsilon, delta)
        rows.append(row)
    return rows


def wants_pure(kind: str, p: int, epsilon: float, delta: float) -> bool:
    """Whether noise of that kind is pure for p numbers: "auto" takes what is smaller."""
    return pure_is_better(p, epsilon, delta) if kind == "auto" else kind == "pure"


def pure_is_better(p: int, epsilon: float, delta: float) -> bool:
    """p + 1 < (ε/μ(ε, δ))²: Gamma-norm noise has the smaller root mean square per coordinate (C3's rule).

    >>> pure_is_better(16, 1.0, 1e-6), pure_is_better(17, 1.0, 1e-6)
    (True, False)
    """
    return delta == 0 or p + 1 < (epsilon / gaussian_mu(epsilon, delta)) ** 2
