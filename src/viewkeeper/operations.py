"""Files of operations: one JSON object a line, {"relation": "r", "op": "insert", "row": [1, "a"]}."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

from viewkeeper.errors import DataError, Problem, problem
from viewkeeper.store.delimited import name_of, opened
from viewkeeper.transaction import KINDS, Asked

_FIELDS = {"relation", "op", "row"}


def read_operations(path: Path | BinaryIO) -> list[Asked]:
    """The operations of a file, in order, those that follow each other on one relation together."""
    problems: list[Problem] = []
    found: list[Asked] = []
    for number, line in _lines(path):
        try:
            relation, kind, row = _operation(line)
        except ValueError as error:
            problems.append(problem("BAD_OPERATION", where=f"{name_of(path)}, line {number}", why=str(error)))
            continue
        last = found[-1] if found else None
        # A row's line is told from that of the first one, so only lines that follow each other go together.
        if last is not None and (last.kind, last.relation, (last.line or 0) + len(last.rows)) == (kind, relation, number):
            last.rows.append(row)
        else:
            found.append(Asked(kind, relation, [row], number))
    if problems:
        raise DataError(problems)
    return found


def _lines(path: Path | BinaryIO) -> Iterator[tuple[int, str]]:
    with opened(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, line


def _operation(line: str) -> tuple[str, str, Any]:
    try:
        # Decimal keeps every digit; a float column turns it into the nearest float.
        value = json.loads(line, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("is not an object")
    if value.keys() != _FIELDS:
        wrong = sorted(value.keys() ^ _FIELDS)
        raise ValueError(f"{'lacks' if wrong[0] in _FIELDS else 'has an unknown field'} {wrong[0]!r}")
    if value["op"] not in KINDS:
        raise ValueError(f"{value['op']!r} is no operation")
    if not isinstance(value["relation"], str):
        raise ValueError("its relation is not a text")
    if not isinstance(value["row"], (list, dict)):
        raise ValueError("its row is neither an array nor an object")
    return value["relation"], value["op"], value["row"]
