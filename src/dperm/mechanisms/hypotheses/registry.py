"""A class of rules from its certificate."""

from __future__ import annotations

from collections.abc import Mapping

from dperm.mechanisms.hypotheses.classes import HYPOTHESES, Hypotheses, Thresholds
from dperm.mechanisms.hypotheses.stored import Predictions, Rules

__all__ = ["Predictions", "Rules", "Thresholds", "hypotheses_from_spec"]  # importing the stored classes makes them known


def hypotheses_from_spec(spec: Mapping[str, object]) -> Hypotheses:
    """Rebuild a class from its certificate.

    >>> hypotheses_from_spec(Thresholds(0.0, 1.0, 11).spec()).size
    22
    """
    values = dict(spec)
    kind = values.pop("kind", None)
    if kind not in HYPOTHESES:
        raise ValueError(f"Expected a class of hypotheses among {sorted(HYPOTHESES)}, found {kind!r}.")
    return HYPOTHESES[kind](**values)
