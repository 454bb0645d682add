"""One file per theorem."""

from dperm.mechanisms.base import (
    MECHANISMS,
    Mechanism,
    Outcome,
    Plan,
    Shape,
    Stage,
    Target,
    UnmetNeeds,
    mechanism_from_spec,
    register,
)
from dperm.mechanisms.gradient import Gradient
from dperm.mechanisms.objective import Objective
from dperm.mechanisms.scaled import ScaledGradient

__all__ = [
    "MECHANISMS",
    "Gradient",
    "Mechanism",
    "Objective",
    "Outcome",
    "Plan",
    "ScaledGradient",
    "Shape",
    "Stage",
    "Target",
    "UnmetNeeds",
    "mechanism_from_spec",
    "register",
]
