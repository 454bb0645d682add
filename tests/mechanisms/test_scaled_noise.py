"""Where noise is large the scaled methods fall back to little, not to nonsense: public rules that see to it, and their effect.

All seeds are fixed, so nothing here fails by chance. Each test of an effect fails under the former rules: κ = 3 always, a
histogram believed however noisy it is, one per cent for the label mean, the zeros taken for the size of the counts.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import dperm
from dperm.mechanisms.scaled import poisson_settings as poisson_rule
from dperm.mechanisms.scaled import scaling
from dperm.mechanisms.scaled import settings as rule
from dperm.problem import DataBounds, Interval, LogisticLoss, MultinomialLoss, Problem, SquaredLoss
from dperm.release.plan import Shape, Target

SQUARED = Problem(SquaredLoss(), data=DataBounds(2.0, Interval(-1.0, 1.0), 1.0))


def public(target, budget):
    return rule.Public(SQUARED, Shape(1000, 3), target, (), budget)


def horizon(problem, n, d, size, *, relation="zero-out", epsilon=0.1):
    """κ = τcν of the rule, with the numbers it came from."""
    shape, target = Shape(n, d), Target.declare(epsilon=epsilon, delta=1e-6, relation=relation, n=n)
    kinds = ("numeric",) * d
    budget = rule.shares(problem, shape, target, kinds)
    scaled = {"size": size, "scale": np.ones(d), "shift": np.zeros(d)}
    found = rule.descent_settings(rule.Public(problem, shape, target, kinds, budget), {}, scaled, rule.Wishes())
    return found["flow_time"] * found["clip_factor"] * found["noise_ratio"], found


@pytest.mark.parametrize(("n", "d", "size"), [(1000, 30, 5.0), (26_000, 106, 7.7), (400, 10, 2.0)])
def test_noise_adds_at_most_its_share_of_the_residual_variance(n, d, size):
    reach, found = horizon(SQUARED, n, d, size)
    added = reach * found["clip_factor"] * found["noise_ratio"] * max(d / size**2, 1.0) / 2
    assert reach < 3
    assert added == pytest.approx(rule.NOISE_LIMIT, rel=1e-12)


def test_quiet_regressions_keep_the_full_horizon():
    reach, found = horizon(SQUARED, 40_000, 10, math.sqrt(11), epsilon=1.0)
    assert reach == pytest.approx(3.0, rel=1e-12) or found["flow_time"] == 1000.0


@pytest.mark.parametrize(
    ("loss", "n", "expected"),
    [
        (LogisticLoss(), 300, 2.0),  # ν > 1/4: no longer than ever
        (LogisticLoss(), 15_000, 3.0),  # a short flow may be longer
        (LogisticLoss(), 50_000, 2.0),  # long enough
        (MultinomialLoss(classes=4), 150_000, 4.0),
    ],
)
def test_horizon_of_classifications(loss, n, expected):
    labels = Interval(-1.0, 1.0) if loss.margins == 1 else Interval(0, 3)
    reach, found = horizon(Problem(loss, data=DataBounds(2.0, labels, 1.0)), n, 30, 5.0)
    assert reach == pytest.approx(expected, rel=1e-9)
    assert found["flow_time"] < 1000


@pytest.mark.parametrize("relation", ["zero-out", "replace-one"])
@pytest.mark.parametrize("persons", [1, 3])
def test_a_histogram_is_believed_where_its_noise_is_smaller_than_what_it_looks_for(relation, persons):
    target = Target.declare(epsilon=1.0, delta=1e-6, relation=relation, n=1000, rows_per_person=persons)
    counts = np.zeros(24)
    counts[9] = 1000.0
    noise = math.sqrt(2 if relation == "replace-one" else 1) * persons
    enough = math.sqrt(12) * noise / 250

    def scale(mu):
        return rule.residual_scale(public(target, {"residuals": mu}), {"residuals": counts}, "residuals")

    assert scale(enough * 1.001) == pytest.approx(2 * 2**-4.5)
    assert scale(enough * 0.999) == 2.0 / rule.BLIND


def test_a_noisy_label_mean_is_drawn_to_the_middle():
    target = Target.declare(epsilon=1.0, delta=1e-6, relation="zero-out", n=1000)
    noise = math.sqrt(rule.LABEL_PRIOR)
    trust = rule.trust_in_label_mean(public(target, {"label mean": 1 / (1000 * noise)}))
    assert trust == pytest.approx(0.5, rel=1e-12)
    assert rule.trust_in_label_mean(public(target, {"label mean": 1.0})) > 0.9999
    twice = Target.declare(epsilon=1.0, delta=1e-6, relation="replace-one", n=1000)
    assert rule.trust_in_label_mean(public(twice, {"label mean": 1 / (1000 * noise)})) == pytest.approx(0.2)


def test_small_regressions_beat_the_constant():
    """Mean R² over eight fits of 300 rows at ε = 0.5; it was -0.4 with the former rules."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (2300, 5))
    y = X @ np.array([5.0, -4.0, 3.0, 0.0, 0.0]) + rng.normal(size=2300)
    options = {"delta": 1e-6, "relation": "zero-out", "bounds": (-1, 1), "y_bounds": (-15, 15)}
    scores = [
        dperm.LinearRegression(0.5, random_state=seed, **options).fit(X[:300], y[:300]).score(X[300:], y[300:])
        for seed in range(8)
    ]
    assert np.mean(scores) > 0.3
    assert min(scores) > -0.5


def test_rare_counts_have_the_right_level():
    """Nineteen rows in twenty are zero. The clip must not cut each count above zero: rates would be far too low."""
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, (40_000, 4))
    y = rng.poisson(np.exp(-3.3 + X @ np.array([1.0, -1.0, 0.5, 0.0]))).astype(float)
    options = {"delta": 1e-6, "relation": "zero-out", "bounds": (-1, 1), "y_bounds": (0, 20)}
    models = [dperm.PoissonRegressor(0.5, random_state=seed, **options).fit(X[:20_000], y[:20_000]) for seed in range(4)]
    levels = [model.predict(X[20_000:]).mean() / y[20_000:].mean() for model in models]
    assert np.mean(y > 0) < 0.1
    assert levels == pytest.approx([1.0] * 4, abs=0.35)
    assert np.mean([model.score(X[20_000:], y[20_000:]) for model in models]) > 0.05


def test_the_limit_of_counts_is_never_that_of_the_zeros():
    counts = np.zeros(24)
    counts[8], counts[23] = 500.0, 9500.0
    problem = SimpleNamespace(data=SimpleNamespace(y=Interval(0.0, 1.0)))
    target, shape = Target.declare(epsilon=1.0, delta=1e-6, relation="zero-out", n=10_000), Shape(10_000, 3)
    released = {"count scale": counts}

    def limit(mu):
        return poisson_rule.count_limit(rule.Public(problem, shape, target, (), {"count scale": mu}), released)

    assert limit(3.1 / 500) == pytest.approx(2.0**-4)
    assert limit(2.9 / 500) == 1 / poisson_rule.BLIND
    assert poisson_rule.rare(shape, released)
    counts[8], counts[23] = 2000.0, 8000.0
    assert limit(1.0) == pytest.approx(2.0**-4)
    assert not poisson_rule.rare(shape, released)


def test_a_narrow_column_is_scaled_as_far_as_its_noise_allows():
    """A column that fills a hundredth of its bounds gets its own deviation, or the noise's where that is larger."""
    n, deviation = 100_000, 0.006
    target = Target.declare(epsilon=1.0, delta=1e-6, relation="zero-out", n=n)
    counts = np.zeros(24)
    counts[14] = n
    radius = 2 * SQUARED.data.x_norm * 2.0**-7
    released = {"mean": np.zeros(1), "radius": counts, "squares": np.array([n * deviation**2])}
    for mu, expected in ((10.0, deviation), (1e-4, math.sqrt(radius**2 / 1e-4 / n))):
        scaled = scaling.centred_and_scaled(rule.Public(SQUARED, Shape(n, 1), target, ("numeric",), {"squares": mu}), released)
        assert 1 / scaled["scale"][0] == pytest.approx(expected, rel=1e-9)
    assert expected > 1.5 * deviation
