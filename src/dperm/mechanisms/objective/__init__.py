"""Objective perturbation: one random tilt, one convex minimisation, one release."""

from dperm.mechanisms.objective.mechanism import Objective

__all__ = ["Objective"]
