"""Errors as values, so that they can be raised late."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .values import OracleError, Row, Value


@dataclass(frozen=True)
class Poison:
    """The value of a term whose evaluation is an error."""

    kind: str


class NoValue(Exception):
    """min, max or mean of nothing: the literal (or the head) does not hold, negated or not."""


Env = dict[str, Value | Poison]
Found = tuple[Env, Poison | None]
"""An assignment, and the error that it runs into, if any."""


def poison(values: Iterable[Value | Poison]) -> Poison | None:
    """The first error among the values."""
    return next((v for v in values if isinstance(v, Poison)), None)


def checked(values: Iterable[Value | Poison]) -> Row:
    """The values, if none is an error; the error is raised otherwise."""
    result: list[Value] = []
    for value in values:
        if isinstance(value, Poison):
            raise OracleError(value.kind)
        result.append(value)
    return tuple(result)
