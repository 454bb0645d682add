"""A two-layer network: private directions, then clipped noisy descent whose settings follow from public numbers.

    A = Σ x xᵀ + noise  →  the k largest directions, scaled by eigenvalue^(-1/4);   z of length 4;   tanh units;   softmax
    V ← 0.9·V + ( Σ_i clip_C(∇ℓ_i(w)) + N(0, σ²I) )/n,   w ← w - η·V;   the mean of the last quarter of the iterates

**Theorem.** The first release has sensitivity 1 (√2 replaced) in Frobenius norm, each gradient sum κC by its clip, whatever the
network is: no convexity is used. Full batches: the whole is √(μ_A² + T·μ_t²) = μ(ε, δ)-GDP. Poisson sampling (`sampling_rate`):
the composition of one Gaussian and T sampled Gaussian releases by its privacy-loss distribution; for a row present or absent
only, so it is refused under replace-one. Proof, and why the rule: `docs/theorems/network.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dperm.mechanisms.conditions import BOUNDED_ROWS, GAUSSIAN, check_options, unmet
from dperm.mechanisms.sampling import sampled_event, sampling_needs
from dperm.mechanisms.scaled import settings as rule
from dperm.privacy import Event, Gaussian, gaussian_mu
from dperm.problem import Problem
from dperm.release.asks import Close, Decide, Draw, Open, Program, Publish, Sum, unrecorded
from dperm.release.plan import Plan, Shape, Stage, StageSettings, Target, options_of, register
from dperm.terms.moments import smat
from dperm.terms.network import Inputs, Layout, NetworkGradient, RowMap, SecondMoments

DIRECTIONS_SHARE = 0.08
LENGTH = 4.0
CLIP = 0.3
HORIZON = 28.0  # norm that the noise may reach in all weights together
STEPS = 300
EIGENVALUE_POWER = 0.25
MOST_COLUMNS = 2000


@dataclass(frozen=True, eq=False)
class Training(StageSettings):
    """Layers, steps and noise of the descent."""

    components: int
    hidden: int
    classes: int
    steps: int
    step_size: float
    step_mu: float
    clip: float
    horizon: float
    momentum: float
    sampling_rate: float | None
    given: list[object]


@register
@dataclass(frozen=True)
class Network:
    """Two layers, trained by noisy descent.

    hidden         number of tanh units
    components     private directions that the network sees; by the rule 32·(μn/20,000)^(1/3) if left out
    centred_rows   whether each row is centred by its own mean and brought to unit length (images, spectra, counts of like things)
    steps, clip, horizon    of the descent; by the rule if left out
    sampling_rate  Poisson sampling of rows at each step; zero-out and add-remove only

    **Guarantee**: (ε, δ) for the target's relation.

    >>> Network().name
    'network'
    """

    hidden: int = 64
    components: int | None = None
    centred_rows: bool = False
    steps: int | None = None
    clip: float | None = None
    horizon: float | None = None
    sampling_rate: float | None = None

    name: ClassVar[str] = "network"
    only_sums: ClassVar[bool] = False  # draws more than Gaussian noise on sums, so not by the exact sampler
    linear: ClassVar[bool] = False  # its weights are no coefficients of columns: linear estimators refuse it

    def __post_init__(self) -> None:
        check_options(self, whole=["hidden", "components", "steps"], positive=["clip", "horizon"], parts=["sampling_rate"])

    def missing(self, problem: Problem, target: Target) -> list[str]:
        return unmet({
            GAUSSIAN: target.delta == 0,
            f"classes, with the multinomial loss (found {problem.loss.name!r})": problem.loss.name != "multinomial",
            BOUNDED_ROWS: not math.isfinite(problem.data.x_norm),
            "no regularizer and no domain (the flow time regularizes)":
                problem.regularizer.name != "none" or problem.domain.spec()["name"] != "whole-space",
            **sampling_needs(self.sampling_rate, target),
        })

    # -- the plan ----------------------------------------------------------------------------------------------------

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        if shape.d > MOST_COLUMNS:
            raise ValueError(f"Expected at most {MOST_COLUMNS} columns for private directions, found {shape.d}. Pass fewer.")
        mu = gaussian_mu(target.epsilon, target.delta)
        first = mu * math.sqrt(DIRECTIONS_SHARE) * (1 - 1e-12)
        unit = rule.effective_mu(mu, target)
        size = max(1, round(32 * (unit * shape.n / 20000) ** (1 / 3))) if self.components is None else self.components
        layout = Layout(min(size, shape.d), self.hidden, problem.loss.margins)
        steps = STEPS if self.steps is None else self.steps
        event, step_mu = self._event(target, mu, first, steps)
        clip = CLIP if self.clip is None else self.clip
        horizon = HORIZON if self.horizon is None else self.horizon
        rate = 1.0 if self.sampling_rate is None else self.sampling_rate
        # After T steps the noise in all weights together has norm step/(1 - momentum)·√(T·p)·C/(μ_t·n·rate) = horizon.
        per_clip = rule.effective_mu(step_mu, target) * shape.n * rate
        step_size = horizon * (1 - rule.MOMENTUM) * per_clip / (clip * math.sqrt(steps * layout.size))
        settings = Training(
            components=layout.inputs,
            hidden=layout.hidden,
            classes=layout.classes,
            steps=int(steps),
            step_size=float(step_size),
            step_mu=float(step_mu),
            clip=float(clip),
            horizon=float(horizon),
            momentum=rule.MOMENTUM,
            sampling_rate=self.sampling_rate,
            given=["rule" if value is None else value for value in (self.components, self.steps, self.clip, self.horizon)],
        )
        rows = {"centred_rows": self.centred_rows, "length": LENGTH, "intercept": problem.data.intercept}
        stages = (Stage("directions", Gaussian(first), rows), Stage("descent", event, settings))
        return Plan(self.name, options_of(self), stages, target, shape, parameters=layout.size)

    def _event(self, target: Target, mu: float, first: float, steps: int) -> tuple[Event, float]:
        if self.sampling_rate is not None:
            return sampled_event(self.sampling_rate, steps, target, Gaussian(first))
        step_mu = mu * math.sqrt((1 - DIRECTIONS_SHARE) / steps) * (1 - 1e-12)
        return Gaussian(step_mu, steps), step_mu

    def layout(self, plan: Plan) -> Layout:
        settings = plan.settings("descent", Training)
        return Layout(settings.components, settings.hidden, settings.classes)

    def inputs(self, problem: Problem, released: Mapping[str, ArrayLike]) -> Inputs:
        """The map from encoded rows to what the network sees."""
        rows = RowMap(self.centred_rows, problem.data.x_norm)
        return Inputs(rows, np.asarray(released["directions"], dtype=np.float32), LENGTH)

    # -- the run -----------------------------------------------------------------------------------------------------

    def program(self, plan: Plan, problem: Problem) -> Program:
        layout, settings, d = self.layout(plan), plan.settings("descent", Training), plan.shape.d
        moments = SecondMoments(RowMap(self.centred_rows, problem.data.x_norm))  # what the network sees of them is published
        noisy = yield from unrecorded("directions", moments, plan.stages[0].event.gdp(), (d * (d + 1) // 2,))

        def seen() -> np.ndarray:
            return directions(smat(noisy, d), layout.inputs, plan.shape.n, self.centred_rows)

        released = {"directions": (yield Publish("directions", seen))}
        if np.shape(released["directions"]) != (d, layout.inputs) or not np.isfinite(np.asarray(released["directions"])).all():
            raise ValueError("the released directions do not have the shape that the plan says, or are not finite")
        yield Decide({"released": rule.digest(released)})
        inputs = self.inputs(problem, released)
        w = yield Draw(layout.start, (layout.size,))
        velocity, kept, steps = np.zeros_like(w), np.zeros_like(w), settings.steps
        rate = self.sampling_rate
        yield Open("descent", sums=steps, sampling_rate=rate)
        for step in range(steps):
            term = NetworkGradient(inputs, layout, w, settings.clip)
            gradient = yield Sum("descent", term, mu=settings.step_mu, shape=w.shape)
            velocity = rule.MOMENTUM * velocity + gradient / (plan.shape.n * (1.0 if rate is None else rate))
            w = w - settings.step_size * velocity
            if step >= 3 * steps // 4:
                kept += w
        yield Close("descent")
        return np.asarray(kept / (steps - 3 * steps // 4))


def directions(moments: np.ndarray, count: int, n: int, centred: bool) -> np.ndarray:
    """The largest eigenvectors of the noisy moments, weak ones raised by eigenvalue^(-1/4); rows have length 4 on average."""
    values, vectors = np.linalg.eigh(moments)
    values, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
    top = max(float(values[0]), 1e-12)
    scaled = vectors * np.maximum(values / top, 1e-4) ** -EIGENVALUE_POWER
    if not centred:
        energy = float(np.sum(np.maximum(values, 0.0) * np.maximum(values / top, 1e-4) ** (-2 * EIGENVALUE_POWER))) / n
        scaled = scaled * (LENGTH / math.sqrt(max(energy, 1e-6)))
    return np.asarray(scaled)
