"""What is minimised, and every constant it implies. Pure: no input or output, no randomness."""

from __future__ import annotations

from dperm.problem.bounds import DataBounds, FeatureMap
from dperm.problem.checks import (
    Check,
    check_convexity,
    check_gradient,
    check_strong_convexity,
    range_from_lipschitz,
    squared_loss_constants,
    squared_loss_is_bounded,
    squared_loss_is_lipschitz,
)
from dperm.problem.domains import Ball, Box, Domain, NonNegative, Simplex, WholeSpace
from dperm.problem.intersections import DOMAINS, Affine, HalfSpace, Intersection, domain_from_spec
from dperm.problem.intervals import Interval, LossBounds
from dperm.problem.losses import LOSSES, loss_from_spec
from dperm.problem.losses.base import Loss
from dperm.problem.losses.classification import HingeLoss, HuberizedHingeLoss, LogisticLoss, SoftplusHingeLoss, ZeroOneLoss
from dperm.problem.losses.cumulants import CUMULANTS, Cumulant
from dperm.problem.losses.custom import CustomLoss
from dperm.problem.losses.likelihood import CumulantLoss, PoissonLoss, ScaledLoss, likelihood_loss
from dperm.problem.losses.multinomial import MultinomialLoss
from dperm.problem.losses.regression import AbsoluteLoss, HuberLoss, LogCoshLoss, QuantileLoss, SquaredLoss
from dperm.problem.problem import Constants, Problem
from dperm.problem.regularizers import REGULARIZERS, ElasticNet, Lasso, NoRegularizer, Regularizer, Ridge, regularizer_from_spec

__all__ = [
    "CUMULANTS",
    "DOMAINS",
    "LOSSES",
    "REGULARIZERS",
    "AbsoluteLoss",
    "Affine",
    "Ball",
    "Box",
    "Check",
    "Constants",
    "Cumulant",
    "CumulantLoss",
    "CustomLoss",
    "DataBounds",
    "Domain",
    "ElasticNet",
    "FeatureMap",
    "HalfSpace",
    "HingeLoss",
    "HuberLoss",
    "HuberizedHingeLoss",
    "Intersection",
    "Interval",
    "Lasso",
    "LogCoshLoss",
    "LogisticLoss",
    "Loss",
    "LossBounds",
    "MultinomialLoss",
    "NoRegularizer",
    "NonNegative",
    "PoissonLoss",
    "Problem",
    "QuantileLoss",
    "Regularizer",
    "Ridge",
    "ScaledLoss",
    "Simplex",
    "SoftplusHingeLoss",
    "SquaredLoss",
    "WholeSpace",
    "ZeroOneLoss",
    "check_convexity",
    "check_gradient",
    "check_strong_convexity",
    "domain_from_spec",
    "likelihood_loss",
    "loss_from_spec",
    "range_from_lipschitz",
    "regularizer_from_spec",
    "squared_loss_constants",
    "squared_loss_is_bounded",
    "squared_loss_is_lipschitz",
]
