"""`dperm verify CERT`: recompute everything, without the data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dperm.commands.earlier import earlier_beside, missing_profile
from dperm.commands.shared import JSON_OPTION, say, show
from dperm.commands.spoken import spoken
from dperm.tables.json_files import in_folder, read_json
from dperm.words.wording import printable

if TYPE_CHECKING:
    from dperm.walk.claims import Claim


MOST_REASONS = 3  # on the screen: one number that was changed changes others


def verify(
    certificate: Path = typer.Argument(
        ..., help="certificate.json, evaluation.json or profile.json, the folder it is in, or a model saved with its certificate."
    ),
    model: Path | None = typer.Option(None, help="model.json, to check that it says what the certificate says."),
    allow_seeded: bool = typer.Option(False, "--allow-seeded", help="Accept reproducible noise, which is NOT private."),
    accept_assumptions: bool = typer.Option(
        False, "--accept-assumptions", help="Accept assumptions that the guarantee rests on and no code enforces."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Check a certificate by computing it again from its own description. Exit code 1 when anything disagrees.

    A pass shows that the claim is consistent. It cannot show that the run took place.

    Example: dperm verify dperm-model/certificate.json --model dperm-model/model.json
    """
    from dperm.pages.subject import upward
    from dperm.walk.claims import kind_of

    folder = certificate if certificate.is_dir() else None
    if folder is not None:  # what `dperm fit` wrote: the certificate, and that it speaks of the model beside it
        beside = certificate / "model.json"
        model = beside if model is None and beside.is_file() else model
        kept = "certificate.json" if (certificate / "certificate.json").is_file() else "profile.json"
        certificate = in_folder(certificate, kept)
    if model is None and folder is None and kind_of(read_json(certificate)) == "a model":
        model = certificate  # a model that was saved in one file with its certificate
    model = None if model is None else in_folder(model, "model.json")
    found = claim_in(certificate)
    verdict = found.verify(allow_seeded=allow_seeded, accept_assumptions=accept_assumptions)
    reasons, edits = list(verdict.reasons), list[str]()
    if model is not None:
        from dperm.commands.agreeing import model_disagreements
        from dperm.commands.editing import stated_edits

        reasons += model_disagreements(model, found)
        edits = stated_edits(read_json(model))
    earlier, unseen = None, folder is None and certificate.name == "certificate.json"
    if folder is not None and certificate.name != "profile.json" and (folder / "profile.json").is_file():
        profile = claim_in(folder / "profile.json")
        verdict = profile.verify(allow_seeded=allow_seeded, accept_assumptions=accept_assumptions)
        reasons += [f"profile.json: {reason}" for reason in verdict.reasons]
        earlier = None if reasons else earlier_beside(folder, found)
    if as_json:
        both = {} if earlier is None else {"together": earlier.words}
        show({"ok": not reasons, "reasons": reasons, "statement": found.record.get("statement", ""), **both}, True)
    elif reasons:
        say(f"NOT VERIFIED: {certificate.name}")
        for reason in reasons[:MOST_REASONS]:
            say(f"  - {spoken(printable(reason))}")
        if len(reasons) > MOST_REASONS:
            say(f"  - and {len(reasons) - MOST_REASONS} more that follow from it; --json lists them")
    else:
        say(f"verified: {found.record['statement']}")
        assumptions = found.record.get("assumptions")
        for assumption in assumptions if isinstance(assumptions, list) else []:
            say(f"  assumes: {assumption}")
        for edit in edits:
            say(f"  edited after the release: {printable(edit)}")
        if earlier is not None:
            say(f"  epsilon: {earlier.words} (profile.json, verified too)")
        elif certificate.with_name("profile.json").is_file():
            if unseen:
                say(f"  A profile found its bounds and levels: `dperm verify {certificate.parent}` adds what that cost.")
        elif missing := missing_profile(certificate.with_name("model.json") if model is None else model, found):
            say(f"  epsilon: {upward(found.epsilon)} for the fit; {missing}")
    if reasons:
        raise typer.Exit(1)


def claim_in(file: Path) -> Claim:
    """The claim in a file, whatever made it: a fit, an evaluation, a profile or a search."""
    from dperm.walk.certificate import Certificate
    from dperm.walk.claims import claimed

    record = claimed(read_json(file))
    if isinstance(record, dict) and str(record.get("format")).startswith("dperm-evaluation/"):
        from dperm.evaluation.evaluate import Evaluation

        return Evaluation.stated(record)
    if isinstance(record, dict) and record.get("format") == "dperm-profile/1":
        from dperm.profiles.profile import Profile

        return Profile.stated(record)
    if isinstance(record, dict) and record.get("format") == "dperm-search/1":
        from dperm.estimators.search import SearchCertificate

        return SearchCertificate.stated(record)
    return Certificate.load(file)
