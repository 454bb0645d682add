"""Progress on a terminal: one line that is rewritten, and nothing at all when the output is not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable


def step_printer(label: str) -> Callable[[int, int], None]:
    """A callback (done, total); both numbers are planned beforehand and public."""
    if not sys.stderr.isatty():
        return lambda done, total: None

    def show(done: int, total: int) -> None:
        if done == total:
            sys.stderr.write("\r\x1b[K")
        elif done % max(total // 50, 1) == 0:
            filled = 30 * done // total
            sys.stderr.write(f"\r{label} [{'#' * filled}{'.' * (30 - filled)}] {done}/{total}")
        sys.stderr.flush()

    return show


def row_printer() -> Callable[[int, int, float], None]:
    """A callback (rows done, rows, seconds) for one pass over a file: share and seconds left, but no number of rows, nor how
    many a second, because it may be protected."""
    if not sys.stderr.isatty():
        return lambda done, total, seconds: None
    shown = 0.0

    def show(done: int, total: int, seconds: float) -> None:
        nonlocal shown
        if done == total:
            shown = 0.0
            sys.stderr.write("\r\x1b[K")
        elif seconds - shown >= 0.5:
            shown = seconds
            left = seconds * (total - done) / done
            sys.stderr.write(f"\r\x1b[Kpass {100 * done // total} %, {left:.0f} s left")
        sys.stderr.flush()

    return show
