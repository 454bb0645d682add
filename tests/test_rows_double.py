"""Add-remove: a removed row shifts all later ones, and the computed sum must still move by that row alone."""

from __future__ import annotations

import numpy as np
import pytest

from dperm.problem import DataBounds, Interval, LogisticLoss
from dperm.rows import BLOCK_ROWS, MemoryRows, sum_step
from dperm.rows.double import DoubleRows
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm
from dperm.terms.network import Inputs, Layout, NetworkGradient, RowMap

N = 12 * BLOCK_ROWS
DATA = DataBounds(1.0, Interval(-1.0, 1.0), 1.0)


def excess(term, X, y, relation: str) -> float:
    """‖Σ(all) - Σ(all but the first) - (first alone)‖ in units of the clip, as the driver sums them."""

    def total(part: slice) -> np.ndarray:
        rows = MemoryRows(X[part], y[part], np.ones(len(y[part]))).bounded(DATA)
        held = DoubleRows(rows) if relation == "add-remove" else rows
        return held.sum(term, sum_step(term.row_bound, N))

    whole, rest, first = (total(part) for part in (slice(None), slice(1, None), slice(0, 1)))
    return float(np.linalg.norm(whole - rest - first)) / term.row_bound


def gradient() -> GradientTerm:
    return GradientTerm(LogisticLoss(), np.array([0.3, -0.2, 0.1, 0.4]), 0.5, Features(1.0))


def network(wide: bool) -> NetworkGradient:
    generator = np.random.default_rng(1)
    layout = Layout(2, 4, 2)
    directions = generator.normal(size=(3, 2)).astype(np.float32)
    return NetworkGradient(Inputs(RowMap(False, 1.0), directions, 4.0), layout, generator.normal(size=layout.size), 0.3, wide)


@pytest.fixture
def rows():
    X = np.random.default_rng(0).uniform(0.3, 0.57, (N, 3)).astype(np.float32)
    return X, np.ones(N)


@pytest.mark.parametrize("term", [gradient(), network(True)], ids=["gradient", "network"])
def test_a_removed_row_moves_the_sum_by_itself(rows, term):
    assert excess(term, *rows, "add-remove") < 2e-6


@pytest.mark.parametrize("term", [gradient(), network(False)], ids=["gradient", "network"])
def test_float32_runs_would_not_do(rows, term):
    """Why: in float32 every run is cut elsewhere. The excess grows with √n."""
    assert excess(term, *rows, "zero-out") > 2e-5
