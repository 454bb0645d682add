"""Options that several functions share are declared once, shown by `help`, and a keyword that is none of them spends nothing."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

import dperm
from dperm.audit.trials import Trying, distinguish
from dperm.walk.options import Running, Spending

MOST = 10


@pytest.mark.parametrize(
    ("function", "options"),
    [(dperm.evaluate, Spending), (dperm.profile, Spending), (dperm.fit, Running), (distinguish, Trying)],
)
def test_every_option_is_shown_and_typed(function: object, options: type) -> None:
    shown = inspect.signature(function).parameters  # type: ignore[arg-type]
    typed = list(options.__annotations__)
    assert list(shown)[-len(typed) :] == typed
    assert all(shown[name].default is not inspect.Parameter.empty for name in typed)
    own = inspect.unwrap(function)  # type: ignore[arg-type]
    named = [p for p in inspect.signature(own).parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    assert len(named) <= MOST


def test_a_misspelt_option_is_refused_before_anything_is_debited(tmp_path: Path) -> None:
    import pandas as pd

    ledger = dperm.Ledger.create(tmp_path / "people.ledger", dataset="people", epsilon=3.0, delta=1e-6)
    table = pd.DataFrame({"age": np.arange(50.0)})
    with pytest.raises(TypeError, match=r"found relatoin=\. Did you mean 'relation'\?"):
        dperm.profile(table, epsilon=1.0, ledger=ledger, relatoin="zero-out")
    assert ledger.account().fits == 0
    dperm.profile(table, epsilon=1.0, ledger=ledger, random_state=0)
    assert ledger.account().fits == 1
