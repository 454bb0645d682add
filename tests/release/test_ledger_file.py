"""The file under a ledger: cut, altered, replaced, put back, linked, read-only. What is spent is never understated."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dperm
from dperm.mechanisms import Gradient
from dperm.release.ledger import book, check, file
from dperm.release.ledger.book import Ledger

X = np.linspace(-1, 1, 60).reshape(-1, 1)
Y = (X[:, 0] > 0).astype(int)


def make(file: Path) -> Ledger:
    return Ledger.create(file, dataset="people", epsilon=3.0, delta=1e-6)


def fit(ledger: object) -> dperm.LogisticRegression:
    model = dperm.LogisticRegression(epsilon=0.5, bounds=(-1, 1), classes=[0, 1], ledger=ledger, method=Gradient(steps=2))
    return model.fit(X, Y)


def alter(file: Path, statement: str) -> None:
    connection = sqlite3.connect(file)
    assert connection.execute(statement).rowcount == 1
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET body = replace(body, '\"count\":2', '\"count\":1') WHERE number = 1",
        "UPDATE entries SET secret = replace(secret, 'nonce', 'nance') WHERE number = 2",
        "UPDATE entries SET body = replace(body, '3.0', '9.0') WHERE number = 0",
        "DELETE FROM entries WHERE number = 1",
        "DELETE FROM entries WHERE number = 2",
        "DELETE FROM tail",
    ],
)
def test_nothing_is_spent_on_a_ledger_that_is_not_as_it_was_written(tmp_path, statement):
    ledger = make(tmp_path / "l")
    fit(ledger), fit(ledger)
    alter(ledger.path, statement)
    with pytest.raises(ValueError, match="as it was written"):
        fit(ledger)
    with pytest.raises(ValueError, match="as it was written"):
        ledger.account()


def test_no_file_that_ends_early_is_taken_for_a_ledger_with_less_spent(tmp_path):
    ledger = make(tmp_path / "l")
    for _ in range(4):
        fit(ledger)
    size = ledger.path.stat().st_size
    for cut in (0, 1, 100, 4096, 8192, size // 2, size - 4096, size - 100, size - 1):
        file = tmp_path / f"cut-{cut}"
        shutil.copy(ledger.path, file)
        os.truncate(file, cut)
        with pytest.raises(ValueError):
            fit(file)


def test_an_older_copy_that_is_put_back_is_refused_by_who_saw_the_newer_one(tmp_path):
    ledger = make(tmp_path / "l")
    fit(ledger)
    shutil.copy(ledger.path, tmp_path / "older")
    fit(ledger)
    shutil.copy(tmp_path / "older", ledger.path)
    for place in (ledger, ledger.path, str(ledger.path), Ledger(ledger.path)):
        with pytest.raises(ValueError, match="older copy"):
            fit(place)


def test_another_ledger_in_the_place_is_refused_and_one_made_here_is_not(tmp_path):
    ledger = make(tmp_path / "l")
    fit(ledger)
    make(tmp_path / "other")
    os.replace(tmp_path / "other", ledger.path)
    with pytest.raises(ValueError, match="another file"):
        fit(ledger)
    ledger.path.unlink()
    with pytest.raises(ValueError, match="Nothing was spent"):
        fit(ledger)
    fit(make(ledger.path))


def test_a_file_replaced_while_it_is_written_releases_nothing(tmp_path, monkeypatch):
    ledger = make(tmp_path / "l")
    shutil.copy(ledger.path, tmp_path / "older")
    committed = book.remember

    def replaced(path: Path, head: str) -> None:
        committed(path, head)
        os.replace(tmp_path / "older", path)

    monkeypatch.setattr(book, "remember", replaced)
    drawn = []
    monkeypatch.setattr("dperm.release.noise.SecureNoise.generator", lambda self: drawn.append(1))
    with pytest.raises(ValueError, match="older copy"):
        fit(ledger)
    assert not drawn


@pytest.mark.parametrize("what", ["gone", "linked", "locked", "altered"])
def test_an_error_after_the_entry_is_written_says_that_the_cost_is_booked(tmp_path, monkeypatch, what):
    ledger = make(tmp_path / "l")
    fit(ledger)
    committed = book.remember

    def then(path: Path, head: str) -> None:
        committed(path, head)
        if what == "gone":
            path.unlink()
        elif what == "linked":
            os.link(path, tmp_path / "two")
        elif what == "locked":
            monkeypatch.setattr("dperm.release.ledger.file.WAIT", 0.0)
            locks = sqlite3.connect(path, isolation_level=None)
            monkeypatch.setattr(book, "locks", locks, raising=False)  # held until the test ends
            locks.execute("BEGIN EXCLUSIVE")
        else:
            alter(path, "UPDATE entries SET secret = replace(secret, 'nonce', 'nance') WHERE number = 1")

    monkeypatch.setattr(book, "remember", then)
    with pytest.raises(ValueError, match="cost is booked, nothing was released") as error:
        fit(ledger)
    assert "othing was spent" not in str(error.value)


def test_a_commit_that_fails_promises_nothing_about_the_budget(tmp_path, monkeypatch):
    """Whether the entry is on disk is not known; here a reader lets the commit fail, and it is not."""
    ledger = make(tmp_path / "l")
    monkeypatch.setattr("dperm.release.ledger.file.WAIT", 0.0)
    reader = sqlite3.connect(ledger.path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM entries").fetchone()
    with pytest.raises(ValueError, match="Whether the cost is booked, `dperm ledger show` says") as error:
        fit(ledger)
    reader.close()
    assert "Nothing was released" in str(error.value) and "othing was spent" not in str(error.value)
    assert len(ledger.entries()) == 1


def test_an_entry_altered_between_the_two_looks_of_a_debit_is_found(tmp_path, monkeypatch):
    ledger = make(tmp_path / "l")
    fit(ledger), fit(ledger)
    digest = book.digest

    def meanwhile(data: object) -> bytes:
        alter(ledger.path, "UPDATE entries SET body = replace(body, '\"count\":2', '\"count\":1') WHERE number = 1")
        return digest(data)

    monkeypatch.setattr(book, "digest", meanwhile)
    with pytest.raises(ValueError, match=r"as it was written.*Nothing was spent"):
        fit(ledger)


def test_a_chain_computed_anew_between_the_two_looks_of_a_debit_is_found(tmp_path, monkeypatch):
    """Another process drops the last entry and leaves a chain without a fault: what this one saw a moment ago is missing."""
    ledger = make(tmp_path / "l")
    fit(ledger), fit(ledger)
    shorter = make(tmp_path / "m")
    connection = sqlite3.connect(ledger.path)
    rows = connection.execute("SELECT * FROM entries ORDER BY number").fetchall()[:2]
    connection.close()
    connection = sqlite3.connect(shorter.path)
    connection.execute("DELETE FROM entries")
    connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?)", rows)
    connection.execute("UPDATE tail SET number = 1, hash = ?", (rows[1][3],))
    connection.commit()
    connection.close()
    digest = book.digest

    def meanwhile(data: object) -> bytes:
        shutil.copy(shorter.path, ledger.path)
        return digest(data)

    monkeypatch.setattr(book, "digest", meanwhile)
    monkeypatch.setattr(file, "_SEEN", {})  # as in a process that wrote none of it
    with pytest.raises(ValueError, match=r"as it was written.*a moment ago.*Nothing was spent"):
        fit(ledger)


def test_a_debit_computes_the_chain_once_however_often_it_looks(tmp_path, monkeypatch):
    ledger = make(tmp_path / "l")
    for _ in range(9):
        fit(ledger)
    counted = []
    follows = check.entry_hash
    monkeypatch.setattr(check, "entry_hash", lambda previous, body: counted.append(1) or follows(previous, body))
    fit(ledger)
    assert len(counted) == 11  # ten entries that were there, and the new one when it is read again


DIES_WHILE_WRITING = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 10")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE entries SET secret = secret")
connection.execute("CREATE TABLE more (x)")
for _ in range(200):
    connection.execute("INSERT INTO more VALUES (randomblob(3000))")
os._exit(9)
"""


def test_a_ledger_with_two_names_is_refused_because_a_crash_could_undo_an_entry(tmp_path):
    """Without the refusal: a process dies while it writes under one name, a fit is booked under the other, and the next look
    under the first name rolls both back."""
    ledger = make(tmp_path / "one")
    os.link(tmp_path / "one", tmp_path / "two")
    subprocess.run([sys.executable, "-c", DIES_WHILE_WRITING, str(tmp_path / "one")], check=False)
    assert (tmp_path / "one-journal").exists()
    for name in ("one", "two"):
        with pytest.raises(ValueError, match="hard links"):
            fit(tmp_path / name)
    (tmp_path / "two").unlink()
    fit(ledger)  # under its one name the half-written transaction is undone first
    assert ledger.account().fits == 1 and ledger.verify() == []


def test_a_symbolic_link_is_the_ledger_that_it_names(tmp_path):
    ledger = make(tmp_path / "l")
    (tmp_path / "link").symlink_to("l")
    subprocess.run([sys.executable, "-c", DIES_WHILE_WRITING, str(tmp_path / "link")], check=False)
    assert (tmp_path / "l-journal").exists() and not (tmp_path / "link-journal").exists()
    fit(tmp_path / "link"), fit(ledger)
    assert ledger.account().fits == Ledger(tmp_path / "link").account().fits == 2
    shutil.copy(ledger.path, tmp_path / "older")
    fit(tmp_path / "link")
    shutil.copy(tmp_path / "older", ledger.path)
    with pytest.raises(ValueError, match="older copy"):
        fit(ledger)


def test_a_symbolic_link_that_is_bent_to_an_older_copy_is_refused(tmp_path):
    """Within a process, the account of a name never shrinks, whatever the name leads to."""
    ledger = make(tmp_path / "l")
    shutil.copy(ledger.path, tmp_path / "older")
    (tmp_path / "link").symlink_to("l")
    fit(tmp_path / "link")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("older")
    with pytest.raises(ValueError, match="older copy"):
        fit(tmp_path / "link")
    fit(ledger)
    assert ledger.account().fits == 2


RACE = """
import sys
import numpy as np
import dperm
from dperm.mechanisms import Gradient
from dperm.release.ledger import BudgetExceeded
X = np.linspace(-1, 1, 60).reshape(-1, 1)
model = dperm.LogisticRegression(epsilon=1.0, bounds=(-1, 1), classes=[0, 1], ledger=sys.argv[1], method=Gradient(steps=2))
for _ in range(5):
    try:
        print(model.fit(X, (X[:, 0] > 0).astype(int)).certificate_.record["ledger"]["head"], flush=True)
    except BudgetExceeded:
        break
"""


def test_processes_that_race_for_what_is_left_never_get_more_than_that(tmp_path):
    """Room for 7 fits, and four processes that want 5 each."""
    ledger = make(tmp_path / "l")
    command = [sys.executable, "-W", "ignore", "-c", RACE, str(ledger.path)]
    racing = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    heads = [head for process in racing for head in process.communicate(timeout=100)[0].split()]
    written = [entry["hash"] for entry in ledger.entries() if entry["kind"] == "debit"]
    assert sorted(heads) == sorted(written) and len(heads) == 7
    assert not any(process.returncode for process in racing)
    assert ledger.verify() == []
