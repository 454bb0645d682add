"""The command as a person uses it, in an empty folder, with the mistakes people make."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from command_line import run
from dperm.cli import main

SCHEMA = {
    "columns": {
        "age": {"type": "numeric", "low": 0, "high": 100},
        "town": {"type": "categorical", "levels": ["Aa", "Bb"]},
        "note": {"type": "ignored"},
    },
    "target": {"column": "sick", "type": "classes", "classes": ["no", "yes"]},
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    lines = ["age,town,note,sick"]
    for _ in range(500):
        age = generator.uniform(0, 100)
        lines.append(f"{age:.1f},{'Aa' if generator.random() < 0.5 else 'Bb'},x,{'yes' if age > 50 else 'no'}")
    lines[3] = "old,Cc,x,maybe"  # a row with a cell that does not parse, an unknown level, an unknown label
    lines[4] = ",,x,"
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "people.json").write_text(json.dumps(SCHEMA))
    return tmp_path


def fit(folder, *more, out="out"):
    return run("fit", "people.csv", "--schema", "people.json", "--epsilon", 3, "--out", out, *more)


def test_fit_predict_verify(folder):
    _, text = fit(folder, "--target", "sick")
    assert "replace-one" in text and "report" in text
    assert sorted(p.name for p in (folder / "out").iterdir()) == ["certificate.json", "model.json", "report.html", "report.md"]
    page = (folder / "out" / "report.html").read_text()
    assert "<html" in page and "differential privacy" in page and "http" not in page.replace("http-equiv", "")
    _, text = run("verify", "out/certificate.json", "--model", "out/model.json")
    assert text.startswith("verified: (3, 1e-06)-differential privacy")
    _, text = run("predict", "out/model.json", "people.csv", "--probabilities")
    lines = text.splitlines()
    assert len(lines) == 501 and lines[0] == "prediction,probability of no,probability of yes"
    run("predict", "out/model.json", "people.csv", "--out", "predictions.csv")
    assert (folder / "predictions.csv").read_text().startswith("prediction\n")


def test_verify_fails_with_the_reason_when_anything_was_altered(folder):
    fit(folder)
    path = folder / "out" / "certificate.json"
    record = json.loads(path.read_text())
    record["guarantee"]["epsilon"] = 0.5
    path.write_text(json.dumps(record))
    _, text = run("verify", "out/certificate.json", code=1)
    assert "NOT VERIFIED" in text and "guarantee.epsilon says 0.5" in text
    _, text = run("verify", "out/certificate.json", "--json", code=1)
    assert json.loads(text)["ok"] is False


def test_verify_notices_another_model(folder):
    fit(folder)
    model = json.loads((folder / "out" / "model.json").read_text())
    model["w"][0] += 1
    (folder / "out" / "model.json").write_text(json.dumps(model))
    _, text = run("verify", "out/certificate.json", "--model", "out/model.json", code=1)
    assert "not the certified ones" in text


def test_seeded_fits_need_consent_to_verify(folder):
    fit(folder, "--random-state", 1)
    _, text = run("verify", "out/certificate.json", code=1)
    assert "NOT private" in text
    run("verify", "out/certificate.json", "--allow-seeded")


def test_schema_drafts_copy_no_value(folder):
    _, text = run("schema", "people.csv")
    assert set(json.loads(text)["columns"]) == {"age", "town", "note", "sick"}
    assert {column["type"] for column in json.loads(text)["columns"].values()} == {None}
    assert "Aa" not in text and "yes" not in text
    _, text = run("schema", "people.csv", "--types", "age=numeric, town=categorical, *=ignored")
    draft = json.loads(text)["columns"]
    assert draft["age"] == {"type": "numeric", "low": None, "high": None} and draft["note"] == {"type": "ignored"}
    assert draft["town"] == {"type": "categorical", "levels": []}
    for wrong, words in (("agee=numeric", "mean 'age'?"), ("age=numerical", "mean 'numeric'?"), ("age", "COLUMN=TYPE")):
        assert words in run("schema", "people.csv", "--types", wrong, code=2)[1]
    run("schema", "people.csv", "--out", "draft.json")
    code, message = run("fit", "people.csv", "--schema", "draft.json", "--epsilon", 1)
    assert code == 2 and "Expected" in message


ODD = ["x", "1.5", "", "NA", "true", "2020-01-01", '"a, b"', '"two\nlines"', "\xff\xfe", "9" * 400, "=1+1"]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("place", [0, 7, 299])
def test_no_cell_of_a_csv_can_change_a_draft(folder, odd, place):
    """Arrow infers types from cells; one person's cell made a column of numbers one of words. Names alone are public."""
    rows = [f"{i},{i % 2},{i}.5,true,2020-01-02" for i in range(300)]
    header = 'age,"part, ""x""",amount,member,day'
    (folder / "t.csv").write_text("\n".join([header, *rows]) + "\n", encoding="latin-1")
    _, before = run("schema", "t.csv")
    for column in range(5):
        cells = rows[place].split(",")
        cells[column] = odd
        changed = [*rows[:place], ",".join(cells), *rows[place + 1 :]]
        (folder / "t.csv").write_text("\n".join([header, *changed]) + "\n", encoding="latin-1")
        assert run("schema", "t.csv")[1] == before
    assert list(json.loads(before)["columns"]) == ["age", 'part, "x"', "amount", "member", "day"]


def test_stored_types_are_drafted_from_the_schema_of_a_file(folder):
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    table = pa.table({"age": pa.array([1, 2]), "town": ["Aa", "Bb"], "member": [True, False], "price": pa.array([1.5, None])})
    (folder / "parts").mkdir()
    for place in ("t.parquet", "parts/a.parquet"):
        pyarrow.parquet.write_table(table, folder / place)
    pyarrow.feather.write_feather(table, str(folder / "t.arrow"), compression="uncompressed")
    for place in ("t.parquet", "parts", "t.arrow"):
        columns = json.loads(run("schema", place)[1])["columns"]
        assert [column["type"] for column in columns.values()] == ["numeric", "categorical", "boolean", "numeric"]
        assert json.loads(run("schema", place, "--types", "age=ignored")[1])["columns"]["age"] == {"type": "ignored"}


def test_parquet_works_like_csv(folder):
    import pyarrow.csv
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.csv.read_csv("people.csv"), "people.parquet")
    run("fit", "people.parquet", "--schema", "people.json", "--epsilon", 3, "--out", "out")
    run("verify", "out/certificate.json")


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("people.json", "{", "does not parse"),
        ("people.json", json.dumps({"columns": {}}), "Expected a schema"),
        ("people.json", json.dumps({"columns": {"age": {"type": "number"}}}), "type of column 'age'"),
        ("people.json", json.dumps({"columns": {"age": {"type": "numeric", "low": 0}}}), "high of column 'age'"),
        ("people.json", json.dumps({"columns": {"age": {"type": "numeric", "low": 5, "high": 1}}}), "low < high"),
        ("people.json", json.dumps({"columns": {"age": {"type": "numeric", "lo": 5}}}), "lo"),
        ("people.json", json.dumps({"columns": {"age": {"type": "numeric", "min": 5}}}), "found ['min']. Did you mean 'low'?"),
        ("people.json", json.dumps({"columns": {"agee": SCHEMA["columns"]["age"]}, "target": SCHEMA["target"]}), "'agee'"),
        ("people.json", json.dumps({"columns": SCHEMA["columns"]}), "Expected a target"),
        ("people.csv", "", "header line"),
        ("people.csv", "age,town,note,sick\n", "at least one row"),
        ("people.csv", "age,town,note,sick\n1,Aa,x,yes\n1,2,3,4,5\n", "does not read"),
        ("people.csv", "age,age,note,sick\n1,2,x,yes\n", "twice"),
        ("people.csv", "age;town;note;sick\n1;Aa;x;yes\n", "found semicolons. Save"),
        ("people.csv", "age\ttown\tnote\tsick\n1\tAa\tx\tyes\n", "found tabs. Save"),
        ("people.csv", b"age,town,note,sick,\xe9\n1,Aa,x,yes,1\n", "Save it as CSV in UTF-8"),
        ("people.json", json.dumps({**SCHEMA, "traget": {}}), "found 'traget'. Did you mean 'target'?"),
        ("people.json", json.dumps({"colums": SCHEMA["columns"]}), "found 'colums'. Did you mean 'columns'?"),
        ("people.json", json.dumps({**SCHEMA, "target": {"column": "sick", "type": "class"}}), "Did you mean 'classes'?"),
        ("people.json", json.dumps({**SCHEMA, "target": {**SCHEMA["target"], "classes": ["no"]}}), "['no']. List"),
        ("people.json", json.dumps({**SCHEMA, "target": {"column": "sick", "type": "numeric", "low": 1}}), "found 1 and nothing"),
        ("people.json", json.dumps({"columns": {"age": {"type": "numeric", "low": 5, "high": 1}}}), "5 and 1. Exchange"),
        ("people.json", json.dumps({"columns": {"age": {"type": "numeric", "low": "5", "high": 9}}}), "without quotes"),
        ("people.json", json.dumps({"columns": {"age": {"type": "numeric", "low": None, "high": 9}}}), "found nothing. Fill in"),
        ("people.json", '{"columns": {},}', "a comma is missing or too many"),
    ],
)
def test_mistakes_are_explained_and_nothing_is_written(folder, file, text, words):
    (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    code, message = fit(folder)
    assert code == 2 and words in message
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--target", "height"], "'height'"),
        (["--delta", "0.5"], "1/n"),
        (["--model", "Oracle"], "Expected a model"),
        (["--relation", "add-remove"], "--nominal-n"),
        (["--nominal-n", "0"], "n ≥ 1"),
        (["--nominal-n", "30"], "or 500, the number of rows, which is public"),
        (["--epsilon", "0"], "epsilon > 0, found 0.0"),
        (["--method", "gradiant"], "Did you mean 'gradient'?"),
    ],
)
def test_wrong_options_are_explained(folder, options, words):
    code, message = fit(folder, *options)
    assert code == 2 and words in message and not (folder / "out").exists()


def test_all_columns_with_mistakes_are_named_at_once(folder):
    run("schema", "people.csv", "--out", "draft.json")
    code, message = run("fit", "people.csv", "--schema", "draft.json", "--target", "sick", "--epsilon", 1)
    assert code == 2 and len(message.splitlines()) == 1 and "a type of columns 'age', 'town', 'note', 'sick'" in message


def test_other_files_than_the_expected_one_are_named(folder):
    (folder / "t.xlsx").write_bytes(b"PK\x03\x04")
    (folder / "empty").mkdir()
    fit(folder)
    for words, message in (
        (["schema", "t.xlsx"], "a spreadsheet. Save it as CSV"),
        (["fit", "t.xlsx", "--schema", "people.json", "--epsilon", "1", "--out", "o"], "a spreadsheet. Save it as CSV"),
        (["fit", ".", "--schema", "people.json", "--epsilon", "1", "--out", "o"], "a folder with other files than Parquet"),
        (["verify", "empty"], "found a folder. Pass one of its files"),
        (["predict", "out/certificate.json", "people.csv"], "Pass model.json"),
        (["fit", "people.csv", "--schema", "people.csv", "--epsilon", "1", "--out", "o"], "Check the path"),
        (["theory", "gradient-descnt"], "Did you mean 'gradient-descent'?"),
        (["theory", "gradient-descent", "n=many"], "a number for n of gradient-descent, found 'many'"),
        (["theory", "gradient-descent", "n=10000"], "found no d, lipschitz, epsilon, delta. Write `dperm theory"),
        (["plan", "--schema", "people.json", "--n", "0", "--epsilon", "1"], "n ≥ 1"),
        (["plan", "--schema", "people.json", "--n", "-3", "--epsilon", "1"], "n ≥ 1"),
    ):
        code, found = run(*words, code=2)
        assert code == 2 and message in found, (words, found)


def test_names_with_spaces_and_accents_work_and_are_drafted_as_written(folder):
    (folder / "é.csv").write_text("annual income,région,sick\n" + "1,Süd,no\n2,Nord,yes\n" * 50, encoding="utf-8")
    run("schema", "é.csv", "--out", "d.json")
    draft = (folder / "d.json").read_text(encoding="utf-8")
    assert '"région"' in draft and '"annual income"' in draft
    columns = {"annual income": {"type": "numeric", "low": 0, "high": 9}}
    columns["région"] = {"type": "categorical", "levels": ["Süd", "Nord"]}
    (folder / "é.json").write_text(json.dumps({"columns": columns, "target": SCHEMA["target"]}))
    run("fit", "é.csv", "--schema", "é.json", "--epsilon", 1, "--out", "modèle 1")
    assert "région=Süd" in (folder / "modèle 1" / "report.html").read_text(encoding="utf-8")


def test_error_text_never_quotes_a_row(folder):
    (folder / "people.csv").write_text("age,town,note,sick\n1,Aa,x,yes\nsecret,2,3,4,5\n")
    _, message = fit(folder)
    assert "secret" not in message


def test_a_real_shell_gets_exit_code_2_and_one_sentence(folder):
    result = subprocess.run(
        [sys.executable, "-m", "dperm", "fit", "people.csv", "--schema", "people.json", "--epsilon", "-1"],
        capture_output=True, text=True, cwd=folder,
    )  # fmt: skip
    assert result.returncode == 2
    assert result.stderr == "dperm: Expected epsilon > 0, found -1.0. Pass a positive privacy budget, e.g. --epsilon 1.0.\n"


def test_json_output_is_json(folder):
    _, text = fit(folder, "--json")
    assert json.loads(text)["epsilon"] == 3


def test_full_disk_writes_nothing(folder, monkeypatch):
    from pathlib import Path

    real = Path.write_text

    def full(self, text, **options):
        if self.name == ".report.html.part":
            raise OSError(28, "No space left on device")
        return real(self, text, **options)

    monkeypatch.setattr(Path, "write_text", full)
    code, message = fit(folder)
    assert code == 2 and "Nothing was written" in message
    assert list((folder / "out").iterdir()) == []


def test_main_is_the_entry_point():
    assert callable(main)


def test_demo_ends_with_everything_a_person_asks_for(folder):
    _, text = run("demo", "--out", "demo", "--json")
    found = json.loads(text)
    assert float(found["accuracy, private"]) > 0.80
    assert float(found["accuracy, non-private"]) == pytest.approx(0.852, abs=0.002)
    assert found["certificate"] == "verified" and found["noise"] == "secure" and found["relation"] == "replace-one"
    assert (folder / "demo" / "report.html").exists()


def test_plan_reproduces_the_table_of_noise_levels():
    """σ of objective perturbation at δ = 1e-6 and rows of norm 1: half ridge, default ridge, Redberg et al., Gaussian floor."""
    _, text = run("plan", "--model", "logistic", "--compare-accounting", "--json")
    found = {row["epsilon"]: row for row in json.loads(text)["zero-out"]}
    printed = {0.1: (41.837, 36.305, 49.793, 36.305), 1.0: (4.5773, 4.2247, 5.9921, 4.2247)}
    printed |= {4.0: (1.2254, 1.1935, None, 1.1935), 8.0: (0.6607, 0.6529, None, 0.6529)}
    for epsilon, numbers in printed.items():
        for name, number in zip(("half", "default", "redberg", "gaussian"), numbers):
            value = found[epsilon][name]
            assert value is None if number is None else value == pytest.approx(number, abs=6e-4 if epsilon == 0.1 else 6e-5)


def test_plan_says_which_n_or_epsilon_is_needed():
    _, text = run("plan", "--n", 20000, "--d", 10, "--epsilon", 1, "--target-risk", 0.01, "--json")
    found = json.loads(text)
    assert found["sample_size"]["gradient"] > 1 and 0 < found["epsilon_needed"]["gradient"] < 1
    code, message = run("plan", "--d", 10)
    assert code == 2 and "found no --n" in message and "--d 20" in message
