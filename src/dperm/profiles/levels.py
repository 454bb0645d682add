"""Which levels a column has: noisy counts above a threshold. The proof is in docs/theorems/levels.md."""

from __future__ import annotations

import math

import numpy as np

from dperm.privacy import Levels, levels_threshold
from dperm.profiles.rows import Vocabulary
from dperm.profiles.terms import Places
from dperm.release.asks import Secret
from dperm.release.noise import gaussian_scale, grid_counts
from dperm.tables.cells import Plain
from dperm.tables.looks import level_name


def noise_of(event: Levels, columns: int, relation: str, rows_per_person: int) -> tuple[float, float, float]:
    """(standard deviation, grid step, threshold) of the counts of `columns` columns.

    The step is a power of two of at most 1, so that counts lie on the grid as they are; it does not depend on how many levels
    there are, which nobody may learn. One step on top of the threshold covers the rounding of the noise.
    """
    sensitivity = Places(tuple(range(columns)), (1,) * columns).sensitivity(relation) * rows_per_person
    scale = gaussian_scale(sensitivity, event.mu)
    step = float(2.0 ** min(math.floor(math.log2(scale * 2.0**-20)), 0))
    return scale, step, levels_threshold(scale, event.delta, columns, rows_per_person) + step


def found_levels(secret: Secret, event: Levels, columns: tuple[int, ...], words: Vocabulary) -> list[list[list[Plain]]]:
    """Per column the levels whose noisy count passes the threshold, each with that count, in the order of their names.

    Only levels that a counted row has are drawn for: rows beyond a person's limit may not bring levels of their own.
    """
    if not columns:
        return []
    scale, step, threshold = noise_of(event, len(columns), secret.relation, secret.rows_per_person)
    sizes = tuple(max(len(words[j]), 1) for j in columns)
    exact = secret.sum(Places(columns, sizes))
    answers, start = [], 0
    for j, size in zip(columns, sizes):
        counts = np.rint(exact[start : start + size])
        start += size
        held = np.flatnonzero(counts >= 1)
        noisy = counts[held] + (grid_counts(held.shape, scale, step, secret.noise) * step if len(held) else 0.0)
        shown = [(level_name(words[j][place]), float(count)) for place, count in zip(held, noisy) if count > threshold]
        answers.append([list(pair) for pair in sorted(shown, key=lambda pair: str(pair[0]))])
    return answers
