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

from dperm.mechanisms.registry import check_types
from dperm.privacy import Gaussian, Pure
from dperm.problem import Ball, Box, DataBounds, FeatureMap, HuberLoss, Interval, MultinomialLoss, QuantileLoss, Ridge
from dperm.release.plan import MECHANISMS, options_of

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
