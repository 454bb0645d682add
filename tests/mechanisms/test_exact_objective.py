"""The true privacy profile of objective perturbation by quadrature: never above the certified one, touching it where it is tight.

What is certified comes from the plan of the mechanism itself (ridge, noise scale, events); the density is written apart from it
in `exact_density`. The mutation tests change one constant of the *density* and must find the certified curve broken.
"""

import math

import numpy as np
import pytest

from dperm.mechanisms import Objective, Shape, Target
from dperm.mechanisms.objective.accounting import loss_form, pure_epsilon, pure_rate
from dperm.privacy import Gaussian, ObjectiveEvent, calibrate_shift, compose, gaussian_delta, gaussian_mu
from dperm.privacy.objective_loss import hockey_stick
from dperm.problem import (
    DataBounds,
    HuberizedHingeLoss,
    HuberLoss,
    Interval,
    LogCoshLoss,
    LogisticLoss,
    MultinomialLoss,
    Problem,
    SoftplusHingeLoss,
)
from dperm.release.noise import RELEASE_SLACK
from exact_density import Line, gamma_norm_noise, gaussian_noise, plane_profile, softmax_profile
from vectors import VECTORS, agrees

UNIT = Interval(-1.0, 1.0)
ROUNDING = 1 + 1e-5  # of the quadrature, relative
# Data sets that a neighbour joins: empty, agreeing, opposed, balanced, and long tilts (many short rows) to either side.
BASES = (
    [],
    [(1.0, 1.0)],
    [(1.0, -1.0)],
    [(1.0, 1.0), (1.0, -1.0)],
    [(0.5, -1.0), (-1.0, 1.0)],
    [(0.02, -1.0, 200.0)],
    [(0.02, -1.0, 2000.0)],
    [(0.02, 1.0, 400.0)],
    [(1.0, -1.0, 40.0)],
)
RECORDS = ((1.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (0.5, 1.0))


def problem(loss, y=UNIT):
    return Problem(loss, data=DataBounds(1.0, y))


def planned(loss, target, y=UNIT, **options):
    """(σ of the tilt without its slack, ridge, objective event) as the mechanism plans them."""
    stage = Objective(**options).plan(problem(loss, y), Shape(50, 1), target).stage("objective")
    return stage.settings["noise_scale"] / RELEASE_SLACK, stage.settings["ridge"], stage.event


def joined():
    return [(base, [*base, record]) for base in BASES for record in RECORDS]


def replaced():
    return [([*base, one], [*base, other]) for base in BASES[::2] for one in RECORDS for other in RECORDS if one != other]


def worst(line, pairs, epsilons, sigma):
    return np.max([line.profile(one, other, epsilons, 13 * sigma) for one, other in pairs], axis=0)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("loss", [LogisticLoss(), SoftplusHingeLoss(0.5)], ids=["logistic", "softplus-hinge"])
def test_exact_profile_of_zero_out_is_certified_and_tight(loss, epsilon):
    sigma, ridge, event = planned(loss, Target(epsilon, 1e-4, "zero-out"), noise_kind="gaussian")
    epsilons = epsilon * np.array([0.25, 0.5, 1.0, 1.5])
    truth = worst(Line(loss, ridge, gaussian_noise(sigma)), joined(), epsilons, sigma)
    certified = np.array([event.delta(e) for e in epsilons])
    assert np.all(truth <= certified * ROUNDING)
    assert truth[2] >= 0.999 * certified[2]  # one Gaussian release, attained
    assert certified[2] == pytest.approx(gaussian_delta(epsilon, event.shift))


@pytest.mark.parametrize("factor", [0.2, 0.5])
def test_exact_profile_below_the_threshold_is_covered_by_the_pointwise_loss(factor):
    """λ = factor·R²/ε: the log-determinant costs something, and the pointwise variable pays for it."""
    sigma, ridge, event = planned(LogisticLoss(), Target(1.0, 1e-4, "zero-out"), noise_kind="gaussian", ridge=factor)
    assert sigma > 1.01 / gaussian_mu(1.0, 1e-4)
    epsilons = np.array([0.5, 1.0, 2.0])
    truth = worst(Line(LogisticLoss(), ridge, gaussian_noise(sigma)), joined(), epsilons, sigma)
    assert np.all(truth <= [event.delta(e) * ROUNDING for e in epsilons])


def test_exact_touching_value_of_the_theorem():
    numbers = VECTORS["C4_2"]["attained"]
    line = Line(LogisticLoss(), 1.0, gaussian_noise(numbers["sigma"]))
    truth = line.profile([], [(1.0, 1.0)], [numbers["epsilon"]], 60)[0]
    assert agrees(truth, numbers["delta"])


@pytest.mark.parametrize(("ridge", "sigma", "epsilon"), [(0.028, 3.4, 1.76), (0.25, 4.2247, 0.572)])
def test_exact_counterexample_objective_perturbation_is_not_gdp(ridge, sigma, epsilon):
    """Below ε = K the true δ exceeds that of N(0,1)/N(R/σ,1) by far; the event of this library covers it."""
    truth = Line(LogisticLoss(), ridge, gaussian_noise(sigma)).profile([], [(1.0, 1.0)], [epsilon], 14 * sigma)[0]
    assert truth > 7 * gaussian_delta(epsilon, 1 / sigma)
    assert truth <= ObjectiveEvent("self-bounding", 1 / sigma, 1 / ridge).delta(epsilon)
    assert ObjectiveEvent("self-bounding", 1 / sigma, 1 / ridge).gdp() is None


@pytest.mark.parametrize("ridge", [None, 1.0, 10.0])
def test_exact_profile_of_replace_one_is_certified(ridge):
    sigma, ridge, event = planned(LogisticLoss(), Target(1.0, 1e-4, "replace-one"), noise_kind="gaussian", ridge=ridge)
    epsilons = np.array([0.5, 1.0, 1.5])
    truth = worst(Line(LogisticLoss(), ridge, gaussian_noise(sigma)), replaced(), epsilons, sigma)
    assert np.all(truth <= [event.delta(e) * ROUNDING for e in epsilons])


@pytest.mark.parametrize("ridge", [2.5, 1.0])
def test_exact_two_dimensional_replace_one_is_certified_and_nearly_tight(ridge):
    """Both records have slope close to 1 when many rows push θ away from both; their difference is then close to 2R."""
    sigma, ridge, event = planned(LogisticLoss(), Target(1.0, 1e-3, "replace-one"), noise_kind="gaussian", ridge=ridge)
    push = ((0.0, 0.002), -1.0, 110_000.0 * ridge)
    one, other = ((0.995, 0.0999), 1.0, 1.0), ((-0.995, 0.0999), 1.0, 1.0)
    truth = plane_profile(LogisticLoss(), ridge, sigma, [push, one], [push, other], 1.0)
    assert truth <= event.delta(1.0)
    if ridge == 2.5:
        assert truth >= 0.8 * event.delta(1.0)
    for base in ([], [((0.6, 0.8), 1.0, 1.0)]):
        spread = plane_profile(LogisticLoss(), ridge, sigma, [*base, one], [*base, other], 1.0)
        assert spread <= event.delta(1.0)


def test_exact_two_dimensional_zero_out_is_certified():
    sigma, ridge, event = planned(LogisticLoss(), Target(1.0, 1e-3, "zero-out"), noise_kind="gaussian")
    generator = np.random.default_rng(5)
    for _ in range(4):
        angles = generator.uniform(0, 2 * np.pi, 4)
        rows = [((math.cos(a), math.sin(a)), float(generator.choice([-1, 1])), 1.0) for a in angles]
        assert plane_profile(LogisticLoss(), ridge, sigma, rows[:-1], rows, 1.0, points=500) <= event.delta(1.0)


@pytest.mark.parametrize("relation", ["zero-out", "replace-one"])
@pytest.mark.parametrize(
    "loss",
    [LogCoshLoss(1.0), LogCoshLoss(0.3), HuberLoss(0.7), HuberizedHingeLoss(0.5)],
    ids=["log-cosh-1", "log-cosh-0.3", "huber", "huberized-hinge"],
)
def test_exact_profile_of_other_losses_is_certified(loss, relation):
    sigma, ridge, event = planned(loss, Target(1.0, 1e-4, relation), noise_kind="gaussian")
    epsilons = np.array([0.5, 1.0, 1.5])
    pairs = (joined() if relation == "zero-out" else replaced())[::2]
    truth = worst(Line(loss, ridge, gaussian_noise(sigma)), pairs, epsilons, sigma)
    assert np.all(truth <= [event.delta(e) * ROUNDING for e in epsilons])


def test_exact_log_cosh_bound_is_attained():
    numbers = VECTORS["C4_3"]["attained"]
    line = Line(LogCoshLoss(1.0), numbers["ridge"], gaussian_noise(numbers["sigma"]))
    event = ObjectiveEvent("log-cosh", 1 / numbers["sigma"], 1 / numbers["ridge"])
    assert agrees(event.delta(numbers["epsilon"]), numbers["delta"])
    # A long tilt makes the record's slope +τ on one side; two opposite signs cannot both be attained by one data set.
    pairs = [(base, [*base, (1.0, y)]) for base in BASES for y in (-40.0, 0.0, 40.0)]
    truth = worst(line, pairs, [numbers["epsilon"]], numbers["sigma"])[0]
    assert 0.45 * event.delta(1.0) <= truth <= event.delta(1.0) * ROUNDING


def test_exact_row_weights_are_certified_and_attained():
    """ω = min(1, R_z/|z|), |z| ≤ r_m: gradient at most R_z, curvature constant C·R_z·r_m/λ."""
    radius, cap, epsilon, delta = 0.6, 2.0, 1.0, 1e-4
    ridge = radius * cap / epsilon
    shift = calibrate_shift(epsilon, delta, curvature=radius * cap / ridge, relation="zero-out")
    sigma = radius / shift
    event = ObjectiveEvent("self-bounding", shift, radius * cap / ridge)
    line = Line(LogisticLoss(), ridge, gaussian_noise(sigma))

    def weighted(z, y):
        return (z, y, min(1.0, radius / abs(z)))

    pairs = [(base, [*base, weighted(z, y)]) for base in BASES for z in (0.3, 0.6, 1.1, 2.0) for y in (-1.0, 1.0)]
    epsilons = np.array([0.5, 1.0, 1.5])
    truth = worst(line, pairs, epsilons, sigma)
    certified = np.array([event.delta(e) for e in epsilons])
    assert np.all(truth <= certified * ROUNDING)
    assert truth[1] >= 0.999 * certified[1]
    # An unweighted row at the cap would break it: the weight is what bounds the gradient.
    unweighted = worst(line, [([], [(2.0, 1.0)])], [epsilon], sigma)[0]
    assert unweighted > 10 * certified[1]


@pytest.mark.parametrize("relation", ["zero-out", "replace-one"])
@pytest.mark.parametrize("loss", [LogisticLoss(), LogCoshLoss(1.0), HuberLoss(0.7)], ids=["logistic", "log-cosh", "huber"])
def test_exact_pure_loss_is_certified(loss, relation):
    scale, ridge, event = planned(loss, Target(1.0, 0.0, relation))
    line = Line(loss, ridge, gamma_norm_noise(1 / scale))
    pairs = joined() if relation == "zero-out" else replaced()
    truth = max(line.worst_log_ratio(one, other, 40 * scale) for one, other in pairs)
    assert truth <= event.epsilon * (1 + 1e-9)
    if isinstance(loss, LogisticLoss) and relation == "zero-out":
        assert truth >= 0.99 * event.epsilon  # λ = R²/ε: rate ε/R, attained


# -- mutations: each change of one constant must be seen ---------------------------------------------------------------


@pytest.mark.parametrize("mutation", ["noise x 0.7", "ridge / 2", "sensitivity / 2", "log-determinant dropped"])
def test_exact_mutations_break_the_gaussian_certificate(mutation):
    """At λ = 0.2·R²/ε the log-determinant is worth 0.8 of ε = 1; without a mutation the certificate holds (tested above)."""
    sigma, ridge, event = planned(LogisticLoss(), Target(1.0, 1e-4, "zero-out"), noise_kind="gaussian", ridge=0.2)
    certified, pairs = event.delta(1.0), joined()
    if mutation == "noise x 0.7":
        sigma, ridge, event = planned(LogisticLoss(), Target(1.0, 1e-4, "zero-out"), noise_kind="gaussian")
        certified, sigma = event.delta(1.0), 0.7 * sigma
    elif mutation == "ridge / 2":
        ridge /= 2
    elif mutation == "sensitivity / 2":
        pairs = [([], [(2.0, 1.0)])]  # rows twice as long as the noise was made for
    else:
        sigma, ridge = 1 / gaussian_mu(1.0, 1e-4), 0.1  # booked as one Gaussian release
        certified = 1e-4
    truth = worst(Line(LogisticLoss(), ridge, gaussian_noise(sigma)), pairs, [1.0], sigma)[0]
    assert truth > 1.5 * certified


@pytest.mark.parametrize("mutation", ["noise x 0.7", "ridge / 2", "sensitivity / 2", "log-determinant dropped"])
def test_exact_mutations_break_the_pure_certificate(mutation):
    relation = "zero-out"
    logistic = loss_form(LogisticLoss(), UNIT)
    ridge = 0.3
    rate = pure_rate(logistic, 1.0, 1 / ridge, relation)
    pairs = joined()
    intact = Line(LogisticLoss(), ridge, gamma_norm_noise(rate))
    assert max(intact.worst_log_ratio(one, other, 40 / rate) for one, other in pairs) <= 1.0 + 1e-9
    if mutation == "noise x 0.7":
        rate /= 0.7
    elif mutation == "ridge / 2":
        ridge /= 2
    elif mutation == "sensitivity / 2":
        pairs = [([], [(2.0, 1.0)])]
    else:
        rate = 1.0  # ε/R, as if λ were above the threshold
    line = Line(LogisticLoss(), ridge, gamma_norm_noise(rate))
    assert max(line.worst_log_ratio(one, other, 40 / rate) for one, other in pairs) > 1.02


def test_exact_composition_with_a_gaussian_release_is_the_two_dimensional_integral():
    """The tilted minimiser beside N(0, 1/μ²) noise on a count: δ = ∫ over θ of the Gaussian profile at ε − loss(θ)."""
    shift, mu, ridge = calibrate_shift(1.0, 1e-4, curvature=0.8, relation="zero-out", mu_pre=0.12), 0.12, 1.25
    line = Line(LogisticLoss(), ridge, gaussian_noise(1 / shift))
    event = ObjectiveEvent("self-bounding", shift, 1 / ridge)
    guarantee = compose([event, Gaussian(mu)], "zero-out")
    base, other = [(0.02, -1.0, 2000.0)], [(0.02, -1.0, 2000.0), (1.0, 1.0)]
    theta = line.grid(other, 13 / shift, 20_001)
    density = np.exp(line.log_density(theta, other))
    inner = hockey_stick(1.0 - line.log_ratio(theta, other, base), mu) * density
    truth = float(np.sum(np.diff(theta) * (inner[1:] + inner[:-1]) / 2))
    # The certified variable never falls below 0, the true loss does: 3 % of δ, and less than 0.1 % of σ.
    assert 0.96 * guarantee.delta(1.0) <= truth <= guarantee.delta(1.0) * ROUNDING
    assert guarantee.delta(1.0) <= 1e-4


def test_exact_errata_e12_an_unpenalised_direction_is_not_private():
    """No ridge in some direction: the log-determinant has no bound, and one record changes the density without limit."""
    log_ratios = []
    for ridge in (1.0, 1e-2, 1e-4, 1e-6):
        line = Line(LogisticLoss(), ridge, gaussian_noise(1 / gaussian_mu(1.0, 1e-6)))
        log_ratios.append(float(line.log_ratio(np.zeros(1), [(1.0, 1.0)], [])[0]))
    assert np.all(np.diff(log_ratios) > 3.0) and log_ratios[-1] > 12  # log(1 + 1/(4λ)) grows as λ vanishes
    # Ours refuses a ridge whose log-determinant alone exceeds ε.
    with pytest.raises(ValueError, match="larger ridge"):
        planned(LogisticLoss(), Target(1.0, 1e-6, "zero-out"), ridge=1e-4)


def test_exact_errata_e3_noise_inside_the_set_has_infinite_loss():
    """w drawn in C = [−1, 1] only: θ̂ of one data set lies where the other's density is zero. On the whole line the loss is ε."""
    loss, ridge = LogisticLoss(), 1.0
    theta = np.linspace(-3, 3, 60_001)
    free = Line(loss, ridge, gaussian_noise(1.0))

    def inside(data):  # the tilt that would produce θ must lie in C
        return np.abs(free.slope(theta, data)) <= 1.0

    one, other = [(1.0, 1.0)], [(1.0, -1.0)]
    p = np.where(inside(one), np.exp(free.log_density(theta, one)), 0.0)
    p /= np.sum(p)
    assert float(np.sum(p[~inside(other)])) > 0.2  # probability of an outcome that is impossible for the neighbour
    scale, ridge, event = planned(loss, Target(1.0, 0.0, "replace-one"))
    line = Line(loss, ridge, gamma_norm_noise(1 / scale))
    assert line.worst_log_ratio(one, other, 40 * scale) <= event.epsilon


def test_exact_softmax_of_two_classes_is_certified():
    """K = 2 with one number per class: two parameters; the loss depends on their difference only."""
    sigma, ridge, event = planned(MultinomialLoss(2), Target(1.0, 1e-3, "zero-out"), y=Interval(0, 1), noise_kind="gaussian")
    # φ(z; y) of the difference d = θ₁ − θ₀ is the logistic loss with label ±1, so each record is ((−x, x), ±1).
    for base in ([], [((-1.0, 1.0), -1.0, 300.0)], [((-1.0, 1.0), 1.0, 3.0)]):
        truth = plane_profile(LogisticLoss(), ridge, sigma, base, [*base, ((-1.0, 1.0), 1.0, 1.0)], 1.0)
        assert truth <= event.delta(1.0)
    assert event.delta(1.0) <= 1e-3


@pytest.mark.parametrize("relation", ["zero-out", "replace-one"])
def test_exact_softmax_of_three_classes_is_certified(relation):
    sigma, ridge, event = planned(MultinomialLoss(3), Target(1.0, 1e-3, relation), y=Interval(0, 2), noise_kind="gaussian")
    records = [(1.0, 0, 1.0), (1.0, 1, 1.0), (-1.0, 2, 1.0)]
    tilted = [(0.002, 1, 6000.0 * ridge)]  # drives the probability of class 0 down: one wrong class has slope close to 1
    largest = 0.0
    for base in ([], [(1.0, 1, 3.0)], tilted):
        others = [base] if relation == "zero-out" else [[*base, record] for record in records[1:]]
        for other in others:
            largest = max(largest, softmax_profile(ridge, sigma, [*base, records[0]], other, 1.0))
    assert largest <= event.delta(1.0) <= 1e-3
    if relation == "zero-out":
        assert largest > 0.25 * event.delta(1.0)
    # Mutation: less noise is not enough. With one column two records of replace-one cannot pull in opposite directions.
    other, factor = (tilted, 0.5) if relation == "zero-out" else ([*tilted, (1.0, 2, 1.0)], 0.3)
    assert softmax_profile(ridge, factor * sigma, [*tilted, records[0]], other, 1.0) > 1e-3


def test_exact_persons_with_two_rows_are_certified():
    sigma, ridge, event = planned(LogisticLoss(), Target(1.0, 1e-4, "zero-out", 2), noise_kind="gaussian")
    line = Line(LogisticLoss(), ridge, gaussian_noise(sigma))
    pairs = [(base, [*base, one, two]) for base in BASES for one in RECORDS[:2] for two in RECORDS[:3]]
    epsilons = np.array([0.5, 1.0, 1.5])
    truth = worst(line, pairs, epsilons, sigma)
    certified = np.array([event.delta(e) for e in epsilons])
    assert np.all(truth <= certified * ROUNDING) and truth[1] > 0.3 * certified[1]
    # One row's noise would not do for two.
    alone, ridge, _ = planned(LogisticLoss(), Target(1.0, 1e-4, "zero-out"), noise_kind="gaussian")
    assert worst(Line(LogisticLoss(), ridge, gaussian_noise(alone)), pairs, [1.0], alone)[0] > 1e-3


def test_exact_redberg_and_kst_hold_and_are_wasteful():
    for accounting, relation, pairs in (("redberg-2023", "zero-out", joined()), ("kst-2012", "replace-one", replaced())):
        sigma, ridge, _ = planned(LogisticLoss(), Target(1.0, 1e-4, relation), accounting=accounting)
        truth = worst(Line(LogisticLoss(), ridge, gaussian_noise(sigma)), pairs[::2], [1.0], sigma)[0]
        assert truth <= 1e-4
        tight, _, _ = planned(LogisticLoss(), Target(1.0, 1e-4, relation), noise_kind="gaussian")
        assert sigma > 1.1 * tight


def test_exact_kst_needs_the_gradient_change_of_two_records():
    """One Huber row (1, y) replaced by (1, −1e6): steep and curved at once. ζ = L fails 50-fold, ζ = 2L holds."""
    epsilon, delta, wide = 1.0, 1e-9, Interval(-1e6, 1e6)

    def truth(sigma, ridge):
        theta = np.linspace(-9 * sigma / ridge, 9 * sigma / ridge, 100_001)

        def density(y):
            residual = theta - y
            tilt = -(np.clip(residual, -1.0, 1.0) + ridge * theta)
            return np.exp(-((tilt / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi)) * (ridge + (np.abs(residual) < 1))

        away = math.exp(epsilon) * density(-1e6)
        found = [np.sum(np.maximum(density(y) - away, 0.0)) for y in np.linspace(-9 * sigma / ridge, 9 * sigma / ridge, 241)]
        return max(found) * (theta[1] - theta[0])

    sigma, ridge, event = planned(HuberLoss(1.0), Target(epsilon, delta, "replace-one"), y=wide, accounting="kst-2012")
    assert truth(sigma, ridge) <= event.delta <= delta
    assert truth(sigma / 2, ridge) > 30 * delta


def test_exact_rank_one_determinant_ratio_has_one_factor_not_two():
    """E11: det ratio of replace-one lies in [1/(1+β/λ), 1+β/λ] for random Hessians; the printed square is never needed."""
    generator = np.random.default_rng(3)
    largest = 0.0
    for _ in range(200):
        rest = generator.standard_normal((3, 4)) * generator.choice([0.0, 0.1, 1.0])
        A = 0.5 * np.eye(4) + rest.T @ rest
        x, other = (v / np.linalg.norm(v) for v in generator.standard_normal((2, 4)))
        a, b = generator.choice([0.0, 0.25], 2)
        ratio = np.linalg.det(A + a * np.outer(x, x)) / np.linalg.det(A + b * np.outer(other, other))
        largest = max(largest, ratio, 1 / ratio)
    assert 1.4 < largest <= 1.5 + 1e-12  # 1 + 0.25/0.5


def test_exact_pure_epsilon_is_the_largest_slope():
    """The closed-form root agrees with a fine grid over slopes."""
    s = np.linspace(0, 1, 100_001)
    for rate in (0.1, 0.5, 2.0):
        for c in (0.05, 1.0, 8.0):
            for relation, both in (("zero-out", 0), ("replace-one", 1)):
                grid = np.max(rate * (both + s) + np.log1p(c * s * (1 - s)))
                assert pure_epsilon(loss_form(LogisticLoss(), UNIT), rate, c, relation) == pytest.approx(grid, rel=1e-8)
                grid = np.max(rate * (both + s) + np.log1p(c * (1 - s * s)))
                assert pure_epsilon(loss_form(LogCoshLoss(1.0), UNIT), rate, c, relation) == pytest.approx(grid, rel=1e-8)
