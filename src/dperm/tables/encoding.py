"""From declared columns to bounded rows: public scaling, and its inverse for coefficients.

    encoded_j = (clip(x_j, low_j, high_j) - anchor_j) / width_j

| kind        | low, high | anchor   | width    | adds to R² |
|-------------|-----------|----------|----------|------------|
| numeric     | declared  | midpoint | high-low | 1/4        |
| categorical | 0, 1      | 0        | 1        | 1 a group  |
| boolean     | 0, 1      | 0        | 1        | 1          |
| sparse      | 0, high   | 0        | high     | 1          |
| free        | none      | 0        | x_norm   | 1 in all   |
| private     | released  | midpoint | high-low | 1/4        |

`free` columns are those of a plain array with only `x_norm=` declared. `private` columns (`bounds="private"`) are stored on a
public logarithmic scale until the fit has paid for their bounds (`private_bounds.py`); then they are numeric. Everything else is
declared by the caller: nothing is read off the data. Rows are then clipped to the norm R by `DataBounds.enforce`, so R is a fact
even for a row with two ones in a one-hot group.

A missing cell (a null, NaN, an infinity, a cell that does not parse) follows its column's rule:

| rule     | a missing cell is                                                                                              |
|----------|----------------------------------------------------------------------------------------------------------------|
| value    | `missing`, in the column's units; clipped like any other value                                                 |
| mean     | the private centre of the column's present cells, where the method releases one; the middle otherwise          |
| middle   | encoded 0: the middle of the bounds (0 for free columns and for sparse matrices, which are not centred)        |
| released | `missing`, the centre that a fit released: what "mean" becomes once it is known                                |

"mean" and "middle" are stored as -0.0, the mark of a missing cell (`tables/gaps.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dperm.problem.arrays import Matrix, Vector, is_sparse
from dperm.problem.plain import is_number, plain_float, shown
from dperm.tables.declared import declared_bounds, grouped_columns, listed_columns
from dperm.tables.gaps import GAP, with_gaps_stored
from dperm.tables.scale import stored
from dperm.words.spelling import finite

if TYPE_CHECKING:
    from scipy import sparse


KINDS = ("numeric", "categorical", "boolean", "sparse", "free", "private")
RULES = ("value", "mean", "middle", "released")
LEAST, MOST = 1e-150, 1e150  # of a width or a norm: squares and quotients of it are numbers
WITH_GAPS = ("numeric", "free", "private")  # kinds whose missing cells may take a centre


@dataclass(frozen=True, eq=False)
class Encoding:
    """One entry per encoded feature, in order. `groups` says which one-hot group a categorical feature belongs to (-1: none).

    `missing` is what a missing cell becomes, in the column's units, and `rules` how (see above). Without `rules`, as in records
    of version 0.1.0, all are "value".
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    low: Vector
    high: Vector
    missing: Vector
    groups: tuple[int, ...]
    x_norm: float | None = None
    centred: bool = True
    rules: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.rules:
            object.__setattr__(self, "rules", ("value",) * len(self.names))
        if self.x_norm is not None and "private" in self.kinds:  # a norm is one of rows in units that are not known yet
            raise ValueError("Expected x_norm= (row_norm in a schema) without private bounds, found both. Leave one of them out.")
        with np.errstate(all="ignore"):
            narrow = ~((self.width > LEAST) & (self.width < MOST))
        if narrow.any():
            name = self.names[int(np.argmax(narrow))]
            raise ValueError(
                f"Expected bounds of column {name!r} between {LEAST:g} and {MOST:g} apart, found others: floats cannot keep what "
                "lies between. Declare the column in another unit."
            )

    @property
    def d(self) -> int:
        return len(self.names)

    def where(self, kind: str) -> NDArray[np.bool_]:
        return np.array([k == kind for k in self.kinds], dtype=bool)

    @property
    def gaps(self) -> tuple[int, ...]:
        """Columns whose missing cells take the private centre."""
        return tuple(j for j, rule in enumerate(self.rules) if rule == "mean")

    @property
    def gap_columns(self) -> NDArray[np.bool_]:
        """Columns whose missing cells are set in encoded units, after clipping and scaling."""
        return np.array([rule != "value" for rule in self.rules], dtype=bool)

    @property
    def fill(self) -> Vector:
        """Encoded value of a missing cell of such a column: its mark, or the released centre."""
        centres = (self.missing - self.anchor) / self.width
        return np.where([rule == "released" for rule in self.rules], centres, GAP)

    @property
    def width(self) -> Vector:
        width = np.where(self.where("free"), self.x_norm or 1.0, self.high - self.low)
        return np.where(self.where("categorical") | self.where("boolean"), 1.0, width)

    @property
    def anchor(self) -> Vector:
        with np.errstate(invalid="ignore"):  # free columns have no bounds: -inf + inf, and no anchor either
            middle = (self.low + self.high) / 2 if self.centred else np.zeros(self.d)
        return np.where(self.where("numeric"), middle, 0.0)

    @property
    def norm(self) -> float:
        """R: no encoded row is longer.

        A numeric column without centring (sparse storage) can reach max(|low|, |high|)/width. With both `bounds` and `x_norm`
        the tighter one counts: ‖encoded‖ ≤ x_norm/min width + ‖anchor/width‖ by the triangle inequality.
        """
        numeric = self.where("numeric")
        low, high, anchor, width = (side[numeric] for side in (self.low, self.high, self.anchor, self.width))
        reach = np.maximum(np.abs(low - anchor), np.abs(high - anchor)) / width
        square = float(np.sum(reach**2)) + len({g for g in self.groups if g >= 0})
        square += float(np.sum(self.where("boolean") | self.where("sparse"))) + float(np.sum(self.where("private"))) / 4
        if self.where("free").any():
            return math.sqrt(square + 1.0)
        box = math.sqrt(square)
        if self.x_norm is None:
            return box
        return min(box, self.x_norm / float(self.width.min()) + float(np.linalg.norm(self.anchor / self.width)))

    @property
    def mostly_zero(self) -> bool:
        """Whether CSR storage pays, from the declared kinds alone: a one-hot group stores one entry per row."""
        flags = float(np.sum(self.where("boolean") | self.where("sparse")))
        groups = len({group for group in self.groups if group >= 0})
        full = float(np.sum(self.where("numeric") | self.where("free")))
        return not self.where("private").any() and full + groups + 0.25 * flags <= 0.4 * self.d

    def packed(self, rows: Matrix) -> Matrix:
        """Encoded rows as they are summed fastest: CSR where most entries are 0 by declaration."""
        if is_sparse(rows) or not self.mostly_zero:
            return rows
        return with_gaps_stored(np.asarray(rows, dtype=np.float64))

    def transform(self, X: Matrix) -> Matrix:
        """Encode a raw matrix (dense or CSR) by the tables above; a bad cell follows its column's rule, never an error."""
        if X.shape[1] != self.d:
            known = f"Expected a table with the declared columns by name, or an array with their {self.d} encoded columns"
            raise ValueError(f"{known}, found one with {X.shape[1]}. Pass the table itself, not its values.")
        return self._transform_sparse(X) if is_sparse(X) else self._transform_dense(np.asarray(X))

    def _transform_dense(self, X: np.ndarray) -> np.ndarray:
        # The last bit of a row's norm depends on the layout, which a missing cell of somebody else would change.
        X = np.ascontiguousarray(X if X.dtype == np.float32 else X.astype(np.float64))
        known = np.isfinite(X)
        gap = None if known.all() else ~known & self.gap_columns
        if gap is not None:
            X = np.where(known, X, self.missing.astype(X.dtype))
        private = np.flatnonzero(self.where("private"))
        if len(private):
            X = X.astype(np.float64)
            X[:, private] = stored(X[:, private])
        bounded = ~self.where("free")
        if bounded.any():
            X = np.clip(X, self.low.astype(X.dtype), self.high.astype(X.dtype))
        if self.x_norm is not None:
            counted = X if gap is None else np.where(gap, X.dtype.type(0), X)  # a missing cell has no length
            # A row that stands alone is taken twice: einsum adds one of more than 8,192 numbers in another order there.
            pair = np.repeat(counted, 2, axis=0) if len(counted) == 1 else counted
            norms = np.sqrt(np.einsum("ij,ij->i", pair, pair, dtype=np.float64))[: len(counted)]
            X = X * (self.x_norm / np.maximum(norms, self.x_norm)).astype(X.dtype)[:, None]  # no row divides by 0, or warns of it
        X = ((X - self.anchor.astype(X.dtype)) / self.width.astype(X.dtype)).astype(X.dtype, copy=False)
        X += X.dtype.type(0)  # -0.0 means missing: a present cell has the other zero
        return X if gap is None else np.where(gap, self.fill.astype(X.dtype), X)

    def resolved(self, decided: Mapping[str, object]) -> Encoding:
        """The encoding once a fit has released bounds and centres: private columns become numeric ones with those bounds, and a
        missing cell the released centre of its column. The same again for an encoding that is resolved already."""
        low, high, missing = self.low.copy(), self.high.copy(), self.missing.copy()
        columns = np.flatnonzero(self.where("private"))
        if len(columns):
            low[columns], high[columns] = np.asarray(decided["low"]), np.asarray(decided["high"])
            middle = (low + high) / 2
            missing[columns] = np.where(self.gap_columns, middle, np.clip(missing, low, high))[columns]
        kinds = tuple("numeric" if kind == "private" else kind for kind in self.kinds)
        found = replace(self, kinds=kinds, low=low, high=high, missing=missing)
        if "fill" not in decided:
            return found
        centre = np.array([rule in ("mean", "released") for rule in self.rules], dtype=bool)
        missing = np.where(centre, found.anchor + found.width * np.asarray(decided["fill"]), missing)
        rules = tuple("released" if rule == "mean" else rule for rule in self.rules)
        return replace(found, missing=missing, rules=rules)

    def transform_column(self, j: int, values: Vector) -> Vector:
        """One raw column encoded by the same tables."""
        known = np.isfinite(values)
        raw = np.where(known, values, self.missing[j])
        if self.kinds[j] == "private":
            encoded = stored(raw) + 0.0
        else:
            encoded = (np.clip(raw, self.low[j], self.high[j]) - self.anchor[j]) / self.width[j] + 0.0
        return encoded if self.rules[j] == "value" else np.where(known, encoded, self.fill[j])

    def _transform_sparse(self, X: sparse.csr_array) -> Matrix:
        if self.where("private").any():
            raise ValueError("Expected dense rows for private bounds, found a sparse matrix. Declare bounds=(low, high).")
        if self.centred and self.where("numeric").any():
            raise ValueError("Expected an encoding without centring for sparse rows. Build it with centred=False.")
        if np.any((self.low > 0) | (self.high < 0)):
            raise ValueError("Expected bounds that contain 0 for sparse input, found a column without 0. Pass a dense array.")
        X = X.tocsr().astype(np.float64, copy=True)
        X.sum_duplicates()  # an entry stored twice is one cell: clipped apart, its parts could add up beyond the bound
        column = X.indices
        known = np.isfinite(X.data)
        X.data = np.where(known, X.data, self.missing[column])
        if not self.where("free").all() or np.any(self.width != 1.0):
            X.data = np.clip(X.data, self.low[column], self.high[column]) / self.width[column]
        X.data = np.where(known | ~self.gap_columns[column], X.data + 0.0, self.fill[column])
        return X  # x_norm, where declared, is enforced by DataBounds on the encoded row

    def original(self, w: Vector, intercept: float) -> tuple[Vector, Vector]:
        """Coefficients and intercept in the caller's units: ⟨x, coef⟩ + b equals ⟨encoded, w⟩ on rows inside the bounds.

        `w` has shape (features [+ 1]) or (K, features [+ 1]); `intercept` is the value of the constant column (0: none).
        """
        slopes = w[..., : self.d] / self.width
        constant = -np.asarray(slopes @ self.anchor)
        if intercept:
            constant = constant + intercept * w[..., self.d]
        return slopes, constant

    def spec(self) -> dict[str, object]:
        return {
            "names": list(self.names),
            "kinds": list(self.kinds),
            "low": [_plain(v) for v in self.low],
            "high": [_plain(v) for v in self.high],
            "missing": [float(v) for v in self.missing],
            "groups": list(self.groups),
            "x_norm": self.x_norm,
            "centred": self.centred,
            **({} if set(self.rules) <= {"value"} else {"rules": list(self.rules)}),
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> Encoding:
        _check_spec(spec)
        return cls(
            tuple(spec["names"]),
            tuple(spec["kinds"]),
            np.array([-math.inf if v is None else float(v) for v in spec["low"]]),
            np.array([math.inf if v is None else float(v) for v in spec["high"]]),
            np.array(spec["missing"], dtype=np.float64),
            tuple(spec["groups"]),
            spec["x_norm"],
            spec["centred"],
            tuple(spec.get("rules", ())),
        )

    @classmethod
    def from_declaration(
        cls,
        d: int,
        *,
        bounds: object = None,
        x_norm: float | None = None,
        categorical: object = None,
        boolean: object = None,
        sparse: object = None,
        names: Sequence[str] | None = None,
        centred: bool = True,
        missing: object = "mean",
    ) -> Encoding:
        """Encoding of a plain array from `bounds=`, `x_norm=`, `categorical=`, `boolean=`, `sparse=` and `missing=`.

        >>> Encoding.from_declaration(2, bounds=(0, 10)).norm == 0.5**0.5
        True
        """
        labels = tuple(str(name) for name in names) if names is not None else tuple(f"x{j}" for j in range(d))
        if len(set(labels)) != len(labels):
            raise ValueError("Expected column names that differ, found a name twice. Rename the columns.")
        x_norm = plain_float(x_norm, "x_norm") if is_number(x_norm) else x_norm
        if x_norm is not None and not (is_number(x_norm) and LEAST < x_norm < MOST):
            raise ValueError(
                f"Expected x_norm > 0, between {LEAST:g} and {MOST:g}, found {shown(x_norm)}. Pass the largest Euclidean norm "
                "that a row may have."
            )
        asked = isinstance(bounds, str)
        if asked and bounds != "private":
            raise ValueError(f'Expected bounds=(low, high) or "private", found {bounds!r}. Pass one of them.')
        usual = "private" if asked else "numeric" if bounds is not None else "free"
        kinds, groups = _declared_kinds(labels, usual, categorical, {"boolean": boolean, "sparse": sparse})
        low, high = np.full(d, -np.inf), np.full(d, np.inf)
        if asked:  # the stored scale: every magnitude fits
            low, high = np.full(d, -0.5), np.full(d, 0.5)
        elif bounds is not None:
            fixed = [j for j, kind in enumerate(kinds) if kind in ("categorical", "boolean")]
            low, high = declared_bounds(bounds, d, labels, fixed)
        flags = np.array([k in ("categorical", "boolean") for k in kinds], dtype=bool)
        low[flags], high[flags] = 0.0, 1.0
        counts = np.array([k == "sparse" for k in kinds], dtype=bool)
        if (bounds is None or asked) and counts.any():
            raise ValueError("Expected bounds= for sparse columns (their largest value), found none. Pass bounds=(0, high).")
        low[counts] = 0.0
        free = np.array([k == "free" for k in kinds], dtype=bool)
        if free.any() and x_norm is None:
            raise ValueError(
                "Expected a public bound on the data, found none. Pass bounds=(low, high) with one pair per column or one for "
                "all, or x_norm=, the largest norm of a row. They must not be computed from the data."
            )
        if np.any(~(low < high)):
            j = int(np.argmax(~(low < high)))
            raise ValueError(f"Expected low < high for column {labels[j]!r}, found {low[j]} and {high[j]}. Correct bounds=.")
        rules, value = _missing_rule(missing)
        becomes = [missing_value(kind, first, last, value) for kind, first, last in zip(kinds, low, high)]
        by_kind = tuple(rules if kind in WITH_GAPS else "value" for kind in kinds)
        return cls(labels, tuple(kinds), low, high, np.array(becomes), tuple(groups), x_norm, centred, by_kind)


def _declared_kinds(
    labels: tuple[str, ...], usual: str, categorical: object, others: Mapping[str, object]
) -> tuple[list[str], list[int]]:
    """(kind, one-hot group or -1) of every column: `usual` where nothing else is declared."""
    kinds, groups = [usual] * len(labels), [-1] * len(labels)
    for number, group in enumerate(grouped_columns(categorical, labels)):
        for j in group:
            kinds[j], groups[j] = "categorical", number
    for kind, declared in others.items():
        for j in listed_columns(declared, labels, kind):
            if kinds[j] == "categorical":
                raise ValueError(f"Expected one kind per column, found {labels[j]!r} declared twice.")
            kinds[j] = kind
    return kinds, groups


def missing_value(kind: str, low: float, high: float, declared: float | None) -> float:
    """What a missing cell becomes in the column's units before anything is released: the declared value, else the middle of the
    bounds of a numeric column, 0 where no bounds are known, and the lower bound (0) of a flag or count."""
    if kind in ("numeric", "free", "private") and declared is not None:
        return declared
    return (low + high) / 2 if kind == "numeric" else 0.0 if kind in ("free", "private") else low


def _missing_rule(missing: object) -> tuple[str, float | None]:
    """(rule, value) of `missing=`: a word, or the number that a missing cell becomes."""
    if isinstance(missing, str) and missing in ("mean", "middle"):
        return missing, None
    if isinstance(missing, str) and missing == "indicator":
        raise ValueError(
            'Expected missing="mean", "middle" or a number for arrays, found "indicator", which adds a column. Declare it in a '
            'schema: {"type": "numeric", ..., "missing": "indicator"}.'
        )
    missing = plain_float(missing, "missing") if is_number(missing) else missing
    if not finite(missing):
        raise ValueError(
            f'Expected missing="mean", "middle" or a number, found {shown(missing)}. Write what a missing cell becomes.'
        )
    return "value", float(missing)


def _check_spec(spec: object) -> None:
    """A stored encoding may come from a stranger: every field has its type, and every column its bounds."""
    lists = ("names", "kinds", "low", "high", "missing", "groups")
    if not isinstance(spec, Mapping) or not all(isinstance(spec.get(key), list) for key in lists):
        raise ValueError("Expected an encoding with names, kinds, low, high, missing and groups, found something else.")
    if len({len(spec[key]) for key in lists}) != 1 or not spec["names"]:
        raise ValueError("Expected one entry per column in every list of the encoding, found lists of different lengths.")
    if not all(isinstance(name, str) for name in spec["names"]) or not all(kind in KINDS for kind in spec["kinds"]):
        raise ValueError("Expected names that are words and known kinds in the encoding, found others.")
    if not all(type(group) is int and group >= -1 for group in spec["groups"]):
        raise ValueError("Expected whole numbers ≥ -1 as groups of the encoding, found others.")
    for kind, low, high, missing in zip(spec["kinds"], spec["low"], spec["high"], spec["missing"]):
        free = kind in ("free", "private") and low is None and high is None
        if not finite(missing) or not (free or (finite(low) and finite(high) and low < high and math.isfinite(high - low))):
            raise ValueError("Expected low < high for every column of the encoding, found a column without.")
    rules = spec.get("rules")
    listed = isinstance(rules, list) and len(rules) == len(spec["names"]) and all(rule in RULES for rule in rules)
    if rules is not None and not listed:
        raise ValueError(f"Expected one rule for missing cells per column in {RULES}, found others in the encoding.")
    norm = spec.get("x_norm")
    if not (norm is None or (finite(norm) and LEAST < norm < MOST)) or not isinstance(spec.get("centred"), bool):
        raise ValueError("Expected x_norm > 0 or none, and centred as true or false, in the encoding.")


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
