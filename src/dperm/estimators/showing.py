"""How an estimator shows itself: the report on disk, the table of coefficients, and the box that a notebook draws."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sklearn import get_config
from sklearn.utils.validation import check_is_fitted

from dperm.estimators.declaration import Budgeted, before_rows, declared_unit
from dperm.inference.intervals import summary
from dperm.inference.summary import reach
from dperm.inference.table import Estimates, estimates, facts_of
from dperm.pages.page import write_report
from dperm.release.plan import Plan
from dperm.walk.certificate import Certificate
from dperm.words.display import box, budget_chips
from dperm.words.wording import printable

if TYPE_CHECKING:
    from dperm.estimators.base import PrivateEstimator
    from dperm.inference.summary import Summary


class Shown(Budgeted):
    """`plan()`, `report()` and the displays; before `BaseEstimator` in the order of bases, whose diagram it keeps."""

    def plan(self, n: int, d: int | None = None) -> Plan:
        """The plan that `fit` makes for n rows of the schema's columns, or of d columns; nothing is read or spent.

        Of a SciPy matrix, whose columns are not centred, a fit has another bound on the rows where bounds are not symmetric, and
        no curves: its `plan_` says them.
        """
        return before_rows(self, n, d).plan()

    def report(
        self, path: str | Path = "report.html", *, title: str | None = None, data: str | None = None, evaluation: object = None
    ) -> Path:
        """Write the page about this fit, as `dperm fit` does; a name that ends in .md gives Markdown.

        `data` names the data set, `evaluation` is what `dperm.evaluate` returned. The page holds nothing that is not in the model
        and the evaluation, and may be shared like them.
        """
        check_is_fitted(self, "certificate_")
        claim = self.certificate_
        if claim is None:
            raise ValueError("Expected a model with its certificate, found none. Load it from the folder that the fit wrote.")
        if not isinstance(claim, Certificate):
            raise ValueError("Expected the model of one fit for a report, found the best of a search. Its certificate is JSON.")
        return write_report(self, path, title=title, data=data, evaluation=evaluation)

    def _privacy_box(self) -> str:
        name, claim = type(self).__name__, getattr(self, "certificate_", None)
        if claim is None:
            chips = budget_chips(self.epsilon, self.delta, self.relation, declared_unit(self))
            state = "fitted, without its certificate" if hasattr(self, "w_") else "not fitted: nothing is spent yet"
            return box(name, state, chips=chips)
        state, mood = claim.state()
        return box(name, f"fitted by {claim.made_by}; certificate {state}", mood=mood, chips=claim.chips, note=claim.statement)

    def _repr_html_inner(self) -> str:
        diagram = str(super()._repr_html_inner())  # scikit-learn escapes marks of HTML in names, but none that turn text around
        return self._privacy_box() + printable(diagram, keep="\n\t")

    def _repr_mimebundle_(self, **options: object) -> dict[str, str]:
        output = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            output["text/html"] = self._repr_html_inner()
        return output


def coefficient_summary(model: PrivateEstimator, level: float, *, exponentiate: bool = False) -> Summary | Estimates:
    """With intervals where the fit has them, without where it has none; the note then says why."""
    reach(level)  # refuses what is no level
    level = float(level)
    if not hasattr(model, "coef_"):
        advice = "plot() for its curves, shapes_ for their numbers, or report()" if hasattr(model, "curves_") else "report()"
        raise ValueError(
            f"Expected a model with one coefficient per column for a summary, found {type(model).__name__}. Use {advice}."
        )
    try:
        found: Summary | Estimates = summary(model, level, exponentiate=exponentiate)
    except ValueError as error:
        if exponentiate:
            raise
        _, colon, why = str(error).partition(": ")  # of a page that is wanted, not of an error
        found = estimates(model, f"No intervals. {why[:1].upper()}{why[1:]}" if colon else f"No intervals. {error}")
    facts = () if model.certificate_ is None else facts_of(model)
    return replace(found, title=type(model).__name__, facts=facts)
