"""Events, composition, calibration, last-iterate accounting, private selection and the printed calibrations."""

import itertools
import json
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from dperm.privacy import (
    EVENTS,
    GDP,
    RELATIONS,
    ZCDP,
    ApproxDP,
    Approximate,
    Composed,
    Concentrated,
    Event,
    Gaussian,
    HiddenState,
    PoissonRuns,
    PrivacyLoss,
    ProductDP,
    Pure,
    PureDP,
    Sampled,
    TruncatedNegativeBinomial,
    calibrate,
    calibrate_mu,
    compose,
    event_from_spec,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    hidden_state_mu,
    register_event,
    selection_epsilon,
    split_mu,
)
from dperm.privacy.accountants import rounding_floor
from dperm.privacy.as_printed import claim_sigma, slides_sigma
from dperm.privacy.conversions import rdp_epsilon, zcdp_delta
from dperm.privacy.loss_distributions import approximate, choose_discretization, concentrated, sampled_scale
from vectors import VECTORS, agrees

ONE, ZERO = "replace-one", "zero-out"
KINDS = [
    Gaussian(0.3, 4),
    Pure(0.2, 3),
    Concentrated(0.05, 2),
    Approximate(0.3, 1e-6, 2),
    Sampled(0.1, Gaussian(0.5, 10)),
    HiddenState(0.4, 1000),
]


# ---------------------------------------------------------------- events


@pytest.mark.parametrize("event", KINDS, ids=lambda event: event.kind)
def test_event_specs_round_trip(event):
    assert event_from_spec(json.loads(json.dumps(event.spec()))) == event
    assert EVENTS[event.kind] is type(event)
    spec = event.spec() | {"extra": 1}
    with pytest.raises(ValueError, match="Expected fields"):
        event_from_spec(spec)


def test_event_costs():
    assert [event.total() for event in KINDS] == [4, 3, 2, 2, 10, 1]
    assert KINDS[0].gdp() == 0.6 and KINDS[0].zcdp() == pytest.approx(0.18) and KINDS[0].pure() is None
    assert KINDS[1].pure() == pytest.approx(0.6) and KINDS[1].gdp() is None
    assert KINDS[1].zcdp() == pytest.approx(3 * 0.2 * math.tanh(0.1))
    assert KINDS[2].zcdp() == 0.1 and KINDS[2].pure() is None
    assert KINDS[3].pure() is None and KINDS[3].zcdp() is None and KINDS[3].approximate() == (0.3, 1e-6, 2)
    assert Approximate(0.3, 0.0, 2).pure() == 0.6
    assert Approximate(0.3, 0.0, 2).zcdp() == pytest.approx(0.6 * math.tanh(0.15))
    assert KINDS[4].gdp() is None and KINDS[4].relaxed() == Gaussian(0.5, 10)
    assert KINDS[4].zcdp() == Gaussian(0.5, 10).zcdp()
    assert Sampled(1.0, Gaussian(0.5, 4)).gdp() == 1.0
    assert Sampled(0.0, Gaussian(0.5, 4)).gdp() == 0.0 and Sampled(0.0, Gaussian(0.5)).zcdp() == 0.0
    assert Sampled(0.0, Gaussian(0.5, 4)).scale() == 0.0
    assert KINDS[5].gdp() == 0.4 and KINDS[5].zcdp() == pytest.approx(0.08)
    assert KINDS[5].loss_distribution(1e-3).get_delta_for_epsilon(1.0) == pytest.approx(gaussian_delta(1.0, 0.4), rel=1e-3)
    assert "for Gaussian, found 'sideways'" in Gaussian(1.0).refusal("sideways")
    for silent in (Gaussian(0.0), Concentrated(0.0), HiddenState(0.0, 5), Sampled(0.5, Gaussian(0.0))):
        assert silent.pure() == 0.0


@pytest.mark.parametrize(
    "build",
    [
        lambda: Gaussian(-1.0),
        lambda: Gaussian(math.inf),
        lambda: Gaussian(math.nan),
        lambda: Gaussian(1.0, 0),
        lambda: Gaussian(1.0, 1.5),
        lambda: Gaussian(1.0, True),
        lambda: Pure(-0.1),
        lambda: Concentrated(-0.1),
        lambda: Approximate(1.0, 1.1),
        lambda: Sampled(1.5, Gaussian(1.0)),
        lambda: Sampled(0.5, Pure(1.0)),
        lambda: HiddenState(1.0, 0),
        lambda: event_from_spec({"kind": "unheard"}),
    ],
)
def test_bad_events_are_refused(build):
    with pytest.raises(ValueError, match=r"Expected .* found .*\. [A-Z]"):
        build()


def test_mechanisms_can_register_events():
    @dataclass(frozen=True)
    class Odd(Event):
        level: float
        kind: ClassVar[str] = "odd-for-a-test"

    try:
        assert register_event(Odd) is Odd
        assert event_from_spec(Odd(2.0).spec()) == Odd(2.0)
        assert Odd(2.0).total() == 1 and Odd(2.0).relaxed() == Odd(2.0)
        assert Odd(2.0).scale() == math.inf and Odd(2.0).loss_distribution(1e-3) is None
        assert Odd(2.0).approximate() is None and Odd(2.0).gdp() is None
        assert Odd(2.0).pure() is None and Odd(2.0).zcdp() is None

        @dataclass(frozen=True)
        class Mild(Event):  # a mechanism that only proves zCDP
            def zcdp(self):
                return 0.02

        mixed = compose([Mild(), Approximate(0.3, 1e-7)], ONE)
        twin = compose([Concentrated(0.02), Approximate(0.3, 1e-7)], ONE)
        assert mixed.epsilon(1e-5) == pytest.approx(twin.epsilon(1e-5), rel=1e-9)
        # nothing is known about the odd one, so nothing is claimed
        assert compose([Odd(1.0), Gaussian(0.1)], ONE) == ApproxDP(0.0, 1.0, ONE)

        @dataclass(frozen=True)
        class Clash(Event):
            kind: ClassVar[str] = "gaussian"

        with pytest.raises(ValueError, match="unused event kind"):
            register_event(Clash)
    finally:
        EVENTS.pop("odd-for-a-test")


# ---------------------------------------------------------------- exact composition


def test_gaussian_composition_is_exact():
    for relation in RELATIONS:
        total = compose([Gaussian(0.3, 16), HiddenState(0.5, 100)], relation)
        assert total == GDP(math.sqrt(0.3**2 * 16 + 0.25), relation)
    assert compose([], ONE) == PureDP(0.0, ONE)
    with pytest.raises(ValueError, match="Expected relation in"):
        compose([Gaussian(1.0)], "other")


def brute_force(pairs: list[tuple[float, float]], epsilon: float) -> float:
    """Hockey-stick divergence of a product of (ε, δ) pairs by listing all outcomes."""
    outcomes = []
    for e, d in pairs:
        p = (1 - d) * math.exp(e) / (1 + math.exp(e))
        q = (1 - d) / (1 + math.exp(e))
        outcomes.append([(p, q), (q, p), (d, 0.0), (0.0, d)])
    total = 0.0
    for choice in itertools.product(*outcomes):
        upper = math.prod(p for p, _ in choice)
        lower = math.prod(q for _, q in choice)
        total += max(0.0, upper - math.exp(epsilon) * lower)
    return total


def test_pure_and_approximate_composition_is_optimal():
    events = [Pure(0.4, 2), Pure(0.7), Approximate(0.3, 0.01, 2), Approximate(0.4, 0.02)]
    pairs = [(0.4, 0.0), (0.4, 0.0), (0.7, 0.0), (0.3, 0.01), (0.3, 0.01), (0.4, 0.02)]
    total = compose(events, ONE)
    for epsilon in (0.0, 0.3, 0.75, 1.2, 2.0, 2.5, 3.0):
        assert total.delta(epsilon) == pytest.approx(brute_force(pairs, epsilon), rel=1e-9)
    assert total.delta(math.inf) == pytest.approx(1 - 0.99**2 * 0.98, rel=1e-12)
    assert total.epsilon(0.03) == math.inf
    assert total.gdp() is None and total.zcdp() is None


def test_pure_only():
    total = compose([Pure(0.1, 50)], ONE)
    assert total.epsilon(0.0) == pytest.approx(5.0)
    assert total.implies(PureDP(5.0 + 1e-9, ONE))
    # Kairouz–Oh–Viswanath: Σ_i C(k,i) (e^{(k−i)ε} − e^{ε'+iε})₊ / (1+e^ε)^k
    k, e = 50, 0.1
    for target in (0.5, 1.0, 2.0):
        optimal = (
            sum(math.comb(k, i) * max(0.0, math.exp((k - i) * e) - math.exp(target + i * e)) for i in range(k + 1))
            / (1 + math.exp(e)) ** k
        )
        assert total.delta(target) == pytest.approx(optimal, rel=1e-9)
    assert total.epsilon(1e-6) < 3.3
    assert total.zcdp() == pytest.approx(50 * 0.1 * math.tanh(0.05))
    single = PureDP(0.1, ONE)
    assert compose([Pure(0.1)], ONE).epsilon(1e-3) == pytest.approx(single.epsilon(1e-3), rel=1e-9)
    assert compose([Pure(0.0), Gaussian(0.0)], ONE).epsilon(0.0) == 0.0
    assert compose([Approximate(1.0, 1.0)], ONE).delta(5.0) == 1.0


def test_pure_with_gaussian_is_the_exact_product():
    """E over the two answers of randomised response of the Gaussian profile, integrated numerically."""
    mu, e0 = 0.7, 0.5
    total = compose([Pure(e0), Gaussian(mu)], ONE)
    p = math.exp(e0) / (1 + math.exp(e0))
    for epsilon in (0.0, 0.2, 0.5, 1.0, 2.0, 3.0):
        value = 0.0
        for weight, other in ((p, 1 - p), (1 - p, p)):
            cut = (epsilon - math.log(weight / other)) / mu + mu / 2  # where the joint ratio is e^ε
            integral, _ = quad(
                lambda x, w=weight, o=other, e=epsilon: w * norm.pdf(x - mu) - math.exp(e) * o * norm.pdf(x), cut, 12.0
            )
            value += integral
        assert total.delta(epsilon) == pytest.approx(value, rel=1e-7)
        assert total.delta(epsilon) <= (gaussian_delta(epsilon - e0, mu) if epsilon >= e0 else 1.0)
    assert total.epsilon(0.0) == math.inf
    assert total.gdp() == pytest.approx(math.hypot(mu, PureDP(e0, ONE).gdp()))
    # far below what a grid can resolve
    tiny = total.epsilon(1e-200)
    assert gaussian_epsilon(1e-200, mu) < tiny < gaussian_epsilon(1e-200, mu) + e0
    assert total.delta(tiny) <= 1e-200 < total.delta(tiny * (1 - 1e-9))


def test_product_agrees_with_the_grid():
    events = [Pure(0.25, 5), Approximate(0.1, 1e-7), Gaussian(0.6)]
    exact = compose(events, ONE)
    grid = None
    for event in events:
        part = event.loss_distribution(1e-4)
        grid = part if grid is None else grid.compose(part)
    assert isinstance(exact, ProductDP)
    for epsilon in (0.5, 1.0, 2.0, 3.0):
        assert exact.delta(epsilon) <= grid.get_delta_for_epsilon(epsilon) * (1 + 2e-11)
        assert grid.get_delta_for_epsilon(epsilon) == pytest.approx(exact.delta(epsilon), rel=1e-3)


def test_many_different_pure_events_take_the_grid():
    events = [Pure(0.01 + 0.001 * i) for i in range(13)] + [Gaussian(0.2)]
    total = compose(events, ONE)
    assert isinstance(total, Composed)
    assert any(isinstance(route, PrivacyLoss) for route in total.routes)
    exact = ProductDP(0.2, [(event.epsilon, 1) for event in events[:13]], 0.0, ONE)
    assert exact.epsilon(1e-6) <= total.epsilon(1e-6) <= exact.epsilon(1e-6) * 1.01
    assert total.zcdp() == pytest.approx(exact.zcdp())
    # many equal ones too, where Σε is hopeless
    many = compose([Pure(1e-3, 10_000)], ONE)
    assert many.epsilon(0.0) == pytest.approx(10.0)
    assert gaussian_epsilon(1e-6, 0.1) * 0.999 <= many.epsilon(1e-6) <= gaussian_epsilon(1e-6, 0.1) * 1.03


# ---------------------------------------------------------------- concentrated events


def test_concentrated_with_gaussian_is_additive():
    assert compose([Concentrated(0.1, 3), Gaussian(0.4, 2)], ONE) == ZCDP(0.1 * 3 + 0.16, ONE)


@pytest.mark.parametrize("rho", [1e-4, 0.02, 0.5, 3.0])
def test_concentrated_pair_dominates(rho):
    """Above the exact Gaussian (a ρ-zCDP release), and at most the conversion (plus grid rounding)."""
    width = choose_discretization(math.sqrt(2 * rho), 1)
    pair = concentrated(rho, width)
    for factor in (0.0, 0.3, 1.0, 2.0, 4.0, 6.0):
        epsilon = factor * math.sqrt(2 * rho)
        value = pair.get_delta_for_epsilon(epsilon)
        assert value >= gaussian_delta(epsilon, math.sqrt(2 * rho))
        assert value <= zcdp_delta(rho, epsilon) * 1.02 + 1e-15
    law = pair._pmf_remove.to_dense_pmf()
    assert law._probs.min() >= 0
    assert law._probs.sum() + law._infinity_mass == pytest.approx(1.0, abs=1e-12)


def test_concentrated_with_others():
    events = [Concentrated(0.02), Pure(0.3)]
    total = compose(events, ONE)
    best = compose([Gaussian(0.2), Pure(0.3)], ONE)  # a particular pair of such releases
    simple = zcdp_delta(0.02, 1.0)  # basic composition: (1.0 + 0.3, δ)
    assert isinstance(total, Composed)
    for delta in (1e-3, 1e-6, 1e-9):
        assert best.epsilon(delta) <= total.epsilon(delta) <= ZCDP(0.02 + 0.3 * math.tanh(0.15), ONE).epsilon(delta)
    assert total.delta(1.3) <= simple
    with_failure = compose([Concentrated(0.02), Approximate(0.3, 1e-7)], ONE)
    assert with_failure.epsilon(1e-8) == math.inf
    assert total.epsilon(1e-6) <= with_failure.epsilon(1e-6) * (1 + 1e-6)
    assert compose([Concentrated(1e4), Approximate(0.3, 1e-7)], ONE) == ApproxDP(0.0, 1.0, ONE)
    assert compose([Concentrated(0.0), Approximate(0.3, 1e-7)], ONE).epsilon(1e-7) == pytest.approx(0.3, rel=0.01)
    for silent in (Concentrated(0.0), Gaussian(0.0)):
        assert silent.loss_distribution(1e-3).get_delta_for_epsilon(0.0) == 0.0


# ---------------------------------------------------------------- Poisson sampling


def test_printed_sampled_epsilon():
    rate, multiplier, steps, delta, printed = VECTORS["C1_3"]["sampled"]
    total = compose([Sampled(rate, Gaussian(1 / multiplier, steps))], ZERO, discretization=1e-4)
    assert agrees(total.epsilon(delta), printed)
    # the grid chosen by default may only be better, and not by much
    default = compose([Sampled(rate, Gaussian(1 / multiplier, steps))], "add-remove")
    assert total.epsilon(delta) * 0.999 <= default.epsilon(delta) <= total.epsilon(delta) * (1 + 1e-9)


def test_printed_full_batch_epsilon():
    rate, multiplier, steps, delta, printed = VECTORS["C1_3"]["full"]
    total = compose([Sampled(rate, Gaussian(1 / multiplier, steps))], ZERO)
    assert total == GDP(1.0, ZERO)
    assert agrees(total.epsilon(delta), printed)


def test_sampling_is_refused_under_replace_one():
    with pytest.raises(ValueError, match=r"Poisson sampling.*absent or present.*zero-out"):
        compose([Sampled(0.1, Gaussian(1.0))], ONE)
    with pytest.raises(ValueError, match="Poisson sampling"):
        compose([Gaussian(1.0), Sampled(1.0, Gaussian(1.0))], ONE)


@pytest.mark.parametrize(("rate", "mu"), [(0.01, 1.0), (0.2, 0.5), (0.5, 2.0)])
def test_one_sampled_release_matches_the_closed_form(rate, mu):
    """Removing: δ(ε) = q·δ_G(ε'; μ), e^ε' = 1 + (e^ε − 1)/q. Adding: integrate the pair the other way."""
    total = compose([Sampled(rate, Gaussian(mu))], ZERO)
    for epsilon in (0.05, 0.2, 0.7):
        remove = rate * gaussian_delta(math.log1p(math.expm1(epsilon) / rate), mu)

        def gap(x, e=epsilon):
            mixture = (1 - rate) * norm.pdf(x) + rate * norm.pdf(x - mu)
            return max(0.0, norm.pdf(x) - math.exp(e) * mixture)

        add, _ = quad(gap, -12, 12, limit=400, points=[0.0, mu / 2, mu])
        truth = max(remove, add)
        assert truth * (1 - 1e-7) <= total.delta(epsilon) <= truth * 1.002 + 2e-13


def test_sampling_never_costs_more_than_full_batches():
    sampled = compose([Sampled(0.3, Gaussian(0.2, 50))], ZERO)
    full = compose([Gaussian(0.2, 50)], ZERO)
    for delta in (1e-3, 1e-8, 1e-30, 1e-200):
        assert sampled.epsilon(delta) <= full.epsilon(delta)
    assert sampled.epsilon(1e-30) == full.epsilon(1e-30)  # below the grid's floor the unsampled route answers
    assert sampled.epsilon(1e-5) < 0.5 * full.epsilon(1e-5)


def test_sampled_with_everything():
    events = [Sampled(0.05, Gaussian(0.5, 40)), Gaussian(0.3), Pure(0.1), Concentrated(0.01), Approximate(0.1, 1e-8)]
    total = compose(events, ZERO)
    parts = [compose([event], ZERO) for event in events[:3]]
    without_sampling = compose([event.relaxed() for event in events], ZERO)
    for delta in (1e-3, 1e-6):
        assert total.epsilon(delta) >= max(part.epsilon(delta) for part in parts)
        assert total.epsilon(delta) <= without_sampling.epsilon(delta)
    assert total.epsilon(1e-9) == math.inf


def test_grid_width():
    assert choose_discretization(0.0, 5) == choose_discretization(math.inf, 5) == 1e-4
    assert choose_discretization(0.003, 1) == pytest.approx(1e-5)
    assert choose_discretization(1.0, 10**6) == pytest.approx(1e-4)
    assert choose_discretization(0.5, 10**6) == pytest.approx(5e-5)
    assert choose_discretization(1000.0, 1) == pytest.approx(0.51)
    assert sampled_scale(1.0, 0.5, 4) == pytest.approx(math.sqrt(4 * (0.25 + 0.125**2)), rel=1e-6)
    tiny = compose([Sampled(0.01, Gaussian(0.05, 10))], ZERO)  # ε far below 1e-4
    assert 0 < tiny.epsilon(1e-6) < 1e-2


def test_transforms_are_covered_by_the_floor():
    """The grid route, forced on a Gaussian, never claims less than the exact profile, however deep the tail."""
    steps, mu = 10_000, 0.01
    law = Sampled(1.0, Gaussian(mu, steps)).loss_distribution(1e-4)
    floor = rounding_floor(steps)
    guarded = PrivacyLoss(law, ZERO, 1e-4, floor)
    depths = np.linspace(0.5, 10.0, 39)
    exact = gaussian_delta(depths, 1.0)
    assert all(guarded.delta(e) >= d for e, d in zip(depths, exact))
    assert guarded.epsilon(floor) == math.inf
    grids = [route for route in compose([Sampled(0.5, Gaussian(mu, steps))], ZERO).routes if isinstance(route, PrivacyLoss)]
    assert [route.floor for route in grids] == [floor]
    assert guarded.epsilon(1e-5) == pytest.approx(gaussian_epsilon(1e-5, 1.0), rel=1e-3)


def test_randomised_response_on_a_grid():
    for epsilon in (1.0, 0.30005, 0.00003):
        exact = PureDP(epsilon, ONE)
        pair = approximate(epsilon, 0.0, 1, 1e-4)
        for value in (0.0, epsilon / 3, epsilon, epsilon + 1e-4):
            found = pair.get_delta_for_epsilon(value)
            assert exact.delta(value) - 1e-15 <= found <= exact.delta(value) + 5e-5


# ---------------------------------------------------------------- properties


exact_events = st.lists(
    st.one_of(
        st.builds(Gaussian, st.floats(0.0, 1.5), st.integers(1, 4)),
        st.builds(Pure, st.floats(0.0, 1.0), st.integers(1, 4)),
        st.builds(Approximate, st.floats(0.0, 1.0), st.floats(0.0, 1e-8), st.integers(1, 2)),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(exact_events, st.sampled_from([1e-2, 1e-4, 1e-6]))
def test_composition_is_at_least_each_part(events, delta):
    total = compose(events, ONE).epsilon(delta)
    assert total >= max(compose([event], ONE).epsilon(delta) for event in events) * (1 - 1e-9) - 1e-12


@settings(max_examples=30, deadline=None, derandomize=True)
@given(exact_events, st.randoms(use_true_random=False))
def test_composition_does_not_depend_on_order_or_grouping(events, random):
    total = compose(events, ONE)
    singles = [type(event).from_spec(event.spec() | {"count": 1}) for event in events for _ in range(event.count)]
    random.shuffle(singles)
    other = compose(singles, ONE)
    for delta in (1e-2, 1e-6):
        assert other.epsilon(delta) == pytest.approx(total.epsilon(delta), rel=1e-8, abs=1e-9)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.floats(0.0, 5.0), min_size=3, max_size=8))
def test_gaussian_composition_is_associative(parts):
    whole = compose([Gaussian(mu) for mu in parts], ONE).gdp()
    inner = compose([Gaussian(mu) for mu in parts[:2]], ONE).gdp()
    assert compose([Gaussian(inner), *(Gaussian(mu) for mu in parts[2:])], ONE).gdp() == pytest.approx(whole, rel=1e-12)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.floats(0.02, 1.0), st.sampled_from([1e-3, 1e-6, 1e-9]))
def test_grid_agrees_with_the_closed_form_on_gaussians(mu, delta):
    law = PrivacyLoss(Gaussian(mu).loss_distribution(choose_discretization(mu, 1)), ONE, 1e-4)
    exact = gaussian_epsilon(delta, mu)
    assert exact * (1 - 1e-9) <= law.epsilon(delta) <= exact * 1.002 + 1e-9


# ---------------------------------------------------------------- calibration


def test_calibrate_matches_the_closed_form():
    scale = calibrate(lambda s: [Gaussian(s, 9)], 1.0, 1e-6, ONE)
    assert scale == pytest.approx(gaussian_mu(1.0, 1e-6) / 3, rel=2e-9)
    assert compose([Gaussian(scale, 9)], ONE).epsilon(1e-6) <= 1.0
    assert calibrate(lambda s: [Pure(s, 4)], 1.0, 0.0, ONE) == pytest.approx(0.25, rel=2e-9)
    assert calibrate(lambda s: [Pure(s)], math.inf, 0.0, ONE) == math.inf


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-6), (1.0, 1e-5), (20.0, 1e-9)])
def test_calibrate_is_never_above_and_nearly_tight(epsilon, delta):
    def builder(s: float) -> list[Event]:
        return [Gaussian(0.5 * s, 10), Pure(0.1 * s, 2)]

    scale = calibrate(builder, epsilon, delta, ONE)
    assert compose(builder(scale), ONE).epsilon(delta) <= epsilon
    assert compose(builder(scale * (1 + 1e-7)), ONE).epsilon(delta) > epsilon


def test_calibrate_sampled():
    def builder(s: float) -> list[Event]:
        return [Sampled(0.05, Gaussian(s, 50))]

    scale = calibrate(builder, 0.5, 1e-5, ZERO, tolerance=1e-3)
    assert compose(builder(scale), ZERO).epsilon(1e-5) <= 0.5
    assert compose(builder(scale * 1.01), ZERO).epsilon(1e-5) > 0.5


def test_calibrate_refuses_the_impossible():
    with pytest.raises(ValueError, match="found none"):
        calibrate(lambda s: [Pure(2.0)], 1.0, 0.0, ONE)
    with pytest.raises(ValueError, match="cost grows"):
        calibrate(lambda s: [Pure(0.5)], 1.0, 0.0, ONE)
    for bad in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="Expected epsilon > 0"):
            calibrate(lambda s: [Pure(s)], bad, 0.0, ONE)
    # a step in the cost: the answer stays on the cheap side
    assert calibrate(lambda s: [Pure(0.5 if s < 3 else 2.0)], 1.0, 0.0, ONE, tolerance=0.0) < 3.0


def test_split_mu():
    parts = split_mu(2.0, [0.5, 0.25, 0.25])
    assert parts == pytest.approx((math.sqrt(2), 1.0, 1.0))
    assert compose([Gaussian(mu) for mu in parts], ONE).gdp() <= 2.0 * (1 + 1e-15)
    thirds = split_mu(1.0, [0.1] * 10)
    assert math.fsum(mu**2 for mu in thirds) <= 1.0 + 1e-15
    assert calibrate_mu(1.0, 1e-6, [0.5, 0.5])[0] == pytest.approx(gaussian_mu(1.0, 1e-6) / math.sqrt(2))
    with pytest.raises(ValueError, match="sum to 1"):
        split_mu(1.0, [0.5, 0.6])
    with pytest.raises(ValueError, match="share >= 0"):
        split_mu(1.0, [1.5, -0.5])


# ---------------------------------------------------------------- last iterate


def test_printed_hidden_state():
    table = VECTORS["C2"]
    for steps, strong, smooth, diameter, printed in table["vectors"]:
        mu = hidden_state_mu(steps, table["step_size"], table["noise"], table["sensitivity"], smooth, strong, diameter)
        assert agrees(mu, printed), (steps, mu)
    for steps, printed in table["composition"]:
        mu = hidden_state_mu(steps, table["step_size"], table["noise"], table["sensitivity"], 1.0)
        assert agrees(mu, printed)  # convex and no domain: nothing better than composition


def run_quadratic(steps: int, curvature: float, step: float, noise: float, drift: float, apart: float) -> float:
    """Exact μ of the last iterate for two quadratics whose gradients differ by `drift` and whose starts differ by
    `apart`: both iterates are Gaussian with one variance; μ is the distance of the means over the standard deviation.
    """
    distance, variance = apart, 0.0
    for _ in range(steps):
        distance = (1 - step * curvature) * distance + step * drift
        variance = (1 - step * curvature) ** 2 * variance + (step * noise) ** 2
    return distance / math.sqrt(variance)


@pytest.mark.parametrize("steps", [1, 2, 3, 50, 1000])
@pytest.mark.parametrize("curvature", [0.05, 0.7, 1.0])
def test_hidden_state_is_attained_by_quadratics(steps, curvature):
    truth = run_quadratic(steps, curvature, 0.8, 0.3, 0.02, 0.0)
    mu = hidden_state_mu(steps, 0.8, 0.3, 0.02, smoothness=curvature, strong_convexity=curvature)
    assert mu == pytest.approx(truth, rel=1e-12)
    composition = math.sqrt(steps) * 0.02 / 0.3
    assert mu <= composition * (1 + 1e-12)


def test_hidden_state_from_two_corners_of_the_domain():
    """F(j; D) is the exact cost of j steps that begin a diameter apart; the bound is the best j, by enumeration."""
    curvature, step, noise, drift, diameter, steps = 0.02, 0.8, 0.3, 0.05, 0.6, 400
    costs = [run_quadratic(j, curvature, step, noise, drift, diameter) for j in range(1, steps + 1)]
    together = run_quadratic(steps, curvature, step, noise, drift, 0.0)
    mu = hidden_state_mu(steps, step, noise, drift, 1.0, curvature, diameter)
    assert mu == pytest.approx(min(*costs, together), rel=1e-9)
    assert min(costs) < together  # the domain matters in this example
    flat = hidden_state_mu(steps, step, noise, drift, 1.0, 0.0, diameter)
    costs = [run_quadratic(j, 0.0, step, noise, drift, diameter) for j in range(1, steps + 1)]
    assert flat == pytest.approx(min(costs), rel=1e-9)
    # the paper's closed form is an upper bound: (1/σ)√(3sD/η + s²⌈D/(ηs)⌉)
    closed = math.sqrt(3 * drift * diameter / step + drift**2 * math.ceil(diameter / (step * drift))) / noise
    assert flat <= closed


def test_hidden_state_many_steps():
    few = hidden_state_mu(10**6, 0.5, 0.05, 0.002, 1.0, 1e-7, 50.0)
    many = hidden_state_mu(10**7, 0.5, 0.05, 0.002, 1.0, 1e-7, 50.0)
    forever = hidden_state_mu(math.inf, 0.5, 0.05, 0.002, 1.0, 1e-7, 50.0)
    assert forever <= many * (1 + 1e-12) and many <= few * (1 + 1e-12)
    assert hidden_state_mu(math.inf, 0.5, 0.05, 0.002, 1.0) == math.inf
    assert hidden_state_mu(5, 1.0, 0.5, 0.1, 1.0, 1.0, 3.0) == pytest.approx(0.2)  # c = 0: one step is all that is left
    assert hidden_state_mu(5, 0.5, 0.5, 0.0, 1.0, 0.0, 3.0) == 0.0
    assert hidden_state_mu(5, 2.0, 0.5, 0.1, 1.0) == pytest.approx(math.sqrt(5) * 0.2)  # η = 2/M contracts nothing


def test_hidden_state_conditions():
    good = dict(steps=10, step_size=0.5, noise=0.1, sensitivity=0.01, smoothness=1.0)
    with pytest.raises(ValueError, match=r"step_size <= 2/smoothness"):
        hidden_state_mu(**good | {"step_size": 2.1})
    with pytest.raises(ValueError, match="strong_convexity <= smoothness"):
        hidden_state_mu(**good, strong_convexity=1.5)
    for name, bad in [("steps", 0), ("steps", 1.5), ("steps", math.nan), ("noise", 0.0), ("sensitivity", -1.0),
                      ("smoothness", math.inf), ("step_size", 0.0)]:  # fmt: skip
        with pytest.raises(ValueError, match=rf"Expected .*{name}"):
            hidden_state_mu(**good | {name: bad})
    with pytest.raises(ValueError, match="diameter"):
        hidden_state_mu(**good, diameter=-1.0)


# ---------------------------------------------------------------- selection


def test_printed_selection():
    table = VECTORS["C9"]
    base = GDP(table["mu"], ONE)
    delta = table["delta"]
    assert agrees(base.epsilon(delta), table["single"])
    binomial, poisson = table["negative_binomial"], table["poisson"]
    laws = [
        (TruncatedNegativeBinomial(binomial["shape"], binomial["stop"]), binomial["epsilon"]),
        (PoissonRuns(poisson["mean"]), poisson["epsilon"]),
    ]
    assert laws[0][0].expected == pytest.approx(binomial["expected"])
    for law, printed in laws:
        assert agrees(selection_epsilon(base, law, delta), printed)
    # written out once more, on a fine grid of orders and without the shipped search
    orders = 1 + np.geomspace(1e-2, 1e3, 20_001)
    stop, runs = binomial["stop"], poisson["mean"]
    renyi = orders * table["mu"] ** 2 / 2
    hat = np.min(2 * (1 - 1 / orders) * renyi + 2 * math.log(1 / stop) / orders)
    by_binomial = renyi + hat + math.log(laws[0][0].expected) / (orders - 1)
    tails = np.array([gaussian_delta(math.log(1 + 1 / (a - 1)), table["mu"]) for a in orders])
    by_poisson = renyi + runs * tails + math.log(runs) / (orders - 1)
    for (_, printed), curve in zip(laws, (by_binomial, by_poisson), strict=True):
        assert agrees(min(rdp_epsilon(float(a), float(r), delta) for a, r in zip(orders, curve, strict=True)), printed)


def test_expected_number_of_runs():
    assert TruncatedNegativeBinomial(0.0, 0.1).expected == pytest.approx(9 / math.log(10))
    assert TruncatedNegativeBinomial(1e-7, 0.1).expected == pytest.approx(9 / math.log(10), rel=1e-5)
    assert TruncatedNegativeBinomial(1.0 + 1e-9, 0.1).expected == pytest.approx(10.0)
    for shape in (-0.5, 0.5, 2.0):
        # P(K = k) ∝ (1−γ)^k ∏_{l<k} (l+η)/(l+1), summed
        stop, weight, total, mean = 0.2, 1.0, 0.0, 0.0
        for k in range(1, 400):
            weight *= (1 - stop) * ((k - 1 + shape) / k if k > 1 else abs(shape))
            total, mean = total + weight, mean + k * weight
        assert TruncatedNegativeBinomial(shape, stop).expected == pytest.approx(mean / total, rel=1e-9)


def exact_selection_loss(epsilon: float, stop: float) -> float:
    """max log ratio of publishing the best of a geometric number of randomised responses (score = the answer)."""
    p = math.exp(epsilon) / (1 + math.exp(epsilon))

    def best_is_high(chance: float) -> float:  # 1 − E[(1−chance)^K], K geometric with parameter stop
        low = 1 - chance
        return 1 - stop * low / (1 - (1 - stop) * low)

    high, other = best_is_high(p), best_is_high(1 - p)
    return max(abs(math.log(high / other)), abs(math.log((1 - high) / (1 - other))))


def test_pure_selection():
    assert selection_epsilon(PureDP(0.1, ONE), TruncatedNegativeBinomial(1.0, 0.1), 0.0) == pytest.approx(0.3)
    assert selection_epsilon(PureDP(0.1, ONE), TruncatedNegativeBinomial(0.0, 0.1), 0.0) == pytest.approx(0.2)
    assert selection_epsilon(PureDP(0.1, ONE), PoissonRuns(10.0), 0.0) == math.inf
    assert selection_epsilon(GDP(0.1, ONE), TruncatedNegativeBinomial(1.0, 0.1), 0.0) == math.inf
    assert selection_epsilon(ApproxDP(0.1, 1e-9, ONE), PoissonRuns(10.0), 1e-6) == math.inf
    # 3ε is what it takes: the worst case approaches it as runs become many, and never passes it
    assert 0.15 < exact_selection_loss(0.1, 1e-3) <= 0.3


def test_selection_costs_more_than_one_run():
    for mu in (0.05, 0.5, 2.0):
        base = GDP(mu, ONE)
        for law in (TruncatedNegativeBinomial(0.0, 0.05), PoissonRuns(3.0)):
            assert selection_epsilon(base, law, 1e-6) > base.epsilon(1e-6)


@pytest.mark.parametrize(
    "build",
    [
        lambda: TruncatedNegativeBinomial(-1.0, 0.1),
        lambda: TruncatedNegativeBinomial(math.nan, 0.1),
        lambda: TruncatedNegativeBinomial(1.0, 1.0),
        lambda: TruncatedNegativeBinomial(1.0, 0.0),
        lambda: PoissonRuns(0.0),
    ],
)
def test_bad_laws_are_refused(build):
    with pytest.raises(ValueError, match=r"Expected .* found"):
        build()


# ---------------------------------------------------------------- as printed


@pytest.mark.parametrize(("steps", "epsilon", "replaced", "zeroed"), VECTORS["E14"]["vectors"])
def test_slides_calibration_as_printed(steps, epsilon, replaced, zeroed):
    delta = VECTORS["E14"]["delta"]
    printed = slides_sigma(epsilon, delta, steps, lipschitz=2.5, accept_known_error=True)
    assert printed.sigma == pytest.approx(2.5 * math.sqrt(2 * steps * math.log(1.25 * steps / delta)) / epsilon)
    assert agrees(printed.true_epsilon[ONE], replaced)
    assert agrees(printed.true_epsilon[ZERO], zeroed)
    assert agrees(printed.true_epsilon["add-remove"], zeroed)
    repaired = math.sqrt(steps) * 2 * 2.5 / printed.correct_sigma[ONE]
    assert gaussian_epsilon(delta, repaired) == pytest.approx(epsilon, rel=1e-9)
    assert printed.true_delta[ONE] > delta > printed.true_delta[ZERO]


@pytest.mark.parametrize(("epsilon", "delta", "true"), VECTORS["E24"]["replace_one"])
def test_claim_calibration_as_printed(epsilon, delta, true):
    printed = claim_sigma(epsilon, delta, 64, rows=500, lipschitz=3.0, accept_known_error=True)
    assert printed.sigma == pytest.approx(2 * 3.0 * math.sqrt(64 * math.log(1 / delta)) / (500 * epsilon))
    assert printed.true_mu[ONE] == pytest.approx(epsilon / math.sqrt(math.log(1 / delta)))
    assert agrees(printed.true_epsilon[ONE], true)


def test_claim_calibration_details():
    table = VECTORS["E24"]
    epsilon, delta, true = table["true_delta"]
    printed = claim_sigma(epsilon, delta, 10, accept_known_error=True)
    assert agrees(printed.true_delta[ONE], true)
    assert agrees(printed.true_epsilon["add-remove"], table["add_remove"][2])
    # ε²/(8 ln 1/δ) + ε/√2 ≤ ε: the factor is 8(1 − 1/√2), sufficient for every δ and sharp as δ → 0
    factor = 8 * (1 - math.sqrt(0.5))
    assert agrees(factor, table["valid_until"])
    for smaller in (1e-2, 1e-5, 1e-20, 1e-300):
        inside = claim_sigma(factor * math.log(1 / smaller), smaller, 1, accept_known_error=True)
        assert inside.true_epsilon[ZERO] <= inside.epsilon
    outside = claim_sigma(1.05 * factor * math.log(1e300), 1e-300, 1, accept_known_error=True)
    assert outside.true_epsilon[ZERO] > outside.epsilon


def test_printed_calibrations_are_refused_by_default():
    with pytest.raises(ValueError, match="accept_known_error=True for slides_sigma"):
        slides_sigma(1.0, 1e-5, 10)
    with pytest.raises(ValueError, match="accept_known_error=True for claim_sigma"):
        claim_sigma(1.0, 1e-5, 10)
    with pytest.raises(ValueError, match=r"delta in \(0, 1\)"):
        claim_sigma(1.0, 0.0, 10, accept_known_error=True)
