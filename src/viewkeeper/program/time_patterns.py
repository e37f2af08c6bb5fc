"""Patterns of dates and times in Java's letters, as far as they are known here: yyyy-MM-dd HH:mm:ss."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_TOKENS = re.compile(r"'((?:[^']|'')*)'|(([A-Za-z])\3*)|(.)", re.DOTALL)
# How many of a letter there may be where times are written.
_WRITTEN = {
    **dict.fromkeys("yu", 6), **dict.fromkeys("MLE", 4), **dict.fromkeys("dHkKhmsQq", 2), "D": 3, "a": 1, "S": 9,
}  # fmt: skip
_MONTHS = "|".join(MONTH_NAMES)
_ANY_NUMBER = "[0-9]{1,19}"
# Letters where times are read → what they match. Single letters stand for numbers of any width.
_READ = {
    "y": _ANY_NUMBER, "yy": "[0-9]{2}", "yyyy": "[0-9]{4}", "M": _ANY_NUMBER, "MM": "[0-9]{2}", "MMMM": _MONTHS,
    "MMM": "|".join(name[:3] for name in MONTH_NAMES), "d": _ANY_NUMBER, "dd": "[0-9]{2}", "H": _ANY_NUMBER, "HH": "[0-9]{2}",
    "h": _ANY_NUMBER, "hh": "[0-9]{2}", "m": _ANY_NUMBER, "mm": "[0-9]{2}", "s": _ANY_NUMBER, "ss": "[0-9]{2}", "a": "AM|PM",
    **{"S" * count: f"[0-9]{{1,{count}}}" for count in range(1, 7)},
}  # fmt: skip


class BadTimePattern(ValueError):
    """What is not known in a pattern."""


def _unknown(part: str) -> BadTimePattern:
    return BadTimePattern(f"{part!r} is not known in patterns of times")


def _tokens(pattern: str) -> Iterator[tuple[str, str]]:
    """The runs of letters of a pattern, and what stands for itself: one of the two is empty."""
    for quoted, run, _, other in _TOKENS.findall(pattern):
        if other and other in "'[]{}#":
            raise _unknown(other)
        yield run, "" if run else other or quoted.replace("''", "'") or "'"


@functools.lru_cache(maxsize=256)
def writing_pattern(pattern: str) -> tuple[tuple[str, str], ...]:
    """The parts of a pattern that times are written in; raises BadTimePattern.

    >>> writing_pattern("yyyy'-'M")
    (('yyyy', ''), ('', '-'), ('M', ''))
    """
    found = tuple(_tokens(pattern))
    for run, _ in found:
        if run and len(run) > _WRITTEN.get(run[0], 0):
            raise _unknown(run)
    return found


@functools.lru_cache(maxsize=256)
def reading_pattern(pattern: str) -> re.Pattern[str]:
    """What texts in a pattern match, with a group for each letter; raises BadTimePattern."""
    parts, last, seen = [], "", ""
    for run, text in _tokens(pattern):
        if run and (run not in _READ or run[0] in seen):
            raise _unknown(run)
        if run and last and (_is_open(last) or _is_open(run)):
            raise _unknown(last + run)  # where would one number end?
        parts.append(f"(?P<{_group(run)}>{_READ[run]})" if run else re.escape(text))
        last, seen = run, seen + run[:1]
    if ("h" in seen) != ("a" in seen) or ("h" in seen and "H" in seen):
        raise _unknown("h" if "h" in seen else "a")
    return re.compile("".join(parts), re.ASCII | re.IGNORECASE)


def _is_open(run: str) -> bool:
    """May the number have more or fewer digits?"""
    return len(run) == 1 or run[0] == "S"


def _group(run: str) -> str:
    return "yy" if run == "yy" else run[0]
