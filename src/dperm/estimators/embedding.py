"""A private last layer on embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dperm.choose.risks import EMBEDDINGS
from dperm.estimators.alone import one_at_a_time
from dperm.estimators.classifier import SoftmaxClassifier
from dperm.estimators.declaration import NO_ROWS, Declaration, declaration, declared_unit
from dperm.estimators.declared import check_declared, check_lists, check_no_path, fewest_rows
from dperm.estimators.engines import FromColumns, for_executors
from dperm.estimators.saving import Extra
from dperm.mechanisms.heads import Heads
from dperm.mechanisms.least_squares import LeastSquares
from dperm.problem.arrays import offers
from dperm.rows.device import present, to_host
from dperm.rows.device_products import is_torch
from dperm.rows.embeddings import EmbeddingRows, EmbeddingTensors
from dperm.rows.int8 import MOST_CLASSES
from dperm.rows.pieces import Made
from dperm.rows.spark_made import SparkTable
from dperm.tables.cells import sparse_numbers
from dperm.tables.containers import is_list
from dperm.tables.encoding import Encoding
from dperm.tables.labels import declared_classes, label_column
from dperm.tables.persons import person_weights, unit_of
from dperm.tables.tables import cells, listed, parsed
from dperm.terms.heads import unit_rows
from dperm.words.notices import repeated_fits

if TYPE_CHECKING:
    import pyarrow as pa

    from dperm.release.plan import Mechanism

AT_A_TIME = 1024  # rows that are scored together
NOT_HERE = {
    "bounds": None, "x_norm": None, "categorical": None, "boolean": None, "sparse": None, "schema": None, "radius": None,
    "class_weight": None, "max_weight": None, "missing": "mean", "regularization": "auto", "fit_intercept": False,
}  # fmt: skip


@dataclass(eq=False, repr=False, kw_only=True)
class EmbeddingClassifier(SoftmaxClassifier):
    """softmax(W·x/‖x‖): the last layer of a pretrained model, released with (ε, δ)-differential privacy.

    X is one embedding per row: an array of any numbers, a memory map (NumPy's, or that of
    `dperm.features.open_embeddings(path)`), an Arrow column of fixed-size lists, or a torch tensor. It is not copied. A
    tensor on a GPU is fitted there, on integer matrix units. In a Spark table every entry is a column of numbers, and y names
    the labels. There may be up to 10,000 classes. Ids of persons are passed to `fit`, one per row, with max_rows_per_person.

    Every row is brought to length 1, so nothing needs to be declared of its numbers; an entry that is not finite counts as
    0. There is no intercept: a direction that all rows share takes its place. Bounds, schemas, weights and δ = 0 are refused by
    name.

    **Guarantee**: that of `certificate_`, under every relation (`docs/theorems/heads.md`). A row whose label is not among the
    classes counts as a null row.

    Parameters
    ----------
    steps : int or None, default None
        Steps of the descent; 400 if left out.
    device : str or None, default None
        "cuda" fits on a GPU, piece by piece where the embeddings are on the host, with up to 2,047 classes. A tensor that is on
        a GPU is fitted there without it. None is the processor for everything else.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 16)) + 3 * np.repeat(np.eye(3, 16), 1000, axis=0)
    >>> model = EmbeddingClassifier(epsilon=3, classes=[0, 1, 2], random_state=0).fit(X, np.repeat([0, 1, 2], 1000))
    >>> model.score(X, np.repeat([0, 1, 2], 1000)) > 0.9
    True
    """

    asked_for: ClassVar[str] = "embeddings"
    reads_schema: ClassVar[bool] = False

    fit_intercept: bool = False
    steps: int | None = None
    device: str | None = None

    @one_at_a_time
    def fit(self, X: Any, y: object = None, sample_weight: object = None, *, groups: object = None) -> Self:
        """Fit privately; afterwards `certificate_` says what was guaranteed and `plan_` what was done."""
        self._check()
        if sample_weight is not None:
            raise ValueError("Expected no sample_weight= for embeddings, found one. The clip would undo weights; leave it out.")
        if y is None:
            raise ValueError("This EmbeddingClassifier estimator requires y to be passed, but the target y is None. Pass labels.")
        repeated_fits(self.epsilon, self.ledger)
        table = SparkTable.of(X, groups, self.max_rows_per_person)
        if table is not None:
            return self._fit_on_spark(table, y)
        check_no_path(X, "Pass dperm.features.open_embeddings(path), the matrix of a .npy or .safetensors file.")
        check_lists(self, X)
        place = place_of(X) if self.device is None else present(self.device)
        rows = matrix_of(X) if place_of(X) is None else X.detach()
        if len(rows) < fewest_rows(self):
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required. Pass at least one embedding.")
        self.n_features_in_ = rows.shape[1]
        self._encoding = columns_of(rows.shape[1])
        y = to_host(y) if is_torch(y) else y
        self._check_labels(y)
        labels, weight, interval = self._labels(label_column(y, len(rows)))
        owners = self.groups if groups is None else groups
        weight, per_person = person_weights(owners, self.max_rows_per_person, weight, len(rows))
        seen = None if self.ledger is None else to_host(rows)
        found = EmbeddingRows(matrix_of(rows), labels, weight) if place is None else self._tensors(rows, labels, weight, place)
        return self._run(found, interval, None, per_person, unit_of(owners), seen)

    def _tensors(self, rows: Any, labels: np.ndarray, weight: np.ndarray | None, place: Any) -> EmbeddingTensors | EmbeddingRows:
        if len(self.classes_) > MOST_CLASSES:
            raise ValueError(
                f"Expected at most {MOST_CLASSES:,} classes on a GPU, found {len(self.classes_):,}. Pass the embeddings as an "
                "array on the host, and no device=."
            )
        if len(rows) == 0:  # nothing to sum: a device has no say in it
            return EmbeddingRows(matrix_of(rows), labels, weight)
        return EmbeddingTensors(rows, labels, weight, device=place)

    def _fit_on_spark(self, table: SparkTable, y: object) -> Self:
        """The same on a Spark table with one column of numbers for every entry, beside those of labels and persons."""
        if self.device is not None:
            raise ValueError("Expected no device= with a Spark table, whose executors sum, found one. Leave it out.")
        target = table.labels(y)
        features = tuple(name for name in table.names if name != target)
        self.n_features_in_, self._encoding = len(features), columns_of(len(features))
        self._check_labels(np.empty(0, dtype=table.label_type(target)))
        interval = self._labels(NO_ROWS)[2]
        rows = table.rows(Embedded(features, target, for_executors(self)))
        return self._run(rows, interval, None, table.per_person, table.unit, rows)

    def _check(self) -> None:
        check_declared(self)
        for name, absent in NOT_HERE.items():
            value = getattr(self, name)
            if not (value is absent or (isinstance(value, str | bool) and value == absent)):
                raise ValueError(
                    f"Expected no {name}= for embeddings, whose rows are brought to length 1, found one. Leave it out, or use "
                    "LogisticRegression."
                )
        if not (self.device is None or str(self.device).split(":")[0] in ("cpu", "cuda")):
            raise ValueError(f"Expected device=None or 'cuda' for embeddings, found {str(self.device)[:60]!r}. Leave it out.")
        if isinstance(self.groups, str):
            raise ValueError("Expected groups= with one id per row for embeddings, found the name of a column. Pass it to fit.")

    def _before_rows(self, n: int, d: int | None) -> Declaration:
        self._check()
        if d is None:
            raise ValueError("Expected d=, the number of columns of the embeddings, found none. Pass e.g. d=768.")
        self._encoding = columns_of(d)
        interval = self._labels(NO_ROWS)[2]
        return declaration(self, interval, n, self.max_rows_per_person or 1, None, declared_unit(self))

    def _method(self) -> Mechanism | str:
        if isinstance(self.method, Heads | LeastSquares):
            return self.method
        if self.method not in ("auto", *EMBEDDINGS):
            known = ", ".join(repr(name) for name in EMBEDDINGS)
            raise ValueError(f"Expected method='auto', {known} for embeddings, found {self.method!r}. See LogisticRegression.")
        if self.steps is not None and self.method == LeastSquares.name:
            raise ValueError(
                "Expected no steps= with method='least-squares', which takes none, found some. Leave one of them out."
            )
        return self.method if self.steps is None else Heads(self.steps)

    def _margins(self) -> tuple[int, ...]:
        return len(self.classes_), -1

    def _in_callers_units(self) -> None:
        """Coefficients of x/‖x‖."""
        self.coef_, self.intercept_ = self.w_, np.zeros(len(self.w_))

    def _restore(self, extra: Extra) -> None:
        self.classes_ = declared_classes(extra["classes"], None)
        if self.w_.ndim != 2 or len(self.w_) != len(self.classes_) or self.fit_intercept:
            raise ValueError("coefficients that do not fit the classes")

    def _scores(self, X: object) -> np.ndarray:
        """W·x/‖x‖, a function of each row alone, to the last bit.

        A paid count of right answers must move by one row's share when one row goes. A product of float matrices rounds in an
        order that follows from how many rows stand beside, so that removing a row could turn every tie of two classes, or
        carry rows over an edge of a histogram. Here rows (20 bits) and coefficients (in steps of about 2⁻²⁶ of all their
        length) are whole numbers whose products add up exactly, as in training.
        """
        check_is_fitted(self, "certificate_")
        rows = matrix_of(listed(X, self.n_features_in_) if is_list(X) else X)
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {rows.shape[1]} features, but EmbeddingClassifier is expecting {self.n_features_in_} features as input."
            )
        found = np.empty((len(rows), len(self.w_)))
        for start in range(0, len(rows), AT_A_TIME):
            found[start : start + AT_A_TIME] = unit_rows(rows[start : start + AT_A_TIME]).margins(self.w_)
        return found


def place_of(X: Any) -> Any:
    """The device of a matrix of numbers that is not in the host's memory; None for everything else."""
    away = is_torch(X) and X.device.type == "cuda" and X.ndim == 2 and X.shape[1] > 0 and not X.is_complex() and plain(X)
    return X.device if away else None


def plain(X: Any) -> bool:
    """Whether a tensor is one number after the other: neither sparse nor quantised."""
    return str(X.layout) == "torch.strided" and not X.is_quantized


@dataclass(frozen=True, eq=False)
class Embedded(FromColumns):
    """Raw rows of a Spark table → embeddings as they are, class numbers and who counts."""

    rule: EmbeddingClassifier

    def __call__(self, table: pa.Table) -> Made:
        labels, weight, _ = self.rule._labels(cells(table, self.target))
        return Made(self.matrix(table), labels, weight)


def columns_of(d: int) -> Encoding:
    """Numbers without bounds of their own, in rows of length 1."""
    return Encoding.from_declaration(d, x_norm=1.0, missing=0.0)


def matrix_of(X: Any) -> np.ndarray:
    """The embeddings as a NumPy matrix over the same memory: arrays and memory maps, Arrow fixed-size lists, torch tensors."""
    if offers(X, "dictionary_encode"):  # a column; tables of columns are read below
        X = _of_arrow(X)
    elif is_torch(X):
        if not plain(X):
            raise ValueError("Expected a dense torch tensor of numbers, found a sparse or quantised one. Make it dense first.")
        X = X.detach().cpu()
        X = (X.float() if str(X.dtype).startswith(("torch.bfloat16", "torch.float8")) else X).numpy()
    # A type is public and cells are not: in lists, objects and tables each cell is read alone, and one that is no number is 0.
    typed = isinstance(X, np.ndarray) and not isinstance(X, np.ma.MaskedArray) and X.dtype.kind != "O"
    found: np.ndarray = np.asanyarray(X if typed else parsed(sparse_numbers(X).toarray() if offers(X, "toarray") else X))
    if found.ndim != 2 or found.dtype.kind not in "fiub":
        about = "Complex data not supported" if found.dtype.kind == "c" else "Reshape your data, e.g. images to rows"
        raise ValueError(
            f"Expected embeddings as a matrix of numbers with one row per record, found {found.ndim} dimensions of type "
            f"{found.dtype}. {about}."
        )
    if found.dtype.kind == "f" and found.dtype.itemsize > 8:  # a cell beyond float64 would be a warning
        raise ValueError(f"Expected numbers of at most 64 bits, found {found.dtype}. Pass X.astype(np.float64).")
    if found.shape[1] == 0:
        raise ValueError("Found array with 0 feature(s) (shape=(0, 0)) while a minimum of 1 is required. Pass embeddings.")
    return found


def _of_arrow(X: Any) -> np.ndarray:
    """A column of fixed-size lists: its own buffer if it is in one piece and nothing is missing. A missing list is a row of 0."""
    import pyarrow as pa

    if isinstance(X, pa.ChunkedArray):
        X = X.chunk(0) if X.num_chunks == 1 else X.combine_chunks()
    if not isinstance(X, pa.FixedSizeListArray):
        raise ValueError(f"Expected an Arrow column of fixed-size lists, found {X.type}. Cast it to pa.list_(pa.float32(), d).")
    width = X.type.list_size
    numbers = X.values.slice(X.offset * width, len(X) * width)
    if pa.types.is_boolean(numbers.type):
        numbers = numbers.cast(pa.uint8())  # with a missing one among them they would be objects
    found = numbers.to_numpy(zero_copy_only=False).reshape(len(X), width)
    if X.null_count:
        found = np.where(np.asarray(X.is_valid())[:, None], found, 0.0)
    return np.asarray(found)
