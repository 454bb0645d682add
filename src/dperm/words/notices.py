"""Warnings that a fit gives. Public numbers and the calling code decide them, never a row."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable

from dperm.words.spelling import headless

LOUD = "LITTLE CAN BE LEARNT"
UNSURE = "INTERVALS MAY NOT COME OUT"
BUDGET = "EPSILON IS PRIVACY"
USELESS = "NO USEFUL BOUND"
LOOSE = 20.0  # an ε beyond which the odds of a conclusion may change by more than 4.8·10⁸
# Modules of scikit-learn that fit an estimator several times on overlapping rows.
REPEATING = (
    "sklearn.model_selection._validation",
    "sklearn.model_selection._search",
    "sklearn.calibration",
    "sklearn.ensemble.",
    "sklearn.feature_selection.",
    "sklearn.multiclass",
    "sklearn.multioutput",
)
INSIDE = ("sklearn", "dperm", "joblib", "threading", "concurrent")
SPENDING = (
    "{name} fits this estimator several times, and every fit spends epsilon={epsilon} again on the same people; scores on their "
    "rows are not private either. Choose settings with dperm.PrivateGridSearch, which pays once; pay for scores with "
    "dperm.evaluate; pass ledger= so that everything that is spent is counted."
)

ROWS_ONLY = (
    "the fit protected persons, these scores protect rows: pass groups= and max_rows_per_person= to protect persons here too."
)


HEADLESS = (
    "names of columns are public, and some here are numbers: if the first line of the file is a record, it was read as names, "
    "and will be published. Write a line of names above it."
)


class PrivacyWarning(UserWarning):
    """Something about the budget, or what it can pay for, that the caller should know."""


def speak(texts: Iterable[str]) -> None:
    """The loud ones of a plan's warnings, in the plan's words, at the line that called the library; `plan_` keeps all of them."""
    for text in texts:
        if text.startswith((LOUD, UNSURE, BUDGET, USELESS)):
            warnings.warn(text, PrivacyWarning, stacklevel=_caller())


def loose(epsilon: float) -> tuple[str, ...]:
    """What to say of a budget that protects nobody in practice; nothing of others.

    >>> loose(8.0), loose(1e6)[0][:35]
    ((), 'NO USEFUL BOUND: with epsilon=1e+06')
    """
    if epsilon <= LOOSE:
        return ()
    found = f"with epsilon={epsilon:g} the odds of a conclusion about one person may change by a factor of e^{epsilon:g}"
    return (f"{USELESS}: {found}; pass less, such as 1 (10 is already much)",)


def names_of_records(names: Iterable[str]) -> None:
    """Warn where names that nobody declared may be those of a file without a line of names."""
    if headless(names):
        warnings.warn(HEADLESS, PrivacyWarning, stacklevel=_caller())


def scores_of_rows(claim: object, owners: object) -> None:
    """Warn where the certificate of a model speaks of persons, and its scores are about to speak of rows."""
    if owners is None and getattr(claim, "unit", "row") == "person":
        warnings.warn(ROWS_ONLY, PrivacyWarning, stacklevel=_caller())


def repeated_fits(epsilon: float, ledger: object) -> None:
    """Warn where scikit-learn's model selection is calling `fit`, which spends the budget once per fold and setting.

    A ledger counts such fits and refuses those that exceed it, so with one nothing is said.
    """
    if ledger is not None:
        return
    if name := _repeating():
        warnings.warn(SPENDING.format(name=name, epsilon=epsilon), PrivacyWarning, stacklevel=_caller())


def _caller() -> int:
    """The stack level, for a warning of the function that asks, of the first line outside of this library and scikit-learn."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] in INSIDE:
        frame, level = frame.f_back, level + 1
    return level


def _repeating() -> str:
    """What repeats fits between the user and this one: `cross_val_score`, `GridSearchCV`, …; empty if nothing does."""
    frame, found = sys._getframe(1), ""
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith(REPEATING):
            owner = frame.f_locals.get("self")
            public = not frame.f_code.co_name.startswith(("_", "<"))
            found = type(owner).__name__ if owner is not None else frame.f_code.co_name if public else found or "scikit-learn"
        frame = frame.f_back  # type: ignore[assignment]
    return found
