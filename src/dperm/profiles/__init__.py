"""Looking at a table privately: histograms, quantiles, means, levels and types of columns, paid for."""

from dperm.profiles.profile import Profile, profile

__all__ = ["Profile", "profile"]
