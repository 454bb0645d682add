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

_HOMES = {
    "Density": "quadrature",
    "ExactProfile": "quadrature",
    "exact": "quadrature",
    "profile": "quadrature",
    "neighbour_pairs": "quadrature",
    "densities": None,
    "distinguish": "trials",
    "Distinguished": "trials",
    "coefficients": "trials",
    "Canaries": "single",
    "OneRun": "single",
    "flipped_labels": "single",
    "noisy_gradients": "single",
    "one_run": "single",
    "rare_directions": "single",
    "Found": "neighbours",
    "search": "neighbours",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        home = _HOMES[name]
        module = importlib.import_module(f"dperm.audit.{home or name}")
        return getattr(module, name) if home else module
    raise AttributeError(f"module 'dperm.audit' has no attribute {name!r}")
