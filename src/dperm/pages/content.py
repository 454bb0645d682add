"""What a report says: a function of the certificate and of extras that are public or paid for. No row is ever looked at."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dperm.choose.odds import odds, odds_sentence, percent
from dperm.choose.risks import alternatives
from dperm.inference.summary import Summary
from dperm.pages.charts import Cards, Shares
from dperm.pages.coefficients import coefficient_blocks, effect_blocks
from dperm.pages.document import Block, Section
from dperm.pages.effects import column_and_levels
from dperm.pages.scores import called, evaluation_blocks
from dperm.pages.subject import Subject, upward
from dperm.pages.text import Code, Table, Text
from dperm.privacy import Event, Gaussian, HiddenState, compose, event_from_spec
from dperm.release.plan import MECHANISMS, released_words
from dperm.release.record import EvaluationRecord, StageRecord, scores_in
from dperm.tables.encoding import Encoding
from dperm.tables.packed import unpacked
from dperm.walk.fitting import rebuilt_plan
from dperm.words.notices import LOOSE
from dperm.words.wording import several, with_interval

REFERENCES = (
    ("Differential privacy", "Dwork, McSherry, Nissim and Smith, Calibrating noise to sensitivity, 2006"),
    ("Gaussian differential privacy", "Dong, Roth and Su, Gaussian differential privacy, 2022"),
    ("The exact Gaussian mechanism", "Balle and Wang, Improving the Gaussian mechanism, 2018"),
    ("Private empirical risk minimisation", "Chaudhuri, Monteleoni and Sarwate, 2011; Bassily, Smith and Thakurta, 2014"),
    ("Objective perturbation today", "Redberg, Koskela and Wang, The privacy and practicality of objective perturbation, 2023"),
)
_CHECK = (
    "Anyone can check the claim without the data: `dperm verify certificate.json` computes every number below again. A pass "
    "shows that the claim is consistent; it cannot show that the run took place."
)
_ABSENT = (
    "Residuals, scatter plots, histograms of the data and scores on the training rows are absent on purpose: each of them is a "
    "function of private rows that nobody paid for, and would break the guarantee above."
)
_PAYS = " `dperm evaluate` pays for scores on held-out rows; their plots then appear here."
SEEDED = "NOT PRIVATE. The noise was seeded: whoever knows the seed can take it away. For tests only."
ALONE = "This is what the fit alone says; the profile that found its bounds says more, and the two are not added up here."


def sections(
    subject: Subject,
    *,
    scores: Mapping[str, str] | None = None,
    table: Summary | None = None,
    no_table: str = "",
    evaluation: EvaluationRecord | None = None,
) -> list[Section]:
    """The whole report. `table` is a `Summary` with intervals, or `no_table` says why there is none."""
    certificate, scores = subject.certificate, scores or {}
    shown = effect_blocks(subject, table)
    return [
        Section("", _opening(subject, scores, evaluation)),
        *([Section("What moves the prediction", shown)] if shown else []),
        Section("How good is it?", _quality(subject, scores, evaluation)),
        Section(f"What this means for one {subject.who}", _person(subject)),
        Section("Coefficients" if subject.encoding else "What was released", coefficient_blocks(subject, table, no_table)),
        Section("What was declared", declared_blocks(subject)),
        Section("Where the budget went", _budget(subject)),
        Section("The guarantee", [_facts(subject)]),
        Section("What is not on this page", [Text(_ABSENT + (_PAYS if subject.predicts else ""))]),
        Section("Certificate", [Text(_CHECK), Code(certificate.to_json(), "The whole record")]),
        Section("References", [Table(("", ""), REFERENCES)]),
    ]


def _opening(subject: Subject, scores: Mapping[str, str], evaluation: EvaluationRecord | None) -> list[Block]:
    certificate = subject.certificate
    blocks: list[Block] = [Text(SEEDED, "warn")] if subject.seeded else []
    cards = [_fitted(subject), _private(subject), _good(subject, scores, evaluation), _cost(subject)]
    blocks += [Cards(cards), Text(certificate.statement, "say")]
    before = ""
    if subject.earlier is not None:
        before = ", was released by the profile before"
        both = "" if subject.alone else ", and both are on this page"
        paid = f"That is the fit. A profile found its bounds and levels first{both}"
        blocks.append(Text(f"{paid}: ε = {subject.earlier.words}.", "warn" if subject.alone else ""))
    count = unpacked(certificate.record["coefficients"]["encoded"]).size
    what = f"{count:,} {'coefficients' if subject.encoding else 'numbers'}" if count > 1 else "one number"
    values = certificate.record["released"]
    more = f", and on the way the values named {', '.join(values)}" if values else ""
    them = "them" if count > 1 or values else "it"
    words = f"Released: {what}{more}. Everything else on this page is computed from {them}{before}, or was public before."
    return [*blocks, Text(words, "soft")]


def _fitted(subject: Subject) -> tuple[str, str, str]:
    shape = subject.certificate.record["shape"]
    words = f"{subject.size}, {several(shape['d'], 'column')} after encoding, method {subject.certificate.mechanism}"
    if subject.classes:
        words += f"; classes {', '.join(subject.classes[:6])}" + (" …" if len(subject.classes) > 6 else "")
    return "What was fitted", subject.model or subject.certificate.mechanism, words


def _private(subject: Subject) -> tuple[str, str, str]:
    certificate = subject.certificate
    if subject.seeded:
        return "How private", "Not private", "The noise was seeded, for tests."
    half = odds(subject.epsilon)["beliefs"][-1]["after_at_most"]
    of = "The fit alone, without its profile: " if subject.alone else ""
    bet = "No useful bound" if subject.epsilon > LOOSE else f"An even bet about one {subject.who} stays below {percent(half)}"
    words = f"{of}δ = {subject.delta:g}, {certificate.relation}. {bet}."
    return "How private", f"ε = {upward(subject.epsilon)}", words


# The score to show first, the one of guessing without the row, and whether less is better.
FIRST = (
    ("accuracy", "baseline accuracy", "always guessing the most common class"),
    ("r2", "", "guessing the mean is 0"),
    ("R²", "", "guessing the mean is 0"),
    ("deviance", "baseline deviance", "guessing the mean rate; lower is better"),
    ("log-loss", "baseline log-loss", "guessing the shares of the classes; lower is better"),
)


def _good(subject: Subject, scores: Mapping[str, str], evaluation: EvaluationRecord | None) -> tuple[str, str, str]:
    found = {} if evaluation is None else scores_in(evaluation["metrics"])
    for name, baseline, words in FIRST:
        score, other = found.get(name), found.get(baseline)
        if score is None or score["value"] is None:
            continue
        value, interval = with_interval(score["value"], score["low"], score["high"], 3)
        reach = f"{interval.replace('…', 'to')} with the noise"
        beside = "" if other is None or other["value"] is None else f"{other['value']:.3f} by "
        return "How good", f"{called(name)} {value}", f"{reach}; {beside}{words}."
    if scores:
        (name, value), *rest = scores.items()
        return "How good", value, "; ".join([name, *(f"{other}: {text}" for other, text in rest)]) + "."
    if not subject.predicts:
        return "How good", "Not measured", "It has no score: `dperm evaluate` scores what predicts from columns."
    return "How good", "Not measured", "A score on private rows costs privacy budget: `dperm evaluate` pays for one."


def _cost(subject: Subject) -> tuple[str, str, str]:
    certificate = subject.certificate
    value, parts = f"ε = {upward(subject.epsilon)}", "" if subject.earlier is None else f"{subject.earlier.words}. "
    if "ledger" not in certificate.record:
        words = "No ledger was debited: the budgets of other releases from these data add up to this one."
        return "What it cost", value, parts + words
    entry = certificate.record["ledger"]["entry"]
    words = f"entry {entry['number']} of the ledger of {entry['dataset']}, {entry['time'][:10]}."
    return "What it cost", value, f"{parts}Debited before any row was read: {words}"


def _person(subject: Subject) -> list[Block]:
    certificate, epsilon = subject.certificate, subject.epsilon
    rows = [
        (percent(row["before"]), f"{percent(row['after_at_least'])} … {percent(row['after_at_most'])}")
        for row in odds(epsilon)["beliefs"]
    ]
    return [
        *([Text(ALONE, "warn")] if subject.alone else []),
        Text(odds_sentence(epsilon, subject.delta, certificate.relation, certificate.unit)),
        Table(
            ("believed before", "believed after, at most this far"),
            rows,
            f"What an attacker who knows every other {subject.who} can come to believe about the last one",
            frozenset({0, 1}),
        ),
        Text(
            "This holds whatever else the attacker knows, now or later, and whatever they compute. It does not promise that "
            "nothing is learnt about a group: that smokers fall ill more often is a finding, whether or not a smoker took part.",
            "soft",
        ),
    ]


def _facts(subject: Subject) -> Table:
    certificate, earlier = subject.certificate, subject.earlier
    record = certificate.record
    who = "one person's records" if certificate.unit == "person" else "one record"
    neighbour = {
        "replace-one": f"{who} replaced by any other; the number of records is public",
        "zero-out": f"{who} replaced by an empty one; the number of records is public",
        "add-remove": f"{who} present or absent; the number of records is protected",
    }[certificate.relation]
    rows = [
        ("epsilon", f"{certificate.epsilon:g}" if earlier is None else earlier.words),
        ("delta", f"{subject.delta:g}"),
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


def _quality(subject: Subject, scores: Mapping[str, str], evaluation: EvaluationRecord | None) -> list[Block]:
    blocks: list[Block] = []
    if scores:
        blocks.append(Table(("", ""), list(scores.items()), "Scores on public data", frozenset({1})))
    if evaluation is not None:
        blocks += evaluation_blocks(evaluation)
    if not blocks:
        pays = " `dperm evaluate MODEL DATA --epsilon …` pays for one, with an interval." if subject.predicts else ""
        blocks.append(Text(f"No score is shown, because a score on private rows reveals something about them.{pays}", "soft"))
    return blocks


def declared_blocks(subject: Subject) -> list[Block]:
    """Bounds, levels and what a missing cell counts as: public facts that the guarantee rests on."""
    encoding = subject.encoding
    if encoding is None:
        return [Text(f"Rows are clipped into the declared bounds: a row's norm is at most {subject.problem.data.x_norm:.4g}.")]
    rows, seen = [], set()
    for j, (name, kind, group) in enumerate(zip(encoding.names, encoding.kinds, encoding.groups)):
        if group >= 0:
            if group not in seen:
                seen.add(group)
                rows.append(_levels(encoding, group))
            continue
        rows.append((name, f"{kind}, {_range(encoding, j)}", _missing(encoding, j)))
    words = "Known without the data, or paid for. A value outside its bounds counts as the nearest bound."
    blocks: list[Block] = [Table(("column", "declared as", "if missing"), rows, words)]
    if encoding.x_norm is not None:
        blocks.append(Text(f"The norm of a row is at most {encoding.x_norm:.4g}.", "soft"))
    return blocks


def _levels(encoding: Encoding, group: int) -> tuple[str, str, str]:
    places = [j for j, own in enumerate(encoding.groups) if own == group]
    column, levels = column_and_levels([encoding.names[j] for j in places])
    shown = ", ".join(levels[:8]) + (f" and {len(levels) - 8} more" if len(levels) > 8 else "")
    declared = ", ".join(level for level, j in zip(levels, places) if encoding.missing[j] > 0)
    return (column, f"one of {shown}", "its own level" if "(missing)" in levels else declared or "no level")


def _plain(value: float, digits: int) -> str:
    """As many digits as count; commas from 10,000 on, so that a year is a year.

    >>> _plain(2027.0, 6), _plain(30287.4, 4), _plain(126.125, 6)
    ('2027', '30,290', '126.125')
    """
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.10g}" if abs(rounded) >= 10_000 else f"{rounded:.10g}"


def _range(encoding: Encoding, j: int) -> str:
    low, high = encoding.low[j], encoding.high[j]
    if not (math.isfinite(low) and math.isfinite(high)):
        return "bounded by the norm of the row"
    small, large = (_plain(bound, 6) for bound in (low, high))
    if "," in small + large:  # one end has commas, and so has the other
        small, large = (f"{float(text.replace(',', '')):,.10g}" for text in (small, large))
    return f"{small} to {large}"


def _missing(encoding: Encoding, j: int) -> str:
    rule, value = encoding.rules[j], encoding.missing[j]
    if rule == "released":
        return f"{_plain(value, 4)} (released mean)"
    if rule == "value":
        return _plain(value, 4)
    return "the middle" if encoding.kinds[j] == "numeric" and encoding.centred else "0"


def _budget(subject: Subject) -> list[Block]:
    certificate, encoding = subject.certificate, subject.encoding
    plan, problem = rebuilt_plan(certificate.record)
    stages = stage_blocks(certificate.record["stages"], certificate.delta, certificate.relation)
    whole = Code(plan.explain(), "The plan with every number")
    if encoding is None or not getattr(MECHANISMS.get(plan.mechanism), "linear", True):  # a median, curves, a net have no others
        return [*stages, whole]
    rows = []
    for entry in alternatives(problem, plan.shape, plan.target, asked_for="coefficients", kinds=encoding.kinds, planned=False):
        bound = "no bound" if entry["predicted_risk"] is None else f"{entry['predicted_risk']:.3g}"
        can = "this fit" if entry["mechanism"] == plan.mechanism else "possible"
        rows.append((entry["mechanism"], bound, f"needs {entry['needs'][0]}" if entry["needs"] else can))
    return [
        *stages,
        whole,
        Table(
            ("mechanism", "predicted excess risk", ""),
            rows,
            "Alternatives: worst-case bounds for coefficients of norm 1, which inform and do not rank mechanisms on real data",
            frozenset({1}),
        ),
    ]


def stage_blocks(stages: Sequence[StageRecord], delta: float, relation: str) -> list[Block]:
    """The budget by stage. Gaussian noise adds up in μ², so that their shares do; of other stages ε alone is compared."""
    events = [event_from_spec(stage["event"]) for stage in stages]
    parts = budget_parts(events, delta, relation)
    whole = sum(parts) or 1.0
    names = [str(stage["name"]) for stage in stages]
    rows = [
        (name, part / whole, released_words(name, stage["settings"], names) or _KNOWN.get(name, ""))
        for name, stage, part in zip(names, stages, parts)
    ]
    return [Shares(rows, "Every stage adds noise of its own; its share of the privacy budget:")]


_KNOWN = {
    "mean": "the sum of the rows, for the centre of every column",
    "present": "how many cells of each column are present",
    "radius": "how long centred rows are",
    "squares": "the spread of every column",
    "positives": "the number of positive labels",
    "descent": "the clipped gradients of the fit itself",
    "moments": "sums of products of columns and target: the fit follows from them",
    "objective": "noise added to the objective that is minimised",
    "information": "the curvature matrix that intervals need",
    "count scale": "how large counts are",
    "count sum": "the sum of the counts",
    "residuals": "how large residuals are, which sets where they are clipped",
    "residuals again": "the same later in the fit",
    "residuals near": "how large they are at its end, which says how near to the quantile rows tell its curvature",
    "signed residuals": "the balance of predicted and counted",
    "octaves": "the magnitude of every column, for private bounds",
    "cells": "the bounds of every column",
}


def budget_parts(events: Sequence[Event], delta: float, relation: str) -> list[float]:
    """μ² per event where all are Gaussian; else each event's own ε."""
    if all(isinstance(event, Gaussian | HiddenState) for event in events):
        return [compose([event], relation).mu ** 2 for event in events]  # type: ignore[attr-defined]
    return [compose([event], relation).epsilon(delta) for event in events]
