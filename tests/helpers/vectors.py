"""Printed numbers (vectors.toml) and the rule for agreeing with them."""

import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

VECTORS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("vectors.toml").read_text(encoding="utf-8"))


def agrees(value: float, printed: str) -> bool:
    """Whether `value` rounds (or truncates) to the printed digits: it is less than one unit of the last place away."""
    exact = Decimal(printed)
    unit = Decimal(1).scaleb(int(exact.as_tuple().exponent))
    return abs(Decimal(float(value)) - exact) < unit
