"""Private selection among settings: the laws of K, the accounting, what is published, what the certificate binds."""

from __future__ import annotations

import copy
import json
import math
import warnings

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from dperm import LinearRegression, LogisticRegression, PoissonRegressor
from dperm.estimators import search as module
from dperm.estimators.search import PrivateGridSearch, SearchCertificate, draw, law_of, run_mu
from dperm.estimators.search_rows import row_scores
from dperm.privacy import GDP, Gaussian, PoissonRuns, SelectionEvent, compose, event_from_spec, gaussian_mu, selection_epsilon
from dperm.privacy.filters import renyi_curve
from dperm.release.ledger.book import BudgetExceeded, Ledger
from dperm.release.plan import Target

LAWS = ("geometric", "logarithmic", "poisson")


def threshold(n: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).uniform(-1, 1, (n, 2))
    return X, (X[:, 0] > 0.2).astype(int)


def search(**options: object) -> PrivateGridSearch:
    base = LogisticRegression(bounds=(-1, 1), classes=[0, 1], relation="zero-out", method="gradient")
    chosen: dict[str, object] = {"epsilon": 8.0, "delta": 1e-6, "expected_runs": 5.0, "random_state": 0}
    return PrivateGridSearch(base, {"radius": [1e-6, 20.0]}, **(chosen | options))


@pytest.mark.parametrize("name", LAWS)
def test_runs_follow_their_law(name: str) -> None:
    """Mean of 20,000 draws within 5 standard errors (false alarm 6e-7), and P(K = 1) likewise."""
    law = law_of(name, 4.0)
    assert law.expected == pytest.approx(4.0, rel=1e-9)
    generator = np.random.default_rng(1)
    drawn = np.array([draw(law, generator) for _ in range(20000)])
    assert abs(drawn.mean() - 4.0) < 5 * drawn.std() / math.sqrt(len(drawn))
    if name == "poisson":
        first = 4.0 * math.exp(-4.0)
    elif name == "geometric":
        first = 0.25
    else:
        first = (1 - law.stop) / math.log(1 / law.stop)
    assert drawn.min() == (0 if name == "poisson" else 1)
    assert abs(np.mean(drawn == 1) - first) < 5 * math.sqrt(first / len(drawn))


@pytest.mark.parametrize("name", LAWS)
def test_a_run_gets_what_the_theorem_leaves(name: str) -> None:
    """The budget of a run is the largest whose selection meets (ε, δ), and far below that of a single fit."""
    target, law = Target(1.0, 1e-6, "zero-out", 1), law_of(name, 10.0)
    mu = run_mu(law, target)
    assert selection_epsilon(GDP(mu, "zero-out"), law, 1e-6) <= 1.0
    assert selection_epsilon(GDP(mu * 1.0001, "zero-out"), law, 1e-6) > 1.0
    assert 0.4 * gaussian_mu(1.0, 1e-6) < mu < 0.6 * gaussian_mu(1.0, 1e-6)


def test_finds_the_setting_that_works() -> None:
    X, y = threshold()
    found = search().fit(X, y)
    assert found.best_params_ == {"radius": 20.0} and found.score(X, y) > 0.85
    assert abs(found.best_score_ - found.score(X, y)) < 0.05
    assert found.certificate_ is found.best_estimator_.certificate_  # one run's own certificate would promise too little
    assert not found.certificate_.verify().ok and found.certificate_.verify(allow_seeded=True).ok
    run = found.certificate_.record["run"]
    composed = found.certificate_.record["best"]["guarantee"]["kind"]["mu"] ** 2 + run["score_share"] * run["mu"] ** 2
    assert composed <= run["mu"] ** 2


def test_certificate_notices_changes() -> None:
    X, y = threshold(300)
    record = json.loads(search().fit(X, y).certificate_.to_json())
    for path, value in (
        (("guarantee", "epsilon"), 7.9),
        (("guarantee", "delta"), 1e-7),
        (("guarantee", "relation"), "add-remove"),
        (("law", "runs"), "geometric"),
        (("law", "expected_runs"), 4.0),
        (("run", "mu"), 0.1),
        (("run", "score_share"), 0.2),
        (("run", "fit_epsilon"), 1.0),
        (("run", "selection_epsilon"), 7.0),
        (("statement",), "private"),
        (("best", "target", "epsilon"), 8.0),
        (("best", "guarantee", "epsilon"), 1.0),
        (("noise", "private"), True),
    ):
        altered = copy.deepcopy(record)
        place = altered
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = value
        assert not SearchCertificate(altered).verify(allow_seeded=True).ok, path


@pytest.mark.parametrize("n", [301, 300.0, 299.7, True, "300"])
def test_a_search_states_the_number_of_rows_of_its_published_run(n: object) -> None:
    record = json.loads(search().fit(*threshold(300)).certificate_.to_json())
    assert record["guarantee"]["n"] == record["best"]["shape"]["n"] == 300
    record["guarantee"]["n"] = n
    verdict = SearchCertificate(record).verify(allow_seeded=True)
    assert not verdict.ok
    words = "n = 300" if n == 301 else "a whole number belongs"
    assert any("guarantee.n says" in reason and words in reason for reason in verdict.reasons)


def test_a_nominal_number_beside_a_public_one_is_refused_before_the_debit(ledger) -> None:
    base = LogisticRegression(bounds=(-1, 1), classes=[0, 1], relation="zero-out", method="gradient", nominal_n=200)
    with pytest.raises(ValueError, match="Expected nominal_n= to be left out, or 300"):
        search(ledger=ledger).set_params(estimator=base).fit(*threshold(300))
    assert ledger.account().fits == 0


def test_row_scores_stay_in_the_unit_interval() -> None:
    """The sensitivity of a score is 1 because of it, whatever the labels and rows are."""
    X, y = threshold(200)
    odd = np.array([np.nan, np.inf, -1e9, 1e9, *range(196)], dtype=float)
    for model in (
        LinearRegression(2.0, bounds=(-1, 1), y_bounds=(0, 50), random_state=0).fit(X, odd),
        PoissonRegressor(2.0, bounds=(-1, 1), y_bounds=(0, 50), random_state=0).fit(X, odd),
    ):
        scores = row_scores(model, 1e6 * X, odd)
        assert scores.min() >= 0 and scores.max() <= 1 and scores[0] == 0
    model = LogisticRegression(2.0, bounds=(-1, 1), classes=[0, 1], random_state=0).fit(X, y)
    assert set(row_scores(model, X, y)) <= {0.0, 1.0}


def test_what_is_refused() -> None:
    X, y = threshold(200)
    for options, message in (
        ({"delta": 0.0}, "delta"),
        ({"expected_runs": 1.0}, "expected_runs"),
        ({"runs": "uniform"}, "runs"),
        ({"score_share": 0.0}, "score_share"),
        ({"param_grid": {"epsilon": [1, 2]}}, "privacy alone"),
        ({"estimator": None}, "estimator"),
        ({"param_grid": {}}, "Expected param_grid= with parameters"),
        ({"param_grid": [{}]}, "Expected param_grid= with parameters"),
        ({"param_grid": {"method": ["objective"], "radius": [None], "regularization": [10.0]}}, "Gaussian"),
    ):
        with pytest.raises(ValueError, match=message):
            search().set_params(**options).fit(X, y)


# ---------------------------------------------------------------- the search as an event, and its ledger


def published_density(law: object, below: float) -> float:
    """g'(F): density of the best of K runs over that of one run, where the run's own value is its score; g generates K."""
    if isinstance(law, PoissonRuns):
        return law.mean * math.exp(law.mean * (below - 1))
    rest = 1 - (1 - law.stop) * below
    return law.stop / rest**2 if law.shape == 1 else (1 - law.stop) / (math.log(1 / law.stop) * rest)


@pytest.mark.parametrize("name", LAWS)
def test_the_curve_of_the_event_bounds_the_exact_divergence_and_exceeds_one_run(name: str) -> None:
    """Best of K draws of N(0, 1) against N(μ, 1), by quadrature, both directions; publishing the maximum does cost more."""
    mu, law, costlier = 0.4, law_of(name, 10.0), False
    event = SelectionEvent(mu, name, 10.0)
    for alpha in (1.5, 3.0, 8.0):
        for first, second in ((0.0, mu), (mu, 0.0)):

            def integrand(x: float, first: float = first, second: float = second, alpha: float = alpha) -> float:
                p = norm.pdf(x - first) * published_density(law, norm.cdf(x - first))
                q = norm.pdf(x - second) * published_density(law, norm.cdf(x - second))
                return p**alpha * q ** (1 - alpha)

            empty = math.exp(-10.0) if name == "poisson" else 0.0  # K = 0 has the same probability on both sides
            exact = math.log(quad(integrand, -12, 14, limit=300)[0] + empty) / (alpha - 1)
            assert exact <= event.rdp(alpha) + 1e-9
            costlier |= exact > alpha * mu**2 / 2 * 1.01
    assert costlier


def test_the_event_is_a_citizen_of_accounting_and_filters() -> None:
    event = SelectionEvent(0.1, "geometric", 10.0)
    assert event_from_spec(json.loads(json.dumps(event.spec()))) == event
    alone, both = compose([event], "zero-out"), compose([event, Gaussian(0.2)], "zero-out")
    assert alone.epsilon(1e-6) == selection_epsilon(GDP(0.1, "zero-out"), law_of("geometric", 10.0), 1e-6)
    assert alone.delta(alone.epsilon(1e-6)) == pytest.approx(1e-6, rel=1e-3)
    assert both.rdp(4.0) == pytest.approx(event.rdp(4.0) + 4 * 0.02) and both.epsilon(1e-6) > alone.epsilon(1e-6)
    assert renyi_curve(event, (2.0, 9.0)) == ((event.rdp(2.0), event.rdp(9.0)), 0.0)
    assert compose([event, event], "zero-out").delta(5.0) == 1.0  # no theorem is claimed for two
    for spec in ({"runs": "uniform"}, {"expected": 1.0}, {"mu": -1.0}):
        with pytest.raises(ValueError, match="Expected"):
            event_from_spec({**event.spec(), **spec})


@pytest.fixture
def ledger(tmp_path) -> Ledger:
    return Ledger.create(tmp_path / "search.ledger", dataset="x", epsilon=12.0, delta=1e-5, relation="zero-out")


def test_a_search_is_debited_once_before_the_number_of_runs_is_drawn(ledger, monkeypatch) -> None:
    """Killed anywhere after the debit, the search has been paid for: the entry is there when K is drawn."""
    X, y = threshold(300)
    seen = []
    monkeypatch.setattr(module, "draw", lambda law, generator: seen.append(Ledger(ledger.path).account().fits) or 2)
    found = search(ledger=str(ledger.path)).fit(X, y)
    assert seen == [1] and ledger.account().fits == 1 and ledger.account().rule == "renyi"
    entry = ledger.entries()[1]
    assert entry["plan"]["events"] == [SelectionEvent(found.certificate_.record["run"]["mu"], "logarithmic", 5.0).spec()]
    record = json.loads(found.certificate_.to_json())
    assert record["ledger"]["head"] == ledger.account().head
    assert ledger.verify([record], allow_seeded=True) == []
    assert "ledger" not in record["best"]


def test_a_search_that_crashes_keeps_its_debit(ledger, monkeypatch) -> None:
    def crash(law: object, generator: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "draw", crash)
    with pytest.raises(KeyboardInterrupt):
        search(ledger=ledger).fit(*threshold(300))
    assert ledger.account().fits == 1


def test_over_budget_is_refused_before_a_fit_and_before_noise(ledger, monkeypatch) -> None:
    monkeypatch.setattr(module, "draw", lambda law, generator: pytest.fail("noise was drawn"))
    monkeypatch.setattr(LogisticRegression, "fit", lambda *a, **k: pytest.fail("a row was read"))
    with pytest.raises(BudgetExceeded, match="left is about"):
        search(ledger=ledger, epsilon=40.0).fit(*threshold(300))
    other = LogisticRegression(bounds=(-1, 1), classes=[0, 1], method="gradient")
    with pytest.raises(ValueError, match="relation='zero-out'"):
        search(ledger=ledger).set_params(estimator=other).fit(*threshold(300))
    with pytest.raises(ValueError, match="Gaussian"):  # a setting that cannot be paid for, found before the debit
        search(ledger=ledger).set_params(param_grid={"method": ["gradient", "objective"], "regularization": [10.0]}).fit(
            *threshold(300)
        )
    assert ledger.account().fits == 0


def test_every_altered_leaf_of_the_searchs_ledger_entry_is_found(ledger) -> None:
    """What cannot be recomputed without the ledger is bound by the head; the head by the entry's own text."""
    record = json.loads(search(ledger=ledger).fit(*threshold(300)).certificate_.to_json())
    assert SearchCertificate(record).verify(allow_seeded=True).ok
    leaves = [path for path, _ in walk(record["ledger"])]
    assert len(leaves) > 15
    for path in leaves:
        altered = copy.deepcopy(record)
        place = altered["ledger"]
        for part in path[:-1]:
            place = place[part]
        old = place[path[-1]]
        place[path[-1]] = old * 1.5 + 1 if isinstance(old, int | float) and not isinstance(old, bool) else "other"
        assert not SearchCertificate(altered).verify(allow_seeded=True).ok, path


def walk(value: object, path: tuple = ()) -> list[tuple[tuple, object]]:
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        return [leaf for key, item in parts for leaf in walk(item, (*path, key))]
    return [(path, value)]


def test_the_ledger_belongs_to_the_search_not_to_its_estimator(ledger) -> None:
    base = LogisticRegression(bounds=(-1, 1), classes=[0, 1], relation="zero-out", method="gradient", ledger=ledger)
    with pytest.raises(ValueError, match="ledger= on the search"):
        search().set_params(estimator=base).fit(*threshold(200))


def test_the_command_verifies_a_search_and_its_model(tmp_path) -> None:
    from typer.testing import CliRunner

    from dperm.cli import app
    from dperm.estimators.saving import model_record

    found = search().fit(*threshold(300))
    (tmp_path / "c.json").write_text(found.certificate_.to_json())
    (tmp_path / "m.json").write_text(json.dumps(model_record(found.best_estimator_)))
    asked = ["verify", str(tmp_path / "c.json"), "--model", str(tmp_path / "m.json")]
    assert CliRunner().invoke(app, [*asked, "--allow-seeded"]).exit_code == 0
    assert CliRunner().invoke(app, asked).exit_code == 1


def test_certificates_of_searches_fits_and_evaluations_are_read_and_checked_alike(tmp_path):
    from dperm.evaluation.evaluate import Evaluation, evaluate
    from dperm.walk.certificate import Certificate, Claim

    X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    y = (X[:, 0] > 0).astype(int)
    base = LogisticRegression(epsilon=3.0, bounds=(-1, 1), classes=[0, 1], method="gradient", random_state=0)
    search = PrivateGridSearch(base, {"radius": [1.0, 5.0]}, epsilon=3.0, expected_runs=2, random_state=0).fit(X, y)
    model = base.fit(X, y)
    claims = [search.certificate_, model.certificate_, evaluate(model, X, y, epsilon=3.0, random_state=0)]
    assert [type(claim) for claim in claims] == [SearchCertificate, Certificate, Evaluation]
    for claim in claims:
        (tmp_path / "claim.json").write_text(claim.to_json())
        again = type(claim).load(tmp_path / "claim.json")
        assert isinstance(again, Claim) and again.to_json() == claim.to_json()
        assert (again.epsilon, again.relation, again.noise) == (3.0, "replace-one", "seeded")
        assert again.verify(allow_seeded=True) and not again.verify()
        altered = dict(again.record, guarantee=dict(again.record["guarantee"], epsilon=2.9))
        assert not type(claim)(altered).verify(allow_seeded=True) and not type(claim)({}).verify()
        for other in set(map(type, claims)) - {type(claim)}:
            with pytest.raises(ValueError, match=r"found (a|an|the) .*Pass certificate\.json"):
                other.from_json(claim.to_json())


def test_a_wrong_declaration_is_refused_before_the_debit(tmp_path):
    ledger = Ledger.create(tmp_path / "budget.sqlite", dataset="x", epsilon=5.0, delta=1e-5)
    X = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    base = LogisticRegression(bounds=(-1, 1), classes=[0, 1], method="gradient", max_weight=-1)
    with pytest.raises(ValueError, match="max_weight > 0"):
        PrivateGridSearch(base, {"radius": [1.0]}, epsilon=1.0, ledger=ledger).fit(X, (X[:, 0] > 0).astype(int))
    assert ledger.account().fits == 0


def test_the_report_of_a_search_states_the_search_and_not_its_run(tmp_path):
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (400, 2))
    base = LogisticRegression(bounds=(-1, 1), classes=[0, 1], method="gradient")
    search = PrivateGridSearch(base, {"radius": [1.0, 5.0]}, epsilon=3.0, expected_runs=2, random_state=0)
    search.fit(X, (X[:, 0] > 0).astype(int))
    page = search.report(tmp_path / "search.html").read_text(encoding="utf-8")
    assert search.certificate_.record["statement"][:60] in page and "NOT PRIVATE" in page and "radius = 5.0" in page
    inner = search.certificate_.record["best"]["statement"]
    assert inner[:40] not in page and "<script" not in page
    assert "chosen" in search.report(tmp_path / "search.md").read_text(encoding="utf-8")


def test_neither_warnings_nor_progress_tell_how_many_runs_there_were(monkeypatch) -> None:
    """K must stay secret, so that what is said belongs to the settings: once for each, before the debit."""
    X, y = threshold(60)
    base = LogisticRegression(bounds=(-1, 1), classes=[0, 1], method="scaled-gradient", verbose=1)
    fitted: list[int] = []
    plain = LogisticRegression.fit
    monkeypatch.setattr(LogisticRegression, "fit", lambda self, *data: (fitted.append(self.verbose), plain(self, *data))[1])
    told, runs = set(), set()
    for seed in range(4):
        fitted.clear()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            PrivateGridSearch(base, {"radius": [5.0, 9.0]}, 1.0, 1e-6, expected_runs=8.0, random_state=seed).fit(X, y[:, None])
        runs.add(len(fitted))
        told.add(tuple(str(warning.message) for warning in seen))
        assert set(fitted) == {0}
    assert len(runs) > 1 and len(told) == 1
    assert sum("LITTLE CAN BE LEARNT" in text for text in next(iter(told))) == 1
