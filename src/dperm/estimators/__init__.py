"""The scikit-learn shell: wrap X, y in rows, call `fit`, copy the coefficients."""

from dperm.estimators.linear import LinearRegression
from dperm.estimators.logistic import LogisticRegression

__all__ = ["LinearRegression", "LogisticRegression"]
