"""What a command says when it is done: what was paid in all, and what is left."""

from __future__ import annotations

import json
import math
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

import dperm
from command_line import run, write_members
from dperm.commands.earlier import earlier_beside
from dperm.pages.subject import Earlier, upward
from dperm.privacy import Gaussian, event_from_spec, gaussian_epsilon
from dperm.privacy.filters import Filter, together

PRIVATE = ["--bounds", "private", "--levels", "private"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("told")
    write_members(folder / "members.csv", 3000, 6, lambda age, draws: draws.random() < 0.2 + 0.008 * (age - 18))
    dperm.Ledger.create(folder / "m.ledger", dataset="members", epsilon=3.0, delta=1e-6)
    words = ["--target", "left", "--epsilon", "1.5", *PRIVATE, "--ledger", folder / "m.ledger", "--out", folder / "model"]
    code, text = run("fit", folder / "members.csv", *words)
    assert code == 0
    (folder / "said.txt").write_text(text)
    return folder


def test_a_fit_says_what_is_left_of_its_ledger(made: Path) -> None:
    account = dperm.Ledger(made / "m.ledger").account()
    expected = f"m.ledger: {100 * account.spent_share:.2g} % spent, about epsilon {account.left_epsilon:.3g} left"
    assert expected in (made / "said.txt").read_text() and account.fits == 2
    assert f"or two of {account.left_twice:.4g} each" in run("ledger", "show", made / "m.ledger")[1]


def test_two_more_fits_of_the_stated_size_are_taken_and_not_larger_ones() -> None:
    rule = Filter.declare(3.0, 1e-6)
    spent = [rule.cost([Gaussian(0.3)])]
    room = rule.left(spent)
    assert rule.left_epsilon(spent, 1e-6, fits=2) == pytest.approx(gaussian_epsilon(1e-6, room / math.sqrt(2)))
    twice = [rule.cost([Gaussian(room / math.sqrt(2))])] * 2
    assert rule.accepts([*spent, *twice]) is not None and rule.accepts([*spent, *twice, rule.cost([Gaussian(0.05)])]) is None


def test_pages_and_verify_say_what_the_fit_and_its_profile_cost_together(made: Path) -> None:
    fit = dperm.Certificate.load(made / "model" / "certificate.json")
    earlier = earlier_beside(made / "model", fit)
    assert earlier is not None and earlier.together == 1.5  # what was asked for, and the rule has room for both
    assert earlier.words == f"{fit.epsilon:.3g} for the fit, {earlier.found:.3g} for bounds and levels, 1.5 together"
    page = (made / "model" / "report.md").read_text()
    assert "What it cost: ε = 1.5. " in page and "How private: ε = 1.5. " in page and page.count(earlier.words) == 3, page[:3000]
    assert "was released by the profile before, or was public before" in page
    run("report", made / "model", "--out", made / "again.md")
    assert "What it cost: ε = 1.5. " in (made / "again.md").read_text()
    code, said = run("verify", made / "model")
    assert code == 0 and f"epsilon: {earlier.words}" in said
    assert json.loads(run("verify", made / "model", "--json")[1])["together"] == earlier.words


def test_a_profile_that_was_altered_or_is_of_another_unit_is_not_added_up(made: Path, tmp_path: Path) -> None:
    for name in ("certificate.json", "model.json"):
        (tmp_path / name).write_text((made / "model" / name).read_text())
    fit = dperm.Certificate.load(tmp_path / "certificate.json")
    assert earlier_beside(tmp_path, fit) is None  # no profile
    record = json.loads((made / "model" / "profile.json").read_text())
    for part, value in (("epsilon", 0.1), ("unit", "person"), ("delta", 1e-3)):
        altered = {**record, "guarantee": {**record["guarantee"], part: value}}
        (tmp_path / "profile.json").write_text(json.dumps(altered))
        found = earlier_beside(tmp_path, fit)
        assert found is not None and "DOES NOT VERIFY" in found.apart and found.together == fit.epsilon
    _, said = run("verify", tmp_path, code=1)
    assert "NOT VERIFIED" in said and "profile.json: " in said


def test_a_profile_that_is_not_there_is_spoken_of(made: Path, tmp_path: Path) -> None:
    """Whoever gets the model without profile.json would take the epsilon of the fit for the cost of everything."""
    for name in ("certificate.json", "model.json"):
        (tmp_path / name).write_text((made / "model" / name).read_text())
    missing = "model.json says that a profile was paid for too, epsilon 1.5 for both"
    for place in (tmp_path, tmp_path / "certificate.json"):
        code, said = run("verify", place)
        assert code == 0 and missing in said
    for command in ("report", "card"):
        run(command, tmp_path, "--out", tmp_path / "page.md")
        page = (tmp_path / "page.md").read_text()
        assert missing in page and "both are on this page" not in page
        (tmp_path / "page.md").unlink()
    assert missing in run("registry", tmp_path)[1]
    model = json.loads((tmp_path / "model.json").read_text())
    del model["about"]["budget"]
    (tmp_path / "model.json").write_text(json.dumps(model))
    assert "profile" not in run("verify", tmp_path)[1], "a fit without a profile"


@pytest.mark.parametrize("text", ["altered", "{", "[]", '{"format": "dperm-profile/1"}'])
def test_a_page_says_that_the_profile_beside_it_does_not_verify(made: Path, tmp_path: Path, text: str) -> None:
    for name in ("certificate.json", "model.json"):
        (tmp_path / name).write_text((made / "model" / name).read_text())
    record = json.loads((made / "model" / "profile.json").read_text())
    record["guarantee"]["epsilon"] = 0.01
    (tmp_path / "profile.json").write_text(json.dumps(record) if text == "altered" else text)
    for page in ("page.html", "page.md"):
        run("report", tmp_path, "--out", tmp_path / page)
        assert "DOES NOT VERIFY" in (tmp_path / page).read_text()
    (tmp_path / "model.json").unlink()
    run("report", tmp_path, "--out", tmp_path / "alone.md")
    assert "DOES NOT VERIFY" in (tmp_path / "alone.md").read_text()
    run("card", tmp_path, "--out", tmp_path / "card.md")
    assert "DOES NOT VERIFY" in (tmp_path / "card.md").read_text()


def test_the_explorer_opens_with_a_model_by_its_name_and_its_whole_cost(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[ThreadingHTTPServer] = []
    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", lambda server: held.append(server))
    said = run("explore", made / "model", "--no-browser")[1]
    handler, fit = held[0].RequestHandlerClass, dperm.Certificate.load(made / "model" / "certificate.json")
    assert "explorer at http://127.0.0.1:" in said and handler.title.startswith("Predicting left")
    assert "ε = 1.5" in handler.page and "for bounds and levels, 1.5 together" in handler.page
    epsilon = handler.values["epsilon"]
    assert 0 <= epsilon - fit.epsilon < 0.001 * fit.epsilon and len(str(epsilon)) <= 6  # short, and not understated


def test_a_budget_that_is_stated_and_too_small_is_not_believed(made: Path, tmp_path: Path) -> None:
    for name in ("certificate.json", "model.json", "profile.json"):
        (tmp_path / name).write_text((made / "model" / name).read_text())
    fit, model = dperm.Certificate.load(tmp_path / "certificate.json"), json.loads((tmp_path / "model.json").read_text())
    for stated in ("0.5", "nan", "-1", "much", None, [1]):
        about = {**model["about"], "budget": stated}
        (tmp_path / "model.json").write_text(json.dumps({**model, "about": about}))
        earlier = earlier_beside(tmp_path, fit)
        assert earlier is not None and fit.epsilon < earlier.together <= 1.5


@pytest.mark.parametrize("parts", [(0.1, 0.3), (0.05, 0.05, 0.5), (1.0,)])
def test_what_releases_cost_together_is_the_smallest_budget_that_takes_them(parts: tuple[float, ...]) -> None:
    releases = [[Gaussian(mu)] for mu in parts]
    epsilon = together(releases, 1e-6, near=10.0)
    for factor, taken in ((1.0, True), (0.999, False)):
        rule = Filter.declare(factor * epsilon, 1e-6)
        assert (rule.accepts([rule.cost(events) for events in releases]) is not None) == taken
    assert epsilon == pytest.approx(together([[Gaussian(math.hypot(*parts))]], 1e-6, near=1.0), rel=1e-6)


def test_a_profile_says_that_it_has_no_target_and_which_option_is_in_the_way(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)
    words = ["profile", "members.csv", "--epsilon", "1", "--out-schema", "members.json"]
    assert "none: every column is described as a feature; a model needs --target" in run(*words, "--out", "p1")[1]
    code, said = run(*words, "--out", "p2")
    assert code == 2 and "found members.json in . already. Pass another --out-schema" in said
    assert "every column" not in run("profile", "members.csv", "--epsilon", "1", "--target", "left", "--out", "p3")[1]


def test_card_and_registry_state_the_whole_cost(made: Path, tmp_path: Path) -> None:
    """Before, both stated the fit alone, as if the bounds had been public."""
    fit = dperm.Certificate.load(made / "model" / "certificate.json")
    earlier = earlier_beside(made / "model", fit)
    assert earlier is not None and run("card", made / "model", "--out", tmp_path / "card.md")[0] == 0
    page = (tmp_path / "card.md").read_text()
    assert earlier.words in page and f"| {fit.epsilon:g} |" not in page
    code, text = run("registry", made / "model", "--json")
    loss = json.loads(text)["deployment"]["privacy_loss"]
    assert code == 0 and loss["privacy_parameters"]["epsilon"] == 1.5 and earlier.words in loss["privacy_parameters_description"]
    assert "declared" not in json.loads(text)["deployment"]["dp_flavor"]["unprotected_quantities"]


def test_a_fit_with_the_schema_that_a_profile_left_says_what_both_cost(made: Path, tmp_path: Path) -> None:
    words = ["--epsilon", "0.7", "--target", "left", "--schema", made / "model" / "schema.json", "--out", tmp_path / "again"]
    code, text = run("fit", made / "members.csv", *words)
    fit = dperm.Certificate.load(tmp_path / "again" / "certificate.json")
    earlier = earlier_beside(tmp_path / "again", fit)
    assert code == 0 and earlier is not None and earlier.fit == 0.7 < earlier.together
    assert earlier.words in " ".join(text.split()) and earlier.words in (tmp_path / "again" / "report.md").read_text()
    assert earlier.words in run("verify", tmp_path / "again")[1]
    alone = run("verify", tmp_path / "again" / "certificate.json")[1]
    assert "adds what that cost" in " ".join(alone.split())
    changed = json.loads((made / "model" / "schema.json").read_text())
    changed["columns"].pop("age")
    (tmp_path / "own.json").write_text(json.dumps(changed))
    code, text = run("fit", made / "members.csv", *words[:4], "--schema", tmp_path / "own.json", "--out", tmp_path / "other")
    assert code == 0 and "bounds and levels" not in text  # no profile is beside that file


def _profile_and_fit(made: Path, folder: Path, profile: list[object], fit: list[object]) -> tuple[dperm.Certificate, str]:
    """A profile, a fit with its schema in the same folder, and the report that `dperm report` writes of them."""
    words = ["profile", made / "members.csv", "--target", "left", "--epsilon", "1", *profile]
    assert run(*words, "--out", folder / "m", "--out-schema", folder / "s.json")[0] == 0
    code, text = run("fit", made / "members.csv", "--schema", folder / "s.json", "--epsilon", "1", *fit, "--out", folder / "m")
    assert code == 0, text
    assert run("report", folder / "m", "--out", folder / "rep.md")[0] == 0
    return dperm.Certificate.load(folder / "m" / "certificate.json"), (folder / "rep.md").read_text()


def test_seeded_noise_of_the_profile_is_not_private_either(made: Path, tmp_path: Path) -> None:
    """Before, report, card and registry stated an epsilon of both without a warning."""
    fit, page = _profile_and_fit(made, tmp_path, ["--random-state", "1"], [])
    earlier = earlier_beside(tmp_path / "m", fit)
    assert fit.noise != "seeded" and earlier is not None and earlier.seeded
    assert "NOT PRIVATE. The noise was seeded" in page and "How private: Not private." in page and "How private: ε" not in page
    assert earlier.words.endswith("NOT PRIVATE: the noise of the profile was seeded") and earlier.words in page
    assert run("card", tmp_path / "m", "--out", tmp_path / "card.md")[0] == 0
    assert "NOT PRIVATE. The noise was seeded" in (tmp_path / "card.md").read_text()
    code, text = run("registry", tmp_path / "m")
    assert code == 2 and "found seeded noise in profile.json" in " ".join(text.split())
    assert "seeded" in run("verify", tmp_path / "m", code=1)[1]
    assert "NOT PRIVATE" in run("verify", tmp_path / "m", "--allow-seeded")[1]


def test_a_profile_with_a_larger_delta_is_added_up_at_that_delta(made: Path, tmp_path: Path) -> None:
    """Before, it was forgotten, and what it found was called public."""
    fit, page = _profile_and_fit(made, tmp_path, ["--delta", "1e-5"], ["--delta", "1e-6"])
    earlier = earlier_beside(tmp_path / "m", fit)
    assert earlier is not None and earlier.delta == 1e-5 and 1 < earlier.together <= 2 and not earlier.apart
    events = [[event_from_spec(stage["event"]) for stage in record["stages"]] for record in (
        json.loads((tmp_path / "m" / name).read_text()) for name in ("profile.json", "certificate.json")
    )]  # fmt: skip
    rule = Filter.declare(earlier.together, 1e-5)
    assert rule.accepts([rule.cost(part) for part in events]) is not None
    assert earlier.words.endswith("together at δ = 1e-05") and "δ = 1e-05, replace-one" in page and "| delta | 1e-05 |" in page
    assert "was released by the profile before, or was public before" in page and "δ = 1e-06" not in page
    loss = json.loads(run("registry", tmp_path / "m", "--json")[1])["deployment"]["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": earlier.together, "delta": 1e-5}
    assert earlier.words in run("verify", tmp_path / "m")[1]


def test_a_profile_for_another_relation_is_named_and_not_added_up(made: Path, tmp_path: Path) -> None:
    fit, page = _profile_and_fit(made, tmp_path, ["--relation", "zero-out"], ["--relation", "replace-one"])
    earlier = earlier_beside(tmp_path / "m", fit)
    said = "a profile with (1, 1e-06) for zero-out, row found its bounds, and the two are not added up here"
    assert earlier is not None and earlier.apart == said and earlier.together == fit.epsilon == 1
    assert "together" not in earlier.words
    assert page.count(said) >= 2 and "was released by the profile before, or was public before" in page
    assert "The fit alone, without its profile: δ = 1e-06" in page
    assert json.loads((tmp_path / "m" / "model.json").read_text())["about"].get("budget") is None
    assert run("card", tmp_path / "m", "--out", tmp_path / "card.md")[0] == 0 and said in (tmp_path / "card.md").read_text()
    made_entry = json.loads(run("registry", tmp_path / "m", "--json")[1])["deployment"]
    assert said in made_entry["privacy_loss"]["privacy_parameters_description"]
    assert made_entry["dp_flavor"]["bound_on_output_distance"] == "epsilon = 1, delta = 1e-06 (the fit alone)"
    assert said in " ".join(run("verify", tmp_path / "m")[1].split())


@pytest.mark.parametrize("epsilon", [1.0, 1.5, 0.25, 3.0, 1.40001, 1.23411111, 0.9999999, 1.0000001, 12345.678, 3.2e-5 / 7])
def test_an_epsilon_is_never_understated_and_a_declared_one_stays(epsilon: float) -> None:
    shown = float(upward(epsilon))
    assert epsilon <= shown <= epsilon * 1.001 + 1e-12
    assert shown == epsilon or f"{epsilon:.6g}" != repr(epsilon).removesuffix(".0")
    assert Earlier(1.0, 1.0, epsilon).words.endswith(f", {upward(epsilon)} together")


def test_intervals_that_the_noise_hides_are_no_traceback_after_the_spend(tmp_path):
    """With --json, a fit whose curvature did not stand out of its noise ended in an AttributeError; its files were written."""
    write_members(tmp_path / "m.csv", 3000, 0, lambda age, draws: age > 50)
    target = {"column": "left", "type": "classes", "classes": ["no", "yes"]}
    columns = {"age": {"type": "numeric", "low": 0, "high": 100}, "branch": {"type": "categorical", "levels": ["north", "south"]}}
    (tmp_path / "s.json").write_text(json.dumps({"columns": columns, "target": target}))
    words = ("fit", tmp_path / "m.csv", "--schema", tmp_path / "s.json", "--epsilon", "6", "--method", "objective", "--intervals")
    code, said = run(*words, "--random-state", "0", "--out", tmp_path / "o", "--json")
    found = json.loads(said[said.index("{") :])
    assert code == 0 and found["target"].startswith("No intervals.") and "level" not in found
    assert {row["name"] for row in found["coefficients"]} >= {"age", "intercept"}
