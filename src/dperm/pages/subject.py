"""What a page is about: the release, and the names that a certificate does not hold but a model or its file does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

import numpy as np

from dperm.problem import Problem
from dperm.problem.arrays import Vector
from dperm.tables.encoding import Encoding
from dperm.tables.packed import unpacked
from dperm.walk.certificate import Certificate

UNNAMED = "table"  # what a schema without a name is called
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip


@dataclass(frozen=True)
class Earlier:
    """What was paid before a fit to find its bounds and levels, and what both cost together, each an ε.

    That of both is at the fit's δ, or at `delta` where the profile has a larger one. `apart` says that there is no sum of both:
    `together` is then the fit alone.
    """

    found: float
    fit: float
    together: float
    delta: float | None = None
    seeded: bool = False  # the noise of the profile
    apart: str = ""

    @property
    def words(self) -> str:
        if self.apart:
            text = f"{upward(self.fit)} for the fit; {self.apart}"
        else:
            text = f"{self.fit:.3g} for the fit, {self.found:.3g} for bounds and levels, {upward(self.together)} together"
            text += "" if self.delta is None else f" at δ = {self.delta:g}"
        return text + ("; NOT PRIVATE: the noise of the profile was seeded" if self.seeded else "")


@dataclass(frozen=True)
class Subject:
    """A release with its names. `half` turns coefficients of the encoded target into the target's own units (None: not known)."""

    certificate: Certificate
    model: str = ""
    target: str = ""
    classes: tuple[str, ...] = ()
    data: str = ""
    date: str = ""
    half: float | None = None
    slopes: np.ndarray | None = None  # coef_ and intercept_, in the caller's units, where the model has them
    intercept: np.ndarray | float | None = None
    columns: tuple[str, ...] = ()  # of the input, where the certificate holds no encoding (means and medians)
    edits: tuple[str, ...] = ()  # what was changed of its curves after the release
    earlier: Earlier | None = None  # what found its bounds and levels, where that was paid for

    @property
    def epsilon(self) -> float:
        """Of everything that is on the page."""
        return self.certificate.epsilon if self.earlier is None else self.earlier.together

    @property
    def delta(self) -> float:
        """Of everything that is on the page."""
        wider = None if self.earlier is None else self.earlier.delta
        return self.certificate.delta if wider is None else wider

    @property
    def seeded(self) -> bool:
        """Whether anything on the page had reproducible noise."""
        return self.certificate.noise == "seeded" or (self.earlier is not None and self.earlier.seeded)

    @property
    def alone(self) -> bool:
        """Whether ε and δ are those of the fit, and a profile that is on the page too could not be added."""
        return self.earlier is not None and bool(self.earlier.apart)

    @property
    def who(self) -> str:
        """Whom the guarantee is about."""
        return "person" if self.certificate.unit == "person" else "record"

    @property
    def problem(self) -> Problem:
        return Problem.from_spec(self.certificate.record["problem"])

    @property
    def encoding(self) -> Encoding | None:
        spec = self.certificate.record["encoding"]
        return None if spec is None else Encoding.from_spec(spec)

    @property
    def predicts(self) -> bool:
        """Whether it predicts from columns, so that `dperm evaluate` can score it: means, medians and rules have no encoding."""
        return self.certificate.record["encoding"] is not None

    @property
    def weights(self) -> Vector:
        """The released coefficients, in encoded units."""
        return unpacked(self.certificate.record["coefficients"]["encoded"])

    @property
    def title(self) -> str:
        """The data set and the target, as far as they are known."""
        what = f"Predicting {self.target}" if self.target else f"Report on a {self.model or self.certificate.mechanism} release"
        return f"{what}, data set {self.data}" if self.data else what

    @property
    def size(self) -> str:
        """How many records: the public number, or the nominal one where the true one is protected."""
        count = f"{self.certificate.record['shape']['n']:,} records"
        return f"nominally {count}" if self.certificate.relation == "add-remove" else count

    @property
    def outcome(self) -> str:
        """What an effect is measured in."""
        name = self.problem.loss.name
        positive = self.classes[-1] if len(self.classes) == 2 else "the second class"
        if name == "logistic":
            return f"log-odds of {positive}"
        if name == "multinomial":
            return "score of a class (log-odds against the others)"
        if name == "poisson":
            return f"logarithm of the expected {self.target or 'count'}"
        if not (self.problem.loss.classification or self.classes):
            unit = self.target or "target"
            return unit if self.half is not None else f"{unit}, in halves of its declared range"
        return f"score (above 0 means {positive})" if self.problem.loss.margins == 1 else "score"


def subject_of(model: Any, *, data: str | None = None) -> Subject:
    """From a fitted model, or one that was loaded; `data` names the data set where the model's schema does not."""
    schema = model._declared_schema() if hasattr(model, "_declared_schema") else None
    target = getattr(getattr(schema, "target", None), "column", "")
    half = None
    if hasattr(model, "_y_low") and hasattr(model, "coef_"):
        half = (model._y_high - model._y_low) / 2
    elif hasattr(model, "_y_low") and hasattr(model, "curves_"):
        half = model._step()  # 1 where counts are on the scale of their logarithm
    about: Mapping[str, str] = getattr(model, "about_", None) or {}
    found = from_certificate(model.certificate_, date=about.get("date"))
    return replace(
        found,
        model=type(model).__name__,
        target=str(target or ""),
        classes=tuple(str(label) for label in getattr(model, "classes_", ())),
        data=data or about.get("data") or schema_name(model) or found.data,
        half=half,
        slopes=getattr(model, "coef_", None),
        intercept=getattr(model, "intercept_", None),
        columns=tuple(map(str, getattr(model, "feature_names_in_", ()))),
        edits=tuple(getattr(model, "edits_", ())),
    )


def schema_name(model: object) -> str:
    """What the schema calls the table, if it calls it anything of its own."""
    schema = model._declared_schema() if hasattr(model, "_declared_schema") else None
    name = str(getattr(schema, "name", ""))
    return "" if name == UNNAMED else name


def from_certificate(certificate: Certificate, *, date: str | None = None) -> Subject:
    """From a certificate alone: the ledger's entry names the data set and the day, where there is one."""
    ledger = certificate.record.get("ledger")
    entry: Mapping[str, object] = ledger["entry"] if isinstance(ledger, Mapping) else {}
    return Subject(certificate, data=str(entry.get("dataset", "")), date=date or str(entry.get("time", ""))[:10] or today())


def upward(epsilon: float) -> str:
    """In four digits and never understated; a number of at most six digits, as people declare it, stays as it is.

    >>> upward(1.0), upward(1.5), upward(1.23411111), upward(0.99999999)
    ('1', '1.5', '1.235', '1')
    """
    short = f"{epsilon:.6g}"
    if float(short) == epsilon:
        return short
    return f"{float(Context(prec=4, rounding=ROUND_CEILING).create_decimal(Decimal(epsilon))):g}"


def day(date: str) -> str:
    """A day in words; anything else as it is.

    >>> day("2026-03-01")
    '1 March 2026'
    """
    try:
        found = datetime.fromisoformat(date)
    except ValueError:
        return date
    return f"{found.day} {_MONTHS[found.month - 1]} {found.year}"


def today() -> str:
    return datetime.now(UTC).date().isoformat()
