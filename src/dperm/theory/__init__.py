"""The lecture theorems, corrected, as functions: risk bounds, sample sizes, composition, lower bounds.

Pure: no rows, no noise, no files. Risks are on the mean scale unless a docstring says otherwise. `THEOREMS`
maps the name used on the command line to the function.
"""

from collections.abc import Callable
from typing import Final

from dperm.theory.checks import ConditionError
from dperm.theory.composition import COMPOSITION_RULES, composition_epsilon, composition_rho
from dperm.theory.convexity import infimum_gap, jensen_gap, mean_lipschitz, subgradient_gap, two_layer_gap
from dperm.theory.descent import (
    DescentPlan,
    gradient_descent_plan,
    gradient_descent_risk,
    gradient_noise,
    noise_epsilon,
    projected_gradient_risk,
)
from dperm.theory.exponential import (
    exponential_erm_risk,
    exponential_mechanism_failure,
    exponential_mechanism_tail,
    exponential_privacy_loss,
    exponential_probabilities,
    max_log_ratio,
)
from dperm.theory.generators import Sample, make_agnostic, make_separable, make_separators
from dperm.theory.inverse import SampleSize, required_epsilon, sample_size
from dperm.theory.lower_bounds import LOWER_BOUND_KINDS, Slope, lower_bound
from dperm.theory.metrics import Estimate, Summary, empirical_risk, excess_risk, excess_risk_summary, population_risk
from dperm.theory.perturbation import objective_noise, objective_perturbation_risk, output_perturbation_risk, output_sensitivity
from dperm.theory.population import PhasedPlan, generalisation_gap, phased_sgd_plan, phased_sgd_risk
from dperm.theory.rank import basis_seminorm, projector, rank_risk, row_space, seminorm
from dperm.theory.sample_sizes import (
    agnostic_sample_size,
    pac_sample_size,
    privacy_is_free_above,
    privacy_overhead,
    uniform_convergence_error,
    uniform_convergence_sample_size,
)
from dperm.theory.sensitivity import gradient_sensitivity, row_norm

THEOREMS: Final[dict[str, Callable[..., float]]] = {
    "uniform-convergence": uniform_convergence_sample_size,
    "uniform-convergence-error": uniform_convergence_error,
    "agnostic": agnostic_sample_size,
    "pac": pac_sample_size,
    "privacy-is-free": privacy_is_free_above,
    "privacy-overhead": privacy_overhead,
    "exponential-tail": exponential_mechanism_tail,
    "exponential-failure": exponential_mechanism_failure,
    "exponential-erm": exponential_erm_risk,
    "exponential-privacy-loss": exponential_privacy_loss,
    "output-sensitivity": output_sensitivity,
    "output-perturbation": output_perturbation_risk,
    "objective-perturbation": objective_perturbation_risk,
    "objective-noise": objective_noise,
    "projected-gradient": projected_gradient_risk,
    "gradient-descent": gradient_descent_risk,
    "gradient-noise": gradient_noise,
    "noise-epsilon": noise_epsilon,
    "rank": rank_risk,
    "composition": composition_epsilon,
    "composition-rho": composition_rho,
    "gradient-sensitivity": gradient_sensitivity,
    "lower-bound": lower_bound,
    "phased-sgd": phased_sgd_risk,
    "generalisation-gap": generalisation_gap,
}
"""Every theorem that maps plain numbers to one number, by the name the command line uses."""

RISKS: Final[tuple[str, ...]] = (
    "exponential-erm",
    "output-perturbation",
    "objective-perturbation",
    "gradient-descent",
    "rank",
    "phased-sgd",
)
"""The names in THEOREMS whose value is an excess risk that falls in n: `sample_size` inverts them."""

__all__ = [
    "COMPOSITION_RULES",
    "LOWER_BOUND_KINDS",
    "RISKS",
    "THEOREMS",
    "ConditionError",
    "DescentPlan",
    "Estimate",
    "PhasedPlan",
    "Sample",
    "SampleSize",
    "Slope",
    "Summary",
    "agnostic_sample_size",
    "basis_seminorm",
    "composition_epsilon",
    "composition_rho",
    "empirical_risk",
    "excess_risk",
    "excess_risk_summary",
    "exponential_erm_risk",
    "exponential_mechanism_failure",
    "exponential_mechanism_tail",
    "exponential_privacy_loss",
    "exponential_probabilities",
    "generalisation_gap",
    "gradient_descent_plan",
    "gradient_descent_risk",
    "gradient_noise",
    "gradient_sensitivity",
    "infimum_gap",
    "jensen_gap",
    "lower_bound",
    "make_agnostic",
    "make_separable",
    "make_separators",
    "max_log_ratio",
    "mean_lipschitz",
    "noise_epsilon",
    "objective_noise",
    "objective_perturbation_risk",
    "output_perturbation_risk",
    "output_sensitivity",
    "pac_sample_size",
    "phased_sgd_plan",
    "phased_sgd_risk",
    "population_risk",
    "privacy_is_free_above",
    "privacy_overhead",
    "projected_gradient_risk",
    "projector",
    "rank_risk",
    "required_epsilon",
    "row_norm",
    "row_space",
    "sample_size",
    "seminorm",
    "subgradient_gap",
    "two_layer_gap",
    "uniform_convergence_error",
    "uniform_convergence_sample_size",
]
