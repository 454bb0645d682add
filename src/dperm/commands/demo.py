"""`dperm demo`: a private logistic regression of the Adult census data, next to the non-private one."""

from __future__ import annotations

import time
from pathlib import Path

import typer

from dperm.commands.shared import JSON_OPTION, save_model, say, show, summary, verbosity
from dperm.tables.json_files import check_room


def demo(
    epsilon: float = typer.Option(1.0, help="Privacy budget."),
    out: Path = typer.Option(Path("dperm-demo"), help="Folder for model.json, certificate.json and report.html."),
    ledger: Path | None = typer.Option(None, help="Budget ledger to debit, to see one at work."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Fit a private model on the embedded Adult data and show it beside the non-private one.

    Its free scores are possible only because Adult is public; on private data use `dperm evaluate`, which pays for them.

    Example: dperm demo --epsilon 0.5 --out my-demo
    """
    import numpy as np
    from sklearn.linear_model import LogisticRegression as NonPrivate

    import dperm
    from dperm.data import adult, adult_schema
    from dperm.tables.tables import cells

    check_room(out, [], overwrite=True)
    schema, train, test = adult_schema(), adult("train"), adult("test")
    if not as_json:
        say(f"Adult census income: {train.num_rows:,} training rows, {test.num_rows:,} test rows")
    started = time.perf_counter()
    model = dperm.LogisticRegression(epsilon=epsilon, schema=schema, ledger=ledger, verbose=verbosity(as_json)).fit(train)
    private_seconds = time.perf_counter() - started
    truth = schema.labels(cells(test, "income"))
    encoding = schema.encoding()

    def encoded(table: object) -> np.ndarray:
        named = {c.name: cells(table, c.name) for c in schema.columns}
        return np.asarray(encoding.transform(schema.features(named)))

    labels = schema.labels(cells(train, "income")).astype(str)
    plain = NonPrivate(C=10.0, max_iter=2000).fit(encoded(train), labels)
    scores = {
        "accuracy, private": f"{np.mean(model.predict(test) == truth):.4f}",
        "accuracy, non-private": f"{np.mean(plain.predict(encoded(test)) == truth.astype(str)):.4f}",
        "accuracy of always '<=50K'": f"{np.mean(truth == '<=50K'):.4f}",
    }
    report = save_model(model, out, scores)
    verdict = model.certificate_.verify()
    lines = {**scores, **summary(model), "fit seconds": f"{private_seconds:.2f}"}
    lines["certificate"] = "verified" if verdict.ok else "; ".join(verdict.reasons)
    lines["note"] = "these scores are free only because Adult is public; on private rows `dperm evaluate` pays for them"
    show({**lines, "report": str(report.resolve())}, as_json)
    if not verdict.ok:
        raise typer.Exit(1)
