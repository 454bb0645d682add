"""`dperm verify CERT`: recompute everything, without the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from dperm.commands.shared import JSON_OPTION, say, show


def verify(
    certificate: Path = typer.Argument(..., help="certificate.json of a fit or a search, or evaluation.json."),
    model: Path | None = typer.Option(None, help="model.json, to check that its coefficients are the certified ones."),
    allow_seeded: bool = typer.Option(False, "--allow-seeded", help="Accept reproducible noise, which is NOT private."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Check a certificate by computing it again from its own description. Exit code 1 when anything disagrees.

    A pass shows that the claim is consistent. It cannot show that the run took place.

    Example: dperm verify dperm-model/certificate.json --model dperm-model/model.json
    """
    from dperm.certificate import Certificate, coefficient_hash
    from dperm.model_file import read_json

    record = read_json(certificate)
    if isinstance(record, dict) and record.get("format") in ("dperm-evaluation/1", "dperm-evaluation/2"):
        from dperm.evaluation import Evaluation

        found: Any = Evaluation(record)
    elif isinstance(record, dict) and record.get("format") == "dperm-search/1":
        from dperm.estimators.search import SearchCertificate

        found = SearchCertificate(record)
    else:
        found = Certificate.load(certificate)
    verdict = found.verify(allow_seeded=allow_seeded)
    reasons = list(verdict.reasons)
    if model is not None:
        stored = read_json(model)
        best = found.record.get("best")
        of = best if isinstance(best, dict) else found.record
        certified = of.get("coefficients") or of.get("model") or {}
        if not isinstance(stored, dict) or coefficient_hash(stored.get("w", [])) != dict(certified).get("sha256"):
            reasons.append("the model's coefficients are not the certified ones")
    if as_json:
        show({"ok": not reasons, "reasons": reasons, "statement": found.record.get("statement", "")}, True)
    elif reasons:
        say(f"NOT VERIFIED: {certificate.name}")
        for reason in reasons:
            say(f"  - {reason}")
    else:
        say(f"verified: {found.record['statement']}")
        for assumption in found.record.get("assumptions", []):
            say(f"  assumes: {assumption}")
    if reasons:
        raise typer.Exit(1)
