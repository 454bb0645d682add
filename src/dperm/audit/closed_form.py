"""The part of `make audit` that needs no luck: exact profiles of our mechanisms where their output density is explicit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from dperm.audit import densities
from dperm.audit.quadrature import ExactProfile, OneColumn, exact, neighbour_pairs
from dperm.mechanisms.gradient import Gradient
from dperm.mechanisms.objective.mechanism import Tilted
from dperm.mechanisms.scaled.poisson_counts import Balance, Caps, ExposedResiduals, SignedHistogram
from dperm.mechanisms.scaled.poisson_settings import CountGradient
from dperm.mechanisms.scaled.several_classes import terms_of
from dperm.mechanisms.scaled.smoothness import LADDER, columns_of, tables_of
from dperm.mechanisms.schedule import Descent
from dperm.privacy import RELATIONS, Gaussian, Guarantee, compose, gaussian_mu
from dperm.problem import DataBounds, Interval, LogisticLoss, MultinomialLoss, Problem, SquaredLoss
from dperm.release.noise import gaussian_scale
from dperm.release.plan import Shape, Target
from dperm.rows.base import Block, Term
from dperm.terms.additive import PLACES, CellFilling, CurveFeatures, Curving, Level, Marginals, Recalibration
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm
from dperm.terms.heads import Directions, MeanSquare, UnitMoments
from dperm.terms.inference import LogisticScore, ResidualScore, Score
from dperm.terms.moments import CentredMoments
from dperm.terms.softmax import SoftmaxScore
from dperm.walk.fitting import plan

REST = (np.array([0.7, -0.4, 0.2]), np.array([1.0, 1.0, -1.0]))
LOGISTIC = Problem(LogisticLoss(), data=DataBounds(1.0, Interval(-1.0, 1.0)))
DELTA = 1e-3
D = TypeVar("D")


@dataclass(frozen=True)
class ExactRow:
    """One mechanism and relation: the certified profile against the true one of the worst pair tried."""

    name: str
    relation: str
    claim: Guarantee
    found: ExactProfile
    delta: float = DELTA

    @property
    def claimed(self) -> float:
        return self.claim.epsilon(self.delta)

    @property
    def true(self) -> tuple[float, float]:
        return self.found.epsilon(self.delta)

    @property
    def verdict(self) -> str:
        return "violated" if self.found.breaks(self.claim) else "holds"


def _pairs(relation: str) -> list[tuple[OneColumn, OneColumn]]:
    """Records (±1, ±1) beside three fixed rows, beside none, and beside one that pulls hard."""
    rests = [REST, (np.array([0.0]), np.array([1.0])), (np.array([1.0, 1.0]), np.array([1.0, 1.0]))]
    if relation == "replace-one":
        return [pair for rest in rests for pair in neighbour_pairs((-1.0, 0.0, 1.0), (-1.0, 1.0), rest)]
    return [
        (rest, (np.r_[rest[0], x], np.r_[rest[1], y])) for rest in rests for x in (-1.0, 0.5, 1.0) for y in (-1.0, 1.0)
    ]


def gradient_rows(steps: tuple[int, ...] = (1, 2, 3), relations: tuple[str, ...] = RELATIONS) -> list[ExactRow]:
    """Noisy gradient descent, last iterate, clip at the largest gradient that the first step can meet."""
    rows = []
    for relation in relations:
        pairs = [pair for pair in _pairs(relation) if len(max(pair, key=lambda d: len(d[0]))[0]) == 4]
        for count in steps:
            mechanism = Gradient(steps=count, step_size=1.5, clip=0.5, momentum=0.0, output="last")
            planned = plan(LOGISTIC, Shape(4, 1), Target(1.0, DELTA, relation), mechanism)
            noise = planned.settings("descent", Descent).noise_of_mean
            density = partial(
                densities.gradient_descent, loss=LogisticLoss(), steps=count, step_size=1.5, clip=0.5, noise=noise, n=4
            )
            found = exact(density, pairs, epsilons=np.linspace(0, 2, 41), cells=512)
            rows.append(ExactRow(f"gradient, T = {count}", relation, planned.guarantee, found))
    return rows


def objective_rows(relations: tuple[str, ...] = RELATIONS) -> list[ExactRow]:
    """Objective perturbation of logistic regression in one dimension, pure and Gaussian, by density_b(-F'(w))·F''(w).

    The claim compared is that of the perturbed minimiser itself; the tiny output noise that covers the solver comes on top.
    """
    from dperm.mechanisms.registry import mechanism_from_spec

    rows = []
    for relation in relations:
        for kind in ("pure", "gaussian"):
            mechanism = mechanism_from_spec("objective", {"noise_kind": kind, "most_rows": "nominal"})
            planned = plan(LOGISTIC, Shape(4, 1), Target(1.0, DELTA, relation), mechanism)
            stage = planned.stage("objective")
            settings = planned.settings("objective", Tilted)
            pure, noise = settings.noise == "pure", settings.noise_scale
            density = partial(
                densities.objective_perturbation, loss=LogisticLoss(), ridge=settings.ridge, noise=noise, pure=pure
            )
            found = exact(density, _pairs(relation), epsilons=np.linspace(0, 2, 41), cells=1024)
            rows.append(ExactRow(f"objective, {kind} noise", relation, compose([stage.event], relation), found))
    return rows


def interval_rows(relations: tuple[str, ...] = RELATIONS) -> list[ExactRow]:
    """What `scaled-inference` releases for intervals, of one column at given coefficients, radius and clip: noisy numbers.

    Rows of x = ±1 have the full length R, residuals reach the clip and more, and for the curvature some are 0.
    """
    features, theta = Features(), np.array([0.3])
    scores: dict[str, Score | SoftmaxScore] = {
        "log-odds": LogisticScore(features, theta),
        "linear": ResidualScore(features, theta, 0.7),
        "two classes by softmax": SoftmaxScore(features, np.array([0.0]), 2),
    }
    rows = []
    for relation in relations:
        for model, score in scores.items():
            terms = terms_of(score, 1.0)
            for what, term in (("gradient", terms.gradient), ("curvature", terms.curvature), ("scores", terms.scores)):
                sums = partial(_total, term=term, signed="softmax" not in model)
                rows.append(_released(f"intervals, {what} of {model}", relation, term, sums, _pairs(relation)))
    return rows


def heads_rows(relations: tuple[str, ...] = RELATIONS) -> list[ExactRow]:
    """What last layers release, of one column and two classes: moments, sizes and gradients, at given directions and slopes.

    Rows have length 1 or 0. The two numbers of a gradient have opposite signs, so that their difference, over √2, tells all.
    `least-squares` releases the same three sums with θ = 0; the moments of `scaled-heads` are those of rows in a ball.
    """
    theta = np.array([0.3, -0.3])
    white = Directions.of(np.eye(1), 1.0)
    terms: dict[str, Term] = {
        "moments of heads": UnitMoments(1),
        "size of heads": MeanSquare(),
        "gradient of heads": GradientTerm(MultinomialLoss(2), theta, 0.25, Features()),
        "labels of least-squares": GradientTerm(MultinomialLoss(2), 0.0 * theta, 0.25, Features()),
        "moments of scaled-heads": CentredMoments(Features(), 1.0),
    }
    rows = []
    for relation in relations:
        for name, term in terms.items():
            sums = partial(_total, term=term, white=None if "moments" in name else white)
            rows.append(_released(f"heads, {name}", relation, term, sums, _pairs(relation)))
    return rows


def additive_rows(relations: tuple[str, ...] = RELATIONS) -> list[ExactRow]:
    """What additive models release, of one column: the histogram behind its curve, gradients in the coordinates of line and
    curve, and what comes after the descent. N(s, σ²I) and N(s', σ²I) differ along s' - s alone: that number tells all.

    Rows lie in the first, the middle or the last cell, at coefficients that let each term reach its bound.
    """
    features = CurveFeatures(1.0, None, None, tables_of(columns_of(np.zeros(PLACES), 0.0, 4), LADDER[0]))
    curve = np.zeros(features.width(1) - 2)
    flat, steep = np.concatenate([np.zeros(2), curve]), np.concatenate([[9.0, 0.0], curve])
    alike = np.concatenate([np.zeros(2 * len(flat)), [0.0, -9.0], curve])  # of three classes the last is out of the question
    level, rising = (ExposedResiduals(features, w, 0.05, 1.0, -6.0, 9.0, largest=20.0) for w in (flat, steep))
    terms: dict[str, Term] = {
        "marginals": Marginals((0,)),
        "gradient of a regression": GradientTerm(SquaredLoss(), flat, 0.25, features),
        "gradient of two classes": GradientTerm(LogisticLoss(), flat, 0.25, features),
        "gradient of three classes": GradientTerm(MultinomialLoss(3), alike, 0.25, features),
        "recalibration": Recalibration(features, steep / 90, 0.0, 0.1, 0.5),
        "level": Level(features, flat, 0.5),
        "gradient of counts": CountGradient(level, 0.25),
        "signed residuals of counts": SignedHistogram(rising, 20.0),
        "balance of counts": Balance(rising, Caps(7.0, 3.0)),
    }
    rows = []
    for relation in relations:
        for name, term in terms.items():
            signed = "counts" not in name and "three" not in name
            farthest = max(_shift(term, pair, signed=signed) for pair in _pairs(relation))
            rows.append(_released(f"additive curves, {name}", relation, term, float, [(0.0, farthest)]))
    return rows


def _released(name: str, relation: str, term: Term, sums: Callable[[D], object], pairs: Iterable[tuple[D, D]]) -> ExactRow:
    """A noisy sum at μ(1, δ): a Gaussian around what `sums` makes of the data, as wide as the stated sensitivity asks for."""
    mu = gaussian_mu(1.0, DELTA)
    scale = gaussian_scale(term.sensitivity(relation), mu)
    found = exact(lambda data: densities.gaussian_output(sums(data), scale), pairs, epsilons=np.linspace(0, 2, 41), cells=256)
    return ExactRow(name, relation, compose([Gaussian(mu)], relation), found)


def _total(data: OneColumn, term: Term, signed: bool = False, white: Directions | None = None) -> object:
    """A sum, in the one direction that rows of one column can move it in."""
    block = _block(data, signed=signed)
    total = np.ravel(term(block if white is None else white.block(block)))
    return (total[0] - total[1]) / np.sqrt(2.0) if len(total) == 2 else total


def _block(data: OneColumn, *, signed: bool) -> Block:
    """Rows of one column; labels are -1 and 1 where they are `signed`, 0 and 1 otherwise."""
    return Block(data[0].reshape(-1, 1), data[1] if signed else np.where(data[1] > 0, 1.0, 0.0), None, 0)


def _shift(term: Term, pair: tuple[OneColumn, OneColumn], *, signed: bool) -> float:
    """How far apart two tables are in a sum."""
    sums = []
    for data in pair:
        block = _block(data, signed=signed)
        seen = Curving().block(CellFilling(np.zeros(1), (0,)).block(block))
        sums.append(np.ravel(term(block if isinstance(term, Marginals) else seen)))
    return float(np.linalg.norm(sums[1] - sums[0]))


def exact_rows(only: str = "") -> list[ExactRow]:
    """All of them, or those of the families that have rows of their own whose names hold this text."""
    families = {"intervals": interval_rows, "heads": heads_rows, "additive curves": additive_rows}
    apart = families[only]() if only in families else [row for rows in families.values() for row in rows()]
    return [row for row in apart if only in row.name] if only else [*gradient_rows(), *objective_rows(), *apart]
