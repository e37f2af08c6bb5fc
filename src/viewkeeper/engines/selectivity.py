"""How many rows a search finds by one column alone, so that no index is kept for a search that another index serves nearly as well.

The lines of an order are few: who looks for those of a supplier among them needs no index of their own. Each index is a place more that
every row has to be brought to. What was found is left in SQLite's statistics, by which it chooses the index, and by which the same is
decided the next time.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from viewkeeper.engines.indexes import Columns

# Finding so many rows, of which few are wanted, is better than an index more. Where it was decided so, it stays so up to twice as many.
FEW_MORE = 64
# Of smaller tables nothing is known: they may be about to grow.
SMALLEST = 10_000
_SAMPLE = 2_000

Row = tuple[Any, ...]


class Selectivity:
    """Of one table, with the names of its columns and those of its indexes, each with the columns it has (positions), and about how many
    rows it has. ``sample``: some of its rows, if they have no numbers by which some can be taken at random."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        table: str,
        columns: list[str],
        indexes: Mapping[str, tuple[int, ...]],
        rows: int,
        sample: Callable[[], Sequence[Row]] | None = None,
    ) -> None:
        self._connection, self._table, self._columns, self._indexes = connection, table, columns, indexes
        self._rows, self._sample = rows, sample
        self.is_news = False
        """Did it take rows to decide something that the statistics do not tell yet?"""

    def narrowed(self, wanted: Iterable[Columns]) -> set[Columns]:
        """The searches with one column instead of several where that finds few rows more."""
        found = {*wanted}
        open_ = {one for one in found if len(one) > 1 and not any(_serves(index, one) for index in self._indexes.values())}
        if not open_:
            return found
        rows = self._rows
        if rows < SMALLEST or self._sample is not None:
            return found  # without numbers it would take too long to look at rows, and SQLite does better without knowing of some columns only
        known = self._known()
        missing = {i for one in open_ for i in one if not any(known.get(j, rows) <= FEW_MORE for j in one)}
        known |= self._sampled(sorted(missing - known.keys()))
        for one in open_:
            best = min(one, key=lambda i: (known.get(i, rows), i))
            if known.get(best, rows) <= FEW_MORE:
                found.remove(one)
                found.add(frozenset({best}))
                self.is_news |= best in missing
        return found

    def note(self) -> None:
        """Lets SQLite look at the indexes."""
        analyze(self._connection, self._table)

    def of_value(self, column: int) -> float:
        """About how many rows a value of a column has."""
        return (self._known() | self._sampled([column]))[column] if self._rows else 0.0

    def _known(self) -> dict[int, float]:
        """Rows for each value of the first column of an index, as SQLite's statistics have it."""
        if not self._connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = 'sqlite_stat1'").fetchall():
            return {}
        found: dict[int, float] = {}
        sql = "SELECT idx, stat FROM main.sqlite_stat1 WHERE tbl = ?"
        for index, numbers in self._connection.execute(sql, (self._table,)):
            if index in self._indexes and len(numbers.split()) > 1:
                first = self._indexes[index][0]
                rows = float(numbers.split()[1])
                found[first] = min(found.get(first, rows), FEW_MORE if rows <= 2 * FEW_MORE else rows, rows)
        return found

    def _sampled(self, columns: list[int]) -> dict[int, float]:
        """The same of any column, from rows taken at random: how often two of them agree."""
        rows = self._rows
        if not columns:
            return {}
        if self._sample is not None:
            sample = [tuple([row[i] for i in columns]) for row in self._sample()]
        else:
            sample = self._at_random(columns)
        pairs = max(1, len(sample) * (len(sample) - 1))
        counts = {i: Counter(row[place] for row in sample) for place, i in enumerate(columns)}
        return {i: 1 + rows * sum(n * (n - 1) for n in found.values()) / pairs for i, found in counts.items()}

    def _at_random(self, columns: list[int]) -> list[Row]:
        chosen = ", ".join(_quoted(self._columns[i]) for i in columns)
        sql = f"SELECT {chosen} FROM main.{_quoted(self._table)} WHERE rowid >= ? ORDER BY rowid LIMIT 1"
        numbers = random.Random(self._rows)
        return [found for _ in range(_SAMPLE) for found in self._connection.execute(sql, (numbers.randint(1, self._rows),))]


def spread_sample(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], key: Sequence[int], rows: int
) -> list[Row]:
    """Rows at random distances of a table that is stored in the order of a key (positions) and has about so many."""
    names, distance = [_quoted(column) for column in columns], max(1, rows // _SAMPLE)
    order = ", ".join(names[i] for i in key)
    chosen, where = f"SELECT {', '.join(names)} FROM main.{_quoted(table)}", f"WHERE ({order}) > ({', '.join('?' * len(key))})"
    further = f"{chosen} {where} ORDER BY {order} LIMIT 1 OFFSET ?"
    distances = random.Random(rows)
    found = connection.execute(f"{chosen} ORDER BY {order} LIMIT 1").fetchall()
    while found and len(found) < 2 * _SAMPLE:
        skipped = distances.randint(0, 2 * (distance - 1))
        more = connection.execute(further, [*(found[-1][i] for i in key), skipped]).fetchall()
        if not more:
            break
        found += more
    return found


def analyze(connection: sqlite3.Connection, table: str) -> None:
    connection.execute(f"PRAGMA analysis_limit={_SAMPLE}")
    connection.execute(f"ANALYZE main.{_quoted(table)}")


def rows_of_a_value(connection: sqlite3.Connection, table: str) -> float | None:
    """How many rows of a table share the first column of its key, as SQLite's statistics have it."""
    if not connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = 'sqlite_stat1'").fetchall():
        return None
    for [numbers] in connection.execute("SELECT stat FROM main.sqlite_stat1 WHERE tbl = ?", (table,)):
        if len(numbers.split()) > 1:
            return float(numbers.split()[1])
    return None


def _serves(index: tuple[int, ...], search: Columns) -> bool:
    return frozenset(index[: len(search)]) == search


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
