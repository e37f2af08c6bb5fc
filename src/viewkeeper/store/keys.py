"""Idempotency keys: what a caller names a transaction by, so that sending it twice makes it once.

A key is noted in the transaction that it names, with the number of its commit and a digest of what was asked for. Keys are kept for a
week; each new one makes room by removing two of the oldest, if those are older.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Any

from viewkeeper.errors import StoreError, problem
from viewkeeper.store.catalog import KEYS, Catalog

WEEK = 7 * 24 * 60 * 60
_LONGEST = 255


@dataclass(frozen=True)
class Used:
    """What was done under a key; ``commit`` is None if nothing had to be changed."""

    commit: int | None
    digest: bytes


def check_key(key: str) -> None:
    """A key is a text that is neither empty nor long."""
    if not (isinstance(key, str) and 0 < len(key) <= _LONGEST and key.isprintable()):
        wanted = f"a text of 1 to {_LONGEST} printable characters"
        raise StoreError(problem("BAD_PARAMETER", value=key, parameter="key", wanted=wanted))


def digest(operations: Iterable[tuple[str, str, Any]]) -> bytes:
    """Differs for different operations: kind, relation and rows of each.

    >>> digest([("insert", "r", [(1, "a")])]) == digest([("insert", "r", [[1, "a"]])])
    True
    >>> digest([("insert", "r", [(1, "a")])]) == digest([("delete", "r", [(1, "a")])])
    False
    """
    try:
        text = json.dumps([(kind, relation, _plain(rows)) for kind, relation, rows in operations], default=repr)
    except Exception:
        return b""  # no rows of any relation: nothing is ever noted for them, and who reads them tells what is wrong
    return hashlib.sha256(text.encode()).digest()


def _plain(rows: Any) -> list[Any]:
    """Rows in an order that is the same in every process."""
    if hasattr(rows, "toArrow"):  # a Spark DataFrame
        rows = rows.toArrow()
    if hasattr(rows, "__arrow_c_stream__"):
        import pyarrow as pa

        rows = pa.table(rows).to_pylist()
    return sorted(rows, key=repr) if isinstance(rows, Set) else list(rows)


class Keys:
    """The keys that a catalog knows."""

    def __init__(self, catalog: Catalog) -> None:
        self.connection = catalog.connection

    def find(self, key: str) -> Used | None:
        """What was done under a key during the last week."""
        sql = 'SELECT commit_id, digest FROM "$key" WHERE key = ? AND time > ?'
        try:
            rows = self.connection.execute(sql, (key, int(time.time()) - WEEK)).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            self.connection.execute(KEYS)  # of a warehouse that is older than keys
            return None
        return Used(*rows[0]) if rows else None

    def note(self, key: str, commit: int | None, digest: bytes) -> None:
        """Notes what was done under a key."""
        now = int(time.time())
        self.connection.execute(
            'DELETE FROM "$key" WHERE id IN (SELECT id FROM "$key" ORDER BY id LIMIT 2) AND time <= ?', (now - WEEK,)
        )
        self.connection.execute(
            'INSERT OR REPLACE INTO "$key" (key, commit_id, digest, time) VALUES (?, ?, ?, ?)', (key, commit, digest, now)
        )
