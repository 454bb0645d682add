"""Reports: what they say, that they escape, load nothing, and show no number that nobody paid for."""

from __future__ import annotations

import html.parser
import io
import json
import re
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import dperm
from browser import chromium, contrasts, resize, theme
from dperm.choose.odds import odds, odds_sentence, percent
from dperm.choose.risks import compare_accounting
from dperm.estimators.outlook import advise, declared
from dperm.evaluation.evaluate import evaluate
from dperm.mechanisms import Gradient
from dperm.pages.card import card
from dperm.pages.charts import Panel
from dperm.pages.content import budget_parts
from dperm.pages.document import rendered
from dperm.pages.effects import effects
from dperm.pages.page import certificate_page, report_page
from dperm.pages.shapes import lines_beside
from dperm.pages.subject import subject_of
from dperm.pages.text import Table
from dperm.pages.whiskers import whiskers
from dperm.privacy import Gaussian, Pure

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
    for text in (report_page(model, {}), report_page(model, {}, markdown=True)):
        assert "differential privacy for replacing one row" in text
        assert "An attacker who knows every other record" in text and "73.1 %" in text
        assert "NOT PRIVATE" in text  # seeded
        assert "No score is shown" in text and "No intervals" in text
        assert "absent on purpose" in text and "dperm verify" in text and "scaled-gradient" in text


def test_markdown_and_page_have_the_same_sections(model):
    page, text = report_page(model, {}), report_page(model, {}, markdown=True)
    assert re.findall(r"<h2>(.*?)</h2>", page) == re.findall(r"^## (.*)$", text, re.M)


def test_hostile_names_are_escaped():
    bad = '<script>alert(1)</script>"\'&|`'
    target = {"column": "y", "type": "classes", "classes": ["a", "b"]}
    frame = {"columns": {bad: {"type": "numeric", "low": 0, "high": 1}}, "target": target}
    table = pa.table({bad: RNG.uniform(0, 1, 300), "y": np.where(RNG.uniform(size=300) > 0.5, "a", "b")})
    fitted = dperm.LogisticRegression(epsilon=1, schema=frame, method=Gradient(steps=2), random_state=1).fit(table)
    page = report_page(fitted, {bad: bad})
    assert "<script>" not in page and "&lt;script&gt;" in page


def test_intervals_and_paid_scores_appear_where_they_exist(model):
    evaluation = json.loads(json.dumps(evaluate(model, X, Y, epsilon=5, random_state=2).record))
    page = certificate_page(model.certificate_, evaluation)
    assert "Paid for: (5, 1e-06)" in page and "ROC curve" in page and "Calibration" in page
    linear = dperm.LinearRegression(epsilon=5, bounds=(-1, 1), y_bounds=(-2, 2), method="statistics", random_state=0)
    assert "95 % interval" in report_page(linear.fit(X, X[:, 0]), {})


def test_a_page_from_the_certificate_alone_needs_no_model(model):
    again = dperm.Certificate.from_json(model.certificate_.to_json())
    assert "Where the budget went" in certificate_page(again)
    assert certificate_page(again, markdown=True).startswith("# Report")


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


def test_the_page_is_readable_on_a_phone_and_a_desk_in_both_themes(model, tmp_path):
    file = tmp_path / "report.html"
    evaluation = json.loads(json.dumps(evaluate(model, X, Y, epsilon=5, random_state=2).record))
    file.write_text(report_page(model, {}, evaluation, title="Bought, from shop", data="shop"), encoding="utf-8")
    papers = set()
    with chromium(tmp_path / "profile") as driver:
        for width in (390, 1280):
            for name in ("light", "dark"):
                resize(driver, width)
                theme(driver, name)
                driver.get(file.as_uri())
                assert driver.execute_script("return document.documentElement.scrollWidth") <= width
                found = contrasts(driver)
                assert len(found) > 100 and min(found)[0] >= 4.5, min(found)
                papers.add(driver.execute_script("return getComputedStyle(document.body).backgroundColor"))
        theme(driver, "dark", "print")
        assert driver.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert driver.execute_script("return getComputedStyle(document.querySelector('nav')).display") == "none"
        assert min(contrasts(driver))[0] >= 4.5
        assert driver.execute_script("return performance.getEntriesByType('resource').map(r => r.name)") == []
        assert [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"] == []
    assert len(papers) == 2  # the themes differ


# -- effects ------------------------------------------------------------------------------------------------------------


def test_loose_bounds_do_not_make_a_column_look_strong():
    """Bounds twenty times too wide multiply the coefficient of the encoded column by twenty, the shown effect by about one.

    x1 has squares of 6.2 then, with noise of .35: the spread is known to 2.8 %, and 10 % are missed by luck once in 2,800 seeds.
    """
    rows = np.random.default_rng(11).uniform(-1, 1, (30_000, 2))
    y = 3 * rows[:, 0] + rows[:, 1]
    kind = {"y_bounds": (-5, 5), "random_state": 0}
    tight = dperm.LinearRegression(20, bounds={"x0": (-1, 1), "x1": (-1, 1)}, **kind).fit(rows, y)
    loose = dperm.LinearRegression(20, bounds={"x0": (-1, 1), "x1": (-20, 20)}, **kind).fit(rows, y)
    for fitted in (tight, loose):
        found = effects(subject_of(fitted))
        assert [effect.name for effect in found] == ["x0", "x1"]  # the strongest first, whatever the bounds
        assert not found[0].hidden and not found[1].hidden
        assert found[0].size[0] == pytest.approx(3 * rows[:, 0].std(), rel=0.1)
        assert found[1].size[0] == pytest.approx(rows[:, 1].std(), rel=0.1)
    assert abs(loose.w_[1]) > 5 * abs(tight.w_[1])  # what the page showed before


@pytest.mark.parametrize("intervals", [False, True])
def test_a_spread_that_noise_hides_is_called_rough(intervals):
    """1,500 rows under the same loose bounds: squares of .31 with noise of .35 or more tell nothing about the spread."""
    kind = {"y_bounds": (-5, 5), "random_state": 0, "intervals": intervals}
    y = 3 * X[:, 0] + X[:, 1]
    loose = dperm.LinearRegression(20, bounds={"x0": (-1, 1), "x1": (-20, 20)}, **kind).fit(X, y)
    assert {effect.name: effect.hidden for effect in effects(subject_of(loose))} == {"x0": False, "x1": True}
    page = report_page(loose, {})
    assert "x1 (roughly " in page and "noise blurs the spread of this column" in page and "x0 (roughly " not in page
    tight = dperm.LinearRegression(20, bounds=(-1, 1), **kind).fit(X, y)
    assert "oughly" not in report_page(tight, {})


def test_moments_give_the_spread_too_and_other_fits_say_that_they_have_none():
    kind, y = {"bounds": (-1, 1), "y_bounds": (-5, 5), "random_state": 0}, 3 * X[:, 0]
    moments = dperm.LinearRegression(20, method="statistics", **kind).fit(X, y)
    assert effects(subject_of(moments))[0].size[0] == pytest.approx(3 * X[:, 0].std(), rel=0.1)
    assert "Bands: 95 % intervals" in report_page(moments, {}) and "<polygon" in report_page(moments, {})
    plain = dperm.Ridge(20, method="output", radius=2.0, **kind).fit(X, y)
    page = report_page(plain, {})
    assert "the whole declared range" in page and "released no spread" in page and "from -1 to 1" in page


def test_levels_count_from_their_average_under_the_released_shares():
    job = RNG.choice(["cook", "nurse", "smith"], 4000, p=[0.5, 0.3, 0.2])
    pay = np.select([job == "cook", job == "nurse"], [2.0, 4.0], 7.0)
    schema = {
        "name": "staff",
        "columns": {"job": {"type": "categorical", "levels": ["cook", "nurse", "smith"]}},
        "target": {"column": "pay", "type": "numeric", "low": 0, "high": 10},
    }
    fitted = dperm.LinearRegression(20, schema=schema, random_state=0).fit(pa.table({"job": job, "pay": pay}))
    (effect,) = effects(subject_of(fitted))
    assert effect.name == "job" and effect.levels == ("cook", "nurse", "smith")
    assert effect.level_effects[0] == pytest.approx(np.array([2, 4, 7]) - pay.mean(), abs=0.3)
    assert effect.size[0] == pytest.approx(pay.std(), rel=0.15)
    page = report_page(fitted, {})
    assert "<h1>Predicting pay, data set staff</h1>" in page and "one of cook, nurse, smith" in page


@pytest.mark.parametrize("kind", ["two", "three", "amount"])
def test_a_page_of_curves_shows_the_columns_without_one_too(kind):
    """Choices and yes or no are lines in an additive model: what the page says of them is what `explain` adds for them."""
    jobs, new = RNG.choice(["cook", "smith"], 3000), RNG.integers(0, 2, 3000)
    table = pa.table({"age": RNG.uniform(0, 1, 3000), "job": jobs, "new": new})
    score = 3.0 * (np.array(table["job"]) == "smith") + 1.5 * np.array(table["new"]) + np.array(table["age"])
    target = {"column": "y", "type": "numeric", "low": 0, "high": 6}
    columns = {"age": {"type": "numeric", "low": 0, "high": 1}, "new": {"type": "boolean"}}
    columns["job"] = {"type": "categorical", "levels": ["cook", "smith"]}
    names = [] if kind == "amount" else ["low", "high"] if kind == "two" else ["low", "middle", "high"]
    if names:
        cuts = np.quantile(score, np.arange(1, len(names)) / len(names))
        score, target = np.array(names)[np.searchsorted(cuts, score)], {"column": "y", "type": "classes", "classes": names}
    estimator = dperm.GAMClassifier if names else dperm.GAMRegressor
    schema = {"columns": columns, "target": target}
    fitted = estimator(20, schema=schema, random_state=0).fit(table.append_column("y", pa.array(score)))
    page = report_page(fitted, {})
    parts = fitted.explain(pa.table({"age": [0.5, 0.5], "job": ["smith", "cook"], "new": [1, 0]}))
    slopes, curved = lines_beside(subject_of(fitted))
    assert [fitted._encoding.names[j] for j in curved] == ["age"]
    for name in ("job=cook", "job=smith", "new"):
        added = np.atleast_2d((parts[name][0] - parts[name][1]).T).ravel() * (-1 if name == "job=cook" else 1)
        assert slopes[:, fitted._encoding.names.index(name)] == pytest.approx(added, abs=1e-9)
    if kind == "three":
        assert "new (yes instead of no)" in page and "job (a choice of 2)" in page
    else:
        assert "without a curve, the strongest first" in page and "all levels, from their average" in page
        assert page.index("<h3>job</h3>") < page.index("<h3>new</h3>") and "yes instead of no" in page
        assert "in halves of" not in page


def test_shares_of_the_budget_add_up_and_follow_the_noise():
    parts = budget_parts([Gaussian(0.3), Gaussian(0.4)], 1e-6, "replace-one")
    assert parts == pytest.approx([0.09, 0.16])
    assert budget_parts([Pure(0.5), Pure(1.5)], 0.0, "replace-one") == pytest.approx([0.5, 1.5])


# -- names --------------------------------------------------------------------------------------------------------------


def test_classes_target_and_data_set_are_named(tmp_path):
    labels = np.select([X[:, 0] > 0.3, X[:, 0] < -0.3], ["high", "low"], "mid")
    fitted = dperm.LogisticRegression(5, bounds=(-1, 1), classes=["low", "mid", "high"], random_state=0).fit(X, labels)
    file = fitted.report(tmp_path / "r.html", data="rivers")
    page = file.read_text(encoding="utf-8")
    assert "data set rivers" in page and all(f'<th class="n" scope="col">{name}</th>' in page for name in ("low", "mid", "high"))
    assert "intercept" in page and fitted.report(tmp_path / "r.md").read_text(encoding="utf-8").startswith("# ")
    fitted.certificate_ = None
    with pytest.raises(ValueError, match="certificate"):
        fitted.report(tmp_path / "none.html")


def test_the_command_keeps_title_target_and_data_set(tmp_path):
    from typer.testing import CliRunner

    from dperm.cli import app

    rows = "\n".join(f"{a:.3f},{'yes' if a > 0 else 'no'}" for a in X[:, 0])
    (tmp_path / "rivers.csv").write_text("depth,clean\n" + rows)
    target = {"column": "clean", "type": "classes", "classes": ["no", "yes"]}
    schema = {"columns": {"depth": {"type": "numeric", "low": -1, "high": 1}}, "target": target}
    (tmp_path / "s.json").write_text(json.dumps(schema))
    run = CliRunner().invoke
    words = [str(tmp_path / "rivers.csv"), "--schema", str(tmp_path / "s.json"), "--epsilon", "2", "--out", str(tmp_path / "m")]
    assert run(app, ["fit", *words], catch_exceptions=False).exit_code == 0
    assert run(app, ["report", str(tmp_path / "m"), "--out", str(tmp_path / "again.html")], catch_exceptions=False).exit_code == 0
    first, again = (tmp_path / "m" / "report.html").read_text(), (tmp_path / "again.html").read_text()
    assert first == again and "<h1>Predicting clean, data set rivers</h1>" in again and "log-odds of yes" in again
    named = ["report", str(tmp_path / "m"), "--title", "<b>Rivers</b>", "--out", str(tmp_path / "t.html")]
    assert run(app, named, catch_exceptions=False).exit_code == 0
    assert "<h1>&lt;b&gt;Rivers&lt;/b&gt;</h1>" in (tmp_path / "t.html").read_text()
    (tmp_path / "m" / "model.json").unlink()  # the certificate alone is enough
    assert run(app, ["report", str(tmp_path / "m"), "--out", str(tmp_path / "c.html")], catch_exceptions=False).exit_code == 0


def test_both_steps_of_a_mean_say_what_they_are(tmp_path) -> None:
    """Version 0.3.0 said "sum of the rows" of both; the record keeps its words, people read others."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (500, 2))
    model = dperm.LogisticRegression(1.0, bounds=(0, 1), classes=[0, 1], random_state=0, method="scaled-gradient")
    model.fit(X, (X[:, 0] > 0.5).astype(int))
    page = model.report(tmp_path / "report.html").read_text(encoding="utf-8")
    for text in (page, model.plan_.explain(), model.plan_._repr_html_()):
        assert "sum of the rows, for a first centre" in text and "sum of the rows, counted from that centre" in text
    assert {stage.settings["releases"] for stage in model.plan_.stages if stage.name == "mean"} == {"sum of the rows"}


def test_coefficients_are_drawn_with_their_intervals():
    """Each in deviations of its column: the same line in the report and in `plot()`, whatever signs a name holds."""
    n, generator = 3000, np.random.default_rng(4)
    names = ("a$_{^$", "b")
    columns = {names[0]: generator.normal(50, 10, n), names[1]: generator.uniform(0, 1, n)}
    level = generator.integers(0, 2, n)
    table = pa.table({**columns, "job": np.array(["x", "y"])[level], "flag": level == 1, "t": 0.2 * columns[names[0]] + level})
    kinds = {name: {"type": "numeric", "low": 0, "high": high} for name, high in zip(names, (100, 1))}
    kinds |= {"job": {"type": "categorical", "levels": ["x", "y"]}, "flag": {"type": "boolean"}}
    frame = {"columns": kinds, "target": {"column": "t", "type": "numeric", "low": 0, "high": 25}}
    model = dperm.LinearRegression(8.0, schema=frame, intervals=True, random_state=0).fit(table)
    rows, lines = whiskers(subject_of(model), model.summary()), {row["name"]: row for row in model.summary().rows()}
    assert [row.name for row in rows] == [*names, "job=y", "flag"] and rows[2].step == "instead of x"
    deviation = model._encoding.width[0] / model.certificate_.record["decided"]["scale"][0]
    assert 5 < deviation < 20 and rows[0].estimate == pytest.approx(deviation * lines[names[0]]["estimate"])
    assert (rows[3].low, rows[3].high) == pytest.approx((lines["flag"]["low"], lines["flag"]["high"]))
    page, text = report_page(model, {}), report_page(model, {}, markdown=True)
    assert "All coefficients with their 95 % intervals" in page and f"{rows[0].estimate:+.3g} (" in page
    assert "instead of x" in text
    figure = model.plot()
    figure.savefig(io.BytesIO(), format="png")  # drawn, not only made
    assert figure.axes[0].get_yticklabels()[0].get_text().startswith(names[0])
    drawn = [line.get_xdata() for line in figure.axes[0].get_lines()]
    assert any(len(ends) == 2 and np.allclose(ends, (rows[0].low, rows[0].high)) for ends in drawn)
    assert len(model.plot("b").axes[0].get_yticklabels()) == 1
    with pytest.raises(ValueError, match="names of coefficients"):
        model.plot(["c"])
    without = dperm.LinearRegression(8.0, schema=frame, random_state=0).fit(table)
    with pytest.raises(ValueError, match="intervals=True"):
        without.plot()
    assert "with their 95 % intervals" not in report_page(without, {})


# -- figures ------------------------------------------------------------------------------------------------------------


def test_no_label_of_an_axis_is_cut_off():
    """A label of eleven signs begins inside the figure; the middle of an axis is left out where its labels would meet."""
    for reach, ends in ((0.00387, (0.0, 1.0)), (1_234_567.0, (100_000_000.0, 900_000_000.0)), (3.0, (-1.0, 1.0))):
        panel = Panel("x", "", [(ends[0], -reach), (ends[1], reach)])
        found = re.findall(r'<text x="([\d.]+)" y="(\d+)" text-anchor="(\w+)">([^<]*)</text>', panel.html(reach))
        spans = {"start": (0, 1), "middle": (-0.5, 0.5), "end": (-1, 0)}
        parts = [(int(y), *(float(x) + 7 * len(text) * side for side in spans[anchor])) for x, y, anchor, text in found]
        assert all(left >= 0 and right <= 252 for _, left, right in parts)
        below = sorted(part[1:] for part in parts if part[0] == 130)
        assert all(one[1] < other[0] for one, other in pairwise(below)) and len(below) == (2 if reach > 1e6 else 3)


def test_a_model_that_nothing_moves_has_zeros_and_no_tiny_numbers():
    fitted = dperm.LinearRegression(epsilon=1, bounds=(-1, 1), y_bounds=(0, 1), random_state=0).fit(X, X[:, 0])
    fitted.w_[:-1] = -0.0
    fitted.certificate_.record["coefficients"]["encoded"] = fitted.w_.tolist()
    fitted._in_callers_units()
    for page in (report_page(fitted, {}), report_page(fitted, {}, markdown=True)):
        assert "e-300" not in page and "+0<" not in page and "-0<" not in page and "| -0 |" not in page


def test_scores_and_p_values_are_written_as_people_write_them():
    rows, y = RNG.uniform(-1, 1, (3000, 2)), RNG.uniform(0, 0.1, 3000)
    y += 0.5 + 0.4 * rows[:, 0]
    fitted = dperm.LinearRegression(20, bounds=(-1, 1), y_bounds=(0, 1), intervals=True, random_state=0).fit(rows, y)
    found = evaluate(fitted, rows, y, epsilon=20, random_state=0)
    page = report_page(fitted, {}, found.record, markdown=True)
    assert "How good: R² 0." in page and "| R² | 0." in page and "| r2 |" not in page
    assert re.search(r"\| x0 \|.*\| < 0\.001 \|", page.replace("&lt;", "<"))
    assert "noise alone can draw a bar" not in page
    plain = dperm.LinearRegression(20, bounds=(-1, 1), y_bounds=(0, 1), random_state=0).fit(rows, y)
    assert "noise alone can draw a bar" in report_page(plain, {})


def test_effects_that_are_rounding_are_no_effects():
    """Coefficients drawn to 0 in other coordinates come back as 1e-16, and all levels of a choice with the same number."""
    table = pa.table({"job": RNG.choice(["cook", "smith"], 900), "age": RNG.integers(20, 60, 900), "y": RNG.uniform(0, 1, 900)})
    columns = {"job": {"type": "categorical", "levels": ["cook", "smith"]}, "age": {"type": "numeric", "low": 20, "high": 60}}
    schema = {"columns": columns, "target": {"column": "y", "type": "numeric", "low": 0, "high": 1}}
    fitted = dperm.LinearRegression(3, schema=schema, intervals=True, random_state=0).fit(table)
    fitted.w_[:-1] = 0.3 + 6e-17, 0.3 - 6e-17, 1e-16
    fitted.certificate_.record["coefficients"]["encoded"] = fitted.w_.tolist()
    assert not any(effect.strength for effect in effects(subject_of(fitted)))
    for page in (report_page(fitted, {}), report_page(fitted, {}, markdown=True)):
        assert "predicts the same for every row. Noise hides every effect" in page
        assert "one released standard deviation; blue raises" not in page


def test_levels_of_a_small_target_keep_their_digits():
    table = pa.table({"job": RNG.choice(["cook", "smith"], 3000)})
    pay = pa.array(np.where(np.array(table["job"]) == "cook", 0.001, 0.002))
    schema = {"columns": {"job": {"type": "categorical", "levels": ["cook", "smith"]}}}
    schema["target"] = {"column": "y", "type": "numeric", "low": 0, "high": 0.003}
    page = report_page(dperm.LinearRegression(20, schema=schema, random_state=0).fit(table.append_column("y", pay)), {})
    assert re.search(r'<td class="n">\+0\.000[45]\d', page)


def test_curves_that_were_edited_after_the_release_are_said(tmp_path):
    """The page shows what was released; the model predicts with something else."""
    fitted = dperm.GAMRegressor(20, bounds=(-1, 1), y_bounds=(-1, 1), random_state=0).fit(X, X[:, 0])
    words = "curves that were edited after the release (x0: never rises)"
    assert words not in report_page(fitted, {})
    edited = fitted.monotone("x0", increasing=False)
    assert words in report_page(edited, {}) and words in report_page(dperm.load(edited.save(tmp_path / "model.json")), {})
    assert "x0: never rises" in rendered(card(subject_of(edited)), markdown=True)


def test_classes_are_no_target_with_a_range_where_the_page_does_not_know_their_names(tmp_path):
    base = dperm.LinearSVC(epsilon=1, bounds=(-1, 1), classes=["no", "yes"], method="gradient", loss="hinge", random_state=0)
    page = certificate_page(base.fit(X, np.array(["no", "yes"])[Y]).certificate_)
    assert "score (above 0 means the second class)" in page and "in halves of its declared range" not in page
    base.set_params(loss="auto", random_state=None)
    search = dperm.PrivateGridSearch(base, {"radius": [1.0, 9.0]}, epsilon=20, expected_runs=2, random_state=0)
    page = search.fit(X, np.array(["no", "yes"])[Y]).report(tmp_path / "search.html").read_text(encoding="utf-8")
    assert "score (above 0 means yes)" in page and "in halves of its declared range" not in page


def test_no_class_turns_the_words_of_a_figure_around():
    labels = ["a", "b\u202ec"]
    fitted = dperm.LogisticRegression(epsilon=3, bounds=(-1, 1), classes=labels, random_state=0).fit(X, np.array(labels)[Y])
    found = evaluate(fitted, X, np.array(labels)[Y], epsilon=5, random_state=2)
    page = report_page(fitted, {}, json.loads(json.dumps(found.record)))
    assert "Precision against recall of b\\u202ec" in page and "\u202e" not in page


def test_both_ends_of_a_declared_range_have_commas_or_neither():
    bounds = {"x0": (1024, 115_264), "x1": (2015, 2027)}
    page = report_page(dperm.LinearRegression(1, bounds=bounds, y_bounds=(-1, 1), random_state=0).fit(X, X[:, 0]), {})
    assert "numeric, 1,024 to 115,264" in page and "numeric, 2015 to 2027" in page


def test_only_mechanisms_that_the_model_has_are_called_possible():
    """An additive model has one; the page listed those of linear models as possible."""
    fitted = dperm.GAMRegressor(3, bounds=(-1, 1), y_bounds=(-1, 1), random_state=0).fit(X, X[:, 0])
    line = dperm.LinearRegression(3, bounds=(-1, 1), y_bounds=(-1, 1), random_state=0).fit(X, X[:, 0])
    assert "possible" in report_page(line, {}, markdown=True) and "possible" not in report_page(fitted, {}, markdown=True)


def test_an_interval_stays_on_one_line():
    found = Table(("", "score"), [("a", "0.68 (0.64 … 0.71)")], "", frozenset({1}))
    assert ">0.68 (0.64\u00a0…\u00a00.71)<" in found.html() and "0.64 … 0.71" in found.markdown()


def test_large_scores_and_coefficients_have_commas_and_no_powers_of_ten():
    fitted = dperm.LinearRegression(3, bounds=(-1, 1), y_bounds=(0, 60_000), intervals=True, random_state=0)
    fitted.fit(X, 30_000 + 10_000 * X[:, 0])
    found = evaluate(fitted, X, 30_000 + 10_000 * X[:, 0] + 3000 * X[:, 1], epsilon=5, random_state=0)
    report = report_page(fitted, {}, json.loads(json.dumps(found.record)))
    for page in (report[report.index("How good is it") : report.index("What was declared</h2>")], str(fitted.summary())):
        assert re.search(r"\b2\d,\d{3}\b", page) and not re.search(r"\d\.?\d*e\+0", page) and not re.search(r"\b\d{5}", page)
    assert any(re.fullmatch(r"\d,\d{3}", row[1]) for row in found._shown_rows())
