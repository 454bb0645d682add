"""Numbers, texts and truth values of records: each in the type that the library writes, and every number one that floats hold."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dperm
from alterations import retyped
from dperm.cli import app
from dperm.commands.verifying import claim_in
from dperm.evaluation.evaluate import Evaluation
from dperm.mechanisms.gradient import Gradient
from dperm.mechanisms.scaled.additive import Additive
from dperm.mechanisms.zeroth import Zeroth
from dperm.privacy import Gaussian
from dperm.tables.encoding import Encoding
from dperm.tables.json_files import read_json
from dperm.walk.certificate import Certificate, coefficient_hash
from dperm.walk.claims import Claim
from estimator_cases import build, rows
from places import FIXTURES

pytestmark = pytest.mark.filterwarnings("ignore::dperm.words.notices.PrivacyWarning")
RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame({"age": RNG.integers(18, 90, 2000).astype(float), "flag": RNG.choice(["yes", "no"], 2000)})
DECLARED = {"columns": {"age": {"type": "numeric", "low": 18, "high": 90}, "flag": {"type": "categorical", "levels": "private"}}}


def fitted(name: str, **options: Any) -> Claim:
    return build(name, **options).fit(*rows(name)).certificate_


def scores() -> Claim:
    X, y = rows("logistic")
    return dperm.evaluate(build("logistic").fit(X, y), X, y, epsilon=3.0, random_state=0)


def search() -> Claim:
    base = dperm.LogisticRegression(bounds=(-1, 1), classes=[0, 1], method=Gradient(steps=5))
    grid = dperm.PrivateGridSearch(base, {"radius": [1.0, 5.0]}, epsilon=3.0, expected_runs=2.0, random_state=0)
    return grid.fit(*rows("logistic")).certificate_


CLAIMS: dict[str, Callable[[], Claim]] = {
    "descent": lambda: fitted("logistic", method=Gradient(steps=30)),
    "zeroth": lambda: fitted("logistic", method=Zeroth(steps=5), radius=1.0),
    "curves": lambda: fitted("curves"),
    "counts": lambda: fitted("curves of counts"),
    "network": lambda: fitted("network"),
    "rules": lambda: (
        dperm.FiniteClassLearner(3.0, hypotheses="stumps", bounds=(-1, 1), classes=[0, 1], random_state=0)
        .fit(*rows("logistic"))
        .certificate_
    ),
    "scores": scores,
    "search": search,
    "profile": lambda: dperm.profile(PEOPLE, epsilon=5.0, random_state=0),
    "profile of a schema": lambda: dperm.profile(PEOPLE, epsilon=5.0, random_state=0, schema=DECLARED),
}
SAME = ("schema.columns.age.",)  # 18 as 18.0: bounds are numbers, whole or not


@pytest.mark.parametrize("name", CLAIMS)
def test_nothing_passes_in_another_type_and_nothing_ends_in_a_traceback(name: str) -> None:
    claim = CLAIMS[name]()
    record = json.loads(claim.to_json())
    assert type(claim)(record).verify(allow_seeded=True).reasons == ()
    passed, tried = [], 0
    for where, what, altered in retyped(record):
        tried += 1
        if type(claim)(altered).verify(allow_seeded=True, accept_assumptions=True).ok and not where.startswith(SAME):
            passed.append(f"{where}: {what}")
    assert passed == [] and tried > 200


@pytest.mark.parametrize("options", [{"steps": 30.7}, {"steps": 30.0}, {"clip": True}, {"accept_known_error": 1}])
def test_an_option_of_another_type_is_refused_before_a_spend_and_by_verify(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"belongs|whole number|a number for clip"):
        build("logistic", method=Gradient(**options)).fit(*rows("logistic"))
    record = json.loads(CLAIMS["descent"]().to_json())
    record["mechanism"]["options"] |= options
    (reason,) = Certificate(record).verify(allow_seeded=True).reasons
    assert "option" in reason and "belongs" in reason


def test_options_that_numpy_counted_are_whole_numbers() -> None:
    """A network reads its options again after the spend: a type that is refused there would lose what was paid for."""
    assert fitted("network", hidden=np.int64(3), steps=np.int64(5)).verify(allow_seeded=True).reasons == ()
    assert fitted("logistic", method=Gradient(steps=np.int64(5), clip=np.float64(1))).verify(allow_seeded=True).reasons == ()


@pytest.mark.parametrize("place", ["n", "d", "level"])
@pytest.mark.parametrize("value", [30.7, "x", True, -1, 0, None, [2]])
def test_a_table_of_an_evaluation_has_whole_numbers_of_rows_and_columns_and_a_level(place: str, value: object) -> None:
    record = json.loads(scores().to_json())
    (record if place == "level" else record["shape"])[place] = value
    bound = [record["model"], record["shape"], record["digest"]]
    record["binding"] = hashlib.sha256(json.dumps(bound, sort_keys=True).encode()).hexdigest()
    assert not Evaluation(record).verify(allow_seeded=True).ok
    if place == "level" and isinstance(value, int | float) and not isinstance(value, bool):
        assert any("0.5 ≤ level < 1" in reason for reason in Evaluation(record).verify(allow_seeded=True).reasons)
    elif value not in (-1, 0):
        words = "a number" if place == "level" else "a whole number"
        assert any(f"where {words} belongs" in reason for reason in Evaluation(record).verify(allow_seeded=True).reasons)


OLD_SCORES = sorted((FIXTURES / "evaluations-1").glob("*.json")) + sorted((FIXTURES / "evaluations-2").glob("*.json"))


@pytest.mark.parametrize("path", [None, *OLD_SCORES], ids=lambda path: path and f"{path.parent.name}-{path.stem}")
def test_an_evaluation_states_of_its_model_and_its_releases_what_the_library_writes_and_no_more(path: Path | None) -> None:
    """Nothing follows from the model, so that keys that were added to it, or taken away, used to pass with another hash."""
    record = json.loads(scores().to_json() if path is None else path.read_text())
    assert Evaluation(record).verify(allow_seeded=True).reasons == ()
    name = next(iter(record["released"]))
    (first, *rest), model = record["released"][name], record["model"]
    changes = [{"model": model | {"approved": True}}, {"model": {"sha256": model["sha256"]}}, {"model": {}}]
    changes += [{"released": record["released"] | more} for more in ({"more": [1.0]}, {name: [str(first), *rest]})]
    for change in changes:
        altered = copy.deepcopy(record | change)
        bound = [altered["model"], altered["shape"], altered.get("digest")]
        altered["binding"] = hashlib.sha256(json.dumps(bound, sort_keys=True).encode()).hexdigest()
        altered = altered if "binding" in record else {key: value for key, value in altered.items() if key != "binding"}
        assert not Evaluation(altered).verify(allow_seeded=True).ok, change


@pytest.mark.parametrize("name", ["descent", "scores", "search", "profile"])
def test_a_number_beyond_floats_is_refused_wherever_a_record_is_read(name: str, tmp_path: Path) -> None:
    claim = CLAIMS[name]()
    file, text = tmp_path / "certificate.json", claim.to_json()
    file.write_text(text.replace('"delta": 1e-06', '"delta": 1e400', 1))
    assert "1e400" in file.read_text()
    words = "1e400 is larger than any number that a float holds"
    for read in (read_json, claim_in, type(claim).load):
        with pytest.raises(ValueError, match=words):
            read(file)
    done = CliRunner().invoke(app, ["verify", str(file), "--allow-seeded"])
    assert done.exit_code == 1 and words in " ".join(f"{done.output} {done.exception}".split())
    for endless in (math.inf, math.nan):
        record = copy.deepcopy(json.loads(text))
        record["guarantee"]["delta"] = endless
        reasons = type(claim)(record).verify(allow_seeded=True).reasons
        assert reasons[0] == f"guarantee.delta says {endless}, where a finite number belongs: a float holds at most 1.8e308"


@pytest.mark.parametrize("kind", ["boolean", "categorical", "sparse"])
def test_a_curve_of_a_column_that_is_no_number_is_refused(kind: str) -> None:
    record = json.loads(CLAIMS["curves"]().to_json())
    encoding, options = record["encoding"], record["mechanism"]["options"]
    encoding["kinds"][0] = kind
    assert any("planned for columns of the kinds" in reason for reason in Certificate(record).verify(allow_seeded=True).reasons)
    record["problem"]["data"]["x_norm"] = Encoding.from_spec(encoding).norm
    for kinds in (encoding["kinds"], []):  # a mechanism that was told no kinds plans for any: the encoding says them
        options["kinds"] = kinds
        found = Certificate(record).verify(allow_seeded=True).reasons
        assert any("numeric columns" in reason and ("found column 0" in reason or "found 0" in reason) for reason in found)
    with pytest.raises(ValueError, match="Expected curved= among the numeric columns, found 0"):
        build("curves", method=Additive(kinds=(kind, "numeric", "numeric"), curved=(0,))).fit(*rows("curves"))


@pytest.mark.parametrize("groups", [[-2, -2, -2], [0, 0, 1]])
def test_groups_that_a_mechanism_states_are_those_of_the_columns(groups: list[int]) -> None:
    record = json.loads(fitted("linear", intervals=True).to_json())
    record["mechanism"]["options"]["groups"] = groups
    record["stages"][-1]["settings"] |= {"groups": len({group for group in groups if group >= 0})}
    assert any("columns of the groups" in reason for reason in Certificate(record).verify(allow_seeded=True).reasons)


def test_a_sum_is_stated_as_a_list() -> None:
    record = json.loads(fitted("logistic", method="scaled-gradient").to_json())
    (record["released"]["positives"],) = record["released"]["positives"]
    assert any("not a list of numbers" in reason for reason in Certificate(record).verify(allow_seeded=True).reasons)


def test_a_profile_asks_what_its_schema_leads_to() -> None:
    claim = CLAIMS["profile of a schema"]()
    for schema in (None, {}, DECLARED, {"name": "table", "columns": {"age": DECLARED["columns"]["age"]}}):
        record = json.loads(claim.to_json())
        record["schema"] = schema
        assert not type(claim)(record).verify(allow_seeded=True).ok


@pytest.mark.parametrize("path", sorted((FIXTURES / "0.1.0").glob("*.json")), ids=lambda path: path.stem)
def test_records_of_the_first_version_have_the_types_of_today(path: Path) -> None:
    assert claim_in(path).verify(allow_seeded=True).reasons == ()


def test_events_keep_their_whole_numbers() -> None:
    record = json.loads(CLAIMS["descent"]().to_json())
    count = record["stages"][0]["event"]["count"]
    assert isinstance(count, int) and Gaussian(1.0, count).total() == count
    record["stages"][0]["event"]["count"] = float(count)
    assert any("stages[0].event.count says" in reason for reason in Certificate(record).verify(allow_seeded=True).reasons)
    assert coefficient_hash(record["coefficients"]["encoded"]) == record["coefficients"]["sha256"]


def test_gaps_and_rules_that_no_release_follows_from_are_those_of_the_columns() -> None:
    """A method that counts no present cells took any gaps=, and a flag any rule for missing cells: nothing followed from them."""
    X, y = rows("quantile")
    options = {"method": "scaled-quantile", "boolean": [1], "bounds": ([-1, 0, -1], [1, 1, 1])}
    record = json.loads(build("quantile", **options).fit(X, y).certificate_.to_json())
    assert Certificate(record).verify(allow_seeded=True).ok and record["mechanism"]["options"]["gaps"] == [0, 2]
    for place, key, value, words in (
        (record["mechanism"]["options"], "gaps", [0, 1], "Expected gaps of columns"),
        (record["encoding"]["rules"], 1, "mean", "rules for missing cells of numbers alone"),
    ):
        kept = copy.deepcopy(place[key])
        place[key] = value
        assert any(words in reason for reason in Certificate(record).verify(allow_seeded=True).reasons)
        place[key] = kept
