"""`dperm verify CERT`: recompute everything, without the data."""

from __future__ import annotations

from pathlib import Path

import typer

from dperm.commands.shared import JSON_OPTION, show


def verify(
    certificate: Path = typer.Argument(..., help="certificate.json of a fit."),
    model: Path | None = typer.Option(None, help="model.json, to check that its coefficients are the certified ones."),
    allow_seeded: bool = typer.Option(False, "--allow-seeded", help="Accept reproducible noise, which is NOT private."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Check a certificate by computing it again from its own description. Exit code 1 when anything disagrees.

    A pass shows that the claim is consistent. It cannot show that the run took place.
    """
    from dperm.certificate import Certificate, coefficient_hash
    from dperm.model_file import read_json

    read_json(certificate)
    found = Certificate.load(certificate)
    verdict = found.verify(allow_seeded=allow_seeded)
    reasons = list(verdict.reasons)
    if model is not None:
        record = read_json(model)
        if not isinstance(record, dict) or coefficient_hash(record.get("w", [])) != found.record["coefficients"]["sha256"]:
            reasons.append("the model's coefficients are not the certified ones")
    if as_json:
        show({"ok": not reasons, "reasons": reasons, "statement": found.record.get("statement", "")}, True)
    elif reasons:
        typer.echo(f"NOT VERIFIED: {certificate.name}")
        for reason in reasons:
            typer.echo(f"  - {reason}")
    else:
        typer.echo(f"verified: {found.statement}")
        for assumption in found.record["assumptions"]:
            typer.echo(f"  assumes: {assumption}")
    if reasons:
        raise typer.Exit(1)
