"""Every estimator by every method that its problem admits, every relation, dense, sparse and named rows; and bad input."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import dperm
from dperm.mechanisms import UnmetNeeds
from dperm.privacy import RELATIONS
from estimator_cases import ESTIMATORS, LACKING, METHODS, N, build, rows


def stored(X: np.ndarray, form: str) -> Any:
    if form == "sparse":
        return sparse.csr_array(X)
    return pd.DataFrame(X, columns=["one", "two", "three"]) if form == "pandas" else X


def check(model: Any, X: Any, relation: str) -> None:
    verdict = model.certificate_.verify(allow_seeded=True)
    assert verdict.ok, verdict.reasons
    assert model.certificate_.relation == relation
    assert model.certificate_.record["guarantee"]["composed_epsilon"] <= 2.0 * (1 + 1e-9)
    assert np.isfinite(model.w_).all()
    answers = model.predict(X)
    assert len(answers) == N
    if answers.dtype.kind == "f":
        assert np.isfinite(answers).all()


@pytest.mark.parametrize(("name", "method"), [(name, method) for name, found in METHODS.items() for method in found])
def test_every_method_and_relation(name: str, method: str) -> None:
    X, y = rows(name)
    for relation in RELATIONS:
        nominal = N if relation == "add-remove" else None
        chosen = build(name, method=method, relation=relation, nominal_n=nominal)
        if (name, method, relation) in LACKING:
            with pytest.raises(UnmetNeeds, match=relation):
                chosen.fit(X, y)
        else:
            check(chosen.fit(X, y), X, relation)


@pytest.mark.parametrize(("name", "form"), list(itertools.product(ESTIMATORS, ["dense", "sparse", "pandas"])))
def test_every_form_of_rows(name: str, form: str) -> None:
    X, y = rows(name)
    given = stored(X, form)
    model = build(name, relation="zero-out").fit(given, y)
    check(model, given, "zero-out")
    if form == "pandas":
        assert model.feature_names_in_.tolist() == ["one", "two", "three"] == model.get_feature_names_out().tolist()
        with pytest.raises(ValueError, match="feature names"):
            model.predict(given.rename(columns={"one": "uno"}))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_methods_that_do_not_apply_say_why(name: str) -> None:
    X, y = rows(name)
    for method in dperm.mechanisms.MECHANISMS:
        if method in METHODS[name]:
            continue
        message = ""
        try:  # a theorem may apply although the table does not list it: then it must verify like the others
            check(build(name, method=method, relation="replace-one").fit(X, y), X, "replace-one")
        except ValueError as refusal:
            message = str(refusal)
        assert not message or message.startswith("Expected"), message
    with pytest.raises(ValueError, match=r"Expected.*method"):
        build(name, method="no such method").fit(X, y)


# -- bad input: a public rule or a clear error; never a crash, a NaN coefficient or a silent loss of a guarantee -----------------


@pytest.mark.parametrize("name", ESTIMATORS)
def test_hostile_cells_follow_public_rules(name: str) -> None:
    """Missing, infinite and huge cells, labels outside their bounds or classes, constant columns: no error tells of a row."""
    X, y = rows(name)
    X = X.copy()
    X[:4, 0] = [np.nan, np.inf, -np.inf, 1e300]
    X[:, 2] = 0.5  # constant
    labels = np.asarray(y, dtype=object)
    labels[:3] = [None, "zebra", "zebra"] if "classes" in ESTIMATORS[name][1] else [np.nan, 1e12, -1e12]
    if "classes" not in ESTIMATORS[name][1]:
        labels = labels.astype(float)
    model = build(name, relation="zero-out").fit(X, labels)
    check(model, X, "zero-out")
    assert np.isfinite(model.w_).all() and len(model.predict(X)) == len(X)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("case", ["one class", "one row", "more columns than rows"])
def test_thin_data(name: str, case: str) -> None:
    X, y = rows(name)
    if case == "one class":
        y = np.full(N, y[0])
    elif case == "one row":
        X, y = X[:1], y[:1]
    else:
        X, y = np.random.default_rng(1).uniform(-1, 1, (20, 40)), y[:20]
    model = build(name, relation="zero-out").fit(X, y)
    assert np.isfinite(model.w_).all() and model.certificate_.verify(allow_seeded=True).ok
    assert len(model.predict(X)) == len(X)


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "network"])
def test_weights(name: str) -> None:
    X, y = rows(name)
    weight = np.ones(N)
    weight[:3] = [-5.0, np.nan, 1e9]  # cut into [0, 2]
    model = build(name, relation="zero-out", max_weight=2.0).fit(X, y, sample_weight=weight)
    check(model, X, "zero-out")
    with pytest.raises(ValueError, match="max_weight"):
        build(name).fit(X, y, sample_weight=weight)
    with pytest.raises(ValueError, match="one weight per row"):
        build(name, max_weight=2.0).fit(X, y, sample_weight=weight[:-1])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_person_level(name: str) -> None:
    X, y = rows(name)
    people = np.arange(N) // 3
    model = build(name, relation="zero-out", max_rows_per_person=2).fit(X, y, groups=people)
    check(model, X, "zero-out")
    assert model.certificate_.unit == "person"


def test_duplicate_and_unknown_columns() -> None:
    X, y = rows("linear")
    twice = pd.DataFrame(X, columns=["one", "one", "two"])
    with pytest.raises(ValueError, match=r"twice|unique|duplicate"):
        build("linear").fit(twice, y)
    colour, size = {"type": "categorical", "levels": ["red", "blue"]}, {"type": "numeric", "low": 0, "high": 1}
    schema = {"columns": {"colour": colour, "size": size}}
    table = pd.DataFrame({"colour": ["red", "green"] * 150, "size": np.linspace(0, 1, N)})
    model = dperm.LinearRegression(2.0, schema=schema, y_bounds=(-3, 3), random_state=0).fit(table, y)
    assert np.isfinite(model.coef_).all()  # a level never seen is the all-zero one-hot
    with pytest.raises(ValueError, match="colour"):
        dperm.LinearRegression(2.0, schema=schema, y_bounds=(-3, 3)).fit(table.drop(columns="colour"), y)
