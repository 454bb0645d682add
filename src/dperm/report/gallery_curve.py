"""One theorem as one curve: what `dperm theory NAME … --plot FILE` draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from dperm.problem.specs import number
from dperm.report.style import Panel, figure

# the first of these that the caller gives a number for runs along the horizontal axis
AXES: dict[str, str] = {
    "n": "Number of records n",
    "epsilon": "Privacy budget ε",
    "steps": "Number of steps T",
    "count": "Number of releases k",
    "alpha": "Excess error α",
}
WHOLE = ("n", "steps", "count")
SHARE = ("alpha",)
RISK = "Excess empirical risk (mean scale, bound)"
VALUES: dict[str, str] = {
    "uniform-convergence": "Records needed m",
    "uniform-convergence-error": "Largest gap to the sample error α",
    "agnostic": "Records needed m",
    "pac": "Records needed m",
    "privacy-is-free": "Privacy budget ε where privacy becomes free",
    "privacy-overhead": "Records with privacy / without",
    "exponential-tail": "Score lost with probability at most β",
    "exponential-failure": "Probability of a larger loss (bound)",
    "exponential-erm": RISK,
    "exponential-privacy-loss": "True privacy loss (largest log ratio)",
    "output-sensitivity": "Distance one record moves the minimiser",
    "output-perturbation": RISK,
    "objective-perturbation": RISK,
    "objective-noise": "Noise scale of the objective (sum scale)",
    "projected-gradient": RISK,
    "gradient-descent": RISK,
    "gradient-noise": "Noise on each coordinate of the mean gradient",
    "noise-epsilon": "True privacy budget ε",
    "rank": RISK,
    "composition": "Privacy budget ε of all releases",
    "composition-rho": "Sensitivity² / noise variance of one release, ρ",
    "gradient-sensitivity": "Sensitivity of the mean logistic gradient",
    "lower-bound": "Order of the excess risk (slope, no constant)",
    "phased-sgd": "Excess population risk (bound)",
    "generalisation-gap": "Population risk minus sample risk (bound)",
}
"""What each theorem's value is, in words."""


def draw_theorem(name: str, function: Callable[..., float], given: Mapping[str, object], path: Path) -> None:
    """The value against n (else ε, T, k or α) over three decades around the given number, which is marked.

    Where the theorem does not speak (a condition fails) the curve has a gap.
    """
    axis = next((key for key in AXES if given.get(key) is not None), None)
    if axis is None:
        raise ValueError(f"Expected one of {', '.join(AXES)} among the numbers of {name} to draw, found none of them. Pass one.")
    centre = number(given[axis], axis)
    places = np.geomspace(centre / 30, centre * 30, 61)
    if axis in WHOLE:
        places = np.unique(np.maximum(1, places.round()))
    if axis in SHARE:
        places = places[places < 1]

    def at(x: float) -> float:
        try:
            return float(function(**{**given, axis: x}))
        except ValueError:
            return float("nan")

    values = np.array([at(float(x)) for x in places])
    here = float(function(**given))
    fixed = [f"{_word(key)} = {value:g}" if isinstance(value, int | float) else f"{_word(key)}: {value}"
             for key, value in given.items() if key != axis]  # fmt: skip

    @figure()
    def curve(panel: Panel) -> None:
        panel.line(places, values, VALUES.get(name, name))
        panel.dots([centre], [here], [0.0], f"Here: {here:.4g}")
        positive = bool(np.nanmin(np.append(values, here)) > 0)
        flat = bool(np.nanmax(values) < 3 * np.nanmin(values)) if np.any(np.isfinite(values)) else True
        scale = "log" if positive and not flat else "linear"
        if scale == "log":  # a probability that falls to 1e-60 must not flatten what matters
            panel.axes.set_ylim(bottom=max(float(np.nanmin(values)) / 1.5, min(here, float(np.nanmax(values))) * 1e-6))
        panel.words(_title(name), AXES[axis], VALUES.get(name, name), y_scale=scale)
        panel.axes.legend()
        if fixed:
            panel.axes.figure.supxlabel(_lines(fixed), fontsize=8)

    curve(path)


def _title(name: str) -> str:
    """The theorem's name as a title.

    >>> _title("exponential-erm")
    'Exponential ERM'
    """
    words = [word.upper() if word in ("pac", "erm", "sgd") else word for word in name.split("-")]
    return " ".join([words[0][:1].upper() + words[0][1:], *words[1:]])


def _word(key: str) -> str:
    return {"epsilon": "ε", "delta": "δ", "alpha": "α", "beta": "β", "rho": "ρ"}.get(key, key.replace("_", " "))


def _lines(parts: list[str], width: int = 90) -> str:
    """The fixed numbers, broken into lines that fit under the figure."""
    lines = [""]
    for part in parts:
        joined = f"{lines[-1]}, {part}" if lines[-1] else part
        lines = [*lines[:-1], joined] if len(joined) <= width else [*lines, part]
    return "\n".join(lines)
