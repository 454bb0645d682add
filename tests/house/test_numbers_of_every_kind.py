"""Public numbers may be of any kind: the same certificate and noise as by Python's own, or a sentence that refuses them."""

from __future__ import annotations

import dataclasses
import datetime
import json
import warnings
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dperm
from dperm.mechanisms.gradient import Gradient
from dperm.mechanisms.hypotheses.classes import Thresholds
from dperm.mechanisms.registry import check_types
from dperm.privacy import Gaussian, Pure
from dperm.privacy.filters import Filter
from dperm.problem import (
    Ball,
    Box,
    DataBounds,
    FeatureMap,
    HuberLoss,
    Interval,
    LogisticLoss,
    MultinomialLoss,
    Problem,
    QuantileLoss,
    Ridge,
)
from dperm.release.plan import MECHANISMS, Shape, Target, options_of
from dperm.rows import MemoryRows
from dperm.rows.pieces import Recipe
from dperm.walk.fitting import check_magnitudes
from dperm.words.notices import PrivacyWarning

KINDS: dict[str, Any] = {
    **{kind.__name__: kind for kind in (np.int64, np.int16, np.uint8, np.float16, np.float32, np.float64, np.longdouble)},
    "fraction": Fraction,
    "decimal": Decimal,
}
NO_NUMBERS = (
    "0.5", b"1", True, np.True_, 1j, np.complex64(1), datetime.timedelta(days=1), np.timedelta64(1), np.timedelta64(1, "s"),
    [1], Decimal("sNaN"), Fraction(10**5000, 3), Decimal("1e-400"), np.longdouble("1e400"), 10**400, 10**5000,
)  # fmt: skip
WHOLE = ("int64", "int16", "uint8")


def same(kind: str, number: float, whole: bool = False) -> tuple[Any, float] | None:
    """A number in another kind, and as Python's own; None where the kind cannot hold anything like it."""
    if kind in WHOLE and (number != int(number) or number > 255):
        return None
    odd = KINDS[kind](number)
    counted = kind in WHOLE or (whole and kind in ("fraction", "decimal") and number == int(number))
    return odd, int(odd) if counted else float(odd)


def refused(make: Any) -> None:
    """A sentence, and no traceback of another kind."""
    with pytest.raises((ValueError, TypeError), match=r"^Expected .*\. [A-Z]") as caught:
        make()
    assert len(str(caught.value)) < 900


def numeric(kind: type) -> list[str]:
    """Fields that are a number by their annotation."""
    return [f.name for f in dataclasses.fields(kind) if {"int", "float"} & set(str(f.type).split(" | "))]


OPTIONS = [(name, option) for name in MECHANISMS for option in numeric(MECHANISMS[name])]
SMALL = {"momentum", "moderation", "output_share", "information_share", "sampling_rate", "share", "total_variation", "failure"}
SMALL |= {"gradient_share", "balance_most"}


@pytest.fixture(autouse=True)
def _no_warnings() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_options_of_a_mechanism(name: str, option: str) -> None:
    number: float = 0.25 if option in SMALL else 3
    field = next(f for f in dataclasses.fields(MECHANISMS[name]) if f.name == option)
    for kind in KINDS:
        if (pair := same(kind, number, "float" not in str(field.type))) is None:
            continue
        odd, own = pair
        try:
            stated = options_of(MECHANISMS[name](**{option: own}))
        except ValueError:  # a whole number as a float
            refused(lambda odd=odd: MECHANISMS[name](**{option: odd}))
            continue
        found = options_of(MECHANISMS[name](**{option: odd}))
        assert json.dumps(found, default=str) == json.dumps(stated, default=str)


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_what_is_no_number_is_no_option(name: str, option: str) -> None:
    for value in NO_NUMBERS:
        refused(lambda value=value: MECHANISMS[name](**{option: value}))


@pytest.mark.parametrize("name", ["scaled-gradient", "additive", "scaled-inference", "scaled-objective"])
def test_text_is_no_truth_value(name: str) -> None:
    refused(lambda: MECHANISMS[name](wary="0.5"))
    made = MECHANISMS[name](wary=np.True_, kinds=("private",))
    assert made.wary is True
    check_types(name, vars(made))


DECLARED: dict[str, Any] = {
    "Ridge": Ridge,
    "Ball": Ball,
    "Huber": HuberLoss,
    "quantile": QuantileLoss,
    "Interval": lambda value: Interval(value, 4.0),
    "DataBounds": lambda value: DataBounds(value, Interval(-1, 1)),
    "column": lambda value: DataBounds.box([value], [4.0], Interval(-1, 1)),
    "Box": lambda value: Box(value, 4.0, dimension=2),
    "classes": MultinomialLoss,
    "features": lambda value: FeatureMap(abs, 1.0, value, "absolute"),
    "Gaussian": Gaussian,
    "Pure": lambda value: Pure(0.5, value),
}


@pytest.mark.parametrize("name", DECLARED)
def test_parameters_of_declarations(name: str) -> None:
    make, number = DECLARED[name], 0.25 if name == "quantile" else 3
    for kind in KINDS:
        if (pair := same(kind, number)) is None:
            continue
        odd, own = pair
        try:
            stated = make(own).spec()
        except ValueError:  # a whole number as a float
            refused(lambda odd=odd: make(odd))
            continue
        assert json.dumps(make(odd).spec()) == json.dumps(stated)
    for value in NO_NUMBERS:
        if not (name in ("Box", "classes") and value == [1]):
            refused(lambda value=value: make(value))


X = np.linspace(-1, 1, 240).reshape(-1, 2)
Y = np.linspace(-1, 1, 120)
LINE: dict[str, Any] = {"bounds": (-1, 1), "y_bounds": (-1, 1), "random_state": 0}
COUNTS: dict[str, Any] = {"bounds": (-1, 1), "y_bounds": (0, 4), "random_state": 0}
PARTED: dict[str, Any] = {"relation": "add-remove", "method": "gradient"}


def fitted(kind: type = dperm.LinearRegression, base: dict[str, Any] = LINE, name: str = "", **options: Any) -> Any:
    """A fit by one odd parameter: its record, and its coefficients by the same seed."""

    def make(value: Any) -> tuple[str, list[Any]]:
        asked = (-1.0, value) if name == "y_bounds" and base is LINE else value
        given = {} if "max_weight" not in (name, *options) else {"sample_weight": np.linspace(0, 3, 120)}
        given |= {"exposure": np.linspace(0, 3, 120)} if name == "max_exposure" else {}
        given |= {"groups": np.arange(120) // 2} if name == "max_rows_per_person" else {}
        labels = (Y > 0).astype(int) if "classes" in base else np.abs(Y) if base is COUNTS else Y
        model = kind(**base | options | {name: asked}).fit(X, labels, **given)
        return json.dumps(model.certificate_.record), np.ravel(getattr(model, "w_", 0)).tolist()

    return make


def bounded(form: Any) -> Any:
    """A fit with one odd end of a column, in each of the forms of bounds=."""

    def make(value: Any) -> tuple[str, list[Any]]:
        model = dperm.LinearRegression(**LINE | {"bounds": form(value)}).fit(X, Y)
        return json.dumps(model.certificate_.record), model.w_.tolist()

    return make


def weighed(value: Any) -> tuple[str, list[Any]]:
    model = dperm.LogisticRegression(bounds=(-1, 1), classes=[0, 1], class_weight={0: value}, random_state=0).fit(X, Y > 0)
    return json.dumps(model.certificate_.record), model.w_.tolist()


def searched(name: str) -> Any:
    def make(value: Any) -> tuple[str, list[Any]]:
        base = dperm.LogisticRegression(bounds=(-1, 1), classes=[0, 1], method="gradient")
        options = {"epsilon": 20.0, "expected_runs": 2, "random_state": 0} | {name: value}
        search = dperm.PrivateGridSearch(base, {"radius": [1.0, 2.0]}, **options).fit(X, (Y > 0).astype(int))
        return json.dumps(search.certificate_.record), search.best_estimator_.w_.tolist()

    return make


def planned(name: str) -> Any:
    def make(value: Any) -> str:
        sizes = {"n": 120, "d": 2} | {name: value}
        return str(dperm.LinearRegression(**LINE).plan(**sizes).explain())

    return make


def asked(name: str) -> Any:
    """An evaluation."""

    def make(value: Any) -> str:
        model = dperm.LogisticRegression(20.0, bounds=(-1, 1), classes=[0, 1], random_state=0).fit(X, (Y > 0).astype(int))
        options = {"epsilon": 1.0, "random_state": 0} | {name: value}
        return json.dumps(dperm.evaluate(model, X, (Y > 0).astype(int), **options).record)

    return make


def directly(name: str) -> Any:
    """`dperm.fit`, with a shape and a target of one's own."""

    def make(value: Any) -> str:
        sizes = {"epsilon": 1.0, "n": 120, "rows_per_person": 1} | {name: value}
        problem = Problem(LogisticLoss(), data=DataBounds(1.0, Interval(-1, 1)))
        target = Target.declare(**sizes, relation="add-remove")
        size = {"n": sizes["n"], "d": 2}
        rows = MemoryRows(X, np.sign(Y))
        found = dperm.fit(problem, rows, target, nominal_n=size["n"], random_state=0)
        return json.dumps(found.certificate.record) + str(Shape(**size))

    return make


def located(kind: type, name: str, **options: Any) -> Any:
    def make(value: Any) -> tuple[str, list[float]]:
        model = kind(**{"bounds": (-1, 1), "random_state": 0} | options | {name: value}).fit(X)
        return json.dumps(model.certificate_.record), model.location_.tolist()

    return make


def columns(name: str) -> Any:
    """A schema with one odd number."""

    def make(value: Any) -> str:
        column: dict[str, Any] = {"type": "numeric", "low": 0, "high": 1}
        target: dict[str, Any] = {"column": "t", "type": "numeric", "low": -1, "high": 1}
        top: dict[str, Any] = {"columns": {"a": column}, "target": target}
        {"low": column, "high": target, "row_norm": top}[name][name] = value
        return json.dumps(dperm.Schema.of(top).spec())

    return make


def rules(name: str) -> Any:
    return lambda value: json.dumps(Thresholds(**{"low": 0.0, "high": 1.0, "count": 11} | {name: value}).spec())


def budget(name: str) -> Any:
    return lambda value: Filter.declare(**{"epsilon": 3.0, "delta": 1e-5} | {name: value})


def intervals(value: Any) -> str:
    model = dperm.LinearRegression(20.0, intervals=True, **LINE).fit(X, Y)
    return str(model.summary(value)) + str(model.predict(X[:2], interval=value))


def clipped(value: Any) -> str:
    """What says whether floats keep a number."""
    made = Gradient(clip=value)
    check_magnitudes(Problem(LogisticLoss(), data=DataBounds(1.0, Interval(-1, 1))), made)
    return str(made)


# Each parameter with a function of its value, and a number for it.
PARAMETERS: dict[str, tuple[Any, float]] = {
    "epsilon": (fitted(name="epsilon"), 2),
    "delta": (fitted(name="delta"), 1 / 1024),
    "nominal_n": (fitted(name="nominal_n", **PARTED), 120),
    "max_rows_per_person": (fitted(name="max_rows_per_person"), 2),
    "x_norm": (fitted(name="x_norm", bounds=None), 1.1),
    "x_norm beside bounds": (fitted(name="x_norm"), 1.1),
    "radius": (fitted(name="radius"), 1.1),
    "missing": (fitted(name="missing"), 0.1),
    "regularization": (fitted(name="regularization"), 3.3),
    "lasso": (fitted(dperm.Lasso, LINE, "regularization", method="gradient"), 3.3),
    "n_nonzero_coefs": (fitted(dperm.Lasso, LINE, "n_nonzero_coefs"), 1),
    "max_weight": (fitted(name="max_weight"), 2),
    "random_state": (fitted(name="random_state"), 7),
    "y_bounds": (fitted(name="y_bounds"), 1.1),
    "y_max": (fitted(dperm.PoissonRegressor, COUNTS, "y_bounds"), 4),
    "max_exposure": (fitted(dperm.PoissonRegressor, COUNTS, "max_exposure"), 2),
    "threshold": (fitted(dperm.HuberRegressor, LINE, "threshold"), 0.3),
    "quantile": (fitted(dperm.QuantileRegressor, LINE, "quantile"), 0.3),
    "width": (fitted(dperm.LinearSVC, {"bounds": (-1, 1), "classes": [0, 1], "random_state": 0}, "width"), 0.3),
    "class_weight": (weighed, 1.1),
    "bounds": (bounded(lambda value: (-1, value)), 1.1),
    "bounds of columns": (bounded(lambda value: [(-1, 1), (-1.5, value)]), 1.1),
    "bounds by name": (bounded(lambda value: {"x0": (-1, 1), 1: (-1.5, value)}), 1.1),
    "expected_runs": (searched("expected_runs"), 2.2),
    "score_share": (searched("score_share"), 0.2),
    "epsilon of a search": (searched("epsilon"), 20),
    "n": (planned("n"), 120),
    "d": (planned("d"), 2),
    "level": (asked("level"), 0.9),
    "bins": (asked("bins"), 10),
    "epsilon of an evaluation": (asked("epsilon"), 2),
    "epsilon of a target": (directly("epsilon"), 2),
    "n of a target": (directly("n"), 120),
    "rows_per_person": (directly("rows_per_person"), 2),
    "x_norm of a mean": (located(dperm.MeanEstimator, "x_norm", bounds=None), 1.1),
    "quantile of a column": (located(dperm.MedianEstimator, "quantile"), 0.3),
    "cells": (located(dperm.MedianEstimator, "cells"), 100),
    "low of a schema": (columns("low"), 0.25),
    "high of a target": (columns("high"), 0.25),
    "row_norm": (columns("row_norm"), 0.25),
    "low of rules": (rules("low"), 0.3),
    "count of rules": (rules("count"), 11),
    "column of rules": (rules("column"), 1),
    "epsilon of a ledger": (budget("epsilon"), 3),
    "delta of a ledger": (budget("delta"), 1 / 1024),
    "level of intervals": (intervals, 0.9),
    "max_weight of Spark rows": (lambda value: str(Recipe(None, (), weight="w", max_weight=value)), 1.1),
    "persons of Spark rows": (lambda value: str(vars(Recipe(None, (), person="p", max_rows_per_person=value))), 2),
    "clip": (clipped, 1.1),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_parameter_of_another_kind_is_the_same_number(name: str) -> None:
    make, number = PARAMETERS[name]
    seen = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of small tables
        for kind in KINDS:
            if (same_number := same(kind, number, whole=isinstance(number, int))) is None:
                continue
            odd, own = same_number
            if name in ("epsilon", "epsilon of a search") and isinstance(odd, Fraction | Decimal):
                own = float(own)
            if name == "random_state" and isinstance(odd, Fraction | Decimal):
                refused(lambda odd=odd: make(odd))
                continue
            try:
                stated = make(own)
            except ValueError:  # a whole number as a float
                refused(lambda odd=odd: make(odd))
                continue
            assert make(odd) == stated, kind
            seen += 1
    assert seen >= 3


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_parameter_that_is_no_number_is_refused(name: str) -> None:
    make = PARAMETERS[name][0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        for value in NO_NUMBERS:
            if not (name == "bounds" and value == [1]):  # highs of all columns
                refused(lambda value=value: make(value))


def test_a_number_that_overflows_is_said_in_any_kind() -> None:
    for value in (np.longdouble("1e200"), Decimal("1e200"), Fraction(10**200), 10**200, 1e200):
        refused(lambda value=value: clipped(value))
