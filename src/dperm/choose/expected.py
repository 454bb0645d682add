"""What a noise ratio cost on public tables: the expected loss of accuracy or R² against a fit without privacy, with its band.

Measured, not proven: 460 fits of the default estimators, lines on five tables of classes, five of numbers and two of counts,
curves on five tables of numbers and three of classes, ε from 0.1 to 8 (docs/accuracy.md); the lines below are printed by
benchmarks/expected_loss.py. A band holds eight of ten fits whose ratio was within a factor of 2.5. Models that `SCORES` does not
name were not measured on enough tables. Losses below 0 are fits that beat the one without privacy, whose settings are
scikit-learn's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# (noise ratio, low, middle, high)
LOSSES: dict[str, tuple[tuple[float, float, float, float], ...]] = {
    "accuracy": (
        (0.001, -0.00507, -0.00232, 0.00128),
        (0.00178, -0.00507, -0.00232, 0.00128),
        (0.00316, -0.00507, -0.00206, 0.00128),
        (0.00562, -0.005, -0.00184, 0.00128),
        (0.01, -0.00392, -0.00147, 0.00128),
        (0.01778, -0.00392, -0.00098, 0.00185),
        (0.03162, -0.00379, -0.0008, 0.00537),
        (0.05623, -0.00379, 0.00065, 0.00623),
        (0.1, -0.00111, 0.005, 0.00727),
        (0.17783, 0.0049, 0.00613, 0.01367),
        (0.31623, 0.0049, 0.00982, 0.01369),
    ),
    "R²": (
        (0.001, -0.00051, 6e-05, 0.00211),
        (0.00178, -0.00051, 0.00029, 0.0024),
        (0.00316, -0.00039, 0.00074, 0.0038),
        (0.00562, 3e-05, 0.00098, 0.00668),
        (0.01, 0.00031, 0.00199, 0.00715),
        (0.01778, 0.00094, 0.00577, 0.01253),
        (0.03162, 0.00194, 0.00795, 0.05694),
        (0.05623, 0.00194, 0.01009, 0.06097),
    ),
    "D²": (
        (0.001, -0.00112, -0.0008, -0.00027),
        (0.00178, -0.00093, -2e-05, 0.00056),
        (0.00316, -0.00092, 0.00051, 0.00225),
        (0.00562, -0.00092, 0.00051, 0.00225),
        (0.01, 0.00024, 0.00225, 0.00458),
        (0.01778, 0.00102, 0.00513, 0.01397),
        (0.03162, 0.00365, 0.00762, 0.01606),
        (0.05623, 0.00613, 0.01029, 0.02223),
    ),
    "R² of curves": (
        (0.001, -0.00053, 0.0003, 0.02354),
        (0.00178, -0.00039, 0.00212, 0.02354),
        (0.00316, 9e-05, 0.00491, 0.02762),
        (0.00562, 0.00158, 0.00729, 0.04103),
        (0.01, 0.00466, 0.01395, 0.06996),
        (0.01778, 0.00731, 0.01967, 0.10439),
        (0.03162, 0.01139, 0.01967, 0.10539),
        (0.05623, 0.01139, 0.04158, 0.10567),
    ),
    "AUROC of curves": (
        (0.00178, -0.00061, 0.00011, 0.0023),
        (0.00316, -0.00061, 0.00049, 0.0051),
        (0.00562, -0.00061, 0.00135, 0.00531),
        (0.01, -0.00027, 0.00302, 0.00538),
        (0.01778, 0.00301, 0.00646, 0.01944),
        (0.03162, 0.00307, 0.00868, 0.02508),
        (0.05623, 0.00862, 0.01801, 0.02571),
        (0.1, 0.01773, 0.01968, 0.02649),
    ),
}
SCORES = {
    **dict.fromkeys(("LogisticRegression", "LinearSVC"), "accuracy"),
    **dict.fromkeys(("LinearRegression", "Ridge", "HuberRegressor"), "R²"),
    "PoissonRegressor": "D²",
    "GAMRegressor": "R² of curves",
    "GAMClassifier": "AUROC of curves",
}
# What the loss of a score is counted from. Curves have no twin without privacy: at ε = 3 they are within 0.005 of their limit.
TWIN = {True: "the same curves under hardly any noise (the benchmark tables at ε = 3)", False: "a fit without privacy"}


@dataclass(frozen=True)
class Expected:
    """A loss of a score with its band; `beyond` where the ratio is larger than any that was measured."""

    score: str
    low: float
    value: float
    high: float
    beyond: bool
    curves: bool = False

    @property
    def sentence(self) -> str:
        if self.beyond:
            return (
                "Such a noise ratio is larger than any on the benchmark tables: expect to lose more than "
                f"{max(self.value, 0):.3f} in {self.score} against {TWIN[self.curves]}."
            )
        loss = f"the same {self.score} as" if self.value < 0.0005 else f"{self.value:.3f} less {self.score} than"
        return (
            f"Expect about {loss} {TWIN[self.curves]}; on the benchmark tables eight of ten fits with such a noise ratio were "
            f"between {_side(self.low)} and {_side(self.high)} it."
        )


def _side(loss: float) -> str:
    """>>> _side(0.0123), _side(-0.002)
    ('0.012 below', '0.002 above')
    """
    return f"{abs(loss):.3f} {'below' if loss >= 0 else 'above'}"


def expected_loss(model: str, ratio: float | None) -> Expected | None:
    """For the models that were measured; between the lines of the table by interpolation in the logarithm of the ratio.

    >>> found = expected_loss("LinearRegression", 0.01)
    >>> found.value, found.beyond, expected_loss("LinearSVC", 2.0).beyond, expected_loss("MedianEstimator", 0.1)
    (0.00199, False, True, None)
    """
    if ratio is None or model not in SCORES:
        return None
    table = np.array(LOSSES[SCORES[model]])
    places = np.log(table[:, 0])
    low, value, high = (float(np.interp(np.log(max(ratio, 1e-9)), places, table[:, column])) for column in (1, 2, 3))
    score, curves, _ = SCORES[model].partition(" of curves")
    return Expected(score, low, value, high, bool(ratio > table[-1, 0]), bool(curves))
