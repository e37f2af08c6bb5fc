"""One writer at a time.

The lock is the operating system's, on an open file, so it ends with the process that holds it, however that ends. The file's text
only says who that is.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from viewkeeper.errors import StoreError, problem


@contextmanager
def writer_lock(directory: Path) -> Iterator[None]:
    """Holds the warehouse for writing; refuses with who holds it if somebody else does."""
    path = directory / "lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise StoreError(problem("READ_ONLY", path=directory, why=error.strerror)) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(problem("LOCKED", path=directory, holder=_holder(path))) from None
        _sign(descriptor)
        yield
        _wipe(descriptor)
    finally:
        os.close(descriptor)


def _sign(descriptor: int) -> None:
    who = {"pid": os.getpid(), "command": " ".join(Path(a).name if i == 0 else a for i, a in enumerate(sys.argv))[:200],
           "since": time.strftime("%Y-%m-%d %H:%M:%S")}  # fmt: skip
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(who).encode(), 0)
    except OSError:
        pass  # the lock holds all the same; only its signature is missing


def _wipe(descriptor: int) -> None:
    try:
        os.ftruncate(descriptor, 0)
    except OSError:
        pass


def _holder(path: Path) -> str:
    try:
        who = json.loads(path.read_text())
        return f"process {who['pid']} ({who['command']}) since {who['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
