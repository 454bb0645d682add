"""scikit-learn's own checks on explicitly declared instances of every estimator.

The instances declare bounds, classes and label ranges, because nothing is ever read off the data; epsilon is large and the noise
seeded, so that a check of arithmetic is not a check of luck. What cannot hold is listed with its reason. A listed check that
passes fails the test, so the list cannot grow stale.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dperm import (
    EmbeddingClassifier,
    GAMClassifier,
    GAMRegressor,
    HuberRegressor,
    Lasso,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    MLPClassifier,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
)
from dperm.estimators import FiniteClassLearner, MeanEstimator, MedianEstimator

BOUND = "a sample weight needs its declared bound max_weight=, which the check does not set; one read off the data would leak"
CLASSES = "classes are declared once, and the check fits one instance to several sets of labels; reading them off would leak"
NULL_LABEL = "a label that is missing, infinite or undeclared makes a null row by a public rule; an error would tell of one row"

WEIGHTS = {
    f"check_{name}": BOUND
    for name in (
        "sample_weights_pandas_series",
        "sample_weights_not_an_array",
        "sample_weights_list",
        "all_zero_sample_weights_error",
        "sample_weights_shape",
        "sample_weights_not_overwritten",
        "sample_weight_equivalence_on_dense_data",
        "sample_weight_equivalence_on_sparse_data",
    )
}
WEIGHTLESS = "the clip of a gradient would undo weights, so they are refused"
CELL = "a cell that is no number is missing by a public rule; an error would quote one person's cell"
LABELS = {"check_supervised_y_no_nan": NULL_LABEL, "check_dtype_object": CELL}
LIST = "rows in a list need bounds of every column: a number of columns read off the rows would turn with one of them"
REGRESSOR = WEIGHTS | LABELS | {"check_regressors_train": LIST}
CLASSIFIER = LABELS | {
    "check_classifiers_classes": CLASSES,
    "check_classifiers_train": CLASSES,
    "check_classifiers_regression_target": NULL_LABEL,
}
WEIGHTED_CLASSIFIER = WEIGHTS | CLASSIFIER | {"check_classifiers_one_label_sample_weights": BOUND}
FOUR_CLASSES = {name: CLASSES for name in ("check_estimator_sparse_array", "check_estimator_sparse_matrix")}
FLAT = {"check_fit1d": "one column of numbers may come as a flat list: location_ is then a number", "check_dtype_object": CELL}

COMMON: dict[str, Any] = {"bounds": (-10.0, 10.0), "random_state": 0}
REGRESSION: dict[str, Any] = COMMON | {"y_bounds": (-300.0, 300.0)}
INSTANCES: list[tuple[Any, dict[str, str]]] = [
    (
        LogisticRegression(1e4, classes=[0, 1], **COMMON),
        WEIGHTED_CLASSIFIER | FOUR_CLASSES | {"check_class_weight_classifiers": CLASSES},
    ),
    (LinearSVC(1e4, classes=[0, 1, 2], **COMMON), WEIGHTED_CLASSIFIER),
    (
        GAMClassifier(1e4, classes=[0, 1], **COMMON),
        WEIGHTED_CLASSIFIER | FOUR_CLASSES | {"check_class_weight_classifiers": CLASSES},
    ),
    (GAMRegressor(1e4, **REGRESSION), REGRESSOR),
    (LinearRegression(1e4, **REGRESSION), REGRESSOR),
    (Ridge(1e4, regularization=0.01, **REGRESSION), REGRESSOR),
    (Lasso(1e4, **REGRESSION), REGRESSOR),
    (HuberRegressor(1e4, **REGRESSION), REGRESSOR),
    (QuantileRegressor(1e4, **REGRESSION), REGRESSOR),
    (PoissonRegressor(1e4, y_bounds=(0, 300), **COMMON), REGRESSOR),
    (
        MLPClassifier(1e4, classes=[0, 1, 2], hidden=4, steps=10, **COMMON),
        WEIGHTED_CLASSIFIER
        | FOUR_CLASSES
        | {"check_class_weight_classifiers": "the clip of a network's gradient would undo class weights, so they are refused"},
    ),
    (
        EmbeddingClassifier(1e4, classes=[0, 1], steps=20, random_state=0),
        {name: WEIGHTLESS for name in (*WEIGHTS, "check_classifiers_one_label_sample_weights", "check_class_weight_classifiers")}
        | CLASSIFIER
        | FOUR_CLASSES,
    ),
    (FiniteClassLearner(1e4, classes=[0, 1], bounds=(-10, 10), random_state=0), CLASSIFIER),
    (MeanEstimator(1e4, bounds=(-100, 100), random_state=0), FLAT),
    (MedianEstimator(1e4, bounds=(-100, 100), random_state=0), FLAT),
]


def expected(estimator: Any) -> dict[str, str]:
    return next(reasons for instance, reasons in INSTANCES if type(instance) is type(estimator))


# Older scikit-learn has no strict mode; there a stale entry of the lists is not noticed.
STRICT = {"xfail_strict": True} if "xfail_strict" in inspect.signature(parametrize_with_checks).parameters else {}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([instance for instance, _ in INSTANCES], expected_failed_checks=expected, **STRICT)
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("estimator", [type(instance) for instance, _ in INSTANCES], ids=lambda kind: kind.__name__)
def test_nothing_is_read_off_the_data(estimator: type) -> None:
    """Without declarations a fit is refused: there is no fallback to the bounds or classes of the data."""
    with pytest.raises(ValueError, match="Expected"):
        estimator(1.0).fit([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]], [0, 1, 1])
