"""A stored table gets an index where those it has would find many more rows, and no other."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import viewkeeper as vk
from viewkeeper.engines.indexes import is_served

ROWS = 20_000


@pytest.fixture
def table() -> Iterator[sqlite3.Connection]:
    """Orders of five lines each; 40 lines for each part, of which 4 come from the same supplier; a hub that a tenth of them has."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE line (orderkey, number, part, supplier, flag, hub)")
    rows = ((i // 5, i % 5, i % 500, i % 5000, i % 2, i if i % 10 else 0) for i in range(ROWS))
    connection.executemany("INSERT INTO line VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.execute('CREATE UNIQUE INDEX "key of line" ON line (orderkey, number)')
    yield connection
    connection.close()


def served(connection: sqlite3.Connection, *columns: str) -> bool:
    return is_served(lambda sql, given=(): connection.execute(sql, given).fetchall(), "line", columns)


def test_the_beginning_of_an_index_is_one(table: sqlite3.Connection) -> None:
    assert served(table, "orderkey")
    assert served(table, "number", "orderkey")
    assert not served(table, "number")
    assert not served(table, "part")


def test_few_rows_need_no_more(table: sqlite3.Connection) -> None:
    assert served(table, "orderkey", "part")
    assert served(table, "orderkey", "part", "supplier")


def test_many_rows_need_more_unless_little_is_left_out(table: sqlite3.Connection) -> None:
    table.execute("CREATE INDEX parts ON line (part)")
    assert served(table, "part", "flag")  # the flag says nothing of a part
    assert not served(table, "part", "supplier")  # 40 rows instead of 4
    table.execute("CREATE INDEX flags ON line (flag)")
    assert not served(table, "flag", "supplier")


def test_a_value_that_many_rows_have_is_seen(table: sqlite3.Connection) -> None:
    table.execute("CREATE INDEX hubs ON line (hub)")
    assert not served(table, "hub", "supplier")  # a tenth of all rows has the same


def test_nothing_is_known_of_a_small_table(table: sqlite3.Connection) -> None:
    table.execute("DELETE FROM line WHERE rowid > 1000")
    assert served(table, "orderkey")
    assert not served(table, "orderkey", "part")


def test_an_index_on_an_expression_serves_nothing(table: sqlite3.Connection) -> None:
    table.execute("CREATE INDEX parts ON line (ifnull(part, x''))")
    assert not served(table, "part")


def test_views_over_rows_that_are_there_take_fewer_indexes(tmp_path: Path) -> None:
    program = """
    .decl line(orderkey: number, number: number, part: number) key(orderkey, number)
    .decl wanted(orderkey: number, part: number)
    """
    view = ".decl both(orderkey: number, number: number) both(o, n) :- wanted(o, p), line(o, n, p)."
    lines = [(i // 5, i % 5, i % 5) for i in range(ROWS)]

    def indexes(path: Path) -> set[str]:
        with vk.open(path) as shop:
            shop.load("wanted", [(7, 3), (8, 2)])
            assert set(shop.query("both(o, n)")) == {(7, 3), (8, 2)}
            shop.commit(inserts={"wanted": [(9, 1)]}, deletes={"line": [(7, 3, 3)]})
            assert set(shop.query("both(o, n)")) == {(8, 2), (9, 1)}
        with sqlite3.connect(path / "catalog.db") as connection:
            found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'line'")
            return {name for [name] in found}

    with vk.open(tmp_path / "rows first", create=True) as shop:
        shop.define(program)
        shop.load("line", lines)
        shop.define(view)
    with vk.open(tmp_path / "views first", create=True) as shop:
        shop.define(program + view)
        shop.load("line", lines)
    assert indexes(tmp_path / "rows first") == {"key of line"}
    assert indexes(tmp_path / "views first") == {"key of line", "line by orderkey part"}
