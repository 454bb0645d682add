"""Names from strangers in texts for people: of columns, classes and data sets, which may hold anything.

A name can hold Markdown, HTML, line breaks, or the control characters that move a terminal's cursor and turn text around. What is
written for people goes through here; JSON and CSV have escapes of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_MARKS = re.compile(r"([\\`*\[\]|~$#]|(?<![^\W_])_|_(?![^\W_]))")  # an underscore inside a word marks nothing
_LINKS = re.compile(r"(?i)(:(?=//)|(?<=www)\.|@)")


def printable(text: str, keep: str = "") -> str:
    r"""Control characters, line breaks and marks that turn text around, each as its escape.

    >>> print(printable("age\x1b[2J\n\u202e"), printable("größe ≤ 3"))
    age\x1b[2J\n\u202e größe ≤ 3
    """
    return "".join(
        sign if sign.isprintable() or sign in keep else sign.encode("unicode_escape").decode("ascii") for sign in text
    )


def grouped(value: float, digits: int = 4) -> str:
    """A number in a sentence: thousands with commas and no decimals, others with four digits that count, or so many.

    >>> grouped(16384.0), grouped(32.0), grouped(-0.123456), grouped(3e12), grouped(0.0123456, 3)
    ('16,384', '32', '-0.1235', '3e+12', '0.0123')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.{digits}g}"


def with_interval(value: float, low: float, high: float, places: int) -> tuple[str, str]:
    """A score and its interval with so many decimals; fewer where the largest number is 100 or more, and thousands with commas.

    >>> with_interval(0.68, -0.0, 0.7, 3), with_interval(569.04, 512, 601.5, 3), with_interval(2301.4, 11.2334, 4591.2, 4)
    (('0.680', '0.000 … 0.700'), ('569.0', '512.0 … 601.5'), ('2,301', '11 … 4,591'))
    """
    largest = max(abs(value), abs(low), abs(high))
    places = places if largest < 100 else 1 if largest < 1000 else 0
    return f"{value:z,.{places}f}", f"{low:z,.{places}f} … {high:z,.{places}f}"


def in_percent(share: float, digits: int = 6) -> str:
    """A share in percent, with so many digits that count.

    >>> in_percent(0.95), in_percent(0.999), in_percent(0.99634, 2), in_percent(0.00512, 2)
    ('95 %', '99.9 %', '100 %', '0.51 %')
    """
    return f"{float(f'{100 * share:.{digits}g}'):g} %"


def several(count: int, word: str) -> str:
    """A count with its noun.

    >>> several(1, "fit"), several(0, "fit"), several(1200, "release")
    ('1 fit', '0 fits', '1,200 releases')
    """
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def listed(words: Sequence[str]) -> str:
    """Words in one sentence.

    >>> listed([]), listed(["a"]), listed(["a", "b", "c"])
    ('', 'a', 'a, b and c')
    """
    return " and ".join([", ".join(words[:-1])] * (len(words) > 1) + list(words[-1:]))


def markdown_text(text: str) -> str:
    r"""Text that Markdown shows as it is: no emphasis, link, image, code, heading, table cell or HTML comes of it.

    >>> print(markdown_text("[x](http://a.b) <img src=x> capital_gain"))
    \[x\](http\://a.b) &lt;img src=x&gt; capital_gain
    """
    return _no_list(_no_marks(text))


def _no_marks(text: str) -> str:
    shown = _MARKS.sub(r"\\\1", printable(text)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _LINKS.sub(r"\\\1", shown)


def _no_list(line: str) -> str:
    """A line that begins no list and underlines no heading."""
    return re.sub(r"^(\d*)([-+=.)])(?=\s|$)", r"\1\\\2", line)


def markdown_line(words: str) -> str:
    """The same for our own sentences, in which `words` between backquotes stay code."""
    pieces = printable(words).split("`")
    if len(pieces) % 2 == 0:
        return markdown_text(words)
    shown = (_no_marks(piece) if j % 2 == 0 else f"`{piece}`" for j, piece in enumerate(pieces) if piece or j % 2 == 0)
    return _no_list("".join(shown))
