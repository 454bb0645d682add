"""dperm: differentially private empirical risk minimization.

    model = dperm.LogisticRegression(epsilon=1.0, bounds=(low, high), classes=[0, 1]).fit(X, y)
    model.certificate_.verify()

Names are imported when first used, so that `import dperm` is quick.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.9.0"

_PUBLIC = {  # where each public name is at home
    "dperm.estimators": (
        *("LinearRegression", "Ridge", "Lasso", "HuberRegressor", "QuantileRegressor", "PoissonRegressor", "GAMRegressor"),
        *("LogisticRegression", "LinearSVC", "GAMClassifier", "MLPClassifier", "EmbeddingClassifier", "FiniteClassLearner"),
        *("MeanEstimator", "MedianEstimator", "PrivateGridSearch"),
    ),
    "dperm.estimators.model_file": ("load",),
    "dperm.evaluation.evaluate": ("evaluate",),
    "dperm.profiles.profile": ("Profile", "profile"),
    "dperm.walk.fitting": ("Release", "fit", "plan"),
    "dperm.walk.certificate": ("Certificate",),
    "dperm.words.notices": ("PrivacyWarning",),
    "dperm.release.ledger.book": ("Ledger",),
    "dperm.rows": ("ArrowRows", "DaskRows", "DeviceRows", "MemoryRows", "Rows", "SparkRows", "rows_from"),
    "dperm.problem": ("DataBounds", "Interval", "Problem"),
    "dperm.mechanisms": ("Exponential", "Gradient", "Plan", "ScaledGradient", "Shape", "Statistics", "Target", "Zeroth"),
    "dperm.tables.schema": ("Schema",),
}
_HOMES = {name: home for home, names in _PUBLIC.items() for name in names}
_NAMES = {"load": "load_model"}  # where the name at home is longer
_MODULES = ("audit", "estimators", "features", "mechanisms", "privacy", "problem", "rows", "theory")

__all__ = ["__version__", *_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), _NAMES.get(name, name))
    if name in _MODULES:
        return importlib.import_module(f"dperm.{name}")
    hint = "" if name.startswith("_") else importlib.import_module("dperm.words.spelling").closest(name, __all__)
    raise AttributeError(f"module 'dperm' has no attribute {name!r}{'.' if hint else ''}{hint}")


def __dir__() -> list[str]:
    return sorted(__all__)
