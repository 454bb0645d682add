"""Statements of the theorem pages that no mechanism's own test checks, by quadrature on data written out here; and their form."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from dperm.mechanisms.objective.accounting import kst_sigma
from dperm.privacy import ObjectiveEvent, gaussian_delta
from places import ROOT
from vectors import VECTORS, agrees


def log_cosh_density(theta: np.ndarray, labels: list[float], pull: float, ridge: float, sigma: float) -> np.ndarray:
    """Density of argmin Σ log cosh(θ - y) + pull·θ + (λ/2)θ² + bθ, b ~ N(0, σ²), for rows x = 1."""
    gradient, curvature = ridge * theta + pull, np.full_like(theta, ridge)
    for y in labels:
        slope = np.tanh(theta - y)
        gradient, curvature = gradient + slope, curvature + 1 - slope**2
    return np.exp(-((gradient / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi)) * curvature


def hockey(p: np.ndarray, q: np.ndarray, step: float, epsilon: float) -> float:
    return float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)) * step)


@pytest.mark.parametrize("replace", [False, True])
def test_the_offset_of_a_person_is_a_quarter_for_one_signed_slopes_only(replace: bool) -> None:
    """Two log-cosh rows of one person leave (or are replaced by two far ones): s(1-s) ≤ 1/4 became 1-a² ≤ 1, so the offset is
    k·min(K, log(1+c)). The booked bound holds at every ε; with k·K/4, the offset of one-signed slopes, it would be false.
    """
    ridge, sigma = 0.5, 10.0
    shift, curvature, persons_rows = 1 / sigma, 1 / ridge, 2
    theta = np.linspace(-160.0, 160.0, 640_001)
    step = float(theta[1] - theta[0])
    event = ObjectiveEvent("log-cosh", shift, curvature, replace, rows=persons_rows)
    other = log_cosh_density(theta, [-1e3, -1e3] if replace else [], 0.0, ridge, sigma)
    broken = False
    for y in (-20.0, 0.0, 20.0):
        mine = log_cosh_density(theta, [y, y], 0.0, ridge, sigma)
        assert float(np.sum(mine) * step) == pytest.approx(1.0, abs=1e-6)
        for epsilon in (0.5, 1.1, 1.3, 1.5, 2.5, 3.5):
            truth = max(hockey(mine, other, step, epsilon), hockey(other, mine, step, epsilon))
            assert truth <= event.delta(epsilon)
            short = epsilon - persons_rows * (curvature - shift**2 / 2) / 4
            slopes = persons_rows * (2 if replace else 1)
            if short > 0:
                broken |= truth > 2.0**slopes * float(gaussian_delta(short, slopes * shift))
    assert broken or replace  # four corners of shift 4D each hide the error when rows are replaced


@pytest.mark.parametrize("form", ["self-bounding", "log-cosh", "one-signed", "two-sided"])
def test_the_loss_of_a_person_stays_below_its_vertices_plus_the_booked_offset(form: str) -> None:
    """50,000 random slopes of three rows that leave and three that arrive: quadratic part plus log-determinants, pointwise."""
    generator = np.random.default_rng(7)
    rows = 3
    for shift, curvature in ((0.1, 0.4), (0.5, 3.0), (2.0, 1.0)):
        event = ObjectiveEvent(form, shift, curvature, True, rows=rows)
        offset = max(entry[1] for entry in event.vertices()[0])
        two_sided = form in ("log-cosh", "two-sided")
        for _ in range(20):
            directions = generator.standard_normal((2 * rows, 4))
            directions *= shift * generator.uniform(0.2, 1.0, (2 * rows, 1)) / np.linalg.norm(directions, axis=1, keepdims=True)
            noise = 3 * generator.standard_normal(4)
            slopes = generator.uniform(-1.0 if two_sided else 0.0, 1.0, (2500, 2 * rows))
            size = np.linalg.norm(directions[:rows], axis=1) / shift  # ‖x‖/R: the curvature has its square
            bend = {"self-bounding": slopes * (1 - slopes), "log-cosh": 1 - slopes**2}.get(form, np.ones_like(slopes))
            determinant = np.sum(np.log1p(curvature * bend[:, :rows] * size**2), axis=1)
            moved = slopes @ directions
            loss = np.sum(moved**2, axis=1) / 2 + moved @ noise + determinant
            ends = (-1.0, 1.0) if two_sided else (0.0, 1.0)
            corners = np.array(np.meshgrid(*[ends] * (2 * rows))).reshape(2 * rows, -1).T @ directions
            largest = float(np.max(np.sum(corners**2, axis=1) / 2 + corners @ noise))
            assert float(loss.max()) <= largest + offset + 1e-12


def test_kst_with_the_gradient_change_of_one_record_misses_its_delta() -> None:
    """C4.1: one Huber row (1, y) replaced by (1, -1e6), λ = 2, ε = 1, σ for a claimed δ = 1e-6 with ζ = L: δ is 1.58e-6."""
    row = VECTORS["C4_1"]["kst_one_record"]
    sigma, ridge, epsilon = kst_sigma(row["epsilon"], row["claimed"]), row["ridge"], row["epsilon"]

    def truth(sigma: float) -> float:
        reach = 9 * sigma / ridge
        theta = np.linspace(-reach, reach, 100_001)

        def density(y: float) -> np.ndarray:
            tilt = (np.clip(theta - y, -1.0, 1.0) + ridge * theta) / sigma
            return np.exp(-(tilt**2) / 2) / (sigma * math.sqrt(2 * math.pi)) * (ridge + (np.abs(theta - y) < 1))

        away = density(-1e6)
        return max(hockey(density(y), away, float(theta[1] - theta[0]), epsilon) for y in np.linspace(-reach, reach, 481))

    assert agrees(truth(sigma), row["delta"])
    assert truth(2 * sigma) <= row["claimed"]  # ζ = 2L, as shipped


def test_the_steep_counterexample_of_the_objective_page() -> None:
    """λ = 0.028, σ = 3.4, ε = 1.76 and the data [] against [(1, 1)]: far above one Gaussian release, and booked as such."""
    row = VECTORS["C4_2_counterexample"]["steep"]
    theta = np.linspace(-2000.0, 2000.0, 2_000_001)
    slope = 0.5 * (1 - np.tanh(theta / 2))
    gradient = row["ridge"] * theta
    scale = row["sigma"]
    with_row = np.exp(-(((gradient - slope) / scale) ** 2) / 2) * (row["ridge"] + slope * (1 - slope))
    without = np.exp(-((gradient / scale) ** 2) / 2) * row["ridge"]
    unit = float(theta[1] - theta[0]) / (scale * math.sqrt(2 * math.pi))
    truth = hockey(with_row, without, unit, row["epsilon"])
    assert agrees(truth, row["delta"])
    assert agrees(float(gaussian_delta(row["epsilon"], 1 / scale)), row["gaussian"])
    assert truth <= ObjectiveEvent("self-bounding", 1 / scale, 1 / row["ridge"]).delta(row["epsilon"])


PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_formula_is_rendered_as_emphasis(page: Path) -> None:
    """θ* … θ* in one paragraph is italics to Markdown. Emphasis starts after a space or bracket and ends before one."""
    markdown = pytest.importorskip("markdown", reason="the documentation tools are not installed (pip install --group docs)")
    html = markdown.markdown(page.read_text("utf-8"), extensions=["tables", "fenced_code", "attr_list"])
    for found in re.finditer(r"(.)<(em|strong)>(.*?)</\2>(.)", html, re.S):
        before, _, inner, after = found.groups()
        assert re.match(r"[\s(>\[“\"—–/]", before) and re.match(r"[\s.,:;)!?<\]”\"—–/…-]", after), found.group(0)
        assert inner == inner.strip(), found.group(0)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_row_of_a_table_has_the_cells_of_its_head(page: Path) -> None:
    """A bar inside a formula splits a cell: |x| must be written \\|x\\|."""
    width, fenced = None, False
    for line in page.read_text("utf-8").splitlines():
        fenced ^= line.startswith("```")
        if fenced or not line.startswith("|"):
            width = None
            continue
        bars = len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", lambda code: code.group(0).replace("|", ""), line)))
        width = bars if width is None else width
        assert bars == width, line
