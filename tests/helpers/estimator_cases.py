"""Every estimator with a small declared problem, the methods that each admits, and rows for it."""

from __future__ import annotations

from typing import Any

import numpy as np

import dperm

N = 300
BINARY: dict[str, Any] = {"classes": [0, 1]}
THREE: dict[str, Any] = {"classes": ["a", "b", "c"]}
REAL: dict[str, Any] = {"y_bounds": (-3, 3)}
COUNTS: dict[str, Any] = {"y_bounds": (0, 20)}
ESTIMATORS: dict[str, tuple[type, dict[str, Any]]] = {
    "logistic": (dperm.LogisticRegression, BINARY),
    "multinomial": (dperm.LogisticRegression, THREE),
    "svc": (dperm.LinearSVC, BINARY),
    "svc of three": (dperm.LinearSVC, THREE),
    "linear": (dperm.LinearRegression, REAL),
    "ridge": (dperm.Ridge, REAL),
    "lasso": (dperm.Lasso, REAL | {"n_nonzero_coefs": 1}),
    "huber": (dperm.HuberRegressor, REAL),
    "quantile": (dperm.QuantileRegressor, REAL | {"quantile": 0.8}),
    "poisson": (dperm.PoissonRegressor, COUNTS),
    "curves": (dperm.GAMClassifier, BINARY),
    "curves for accuracy": (dperm.GAMClassifier, BINARY | {"loss": "hinge"}),
    "curves of numbers": (dperm.GAMRegressor, REAL),
    "robust curves": (dperm.GAMRegressor, REAL | {"loss": "huber"}),
    "curves of three": (dperm.GAMClassifier, THREE),
    "curves of counts": (dperm.GAMRegressor, COUNTS | {"loss": "poisson"}),
    "network": (dperm.MLPClassifier, THREE | {"hidden": 3, "steps": 5}),
}
# What each admits, by theorem; every other registered method must refuse with the list of its needs.
METHODS: dict[str, tuple[str, ...]] = {
    "logistic": ("auto", "gradient", "scaled-gradient", "scaled-objective", "objective"),
    "multinomial": ("auto", "gradient", "scaled-gradient", "objective"),
    "svc": ("auto", "gradient", "scaled-gradient", "objective"),
    "svc of three": ("auto", "gradient", "scaled-gradient"),
    "linear": ("auto", "gradient", "scaled-gradient", "statistics"),
    "ridge": ("auto", "gradient", "scaled-gradient", "statistics"),
    "lasso": ("auto", "selection"),
    "huber": ("auto", "gradient", "scaled-gradient"),
    "quantile": ("auto", "gradient", "scaled-quantile"),
    "poisson": ("auto", "gradient", "scaled-poisson"),
    **{name: ("auto", "additive") for name in ("curves", "curves for accuracy", "curves of numbers", "robust curves")},
    "curves of three": ("auto", "additive"),
    "curves of counts": ("auto", "additive-poisson"),
    "network": ("auto", "network"),
}
# (estimator, method, relation) that lacks something: a minimiser needs a declared bound on a protected number of rows.
LACKING: set[tuple[str, str, str]] = {
    ("logistic", "scaled-objective", "add-remove"),
    *((name, "objective", "add-remove") for name in ("logistic", "multinomial", "svc")),
}


def rows(name: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (N, 3))
    X[rng.random((N, 3)) < 0.3] = 0.0
    score = 2 * X[:, 0] - X[:, 1]
    options = ESTIMATORS[name][1]
    if options.get("classes") == [0, 1]:
        return X, (score > 0).astype(int)
    if "classes" in options:
        return X, np.array(["a", "b", "c"])[np.digitize(score, [-0.5, 0.5])]
    if name in ("poisson", "curves of counts"):
        return X, rng.poisson(np.exp(score))
    return X, score + 0.1 * rng.normal(size=N)


def build(name: str, **options: Any) -> Any:
    kind, declared = ESTIMATORS[name]
    return kind(**({"epsilon": 2.0, "bounds": (-1, 1), "random_state": 0} | declared | options))
