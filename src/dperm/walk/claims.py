"""A claim: a record that anyone can compute again, what `verify` says of it, and how two records are compared."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeGuard, cast

import numpy as np

from dperm.release.plan import UnmetNeeds
from dperm.release.record import ClaimRecord, NoiseRecord
from dperm.release.typed import mistyped, unwritable
from dperm.tables.json_files import parsed_json
from dperm.words.display import box, budget_chips
from dperm.words.wording import printable

SEEDED = "NOT PRIVATE: reproducible noise was asked for"
KINDS = {"certificate": "a certificate", "evaluation": "an evaluation", "profile": "a profile", "model": "a model"}
KINDS |= {"search": "the certificate of a search"}
ALLOW, ACCEPT = "pass allow_seeded=True (--allow-seeded)", "pass accept_assumptions=True (--accept-assumptions)"
TOLERANCE = 1e-9  # another machine's mathematical library may differ in the last digits
HOSTILE = (LookupError, ValueError, TypeError, ArithmeticError, AttributeError, StopIteration, RuntimeError, MemoryError)


@dataclass(frozen=True)
class Verdict:
    """The answer of `verify`: true when everything recomputed agrees; otherwise the reasons, each a sentence."""

    reasons: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.reasons

    def __bool__(self) -> bool:
        return self.ok


@dataclass(frozen=True, repr=False)
class Claim:
    """A record as a JSON object that anyone can compute again, with the fields people ask for most as properties."""

    FORMAT: ClassVar[str] = ""
    OLDER: ClassVar[tuple[str, ...]] = ()  # formats that are no longer written but still read
    PARTS: ClassVar[type] = ClaimRecord  # the types of what it states
    SHOWN: ClassVar[tuple[str, ...]] = ("", "value", "interval")  # heads of the table in a notebook, where there is one

    record: ClaimRecord

    @property
    def epsilon(self) -> float:
        return float(self.record["guarantee"]["epsilon"])

    @property
    def delta(self) -> float:
        return float(self.record["guarantee"]["delta"])

    @property
    def relation(self) -> str:
        return str(self.record["guarantee"]["relation"])

    @property
    def noise(self) -> str:
        return str(self.record["noise"]["policy"])

    @property
    def statement(self) -> str:
        return str(self.record["statement"])

    def __repr__(self) -> str:
        """One line: what is promised and by what; `to_json()` has the whole record."""
        promise, made_by = self.record.get("guarantee"), self.record.get("mechanism")
        parts = {**(promise if isinstance(promise, Mapping) else {}), **(made_by if isinstance(made_by, Mapping) else {})}
        shown = [f"{key}={parts[key]!r}" for key in ("epsilon", "delta", "relation", "unit", "name") if key in parts]
        return printable(f"{type(self).__name__}({', '.join(shown)})".replace("name=", "mechanism="))

    @property
    def made_by(self) -> str:
        """The mechanism, or what else made the record."""
        stated = self.record.get("mechanism")
        return str(stated.get("name", "")) if isinstance(stated, Mapping) else type(self).__name__.lower()

    def state(self) -> tuple[str, str]:
        """Whether the claim verifies and what it rests on, in a few words, and whether that is "good", "plain" or "bad"."""
        if reproducible(self.record):
            return "NOT PRIVATE: the noise was seeded", "bad"
        verdict = self.verify(accept_assumptions=True)
        if not verdict.ok:
            return f"DOES NOT VERIFY: {verdict.reasons[0]}", "bad"
        return ("verifies, resting on an assumption that nothing enforces", "plain") if self.assumptions else ("verifies", "good")

    @property
    def chips(self) -> list[str]:
        """ε, δ, relation and unit."""
        promise = self.record["guarantee"]
        return budget_chips(self.epsilon, self.delta, self.relation, str(promise.get("unit", "row")))

    def _repr_html_(self) -> str:
        rows, (state, mood) = self._shown_rows(), self.state()
        head = self.SHOWN if rows else ()
        return box(type(self).__name__, state, mood=mood, chips=self.chips, rows=rows, head=head, note=self.statement)

    def _shown_rows(self) -> list[tuple[str, ...]]:
        """A table under the facts, where the record has one."""
        return []

    def to_json(self) -> str:
        return json.dumps(self.record, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a record; anything that is not one is refused with a sentence."""
        try:
            record = parsed_json(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"Expected a certificate in JSON, found text that does not parse: {error}.") from error
        record = claimed(record)
        if not isinstance(record, dict) or record.get("format") not in (cls.FORMAT, *cls.OLDER):
            found = kind_of(record) or "another file"
            raise ValueError(f"Expected a certificate with format {cls.FORMAT!r}, found {found}. Pass certificate.json.")
        return cls.stated(record)

    @classmethod
    def stated(cls, record: Mapping[str, object]) -> Self:
        """The claim of a record that was read: whether all of it is there and true is for `verify` to say."""
        return cls(cast(ClaimRecord, record))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        return cls.from_json(Path(path).read_text(encoding="utf-8"))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee rests on and no code enforces (seeded noise is another matter: see `noise`)."""
        stated = self.record.get("assumptions", ())
        return tuple(text for text in stated if text != SEEDED) if isinstance(stated, list) else ()

    def disagreements(self) -> Iterator[str]:
        """Compute everything again; a sentence for each disagreement. What cannot be computed may raise."""
        raise NotImplementedError

    def verify(self, *, allow_seeded: bool = False, accept_assumptions: bool = False) -> Verdict:
        """Compute everything again and compare; seeded noise, and assumptions, are refused unless allowed."""
        found: list[str] = []
        try:
            found.extend((*unwritable(self.record), *mistyped(self.record, self.PARTS, "")))
            with np.errstate(all="ignore"):  # a hostile number shows as a disagreement, not as a warning
                found.extend(() if found else self.disagreements())
        except UnmetNeeds as error:
            found.append(f"the mechanism does not cover the stated problem: {error}")
        except HOSTILE as error:
            found.append(f"the record cannot be recomputed: {type(error).__name__}: {error}")
        if reproducible(self.record) and not allow_seeded:
            found.append(f"the noise was seeded, so the release is NOT private ({ALLOW} to check the rest)")
        if not accept_assumptions and not found:
            found.extend(f"{text}: {ACCEPT} to accept that" for text in self.assumptions)
        return Verdict(tuple(found))


def kind_of(record: object) -> str:
    """What a record of this library says that it is; empty for others.

    >>> kind_of({"format": "dperm-evaluation/3"}), kind_of({"format": 3}), kind_of([])
    ('an evaluation', '', '')
    """
    stated = record.get("format") if isinstance(record, dict) else None
    kind = stated.removeprefix("dperm-").partition("/")[0] if isinstance(stated, str) and stated.startswith("dperm-") else ""
    return KINDS.get(kind, "")


def claimed(record: object) -> object:
    """The claim in a file: the certificate in a model that was saved into one file with it, otherwise the record itself."""
    inside = record.get("certificate") if isinstance(record, dict) and kind_of(record) == "a model" else None
    return inside if isinstance(inside, dict) else record


def noise_again(stated: NoiseRecord) -> NoiseRecord:
    """Where the noise came from, without what follows from it."""
    return {"policy": stated["policy"], "seed": stated["seed"]} if stated["policy"] == "seeded" else {"policy": stated["policy"]}


def reproducible(record: Mapping[str, object]) -> bool:
    """Whether the record says that its noise was seeded."""
    noise = record.get("noise")
    return isinstance(noise, Mapping) and noise.get("policy") == "seeded"


def plain(value: object) -> Any:
    """JSON form: arrays to lists, NumPy numbers to Python's, infinities to strings (JSON has none)."""
    if type(value) in (str, int, bool):  # most leaves of a record
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def differences(expected: Mapping[str, object], found: Mapping[str, object]) -> list[str]:
    """A sentence for every leaf where the recomputed record and the stated one differ."""
    reasons: list[str] = []
    _compare("", expected, found, reasons)
    return reasons


def _compare(path: str, expected: object, found: object, reasons: list[str]) -> None:
    """Walk both records; name every leaf where the recomputed value and the stated one differ."""
    where = path or "record"
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key in [*expected, *(key for key in found if key not in expected)]:
            inner = f"{path}.{key}" if path else str(key)
            if key not in found or key not in expected:
                reasons.append(f"{inner} is {'missing' if key not in found else 'not part of a certificate'}")
            else:
                _compare(inner, expected[key], found[key], reasons)
    elif isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            reasons.append(f"{where} has {len(found)} entries, recomputed {len(expected)}")
        for number, (one, other) in enumerate(zip(expected, found)):
            _compare(f"{path}[{number}]", one, other, reasons)
    elif is_number(expected) and is_number(found) and not (isinstance(expected, int) and isinstance(found, float)):
        if not math.isclose(expected, found, rel_tol=TOLERANCE, abs_tol=0.0):
            reasons.append(f"{where} says {found}, recomputed {expected}")
    elif expected != found or type(expected) is not type(found):
        reasons.append(f"{where} says {found!r}, recomputed {expected!r}")


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
