"""Functions of a caller that fail on a private row: no error of theirs may be seen, nor may other rows' answers change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dperm.problem.arrays import device, is_sparse, namespace

if TYPE_CHECKING:
    import numpy as np


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

    with suppress(Exception):
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
                parts[first] = ask(slice(first, last))
                said[first:last] = True
            except Exception:
                failed.append((first, last))
    if said.any():
        with suppress(Exception):
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
