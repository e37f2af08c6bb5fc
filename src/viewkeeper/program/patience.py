"""How long what a thread asks may take: long computations look here from time to time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import local

from viewkeeper.errors import EngineError, problem


class _Limit(local):
    seconds: float = 0.0
    end: float | None = None


_LIMIT = _Limit()


@contextmanager
def at_most(seconds: float | None) -> Iterator[None]:
    """What this thread computes inside ends with an error when it has taken so long; None: it may take as long as it does."""
    before = _LIMIT.seconds, _LIMIT.end
    if seconds is not None and (before[1] is None or time.monotonic() + seconds < before[1]):
        _LIMIT.seconds, _LIMIT.end = seconds, time.monotonic() + seconds
    try:
        yield
    finally:
        _LIMIT.seconds, _LIMIT.end = before


def overdue() -> EngineError | None:
    """The error to end with, if it has taken too long."""
    if _LIMIT.end is None or time.monotonic() < _LIMIT.end:
        return None
    return EngineError(problem("QUERY_TOO_SLOW", seconds=f"{_LIMIT.seconds:g}"))
