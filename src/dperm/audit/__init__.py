"""Audit: try to break a privacy claim, ours or anybody's.

    exact         the true profile of a mechanism with an explicit density, by quadrature
    distinguish   fit many times on two neighbours; a lower bound on ε with a stated confidence
    one_run       one fit with planted canaries
    search        neighbours, within the declared bounds, that maximise a measured loss

A lower bound above the claim proves a violation at the stated confidence; a lower bound below it proves nothing by itself.
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "quadrature": ("Density", "ExactProfile", "exact", "neighbour_pairs", "profile"),
    "trials": ("Distinguished", "coefficients", "distinguish"),
    "single": ("Canaries", "OneRun", "flipped_labels", "noisy_gradients", "one_run", "rare_directions"),
    "neighbours": ("Found", "search"),
}
_HOMES = {name: home for home, names in _PUBLIC.items() for name in names}

__all__ = ["densities", *_HOMES]


def __getattr__(name: str) -> Any:
    if name == "densities":
        return importlib.import_module("dperm.audit.densities")
    if name in _HOMES:
        return getattr(importlib.import_module(f"dperm.audit.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'dperm.audit' has no attribute {name!r}")
