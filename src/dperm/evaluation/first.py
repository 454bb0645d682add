"""Records in the first format, `dperm-evaluation/1`: only verified, no longer written.

Their intervals are value ± z·√(sampling variance + noise variance), both estimated from the released counts; for AUC and
calibration by redrawing with a public seed. They are too short where noise dominates (a noisy Σr² below 0 gave R² = 1 for
certain), which is why the second format exists; an old record must still be recomputed as it was made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import numpy as np
from scipy.special import ndtri

from dperm.evaluation.metrics import roc
from dperm.evaluation.plan import noise_scales
from dperm.privacy import Gaussian, gaussian_mu
from dperm.problem.specs import number
from dperm.release.noise import gaussian_scale
from dperm.release.plan import Plan, Released, Shape, Stage, Target, Vector
from dperm.release.record import CalibrationRow, EvaluationRecord, Known, Metrics, NoiseRecord, ReceiptRecord, bar
from dperm.walk.certificate import noise_stated, promised, target_spec
from dperm.walk.claims import plain

FORMAT = "dperm-evaluation/1"
REDRAWS = 400
# ℓ2-sensitivities of the stages of each kind: (replacing a row, otherwise).
COUNTS = (math.sqrt(2.0), 1.0)
STAGES = {
    "binary": {"answers": COUNTS, "scores": COUNTS},
    "multiclass": {"answers": COUNTS},
    "regression": {"moments": (math.sqrt(11.0), math.sqrt(5.0))},
}


def plan_first(kind: str, bins: int, shape: Shape, target: Target) -> Plan:
    """μ² shared equally by the stages, as in the first format."""
    if target.delta == 0 or not (isinstance(bins, int) and not isinstance(bins, bool) and 2 <= bins <= 200):
        raise ValueError("the first format needs delta > 0 and 2 ≤ bins ≤ 200")
    listed = STAGES[kind]
    mu = gaussian_mu(target.epsilon, target.delta) / math.sqrt(len(listed)) * (1 - 1e-12)
    stages = []
    for name, (replaced, nulled) in listed.items():
        sensitivity = replaced if target.relation == "replace-one" else nulled
        settings = {"scale": gaussian_scale(sensitivity * target.rows_per_person, mu)}
        stages.append(Stage(name, Gaussian(mu), settings))
    return Plan("evaluation", {"kind": kind, "bins": bins}, tuple(stages), target, shape)


def record_first(
    plan: Plan, stated: EvaluationRecord, noise: NoiseRecord, receipt: ReceiptRecord | None
) -> EvaluationRecord:
    """The record in the first format that follows from the plan and the stated releases."""
    target, kind = plan.target, stated["kind"]
    listed = {stage.name: np.atleast_1d(stated["released"][stage.name]).tolist() for stage in plan.stages}
    released: Released = {name: [number(value, name) for value in values] for name, values in listed.items()}
    unit = "person" if target.rows_per_person > 1 else "row"
    record: EvaluationRecord = {
        "format": FORMAT,
        "statement": f"({target.epsilon:g}, {target.delta:g})-differential privacy of the scores per {unit} ({target.relation})",
        "guarantee": promised(plan, unit),
        "target": target_spec(target, older=True),
        "shape": {"n": plan.shape.n, "d": plan.shape.d},
        "kind": kind,
        "bins": stated["bins"],
        "level": stated["level"],
        "range": stated["range"] if kind == "regression" else None,
        "model": stated["model"],
        "stages": [plain(stage.spec()) for stage in plan.stages],
        "released": released,
        "metrics": metrics(plan, released, stated["range"], stated["level"]),
        "noise": noise_stated(noise),
    }
    if receipt is not None:
        record["ledger"] = receipt
    return record


def metrics(plan: Plan, released: Released, span: tuple[float, float] | None, level: float) -> Metrics:
    """Every score that the releases of this plan support."""
    scale = noise_scales(plan)
    z = float(ndtri((1 + level) / 2))
    counts = {name: np.asarray(values, dtype=np.float64) for name, values in released.items()}
    if plan.options["kind"] == "regression":
        if span is None:
            raise ValueError("the range of the target is missing")
        return cast(Metrics, _regression(counts["moments"], scale["moments"], span, z))
    found: dict[str, object] = {"accuracy": accuracy(counts["answers"], scale["answers"], z)}
    if plan.options["kind"] == "binary":
        table = counts["scores"].reshape(2, int(number(plan.options["bins"], "bins")))
        found["auc"] = _redrawn(auc, table, scale["scores"], z, (0.0, 1.0))
        found["calibration error"] = _redrawn(calibration_error, table, scale["scores"], z, (0.0, 1.0))
        found["positive share"] = _redrawn(positive_share, table, scale["scores"], z, (0.0, 1.0))
        found["calibration"] = calibration(table, scale["scores"], z)
        found["roc"] = roc(*table)
    return cast(Metrics, found)


def accuracy(answers: Vector, scale: float, z: float) -> Known:
    """right/(right + wrong) with variance p(1-p)/m + s²(p² + (1-p)²)/m²."""
    right, wrong = (max(0.0, float(v)) for v in answers)
    rows = max(right + wrong, 1.0)
    p = right / rows
    # A share that happens to be 0 or 1 is not certain: the usual two extra answers of each kind.
    q = (right + 2) / (rows + 4)
    spread = math.sqrt(q * (1 - q) / rows + scale**2 * (p * p + (1 - p) ** 2) / rows**2)
    return bar(p, z * spread, 0.0, 1.0)


def auc(table: Vector) -> float:
    """P(score of a positive > score of a negative) + ½P(same bin), from counts of negatives and positives per bin."""
    negative, positive = np.maximum(table, 0.0)
    pairs = negative.sum() * positive.sum()
    if pairs <= 0:
        return 0.5
    below = np.cumsum(negative) - negative
    return float(positive @ (below + negative / 2) / pairs)


def _bin_means(table: Vector) -> tuple[Vector, Vector, Vector]:
    bins = table.shape[1]
    total = table.sum(axis=0)
    middle = (np.arange(bins) + 0.5) / bins
    return total, middle, table[1]


def calibration_error(table: Vector) -> float:
    """Σ_bins |positives - count·middle of the bin| / Σ count: the expected calibration error up to half a bin's width."""
    total, middle, positive = _bin_means(table)
    return float(np.abs(positive - total * middle).sum() / max(float(np.maximum(total, 0).sum()), 1.0))


def positive_share(table: Vector) -> float:
    return float(max(table[1].sum(), 0.0) / max(float(table.sum()), 1.0))


def calibration(table: Vector, scale: float, z: float) -> list[CalibrationRow]:
    """Observed share of positives per bin, for bins whose count stands out of the noise (five deviations)."""
    total, middle, positive = _bin_means(table)
    rows: list[CalibrationRow] = []
    for k in np.flatnonzero(total > 5 * math.sqrt(2) * scale):
        share = float(np.clip(positive[k] / total[k], 0, 1))
        q = (max(positive[k], 0.0) + 1) / (total[k] + 2)
        noise = scale**2 * (share**2 + (1 - share) ** 2) / total[k] ** 2
        reach = z * math.sqrt(max(q * (1 - q), 0.0) / total[k] + noise)
        low, high = max(0.0, share - reach), min(1.0, share + reach)
        rows.append({"predicted": float(middle[k]), "observed": share, "low": low, "high": high})
    return rows


def _redrawn(score: Callable[[Vector], float], table: Vector, scale: float, z: float, bounds: tuple[float, float]) -> Known:
    """The score, less the bias that redrawing shows, ± z deviations of the redrawn scores."""
    generator = np.random.Generator(np.random.Philox(2026))
    base = np.maximum(table, 0.0)
    drawn = generator.poisson(base, (REDRAWS, *table.shape)) + scale * generator.standard_normal((REDRAWS, *table.shape))
    values = np.array([score(one) for one in drawn])
    value = score(table)
    bias = float(values.mean()) - score(base)
    return bar(value - bias, z * float(values.std()), *bounds)


def _regression(sums: Vector, scale: float, span: tuple[float, float], z: float) -> dict[str, Known]:
    low, high = span
    rows = max(float(sums[4]), 1.0)
    square, error, mean, second = (float(value) / rows for value in sums[:4])
    width = high - low

    def deviation(value: float, spread: float) -> float:
        """Of a mean over rows: sampling (the largest variance that a variable in its range with this mean can have) and noise."""
        return math.sqrt(max(spread, 0.0) / rows + scale**2 * (1 + value * value) / rows**2)

    square = min(max(square, 0.0), 1.0)
    # Var r² ≤ m(1 - m) for r² in [0, 1] (Bhatia and Davis); Var r ≤ E r².
    d_square, d_error = deviation(square, square * (1 - square)), deviation(error, square)
    variance = max(second - mean * mean, 1e-12)
    d_variance = math.hypot(deviation(second, second * (1 - second)), 2 * abs(mean) * deviation(mean, second))
    # r is in units of the range, u of half the range: (Σr²)/(Σ(u-ū)²)·4.
    ratio = 4 * square / variance
    d_ratio = ratio * math.hypot(d_square / max(square, 1e-12), d_variance / variance)
    root = math.sqrt(square)
    r_square: Known = {
        "value": min(1.0, 1 - ratio),
        "low": 1 - ratio - z * d_ratio,
        "high": min(1.0, 1 - ratio + z * d_ratio),
    }
    rms = [width * math.sqrt(min(max(square + side * z * d_square, 0.0), 1.0)) for side in (-1, 1)]
    return {
        "r2": r_square,
        "root mean squared error": {"value": width * root, "low": rms[0], "high": rms[1]},
        "mean error": {"value": width * error, "low": width * (error - z * d_error), "high": width * (error + z * d_error)},
    }
