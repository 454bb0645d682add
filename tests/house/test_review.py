"""Attacks by a reader who did not write the code: each test reproduces a defect that was found so."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import dask.dataframe
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dperm
from dperm.evaluation.rows import question_of, scored_rows
from dperm.mechanisms import Gradient, Newton, ScaledGradient, Stage, Zeroth
from dperm.mechanisms.output import Output
from dperm.privacy import Gaussian, Sampled
from dperm.problem import DataBounds, Interval, LogisticLoss, MultinomialLoss, Problem
from dperm.release.asks import Close, Open, Sum
from dperm.release.driver import PlanMismatch, run
from dperm.release.noise import noise_source
from dperm.tables.cells import numbers
from dperm.tables.containers import listed_rows
from dperm.tables.encoding import Encoding
from dperm.tables.tables import read_table
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm
from dperm.terms.statistics import PositiveCount


def test_rows_beyond_a_persons_limit_do_not_fade_the_others() -> None:
    """One person of whom one row counts may own any number of rows; under add-remove all of them come and go together."""
    generator = np.random.default_rng(0)
    n = 300
    X = generator.normal(size=(n, 2))
    y = (X[:, 0] > 0).astype(int)

    def coefficients(owned: int) -> np.ndarray:
        model = dperm.LogisticRegression(
            1.0, 1e-6, bounds=(-3, 3), classes=[0, 1], method=Output(ridge=50.0, room=8), relation="add-remove", nominal_n=n,
            max_rows_per_person=1, random_state=3,
        )  # fmt: skip
        model.fit(
            np.vstack([X, np.zeros((owned, 2))]),
            np.r_[y, np.zeros(owned, dtype=int)],
            groups=np.r_[np.arange(n), np.full(owned, n)],
        )
        bound[:] = [model.plan_.stage("minimiser").settings["sensitivity"]]
        return np.asarray(model.w_)

    bound: list[float] = []
    without = coefficients(0)
    for owned in (1, 1000, 8 * n):
        assert np.linalg.norm(coefficients(owned) - without) <= bound[0]


def test_a_sampled_allowance_is_not_spent_on_one_large_sum() -> None:
    """One sampled sum of μ√T costs far more than T sums of μ: the booked event covers the latter alone."""
    target, shape = dperm.Target(1.0, 1e-6, "zero-out"), dperm.Shape(100, 1)
    stage = Stage("descent", Sampled(0.01, Gaussian(0.1, 100)), {})
    plan = dperm.Plan("gradient", {}, (stage,), target, shape)

    def program() -> Any:
        yield Open("descent", sums=1, sampling_rate=0.01)
        yield Sum("descent", PositiveCount(), mu=1.0, shape=(1,))
        yield Close("descent")
        return np.zeros(1)

    with pytest.raises(PlanMismatch):
        run(program(), plan, dperm.MemoryRows(np.zeros((100, 1)), np.ones(100)), noise_source(random_state=0))


@pytest.mark.parametrize(("place", "value"), [("d", 10**12), ("d", 10**9), ("steps", 10**9)])
def test_a_strangers_certificate_neither_fills_the_memory_nor_hangs(place: str, value: int) -> None:
    problem = Problem(LogisticLoss(), data=DataBounds(1.0, Interval(-1, 1), 1.0))
    rows = dperm.MemoryRows(np.zeros((50, 2)), np.ones(50))
    for mechanism in (Gradient(steps=3), Newton(steps=3), Zeroth(steps=3), ScaledGradient()):
        record = json.loads(dperm.fit(problem, rows, dperm.Target(1.0, 1e-6), mechanism).certificate.to_json())
        record["shape" if place == "d" else "mechanism"].update({"d": value} if place == "d" else {})
        if place == "steps":
            record["mechanism"]["options"]["steps"] = value
        assert not dperm.Certificate(record).verify().ok


def test_an_endless_plan_is_refused_before_anything_is_spent() -> None:
    model = dperm.LogisticRegression(1.0, bounds=(-1, 1), classes=[0, 1], method=Gradient(steps=2_000_000))
    with pytest.raises(ValueError, match="fewer steps"):
        model.fit(np.zeros((50, 1)), np.arange(50) % 2)


def test_a_selection_of_columns_without_bounds_is_refused_before_the_debit(tmp_path: Path) -> None:
    """Its plan never paid for bounds, while its program asked for them: a crash after the whole budget was booked."""
    ledger = dperm.Ledger.create(tmp_path / "l", dataset="people", epsilon=3.0, delta=1e-5)
    X = np.random.default_rng(0).normal(size=(60, 3))
    with pytest.raises(ValueError, match="declared bounds"):
        dperm.Lasso(1.0, bounds="private", y_bounds=(-3, 3), ledger=ledger).fit(X, X[:, 0])
    assert ledger.account().fits == 0


def test_counts_are_scored_as_the_model_predicts_them() -> None:
    """A short exposure at a high rate: the model cuts the count, and an evaluation must not cut the rate instead."""
    generator = np.random.default_rng(0)
    X, exposure = generator.uniform(0, 1, (400, 1)), np.full(400, 0.1)
    y = generator.poisson(8, 400)  # 80 per unit of exposure; no count is above 20
    model = dperm.PoissonRegressor(5.0, bounds=(0, 1), y_bounds=(0, 20), max_exposure=10.0, random_state=0)
    model.fit(X, y, exposure=exposure)
    question = question_of(model, max_exposure=10.0)
    rows, _ = scored_rows(model, question, X, y, exposure)
    assert np.allclose(rows[:, 1] * question.high, model.predict(X, exposure))
    with pytest.raises(ValueError, match="another number") as found:
        scored_rows(model, question, X, y, exposure[:-1])
    assert "400" not in str(found.value)  # under add-remove it is private


class Lazy:
    """A column that is not computed yet, as a cell: it has one dimension, and no length."""

    ndim = 1

    def __len__(self) -> int:
        raise RuntimeError("not computed")


class Liar(Lazy):
    """It says two cells and has three."""

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Any:
        return iter([1.0, 1.0, 1.0])


@pytest.mark.parametrize("odd", [Lazy(), Liar()])
def test_an_entry_that_cannot_say_its_length_is_missing(odd: Any) -> None:
    usual = [[0.5, -0.5]] * 20
    found = numbers(listed_rows([*usual, odd], 2))
    assert found.shape == (21, 2) and np.isnan(found[-1]).all() and (found[:-1] == usual[0]).all()
    assert np.isnan(numbers([0.5, 0.5, odd])[-1])


def test_an_empty_table_on_disk_or_on_a_cluster_is_fitted_where_n_is_protected(tmp_path: Path) -> None:
    """A table of one row and the same without it are neighbours under add-remove: an error would tell them apart."""
    schema = {
        "columns": {"a": {"type": "numeric", "low": 0, "high": 1}},
        "target": {"column": "t", "type": "classes", "classes": ["no", "yes", "perhaps"]},
    }
    found = []
    for rows in (0, 1):
        table = pa.table({"a": pa.array([0.5] * rows, pa.float64()), "t": pa.array(["yes"] * rows, pa.string())})
        pq.write_table(table, tmp_path / "t.parquet")
        (tmp_path / "t.csv").write_text("a,t\n" + "0.5,yes\n" * rows)
        forms = [
            table,
            dask.dataframe.from_pandas(table.to_pandas(), npartitions=1),
            dperm.ArrowRows(tmp_path / "t.parquet", schema),
            dperm.ArrowRows(tmp_path / "t.parquet", schema, cache=tmp_path / f"cache {rows}"),
            dperm.ArrowRows(tmp_path / "t.csv", schema),
            read_table(tmp_path / "t.csv"),
        ]
        options = {"schema": schema, "relation": "add-remove", "nominal_n": 100, "random_state": 0}
        found.append({dperm.LogisticRegression(1.0, **options).fit(form).w_.tobytes() for form in forms})
    assert [len(same) for same in found] == [1, 1] and found[0] != found[1]


@pytest.mark.parametrize(
    ("place", "damage"),
    [
        ("secret", {"fingerprint": []}),
        ("secret", {"salt": None}),
        ("cost", {"square": "x"}),
        ("cost", {"curve": [None]}),
        ("cost", {"failure": {}}),
        ("plan", {"assumptions": 5}),
    ],
)
def test_a_damaged_ledger_is_named_as_one(tmp_path: Path, place: str, damage: dict[str, Any]) -> None:
    X, y = np.zeros((50, 1)), np.arange(50) % 2
    ledger = dperm.Ledger.create(tmp_path / "l", dataset="people", epsilon=3.0, delta=1e-5)
    model = dperm.LogisticRegression(1.0, bounds=(-1, 1), classes=[0, 1], ledger=ledger).fit(X, y)
    number = 0 if "salt" in damage else 1
    with contextlib.closing(sqlite3.connect(tmp_path / "l")) as connection:
        column = "secret" if place == "secret" else "body"
        text = connection.execute(f"SELECT {column} FROM entries WHERE number = {number}").fetchone()[0]
        entry = json.loads(text)
        (entry if place == "secret" else entry[place]).update(damage)
        connection.execute(f"UPDATE entries SET {column} = ? WHERE number = {number}", (json.dumps(entry),))
        connection.commit()
    assert ledger.verify()
    if place != "plan":
        for use in (ledger.account, lambda: model.fit(X, y)):
            with pytest.raises(ValueError, match="damaged"):
                use()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("cells", [0.0, np.nan, 1e30])
def test_an_empty_row_beside_a_large_norm_warns_nobody(dtype: type, cells: float) -> None:
    """x_norm / ‖x‖ of a row of zeros overflowed from x_norm = 1.8e8 on: a warning that told of one row."""
    X = np.random.default_rng(0).normal(size=(50, 2)).astype(dtype)
    X[0] = cells
    Encoding.from_declaration(2, x_norm=1e9).transform(X)  # warnings are errors here
    term = GradientTerm(MultinomialLoss(3), np.zeros(6), 1e9, Features())
    rows = dperm.MemoryRows(np.zeros((3, 2)), np.zeros(3, dtype=int), np.zeros(3)).bounded(DataBounds(1.0, Interval(0, 2)))
    assert np.array_equal(rows.sum(term, 1.0), np.zeros(6))


@pytest.mark.parametrize(
    "declared",
    [{"bounds": (-1e308, 1e308)}, {"bounds": (0, 5e-324)}, {"bounds": (0, 1e-200)}, {"x_norm": 1e-300}, {"x_norm": 1e200}],
)
def test_bounds_that_floats_cannot_keep_are_refused(declared: dict[str, Any]) -> None:
    """Such a fit was made, warned or not, and its certificate did not verify."""
    with pytest.raises(ValueError, match="e-150"):
        dperm.LogisticRegression(1.0, classes=[0, 1], **declared).fit(np.zeros((20, 2)), np.arange(20) % 2)


def test_a_cache_behind_a_link_is_replaced_and_a_spoilt_one_is_read(tmp_path: Path) -> None:
    schema = {
        "columns": {"a": {"type": "numeric", "low": 0, "high": 1}},
        "target": {"column": "t", "type": "classes", "classes": ["no", "yes"]},
    }
    (tmp_path / "link").symlink_to(tmp_path / "cache", target_is_directory=True)
    for rows in (10, 12):
        (tmp_path / "t.csv").write_text("a,t\n" + "0.5,yes\n" * rows)
        assert dperm.ArrowRows(tmp_path / "t.csv", schema, cache=tmp_path / "link").n == rows
    assert (tmp_path / "link").is_symlink() and (tmp_path / "cache" / "key.json").is_file()
    np.array([np.nan, np.inf, -np.inf, -7.0, 1e300, 2.0, *[0.0] * 6]).tofile(tmp_path / "cache" / "cells")
    spoilt = dperm.ArrowRows(tmp_path / "t.csv", schema, cache=tmp_path / "cache")
    assert [block().weight.tolist() for block in spoilt.blocks()] == [[0.0] * 6 + [1.0] * 6]
