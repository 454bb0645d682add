"""Bounds that a fit finds and pays for: from two released histograms to the range of each such column. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dperm.privacy import kappa
from dperm.problem.arrays import Vector
from dperm.release.noise import RELEASE_SLACK
from dperm.release.plan import Shape, Target
from dperm.terms.ranges import coarse_ranges, private_columns, tight_ranges


def private_ranges(
    shape: Shape, target: Target, kinds: Sequence[str], budget: Mapping[str, float], released: Mapping[str, Any]
) -> tuple[Vector, Vector]:
    """(low, high) of the private columns, coarse after the first histogram and tight after the second."""
    columns = len(private_columns(kinds))
    unit = RELEASE_SLACK * math.sqrt(kappa(target.relation) * columns) * target.rows_per_person
    low, high = coarse_ranges(np.asarray(released["octaves"]), unit / budget["octaves"], shape.n)
    if "cells" not in released:
        return low, high
    return tight_ranges(np.asarray(released["cells"]), low, high, unit / budget["cells"], shape.n)
