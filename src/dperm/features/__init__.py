"""Public features: fixed maps that look at one row alone, and embeddings on disk, opened without a copy."""

from dperm.features.files import open_embeddings
from dperm.features.wavelets import scattering

__all__ = ["open_embeddings", "scattering"]
