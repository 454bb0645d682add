"""Seeded fits of every estimator by every method and relation: what a change of structure must leave as it is.

`python tests/helpers/golden_cases.py` writes `tests/golden/fits.json` anew; do so only where an answer was meant to change,
and say why.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

import dperm
from dperm.privacy import RELATIONS
from estimator_cases import ESTIMATORS, LACKING, METHODS, N, build, rows
from places import ROOT

FILE = ROOT / "tests" / "golden" / "fits.json"


def linear_cases() -> Iterator[tuple[str, Any]]:
    """(name, fitted model) of every linear estimator, method and relation."""
    for name in ESTIMATORS:
        if "curves" in name:  # the eigenbasis of a curve, and so what its seeded noise adds, differs between builds of LAPACK
            continue
        X, y = rows(name)
        for method in METHODS[name]:
            for relation in RELATIONS:
                if (name, method, relation) in LACKING:
                    continue
                nominal = N if relation == "add-remove" else None
                yield f"{name}/{method}/{relation}", build(name, method=method, relation=relation, nominal_n=nominal).fit(X, y)


def other_cases() -> Iterator[tuple[str, Any]]:
    """Mechanisms and options that the table of estimators does not reach."""
    X, y = rows("logistic")
    numbers = rows("linear")[1]
    common: dict[str, Any] = {"epsilon": 2.0, "random_state": 0}
    for relation in RELATIONS:
        nominal = N if relation == "add-remove" else None
        options = common | {"relation": relation, "nominal_n": nominal}
        yield f"mean/{relation}", dperm.MeanEstimator(bounds=(-1, 1), **options).fit(X)
        yield f"median/{relation}", dperm.MedianEstimator(bounds=(-1, 1), **options).fit(X)
        yield (
            f"finite/{relation}",
            dperm.FiniteClassLearner(hypotheses="thresholds", bounds=(-1, 1), classes=[0, 1], **options).fit(X[:, :1], y),
        )
    for mechanism in ("zeroth", "newton", "output", "exponential"):
        options = common | {"bounds": (-1, 1), "classes": [0, 1], "method": mechanism}
        if mechanism == "exponential":
            options |= {"radius": 3.0, "delta": 0}
            yield f"logistic/{mechanism}", dperm.LogisticRegression(**options).fit(X[:, :2], y)
        else:
            options |= {"regularization": 1.0} if mechanism == "output" else {}
            yield f"logistic/{mechanism}", dperm.LogisticRegression(**options).fit(X, y)
    gradient = dperm.mechanisms.Gradient
    for label, mechanism in (
        ("hidden", gradient(accounting="hidden-state", output="last", steps=20)),
        ("sampled", gradient(sampling_rate=0.2, steps=10)),
        ("assumed", gradient(bound="assumed", assumed_bound=2.0, steps=5)),
    ):
        options = common | {"bounds": (-1, 1), "classes": [0, 1], "method": mechanism, "relation": "zero-out"}
        yield f"logistic/gradient {label}", dperm.LogisticRegression(**options).fit(X, y)
    adaptive = dperm.mechanisms.Statistics(variant="adaptive")
    yield "linear/adaptive", dperm.LinearRegression(bounds=(-1, 1), y_bounds=(-3, 3), method=adaptive, **common).fit(X, numbers)
    yield "linear/private bounds", dperm.LinearRegression(bounds="private", y_bounds=(-3, 3), **common).fit(X, numbers)
    yield (
        "linear/weights",
        dperm.LinearRegression(bounds=(-1, 1), y_bounds=(-3, 3), max_weight=2.0, **common).fit(X, numbers, np.linspace(0, 2, N)),
    )
    yield (
        "linear/persons",
        dperm.LinearRegression(bounds=(-1, 1), y_bounds=(-3, 3), max_rows_per_person=3, **common).fit(
            X, numbers, groups=np.arange(N) // 4
        ),
    )


    yield from inference_cases(common)


def inference_cases(common: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Fits with intervals, with missing cells and exposures."""
    options = common | {"bounds": (-1, 1), "intervals": True}
    X, y = rows("logistic")
    gaps = np.where(np.arange(N)[:, None] % 7 == np.arange(X.shape[1]), np.nan, X)
    yield "logistic/inference", dperm.LogisticRegression(classes=[0, 1], **options).fit(X, y)
    yield "linear/inference", dperm.LinearRegression(y_bounds=(-3, 3), **options).fit(gaps, rows("linear")[1])
    X, y = rows("poisson")
    exposed = dperm.PoissonRegressor(y_bounds=(0, 20), max_exposure=2.0, **options)
    yield "poisson/inference", exposed.fit(X, y, exposure=1.0 + np.arange(N) % 2)


def digest(record: Any) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


def kept(w: Any) -> list[float]:
    """The released numbers; of the hundreds that shapes have, the linear part and every 64th."""
    flat = np.ravel(w)
    return (flat if len(flat) <= 200 else np.concatenate([flat[:4], flat[4::64]])).tolist()


def answers() -> dict[str, Any]:
    found = {}
    for name, model in (*linear_cases(), *other_cases()):
        release = model.release_
        record = model.certificate_.record
        events = [stage["event"] for stage in record["stages"]]
        found[name] = {"w": kept(release.w), "events": digest(events), "record": digest(record)}
    return found


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps({name: {"w": case["w"]} for name, case in answers().items()}, indent=0, sort_keys=True) + "\n")
