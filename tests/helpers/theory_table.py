"""One or more good calls for every theorem, together naming every number the theorem takes."""

from __future__ import annotations

from typing import Any

DESCENT: dict[str, Any] = {"n": 100, "d": 5, "lipschitz": 1.0, "epsilon": 1.0, "delta": 1e-6}
PERTURB: dict[str, Any] = {"n": 1000, "d": 5, "lipschitz": 1.0, "epsilon": 1.0, "delta": 1e-6}

CALLS: dict[str, list[dict[str, Any]]] = {
    "uniform_convergence_sample_size": [{"hypotheses": 10, "alpha": 0.1, "beta": 0.05}],
    "uniform_convergence_error": [{"n": 100, "hypotheses": 10, "beta": 0.05}],
    "agnostic_sample_size": [{"hypotheses": 10, "alpha": 0.1, "beta": 0.05}],
    "pac_sample_size": [
        {"hypotheses": 10, "alpha": 0.1, "beta": 0.05, "epsilon": 1.0},
        {"hypotheses": 10, "alpha": 0.1, "beta": 0.05, "epsilon": 1.0, "uniform_share": 0.5},
        {"hypotheses": 10, "alpha": 0.1, "beta": 0.05, "epsilon": 1.0, "realizable": True},
    ],
    "privacy_is_free_above": [{"alpha": 0.1}],
    "privacy_overhead": [{"hypotheses": 10, "alpha": 0.1, "beta": 0.05, "epsilon": 1.0}],
    "exponential_mechanism_tail": [{"hypotheses": 10, "sensitivity": 1.0, "epsilon": 1.0, "beta": 0.05}],
    "exponential_mechanism_failure": [{"hypotheses": 10, "sensitivity": 1.0, "epsilon": 1.0, "gap": 9.0}],
    "exponential_erm_risk": [
        {"n": 10**4, "d": 5, "lipschitz": 1.0, "radius": 1.0, "epsilon": 1.0, "beta": 0.05},
        {"n": 10**4, "d": 5, "lipschitz": 1.0, "diameter": 1.0, "epsilon": 1.0, "r": 0.01},
        {"n": 10**4, "d": 5, "lipschitz": 1.0, "diameter": 1.0, "epsilon": 1.0, "beta": 0.05, "convex": True},
    ],
    "exponential_privacy_loss": [{"n": 10, "epsilon": 1.0}],
    "output_sensitivity": [{"n": 10, "lipschitz": 1.0, "strong_convexity": 0.1, "tolerance": 0.01}],
    "output_perturbation_risk": [
        {**PERTURB, "strong_convexity": 0.1, "smoothness": 0.5, "beta": 0.05},
        {**PERTURB, "radius": 1.0},
    ],
    "objective_perturbation_risk": [
        {**PERTURB, "strong_convexity": 0.1, "smoothness": 0.5, "self_bounding": 1.0, "beta": 0.05},
        {**PERTURB, "strong_convexity": 0.1, "smoothness": 0.5},
        {**PERTURB, "radius": 1.0},
    ],
    "objective_noise": [
        {"n": 1000, "lipschitz": 1.0, "strong_convexity": 0.1, "epsilon": 1.0, "delta": 1e-6, "self_bounding": 1.0},
        {"n": 1000, "lipschitz": 1.0, "strong_convexity": 0.1, "epsilon": 1.0, "delta": 1e-6, "smoothness": 0.5},
    ],
    "projected_gradient_risk": [
        {"steps": 10, "lipschitz": 1.0, "diameter": 1.0, "noise": 1.0, "d": 3, "step_size": 0.1},
        {"steps": 10, "radius": 1.0, "n": 100, "d": 3, "epsilon": 1.0, "delta": 1e-6, "beta": 0.05},
    ],
    "gradient_descent_risk": [
        {**DESCENT, "diameter": 1.0, "steps": 10, "beta": 0.05},
        {**DESCENT, "radius": 1.0},
        {**DESCENT, "strong_convexity": 1.0},
    ],
    "gradient_descent_plan": [{**DESCENT, "diameter": 1.0, "slack": 0.05}, {**DESCENT, "radius": 1.0, "steps": 10}],
    "gradient_noise": [{"n": 100, "lipschitz": 1.0, "epsilon": 1.0, "delta": 1e-6, "steps": 10}],
    "noise_epsilon": [{"n": 100, "lipschitz": 1.0, "noise": 0.1, "delta": 1e-6, "steps": 10}],
    "rank_risk": [{"n": 100, "rank": 5, "lipschitz": 1.0, "seminorm": 1.0, "epsilon": 1.0, "delta": 1e-6, "steps": 10}],
    "composition_epsilon": [{"rho": 0.01, "count": 10, "delta": 1e-6}],
    "composition_rho": [{"epsilon": 1.0, "count": 10, "delta": 1e-6}],
    "gradient_sensitivity": [
        {"n": 10, "d": 5, "domain": "box", "half_width": 1.0, "intercept": 1.0},
        {"n": 10, "x_norm": 1.0, "parameter_radius": 1.0},
    ],
    "row_norm": [{"d": 5, "domain": "box", "half_width": 1.0, "intercept": 1.0}, {"x_norm": 1.0}],
    "lower_bound": [{"kind": "convex", "n": 100, "d": 5, "epsilon": 1.0, "delta": 1e-6}],
    "phased_sgd_risk": [{**DESCENT, "diameter": 1.0, "smoothness": 1.0}],
    "phased_sgd_plan": [{**DESCENT, "diameter": 1.0, "smoothness": 1.0, "phases": 2}],
    "two_layer_gap": [{"loss": 0.1, "classes": 10}],
    "infimum_gap": [{"example": "separable", "reach": 3.0}, {"example": "open-set", "reach": 3.0}],
    "generalisation_gap": [
        {"n": 100, "lipschitz": 1.0, "radius": 1.0, "beta": 0.05, "loss_range": 1.0},
        {"n": 100, "hypotheses": 10, "beta": 0.05},
        {"n": 100, "lipschitz": 1.0, "strong_convexity": 0.1},
    ],
}
