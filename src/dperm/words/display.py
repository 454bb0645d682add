"""What a notebook shows: a small box in its own colours, from names and numbers that were public or paid for.

A box has no style sheet, since a notebook may drop it: it inherits the colours of its page, light or dark.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

from dperm.words.wording import printable

_BOX = (
    "border:1px solid rgba(128,128,128,.45);border-left:4px solid {edge};border-radius:6px;padding:.6em .9em;margin:.3em 0;"
    "max-width:46em;font-family:system-ui,sans-serif;font-size:.95em;line-height:1.45;overflow-x:auto"
)
_CHIP = "border:1px solid rgba(128,128,128,.45);border-radius:1em;padding:.05em .7em;margin:.2em .35em 0 0;display:inline-block"
_CELL = "text-align:left;padding:.15em 1em .15em 0;vertical-align:top"
EDGES = {"good": "#2e7d4f", "plain": "#3572b0", "bad": "#c0561b"}


def escaped(text: object) -> str:
    """Text that HTML shows as it is.

    >>> escaped("<b>\\n")
    '&lt;b&gt;\\\\n'
    """
    return html.escape(printable(str(text)), quote=True)


def box(
    title: str,
    state: str,
    *,
    mood: str = "plain",
    chips: Sequence[str] = (),
    rows: Sequence[Sequence[str]] = (),
    head: Sequence[str] = (),
    note: str = "",
) -> str:
    """A title and its state, a line of short facts, and a table; every word is escaped here.

    >>> "ε = 1" in box("Certificate", "verifies", mood="good", chips=["ε = 1"])
    True
    """
    parts = [f"<div><strong>{escaped(title)}</strong> · {escaped(state)}</div>"]
    if chips:
        parts.append("<div>" + "".join(f'<span style="{_CHIP}">{escaped(chip)}</span>' for chip in chips) + "</div>")
    if rows:
        top = "".join(f'<th scope="col" style="{_CELL}">{escaped(text)}</th>' for text in head)
        body = "".join("<tr>" + "".join(f'<td style="{_CELL}">{escaped(cell)}</td>' for cell in row) + "</tr>" for row in rows)
        parts.append(
            f'<table style="border-collapse:collapse;margin-top:.4em">{f"<tr>{top}</tr>" if head else ""}{body}</table>'
        )
    if note:
        parts.append(f'<div style="margin-top:.4em">{escaped(note)}</div>')
    return f'<div style="{_BOX.format(edge=EDGES[mood])}">{"".join(parts)}</div>'


def budget_chips(epsilon: float, delta: float | None, relation: str, unit: str) -> list[str]:
    """The four facts that a privacy officer asks for first.

    >>> budget_chips(1.0, None, "replace-one", "row")
    ['ε = 1', 'δ = default', 'replace-one', 'per row']
    """
    return [f"ε = {epsilon:g}", "δ = default" if delta is None else f"δ = {delta:g}", relation, f"per {unit}"]
