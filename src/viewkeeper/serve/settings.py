"""What can be set when a server is started."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from pathlib import Path

from viewkeeper.errors import DataError, problem

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)", re.ASCII)
_LONGEST = 100 * 365 * 86400.0


@dataclass(frozen=True)
class Settings:
    """Where a server listens, and its limits."""

    host: str = "127.0.0.1"
    port: int = 8765
    certfile: Path | None = None
    keyfile: Path | None = None
    insecure: bool = False
    allow_origins: tuple[str, ...] = ()
    heartbeat: float = 15.0
    stall: float = 60.0
    max_body: int = 16 * 1024 * 1024
    max_rows: int = 100_000
    max_page: int = 100_000
    max_subscriptions: int = 2_000
    query_seconds: float = 30.0
    body_seconds: float = 30.0
    waiting_commits: int = 1_000
    keep_subscriptions: float = 7 * 86400.0
    keep_log: datetime.timedelta | int | None = None
    readers: int = 4


def seconds_of(text: str) -> float:
    """A duration in seconds.

    >>> seconds_of("2s"), seconds_of("1.5h"), seconds_of("30d")
    (2.0, 5400.0, 2592000.0)
    """
    found = _DURATION.fullmatch(text.strip())
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 0 < seconds <= _LONGEST:
        why = f'"{text[:40]}" is no duration'
        raise DataError(problem("BAD_ARGUMENT", why=why, hint="Write a number and a unit: 500ms, 2s, 5m, 12h, 30d."))
    return seconds


def now() -> datetime.datetime:
    """This moment, in UTC, without parts of a second."""
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)
