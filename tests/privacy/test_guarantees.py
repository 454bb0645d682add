"""Relations, guarantees, their order and their conversions."""

import itertools
import json
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from dperm.privacy import (
    GDP,
    RELATIONS,
    ZCDP,
    ApproxDP,
    Composed,
    PrivacyLoss,
    ProductDP,
    PureDP,
    gaussian_delta,
    gaussian_epsilon,
    guarantee_from_spec,
    kappa,
)
from dperm.privacy.conversions import rdp_epsilon, rdp_log_delta, simple_zcdp_epsilon, zcdp_delta, zcdp_epsilon
from dperm.privacy.guarantees import Guarantee
from dperm.privacy.loss_distributions import gaussian
from vectors import VECTORS, agrees

ONE, ZERO, ADD = "replace-one", "zero-out", "add-remove"
EXAMPLES = [
    PureDP(0.7, ZERO),
    GDP(0.8, ZERO),
    ZCDP(0.3, ZERO),
    ApproxDP(0.9, 1e-6, ZERO),
    ProductDP(0.5, [(0.2, 3), (0.7, 1)], 1e-7, ZERO),
    PrivacyLoss(gaussian(0.8, 1e-3), ZERO, 1e-3),
    Composed([ZCDP(0.3, ZERO), PureDP(2.0, ZERO)]),
]
names = [type(example).__name__ for example in EXAMPLES]


def test_kappa():
    assert RELATIONS == (ONE, ZERO, ADD)
    assert [kappa(relation) for relation in RELATIONS] == [2, 1, 1]
    with pytest.raises(ValueError, match="Expected relation in 'replace-one'"):
        kappa("replace")
    with pytest.raises(ValueError, match="Expected relation in"):
        GDP(1.0, "swap")


@pytest.mark.parametrize("guarantee", EXAMPLES, ids=names)
def test_curve_is_consistent(guarantee):
    """ε(δ(ε)) ≤ ε (nothing is lost going round), δ falls with ε, and both answers are proven pairs."""
    grid = np.linspace(0.0, 3.0, 13)
    deltas = [guarantee.delta(epsilon) for epsilon in grid]
    assert all(0 <= delta <= 1 for delta in deltas)
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in itertools.pairwise(deltas))
    for epsilon, delta in zip(grid, deltas):
        assert guarantee.epsilon(min(1.0, delta * (1 + 1e-6) + 1e-15)) <= epsilon + 1e-6
    for delta in (1e-3, 1e-5):
        assert guarantee.delta(guarantee.epsilon(delta)) <= delta * (1 + 1e-7)
    assert guarantee.epsilon(1.0) == 0.0


@pytest.mark.parametrize("guarantee", EXAMPLES, ids=names)
def test_order_is_reflexive_and_respects_relations(guarantee):
    assert guarantee.implies(guarantee)
    assert guarantee.under(ZERO) is guarantee
    assert guarantee.under(ADD) is None
    assert not guarantee.implies(ApproxDP(50.0, 0.5, ADD))
    proven = ApproxDP(guarantee.epsilon(1e-4), 1e-4 * (1 + 1e-6), ZERO)
    assert guarantee.implies(proven)
    assert not guarantee.implies(ApproxDP(guarantee.epsilon(1e-4) - 1e-2, 1e-4, ZERO))


def test_replace_one_gives_nothing_for_the_other_relations():
    for guarantee in (PureDP(1.0, ONE), GDP(1.0, ONE), ZCDP(1.0, ONE), ApproxDP(1.0, 1e-6, ONE)):
        assert guarantee.under(ZERO) is None
        assert not guarantee.implies(ApproxDP(50.0, 0.5, ADD))


@pytest.mark.parametrize("relation", [ZERO, ADD])
def test_two_steps_to_replace_one(relation):
    assert PureDP(1.0, relation).under(ONE) == PureDP(2.0, ONE)
    assert GDP(0.5, relation).under(ONE) == GDP(1.0, ONE)
    assert ZCDP(0.1, relation).under(ONE) == ZCDP(0.4, ONE)
    two = ApproxDP(1.0, 1e-6, relation).under(ONE)
    assert two.epsilon(1.0 * (1 + math.e) * 1e-6) == pytest.approx(2.0, rel=1e-12)
    assert two.delta(2.0) == pytest.approx((1 + math.e) * 1e-6, rel=1e-12)
    assert ApproxDP(800.0, 0.5, relation).under(ONE).delta(0.0) == 1.0
    # two Gaussian steps are really that far apart: anything smaller would be false
    for epsilon in (0.1, 0.5, 2.0):
        truth = gaussian_delta(2 * epsilon, 2 * 0.5)
        assert ApproxDP(epsilon, gaussian_delta(epsilon, 0.5), relation).under(ONE).delta(2 * epsilon) >= truth
    assert not PureDP(1.0, relation).implies(PureDP(1.999, ONE))
    assert not GDP(0.5, relation).implies(GDP(0.999, ONE))


def test_composed_under_replace_one():
    both = Composed([PureDP(1.0, ZERO), PrivacyLoss(gaussian(0.5, 1e-3), ZERO, 1e-3)])
    assert both.under(ONE).epsilon(0.0) == 2.0
    only = Composed([PrivacyLoss(gaussian(0.5, 1e-3), ZERO, 1e-3)])
    assert only.under(ONE) is None
    assert not only.implies(ApproxDP(10.0, 0.1, ONE))
    assert ProductDP(0.5, [(0.1, 1)], 0.0, ZERO).under(ONE) is None


def test_gaussian_order():
    assert GDP(1.0, ONE).implies(ApproxDP(gaussian_epsilon(1e-5, 1.0), 1e-5, ONE))
    assert not GDP(1.0, ONE).implies(ApproxDP(4.377178, 1e-5, ONE))
    assert GDP(1.0, ONE).implies(GDP(1.0, ONE)) and not GDP(1.0, ONE).implies(GDP(0.999, ONE))
    assert GDP(1.0, ONE).implies(ZCDP(0.5, ONE)) and not GDP(1.0, ONE).implies(ZCDP(0.4999, ONE))
    assert not GDP(1.0, ONE).implies(PureDP(100.0, ONE))
    assert GDP(0.0, ONE).implies(PureDP(0.0, ONE))
    assert not ZCDP(0.5, ONE).implies(GDP(1.0, ONE))
    assert not ApproxDP(0.1, 1e-9, ONE).implies(ZCDP(10.0, ONE))
    assert not ApproxDP(0.1, 1e-9, ONE).implies(GDP(10.0, ONE))
    assert ApproxDP(0.1, 0.0, ONE).implies(PureDP(0.1, ONE))


def test_composed_as_a_target():
    target = Composed([GDP(1.0, ONE), ZCDP(0.4, ONE)])
    assert GDP(0.8, ONE).implies(target)  # 0.8² / 2 = 0.32
    assert not GDP(0.95, ONE).implies(target)
    assert not GDP(0.8, ONE).implies(PrivacyLoss(gaussian(1.0, 1e-3), ONE, 1e-3))  # not provable, so not claimed
    assert target.gdp() == 1.0 and target.zcdp() == 0.4
    assert target.rdp(2.0) == 0.8
    with pytest.raises(ValueError, match="Expected routes for one relation"):
        Composed([GDP(1.0, ONE), GDP(1.0, ZERO)])


def test_pure_to_zcdp_is_randomised_response():
    epsilon, printed = VECTORS["C1_2"]["pure_to_zcdp"]
    assert agrees(PureDP(epsilon, ONE).zcdp(), printed)
    assert PureDP(1.0, ONE).implies(ZCDP(math.tanh(0.5), ONE))
    assert not PureDP(1.0, ONE).implies(ZCDP(math.tanh(0.5) * (1 - 1e-9), ONE))
    for value in (0.01, 0.5, 1.0, 3.0, 20.0):
        guarantee = PureDP(value, ONE)
        for alpha in (1.001, 1.5, 2.0, 10.0, 100.0):
            with mpmath.workdps(40):
                p = 1 / (1 + mpmath.exp(-value))
                moment = p * mpmath.exp((alpha - 1) * value) + (1 - p) * mpmath.exp((1 - alpha) * value)
                direct = float(mpmath.log(moment) / (alpha - 1))
            assert guarantee.rdp(alpha) == pytest.approx(direct, rel=1e-9)
            assert guarantee.rdp(alpha) <= alpha * guarantee.zcdp() * (1 + 1e-12)
        # tight as α → 1, where the divergence is the Kullback–Leibler one
        assert guarantee.rdp(1 + 1e-6) == pytest.approx(guarantee.zcdp(), rel=1e-4)


@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.5, 1.0, 4.0, 30.0])
def test_pure_to_gaussian(epsilon):
    pure = PureDP(epsilon, ONE)
    mu = pure.gdp()
    assert ndtr(-mu / 2) == pytest.approx(1 / (1 + math.exp(epsilon)), rel=1e-9)
    for value in np.linspace(0.0, epsilon, 20):
        assert gaussian_delta(value, mu) >= pure.delta(value) * (1 - 1e-12)
    if epsilon > 0:
        assert gaussian_delta(0.0, mu * (1 - 1e-6)) < pure.delta(0.0)  # smallest μ with that property
        assert pure.implies(GDP(mu, ONE)) and not pure.implies(GDP(mu * (1 - 1e-9), ONE))


def test_pure_curve_is_randomised_response():
    guarantee = PureDP(1.0, ONE)
    p = math.e / (1 + math.e)
    assert guarantee.delta(0.0) == pytest.approx(2 * p - 1, rel=1e-12)  # total variation
    assert guarantee.delta(0.5) == pytest.approx(p - math.exp(0.5) * (1 - p), rel=1e-12)
    assert guarantee.delta(1.0) == 0.0 and guarantee.epsilon(0.0) == 1.0
    assert guarantee.epsilon(guarantee.delta(0.5)) == pytest.approx(0.5, rel=1e-12)
    assert guarantee.epsilon(0.9) == 0.0
    assert PureDP(1000.0, ONE).delta(0.0) == 1.0


def test_approximate_curve():
    guarantee = ApproxDP(1.0, 1e-3, ONE)
    assert guarantee.delta(2.0) == 1e-3
    assert guarantee.delta(0.5) == pytest.approx(1e-3 + 0.999 * PureDP(1.0, ONE).delta(0.5), rel=1e-12)
    assert guarantee.epsilon(1e-4) == math.inf
    assert guarantee.epsilon(guarantee.delta(0.5)) == pytest.approx(0.5, rel=1e-9)
    assert ApproxDP(1.0, 1.0, ONE).epsilon(1.0) == 0.0
    assert guarantee.rdp(2.0) == math.inf
    assert guarantee.gdp() is None and guarantee.zcdp() is None


def test_printed_zcdp_conversions():
    table = VECTORS["C1_2"]
    rho, delta = table["rho"], table["delta"]
    assert agrees(simple_zcdp_epsilon(rho, delta), table["simple"])
    assert agrees(zcdp_epsilon(rho, delta), table["optimised"])
    assert agrees(gaussian_epsilon(delta, math.sqrt(2 * rho)), table["exact"])
    alpha, value, at, printed = table["rdp"]
    assert agrees(rdp_epsilon(alpha, value, at), printed)


def test_advanced_composition_as_printed():
    table = VECTORS["E28"]
    for rho, printed, halved, exact in table["vectors"]:
        k, log = table["count"], math.log(1 / table["delta"])
        assert agrees(k * rho + math.sqrt(2 * k * rho * log), printed)
        assert agrees(simple_zcdp_epsilon(k * rho / 2, table["delta"]), halved)
        assert agrees(gaussian_epsilon(table["delta"], math.sqrt(k * rho)), exact)


def test_zcdp_edges():
    assert zcdp_epsilon(0.0, 0.0) == 0.0 and zcdp_delta(0.0, 0.0) == 0.0
    assert zcdp_epsilon(1.0, 0.0) == math.inf and zcdp_epsilon(1.0, 1.0) == 0.0
    assert zcdp_epsilon(math.inf, 0.1) == math.inf and zcdp_delta(math.inf, 1.0) == 1.0
    assert zcdp_delta(1.0, math.inf) == 0.0
    assert rdp_epsilon(2.0, 1.0, 0.0) == math.inf
    for call in (lambda: rdp_epsilon(1.0, 1.0, 0.1), lambda: rdp_log_delta(0.5, 1.0, 1.0)):
        with pytest.raises(ValueError, match="Expected alpha > 1"):
            call()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.floats(1e-3, 4.0), st.floats(-30.0, -1.0))
def test_zcdp_never_beats_the_exact_gaussian(mu, power):
    """A Gaussian release is μ²/2-zCDP, so a conversion below its exact ε would be false."""
    delta = 10.0**power
    assert zcdp_epsilon(mu**2 / 2, delta) >= gaussian_epsilon(delta, mu) * (1 - 1e-9)
    assert zcdp_epsilon(mu**2 / 2, delta) <= simple_zcdp_epsilon(mu**2 / 2, delta) * (1 + 1e-9)


def test_specs_round_trip():
    for guarantee in EXAMPLES:
        assert json.loads(json.dumps(guarantee.spec()))["relation"] == ZERO
        assert repr(guarantee).startswith(type(guarantee).__name__)
    for guarantee in EXAMPLES[:4]:
        assert guarantee_from_spec(json.loads(json.dumps(guarantee.spec()))) == guarantee
    with pytest.raises(ValueError, match="Expected a guarantee kind"):
        guarantee_from_spec({"kind": "privacy-loss"})
    assert PureDP(1.0, ONE) != PureDP(1.0, ZERO) and PureDP(1.0, ONE) != GDP(1.0, ONE)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_bad_parameters_are_refused(bad):
    for build in (PureDP, GDP, ZCDP):
        with pytest.raises(ValueError, match="Expected a finite"):
            build(bad, ONE)
    with pytest.raises(ValueError, match="Expected a finite epsilon"):
        ApproxDP(bad, 0.1, ONE)
    with pytest.raises(ValueError, match=r"Expected delta in \[0, 1\]"):
        ApproxDP(1.0, bad, ONE)


def test_base_class_claims_nothing():
    class Nothing(Guarantee):
        def __init__(self):
            self._set(relation=ONE)

        def spec(self):
            return {}

    nothing = Nothing()
    assert nothing.gdp() is None and nothing.zcdp() is None and nothing.rdp(2.0) == math.inf
    assert nothing.implies(nothing)
    assert not PureDP(0.0, ONE).implies(nothing)
    for call in (lambda: nothing.delta(1.0), lambda: nothing.epsilon(0.1), lambda: Guarantee.spec(nothing)):
        with pytest.raises(NotImplementedError):
            call()
