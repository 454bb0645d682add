"""A model card whose privacy section is filled in from the certificate; what only people know is marked as theirs to write."""

from __future__ import annotations

from dperm.choose.odds import odds_sentence
from dperm.pages.content import ALONE, SEEDED, declared_blocks, stage_blocks
from dperm.pages.document import Block, Page, Section
from dperm.pages.scores import evaluation_blocks
from dperm.pages.subject import Subject, day
from dperm.pages.text import Table, Text
from dperm.release.record import EvaluationRecord

WRITE = "TO WRITE:"
FOOTER = "Privacy, data and method are filled in by dperm from the certificate. Lines that begin with TO WRITE are for people."


def card(subject: Subject, evaluation: EvaluationRecord | None = None) -> Page:
    """The card as a page, for HTML or Markdown."""
    certificate = subject.certificate
    title = f"Model card: {subject.title}"
    parts = [
        Section("Model", _model(subject)),
        Section("Intended use", [Text(f"{WRITE} who should use the model, for what, and what it must not be used for.")]),
        Section("Privacy", _privacy(subject)),
        Section("Data", _data(subject)),
        Section("How good it is", _scores(subject, evaluation)),
        Section("Limits", _limits(subject)),
        Section("How to check this card", [Text(_CHECK)]),
    ]
    return Page(title, parts, FOOTER, "Model card", f"{subject.model or certificate.mechanism} · {day(subject.date)}")


_CHECK = (
    "`dperm verify` of the folder with certificate.json and model.json computes the guarantee again from the certificate, "
    "without the data, and compares the model's coefficients with the certified ones. It shows that the claim is consistent, "
    "not that the run took place."
)


def _model(subject: Subject) -> list[Block]:
    shape = subject.certificate.record["shape"]
    rows = [
        ("kind", subject.model or "not stated"),
        ("predicts", subject.target or "not stated"),
        *((("classes", ", ".join(subject.classes)),) if subject.classes else ()),
        ("fitted by", subject.certificate.mechanism),
        ("released numbers", f"{subject.weights.size:,} coefficients"),
        *((("edited after the release", "; ".join(subject.edits)),) if subject.edits else ()),
        ("columns after encoding", f"{shape['d']:,}"),
        ("day", day(subject.date)),
    ]
    return [Table(("", ""), rows), Text(f"{WRITE} who made the model, its version and licence, and whom to ask.")]


def _privacy(subject: Subject) -> list[Block]:
    certificate = subject.certificate
    record = certificate.record
    rows = [
        ("epsilon", f"{certificate.epsilon:g}" if subject.earlier is None else subject.earlier.words),
        ("delta", f"{subject.delta:g}"),
        ("unit of privacy", "one person with all their counted records" if certificate.unit == "person" else "one record"),
        ("neighbouring data", certificate.relation),
        ("noise", f"{certificate.noise}: {record['noise']['claim']}"),
        *((f"assumption {number}", text) for number, text in enumerate(record["assumptions"], 1)),
    ]
    words = odds_sentence(subject.epsilon, subject.delta, certificate.relation, certificate.unit)
    return [
        *([Text(SEEDED, "warn")] if subject.seeded else []),
        Text(certificate.statement, "say"),
        Table(("", ""), rows),
        *([Text(ALONE, "warn")] if subject.alone else []),
        Text(words),
        *stage_blocks(record["stages"], certificate.delta, certificate.relation),
    ]


def _data(subject: Subject) -> list[Block]:
    shape = subject.certificate.record["shape"]
    count = "nominal number; the true one is protected" if subject.certificate.relation == "add-remove" else "public"
    return [
        Text(f"Data set: {subject.data or 'not stated'}, {shape['n']:,} records ({count})."),
        *declared_blocks(subject),
        Text(f"{WRITE} where the data come from, whom they describe, and on what legal ground they were used."),
    ]


def _scores(subject: Subject, evaluation: EvaluationRecord | None) -> list[Block]:
    if evaluation is None and not subject.predicts:
        return [Text("Not measured.")]
    if evaluation is None:
        return [Text("Not measured. `dperm evaluate` pays for scores on held-out rows; pass its file with --evaluation.")]
    return evaluation_blocks(evaluation)


def _limits(subject: Subject) -> list[Block]:
    blocks: list[Block] = [
        Text(
            f"Differential privacy limits what the release says about one {subject.who}. It does not hide what is true of the "
            "population, it does not cover predictions on private rows, and it does not make a model fair."
        )
    ]
    if "ledger" not in subject.certificate.record:
        blocks.append(Text("No budget ledger was debited: other releases from the same data add to this one."))
    return [*blocks, Text(f"{WRITE} groups for which the model was not tested, and known failures.")]
