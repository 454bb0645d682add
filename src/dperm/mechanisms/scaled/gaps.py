"""Missing cells in the scaled methods: which releases they add to a plan, and the centre that they become.

The public part (whether present cells are counted, and which columns) follows from declarations alone; whether a cell is in fact
missing is private, and shows only in the noisy counts. `docs/theorems/scaled-gradient.md` has the statement and the proof.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from dperm.problem.plain import plain_wholes, shown
from dperm.release.noise import RELEASE_SLACK
from dperm.release.plan import Settings, Shape, Target, Vector

PRESENT_SHARE = 0.005  # of μ²: at ε = 1 a tenth of the cells missing stands out from a few thousand rows on


def check_gaps(gaps: Sequence[int]) -> tuple[int, ...]:
    """Columns that may have missing cells, in order and once each."""
    columns = plain_wholes(gaps, "gaps")
    if list(columns) != sorted({j for j in columns if j >= 0}):
        raise ValueError(f"Expected gaps= as different column numbers in ascending order, found {shown(gaps)}.")
    return columns


def gaps_in_words(gaps: Sequence[int], shape: Shape) -> Settings:
    """What a plan says of missing cells; nothing where the rows have none by declaration."""
    if not gaps:
        return {}
    if gaps[-1] >= shape.d:
        raise ValueError(f"Expected gaps= below the number of columns ({shape.d}), found {gaps[-1]}.")
    return {"missing_cells": f"at the released centre in {len(gaps)} of {shape.d} columns"}


def present_cells(
    shape: Shape, target: Target, gaps: Sequence[int], budget: Mapping[str, float], released: Mapping[str, ArrayLike]
) -> Vector:
    """How many cells of each column are taken to be present: n, or the noisy count where it stands out of its noise that some are
    missing; 0 where hardly any is present.

    Noise alone passes for missing cells in none of p columns with probability about 95 %. Below that the error of taking n is no
    larger than the error of the count.
    """
    cells = np.full(shape.d, float(shape.n))
    if "present" not in released:
        return cells
    counts = np.asarray(released["present"], dtype=np.float64)
    noise = RELEASE_SLACK * math.sqrt(len(gaps)) * target.rows_per_person / budget["present"]
    sure = noise * (math.sqrt(2.0 * math.log(max(len(gaps), 2))) + 1.0)
    cells[list(gaps)] = np.where(shape.n - counts <= sure, shape.n, np.where(counts < sure, 0.0, counts))
    return cells


def filling(shape: Shape, gaps: Sequence[int], shift: Vector) -> Vector:
    """Encoded value of a missing cell in every column: the centre where it is the rule, 0 elsewhere."""
    values = np.zeros(shape.d)
    values[list(gaps)] = np.asarray(shift)[list(gaps)]
    return values
