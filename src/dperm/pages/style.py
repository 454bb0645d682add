"""The style sheet of a page, whose colours follow the reader's theme."""

from __future__ import annotations

from importlib.resources import files

STYLE = (files("dperm.pages") / "assets" / "report.css").read_text(encoding="utf-8")
