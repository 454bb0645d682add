"""What was false, leaked or answered wrongly in version 0.1.0, row by row, by names that version has too.

Every test here fails on the source of 0.1.0 (commit 45fc070; run the file with `PYTHONPATH` at that source): by what that version
does, but for two that need a name it lacks (`dperm.load`, `plan` of a model). The cases of 2,047 and 300 rows are controls, which
passed. The changelog of 0.2.0 names the tests. Seeds are fixed, so nothing fails by chance.
"""

from __future__ import annotations

import decimal
import json
import math
import pickle
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import dperm
from dperm.cli import app
from dperm.mechanisms.gradient import Gradient
from dperm.mechanisms.output import Output
from dperm.problem import CustomLoss, DataBounds, Interval, LossBounds, Problem
from dperm.rows import ArrowRows, MemoryRows

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings have tests of their own
SCHEMA = {
    "columns": {"a": {"type": "numeric", "low": 0, "high": 1}, "c": {"type": "categorical", "levels": ["x", "y"]}},
    "target": {"column": "t", "type": "classes", "classes": ["no", "yes"]},
}


def classifier(**options):
    return dperm.LogisticRegression(**({"epsilon": 50.0, "delta": 1e-6, "random_state": 0, "bounds": (-1, 1)} | options))


def moved(one, other) -> float:
    """How far two fits with the same noise lie apart, in units of the first."""
    return float(np.linalg.norm(one.w_ - other.w_) / np.linalg.norm(one.w_))


def shell(*words) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.output + ("" if done.exception is None else str(done.exception))


def ledger_at(folder: Path) -> Path:
    shell("ledger", "create", folder / "l", "--dataset", "people", "--epsilon", 20, "--delta", 1e-4)
    return folder / "l"


# -- guarantees ----------------------------------------------------------------------------------------------------------


def test_row_1_one_odd_cell_leaves_other_cells_as_they_were(tmp_path):
    words = np.where(np.arange(1000) % 3 == 0, "x", "y")
    kinds = np.array([word.encode() for word in words], dtype=object)
    answers = np.where(words == "x", "yes", "no")

    def fit(cell: bytes):
        cells = [cell, *kinds[1:]]
        table = pa.table({"a": np.full(1000, 0.5), "c": pa.array(cells, pa.binary()), "t": answers})
        return dperm.LogisticRegression(50.0, 1e-6, schema=SCHEMA, random_state=0).fit(table)

    assert moved(fit(b"x"), fit(b"\xff")) < 0.3  # a column of bytes with one that is no text
    X = np.where(words == "x", 1.0, -1.0)[:, None]
    for odd in (b"\xff", 5):  # labels
        labels = np.array([answer.encode() for answer in answers], dtype=object)
        other = labels.copy()
        other[0] = odd
        assert moved(*(classifier(classes=["no", "yes"]).fit(X, y) for y in (labels, other))) < 0.1
    some = np.array(["Some"] * 500 + [np.nan] * 500, dtype=object)
    other = some.copy()
    other[0] = 5
    fits = [classifier(classes=["Some", "None"]).fit(np.zeros((1000, 1)), y) for y in (some, other)]
    chances = [fit.predict_proba([[0.0]])[0, 1] for fit in fits]
    assert abs(chances[0] - chances[1]) < 0.05 and max(chances) < 0.2  # a missing label is no "None"


def test_row_2_one_word_leaves_truth_values_as_they_were():
    for estimator in (dperm.MeanEstimator, dperm.MedianEstimator):
        lists = [True] * 999 + ["x"], [True] * 1000
        found = [estimator(epsilon=50.0, bounds=(0, 1), random_state=0).fit(v).location_ for v in lists]
        assert abs(found[0] - found[1]) < 0.01
    rows = np.array([[True, False]] * 400 + [[False, True]] * 100, dtype=object)
    odd = np.array([["x", "x"], *rows[1:]], dtype=object)
    learner = {"hypotheses": "predictions", "classes": [False, True], "random_state": 0}
    assert [dperm.FiniteClassLearner(50.0, **learner).fit(P, [True] * 500).index_ for P in (rows, odd)] == [0, 0]


def test_row_3_one_nan_leaves_other_rows_infinities_as_they_were():
    X, y = np.full((1000, 1), np.inf), np.ones(1000, int)
    odd = X.copy()
    odd[0] = np.nan
    options = {"hypotheses": "thresholds", "bounds": (0, 1), "classes": [0, 1], "random_state": 0}
    rules = []
    for rows in (X, odd):
        try:
            rules.append(dperm.FiniteClassLearner(50.0, **options).fit(rows, y).rule_)
        except ValueError:  # the built-in class by name takes bounds of its own in some versions
            options.pop("bounds", None)
            rules.append(dperm.FiniteClassLearner(50.0, **options).fit(rows, y).rule_)
    assert rules[0] == rules[1]


@pytest.mark.parametrize("rows", [2047, 2048, 5000])
def test_row_4_far_more_rows_than_the_nominal_n_cannot_overflow_a_sum(rows):
    model = dperm.MeanEstimator(epsilon=50.0, bounds=(0, 1), relation="add-remove", nominal_n=1, random_state=0)
    assert model.fit(np.ones((rows, 1))).location_ == pytest.approx(1.0, abs=0.01)


def test_row_4_a_nominal_n_of_one_does_not_spoil_an_evaluation():
    X = np.random.default_rng(0).uniform(-1, 1, (5000, 1))
    y = (X[:, 0] > 0).astype(int)
    model = classifier(classes=[0, 1]).fit(X, y)
    from dperm import evaluation

    evaluate = getattr(evaluation.evaluate, "evaluate", evaluation.evaluate)  # a module in newer versions, a function before
    released = evaluate(model, X, y, epsilon=50.0, delta=1e-6, nominal_n=1, random_state=0).record["released"]
    right, wrong = np.ravel(released["answers"])[:2]
    assert abs(right + wrong - 5000) < 50 and right > 4500


@pytest.mark.parametrize("rows", [300, 500])
def test_row_5_no_value_stands_in_for_a_solve_that_diverged(rows):
    """The minimiser is above 1; 0 was released where one row more made the solver diverge."""
    X, y = np.ones((rows + 39, 1)), np.r_[np.ones(rows, int), np.zeros(39, int)]
    options = {"relation": "add-remove", "nominal_n": 100, "radius": 5.0, "method": Output(ridge=20.0)}
    model = classifier(bounds=None, x_norm=1.0, fit_intercept=False, classes=[0, 1], **options)
    assert model.fit(X, y).w_[0] > 1.0


def test_row_6_the_last_iterate_costs_what_is_claimed_with_weights():
    """No residual is clipped here, so mean and variance of the last iterate follow a line: their ratio is the true μ."""
    n, steps, size = 20_000, 1000, 0.5
    method = Gradient(steps=steps, step_size=size, clip=3.0, momentum=0.0, output="last", accounting="hidden-state")
    options = {"x_norm": 1.0, "y_bounds": (-1, 1), "fit_intercept": False, "regularization": float(n), "method": method}
    X, y, weight = np.ones((n, 1)), np.full(n, 0.8), np.full(n, 3.0)
    fitted = dperm.LinearRegression(1.0, 1e-6, max_weight=3.0, random_state=0, **options).fit(X, y, sample_weight=weight)
    stage = fitted.plan_.stages[0]
    noise = 2 * 3.0 / stage.settings["step_mu"]

    def last(squares: float, products: float) -> tuple[float, float]:
        mean = variance = 0.0
        for _ in range(steps):
            kept = 1 - size * (3 * squares / n + 1)
            mean = kept * mean + size * 3 * products / n
            variance = kept**2 * variance + (size * noise / n) ** 2
        return mean, variance

    one, other = last(n, (n - 1) * 0.8 + 0.6), last(n - 1, (n - 1) * 0.8)
    assert abs(one[0] - other[0]) / math.sqrt(min(one[1], other[1])) <= stage.event.mu
    with pytest.raises(ValueError, match="add-remove"):
        dperm.LinearRegression(1.0, 1e-6, relation="add-remove", nominal_n=n, **options).fit(X, y)


def test_row_7_owners_of_one_row_each_are_persons():
    X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    model = classifier(classes=[0, 1], max_rows_per_person=1).fit(X, (X[:, 0] > 0).astype(int), groups=np.arange(500) // 2)
    assert model.certificate_.unit == "person" and "person" in model.certificate_.statement


def test_row_8_a_float32_row_adds_no_more_than_its_bound():
    """1,000 rows at the upper bound 1e7 + 1: each adds half a width, whatever the type that holds it rounds to."""
    options = {"delta": 1e-6, "bounds": (1e7, 1e7 + 1), "relation": "zero-out", "random_state": 0}
    found = dperm.MeanEstimator(50.0, **options).fit(np.full(1000, 1e7 + 1, np.float32)).release_.released["sum"]
    assert np.abs(found).max() < 501


def test_row_9_a_slope_that_is_no_number_moves_a_sum_by_at_most_the_clip():
    def slope(z, y):
        e = np.exp(-y * z)
        return -y * e / (1 + e)

    def value(z, y):
        return np.log1p(np.exp(-y * z))

    def curvature(z, y):
        e = np.exp(-y * z)
        return y * y * e / (1 + e) ** 2

    loss = CustomLoss(value, slope, curvature, LossBounds(math.inf, 1.0, 0.25), z_max=100.0, classification=True, label="mine")
    problem = Problem(loss, data=DataBounds(1.0, Interval(-1, 1)))
    X = np.full((100, 1), 0.1, np.float32)
    odd = X.copy()
    odd[0] = -1.0
    method = Gradient(steps=2, step_size=2100.0, clip=1.0, momentum=0.0, output="last")  # w is 93 after a step: exp overflows
    from dperm.mechanisms import Target  # both versions have it there

    fits = [dperm.fit(problem, MemoryRows(rows, np.ones(100)), Target(1e4, 1e-6), method, random_state=0) for rows in (X, odd)]
    assert abs(fits[0].w[0] - fits[1].w[0]) <= 2 * 2 * 2100.0 / 100 * 1.01


def test_row_10_ids_are_compared_as_they_are():
    ids = [name for i in range(500) for name in (f"p{i}", f"p{i}\0")]
    model = dperm.MeanEstimator(50.0, bounds=(0, 1), max_rows_per_person=1, random_state=0)
    assert model.fit(np.tile([0.0, 1.0], 500), groups=ids).location_ == pytest.approx(0.5, abs=0.02)


# -- leaks -----------------------------------------------------------------------------------------------------------------


def test_leak_no_odd_cell_raises_or_is_quoted(tmp_path):
    odd = ["\ud800", 10**5000, decimal.Decimal("sNaN"), np.array([1, 2]), [1], {}, 1j, object(), b"\xff", "HIV positive"]
    columns = {"a": np.full(60, 0.5, object), "c": np.array(["x", "y"] * 30, object), "t": np.array(["no", "yes"] * 30, object)}
    for name in columns:
        for cell in odd:
            changed = columns[name].copy()
            changed[3] = cell
            frame = pd_frame(columns | {name: changed})
            dperm.LogisticRegression(1.0, schema=SCHEMA, random_state=0).fit(frame)
    rows = np.full((50, 1), 0.5, object)
    rows[3] = "HIV positive"
    from dperm.problem import LogisticLoss

    problem = Problem(LogisticLoss(), data=DataBounds(1.0, Interval(-1, 1)))
    from dperm.mechanisms import Target

    dperm.fit(problem, MemoryRows(rows, np.ones(50)), Target(1.0, 1e-6), random_state=0)


def test_leak_no_cell_of_a_cluster_is_quoted():
    frames = pytest.importorskip("dask.dataframe", reason="rows on a cluster need dask: pip install dperm[dask]")
    import pandas as pd

    from dperm.rows import DaskRows

    X = np.random.default_rng(0).uniform(-1, 1, (400, 2))
    frame = pd.DataFrame({"a": X[:, 0].astype(object), "b": X[:, 1]})
    frame.loc[7, "a"] = "HIV positive"
    rows = DaskRows(frames.from_pandas(frame, npartitions=2), frames.from_pandas(pd.Series((X[:, 1] > 0) * 1), npartitions=2))
    assert np.isfinite(classifier(classes=[0, 1], method="gradient").fit(rows).w_).all()


def pd_frame(columns):
    import pandas as pd

    return pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in columns.items()})


def test_leak_a_csv_with_a_cell_in_another_encoding_is_read(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,c,t\n" + b"0.5,x,yes\n" * 500 + b"0.5,Jos\xe9,no\n" + b"0.5,y,no\n" * 500)
    model = dperm.LogisticRegression(5.0, schema=SCHEMA, random_state=0).fit(ArrowRows(tmp_path / "t.csv", SCHEMA))
    assert np.isfinite(model.w_).all()


def test_leak_an_assumption_must_be_accepted(tmp_path):
    X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    method = Gradient(bound="assumed", assumed_bound=1e-9)
    model = dperm.LogisticRegression(1.0, bounds=(-1, 1), classes=[0, 1], method=method).fit(X, (X[:, 0] > 0).astype(int))
    assert not model.certificate_.verify().ok
    (tmp_path / "c.json").write_text(model.certificate_.to_json())
    assert CliRunner().invoke(app, ["verify", str(tmp_path / "c.json")]).exit_code == 1


def test_leak_a_search_cannot_launder_an_assumption():
    X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    method = Gradient(bound="assumed", assumed_bound=1e-9)
    base = dperm.LogisticRegression(bounds=(-1, 1), classes=[0, 1], method=method)
    search = dperm.PrivateGridSearch(base, {"radius": [1.0, 5.0]}, epsilon=1.0, expected_runs=3, random_state=0)
    assert not search.fit(X, (X[:, 0] > 0).astype(int)).certificate_.verify(allow_seeded=True).ok


def test_leak_a_fit_that_fails_keeps_no_rows(tmp_path):
    X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    model = dperm.LogisticRegression(1.0, bounds=(-1, 1), ledger=str(ledger_at(tmp_path)))
    with pytest.raises(ValueError):
        model.fit(X, (X[:, 0] > 0).astype(int))
    assert X[7].tobytes() not in pickle.dumps(model)


def test_leak_no_error_states_a_protected_number_of_rows():
    model = dperm.LogisticRegression(1.0, bounds=(-1, 1), classes=[0, 1], relation="add-remove", nominal_n=100)
    with pytest.raises(ValueError) as error:
        model.fit(np.zeros((6321, 1)), np.zeros(6320))
    assert "632" not in str(error.value).replace(",", "")


# -- data that were lost or spoilt -------------------------------------------------------------------------------------------


def test_lost_a_cache_deletes_nothing_that_it_did_not_make(tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "key.json").write_text("{}")
    (tmp_path / "project" / "thesis.txt").write_text("years of work")
    (tmp_path / "t.csv").write_text("a,c,t\n" + "0.5,x,yes\n" * 10)
    with pytest.raises(ValueError):
        ArrowRows(tmp_path / "t.csv", SCHEMA, cache=tmp_path / "project")
    assert (tmp_path / "project" / "thesis.txt").exists()


def test_lost_a_ledger_by_its_path_takes_rows_on_disk(tmp_path):
    (tmp_path / "t.csv").write_text("a,c,t\n" + "0.5,x,yes\n" * 100)
    ledger = ledger_at(tmp_path)
    model = dperm.LogisticRegression(1.0, schema=SCHEMA, ledger=str(ledger)).fit(ArrowRows(tmp_path / "t.csv", SCHEMA))
    assert model.certificate_.record["ledger"]["head"] == dperm.Ledger(ledger).account().head


def test_lost_no_predicted_cell_is_a_formula():
    from dperm.commands.fitting import csv_cell

    assert csv_cell("-1+cmd|' /C calc'!A0").startswith("'") and csv_cell("-1.5e3") == "-1.5e3"


def test_lost_fixed_width_bytes_are_labels():
    """Half of the answers are no: where those count as unknown, everybody says yes."""
    words = np.tile([b"no", b"yes"], 500)
    assert words.dtype.kind == "S"
    assert 0.4 < classifier(classes=["no", "yes"]).fit(np.zeros((1000, 1)), words).predict_proba([[0.0]])[0, 1] < 0.6


def test_lost_a_name_stays_text_in_a_report(tmp_path):
    name = "<script>alert(1)</script>|x"
    (tmp_path / "t.csv").write_text(f"{name},t\n" + "0.5,yes\n0.1,no\n" * 100)
    schema = {"columns": {name: SCHEMA["columns"]["a"]}, "target": SCHEMA["target"]}
    (tmp_path / "s.json").write_text(json.dumps(schema))
    shell("fit", tmp_path / "t.csv", "--schema", tmp_path / "s.json", "--epsilon", 5, "--out", tmp_path / "out")
    shell("report", tmp_path / "out" / "certificate.json", "--out", tmp_path / "r.md")
    text = "".join((tmp_path / "r.md").read_text().split("```")[::2])  # but for blocks of code, which no page reads as marks
    assert "<script>" not in text


# -- wrong answers -----------------------------------------------------------------------------------------------------------


def test_wrong_1_noise_is_no_perfect_score(tmp_path):
    """The true R² is .29; of ten evaluations at n = 300 none may give an interval without it that is all above .9."""
    rng = np.random.default_rng(0)
    a = rng.uniform(0, 1, 600)
    y = np.clip(0.3 * a + 0.135 * rng.normal(size=600) + 0.35, 0, 1)
    schema = {"columns": {"a": SCHEMA["columns"]["a"]}, "target": {"column": "y", "type": "numeric", "low": -20, "high": 20}}
    (tmp_path / "s.json").write_text(json.dumps(schema))
    for name, part in (("train", slice(0, 300)), ("held", slice(300, 600))):
        pq.write_table(pa.table({"a": a[part], "y": y[part]}), tmp_path / f"{name}.parquet")
    files = ["--schema", tmp_path / "s.json", "--epsilon", 50, "--random-state", 0, "--out", tmp_path / "m"]
    shell("fit", tmp_path / "train.parquet", *files)
    for seed in range(10):
        budget = ["--epsilon", 1, "--random-state", seed, "--json"]
        told = shell("evaluate", tmp_path / "m" / "model.json", tmp_path / "held.parquet", *budget)
        found = next(value for key, value in flat(json.loads(told)).items() if key.endswith("r2") or "r²" in key)
        low = found if isinstance(found, int | float) else found.get("low")
        assert low is None or low < 0.9


def flat(found: dict, path: str = "") -> dict:
    """Entries of nested mappings by their path; a score with a value and an interval is one entry."""
    entries = {}
    for key, value in found.items():
        here = f"{path}.{key}".lower()
        if isinstance(value, dict) and "low" not in value:
            entries |= flat(value, here)
        else:
            entries[here] = value
    return entries


def test_wrong_2_a_missing_number_is_no_lower_bound():
    rng = np.random.default_rng(0)
    X = rng.uniform(40, 60, (20_000, 3))
    y = np.clip((X @ [0.01, 0.02, -0.01] - 0.5) + 0.02 * rng.normal(size=20_000), -2, 2)
    holes = np.where(rng.uniform(size=X.shape) < 0.1, np.nan, X)
    means = np.where(np.isnan(holes), np.nanmean(holes, axis=0), holes)
    best = np.linalg.lstsq(np.column_stack([means, np.ones(len(y))]), y, rcond=None)[0]
    bar = 1 - np.mean((np.column_stack([means, np.ones(len(y))]) @ best - y) ** 2) / np.var(y)
    model = dperm.LinearRegression(1.0, 1e-6, bounds=(0, 100), y_bounds=(-2, 2), random_state=0).fit(holes, y)
    assert model.score(holes, y) > bar - 0.01


@pytest.mark.parametrize(("rate", "exposed", "spread"), [(0.11, False, False), (0.3, True, False), (2.0, False, True)])
def test_wrong_3_counts_have_the_observed_total(rate, exposed, spread):
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 1, (100_000, 2))
    exposure = rng.choice([0.1, 0.25, 0.5, 1.0], 100_000) if exposed else None
    mean = rate * np.exp(1.5 * X[:, 0] - 0.9) * (1.0 if exposure is None else exposure)
    y = rng.poisson(mean * rng.gamma(0.5, 2.0, 100_000) if spread else mean)
    most = 60 if spread else 12
    options = {"bounds": (0, 1), "y_bounds": (0, most), "random_state": 0, "max_exposure": 1.0 if exposed else None}
    model = dperm.PoissonRegressor(1.0, 1e-6, **options).fit(X, y, exposure=exposure)
    assert model.predict(X, exposure).sum() / y.sum() == pytest.approx(1.0, abs=0.02)


def test_wrong_4_intervals_come_out_of_five_thousand_rows():
    X = np.random.default_rng(0).uniform(-1, 1, (5000, 8))
    y = (X[:, 0] + 0.5 * np.random.default_rng(1).logistic(size=5000) > 0).astype(int)
    model = dperm.LogisticRegression(1.0, 1e-6, bounds=(-1, 1), classes=[0, 1], intervals=True, random_state=0).fit(X, y)
    low, high = np.asarray(model.confidence_interval()).reshape(-1, 2).T
    assert np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()


def test_wrong_5_bounds_that_can_be_read_in_two_ways_are_refused():
    X = np.tile([[5.0, 60.0]], (100, 1))
    with pytest.raises(ValueError):
        dperm.LinearRegression(1.0, bounds=[(0, 100), (50, 200)], y_bounds=(0, 1)).fit(X, np.zeros(100))


def test_wrong_6_a_saved_model_answers_as_before(tmp_path):
    """By `dperm.load`, which is new: what the command wrote could only be read by the command."""
    (tmp_path / "t.csv").write_text("a,c,t\n" + "0.9,x,yes\n0.1,y,no\n" * 200)
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA))
    files = ["--schema", tmp_path / "s.json", "--out", tmp_path / "m"]
    shell("fit", tmp_path / "t.csv", "--epsilon", 50, "--random-state", 0, *files)
    model = dperm.load(tmp_path / "m" / "model.json")
    assert model.coef_.shape == (1, 3) and list(model.classes_) == ["no", "yes"]
    assert list(model.predict(pa.table({"a": [0.9, 0.1], "c": ["x", "y"]}))) == ["yes", "no"]


@pytest.mark.parametrize("options", [{"class_weight": {0: 1.0, 1: 5.0}}, {"noise": "exact", "method": "auto"}])
def test_wrong_7_plan_and_fit_agree(options):
    if "noise" in options:
        pytest.importorskip("opendp", reason="exact noise needs opendp: pip install dperm[exact]")
    X = np.random.default_rng(0).uniform(-1, 1, (400, 2))
    model = dperm.LogisticRegression(1.0, bounds=(-1, 1), classes=[0, 1], **options)
    planned = model.plan(400, 2)
    fitted = model.fit(X, (X[:, 0] > 0).astype(int)).plan_
    assert (planned.mechanism, planned.events) == (fitted.mechanism, fitted.events)


def test_wrong_7_a_row_is_no_person():
    told = shell("plan", "--n", 5000, "--d", 5, "--epsilon", 1)
    assert "mechanism" in told and "person" not in told


def test_wrong_7_whole_numbers_are_no_words():
    with pytest.raises(ValueError):
        classifier(classes=["no", "yes"]).fit(np.zeros((100, 1)), np.zeros(100, dtype=np.int64))


def test_wrong_7_little_can_be_learnt_is_said_by_fit_in_the_words_of_plan():
    model = dperm.LogisticRegression(0.1, bounds=(-1, 1), classes=[0, 1], random_state=0)
    X = np.random.default_rng(0).uniform(-1, 1, (60, 5))
    planned = model.plan(60, 5) if hasattr(model, "plan") else None
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(X, (X[:, 0] > 0).astype(int))
    told = [str(warning.message) for warning in said if "LITTLE CAN BE LEARNT" in str(warning.message)]
    assert told and planned is not None and told[0] in " ".join(planned.warnings)


def test_wrong_7_repeated_fits_say_what_they_spend():
    from sklearn.model_selection import cross_val_score

    X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        cross_val_score(dperm.LogisticRegression(50.0, bounds=(-1, 1), classes=[0, 1]), X, (X[:, 0] > 0).astype(int), cv=3)
    assert any("PrivateGridSearch" in str(warning.message) for warning in said)


# -- theory ------------------------------------------------------------------------------------------------------------------


def test_theory_replace_one_takes_the_smaller_of_both_bounds():
    assert dperm.theory.objective_noise(1000, 1, 0.0025, 1, 1e-6, self_bounding=1) < 8.46


def test_theory_phased_descent_says_what_smoothness_it_needs():
    with pytest.raises(ValueError, match="smoothness"):
        dperm.theory.phased_sgd_plan(10_000, 5, 1.0, 1.0, epsilon=1.0, delta=1e-6)
