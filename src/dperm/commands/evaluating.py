"""`dperm evaluate`: scores of a released model on private rows, paid for."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from dperm.commands.shared import JSON_OPTION, show


def evaluate(
    model: Path = typer.Argument(..., help="model.json of a fit, or the folder that the fit wrote."),
    file: Path = typer.Argument(..., help="CSV or Parquet file with held-out rows, the target included."),
    epsilon: float = typer.Option(..., help="Privacy budget of the evaluation, for the held-out rows."),
    delta: float | None = typer.Option(None, help="Default min(1e-6, 0.1/n)."),
    relation: str = typer.Option("replace-one", help="replace-one, zero-out or add-remove."),
    nominal_n: int | None = typer.Option(None, help="Public nominal number of rows, for add-remove."),
    bins: int = typer.Option(20, help="Probability bins of the histogram behind AUC and calibration."),
    level: float = typer.Option(0.95, help="Level of the intervals."),
    ledger: Path | None = typer.Option(None, envvar="DPERM_LEDGER", help="Budget ledger of the held-out data set."),
    random_state: int | None = typer.Option(None, help="Reproducible noise: NOT private, for tests only."),
    out: Path | None = typer.Option(None, help="Write the whole record here (evaluation.json), for `dperm verify`."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace an evaluation that is there already."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Accuracy, AUC and calibration, or R², of a released model on private rows, as booked queries with intervals.

    A plain score on private rows would leak them; this one is differentially private by itself. Use rows that the fit did not
    see, or one ledger for both.

    Example: dperm evaluate model/model.json held-out.csv --epsilon 0.5
    """
    from dperm.evaluation import evaluate as evaluated
    from dperm.ledger import Ledger
    from dperm.model_file import check_room, load_model, write_whole
    from dperm.tables import read_table

    fitted = load_model(model)
    if out is not None:
        check_room(out.parent, [out.name], overwrite=overwrite)
    if ledger is not None:
        _check_first(fitted, file, ledger, epsilon, delta, relation, nominal_n, bins)
    found = evaluated(
        fitted,
        read_table(file),
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        nominal_n=nominal_n,
        bins=bins,
        level=level,
        random_state=random_state,
        ledger=None if ledger is None else Ledger(ledger, data=file),
    )
    if out is not None:
        write_whole(out.parent, {out.name: json.dumps(found.record, indent=1, allow_nan=False)})
    if as_json:
        show({"epsilon": epsilon, "statement": found.record["statement"], "metrics": dict(found.metrics)}, True)
        return
    lines = {}
    for name, score in found.metrics.items():
        if isinstance(score, dict) and "value" in score:
            lines[name] = f"{score['value']:.4f}   {level:.0%} interval {score['low']:.4f} … {score['high']:.4f}"
    for row in found.metrics.get("calibration", []):
        lines[f"predicted {row['predicted']:.3f}"] = f"observed {row['observed']:.3f}  ({row['low']:.3f} … {row['high']:.3f})"
    show({**lines, "privacy": found.record["statement"]}, False)


def _check_first(fitted, file, ledger, epsilon, delta, relation, nominal_n, bins) -> None:  # type: ignore[no-untyped-def]
    """The refusal that needs no data comes before the file is opened."""
    from dperm.commands.planning import row_count
    from dperm.evaluation import kind_of, plan_evaluation
    from dperm.ledger import Ledger
    from dperm.mechanisms.base import Shape, Target

    n = nominal_n if nominal_n is not None else row_count(file)
    target = Target.declare(epsilon=epsilon, delta=delta, relation=relation, n=n)
    Ledger(ledger).check(plan_evaluation(kind_of(fitted), Shape(n, fitted._encoding.d), target, bins=bins))
