"""What follows from an estimator's declarations alone: the problem, the size, the target and the mechanism.

`fit` plans by `declaration`, with what it found out about its rows in public ways (their number, their columns); `dperm plan`, a
ledger's check and `model.plan(n, d)` plan by `before_rows`, which calls the same function. So they cannot disagree.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags

from dperm.choose.table import choose
from dperm.estimators.declared import check_declared
from dperm.inference.outlook import Outlook, outlook
from dperm.problem import Interval, Problem
from dperm.problem.plain import plain_whole, shown
from dperm.release.ledger.book import LedgerPlace
from dperm.release.plan import Mechanism, Plan, Shape, Target
from dperm.tables.encoding import Encoding
from dperm.walk.fitting import Release, check_noise, fit, plan

if TYPE_CHECKING:
    from dperm.estimators.base import PrivateEstimator
    from dperm.release.driver import Progress
    from dperm.rows.base import Rows


@dataclass(eq=False, repr=False)
class Budgeted(BaseEstimator):
    """What every estimator spends, and on whom, whether it fits columns, a location or a rule.

    Parameters
    ----------
    epsilon : float, default 1.0
        Privacy budget ε of the whole fit.
    """

    # A dataclass writes the constructor that scikit-learn reads its parameters from: subclasses add only their own.

    epsilon: float = 1.0
    delta: float | None = None
    _: KW_ONLY
    relation: str = "replace-one"
    nominal_n: int | None = None
    groups: object = None
    max_rows_per_person: int | None = None
    noise: str = "secure"
    random_state: object = None
    ledger: LedgerPlace = None

    def _before_rows(self, n: int, d: int | None) -> Declaration:
        """What a fit of n rows declares, of the schema's columns or of d."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self.random_state is None
        return tags


@dataclass(frozen=True)
class Declaration:
    """An estimator (its encoding built) with what `dperm.fit` takes."""

    estimator: Budgeted
    problem: Problem
    shape: Shape
    target: Target
    mechanism: Mechanism

    def plan(self) -> Plan:
        """The plan of the fit, refused where the fit would be refused."""
        planned = plan(self.problem, self.shape, self.target, self.mechanism, getattr(self.estimator, "_encoding", None))
        seeded = self.estimator.random_state is not None
        check_noise("seeded" if seeded else self.estimator.noise, self.mechanism, planned)
        return planned

    def run(
        self, rows: Rows, seen: object, *, encoding: Encoding | None = None, progress: Progress | None = None
    ) -> Release:
        """The walk, by the estimator's noise and ledger; `seen` is what a ledger recognises the data set by.

        The estimator keeps the release, its plan and its certificate.
        """
        release = fit(
            self.problem,
            rows,
            self.target,
            self.mechanism,
            nominal_n=self.estimator.nominal_n,
            noise=self.estimator.noise,
            random_state=self.estimator.random_state,
            encoding=encoding,
            progress=progress,
            ledger=self.estimator.ledger,
            fingerprint=seen,
        )
        fitted = self.estimator
        fitted.plan_, fitted.certificate_, fitted.release_ = release.plan, release.certificate, release
        return release

    def intervals(self) -> Outlook | None:
        """What intervals need of the table; None where none are asked for, or nothing can be said."""
        asked = getattr(self.estimator, "intervals", False)
        return outlook(cast("PrivateEstimator", self.estimator), self.problem, self.plan()) if asked else None


def target_of(estimator: Budgeted, n: int, per_person: int, unit: str) -> Target:
    """The estimator's budget for n rows."""
    return Target.declare(
        epsilon=estimator.epsilon,
        delta=estimator.delta,
        relation=estimator.relation,
        n=n,
        rows_per_person=per_person,
        unit=unit,
    )


def declared_unit(estimator: Budgeted) -> str:
    """The unit that a fit will protect, as far as the declarations say: a person where persons are named or limited."""
    return "row" if estimator.groups is None and estimator.max_rows_per_person is None else "person"


def declaration(
    estimator: PrivateEstimator, interval: Interval, n: int, per_person: int, heaviest: float | None, unit: str
) -> Declaration:
    """For an estimator whose encoding is built: n rows (or a nominal number), labels in `interval`, weights up to `heaviest`."""
    target, encoding = target_of(estimator, n, per_person, unit), estimator._encoding
    if estimator.fit_intercept and "intercept" in encoding.names:
        raise ValueError(
            "Expected columns with other names than 'intercept', which tables and explanations call the constant, found one. "
            "Rename the column, or pass fit_intercept=False."
        )
    estimator._size = (n, per_person)
    problem, shape = estimator._problem(interval), Shape(n, encoding.d)
    mechanism = choose(
        estimator._asked_method(),
        problem,
        shape,
        target,
        asked_for=estimator.asked_for,
        kinds=encoding.kinds,
        gaps=encoding.gaps,
        max_weight=heaviest,
        exact=estimator.noise == "exact",
    )
    found = Declaration(estimator, problem, shape, target, mechanism)
    if (expected := found.intervals()) is not None:
        expected.refuse()
    return found


def before_rows(estimator: Budgeted, n: int, d: int | None = None) -> Declaration:
    """The declaration of a fit of n rows, without any row: of the schema's columns, or of d declared ones.

    What only `fit` is given counts as given where its bound is declared: sample weights with `max_weight`, exposures with
    `max_exposure`, persons with `max_rows_per_person`.
    """
    n, d = plain_whole(n, "n"), None if d is None else plain_whole(d, "d")
    if not (n >= 1 and (d is None or 1 <= d <= 10**6)):
        raise ValueError(f"Expected whole numbers n ≥ 1 and 1 ≤ d ≤ 1,000,000, found n={shown(n)} and d={shown(d)}. Pass others.")
    probe: Budgeted = clone(estimator)
    if probe.relation == "add-remove" and probe.nominal_n is None:
        probe.nominal_n = n
    check_declared(probe)
    return probe._before_rows(probe.nominal_n if probe.nominal_n is not None else n, d)


def declared_encoding(
    estimator: PrivateEstimator, d: int, names: list[str] | None = None, *, centred: bool = True
) -> Encoding:
    """The encoding of d columns that no schema describes, by the estimator's declarations."""
    return Encoding.from_declaration(
        d,
        bounds=estimator.bounds,
        x_norm=estimator.x_norm,
        categorical=estimator.categorical,
        boolean=estimator.boolean,
        sparse=estimator.sparse,
        missing=estimator.missing,
        names=names,
        centred=centred,
    )


def encoding_before_rows(estimator: PrivateEstimator, d: int | None) -> Encoding:
    """The encoding of the schema, or of d dense columns by the other declarations."""
    schema = estimator._declared_schema()
    if schema is not None:
        return schema.encoding()
    if d is None:
        raise ValueError("Expected d=, the number of columns, or a schema, found neither. Pass e.g. d=20.")
    return declared_encoding(estimator, d)


NO_ROWS: np.ndarray = np.array([], dtype=object)
