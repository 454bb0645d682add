"""Whole fits on two neighbouring tables at once: every sum that is answered with noise differs by its sensitivity at most.

Options meet here as they meet in use: curves, intervals, private bounds, weights, exposures, missing cells, persons with more
rows than count, each under every relation. Terms are tested one by one elsewhere; this finds what a fit does around them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import dperm
from dperm.estimators import base, embedding
from dperm.mechanisms import ScaledHeads
from dperm.privacy import RELATIONS
from dperm.release import driver
from dperm.rows.embeddings import EmbeddingRows
from dperm.rows.memory import MemoryRows

N, K, OF_A_PERSON = 2000, 2, 4


class FirstTable(Exception):
    """The rows of the neighbour are known, and nothing was summed yet."""


@dataclass
class Twins:
    """What both tables said to each sum, and how far apart sums were in units of their sensitivity."""

    neighbour: Any = None
    apart: np.ndarray | None = None
    worst: dict[str, float] = field(default_factory=dict)

    def rows(self, kind: type[MemoryRows]) -> type[MemoryRows]:
        twins = self

        class Twin(kind):  # type: ignore[misc, valid-type]
            def __init__(self, *given: Any, **options: Any) -> None:
                super().__init__(*given, **options)
                if twins.neighbour is None:
                    twins.neighbour = kind(*given, **options)
                    raise FirstTable
                self.other = twins.neighbour

            def bounded(self, *given: Any) -> Any:
                found = object.__new__(Twin)
                found.__dict__ |= super().bounded(*given).__dict__ | {"other": self.other.bounded(*given)}
                return found

            def sum(self, term: Any, step: float) -> Any:
                found = super().sum(term, step)
                twins.apart = np.asarray(found) - np.asarray(self.other.sum(term, step))
                return found

        return Twin


@pytest.fixture
def twins(monkeypatch: pytest.MonkeyPatch) -> Twins:
    found, exact = Twins(), driver._Run._exact

    def compared(run: Any, term: Any, rows: Any) -> Any:
        found.apart = None
        value = exact(run, term, rows)
        if found.apart is not None:
            name, ratio = type(term).__name__, float(np.linalg.norm(found.apart)) / run._sensitivity(term)
            found.worst[name] = max(found.worst.get(name, 0.0), ratio)
        return value

    monkeypatch.setattr(driver._Run, "_exact", compared)
    monkeypatch.setattr(base, "MemoryRows", found.rows(MemoryRows))
    monkeypatch.setattr(embedding, "EmbeddingRows", found.rows(EmbeddingRows))
    return found


Make = Callable[..., Any]
INSIDE = {"bounds": (-1, 1)}
COUNTS = {"y_bounds": (0, 20), "max_exposure": 2.0}
WIDE = ScaledHeads(kinds=("numeric",) * 3, gaps=(0, 1, 2), steps=20, wide=True)
CASES: dict[str, tuple[Make, dict[str, Any], tuple[float, float], str]] = {
    "curves and weights": (dperm.GAMClassifier, {**INSIDE, "classes": [0, 1], "max_weight": 2.0}, (1, 0), "weight"),
    "curves of three classes": (dperm.GAMClassifier, {**INSIDE, "classes": [0, 1, 2]}, (2, 0), ""),
    "curves of a number": (dperm.GAMRegressor, {**INSIDE, "y_bounds": (-3, 3)}, (-3, 1e300), ""),
    "curves of counts": (dperm.GAMRegressor, {**INSIDE, **COUNTS, "loss": "poisson"}, (0, 1e300), "exposure"),
    "counts and intervals": (dperm.PoissonRegressor, {**INSIDE, **COUNTS, "intervals": True}, (0, 1e300), "exposure"),
    "intervals and weights": (
        dperm.LogisticRegression, {**INSIDE, "classes": [0, 1], "max_weight": 2.0, "intervals": True}, (1, 0), "weight"
    ),
    "intervals of a number": (dperm.LinearRegression, {**INSIDE, "y_bounds": (-3, 3), "intervals": True}, (-3, 1e300), ""),
    "private bounds": (dperm.LogisticRegression, {"bounds": "private", "classes": [0, 1]}, (1, 0), ""),
    "wide": (dperm.LogisticRegression, {**INSIDE, "classes": [0, 1], "method": WIDE}, (1, 0), ""),
    "wide, three classes": (dperm.LogisticRegression, {**INSIDE, "classes": [0, 1, 2], "method": WIDE}, (2, 0), ""),
    "embeddings": (dperm.EmbeddingClassifier, {"classes": [0, 1, 2], "steps": 3}, (2, 0), ""),
    "a network": (dperm.MLPClassifier, {**INSIDE, "classes": [0, 1, 2]}, (2, 0), ""),
}  # fmt: skip


def tables(relation: str, persons: bool, labels: tuple[float, float]) -> list[dict[str, np.ndarray]]:
    """A table in which one row, or all rows of a person, are as far out as declarations let them be; and the neighbour."""
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, (N, 3))
    X[generator.random(X.shape) < 0.05] = np.nan
    who = generator.permutation(np.repeat(np.arange(N // OF_A_PERSON), OF_A_PERSON)).astype(object)
    one = {"X": X, "y": generator.integers(0, 2, N).astype(float), "groups": who}
    one |= {"weight": generator.uniform(0, 2, N), "exposure": generator.uniform(0.5, 2, N)}
    mine = who == 7 if persons else np.arange(N) == 7
    other = {name: column.copy() for name, column in one.items()}
    one["X"][mine], one["y"][mine], one["weight"][mine], one["exposure"][mine] = [1.0, np.nan, 1e300], labels[0], 1e300, 0.01
    if relation == "replace-one":
        other["X"][mine], other["y"][mine], other["weight"][mine], other["exposure"][mine] = [-1.0, -np.inf, 1], labels[1], 2, 9
    elif relation == "zero-out":
        other["y"][mine], other["groups"][mine] = np.nan, None
    else:
        other = {name: column[~mine] for name, column in other.items()}
    return [other, one]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("case", CASES)
def test_no_sum_of_a_fit_moves_by_more_than_its_sensitivity(case: str, relation: str, persons: bool, twins: Twins) -> None:
    make, options, labels, column = CASES[case]
    spent = {"epsilon": 4.0, "relation": relation, "max_rows_per_person": K if persons else None}
    spent["nominal_n"] = N if relation == "add-remove" else None

    def fit(table: dict[str, np.ndarray]) -> None:
        given = {"sample_weight": table["weight"]} if column == "weight" else {}
        given |= {"exposure": table["exposure"]} if column == "exposure" else {}
        make(**options, **spent).fit(table["X"], table["y"], **given, **({"groups": table["groups"]} if persons else {}))

    neighbour, table = tables(relation, persons, labels)
    with pytest.raises(FirstTable):
        fit(neighbour)
    fit(table)
    assert len(twins.worst) > 1 and max(twins.worst.values()) > 0.5  # the rows are far out, and their sums do differ
    assert all(ratio <= 1 + 1e-6 for ratio in twins.worst.values()), twins.worst
