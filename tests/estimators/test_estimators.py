"""The scikit-learn shell: conventions, declarations, public rules for bad rows, clear errors for bad declarations."""

from __future__ import annotations

import copy
import datetime
import pickle
import warnings
from decimal import Decimal

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dperm
from dperm.tables.containers import objects
from dperm.tables.persons import person_weights
from dperm.words.notices import PrivacyWarning


def two_classes(n=600):
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, (n, 3))
    return X, (X @ [2.0, -1.0, 0.5] > 0).astype(int)


def logistic(**changes):
    options = {"epsilon": 5.0, "bounds": (-1, 1), "classes": [0, 1], "random_state": 0, "method": "gradient"}
    return dperm.LogisticRegression(**{**options, **changes})


def linear(**changes):
    options = {"epsilon": 5.0, "bounds": (-1, 1), "y_bounds": (-4, 4), "random_state": 0, "method": "gradient"}
    return dperm.LinearRegression(**{**options, **changes})


def test_coefficients_are_in_the_callers_units():
    generator = np.random.default_rng(1)
    X = np.column_stack([generator.uniform(100, 200, 5000), generator.uniform(-3, 3, 5000)])
    y = 0.05 * X[:, 0] - 0.5 * X[:, 1] + 2
    model = linear(epsilon=1e6, bounds=([100, -3], [200, 3]), y_bounds=(0, 20), method=dperm.Gradient(steps=400, clip=20.0)).fit(
        X, y
    )
    np.testing.assert_allclose(model.coef_, [0.05, -0.5], rtol=0.02)
    np.testing.assert_allclose(X @ model.coef_ + model.intercept_, model.predict(X), rtol=1e-9)


def test_decision_function_is_linear_in_the_original_columns():
    X, y = two_classes()
    model = logistic(bounds=([-1, -2, -1], [1, 1, 3])).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_[0] + model.intercept_[0], atol=1e-9)
    assert model.score(X, y) > 0.85
    assert (model.predict(X) == model.classes_[model.predict_proba(X).argmax(axis=1)]).all()
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(model.predict_proba(X)))


def test_multinomial_learns_and_sums_to_one():
    generator = np.random.default_rng(2)
    X = generator.uniform(-1, 1, (3000, 2))
    y = np.where(X[:, 0] > 0.3, "c", np.where(X[:, 1] > 0, "b", "a"))
    model = logistic(classes=["a", "b", "c"]).fit(X, y)
    assert model.coef_.shape == (3, 2) and model.score(X, y) > 0.7
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_sklearn_tools_work():
    X, y = two_classes()
    model = logistic()
    assert clone(model).get_params() == model.get_params()
    pipeline = make_pipeline(FunctionTransformer(), model).set_output(transform="default")
    assert pipeline.fit(X, y).score(X, y) > 0.8
    with pytest.warns(PrivacyWarning, match="cross_val_score"):
        assert cross_val_score(logistic(), X, y, cv=3).mean() > 0.7
    fitted = pickle.loads(pickle.dumps(model.fit(X, y)))
    np.testing.assert_array_equal(fitted.predict(X), model.predict(X))


def test_unseeded_fits_differ_and_seeded_ones_agree():
    X, y = two_classes()
    secure = [logistic(random_state=None).fit(X, y).coef_ for _ in range(2)]
    assert not np.array_equal(*secure)
    twin = copy.deepcopy(logistic(random_state=None))
    assert not np.array_equal(twin.fit(X, y).coef_, secure[0])
    assert np.array_equal(logistic().fit(X, y).coef_, logistic().fit(X, y).coef_)


def test_sparse_rows_give_the_dense_answer_when_both_are_uncentred():
    X = sparse.random(800, 6, density=0.3, random_state=0, format="csr")
    y = np.asarray(X[:, :3].sum(axis=1)).ravel() > 0.4
    from_sparse = logistic(bounds=(0, 1), sparse="all", classes=[False, True]).fit(X, y)
    from_dense = logistic(bounds=(0, 1), sparse="all", classes=[False, True]).fit(X.toarray(), y)
    np.testing.assert_allclose(from_sparse.coef_, from_dense.coef_, atol=1e-8)
    np.testing.assert_array_equal(from_sparse.predict(X), from_dense.predict(X.toarray()))


def test_names_of_a_data_frame_are_kept():
    import pandas as pd

    X, y = two_classes()
    frame = pd.DataFrame(X, columns=["age", "income", "height"])
    model = logistic(boolean=["height"]).fit(frame, y)
    assert list(model.feature_names_in_) == ["age", "income", "height"]
    assert model.certificate_.record["encoding"]["kinds"] == ["numeric", "numeric", "boolean"]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_a_bad_cell_is_a_public_rule_not_an_error(bad):
    X, y = two_classes()
    clean = logistic().fit(X, y)
    X[0, 0] = bad
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = logistic().fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert model.plan_ == clean.plan_


def test_a_label_outside_the_classes_is_a_null_row():
    X, y = two_classes()
    odd = y.copy()
    odd[5] = 7
    null = X.copy()
    model = logistic().fit(X, odd)
    assert list(model.classes_) == [0, 1]
    # The row's gradient is left out: the same fit with that row's weight at zero.
    other = odd.copy()
    other[5] = 99
    np.testing.assert_array_equal(model.coef_, logistic().fit(null, other).coef_)


def test_a_missing_or_far_label_of_a_regression_is_a_public_rule():
    X, _ = two_classes()
    y = X[:, 0] * 3
    y[0], y[1], y[2] = np.nan, 1e9, -np.inf
    model = linear().fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert np.all((model.predict(X) >= -4) & (model.predict(X) <= 4))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bounds": None}, "public bound on the data"),
        ({"classes": None}, "Expected classes="),
        ({"classes": [1]}, "at least two different classes"),
        ({"classes": [1, 1]}, "at least two different classes"),
        ({"classes": [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)]}, "of type date, which no saved model"),
        ({"classes": np.array(["2020-01-01", "2021-01-01"], "M8[s]")}, "of type datetime, which no saved model"),
        ({"classes": np.array(["2020-01-01", "2021-01-01"], "M8[ns]")}, "of type datetime64, which no saved model"),
        ({"classes": np.array([1, 2], "m8[ns]")}, "of type timedelta64, which no saved model"),
        ({"classes": [Decimal("1.5"), Decimal(2)]}, "of type Decimal, which no saved model"),
        ({"classes": [b"a", b"b"]}, "of type bytes, which no saved model"),
        ({"classes": [1, np.inf]}, "finite numbers"),
        ({"epsilon": 0}, "epsilon > 0"),
        ({"epsilon": -1}, "epsilon > 0"),
        ({"delta": 1.5}, "0 ≤ delta < 1"),
        ({"delta": 0.01}, "1/n"),
        ({"bounds": (1, -1)}, "low < high"),
        ({"bounds": (0, np.inf)}, "finite bounds"),
        ({"bounds": ([0, 0], [1, 1])}, "one number per column"),
        ({"bounds": None, "x_norm": -1}, "x_norm > 0"),
        ({"boolean": [7]}, "column numbers below"),
        ({"boolean": ["age"]}, "to name columns"),
        ({"boolean": "some"}, '"all"'),
        ({"categorical": [[0, 1], [1, 2]]}, "one categorical group"),
        ({"method": "magic"}, "Expected method in"),
        ({"regularization": "strong"}, "regularization"),
        ({"noise": "loud"}, "Expected noise in"),
        ({"relation": "swap"}, "relation in"),
        ({"relation": "add-remove"}, "nominal_n"),
        ({"max_rows_per_person": 3}, "groups="),
        ({"groups": "person"}, "person column"),
    ],
)
def test_wrong_declarations_are_named_before_any_spend(changes, words):
    X, y = two_classes()
    with pytest.raises(ValueError, match=words):
        logistic(**changes).fit(X, y)


@pytest.mark.parametrize(
    ("classes", "labels"),
    [
        (["2020-01-01", "2021-01-01"], [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)]),
        ([1.5, 2], [Decimal("1.5"), Decimal(2)]),
        (["a", "b"], [b"a", b"b"]),
        (["a\0", "a"], ["a\0", "a"]),
        (["\0", "a"], ["\0", "a"]),
    ],
    ids=["dates", "decimals", "bytes", "a nul", "only a nul"],
)
def test_classes_are_compared_with_labels_of_other_types_and_come_back_from_a_file(classes, labels, tmp_path):
    """NumPy's arrays of text drop NULs at the end: two such classes were one, and the model could not be loaded."""
    X, y = two_classes()
    told = objects(labels[place] for place in (np.asarray(y) > 0).astype(int))
    usual = logistic(classes=[0, 1]).fit(X, objects((np.asarray(y) > 0).astype(int)))
    model = logistic(classes=classes).fit(X, told)
    assert model.coef_.tobytes() == usual.coef_.tobytes()
    model.save(tmp_path / "model")
    again = dperm.load(tmp_path / "model")
    assert again.predict(X[:50]).tolist() == model.predict(X[:50]).tolist() == [classes[k] for k in usual.predict(X[:50])]


def test_missing_label_bounds_are_named():
    X, y = two_classes()
    with pytest.raises(ValueError, match="y_bounds"):
        linear(y_bounds=None).fit(X, y)
    for bad in ((1, 0), (0, np.inf), 3):
        with pytest.raises(ValueError, match="y_bounds"):
            linear(y_bounds=bad).fit(X, y)


@pytest.mark.parametrize("shape", [(1, 3), (2, 50), (40, 1)])
def test_odd_shapes_run(shape):
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, shape)
    model = logistic(delta=1e-7).fit(X, np.zeros(len(X), dtype=int))
    assert np.isfinite(model.coef_).all() and model.certificate_.verify(allow_seeded=True)


def test_constant_columns_and_constant_labels_run():
    X = np.zeros((30, 2))
    assert np.isfinite(logistic().fit(X, np.ones(30, dtype=int)).coef_).all()
    assert np.isfinite(linear().fit(X, np.ones(30)).coef_).all()


def test_x_norm_alone_clips_long_rows():
    X, y = two_classes()
    model = logistic(bounds=None, x_norm=0.5).fit(X, y)
    assert model.certificate_.record["problem"]["data"]["x_norm"] == 1.0
    assert model.score(X, y) > 0.8


def test_person_level_privacy_keeps_the_first_rows_and_scales_the_noise():
    X, y = two_classes()
    people = np.repeat(np.arange(200), 3)
    model = logistic(max_rows_per_person=2).fit(X, y, groups=people)
    single = logistic().fit(X, y)
    assert model.certificate_.unit == "person" and single.certificate_.unit == "row"
    assert "replacing one person's rows, of which at most 2 count," in model.certificate_.statement
    noise = [m.plan_.stages[0].settings["noise_of_mean"] / m.plan_.stages[0].settings["clip"] for m in (model, single)]
    steps = [m.plan_.stages[0].settings["steps"] for m in (model, single)]
    assert noise[0] / np.sqrt(steps[0]) == pytest.approx(2 * noise[1] / np.sqrt(steps[1]), rel=1e-9)
    assert model.certificate_.verify(allow_seeded=True)


def test_which_rows_of_a_person_count_depends_on_that_person_alone():
    weights, factor = person_weights(["b", "a", "b", "b", "a"], 2, None, 5)
    assert weights.tolist() == [1, 1, 1, 0, 1] and factor == 2
    with pytest.raises(ValueError, match="max_rows_per_person"):
        person_weights(["a"], None, None, 1)
    with pytest.raises(ValueError, match="one entry per row"):
        person_weights(["a"], 1, None, 2)


@pytest.mark.parametrize("form", ["array", "list", "frame", "numbered frame"])
def test_a_cell_that_is_no_number_is_missing_and_never_quoted(form):
    X, y = two_classes(60)
    cells = X.astype(object)
    cells[3, 1] = "a secret diagnosis"
    options = {"bounds": [(-1, 1)] * 3}
    if form == "list":
        cells = cells.tolist()
    if "frame" in form:
        import pandas as pd

        cells = pd.DataFrame(cells, columns=["a", "b", "c"] if form == "frame" else [0, 1, 2])
    X[3, 1] = np.nan
    np.testing.assert_array_equal(logistic(**options).fit(cells, y).coef_, logistic().fit(X, y).coef_)


@pytest.mark.parametrize("cell", ["a secret word", 10**400, {"a": 1}, float("nan")])
@pytest.mark.parametrize("name", ["LinearRegression", "QuantileRegressor", "PoissonRegressor"])
def test_a_target_that_is_no_number_is_a_missing_label_and_never_an_error(name, cell):
    X, _ = two_classes(200)
    y = np.ones(200, dtype=object)
    y[7] = cell
    missing = np.where(np.arange(200) == 7, np.nan, 1.0)
    options = {"epsilon": 5.0, "bounds": (-1, 1), "y_bounds": (0, 4), "random_state": 0}
    one, other = (getattr(dperm, name)(**options).fit(X, labels) for labels in (y, missing))
    assert np.array_equal(one.coef_, other.coef_)


def test_a_weight_or_exposure_that_is_no_number_counts_as_none():
    X, y = two_classes(200)
    text, null = np.ones(200, dtype=object), np.ones(200)
    text[3], null[3] = "a secret word", 0.0
    one, other = (logistic(max_weight=1.0).fit(X, y, sample_weight=weight) for weight in (text, null))
    assert np.array_equal(one.coef_, other.coef_)
    counts = dperm.PoissonRegressor(5.0, bounds=(-1, 1), y_bounds=(0, 4), max_exposure=1.0, random_state=0)
    one, other = (clone(counts).fit(X, y, exposure=exposure).coef_ for exposure in (text, null))
    assert np.array_equal(one, other)


def test_the_error_about_a_wrong_shape_or_type_quotes_no_value():
    X, y = two_classes(200)
    secret = X[:, 0] + 0.123456789
    wrong = [secret, secret[0], np.asarray(secret[0]), X.astype(complex), sparse.csr_matrix(X.astype(complex))]
    model = logistic().fit(X, y)
    calls = [lambda bad: logistic().fit(bad, y), model.predict]
    calls += [lambda bad: dperm.FiniteClassLearner(classes=[0, 1], bounds=(-1, 1)).fit(bad, y)]
    for bad in wrong:
        for call in calls:
            with pytest.raises(ValueError, match=r"Reshape your data|Complex data not supported") as caught:
                call(bad)
            assert not any(str(digits)[:6] in str(caught.value) for digits in (*secret[:5], *X[:5, 0]))
    with pytest.raises(ValueError, match="Complex data not supported") as caught:
        linear().fit(X, X[:, 0].astype(complex))
    assert str(X[0, 0])[:6] not in str(caught.value)


@pytest.mark.parametrize("d", [8, 50])
@pytest.mark.parametrize("kind", ["two", "three", "curves", "network"])
def test_a_score_follows_from_its_row_alone(d, kind):
    """The same rows, alone and among others: an evaluation sums functions of each row, so no bit may depend on its neighbours."""
    generator = np.random.default_rng(d)
    X = generator.uniform(-1, 1, (1003, d))
    y = generator.integers(0, 3 if kind == "three" else 2, len(X))
    options = {"epsilon": 3.0, "bounds": (-1, 1), "classes": sorted(set(y.tolist())), "random_state": 0}
    method = {"curves": {}, "network": {"steps": 2}}.get(kind, {"method": dperm.Gradient(steps=2)})
    cls = {"curves": dperm.GAMClassifier, "network": dperm.MLPClassifier}.get(kind, dperm.LogisticRegression)
    model = cls(**options, **method).fit(X, y)
    parts = [model.decision_function(X[first : first + 7]) for first in range(0, len(X), 7)]
    np.testing.assert_array_equal(np.concatenate(parts), model.decision_function(X))
