"""Profiles: sensitivities of their sums, what the record says, how types are decided, and the commands."""

from __future__ import annotations

import copy
import json
import re

import numpy as np
import pandas as pd
import pytest

import dperm
from command_line import run as command
from dperm.privacy import Levels, compose, event_from_spec
from dperm.privacy.filters import Filter
from dperm.profiles import terms as of
from dperm.profiles.plan import kind_among, stages_of
from dperm.profiles.profile import Profile, question_about
from dperm.profiles.question import Asked, Question
from dperm.profiles.ranges import first_scales, tighter
from dperm.profiles.rows import looked_at
from dperm.profiles.told import in_words
from dperm.release.driver import watching
from dperm.report.profile_page import profile_page
from dperm.rows.base import Block
from dperm.rows.exact import Tallied
from dperm.rows.memory import MemoryRows
from dperm.tables.scale import OCTAVES
from dperm.terms.ranges import CELLS
from odd_cells import ODD

RELATIONS = ("replace-one", "zero-out", "add-remove")


def people(n: int = 6000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n).astype(float),
            "income": np.exp(rng.normal(10, 1.0, n)),
            "city": rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1]),
            "since": pd.Series(pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 2000, n), "D")).dt.strftime(
                "%Y-%m-%d"
            ),
            "note": [f"only {j}" for j in range(n)],
            "flag": rng.choice(["yes", "no"], n),
        }
    )
    table.loc[::10, "age"] = np.nan
    chance = 1 / (1 + np.exp(-(0.08 * (table["age"].fillna(54) - 54) + 2.0 * (table["city"] == "a") - 1)))
    table["bought"] = np.where(rng.uniform(size=n) < chance, "yes", "no")
    return table


# -- sensitivities -------------------------------------------------------------------------------------------------------------


def every_term(columns: int) -> list[of.ColumnTerm]:
    places, kinds = tuple(range(columns)), ("numeric",) * columns
    scales = (of.Scale(-2.0, 3.0),) * columns
    mixed = tuple(of.Scale(0.5, 800.0, True) if j % 2 else None for j in range(columns))
    return [
        of.Looks(places),
        of.Places(places, (4,) * columns),
        of.Octaves(places, kinds),
        of.Codes(places, kinds),
        of.Cells(places, kinds, scales),
        of.Moments(places, kinds, scales),
        of.Joint(places, kinds, scales, columns, "numeric", of.Scale(-2.0, 3.0)),
        of.Counts(places, kinds, mixed, (3,) * columns, (None,) * columns),
    ]


def random_row(rng: np.random.Generator, columns: int) -> np.ndarray:
    reading = rng.choice([rng.normal(0, 3), -2.0, 3.0, 0.5, np.nan, np.inf, 1e300, -1e300, 0.0], size=columns)
    return np.stack([reading, rng.integers(0, 6, columns), rng.integers(-1, 4, columns)], axis=1).reshape(-1)


@pytest.mark.parametrize("columns", [1, 3])
def test_no_row_moves_a_sum_further_than_its_term_says_and_some_row_nearly_does(columns):
    """600 random pairs of rows, one of them null at times; the largest move is at least 70 % of the stated one."""
    rng = np.random.default_rng(columns)
    for term in every_term(columns):
        nulled = replaced = 0.0
        for _ in range(600):
            one, other = (term(Block(random_row(rng, columns + 1)[None], np.zeros(1), None, 0)) for _ in range(2))
            nothing = term(Block(random_row(rng, columns + 1)[None], np.zeros(1), np.zeros(1), 0))
            assert not nothing.any()
            assert np.abs(one).max() <= term.row_bound
            nulled = max(nulled, float(np.linalg.norm(one)))
            replaced = max(replaced, float(np.linalg.norm(one - other)), float(np.linalg.norm(one)))
        assert nulled <= term.sensitivity("zero-out") * (1 + 1e-12)
        assert replaced <= term.sensitivity("replace-one") * (1 + 1e-12)
        assert nulled >= 0.7 * term.sensitivity("zero-out")
        assert replaced >= 0.7 * term.sensitivity("replace-one")


@pytest.mark.parametrize("usual", ["b", 7.5, 1, "2021-01-01", "no"])
@pytest.mark.parametrize("epsilon", [0.001, 100.0])
def test_the_first_row_of_a_table_moves_no_count_but_its_own(usual, epsilon):
    """Where noise hid a column's type, rows were counted by their word's place in the order in which words came: one row first
    moved all of them, 1,000 times as far as was paid for."""
    others, moves = [usual] * 300, {}
    for first in (usual, "a", None, 0, 3.25, "2020-01-01", "yes"):
        sums: dict = {}
        with watching(lambda drawn, sums=sums: sums.setdefault(type(drawn.term).__name__, drawn)):
            dperm.profile(pd.DataFrame({"a": [first, *others]}), epsilon=epsilon, delta=1e-6, random_state=0)
        for name, drawn in sums.items():
            moves.setdefault((name, getattr(drawn.term, "kinds", None), drawn.exact.shape), []).append(drawn)
    assert any(len(found) > 3 for (name, *_), found in moves.items() if name == "Counts")
    for found in moves.values():
        for drawn in found:
            if getattr(drawn.term, "scales", None) == getattr(found[0].term, "scales", None):
                assert np.linalg.norm(drawn.exact - found[0].exact) <= drawn.term.sensitivity("replace-one") * (1 + 1e-9)


def test_sums_of_permuted_rows_are_the_same_bits():
    rng = np.random.default_rng(0)
    X = np.stack([random_row(rng, 4) for _ in range(9000)])
    order = rng.permutation(len(X))
    for term in every_term(3):
        one, other = (MemoryRows(part, np.zeros(len(X))).sum(term, 1.0) for part in (X, X[order]))
        assert isinstance(term, Tallied) and one.any() and one.tobytes() == other.tobytes()


def test_means_and_squares_of_two_rows_differ_by_at_most_two():
    v, w = np.meshgrid(np.linspace(-1, 1, 401), np.linspace(-1, 1, 401))
    assert ((v - w) ** 2 + (v**2 - w**2) ** 2).max() == pytest.approx(4.0)


# -- the record ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("persons", [False, True])
def test_a_profile_keeps_its_budget_and_verifies_for_every_relation(relation, persons):
    table = people(2000)
    given = {"nominal_n": 2000} if relation == "add-remove" else {}
    if persons:
        table["id"] = np.arange(2000) // 2
        given |= {"groups": "id", "max_rows_per_person": 2}
    found = dperm.profile(table, epsilon=2.0, delta=1e-5, target="bought", relation=relation, random_state=1, **given)
    assert compose(found.plan.events, relation).epsilon(1e-5) <= 2.0
    assert compose(found.plan.events, relation).epsilon(1e-5) >= 2.0 * (1 - 1e-4)
    assert any(isinstance(event, Levels) for event in found.plan.events)
    assert found.verify(allow_seeded=True).ok
    assert found.record["guarantee"]["unit"] == ("person" if persons else "row")
    assert "id" not in found.columns


def test_a_change_to_any_number_of_the_record_shows():
    found = dperm.profile(people(1500), epsilon=2.0, target="bought", random_state=2)
    leaves = []

    def walk(value, path):
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, (*path, key))
        elif isinstance(value, list):
            for key, inner in enumerate(value[:3]):
                walk(inner, (*path, key))
        elif isinstance(value, float | int) and not isinstance(value, bool):
            leaves.append(path)

    walk(found.record, ())
    for path in leaves[:: max(len(leaves) // 25, 1)]:
        altered = copy.deepcopy(dict(found.record))
        place = altered
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] += 1
        if path[0] != "noise":  # a seed is a claim about the run
            assert not Profile(altered).verify(allow_seeded=True).ok, path
    altered = copy.deepcopy(dict(found.record))
    altered["released"]["levels"][0] = [[" ", 3.0], *altered["released"]["levels"][0]]
    assert "threshold" in str(Profile(altered).verify(allow_seeded=True).reasons)
    assert Profile.from_json(found.to_json()).verify(allow_seeded=True).ok
    assert not found.verify().ok  # seeded noise is no privacy


def test_types_are_decided_by_counts_and_one_cell_decides_nothing():
    table = people(3000).astype(object)
    plain = dperm.profile(table, epsilon=3.0, target="bought", random_state=3)
    kinds = {name: column["kind"] for name, column in plain.columns.items()}
    assert kinds == {
        "age": "numeric", "income": "numeric", "city": "levels", "since": "date", "note": "levels", "flag": "boolean",
        "bought": "levels",
    }  # fmt: skip
    assert plain.columns["city"]["levels"] == ["a", "b", "c"]
    assert plain.columns["note"]["levels"] == []
    assert plain.columns["bought"]["levels"] == ["no", "yes"]
    schema = plain.schema().spec()
    assert schema["columns"]["note"] == {"type": "ignored"}
    assert schema["columns"]["since"]["type"] == "datetime" and "hour" not in schema["columns"]["since"]["parts"]
    assert schema["target"] == {"column": "bought", "type": "classes", "classes": ["no", "yes"]}
    for cell in ODD[::12]:
        odd = table.copy()
        for name in odd.columns:
            odd.at[7, name] = cell
        found = dperm.profile(odd, epsilon=3.0, target="bought", random_state=3)
        assert {name: column["kind"] for name, column in found.columns.items()} == kinds


@pytest.mark.parametrize("cell", [None, "n/a", 1e308, -1e308, float("inf"), "x" * 10_000, b"\xff", True])
def test_a_cell_is_read_the_same_whatever_the_others_are(cell):
    """The rows of all other persons are the same numbers, whatever one cell holds: no reader infers a type."""
    table = people(60).astype(object)
    question, _ = question_about(list(table.columns), None, "bought")
    before = looked_at(table, question)
    table.at[5, "age"] = cell
    after = looked_at(table, question)
    kept = np.delete(np.arange(60), 5)
    looks = [j for j in range(before.X.shape[1]) if j % of.PER_COLUMN != 2]
    assert np.array_equal(before.X[np.ix_(kept, looks)], after.X[np.ix_(kept, looks)], equal_nan=True)


def test_numbers_are_near_the_truth_and_wide_bounds_do_not_matter():
    table = people(10_000)
    for high in (100, 100_000):
        schema = {
            "columns": {"age": {"type": "numeric", "low": 0, "high": high}, "income": {"type": "numeric", "bounds": "private"}}
        }
        found = dperm.profile(table, schema=schema, epsilon=2.0, random_state=4)
        age, income = found.columns["age"], found.columns["income"]
        assert age["mean"]["value"] == pytest.approx(table["age"].mean(), abs=0.5)
        assert age["spread"]["value"] == pytest.approx(table["age"].std(), abs=0.5)
        assert age["missing"]["value"] == pytest.approx(0.1, abs=0.01)
        assert income["scale"]["log"] or income["scale"]["high"] < 1e7
        assert income["quantiles"][2]["value"] == pytest.approx(table["income"].median(), rel=0.1)
        bounds = found.schema().spec()["columns"]["age"]
        assert 0 <= bounds["low"] < 18
        assert 90 <= bounds["high"] <= 150


def test_whole_numbers_that_are_few_are_codes_and_others_are_numbers():
    rng = np.random.default_rng(6)
    n = 8000
    table = pd.DataFrame(
        {
            "hour": rng.integers(0, 24, n), "month": rng.integers(1, 13, n).astype(float),
            "region": rng.choice([3, 5, 9], n).astype(str), "flag": rng.integers(0, 2, n),
            "age": rng.integers(17, 90, n), "share": rng.uniform(0, 1, n),
            "gain": np.where(rng.random(n) < 0.9, 0, rng.integers(100, 9999, n)), "shift": rng.integers(-3, 4, n),
        }
    )  # fmt: skip
    found = dperm.profile(table, epsilon=3.0, random_state=1)
    levels = {name: column["levels"] for name, column in found.columns.items() if column["kind"] == "levels"}
    assert levels == {"hour": [*range(24)], "month": [*range(1, 13)], "region": [*range(3, 10)], "flag": [0, 1]}
    assert {name for name, column in found.columns.items() if column["kind"] == "numeric"} == {"age", "share", "gain", "shift"}
    assert found.schema().spec()["columns"]["hour"] == {"type": "categorical", "levels": [*range(24)]}
    assert found.columns["hour"]["counts"][5]["value"] == pytest.approx((table["hour"] == 5).sum(), abs=100)
    assert found.verify(allow_seeded=True).ok
    hidden = dperm.profile(table[:300], epsilon=0.3, parts="schema", random_state=1)  # where noise hides it, numbers stay numbers
    assert not any(column["kind"] == "levels" for column in hidden.columns.values())


def test_a_column_on_a_logarithmic_scale_is_a_logarithm_in_the_schema_and_fits():
    rng = np.random.default_rng(8)
    amount = np.exp(rng.normal(7, 2, 6000))
    table = pd.DataFrame({"amount": amount, "y": np.where(np.log(amount) + rng.normal(0, 1, 6000) > 7, "yes", "no")})
    schema = dperm.profile(table, epsilon=3.0, target="y", random_state=0).schema()
    assert schema.spec()["columns"]["amount"]["log"] is True
    assert dperm.LogisticRegression(epsilon=3.0, schema=schema, random_state=0).fit(table).score(table) > 0.75


def test_bounds_of_a_small_budget_keep_the_rows():
    """The rule of 0.4.0 kept 20 to 66 % of a column in half of these runs: an octave with a quarter of the rows need not stand
    out of this noise. 90 % is aimed at with two deviations; seeded, so there is no false alarm."""
    rng = np.random.default_rng(5)
    n = 6000
    columns = {"age": rng.integers(18, 86, n), "spent": np.round(rng.lognormal(4, 0.6, n), 2)}
    table = pd.DataFrame({"member": np.repeat(np.arange(n // 2), 2), **columns})
    shape = {"columns": {name: {"type": "numeric", "bounds": "private"} for name in columns} | {"member": {"type": "ignored"}}}
    for seed in range(8):
        asked = {"schema": shape, "parts": "schema", "groups": "member", "max_rows_per_person": 2}
        found = dperm.profile(table, epsilon=0.1, random_state=seed, **asked).schema()
        for column in found.columns:
            if column.name in columns:
                assert table[column.name].between(column.low, column.high).mean() > 0.75, (seed, column)


def test_with_little_noise_wary_ranges_are_those_of_before():
    counts = np.zeros(2 * OCTAVES)
    counts[OCTAVES + 36 : OCTAVES + 39] = (900, 3000, 2100)  # from 16 to 128
    asked = [Asked("age", "numeric")]
    for wary in (True, False):
        assert first_scales(counts, 30.0, 6000, asked, wary) == [of.Scale(8.0, 128.0)]
    assert first_scales(counts, 400.0, 6000, asked, False) == [of.Scale(16.0, 128.0)]
    assert first_scales(counts, 400.0, 6000, asked, True) == [of.Scale(0.0, 256.0)]
    cells = np.zeros(CELLS)
    cells[20:40] = 300
    for noise in (5.0, 400.0):
        bold, wary = (tighter(cells, [of.Scale(0.0, 64.0)], noise, 6000, flag)[0] for flag in (False, True))
        assert bold == wary if noise == 5.0 else (wary.low <= 1 and wary.high >= 63)


def test_a_question_of_0_4_0_is_not_wary():
    question, _ = question_about(["a"], None, None)
    older = {key: value for key, value in question.spec().items() if key != "wary"}
    assert question.wary and Question.from_spec(question.spec()) == question
    assert not Question.from_spec(older).wary and Question.from_spec(older).spec() == older


@pytest.mark.parametrize(("other", "kind"), [("M", "levels"), ("unknown", "levels"), (None, "boolean"), ("yes", "boolean")])
def test_truth_values_beside_other_text_are_levels(other, kind):
    """The F of "F" and "M" reads as a truth value: where most rows had it, the column was "boolean" and the rest was missing."""
    table = pd.DataFrame({"sex": ["F", "F", other] * 1000 + ["x"] * 9})
    found = dperm.profile(table, epsilon=2.0, random_state=0)
    assert found.columns["sex"]["kind"] == kind
    assert found.verify(allow_seeded=True)
    matters = other not in (None, "yes")
    assert found.record["question"].get("mixed", False) == matters, "a record states the rule where it finds other types"
    altered = copy.deepcopy(found.record)
    if matters:
        del altered["question"]["mixed"]
    else:
        altered["question"]["mixed"] = True
    assert not Profile(altered).verify(allow_seeded=True).ok
    if kind == "levels":
        assert found.schema().columns[0].levels == ("F", other)


def test_a_target_of_truth_values_beside_other_text_binds_the_rule_that_its_record_states():
    """Its levels are found under both rules: the rule was stated, and whoever took it out of the record was not noticed."""
    table = pd.DataFrame({"age": np.linspace(20, 60, 3000), "sex": ["F", "F", "M"] * 1000})
    found = dperm.profile(table, target="sex", epsilon=2.0, random_state=0)
    assert found.schema().target.classes == ("F", "M") and found.verify(allow_seeded=True).ok
    altered = copy.deepcopy(found.record)
    altered["question"]["mixed"] = not altered["question"].pop("mixed", False)
    if not altered["question"]["mixed"]:
        del altered["question"]["mixed"]
    assert not Profile(altered).verify(allow_seeded=True).ok


def test_a_question_of_0_8_0_decides_between_kinds_by_the_larger_count_alone():
    question, _ = question_about(["a"], None, None)
    older = {key: value for key, value in question.spec().items() if key != "mixed"}
    assert question.mixed and not Question.from_spec(older).mixed and Question.from_spec(older).spec() == older
    counts = np.array([0.0, 0.0, 60.0, 0.0, 40.0])
    assert [kind_among(counts, 1.0, mixed) for mixed in (False, True)] == ["boolean", "levels"]
    assert kind_among(np.array([0.0, 0.0, 60.0, 0.0, 3.0]), 1.0, True) == "boolean", "text that does not stand out of the noise"


def test_a_question_of_0_2_0_asks_for_no_codes():
    question, _ = question_about(["a"], None, None)
    older = {key: value for key, value in question.spec().items() if key != "codes"}
    assert question.codes and Question.from_spec(question.spec()) == question
    assert "codes" not in stages_of(Question.from_spec(older)) and Question.from_spec(older).spec() == older


def test_a_target_of_few_numbers_has_classes_and_one_of_many_has_bounds():
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"x": rng.normal(size=5000), "few": rng.integers(0, 3, 5000), "many": rng.normal(50, 10, 5000)})
    few = dperm.profile(table, epsilon=3.0, target="few", parts="schema", random_state=0)
    assert few.schema().target.classes == (0, 1, 2)
    many = dperm.profile(table, epsilon=3.0, target="many", parts="schema", random_state=0)
    assert many.schema().target.type == "numeric"
    assert many.schema().target.low < 30 < 70 < many.schema().target.high
    assert "counts" not in many.record["released"]


@pytest.mark.parametrize("entry", [None, {"type": "categorical", "levels": "private"}])
def test_a_target_that_the_schema_leaves_open_is_found(entry):
    schema = {"columns": {"age": {"type": "numeric", "low": 0, "high": 120}, **({} if entry is None else {"bought": entry})}}
    found = dperm.profile(people(3000), schema=schema, target="bought", epsilon=3.0, random_state=0)
    assert found.verify(allow_seeded=True).ok
    filled = found.schema()
    assert filled.target.classes == ("no", "yes")
    assert [column.name for column in filled.columns] == ["age"]
    with pytest.raises(ValueError, match="among the columns"):
        dperm.profile(people(100), schema={"columns": {"age": schema["columns"]["age"]}}, target="nobody", epsilon=1.0)


def test_correlations_with_the_target_are_near_the_truth():
    table = people(10_000)
    table["spend"] = table["age"].fillna(0) + np.random.default_rng(1).normal(0, 20, len(table))
    found = dperm.profile(table, target="spend", correlations=True, epsilon=3.0, random_state=0)
    truth = table[["age", "spend"]].dropna().corr().iloc[0, 1]
    assert found.columns["age"]["correlation"]["value"] == pytest.approx(truth, abs=0.05)
    assert found.verify(allow_seeded=True).ok
    two = dperm.profile(table.drop(columns="spend"), target="bought", correlations=True, epsilon=3.0, random_state=0)
    goal = np.where(table["bought"] == "yes", 1.0, -1.0)[table["age"].notna()]
    truth = np.corrcoef(table["age"].dropna(), goal)[0, 1]
    assert two.columns["age"]["correlation"]["value"] == pytest.approx(truth, abs=0.05)
    assert "correlation" not in two.columns["bought"]
    with pytest.raises(ValueError, match="target for correlations"):
        dperm.profile(table, correlations=True, epsilon=1.0)


def test_a_ledger_books_the_profile_and_refuses_the_next(tmp_path):
    ledger = dperm.Ledger.create(tmp_path / "l", dataset="people", epsilon=1.5, delta=1e-6)
    table = people(2000)
    found = dperm.profile(table, epsilon=1.0, delta=1e-6, ledger=ledger, target="bought", random_state=0)
    assert found.verify(allow_seeded=True).ok
    assert ledger.account().fits == 1
    assert ledger.verify([found.record], allow_seeded=True) == []
    with pytest.raises(ValueError, match="exceed"):
        dperm.profile(table, epsilon=1.0, delta=1e-6, ledger=ledger, target="bought", random_state=0)


def test_what_cannot_be_profiled_is_refused_in_a_sentence():
    table = people(200)
    for given, words in (
        ({"delta": 0.0}, "delta > 0"),
        ({"relation": "add-remove"}, "nominal_n"),
        ({"target": "nobody"}, "among the columns"),
        ({"level": 1.0}, "level"),
        ({"groups": "note"}, "max_rows_per_person"),
    ):
        with pytest.raises(ValueError, match=words):
            dperm.profile(table, epsilon=1.0, **given)
    with pytest.raises(ValueError, match="table"):
        dperm.profile(np.zeros((3, 2)), epsilon=1.0)


def test_empty_tables_and_columns_are_profiled_too():
    empty = pd.DataFrame({"a": [None] * 500, "b": [""] * 500})
    found = dperm.profile(empty, epsilon=1.0, random_state=0)
    assert [column["kind"] for column in found.columns.values()] == ["unknown", "unknown"]
    nobody = dperm.profile(people(0), epsilon=1.0, relation="add-remove", nominal_n=1000, target="bought", random_state=0)
    assert nobody.verify(allow_seeded=True).ok


# -- commands ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = people(4000)
    table["id"] = np.arange(4000) // 2
    table.to_csv("people.csv", index=False)
    return tmp_path


def test_from_a_raw_file_to_a_schema_a_model_and_its_verification(folder):
    persons = ("--person", "id", "--max-rows-per-person", 2)
    named = ("--target", "bought", "--epsilon", 3, "--out-schema", "people.json", "--out", "profile")
    _, text = command("profile", "people.csv", *persons, *named)
    assert "per person" in text
    assert "only 7" not in text
    assert {file.name for file in (folder / "profile").iterdir()} == {"profile.json", "profile.html", "profile.md"}
    page = (folder / "profile" / "profile.html").read_text()
    assert page.count("<svg") >= 3
    assert "only 7" not in page
    assert "verified" in command("verify", "profile")[1]
    command("fit", "people.csv", "--schema", "people.json", "--epsilon", 1, *persons, "--out", "model")
    assert "verified" in command("verify", "model")[1]
    assert command("profile", "people.csv", *persons, *named)[0] == 2  # nothing is overwritten unasked


def test_a_fit_without_a_schema_pays_for_everything_in_one_budget(folder):
    dperm.Ledger.create("book", dataset="people", epsilon=3.0, delta=1e-6)
    private = ("--bounds", "private", "--levels", "private")
    _, text = command("fit", "people.csv", "--target", "bought", "--epsilon", 2.5, *private, "--out", "model", "--ledger", "book")
    assert "together" in text and "model/certificate.json" in text and "model/profile.json" in text
    shares = re.search(r"asked 2.5: (\S+) for bounds and levels, (\S+) for the fit \(they compose to 2.5\)", text)
    ledger = dperm.Ledger("book")
    assert ledger.account().fits == 2
    made, found = dperm.Certificate.load("model/certificate.json"), Profile.load("model/profile.json")
    assert ledger.verify([found.record, made.record]) == []
    booked = [entry["plan"]["epsilon"] for entry in ledger.entries()[1:]]
    assert [float(share) for share in shares.groups()] == pytest.approx(booked, rel=0.01) and sum(booked) > 2.5
    rule = Filter.declare(2.5, 1e-6, "auto")
    costs = [rule.cost([event_from_spec(stage["event"]) for stage in claim.record["stages"]]) for claim in (found, made)]
    assert rule.accepts(costs) is not None
    assert rule.accepts([*costs, costs[1]]) is None
    table = people(4000, seed=9).assign(id=0)
    truth = (table["bought"] == "yes").mean()
    assert (dperm.load("model").predict(table) == table["bought"]).mean() > max(truth, 1 - truth) + 0.02


def test_private_levels_in_a_schema_are_found_before_the_fit(folder):
    columns = {"age": {"type": "numeric", "low": 0, "high": 120}, "city": {"type": "categorical", "levels": "private"}}
    target = {"column": "bought", "type": "classes", "classes": ["no", "yes"]}
    (folder / "people.json").write_text(json.dumps({"columns": columns, "target": target}))
    command("fit", "people.csv", "--schema", "people.json", "--epsilon", 3, "--out", "model")
    assert dperm.Schema.load("model/schema.json").columns[1].levels == ("a", "b", "c")
    assert "city=a" in dperm.Certificate.load("model/certificate.json").record["encoding"]["names"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "found no schema and no --bounds private and no --levels private"),
        (("--bounds", "private"), "found no schema and no --levels private."),
        (("--bounds", "guess", "--levels", "private"), "Expected --bounds private"),
        (("--bounds", "private", "--levels", "private", "--schema", "x.json"), "Expected a schema at x.json"),
        (("--bounds", "private", "--levels", "private", "--delta", 0), "delta > 0"),
    ],
)
def test_what_is_neither_declared_nor_found_is_asked_for(folder, options, words):
    code, text = command("fit", "people.csv", "--target", "bought", "--epsilon", 1, *options)
    assert code == 2
    assert words in text


def test_a_cut_tail_is_said_at_its_end_and_a_range_that_holds_all_says_nothing():
    generator = np.random.default_rng(0)
    values = generator.uniform(5, 100, 5000)
    table = pd.DataFrame({"cut": np.where(generator.uniform(size=5000) < 0.1, 1e6, values), "held": values})
    bounds = {"type": "numeric", "low": 0, "high": 100}
    found = dperm.profile(table, epsilon=3.0, schema={"columns": {"cut": bounds, "held": bounds}}, random_state=0)
    cut, held = (in_words(found.columns[name]) for name in ("cut", "held"))
    share = float(re.search(r"about ([\d.]+) % of the values lie in or above its highest bin", cut)[1])
    assert 9 < share < 16 and "lowest bin" not in cut and "bin" not in held
    assert "mean of the values cut to this range" in cut


def test_the_spread_of_dates_is_in_days():
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.random.default_rng(0).integers(0, 1500, 3000), unit="D")
    page = profile_page(dperm.profile(pd.DataFrame({"since": days, "age": np.arange(3000) % 90}), epsilon=3.0, random_state=0))
    assert page.count("standard deviation, in days") == 1 and page.count("standard deviation<") == 1


def test_a_notebook_shows_what_a_profile_found():
    found = dperm.profile(pd.DataFrame({"age <b>": np.arange(3000) % 90}), epsilon=3.0, random_state=0)
    box = found._repr_html_()
    assert "what was found" in box and "numbers, " in box and "age &lt;b&gt;" in box and "<b>age" not in box
