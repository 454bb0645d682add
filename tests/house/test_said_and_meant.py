"""What a record, a ledger, a name or a prediction says is what it means; and rows that are read before a spend say nothing."""

from __future__ import annotations

import copy
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from typer.testing import CliRunner

import dperm
from dperm.cli import app
from dperm.mechanisms import Gradient
from dperm.mechanisms.hypotheses.classes import HYPOTHESES, Thresholds
from dperm.mechanisms.scaled.additive import Additive
from dperm.privacy.filters import Filter
from dperm.release.ledger.book import Ledger
from dperm.tables.json_files import read_json
from dperm.walk.certificate import Certificate

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (300, 2))
Y = (X[:, 0] > 0).astype(int)
LINE: dict[str, Any] = {"bounds": (-1, 1), "classes": [0, 1], "random_state": 0}


def test_a_ledger_is_the_same_file_wherever_the_process_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path opened the ledger of the folder that the process had gone to: the fit was booked there."""
    for name in "AB":
        (tmp_path / name).mkdir()
        Ledger.create(tmp_path / name / "p.ledger", dataset=name, epsilon=3, delta=1e-5)
    monkeypatch.chdir(tmp_path / "A")
    book = Ledger("p.ledger")
    os.chdir(tmp_path / "B")
    model = dperm.LogisticRegression(0.1, bounds=(-1, 1), classes=[0, 1], ledger=book).fit(X, Y)
    assert model.certificate_.record["ledger"]["entry"]["dataset"] == "A"
    assert [Ledger(tmp_path / name / "p.ledger").account().fits for name in "AB"] == [1, 0]


@pytest.mark.parametrize("epsilon", [1e308, float("inf"), 0, -1, float("nan")])
def test_a_budget_without_meaning_is_refused(epsilon: float) -> None:
    """1e308 was looked for without end."""
    with pytest.raises(ValueError, match="Expected 0 < epsilon"):
        Filter.declare(epsilon, 1e-6)


@pytest.fixture(scope="module")
def curves() -> dict[str, Any]:
    model = dperm.GAMClassifier(3.0, **LINE).fit(X, Y)
    found: dict[str, Any] = json.loads(model.certificate_.to_json())
    return found


@pytest.mark.parametrize("option", ["careful", "nearer", "levelled", "products"])
@pytest.mark.parametrize("said", ["False", 1, None])
def test_an_option_that_is_no_truth_value_does_not_pass_for_one(curves: dict[str, Any], option: str, said: object) -> None:
    assert Certificate(copy.deepcopy(curves)).verify(allow_seeded=True).ok
    altered = copy.deepcopy(curves)
    altered["mechanism"]["options"][option] = said
    assert not Certificate(altered).verify(allow_seeded=True).ok


@pytest.mark.parametrize("other", [lambda values: [str(values[0]), *values[1:]], lambda values: [True, *values[1:]]])
def test_released_numbers_are_numbers(curves: dict[str, Any], other: Callable[[list[float]], object]) -> None:
    for stage in curves["released"]:
        altered = copy.deepcopy(curves)
        altered["released"][stage] = other(altered["released"][stage])
        assert not Certificate(altered).verify(allow_seeded=True).ok, stage


def test_a_released_sum_is_a_list_of_numbers(curves: dict[str, Any]) -> None:
    """One that stood a list deeper, or had numbers behind those that are read, verified too."""
    altered = copy.deepcopy(curves)
    altered["released"]["radius"] = [altered["released"]["radius"]]
    assert not Certificate(altered).verify(allow_seeded=True).ok
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    model = dperm.EmbeddingClassifier(1.0, classes=[0, 1], random_state=0).fit(rows, Y)
    record = json.loads(model.certificate_.to_json())
    assert Certificate(record).verify(allow_seeded=True).ok
    record["released"]["size"].append(1.0)
    assert not Certificate(record).verify(allow_seeded=True).ok


def test_an_option_that_is_no_truth_value_is_refused_before_a_spend(tmp_path: Path) -> None:
    """The certificate of such a fit would not verify, and an additive model noticed once it was paid for."""
    book = Ledger.create(tmp_path / "p.ledger", dataset="p", epsilon=3, delta=1e-5)
    bold = Additive(careful=1)  # type: ignore[arg-type]
    for made in (dperm.GAMClassifier, dperm.LogisticRegression):
        method = bold if made is dperm.GAMClassifier else Gradient(accept_known_error=1)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="where true or false belongs"):
            made(1.0, method=method, ledger=book, **LINE).fit(X, Y)
    assert book.account().fits == 0


def test_a_rule_that_warns_of_a_row_leaves_the_filters_of_the_process_alone() -> None:
    """Threads that each set and reset them left them set: later warnings of the process were lost, and this one came out."""

    seen: list[Any] = []

    class Warning(Thresholds):
        def errors(self, X: Any, y: Any, weight: Any) -> Any:
            seen.append(warnings.filters)
            warnings.warn("one row", stacklevel=1)
            return super().errors(X, y, weight)

    rows = np.tile(X, (200, 1))
    before = list(warnings.filters)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        dperm.FiniteClassLearner(1.0, hypotheses=Warning(-1.0, 1.0, 11), **LINE).fit(rows, np.tile(Y, 200))
    assert len(seen) > 4 and all(filters is seen[0] for filters in seen)  # set once for the whole sum
    assert [str(warning.message) for warning in said if "one row" in str(warning.message)] == []
    assert list(warnings.filters) == before
    assert HYPOTHESES["thresholds"] is Thresholds  # a subclass without a kind of its own is not found by it


def test_a_key_that_stands_twice_is_refused(curves: dict[str, Any], tmp_path: Path) -> None:
    text = json.dumps(curves)
    twice = '{"guarantee": {"epsilon": 0.01}, ' + text[1:]
    with pytest.raises(ValueError, match="stands twice"):
        Certificate.from_json(twice)
    (tmp_path / "certificate.json").write_text(twice)
    with pytest.raises(ValueError, match="stands twice"):
        read_json(tmp_path / "certificate.json")


def test_no_key_of_a_record_writes_a_line_of_the_verdict(curves: dict[str, Any], tmp_path: Path) -> None:
    altered = copy.deepcopy(curves) | {"evil\nverified: (0.01, 0)-differential privacy": 1}
    (tmp_path / "certificate.json").write_text(json.dumps(altered))
    said = CliRunner().invoke(app, ["verify", str(tmp_path / "certificate.json"), "--allow-seeded"])
    assert said.exit_code == 1 and not any(line.lstrip(" -").startswith("verified") for line in said.output.splitlines())


def test_the_constant_has_its_name_alone() -> None:
    frame = pd.DataFrame(X, columns=["age", "intercept"])
    with pytest.raises(ValueError, match="other names than 'intercept'"):
        dperm.GAMClassifier(3.0, **LINE).fit(frame, Y)
    assert dperm.LogisticRegression(3.0, fit_intercept=False, **LINE).fit(frame, Y).coef_.shape == (1, 2)


def test_a_column_with_an_equals_sign_is_not_a_level_of_another() -> None:
    columns: dict[str, Any] = {name: {"type": "categorical", "levels": ["a", "b"]} for name in ("q=1", "q=2")}
    columns["q"] = {"type": "numeric", "low": -1, "high": 1}
    frame = pd.DataFrame({"q": X[:, 1], "q=1": np.where(X[:, 0] > 0, "a", "b"), "q=2": np.where(X[:, 0] > 0.5, "a", "b")})
    schema = {"columns": columns, "target": {"column": "y", "type": "numeric", "low": -1, "high": 1}}
    model = dperm.LinearRegression(8.0, schema=schema, intervals=True, random_state=0).fit(frame.assign(y=X[:, 0]))
    table = model.summary()
    assert table.joint_test("q").degrees == table.joint_test("q=1").degrees == 1


def test_sparse_rows_are_cut_to_their_norm_in_predictions_too() -> None:
    rows = sparse.csr_array(RNG.normal(size=(500, 5)) * (RNG.random((500, 5)) < 0.5))
    y = (rows.toarray()[:, 0] > 0).astype(int)
    for declared in ({"x_norm": 1.0}, {"x_norm": 1.0, "bounds": (-2, 2)}):
        model = dperm.LogisticRegression(5.0, classes=[0, 1], random_state=0, **declared).fit(rows, y)
        far = 10 * rows[:20]
        assert model.decision_function(far) == pytest.approx(model.decision_function(far.toarray()), rel=1e-9)


@pytest.mark.parametrize("label", [[1, 2], [1], None, "x"])
def test_a_search_reads_no_label_before_it_spends(label: object) -> None:
    y: list[Any] = Y.tolist()
    base = dperm.LogisticRegression(bounds=(-1, 1), classes=[0, 1], method="gradient")
    search = dperm.PrivateGridSearch(base, {"radius": [0.1, 10.0]}, epsilon=20, expected_runs=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert search.fit(X, [label, *y[1:]]).best_estimator_.coef_.shape == (1, 2)


def test_a_search_compares_lengths_before_it_spends(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "a.ledger", dataset="d", epsilon=30, delta=1e-4)
    base = dperm.LogisticRegression(bounds=(-1, 1), classes=[0, 1], method="gradient")
    search = dperm.PrivateGridSearch(base, {"radius": [0.1, 10.0]}, epsilon=20, expected_runs=2, ledger=book)
    with pytest.raises(ValueError, match="one label for every row"):
        search.fit(X, Y[:-1])
    assert book.account().fits == 0


def test_a_row_that_overflows_in_a_rule_warns_of_nothing() -> None:
    odd = X.copy()
    odd[7] = 1.7e308
    learner = dperm.FiniteClassLearner(1.0, hypotheses="separators", **LINE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert learner.fit(odd, Y).certificate_.verify(allow_seeded=True).ok


def test_curves_with_a_hinge_are_evaluated_without_probabilities() -> None:
    model = dperm.GAMClassifier(3.0, loss="hinge", **LINE).fit(X, Y)
    scores = dperm.evaluate(model, X, Y, epsilon=3.0, random_state=0)
    assert scores.verify(allow_seeded=True) and "accuracy" in str(scores.record)


def test_errors_of_a_dask_table_quote_no_cell() -> None:
    frames = pytest.importorskip("dask.dataframe")
    target = {"column": "y", "type": "classes", "classes": ["p", "q"]}
    schema = {"columns": {"c": {"type": "categorical", "levels": ["x", "y"]}}, "target": target}
    words = pd.Series(["x", "y"] * 29 + ["x", b"SECRET\xff"], dtype=object)
    plain = frames.from_pandas(pd.DataFrame({"c": words, "y": pd.Series(["p", "q"] * 30, dtype=object)}), npartitions=2)
    dperm.LogisticRegression(1.0, schema=schema).fit(plain)  # of a pandas frame each cell is read alone

    def quoting(part: pd.DataFrame) -> pd.DataFrame:
        raise ValueError(f"could not decode {part.iloc[-1, 0]!r}")

    table = plain.map_partitions(quoting, meta=plain._meta)
    with pytest.raises(ValueError, match="Its message may quote a record") as found:
        dperm.LogisticRegression(1.0, schema=schema).fit(table)
    assert "SECRET" not in repr(vars(found.value))  # what it carries
