"""A public description of columns: what a person who has never seen the data could write down.

    {"columns": {"age": {"type": "numeric", "low": 17, "high": 90},
                 "sex": {"type": "categorical", "levels": ["Female", "Male"]}},
     "target":  {"column": "income", "type": "classes", "classes": ["<=50K", ">50K"]}}

Column types: numeric (low, high), ordinal (levels in order), categorical (levels), boolean, sparse (non-negative, mostly zero:
high), datetime (parts), ignored, private (a profile finds the type, and pays for it). Numeric columns may have `bins`, `log` or a
`shape`, categorical ones a `hash` instead of levels (`transforms.py`), and `interactions` beside "columns" lists pairs of columns
that are multiplied (`interactions.py`). A numeric column may say "bounds": "private" instead of low and high: the fit then pays
for them. A categorical column may say
"levels": "private": a profile then pays for them. `missing` says what a null becomes. In numeric and ordinal columns: "mean"
(the default: the private centre of the column, or the middle of its bounds where the method releases none), "middle",
"indicator" (as "mean", and a 0/1 column says where a cell was missing), a number or a level. In categorical columns: a level,
"its own level", or by default the all-zero one-hot. In boolean and sparse columns: a number, 0 by default. A cell that does not
parse is missing; an unknown level is the all-zero one-hot. Boolean columns with the same `group` are a one-hot code written
out: exactly one of them is 1. `row_norm` beside "columns" bounds a row's norm.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dperm.problem.arrays import offers
from dperm.problem.plain import is_number, plain_number, shown
from dperm.tables.cells import codes, numbers
from dperm.tables.column import OWN_LEVEL, Column, TargetColumn, described, scaled
from dperm.tables.drafts import Draft, column_types, drafted
from dperm.tables.encoding import Encoding
from dperm.tables.files import check_different
from dperm.tables.gaps import kept_entries
from dperm.tables.interactions import Interaction, declared_pairs, products
from dperm.tables.json_files import read_json
from dperm.tables.streams import check_names
from dperm.tables.tables import Table, cells, stored
from dperm.tables.transforms import Hats
from dperm.words.spelling import closest, quoted, scalars

if TYPE_CHECKING:
    from dperm.problem.arrays import Matrix

PARTS = ("name", "note", "columns", "target", "row_norm", "interactions")
MOST_MISTAKES, MOST_NAMES = 12, 30  # that a message lists


@dataclass(frozen=True)
class Schema:
    """Declared columns and target.

    Parameters
    ----------
    columns : tuple of Column
        The declared columns, in order.
    target : Label or None, default None
        What a model predicts.
    name : str
        Name of the table, for reports.
    row_norm : float or None, default None
        Public bound on the norm of an encoded row.
    interactions : tuple
        Products of two columns that are features too.

    Examples
    --------
    >>> schema = Schema.from_dict({"columns": {"age": {"type": "numeric", "low": 0, "high": 100}}})
    >>> schema.encoding().norm
    0.5
    """

    columns: tuple[Column, ...]
    target: TargetColumn | None = None
    name: str = "table"
    row_norm: float | None = None
    interactions: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if len(set(names := [name for piece in self.pieces for name in piece.features])) != len(names):
            raise ValueError("Expected features with names that differ, found a name twice. Rename a column of the schema.")

    @property
    def pieces(self) -> list[Column | Interaction]:
        """What the columns become, in order: themselves, parts of them, and the products of pairs."""
        found: list[Column | Interaction] = [piece for column in self.columns for piece in column.pieces]
        return [*found, *products(self.interactions, [piece for piece in found if isinstance(piece, Column)])]

    @classmethod
    def from_dict(cls, spec: Mapping[str, Any]) -> Schema:
        """Build from the JSON form; every mistake is named with its place."""
        if not isinstance(spec, Mapping) or not isinstance(spec.get("columns"), Mapping) or not spec["columns"]:
            given = [str(key)[:40] for key in list(spec)[:9]] if isinstance(spec, Mapping) else [type(spec).__name__]
            keys, hint = ", ".join(map(repr, given)), "" if "columns" in given else closest((given or [""])[0], PARTS)
            raise ValueError(
                f'Expected a schema {{"columns": {{name: {{...}}}}, "target": {{...}}}}, found {keys or "nothing"}.{hint} Draft '
                "one with `dperm schema FILE`."
            )
        unknown = [str(key)[:60] for key in spec if key not in PARTS]
        if unknown:
            hint = closest(unknown[0], PARTS)
            raise ValueError(f"Expected {', '.join(PARTS)} at the top of a schema, found {unknown[0]!r}.{hint} Correct it.")
        columns: list[Column] = []
        mistakes: dict[str, str] = {}
        for name, entry in spec["columns"].items():
            try:
                columns.append(described(str(name), entry))
            except ValueError as error:
                mistakes[str(name)] = str(error)
        if mistakes:
            raise ValueError("\n".join(_said_once(mistakes)))
        if all(column.type == "ignored" for column in columns):
            raise ValueError("Expected at least one column that is not ignored, found none. Declare the features.")
        target = spec.get("target")
        declared = None
        # A draft's target that was left empty is no target: --target names one.
        if target is not None and not (isinstance(target, Mapping) and target.get("column") == ""):
            if not isinstance(target, Mapping) or not isinstance(target.get("column"), str):
                raise ValueError('Expected "target": {"column": ..., "type": ...}, found something else. Write it so.')
            classes = target.get("classes")
            if "private" in (classes, target.get("bounds")):
                raise ValueError(
                    f'Expected what the target {target["column"]!r} can be, found "private". Leave "target" out, and name it to '
                    "`dperm.profile(table, schema=..., target=...)`, which finds it; the commands `profile` and `fit` do so."
                )
            classes = None if classes is None else scalars(classes, f"classes of target {target['column']!r}")
            declared = TargetColumn(
                str(target["column"]),
                target.get("type", ""),
                None if classes is None else tuple(classes),
                target.get("low"),
                target.get("high"),
            )
        norm = spec.get("row_norm")
        norm = plain_number(norm, "row_norm") if is_number(norm) else norm
        if norm is not None and not (is_number(norm) and 0 < norm < math.inf):
            raise ValueError(f"Expected row_norm > 0, the largest norm of a row, found {shown(norm)}. Correct the schema.")
        name, norm = str(spec.get("name", "table")), None if norm is None else float(norm)
        return cls(tuple(columns), declared, name, norm, declared_pairs(spec.get("interactions")))

    @classmethod
    def of(cls, declared: Schema | Mapping[str, Any] | str | Path) -> Schema:
        """A schema in any form: itself, its JSON form, or the path of a file."""
        if isinstance(declared, Schema):
            return declared
        if not isinstance(declared, Mapping | str | Path):
            raise ValueError(
                f"Expected schema= as a Schema, a dict or a path, found {type(declared).__name__}. Pass e.g. "
                '{"columns": {...}, "target": {...}}.'
            )
        return cls.from_dict(declared) if isinstance(declared, Mapping) else cls.load(declared)

    @property
    def declared_target(self) -> TargetColumn:
        """The target, where there must be one."""
        if self.target is None:
            raise ValueError('Expected a target in the schema, found none. Add "target" to the schema.')
        return self.target

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read JSON or TOML."""
        return cls.from_dict(cls.read(path))

    @staticmethod
    def read(path: str | Path) -> Any:
        """What a schema's file says, complete or not."""
        file = Path(path)
        if not file.is_file():
            raise ValueError(f"Expected a schema at {file}, found no file. Draft one with `dperm schema`, or check the path.")
        if file.suffix != ".toml":
            return read_json(file)
        try:
            return tomllib.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"Expected a schema in TOML in {file}, found text that does not parse: {error}.") from error

    def spec(self) -> dict[str, object]:
        found: dict[str, object] = {"name": self.name, "columns": {c.name: c.spec() for c in self.columns}}
        if self.row_norm is not None:
            found["row_norm"] = self.row_norm
        if self.interactions:
            found["interactions"] = [list(pair) for pair in self.interactions]
        if self.target is not None:
            found["target"] = self.target.spec()
        return found

    def with_target(self, column: str) -> Schema:
        """The same schema for another target; a declared column may become the target if it has classes or bounds."""
        if self.target is not None and self.target.column == column:
            return self
        named = {c.name: c for c in self.columns}
        if column not in named:
            known = [*named, *([] if self.target is None else [self.target.column])]
            hint = closest(column, known) or f" Declared are {', '.join(map(repr, known[:20]))}."
            raise ValueError(f"Expected target {column!r} among the declared columns, found none.{hint} Add it to the schema.")
        chosen = named[column]
        kind = "numeric" if chosen.type in ("numeric", "sparse") else "classes"
        classes = (0, 1) if chosen.type == "boolean" else chosen.levels
        target = TargetColumn(column, kind, classes if kind == "classes" else None, chosen.low, chosen.high)
        return Schema(tuple(c for c in self.columns if c.name != column), target, self.name, self.row_norm, self.interactions)

    def encoding(self) -> Encoding:
        """The encoding of the features, in the order of the columns."""
        for column in self.columns:
            if column.to_find:
                what = "levels" if column.private_levels else "type"
                raise ValueError(
                    f'Expected the {what} of column {column.name!r}, found "private". Find them first: `dperm.profile(table, '
                    "schema=..., epsilon=...).schema()` fills them in, and `dperm fit` does both in one budget."
                )
        features: list[tuple[object, ...]] = []  # name, kind, low, high, missing, group, rule
        numbered: dict[str, int] = {}
        for piece in self.pieces:
            if isinstance(piece, Interaction) and not piece.is_choice:
                features += [(name, "numeric", *piece.range, 0.0, -1, "value") for name in piece.features]
                continue
            first, *others = piece.features
            if isinstance(piece, Interaction) or piece.type == "categorical" or piece.group is not None:
                # Boolean columns of one group are a one-hot code that somebody wrote out: one of them is 1.
                grouped = isinstance(piece, Column) and piece.group is not None
                label = f"group {piece.group}" if grouped else f"column {piece.name}"  # type: ignore[union-attr]
                group = numbered.setdefault(label, len(numbered))
                choice = zip(piece.features, _missing_features(piece))
                features += [(name, "categorical", 0.0, 1.0, missing, group, "value") for name, missing in choice]
                continue
            features.append((first, *scaled(piece)))
            for name in others:  # where a cell was missing
                group = numbered.setdefault(f"missing {piece.name}", len(numbered))
                features.append((name, "categorical", 0.0, 1.0, 0.0, group, "value"))
        names, kinds, low, high, missing, groups, rules = zip(*features)
        return Encoding(names, kinds, np.array(low), np.array(high), np.array(missing), groups, self.row_norm, True, rules)

    def check(self, found: list[str], *, with_target: bool = True, fitted: bool = False) -> None:
        """The table's columns against the declared ones; raises before anything is spent. `fitted`: the schema is a model's."""
        check_different(found)
        needed = [c.name for c in self.columns if c.type != "ignored"]
        if with_target and self.target is not None:
            needed.append(self.target.column)
        absent = [name for name in needed if name not in found]
        if absent and fitted:
            raise ValueError(
                f"Expected the columns that the model was fitted on, found a table without {', '.join(map(repr, absent))}."
                f"{closest(absent[0], found)} Add them to the table; their cells may be empty."
            )
        if self.target is not None and absent == [self.target.column]:
            raise ValueError(
                f"Expected the target {absent[0]!r} among the columns of the table, found {quoted(found)}."
                f"{closest(absent[0], found)} Add the column, or correct its name in the table or the schema; in Python, `fit` "
                "and `evaluate` also take the labels as y."
            )
        check_names(needed, found)

    def features(self, cells: Mapping[str, object]) -> np.ndarray:
        """Raw feature matrix from columns of cells; encode it with `encoding().transform`."""
        return np.concatenate([_encode(piece, cells) for piece in self.pieces], axis=1)

    def encoded(self, table: Table, encoding: Encoding | None = None) -> Matrix:
        """Encoded rows of a table, ready to be summed: CSR where the schema says that most entries are 0, else dense.

        The choice is made from the schema alone. A one-hot group stores one entry per row however many levels it has, so a
        descent over Adult reads 13 numbers per row where the dense form has 107.
        """
        encoding = self.encoding() if encoding is None else encoding
        take = stored if offers(table, "combine_chunks") else cells  # text that Arrow stores is read as it lies there
        found = {column.name: take(table, column.name) for column in self.columns if column.type != "ignored"}
        if not encoding.mostly_zero:
            return encoding.transform(self.features(found))
        places, values, start = [], [], 0
        for piece in self.pieces:
            level = _places(piece, found)
            if level is not None:
                places.append(np.maximum(level, 0).astype(np.int32) + np.int32(start))
                values.append((level >= 0).astype(np.float64))
            else:
                raw = _encode(piece, found)
                places += [np.full(len(raw), start + offset, dtype=np.int32) for offset in range(raw.shape[1])]
                values += [encoding.transform_column(start + offset, raw[:, offset]) for offset in range(raw.shape[1])]
            start += len(piece.features)
        return kept_entries(np.stack(values, axis=1), np.stack(places, axis=1), start)

    def labels(self, cells: object) -> np.ndarray:
        """Target cells as class labels (in the type of the declared classes) or numbers; unknown → None or NaN."""
        target = self.declared_target
        if target.type != "classes":
            return numbers(cells)
        code = codes(cells, target.classes or ())
        labels = np.array([*(target.classes or ()), None], dtype=object)
        return np.asarray(labels[code])

    @classmethod
    def from_table(cls, table: Table) -> Draft:
        """A draft to fill in, from the names and storage types of a pandas, polars or Arrow table: no value is read."""
        return cls.draft(column_types(table))

    @classmethod
    def draft(cls, types: Mapping[str, str | None], name: str = "table") -> Draft:
        """A schema to fill in, from column names and storage types alone: no value of the data is ever copied.

        >>> Schema.draft({"age": "int64", "town": None})["columns"]
        {'age': {'type': 'numeric', 'low': None, 'high': None}, 'town': {'type': None}}
        """
        columns = {column: drafted(column, storage) for column, storage in types.items()}
        return {"name": name, "columns": columns, "target": {"column": "", "type": "classes", "classes": []}}


def _encode(piece: Column | Interaction, cells: Mapping[str, object]) -> np.ndarray:
    return piece.encode(cells) if isinstance(piece, Interaction) else piece.encode(cells[piece.source or piece.name])


def _missing_features(piece: Column | Interaction) -> list[float]:
    """What a missing cell of a choice switches on, where it counts as a declared level; one of its own says so by its name."""
    if isinstance(piece, Interaction) or piece.missing in (None, OWN_LEVEL):
        return [0.0] * len(piece.features)
    return [min(max(float(value), 0.0), 1.0) for value in piece.encode([None])[0]]


def _places(piece: Column | Interaction, cells: Mapping[str, object]) -> np.ndarray | None:
    """Which feature of a choice each row switches on; None where the piece is no choice."""
    if isinstance(piece, Interaction):
        return piece.places(cells) if piece.is_choice else None
    choice = piece.type == "categorical" and not isinstance(piece.reader, Hats)
    return piece.places(cells[piece.source or piece.name]) if choice else None


def _said_once(mistakes: Mapping[str, str]) -> list[str]:
    """A sentence per kind of mistake, with all columns that it is about: a draft that was left empty is one mistake.

    >>> _said_once({"a": "Expected a type of column 'a', found none.", "b": "Expected a type of column 'b', found none."})
    ["Expected a type of columns 'a', 'b', found none."]
    """
    found: dict[str, list[str]] = {}
    for name, text in mistakes.items():
        found.setdefault(text.replace(f"column {name!r}", "column \0"), []).append(name)
    lines = []
    for text, names in list(found.items())[:MOST_MISTAKES]:
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        listed = ", ".join(map(repr, names[:MOST_NAMES])) + more
        lines.append(text.replace("column \0", f"columns {listed}" if len(names) > 1 else f"column {listed}"))
    left = sum(len(names) for names in list(found.values())[MOST_MISTAKES:])
    return [*lines, f"{left} more columns have mistakes."] if left else lines
