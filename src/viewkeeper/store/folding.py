"""Folds SQLite's write-ahead log into the database beside the work, so that no commit waits for it.

A commit is durable when it is in the log. Folding copies pages from there to where they belong; SQLite would do it at the end of a commit.
Here a thread with a connection of its own does it: first everything that is in the log, while commits go on, and then the little that
these have added, while the next one waits. After that the log begins anew. If they have added much, that is folded beside them as well, first.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path

# Rows that commits may have told before the next one waits for them to be folded, and how often more of them are folded beside the work.
_LITTLE = 2_000
_ROUNDS = 4


class Folding:
    """The log of one database. ``writing`` is held by who changes the database, in the process that folds."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._thread: threading.Thread | None = None
        self.writing = threading.Lock()
        self.told = 0
        """How many rows commits have told so far; kept by who holds ``writing``."""

    def start(self) -> None:
        """Folds what is in the log now, unless that is going on."""
        if self._thread is None or not self._thread.is_alive():
            thread = threading.Thread(target=self._fold, name="viewkeeper folds the log")
            with suppress(RuntimeError):  # no more threads: the commit is made all the same, and the log folded another time
                thread.start()
                self._thread = thread

    def finish(self) -> None:
        """Waits until nothing is under way."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _fold(self) -> None:
        # What cannot be folded now stays in the log, where it is safe, until the next time.
        with suppress(OSError, sqlite3.Error), closing(self._connect()) as database:
            for more in reversed(range(_ROUNDS)):
                before = self.told
                database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                with self.writing:
                    if more and self.told - before > _LITTLE:
                        continue
                    database.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
                    return

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._database, isolation_level=None, timeout=0)
