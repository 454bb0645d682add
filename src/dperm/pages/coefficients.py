"""Effects and coefficients: what the model says about its columns, in their own units."""

from __future__ import annotations

import math

import numpy as np

from dperm.inference.summary import Summary
from dperm.pages.charts import Bars, Panel, Panels, number, signed
from dperm.pages.document import Block
from dperm.pages.effects import Effect, effects, spread_and_mean
from dperm.pages.shapes import lines_beside, shape_blocks
from dperm.pages.subject import Subject
from dperm.pages.text import Code, Table, Text
from dperm.pages.whiskers import Whiskers, whiskers
from dperm.release.plan import MECHANISMS
from dperm.words.wording import grouped, in_percent

MOST_BARS, MOST_PANELS, MOST_LEVELS = 20, 9, 8
NOTHING_MOVES = "No column moves the prediction: this model predicts the same for every row."
HIDDEN_BY_NOISE = " Noise hides every effect; the intervals below say how large an effect could still be."
NO_ERROR_BARS = " This fit has no intervals: noise alone can draw a bar, above all for a choice with many levels."
MULTIPLES = ("logistic", "poisson")  # losses whose effects are logarithms of a factor


def effect_blocks(subject: Subject, table: Summary | None = None) -> list[Block]:
    """The columns by strength, then a small figure per column; nothing for models without a coefficient per column."""
    if shapes := shape_blocks(subject):
        return [*shapes, *_beside_curves(subject)]
    found = effects(subject)
    if not found:
        return []
    if not any(effect.strength for effect in found):
        return [Text(NOTHING_MOVES + (HIDDEN_BY_NOISE if table is not None else ""))]
    if len(found[0].size) > 1:
        return [_by_class(subject, found)]
    deviations = spread_and_mean(subject)[0] is not None
    moved = "one released standard deviation" if deviations else "the whole declared range"
    shown = found[:MOST_BARS]
    rows = [(f"{effect.name} ({effect.step})", float(effect.size[0]), _signed(effect)) for effect in shown]
    most = f"The {len(shown)} strongest of {len(found)} columns" if len(found) > len(shown) else "All columns"
    caption = f"{most}: change of the {subject.outcome} when a column moves by {moved}; blue raises, orange lowers."
    if any(effect.levels for effect in shown):
        typical = "the typical distance of its levels from their average" if deviations else "half the distance of its levels"
        caption += f" For a choice it is {typical}, drawn to the right."
    if not deviations:
        caption += " Wide bounds make a column look strong here: the fit released no spread to compare with."
    caption += _of_hidden(shown) + ("" if table is not None else NO_ERROR_BARS)
    panels = [panel for effect in found[:MOST_PANELS] if (panel := _panel(subject, effect, table)) is not None]
    start = "released mean" if deviations else "middle"
    words = f"Change of the {subject.outcome} along each column, all else equal, counted from its {start}."
    if table is not None and any(panel.band for panel in panels):
        words += f" Bands: {in_percent(table.level)} intervals of the slope."
    return [Bars(rows, caption), *([Panels(panels, words)] if panels else [])]


def _of_hidden(shown: list[Effect]) -> str:
    if not any(effect.hidden for effect in shown):
        return ""
    return " “Roughly”: noise blurs the spread of this column, so that its bar may be too long; narrower bounds would show."


def _signed(effect: Effect) -> str:
    return f"±{number(effect.size[0])}" if effect.levels else signed(effect.size[0])


def _panel(subject: Subject, effect: Effect, table: Summary | None) -> Panel | None:
    if effect.level_effects is not None:
        pairs = sorted(zip(effect.levels, effect.level_effects[0]), key=lambda pair: -abs(pair[1]))[:MOST_LEVELS]
        falling = sorted(pairs, key=lambda pair: -pair[1])
        rows = [(level, float(value), signed(value)) for level, value in falling]
        most = f"the {len(rows)} strongest of {len(effect.levels)} levels" if len(effect.levels) > len(rows) else "all levels"
        return Panel(effect.name, f"{most}, from their average", levels=rows)
    if not effect.high > effect.low:
        return None
    slope = _slope(subject, effect)
    line = [(x, slope * (x - effect.centre)) for x in (effect.low, effect.high)]
    band = []
    limits = _limits(effect, table)
    if limits is not None:
        for x in np.linspace(effect.low, effect.high, 9).tolist():
            ends = sorted(limit * (x - effect.centre) for limit in limits)
            band.append((x, ends[0], ends[1]))
    return Panel(effect.name, _words(subject, effect), line, band)


def _beside_curves(subject: Subject) -> list[Block]:
    """The columns of an additive model that have no curve: choices, yes or no, and lines."""
    beside = lines_beside(subject)
    if beside is None:
        return []
    slopes, curved = beside
    found = [effect for effect in effects(subject, slopes) if not curved.intersection(effect.places)]
    if len(slopes) > 1:
        return [_by_class(subject, found)] if found else []
    panels = [panel for effect in found[:MOST_PANELS] if (panel := _panel(subject, effect, None)) is not None]
    most = f"The {len(panels)} strongest of {len(found)} columns" if len(found) > len(panels) else "The columns"
    words = f"{most} without a curve, the strongest first: change of the {subject.outcome}, all else equal."
    return [Panels(panels, words)] if panels else []


def _slope(subject: Subject, effect: Effect) -> float:
    """Per unit of the column, in the units of the outcome."""
    encoding = subject.encoding
    assert encoding is not None  # an effect has an encoding
    place = effect.places[0]
    return float(subject.weights[place] * (subject.half or 1.0) / encoding.width[place])


def _limits(effect: Effect, table: Summary | None) -> tuple[float, float] | None:
    if table is None:
        return None
    return next(((row["low"], row["high"]) for row in table.rows() if row["name"] == effect.name), None)


def _words(subject: Subject, effect: Effect) -> str:
    size, what = float(effect.size[0]), effect.step
    if subject.problem.loss.name in MULTIPLES and abs(size) < 50:
        thing = "odds" if subject.problem.loss.name == "logistic" else "expectation"
        return f"{what}: {thing} × {math.exp(size):.3g}"
    return f"{what}: {signed(size)}"


def _by_class(subject: Subject, found: list[Effect]) -> Table:
    names = subject.classes or tuple(f"class {k}" for k in range(len(found[0].size)))
    rows = []
    for effect in found[:MOST_BARS]:
        sizes = (f"±{number(value)}" if effect.levels else signed(value) for value in effect.size)
        rows.append((f"{effect.name} ({effect.step})", *sizes))
    moved = "one released standard deviation" if spread_and_mean(subject)[0] is not None else "the whole declared range"
    caption = f"Change of each class's score when a column moves by {moved}, the strongest columns first."
    caption += _of_hidden(found[:MOST_BARS])
    return Table(("column", *names), rows, caption, frozenset(range(1, len(names) + 1)))


def coefficient_blocks(subject: Subject, table: Summary | None, no_table: str) -> list[Block]:
    """Every coefficient in the units of the data, the intercept last, with intervals where the fit has them."""
    if table is not None:
        # The interval comes second: on a phone the columns after it are reached by scrolling.
        single = ("standard_error", "sampling_error", "privacy_error", "z", "p")
        parts = (("estimate", ""), ("low", "high"), *((key, "") for key in single))
        lines = [
            (r["name"], *(f"{number(r[a])} … {number(r[b])}" if b else _one(a, r[a]) for a, b in parts))
            for r in table.rows()
        ]
        head = ("", "estimate", f"{in_percent(table.level)} interval", "standard error", "of sampling", "of privacy", "z", "p")
        caption = f"In the units of the data: {subject.outcome} per unit"
        return [*_drawn(subject, table), Table(head, lines, caption, frozenset(range(1, 8))), Text(table.note, "soft")]
    record = subject.certificate.record
    if not getattr(MECHANISMS.get(record["mechanism"]["name"]), "linear", True):
        return [Text("This model has no coefficient per column; its weights are in the certificate below.", "soft")]
    own = _plain(subject)
    why = [Text(f"No intervals: {no_table}", "soft")] if no_table else []
    if own is None:
        numbers = subject.weights[:200].tolist()
        names = subject.columns if len(subject.columns) == len(numbers) else [f"value {j + 1}" for j in range(len(numbers))]
        return [Table(("", "value"), [(name, f"{v:.6g}") for name, v in zip(names, numbers)], "", frozenset({1}))]
    return [*own, *why]


def _one(key: str, value: float) -> str:
    """A number of the table; a p-value below 0.001 is not written with a power of ten."""
    return "< 0.001" if key == "p" and value < 0.001 else number(value)


def _drawn(subject: Subject, table: Summary) -> list[Block]:
    """The intervals as a figure, the strongest estimates first where there are many."""
    rows = whiskers(subject, table)
    if not rows:
        return []
    shown = sorted(rows, key=lambda row: -abs(row.estimate))[:MOST_BARS] if len(rows) > MOST_BARS else rows
    most = f"The {len(shown)} strongest of {len(rows)} coefficients" if len(shown) < len(rows) else "All coefficients"
    moved = "one released standard deviation" if spread_and_mean(subject)[0] is not None else "the whole declared range"
    caption = f"{most} with their {in_percent(table.level)} intervals: change of the {subject.outcome} when a column"
    return [Whiskers(shown, f"{caption} moves by {moved}; grey intervals hold 0.")]


def _plain(subject: Subject) -> list[Block] | None:
    """Slopes and intercept per class, from the model in its units, or from the certificate alone."""
    stored, encoding = subject.certificate.record["coefficients"].get("original"), subject.encoding
    if encoding is None or stored is None:
        return None
    slopes = np.atleast_2d(stored["slopes"] if subject.slopes is None else subject.slopes)
    constant = np.atleast_1d(stored["intercept"] if subject.intercept is None else subject.intercept)
    if slopes.shape[1] != encoding.d:
        return None
    several = len(slopes) > 1
    names = subject.classes if len(subject.classes) == len(slopes) else tuple(f"class {k}" for k in range(len(slopes)))
    head = ("", *(names if several else ("coefficient",)))
    rows = [(name, *map(grouped, slopes[:, j].tolist())) for j, name in enumerate(encoding.names)]
    end = ("intercept", *map(grouped, constant.tolist()))
    unit = "" if subject.half is None and subject.slopes is None and not subject.classes else f": {subject.outcome} per unit"
    caption, numeric = f"In the units of the columns{unit}", frozenset(range(1, len(head)))
    if len(rows) <= 40:
        return [Table(head, [*rows, end], caption, numeric)]
    order = np.argsort(-np.abs(slopes).max(axis=0) * encoding.width, kind="stable")[:MOST_BARS]
    whole = "\n".join("\t".join(row) for row in [*rows, end])
    return [
        Table(head, [*(rows[j] for j in order), end], f"{caption}; the {MOST_BARS} largest over their range", numeric),
        Code(whole, f"All {len(rows)} coefficients"),
    ]
