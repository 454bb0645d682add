"""What one row adds to a sum, with the clip that makes its sensitivity a fact."""

from dperm.terms.gradient import GradientTerm, SampledTerm, UnclippedGradientTerm

__all__ = ["GradientTerm", "SampledTerm", "UnclippedGradientTerm"]
