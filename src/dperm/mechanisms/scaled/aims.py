"""What a classifier is asked for, and the clip that follows from it.

A clip below the longest gradients bends log-odds, the more so where one class is rare and its few rows have large residuals; a
larger one costs noise. For *accuracy* only the sign matters and the clip is small. For *probabilities* it grows as noise falls,

    c = 0.75·(4π(1 - π))^(-0.4)·(0.01/ν)^(1/6)  in 0.4 … 1.4,   π the released share of positives (1/2 where none is),

which are released and public numbers. Measured in `docs/theorems/scaled-gradient.md`.
"""

from __future__ import annotations

AIMS = ("accuracy", "probabilities")
SMALLEST, LARGEST = 0.4, 1.4
QUIET = 0.01  # the noise ratio at which the clip of balanced classes is `USUAL`
USUAL = 0.75


def check_aim(aim: str) -> None:
    if aim not in AIMS:
        raise ValueError(f"Expected aim in {AIMS}, found {aim!r}. Say what the fit is for.")


def clip_for_probabilities(nu: float, rate: float | None) -> float:
    """The clip in units of S, at the noise ratio ν and the released share of positives.

    >>> round(clip_for_probabilities(0.01, 0.5), 3), round(clip_for_probabilities(0.1, 0.5), 3)
    (0.75, 0.511)
    """
    share = 0.5 if rate is None else rate
    clip = USUAL * (4.0 * share * (1.0 - share)) ** -0.4 * (QUIET / nu) ** (1.0 / 6.0)
    return float(min(max(clip, SMALLEST), LARGEST))
