"""Ten thousand mutations of certificates of every mechanism, and of profiles that pay for levels: none passes but what
docs/certificate.md says cannot be bound.

A mutation changes a numeric leaf by a factor, its sign, by one, or to a neighbouring leaf's value; a word; a truth value; or it
takes a key away, adds one, or swaps two stages. The hash of the coefficients is made anew where they were changed, as a forger
would. Every second mutation of a leaf is tried, in turn, which is enough for ten thousand.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dperm
from dperm.walk.certificate import Certificate, coefficient_hash
from estimator_cases import build, rows
from places import FIXTURES

FILES = sorted((FIXTURES / "0.1.0" / "certificates").glob("*.json"))
SLOW = {"logistic-gradient-sampled"}  # a privacy-loss distribution for every new budget: test_certificate alters its fields
# What recomputation cannot bind: docs/certificate.md says why, entry by entry.
UNBOUND = (
    "noise.seed",
    "coefficients.encoded",
    "without ledger",
    "mechanism.options.target_share",  # 0.5 is what leaving it out means
    "problem.loss.low",  # of a Poisson loss in records of 0.1.0; later ones state the loss at some margins
)
AT_LEAST = 10_000


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from leaves(item, (*path, key))
    else:
        yield path, value


def others(value: Any, neighbour: Any) -> Iterator[Any]:
    """What a forger might write instead."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield from (value * 1.5 + (value == 0), -value - (value == 0), value + 1)
        if isinstance(neighbour, int | float) and not isinstance(neighbour, bool) and neighbour != value:
            yield neighbour
        if isinstance(value, float):
            yield value * (1 + 1e-6) + (value == 0)
    elif isinstance(value, str):
        yield from (value + "x", "")
    elif value is None:
        yield from (0.5, "x")
    else:
        yield [1]


def mutations(record: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    listed, turn = list(leaves(record)), 0
    for place, (path, value) in enumerate(listed):
        if any(isinstance(part, int) and part > 4 for part in path):
            continue  # later entries of a long list are like the first
        for other in others(value, listed[(place + 1) % len(listed)][1]):
            if other == value and type(other) is type(value):
                continue
            turn += 1
            if turn % 2:
                yield ".".join(map(str, path)), changed(record, path, other)
    for key in record:
        yield f"without {key}", {name: item for name, item in record.items() if name != key}
    for key in ("guarantee", "target", "mechanism", "noise", "shape", "decided", "question", "released"):
        if key not in record or (key == "released" and "question" not in record):
            continue
        for inner in record[key]:
            less = copy.deepcopy(record)
            del less[key][inner]
            yield f"without {key}.{inner}", less
        yield f"more {key}", changed(record, (key, "extra"), 1.0)
    yield "more", record | {"extra": 1}
    for place in range(len(record["stages"]) - 1):
        swapped = copy.deepcopy(record)
        stages = swapped["stages"]
        stages[place], stages[place + 1] = stages[place + 1], stages[place]
        if stages != record["stages"]:
            yield f"swapped {place}", swapped


def changed(record: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    altered = copy.deepcopy(record)
    place: Any = altered
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    if path[:2] == ("coefficients", "encoded"):
        altered["coefficients"]["sha256"] = coefficient_hash(np.array(altered["coefficients"]["encoded"], dtype=float))
    return altered


COUNTED: dict[str, int] = {}


@pytest.mark.parametrize("path", [file for file in FILES if file.stem not in SLOW], ids=lambda path: path.stem)
def test_no_mutation_passes(path: Path) -> None:
    record = json.loads(path.read_text())
    accepted, tried = [], 0
    for name, altered in mutations(record):
        tried += 1
        try:
            passed = Certificate(altered).verify(allow_seeded=True, accept_assumptions=True).ok
        except Exception as error:
            pytest.fail(f"{name}: {error!r}")
        if passed and not name.startswith(UNBOUND):
            accepted.append(name)
    COUNTED[path.stem] = tried
    assert accepted == []


def test_ten_thousand_were_tried() -> None:
    if len(COUNTED) < len(FILES) - len(SLOW):
        pytest.skip("counts only after the other tests of this file, on one worker")
    assert sum(COUNTED.values()) >= AT_LEAST


def test_a_record_of_today_binds_the_range_of_a_poisson_loss() -> None:
    X, y = rows("poisson")
    record = json.loads(build("poisson", method="gradient").fit(X, y).certificate_.to_json())
    for name, altered in mutations(record):
        if name.startswith("problem.loss"):
            assert not Certificate(altered).verify(allow_seeded=True).ok, name


# Of a profile: which column without a declared type is the target, and the rule for bounds where both rules find the same.
UNBOUND_IN_PROFILES = ("noise.seed", "question.columns.4.target", "without question.wary")


def profile_with_private_levels(persons: bool) -> dict[str, Any]:
    generator, n = np.random.default_rng(0), 2000
    towns = generator.choice(["north", "south", "east", "alone"], n, p=[0.5, 0.3, 0.199, 0.001])
    table = pd.DataFrame({"town": towns, "age": generator.integers(18, 90, n), "smokes": generator.choice(["no", "yes"], n)})
    table["dose"], table["ill"] = generator.uniform(0, 1, n), generator.choice(["well", "ill"], n)
    options: dict[str, Any] = {"epsilon": 4.0, "target": "ill", "random_state": 0}
    if persons:
        owners = {"groups": "who", "max_rows_per_person": 2, "relation": "add-remove", "nominal_n": n}
        found = dperm.profile(table.assign(who=np.arange(n) // 2), correlations=True, **owners, **options)
    else:
        found = dperm.profile(table, parts="schema", **options)
    record: dict[str, Any] = json.loads(found.to_json())
    assert any(record["released"]["levels"]) and dperm.Profile(record).verify(allow_seeded=True).ok
    return record


def passes(record: dict[str, Any]) -> bool:
    return dperm.Profile(record).verify(allow_seeded=True).ok


@pytest.mark.parametrize("persons", [True, False])
def test_no_mutation_of_a_profile_with_private_levels_passes(persons: bool) -> None:
    record = profile_with_private_levels(persons)
    accepted = [name for name, altered in mutations(record) if passes(altered)]
    assert [name for name in accepted if not name.startswith(UNBOUND_IN_PROFILES)] == []


def test_levels_of_a_profile_are_bound_also_where_the_digest_is_made_anew() -> None:
    """A forger who writes another list of levels, and the digest for it, is found by what follows from it, or the threshold."""
    record = profile_with_private_levels(persons=True)
    for place, levels in enumerate(record["released"]["levels"]):
        low = [*levels, ["new", 1.0]]
        lists = [low, [*levels, ["new", 1e6]], *([levels[:-1], levels[::-1], [*levels, levels[0]]] if levels else [])]
        lists += [[[name + "x", count], *levels[1:]] for name, count in levels[:1]]
        lists += [[[name, other], *levels[1:]] for name, count in levels[:1] for other in (-count, str(count), True)]
        for other in lists:
            altered = changed(record, ("released", "levels", place), other)
            text = json.dumps(altered["released"], sort_keys=True)
            altered["digest"] = hashlib.sha256(text.encode()).hexdigest()
            assert not passes(altered), other
