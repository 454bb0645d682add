"""One walk, one place that declares: counted in the source, so that a second one cannot grow unseen."""

from __future__ import annotations

import re

from places import SOURCE


def places(pattern: str, *, without: tuple[str, ...] = ()) -> set[str]:
    """Files whose code, docstrings' examples aside, matches."""
    found = set()
    for file in SOURCE.rglob("*.py"):
        name = file.relative_to(SOURCE).as_posix()
        text = file.read_text(encoding="utf-8").splitlines()
        lines = [line for line in text if ">>>" not in line and not line.strip().startswith("#")]
        if name.split("/")[0] not in without and re.search(pattern, "\n".join(lines)):
            found.add(name)
    return found


def test_one_place_debits() -> None:
    assert places(r"\.debit\(") == {"walk/fitting.py"}


def test_one_place_runs_programs() -> None:
    """Audits run programs on their own, many times and without a ledger; everything else goes through `execute`."""
    running = r"driver\.run\(|from dperm\.release\.driver import .*\brun\b"
    assert places(running, without=("audit",)) == {"walk/fitting.py"}


def test_only_the_driver_and_solves_draw_noise() -> None:
    """`release` adds noise to a value: for sums in the driver, for their values in solves, for its score in a search."""
    assert places(r"(?<![\w.])release\(|GridNoise\.drawn\(") == {
        "estimators/search.py", "mechanisms/newton.py", "mechanisms/objective/solve.py",
        "mechanisms/statistics.py", "release/asks.py", "release/driver.py", "release/noise.py",
    }  # fmt: skip


def test_one_place_turns_declarations_into_a_problem() -> None:
    """Linear estimators share `base`; a location and a finite class have one line each, and a lasso its default strength."""
    assert places(r"(?<![\w.])Problem\(", without=("audit", "problem")) == {
        "estimators/base.py", "estimators/finite.py", "estimators/lasso.py", "estimators/location.py",
        "mechanisms/scaled/selection.py",
    }  # fmt: skip


def test_one_place_writes_and_one_recomputes_a_certificate() -> None:
    assert places(r"(?<![\w.])replay\(") == {
        "evaluation/evaluate.py", "profiles/profile.py", "release/driver.py", "walk/certificate.py",
    }  # fmt: skip
    assert places(r"def decide\(self") == set()
