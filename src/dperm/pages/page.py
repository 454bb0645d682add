"""report.html and report.md: one self-contained page about a release. They show public or paid-for numbers only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dperm.inference.intervals import summary as intervals
from dperm.pages.content import sections
from dperm.pages.document import Page, Section, rendered
from dperm.pages.subject import Earlier, Subject, day, from_certificate, subject_of
from dperm.release.record import EvaluationRecord
from dperm.tables.json_files import write_whole
from dperm.walk.certificate import Certificate

FOOTER = "Made by dperm from the certificate. This page loads nothing from the network and runs no script."
NOT_PAID = "this fit did not pay for them. One with `intervals=True` (`dperm fit --intervals`) does, out of the same ε."
KICKER = "Released with differential privacy"


def report_page(
    model: object,
    scores: Mapping[str, str],
    evaluation: EvaluationRecord | None = None,
    earlier: Earlier | None = None,
    *,
    markdown: bool = False,
    title: str | None = None,
    data: str | None = None,
) -> str:
    """The page as text. `scores` are shown as given: the caller vouches that they are public or paid for.

    `earlier` is what was paid for bounds and levels, `data` the name of the data set.
    """
    subject = replace(subject_of(model, data=data), earlier=earlier)
    table, why = None, ""
    try:
        table = intervals(model)
    except (ValueError, AttributeError) as error:
        why = NOT_PAID if str(error).startswith("Expected a fit with intervals=True") else str(error)
    parts = sections(subject, scores=scores, table=table, no_table=why, evaluation=evaluation)
    kept = (getattr(model, "about_", None) or {}).get("title")
    return _rendered(title or kept, subject, parts, markdown)


def certificate_page(
    certificate: Certificate,
    evaluation: EvaluationRecord | None = None,
    *,
    earlier: Earlier | None = None,
    markdown: bool = False,
    title: str | None = None,
) -> str:
    """The page from a certificate alone, as anybody who got one can make it."""
    why = "they are computed from the model and its certificate, by `model.summary()`."
    subject = replace(from_certificate(certificate), earlier=earlier)
    parts = sections(subject, no_table=why, evaluation=evaluation)
    return _rendered(title, subject, parts, markdown)


def is_markdown(path: Path) -> bool:
    """Whether a page is written as Markdown, by its name; a name of another format is refused, for it would hold HTML."""
    if path.suffix.lower() not in ("", ".html", ".htm", ".md"):
        raise ValueError(f"Expected a report in .html or .md, found {path.name!r}. Change the ending (a browser makes a PDF).")
    return path.suffix.lower() == ".md"


def write_report(
    model: Any,
    path: str | Path,
    *,
    title: str | None = None,
    data: str | None = None,
    evaluation: Any = None,
    earlier: Earlier | None = None,
) -> Path:
    """Write the page: HTML, or Markdown if the name ends in .md. `evaluation` is what `evaluate` returned, or its record."""
    target, record = Path(path), getattr(evaluation, "record", evaluation)
    page = report_page(model, {}, record, earlier, markdown=is_markdown(target), title=title, data=data)
    write_whole(target.parent, {target.name: page})
    return target


def _rendered(title: str | None, subject: Subject, parts: Sequence[Section], markdown: bool) -> str:
    what = subject.model or f"a fit by {subject.certificate.mechanism}"
    byline = f"{what} · {subject.size} · {day(subject.date)}"
    return rendered(Page(title or subject.title, parts, FOOTER, KICKER, byline), markdown=markdown)
