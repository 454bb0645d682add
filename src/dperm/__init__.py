"""dperm: differentially private empirical risk minimization.

    model = dperm.LogisticRegression(epsilon=1.0, bounds=(low, high), classes=[0, 1]).fit(X, y)
    model.certificate_.verify()

Names are imported when first used, so that `import dperm` is quick.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.4.0"

_HOMES = {
    "FiniteClassLearner": "dperm.estimators",
    "GAMClassifier": "dperm.estimators",
    "GAMRegressor": "dperm.estimators",
    "HuberRegressor": "dperm.estimators",
    "Lasso": "dperm.estimators",
    "LinearRegression": "dperm.estimators",
    "LinearSVC": "dperm.estimators",
    "LogisticRegression": "dperm.estimators",
    "MeanEstimator": "dperm.estimators",
    "MedianEstimator": "dperm.estimators",
    "MLPClassifier": "dperm.estimators",
    "PoissonRegressor": "dperm.estimators",
    "PrivateGridSearch": "dperm.estimators",
    "QuantileRegressor": "dperm.estimators",
    "Ridge": "dperm.estimators",
    "EmbeddingClassifier": "dperm.estimators",
    "evaluate": "dperm.evaluation.evaluate",
    "fit": "dperm.walk.fitting",
    "load": "dperm.estimators.model_file",
    "plan": "dperm.walk.fitting",
    "Profile": "dperm.profiles.profile",
    "profile": "dperm.profiles.profile",
    "Release": "dperm.walk.fitting",
    "Certificate": "dperm.walk.certificate",
    "PrivacyWarning": "dperm.words.notices",
    "Ledger": "dperm.release.ledger.book",
    "ArrowRows": "dperm.rows",
    "DaskRows": "dperm.rows",
    "SparkRows": "dperm.rows",
    "rows_from": "dperm.rows",
    "DeviceRows": "dperm.rows",
    "MemoryRows": "dperm.rows",
    "Rows": "dperm.rows",
    "DataBounds": "dperm.problem",
    "Interval": "dperm.problem",
    "Problem": "dperm.problem",
    "Plan": "dperm.mechanisms",
    "Target": "dperm.mechanisms",
    "Shape": "dperm.mechanisms",
    "Exponential": "dperm.mechanisms",
    "Gradient": "dperm.mechanisms",
    "ScaledGradient": "dperm.mechanisms",
    "Statistics": "dperm.mechanisms",
    "Zeroth": "dperm.mechanisms",
    "Schema": "dperm.tables.schema",
}
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
