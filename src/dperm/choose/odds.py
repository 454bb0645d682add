"""ε in words: what an attacker's belief can become."""

from __future__ import annotations

import math
from typing import TypedDict

from dperm.words.notices import LOOSE

LARGEST = 700.0  # of ε, for e^ε in floats
PRIORS = (0.01, 0.1, 0.5)


class Belief(TypedDict):
    """What a belief can become."""

    before: float
    after_at_least: float
    after_at_most: float


class Odds(TypedDict):
    """e^ε and the beliefs that go with it."""

    factor: float | None  # none where it is beyond floats
    beliefs: list[Belief]


def odds(epsilon: float) -> Odds:
    """e^ε, and what a belief of p can become: between p/(p + (1-p)e^ε) and p·e^ε/(1 - p + p·e^ε).

    >>> [round(row["after_at_most"], 3) for row in odds(1.0)["beliefs"]]
    [0.027, 0.232, 0.731]
    """
    factor = math.exp(min(epsilon, LARGEST))
    beliefs: list[Belief] = [
        {
            "before": prior,
            "after_at_least": prior / (prior + (1 - prior) * factor),
            "after_at_most": prior / (prior + (1 - prior) / factor),
        }
        for prior in PRIORS
    ]
    return {"factor": factor if epsilon <= LARGEST else None, "beliefs": beliefs}


def odds_sentence(epsilon: float, delta: float, relation: str = "replace-one", unit: str = "row") -> str:
    """The guarantee in words that a person can repeat.

    Replace-one compares two contents of a record; the other relations compare a record with its absence (two contents would be
    two steps, e^{2ε}), so the bet is another one.
    """
    if epsilon > LOOSE:
        return (
            f"No useful bound: with ε = {epsilon:g} an attacker who thinks it an even bet what one record says may be all but "
            "certain after seeing the release."
        )
    half = odds(epsilon)["beliefs"][-1]
    bet = "say one thing or another" if relation == "replace-one" else "are in the data"
    known, last = "everyone else's records", "the last person's records"
    if unit == "row":
        bet = "says one thing or another" if relation == "replace-one" else "is in the data"
        known, last = "every other record", "the last one"
    text = (
        f"An attacker who knows {known}, and thinks it an even bet whether {last} {bet}, would after seeing the release still "
        f"not be surer than {percent(half['after_at_most'])} of either answer"
    )
    return text + (f" (except with probability {delta:g})." if delta else ".")


def percent(share: float) -> str:
    """A share as a percentage that never rounds up to certainty.

    >>> percent(0.7310), percent(0.99997), percent(1.0)
    ('73.1 %', '99.997 %', '100 % or nearly')
    """
    digits = 1
    while digits < 10 and float(f"{share * 100:.{digits}f}") >= 100.0:
        digits += 1
    if float(f"{share * 100:.{digits}f}") >= 100.0:
        return "100 % or nearly"
    if share > 0.999 and digits == 1:
        digits = 3
    return f"{share * 100:.{digits}f} %"
