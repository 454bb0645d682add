"""Parameters of constructors: a wrong one gets a sentence that names ours, and `help` shows all of them, inherited ones too."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

from dperm.walk.options import Spending
from dperm.words.options import parameter_entries, with_parameters
from dperm.words.spelling import closest

# Parameters of scikit-learn, diffprivlib and others, and what takes their place.
ELSEWHERE = {
    "eps": "epsilon=, the privacy budget",
    "budget": "epsilon=, the privacy budget",
    "y_range": "y_bounds=(low, high)",
    "target_bounds": "y_bounds=(low, high)",
    "labels": "classes=[...], every label that may occur",
    "seed": "random_state=, for tests alone: whoever knows the seed can take the noise away",
    "C": "regularization=, a ridge λ on the sum scale: λ = 1/C (by default it is chosen from the budget)",
    "alpha": "regularization=, a ridge λ on the sum scale: λ = alpha, or n·alpha where a mean is penalised",
    "penalty": "regularization=, a number for a ridge, or a regularizer such as dperm.problem.ElasticNet(ridge, lasso)",
    "l1_ratio": "regularization=dperm.problem.ElasticNet(ridge, lasso)",
    "data_norm": "x_norm=, the largest Euclidean norm of a row, or bounds=(low, high)",
    "bounds_X": "bounds=(low, high)",
    "bounds_y": "y_bounds=(low, high)",
    "solver": "method=, the name of a mechanism",
    "max_iter": "method=, e.g. dperm.Gradient(steps=100): the number of steps is part of the privacy plan",
    "tol": "method=: how long to run is part of the privacy plan, and decided before a row is read",
    "accountant": "ledger=, a budget ledger on disk",
    "hidden_layer_sizes": "hidden=, the number of hidden units",
    "levels": "schema=, which lists them; `dperm.profile(table, target=..., epsilon=...).schema()` finds them and pays for it",
    "intervals": "nothing: this model states none (curves of additive models have bands, `model.shapes_[column].band`)",
    "n_jobs": "nothing: sums use all cores",
    "warm_start": "nothing: a second fit is a new release with a price of its own",
}


def explained(kind: type) -> type:
    """The class with a constructor that explains a parameter which it does not have; signature and parameters stay.

    >>> from dperm import LogisticRegression
    >>> LogisticRegression(C=1.0)
    Traceback (most recent call last):
    TypeError: Expected parameters of LogisticRegression, found C=. Use regularization=, a ridge λ ...
    """
    made: Callable[..., None] = vars(kind).get("__init__", object.__init__)
    known = [name for name in inspect.signature(made).parameters if name not in ("self", "_")]

    @functools.wraps(made)
    def construct(self: object, *values: object, **named: object) -> None:
        for name in named:
            if name not in known and type(self) is kind:
                place = ELSEWHERE.get(name)
                if place is not None and place.split("=")[0] in known:
                    advice = f" Use {place}."
                elif place is not None and place.startswith("nothing: "):
                    advice = f" Leave it out: {place.removeprefix('nothing: ')}."
                else:
                    advice = closest(name, known) or f" Parameters: {', '.join(known)}."
                raise TypeError(f"Expected parameters of {kind.__name__}, found {name}=.{advice}")
        made(self, *values, **named)

    kind.__init__ = construct  # type: ignore[misc]
    return kind


def documented(kind: type) -> type:
    """The class with a docstring whose section of parameters has all of them: each as the nearest class in its line says it.

    A class writes down its own parameters only, in numpydoc's form, and none that `Spending` words for all; `help` and an editor
    show the whole list.
    """
    entries = parameter_entries(Spending.__doc__)
    for base in reversed(kind.__mro__):
        entries.update(parameter_entries(base.__doc__ if "__doc__" in vars(base) else ""))
    kind.__doc__ = with_parameters(kind.__doc__, inspect.signature(kind), entries)
    return kind
