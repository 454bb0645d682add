"""What a profile found about a column, in one line: for the terminal, the page and a notebook."""

from __future__ import annotations

from collections.abc import Callable

from dperm.release.record import ColumnRecord
from dperm.tables.looks import iso
from dperm.words.wording import grouped, in_percent

KIND_WORDS = {
    "numeric": "numbers",
    "date": "dates",
    "boolean": "truth values",
    "levels": "levels",
    "unknown": "nothing that stands out of the noise",
}


def in_words(column: ColumnRecord) -> str:
    """One line about a column."""
    show = shower(column)
    text = KIND_WORDS[column["kind"]]
    if column["kind"] == "levels":
        text = f"{len(column['levels'])} levels" if column["levels"] else "text, no level stands out"
    scale = column.get("scale")
    if scale:
        text += f", {show(scale['low'])} to {show(scale['high'])}"
        text += ", on a logarithmic scale" if scale["log"] else ""
        text += _at_the_ends(column)
    mean = "mean of the values cut to this range"
    for name, found, shown in ((mean, column.get("mean"), show), ("missing", column.get("missing"), _percent)):
        if found is not None and found["value"] is not None:
            text += f"; {name} {shown(found['value'])} ({shown(found['low'])} … {shown(found['high'])})"
    return text


def _at_the_ends(column: ColumnRecord) -> str:
    """How many values lie in or beyond an end bin that holds clearly more than the one beside it: a tail was cut there."""
    if "histogram" not in column:
        return ""
    counts = column["histogram"]["counts"]
    whole, told = sum(count["value"] for count in counts), []
    for end, beside, words in ((0, 1, "in or below its lowest bin"), (-1, -2, "in or above its highest bin")):
        if whole > 0 and counts[end]["low"] > counts[beside]["high"]:
            told.append(f"about {in_percent(counts[end]['value'] / whole, 2)} of the values lie {words}")
    return "".join(f"; {text}" for text in told)


def shower(column: ColumnRecord) -> Callable[[float], str]:
    """How values of a column are written: dates as dates."""
    return iso if column["kind"] == "date" else grouped


def _percent(share: float) -> str:
    return in_percent(share, 3)
