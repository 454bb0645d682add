"""The curves of an additive model, from its coefficients and the marginals that it released."""

from __future__ import annotations

import numpy as np

from dperm.mechanisms.scaled.additive import Additive
from dperm.mechanisms.scaled.additive_poisson import AdditivePoisson, additive_of
from dperm.mechanisms.scaled.shape_noise import BAND, FAINT, NORMAL, crowded, shape_noise
from dperm.mechanisms.scaled.smoothness import shape_values
from dperm.pages.charts import Panel, Panels, signed
from dperm.pages.document import Block
from dperm.pages.subject import Subject
from dperm.pages.text import Text
from dperm.problem.arrays import Vector
from dperm.terms.additive import CELLS
from dperm.walk.fitting import rebuilt_plan

NO_BAND = "No bands: no formula gives the noise in the curves of such a fit."
EDITED = "The model predicts with curves that were edited after the release ({}). Those below are the released ones."


def shape_blocks(subject: Subject) -> list[Block]:
    """A small figure per curved column over its declared bounds; nothing for models without shapes."""
    record = subject.certificate.record
    if record["mechanism"]["name"] not in (Additive.name, AdditivePoisson.name):
        return []
    plan, _ = rebuilt_plan(record)
    mechanism, encoding = additive_of(plan), subject.encoding
    if not mechanism.curved or encoding is None:
        return [Text("No column has a curve: every column acts along a straight line.", "soft")]
    shares = np.array([column.places for column in mechanism.columns(plan, record["released"])])
    w, centre = subject.weights, np.array(record["decided"]["shift"], dtype=np.float64)
    margins = subject.problem.loss.margins
    found = [shape_values(part, plan.shape.d, mechanism.curved, centre, shares)[0] for part in w.reshape(margins, -1)]
    noise = shape_noise(subject.problem, plan, record["decided"], record["released"], w)
    panels, unit = [], subject.half or 1.0
    for place, j in enumerate(mechanism.curved):
        low, high = float(encoding.low[j]), float(encoding.high[j])
        grid = low + (high - low) * (np.arange(CELLS) + 0.5) / CELLS
        for margin, values in enumerate(found):
            curve, sure = values[place, :CELLS] * unit, crowded(shares[place])
            words = f"from {signed(curve[sure].min(), 2)} to {signed(curve[sure].max(), 2)}"
            name = encoding.names[j] + (f", {_label(subject, margin)}" if margins > 1 else "")
            line = list(zip(grid.tolist(), curve.tolist()))
            reach = None if noise is None else NORMAL * unit * noise[place, :CELLS]
            band = [] if reach is None else list(zip(*(part[sure].tolist() for part in (grid, curve - reach, curve + reach))))
            panels.append(Panel(name, words, line, band, sure=(sure.start, sure.stop), ends=(low, high)))
    paid = "marginals" in record["released"]
    average = "under the released histogram" if paid else "over the declared range (no histograms were paid for)"
    said = [BAND if noise is not None else NO_BAND, *([FAINT] if paid else []), *_smoothness(str(record["decided"]["shapes"]))]
    caption = (
        f"Change of the {subject.outcome} along each numeric column, all else equal, counted from its average {average}. "
        + " ".join(said)
    )
    return [*([Text(EDITED.format("; ".join(subject.edits)), "warn")] if subject.edits else []), Panels(panels, caption)]


def lines_beside(subject: Subject) -> tuple[Vector, frozenset[int]] | None:
    """(slopes of every encoded column per margin, the columns that have a curve), of an additive model; None of others.

    What an additive fit releases are d slopes, an intercept and the curves (`shape_values`); a column without a curve has its
    slope alone."""
    record, encoding = subject.certificate.record, subject.encoding
    if record["mechanism"]["name"] not in (Additive.name, AdditivePoisson.name) or encoding is None:
        return None
    slopes = subject.weights.reshape(subject.problem.loss.margins, -1)[:, : encoding.d] * (subject.half or 1.0)
    return slopes, frozenset(additive_of(rebuilt_plan(record)[0]).curved)


def _smoothness(decided: str) -> list[str]:
    """Said where the fit chose the line, and why; that there are curves can be seen."""
    return [] if decided == "curves" else [f"Smoothness: {decided}."]


def _label(subject: Subject, margin: int) -> str:
    return subject.classes[margin] if margin < len(subject.classes) else f"class {margin + 1}"
