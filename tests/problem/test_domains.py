"""Every domain in DOMAINS: projections are projections, and radius, diameter and volume are what they claim."""

from __future__ import annotations

import json
import math
from functools import cache

import numpy as np
import pytest

from dperm.problem import DOMAINS, Affine, Ball, Box, HalfSpace, Intersection, NonNegative, Simplex, WholeSpace, domain_from_spec
from problem_cases import domains

POINTS = 10_000
DIMENSION = 3


ALL = pytest.mark.parametrize("domain", domains(DIMENSION), ids=lambda item: json.dumps(item.spec()))


def tolerance_of(domain) -> float:
    return 1e-6 if isinstance(domain, Intersection) else 1e-9


def rows(seed: int = 3) -> np.ndarray:
    """Points at many scales, on axes, at corners and at vertices."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(POINTS, DIMENSION)) * 10 ** rng.uniform(-2, 1.5, size=(POINTS, 1))
    corners = rng.choice([-1.0, 0.0, 1.0], size=(POINTS // 4, DIMENSION))
    w[: POINTS // 4] = 20.0 * corners
    return w


@cache
def projected(domain, seed: int = 3) -> np.ndarray:
    return domain.project_rows(rows(seed))


@ALL
def test_projections_land_inside_within_radius_and_diameter(domain):
    inside = projected(domain)
    norms = np.linalg.norm(inside, axis=1)
    assert norms.max() <= domain.radius * (1 + 1e-14)
    gaps = np.linalg.norm(inside - projected(domain, 4), axis=1)
    opposite = np.linalg.norm(inside - domain.project_rows(-rows()), axis=1)
    assert max(gaps.max(), opposite.max()) <= domain.diameter * (1 + 1e-12) + tolerance_of(domain)
    assert all(domain.contains(w, 10 * tolerance_of(domain)) for w in inside[::100])


@ALL
def test_radius_and_diameter_are_attained_so_that_half_of_them_fails(domain):
    inside = projected(domain)
    reached = np.linalg.norm(inside, axis=1).max()
    corner = inside[: POINTS // 4]
    apart = np.linalg.norm(corner[:, None, :] - corner[None, ::50, :], axis=2).max()
    if math.isinf(domain.radius):
        assert reached > 10 and apart > 10 and math.isinf(domain.diameter)
    elif isinstance(domain, Intersection):
        assert reached > domain.radius / 2, "half of it would be refuted"
        assert apart > domain.diameter / 2
    else:
        assert reached >= 0.99 * domain.radius
        assert apart >= 0.99 * domain.diameter


@ALL
def test_projection_is_idempotent_and_not_expansive(domain):
    first, second = rows(), rows(seed=4)
    p, q = projected(domain), projected(domain, 4)
    scale = 1 + np.abs(first).max()
    np.testing.assert_allclose(domain.project_rows(p), p, atol=tolerance_of(domain))
    moved, before = np.linalg.norm(p - q, axis=1), np.linalg.norm(first - second, axis=1)
    assert np.all(moved <= before + tolerance_of(domain) * scale)


@ALL
def test_projection_satisfies_the_variational_inequality(domain):
    """<w - p, u - p> <= 0 for every u in C says that p is the nearest point."""
    w, u = rows(), projected(domain, 4)
    p = projected(domain)
    product = np.sum((w - p) * (u - p), axis=1)
    scale = (1 + np.linalg.norm(w - p, axis=1)) * (1 + np.linalg.norm(u - p, axis=1))
    assert np.all(product <= tolerance_of(domain) * scale)


@ALL
def test_points_outside_are_moved_and_noticed(domain):
    far = 50.0 * np.array([1.0, -2.0, 3.0])
    p = domain.project(far)
    assert domain.contains(far) == bool(np.allclose(p, far))
    if domain != WholeSpace():
        outside = [w for w in rows()[:50] if not domain.contains(w)]
        assert outside


@ALL
def test_single_vectors_matrices_and_dtypes(domain):
    w = rows()[7]
    p = domain.project(w)
    np.testing.assert_allclose(p, domain.project_rows(w[None, :])[0], atol=1e-12)
    np.testing.assert_allclose(domain.project(w.reshape(3, 1)), p.reshape(3, 1), atol=1e-12)
    assert domain.project(w.astype(np.float32)).dtype == np.float32


@ALL
def test_spec_round_trip(domain):
    text = json.dumps(domain.spec(), allow_nan=False)
    again = domain_from_spec(json.loads(text))
    assert again == domain
    assert (again.radius, again.diameter) == (domain.radius, domain.diameter)


@ALL
def test_torch_agrees_with_numpy(domain):
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    found = domain.project_rows(torch.asarray(rows()[:200]))
    np.testing.assert_allclose(found.numpy(), domain.project_rows(rows()[:200]), atol=1e-8)


def test_the_list_is_complete():
    expected = "whole-space ball box non-negative simplex half-space affine intersection"
    assert set(DOMAINS) >= set(expected.split())


def share_of_grid(domain, d: int, side: float) -> float:
    """Volume by counting grid points in [-side, side]^d."""
    axis = np.linspace(-side, side, 401)[:-1] + side / 400
    grid = np.stack(np.meshgrid(*[axis] * d), axis=-1).reshape(-1, d)
    inside = np.linalg.norm(domain.project_rows(grid) - grid, axis=1) < 1e-9
    return inside.mean() * (2 * side) ** d


def test_volumes():
    assert math.exp(Ball(1.5).log_volume(2)) == pytest.approx(share_of_grid(Ball(1.5), 2, 2.0), rel=0.01)
    assert math.exp(Ball(1.0).log_volume(3)) == pytest.approx(4 / 3 * math.pi)
    box = Box((-1.0, 0.0), (0.5, 2.0))
    assert math.exp(box.log_volume(2)) == pytest.approx(3.0)
    assert math.exp(box.log_volume(2)) == pytest.approx(share_of_grid(box, 2, 2.0), rel=0.01)
    assert math.exp(Box(-1.0, 1.0).log_volume(4)) == pytest.approx(16.0)
    assert Box((0.0, 1.0), (1.0, 1.0)).log_volume(2) == -math.inf
    # The simplex is a segment of length √2 for d = 2, a triangle of area √3/2 for d = 3.
    assert math.exp(Simplex().log_volume(2)) == pytest.approx(math.sqrt(2))
    assert math.exp(Simplex().log_volume(3)) == pytest.approx(math.sqrt(3) / 2)
    half = Intersection((Ball(1.0), HalfSpace((1.0, 0.0), 0.0)))
    assert math.exp(half.log_volume(2)) >= share_of_grid(half, 2, 1.0)
    assert Intersection((Ball(5.0), Simplex())).log_volume(3) == Simplex().log_volume(3)
    for unbounded in (WholeSpace(), NonNegative(), HalfSpace((1.0,), 0.0), Affine([[1.0, 1.0]], [0.0])):
        assert unbounded.log_volume(2) == math.inf


def test_a_ball_bounds_the_floats_too():
    for dtype in (np.float32, np.float64):
        w = rows().astype(dtype)
        w[0] = 1e30
        norms = np.linalg.norm(Ball(0.7).project_rows(w), axis=1)
        assert np.all(norms <= dtype(0.7))
        assert norms.max() > 0.7 * (1 - 1e-5)
    assert np.linalg.norm(Ball(2.0).project(np.full(3, 1e200))) == pytest.approx(2.0)
    inside = np.array([0.1, 0.2, 0.3])
    assert np.array_equal(Ball(2.0).project(inside), inside)


def test_simplex_keeps_its_digits_for_large_entries():
    p = Simplex().project(np.array([1e12, 1e12 - 0.5, 0.0]))
    np.testing.assert_allclose(p, [0.75, 0.25, 0.0], atol=1e-12)


def test_a_box_of_numbers_needs_its_dimension_for_a_radius():
    box = Box(-1.0, 2.0)
    assert math.isinf(box.radius) and math.isinf(box.diameter)
    assert box.in_dimension(4).radius == 4.0 and box.in_dimension(4).diameter == 6.0
    assert (Box(0.0, 0.0).radius, Box(1.0, 1.0).diameter) == (0.0, 0.0)
    cut = Intersection((Box(-1.0, 2.0), NonNegative())).in_dimension(4)
    assert cut.radius == 4.0
    assert Ball(1.0).in_dimension(7) == Ball(1.0)


def test_affine_points_and_planes():
    point = Affine([[1.0, 0.0], [0.0, 2.0]], [3.0, 8.0])
    assert point.radius == pytest.approx(5.0) and point.diameter == 0.0 and point.log_volume(2) == 0.0
    np.testing.assert_allclose(point.project(np.array([9.0, 9.0])), [3.0, 4.0])
    redundant = Affine([[1.0, 1.0], [2.0, 2.0]], [1.0, 2.0])
    np.testing.assert_allclose(redundant.project(np.zeros(2)), [0.5, 0.5])
    assert redundant.flat and not Ball(1.0).flat
    assert Intersection((Ball(1.0), redundant)).flat and not Intersection((Ball(1.0), NonNegative())).flat


def test_intersection_agrees_with_the_closed_form_of_a_cut_ball():
    """Ball ∩ {w_1 <= 0.5}: beyond the face the nearest point is the clip, or the rim where both bind."""
    domain = Intersection((Ball(1.0), HalfSpace((1.0, 0.0), 0.5)))
    np.testing.assert_allclose(domain.project(np.array([2.0, 0.0])), [0.5, 0.0], atol=1e-9)
    rim = [0.5, math.sqrt(0.75)]
    np.testing.assert_allclose(domain.project(np.array([3.0, 3.0])), rim, atol=1e-7)
    np.testing.assert_allclose(domain.project(np.array([-3.0, 4.0])), [-0.6, 0.8], atol=1e-9)
    # The bounded part comes last, so the declared radius holds exactly even after a single cycle.
    rough = Intersection((Ball(1.0), HalfSpace((1.0, 0.0), 0.5)), cycles=1)
    assert np.linalg.norm(rough.project(np.array([30.0, 30.0]))) <= 1.0


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Ball(0.0), "radius > 0"),
        (lambda: Ball(math.inf), "finite"),
        (lambda: Box(1.0, 0.0), "low <= high"),
        (lambda: Box((0.0, 0.0), (1.0,)), "one length"),
        (lambda: Box("low", 1.0), "to be a number"),
        (lambda: Box((), 1.0), "at least one entry"),
        (lambda: Box((0.0, 0.0), 1.0).in_dimension(3), "Expected 2 parameters"),
        (lambda: Box((0.0, 0.0), 1.0).project(np.zeros(3)), "Expected 2 parameters"),
        (lambda: HalfSpace((0.0, 0.0), 1.0), "not zero"),
        (lambda: HalfSpace(1.0, 1.0), "sequence"),
        (lambda: Affine([[1.0, 1.0], [1.0]], [0.0, 0.0]), "rectangular"),
        (lambda: Affine([[1.0, math.inf]], [0.0]), "finite"),
        (lambda: Affine([[1.0, 1.0], [1.0, 1.0]], [0.0, 1.0]), "solution"),
        (lambda: Intersection(()), "one domain or more"),
        (lambda: Intersection((HalfSpace((1.0,), 0.0), HalfSpace((1.0, 0.0), 0.0))), "one dimension"),
        (lambda: Intersection((Ball(1.0), HalfSpace((1.0, 0.0), -5.0))), "empty intersection"),
        (lambda: domain_from_spec({"name": "torus"}), "among"),
        (lambda: domain_from_spec({"name": "ball", "size": 1.0}), "parameters of ball"),
    ],
)
def test_bad_declarations_are_refused_in_words(build, message):
    with pytest.raises(ValueError, match=message):
        build()
