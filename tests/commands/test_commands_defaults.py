"""What the command line fills in by itself: ledger files, names of theorems and models, relations, options after the command."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import dperm
from dperm.cli import app
from dperm.commands import benching, shared
from dperm.commands.planning import theorem
from dperm.estimators import outlook as advice
from dperm.theory import THEOREMS, pac_sample_size

RUN = CliRunner().invoke


def answer(*words: str, **environment: str) -> dict:
    found = RUN(app, [*words, "--json"], env=environment)
    assert found.exit_code == 0, (words, found.output, found.exception)
    return json.loads(found.stdout)


def refusal(*words: str, **environment: str) -> str:
    found = RUN(app, list(words), env=environment)
    assert isinstance(found.exception, ValueError), (words, found.output)
    return str(found.exception)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a table of classes and numbers, and a schema for each target."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPERM_LEDGER", raising=False)
    draws = np.random.default_rng(3).uniform(-1, 1, (200, 2))
    rows = [f"{a:.3f},{a + b:.3f},{'yes' if a + b > 0 else 'no'},{int(a + b > 0)}" for a, b in draws]
    (tmp_path / "people.csv").write_text("a,v,y,k\n" + "\n".join(rows) + "\n")
    targets = {
        "words": {"column": "y", "type": "classes", "classes": ["no", "yes"]},
        "whole": {"column": "k", "type": "classes", "classes": [0, 1]},
        "number": {"column": "v", "type": "numeric", "low": -2, "high": 2},
    }
    for name, target in targets.items():
        columns = {"a": {"type": "numeric", "low": -1, "high": 1}}
        (tmp_path / f"{name}.json").write_text(json.dumps({"columns": columns, "target": target}))
    return tmp_path


BUDGET = ("--dataset", "people", "--epsilon", "3", "--delta", "1e-6")


def test_the_ledger_file_may_be_left_out(folder):
    assert "found no *.ledger file" in refusal("ledger", "show")
    assert answer("ledger", "create", *BUDGET)["file"] == "people.ledger" and (folder / "people.ledger").is_file()
    assert answer("ledger", "show")["dataset"] == "people" and answer("ledger", "verify")["ok"]
    assert len(answer("ledger", "export")["entries"]) == 1
    assert answer("ledger", "admit", "people.csv") == {"admitted": "people.csv"}
    assert "never overwritten" in refusal("ledger", "create", *BUDGET)
    assert answer("ledger", "create", "b.ledger", *BUDGET)["file"] == "b.ledger"
    for command in (["show"], ["verify"], ["export"], ["admit", "people.csv"]):
        assert "found 2: b.ledger, people.ledger. Pass it" in refusal("ledger", *command)


def test_a_name_that_is_no_file_name_needs_a_file(folder):
    for name in ("../people", "a/b", "", ".hidden"):
        words = ("ledger", "create", "--dataset", name, "--epsilon", "3", "--delta", "1e-6")
        assert "Pass one before --dataset" in refusal(*words)
    assert list(folder.rglob("*.ledger")) == []


def test_the_environment_names_the_ledger_of_every_command_that_uses_one(folder):
    answer("ledger", "create", "x.ledger", *BUDGET)
    (folder / "y.ledger").write_bytes((folder / "x.ledger").read_bytes())
    assert answer("ledger", "show", DPERM_LEDGER="x.ledger")["fits"] == 0
    fit = ("fit", "people.csv", "--schema", "words.json", "--method", "gradient", "--epsilon", "1")
    answer(*fit, DPERM_LEDGER="x.ledger")
    assert answer("ledger", "show", "x.ledger")["fits"] == 1 and answer("ledger", "show", "y.ledger")["fits"] == 0
    evaluate = ("evaluate", "dperm-model/model.json", "people.csv", "--epsilon", "1")
    answer(*evaluate, DPERM_LEDGER="x.ledger")
    assert answer("ledger", "show", DPERM_LEDGER="x.ledger")["fits"] == 2
    assert "left" in refusal("plan", "--n", "200", "--d", "1", "--epsilon", "3", DPERM_LEDGER="x.ledger")


def test_the_configuration_names_the_ledger_too(folder):
    (folder / "dperm.toml").write_text('[ledger]\nfile = "own.ledger"\n[ledger.create]\ndelta = 1e-7\n')
    made = answer("ledger", "create", "--dataset", "people", "--epsilon", "3")
    assert made["file"] == "own.ledger" and made["delta"] == 1e-7
    answer("ledger", "create", "other.ledger", *BUDGET)
    assert answer("ledger", "show")["delta"] == 1e-7 and answer("ledger", "show", DPERM_LEDGER="other.ledger")["delta"] == 1e-6
    (folder / "dperm.toml").write_text('[ledger]\nfiel = "own.ledger"\n')
    assert "found 'fiel'" in refusal("ledger", "show")


@pytest.mark.parametrize("name", THEOREMS)
def test_every_theorem_is_drawn_by_its_name_alone(folder, name):
    """The numbers are then those of the example that the command gives, so every example works too."""
    found = answer("theory", name, "--plot")
    assert found["plot"] == f"{name}.svg" and (folder / found["plot"]).read_text().startswith("<?xml")
    assert np.isfinite(found["value"]) and len(found) > 3  # name, value, picture and the numbers


def test_theorems_go_by_the_names_of_their_functions(folder):
    numbers = ["hypotheses=1000", "alpha=.1", "beta=.05"]
    want = answer("theory", "pac", *numbers)
    assert want["value"] == pac_sample_size(hypotheses=1000, alpha=0.1, beta=0.05)
    for name in ("pac_sample_size", "pac-sample-size"):
        assert answer("theory", name, *numbers) == want
    for key, function in THEOREMS.items():
        assert theorem(function.__name__) == theorem(key.replace("-", "_")) == key
    assert "Did you mean 'pac_sample_size'?" in refusal("theory", "pac_sample_sise", *numbers)
    assert answer("theory", "pac", *numbers, "realizable=True")["realizable"] is True


def test_a_picture_is_drawn_where_it_is_wanted(folder):
    words = ["n=1000", "d=5", "lipschitz=1", "diameter=1", "epsilon=1", "delta=1e-6"]
    (folder / "sub").mkdir()
    for asked, file in (
        (["--plot", *words], "gradient-descent.svg"),
        ([*words, "--plot", "own.png"], "own.png"),
        ([*words, "--plot=own.svg"], "own.svg"),
        ([*words, "--plot", "sub"], "sub/gradient-descent.svg"),
        (["--plot", "a=b.svg", *words], "a=b.svg"),
    ):
        said = RUN(app, ["theory", "gradient-descent", *asked])
        assert said.exit_code == 0 and f"drawn in {file}" in said.output and (folder / file).is_file(), said.output
    assert "ends in .svg or .png" in refusal("theory", "gradient-descent", *words, "--plot", "own.txt")
    assert answer("theory", "--plot", "gradient-descent", *words)["plot"] == "gradient-descent.svg"


def leaves(words, command):
    for name, inner in getattr(command, "commands", {}).items():
        yield from leaves([*words, name], inner)
    if not getattr(command, "commands", None):
        yield words, {option for item in command.params for option in item.opts}


def test_quiet_goes_after_every_command_too(folder):
    for words, options in leaves([], get_command(app)):
        assert {"--quiet", "-q", "--json"} <= options, words
    for word in ("--quiet", "-q"):
        fit = ["fit", "people.csv", "--schema", "words.json", "--method", "gradient", "--epsilon", "1", "--overwrite", word]
        for asked in (fit, ["theory", word], ["ledger", "create", f"{word}.ledger".strip("-"), *BUDGET, word]):
            found = RUN(app, asked)
            assert found.exit_code == 0 and found.output == "", (asked, found.output)
    assert RUN(app, ["theory"]).output  # and it does not last
    assert answer("theory", "privacy-is-free", "alpha=0.1", "--quiet")["value"] == 0.1


def test_bench_runs_the_script_of_a_clone(folder, monkeypatch):
    monkeypatch.setattr(benching, "__file__", str(folder / "site" / "dperm" / "commands" / "benching.py"))
    assert "Clone it" in refusal("bench", "--quick")
    for part in ("benchmarks", "src/dperm", "elsewhere"):
        (folder / part).mkdir(parents=True)
    (folder / "src/dperm/cli.py").touch()
    script = "import json, sys\nopen(sys.argv[sys.argv.index('--out') + 1], 'w').write(json.dumps({'words': sys.argv[1:]}))\n"
    (folder / "benchmarks/speed.py").write_text(script + "sys.exit(3 if '--fail' in sys.argv else 0)\n")
    monkeypatch.chdir(folder / "elsewhere")
    assert RUN(app, ["bench", "--quick", "--out", "s.json"]).exit_code == 0
    assert json.loads((folder / "elsewhere/s.json").read_text()) == {"words": ["--quick", "--out", "s.json"]}
    assert answer("bench", "--quick")["words"][0] == "--quick"
    assert answer("bench", "--out", "t.json")["words"] == ["--out", "t.json"]
    for json_word in ([], ["--json"]):
        assert RUN(app, ["bench", "--fail", "--out", "s.json", *json_word]).exit_code == 3


PLAN = ("plan", "--n", "2000", "--d", "3", "--epsilon", "1", "--model")


@pytest.mark.parametrize("model", advice.MODELS)
def test_every_model_that_public_numbers_determine_is_planned(model):
    short = next(word for word, name in advice.MODEL_WORDS.items() if name == model).title()
    found = answer(*PLAN, short, "--target-risk", "0.05")
    assert found["model"] == model == advice.named(model)
    assert found["mechanism"] in [entry["mechanism"] for entry in found["alternatives"]]
    spoken = any(value is not None for value in found["predicted_risk"].values())
    assert spoken == (model in advice.BOUNDED) == any(value for key, value in found["epsilon_needed"].items())
    assert found["relation"] == ("zero-out" if model == "MLPClassifier" else "replace-one")
    if not spoken:  # the others take seconds
        assert answer(*PLAN, model, "--relation", "add-remove")["relation"] == "add-remove"


def test_the_plan_is_the_one_that_a_fit_makes(folder):
    draws = np.random.default_rng(0).uniform(0, 1, (2000, 3))
    for name, given in (
        ("MeanEstimator", {}),
        ("MedianEstimator", {}),
        ("Lasso", {"y_bounds": (0, 1)}),
        ("PoissonRegressor", {"y_bounds": (0, 1)}),
        ("MLPClassifier", {"classes": [0, 1]}),
        ("GAMClassifier", {"classes": [0, 1]}),
        ("GAMRegressor", {"y_bounds": (0, 1)}),
        ("EmbeddingClassifier", {"classes": [0, 1]}),
    ):
        labels, bounded = (draws[:, 0] > 0.5).astype(int), {} if name == "EmbeddingClassifier" else {"bounds": (0, 1)}
        fitted = getattr(dperm, name)(epsilon=1.0, random_state=0, **bounded, **given).fit(draws, labels)
        assert answer(*PLAN, name)["stages"] == [{"name": s.name, "event": s.event.spec()} for s in fitted.plan_.stages], name


def test_a_target_risk_is_enough_to_plan():
    """Without --epsilon: the smallest that a bound needs, at which that bound meets the target; a little less does not."""
    asked = ("plan", "--n", "6000", "--d", "20", "--target-risk", "0.05")
    found = answer(*asked)
    assert found["epsilon"] == 0.27 and min(value for value in found["predicted_risk"].values() if value) <= 0.05
    less = answer(*asked, "--epsilon", "0.26")
    assert min(value for value in less["predicted_risk"].values() if value) > 0.05
    text = RUN(app, list(asked)).output
    assert "planned for 0.27" in text and "0.266\n" in text and "0.2664" not in text and "mean loss of the fit above" in text
    assert "found no --n." in refusal("plan", "--epsilon", "1", "--d", "20")
    assert "no theorem here says" in refusal("plan", "--n", "6000", "--d", "20", "--model", "lasso", "--target-risk", "0.05")


def test_what_cannot_be_planned_is_said():
    assert "needs its class of rules" in refusal(*PLAN, "FiniteClassLearner")
    assert "Did you mean 'Lasso'?" in refusal(*PLAN, "Lassoo")
    assert "It has one mechanism" in refusal(*PLAN, "mean", "--method", "gradient")
    for radius in ("0", "-1", "nan", "inf"):
        assert "Expected a radius > 0" in refusal(*PLAN, "ridge", "--radius", radius)
    for goal in ("0", "-1", "nan"):
        assert "Expected a target risk > 0" in refusal(*PLAN, "lasso", "--target-risk", goal)


FIT = ("fit", "people.csv", "--epsilon", "1", "--overwrite", "--schema")


def test_models_of_another_kind_than_the_target_are_refused(folder):
    wrong = {"words": ("linear", "ridge", "Lasso", "poisson"), "number": ("svm", "mlp")}
    for schema, word in (("words", "has classes"), ("number", "is numeric")):
        for model in wrong[schema]:
            for asked in ((*FIT, f"{schema}.json"), ("plan", "--n", "200", "--epsilon", "1", "--schema", f"{schema}.json")):
                text = refusal(*asked, "--model", model)
                assert word in text and "Pass --model with one of" in text
    told = refusal(*FIT, "words.json", "--model", "linear")
    assert "one of GAMClassifier, LinearSVC, LogisticRegression, MLPClassifier, or leave" in told
    assert "EmbeddingClassifier is for Python" in refusal(*FIT, "words.json", "--model", "EmbeddingClassifier")
    assert "MeanEstimator is for Python" in refusal(*FIT, "number.json", "--model", "mean")


def test_the_relation_is_the_models_own_unless_asked_for(folder):
    words = (*FIT, "words.json", "--model", "mlp")
    said = RUN(app, list(words))
    assert said.exit_code == 0 and "zero-out (the default of MLPClassifier; see --relation)" in said.output
    assert answer(*words)["relation"] == "zero-out"
    assert answer(*words, "--relation", "replace-one")["relation"] == "replace-one"
    assert answer(*FIT, "words.json", "--method", "gradient")["relation"] == "replace-one"


@pytest.mark.parametrize("memory", ["3parsecs", "GB", "-1GB", "infGB", "0MB", "1"])
def test_memory_is_checked_also_for_small_files(folder, memory):
    assert "memory" in refusal("fit", "absent.csv", "--schema", "absent.json", "--epsilon", "1", "--memory", memory)


@pytest.mark.parametrize(("schema", "kinds"), [("words", {"no", "yes"}), ("whole", {0, 1}), ("number", float)])
def test_predictions_as_json_have_the_type_of_the_target(folder, schema, kinds):
    answer(*FIT, f"{schema}.json", "--method", "gradient")
    found = answer("predict", "dperm-model/model.json", "people.csv")["predictions"]
    assert len(found) == 200
    if kinds is float:
        assert all(type(value) is float for value in found)
    else:
        assert set(found) <= kinds and {type(value) for value in found} <= {type(value) for value in kinds}


def test_a_poisson_fit_is_checked_against_its_ledger(folder):
    answer("ledger", "create", *BUDGET)
    schema = {"columns": {"a": {"type": "numeric", "low": -1, "high": 1}}}
    schema["target"] = {"column": "k", "type": "count", "low": 0, "high": 5}
    (folder / "count.json").write_text(json.dumps(schema))
    assert answer(*FIT, "count.json", "--ledger", "people.ledger")["mechanism"] == "scaled-poisson"
    assert answer("ledger", "show")["fits"] == 1


def test_audits_end_with_how_many_were_not_run(monkeypatch):
    case = SimpleNamespace(name="Ridge", relation="zero-out", noise="secure")
    common = {"case": case, "mechanism": "auto", "found": None, "words": "-"}
    verdicts = {"holds": "", "not run": "not run: out of time", "refused": "no null row"}
    results = [SimpleNamespace(verdict=verdict, note=note, **common) for verdict, note in verdicts.items()]
    monkeypatch.setattr("dperm.audit.suite.run_suite", lambda cases, **options: results)
    said = RUN(app, ["audit", "Ridge"])
    assert said.exit_code == 0
    assert said.output.splitlines()[-1] == "3 audits: 0 violated, 1 holds, 1 refused, 1 not run for want of time: raise --minutes"
    found = answer("audit", "Ridge")
    assert found["not_run"] == 1 and [row["verdict"] for row in found["audits"]] == list(verdicts)


@pytest.mark.parametrize(("only", "noise"), [("exact", {"exact"}), ("intervals", {"secure"})])
def test_a_part_of_the_audits_is_named_by_its_method_or_its_noise(monkeypatch, only, noise):
    ran = []
    monkeypatch.setattr("dperm.audit.suite.run_suite", lambda cases, **options: ran.extend(cases) or [])
    monkeypatch.setattr("dperm.audit.closed_form.exact_rows", lambda only: [])
    monkeypatch.setattr("dperm.audit.planted.planted", list)
    assert RUN(app, ["audit", "--suite", "--only", only]).exit_code == 0
    assert ran and {case.noise for case in ran} == noise
    said = RUN(app, ["audit", "--suite", "--only", "nothing of that name"])
    assert "Expected a text that some method holds" in str(said.exception)


def test_people_read_six_digits_and_programs_all(capsys):
    shared.show({"epsilon": 0.6999999999999, "noise": "secure"}, as_json=False)
    assert capsys.readouterr().out.split() == ["epsilon", "0.7", "noise", "secure"]
    shared.show({"epsilon": 0.6999999999999}, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"epsilon": 0.6999999999999}
