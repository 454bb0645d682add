"""`dperm card` and `dperm registry`: what others ask for when a model is published."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dperm.commands.earlier import told_beside
from dperm.commands.reporting import paid_scores
from dperm.commands.shared import JSON_OPTION, show
from dperm.pages.document import rendered
from dperm.tables.json_files import in_folder, write_whole

if TYPE_CHECKING:
    from dperm.pages.subject import Subject
    from dperm.walk.certificate import Certificate


def card(
    model: Path = typer.Argument(..., help="Folder that a fit wrote, its certificate.json, or a saved model."),
    evaluation: Path | None = typer.Option(None, help="evaluation.json of `dperm evaluate`, for the scores."),
    out: Path = typer.Option(Path("card.md"), help="Where to write; a name that ends in .html gives HTML."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Write a model card with its privacy, data and scores filled in; lines for people to write begin with TO WRITE.

    Example: dperm card dperm-model --evaluation evaluation.json --out card.md
    """
    from dperm.estimators.model_file import certified_model
    from dperm.pages.card import card as model_card

    subject, found = _subject(model)
    beside = certified_model(in_folder(model, "certificate.json"), found)
    page = model_card(subject, None if evaluation is None else paid_scores(evaluation, found, beside))
    write_whole(out.parent, {out.name: rendered(page, markdown=out.suffix != ".html")})
    show({"card": str(out)}, as_json)


def registry(
    certificate: Path = typer.Argument(..., help="certificate.json of a fit, the folder that the fit wrote, or a saved model."),
    name: str | None = typer.Option(None, help="Name of the data product; by default from the target and the data set."),
    curator: str | None = typer.Option(None, help="Who holds the data."),
    use: str | None = typer.Option(None, help="What the release is for."),
    out: Path | None = typer.Option(None, help="Write the entry here instead of printing it."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Write an entry for the OpenDP registry of deployments (YAML), filled in from a certificate that verifies.

    Example: dperm registry dperm-model --curator "Statistics Office" --out entry.yaml
    """
    from dperm.pages.registry import entry, to_yaml

    subject, found = _subject(certificate)
    if subject.seeded:
        where = "" if found.noise == "seeded" else " in profile.json"
        wanted = "Expected a private release for a registry of them"
        raise ValueError(f"{wanted}, found seeded noise{where}. Fit without random_state.")
    made = entry(subject, name=name, curator=curator, use=use)
    if out is not None:
        write_whole(out.parent, {out.name: to_yaml(made) + "\n"})
        show({"entry": str(out)}, as_json)
    elif as_json:
        show(made, True)
    else:
        typer.echo(to_yaml(made))


def _subject(place: Path) -> tuple[Subject, Certificate]:
    """What the records are about: the model beside the certificate where it is there, else the certificate alone; with what a
    profile beside them paid."""
    from dperm.estimators.model_file import certified_model, verified_certificate
    from dperm.pages.subject import from_certificate, subject_of

    file = in_folder(place, "certificate.json")
    found = verified_certificate(file)
    model = certified_model(file, found)
    subject = from_certificate(found) if model is None else subject_of(model)
    return replace(subject, earlier=told_beside(file.parent, found)), found
