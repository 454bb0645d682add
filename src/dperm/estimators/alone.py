"""One fit of an estimator at a time.

A fit keeps what it was given (exposures, weights, the encoding) on the estimator while it runs. A second thread that fits the
same object would put its own rows' numbers in their place: they would enter a release that was booked for other people. So the
second one is refused, before it looks at anything.

A fit that is refused or fails leaves the estimator as it was before: half of another fit (its encoding, its classes) beside the
coefficients of the last one would predict something that nobody released, and rows that were kept would go into a pickle.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

Model = TypeVar("Model")
Given = ParamSpec("Given")
Fitted = TypeVar("Fitted")
# Which thread fits an estimator, by process (a fork has no thread but its own) and id; and a mark of its outermost call.
_FITTING: dict[tuple[int, int], tuple[int, object]] = {}


def one_at_a_time(
    fit: Callable[Concatenate[Model, Given], Fitted],
) -> Callable[Concatenate[Model, Given], Fitted]:
    """The same `fit`, refused while another thread fits the same object; where it fails, the object is as it was before."""

    @functools.wraps(fit)
    def alone(model: Model, /, *given: Given.args, **named: Given.kwargs) -> Fitted:
        place, mine = (os.getpid(), id(model)), (threading.get_ident(), object())
        holder = _FITTING.setdefault(place, mine)
        if holder[0] != mine[0]:
            raise ValueError(
                f"Expected one fit of a {type(model).__name__} at a time, found another thread that is fitting it. Give every "
                "thread its own, e.g. sklearn.base.clone(model). Nothing was read or spent by this fit."
            )
        before = dict(vars(model)) if holder is mine else None
        try:
            return fit(model, *given, **named)
        except BaseException:
            if before is not None:
                vars(model).update(before)  # first: another thread may be predicting
                for name in set(vars(model)) - set(before):
                    del vars(model)[name]
            raise
        finally:
            if holder is mine:
                del _FITTING[place]

    return alone
