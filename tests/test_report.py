"""Reports: what they say, that they escape, load nothing, and show no number that nobody paid for."""

from __future__ import annotations

import html.parser
import json
import re

import numpy as np
import pytest

import dperm
from browser import chromium, resize
from dperm.choose.odds import odds, odds_sentence, percent
from dperm.choose.risks import compare_accounting
from dperm.estimators.outlook import advise, declared
from dperm.evaluation.evaluate import evaluate
from dperm.mechanisms import Gradient
from dperm.report.page import certificate_page, report_markdown, report_page

RNG = np.random.default_rng(11)
X = RNG.uniform(-1, 1, (1500, 2))
Y = (X[:, 0] > 0).astype(int)


@pytest.fixture(scope="module")
def model():
    return dperm.LogisticRegression(epsilon=1, bounds=(-1, 1), classes=[0, 1], method=Gradient(steps=5), random_state=1).fit(X, Y)


class Reader(html.parser.HTMLParser):
    """Collects tags and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


def parsed(page: str) -> list[tuple[str, dict]]:
    reader = Reader()
    reader.feed(page)
    return reader.tags


def test_the_page_is_self_contained_and_accessible(model):
    page = report_page(model, {})
    tags = parsed(page)
    assert not any(tag in ("script", "link", "iframe", "img") for tag, _ in tags)
    assert not re.search(r"https?://", page)
    assert ("html", {"lang": "en"}) in tags
    assert all(a.get("href", "#").startswith("#") for tag, a in tags if tag == "a")
    assert all("scope" in a for tag, a in tags if tag == "th")
    assert all(a.get("aria-label") or a.get("aria-hidden") for tag, a in tags if tag == "svg")
    headings = [tag for tag, _ in tags if tag in ("h1", "h2")]
    assert headings[0] == "h1" and headings.count("h1") == 1 and headings.count("h2") >= 7


def test_the_page_says_what_it_must(model):
    for text in (report_page(model, {}), report_markdown(model, {})):
        assert "differential privacy for replacing one row" in text
        assert "An attacker who knows every other record" in text and "73.1 %" in text
        assert "NOT PRIVATE" in text  # seeded
        assert "No score is shown" in text and "No intervals" in text
        assert "absent on purpose" in text and "dperm verify" in text and "scaled-gradient" in text


def test_markdown_and_page_have_the_same_sections(model):
    page, text = report_page(model, {}), report_markdown(model, {})
    assert re.findall(r"<h2>(.*?)</h2>", page) == re.findall(r"^## (.*)$", text, re.M)


def test_hostile_names_are_escaped():
    bad = '<script>alert(1)</script>"\'&|`'
    target = {"column": "y", "type": "classes", "classes": ["a", "b"]}
    frame = {"columns": {bad: {"type": "numeric", "low": 0, "high": 1}}, "target": target}
    import pyarrow as pa

    table = pa.table({bad: RNG.uniform(0, 1, 300), "y": np.where(RNG.uniform(size=300) > 0.5, "a", "b")})
    fitted = dperm.LogisticRegression(epsilon=1, schema=frame, method=Gradient(steps=2), random_state=1).fit(table)
    page = report_page(fitted, {bad: bad})
    assert "<script>" not in page and "&lt;script&gt;" in page


def test_intervals_and_paid_scores_appear_where_they_exist(model):
    evaluation = json.loads(json.dumps(evaluate(model, X, Y, epsilon=5, random_state=2).record))
    page = certificate_page(model.certificate_, evaluation)
    assert "Paid for: (5, 1e-06)" in page and "ROC curve" in page and "Calibration" in page
    linear = dperm.LinearRegression(epsilon=5, bounds=(-1, 1), y_bounds=(-2, 2), method="statistics", random_state=0)
    assert "95% interval" in report_page(linear.fit(X, X[:, 0]), {})


def test_a_page_from_the_certificate_alone_needs_no_model(model):
    again = dperm.Certificate.from_json(model.certificate_.to_json())
    assert "What was done" in certificate_page(again) and certificate_page(again, markdown=True).startswith("# Report")


def test_odds_are_posterior_beliefs_and_never_round_up_to_certainty():
    row = odds(np.log(3.0))["beliefs"][-1]
    assert row["after_at_most"] == pytest.approx(0.75) and row["after_at_least"] == pytest.approx(0.25)
    assert percent(0.9999999) != "100.0 %"
    assert "says one thing or another" in odds_sentence(1, 0) and "is in the data" in odds_sentence(1, 0, "zero-out")
    assert "except" not in odds_sentence(1, 0)


def test_advice_agrees_with_theory_and_with_the_planner():
    from dperm import theory

    found = advise(n=5000, d=4, epsilon=1.0, delta=1e-6, relation="zero-out", model="LinearSVC", target_risk=0.05)
    fit = declared("LinearSVC", 5000, 4, epsilon=1.0, delta=1e-6, relation="zero-out")
    problem = fit.problem
    assert found["mechanism"] == fit.plan().mechanism
    slope = problem.loss.bounds(problem.row_norm, problem.data.y).slope
    numbers = {"lipschitz": slope * problem.row_norm, "radius": 1.0, "epsilon": 1.0, "delta": 1e-6, "relation": "zero-out"}
    assert found["predicted_risk"]["gradient"] == pytest.approx(theory.gradient_descent_risk(5000, 5, **numbers))
    assert found["sample_size"]["gradient"] == theory.sample_size(theory.gradient_descent_risk, 0.05, d=5, **numbers)


def test_accountants_are_ordered():
    fit = declared("LogisticRegression", 5000, 4, epsilon=1.0, delta=1e-6, relation="zero-out", method="gradient")
    found = compare_accounting(fit.plan())
    assert found["exact composition"] <= 1.0 < found["zcdp"] <= found["renyi"] * 1.001 < found["basic (sum of epsilons)"]


def test_the_page_fits_a_phone_and_a_desk(model, tmp_path):
    file = tmp_path / "report.html"
    evaluation = json.loads(json.dumps(evaluate(model, X, Y, epsilon=5, random_state=2).record))
    file.write_text(certificate_page(model.certificate_, evaluation), encoding="utf-8")
    with chromium(tmp_path / "profile") as driver:
        for width in (390, 1200):
            resize(driver, width)
            driver.get(file.as_uri())
            assert driver.execute_script("return document.documentElement.scrollWidth") <= width
            assert not [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
        names = driver.execute_script("return performance.getEntriesByType('resource').map(r => r.name)")
        assert names == []
