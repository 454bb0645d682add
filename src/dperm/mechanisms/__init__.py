"""One file per theorem."""

from dperm.mechanisms.exponential.continuous import Exponential
from dperm.mechanisms.exponential.finite import FiniteExponential
from dperm.mechanisms.exponential.quantile import QuantileExponential
from dperm.mechanisms.gradient import Gradient
from dperm.mechanisms.heads import Heads
from dperm.mechanisms.least_squares import LeastSquares
from dperm.mechanisms.mean import Mean
from dperm.mechanisms.network import Network
from dperm.mechanisms.newton import Newton
from dperm.mechanisms.objective.mechanism import Objective
from dperm.mechanisms.output import Output
from dperm.mechanisms.registry import mechanism_from_spec
from dperm.mechanisms.scaled.additive import Additive
from dperm.mechanisms.scaled.additive_poisson import AdditivePoisson
from dperm.mechanisms.scaled.gradient import ScaledGradient
from dperm.mechanisms.scaled.heads import ScaledHeads
from dperm.mechanisms.scaled.inference import ScaledInference
from dperm.mechanisms.scaled.objective import ScaledObjective
from dperm.mechanisms.scaled.poisson import ScaledPoisson
from dperm.mechanisms.scaled.quantile import ScaledQuantile
from dperm.mechanisms.scaled.selection import Selection
from dperm.mechanisms.statistics import Moments, Statistics
from dperm.mechanisms.zeroth import Zeroth
from dperm.release.plan import MECHANISMS, Mechanism, Outcome, Plan, Shape, Stage, Target, UnmetNeeds, register

__all__ = [
    "MECHANISMS",
    "Additive",
    "AdditivePoisson",
    "Exponential",
    "FiniteExponential",
    "Gradient",
    "Heads",
    "LeastSquares",
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
    "ScaledHeads",
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
