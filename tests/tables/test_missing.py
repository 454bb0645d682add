"""Missing numbers: marked in every engine, counted and paid for, at the centre in fit and predict; and what the certificate says.

Seeds are fixed, so nothing here fails by chance. On the code before, where a missing number was the lower bound, the R² of
`test_ten_per_cent_missing_costs_what_mean_imputation_costs` was .60 instead of .79.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

import dperm
from dperm.estimators.model_file import model_from_record
from dperm.estimators.saving import model_record
from dperm.mechanisms.scaled import scaling
from dperm.mechanisms.scaled import settings as rule
from dperm.problem import DataBounds, Interval, Problem, SquaredLoss
from dperm.release.plan import Shape, Target
from dperm.rows import ArrowRows, DeviceRows, MemoryRows
from dperm.rows.base import Block
from dperm.rows.recoded import Filling
from dperm.tables.encoding import Encoding
from dperm.tables.gaps import GAP, is_gap, with_gaps_stored
from dperm.tables.schema import Schema
from dperm.tables.tables import cells, read_table
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm
from dperm.terms.statistics import LogHistogram, RowNorms, RowSum, SquareSum
from dperm.walk.certificate import Certificate, declaration

D = 4
LOW, HIGH = np.array([0.0, -9.0, 100.0, -1.0]), np.array([40.0, 3.0, 200.0, 1.0])
CELL = st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -3.0, 150.0, 1e300, -5e-324])


def table(n=3000, share=0.1, seed=0):
    """Columns whose mean is far from the middle of their bounds, a label, and the same with missing cells."""
    generator = np.random.default_rng(seed)
    whole = LOW + (HIGH - LOW) * generator.beta(2, 6, (n, D))
    score = ((whole - LOW) / (HIGH - LOW)) @ [2.0, -1.5, 1.0, 0.5]
    y = score - score.mean() + 0.15 * generator.normal(size=n)
    return np.where(generator.uniform(size=whole.shape) < share, np.nan, whole), y, whole


def declared(**changes):
    return {"bounds": (LOW, HIGH), "y_bounds": (-2.0, 2.0), "random_state": 0} | changes


def imputed_r2(X, y, Z, truth):
    """R² of least squares without privacy after filling in the means of the present cells."""
    means = np.nanmean(X, axis=0)
    first, second = (np.column_stack([np.where(np.isnan(M), means, M), np.ones(len(M))]) for M in (X, Z))
    w = np.linalg.lstsq(first, y, rcond=None)[0]
    return 1 - np.mean((second @ w - truth) ** 2) / np.var(truth)


# -- the mark ----------------------------------------------------------------------------------------------------------


@given(arrays(np.float64, (5, 4), elements=CELL), st.sampled_from(["float64", "float32"]))
@settings(max_examples=200, deadline=None)
def test_exactly_the_missing_cells_are_marked_and_the_norm_stays_a_fact(X, dtype):
    with np.errstate(over="ignore"):
        X = X.astype(dtype)
    for options in ({"bounds": (LOW, HIGH)}, {"x_norm": 5.0}, {"bounds": (-4, 4), "x_norm": 5.0}):
        encoding = Encoding.from_declaration(D, **options)
        rows = encoding.transform(X)
        present = np.isfinite(X)
        assert np.all(is_gap(rows)[~present]) and np.all(rows[~present] == 0)
        assert not is_gap(rows)[present & (np.abs(X) != X.dtype.type(5e-324))].any()
        assert np.linalg.norm(rows.astype(np.float64), axis=1).max() <= encoding.norm * (1 + 1e-6)
    private = Encoding.from_declaration(D, bounds="private").transform(X)
    assert np.array_equal(is_gap(private), ~np.isfinite(X))


def test_sparse_storage_keeps_the_mark():
    X = np.array([[np.nan, 0.0], [2.0, -0.0], [0.0, np.inf]])
    stored = Encoding.from_declaration(2, bounds=(-4, 4), centred=False).transform(sparse.csr_array(X))
    assert stored.toarray().tolist() == [[0.0, 0.0], [0.25, 0.0], [0.0, 0.0]]
    assert is_gap(stored.data).tolist() == [True, False, True]
    packed = with_gaps_stored(np.array([[GAP, 0.0, 1.0]]))
    assert packed.indices.tolist() == [0, 2] and is_gap(packed.data).tolist() == [True, False]
    age, code = {"type": "numeric", "low": 0, "high": 10}, {"type": "categorical", "levels": list(range(30))}
    wide = Schema.from_dict({"columns": {"age": age, "code": code}})
    assert wide.encoding().mostly_zero
    rows = wide.encoded(pd.DataFrame({"age": [5.0, None, 7.5], "code": [1, 2, 99]}))
    assert rows.indptr.tolist() == [0, 1, 3, 4]  # 5 is the middle, and is not stored; a missing cell is
    assert is_gap(rows[[1], :].data).tolist() == [True, False]


@pytest.mark.parametrize("stored", ["float64", "float32", "csr"])
def test_terms_see_missing_cells_at_the_centre(stored):
    """Every statistic and gradient of filled rows equals that of rows with the value written in; a centred missing cell is 0."""
    generator, values = np.random.default_rng(1), np.array([0.2, -0.3, 0.1])
    X = generator.uniform(-0.5, 0.5, (50, 3))
    X[generator.uniform(size=X.shape) < 0.4] = GAP
    whole = np.where(is_gap(X), values, X)
    kept, written = (M.astype("float32" if stored == "float32" else "float64") for M in (X, whole))
    y = np.where(generator.uniform(size=50) > 0.5, 1.0, -1.0)
    rows = MemoryRows(with_gaps_stored(kept) if stored == "csr" else kept, y)
    expected = MemoryRows(sparse.csr_array(written) if stored == "csr" else written, y)
    centred = Features(shift=values, intercept=1.0)
    gradient = GradientTerm(SquaredLoss(), np.array([1.0, -2.0, 0.5, 0.1]), 0.7, centred)
    for term in (RowSum(0.4), SquareSum(Features(shift=values), 0.3), LogHistogram(RowNorms(centred), 2.0), gradient):
        assert Filling(values).of(rows)[0].sum(term, 2.0**-40) == pytest.approx(expected.sum(term, 2.0**-40), rel=1e-6, abs=1e-9)
    alone = Filling(values).block(Block(np.full((1, 3), GAP), np.ones(1), None, 0))
    assert Features(shift=values).squared_norms(alone.X)[0] < 1e-30


def test_blocks_without_missing_cells_are_not_copied():
    block = Block(np.ones((3, 2)), np.ones(3), None, 0)
    assert Filling(np.zeros(2)).block(block) is block


# -- the centre --------------------------------------------------------------------------------------------------------


def settings_for(released, n, gaps=(0,)):
    problem = Problem(SquaredLoss(), data=DataBounds(1.0, Interval(-1, 1), 1.0))
    shape, target = Shape(n, 2), Target.declare(epsilon=1.0, n=n, relation="zero-out")
    budget = rule.shares(problem, shape, target, ("numeric",) * 2, gaps=gaps)
    return scaling.centre(rule.Public(problem, shape, target, ("numeric",) * 2, budget, gaps), released), budget


def test_the_centre_divides_by_present_cells_only_where_the_count_stands_out_of_its_noise():
    n = 10_000
    _, budget = settings_for({}, n)
    sure = 1 / budget["present"] * (np.sqrt(2 * np.log(2)) + 1)
    released = {"mean": np.array([-2000.0, -2000.0])}
    few, many = (settings_for(released | {"present": np.array([n - k * sure])}, n)[0] for k in (0.9, 1.1))
    assert few.tolist() == [-0.2, -0.2]
    assert many[0] == pytest.approx(-2000 / (n - 1.1 * sure)) and many[1] == -0.2
    assert settings_for(released | {"present": np.array([0.5 * sure])}, n)[0][0] == 0.0  # hardly a cell: the middle
    assert settings_for({"mean": np.array([-1e6, 0])} | {"present": np.array([2 * sure])}, n)[0][0] == -1.0  # where a row can be
    tiny = settings_for({"mean": np.array([-20.0, 0.0]), "present": np.array([100.0])}, 100)
    assert tiny[0][0] == -0.2 and tiny[1]["present"] < 0.03  # the noise is larger than n: a count of n says nothing


def test_with_a_huge_budget_a_missing_cell_is_the_mean_of_the_present_ones():
    X, y, _ = table()
    model = dperm.LinearRegression(1e6, **declared()).fit(X, y)
    assert model._encoding.missing == pytest.approx(np.nanmean(X, axis=0), rel=1e-3)
    assert set(model._encoding.rules) == {"released"}


@pytest.mark.parametrize("name", ["LinearRegression", "HuberRegressor", "QuantileRegressor", "Lasso", "PoissonRegressor"])
def test_every_method_with_a_centre_predicts_a_missing_cell_as_its_centre(name):
    X, y, _ = table()
    options = declared()
    if name == "PoissonRegressor":
        y, options["y_bounds"] = np.random.default_rng(0).poisson(np.exp(y)).astype(float), (0, 20)
    model = getattr(dperm, name)(20.0, **options).fit(X, y)
    assert model.certificate_.verify(allow_seeded=True).ok, model.certificate_.verify(allow_seeded=True).reasons
    centre = model._encoding.missing
    odd = np.array([[np.nan, -6.0, np.inf, 0.0], [10.0, np.nan, 120.0, np.nan]])
    assert model.predict(odd) == pytest.approx(model.predict(np.where(np.isfinite(odd), odd, centre)), rel=1e-9)
    assert np.any(np.abs(centre - (LOW + HIGH) / 2) > 0.1 * (HIGH - LOW))
    again = model_from_record(json.loads(json.dumps(model_record(model))))
    assert again.predict(odd) == pytest.approx(model.predict(odd), rel=1e-12)


@pytest.mark.parametrize("relation", ["zero-out", "replace-one", "add-remove"])
@pytest.mark.parametrize("method", ["scaled-gradient", "scaled-objective"])
def test_classifications_and_relations(relation, method):
    X, y, _ = table(share=0.2)
    nominal = {"nominal_n": 3000} if relation == "add-remove" else {}
    options = {"bounds": (LOW, HIGH), "classes": [0, 1], "relation": relation, "method": method, "random_state": 0} | nominal
    if (relation, method) == ("add-remove", "scaled-objective"):
        with pytest.raises(ValueError, match="most_rows"):
            dperm.LogisticRegression(10.0, **options).fit(X, y > 0)
        return
    model = dperm.LogisticRegression(10.0, **options).fit(X.astype(np.float32), y > 0)
    assert model.certificate_.verify(allow_seeded=True).ok and set(model._encoding.rules) == {"released"}
    assert model._encoding.missing == pytest.approx(np.nanmean(X, axis=0), abs=0.03 * 100)
    assert model.score(X, y > 0) > 0.7


def test_the_plan_does_not_know_whether_cells_are_missing():
    X, y, whole = table()
    plans = [dperm.LinearRegression(1.0, **declared()).fit(rows, y).plan_ for rows in (X, whole, np.full_like(X, np.nan))]
    assert plans[0] == plans[1] == plans[2]
    assert "missing_cells = at the released centre in 4 of 4 columns" in plans[0].explain()
    assert sum(stage.event.mu**2 for stage in plans[0].stages if stage.name == "present") <= 0.0051 * sum(
        stage.event.mu**2 for stage in plans[0].stages
    )


def test_private_bounds_are_not_drawn_towards_zero_by_missing_cells():
    generator = np.random.default_rng(0)
    X = generator.uniform(1000, 1100, (20_000, 1))
    y = (X[:, 0] - 1050) / 60 + 0.1 * generator.normal(size=len(X))
    X[generator.uniform(size=X.shape) < 0.2] = np.nan
    model = dperm.LinearRegression(3.0, bounds="private", y_bounds=(-2, 2), random_state=0).fit(X, y)
    assert model._encoding.low[0] > 800 and model._encoding.missing[0] == pytest.approx(1050, abs=10)
    assert model.certificate_.verify(allow_seeded=True).ok
    assert model.predict([[np.nan]])[0] == pytest.approx(model.predict([[model._encoding.missing[0]]])[0])


# -- what is lost ------------------------------------------------------------------------------------------------------


def test_ten_per_cent_missing_costs_what_mean_imputation_costs():
    """At ε = 1 the mean R² of three seeds stays within .01 of mean imputation without privacy."""
    X, y, _ = table(n=25_000)
    train, test = slice(0, 20_000), slice(20_000, None)
    best = imputed_r2(X[train], y[train], X[test], y[test])
    models = [dperm.LinearRegression(1.0, **declared(random_state=seed)).fit(X[train], y[train]) for seed in range(3)]
    scores = [model.score(X[test], y[test]) for model in models]
    assert np.mean(scores) >= best - 0.01


@pytest.mark.parametrize("name", ["power_plant_ccpp", "california_housing", "protein_casp"])
def test_ten_per_cent_missing_on_public_tables(name: str, shared_data: Path):
    """As above, at the defaults (replace-one, ε = 1), with a tenth of the numbers taken out of real tables."""
    schema, frame = Schema.load(shared_data / "schemas" / f"{name}.json"), read_table(shared_data / f"{name}.parquet").to_pandas()
    generator, target = np.random.default_rng(0), schema.target
    frame = frame.iloc[generator.permutation(len(frame))]
    y = np.clip(frame[target.column].to_numpy(float), target.low, target.high)
    names = [column.name for column in schema.columns if column.type == "numeric"]
    frame = frame.assign(**{c: frame[c].astype(float).where(generator.uniform(size=len(frame)) >= 0.1) for c in names})
    split = int(0.8 * len(frame))
    X = schema.features({column.name: cells(frame, column.name) for column in schema.columns if column.type != "ignored"})
    best = imputed_r2(X[:split], y[:split], X[split:], y[split:])
    scores = []
    for seed in range(3):
        model = dperm.LinearRegression(1.0, schema=schema, random_state=seed).fit(frame.iloc[:split], y[:split])
        scores.append(1 - np.mean((model.predict(frame.iloc[split:]) - y[split:]) ** 2) / np.var(y[split:]))
    assert np.mean(scores) >= best - 0.01


# -- engines -----------------------------------------------------------------------------------------------------------


def test_every_engine_gives_the_same_answer(tmp_path):
    X, y, _ = table(n=9000)
    names = [f"x{j}" for j in range(D)]
    columns = {name: {"type": "numeric", "low": LOW[j], "high": HIGH[j]} for j, name in enumerate(names)}
    schema = Schema.from_dict({"columns": columns, "target": {"column": "y", "type": "numeric", "low": -2, "high": 2}})
    arrow = pa.table({name: pa.array(X[:, j], from_pandas=True) for j, name in enumerate(names)} | {"y": y})
    pq.write_table(arrow, tmp_path / "rows.parquet")
    expected = dperm.LinearRegression(1.0, **declared()).fit(X, y)
    found = {}
    for label, rows in (
        ("arrow", ArrowRows(tmp_path / "rows.parquet", schema)),
        ("cached", ArrowRows(tmp_path / "rows.parquet", schema, cache=tmp_path / "cache")),
    ):
        found[label] = dperm.LinearRegression(1.0, random_state=0).fit(rows)
    found["table"] = dperm.LinearRegression(1.0, schema=schema, random_state=0).fit(arrow)
    found["float32"] = dperm.LinearRegression(1.0, **declared()).fit(X.astype(np.float32), y)
    torch = pytest.importorskip("torch", reason="device rows need torch: pip install dperm[torch]")
    tensors = torch.from_numpy(X), torch.from_numpy(y)
    found["device"] = dperm.LinearRegression(1.0, **declared()).fit(DeviceRows(*tensors, host=False))
    da = pytest.importorskip("dask.array", reason="rows on a cluster need dask: pip install dperm[dask]")
    found["dask"] = dperm.LinearRegression(1.0, **declared()).fit(da.from_array(X, (2000, 2)), da.from_array(y, 3000))
    for label, model in found.items():
        assert model.w_ == pytest.approx(expected.w_, rel=2e-4 if label == "float32" else 1e-7, abs=1e-6), label
        assert model._encoding.missing == pytest.approx(expected._encoding.missing, rel=1e-4), label


def test_device_rows_are_filled_after_they_are_bounded():
    torch = pytest.importorskip("torch", reason="device rows need torch: pip install dperm[torch]")
    X = torch.tensor([[0.9, GAP], [0.1, 0.2]], dtype=torch.float64)
    rows = DeviceRows(X, torch.tensor([1.0, -1.0]), host=False).bounded(DataBounds(1.0, Interval(-1, 1)))
    filled, _ = Filling(np.array([0.5, 0.8])).of(rows)
    assert filled.X.tolist() == [[0.9, 0.8], [0.1, 0.2]]  # longer than 1, as the difference to the centre is what counts
    assert next(filled.host_blocks())().X.tolist() == [[0.9, 0.8], [0.1, 0.2]]
    assert rows.X is X or rows.X.tolist() == X.tolist()  # the caller's tensor is untouched


def test_rows_that_stream_to_a_card_are_filled_piece_by_piece():
    torch = pytest.importorskip("torch", reason="device rows need torch: pip install dperm[torch]")
    if not torch.cuda.is_available():
        pytest.skip("rows stream to a GPU, and this machine has none")
    X, y, _ = table(n=30_000)
    expected = dperm.LinearRegression(1.0, **declared()).fit(X, y)
    for kind, close in ((torch.float64, 1e-6), (torch.float32, 1e-3), (torch.bfloat16, 3e-2)):
        rows = torch.tensor(X, dtype=kind)
        for held in (DeviceRows(rows, torch.from_numpy(y), device="cuda"), DeviceRows(rows.cuda(), torch.from_numpy(y).cuda())):
            model = dperm.LinearRegression(1.0, **declared()).fit(held)
            assert model.w_ == pytest.approx(expected.w_, rel=close, abs=close)


def test_selected_columns_keep_their_centres():
    generator = np.random.default_rng(0)
    X = generator.beta(2, 6, (20_000, 40))
    y = 2 * X[:, 3] - 2 * X[:, 17] + 0.1 * generator.normal(size=len(X))
    X[generator.uniform(size=X.shape) < 0.1] = np.nan
    options = {"bounds": (0, 1), "y_bounds": (-2, 2), "random_state": 0}
    model = dperm.Lasso(3.0, n_nonzero_coefs=2, **options).fit(X, y)
    assert set(np.flatnonzero(model.coef_)) == {3, 17}
    assert model._encoding.missing[[3, 17]] == pytest.approx(np.nanmean(X, axis=0)[[3, 17]], abs=0.02)
    assert model.certificate_.verify(allow_seeded=True).ok, model.certificate_.verify(allow_seeded=True).reasons
    assert model.score(X, y) > 0.7


# -- declarations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["gradient", "statistics"])
def test_methods_without_a_centre_take_the_middle_and_say_so(method):
    X, y, _ = table()
    middle = (LOW + HIGH) / 2
    model = dperm.LinearRegression(1.0, **declared(method=method)).fit(X, y)
    written = dperm.LinearRegression(1.0, **declared(method=method)).fit(np.where(np.isnan(X), middle, X), y)
    assert model.w_ == pytest.approx(written.w_, rel=1e-9)
    assert model.predict([[np.nan] * D]) == pytest.approx(model.predict([middle]))
    lines = model.certificate_.record["declaration"]
    assert lines[2].endswith("missing counts as the middle of its bounds, 150")
    assert model.certificate_.verify(allow_seeded=True).ok
    assert "a missing number counts as the middle of its column's bounds" in model.plan_.explain() and not model.plan_.warnings
    without = dperm.LinearRegression(1.0, **declared(fit_intercept=False)).fit(X, y)  # no intercept, no centre
    assert "present" not in [stage.name for stage in without.plan_.stages]
    assert without.certificate_.record["declaration"][2].endswith("missing counts as the middle of its bounds, 150")


def test_a_declared_number_and_the_middle_are_free():
    X, y, _ = table()
    for missing, value in ((2.0, np.full(D, 2.0)), ("middle", (LOW + HIGH) / 2)):
        model = dperm.LinearRegression(1.0, **declared(missing=missing)).fit(X, y)
        written = dperm.LinearRegression(1.0, **declared(missing=0.0)).fit(np.where(np.isnan(X), value, X), y)
        assert model.w_ == pytest.approx(written.w_, rel=1e-9)
        assert "present" not in [stage.name for stage in model.plan_.stages] and "gaps" not in model.plan_.options
        assert model.predict([[np.nan] * D]) == pytest.approx(model.predict([np.clip(value, LOW, HIGH)]))
        assert model.certificate_.verify(allow_seeded=True).ok


def test_an_indicator_column_learns_what_missing_cells_mean():
    generator = np.random.default_rng(0)
    n = 20_000
    x, absent = generator.uniform(0, 10, n), generator.uniform(size=n) < 0.3
    y = np.where(absent, 0.8, 0.1 * (x - 5)) + 0.1 * generator.normal(size=n)
    frame = pd.DataFrame({"x": np.where(absent, np.nan, x), "level": np.where(absent, None, "b")})
    columns = {
        "x": {"type": "numeric", "low": 0, "high": 10, "missing": "indicator"},
        "level": {"type": "ordinal", "levels": ["a", "b", "c"], "missing": "b"},
    }
    schema = Schema.from_dict({"columns": columns})
    assert schema.encoding().names == ("x", "x=(missing)", "level")
    assert schema.encoding().rules == ("mean", "value", "value") and schema.encoding().missing.tolist() == [5.0, 0.0, 1.0]
    assert Schema.from_dict(schema.spec()).spec() == schema.spec()
    model = dperm.LinearRegression(3.0, schema=schema, y_bounds=(-1, 2), random_state=0).fit(frame, y)
    assert model.score(frame, y) > 0.85
    plain = Schema.from_dict({"columns": {"x": {"type": "numeric", "low": 0, "high": 10}, "level": columns["level"]}})
    assert dperm.LinearRegression(3.0, schema=plain, y_bounds=(-1, 2), random_state=0).fit(frame, y).score(frame, y) < 0.6


def test_wrong_declarations_are_named():
    column = {"type": "numeric", "low": 0, "high": 1}
    with pytest.raises(ValueError, match="Did you mean 'mean'"):
        Schema.from_dict({"columns": {"a": {**column, "missing": "meann"}}})
    with pytest.raises(ValueError, match="Expected a number as missing"):
        Schema.from_dict({"columns": {"a": {"type": "boolean", "missing": "mean"}}})
    with pytest.raises(ValueError, match="one of the levels"):
        Schema.from_dict({"columns": {"a": {"type": "ordinal", "levels": ["u", "v"], "missing": "w"}}})
    for missing, words in (("indicator", "Declare it in a schema"), ("median", "found 'median'"), (np.nan, "found nan")):
        with pytest.raises(ValueError, match=words):
            dperm.LinearRegression(1.0, **declared(missing=missing)).fit(*table(n=50)[:2])
    twice = dperm.LinearRegression(1.0, schema={"columns": {"a": column}}, missing=3, y_bounds=(0, 1))
    with pytest.raises(ValueError, match="found missing= as well"):
        twice.fit(pd.DataFrame({"a": [1]}), [1])


def test_an_ordinal_level_may_have_the_name_of_a_rule():
    column = Schema.from_dict({"columns": {"size": {"type": "ordinal", "levels": ["low", "mean"], "missing": "mean"}}}).columns[0]
    assert column.missing_rule == "value" and column.encode([None, "low"]).tolist() == [[1.0], [0.0]]


# -- records -----------------------------------------------------------------------------------------------------------


def test_a_model_of_version_0_1_0_keeps_its_lower_bound():
    X, y, _ = table()
    names = [f"x{j}" for j in range(D)]
    columns = {name: {"type": "numeric", "low": LOW[j], "high": HIGH[j]} for j, name in enumerate(names)}
    frame = pd.DataFrame(X, columns=names)
    model = dperm.LinearRegression(1.0, schema={"columns": columns}, y_bounds=(-2, 2), random_state=0).fit(frame, y)
    record = model_record(model)
    del record["encoding"]["rules"]
    record["encoding"]["missing"] = LOW.tolist()
    old = model_from_record(record)
    lowest = pd.DataFrame(np.where(np.isnan(X), LOW, X), columns=names)
    assert old.predict(frame) == pytest.approx(old.predict(lowest), rel=1e-12)


def test_what_the_certificate_says_of_missing_cells_cannot_be_changed():
    X, y, _ = table()
    record = json.loads(dperm.LinearRegression(1.0, **declared()).fit(X, y).certificate_.to_json())
    assert Certificate(record).verify(allow_seeded=True).ok
    assert all("missing counts as the released mean of the present ones" in line for line in record["declaration"][:D])

    def refused(change):
        altered = copy.deepcopy(record)
        change(altered["encoding"], altered)
        altered["declaration"] = declaration(Encoding.from_spec(altered["encoding"]))  # a forger rewrites the sentences too
        return not Certificate(altered).verify(allow_seeded=True).ok

    assert refused(lambda encoding, _: encoding["missing"].__setitem__(0, 7.0))
    assert refused(lambda encoding, _: encoding["rules"].__setitem__(1, "value"))
    assert refused(lambda encoding, _: encoding["rules"].__setitem__(1, "mean"))
    assert refused(lambda encoding, _: encoding.pop("rules"))
    assert refused(lambda _, whole: whole["mechanism"]["options"].pop("gaps"))
    assert refused(lambda _, whole: whole["mechanism"]["options"]["gaps"].pop())
    assert refused(lambda _, whole: whole["released"]["present"].__setitem__(0, 9.0))
    assert refused(lambda _, whole: whole["decided"]["fill"].__setitem__(0, 0.1))
    free = json.loads(dperm.LinearRegression(1.0, **declared(method="gradient")).fit(X, y).certificate_.to_json())
    free["encoding"]["rules"][0] = "released"
    free["declaration"] = declaration(Encoding.from_spec(free["encoding"]))
    assert not Certificate(free).verify(allow_seeded=True).ok


def test_one_cell_that_goes_missing_moves_one_row_only():
    """No error, no warning, no other decision than noise explains: the same seed, one cell less, nearly the same answer."""
    X, y, _ = table(share=0.0)
    before = dperm.LinearRegression(1.0, **declared()).fit(X, y)
    X[17, 2] = np.nan
    after = dperm.LinearRegression(1.0, **declared()).fit(X, y)
    assert after.plan_ == before.plan_
    assert after.predict(X[:10]) == pytest.approx(before.predict(X[:10]), abs=0.05)
