"""report.html and report.md: one self-contained page about a release. They show public or paid-for numbers only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dperm.report.content import sections
from dperm.report.document import Section, to_html, to_markdown
from dperm.walk.certificate import Certificate

FOOTER = "Made by dperm from the certificate. This page loads nothing from the network and runs no script."


def report_page(model: Any, scores: Mapping[str, str], evaluation: Mapping[str, Any] | None = None) -> str:
    """The page as text. `scores` are shown as given: the caller vouches that they are public or paid for."""
    return to_html(*_document(model, scores, evaluation))


def report_markdown(model: Any, scores: Mapping[str, str], evaluation: Mapping[str, Any] | None = None) -> str:
    """The same as Markdown."""
    return to_markdown(*_document(model, scores, evaluation))


def certificate_page(certificate: Certificate, evaluation: Mapping[str, Any] | None = None, *, markdown: bool = False) -> str:
    """The page from a certificate alone, as anybody who got one can make it."""
    why = "they are computed where the model is fitted, by `model.summary()`."
    name = f"Report on a release by {certificate.mechanism}"
    parts = sections(certificate, no_table=why, evaluation=evaluation)
    return (to_markdown if markdown else to_html)(name, parts, FOOTER)


def _document(model: Any, scores: Mapping[str, str], evaluation: Mapping[str, Any] | None) -> tuple[str, list[Section], str]:
    table, why = None, ""
    try:
        table = model.summary()
    except (ValueError, AttributeError) as error:
        why = str(error)
    parts = sections(model.certificate_, scores=scores, table=table, no_table=why, evaluation=evaluation)
    return f"{type(model).__name__}, released with differential privacy", parts, FOOTER
