"""What needs no data is refused before a profile is paid for; what a profile decides is refused with what was paid."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import dperm
from command_line import run
from dperm.privacy import event_from_spec
from dperm.privacy.filters import Filter

PRIVATE = ["--bounds", "private", "--levels", "private"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table of 3,000 rows and a ledger that has room for one fit."""
    draws, lines = np.random.default_rng(5), ["member,age,branch,visits,left"]
    for number in range(3000):
        age, visits = draws.integers(18, 85), draws.choice([0, 1, 2, 3, 5])
        left = "yes" if draws.random() < 0.2 + 0.008 * (age - 18) else "no"
        lines.append(f"m{number // 2},{age},{draws.choice(['north', 'south'])},{visits},{left}")
    (tmp_path / "members.csv").write_text("\n".join(lines) + "\n")
    dperm.Ledger.create(tmp_path / "m.ledger", dataset="members", epsilon=2.0, delta=1e-6)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fit(*words: str, target: str = "left", epsilon: str = "1.5", out: str = "o") -> tuple[int, str]:
    return run("fit", "members.csv", "--target", target, "--epsilon", epsilon, *PRIVATE, "--out", out, *words)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--model", "logistic_regression"], "Did you mean 'LogisticRegression'?"),
        (["--method", "foo"], "Expected method in"),
        (["--method", "objectiv"], "Did you mean 'objective'?"),
        (["--model", "svm", "--method", "statistics"], "Expected a problem that 'statistics' can solve"),
        (["--model", "ridge", "--class-weight", "yes=3"], "for a target with classes, found 'yes=3'"),
        (["--class-weight", "yes"], "Expected --class-weight CLASS=WEIGHT for a target with classes, found 'yes'"),
        (["--class-weight", "yes=-1"], "Expected class weights ≥ 0"),
        (["--exposure", "visits", "--max-exposure", "3"], "found --max-exposure"),
        (["--intervals", "--model", "svm"], "Expected a model with intervals"),
        (["--weight", "nope", "--max-weight", "2"], "found 'nope', no such column"),
        (["--weight", "left", "--max-weight", "2"], "found 'left', a declared feature or the target"),
        (["--relation", "other"], "Expected relation in"),
        (["--relation", "add-remove"], "nominal"),
        (["--person", "membr", "--max-rows-per-person", "2"], "Did you mean 'member'?"),
        (["--noise", "loud"], "noise"),
        (["--cache", "rows", "--weight", "visits", "--max-weight", "2"], "Expected a file that fits into memory for --weight"),
    ],
)
def test_what_needs_no_data_is_refused_before_anything_is_spent(folder: Path, words: list[str], answer: str) -> None:
    code, message = fit(*words, "--ledger", "m.ledger")
    assert code == 2 and answer in message
    assert "paid" not in message and not (folder / "o").exists() and dperm.Ledger("m.ledger").account().fits == 0


def test_a_fit_that_a_ledger_has_no_room_for_is_refused_before_its_profile(folder: Path) -> None:
    """The profile alone would fit into the ledger; the profile with its fit does not."""
    code, message = fit("--ledger", "m.ledger", epsilon="2.5")
    assert code == 2 and "nothing was spent" in message
    assert dperm.Ledger("m.ledger").account().fits == 0 and not (folder / "o").exists()
    assert fit("--ledger", "m.ledger", epsilon="1.8")[0] == 0
    assert dperm.Ledger("m.ledger").account().fits == 2


@pytest.mark.parametrize(
    ("words", "target", "answer"),
    [
        (["--model", "ridge"], "left", "which has classes, found Ridge"),
        (["--class-weight", "maybe=3"], "left", "with a class in no, yes, found 'maybe=3'"),
        ([], "member", "is no target"),
    ],
)
def test_what_a_profile_decides_is_refused_with_what_was_paid(folder: Path, words: list[str], target: str, answer: str) -> None:
    code, message = fit(*words, target=target)
    assert code == 2 and answer in message
    assert "is paid for (epsilon 0.4" in message and "Go on with --schema o/schema.json --epsilon 1." in message
    columns = json.loads((folder / "o" / "schema.json").read_text())["columns"]
    assert columns["age"]["type"] == "numeric" and columns["branch"]["levels"] == ["north", "south"]
    again, said = fit(target="left")
    assert again == 2 and "pass --schema o/schema.json in place of --bounds and --levels" in said


def test_what_was_kept_is_fitted_within_the_budget(folder: Path) -> None:
    _, message = fit("--class-weight", "maybe=3")
    left = message.partition("--schema o/schema.json --epsilon ")[2].split()[0]
    code, said = run("fit", "members.csv", "--schema", "o/schema.json", "--epsilon", left, "--out", "o")
    assert code == 0 and "o/model.json" in said
    rule = Filter.declare(1.5, 1e-6, "auto")
    records = [json.loads((folder / "o" / name).read_text()) for name in ("profile.json", "certificate.json")]
    costs = [rule.cost([event_from_spec(stage["event"]) for stage in record["stages"]]) for record in records]
    assert rule.accepts(costs) is not None


@pytest.fixture
def wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """So many rows that two classes are fitted by scaled-objective, whose cost is not that of a Gaussian; and two targets, one of
    0 and 1, which could be read as a number."""
    draws = np.random.default_rng(0)
    ages = draws.uniform(0, 9, 20_000)
    left = (ages + draws.normal(0, 2, len(ages)) > 4.5).astype(int)
    cards = draws.choice(["gold", "plain"], len(ages))
    rows = "".join(f"m{number},{age:.3f},{card},{label}\n" for number, (age, card, label) in enumerate(zip(ages, cards, left)))
    (tmp_path / "members.csv").write_text(f"member,age,card,left\n{rows}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_a_ledger_has_left_does_not_decide_the_type_of_a_target(wide: Path) -> None:
    """The ledger could pay a regression and not the classifier: it refuses, and no 0/1 target is read as a number for it."""
    book = dperm.Ledger.create(wide / "m.ledger", dataset="members", epsilon=1.4, delta=1e-6)
    before = dperm.LogisticRegression(epsilon=0.9, delta=1e-6, bounds=[(0, 9)], classes=[0, 1], method="scaled-gradient")
    book.debit(before.plan(20_000, d=1))
    code, message = fit("--delta", "1e-6", "--ledger", "m.ledger", epsilon="1")
    assert code == 2 and "nothing was spent" in message
    assert book.account().fits == 1 and not (wide / "o").exists()
    assert fit("--delta", "1e-6", "--ledger", "m.ledger", "--model", "linear", epsilon="1")[0] == 0
    assert book.account().fits == 3


@pytest.mark.parametrize(
    ("words", "target", "method"),
    [
        (["--class-weight", "maybe=3"], "left", "LogisticRegression by scaled-objective"),
        (["--class-weight", "maybe=3", "--method", "objective"], "left", "LogisticRegression by objective"),
        (["--model", "ridge"], "card", "LogisticRegression by scaled-objective"),
        ([], "member", "a fit by scaled-gradient"),
    ],
)
def test_the_epsilon_that_is_advised_is_that_of_the_method(wide: Path, words: list[str], target: str, method: str) -> None:
    """What is left for a Gaussian fit is too much for another: the words name the fit that they are true of."""
    code, message = fit("--delta", "1e-6", *words, target=target, epsilon="1")
    assert code == 2 and f"with {method} both stay within epsilon 1." in message
    options = message.partition("Go on with ")[2].partition(" in place of")[0].split()
    if target == "member":
        target = "card"
    code, said = run("fit", "members.csv", *options, *words[2:], "--target", target, "--delta", "1e-6", "--out", "o")
    assert code == 0 and "in all  " in said
    rule = Filter.declare(1.0, 1e-6, "auto")
    records = [json.loads((wide / "o" / name).read_text()) for name in ("profile.json", "certificate.json")]
    events = [[event_from_spec(stage["event"]) for stage in record["stages"]] for record in records]
    assert rule.accepts([rule.cost(part) for part in events]) is not None, said


@pytest.mark.parametrize(("model", "kind"), [("poisson", "count"), ("ridge", "numeric"), ("logistic", "classes")])
def test_a_model_that_is_named_decides_the_type_of_the_target(folder: Path, model: str, kind: str) -> None:
    code, said = fit("--model", model, target="visits")
    assert code == 0 and "bounds  " in said and "age " in said
    target = json.loads((folder / "o" / "schema.json").read_text())["target"]
    assert target["type"] == kind and (target.get("classes") == [0, 1, 2, 3, 5]) == (kind == "classes")
    assert run("verify", "o/profile.json")[0] == 0 and run("verify", "o")[0] == 0


def test_the_type_of_a_target_is_part_of_a_profile(folder: Path) -> None:
    import pandas

    table = pandas.read_csv("members.csv")
    numbers = dperm.profile(table, epsilon=2.0, target="visits", target_type="numeric", random_state=0)
    classes = dperm.profile(table, epsilon=2.0, target="visits", target_type="classes", random_state=0)
    assert numbers.schema().target.type == "numeric" and classes.schema().target.type == "classes"
    assert numbers.schema(target=False).target is None
    for asked, words in ((("visits", "text"), "type in"), ((None, "numeric"), "Expected a target for its type")):
        with pytest.raises(ValueError, match=words):
            dperm.profile(table, epsilon=2.0, target=asked[0], target_type=asked[1])
    altered = json.loads(numbers.to_json())
    altered["question"]["columns"][3]["wanted"] = "classes"
    assert not type(numbers).stated(altered).verify(allow_seeded=True).ok
