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
from dperm.mechanisms.exponential import Exponential
from dperm.mechanisms.exponential_finite import FiniteExponential
from dperm.mechanisms.exponential_quantile import QuantileExponential
from dperm.mechanisms.gradient import Gradient
from dperm.mechanisms.mean import Mean
from dperm.mechanisms.network import Network
from dperm.mechanisms.newton import Newton
from dperm.mechanisms.objective import Objective
from dperm.mechanisms.output import Output
from dperm.mechanisms.poisson import ScaledPoisson
from dperm.mechanisms.quantile import ScaledQuantile
from dperm.mechanisms.scaled import ScaledGradient
from dperm.mechanisms.scaled_inference import ScaledInference
from dperm.mechanisms.scaled_objective import ScaledObjective
from dperm.mechanisms.selection import Selection
from dperm.mechanisms.statistics import Moments, Statistics
from dperm.mechanisms.zeroth import Zeroth

__all__ = [
    "MECHANISMS",
    "Exponential",
    "FiniteExponential",
    "Gradient",
    "Mean",
    "Mechanism",
    "Moments",
    "Network",
    "Newton",
    "Objective",
    "Outcome",
    "Output",
    "Plan",
    "QuantileExponential",
    "ScaledGradient",
    "ScaledInference",
    "ScaledObjective",
    "ScaledPoisson",
    "ScaledQuantile",
    "Selection",
    "Shape",
    "Stage",
    "Statistics",
    "Target",
    "UnmetNeeds",
    "Zeroth",
    "mechanism_from_spec",
    "register",
]
