"""What a paid evaluation reads of a row is a function of that row: no other row's coming or going moves a bit of it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import dperm
from dperm.evaluation.rows import question_of, scored_rows
from dperm.evaluation.terms import Answers
from dperm.rows.base import Block
from estimator_cases import ESTIMATORS, build, rows

CUTS = (slice(0, 1), slice(1, 2), slice(7, 8), slice(1, None), slice(0, -1), slice(100, 133), slice(3, 250, 2))


def embedded(d: int = 65, classes: int = 5) -> tuple[Any, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, d)), rng.integers(0, classes, 300)
    return dperm.EmbeddingClassifier(5.0, classes=range(classes), steps=3, random_state=0).fit(X, y), X, y


# An evaluation asks for probabilities, which curves for accuracy refuse.
@pytest.mark.parametrize("name", [*(name for name in ESTIMATORS if name != "curves for accuracy"), "embeddings"])
def test_the_numbers_of_a_row_are_those_it_has_alone(name: str) -> None:
    if name == "embeddings":
        model, X, y = embedded()
    else:
        X, y = rows(name)
        model = build(name).fit(X, y)
    question = question_of(model)
    whole, known = scored_rows(model, question, X, y)
    for cut in CUTS:
        part, counted = scored_rows(model, question, X[cut], y[cut])
        assert np.array_equal(part, whole[cut]) and np.array_equal(counted, known[cut])


@pytest.mark.parametrize("n", [2, 65, 652, 1025])
def test_one_embedding_less_turns_no_tie_of_the_others(n: int) -> None:
    """Two classes whose coefficients mirror each other, and rows that are their own mirror image: only rounding could decide. In
    a product of float matrices it did, by how many rows there were: of two rows one went, and the count moved by both."""
    d, rng = 768, np.random.default_rng(1)
    model = copy.copy(embedded(d, 2)[0])
    model.w_ = np.stack([model.w_[0], model.w_[0][::-1]])
    half = rng.normal(size=(n, d // 2))
    X, y = np.hstack([half, half[:, ::-1]]), np.ones(n, dtype=int)
    question, term = question_of(model), Answers(2, True)
    found = []
    for part in (slice(None), slice(1, None), slice(0, n - 1)):
        read, known = scored_rows(model, question, X[part], y[part])
        found.append(term(Block(read, np.zeros(len(read)), known, 0)))
    for other in found[1:]:
        assert np.linalg.norm(found[0] - other) <= term.sensitivity("add-remove") * (1 + 1e-9)
