"""Ranges that a fit pays for keep the rows that noise may hide; the record states the rule, and older ones keep theirs."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dperm
from dperm.mechanisms.registry import mechanism_of_record
from dperm.mechanisms.scaled import gradient
from dperm.mechanisms.scaled.additive import Additive
from dperm.mechanisms.scaled.gradient import ScaledGradient
from dperm.mechanisms.scaled.inference import ScaledInference
from dperm.mechanisms.scaled.objective import ScaledObjective
from dperm.problem import DataBounds, Interval, LogisticLoss, Problem, SquaredLoss
from dperm.release.plan import Target, options_of
from dperm.rows.memory import MemoryRows
from dperm.tables.scale import stored
from dperm.walk.fitting import fit

pytestmark = pytest.mark.filterwarnings("ignore::dperm.PrivacyWarning")  # of much noise, which is what this is about

P = 4
KINDS = ("private",) * P
CASES: dict[str, tuple[Any, Any]] = {
    "gradient": (SquaredLoss(), ScaledGradient(KINDS)),
    "objective": (LogisticLoss(), ScaledObjective(KINDS)),
    "additive": (SquaredLoss(), Additive(KINDS, curved=(0, 1))),
    "inference": (SquaredLoss(), ScaledInference(KINDS)),
}
OLDER = Path(__file__).parents[1] / "fixtures" / "0.1.0" / "certificates" / "linear-private-bounds.json"


def table(n: int, p: int, seed: int) -> Any:
    """Ages, amounts, shares and sums of money, in turn."""
    rng = np.random.default_rng(seed)
    made = [rng.normal(40, 12, (n, p)), rng.lognormal(4, 0.7, (n, p)), rng.uniform(0, 1, (n, p))]
    made.append(rng.integers(1800, 9000, (n, p)).astype(np.float64))
    return np.column_stack([made[j % 4][:, j] for j in range(p)])


def spoilt(n: int, p: int, epsilon: float, seeds: int, method: Any) -> float:
    """Share of the columns that lose more than a tenth of their rows."""
    found = []
    for seed in range(seeds):
        X, y = table(n, p, seed), np.random.default_rng(seed).uniform(-1, 1, n)
        model = dperm.LinearRegression(epsilon=epsilon, bounds="private", y_bounds=(-1, 1), random_state=seed, method=method)
        inside = model.fit(X, y)._encoding
        found += (np.mean((inside.low > X) | (inside.high < X), axis=0) > 0.1).tolist()
    return float(np.mean(found))


@pytest.mark.parametrize(
    ("n", "p", "epsilon", "seeds", "before", "now"),
    [(500, 1, 3.0, 8, 0.9, 0.2), (2000, 20, 1.0, 4, 0.4, 0.35), (10_000, 20, 0.5, 3, 0.3, 0.15)],
)
def test_columns_keep_nine_rows_in_ten_far_more_often(
    n: int, p: int, epsilon: float, seeds: int, before: float, now: float
) -> None:
    """What an estimator does by itself, beside the rule of 0.5.0; seeded, so there is no false alarm."""
    assert spoilt(n, p, epsilon, seeds, ScaledGradient(("private",) * p, wary=False)) >= before
    assert spoilt(n, p, epsilon, seeds, "auto") <= now


def released(name: str, relation: str = "zero-out", persons: int = 1, wary: bool = True, epsilon: float = 1.0) -> Any:
    """A fit of 2,000 rows whose ranges noise hides."""
    n, (loss, mechanism) = 2000, CASES[name]
    X = table(n, P, 3)
    y = np.where(X[:, 0] > 40, 1.0, -1.0) if loss.classification else np.clip((X[:, 0] - 40) / 60, -1, 1)
    problem = Problem(loss, data=DataBounds(1.0, Interval(-1, 1), 1.0))
    target = Target.declare(epsilon=epsilon, delta=1e-6, relation=relation, n=n, rows_per_person=persons)
    nominal = n if relation == "add-remove" else None
    rows = MemoryRows(stored(X), y)
    return fit(problem, rows, target, replace(mechanism, wary=wary), nominal_n=nominal, random_state=0)


@pytest.mark.parametrize("name", CASES)
def test_a_record_states_the_rule_and_is_read_by_it_alone(name: str) -> None:
    now, before = (released(name, wary=wary) for wary in (True, False))
    ranges, bolder = (found.certificate.record["decided"] for found in (now, before))
    assert (ranges["low"], ranges["high"]) != (bolder["low"], bolder["high"])
    for found, stated in ((now, True), (before, False)):
        record = json.loads(found.certificate.to_json())
        assert record["mechanism"]["options"].get("wary", "unstated") == (True if stated else "unstated")
        verdict = type(found.certificate)(copy.deepcopy(record)).verify(allow_seeded=True)
        assert verdict.ok, verdict.reasons
        record["mechanism"]["options"].pop("wary", None)
        record["mechanism"]["options"] |= {} if stated else {"wary": True}
        assert not type(found.certificate)(record).verify(allow_seeded=True).ok


@pytest.mark.parametrize("name", CASES)
def test_without_private_columns_there_is_nothing_to_state(name: str) -> None:
    mechanism = replace(CASES[name][1], kinds=("numeric",) * P, wary=True)
    assert not mechanism.wary and "wary" not in options_of(mechanism)
    assert not mechanism_of_record(mechanism.name, {"kinds": list(KINDS)}).wary  # type: ignore[attr-defined]
    assert type(mechanism)(kinds=KINDS).wary


def test_a_record_of_0_1_0_with_private_bounds_keeps_its_ranges() -> None:
    record = json.loads(OLDER.read_text(encoding="utf-8"))
    assert "private" in record["mechanism"]["options"]["kinds"] and "wary" not in record["mechanism"]["options"]
    verdict = dperm.Certificate(record).verify(allow_seeded=True)
    assert verdict.ok, verdict.reasons


@pytest.mark.parametrize("relation", ["zero-out", "replace-one", "add-remove"])
@pytest.mark.parametrize("persons", [1, 3])
def test_the_rule_knows_the_noise_of_the_counts(relation: str, persons: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deviation that the rule takes, from public numbers alone, is that of the noise in the 512 and 256 counts."""
    seen: dict[str, tuple[float, Any]] = {}
    coarse, tight = gradient.coarse_ranges, gradient.tight_ranges

    def first(counts: Any, noise: float, n: int, wary: bool) -> Any:
        seen["octaves"] = (noise, counts)
        return coarse(counts, noise, n, wary)

    def second(counts: Any, low: Any, high: Any, noise: float, n: int, wary: bool) -> Any:
        seen["cells"] = (noise, counts)
        return tight(counts, low, high, noise, n, wary)

    monkeypatch.setattr(gradient, "coarse_ranges", first)
    monkeypatch.setattr(gradient, "tight_ranges", second)
    released("gradient", relation, persons, epsilon=0.05)  # 2,000 rows in a few bins are nothing beside this noise
    for noise, counts in seen.values():
        assert np.median(np.abs(counts)) / 0.6745 == pytest.approx(noise, rel=0.15)


def test_a_plan_states_the_rule_of_the_fit() -> None:
    X, y = table(400, 2, 0), np.linspace(-1, 1, 400)
    for kind, own in (("LinearRegression", {}), ("GAMRegressor", {}), ("LinearRegression", {"intervals": True})):
        model = getattr(dperm, kind)(epsilon=1.0, bounds="private", y_bounds=(-1, 1), random_state=0, **own)
        planned = model.plan(n=400, d=2)
        fitted = model.fit(X, y)
        assert planned.options["wary"] is fitted.plan_.options["wary"] is True
        assert planned.options == fitted.plan_.options and planned.events == fitted.plan_.events
