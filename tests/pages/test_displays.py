"""What a notebook and a terminal show: boxes, short texts, and a table of coefficients for every linear model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context

import dperm
from dperm.estimators.search import PrivateGridSearch
from dperm.pages.card import card
from dperm.pages.document import rendered
from dperm.pages.page import report_page
from dperm.pages.subject import subject_of
from dperm.report.profile_page import profile_page
from dperm.walk.certificate import Certificate
from dperm.words.display import box

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (1500, 2))
Y = (X[:, 0] > 0).astype(int)
BOUNDS = {"bounds": {"x0": (-1, 1), "x1": (-1, 1)}}
LINEAR = [
    dperm.LogisticRegression(3.0, classes=[0, 1], **BOUNDS),
    dperm.LogisticRegression(3.0, classes=[0, 1, 2], **BOUNDS),
    dperm.LinearSVC(3.0, classes=[0, 1], **BOUNDS),
    dperm.LinearRegression(3.0, y_bounds=(0, 1), **BOUNDS),
    dperm.Ridge(3.0, y_bounds=(0, 1), fit_intercept=False, **BOUNDS),
    dperm.Lasso(3.0, y_bounds=(0, 1), **BOUNDS),
    dperm.HuberRegressor(3.0, y_bounds=(0, 1), threshold=0.5, **BOUNDS),
    dperm.QuantileRegressor(3.0, y_bounds=(0, 1), **BOUNDS),
    dperm.PoissonRegressor(3.0, y_bounds=(0, 3), **BOUNDS),
]


@pytest.mark.parametrize("model", LINEAR, ids=lambda model: type(model).__name__)
def test_every_linear_model_prints_its_coefficients(model):
    model.fit(X, Y)
    table = model.summary()
    numbers = [row["estimate"] for row in table.rows()]
    slopes, constant = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    expected = [v for k in range(len(slopes)) for v in [*slopes[k], *([constant[k]] if model.fit_intercept else [])]]
    assert numbers == pytest.approx(expected)
    text = str(table)
    assert type(model).__name__ in text.splitlines()[0] and "Epsilon:   3" in text and "per row" in text
    assert "coef" in text and "x1" in text and ("intercept" in text) == model.fit_intercept and "No intervals." in text
    assert repr(table) == text and "<table" in table._repr_html_()


def test_a_fit_with_intervals_prints_them_in_the_same_table():
    model = dperm.LinearRegression(20.0, y_bounds=(0, 1), intervals=True, **BOUNDS).fit(X, Y)
    text = str(model.summary(0.9))
    assert all(word in text for word in ("coef", "std err", "P>|z|", "[0.05", "0.95]", "Method:    scaled-inference"))
    with pytest.raises(ValueError, match="0 < level < 1"):
        model.summary(95)
    net = dperm.MLPClassifier(3.0, classes=[0, 1], **BOUNDS).fit(X, Y)
    with pytest.raises(ValueError, match="one coefficient per column"):
        net.summary()


def test_an_estimator_shows_its_budget_and_its_certificate():
    model = dperm.LogisticRegression(0.5, classes=[0, 1], relation="zero-out", **BOUNDS)
    before = model._repr_html_()
    assert all(word in before for word in ("ε = 0.5", "δ = default", "zero-out", "per row", "nothing is spent yet"))
    after = model.fit(X, Y)._repr_html_()
    assert "verifies" in after and "δ = 1e-06" in after and "0.5, 1e-06)-differential privacy" in after
    assert "sk-estimator" in after and model._repr_mimebundle_()["text/html"].startswith("<div")  # the diagram is still there
    with config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_() and not hasattr(model, "_repr_html_")
    people = dperm.LogisticRegression(1.0, classes=[0, 1], max_rows_per_person=2, **BOUNDS)
    assert "per person" in people._repr_html_()
    assert "ε = 1" in dperm.MeanEstimator(1.0, bounds=(-1, 1)).fit(X)._repr_html_()


def test_a_claim_shows_whether_it_verifies():
    model = dperm.LogisticRegression(1.0, classes=[0, 1], **BOUNDS).fit(X, Y)
    assert "verifies" in model.certificate_._repr_html_()
    altered = Certificate({**model.certificate_.record, "assumptions": ["the moon <b>is</b> made of cheese"]})
    assert "DOES NOT VERIFY" in altered._repr_html_() and "<b>is" not in altered._repr_html_()
    seeded = dperm.LogisticRegression(1.0, classes=[0, 1], random_state=0, **BOUNDS).fit(X, Y)
    assert "NOT PRIVATE" in seeded.certificate_._repr_html_() and "NOT PRIVATE" in seeded._repr_html_()
    found = dperm.evaluate(model, X, Y, epsilon=3.0)
    assert "verifies" in found._repr_html_() and "baseline accuracy" in found._repr_html_()
    assert len(repr(found).splitlines()) == 1 and "epsilon=3.0" in repr(found)


def test_a_plan_and_a_search_show_themselves():
    plan = dperm.LinearSVC(1.0, classes=[0, 1], **BOUNDS).plan(1000, 2)
    assert "nothing is read or spent" in plan._repr_html_() and "n = 1,000" in plan._repr_html_()
    base = dperm.LogisticRegression(classes=[0, 1], method="gradient", **BOUNDS)
    search = PrivateGridSearch(base, {"radius": [0.1, 10.0]}, epsilon=8, expected_runs=4).fit(X, Y)
    assert "verifies" in search.best_estimator_._repr_html_() and "ε = 8" in search.best_estimator_._repr_html_()
    with pytest.raises(ValueError, match="search"):
        search.best_estimator_.report("r.html")


def test_every_word_in_a_box_is_escaped():
    bad = "<script>alert(1)</script>\x1b[2J"
    shown = box(bad, bad, chips=[bad], rows=[(bad, bad)], head=(bad, bad), note=bad)
    assert "<script" not in shown and "\x1b" not in shown and shown.count("&lt;script&gt;") == 8


def test_no_name_of_a_column_turns_the_box_of_an_estimator_around():
    """scikit-learn's diagram lists the names of the fit, and a right-to-left mark would turn around what follows."""
    bad = "age\u202e\x1b[2J</td>"
    table = pd.DataFrame({bad: np.linspace(-1, 1, 200)})
    shown = dperm.LogisticRegression(bounds=(-1, 1), classes=[0, 1], method="gradient").fit(table, [0, 1] * 100)._repr_html_()
    assert "\u202e" not in shown and "\x1b" not in shown and r"age\u202e\x1b[2J&lt;/td&gt;" in shown


def test_no_page_of_a_mean_sends_its_reader_to_a_command_that_refuses_it():
    """Its report said that `dperm evaluate` pays for a score."""
    mean = dperm.MeanEstimator(1.0, bounds=(-1, 1)).fit(X)
    with pytest.raises(ValueError, match="found MeanEstimator"):
        dperm.evaluate(mean, X, Y, epsilon=1.0)
    model = dperm.LogisticRegression(1.0, classes=[0, 1], **BOUNDS).fit(X, Y)
    for fitted, bought in ((mean, False), (model, True)):
        for page in (report_page(fitted, {}, markdown=True), rendered(card(subject_of(fitted)), markdown=True)):
            assert ("`dperm evaluate` pays for" in page) == bought and ("Not measured" in page), page


def test_a_level_near_1_is_not_rounded_to_certainty():
    """Pages and figures spoke of 100% intervals."""
    found = dperm.profile(pd.DataFrame({"a": X[:, 0]}), epsilon=3.0, level=0.999)
    assert "has a 99.9 % error bar" in profile_page(found, markdown=True)
    model = dperm.LinearRegression(5.0, y_bounds=(-1, 1), intervals=True, **BOUNDS).fit(X, X[:, 0])
    scores = dperm.evaluate(model, X, X[:, 0], epsilon=3.0, level=0.995)
    assert "99.5 % interval" in report_page(model, {}, scores.record, markdown=True)
    assert "99.9 % region of x0, x1" in str(model.summary(0.999).region(["x0", "x1"]))
    assert "95 % interval" in model.plot().axes[0].get_xlabel()
