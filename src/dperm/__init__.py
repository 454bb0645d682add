"""dperm: differentially private empirical risk minimization.

    model = dperm.LogisticRegression(epsilon=1.0, bounds=(low, high), classes=[0, 1]).fit(X, y)
    model.certificate_.verify()

Names are imported when first used, so that `import dperm` is quick.
"""

from __future__ import annotations

import importlib
import sys
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
# Modules of version 0.1 that stand elsewhere now; the old names work, with a warning, until the next version.
_MOVED = {
    "advice": "estimators.outlook",
    "cells": "tables.cells",
    "certificate": "walk.certificate",
    "encoding": "tables.encoding",
    "estimators.labels": "tables.labels",
    "estimators.persons": "tables.persons",
    "evaluation_metrics": "evaluation.metrics",
    "filters": "privacy.filters",
    "fingerprints": "tables.fingerprint",
    "hypotheses": "mechanisms.hypotheses",
    "intervals": "inference.intervals",
    "ledger": "release.ledger",
    "ledger_check": "release.ledger.check",
    "mechanisms.base": "release.plan",
    "mechanisms.exponential_finite": "mechanisms.exponential.finite",
    "mechanisms.exponential_laws": "mechanisms.exponential.laws",
    "mechanisms.exponential_quantile": "mechanisms.exponential.quantile",
    "mechanisms.exponential_samplers": "mechanisms.exponential.samplers",
    "mechanisms.information": "terms.information",
    "mechanisms.moments": "terms.moments",
    "mechanisms.network_terms": "terms.network",
    "mechanisms.objective_accounting": "mechanisms.objective.accounting",
    "mechanisms.objective_solve": "mechanisms.objective.solve",
    "mechanisms.objective_terms": "terms.objective",
    "mechanisms.poisson": "mechanisms.scaled.poisson",
    "mechanisms.poisson_rule": "mechanisms.scaled.poisson_settings",
    "mechanisms.quantile": "mechanisms.scaled.quantile",
    "mechanisms.scaled_objective": "mechanisms.scaled.objective",
    "mechanisms.scaled_rule": "mechanisms.scaled.settings",
    "mechanisms.selection": "mechanisms.scaled.selection",
    "mechanisms.selection_terms": "terms.selection",
    "model_file": "estimators.model_file",
    "noise": "release.noise",
    "planner": "choose.table",
    "private_bounds": "terms.ranges",
    "report.page": "pages.page",
    "report.progress": "words.progress",
    "rows.arrow_files": "tables.files",
    "rules": "mechanisms.hypotheses.stored",
    "schema": "tables.schema",
    "statistics_terms": "terms.statistics",
    "suggestions": "words.spelling",
}
_MODULES = ("audit", "estimators", "features", "mechanisms", "privacy", "problem", "rows", "theory")

__all__ = ["__version__", *_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), _NAMES.get(name, name))
    if name in _MODULES:
        return importlib.import_module(f"dperm.{name}")
    raise AttributeError(f"module 'dperm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


class _OldNames:
    """Finds the modules of `_MOVED` at their new places."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith("dperm.") or name.removeprefix("dperm.") not in _MOVED:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, _OldNames)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: Any) -> Any:
        import warnings

        new = "dperm." + _MOVED[spec.name.removeprefix("dperm.")]
        warnings.warn(f"{spec.name} is {new} now; the old name ends with the next version.", DeprecationWarning, stacklevel=2)
        module = importlib.import_module(new)
        spec.loader_state = module.__spec__
        return module

    @staticmethod
    def exec_module(module: Any) -> None:
        module.__spec__ = module.__spec__.loader_state  # a module has one specification, that of its own place


sys.meta_path.append(_OldNames)
