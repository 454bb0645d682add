"""Rows that come without weights, where a largest weight below 1 was declared: each counts for that much and no more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dperm.problem import DataBounds, Interval, LogisticLoss
from dperm.rows.base import sum_step
from dperm.rows.device import DeviceRows
from dperm.rows.memory import MemoryRows
from dperm.terms.affine import Features
from dperm.terms.moments import CrossTerm, GramTerm
from dperm.terms.objective import CappedGradientTerm, MinimiserTerm, WeightedRows
from dperm.terms.statistics import SmoothGradientTerm, WeightedGradientTerm

MOST = 0.5
LOSS, PLAIN = LogisticLoss(), Features()
W = np.array([-50.0, 0.0])  # as wrong about the row as can be: its slope is 1 to the last digits
ROWS = WeightedRows(LOSS, PLAIN, row_radius=1.0, row_cap=1.0, slope=1.0, curvature=0.25, max_weight=MOST)
TERMS: dict[str, Any] = {
    "gradient": WeightedGradientTerm(LOSS, W, 0.7, PLAIN, MOST),
    "gradient in floats": SmoothGradientTerm(LOSS, W, 0.7, PLAIN, MOST),
    "solve": MinimiserTerm(ROWS, W, hessian=False),
    "capped gradient": CappedGradientTerm(ROWS, W),
    "moments": GramTerm(PLAIN, 1.0, max_weight=MOST),
    "products": CrossTerm(PLAIN, 1.0, 1.0, MOST),
}


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("engine", ["memory", "device"])
def test_a_row_without_a_weight_adds_no_more_than_the_largest_weight_allows(name: str, engine: str) -> None:
    term, data = TERMS[name], DataBounds(1.0, Interval(-1.0, 1.0))
    X, y = np.array([[1.0, 0.0]]), np.array([1.0])
    if engine == "device":
        torch = pytest.importorskip("torch")
        rows: Any = DeviceRows(torch.asarray(X), torch.asarray(y)).bounded(data)
    else:
        rows = MemoryRows(X, y).bounded(data)
    added = float(np.linalg.norm(rows.sum(term, sum_step(term.row_bound, 1))))
    assert 0.0 < added <= term.sensitivity("zero-out") * (1 + 1e-6)
