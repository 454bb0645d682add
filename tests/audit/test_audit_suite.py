"""The suite and its page: every estimator has a case, refusals are reported, a broken estimator is accused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import dperm
import dperm.estimators as estimators
from dperm.audit import cases, closed_form, page, suite
from dperm.audit.closed_form import gradient_rows
from dperm.audit.planted import planted
from dperm.audit.published import certificate_case
from dperm.audit.transcript import transcript
from dperm.audit.trials import distinguish
from dperm.cli import app
from dperm.mechanisms import Gradient
from dperm.privacy import RELATIONS, PureDP
from dperm.release import driver
from dperm.release import noise as noise_module
from dperm.terms.inference import CurvatureMatrix, ScoreMatrix

FEW = Gradient(steps=3, clip=0.25)


def quick(name="LogisticRegression", relation="replace-one"):
    """A case with a mechanism of few steps, so that a test can afford it."""
    (case,) = [c for c in suite.estimator_cases(policies=("secure",), names=(name,)) if c.relation == relation]
    return replace(case, build=cases.Builder(case.build.cls, {**case.build.options, "method": FEW}), method="gradient")


def test_every_estimator_relation_and_policy_has_a_case():
    listed = [(case.name, case.relation, case.noise) for case in suite.estimator_cases()]
    assert listed == [(n, r, p) for n in estimators.__all__ for r in RELATIONS for p in ("secure", "exact")]
    methods = {case.method for case in suite.mechanism_cases()} - {"scaled-heads, wide"}
    from dperm.release.plan import MECHANISMS

    assert methods == set(MECHANISMS)


def test_forms_that_few_rows_would_not_take_have_a_case():
    wide = [case for case in suite.mechanism_cases() if case.method == "scaled-heads, wide"]
    assert [case.relation for case in wide] == list(RELATIONS)
    for case in wide:
        assert "finer squares" in {stage.name for stage in case.build().fit(*case.data).release_.plan.stages}


def test_every_estimator_with_intervals_has_a_case_with_them():
    listed = {(case.name, case.relation) for case in suite.interval_cases()}
    having = [name for name in estimators.__all__ if getattr(getattr(estimators, name), "has_intervals", False)]
    assert listed == {(name, relation) for name in [*having, "LogisticRegression, 3 classes"] for relation in RELATIONS}
    assert all(case.build.options["intervals"] is True and case.method == "intervals" for case in suite.interval_cases())


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_exact_audit_of_intervals_accuses_halved_noise(relation, monkeypatch):
    """Every release holds its claim, and each that the pairs can use up breaks it with half of the noise."""
    tight = ("gradient of linear", "curvature of linear", "scores of linear", "curvature of two classes by softmax")
    honest = closed_form.interval_rows((relation,))
    assert len(honest) == 9 and all(row.verdict == "holds" and row.found.holds(row.claim) for row in honest)
    scale = closed_form.gaussian_scale
    monkeypatch.setattr(closed_form, "gaussian_scale", lambda sensitivity, mu: scale(sensitivity, mu) / 2)
    accused = {row.name for row in closed_form.interval_rows((relation,)) if row.verdict == "violated"}
    assert accused >= {f"intervals, {name}" for name in tight}


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_exact_audit_of_last_layers_accuses_halved_noise(relation, monkeypatch):
    """Every release holds its claim. One column has no orthogonal rows, so a replaced one cannot use up the moments."""
    tight = {"heads, gradient of heads", "heads, labels of least-squares"}
    whole = {"heads, moments of heads", "heads, size of heads", "heads, moments of scaled-heads"}
    honest = closed_form.heads_rows((relation,))
    assert len(honest) == 5 and all(row.verdict == "holds" and row.found.holds(row.claim) for row in honest)
    scale = closed_form.gaussian_scale
    monkeypatch.setattr(closed_form, "gaussian_scale", lambda sensitivity, mu: scale(sensitivity, mu) / 2)
    accused = {row.name for row in closed_form.heads_rows((relation,)) if row.verdict == "violated"}
    assert accused == tight | whole


def test_neighbours_differ_in_one_record_only():
    named = [*suite.mechanism_cases(), *suite.interval_cases(), *suite.curve_cases()]
    for case in [*suite.estimator_cases(policies=("secure",)), *named]:
        n, others = len(case.data[0]), len(case.neighbour[0])
        assert others == (n - 1 if case.relation == "add-remove" else n), case.name
        for one, other in zip(case.data, case.neighbour):
            assert np.array_equal(one[: n - 1], other[: n - 1])
        if case.relation == "add-remove":  # what is declared public must not follow the data
            options = case.build.options
            assert (options["estimator"].nominal_n if "estimator" in options else options["nominal_n"]) == n


@pytest.mark.parametrize("relation", RELATIONS)
def test_an_honest_estimator_is_kept(relation):
    """Confidence 99 % spread over three cases: false alarm ≤ 1 % in all."""
    (result,) = suite.run_suite([quick(relation=relation)], seconds=1.0, trials=100)
    assert result.verdict in ("holds", "inconclusive") and result.fits == 100 and result.claim.epsilon(cases.DELTA) <= 6.0 + 1e-9


def test_a_broken_estimator_is_accused(monkeypatch):
    honest = noise_module.gaussian_scale
    monkeypatch.setattr(noise_module, "gaussian_scale", lambda sensitivity, mu: honest(sensitivity, mu) / 8)
    (result,) = suite.run_suite([quick()], seconds=1.0, trials=200)
    assert result.verdict == "violated" and result.found.epsilon_lower > 0


def test_half_the_noise_is_proven_by_the_likelihood_ratio(monkeypatch):
    """Two hundred fits: most of the claim is seen in the correct one, and half of its noise is a violation."""
    case = quick(relation="zero-out")
    observe = case.observer()
    assert observe.statistic is cases.LIKELIER and observe(case.data)[-1] != 0
    (kept,) = suite.run_suite([case], seconds=1.0, trials=200)
    assert kept.verdict == "holds"
    honest = driver._Run._sensitivity
    monkeypatch.setattr(driver._Run, "_sensitivity", lambda self, term: honest(self, term) / 2)
    (result,) = suite.run_suite([case], seconds=1.0, trials=200)
    assert result.verdict == "violated"


def test_verdicts_say_how_much_was_proven():
    (result,) = suite.run_suite([quick()], seconds=1.0, trials=60)

    def with_bounds(epsilon, mu, violates=False):
        return replace(result, found=replace(result.found, epsilon_lower=epsilon, mu_lower=mu, violates=violates))

    mu = result.claim.mu
    few, by_epsilon, by_mu = with_bounds(1.4, 0.24 * mu), with_bounds(1.6, 0.0), with_bounds(0.0, 0.26 * mu)
    assert [row.verdict for row in (few, by_epsilon, by_mu)] == ["inconclusive", "holds", "holds"]
    assert with_bounds(0.0, 0.0, violates=True).verdict == "violated"
    assert by_epsilon.words == "holds (ε ≥ 1.60 of 6, μ ≥ 0.00 of 2)"
    # μ counts only where the claim is μ-GDP: a bound on μ says nothing of that kind about a pure claim.
    assert replace(by_mu, claim=PureDP(6.0, "replace-one")).verdict == "inconclusive"
    text = page.summary([], [few, by_epsilon, by_mu], [])
    assert "2 hold with a bound" in text and "(1 of them" in text and "1 are inconclusive" in text


def test_a_run_of_some_cases_stands_apart_in_whole_tables(tmp_path):
    results, place = suite.run_suite([quick()], seconds=1.0, trials=60), tmp_path / "audit.md"
    place.write_text("# Audit\n", encoding="utf-8")
    (plant,) = [plant for plant in planted() if plant.name == "seeded noise"]
    bad, good = plant.audit(broken=True, share=0.2), plant.audit(broken=False, share=0.2)
    for _ in range(2):  # the second takes the place of the first
        page.write_part(place, gradient_rows((1,), ("zero-out",)), results, "quick", [(plant, bad, good)], at="here")
    lines = place.read_text(encoding="utf-8").splitlines()
    first = ("| mechanism |", "| estimator |", "| planted bug |")
    heads = [number for number, line in enumerate(lines) if line.startswith(first)]
    assert len(heads) == 3 and "1 of 1 planted bugs" in place.read_text(encoding="utf-8")
    assert lines.count("## Run apart: quick") == 1
    for head in heads:
        assert lines[head - 1] == "" and lines[head + 1] == "|" + "---|" * (lines[head].count("|") - 1)
        assert lines[head + 2].startswith("| ")


def test_a_refusal_is_a_row_with_its_reason():
    case = quick()
    pure = replace(case, build=cases.Builder(case.build.cls, {**case.build.options, "delta": 0.0}))
    (result,) = suite.run_suite([pure], seconds=1.0)
    assert result.verdict == "refused" and result.note.startswith("delta > 0")
    assert "delta > 0" in page.refusals([result])


def test_time_decides_the_number_of_trials_and_ends_the_suite():
    results = suite.run_suite([quick(), quick(), quick()], seconds=1e-9)
    assert {result.verdict for result in results} == {"not run"}
    (result,) = suite.run_suite([quick()], seconds=5.0)  # on a busy machine half a second was over before the first fit
    assert 120 <= result.fits <= 4000


def test_a_second_round_is_for_inconclusive_rows_with_fresh_fits_and_half_the_false_alarms(monkeypatch):
    asked = []

    def blind(observe, data, neighbour, trials, *, confidence, **options):
        asked.append((data[0][-1, 0], trials, confidence))
        differs = data[0][-1, 0] == 1.0
        found = distinguish(lambda side: float(side is neighbour and differs), data, neighbour, 400, confidence=confidence)
        return replace(found, violates=False)

    monkeypatch.setattr(suite, "distinguish", blind)
    seen, unseen = quick(), quick()
    unseen = replace(unseen, data=(0.5 * unseen.data[0], unseen.data[1]))
    results = suite.run_suite([seen, unseen], seconds=3.0)
    assert [place for place, _, _ in asked] == [1.0, 0.5, 0.5] and {level for _, _, level in asked} == {1 - 0.01 / 4}
    assert [row.verdict for row in results] == ["holds", "inconclusive"]
    assert results[1].fits == asked[1][1] + asked[2][1]


def test_the_transcript_is_seen():
    """Three noisy gradients: their sum over √3, and the log-likelihood ratio, whose mean is ±(realised μ)²/2."""
    case = quick()
    observe = case.observer()
    assert len(observe(case.data)) == 2 + 2 + 1
    ratios = np.array([[observe(side)[-1] for _ in range(150)] for side in (case.data, case.neighbour)])
    mu = case.build().fit(*case.data).plan_.guarantee.mu
    shift = ratios[1].mean() - ratios[0].mean()
    assert 0.1 * mu**2 < shift < 1.3 * mu**2 and ratios[0].mean() < 0 < ratios[1].mean()


def test_sums_are_not_used_where_only_the_best_run_is_published():
    """The sums inside a search belong to runs that stay secret: an audit of them would accuse a correct search."""
    for case in suite.estimator_cases(policies=("secure",), names=("PrivateGridSearch",)):
        assert case.published_only and len(case.observer()(case.data)) == 3  # coefficient, radius, score
        assert case.observer().statistic == "auto"


def test_page_has_all_parts_and_keeps_the_peers(tmp_path):
    path = tmp_path / "docs" / "audit.md"
    path.parent.mkdir()
    page.replace_section(path, "## Peers\n\nfound before")
    plant = planted()[8]
    bad, good = plant.audit(broken=True, share=0.2), plant.audit(broken=False, share=0.2)
    results = suite.run_suite([quick()], seconds=0.5, trials=60)
    rows = gradient_rows(steps=(1,), relations=("zero-out",))
    page.write_page(path, rows, results, [(plant, bad, good)], seconds=60.0, processes=2, at="abc1234")
    text = path.read_text(encoding="utf-8")
    assert "**0 violations** in 1 exact and 1 statistical" in text and "1 of 1 planted bugs" in text
    assert "| gradient, T = 1 | zero-out |" in text and "found before" in text
    page.replace_section(path, "## Peers\n\nfound later")
    text = path.read_text(encoding="utf-8")
    assert "found later" in text and "found before" not in text and text.count(page.START) == 1
    assert page.commit(tmp_path / "nowhere" / "x.md")


def test_certificates_are_audited_as_recorded(tmp_path):
    X = np.linspace(-1, 1, 40).reshape(-1, 1)
    options = {"epsilon": 3.0, "delta": 1e-3, "bounds": (-1, 1), "classes": [0, 1], "method": FEW}
    for relation in RELATIONS:
        nominal = {"nominal_n": 40} if relation == "add-remove" else {}
        model = dperm.LogisticRegression(relation=relation, **options, **nominal).fit(X, X[:, 0] > 0)
        path = tmp_path / f"{relation}.json"
        path.write_text(model.certificate_.to_json(), encoding="utf-8")
        case = certificate_case(path)
        assert case.relation == relation and len(case.data[0]) == 40
        claim = case.build().fit(*case.data).plan_.guarantee
        assert claim.relation == relation and claim.epsilon(1e-3) == pytest.approx(3.0, rel=1e-6)
    (result,) = suite.run_suite([case], seconds=0.5, trials=60)
    assert result.verdict in ("holds", "inconclusive") and result.mechanism == "gradient"


class TestCommand:
    def test_estimator_by_name(self):
        answer = CliRunner().invoke(app, ["audit", "MeanEstimator", "--relation", "replace-one", "--trials", "60", "--json"])
        assert answer.exit_code == 0, answer.output
        (record,) = json.loads(answer.output)["audits"]
        assert record["verdict"] in ("holds", "inconclusive") and record["claimed_epsilon"] <= 6.0 + 1e-9

    def test_certificate_and_violation(self, tmp_path, monkeypatch):
        model = dperm.LogisticRegression(
            epsilon=3.0, delta=1e-3, bounds=(-1, 1), classes=[0, 1], method=Gradient(steps=1, momentum=0.0, output="last")
        ).fit(np.eye(4)[:, :1], [0, 1, 0, 1])
        path = tmp_path / "certificate.json"
        path.write_text(model.certificate_.to_json(), encoding="utf-8")
        assert CliRunner().invoke(app, ["audit", str(path), "--trials", "80"]).exit_code == 0
        honest = noise_module.gaussian_scale
        monkeypatch.setattr(noise_module, "gaussian_scale", lambda sensitivity, mu: honest(sensitivity, mu) / 20)
        answer = CliRunner().invoke(app, ["audit", str(path), "--trials", "80"])
        assert answer.exit_code == 1 and "violated" in answer.output

    @pytest.mark.parametrize(
        "arguments",
        [[], ["LogisticRegression", "--suite"], ["NoSuchModel"], ["Ridge", "--minutes", "0"], ["Ridge", "--trials", "3"]],
    )
    def test_usage_is_checked(self, arguments):
        answer = CliRunner().invoke(app, ["audit", *arguments])
        assert isinstance(answer.exception, ValueError) and "Expected" in str(answer.exception)


def realised(case):
    """(μ that the case's neighbours see in all noisy sums of one run, μ that is claimed): exact, given the run's own noise."""
    rows = []
    for data in (case.data, case.neighbour):
        with transcript() as seen:
            case.build().fit(*data)
        rows.append(seen.rows)
    with transcript((rows[0], rows[1]), own=0) as seen:
        model = case.build().fit(*case.data)
    return seen.energy**0.5, model.plan_.guarantee.mu


@pytest.mark.parametrize("relation", ["zero-out", "add-remove"])
def test_intervals_show_what_they_claim_and_halved_noise_of_their_matrices_is_caught(relation, monkeypatch):
    """The suite's own neighbours see most of the claim; with half the noise of the two matrices they see more than all of it.

    Under replace-one these neighbours are mirrored rows, which have the same matrices.
    """
    (case,) = [
        case
        for case in suite.mechanism_cases()
        if (case.name, case.method, case.relation) == ("LinearRegression", "scaled-inference", relation)
        and case.build.options["delta"] > 0
    ]
    seed = replace(case, build=cases.Builder(case.build.cls, {**case.build.options, "noise": "secure", "random_state": 0}))
    shown, claimed = realised(seed)
    assert 0.6 * claimed < shown <= claimed
    for kind in (CurvatureMatrix, ScoreMatrix):
        honest = kind.sensitivity
        monkeypatch.setattr(kind, "sensitivity", lambda self, relation, honest=honest: honest(self, relation) / 2)
    assert realised(seed)[0] > claimed
