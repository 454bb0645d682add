"""The scikit-learn shell: wrap X, y in rows, call `fit`, copy the coefficients."""

from dperm.estimators.embedding import EmbeddingClassifier
from dperm.estimators.finite import FiniteClassLearner
from dperm.estimators.gam import GAMClassifier, GAMRegressor
from dperm.estimators.huber import HuberRegressor
from dperm.estimators.lasso import Lasso
from dperm.estimators.linear import LinearRegression, Ridge
from dperm.estimators.location import MeanEstimator, MedianEstimator
from dperm.estimators.logistic import LogisticRegression
from dperm.estimators.mlp import MLPClassifier
from dperm.estimators.parameters import documented, explained
from dperm.estimators.poisson import PoissonRegressor
from dperm.estimators.quantile import QuantileRegressor
from dperm.estimators.search import PrivateGridSearch
from dperm.estimators.svc import LinearSVC

__all__ = [
    "EmbeddingClassifier",
    "FiniteClassLearner",
    "GAMClassifier",
    "GAMRegressor",
    "HuberRegressor",
    "Lasso",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "MLPClassifier",
    "MeanEstimator",
    "MedianEstimator",
    "PoissonRegressor",
    "PrivateGridSearch",
    "QuantileRegressor",
    "Ridge",
]

for _name in __all__:
    documented(explained(globals()[_name]))
