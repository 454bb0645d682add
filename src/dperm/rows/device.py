"""Rows on a GPU: torch tensors (CUDA or CPU), CuPy and other array-API arrays.

A term that has a kernel of its own takes it where it can: a scalar loss on float32 or bfloat16 CUDA rows reads X once per sum
(`kernels.py`), and a softmax on resident CUDA rows of 128 columns or more is summed on integer matrix units (`int8.py`). A term
that offers products takes them per block in float64 on the same device (`device_products.py`):
multinomial losses, float64 rows, CPU tensors, other libraries, GPUs without Triton, and the gradients and Hessians of a
minimiser, so that objective perturbation runs where the rows are. All other terms (histograms, moments) see the blocks on the
host, one at a time. What crosses to the host is the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dperm.problem import DataBounds, FeatureMap
from dperm.problem.arrays import Array, namespace, offers, row_by_row
from dperm.problem.arrays import device as array_device
from dperm.rows.base import BLOCK_ROWS, ArrayRows, Block, Copied, Term, Thinned, add_limbs, from_counts, real_sum, total_counts
from dperm.rows.device_products import DeviceTerm, has_kernel, has_pairs, is_torch, product_counts
from dperm.rows.device_sums import CHUNK_ENTRIES, clipped_rows, device_labels, filled_entries
from dperm.rows.labelled import LabelRule
from dperm.rows.mapped import MappedFiles
from dperm.rows.memory import MemoryRows, cut_block, numeric, tame
from dperm.rows.recoded import Filling
from dperm.tables.cells import numbers
from dperm.tables.containers import beside, column, is_tabular
from dperm.tables.gaps import GAP
from dperm.tables.scale import on_scale

if TYPE_CHECKING:
    import torch

    from dperm.tables.encoding import Encoding

# Blocks that one product step holds in float64 at a time.
PRODUCT_BYTES = 1 << 28


class Turn(Protocol):
    """A linear map of rows, on the host and on a device."""

    def block(self, block: Block) -> Block: ...

    def on_device(self, X: Array) -> Array: ...


class DeviceRows(ArrayRows, Copied):
    """X (n × d), y and optional weights as arrays of one library on one device.

    With `device="cuda"` and X on the host, X stays there and streams through pinned buffers on every pass: for data larger than
    the GPU. Without it, arrays in the host's memory are summed by NumPy, uncopied, with the bits of `MemoryRows`; `host=False`
    takes their own library instead. `names` are the columns' names, if they have any.

    **Guarantee**: the sensitivity of the computed sum is within the release slack of the declared one: see `kernels.py` for
    the fused path; the other path adds each block of 8,192 rows in float64 and the blocks as integers, as in memory.

    Parameters
    ----------
    X : array
        n × d, of one library (torch, CuPy, NumPy) on one device.
    y : array
        One label for every row.
    weight : array or None, default None
        Sample weights.
    device : str, device or None, default None
        With "cuda" and X on the host, X stays there and streams through pinned buffers on every pass: for data larger than
        the GPU's memory. None is the device of X.
    names : list of str or None, default None
        Names of the columns.
    host : bool, default True
        Arrays in the host's memory are summed by NumPy, uncopied, with the bits of `MemoryRows`; False takes their own
        library.

    Examples
    --------
    >>> rows = DeviceRows(np.eye(3), np.ones(3))
    >>> rows.n, rows.d
    (3, 3)
    """

    def __init__(
        self,
        X: Array,
        y: Array,
        weight: Array | None = None,
        *,
        device: object = None,
        names: Sequence[str] | None = None,
        host: bool = True,
    ) -> None:
        self.xp = namespace(X)
        if len(X.shape) != 2:
            raise ValueError(f"Expected X with two dimensions, found {len(X.shape)}. Reshape it to (rows, columns).")
        # Of NumPy and lists every cell is read alone, as in memory; on a device a type is one of numbers.
        self.X = numeric(X) if isinstance(X, np.ndarray) else X
        self.y: Any = one_per_row(y, X.shape[0], "label")
        self.weight: Any = None if weight is None else one_per_row(weight, X.shape[0], "weight")
        self._files = MappedFiles.of(X, y, weight)
        self.device = array_device(X) if device is None else present(device)
        self.names, self.encoding, self.host = names, None, host
        self.fill: NDArray[np.float64] | None = None  # what missing cells became, in encoded units
        self.turn: Turn | None = None  # a released linear map, after all that
        self._encode: Callable[[Array], Array] | None = None
        self.memory: dict[str, Any] = {}  # what a term's kernel keeps of these rows between sums

    @property
    def label_type(self) -> np.dtype:
        """The type of the labels, which is public: a fit may refuse it."""
        return to_host(self.y[:0]).dtype

    @property
    def streams(self) -> bool:
        """X waits on the host and goes to the GPU piece by piece."""
        return str(array_device(self.X)) == "cpu" and str(self.device) != "cpu"

    def encoded(self, encoding: Encoding) -> DeviceRows:
        """Rows in the units of the problem: clipped to the declared bounds and scaled, on the device."""
        transform = partial(transform_rows, encoding)
        if self.streams:
            return self._copy(encoding=encoding, _encode=transform)
        return self._copy(X=transform(self.X), encoding=encoding, _files=MappedFiles(()))  # which are read no more

    def recognised_by(self) -> np.ndarray:
        """What a ledger recognises the data set by: the array, as the same array in the host's memory would be."""
        return to_host(self.X)

    def labelled(self, rule: LabelRule) -> DeviceRows:
        """The same rows with labels by a public rule; labels are read on the host once."""
        labels, weight = rule(to_host(self.y))[:2]
        # Weights that are all 1 stay too: dropping them would let one row's label choose the precision of every other row.
        weights = [tame(to_host(given)) for given in (weight, self.weight) if given is not None]
        return self._copy(y=np.asarray(labels), weight=np.prod(weights, axis=0) if weights else None)

    def bounded(self, data: DataBounds, feature_map: FeatureMap | None = None) -> DeviceRows | MemoryRows:
        # A table without rows has a block on the host: where their number is protected, nobody may learn that there are none.
        if self.n == 0 or (self.host and str(self.device) == "cpu"):
            weight = None if self.weight is None else to_host(self.weight)
            return MemoryRows(to_host(self.X), to_host(self.y), weight).bounded(data, feature_map)
        rows = self._copy(data=data, feature_map=feature_map)
        if feature_map is not None:
            return rows  # maps run on host blocks
        with enough_memory():
            if not rows.streams:
                rows.X = clipped_rows(self.X, data)
            host = numeric(to_host(self.y))
            rows.y = device_labels(data.enforce(np.zeros((0, self.d)), host)[1], self)
            rows.weight = None if self.weight is None else device_labels(tame(to_host(self.weight)), self)
        return rows

    def filled(self, values: NDArray[np.float64]) -> DeviceRows:
        """The same rows with missing cells at the given values: on the device, or piece by piece where X streams."""
        if self.streams:
            return self._copy(fill=values)
        with enough_memory():
            return self._copy(X=filled_entries(self.X, values), fill=values)

    def turned(self, turn: Turn) -> DeviceRows:
        """The same rows through a released linear map: on the device, or piece by piece where X streams."""
        if self.streams:
            return self._copy(turn=turn)
        with enough_memory():
            return self._copy(X=turn.on_device(self.X), fill=None, turn=turn)

    def sum(self, term: Term, step: float) -> NDArray[np.float64]:
        inner = term.term if isinstance(term, Thinned) else term
        if self.data is None or self.feature_map is not None or not has_pairs(inner):  # such terms see blocks on the host
            counts = total_counts(self.host_blocks(), term, step)
            self._files.check()
            return real_sum(term, counts, step)
        weight = self.weight
        if isinstance(term, Thinned):
            starts = range(0, self.n, BLOCK_ROWS)
            joined = np.concatenate([term.joined(start, min(BLOCK_ROWS, self.n - start)) for start in starts])
            weight = device_labels(joined if weight is None else joined * to_host(weight), self)
        with enough_memory():
            found = inner.device_sum(self, weight) if has_kernel(inner) else None
            found = self._products(inner, weight, step) if found is None else found
        self._files.check()
        return found

    def _products(self, term: DeviceTerm, weight: Array | None, step: float) -> NDArray[np.float64]:
        """Products per block in float64, several blocks at once."""
        # A processor wants one block in its cache, a GPU wants many blocks in flight.
        blocks = 1 if str(self.device) == "cpu" else max(PRODUCT_BYTES // (BLOCK_ROWS * self.d * 8), 1)
        total: Array | None = None
        for start, X in self.pieces(blocks * BLOCK_ROWS):
            part = slice(start, start + X.shape[0])
            counts = product_counts(term, X, self.y[part], None if weight is None else weight[part], step)
            total = counts if total is None else add_limbs(total, counts)
        return from_counts(np.asarray(to_host(total)), step)

    def pieces(self, size: int) -> Iterator[tuple[int, Array]]:
        """(first row, rows on the device), `size` rows at a time; the next piece travels while the caller works on one."""
        if not self.streams:
            for start in range(0, self.n, size):
                yield start, self.X[start : start + size]
            return
        import torch

        pinned = [torch.empty((min(size, self.n), self.d), dtype=self.X.dtype, pin_memory=True) for _ in range(2)]
        copying, copied = torch.cuda.Stream(), [torch.cuda.Event(), torch.cuda.Event()]

        def send(turn: int, start: int) -> torch.Tensor:
            buffer = pinned[turn % 2][: min(size, self.n - start)]
            copied[turn % 2].synchronize()  # the copy out of this buffer has ended
            buffer.copy_(self.X[start : start + size])
            with torch.cuda.stream(copying):
                moved = buffer.to(self.device, non_blocking=True)
                copied[turn % 2].record(copying)
            return moved

        starts = list(range(0, self.n, size))
        ahead = send(0, 0)
        for turn, start in enumerate(starts):
            X = ahead
            torch.cuda.current_stream().wait_event(copied[turn % 2])
            X.record_stream(torch.cuda.current_stream())
            if turn + 1 < len(starts):
                ahead = send(turn + 1, starts[turn + 1])
            if self._encode is not None:
                X = self._encode(X)
            X = clipped_rows(X, self.data) if self.data is not None else X
            X = X if self.fill is None else filled_entries(X, self.fill)
            yield start, X if self.turn is None else self.turn.on_device(X)

    def host_blocks(self) -> Iterator[Callable[[], Block]]:
        """Blocks on the host, for terms that are written for NumPy."""
        y, weight = to_host(self.y), None if self.weight is None else to_host(self.weight)

        def block(start: int) -> Block:
            part = slice(start, min(start + BLOCK_ROWS, self.n))
            X = self.X[part]
            if self.streams and self._encode is not None:
                X = self._encode(X)
            kept = None if weight is None else numbers(weight[part])
            # Bounds, then the filling, then the map: rows on the GPU have been through all of them, those that stream have not.
            data = self.data if self.streams or (self.fill is None and self.turn is None) else None
            found = cut_block(to_host(X), y[part], kept, start, data, self.feature_map)
            found = found if self.fill is None else Filling(self.fill).block(found)
            return self.turn.block(found) if self.turn is not None and self.streams else found

        return (partial(block, start) for start in range(0, self.n, BLOCK_ROWS))

    def _copy(self, **changes: object) -> DeviceRows:
        return super()._copy(memory={}, **changes)


def one_per_row(values: Any, n: int, what: str) -> Any:
    """Labels or weights where they are stored; a matrix of one column is that column.

    >>> one_per_row(np.ones((2, 1)), 2, "label").tolist(), one_per_row([[1], 2], 2, "label").tolist()
    ([1.0, 1.0], [1, 2])
    """
    stored = hasattr(values, "shape") or offers(values, "dictionary_encode")  # whose type says more than an array of the cells
    if not stored or isinstance(values, np.ndarray) or is_tabular(values):
        values = beside(values)
    shape = tuple(values.shape) if hasattr(values, "shape") else (len(values),)
    values = values[:, 0] if shape[1:] == (1,) else values
    if shape not in ((n,), (n, 1)):
        raise ValueError(f"Expected as many {what}s as rows, found another number of them. Pass one {what} for every row.")
    return values


def present(device: object) -> object:
    """The device, if this machine has it: otherwise the first sum would fail with the driver's words."""
    if str(device).startswith("cuda"):
        try:
            import torch
        except ImportError as error:
            raise ValueError(f"Expected torch for device={str(device)!r}, found none. Install dperm[torch].") from error
        if not torch.cuda.is_available():
            raise ValueError(f"Expected a GPU for device={str(device)!r}, found none. Leave device= out: NumPy sums the rows.")
    return device


class enough_memory:
    """A GPU that is too small says so in our words, which hold no sizes: the number of rows may be protected."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None and "OutOfMemory" in kind.__name__:
            raise ValueError(
                "Expected room on the GPU for the rows and a working copy, found too little. "
                'Keep X on the host and pass device="cuda", so that it streams, or use bfloat16. Nothing was released.'
            ) from None


def to_host(array: object) -> np.ndarray:
    """Any array as NumPy; bfloat16 as float32, which holds it exactly."""
    if is_torch(array):
        import torch

        tensor = array.detach()
        return np.asarray((tensor.float() if tensor.dtype == torch.bfloat16 else tensor).cpu().numpy())
    if hasattr(array, "get") and type(array).__module__.split(".")[0] == "cupy":
        return np.asarray(array.get())
    return column(array)


@np.errstate(all="ignore")  # a warning would tell of one row
def transform_rows(encoding: Encoding, X: Array) -> Array:
    """`Encoding.transform` on any device, in the dtype of X, row by row.

    The same rule: what is not finite becomes `missing`, or the mark of a missing cell where the column's rule says so; columns
    that wait for private bounds are put on their public scale; entries are clipped to the bounds, the row to x_norm, then shifted
    and scaled.
    """
    xp = namespace(X)
    private = encoding.where("private")
    if bool(private.any()) or not xp.isdtype(X.dtype, "real floating"):  # a logarithm keeps every digit, as in memory
        X = xp.astype(X, xp.float64)
    size = max(CHUNK_ENTRIES // X.shape[1], 1)
    if X.shape[0] > size:  # temporaries stay small
        out = xp.empty_like(X)
        for start in range(0, X.shape[0], size):
            out[start : start + size, :] = transform_rows(encoding, X[start : start + size, :])
        return out

    def vector(values: Sequence[float] | NDArray[np.float64]) -> Array:
        return xp.asarray(np.asarray(values, dtype=np.float64), dtype=X.dtype, device=array_device(X))

    known = xp.isfinite(X)
    X = xp.where(known, X, vector(encoding.missing))
    if bool(private.any()):
        X = xp.where(xp.asarray(private, device=array_device(X)), on_scale(X), X)
    if bool(np.any(~encoding.where("free"))):
        X = xp.minimum(xp.maximum(X, vector(encoding.low)), vector(encoding.high))
    gap = ~known & xp.asarray(encoding.gap_columns, device=array_device(X))
    if encoding.x_norm is not None:
        wide = row_by_row(xp.astype(xp.where(gap, xp.zeros_like(X), X), xp.float64))
        norms = xp.sqrt(xp.sum(wide * wide, axis=1))
        factor = encoding.x_norm / xp.maximum(norms, xp.full_like(norms, encoding.x_norm))
        X = X * xp.astype(factor, X.dtype)[:, None]
    return xp.where(gap, xp.full_like(X, GAP), (X - vector(encoding.anchor)) / vector(encoding.width) + 0.0)
