"""The file of a ledger: how it is opened, and what this process has seen in it.

A database is safe under one name only. The journal that undoes a half-written entry stands beside the *name* under which the
file was opened: with two names (hard links) a crash under one, an entry under the other and a look under the first again would
undo the entry. Links of the other kind are followed to the one name, and do no harm.

What a process has seen, it can miss: an older copy that is put back, or another file in the place, lacks the last entry that was
written from here. Over several processes only certificates can tell (`dperm.release.ledger.check`).
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection, Iterator
from pathlib import Path

WAIT = 120.0  # seconds to wait for another process that is writing
_SEEN: dict[Path, str] = {}  # the hash of the last entry that this process wrote, by file

# What an error may say of the budget: before an entry is written, once it is, and where the disk failed in between.
UNSPENT = "Nothing was spent."
BOOKED = "The cost is booked, nothing was released."
UNSURE = "Nothing was released. Whether the cost is booked, `dperm ledger show` says."


@contextlib.contextmanager
def opened(path: Path, so_far: str = UNSPENT) -> Iterator[sqlite3.Connection]:
    """A connection to the ledger; errors of SQLite in our words, with what is spent `so_far`."""
    try:
        names = path.stat().st_nlink
    except OSError as error:
        raise ValueError(f"Expected a ledger at {path}, found: {error.strerror}. {so_far}") from error
    if names > 1:
        raise ValueError(
            f"Expected one name for the ledger {path.name}, found several (hard links): after a crash an entry could be lost "
            f"between them. Keep one name and copy the file, or use symbolic links. {so_far}"
        )
    try:
        connection = sqlite3.connect(path, timeout=WAIT, isolation_level=None)
    except sqlite3.Error as error:
        raise ValueError(f"Expected a ledger in {path.name}, found: {error}.") from error
    try:
        connection.execute("PRAGMA synchronous = EXTRA")  # committed means on disk, the journal's removal included
        yield connection
    except sqlite3.OperationalError as error:
        raise ValueError(f"Expected to use the ledger {path.name}, found: {error}. {so_far}") from error
    except sqlite3.DatabaseError as error:
        raise ValueError(f"Expected a ledger in {path.name}, found a file that is not one: {error}.") from error
    finally:
        connection.close()


def _names(path: Path) -> set[Path]:
    """The file, and the symbolic link by which it was named: a link that is bent to an older copy has its account."""
    return {path.absolute(), path.resolve()}


def remember(path: Path, head: str) -> None:
    """This process wrote the entry with this hash."""
    for name in _names(path):
        _SEEN[name] = head


def check_seen(path: Path, hashes: Collection[str]) -> None:
    """Refuse a file that lacks what this process wrote into it."""
    if any(_SEEN.get(name, "") not in ("", *hashes) for name in _names(path)):
        raise ValueError(
            f"Expected the entries of ledger {path.name} that this process wrote, found the last one gone: an older copy or "
            "another file was put in its place. Put the newest file back. Nothing was released."
        )
