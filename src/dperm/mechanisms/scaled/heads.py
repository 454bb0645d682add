"""Classes from wide tables: private centring as in `scaled-gradient`, then descent in whitened coordinates as in `heads`.

    m, r: centre and radius of the rows (released);   x' = (x - m)·min(1, r/‖x - m‖);   A = Σ x'x'ᵀ/r² + noise = V diag(λ) Vᵀ
    u = T·(x - m)/r,  T = V diag(√(f/max(λ, f))) Vᵀ;   s = Σ min(‖u‖², 1) + noise;   clipped heavy ball on (u, c)

**Theorem.** Centre and radius are those of `scaled-gradient`. A has sensitivity 1 (√2 for a replaced row), because x'/r is in the
unit ball; s has 1, a gradient sum κC by its clip. What later stages do follows from public numbers and earlier releases, so that
the whole is √(Σμ_k²) = μ(ε, δ)-GDP. The margin is linear in x: only A sees rows cut to r. Margins are then multiplied by a public
constant, because noise and the clip make them too large for probabilities. `docs/theorems/scaled-heads.md`.

In the `wide` form the columns are scaled first, as those of `scaled-gradient` are: x - m becomes (x - m)/v, with v² from squares
in three steps, and r the size of such rows. Then only directions that stand out of the noise of A are drawn in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dperm.mechanisms import heads as heads_rule
from dperm.mechanisms.conditions import unmet
from dperm.mechanisms.scaled import coordinates, scaling, settling
from dperm.mechanisms.scaled import gaps as gaps_rule
from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled.centre import reach
from dperm.mechanisms.scaled.gradient import centred_releases, scaling_needs, squares_in_steps
from dperm.mechanisms.scaled.method import ScaledMethod, in_stages
from dperm.mechanisms.scaled.stages import RELEASES, SQUARES
from dperm.privacy import gaussian_mu
from dperm.problem import Problem
from dperm.release.asks import Decide, Program, See, Sum, unrecorded
from dperm.release.noise import gaussian_scale
from dperm.release.plan import Plan, Settings, Shape, Target, Vector, register
from dperm.terms.affine import Features
from dperm.terms.heads import MeanSquare, Turning
from dperm.terms.mixing import MOST_COLUMNS
from dperm.terms.moments import CentredMoments

MOMENTS_SHARE = 0.1  # of μ²
# Of scaled columns: what they need is to draw in the few directions that stand far out.
WIDE_SHARE, WIDE_FLOOR, WIDE_HORIZON = 0.01, 1.0, 1.5
ROOM = 2.0  # a direction that noise hides may have up to the floor more, and the intercept's column as much
MOST = MOST_COLUMNS  # as many as rows can be turned by
KINDS = ("numeric", "free", "boolean", "sparse")  # one-hot groups have directions that no row can tell
LOSSES = ("logistic", "multinomial")
MODERATION = {"logistic": 0.6, "multinomial": 0.85}


@register
@dataclass(frozen=True)
class ScaledHeads(ScaledMethod):
    """Softmax on wide tables, whose columns are correlated.

    **Guarantee**: μ(ε, δ)-GDP in stages, for the target's relation. The domain, if bounded, is enforced by projecting the answer.

    Parameters
    ----------
    kinds : tuple of str
        "numeric", "boolean", "sparse" or "free" per encoded column; all "free" if left out.
    steps : int or None
        Steps of the descent; 400 if left out.
    clip : float or None
        Clip of a row's gradient, in units of the root mean square row.
    horizon : float or None
        Cτ/(μn), about the standard deviation of a margin's noise.
    gaps : tuple of int
        Columns whose missing cells take the released centre. Their present cells are counted.
    moderation : float or None
        What margins are multiplied by in the end; 0.6 for two classes and 0.85 for more if left out. No class changes by it.
    wide : bool
        Columns are scaled first, by squares released in three steps, and only directions that stand out of the noise of the
        moments are drawn in: for tables of many columns under little noise. False, as in versions up to 0.7.0, leaves columns as
        they were declared and draws in as many directions as it can.

    Examples
    --------
    >>> ScaledHeads().name
    'scaled-heads'
    """

    kinds: tuple[str, ...] = ()
    steps: int | None = None
    clip: float | None = None
    horizon: float | None = None
    gaps: tuple[int, ...] = ()
    moderation: float | None = None
    wide: bool = False

    name: ClassVar[str] = "scaled-heads"
    UNSTATED: ClassVar[Mapping[str, object]] = {"moderation": 1.0, "wide": False}  # version 0.4.0 had neither

    def __post_init__(self) -> None:
        super().__post_init__()
        heads_rule.check_descent(self, self.steps)
        if self.moderation is not None and not 0 < self.moderation <= 1:
            raise ValueError(f"Expected 0 < moderation <= 1, found {self.moderation}. Leave it out to take the rule's.")

    def missing(self, problem: Problem, target: Target) -> list[str]:
        return scaling_needs(problem, target) + unmet({
            f"classes, with the logistic or multinomial loss (found {problem.loss.name!r})": problem.loss.name not in LOSSES,
            "no regularizer (the flow time regularizes)": problem.regularizer.name != "none",
            "columns that are numbers with declared bounds or flags (no levels, no private bounds)":
                any(kind not in KINDS for kind in self.kinds),
        })

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        if shape.d > MOST_COLUMNS:
            raise ValueError(
                f"Expected at most {MOST_COLUMNS:,} columns for {self.name!r}, found {shape.d:,}. Use EmbeddingClassifier."
            )
        budget = self._shares(problem, shape, target)
        whole = gaussian_mu(target.epsilon, target.delta) ** 2
        public: dict[str, dict[str, object]] = {
            name: {"releases": RELEASES[name], "share": mu * mu / whole} for name, mu in budget.items()
        }
        unit = CentredMoments(Features(), 1.0).sensitivity(target.relation) * target.rows_per_person
        noise = gaussian_scale(unit, budget["moments"])
        part = WIDE_FLOOR if self.wide else heads_rule.FLOOR
        public["moments"] |= {"noise": noise, "floor": heads_rule.floor_of(noise, shape.d, part)}
        public["size"] |= {"noise": gaussian_scale(target.rows_per_person, budget["size"])}
        usual = WIDE_HORIZON if self.wide else heads_rule.HORIZON
        public["descent"] |= heads_rule.public_settings(self.steps, self.clip, self.horizon, usual)
        public["descent"] |= {
            "columns": rule.kinds_in_words(self.column_kinds(shape)),
            "declared_kinds": len(self.kinds),
            **({} if self.moderation == 1.0 else {"moderation": self._moderation(problem)}),
            **gaps_rule.gaps_in_words(self.gaps, shape),
        }
        return in_stages(self, problem, shape, target, budget, public)

    def _shares(self, problem: Problem, shape: Shape, target: Target) -> dict[str, float]:
        """Stage name → μ of its event, in order."""
        kinds, steps = self.column_kinds(shape), len(SQUARES) if self.wide else 1
        names = rule.statistics(problem, kinds, positives=False, gaps=self.gaps, edition=self.edition, squares=steps)
        names = [name for name in names if name not in (("positives",) if self.wide else ("squares", "positives"))]
        parts = rule.parts_of(names, shape, target)
        parts |= {"moments": WIDE_SHARE if self.wide else MOMENTS_SHARE, "size": heads_rule.SIZE_SHARE}
        return rule.budget([*names, "moments", "size", "descent"], parts, target)

    def program(self, plan: Plan, problem: Problem) -> Program:
        shape, public = plan.shape, self.public(plan, problem)
        released, centred, radius = yield from centred_releases(public)
        shift = np.zeros(shape.d) if centred.shift is None else centred.shift
        if self.wide:
            yield from squares_in_steps(public, released, centred, radius)
            scaled: Settings = scaling.centred_and_scaled(public, released)
            radius, centred = scaled["size"], Features(shift=shift, scale=np.asarray(scaled["scale"]))
        else:
            scaled = self._centred(public, shift, radius, released)
        scale = (1.0 if centred.scale is None else centred.scale) / np.full(shape.d, radius)
        moments = plan.stage("moments")
        places = (shape.d * (shape.d + 1) // 2,)  # so many, and no stated decision follows from them
        noisy = yield from unrecorded("moments", CentredMoments(centred, radius), moments.event.gdp(), places)
        turn = yield See(Turning(noisy, shift, scale, radius, moments.settings["floor"]))
        del noisy
        released["size"] = yield Sum("size", MeanSquare())
        settings = self._descent(plan, released["size"])
        constant = math.sqrt(heads_rule.largest_moment(plan, settings["mean_square"])) if problem.data.intercept else 0.0
        mean_radius = {"mean_radius": scaling.mean_radius(public, released)}
        yield Decide({**settings, **scaled, **mean_radius, "constant": constant, "released": rule.digest(released)})
        width = shape.d + (1 if constant else 0)
        theta = np.zeros((problem.loss.margins, width) if problem.loss.margins > 1 else width)
        theta = yield from heads_rule.descended(plan, problem, settings, Features(constant), theta)
        theta = theta * np.append(np.ones(shape.d), [constant] if constant else [])
        theta = np.concatenate([theta[..., : shape.d] @ turn, theta[..., shape.d :]], axis=-1)
        theta = theta * self._moderation(problem)
        w = coordinates.original_coefficients(theta, {"scale": scale, "shift": shift}, problem.data.intercept)
        return np.asarray(problem.domain.project(w.reshape(-1)))

    def _moderation(self, problem: Problem) -> float:
        return MODERATION[problem.loss.name] if self.moderation is None else float(self.moderation)

    def _descent(self, plan: Plan, size: Vector) -> Settings:
        """Clip, step size and flow time; in the wide form as much momentum as the steps need for that time."""
        if not self.wide:
            return heads_rule.descent_settings(plan, size)
        settings, steps = heads_rule.descent_settings(plan, size, ROOM), plan.stage("descent").settings["steps"]
        return settling.without_cap({**settings, "steps": steps})

    def _centred(self, public: rule.Public, shift: Vector, radius: float, released: Mapping[str, Any]) -> Settings:
        """Centre, radii and what missing cells become, for the record and for encoding new rows."""
        return {
            "shift": shift,
            "centred_radius": radius,
            **({"mean_reach": reach(public.problem, public.shape, released)} if "rough mean" in released else {}),
            **({"fill": gaps_rule.filling(public.shape, self.gaps, shift)} if "present" in released else {}),
        }
