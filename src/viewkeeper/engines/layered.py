"""Indexes in two layers, for wide base relations of many rows.

An index of SQLite is one more place that every row has to be brought to, and unless rows come in its order, nearly each of them to another
page. Here entries (value, row number) are in a large table, those of rows that came or went since in a small one, which triggers
fill. Who searches looks into both and then at the row itself, which may be gone, or have another value by now. From so many entries on the
small one is merged into the large one, most of whose pages get several then.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

from viewkeeper.engines.names import ORDERED, quoted, sql_name
from viewkeeper.engines.selectivity import analyze, rows_of_a_value
from viewkeeper.program.ast import Relation

# Smaller tables are in the cache as a whole.
SMALLEST = 100_000
# A search takes all entries of a value before it looks at the first row.
_MOST_OF_A_VALUE = 10_000
# What a merge costs is limited by this, and what is saved by it grows with it.
_MERGED_FROM = 50_000
_CAME = "$came "


class Layered:
    """All such indexes of a database; tables and columns by their names in it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[str, dict[str, float]] | None = None
        # Columns that an index of SQLite begins with, by table.
        self._leading: dict[str, set[str]] = {}
        self._recent: dict[tuple[str, str], int] = {}

    def forget(self) -> None:
        """Something was made, dropped or taken back."""
        self._known, self._leading = None, {}
        self._recent.clear()

    def columns(self, table: str) -> dict[str, float]:
        """Columns that have such an index, and about how many rows each value has."""
        if self._known is None:
            self._known = {}
            sql = "SELECT tbl_name, name FROM main.sqlite_master WHERE type = 'trigger' AND substr(name, 1, ?) = ?"
            for name, trigger in self._connection.execute(sql, (len(_CAME), _CAME)).fetchall():
                column = trigger.removeprefix(f"{_CAME}{name} by ")
                rows = rows_of_a_value(self._connection, _layer(name, column))
                self._known.setdefault(name, {})[column] = 1.0 if rows is None else rows
        return self._known.get(table, {})

    def place(self, relation: Relation, bound: Collection[int]) -> int | None:
        """The column by which rows are best found so, if some are bound and no index of SQLite finds them."""
        table = sql_name(relation.name)
        known = self.columns(table)
        if not known:
            return None
        names = {sql_name(relation.columns[i].name): i for i in bound if i < relation.arity}
        found = [name for name in names if name in known]
        if not found or not self._begins_with(table).isdisjoint(names):
            return None
        return names[min(found, key=lambda name: (known[name], name))]

    def _begins_with(self, table: str) -> set[str]:
        if table not in self._leading:
            sql = (
                "SELECT c.name FROM pragma_index_list(?, 'main') AS i, pragma_index_info(i.name, 'main') AS c"
                f" WHERE c.seqno = 0 AND c.name IS NOT NULL AND instr(i.name, '{ORDERED}') = 0"
            )
            self._leading[table] = {name for [name] in self._connection.execute(sql, (table,))}
        return self._leading[table]

    def rows(self, relation: Relation, place: int, alias: str, value: str) -> str:
        """The condition that a row has a value, and is looked up by it. The plus keeps SQLite from making an index of its own for that."""
        table, column = sql_name(relation.name), sql_name(relation.columns[place].name)
        layer, recent = (f"main.{quoted(name(table, column))}" for name in (_layer, _fresh))
        return (
            f"{alias}.rowid IN (SELECT id FROM {layer} WHERE value = {value}"
            f" UNION ALL SELECT id FROM {recent} WHERE value = {value} AND present) AND +{alias}.{quoted(column)} = {value}"
        )

    # ---- making and dropping

    def are_worth_it(self, rows: int) -> bool:
        """For a wide table of so many rows."""
        return rows >= SMALLEST

    def suits(self, table: str, column: str, rows_of_value: float) -> bool:
        return column in self.columns(table) or rows_of_value <= _MOST_OF_A_VALUE

    def make(self, table: str, column: str, storage: str) -> None:
        """The index, unless it is there."""
        if column in self.columns(table):
            return
        self.drop(table, column)  # what is left of one without its table
        layer, recent, name = quoted(_layer(table, column)), quoted(_fresh(table, column)), quoted(column)
        run = self._connection.execute
        entry = f"value {storage} NOT NULL, id INTEGER NOT NULL"
        run(f"CREATE TABLE main.{layer} ({entry}, PRIMARY KEY (value, id)) STRICT, WITHOUT ROWID")
        run(f"CREATE TABLE main.{recent} ({entry}, present INTEGER NOT NULL, PRIMARY KEY (value, id)) STRICT, WITHOUT ROWID")
        run(f"INSERT INTO main.{layer} SELECT {name}, rowid FROM main.{quoted(table)} WHERE {name} IS NOT NULL ORDER BY 1, 2")
        came, went = (
            f"INSERT INTO {recent} SELECT {row}.{name}, {row}.rowid, {present} WHERE {row}.{name} IS NOT NULL"
            f" ON CONFLICT DO UPDATE SET present = {present};"
            for row, present in (("new", 1), ("old", 0))
        )
        for what, event, done in (("$went ", "DELETE", went), ("$moved ", "UPDATE", went + came), (_CAME, "INSERT", came)):
            trigger = quoted(f"{what}{table} by {column}")
            run(f"CREATE TRIGGER main.{trigger} AFTER {event} ON {quoted(table)} BEGIN {done} END")
        analyze(self._connection, _layer(table, column))
        self.forget()

    def drop(self, table: str, column: str) -> None:
        for what in ("$went ", "$moved ", _CAME):
            self._connection.execute(f"DROP TRIGGER IF EXISTS main.{quoted(f'{what}{table} by {column}')}")
        for name in (_layer, _fresh):
            self._connection.execute(f"DROP TABLE IF EXISTS main.{quoted(name(table, column))}")
        self.forget()

    # ---- changes

    def changed(self, table: str, rows: int) -> None:
        """So many rows came or went, 0 if that is not known: merges an index if there is enough to merge. One at a time, so that no
        commit waits for all."""
        largest, number = "", 0
        for column in self.columns(table):
            known = self._recent.get((table, column))
            if known is None or not rows:
                [[known]] = self._connection.execute(f"SELECT count(*) FROM main.{quoted(_fresh(table, column))}")
            else:
                known += rows
            self._recent[table, column] = known
            if known > number:
                largest, number = column, known
        if number >= _MERGED_FROM:
            self.merge(table, largest)

    def merge(self, table: str, column: str) -> None:
        layer, recent = (f"main.{quoted(name(table, column))}" for name in (_layer, _fresh))
        self._connection.execute(f"DELETE FROM {layer} WHERE (value, id) IN (SELECT value, id FROM {recent} WHERE NOT present)")
        self._connection.execute(f"INSERT OR IGNORE INTO {layer} SELECT value, id FROM {recent} WHERE present")
        self._connection.execute(f"DELETE FROM {recent}")
        self._recent[table, column] = 0


def layers_of(connection: sqlite3.Connection, table: str) -> list[str]:
    """The tables of all such indexes of a table."""
    starts = [_layer(table, ""), _fresh(table, "")]
    sql = "SELECT name FROM main.sqlite_master WHERE type = 'table' AND (substr(name, 1, ?) = ? OR substr(name, 1, ?) = ?)"
    return [name for [name] in connection.execute(sql, [x for start in starts for x in (len(start), start)])]


def _layer(table: str, column: str) -> str:
    return f"$layer of {table} by {column}"


def _fresh(table: str, column: str) -> str:
    return f"$recent of {table} by {column}"
