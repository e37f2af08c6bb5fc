"""Whether a table needs one more index. Each takes its part of every change, so one that finds little less than another is left out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

# An index finds few enough rows if they are so many on average, or so many times those that are wanted.
_FEW = 8
_SAMPLES = 64
# Of smaller tables nobody knows what they will be like.
_KNOWN = 10_000
_MOST = 512

Fetch = Callable[..., list[tuple[Any, ...]]]


def is_served(fetch: Fetch, table: str, bound: Collection[str]) -> bool:
    """Does an index that the stored table has find few rows more than those with given values in these columns? A look at some rows
    tells; values that many rows have are seen most often."""
    begins = {columns[: _leading(columns, bound)] for columns in _indexes(fetch, table)} - {()}
    if any(len(begin) == len(bound) for begin in begins):
        return True
    return any(_finds_few(fetch, table, begin, bound) for begin in sorted(begins))


def _indexes(fetch: Fetch, table: str) -> list[tuple[str, ...]]:
    """The columns of each index, as far as they are columns."""
    found = []
    for [name] in fetch("SELECT name FROM pragma_index_list(?, 'main') WHERE partial = 0", (table,)):
        columns = fetch("SELECT name FROM pragma_index_info(?, 'main') ORDER BY seqno", (name,))
        found.append(tuple(column or "" for [column] in columns))
    return found


def _leading(columns: tuple[str, ...], bound: Collection[str]) -> int:
    """How many of the first columns are bound."""
    return next((i for i, column in enumerate(columns) if column not in bound), len(columns))


def _finds_few(fetch: Fetch, table: str, begin: tuple[str, ...], bound: Collection[str]) -> bool:
    name, rest = _quoted(table), [column for column in bound if column not in begin]
    [[top]] = fetch(f"SELECT coalesce(max(rowid), 0) FROM main.{name}")
    if top < _KNOWN:
        return False
    columns = ", ".join(map(_quoted, (*begin, *rest)))
    same = [" AND ".join(f"{_quoted(column)} IS ?" for column in some) for some in (begin, rest)]
    found = wanted = 0
    for i in range(_SAMPLES):
        [row] = fetch(f"SELECT {columns} FROM main.{name} WHERE rowid >= ? LIMIT 1", (1 + top * i // _SAMPLES,))
        some = f"SELECT {same[1]} AS wanted FROM main.{name} WHERE {same[0]} LIMIT {_MOST}"
        [(number, exact)] = fetch(f"SELECT count(*), sum(wanted) FROM ({some})", (*row[len(begin) :], *row[: len(begin)]))
        if number == _MOST:
            return False
        found, wanted = found + number, wanted + exact
    return found <= _FEW * max(_SAMPLES, wanted)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
