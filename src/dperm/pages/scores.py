"""Paid-for scores on a page: of all rows, of every class, of every group, and at every threshold."""

from __future__ import annotations

from dperm.pages.charts import Curve
from dperm.pages.document import Block
from dperm.pages.text import Table, Text
from dperm.release.record import EvaluationRecord, GroupsRecord, Metrics, Score, scores_in
from dperm.words.wording import in_percent, with_interval

BY_CLASS = ("recall of ", "precision of ")
IN_GROUPS = ("accuracy", "baseline accuracy", "macro f1", "r2", "mean error", "deviance", "balance")
NAMES = {"r2": "R²", "auc": "AUC", "macro f1": "macro F1", "baseline macro f1": "baseline macro F1"}
MOST_LINES = 9  # of the thresholds; the record has all of them


def called(name: str) -> str:
    """A score as people write it; records keep its plain name.

    >>> called("r2"), called("log-loss")
    ('R²', 'log-loss')
    """
    return NAMES.get(name, name)


def positive_of(found: Metrics) -> str:
    """The class whose share and probability are scored, of two with names; empty elsewhere."""
    return found["thresholds"]["labels"][1] if "thresholds" in found else ""


def evaluation_blocks(record: EvaluationRecord) -> list[Block]:
    """Paid-for scores: a table, and the curves of two classes."""
    found = record["metrics"]
    scores = {name: score for name, score in scores_in(found).items() if not name.startswith(BY_CLASS)}
    positive = positive_of(found)
    of_which = {"positive share": f"positive share (of {positive})"} if positive else {}
    rows = [
        (of_which.get(name, called(name)), *with_interval(score["value"], score["low"], score["high"], 4))
        for name, score in scores.items()
        if score["value"] is not None
    ]
    unknown = [Text(f"{called(name)}: {score['why']}.", "soft") for name, score in scores.items() if score["value"] is None]
    blocks: list[Block] = [
        Text(f"Paid for: {record['statement']}."),
        Table(("", "value", f"{in_percent(record['level'])} interval"), rows, "Scores on held-out rows", frozenset({1, 2})),
        *unknown,
        *_class_blocks(found),
        *_group_blocks(found),
    ]
    if found.get("calibration"):
        points = [(row["predicted"], row["observed"]) for row in found["calibration"]]
        reach = [(row["low"], row["high"]) for row in found["calibration"]]
        of = positive or "positives"
        words = f"Calibration: observed share of {of} against the predicted probability; on the dashed line they agree"
        blocks.append(Curve(points, "predicted probability", "observed share", words, reach, False))
    if "roc" in found:
        points = list(zip(found["roc"]["false_positive_rate"], found["roc"]["true_positive_rate"]))
        words = "ROC curve: true against false positive rate; the dashed line is guessing"
        blocks.append(Curve(points, "false positive rate", "true positive rate", words))
    return [*blocks, *_threshold_blocks(found)]


def _told(score: Score | None) -> str:
    """A score and its interval in a cell of a table."""
    if score is None or score["value"] is None:
        return "not known"
    value, interval = with_interval(score["value"], score["low"], score["high"], 3)
    return f"{value} ({interval})"


def _class_blocks(found: Metrics) -> list[Block]:
    """Which class is taken for which, and recall and precision of each."""
    matrix = found.get("confusion")
    if matrix is None:
        return []
    labels, known, rows = matrix["labels"], scores_in(found), []
    for label, line in zip(labels, matrix["counts"]):
        scores = (_told(known[f"{name} of {label}"]) for name in ("recall", "precision"))
        rows.append((label, *(f"{max(count, 0.0):,.0f}" for count in line), *scores))
    head = ("class", *(f"called {label}" for label in labels), "recall", "precision")
    words = f"Rows of every class by what they were called (noise ±{1.96 * matrix['noise']:.0f} per cell), recall and precision"
    return [Table(head, rows, words, frozenset(range(1, len(head))))]


def group_table(groups: GroupsRecord) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Head and rows: a group in each, with its rows and its scores."""
    kinds = [name for name in IN_GROUPS if any(name in scores for scores in groups["scores"].values())]
    first = next(iter(groups["scores"].values()))
    kinds += [name for name in first if name.startswith(BY_CLASS[0])]  # precision is in the record: a page has room for so much
    rows = [
        (name, f"{groups['rows'][name]['value']:z,.0f}", *(_told(scores_in(scores).get(kind)) for kind in kinds))
        for name, scores in groups["scores"].items()
    ]
    return (groups["column"], "rows", *map(called, kinds)), rows


def _group_blocks(found: Metrics) -> list[Block]:
    groups = found.get("groups")
    if groups is None:
        return []
    head, rows = group_table(groups)
    return [Table(head, rows, f"Scores by {groups['column']}, each with its own interval", frozenset(range(1, len(head))))]


def _threshold_blocks(found: Metrics) -> list[Block]:
    """What calling everything above a threshold positive would give."""
    curve = found.get("thresholds")
    if not curve or not curve["lines"]:
        return []
    lines, positive = curve["lines"], curve["labels"][1]
    points = [(line["recall"]["value"], line["precision"]["value"]) for line in lines]
    reach = [(line["precision"]["low"], line["precision"]["high"]) for line in lines]
    words = f"Precision against recall of {positive}: one point per threshold"
    kinds = ("recall", "precision", "called positive")
    shown = lines[:: -(-len(lines) // MOST_LINES)]
    rows = [
        (f"{line['threshold']:.3f}", _told(line["recall"]), _told(line["precision"]), _told(line["called positive"]))
        for line in shown
    ]
    table = Table(("threshold", *kinds), rows, f"Calling every row above a threshold {positive}", frozenset({1, 2, 3}))
    return [Curve(points, "recall", "precision", words, reach, False, False), table]
