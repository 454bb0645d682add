"""Functions of a caller that fail on a private row: no error of theirs may be seen, nor may other rows' answers change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from dperm.problem.arrays import device, is_sparse, namespace

if TYPE_CHECKING:
    import numpy as np


class Unanswered(Exception):
    """A function of the caller raised an error."""


@contextmanager
def failing() -> Iterator[None]:
    """Whatever a function of the caller raises, as `Unanswered`: a panic of a compiled library is no `Exception`. What ends a
    program from outside passes."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException:
        raise Unanswered from None


def real_numbers(found: Any, shape: Sequence[int]) -> Any:
    """The answers of a function of the caller, refused where they are no real numbers of the expected shape: refused here, where
    the function is asked, they are as an error of its own.

    >>> real_numbers([1, 2.5], (2,)).tolist()
    [1.0, 2.5]
    """
    import numpy as np

    kind = str(getattr(found, "dtype", "object")).removeprefix("torch.").lstrip("<>=|")
    if kind == "object":  # also a list, or nothing at all
        found = np.asarray(found, dtype=np.float64)
    elif kind[0] not in "bfiu":
        raise ValueError("Expected real numbers from a function, found others. Return real numbers.")
    if tuple(found.shape) != tuple(shape):
        raise ValueError("Expected one answer for every row, found another shape. Work row by row.")
    return found


def of_every_row(ask: Callable[[slice | np.ndarray], Any], n: int, nothing: Callable[[int], Any]) -> Any:
    """What a function says of n rows, with `nothing` in the rows where it raises an error: one person's row must not end a fit.

    `ask` takes a slice or numbers of rows. Halves of rows where it fails are asked in turn, so few such rows cost few questions.
    Then another row stands in their place while the others are asked again, in as many rows as before, so that no bit of their
    answers changes.

    >>> import math, numpy as np
    >>> x = np.array([4.0, -1.0, 9.0])
    >>> of_every_row(lambda rows: np.array([math.sqrt(one) for one in x[rows]]), 3, np.zeros).tolist()
    [2.0, 0.0, 3.0]
    """
    import numpy as np

    with suppress(Unanswered), failing():
        return ask(slice(0, n))
    parts: dict[int, Any] = {}
    said, failed = np.zeros(n, dtype=bool), [(0, n)]
    while failed:
        start, stop = failed.pop()
        if stop - start < 2:
            parts[start] = nothing(stop - start)
            continue
        middle = (start + stop) // 2
        for first, last in ((start, middle), (middle, stop)):
            try:
                with failing():
                    parts[first] = ask(slice(first, last))
                said[first:last] = True
            except Unanswered:
                failed.append((first, last))
    if said.any():
        with suppress(Unanswered), failing():
            return _silenced(ask(np.where(said, np.arange(n), int(np.argmax(said)))), said, nothing(1))
    return _together(parts[first] for first in sorted(parts))


def _silenced(answers: Any, said: np.ndarray, nothing: Any) -> Any:
    """The answers, with nothing in the rows that were not asked about."""
    kept = said if answers.ndim == 1 else said[:, None]
    if is_sparse(answers):
        return answers.multiply(kept).tocsr()
    xp = namespace(answers)
    return xp.where(xp.asarray(kept, device=device(answers)), answers, xp.astype(nothing, answers.dtype))


def _together(parts: Iterable[Any]) -> Any:
    """Answers for some rows after the other, as one."""
    listed = list(parts)
    if any(is_sparse(part) for part in listed):
        from scipy.sparse import vstack

        return vstack(listed, format="csr")
    return namespace(listed[0]).concat(listed)
