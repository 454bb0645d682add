"""The table of coefficients that `summary()` prints, in the form that statsmodels made familiar, with or without intervals.

    facts   what was fitted and how private it is, two columns of words above the table
    rows    dicts with "name" and "estimate"; where there are intervals also "standard_error", "z", "p", "low" and "high"
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dperm.words.display import box
from dperm.words.wording import grouped, printable

if TYPE_CHECKING:
    from dperm.estimators.base import PrivateEstimator

MOST_LINES = 200  # of coefficients without intervals: a last layer on embeddings has tens of thousands
Row = dict[str, Any]  # a name and numbers
Facts = tuple[tuple[str, str], ...]
COLUMNS = (
    ("estimate", "coef", grouped),
    ("standard_error", "std err", partial(grouped, digits=3)),
    ("sampling_error", "sampling", partial(grouped, digits=3)),
    ("privacy_error", "privacy", partial(grouped, digits=3)),
    ("z", "z", "{:.2f}".format),
    ("p", "P>|z|", "{:.3f}".format),
)


def table_cells(rows: Sequence[Row], level: float, heading: str = "coef") -> tuple[list[str], list[list[str]]]:
    """(head, cells) of what the rows have; `heading` stands above the estimates."""
    shown = [column for column in COLUMNS if rows and column[0] in rows[0]]
    head = ["", *(heading if key == "estimate" else title for key, title, _ in shown)]
    limits = bool(rows) and "low" in rows[0]
    if limits:
        head += [f"[{(1 - level) / 2:.4g}", f"{(1 + level) / 2:.4g}]"]
    cells = []
    for row in rows:
        line = [printable(str(row["name"])), *(form(row[key]) for key, _, form in shown)]
        cells.append([*line, grouped(row["low"]), grouped(row["high"])] if limits else line)
    return head, cells


def table_text(title: str, facts: Facts, rows: Sequence[Row], level: float, note: str, heading: str = "coef") -> str:
    """The table for a terminal; every name is one line and moves no cursor."""
    head, cells = table_cells(rows, level, heading)
    widths = [max(len(line[j]) for line in [head, *cells]) for j in range(len(head))]
    lines = [
        "  ".join(text.ljust(width) if j == 0 else text.rjust(width) for j, (text, width) in enumerate(zip(line, widths)))
        for line in [head, *cells]
    ]
    half = (len(facts) + 1) // 2
    pairs = [(facts[j], facts[j + half] if j + half < len(facts) else ("", "")) for j in range(half)]
    labels = [[f"{name + ':':<10} {printable(value)}" if name else "" for name, value in pair] for pair in pairs]
    left = max([len(one) for one, _ in labels], default=0)
    above = [f"{one:<{left}}   {other}".rstrip() for one, other in labels]
    width = max(map(len, [*lines, *above, title]))
    double, single = "=" * width, "-" * width
    top = [printable(title).center(width).rstrip(), double, *above, double] if facts else []
    return "\n".join([*top, lines[0], single, *lines[1:], double, *textwrap.wrap(note, max(width, 88))])


def table_html(title: str, facts: Facts, rows: Sequence[Row], level: float, note: str, heading: str = "coef") -> str:
    """The same for a notebook."""
    head, cells = table_cells(rows, level, heading)
    chips = [f"{name}: {value}" for name, value in facts]
    return box(title, "coefficients", chips=chips, head=head, rows=cells, note=note)


class Tabled:
    """What a notebook, a terminal and `print` show of a table."""

    def _shown(self) -> tuple[str, Facts, Sequence[Row], float, str]:
        """Title, facts, rows, level and note."""
        raise NotImplementedError

    @property
    def _heading(self) -> str:
        """What stands above the estimates."""
        return "coef"

    def __str__(self) -> str:
        return table_text(*self._shown(), self._heading)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return table_html(*self._shown(), self._heading)


@dataclass(frozen=True, repr=False)
class Estimates(Tabled):
    """The coefficients of a fit without intervals, in the units of `coef_`, the intercept last; `note` says why."""

    names: tuple[str, ...]
    estimate: np.ndarray
    note: str
    title: str = ""
    facts: Facts = ()

    def rows(self) -> list[Row]:
        return [{"name": name, "estimate": float(value)} for name, value in zip(self.names, self.estimate)]

    def _shown(self) -> tuple[str, Facts, Sequence[Row], float, str]:
        more = len(self.names) - MOST_LINES
        note = self.note if more <= 0 else f"And {more:,} more: `summary().rows()` has all. {self.note}"
        return self.title, self.facts, self.rows()[:MOST_LINES], 0.95, note


def estimates(model: PrivateEstimator, why: str) -> Estimates:
    """Every coefficient of a linear model: one line per column, or per class and column."""
    slopes, constant = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    columns = [*model._encoding.names, *(["intercept"] if model.fit_intercept else [])]
    classes = [str(label) for label in getattr(model, "classes_", ())]
    names, values = [], []
    for k in range(len(slopes)):
        own = f"{classes[k]}: " if len(slopes) > 1 else ""
        names += [f"{own}{name}" for name in columns]
        values += [*slopes[k], *([constant[k]] if model.fit_intercept else [])]
    return Estimates(tuple(names), np.array(values, dtype=np.float64), why)


def facts_of(model: PrivateEstimator) -> Facts:
    """What stands above the table."""
    certificate = model.certificate_
    record: Mapping[str, Any] = certificate.record
    shape = record.get("shape", record.get("best", {}).get("shape", {}))
    classes = [str(label) for label in getattr(model, "classes_", ())]
    epsilon, paid = f"{certificate.epsilon:g}", getattr(model, "information_", None)
    if paid is not None and paid.events:  # paid for after the fit
        epsilon += f", {paid.total_epsilon:.4g} with the curvature for intervals"
    noise = "NOT PRIVATE (seeded)" if certificate.noise == "seeded" else certificate.noise
    return (
        ("Method", str(model.plan_.mechanism) if hasattr(model, "plan_") else ""),
        ("Records", f"{shape.get('n', 0):,}{', declared' if certificate.relation == 'add-remove' else ''}"),
        ("Columns", f"{shape.get('d', 0):,}"),
        *((("Classes", ", ".join(classes[:4]) + (" …" if len(classes) > 4 else "")),) if classes else ()),
        ("Epsilon", epsilon),
        ("Delta", f"{certificate.delta:g}"),
        ("Relation", f"{certificate.relation}, per {certificate.record['guarantee'].get('unit', 'row')}"),
        ("Noise", noise),
        # Said whatever the data: labels that were misspelt in a declaration make all rows empty, and must not become an error.
        ("Other labels" if classes else "Non-numbers", "count as empty"),
    )
