"""Options of mechanisms, and words of estimators, that are of another kind than they should be: refused in words."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import dperm
from dperm import mechanisms

EVERYTHING = {name: getattr(mechanisms, name) for name in dir(mechanisms) if name != "Mechanism"}
MECHANISMS = {name: made for name, made in EVERYTHING.items() if isinstance(made, type) and hasattr(made, "program")}


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("value", [1, 1.5, "x", None, object()], ids=["1", "1.5", "x", "None", "object"])
def test_no_option_of_another_kind_ends_in_a_traceback(name: str, value: Any) -> None:
    for field in fields(MECHANISMS[name]):
        with suppress(ValueError):
            MECHANISMS[name](**{field.name: value})


@pytest.mark.parametrize("method", ["auto", "selection", "gradient", mechanisms.Gradient()])
@pytest.mark.parametrize("found", ["1.0", "ridge", "Auto", ""])
def test_a_penalty_in_words_that_are_none_is_refused(found: str, method: Any) -> None:
    with pytest.raises(ValueError, match="Expected regularization='auto', a number or a regularizer"):
        dperm.Lasso(1.0, bounds=(-1, 1), y_bounds=(-1, 1), regularization=found, method=method).fit(np.eye(3), np.ones(3))
