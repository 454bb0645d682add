"""Models on disk: JSON, never pickle, so that opening one runs no code."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dperm.encoding import Encoding

FORMAT = "dperm-model/1"


def model_record(estimator: Any) -> dict[str, Any]:
    """Everything needed to predict, as a JSON object."""
    schema = estimator._declared_schema()
    record: dict[str, Any] = {
        "format": FORMAT,
        "estimator": type(estimator).__name__,
        "schema": None if schema is None else schema.spec(),
        "encoding": estimator._encoding.spec(),
        "fit_intercept": bool(estimator.fit_intercept),
        "w": np.asarray(estimator.w_).tolist(),
    }
    record["extra"] = estimator._extra_record()
    return record


def model_from_record(record: Any) -> Any:
    """Rebuild a fitted estimator; anything that is not a model is refused with a sentence."""
    import dperm.estimators as estimators

    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise ValueError(f"Expected a model with format {FORMAT!r}, found another file. Pass model.json.")
    names = set(estimators.__all__)
    if not isinstance(record.get("estimator"), str) or record["estimator"] not in names:
        raise ValueError(f"Expected an estimator in {sorted(names)}, found {str(record.get('estimator'))[:60]!r}.")
    # A schema that is a word would be taken for the path of a file: a stranger's model must not name one.
    schema, intercept = record.get("schema"), record.get("fit_intercept")
    if not (schema is None or isinstance(schema, dict)) or not isinstance(intercept, bool):
        raise ValueError("Expected a complete model, found a damaged one: its schema or intercept has the wrong type.")
    try:
        model = getattr(estimators, record["estimator"])(schema=record["schema"], fit_intercept=record["fit_intercept"])
        model._declared_schema()
        model._encoding = Encoding.from_spec(record["encoding"])
        model.w_ = np.array(record["w"], dtype=np.float64)
        model.n_features_in_ = model._encoding.d
        model.certificate_ = None
        if model.w_.ndim not in (1, 2) or not np.isfinite(model.w_).all():
            raise ValueError("coefficients that are no list of finite numbers")
        if model.per_column and model.w_.shape[-1] != model._encoding.d + int(model.fit_intercept):
            raise ValueError("coefficients that do not fit the columns")
        model._restore(record["extra"])
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"Expected a complete model, found a damaged one: {error}.") from error
    return model


def read_json(path: str | Path, *, limit: int = 256 * 2**20) -> Any:
    """A JSON file of reasonable size; NaN and Infinity, deep nesting and broken text are refused."""
    file = Path(path)
    if file.is_dir():
        held = ", ".join(sorted(path.name for path in file.glob("*.json"))[:5])
        raise ValueError(f"Expected a file at {file}, found a folder{f' with {held}' if held else ''}. Pass one of its files.")
    if not file.is_file():
        raise ValueError(f"Expected a file at {file}, found none. Check the path.")
    if file.stat().st_size > limit:
        raise ValueError(f"Expected a file below {limit >> 20} MB, found {file.stat().st_size >> 20} MB in {file.name}.")
    try:
        return json.loads(file.read_text(encoding="utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        advice = "Correct the text there; often a comma is missing or too many." if file.suffix == ".json" else "Check the path."
        raise ValueError(f"Expected JSON in {file.name}, found text that does not parse: {error}. {advice}") from error


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def load_model(path: str | Path) -> Any:
    return model_from_record(read_json(path))


def check_room(folder: str | Path, names: Iterable[str], *, overwrite: bool = False) -> None:
    """Raise before anything is spent where the files could not be written afterwards, or would replace paid-for ones."""
    target = Path(folder)
    present = [name for name in names if (target / name).exists()]
    if present and not overwrite:
        raise ValueError(
            f"Expected a new place for the results, found {present[0]} in {target} already. Pass another --out, or --overwrite "
            "to replace it: what it cost stays spent. Nothing was spent now."
        )
    there = next(place for place in (target, *target.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=there):  # the folder itself is made only when there is something to write
            pass
    except OSError as error:
        raise ValueError(
            f"Expected a folder to write to at {target}, found: {error.strerror}. Pass another --out. Nothing was spent."
        ) from error


def write_whole(folder: str | Path, files: dict[str, str]) -> None:
    """Write all files or none: each goes to a temporary name first, and names are switched only when all are written."""
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"Expected a folder to write to at {target}, found: {error.strerror}. Pass another --out.") from error
    written: list[tuple[Path, Path]] = []
    try:
        for name, text in files.items():
            temporary = target / f".{name}.part"
            temporary.write_text(text, encoding="utf-8")
            written.append((temporary, target / name))
    except OSError as error:
        for temporary, _ in written:
            temporary.unlink(missing_ok=True)
        raise ValueError(f"Expected room to write in {target}, found: {error.strerror}. Nothing was written.") from error
    for temporary, final in written:
        temporary.replace(final)


