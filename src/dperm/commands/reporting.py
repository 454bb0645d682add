"""`dperm report`: the page about a release, from its certificate alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dperm.commands.earlier import told_beside
from dperm.commands.shared import JSON_OPTION, show
from dperm.tables.json_files import in_folder, read_json, write_whole

if TYPE_CHECKING:
    from dperm.estimators.base import PrivateEstimator
    from dperm.release.record import EvaluationRecord
    from dperm.walk.certificate import Certificate


def report(
    certificate: Path = typer.Argument(..., help="certificate.json of a fit, the folder that the fit wrote, or a saved model."),
    evaluation: Path | None = typer.Option(None, help="evaluation.json of `dperm evaluate`, for scores and their plots."),
    title: str | None = typer.Option(None, help="Title of the page; by default that of the fit, or the target and data set."),
    out: Path = typer.Option(Path("report.html"), help="Where to write; a name that ends in .md gives Markdown."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Write the report of a release again, with the paid-for scores of an evaluation where there is one.

    The names of the target, the classes and the data set come from the model.json beside the certificate, if it is there, and
    what was paid for bounds and levels from the profile.json beside it.

    Example: dperm report dperm-model/certificate.json --evaluation evaluation.json --out report.html
    """
    from dperm.estimators.model_file import certified_model, verified_certificate
    from dperm.pages.page import certificate_page, is_markdown, write_report

    certificate = in_folder(certificate, "certificate.json")
    found = verified_certificate(certificate)
    model = certified_model(certificate, found)
    scores = None if evaluation is None else paid_scores(evaluation, found, model)
    earlier = told_beside(certificate.parent, found)
    if model is not None:
        write_report(model, out, title=title, evaluation=scores, earlier=earlier)
    else:
        page = certificate_page(found, scores, earlier=earlier, markdown=is_markdown(out), title=title)
        write_whole(out.parent, {out.name: page})
    show({"report": str(out)}, as_json)


def paid_scores(file: Path, certificate: Certificate, model: PrivateEstimator | None) -> EvaluationRecord:
    """The record of an evaluation of this model, as it predicts, if it verifies."""
    from dperm.evaluation.evaluate import Evaluation
    from dperm.walk.certificate import coefficient_hash
    from dperm.walk.claims import kind_of

    scores = read_json(file)
    if (kind := kind_of(scores)) not in ("an evaluation", ""):
        raise ValueError(f"Expected an evaluation in {file.name}, found {kind}. Pass the file that `dperm evaluate` wrote.")
    found = Evaluation.stated(scores if isinstance(scores, dict) else {})
    checked = found.verify(allow_seeded=True, accept_assumptions=True)
    if not checked.ok:
        raise ValueError(
            f"Expected an evaluation that verifies, found: {checked.reasons[0]}. "
            "Pass the file that `dperm evaluate` wrote."
        )
    predicts = certificate.record["coefficients"]["sha256"] if model is None else coefficient_hash(model._shown)
    if found.record["model"]["sha256"] != predicts:
        raise ValueError("Expected an evaluation of this model, found one of other coefficients. Evaluate this model.")
    return found.record
