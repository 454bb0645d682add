"""What a profile paid for the bounds and levels of the fit beside it, and what both cost together."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from dperm.tables.json_files import read_json, write_whole

if TYPE_CHECKING:
    from dperm.pages.subject import Earlier
    from dperm.profiles.profile import Profile
    from dperm.tables.schema import Schema
    from dperm.walk.claims import Claim

UNVERIFIED = "the profile.json beside it DOES NOT VERIFY, so that what it cost is not known (`dperm verify FOLDER` says why)"


def earlier_beside(folder: Path, fit: Claim, declared: float | None = None) -> Earlier | None:
    """From the profile.json of a folder, where there is one; of one that does not verify only that is said.

    Composed by the rule of ledgers at the larger δ, because the fit was chosen after the profile was seen: the budget that was
    `declared` for both (or that model.json states) if the rule accepts them, else the smallest that has room for them. Where no
    budget was declared for both beforehand, that is a sum after the fact: the smallest budget whose ledger would have taken both.
    A profile of another unit or relation is named and not added up.
    """
    from dperm.pages.subject import Earlier, upward
    from dperm.privacy import event_from_spec
    from dperm.privacy.filters import Filter, together
    from dperm.walk.claims import reproducible

    if not (folder / "profile.json").is_file():
        return None
    profile = verified_profile(folder / "profile.json")
    if profile is None:
        return Earlier(0.0, fit.epsilon, fit.epsilon, apart=UNVERIFIED)
    unit, other = (claim.record["guarantee"].get("unit") for claim in (profile, fit))
    seeded, delta = reproducible(profile.record), max(profile.delta, fit.delta)
    said = f"a profile with ({upward(profile.epsilon)}, {profile.delta:g}) for {profile.relation}, {unit} found its bounds"
    apart = Earlier(profile.epsilon, fit.epsilon, fit.epsilon, None, seeded, f"{said}, and the two are not added up here")
    if profile.relation != fit.relation or unit != other:
        return apart
    events = [[event_from_spec(stage["event"]) for stage in claim.record["stages"]] for claim in (profile, fit)]  # type: ignore[typeddict-item]
    whole = stated_budget(folder / "model.json") if declared is None else declared
    rule = None if whole is None else Filter.declare(whole, delta, "auto")
    if rule is None or rule.accepts([rule.cost(part) for part in events]) is None:
        whole = together(events, delta, profile.epsilon + fit.epsilon)
    if whole is None or not math.isfinite(whole):  # the rule has no room for what they may fail with
        return apart
    return Earlier(profile.epsilon, fit.epsilon, whole, delta if delta > fit.delta else None, seeded)


def missing_profile(model: Path, fit: Claim) -> str | None:
    """What model.json says of a profile whose record is not beside it: the fit's epsilon is not the whole cost."""
    whole = stated_budget(model)
    if whole is None or whole <= fit.epsilon:
        return None
    both = f"model.json says that a profile was paid for too, epsilon {whole:g} for both"
    return f"{both}; its profile.json is not here to check that"


def told_beside(folder: Path, fit: Claim) -> Earlier | None:
    """`earlier_beside`, or that model.json speaks of a profile that is not there."""
    from dperm.pages.subject import Earlier

    missing = None if (folder / "profile.json").is_file() else missing_profile(folder / "model.json", fit)
    return earlier_beside(folder, fit) if missing is None else Earlier(0.0, fit.epsilon, fit.epsilon, apart=missing)


def verified_profile(file: Path) -> Profile | None:
    """The profile of a file, or None where it does not verify, or is none: a page must say so and still be written."""
    from dperm.profiles.profile import Profile

    try:
        record = read_json(file)
    except ValueError:
        return None
    if not isinstance(record, dict) or record.get("format") != Profile.FORMAT:
        return None
    profile = Profile.stated(record)
    return profile if profile.verify(allow_seeded=True, accept_assumptions=True).ok else None


def earlier_of_schema(file: Path, schema: Schema, fit: Claim, out: Path) -> Earlier | None:
    """From the profile beside a schema that has its columns: it found them, and its record goes with the fit to `out`."""
    found = earlier_beside(file.parent, fit)
    beside, kept = file.parent / "profile.json", out / "profile.json"
    profile = None if found is None else verified_profile(beside)
    if profile is None:  # none, or one of which it is not known whether it found this schema
        return None
    found_for = {column.name for column in profile.schema(target=False).columns}  # its own target may be refused, after the fit
    if found_for - {schema.target and schema.target.column} != {column.name for column in schema.columns}:
        return None
    if not kept.exists():
        write_whole(out, {kept.name: profile.to_json()})
    return found if kept.read_bytes() == beside.read_bytes() else None


def stated_budget(file: Path) -> float | None:
    """The budget that a model's file says was declared for a profile and its fit together, if it says one."""

    model = read_json(file) if file.is_file() else None
    about = model.get("about") if isinstance(model, dict) else None
    stated = about.get("budget") if isinstance(about, dict) else None
    try:
        found = float(stated) if isinstance(stated, str) else 0.0
    except ValueError:
        return None
    return found if 0 < found < math.inf else None
