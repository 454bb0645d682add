"""scikit-learn's own checks, on instances with everything declared; each check that cannot hold is listed with its reason."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import dperm

DECLARED = {"bounds": (-100, 100), "max_weight": 10.0, "random_state": 0}
CLASSIFIERS = [
    dperm.LinearSVC(50.0, classes=[0, 1], **DECLARED),
    dperm.LogisticRegression(50.0, classes=[0, 1], **DECLARED),
]
REGRESSORS = [
    dperm.LinearRegression(50.0, y_bounds=(-500, 500), **DECLARED),
    dperm.Ridge(50.0, y_bounds=(-500, 500), **DECLARED),
    dperm.HuberRegressor(50.0, y_bounds=(-500, 500), **DECLARED),
]
NOISE = "the check compares scores or coefficients on a few dozen rows; noise that hides each of them changes both"
RULE = "a missing or infinite label is a null row by a public rule: an error about it would be a message about one person"
CLASSES = "the check passes other labels than the declared ones: those rows are null by a public rule, classes_ is as declared"
ZERO = "whether all weights are zero is read off the data, so it cannot become a visible error"
REASONS = {
    "check_sample_weight_equivalence_on_dense_data": NOISE,
    "check_sample_weight_equivalence_on_sparse_data": NOISE,
    "check_all_zero_sample_weights_error": ZERO,
    "check_supervised_y_no_nan": RULE,
}
FOR_CLASSIFIERS = {
    "check_classifiers_classes": CLASSES,
    "check_classifiers_train": CLASSES,
    "check_classifiers_regression_target": CLASSES,
    "check_class_weight_classifiers": CLASSES,
}
FOR_REGRESSORS = {"check_regressors_train": NOISE}


# It counts the columns of predict_proba for the four labels it passes; two are declared.
FOR_PROBABILITIES = {"check_estimator_sparse_array": CLASSES, "check_estimator_sparse_matrix": CLASSES}


def expected(estimator):
    found = REASONS | (FOR_CLASSIFIERS if hasattr(estimator, "classes") else FOR_REGRESSORS)
    return found | (FOR_PROBABILITIES if hasattr(estimator, "predict_proba") else {})


@parametrize_with_checks([*CLASSIFIERS, *REGRESSORS], expected_failed_checks=expected)
@pytest.mark.filterwarnings("default")
def test_scikit_learn(estimator, check):
    check(estimator)
