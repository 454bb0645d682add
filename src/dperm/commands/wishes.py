"""What a fit is asked for on the command line, as an estimator: of a schema, or of what stands in for one that is still to be
found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dperm.commands.declaring import class_weights, loss_of, made
from dperm.words.spelling import closest

if TYPE_CHECKING:
    from dperm.estimators.base import PrivateEstimator
    from dperm.tables.column import Column, TargetColumn
    from dperm.tables.schema import Schema

COUNTS = "PoissonRegressor"


@dataclass(frozen=True)
class Wish:
    """A model with its options, before anything is known of its columns.

    model           a name or a short word; None leaves it to the type of the target
    class_weight    words like "yes=5"
    given           the other options, by the names of the estimator's parameters
    """

    model: str | None
    intervals: bool
    class_weight: Sequence[str]
    given: Mapping[str, object]

    def estimator(self, schema: Schema, **changed: object) -> PrivateEstimator:
        """The estimator for a schema's columns and target; what it does not have is refused by its name on the command line."""
        from dperm.estimators.declared import asked_intervals

        if schema.target is None:
            raise ValueError('Expected a target, found none. Pass --target or add "target" to the schema.')
        kind = estimator_for(self.model, schema.target)
        options = {**self.given, **changed, **asked_intervals(kind, self.intervals)}
        weights = class_weights(self.class_weight, schema.target.classes)
        return made(kind, **options, schema=schema, loss=loss_of(kind, schema.target.type), class_weight=weights)

    def possible(
        self, stands_in: Callable[[str], Schema], planned: Callable[[PrivateEstimator], object], kind: str | None = None
    ) -> dict[str, PrivateEstimator]:
        """The types that the target may turn out to have (`kind` alone where a draft says it), each with the estimator that was
        `planned` on a schema that stands in for the one to be found.

        A type is out where the model or an option cannot have it, so that `--model poisson` asks for a count. Where none is left,
        the refusal that the fit would end with is raised now, before anything is spent. What is left of a budget says nothing
        about a target: `planned` must not look at a ledger.
        """
        model = model_named(self.model)
        types = [kind] if kind is not None else ["classes", "numeric"] if model is None else [self._type(model)]
        found: dict[str, PrivateEstimator] = {}
        refused: list[ValueError] = []
        for word in types:
            try:
                estimator = self.estimator(stands_in(word))
                planned(estimator)
                found[word] = estimator
            except ValueError as error:
                refused.append(error)
        if not found:
            raise refused[0]
        return found

    def by_default(self) -> Wish:
        """The same spending on the model that the target's type decides, by the method that `auto` finds."""
        return Wish(None, False, [], {**self.given, "method": "auto", "max_exposure": None})

    def _type(self, kind: type[PrivateEstimator]) -> str:
        from sklearn.base import ClassifierMixin

        return "classes" if issubclass(kind, ClassifierMixin) else "count" if kind.__name__ == COUNTS else "numeric"

    def target(self, column: str, kind: str) -> TargetColumn:
        """A target that stands in for one of this type; the classes that weights speak of are among its classes."""
        from dperm.tables.column import TargetColumn

        if kind != "classes":
            return TargetColumn(column, kind, None, 0.0, 1.0)
        if bad := [word for word in self.class_weight if not word.rpartition("=")[0]]:
            class_weights(bad, None)  # refuses them
        named = list(dict.fromkeys(word.rpartition("=")[0] for word in self.class_weight))
        others = [name for name in ("one class", "another class") if name not in named]
        return TargetColumn(column, "classes", tuple([*others[: max(2 - len(named), 0)], *named]))


def known_levels(column: Column) -> Column:
    """The column with levels and bounds that stand in for those to be found: a profile finds both."""
    from dperm.tables.column import OWN_LEVEL, Column

    if column.type == "private":
        return Column(column.name, "numeric", 0.0, 1.0)
    if column.bounds is not None:
        return replace(column, bounds=None, low=0.0, high=1.0)
    if not column.private_levels:
        return column
    named = [] if column.missing in (None, OWN_LEVEL) else [str(column.missing)]
    return replace(column, private_levels=False, levels=(*named, "one level", "another level"))


def model_named(name: str | None) -> type[PrivateEstimator] | None:
    """The estimator class of a name or short word; None where the target decides, by no name or by "gam"."""
    import dperm.estimators as estimators
    from dperm.estimators.outlook import MODEL_WORDS

    if name is None or name.lower() == "gam":
        return None
    known, full = with_schemas(), MODEL_WORDS.get(name.lower(), name)
    if full not in known:
        short = [word for word, label in MODEL_WORDS.items() if label in known]
        hint = f" {full} is for Python: it reads no schema." if full in estimators.__all__ else closest(full, [*short, *known])
        raise ValueError(f"Expected a model in {', '.join(short)}, or in full {', '.join(known)}, found {full!r}.{hint}")
    return known[full]


def with_schemas() -> dict[str, type[PrivateEstimator]]:
    """Estimators that read a schema and have a JSON form, by name; the others are for Python."""
    import dperm.estimators as estimators
    from dperm.estimators.base import PrivateEstimator

    found = {label: getattr(estimators, label) for label in estimators.__all__}
    return {label: kind for label, kind in found.items() if issubclass(kind, PrivateEstimator) and kind.reads_schema}


def estimator_for(name: str | None, target: TargetColumn) -> type[PrivateEstimator]:
    """The estimator class by name, or by the type of the target."""
    from sklearn.base import ClassifierMixin

    kind, known, classes = model_named(name), with_schemas(), target.type == "classes"
    if kind is None and name is not None:  # one word for both additive models
        kind = known["GAMClassifier" if classes else "GAMRegressor"]
    if kind is None:
        kind = known[{"classes": "LogisticRegression", "numeric": "LinearRegression", "count": COUNTS}[target.type]]
    if issubclass(kind, ClassifierMixin) != classes:
        fitting = [label for label, other in known.items() if issubclass(other, ClassifierMixin) == classes]
        has = "has classes" if classes else f"is {target.type}"
        raise ValueError(
            f"Expected a model for the target {target.column!r}, which {has}, found {kind.__name__}. Pass --model with one of "
            f"{', '.join(fitting)}, or leave it out."
        )
    return kind
