"""Every loss in LOSSES: declared bounds hold and are attained, derivatives agree, convexity, stability, specs."""

from __future__ import annotations

import json
import math
import traceback
import warnings
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from dperm.problem import (
    CUMULANTS,
    LOSSES,
    CumulantLoss,
    CustomLoss,
    HingeLoss,
    HuberLoss,
    Interval,
    LogCoshLoss,
    LogisticLoss,
    Loss,
    LossBounds,
    MultinomialLoss,
    PoissonLoss,
    QuantileLoss,
    ScaledLoss,
    SoftplusHingeLoss,
    SquaredLoss,
    ZeroOneLoss,
    check_convexity,
    likelihood_loss,
    loss_from_spec,
)
from problem_cases import of_loss

POINTS = 10_000
NAMES = ("range", "slope", "curvature")


def instances() -> list[Loss]:
    """Every listed loss (so a new one is picked up), and the wrapper that the likelihood builder uses."""
    return [item for kind in [*LOSSES.values(), ScaledLoss] for item in of_loss(kind)]


def labelled(loss: Loss) -> str:
    return json.dumps(loss.spec())


ALL = pytest.mark.parametrize("loss", instances(), ids=labelled)
CONVEX = pytest.mark.parametrize("loss", [item for item in instances() if item.convex], ids=labelled)


def labels_of(loss: Loss) -> Interval:
    if isinstance(loss, MultinomialLoss):
        return Interval(0, loss.classes - 1)
    if loss.classification:
        return Interval(-1, 1)
    positive = isinstance(loss, (PoissonLoss, CumulantLoss))
    return Interval(0.0, 1.0) if isinstance(loss, CumulantLoss) else Interval(0.0 if positive else -1.0, 2.5)


def adversarial(loss: Loss, z_max: float, y: Interval, count: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """Margins at the ends, around every joint of every loss, at all scales and spread out; labels at the ends too."""
    rng = np.random.default_rng(7)
    if isinstance(loss, MultinomialLoss):
        k = loss.classes
        z = rng.normal(size=(count, k))
        z *= z_max * rng.choice([0.0, 0.3, 1.0], size=(count, 1)) / np.linalg.norm(z, axis=1, keepdims=True)
        pairs = rng.integers(k, size=(count // 2, 2))
        rows = np.arange(count // 2)
        z[rows] = 0
        z[rows, pairs[:, 0]] -= z_max / math.sqrt(2)
        z[rows, pairs[:, 1]] += z_max / math.sqrt(2)
        z[rows[pairs[:, 0] == pairs[:, 1]]] = 0
        # Two equal leaders and everybody else behind: where the curvature is largest.
        lead = np.full(k, -1.0 / (k - 2) if k > 2 else 0.0)
        lead[:2] = 0.5 if k > 2 else 0.0
        z[count // 2 : count // 2 + 100] = z_max * lead / (np.linalg.norm(lead) or 1.0)
        return z, np.concatenate([pairs[:, 0], rng.integers(k, size=count - count // 2)])
    y_values = (
        rng.choice([-1.0, 1.0], size=count)
        if loss.classification
        else np.where(rng.random(count) < 0.5, rng.choice([y.low, y.high], count), rng.uniform(y.low, y.high, count))
    )
    joints = np.array([0, 0.5, 1, 1.5, 2, 2.5, -0.25, -0.5, -1, -2, -3, z_max, -z_max])
    kinds = rng.integers(4, size=count)
    z = np.select(
        [kinds == 0, kinds == 1, kinds == 2],
        [
            rng.choice(joints, count) * (1 + rng.choice([0, 1e-12, -1e-12], count)),
            rng.choice([-1, 1], count) * z_max * 10 ** rng.uniform(-6, 0, count),
            y_values + rng.choice([0, 1e-9, -1e-9, 1.0, -1.0], count),
        ],
        rng.uniform(-z_max, z_max, count),
    )
    return np.clip(z, -z_max, z_max), y_values


def observed(loss: Loss, z: np.ndarray, y: np.ndarray) -> LossBounds:
    value, slope, curvature = loss.value(z, y), loss.slope(z, y), loss.curvature(z, y)
    if loss.margins > 1:
        slope = np.linalg.norm(slope, axis=1)
        curvature = np.linalg.eigvalsh(curvature)[:, -1]
    spread = max(value.max(), 0.0) - min(value.min(), 0.0)
    return LossBounds(spread, np.abs(slope).max(), np.abs(curvature).max())


def broken(seen: LossBounds, declared: LossBounds) -> set[str]:
    return {name for name in NAMES if getattr(seen, name) > getattr(declared, name) * (1 + 1e-12) + 1e-15}


@ALL
@pytest.mark.parametrize("z_max", [0.0, 0.3, 1.0, 4.0, 40.0])
def test_declared_bounds_hold(loss, z_max):
    y = labels_of(loss)
    z, labels = adversarial(loss, z_max, y)
    assert len(z) == POINTS
    assert broken(observed(loss, z, labels), loss.bounds(z_max, y)) == set()


@ALL
@pytest.mark.parametrize("z_max", [4.0, 40.0])
def test_bounds_are_attained_so_that_a_halved_constant_fails(loss, z_max):
    y = labels_of(loss)
    declared = loss.bounds(z_max, y)
    seen = observed(loss, *adversarial(loss, z_max, y))
    for name in NAMES:
        bound = getattr(declared, name)
        if math.isinf(bound):
            assert name == "curvature" or isinstance(loss, ZeroOneLoss)
            assert not loss.smooth
            continue
        assert broken(seen, replace(declared, **{name: bound / 2})) == {name}
        # The only bounds that are not tight at a finite margin: softmax over more than two classes.
        if not (loss.margins > 2):
            assert getattr(seen, name) >= 0.99 * bound


def test_multinomial_bounds_are_tight_for_large_margins():
    loss = MultinomialLoss(4)
    declared = loss.bounds(40.0, Interval(0, 3))
    seen = observed(loss, *adversarial(loss, 40.0, Interval(0, 3)))
    assert seen.slope >= 0.99 * declared.slope
    assert seen.curvature >= 0.99 * declared.curvature
    assert declared.range - math.log(3) <= seen.range


@ALL
def test_bounds_without_a_margin_bound(loss):
    """inf exactly where nothing holds for all margins: slopes seen at |z| = 1e6 pass any finite wrong bound."""
    y = labels_of(loss)
    declared = loss.bounds(math.inf, y)
    seen = observed(loss, *adversarial(loss, 1e6, y))
    assert broken(seen, declared) == set()
    if isinstance(loss, ZeroOneLoss):
        assert declared.range == 1
        return
    assert math.isinf(declared.range)
    assert math.isfinite(declared.curvature) == loss.smooth
    if math.isinf(declared.slope):
        assert seen.slope > 1e5
    else:
        assert seen.slope >= 0.99 * declared.slope


@pytest.mark.parametrize("loss", [SquaredLoss(), HuberLoss(), LogCoshLoss(), QuantileLoss(0.8), CumulantLoss("poisson")])
def test_labels_that_are_not_bounded(loss):
    declared = loss.bounds(1.0, Interval(-math.inf, math.inf))
    assert math.isinf(declared.range)
    assert math.isinf(declared.slope) == isinstance(loss, (SquaredLoss, CumulantLoss))


@pytest.mark.parametrize("loss", [LogCoshLoss(20.0), HuberLoss(20.0)])
def test_wide_robust_losses_are_squared_near_zero(loss):
    """With the residual far below the threshold the bounds are those of the squared loss, nearly."""
    declared, squared = (item.bounds(0.5, Interval(-1, 1)) for item in (loss, SquaredLoss()))
    seen = observed(loss, *adversarial(loss, 0.5, Interval(-1, 1)))
    for name in NAMES:
        assert 0.99 * getattr(squared, name) <= getattr(declared, name) <= getattr(squared, name)
        assert 0.99 * getattr(declared, name) <= getattr(seen, name) <= getattr(declared, name) * (1 + 1e-12)


def test_a_newly_listed_loss_is_picked_up_and_a_wrong_bound_is_caught(monkeypatch):
    @dataclass(frozen=True)
    class Wrong(LogisticLoss):
        name: ClassVar[str] = "wrong"

        def bounds(self, z_max, y):
            return replace(super().bounds(z_max, y), curvature=0.125)

    before = len(instances())
    monkeypatch.setitem(LOSSES, "wrong", Wrong)
    found = [item for item in instances() if item.name == "wrong"]
    assert len(instances()) == before + 1
    assert loss_from_spec(found[0].spec()) == found[0]
    with pytest.raises(AssertionError):
        test_declared_bounds_hold(found[0], 4.0)


def test_the_list_is_complete():
    expected = "squared logistic multinomial hinge softplus-hinge huberized-hinge absolute quantile huber log-cosh"
    assert set(LOSSES) >= {*expected.split(), "poisson", "glm", "zero-one"}
    assert {type(item) for item in instances()} == {*LOSSES.values(), ScaledLoss}
    assert {item.cumulant for item in of_loss(CumulantLoss)} == set(CUMULANTS)


@CONVEX
def test_slope_is_the_derivative_of_the_value(loss):
    """A convex φ rises over [z-h, z+h] by between φ'(z-h)·2h and φ'(z+h)·2h, kinks included."""
    h = 1e-4
    z, y = adversarial(loss, 4.0, labels_of(loss))
    if loss.margins > 1:
        for direction in np.eye(loss.margins):
            rise = (loss.value(z + h * direction, y) - loss.value(z - h * direction, y)) / (2 * h)
            np.testing.assert_allclose(rise, loss.slope(z, y) @ direction, atol=1e-7)
            bend = (loss.slope(z + h * direction, y) - loss.slope(z - h * direction, y)) / (2 * h)
            np.testing.assert_allclose(bend, loss.curvature(z, y) @ direction, atol=1e-7)
        return
    rise = (loss.value(z + h, y) - loss.value(z - h, y)) / (2 * h)
    before, here, after = (loss.slope(z + s, y) for s in (-h, 0.0, h))
    noise = 1e-9
    assert np.all(before - noise <= rise) and np.all(rise <= after + noise)
    assert np.all(before - noise <= here) and np.all(here <= after + noise)
    smooth_here = after - before < 0.1
    assert smooth_here.mean() > 0.5
    around = np.stack([loss.curvature(z + s, y) for s in (-h, 0.0, h)])
    bend = (after - before) / (2 * h)
    slack = 1e-6
    ok = (around.min(axis=0) - slack <= bend) & (bend <= around.max(axis=0) + slack)
    assert np.all(ok[smooth_here])
    assert np.all(loss.curvature(z, y) >= 0)


@pytest.mark.parametrize("loss", [item for item in instances() if item.smooth], ids=labelled)
def test_smooth_slopes_have_no_jump(loss):
    """Across 1e-9 the slope moves by at most curvature · 1e-9: extended cumulants are once differentiable."""
    z, y = adversarial(loss, 4.0, labels_of(loss))
    step = 1e-9 * (np.eye(loss.margins)[0] if loss.margins > 1 else 1.0)
    jump = loss.slope(z + step, y) - loss.slope(z, y)
    jump = np.linalg.norm(jump, axis=1) if loss.margins > 1 else np.abs(jump)
    assert jump.max() <= loss.bounds(5.0, labels_of(loss)).curvature * 1e-9 * 1.01 + 1e-14


@CONVEX
def test_convexity(loss):
    if loss.margins > 1:
        assert check_convexity(lambda z: loss.value(z[None, :], 0)[0], dimension=loss.margins)
    else:
        y = labels_of(loss)
        assert check_convexity(loss, labels=(y.low, 0.5 * (y.low + y.high), y.high))


def test_clipping_inside_the_loss_is_not_convex_and_extending_is():
    loss = PoissonLoss(-1.0, 1.0)
    assert check_convexity(loss, labels=(0.0, 3.0))
    assert not check_convexity(lambda z: loss.value(np.clip(z, -1, 1), 3.0)[0])


@ALL
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_margins_are_stable_and_keep_their_dtype(loss, dtype):
    """Warnings are errors in this suite, so an overflow in a branch that is not taken fails too."""
    big = 1e15 if dtype == np.float32 else 1e100
    z = np.array([-big, -1e4, -90.0, 0.0, 90.0, 1e4, big], dtype=dtype)
    y = np.array([1, 1, 1, 1, 0 if not loss.classification else -1, 1, 1])
    if loss.margins > 1:
        z = np.stack([z, *[-z] * (loss.margins - 1)], axis=1)
        y = np.arange(7) % loss.margins
    for array in (loss.value(z, y), loss.slope(z, y), loss.curvature(z, y)):
        assert np.all(np.isfinite(array))
        assert array.dtype == dtype
        assert array.shape[0] == 7


@ALL
def test_spec_round_trip(loss):
    text = json.dumps(loss.spec(), allow_nan=False)
    assert loss_from_spec(json.loads(text)) == loss
    assert hash(loss) == hash(loss_from_spec(json.loads(text)))


@ALL
def test_torch_agrees_with_numpy(loss):
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    z, y = adversarial(loss, 4.0, labels_of(loss), count=100)
    for method in ("value", "slope", "curvature"):
        expected = getattr(loss, method)(z, y)
        found = getattr(loss, method)(torch.asarray(z), torch.asarray(y))
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)


def test_known_values():
    assert LogisticLoss().value(0.0, 1) == pytest.approx(math.log(2))
    assert LogisticLoss().slope(np.array([40.0]), np.array([1.0]))[0] == pytest.approx(-math.exp(-40), rel=1e-12)
    assert HingeLoss().value(np.array([2, -1]), np.array([1, 1])).tolist() == [0.0, 2.0]
    assert ZeroOneLoss().value(np.array([0.0, 1e-200, -3.0]), np.array([1.0, 1e-200, -1.0])).tolist() == [1, 0, 0]
    assert HuberLoss(2.0).value(np.array([5.0]), 0.0)[0] == 2 * 5 - 2
    # τ² log cosh(r/τ) -> r²/2 as τ grows: a naive formula loses every digit here.
    assert LogCoshLoss(1e6).value(np.array([1.0]), 0.0)[0] == pytest.approx(0.5, rel=1e-10)
    assert PoissonLoss(-1.0, 1.0).value(np.array([3.0]), 0.0)[0] == pytest.approx(math.e + 2 * math.e)
    assert MultinomialLoss(3).value(np.zeros((1, 3)), np.array([2]))[0] == pytest.approx(math.log(3))


def test_integer_margins_become_floats():
    assert SquaredLoss().value(np.array([3]), np.array([1])).dtype == np.float64


def test_multinomial_refuses_other_shapes():
    with pytest.raises(ValueError, match=r"shape \(n, 3\)"):
        MultinomialLoss(3).value(np.zeros(3), np.array([0]))


@pytest.mark.parametrize("loss", [LogisticLoss(), SoftplusHingeLoss(0.25), ScaledLoss(LogisticLoss(), 0.5)], ids=labelled)
def test_self_bounding_holds_with_one_sign(loss):
    z, y = adversarial(loss, 30.0, Interval(-1, 1))
    slope, curvature = loss.slope(z, y), loss.curvature(z, y)
    assert np.all(slope * y <= 0)
    bound = loss.self_bounding * np.abs(slope) * (1 - np.abs(slope))
    assert np.all(curvature <= bound * (1 + 1e-6) + 1e-9)
    half = 0.5 * bound
    assert np.any(curvature > half + 1e-9)


def test_self_bounding_is_claimed_by_no_other_loss():
    claimed = {item.name for item in instances() if item.self_bounding is not None}
    assert claimed == {"logistic", "softplus-hinge", "scaled"}
    assert ScaledLoss(LogisticLoss(), 2.0).self_bounding is None


def test_scaled_loss_keeps_the_flags_of_its_base():
    scaled = ScaledLoss(MultinomialLoss(3), 2.0)
    assert (scaled.margins, scaled.hessian_rank, scaled.classification) == (3, 2, True)
    assert not ScaledLoss(HingeLoss(), 2.0).smooth
    assert not ScaledLoss(ZeroOneLoss(), 2.0).convex


def minimiser(loss: Loss, y: np.ndarray) -> float:
    grid = np.linspace(-3, 12, 15001)
    return float(grid[np.argmin(loss.value(grid[:, None], y[None, :]).sum(axis=1))])


def test_maximum_likelihood_is_the_mean_the_median_and_the_quantile():
    y = np.array([0.0, 1.0, 2.0, 3.0, 10.0])
    for dispersion in (1.0, 4.0):
        assert minimiser(likelihood_loss("gaussian", dispersion), y) == pytest.approx(y.mean(), abs=1e-3)
        assert minimiser(likelihood_loss("laplace", dispersion), y) == pytest.approx(np.median(y), abs=1e-3)
    assert minimiser(likelihood_loss("asymmetric-laplace", level=0.7), y) == pytest.approx(3.0, abs=1e-3)
    rate = minimiser(likelihood_loss("poisson", low=-3, high=3), y)
    assert math.exp(rate) == pytest.approx(y.mean(), rel=1e-3)
    natural = minimiser(likelihood_loss("exponential", low=-2.9, high=-0.05), y)
    assert -1 / natural == pytest.approx(y.mean(), rel=1e-2)


def test_dispersion_is_the_likelihood():
    """Differences of -log density, from the densities themselves."""
    z, y = np.array([0.3, 2.0]), 1.0
    gaussian = likelihood_loss("gaussian", dispersion=4.0).value(z, y)
    assert gaussian[1] - gaussian[0] == pytest.approx((1.0**2 - 0.7**2) / (2 * 4.0))
    laplace = likelihood_loss("laplace", dispersion=4.0).value(z, y)
    assert laplace[1] - laplace[0] == pytest.approx((1.0 - 0.7) / 4.0)
    assert likelihood_loss("bernoulli") == LogisticLoss()
    assert likelihood_loss("categorical", classes=3) == MultinomialLoss(3)
    assert likelihood_loss("gamma", 2.0, low=-2, high=-1) == ScaledLoss(CumulantLoss("gamma", -2, -1), 0.5)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: likelihood_loss("cauchy"), "among"),
        (lambda: likelihood_loss("poisson"), "parameters"),
        (lambda: likelihood_loss("gaussian", 0.0), "dispersion > 0"),
        (lambda: QuantileLoss(1.0), "0 < level < 1"),
        (lambda: HuberLoss(-1.0), "threshold > 0"),
        (lambda: LogCoshLoss("wide"), "to be a number"),
        (lambda: SoftplusHingeLoss(math.nan), "NaN"),
        (lambda: MultinomialLoss(1), "classes >= 2"),
        (lambda: PoissonLoss(1.0, 0.0), "low <= high"),
        (lambda: PoissonLoss(0.0, math.inf), "finite range"),
        (lambda: PoissonLoss(0.0, 800.0), "fits a float"),
        (lambda: CumulantLoss("gamma", -1.0, 0.0), "inside"),
        (lambda: CumulantLoss("cauchy"), "among"),
        (lambda: LogisticLoss().bounds(-1.0, Interval(-1, 1)), "z_max >= 0"),
        (lambda: loss_from_spec({"name": "cubic"}), "among"),
        (lambda: loss_from_spec("logistic"), "spec with a name"),
        (lambda: loss_from_spec({"name": "huber", "width": 1.0}), "parameters of huber"),
        (lambda: Interval(1, 0), "low <= high"),
        (lambda: LossBounds(-1, 0, 0), "range >= 0"),
    ],
)
def test_bad_declarations_are_refused_in_words(build, message):
    with pytest.raises(ValueError, match=message):
        build()


# --- losses that the user supplies


def pseudo_huber(**changes) -> CustomLoss:
    settings = {
        "value_function": lambda z, y: np.sqrt(1 + (z - y) ** 2) - 1,
        "slope_function": lambda z, y: (z - y) / np.sqrt(1 + (z - y) ** 2),
        "curvature_function": lambda z, y: (1 + (z - y) ** 2) ** -1.5,
        "declared": LossBounds(math.inf, 1.0, 1.0),
    }
    return CustomLoss(**{**settings, **changes})


def test_a_custom_loss_reports_its_declared_bounds_inside_and_infinity_outside():
    loss = pseudo_huber(declared=LossBounds(10.0, 1.0, 1.0), z_max=5.0, y=Interval(-1, 1))
    assert loss.bounds(5.0, Interval(0, 1)) == loss.declared
    assert loss.bounds(5.1, Interval(0, 1)) == LossBounds(math.inf, math.inf, math.inf)
    assert loss.bounds(5.0, Interval(0, 1.1)).slope == math.inf
    z = np.array([0.5, 2.0])
    assert np.all(loss.value(z, 0.0) >= 0) and np.all(loss.slope(z, 0.0) > 0) and np.all(loss.curvature(z, 0.0) > 0)


def test_a_custom_loss_says_that_it_cannot_be_rebuilt():
    spec = pseudo_huber(label="pseudo-huber").spec()
    assert spec["reconstructible"] is False and spec["label"] == "pseudo-huber"
    json.dumps(spec, allow_nan=False)
    with pytest.raises(ValueError, match="rebuilt"):
        loss_from_spec(spec)


def test_a_custom_kink_is_accepted_when_it_is_declared():
    absolute = {
        "value_function": lambda z, y: np.abs(z - y),
        "slope_function": lambda z, y: np.sign(z - y),
        "curvature_function": lambda z, y: 0 * z,
    }
    assert not pseudo_huber(**absolute, declared=LossBounds(math.inf, 1.0, math.inf), smooth=False).smooth
    with pytest.raises(ValueError, match="changes no faster"):
        pseudo_huber(**absolute, declared=LossBounds(math.inf, 1.0, 1.0))


def test_a_custom_loss_need_not_be_convex():
    bump = pseudo_huber(
        value_function=lambda z, y: np.cos(z),
        slope_function=lambda z, y: -np.sin(z),
        curvature_function=lambda z, y: -np.cos(z),
        declared=LossBounds(2.0, 1.0, 1.0),
        z_max=10.0,
        convex=False,
        classification=True,
    )
    assert bump.bounds(3.0, Interval(-1, 1)).range == 2.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"declared": LossBounds(math.inf, 0.9, 1.0)}, r"\|slope\| <= 0.9"),
        ({"declared": LossBounds(math.inf, 1.0, 0.9)}, r"\|curvature\| <= 0.9"),
        ({"declared": LossBounds(4.0, 1.0, 1.0), "z_max": 5.0}, "values within 4"),
        ({"declared": LossBounds(math.inf, 1.0, math.inf)}, "smooth"),
        ({"slope_function": lambda z, y: 0.9 * (z - y) / np.sqrt(1 + (z - y) ** 2)}, "value's derivative"),
        ({"slope_function": lambda z, y: -(z - y) / np.sqrt(1 + (z - y) ** 2)}, "value's derivative"),
        ({"curvature_function": lambda z, y: -((1 + (z - y) ** 2) ** -1.5)}, "curvature >= 0"),
        ({"value_function": lambda z, y: np.where(z > 3, np.nan, 0.0)}, "finite value"),
        ({"value_function": lambda z, y: 0.0}, "one value per margin"),
        ({"curvature_function": lambda z, y: 0.5 + 0 * z, "smooth": False, "z_max": -1.0}, "z_max >= 0"),
        ({"slope_function": lambda z, y: np.tanh(z - y - np.mean(z))}, "slope that does not change"),
        ({"value_function": lambda z, y: np.sqrt(1 + (z - y) ** 2) - 1 + 1e3 * (np.size(z) < 9)}, "value that does not change"),
    ],
)
def test_false_declarations_of_a_custom_loss_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        pseudo_huber(**changes)


def fussy(name: str, **changes) -> CustomLoss:
    """A loss of which one function raises an error at the label 0.625, after it wrote into what it was given."""
    right = getattr(pseudo_huber(), name)

    def refusing(z, y):
        here = (y == 0.625).any()
        z *= -1.0
        if here:
            raise ValueError(f"secret labels {y}")
        return right(-z, y)

    return pseudo_huber(**{name: refusing}, label="mine", **changes)


@pytest.mark.parametrize("what", ["value", "slope", "curvature"])
def test_a_row_on_which_a_custom_loss_fails_adds_nothing_and_changes_no_other(what):
    """It ended the fit: one bit about that row."""
    z = np.random.default_rng(0).normal(size=5000)
    y = np.linspace(-1, 1, 5000)
    before = getattr(fussy(f"{what}_function"), what)(z, y)
    assert np.all(before) and np.array_equal(before, getattr(pseudo_huber(), what)(z, y))
    y[[3, 4999]] = 0.625
    found = getattr(fussy(f"{what}_function"), what)(z, y)
    others = np.delete(np.arange(5000), [3, 4999])
    assert np.array_equal(found[others], before[others]) and found[3] == found[4999] == 0
    grid = getattr(fussy(f"{what}_function"), what)(np.stack([z, z]), y)  # margins of several models
    assert np.array_equal(grid, np.stack([found, found]))
    alone = getattr(fussy(f"{what}_function"), what)
    assert alone(z[:3], 0.625).tolist() == [0, 0, 0] and alone(z[:0], y[:0]).shape == (0,)


def test_a_fit_goes_on_where_a_custom_loss_fails_on_a_row():
    import dperm
    from dperm.mechanisms import Target
    from dperm.mechanisms.gradient import Gradient
    from dperm.problem import DataBounds, Problem
    from dperm.rows import MemoryRows

    X = np.random.default_rng(1).uniform(-0.5, 0.5, (60, 2))
    y, zeros, found = np.sign(X[:, 0]), X.copy(), []
    y[7], zeros[7] = 0.625, 0.0
    for rows, loss in ((X, fussy("slope_function")), (zeros, pseudo_huber())):
        problem = Problem(loss, data=DataBounds(2.0, Interval(-1, 1)))
        found.append(dperm.fit(problem, MemoryRows(rows, y), Target(1.0, 1e-6), Gradient(steps=2), random_state=0).w)
    assert np.array_equal(*found)


class Panic(BaseException):
    """As compiled libraries raise it."""


def panicking(rows):
    raise Panic("secret")


ODD_ANSWERS = {
    "fewer rows": lambda right: right[1:],
    "one number": lambda right: 0.5,
    "nothing": lambda right: None,
    "complex numbers": lambda right: right.astype(complex),
    "text": lambda right: ["secret"] * len(right),
    "a panic": panicking,
}


@pytest.mark.parametrize("odd", ODD_ANSWERS)
def test_a_row_for_which_a_custom_loss_gives_no_number_adds_nothing(odd):
    """It ended the fit in an error that could quote it, warned, or changed what every other row of its block added."""
    right = pseudo_huber().slope_function

    def slope(z, y):
        found = right(z, y)
        return ODD_ANSWERS[odd](found) if (y == 0.625).any() else found.tolist()

    loss = pseudo_huber(slope_function=slope, label="mine")
    z, y = np.random.default_rng(0).normal(size=500), np.linspace(-1, 1, 500)
    before = np.asarray(loss.slope(z, y))
    y[3] = 0.625
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = np.asarray(loss.slope(z, y))
    assert found.shape == (500,) and found[3] == 0 and np.array_equal(np.delete(found, 3), np.delete(before, 3))


def test_others_are_asked_what_they_were_asked_before_beside_a_row_on_which_a_custom_loss_fails():
    """Labels of another type than the margins were converted, and margins lost the sign of their zeros."""

    def slope(z, y):
        if (y == 0.625).any():
            raise ValueError("secret")
        return np.tanh(z - np.exp(y) / 9) * 0.1 + 0.1 * np.copysign(1.0, z)

    loss = CustomLoss(slope, slope, slope, LossBounds(2.0, 2.0, 2.0), label="mine", convex=False, smooth=False)
    z, y = np.linspace(-1, 1, 500), np.linspace(-1, 1, 500).astype(np.float32)
    z[7] = -0.0
    before = loss.slope(z, y)
    y[3] = 0.625
    assert np.array_equal(np.delete(loss.slope(z, y), 3), np.delete(before, 3))


def test_a_custom_loss_of_complex_numbers_is_refused():
    with pytest.raises(ValueError, match="real numbers"):
        pseudo_huber(slope_function=lambda z, y: pseudo_huber().slope_function(z, y).astype(complex))


def test_a_custom_loss_on_tensors_goes_on_too_and_one_for_numpy_alone_is_refused_in_words():
    torch = pytest.importorskip("torch", reason="tensors need torch")
    z, y = torch.linspace(-1, 1, 50, dtype=torch.float64), torch.full((50,), 0.5, dtype=torch.float64)

    def slope(z, y):
        if (y == 0.625).any():
            raise ValueError("secret")
        return (z - y) / (1 + (z - y) ** 2) ** 0.5

    loss = pseudo_huber(slope_function=slope, label="mine")
    before = loss.slope(z, y)
    y[3] = 0.625
    found = loss.slope(z, y)
    assert found[3] == 0 and torch.equal(found[4:], before[4:]) and torch.equal(found[:3], before[:3])

    def of_numpy(z, y):
        return slope(z, y) if type(z) is np.ndarray else z["a"]

    with pytest.raises(ValueError, match=r"a loss for arrays of torch.* Write 'mine' for such arrays") as refused:
        pseudo_huber(slope_function=of_numpy, label="mine").slope(z, y)
    assert "secret" not in "".join(traceback.format_exception(refused.value))
