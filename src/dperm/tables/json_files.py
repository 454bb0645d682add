"""JSON files, read with care and written whole."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def read_json(path: str | Path, *, limit: int = 256 * 2**20) -> Any:
    """A JSON file of reasonable size; NaN, Infinity and numbers beyond floats, deep nesting and broken text are refused."""
    file = Path(path)
    if file.is_dir():
        held = ", ".join(sorted(path.name for path in file.glob("*.json"))[:5])
        raise ValueError(f"Expected a file at {file}, found a folder{f' with {held}' if held else ''}. Pass one of its files.")
    if not file.is_file():
        raise ValueError(f"Expected a file at {file}, found none. Check the path.")
    if file.stat().st_size > limit:
        raise ValueError(f"Expected a file below {limit >> 20} MB, found {file.stat().st_size >> 20} MB in {file.name}.")
    try:
        return parsed_json(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        advice = "Correct the text there; often a comma is missing or too many." if file.suffix == ".json" else "Check the path."
        raise ValueError(f"Expected JSON in {file.name}, found text that does not parse: {error}. {advice}") from error


def parsed_json(text: str) -> Any:
    """JSON text as Python has it. A key that stands twice is refused: a reader may take the first for true, and we the last."""
    return json.loads(text, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_once)


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is larger than any number that a float holds (1.8e308)")
    return number


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def in_folder(path: str | Path, name: str) -> Path:
    """The file itself, or the file of that name in the folder that a fit wrote."""
    given = Path(path)
    return given / name if given.is_dir() and (given / name).is_file() else given


def check_room(folder: str | Path, names: Iterable[str], *, overwrite: bool = False, option: str = "--out") -> None:
    """Raise before anything is spent where the files could not be written afterwards, or would replace paid-for ones.

    `option` is what named the place.
    """
    target = Path(folder)
    present = [name for name in names if (target / name).exists()]
    if present and not overwrite:
        raise ValueError(
            f"Expected a new place for the results, found {present[0]} in {target} already. Pass another {option}, or "
            "--overwrite to replace it; if it was paid for, that stays spent. Nothing was spent now."
        )
    there = next(place for place in (target, *target.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=there):  # the folder itself is made only when there is something to write
            pass
    except OSError as error:
        raise ValueError(
            f"Expected a folder to write to at {target}, found: {error.strerror}. Pass another {option}. Nothing was spent."
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
