"""What the scaled methods have in common: declared columns, missing cells, an edition of the rule, a bound on weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dperm.mechanisms.conditions import check_options
from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled.aims import check_aim
from dperm.mechanisms.scaled.centre import EDITION, check_edition
from dperm.mechanisms.scaled.gaps import check_gaps, gaps_in_words
from dperm.mechanisms.scaled.noise_ratio import noise_warning
from dperm.privacy import Gaussian
from dperm.problem import Problem
from dperm.problem.plain import shown
from dperm.release.plan import Mechanism, Plan, Settings, Shape, Stage, Target, options_of
from dperm.tables.encoding import KINDS

NUMBERS = ("clip_factor", "horizon", "max_weight")
STARTS = {"start": ("zero", "rate")}
NOTHING: Settings = {}


class ScaledMethod:
    """Base of the mechanisms that centre and scale columns of declared kinds; the fields are those of the mechanism."""

    kinds: tuple[str, ...]
    gaps: tuple[int, ...]
    edition: int = EDITION
    max_weight: float | None = None
    wary: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.kinds, Iterable):
            raise ValueError(f"Expected kinds= as one of {KINDS} per column, found {shown(self.kinds)}. Pass a list of words.")
        object.__setattr__(self, "kinds", tuple(self.kinds))
        for kind in self.kinds:
            if kind not in KINDS:
                raise ValueError(f"Expected kinds in {KINDS}, found {kind!r}. Declare what each column is.")
        object.__setattr__(self, "gaps", check_gaps(self.gaps))
        words = STARTS if hasattr(self, "start") else {}
        check_options(self, among=words, positive=[label for label in NUMBERS if hasattr(self, label)])
        if not isinstance(self.wary, bool):
            raise ValueError(f"Expected wary=True or False, found {shown(self.wary)}. Pass one of them.")
        object.__setattr__(self, "wary", self.wary and "private" in self.kinds)
        check_edition(self.edition)
        if hasattr(self, "aim"):
            check_aim(self.aim)

    @property
    def heaviest(self) -> float:
        """No row counts for more."""
        return 1.0 if self.max_weight is None else self.max_weight

    def column_kinds(self, shape: Shape) -> tuple[str, ...]:
        """The declared kinds, one per column; all "free" when none were declared."""
        if not self.kinds:
            return ("free",) * shape.d
        if len(self.kinds) != shape.d:
            raise ValueError(f"Expected one kind per column ({shape.d}), found {len(self.kinds)}. Correct kinds=.")
        return self.kinds

    def public(self, plan: Plan, problem: Problem) -> rule.Public:
        """What the rule knows of a planned fit before its releases."""
        shape, budget = plan.shape, rule.budget_of(plan)
        return rule.Public(problem, shape, plan.target, self.column_kinds(shape), budget, self.gaps, self.wary)

    def stated(self, shape: Shape, own: Settings, first: Settings = NOTHING, last: Settings = NOTHING) -> Settings:
        """What a plan says of the columns and weights, beside the mechanism's own words; some come first, some behind."""
        return {
            "columns": rule.kinds_in_words(self.column_kinds(shape)),
            "declared_kinds": len(self.kinds),
            **first,
            **{label: getattr(self, label) or "rule" for label in NUMBERS[:2] if hasattr(self, label)},
            **own,
            "max_weight": "none" if self.max_weight is None else self.max_weight,
            "momentum": rule.MOMENTUM,
            **last,
            **gaps_in_words(self.gaps, shape),
        }


def in_stages(
    mechanism: Mechanism, problem: Problem, shape: Shape, target: Target, budget: Mapping[str, float],
    settings: Mapping[str, Settings], *, parameters: int | None = None, notes: tuple[str, ...] = (),
) -> Plan:  # fmt: skip
    """The plan whose stages are Gaussian, with their settings, and a warning where its noise leaves little to learn."""
    stages = tuple(Stage(name, Gaussian(mu), settings.get(name, {})) for name, mu in budget.items())
    warned = noise_warning(problem, shape, target)
    return Plan(mechanism.name, options_of(mechanism), stages, target, shape, (), warned, parameters, notes=notes)
