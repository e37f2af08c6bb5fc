"""A program that misses nothing and repeats nothing although it is killed at any moment: the pattern of docs/client.md.

It keeps what it makes of the changes in a database, together with the commit up to which that is right, in one transaction. Then it tells the server
that it need not keep what was before.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from viewkeeper.client import Change, connect

SCHEMA = """
CREATE TABLE IF NOT EXISTS position (only_one INTEGER PRIMARY KEY CHECK (only_one = 1), "commit" INTEGER);
CREATE TABLE IF NOT EXISTS held (id INTEGER, value INTEGER, PRIMARY KEY (id, value));
CREATE TABLE IF NOT EXISTS told (number INTEGER PRIMARY KEY AUTOINCREMENT, "commit" INTEGER, kind TEXT);
"""


def follow(url: str, token: str, view: str, file: Path) -> None:
    """Follows a view for ever."""
    with closing(sqlite3.connect(file, isolation_level=None)) as database, connect(url, token, silence=10) as client:
        database.executescript(SCHEMA)
        since = position(database)
        with client.view(view).follow(name="careful", since=since) as changes:
            for change in changes:
                apply(database, change)
                changes.ack()


def apply(database: sqlite3.Connection, change: Change) -> None:
    """The change and the new position, or neither."""
    database.execute("BEGIN IMMEDIATE")
    if change.whole:
        database.execute("DELETE FROM held")
    for row in change.deleted:
        assert database.execute("DELETE FROM held WHERE id = ? AND value = ?", row).rowcount == 1
    database.executemany("INSERT INTO held VALUES (?, ?)", change.inserted)
    database.execute('INSERT INTO told ("commit", kind) VALUES (?, ?)', (change.commit, change.kind))
    database.execute("INSERT OR REPLACE INTO position VALUES (1, ?)", (change.commit,))
    database.execute("COMMIT")


def position(database: sqlite3.Connection) -> int | None:
    """The commit up to which everything is in the database."""
    found = database.execute('SELECT "commit" FROM position').fetchone()
    return None if found is None else int(found[0])
