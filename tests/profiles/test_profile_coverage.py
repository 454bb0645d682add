"""Error bars of profiles hold the table's own numbers. `benchmarks/coverage_profile.py` is the long form; this is some of it.

False alarms: 60 draws of noise per case. A kind of number fails if its share of bars that hold is below 0.94 by more than five of
its standard errors and a share of 0.03; with some 15 kinds in all that happens by chance less than once in 100,000 choices of
seeds (normal approximation, 5 deviations: 3e-7 each).
"""

from __future__ import annotations

import json
import sys

import pytest

from places import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from coverage_profile import CASES, LEAST, coverage


@pytest.mark.parametrize(("case", "n", "epsilon"), [("declared", 1000, 3.0), ("no schema", 1000, 1.0)])
def test_error_bars_hold_as_often_as_they_say(case, n, epsilon):
    found = coverage(CASES[case](n), epsilon, 60, first=7_000_000)
    assert {"rows", "share missing", "histogram", "level", "quantile", "mean", "spread"} <= set(found)
    for kind, (share, error, bars) in found.items():
        assert bars >= 30
        assert share + max(5 * error, 0.03) >= LEAST, (kind, share, error)


def test_half_the_noise_that_is_there_would_be_found():
    """Bars computed for half the noise hold 67 % of the time, which the test above cannot miss."""
    from dperm.profiles import numbers

    kept = numbers.noise_of
    try:
        numbers.noise_of = lambda *given: kept(*given) / 2
        found = coverage(CASES["declared"](1000), 3.0, 60, first=7_000_000)
    finally:
        numbers.noise_of = kept
    for kind in ("level", "mean", "spread"):
        share, error, _ = found[kind]
        assert share + max(5 * error, 0.03) < LEAST, kind


def test_the_table_of_the_page_is_that_of_the_script():
    from coverage_profile import PAGE, page

    results = json.loads((PAGE.parents[2] / "benchmarks" / "results" / "coverage_profile.json").read_text(encoding="utf-8"))
    text = page(results)
    assert text in PAGE.read_text(encoding="utf-8")
    assert "significantly" not in text
