"""Poisson sampling of rows: what it needs, and the μ of a step that its amplification leaves."""

from __future__ import annotations

from functools import lru_cache

from dperm.privacy import Event, Gaussian, Sampled, calibrate
from dperm.release.plan import MOST_SAMPLED, Target
from dperm.terms.gradient import person_rate


def sampling_needs(rate: float | None, target: Target) -> dict[str, bool]:
    """What sampling at that rate needs, with whether it is missing; nothing without sampling."""
    return {
        f"epsilon ≤ {MOST_SAMPLED:g} for Poisson sampling (found {target.epsilon:g}; its loss is on a grid)":
            rate is not None and target.epsilon > MOST_SAMPLED,
        "relation='zero-out' or 'add-remove' for Poisson sampling: its amplification is proven for one row present or absent, "
        "and a replaced row is neither (full batches work under replace-one)":
            rate is not None and target.relation == "replace-one",
    }


def sampled_event(rate: float, steps: int, target: Target, *before: Event, start: float = 1.0) -> tuple[Sampled, float]:
    """(the event of so many sampled steps, the μ of one) that stay within the target beside the events `before` them."""
    rate = person_rate(rate, target.rows_per_person)
    step_mu = _sampled_mu(rate, steps, target.epsilon, target.delta, target.relation, before, start)
    return Sampled(rate, Gaussian(step_mu, steps)), step_mu


@lru_cache(maxsize=64)
def _sampled_mu(
    rate: float, steps: int, epsilon: float, delta: float, relation: str, before: tuple[Event, ...], start: float
) -> float:
    """The largest μ of one step, to 0.1 %, whose sampled composition stays within (ε, δ); the search begins at `start`."""

    def events(mu: float) -> list[Event]:
        return [*before, Sampled(rate, Gaussian(mu, steps))]

    return calibrate(events, epsilon, delta, relation, tolerance=1e-3, start=start)
