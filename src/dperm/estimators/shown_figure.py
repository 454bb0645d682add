"""A figure that a notebook shows also where pyplot was never imported."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class ShownFigure(Figure):
    """A figure of matplotlib that knows its own picture."""

    def _repr_png_(self) -> bytes:
        made = io.BytesIO()
        self.savefig(made, format="png", dpi=90)
        return made.getvalue()
