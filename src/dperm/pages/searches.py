"""The page of a private search: what was promised for the whole of it, what it chose, and the model that it chose.

The inner certificate of the chosen run speaks of one run alone, so no guarantee of it is shown. The number of runs is secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dperm.pages.charts import Cards
from dperm.pages.coefficients import coefficient_blocks, effect_blocks
from dperm.pages.document import Page, Section, rendered
from dperm.pages.page import FOOTER, KICKER
from dperm.pages.subject import day, from_certificate, today
from dperm.pages.text import Table, Text
from dperm.release.record import SearchRecord
from dperm.walk.certificate import Certificate
from dperm.words.wording import in_percent


def search_page(
    record: SearchRecord,
    chosen: Mapping[str, object],
    grid: Sequence[Mapping[str, object]],
    score: float,
    *,
    classes: tuple[str, ...] = (),
    markdown: bool,
) -> str:
    """From the search's record, its choice and released score, the public list of settings and the declared classes."""
    given, law, run = record["guarantee"], record["law"], record["run"]
    subject = replace(from_certificate(Certificate(record["best"])), classes=classes)
    promise = f"δ = {given['delta']:g}, {given['relation']}, for the search as a whole."
    promise += "" if record["noise"]["private"] else " NOT PRIVATE: the noise was seeded."
    runs = f"A secret number of runs, {law['expected_runs']:g} on average."
    good = "The noisy score by which the published run was chosen, on the rows of the fit."
    cards = Cards([
        ("What was searched", f"{record['settings']} settings", runs),
        ("How private", f"ε = {given['epsilon']:g}", promise),
        ("How good", f"{score:.3f}", good),
    ])  # fmt: skip
    settings = [(_told(one), "chosen" if dict(one) == dict(chosen) else "") for one in grid]
    share = in_percent(run["score_share"], 2)
    budget = [("fit of one run", f"ε = {run['fit_epsilon']:.4g}"), ("share of μ² of its score", share)]
    effects = effect_blocks(subject) or [Text("This model has no coefficient per column.", "soft")]
    check = "`search.certificate_.verify()` computes every number of the claim again, without the data."
    parts = [
        Section("", [cards, Text(record["statement"], "say")]),
        Section("What was chosen", [Table(("setting", ""), settings, "The public list; which runs took place is not published")]),
        Section("What moves the prediction", effects),
        Section("Coefficients", coefficient_blocks(subject, None, "a search publishes one fit, without intervals.")),
        Section("Where the budget went", [Table(("", ""), budget, "Every run has the same budget; selection pays for the best")]),
        Section("Certificate", [Text(check)]),
    ]
    page = Page("A private search", parts, FOOTER, KICKER, f"{given['n']:,} records · {day(today())}")
    return rendered(page, markdown=markdown)


def _told(setting: Mapping[str, object]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in sorted(setting.items())) or "as given"
