"""What a report says: a function of the certificate and of extras that are public or paid for. No row is ever looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dperm.choose.odds import odds, odds_sentence, percent
from dperm.choose.risks import alternatives
from dperm.mechanisms.scaled.additive import Additive
from dperm.mechanisms.scaled.smoothness import shape_values
from dperm.problem import Problem
from dperm.release.plan import MECHANISMS
from dperm.report.document import Bars, Block, Code, Curve, Section, Steps, Table, Text
from dperm.terms.additive import CELLS
from dperm.walk.certificate import Certificate
from dperm.walk.fitting import rebuilt_plan

MOST_BARS = 25
REFERENCES = (
    ("Differential privacy", "Dwork, McSherry, Nissim and Smith, Calibrating noise to sensitivity, 2006"),
    ("Gaussian differential privacy", "Dong, Roth and Su, Gaussian differential privacy, 2022"),
    ("The exact Gaussian mechanism", "Balle and Wang, Improving the Gaussian mechanism, 2018"),
    ("Private empirical risk minimisation", "Chaudhuri, Monteleoni and Sarwate, 2011; Bassily, Smith and Thakurta, 2014"),
    ("Objective perturbation today", "Redberg, Koskela and Wang, The privacy and practicality of objective perturbation, 2023"),
)


def sections(
    certificate: Certificate,
    *,
    scores: Mapping[str, str] | None = None,
    table: Any = None,
    no_table: str = "",
    evaluation: Mapping[str, Any] | None = None,
) -> list[Section]:
    """The whole report. `table` is a `Summary` with intervals, or `no_table` says why there is none."""
    record = certificate.record
    return [
        Section("", _opening(certificate)),
        Section(f"What this means for one {'person' if certificate.unit == 'person' else 'record'}", _person(certificate)),
        Section("The guarantee", [_facts(certificate)]),
        Section("How good is it?", _quality(scores or {}, evaluation)),
        Section("Coefficients", _coefficients(record, table, no_table)),
        Section("What was done, and what else could have been", _plan(certificate)),
        Section("What is not on this page", [Text(_ABSENT)]),
        Section("Certificate", [Text(_CHECK), Code(certificate.to_json(), "The whole record")]),
        Section("References", [Table(("", ""), REFERENCES)]),
    ]


_CHECK = (
    "Anyone can check the claim without the data: `dperm verify certificate.json` computes every number below again. A pass "
    "shows that the claim is consistent; it cannot show that the run took place."
)
_ABSENT = (
    "Residuals, scatter plots, histograms of the data and scores on the training rows are absent on purpose: each of them is a "
    "function of private rows that nobody paid for, and would break the guarantee above. `dperm evaluate` buys scores on "
    "held-out rows; their plots then appear here."
)


def _opening(certificate: Certificate) -> list[Block]:
    blocks: list[Block] = [Text(certificate.statement, "say")]
    if certificate.noise == "seeded":
        blocks.append(Text("NOT PRIVATE. The noise was seeded: whoever knows the seed can take it away. For tests only.", "warn"))
    count = len(certificate.record["coefficients"]["encoded"])
    what = f"{count} coefficients" if count > 1 else "one number"
    values = certificate.record["released"]
    more = f", and on the way the values named {', '.join(values)}" if values else ""
    blocks.append(Text(f"Released: {what}{more}. Everything else on this page is computed from them, or was public before."))
    return blocks


def _person(certificate: Certificate) -> list[Block]:
    rows = [
        (percent(row["before"]), f"{percent(row['after_at_least'])} … {percent(row['after_at_most'])}")
        for row in odds(certificate.epsilon)["beliefs"]
    ]
    who = "person" if certificate.unit == "person" else "record"
    return [
        Text(odds_sentence(certificate.epsilon, certificate.delta, certificate.relation, certificate.unit)),
        Table(
            ("believed before", "believed after, at most this far"),
            rows,
            f"What an attacker who knows every other {who} can come to believe about the last one",
            frozenset({0, 1}),
        ),
        Text(
            "This holds whatever else the attacker knows, now or later, and whatever they compute. It does not promise that "
            "nothing is learnt about a group: that smokers fall ill more often is a finding, whether or not a smoker took part.",
            "soft",
        ),
    ]


def _facts(certificate: Certificate) -> Table:
    record = certificate.record
    who = "one person's records" if certificate.unit == "person" else "one record"
    neighbour = {
        "replace-one": f"{who} replaced by any other; the number of records is public",
        "zero-out": f"{who} replaced by an empty one; the number of records is public",
        "add-remove": f"{who} present or absent; the number of records is protected",
    }[certificate.relation]
    rows = [
        ("epsilon", f"{certificate.epsilon:g}"),
        ("delta", f"{certificate.delta:g}"),
        ("protected", "one person with all their counted records" if certificate.unit == "person" else "one record"),
        ("neighbouring data", neighbour),
        ("mechanism", certificate.mechanism),
        ("noise", f"{certificate.noise}: {record['noise']['claim']}"),
        (f"records ({'nominal' if certificate.relation == 'add-remove' else 'public'} number)", f"{record['shape']['n']:,}"),
        ("columns after encoding", f"{record['shape']['d']:,}"),
    ]
    if "ledger" in record:
        entry = record["ledger"]["entry"]
        head = record["ledger"]["head"][:16]
        rows.append(("budget ledger", f"entry {entry['number']} of data set {entry['dataset']}, head {head}…"))
    rows += [(f"assumption {number}", text) for number, text in enumerate(record["assumptions"], 1)]
    return Table(("", ""), rows)


def _quality(scores: Mapping[str, str], evaluation: Mapping[str, Any] | None) -> list[Block]:
    blocks: list[Block] = []
    if scores:
        blocks.append(Table(("", ""), list(scores.items()), "Scores on public data", frozenset({1})))
    if evaluation is not None:
        blocks += _evaluation(evaluation)
    if not blocks:
        blocks.append(
            Text(
                "No score is shown: a score on private rows would leak them. `dperm evaluate MODEL DATA --epsilon …` buys one, "
                "with an interval.",
                "soft",
            )
        )
    return blocks


def _evaluation(record: Mapping[str, Any]) -> list[Block]:
    found = record["metrics"]
    scores = {name: score for name, score in found.items() if isinstance(score, Mapping) and "value" in score}
    rows = [
        (name, f"{score['value']:.4f}", f"{score['low']:.4f} … {score['high']:.4f}")
        for name, score in scores.items()
        if score["value"] is not None
    ]
    unknown = [Text(f"{name}: {score['why']}.", "soft") for name, score in scores.items() if score["value"] is None]
    blocks: list[Block] = [
        Text(f"Paid for: {record['statement']}."),
        Table(("", "value", f"{record['level']:.0%} interval"), rows, "Scores on held-out rows", frozenset({1, 2})),
        *unknown,
    ]
    if found.get("calibration"):
        points = [(row["predicted"], row["observed"]) for row in found["calibration"]]
        reach = [(row["low"], row["high"]) for row in found["calibration"]]
        words = "Calibration: observed share of positives against the predicted probability; on the dashed line they agree"
        blocks.append(Curve(points, "predicted probability", "observed share", words, reach, False))
    if "roc" in found:
        points = list(zip(found["roc"]["false_positive_rate"], found["roc"]["true_positive_rate"]))
        words = "ROC curve: true against false positive rate; the dashed line is guessing"
        blocks.append(Curve(points, "false positive rate", "true positive rate", words))
    return blocks


def _coefficients(record: Mapping[str, Any], table: Any, no_table: str) -> list[Block]:
    names = list((record["encoding"] or {}).get("names", []))
    problem = Problem.from_spec(record["problem"])
    weights = np.array(record["coefficients"]["encoded"], dtype=np.float64)
    blocks: list[Block] = []
    width = len(names) + (1 if problem.data.intercept else 0)
    linear = getattr(MECHANISMS.get(record["mechanism"]["name"]), "linear", True)
    if names and linear and weights.size == problem.loss.margins * width:
        weights = weights.reshape(problem.loss.margins, width)
        listed = [
            (name if len(weights) == 1 else f"{name} (class {k})", float(weights[k, j]))
            for k in range(len(weights))
            for j, name in enumerate(names)
        ]
        listed = sorted(listed, key=lambda item: -abs(item[1]))
        shown = [(name[:60], value, f"{value:+.3f}") for name, value in listed[:MOST_BARS]]
        most = f"The largest {len(shown)} of {len(listed)}" if len(listed) > len(shown) else "All coefficients"
        blocks.append(
            Bars(shown, f"{most}, per encoded column (a numeric column runs over its declared range); blue raises, orange lowers")
        )
    if table is not None:
        # The interval comes second: on a phone the columns after it are reached by scrolling.
        parts = (("estimate", ""), ("low", "high"), ("standard_error", ""), ("z", ""))
        rows = [
            (r["name"], *(f"{r[a]:.3g} … {r[b]:.3g}" if b else f"{r[a]:.3g}" for a, b in parts))
            for r in table.rows()
        ]
        head = ("", "estimate", f"{table.level:.0%} interval", "standard error", "z")
        blocks += [Table(head, rows, "In the units of the data", frozenset({1, 2, 3, 4})), Text(table.note, "soft")]
    elif record["mechanism"]["name"] == Additive.name:
        blocks += _shapes(record)
    elif not linear:
        blocks.append(Text("This model has no coefficient per column; its weights are in the certificate below.", "soft"))
    elif no_table:
        blocks.append(Text(f"No intervals: {no_table}", "soft"))
    return blocks


def _shapes(record: Mapping[str, Any]) -> list[Block]:
    """The curves of an additive model, from its coefficients and the marginals that it released."""
    plan, _ = rebuilt_plan(record)
    mechanism = Additive(**dict(plan.options))
    d, columns, encoding = plan.shape.d, mechanism.curved, record["encoding"]
    if not columns or encoding is None:
        return [Text("No column has a shape: this model is the line.", "soft")]
    shares = np.array([column.places for column in mechanism.columns(plan, record["released"])])
    w, centre = (np.array(part, dtype=np.float64) for part in (record["coefficients"]["encoded"], record["decided"]["shift"]))
    values, _ = shape_values(w, d, columns, centre, shares)
    span = (min(float(values[:, :CELLS].min()), -1e-9), max(float(values[:, :CELLS].max()), 1e-9))
    words = "What each numeric column adds to the margin (in a regression: in halves of the target's range) over its bounds"
    blocks: list[Block] = [
        Text(f"{words}; below each curve the private histogram of its column. Smoothness: {record['decided']['shapes']}.", "soft")
    ]
    for place, j in enumerate(columns):
        low, high = float(encoding["low"][j]), float(encoding["high"][j])
        grid = low + (high - low) * (np.arange(CELLS) + 0.5) / CELLS
        blocks.append(
            Steps(encoding["names"][j][:60], grid.tolist(), values[place, :CELLS].tolist(), shares[place, :CELLS].tolist(), span)
        )
    return blocks


def _plan(certificate: Certificate) -> list[Block]:
    plan, problem = rebuilt_plan(certificate.record)
    kinds = tuple((certificate.record["encoding"] or {}).get("kinds", ()))
    rows = []
    for entry in alternatives(problem, plan.shape, plan.target, asked_for="coefficients", kinds=kinds, planned=False):
        bound = "no bound" if entry["predicted_risk"] is None else f"{entry['predicted_risk']:.3g}"
        can = "this fit" if entry["mechanism"] == plan.mechanism else "possible"
        rows.append((entry["mechanism"], bound, f"needs {entry['needs'][0]}" if entry["needs"] else can))
    return [
        Code(plan.explain()),
        Table(
            ("mechanism", "predicted excess risk", ""),
            rows,
            "Alternatives: worst-case bounds for coefficients of norm 1, which inform and do not rank mechanisms on real data",
            frozenset({1}),
        ),
    ]
