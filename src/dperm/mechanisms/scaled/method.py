"""What the scaled methods have in common: declared columns, missing cells, an edition of the rule, a bound on weights."""

from __future__ import annotations

from dperm.mechanisms.conditions import check_options
from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled.centre import check_edition
from dperm.mechanisms.scaled.gaps import check_gaps, gaps_in_words
from dperm.release.plan import Settings, Shape

NUMBERS = ("clip_factor", "horizon", "max_weight")


class ScaledMethod:
    """Base of the mechanisms that centre and scale columns of declared kinds; the fields are those of the mechanism."""

    kinds: tuple[str, ...]
    gaps: tuple[int, ...]
    edition: int
    max_weight: float | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(self.kinds))
        rule.check_kinds(self.kinds)
        object.__setattr__(self, "gaps", check_gaps(self.gaps))
        check_edition(self.edition)
        check_options(self, positive=[label for label in NUMBERS if hasattr(self, label)])

    @property
    def heaviest(self) -> float:
        """No row counts for more."""
        return 1.0 if self.max_weight is None else self.max_weight

    def column_kinds(self, shape: Shape) -> tuple[str, ...]:
        """The declared kinds, one per column; all "free" when none were declared."""
        return rule.column_kinds(self.kinds, shape)

    def stated(self, shape: Shape, own: Settings) -> Settings:
        """What a plan says of the columns and weights, beside the mechanism's own words."""
        return {
            "columns": rule.kinds_in_words(self.column_kinds(shape)),
            "declared_kinds": len(self.kinds),
            **{label: getattr(self, label) or "rule" for label in NUMBERS[:2] if hasattr(self, label)},
            **own,
            "max_weight": "none" if self.max_weight is None else self.max_weight,
            "momentum": rule.MOMENTUM,
            **gaps_in_words(self.gaps, shape),
        }
