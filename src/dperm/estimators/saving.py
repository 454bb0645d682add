"""Models to disk: JSON, never pickle, so that opening one runs no code."""

from __future__ import annotations

import json
import math
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

from dperm.tables.json_files import write_whole
from dperm.tables.packed import packed

if TYPE_CHECKING:
    from dperm.estimators.base import PrivateEstimator

FORMAT = "dperm-model/1"
# Parameters that name files, seeds or the data of one fit stay out of a model; those with a place of their own too.
KEPT_OUT = frozenset({"schema", "fit_intercept", "ledger", "random_state", "verbose", "nominal_n"})
PLAIN = (bool, int, float, str)


class NetworkRecord(TypedDict):
    """What the network of a model file needs beside its weights."""

    hidden: int
    centred_rows: bool
    radius: float
    length: float
    directions: list[list[float]]


class ShapesRecord(TypedDict):
    """The curves of an additive model, and what was edited of them."""

    columns: list[int]
    shares: list[list[float]]
    centre: list[float]
    curves: str
    noise: NotRequired[list[list[float] | None]]
    edited: NotRequired[list[float] | list[list[float]]]
    edits: NotRequired[list[str]]


class Extra(TypedDict, total=False):
    """What a model file states beyond coefficients and columns; each estimator writes its own part and checks it when read."""

    classes: list[object]
    y_bounds: list[float]
    y_high: float
    unit: float
    counted: bool
    max_exposure: float | None
    network: NetworkRecord
    shapes: ShapesRecord


def keep_parameters(estimator: PrivateEstimator) -> None:
    """Remember the parameters of a fit: what is set afterwards is for the next one, and no certificate speaks of it."""
    given = estimator.get_params(deep=False)
    estimator.__dict__["_fitted"] = {name: given[name] for name in given if name not in ("ledger", "random_state")}


def model_record(estimator: PrivateEstimator) -> dict[str, object]:
    """Everything needed to predict, as a JSON object."""
    estimator = copy(estimator)
    estimator.__dict__.update(getattr(estimator, "_fitted", {}))
    schema = estimator._declared_schema()
    record: dict[str, object] = {
        "format": FORMAT,
        "estimator": type(estimator).__name__,
        "schema": None if schema is None else schema.spec(),
        "encoding": estimator._encoding.spec(),
        "fit_intercept": bool(estimator.fit_intercept),
        "w": packed(estimator.w_),
        "parameters": {
            name: value
            for name, value in estimator.get_params(deep=False).items()
            if name not in KEPT_OUT and type(value) in PLAIN and value not in (math.inf, -math.inf) and value == value
        },
        "columns": list(map(str, getattr(estimator, "feature_names_in_", ()))),
    }
    record["extra"] = estimator._extra_record()
    about = getattr(estimator, "about_", None)
    return {**record, "about": dict(about)} if about else record


PICKLES = (".pkl", ".pickle", ".joblib")  # a folder of such a name would be taken for a file


def save(model: PrivateEstimator, path: str | Path) -> Path:
    """Write a fitted model: into one file if the name ends in .json, else into a folder as `dperm fit` does, without a report."""
    target, record = Path(path), model_record(model)
    if target.suffix.lower() in PICKLES:
        raise ValueError(f"Expected a name that ends in .json, or a folder, found {target.name!r}. Models are saved as JSON.")
    claim = model.certificate_
    if target.suffix == ".json":
        whole = {**record, "certificate": None if claim is None else claim.record}
        write_whole(target.parent, {target.name: json.dumps(whole, indent=1, allow_nan=False)})
        return target
    certificate = {} if claim is None else {"certificate.json": claim.to_json()}
    write_whole(target, {"model.json": json.dumps(record, indent=1, allow_nan=False), **certificate})
    return target
