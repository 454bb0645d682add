"""Scores of classes, thresholds and groups: exact in the limit, bound in the record, the same from files, refused by name."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import confusion_matrix, f1_score, precision_score, r2_score, recall_score

import dperm
from dperm.commands.evaluating import score_lines
from dperm.evaluation.evaluate import Evaluation, evaluate, listed_scores
from dperm.evaluation.plan import Question
from dperm.pages.scores import evaluation_blocks

N = 3000


def people(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.uniform(0, 100, N), "town": rng.choice(["Aix", "Bonn", "Cork"], N, p=[0.6, 0.3, 0.1])})
    frame["member"] = rng.random(N) < 0.3
    frame["pay"] = frame["age"] + 20 * rng.standard_normal(N) + 10 * (frame["town"] == "Bonn")
    frame["grade"] = np.array(["low", "middle", "high"])[np.digitize(frame["pay"], [35, 80])]
    frame["rich"] = np.where(frame["pay"] > 60, "yes", "no")
    return frame


COLUMNS: dict[str, Any] = {
    "age": {"type": "numeric", "low": 0, "high": 100, "bins": 4},
    "town": {"type": "categorical", "levels": ["Aix", "Bonn", "Cork"]},
    "member": {"type": "boolean"},
}
TARGETS: dict[str, dict[str, Any]] = {
    "grade": {"column": "grade", "type": "classes", "classes": ["low", "middle", "high"]},
    "rich": {"column": "rich", "type": "classes", "classes": ["no", "yes"]},
    "pay": {"column": "pay", "type": "numeric", "low": -50, "high": 200},
}


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    kinds = {"grade": dperm.LogisticRegression, "rich": dperm.LogisticRegression, "pay": dperm.LinearRegression}
    return {
        name: kind(epsilon=20, schema={"columns": COLUMNS, "target": TARGETS[name]}, random_state=0).fit(people())
        for name, kind in kinds.items()
    }


def test_several_classes_in_the_limit(fitted: dict[str, Any]) -> None:
    table, model = people(1), fitted["grade"]
    found = evaluate(model, table, epsilon=1e4, random_state=0).metrics
    labels, said = ["low", "middle", "high"], model.predict(table)
    exact = confusion_matrix(table["grade"], said, labels=labels)
    assert np.abs(np.array(found["confusion"]["counts"]) - exact).max() < 3
    for k, label in enumerate(labels):
        recall = recall_score(table["grade"], said, labels=[label], average=None)[0]
        precision = precision_score(table["grade"], said, labels=[label], average=None)[0]
        assert found[f"recall of {label}"]["value"] == pytest.approx(recall, abs=2e-3), k
        assert found[f"precision of {label}"]["value"] == pytest.approx(precision, abs=2e-3), k
    assert found["macro f1"]["value"] == pytest.approx(f1_score(table["grade"], said, average="macro"), abs=2e-3)
    shares = table["grade"].value_counts(normalize=True).to_numpy()
    assert found["baseline log-loss"]["value"] == pytest.approx(-np.sum(shares * np.log(shares)), abs=2e-3)
    assert found["baseline macro f1"]["value"] == pytest.approx(2 * shares.max() / (1 + shares.max()) / 3, abs=2e-3)


def test_thresholds_in_the_limit(fitted: dict[str, Any]) -> None:
    table, model = people(1), fitted["rich"]
    curve = evaluate(model, table, epsilon=1e4, random_state=0).metrics["thresholds"]
    chance, yes = model.predict_proba(table)[:, 1], (table["rich"] == "yes").to_numpy()
    assert curve["labels"] == ["no", "yes"] and len(curve["lines"]) > 5
    for line in curve["lines"]:
        above = chance >= line["threshold"]
        assert line["recall"]["value"] == pytest.approx(above[yes].mean(), abs=5e-3)
        assert line["precision"]["value"] == pytest.approx(yes[above].mean(), abs=5e-3)
        assert line["called positive"]["value"] == pytest.approx(above.mean(), abs=5e-3)


@pytest.mark.parametrize("by", ["town", "member", "age"])
def test_groups_in_the_limit(fitted: dict[str, Any], by: str) -> None:
    table = people(1)
    bins = ["[0, 25)", "[25, 50)", "[50, 75)", "[75, 100]"]
    names = {"town": ["Aix", "Bonn", "Cork"], "member": ["no", "yes"], "age": bins}[by]
    place = {"town": table["town"], "member": table["member"].map({False: "no", True: "yes"})}.get(by)
    place = pd.cut(table["age"], [-1, 25, 50, 75, 101], right=False, labels=names) if place is None else place
    found = evaluate(fitted["rich"], table, epsilon=1e4, by=by, random_state=0).metrics["groups"]
    regression = evaluate(fitted["pay"], table, epsilon=1e4, by=by, random_state=0).metrics["groups"]
    said, guessed = fitted["rich"].predict(table), fitted["pay"].predict(table)
    assert list(found["scores"]) == names and found["column"] == by
    for name in names:
        here = (place == name).to_numpy()
        scores = found["scores"][name]
        assert found["rows"][name]["value"] == pytest.approx(here.sum(), abs=3)
        assert scores["accuracy"]["value"] == pytest.approx(np.mean(said[here] == table["rich"][here]), abs=3e-3)
        exact = confusion_matrix(table["rich"][here], said[here], labels=["no", "yes"])
        assert np.abs(np.array(scores["confusion"]["counts"]) - exact).max() < 4
        wanted = r2_score(table["pay"][here], guessed[here])
        assert regression["scores"][name]["r2"]["value"] == pytest.approx(wanted, abs=0.03)


def test_an_unknown_level_belongs_to_no_group_and_listed_levels_serve(fitted: dict[str, Any]) -> None:
    table = people(1).assign(region=np.where(np.arange(N) % 3 == 0, "north", np.where(np.arange(N) % 3 == 1, "south", "?")))
    found = evaluate(fitted["rich"], table, epsilon=1e4, by="region", levels=["north", "south"], random_state=0)
    assert [round(rows["value"], -1) for rows in found.metrics["groups"]["rows"].values()] == [1000, 1000]
    assert found.metrics["accuracy"]["value"] == pytest.approx(np.mean(fitted["rich"].predict(table) == table["rich"]), abs=2e-3)
    for wrong, words in (("nobody", "column 'nobody'"), ("pay", "declared levels"), ("region", "levels=")):
        with pytest.raises(ValueError, match=words):
            evaluate(fitted["rich"], table, epsilon=1, by=wrong)


def test_one_odd_cell_moves_only_its_own_group(fitted: dict[str, Any]) -> None:
    """A cell that is no level takes its row out of every group and changes no other row: the sums differ by one row's worth."""
    table = people(1)
    for odd in (None, 7, ["Aix"]):
        cells = table["town"].astype(object).copy()
        cells.iloc[5] = odd
        found = [
            evaluate(fitted["rich"], frame, epsilon=1e6, by="town", random_state=0).metrics["groups"]["rows"]
            for frame in (table, table.assign(town=cells))
        ]
        moved = [abs(found[0][name]["value"] - found[1][name]["value"]) for name in found[0]]
        assert sum(moved) < 1.1, odd


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Any:
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, key))
    else:
        yield path, value


@pytest.mark.parametrize("name", ["grade", "rich", "pay"])
def test_a_change_to_any_new_number_shows(fitted: dict[str, Any], name: str) -> None:
    record = evaluate(fitted[name], people(1), epsilon=2.0, by="town", random_state=0).record
    assert Evaluation(record).verify(allow_seeded=True).ok
    rng = np.random.default_rng(0)
    new = [(path, value) for path, value in leaves(record) if path[0] in ("question", "metrics", "released", "stages")]
    new = [(path, value) for path, value in new if not ("grid" in path and path[0] == "released")]
    for place in rng.choice(len(new), min(len(new), 40), replace=False):
        path, value = new[place]
        altered = json.loads(json.dumps(record))
        inner = altered
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value + "x" if isinstance(value, str) else 0.123 if value is None else value * 1.01 + 0.7
        assert not Evaluation(altered).verify(allow_seeded=True).ok, path


def test_what_is_not_asked_for_stays_out_of_the_record() -> None:
    """Records of 0.2.0 name neither labels nor groups."""
    assert Question("multiclass", 3, True).spec().keys().isdisjoint({"labels", "by", "groups"})
    assert Question.from_spec(Question("binary", 2, labels=("a", "b")).spec()) == Question("binary", 2, labels=("a", "b"))
    for wrong in ({"labels": ("a",)}, {"labels": ("a", "a")}, {"by": "g"}, {"groups": ("a", "b")}, {"by": "g", "groups": ("a",)}):
        with pytest.raises(ValueError, match="Expected"):
            Question("binary", 2, **wrong)


def test_pages_and_lines_show_classes_groups_and_thresholds(fitted: dict[str, Any]) -> None:
    record = evaluate(fitted["grade"], people(1), epsilon=3.0, by="town", random_state=0).record
    page = "".join(block.html() for block in evaluation_blocks(record))
    for words in ("called middle", "recall", "Scores by town", "Bonn"):
        assert words in page
    names = [name for name, _ in listed_scores(record["metrics"])]
    assert "recall of high, town = Bonn" in names and "rows, town = Cork" in names and "macro f1" in names
    record = evaluate(fitted["rich"], people(1), epsilon=3.0, random_state=0).record
    page = "".join(block.html() for block in evaluation_blocks(record))
    assert "Calling every row above a threshold yes" in page
    assert "positive share (of yes)" in page and "observed share of yes against" in page
    assert score_lines(record["metrics"], 0.95)["positive share"].endswith("   (of 'yes')")
