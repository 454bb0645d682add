"""Whether a model's file says what its certificate says: all that `dperm.load` reads and that changes an answer or a claim.

The hash of the coefficients says nothing of the columns that they belong to. So the model that follows from the certificate is
made anew, by the code that a fit stores its answer with, and what it would write is compared with what the file says.
`docs/certificate.md` lists what no certificate states, and what therefore cannot be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dperm.commands.editing import edited_shapes
from dperm.estimators.base import PrivateEstimator
from dperm.estimators.classifier import PrivateClassifier
from dperm.estimators.model_file import model_from_record
from dperm.estimators.saving import model_record
from dperm.estimators.search import SearchCertificate
from dperm.evaluation.plan import Question
from dperm.evaluation.rows import question_of
from dperm.problem import Ball, Problem, WholeSpace
from dperm.release.record import CertificateRecord
from dperm.tables.json_files import read_json
from dperm.tables.packed import unpacked
from dperm.walk.certificate import Certificate, coefficient_hash
from dperm.walk.claims import HOSTILE, Claim, differences
from dperm.walk.fitting import Release, rebuilt_plan

OTHER = "the model's coefficients are not the certified ones"
REWRITTEN = ("format", "estimator", "encoding", "fit_intercept", "w", "parameters")  # as a fit of this record would write them
# Parameters of estimators that are options of their mechanism, or of the loss, and what they are called there.
OPTIONS = {name: name for name in ("hidden", "components", "steps", "clip", "sampling_rate")} | {"n_nonzero_coefs": "keep"}
OF_LOSS = {"quantile": "level"}


def model_disagreements(file: Path, claim: Claim) -> list[str]:
    """A sentence for everything in which a model's file, as `dperm.load` reads it, differs from what a claim states."""
    stored = read_json(file)
    try:
        return list(_disagreements(stored, claim, file))
    except HOSTILE as error:
        return [f"model.json: it cannot be compared with the certificate: {error}"]


def _disagreements(stored: Any, claim: Claim, file: Path) -> Iterator[str]:
    record: Any = claim.record
    certified = record.get("best", record)
    own = stored.get("certificate") if isinstance(stored, dict) else None
    beside = file.with_name("certificate.json")
    if "coefficients" in certified:
        yield from (f"model.json: {reason}" for reason in _of_fit(stored, certified))
        if own is not None:
            yield from (f"model.json: certificate.{reason}" for reason in differences(record, own))
        elif beside.is_file() and differences(record, read_json(beside)):
            yield "certificate.json beside the model is another one than was verified, and loading the model would take it"
    elif "question" in record or "kind" in record:
        yield from (f"model.json: {reason}" for reason in _of_scores(stored, record))
        own = read_json(beside) if own is None and beside.is_file() else own
        if isinstance(own, dict):  # the scores say nothing of how it was fitted, its own certificate does
            kind = SearchCertificate if own.get("format") == SearchCertificate.FORMAT else Certificate
            verdict = kind.stated(own).verify(allow_seeded=True, accept_assumptions=True)
            wrong = [*(f"certificate.{reason}" for reason in verdict.reasons), *_of_fit(stored, own.get("best", own))]
            yield from (f"model.json: {reason}" for reason in wrong)
    else:
        yield f"{OTHER}: this record certifies none"


def _of_fit(stored: Any, record: CertificateRecord) -> Iterator[str]:
    """Against the certificate of its fit."""
    model = model_from_record(stored)
    if coefficient_hash(model.w_) != record["coefficients"]["sha256"]:
        yield OTHER
        return
    problem = Problem.from_spec(record["problem"])
    expected: dict[str, Any] = {**model_record(_stored_anew(model, record)), "fit_intercept": bool(problem.data.intercept)}
    expected["encoding"], extra = record["encoding"], stored["extra"]
    stated = stored.get("parameters", {})
    expected["parameters"] = {name: value for name, value in expected["parameters"].items() if name in stated}
    yield from differences(
        {key: expected[key] for key in REWRITTEN if key in stored}, {k: stored[k] for k in REWRITTEN if k in stored}
    )
    shapes = "shapes" in expected["extra"]
    own = {key: value for key, value in expected["extra"].items() if key in extra and not (shapes and key == "shapes")}
    yield from differences({"extra": own}, {"extra": {key: value for key, value in extra.items() if key in own}})
    if shapes:
        yield from edited_shapes(expected["extra"]["shapes"], extra["shapes"], model)
    yield from _loss(model, stated, problem, record)
    yield from _promises(stated, record)
    yield from _columns(model, stored, record)


def _stored_anew(model: PrivateEstimator, record: CertificateRecord) -> PrivateEstimator:
    """The model as the fit of this record would have stored it."""
    plan, _ = rebuilt_plan(record)
    w = np.ravel(unpacked(record["coefficients"]["encoded"]))
    again = copy(model)
    again._store(Release(w, Certificate(record), plan, dict(record["released"]), {}))
    return again


def _loss(model: PrivateEstimator, stated: Mapping[str, object], problem: Problem, record: CertificateRecord) -> Iterator[str]:
    """The kind of estimator and its options decide what a score means: they must lead to the certified loss and domain."""
    again, target = copy(model), record["target"]
    if "delta" not in stated:  # a file leaves out what is no plain number
        again.delta = target["delta"]
    if "method" not in stated:  # an object: the default loss and the default penalty follow from its name
        again.method = record["mechanism"]["name"]
    if "radius" not in stated:
        again.radius = problem.domain.radius if math.isfinite(problem.domain.radius) else None
    found, certified = again._loss().spec(), problem.loss.spec()
    known = {"name", "classes", *(OF_LOSS.get(name, name) for name in stated)}
    if "loss" in model.get_params(deep=False) and "loss" not in stated and isinstance(model, PrivateClassifier):
        known -= {"name"}  # files of version 0.1.0 leave it out; classes follow from the scores alike
    if any(found.get(key) != certified.get(key) for key in known):
        yield f"estimator and its parameters lead to the loss {found}, and the certificate states {certified}"
    domain = (WholeSpace() if again.radius is None else Ball(again.radius)).spec()
    if domain != problem.domain.spec():
        yield f"parameters.radius says {again.radius}, and the certificate states the domain {problem.domain.spec()}"
    again._size = (record["shape"]["n"], target["rows_per_person"])
    penalty = again._regularizer().spec() if "regularization" in stated else problem.regularizer.spec()
    if penalty != problem.regularizer.spec():
        yield f"parameters.regularization leads to {penalty}, and the certificate states {problem.regularizer.spec()}"
    yield from _aim(again, stated, record["mechanism"]["options"])


def _aim(again: PrivateEstimator, stated: Mapping[str, object], options: Mapping[str, object]) -> Iterator[str]:
    """What a mechanism by name was asked for; one that was passed as an object is not in a model's file."""
    if "method" not in stated:
        return
    same = {name: options[own] for name, own in OPTIONS.items() if name in stated and options.get(own) is not None}
    yield from (f"parameters.{reason}" for reason in differences(same, {name: stated[name] for name in same}))
    asked = getattr(again, "_options", None)
    if asked is not None and "loss" in stated and "aim" in options:
        aim = asked().get("aim", "accuracy")
        if aim != options["aim"]:
            yield f"parameters.loss asks for {aim}, and the certificate was fitted for {options['aim']}"


def _promises(stated: Mapping[str, Any], record: CertificateRecord) -> Iterator[str]:
    """What the file says of the budget, of the noise and of whom they protect."""
    target, policy = record["target"], record["noise"]["policy"]
    known: dict[str, object] = {name: target[name] for name in ("epsilon", "delta", "relation")}
    if policy != "seeded":
        known["noise"] = policy
    if record["encoding"] is not None:
        known["x_norm"] = record["encoding"]["x_norm"]
    if record["guarantee"].get("unit") == "person":
        known["max_rows_per_person"] = target["rows_per_person"]
    elif "groups" in stated:
        yield f"parameters.groups says {stated['groups']!r}, and the certificate protects rows"
    given = {name: stated[name] for name in known if name in stated}
    yield from (f"parameters.{reason}" for reason in differences({name: known[name] for name in given}, given))


def _columns(model: PrivateEstimator, stored: Mapping[str, Any], record: CertificateRecord) -> Iterator[str]:
    """The declared columns must be those of the certified encoding: they say which cell a coefficient is multiplied with."""
    schema, certified, columns = model._declared_schema(), record["encoding"] or {}, stored.get("columns") or []
    if schema is None:
        if columns and columns != certified.get("names"):
            yield "columns are others than the certificate names in its encoding"
        return
    encoding = schema.encoding().resolved(record["decided"]).spec()
    if "rules" not in certified:  # of version 0.1.0, or where every missing cell counts as a value
        encoding.pop("rules", None)
    yield from (f"schema: its encoding.{reason}" for reason in differences(certified, encoding))
    if columns and columns != [column.name for column in schema.columns if column.type != "ignored"]:
        yield "columns are others than those of the schema"
    classes = None if schema.target is None else schema.target.classes
    if classes is not None and hasattr(model, "classes_") and set(map(str, classes)) != set(map(str, model.classes_.tolist())):
        yield f"extra.classes says {model.classes_.tolist()}, and the schema's target has {list(classes)}"


def _of_scores(stored: Any, record: Any) -> Iterator[str]:
    """Against an evaluation, which scored the model as it predicts: edited shapes are other coefficients."""
    model = model_from_record(stored)
    if coefficient_hash(model._shown) != record["model"]["sha256"]:
        yield OTHER
        return
    if stored["estimator"] != record["model"]["estimator"]:
        yield f"estimator says {stored['estimator']!r}, and the evaluation scored {record['model']['estimator']!r}"
    if model._encoding.d != record["shape"]["d"]:
        yield f"encoding has {model._encoding.d} columns, and the evaluation scored {record['shape']['d']}"
    if "question" not in record:
        return
    asked = Question.from_spec(record["question"])
    most = asked.max_exposure if asked.kind == "counts" and asked.max_exposure != 1.0 else None
    found = question_of(model, bins=asked.bins, max_exposure=most)
    if not asked.labels:  # of version 0.3.0 and before
        found = replace(found, labels=())
    for name in ("kind", "classes", "probabilities", "labels", "low", "high"):
        if getattr(found, name) != getattr(asked, name):
            own, scored = getattr(found, name), getattr(asked, name)
            yield f"extra and parameters lead to {name} {own!r}, and the evaluation scored {scored!r}"
