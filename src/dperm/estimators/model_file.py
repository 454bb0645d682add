"""Models from disk: JSON, never pickle, so that opening one runs no code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

import numpy as np

import dperm.estimators as estimators
from dperm.estimators.base import PrivateEstimator
from dperm.estimators.saving import FORMAT, KEPT_OUT, PLAIN, keep_parameters
from dperm.estimators.search import SearchCertificate
from dperm.tables.encoding import Encoding
from dperm.tables.json_files import in_folder, read_json
from dperm.tables.packed import unpacked
from dperm.walk.certificate import Certificate, coefficient_hash
from dperm.walk.claims import HOSTILE, kind_of
from dperm.walk.fitting import Release, rebuilt_plan


def model_from_record(record: object) -> PrivateEstimator:
    """Rebuild a fitted estimator; anything that is not a model is refused with a sentence."""
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise ValueError(f"Expected a model with format {FORMAT!r}, found another file. Pass model.json.")
    names = set(estimators.__all__)
    if not isinstance(record.get("estimator"), str) or record["estimator"] not in names:
        raise ValueError(
            f"Expected an estimator in {sorted(names)}, found {str(record.get('estimator'))[:60]!r}. "
            "Pass a model that dperm wrote."
        )
    # A schema that is a word would be taken for the path of a file: a stranger's model must not name one.
    schema, intercept = record.get("schema"), record.get("fit_intercept")
    if not (schema is None or isinstance(schema, dict)) or not isinstance(intercept, bool):
        raise ValueError("Expected a complete model, found a damaged one: its schema or intercept has the wrong type.")
    try:
        kind = getattr(estimators, record["estimator"])
        model: PrivateEstimator = kind(schema=schema, fit_intercept=intercept, **_parameters(kind, record))
        declared = model._declared_schema()
        model._encoding = Encoding.from_spec(record["encoding"])
        model.w_ = unpacked(record["w"])
        model.n_features_in_ = model._encoding.d
        model.__dict__["certificate_"] = None
        if model.w_.ndim not in (1, 2) or not np.isfinite(model.w_).all():
            raise ValueError("coefficients that are no list of finite numbers")
        if model.per_column and model.w_.shape[-1] != model._encoding.d + int(model.fit_intercept):
            raise ValueError("coefficients that do not fit the columns")
        model._restore(record["extra"])
        model._in_callers_units()
        model._person = getattr(model, "groups", None)
        if about := _about(record):
            model.about_ = about
        columns = _columns(record) or [c.name for c in getattr(declared, "columns", ()) if c.type != "ignored"]
        if columns:
            model.feature_names_in_ = np.array(columns, dtype=object)
        keep_parameters(model)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"Expected a complete model, found a damaged one: {error}.") from error
    return model


def _parameters(kind: type, record: Mapping[str, object]) -> dict[str, object]:
    """The stated constructor parameters: plain values of known names only; models of earlier versions state none."""
    stated, known = record.get("parameters", {}), kind().get_params(deep=False)
    if not isinstance(stated, dict) or not all(name in known and name not in KEPT_OUT for name in stated):
        raise ValueError("parameters that the estimator does not have")
    if not all(type(value) in PLAIN for value in stated.values()):
        raise ValueError("parameters that are no plain values")
    return stated


def _columns(record: Mapping[str, object]) -> list[str]:
    columns = record.get("columns", [])
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise ValueError("names of columns that are no words")
    return columns


def _about(record: Mapping[str, object]) -> dict[str, str]:
    """Title, data set and day, as the one who fitted named them; they say nothing that a certificate could confirm."""
    about = record.get("about", {})
    if not isinstance(about, dict) or not all(isinstance(word, str) for pair in about.items() for word in pair):
        raise ValueError("names of the fit that are no words")
    return about


def load_model(path: str | Path) -> PrivateEstimator:
    """A fitted model from `model.save` or `dperm fit`: its file, or the folder that holds model.json.

    It has `coef_`, `predict` and, where its certificate is in the file or beside it, `certificate_`, `plan_` and `summary()`.

    Parameters
    ----------
    path : path
        The model's file, or the folder that holds model.json.
    """
    if not isinstance(path, str | PathLike):
        kind = type(path).__name__
        raise TypeError(f"Expected the path of a model or of its folder, found type {kind}. Pass what save() returned.")
    file = in_folder(path, "model.json")
    record = read_json(file)
    model = model_from_record(record)
    beside = file.with_name("certificate.json")
    if record.get("certificate") is not None:
        _certified(model, record["certificate"])
    elif beside.is_file():
        claim = read_json(beside)
        if _certified_hash(claim) == coefficient_hash(model.w_):  # another model's certificate says nothing about this one
            _certified(model, claim)
    return model


def _certified_hash(claim: object) -> object:
    """The hash of the coefficients that a certificate speaks of; None where it speaks of none."""
    fit = claim.get("best", claim) if isinstance(claim, dict) else {}
    coefficients = fit.get("coefficients") if isinstance(fit, dict) else None
    return coefficients.get("sha256") if isinstance(coefficients, dict) else None


def _certified(model: PrivateEstimator, claim: object) -> None:
    """Give the model its certificate, and the plan and release that follow from it."""
    if _certified_hash(claim) != coefficient_hash(model.w_):
        raise ValueError("Expected the certificate of this model, found one of other coefficients. Save the model again.")
    stated: Mapping[str, object] = claim if isinstance(claim, dict) else {}
    search = SearchCertificate.stated(stated) if stated.get("format") == SearchCertificate.FORMAT else None
    try:
        certificate = Certificate.from_json(json.dumps(stated if search is None else search.record["best"]))
        plan, _ = rebuilt_plan(certificate.record)
        model.__dict__["certificate_"] = certificate if search is None else search
        model.release_ = Release(model.w_, certificate, plan, dict(certificate.record["released"]), {})
        model.plan_ = plan
    except HOSTILE as error:
        raise ValueError(f"Expected a whole certificate with the model, found a damaged one: {error}.") from error


def verified_certificate(file: Path) -> Certificate:
    """The certificate in a file, if it verifies; seeded noise and assumptions are its reader's to state."""
    read_json(file)
    found = Certificate.load(file)
    verdict = found.verify(allow_seeded=True, accept_assumptions=True)
    if not verdict.ok:
        raise ValueError(
            f"Expected a certificate that verifies in {file}, found: {verdict.reasons[0]}. Run `dperm verify` for the rest."
        )
    return found


def certified_model(place: Path, certificate: Certificate) -> PrivateEstimator | None:
    """The model in the file of a certificate or beside it, if there is one and the certificate is its own; None otherwise."""
    file = place if kind_of(read_json(place)) == "a model" else place.with_name("model.json")
    if not file.is_file():
        return None
    model = load_model(file)
    claim = model.certificate_
    return model if claim is not None and claim.record == certificate.record else None
