"""The exponential mechanism: over parameters (`continuous`), finite classes (`finite`) and quantiles (`quantile`)."""

from dperm.mechanisms.exponential.continuous import Exponential
from dperm.mechanisms.exponential.finite import FiniteExponential
from dperm.mechanisms.exponential.quantile import QuantileExponential

__all__ = ["Exponential", "FiniteExponential", "QuantileExponential"]
