"""What a fit shows besides its noisy answer must not depend on any one person's row.

Every estimator fits a matrix of neighbouring data sets with the same seeded noise. Errors, warnings, log lines, printed text, the
plan, the statistics, public attributes and the certificate without coefficients and released values must be equal, letter for
letter.
"""

import contextlib
import dataclasses
import io
import json
import logging
import warnings

import numpy as np
import pytest

import dperm.estimators as estimators
from dperm.mechanisms import Gradient
from dperm.privacy import RELATIONS

N = 40
GENERATOR = np.random.default_rng(5)
X = GENERATOR.uniform(-1, 1, (N, 2))
NUMBERS = np.clip(X[:, 0] - 0.5 * X[:, 1], -1, 1)
LABELS = (NUMBERS > 0).astype(float)


def with_row(row, label=None):
    """The data with the last row (and label) replaced."""

    def change(y):
        features, labels = X.copy(), None if y is None else y.copy()
        features[-1] = row
        if label is not None and y is not None:
            labels[-1] = label
        return features, labels

    return change


NEIGHBOURS = {
    "the data": lambda y: (X, y),
    "NaN row": with_row(np.nan),
    "one NaN cell": with_row([np.nan, 0.5]),
    "infinite row": with_row(np.inf),
    "huge row": with_row(1.7e308),
    "huge opposite cells": with_row([1.7e308, -1.7e308]),
    "denormal row": with_row(5e-324),
    "null row": with_row(0.0),
    "duplicated row": with_row(X[0]),
    "unknown label": with_row(0.3, 7.0),
    "huge label": with_row(0.3, 1e308),
    "missing label": with_row(0.3, np.nan),
    "infinite label": with_row(0.3, -np.inf),
    "NaN row and label": with_row(np.nan, np.nan),
}


def constructors():
    """name → (class, options, labels) for every estimator, from public declarations alone."""
    made = {}
    for name in estimators.__all__:
        cls = getattr(estimators, name)
        if not dataclasses.is_dataclass(cls):
            continue
        fields = {field.name for field in dataclasses.fields(cls)}
        options = {"epsilon": 1.0, "delta": 1e-4, "bounds": (-1, 1), "random_state": 0}
        if not set(options) <= fields or not hasattr(cls, "fit"):
            continue
        if name == "FiniteClassLearner":
            made[name] = (cls, {**options, "delta": 0.0, "classes": [0.0, 1.0]}, LABELS)
        elif name == "EmbeddingClassifier":  # its rows have length 1 instead of bounds
            made[name] = (cls, {**options, "bounds": None, "classes": [0.0, 1.0], "steps": 9}, LABELS)
        elif "classes" in fields:
            made[name] = (cls, {**options, "classes": [0.0, 1.0]}, LABELS)
            if name == "LogisticRegression":
                made["norm bound only"] = (cls, {**options, "classes": [0.0, 1.0], "bounds": None, "x_norm": 1.0}, LABELS)
                made["single precision"] = (cls, {**options, "classes": [0.0, 1.0], "method": Gradient(steps=9)}, LABELS)
                made["multinomial"] = (cls, {**options, "classes": [0.0, 1.0, 2.0]}, LABELS)
        elif "y_bounds" in fields:
            bounds = (0.0, 2.0) if name == "PoissonRegressor" else (-1.0, 1.0)
            made[name] = (cls, {**options, "y_bounds": bounds}, NUMBERS)
        else:  # a location: rows without labels
            made[name] = (cls, options, None)
    return made


MADE = constructors()


def shown(cls, options, features, labels):
    """Everything an observer sees of a fit except the noisy answer."""
    printed, logged = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(logged)
    logging.getLogger().addHandler(handler)
    model, error = cls(**options), None
    with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        warnings.simplefilter("always")
        try:
            model.fit(features) if labels is None else model.fit(features, labels)
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
    logging.getLogger().removeHandler(handler)
    seen = {
        "error": error,
        "warnings": sorted(str(entry.message) for entry in warned),
        "log": logged.getvalue(),
        "printed": printed.getvalue(),
    }
    if error is None:
        record = json.loads(model.certificate_.to_json())
        record.pop("coefficients")
        seen["certificate"] = json.dumps(_without_values(record), sort_keys=True)
        seen["statistics"] = repr(model.release_.stats)
        seen["plan"] = model.plan_.explain()
        seen["classes"] = repr(getattr(model, "classes_", None))
        seen["columns"] = repr(model.n_features_in_)
        seen["attributes"] = sorted(vars(model))
        seen["shape"] = repr(np.shape(model.coef_)) if hasattr(model, "coef_") else ""
    return seen


def _without_values(record):
    """Released values and what is decided from them are noisy answers: keep their names and sizes only."""
    kept = dict(record)
    encoding = record.get("encoding") or {}
    for place, rule in enumerate(encoding.get("rules", ())):
        if rule == "released":  # the centre that missing cells take is decided from releases too; `verify` recomputes it
            assert f"{encoding['missing'][place]:.17g}" in record["declaration"][place]
            record["declaration"][place] = record["declaration"][place].rsplit(" ", 1)[0]
            encoding["missing"][place] = "released"
    for name in ("released", "decided"):
        if isinstance(kept.get(name), dict):
            kept[name] = {key: np.shape(value) for key, value in kept[name].items()}
    return kept


@pytest.mark.parametrize("name", MADE)
def test_nothing_but_the_answer_depends_on_a_row(name):
    cls, options, y = MADE[name]
    expected = shown(cls, options, X, y)
    # The plan may say that little can be learnt, which public numbers decide; every neighbour must then say the same.
    assert expected["error"] is None and all("noise ratio" in text for text in expected["warnings"])
    for title, change in NEIGHBOURS.items():
        features, labels = change(y)
        if name == "single precision":
            with np.errstate(over="ignore"):
                features = features.astype(np.float32)
        assert shown(cls, options, features, labels) == expected, title


@pytest.mark.parametrize("relation", RELATIONS)
def test_relations_and_constant_labels(relation):
    """All labels equal but one, against all equal; under add-remove also one row less."""
    options = {
        "epsilon": 1.0, "delta": 1e-4, "bounds": (-1, 1), "classes": [0.0, 1.0], "random_state": 0, "relation": relation,
        "method": Gradient(steps=5), "nominal_n": N if relation == "add-remove" else None,
    }  # fmt: skip
    almost, constant = np.zeros(N), np.zeros(N)
    almost[-1] = 1.0
    cls = estimators.LogisticRegression
    expected = shown(cls, options, X, almost)
    assert expected["error"] is None
    assert shown(cls, options, X, constant) == expected
    if relation == "add-remove":
        assert shown(cls, options, X[:-1], almost[:-1]) == expected


@pytest.mark.parametrize("kind", ["string", "object"])
def test_labels_of_other_types(kind):
    """A label that is missing or of another type is a null row, not an error that names a person."""
    classes = ["no", "yes"]
    y = np.array(classes, dtype=object)[LABELS.astype(int)]
    y = y.astype(str) if kind == "string" else y
    options = {"epsilon": 1.0, "delta": 1e-4, "bounds": (-1, 1), "classes": classes, "random_state": 0}
    options["method"] = Gradient(steps=5)
    expected = shown(estimators.LogisticRegression, options, X, y)
    assert expected["error"] is None
    for strange in ["maybe", ""] if kind == "string" else ["maybe", None, np.nan, 3]:
        other = y.astype("U8") if kind == "string" else y.copy()
        other[-1] = strange
        assert shown(estimators.LogisticRegression, options, X, other) == expected, repr(strange)


def test_a_search_shows_its_best_run_and_nothing_else():
    """Which run is best is a noisy answer; errors, warnings, its record and attributes must not depend on a row."""

    def seen(features, labels):
        base = estimators.LogisticRegression(bounds=(-1, 1), classes=[0.0, 1.0], method=Gradient(steps=2))
        options = {"epsilon": 4.0, "delta": 1e-4, "expected_runs": 2.0, "random_state": 0}
        model = estimators.PrivateGridSearch(base, {"radius": [1.0, 5.0]}, **options)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                model.fit(features, labels)
            except Exception as problem:
                return f"{type(problem).__name__}: {problem}"
        record = {key: value for key, value in model.certificate_.record.items() if key != "best"}
        return json.dumps(record, sort_keys=True), sorted(vars(model)), [str(entry.message) for entry in warned]

    expected = seen(X, LABELS)
    assert isinstance(expected, tuple) and expected[2] == []
    for title, change in NEIGHBOURS.items():
        assert seen(*change(LABELS)) == expected, title


def test_the_comparison_can_fail():
    """A warning, a different n, or an error in one of the fits is seen."""
    cls, options, y = MADE["LogisticRegression"]
    expected = shown(cls, options, X, y)
    assert shown(cls, options, X[:-1], y[:-1]) != expected
    assert shown(cls, {**options, "bounds": None}, X, y)["error"].startswith("ValueError")

    class Chatty(cls):
        def fit(self, features, labels):
            if np.isnan(features).any():
                warnings.warn("a row is missing", stacklevel=1)
            return super().fit(features, labels)

    assert shown(Chatty, options, *NEIGHBOURS["NaN row"](y)) != expected
