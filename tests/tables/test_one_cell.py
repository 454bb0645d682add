"""One row's label, weight or cell moves a sum by no more than one row may, and no fitted model keeps who its rows belong to."""

from __future__ import annotations

import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dperm import FiniteClassLearner, LinearRegression, LogisticRegression, MeanEstimator
from dperm.estimators.search import PrivateGridSearch
from dperm.estimators.search_rows import row_scores
from dperm.problem import DataBounds, Interval, LogisticLoss
from dperm.release.ledger.book import Ledger
from dperm.rows.base import sum_step
from dperm.rows.device import DeviceRows
from dperm.rows.memory import MemoryRows
from dperm.tables.cells import codes, numbers
from dperm.tables.labels import bounded_labels, classify, label_column
from dperm.tables.persons import person_weights
from dperm.tables.tables import parsed
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm

X = np.random.default_rng(0).uniform(-1, 1, (60, 1))
Y = (X[:, 0] > 0).astype(int)


def base(**options: object) -> LogisticRegression:
    return LogisticRegression(**({"bounds": (-1, 1), "classes": [0, 1], "relation": "zero-out", "method": "gradient"} | options))


@pytest.mark.filterwarnings("ignore:A column-vector y")
def test_labels_in_a_column_are_scored_once_per_row() -> None:
    """A score of shape (n, n) has n times the sensitivity that its noise is made for."""
    model = base(random_state=0).fit(X, Y)
    assert row_scores(model, X, Y[:, None]).shape == (60,)
    line = LinearRegression(bounds=(-1, 1), y_bounds=(-1, 1), method="gradient", random_state=0).fit(X, X[:, 0])
    assert np.array_equal(row_scores(line, X, X), row_scores(line, X, X[:, 0]))


def test_a_word_among_the_labels_of_a_regression_is_a_missing_label_to_the_score() -> None:
    line = LinearRegression(bounds=(-1, 1), y_bounds=(-1, 1), method="gradient", random_state=0).fit(X, X[:, 0])
    labels = X[:, 0].astype(object)
    labels[3] = "secret"
    assert row_scores(line, X, labels)[3] == 0 and np.isfinite(row_scores(line, X, labels)).all()


def test_a_search_refuses_before_its_debit(tmp_path) -> None:
    def searched(estimator: LogisticRegression, **options: object) -> PrivateGridSearch:
        ledger = Ledger.create(
            tmp_path / f"{len(list(tmp_path.iterdir()))}.ledger", dataset="x", epsilon=20, delta=1e-5, relation=estimator.relation
        )
        found = PrivateGridSearch(estimator, {"radius": [1.0]}, epsilon=5, delta=1e-6, expected_runs=3, ledger=ledger)
        return found.set_params(**options)

    for search, message in (
        (searched(base(), noise="exact"), "Gaussian noise only"),
        (searched(base(relation="add-remove")), "nominal_n="),
        (searched(base(max_rows_per_person=2)), "groups="),
    ):
        with pytest.raises(ValueError, match=message):
            search.fit(X, Y)
        assert search.ledger.account().fits == 0


def test_one_word_does_not_change_how_other_cells_read() -> None:
    alone, beside = [True, False, True], [True, False, "x"]
    for classes in ([0, 1], [False, True]):
        first, second = (classify(label_column(y, 3), np.asarray(classes)) for y in (alone, beside))
        assert np.array_equal(first[0][:2], second[0][:2]) and second[1].tolist() == [1, 1, 0]
    assert codes(label_column([0.0, 1.0, "x"], 3), [0, 1]).tolist() == [0, 1, -1]
    assert numbers([True, 0.5, "x"])[:2].tolist() == numbers([True, 0.5])[:2].tolist() == [1.0, 0.5]
    first, second = (parsed([[True, 1.5], [False, cell]], 2) for cell in ("x", 2.0))
    assert first[:, 0].tolist() == second[:, 0].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("odd", [1j, [1, 2], np.array([1, 2]), pd.NA, Decimal("sNaN"), {"a": 1}, 10**400, "x"])
def test_an_odd_label_is_a_missing_one_in_lists_and_arrays(odd: object) -> None:
    """No error: it would tell that somebody has such a label, and NumPy's own prints everybody's."""
    labels = [0, 1, 1, None]
    labels[3] = odd
    array = np.empty(4, dtype=object)
    for place, label in enumerate(labels):
        array[place] = label
    for y in (labels, array):
        assert classify(label_column(y, 4), np.array([0, 1]))[1].tolist() == [1, 1, 1, 0]
        assert bounded_labels(label_column(y, 4), (0, 2))[1].tolist()[:3] == [1, 1, 1]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308])
@pytest.mark.parametrize("margins", [1, 3])
def test_a_weight_that_is_no_number_moves_a_sum_by_at_most_the_clip(bad: float, margins: int) -> None:
    from dperm.problem import MultinomialLoss

    loss = LogisticLoss() if margins == 1 else MultinomialLoss(classes=3)
    y, interval = (2.0 * Y - 1, Interval(-1, 1)) if margins == 1 else (Y, Interval(0, 2))
    term = GradientTerm(loss, np.zeros(margins), 0.3, Features())
    weight = np.ones(60)
    weight[7] = bad
    data, step = DataBounds(1.0, interval), sum_step(0.3, 60)
    without = np.delete(np.arange(60), 7)
    rest = MemoryRows(X[without], y[without]).bounded(data).sum(term, step)
    torch = pytest.importorskip("torch")
    for rows in (MemoryRows(X, y, weight), DeviceRows(torch.tensor(X), torch.tensor(y), torch.tensor(weight))):
        moved = rows.bounded(data).sum(term, step) - rest
        assert np.linalg.norm(moved) <= 0.3 * 1.001


@pytest.mark.parametrize("kind", [LogisticRegression, FiniteClassLearner, MeanEstimator])
def test_a_protected_number_of_rows_is_in_no_error(kind: type) -> None:
    """δ = 0.1 is above 1/60: that refusal would state n."""
    options = {"bounds": (-1, 1), "relation": "add-remove", "delta": 0.1} | ({} if kind is MeanEstimator else {"classes": [0, 1]})
    with pytest.raises(ValueError, match="nominal_n="):
        kind(**options).fit(X, Y)


def test_weights_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="one weight per row"):
        MemoryRows(X, Y, np.ones((60, 1)))


def test_weights_and_ids_in_a_table_are_refused_and_in_lists_of_their_own_read() -> None:
    """All of them were missing cells, and the fit that of no rows."""
    weighed = base(max_weight=2.0, random_state=0)
    persons = base(max_rows_per_person=1, random_state=0)
    values = np.arange(60) / 30
    for table in (pd.DataFrame({"w": values}), pa.table({"w": values})):
        with pytest.raises(ValueError, match="one column, found a table"):
            weighed.fit(X, Y, table)
        with pytest.raises(ValueError, match="one column, found a table"):
            persons.fit(X, Y, groups=table)
    nested = [[value] for value in values.tolist()]
    assert np.array_equal(weighed.fit(X, Y, nested).w_, weighed.fit(X, Y, values).w_)
    assert np.array_equal(persons.fit(X, Y, groups=nested).w_, persons.fit(X, Y, groups=values).w_)


def test_a_finite_class_forgets_who_its_rows_belong_to() -> None:
    people = np.array([f"person-{i // 2}" for i in range(60)], dtype=object)  # NumPy pickles fixed-width text in other bytes
    learner = FiniteClassLearner(bounds=(-1, 1), classes=[0, 1], max_rows_per_person=2, random_state=0)
    learner.fit(X, Y, groups=people)
    assert b"person-7" not in pickle.dumps(learner) and len(learner.predict(X)) == 60


def test_rows_without_an_owner_count_for_nobody() -> None:
    """As rows of one person they would make room for each other: then nulling one person moves two persons' rows."""
    for people in (["a", None, "", "a"], ["a", np.nan, "nan", "a"], [7, None, float("nan"), 7]):
        weight, rows = person_weights(people, 1, None, 4)
        assert weight.tolist() == [1.0, 0.0, 0.0, 0.0] and rows == 1


def test_one_missing_id_does_not_merge_other_persons() -> None:
    large = [2**60 + 1, 2**60 + 2, 2**60 + 1]
    assert person_weights(large, 1, None, 3)[0].tolist() == [1.0, 1.0, 0.0]
    assert person_weights([*large, float("nan")], 1, None, 4)[0].tolist() == [1.0, 1.0, 0.0, 0.0]
    for other in ("x", 2):  # 1 and 1.0 are one person, whoever else is there
        assert person_weights([1, 1.0, other], 1, None, 3)[0].tolist() == [1.0, 0.0, 1.0]


def test_rows_of_an_engine_refuse_a_bound_per_person_that_they_would_ignore() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="max_rows_per_person"):
        base(max_rows_per_person=2).fit(torch.tensor(X), torch.tensor(Y))


def test_a_seeded_curvature_matrix_says_that_it_is_not_private() -> None:
    rows = np.random.default_rng(1).uniform(-1, 1, (3000, 1))
    labels = (rows[:, 0] > 0).astype(int)
    model = base(method="objective", epsilon=3.0).fit(rows, labels)
    assert "NOT PRIVATE" not in model.release_information(rows, labels, epsilon=1.0).information_.statement
    assert "NOT PRIVATE" in model.release_information(rows, labels, epsilon=1.0, random_state=0).information_.statement


def test_a_search_cannot_call_a_seeded_run_secure() -> None:
    search = PrivateGridSearch(base(), {"radius": [1.0]}, epsilon=5, delta=1e-6, expected_runs=3).fit(X, Y)
    assert search.certificate_.verify().ok
    record = {**search.certificate_.record}
    seeded = base(random_state=0, epsilon=record["run"]["fit_epsilon"], delta=1e-6, radius=1.0).fit(X, Y)
    record["best"] = seeded.certificate_.record
    reasons = type(search.certificate_)(record).verify().reasons
    assert any("another kind of noise" in reason for reason in reasons)
    assert not type(search.certificate_)({**search.certificate_.record, "settings": 7}).verify().ok
