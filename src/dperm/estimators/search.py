"""Private choice among settings, for those who insist on a grid.

    K ~ a public law;  K times: a random setting, a private fit, a private score;  publish the best run and nothing of the others

**Theorem** (Papernot and Steinke 2022; `dperm.privacy.selection_epsilon`). If one run (setting, model, score) satisfies a
guarantee with a Rényi curve and K follows the truncated negative binomial or the Poisson law, publishing the run with the largest
score costs the ε that `selection_epsilon` computes. K is never published, and neither is the running time, which follows it.

**When it is a bad idea**: almost always here. Of ε = 1 at δ = 1e-6, with ten runs in the mean, a run keeps what ε = 0.54 buys,
and its fit ε = 0.51. Measured on Adult against the untuned default (zero-out, 3 seeds, nine clips and horizons around the rule's
own): .8529 instead of .8536 at ε = 1, .836 instead of .848 at ε = 0.1. `docs/theorems/selection.md` says when a grid pays.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils.validation import check_is_fitted

from dperm.estimators.alone import one_at_a_time
from dperm.estimators.base import PrivateEstimator
from dperm.estimators.counts import CountTarget
from dperm.estimators.declaration import declaration
from dperm.estimators.declared import check_declared, check_lists
from dperm.estimators.search_rows import InMemory, OnSpark, ScoreSum, searched
from dperm.pages.page import is_markdown
from dperm.pages.searches import search_page
from dperm.privacy import GDP, PoissonRuns, SelectionEvent, TruncatedNegativeBinomial, gaussian_epsilon, law_of, selection_epsilon
from dperm.problem import DataBounds, FeatureMap
from dperm.problem.plain import plain_fields
from dperm.release.asks import Program, Secret, Solve
from dperm.release.ledger.book import LedgerPlace, receipt_again
from dperm.release.noise import Noise, SeededNoise, noise_source, release
from dperm.release.plan import Plan, Shape, Stage, Target
from dperm.release.record import CertificateRecord, GuaranteeRecord, NoiseRecord, ReceiptRecord, SearchRecord
from dperm.rows.base import Rows, Term, sum_step
from dperm.tables.json_files import write_whole
from dperm.walk.certificate import Certificate
from dperm.walk.claims import Claim, differences, noise_again
from dperm.walk.fitting import check_number, execute
from dperm.words.notices import speak

FORMAT = "dperm-search/1"
Run = tuple[float, Mapping[str, object], PrivateEstimator]  # score, setting, model
FORBIDDEN = {"epsilon", "delta", "relation", "nominal_n", "random_state", "noise", "groups", "ledger"}


@dataclass(eq=False, repr=False)
class PrivateGridSearch(MetaEstimatorMixin, BaseEstimator):
    """The best of K private fits with settings from a grid, for a random secret K, at (ε, δ) in all.

    The score is the number of right answers, or minus the squared error in units of the declared label range, on the fitted rows
    themselves, with Gaussian noise: a row moves it by at most 1. Poisson runs may draw K = 0: then nothing is published.

    **Guarantee**: that of `certificate_`, for the estimator's relation. Do not publish how long the search took: it follows K.

    Parameters
    ----------
    estimator : estimator
        An estimator of this library. Its own epsilon, delta and random_state are set by the search.
    param_grid : dict of lists, or list of such dicts
        The settings to try, as in scikit-learn.
    epsilon : float, default 1.0
        Privacy budget ε of the whole search.
    runs : {"logarithmic", "geometric", "poisson"}, default "logarithmic"
        The law of K. The default is the cheapest per run of the two with K ≥ 1.
    expected_runs : float, default 10.0
        E[K].
    score_share : float, default 0.1
        Share of a run's μ² that pays for its score.
    ledger : path, Ledger or None, default None
        A budget ledger. The whole search is debited, as one event, before K is drawn.

    Examples
    --------
    >>> from dperm import LogisticRegression
    >>> X = np.linspace(-1, 1, 400).reshape(-1, 1)
    >>> base = LogisticRegression(bounds=(-1, 1), classes=[0, 1], method="gradient")
    >>> search = PrivateGridSearch(base, {"radius": [0.1, 10.0]}, epsilon=20, expected_runs=4, random_state=0)
    >>> search = search.fit(X, (X[:, 0] > 0).astype(int))
    >>> bool(search.score(X, X[:, 0] > 0) > 0.8), search.certificate_.verify(allow_seeded=True).ok
    (True, True)
    """

    estimator: PrivateEstimator | None = None
    param_grid: object = None
    epsilon: float = 1.0
    delta: float | None = None
    runs: str = "logarithmic"
    expected_runs: float = 10.0
    score_share: float = 0.1
    noise: str = "secure"
    random_state: object = None
    ledger: LedgerPlace = None

    @one_at_a_time
    def fit(self, X: object, y: Sized | None = None) -> PrivateGridSearch:
        """Draw K, fit and score K times, keep the best.

        Without y, the target is the schema's column of X; for a Spark table y is the name of a column.
        """
        base, settings = self._checked()
        check_lists(base, X)
        data = searched(X, y, base._declared_schema())
        n = base.nominal_n if base.nominal_n is not None else data.n
        target = Target.declare(epsilon=self.epsilon, delta=self.delta, relation=base.relation, n=n)
        if target.delta == 0:
            raise ValueError("Expected delta > 0 for a search over Gaussian fits, found 0. Pass delta=None for the default.")
        law = law_of(self.runs, self.expected_runs)
        mu = run_mu(law, target)
        fit_mu, score_mu = mu * math.sqrt(1 - self.score_share) * (1 - 1e-9), mu * math.sqrt(self.score_share) * (1 - 1e-9)
        budget = {"epsilon": gaussian_epsilon(target.delta, fit_mu), "delta": target.delta, "noise": self.noise, "ledger": None}
        budget["verbose"] = 0  # a line for every run would tell how many there are
        d = self._affordable([clone(base).set_params(**(chosen | budget)) for chosen in settings], data, n, fit_mu)
        source = noise_source(self.noise, self.random_state)
        source.generator()  # the exact sampler has none: it refuses here, before the debit
        planned = search_plan(target, self.runs, self.expected_runs, n, d)
        check_number(target, Unread(data.n, d), base.nominal_n)  # as every run does, but before the debit
        data.ready()
        found: list[Run | None] = []

        def runs(secret: Secret) -> Run | None:
            generator, best = secret.noise.generator(), None
            for _ in range(draw(law, generator)):
                chosen = settings[int(generator.integers(len(settings)))]
                seed = int(generator.integers(2**62)) if isinstance(source, SeededNoise) else None
                model = clone(base).set_params(**(chosen | budget), random_state=seed)
                with warnings.catch_warnings():  # they were given for every setting; one for every run would tell K
                    warnings.simplefilter("ignore")
                    data.fit(model)
                    score = self._score(data.scored(model), score_mu, source)
                _gaussian(model.plan_, fit_mu)
                if best is None or score > best[0]:
                    best = (score, chosen, model)
            return best

        def program() -> Program:
            found.append((yield Solve((planned.stages[0].name,), runs)))
            return np.zeros(0)

        _, receipt = execute(program(), planned, Unread(n, d), source, ledger=self.ledger, fingerprint=data.seen)
        best = found[0]
        if best is None:
            raise RuntimeError(
                "Expected at least one run, drew none (Poisson runs allow it). That is the answer of this search, and its budget "
                "is spent: search again with new budget, or use runs='logarithmic', which always has a run."
            )
        self.best_score_, self.best_params_, self.best_estimator_ = best[0] / n, dict(best[1]), best[2]
        law_numbers = (self.runs, self.expected_runs, self.score_share)
        record = _record(target, *law_numbers, len(settings), n, source.spec(), self.best_estimator_.certificate_.record, receipt)
        self.certificate_ = SearchCertificate(record)
        # The inner certificate speaks of one run alone; what may be said about the published model is the search's.
        self.best_estimator_.__dict__["certificate_"] = self.certificate_
        if hasattr(self.best_estimator_, "classes_"):
            self.classes_ = self.best_estimator_.classes_
        return self

    def _checked(self) -> tuple[PrivateEstimator, list[dict[str, object]]]:
        """The estimator and the settings to choose among."""
        plain_fields(self, said=("epsilon", "delta"))  # of any kind, to Python's own
        base = self.estimator
        if not isinstance(base, PrivateEstimator):
            raise ValueError(
                f"Expected estimator= as a regression or classifier of this library, found {type(base).__name__}. Pass e.g. "
                "LinearSVC(bounds=...)."
            )
        if base.asked_for == "embeddings":
            raise ValueError(
                f"Expected an estimator of declared columns in a search, found {type(base).__name__}. Fit it alone: its rule has "
                "nothing to tune."
            )
        if base.groups is not None:
            raise ValueError("Expected an estimator without groups= in a search, found them. Fit one setting instead.")
        if base.ledger is not None:
            raise ValueError("Expected ledger= on the search, which is debited as a whole, found it on the estimator. Move it.")
        check_declared(base)  # before n is looked at: a ledger would keep a number of rows that is protected
        if not 0 < self.score_share < 1:
            raise ValueError(f"Expected 0 < score_share < 1, found {self.score_share}. Leave it out to take 0.1.")
        grid = list(ParameterGrid(self.param_grid))
        if not any(grid):
            raise ValueError(
                "Expected param_grid= with parameters and the values to choose among, found none. Pass e.g. "
                "{'regularization': [1.0, 10.0]}, or fit the estimator alone."
            )
        for chosen in grid:
            if found := sorted(FORBIDDEN & set(chosen)):
                raise ValueError(f"Expected settings that leave privacy alone, found {found} in the grid. Take them out.")
        return base, grid

    @staticmethod
    def _affordable(models: list[PrivateEstimator], data: InMemory | OnSpark, n: int, mu: float) -> int:
        """Plan every setting, so that one which cannot be paid for is refused before the debit, and give the warnings of all;
        the number of encoded columns."""
        said: dict[str, None] = {}
        for model in models:
            check_declared(model)
            if isinstance(model, CountTarget):
                model._check_exposure(given=False)  # as its fit does, but before the debit
            interval, heaviest = data.declare(model)
            declared = declaration(model, interval, n, 1, heaviest, "row")
            planned, expected = declared.plan(), declared.intervals()
            _gaussian(planned, mu)
            said |= dict.fromkeys([*planned.warnings, *([] if expected is None else [expected.words])])
        speak(said)
        return declared.shape.d

    @staticmethod
    def _score(rows: Rows, mu: float, noise: Noise) -> float:
        """Σ of row scores in [0, 1] + N(0, (1/μ)²)."""
        term = ScoreSum()
        exact = rows.sum(term, sum_step(term.row_bound, 1))
        return float(release(exact, sensitivity=term.sensitivity("replace-one"), mu=mu, noise=noise)[0])

    def predict(self, X: object) -> np.ndarray:
        check_is_fitted(self, "certificate_")
        return np.asarray(self.best_estimator_.predict(X))

    def score(self, X: object, y: object = None) -> float:
        check_is_fitted(self, "certificate_")
        return float(self.best_estimator_.score(X, y))

    def report(self, path: str | Path = "search.html") -> Path:
        """Write the page about this search: its promise, its choice, the chosen model. A name that ends in .md gives Markdown."""
        check_is_fitted(self, "certificate_")
        target, grid = Path(path), list(ParameterGrid(self.param_grid))
        known = (self.certificate_.record, self.best_params_, grid, self.best_score_)
        classes = tuple(map(str, getattr(self, "classes_", ())))
        write_whole(target.parent, {target.name: search_page(*known, classes=classes, markdown=is_markdown(target))})
        return target


def _gaussian(planned: Plan, mu: float) -> None:
    if not isinstance(planned.guarantee, GDP) or planned.guarantee.mu > mu * (1 + 1e-6):
        raise ValueError(
            f"Expected settings whose fits are Gaussian, found {planned.mechanism!r}, which is not. "
            "Use method='gradient' or 'scaled-gradient'."
        )


@dataclass(frozen=True)
class Unread:
    """Rows that a search hands to its fits itself: its own solve asks for no sum."""

    n: int
    d: int

    def bounded(self, data: DataBounds, feature_map: FeatureMap | None = None) -> Unread:
        return self

    def sum(self, term: Term, step: float) -> NDArray[np.float64]:
        raise RuntimeError("Expected no sum over the rows of a search, found one: its fits read them.")


def search_plan(target: Target, runs: str, expected: float, n: int, d: int) -> Plan:
    """The search as one planned event: what a ledger is debited for."""
    event = SelectionEvent(run_mu(law_of(runs, expected), target), runs, expected)
    return Plan("grid-search", {}, (Stage("best of the runs", event),), target, Shape(n, d))


def draw(law: PoissonRuns | TruncatedNegativeBinomial, generator: np.random.Generator) -> int:
    """K from its law: Poisson; or by the ratio of successive probabilities, P(k+1)/P(k) = (1 - γ)(k + η)/(k + 1)."""
    if isinstance(law, PoissonRuns):
        return int(generator.poisson(law.mean))
    eta, gamma = law.shape, law.stop
    first = (1 - gamma) / math.log(1 / gamma) if eta == 0 else eta * (1 - gamma) / (gamma**-eta - 1)
    left, k, probability = float(generator.random()), 1, first
    while left > probability and probability > 1e-300:
        left -= probability
        probability *= (1 - gamma) * (k + eta) / (k + 1)
        k += 1
    return k


@lru_cache(maxsize=64)
def run_epsilon(law: PoissonRuns | TruncatedNegativeBinomial, target: Target, mu: float) -> float:
    """What the selection costs with runs of μ; every fit of one search asks for it again."""
    return selection_epsilon(GDP(mu, target.relation), law, target.delta)


@lru_cache(maxsize=64)
def run_mu(law: PoissonRuns | TruncatedNegativeBinomial, target: Target) -> float:
    """The largest μ of one run, fit and score together, whose selection stays within (ε, δ); from below."""
    def excess(mu: float) -> float:
        return selection_epsilon(GDP(mu, target.relation), law, target.delta) - target.epsilon

    low, high = 1e-9, 1.0
    while excess(high) <= 0:
        if high > 1e3:  # hardly any noise is left to take away, and the formulas end there
            return high
        high *= 2
    low = low if excess(low) > 0 else float(brentq(excess, low, high, xtol=1e-14, rtol=1e-9)) * (1 - 1e-8)
    while low > 1e-9 and excess(low) > 0:  # the root finder may end above
        low *= 1 - 1e-6
    if low <= 1e-9:
        raise ValueError(f"Expected an epsilon that pays for a search, found {target.epsilon}. Pass more, or expect fewer runs.")
    return low


def _record(
    target: Target,
    runs: str,
    expected: float,
    share: float,
    settings: int,
    n: int,
    noise: NoiseRecord,
    inner: CertificateRecord,
    receipt: ReceiptRecord | None = None,
    older: bool = False,
) -> SearchRecord:
    law = law_of(runs, expected)
    rests = Certificate(inner).assumptions
    mu = run_mu(law, target)
    private = noise["policy"] != "seeded"
    promise: GuaranteeRecord = {"epsilon": target.epsilon, "delta": target.delta, "relation": target.relation, "n": n}
    if not older:
        promise["unit"] = target.unit
    who = {"replace-one": "replacing one row", "zero-out": "nulling one row", "add-remove": "adding or removing one row"}
    record: SearchRecord = {
        "format": FORMAT,
        "statement": f"({target.epsilon:g}, {target.delta:g})-differential privacy for {who[target.relation]}: the best of a "
        f"secret number of runs, {expected:g} in the mean, with settings from a list of {settings}."
        + ("" if older or not rests else f" This rests on an assumption that nothing enforces: {'; '.join(rests)}.")
        + ("" if private else " THIS RELEASE IS NOT PRIVATE: its noise was seeded."),
        "guarantee": promise,
        "law": {"runs": runs, "expected_runs": expected},
        "settings": settings,
        "run": {
            "mu": mu,
            "score_share": share,
            "fit_epsilon": gaussian_epsilon(target.delta, mu * math.sqrt(1 - share) * (1 - 1e-9)),
            "selection_epsilon": run_epsilon(law, target, mu),
        },
        "noise": {**noise, "private": private},
        "best": inner,
    }
    if receipt is not None:
        record["ledger"] = receipt
    return record


@dataclass(frozen=True, repr=False)
class SearchCertificate(Claim):
    """What a search claims, in enough detail to compute it again: the law of K, the budget of one run, the published run.

    **Guarantee of a pass** of `verify`: the run's budget and the selection's cost follow from the target and the law, and the
    published run verifies within that budget.
    """

    FORMAT: ClassVar[str] = FORMAT
    PARTS: ClassVar[type] = SearchRecord

    record: SearchRecord

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Those of the published run: every run rests on the same."""
        return Certificate(self.record["best"]).assumptions

    def disagreements(self) -> Iterator[str]:
        given, run = self.record["guarantee"], self.record["run"]
        target = Target.declare(epsilon=given["epsilon"], delta=given["delta"], relation=given["relation"], n=given["n"])
        law, best = self.record["law"], self.record["best"]
        planned = search_plan(target, law["runs"], law["expected_runs"], given["n"], best["shape"]["d"])
        receipt = receipt_again(self.record.get("ledger"), planned, self.record["noise"]["policy"])
        again = _record(
            target, law["runs"], law["expected_runs"], run["score_share"], self.record["settings"], given["n"],
            noise_again(self.record["noise"]), best, receipt,
            "unit" not in given,
        )  # fmt: skip
        yield from differences(again, self.record)
        yield from (f"best: {reason}" for reason in Certificate(best).verify(allow_seeded=True, accept_assumptions=True).reasons)
        if best["noise"]["policy"] != self.record["noise"]["policy"]:
            yield "the published run was fitted with another kind of noise than the search states"
        if given["n"] != best["shape"]["n"]:
            yield f"guarantee.n says {given['n']!r}, and the published run was fitted for n = {best['shape']['n']!r}"
        stated = best["target"]
        if not math.isclose(stated["epsilon"], again["run"]["fit_epsilon"], rel_tol=1e-6) or stated["delta"] != target.delta:
            yield "the published run was fitted with another budget than the search allows"
        if stated["relation"] != target.relation or best["guarantee"].get("kind", {}).get("kind") != "gdp":
            yield "the published run has another relation, or no Gaussian guarantee"
