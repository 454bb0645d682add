"""Which fits have intervals, and why the others have none."""

from __future__ import annotations

WITH_INTERVALS = ("scaled-inference", "statistics", "objective")


def route(model: object) -> str:
    """The mechanism of a fit that has intervals, or a refusal that says why it has none."""
    certificate = getattr(model, "certificate_", None)
    if certificate is None or not hasattr(model, "plan_"):
        raise ValueError("Expected a model fresh from fit, found one without its plan. Ask for intervals where it was fitted.")
    name = certificate.mechanism
    if name in WITH_INTERVALS:
        return str(name)
    reasons = {
        "scaled-gradient": "clipped gradients have a bias without closed form",
        "gradient": "its steps are clipped and stopped early, a bias without closed form",
        "scaled-objective": "its columns are scaled by private estimates, whose error has no closed form here",
        "newton": "its damping depends on private estimates",
        "output": "its ridge bias is of the size of its noise",
        "exponential": "its law is not Gaussian",
    }
    why = reasons.get(name, "its error has no closed form here")
    advice = "Fit with intervals=True (--intervals), which chooses the method that has them."
    if not getattr(model, "has_intervals", False):
        advice = (
            f"{type(model).__name__} has none by any method: use LinearRegression, Ridge, HuberRegressor, QuantileRegressor, "
            "PoissonRegressor or LogisticRegression, with intervals=True."
        )
    raise ValueError(f"Expected a fit with intervals=True, found one by {name!r}: {why}. {advice}")
