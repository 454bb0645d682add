"""Paid evaluation: how good is a released model on private held-out rows?"""

from dperm.evaluation.evaluate import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]
