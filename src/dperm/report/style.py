"""How figures look: colours that survive colour blindness and grey print, a marker and a dash for every series."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette without yellow, which does not print
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[object, ...] = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)), (0, (1, 1)), (0, (4, 1, 1, 1, 1, 1)), "-")

WIDTH = 5.0  # inches, of every figure

SETTINGS: dict[object, object] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "legend.fontsize": 9,
    # the same figure must give the same bytes
    "svg.hashsalt": "dperm",
}


@dataclass
class Panel:
    """One pair of axes with the series drawn so far, so that every new series gets its own colour, marker and dash."""

    axes: Axes
    used: int = 0

    def line(self, x: ArrayLike, y: ArrayLike, label: str, *, marks: int = 6) -> None:
        """A curve with about `marks` markers on it, so that it is told apart without colour; 0 for none."""
        i, points = self.used % len(COLOURS), np.asarray(x)
        self.axes.plot(
            points, np.asarray(y), label=label, color=COLOURS[i], linestyle=DASHES[i], markersize=5,
            marker=MARKERS[i] if marks else "",
            markevery=(i % 3 if marks < len(points) else 0, max(1, len(points) // max(marks, 1))),
        )  # fmt: skip
        self.used += 1

    def dots(self, x: ArrayLike, y: ArrayLike, error: ArrayLike, label: str, *, like: int | None = None) -> None:
        """Measured points with their error bars; `like` takes the colour and marker of an earlier series."""
        i = (self.used if like is None else like) % len(COLOURS)
        xs, middle, reach = np.asarray(x, dtype=float), np.asarray(y, dtype=float), np.asarray(error, dtype=float)
        self.axes.vlines(xs, middle - reach, middle + reach, color=COLOURS[i], linewidth=1.4)
        self.axes.plot(
            xs, middle, label=label, color=COLOURS[i], marker=MARKERS[i], linestyle="none", markersize=7,
            markeredgecolor="black", markeredgewidth=0.6, zorder=4,
        )  # fmt: skip
        if like is None:
            self.used += 1

    def star(self, x: ArrayLike, y: ArrayLike, size: float, colour: str = "", label: str = "", **more: float) -> None:
        """A star in the colour of the series drawn last, or in another."""
        colour = colour or COLOURS[self.used - 1]
        drawn = self.axes.plot(x, y, marker="*", markersize=size, linestyle="none", color=colour, markeredgecolor="black")
        drawn[0].set(**more, **({"label": label} if label else {}))

    def ticks(self, axis: str, values: Sequence[float]) -> None:
        """Plain numbers at these values and nowhere else."""
        from matplotlib.ticker import NullLocator

        labels = [f"{value:,g}" for value in values]
        (self.axes.set_xticks if axis == "x" else self.axes.set_yticks)(values, labels)
        (self.axes.xaxis if axis == "x" else self.axes.yaxis).set_minor_locator(NullLocator())

    def reference(self, x: ArrayLike, y: ArrayLike, label: str, *, dash: tuple[int, tuple[int, int]] | str = (0, (1, 2))) -> None:
        """A thin grey line without markers: a slope or a limit, not a prediction."""
        self.axes.plot(np.asarray(x), np.asarray(y), label=label, color="#666666", linewidth=1.3, linestyle=dash)

    def words(self, title: str, x: str, y: str, *, x_scale: str = "log", y_scale: str = "log") -> None:
        self.axes.set(title=title, xlabel=x, ylabel=y, xscale=x_scale, yscale=y_scale)

    def key_below(self, columns: int = 1) -> None:
        """The legend under the whole figure, where it hides nothing."""
        self.axes.figure.legend(*self.axes.get_legend_handles_labels(), loc="outside lower center", ncols=columns)


def figure(panels: int = 1, *, height: float = 3.7) -> Callable[[Callable[..., None]], Callable[[Path], None]]:
    """Make a function that draws on `panels` axes one that writes the file: SVG or PNG by its ending, without a date.

    The axes have this height and stand one below the other: a phone that shrinks them leaves words that can be read. Titles,
    legends and files are all made under SETTINGS. matplotlib is imported when something is drawn.
    """

    def of(draw: Callable[..., None]) -> Callable[[Path], None]:
        @functools.wraps(draw)
        def written(path: Path) -> None:
            import matplotlib
            from matplotlib.figure import Figure

            path.parent.mkdir(parents=True, exist_ok=True)
            with matplotlib.rc_context(SETTINGS):
                drawing = Figure(figsize=(WIDTH, height * panels), layout="constrained")
                if panels > 1:  # room between one panel and the title of the next
                    drawing.set_layout_engine("constrained", hspace=0.08)
                draw(*(Panel(axes) for axes in drawing.subplots(panels, 1, squeeze=False)[:, 0]))
                drawing.savefig(path, dpi=130, metadata={"Date": None} if path.suffix == ".svg" else {"Software": None})

        return written

    return of


def folded(name: str) -> str:
    """A long name beside an axis, on two lines or three.

    >>> folded("Projected gradient bound (E15)")
    'Projected gradient bound\\n(E15)'
    """
    return "\n".join(textwrap.wrap(name, 26))
