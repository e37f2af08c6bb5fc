"""One writer at a time.

The lock is the operating system's, on an open file, so it ends with the process that holds it, however that ends. The text of
the file only says who that is, or who it was: it stays when the lock is let go, and who takes it again within the same second finds it
signed. A commit would else wait for the disk longer: forcing its log there takes with it what is written to any other file.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from viewkeeper.errors import StoreError, problem

FILE = "lock"
_TRIES = 5
_SAID = {"pid", "command", "since"}


class writer_lock:
    """Holds the warehouse for writing; refuses with who holds it if somebody else does. ``note`` is told to those, too.

    A class and not a generator: every commit passes here. ``again``: it will be taken again; its file stays open until ``close``.
    """

    def __init__(self, directory: Path, note: Mapping[str, str] = {}, again: bool = False) -> None:
        self._directory, self._note, self._again = directory, tuple(note.items()), again
        self._path = os.path.join(directory, FILE)
        self._descriptor = -1
        # A child that was forked has the same open file, and with it the same lock: it opens another.
        self._process = self._holds = 0

    def __enter__(self) -> None:
        process = os.getpid()
        if self._holds == process:  # a change inside of a change
            raise self._locked()
        if self._descriptor < 0 or self._process != process or not self._is_there():
            self._open()
        try:
            if not _taken(self._descriptor):
                raise self._locked()
            _sign(self._descriptor, self._note)
        except BaseException:
            self.close()
            raise
        self._holds = process

    def __exit__(self, *details: object) -> None:
        self._holds = 0
        try:
            if self._process == os.getpid():  # not in a child that leaves what its parent is in
                # Not only closed: a child that was forked meanwhile has the file open too.
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        finally:
            if not self._again:
                self.close()

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    __del__ = close

    def _locked(self) -> StoreError:
        return StoreError(problem("LOCKED", path=self._directory, holder=_holder(self._directory / FILE)))

    def _open(self) -> None:
        self.close()
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise StoreError(problem("READ_ONLY", path=self._directory, why=error.strerror)) from None
        self._process = os.getpid()

    def _is_there(self) -> bool:
        """Is the open file still one that others find?"""
        return os.fstat(self._descriptor).st_nlink > 0


def _taken(descriptor: int) -> bool:
    """Takes the lock, if nobody has it. Somebody may only be looking who has it, which takes no time."""
    for again in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            return True
        time.sleep(0.002 * (again + 1 < _TRIES))
    return False


def holder_of(directory: Path) -> dict[str, Any] | None:
    """Who holds the warehouse for writing at this moment: "pid", "command", "since" and what it wants to be known."""
    try:
        descriptor = os.open(directory / FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _signed(directory / FILE) or {}
    finally:
        os.close(descriptor)
    return None


@contextmanager
def reader_lock(directory: Path) -> Iterator[None]:
    """Keeps what is in the directory from being removed while it is read. Any number of readers may hold it."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def unread(directory: Path) -> Iterator[bool]:
    """Is nobody reading in the directory? If so, nobody starts to inside the context."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _command(arguments: tuple[str, ...]) -> str:
    program, *rest = arguments or ("",)
    path = Path(program)
    name = path.parent.name if path.name == "__main__.py" else path.name
    return " ".join([name, *rest])[:200]


@lru_cache(1)
def _signature(pid: int, arguments: tuple[str, ...], second: int, note: tuple[tuple[str, str], ...]) -> bytes:
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
    return json.dumps({"pid": pid, "command": _command(arguments), "since": since} | dict(note)).encode()


def _sign(descriptor: int, note: tuple[tuple[str, str], ...]) -> None:
    text = _signature(os.getpid(), tuple(sys.argv), int(time.time()), note)
    with suppress(OSError):  # the lock holds all the same; only its signature is missing
        if os.pread(descriptor, len(text) + 1, 0) != text:
            os.pwrite(descriptor, text, 0)
            os.ftruncate(descriptor, len(text))


def _signed(path: Path) -> dict[str, Any] | None:
    """What the holder says of itself. It may hold the lock already and be about to sign: what is there is read until it stays."""
    before: Any = None
    for _ in range(5):
        with suppress(OSError, ValueError):
            who = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(who, dict) and who.keys() >= _SAID and who == before:
                return who
            before = who
        time.sleep(0.01)
    return None


def _holder(path: Path) -> str:
    who = _signed(path)
    if who is None:
        return "another process"
    more = "".join(f", {name} {value}" for name, value in who.items() if name not in _SAID)
    return f"process {who['pid']} ({who['command']}) since {who['since']}{more}"
