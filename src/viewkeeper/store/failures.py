"""What SQLite and the system complain about, as errors of ours."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from pathlib import Path

from viewkeeper.errors import EngineError, StoreError, ViewkeeperError, problem

UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
# A file could not grow. Why is not said, other than of the database itself: SQLITE_FULL.
_GROWING = (sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC)
# The file that all users of a database share grows by so much.
_SHARED = 32 * 1024
_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


class translated:
    """Failures of SQLite and of the system become errors of ours; ``reading``: nothing was to be written.

    A class and not a generator: every commit passes here.
    """

    def __init__(self, directory: Path, reading: bool = False) -> None:
        self._directory, self._forbidden = directory, "UNREADABLE" if reading else "READ_ONLY"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.DatabaseError):
            if result_code(error) == sqlite3.SQLITE_INTERRUPT:
                raise KeyboardInterrupt from None
            told = _told(error, self._directory, self._forbidden)
            if told is not None:
                raise told from error
        elif isinstance(error, OSError) and not isinstance(error, ConnectionError):
            code = "DISK_FULL" if error.errno in _FULL else self._forbidden if error.errno in _FORBIDDEN else "DISK_FAILED"
            raise StoreError(problem(code, path=error.filename or self._directory, why=error.strerror or str(error))) from error


def _told(error: sqlite3.DatabaseError, directory: Path, forbidden: str) -> ViewkeeperError | None:
    primary, text = result_code(error), str(error)
    if primary == sqlite3.SQLITE_FULL or (getattr(error, "sqlite_errorcode", 0) in _GROWING and _is_full(directory)):
        return StoreError(problem("DISK_FULL", path=directory))
    if primary == sqlite3.SQLITE_IOERR:
        return StoreError(problem("DISK_FAILED", path=directory, why=f"{text} ({error.sqlite_errorname})"))
    if primary in UNWRITABLE:
        return StoreError(problem(forbidden, path=directory, why=text))
    if primary in _BUSY:
        return StoreError(problem("LOCKED", path=directory, holder="another program"))
    if primary in _DAMAGED or text.startswith(("no such table", "no such column", "Could not decode")):
        return StoreError(problem("CATALOG_DAMAGED", path=directory, why=text))
    if isinstance(error, sqlite3.OperationalError):
        return EngineError(problem("ENGINE_FAILED", engine="embedded", why=text))
    return None


def _is_full(directory: Path) -> bool:
    try:
        return shutil.disk_usage(directory).free < _SHARED
    except OSError:
        return False


def result_code(error: sqlite3.Error) -> int:
    """SQLite's result code without the detail; 0 for what Python's module itself complains about."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
