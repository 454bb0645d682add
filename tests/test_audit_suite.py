"""The suite and its page: every estimator has a case, refusals are reported, a broken estimator is accused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import dperm
import dperm.estimators as estimators
from dperm import noise as noise_module
from dperm.audit import page, suite
from dperm.audit.closed_form import gradient_rows
from dperm.audit.planted import planted
from dperm.audit.published import certificate_case
from dperm.cli import app
from dperm.mechanisms import Gradient
from dperm.privacy import RELATIONS

FEW = Gradient(steps=3)


def quick(name="LogisticRegression", relation="replace-one"):
    """A case with a mechanism of few steps, so that a test can afford it."""
    (case,) = [c for c in suite.estimator_cases(policies=("secure",), names=(name,)) if c.relation == relation]
    return replace(case, build=suite._Builder(case.build.cls, {**case.build.options, "method": FEW}), method="gradient")


def test_every_estimator_relation_and_policy_has_a_case():
    cases = suite.estimator_cases()
    assert {case.name for case in cases} == set(estimators.__all__)
    assert {case.relation for case in cases} == set(RELATIONS) and {case.noise for case in cases} == {"secure", "exact"}
    methods = {case.method for case in suite.mechanism_cases()}
    from dperm.mechanisms.base import MECHANISMS

    assert methods == set(MECHANISMS)


def test_neighbours_differ_in_one_record_only():
    for case in suite.estimator_cases(policies=("secure",)):
        sizes = [len(part[0]) for part in (case.data, case.neighbour)]
        assert sizes == ([12, 11] if case.relation == "add-remove" else [12, 12]), case.name
        for one, other in zip(case.data, case.neighbour):
            shared = min(len(one), len(other), 11)
            assert np.array_equal(one[:shared], other[:shared])


@pytest.mark.parametrize("relation", RELATIONS)
def test_an_honest_estimator_is_kept(relation):
    """Confidence 99 % spread over three cases: false alarm ≤ 1 % in all."""
    (result,) = suite.run_suite([quick(relation=relation)], seconds=1.0, trials=100)
    assert result.verdict in ("kept", "inconclusive") and result.found.trials == 100 and result.claim.epsilon(1e-3) <= 6.0 + 1e-9


def test_a_broken_estimator_is_accused(monkeypatch):
    honest = noise_module.gaussian_scale
    monkeypatch.setattr(noise_module, "gaussian_scale", lambda sensitivity, mu: honest(sensitivity, mu) / 8)
    (result,) = suite.run_suite([quick()], seconds=1.0, trials=200)
    assert result.verdict == "VIOLATED" and result.found.epsilon_lower > 0


def test_an_audit_that_saw_nothing_is_not_called_kept():
    (result,) = suite.run_suite([quick()], seconds=1.0, trials=60)
    blind = replace(result, found=replace(result.found, epsilon_lower=0.0, mu_lower=0.0, violates=False))
    seeing = replace(result, found=replace(result.found, epsilon_lower=0.5, violates=False))
    assert (blind.verdict, seeing.verdict) == ("inconclusive", "kept")
    assert "1 are inconclusive" in page.summary([], [blind, seeing], [])


def test_a_refusal_is_a_row_with_its_reason():
    case = quick()
    pure = replace(case, build=suite._Builder(case.build.cls, {**case.build.options, "delta": 0.0}))
    (result,) = suite.run_suite([pure], seconds=1.0)
    assert result.verdict == "refused" and result.note.startswith("delta > 0")
    assert "delta > 0" in page.refusals([result])


def test_time_decides_the_number_of_trials_and_ends_the_suite():
    cases = [quick(), quick(), quick()]
    results = suite.run_suite(cases, seconds=1e-9)
    assert {result.verdict for result in results} == {"not run"}
    (result,) = suite.run_suite([quick()], seconds=0.5)
    assert 120 <= result.found.trials <= 4000


def test_noisy_sums_are_seen_and_the_curator_is_left_as_it_was():
    from dperm.curator import Curator

    before = Curator.draw
    case = quick()
    assert len(case.fit(case.data)) == 2 + 2  # two coefficients, and three noisy sums of two numbers gathered into one
    assert Curator.draw is before


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
    assert result.verdict in ("kept", "inconclusive") and result.mechanism == "gradient"


class TestCommand:
    def test_estimator_by_name(self):
        answer = CliRunner().invoke(app, ["audit", "MeanEstimator", "--relation", "replace-one", "--trials", "60", "--json"])
        assert answer.exit_code == 0, answer.output
        (record,) = json.loads(answer.output)["audits"]
        assert record["verdict"] == "kept" and record["claimed_epsilon"] <= 6.0 + 1e-9

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
        assert answer.exit_code == 1 and "VIOLATED" in answer.output

    @pytest.mark.parametrize(
        "arguments",
        [[], ["LogisticRegression", "--suite"], ["NoSuchModel"], ["Ridge", "--minutes", "0"], ["Ridge", "--trials", "3"]],
    )
    def test_usage_is_checked(self, arguments):
        answer = CliRunner().invoke(app, ["audit", *arguments])
        assert isinstance(answer.exception, ValueError) and "Expected" in str(answer.exception)
