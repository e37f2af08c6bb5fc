"""As few indexes as serve all searches, and none that is not needed any more."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import combinations
from pathlib import Path

import pytest
from tests.playing import play
from tests.streams import stream

import viewkeeper as vk
from viewkeeper.engines import layered, layout
from viewkeeper.engines.indexes import Chain, Columns, chain_columns, chains_of, serves
from viewkeeper.warehouse import Warehouse

LINES = """
.decl line(order: number, number: number, part: number, supplier: number, flag: number) key(order, number)
.decl part(part: number) .decl supplier(supplier: number) .decl wanted(part: number, supplier: number)
"""
# By part, by supplier, by both.
VIEWS = """
.decl of_part(x: number) of_part(x) :- part(p), line(x, _, p, _, _).
.decl of_supplier(x: number) of_supplier(x) :- supplier(s), line(x, _, _, s, _).
.decl of_both(x: number) of_both(x) :- wanted(p, s), line(x, _, p, s, _).
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Warehouse]:
    with vk.open(tmp_path / "shop", create=True) as shop:
        yield shop


def indexes(shop: Warehouse) -> set[str]:
    with closing(sqlite3.connect(shop.path / "catalog.db")) as database:
        found = database.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND name LIKE 'line by %'").fetchall()
    return {name.removeprefix("line by ") for [name] in found}


def test_searches_that_contain_each_other_share_an_index(shop: Warehouse) -> None:
    shop.define(LINES)
    shop.define(VIEWS)
    assert indexes(shop) in ({"part supplier", "supplier"}, {"supplier part", "part"})


def test_the_order_of_definitions_does_not_matter(shop: Warehouse) -> None:
    shop.define(LINES)
    for view in VIEWS.strip().splitlines():
        shop.define(view)
        shop.commit({"line": [(1, len(indexes(shop)), 5, 6, 0)]})
    assert indexes(shop) in ({"part supplier", "supplier"}, {"supplier part", "part"})
    shop.commit({"part": [(5,)], "supplier": [(6,)], "wanted": [(5, 6)]})
    assert all(view.right for view in shop.verify())
    assert [row for [row] in shop.query("of_both(x)")] == [1]


def test_indexes_go_with_the_views_that_needed_them(shop: Warehouse) -> None:
    shop.define(LINES + VIEWS)
    shop.drop("of_both")
    assert len(indexes(shop)) == 2
    shop.drop("of_part")
    assert {name.split()[0] for name in indexes(shop)} == {"supplier"}
    shop.drop("of_supplier")
    assert indexes(shop) == set()


def test_what_external_views_search_stays(shop: Warehouse) -> None:
    """Their rules are prepared when they are first used, so a definition does not know what they need."""
    shop.define(LINES + VIEWS + ".external of_both")
    shop.commit({"line": [(1, 1, 5, 6, 0)], "wanted": [(5, 6)]})
    before = indexes(shop)
    assert any({"part", "supplier"} == set(name.split()) for name in before)
    shop.define(".decl more(x: number) more(x) :- supplier(x), x > 3.")
    assert indexes(shop) == before


# A part has about 30 lines, a supplier 600; an order has four.
MANY_ROWS = [
    (order, number, (order * 7 + number * 3) % 2_000, (order + number) % 100, order % 3)
    for order in range(15_000)
    for number in range(4)
]
MORE_VIEWS = """
.decl elsewhere(x: number, s: number)
elsewhere(x, s) :- line(x, n, _, s, _), line(x, m, _, t, _), n != m, s != t, supplier(t).
.decl spotless(x: number, s: number)
spotless(x, s) :- line(x, _, p, s, _), part(p), !line(x, _, _, s, 2).
"""


def test_no_index_is_kept_where_another_finds_few_rows_more(shop: Warehouse) -> None:
    shop.define(LINES)
    shop.load("line", MANY_ROWS)
    shop.load({"part": [(5,)], "supplier": [(6,), (7,)], "wanted": [(5, 6), (5, 35)]})
    shop.define(VIEWS + MORE_VIEWS)
    assert indexes(shop) == {"part", "supplier"}
    shop.commit({"wanted": [(9, 63)]}, {"line": MANY_ROWS[8:10]})
    shop.commit({"line": [(1_000_000, 1, 5, 6, 2), (1_000_000, 2, 5, 7, 1)], "part": [(9,)]})
    assert indexes(shop) == {"part", "supplier"}
    assert all(view.right for view in shop.verify())
    with vk.open(shop.path) as again:
        again.commit(deletes={"supplier": [(7,)], "wanted": [(5, 6)]})
        assert all(view.right for view in again.verify())
    assert indexes(shop) == {"part", "supplier"}


def test_sqlite_takes_the_index_that_finds_least(shop: Warehouse) -> None:
    shop.define(LINES)
    shop.load("line", MANY_ROWS)
    shop.define(VIEWS + MORE_VIEWS)
    with closing(sqlite3.connect(shop.path / "catalog.db")) as database:
        for columns, index in {
            ('"order"', "supplier"): "key of line",
            ('"order"', "part", "supplier", "flag"): "key of line",
            ("part", "supplier"): "line by part",
            ("supplier", "flag"): "line by supplier",
        }.items():
            where = " AND ".join(f"{column} = 1" for column in columns)
            [[*_, plan]] = database.execute(f"EXPLAIN QUERY PLAN SELECT * FROM line WHERE {where}").fetchall()
            assert f"SEARCH line USING INDEX {index} (" in plan


def test_few_rows_tell_nothing(shop: Warehouse) -> None:
    """The table may be about to grow, and its values to repeat."""
    shop.define(LINES)
    shop.load("line", MANY_ROWS[:5_000])
    shop.define(VIEWS)
    assert indexes(shop) in ({"part supplier", "supplier"}, {"supplier part", "part"})
    shop.load("line", MANY_ROWS)
    shop.commit({"wanted": [(9, 63)]})
    assert indexes(shop) in ({"part supplier", "supplier"}, {"supplier part", "part"})


def test_values_that_repeat_much_are_searched_together(shop: Warehouse) -> None:
    shop.define(LINES)
    shop.load("line", [(order, number, part % 50, supplier % 300, flag) for order, number, part, supplier, flag in MANY_ROWS])
    shop.define(VIEWS)
    assert indexes(shop) in ({"part supplier", "supplier"}, {"supplier part", "part"})


def least(searches: list[Columns]) -> int:
    """How many chains are needed at least: as many as there are searches none of which contains another (Dilworth)."""
    sizes = [0]
    for size in range(1, len(searches) + 1):
        for some in combinations(searches, size):
            if not any(a < b for a in some for b in some):
                sizes.append(size)
    return max(sizes)


@pytest.mark.parametrize("seed", range(40))
def test_every_search_is_served_by_as_few_as_possible(seed: int) -> None:
    choose = random.Random(seed)
    searches = {frozenset(choose.sample(range(5), choose.randint(1, 4))) for _ in range(choose.randint(1, 7))}
    leading = choose.choice([None, 0, 3])
    chains: list[Chain] = chains_of(searches, leading)
    made = [chain_columns(chain, leading) for chain in chains]
    assert sorted(map(sorted, (search for chain in chains for search in chain))) == sorted(map(sorted, searches))
    assert all(serves(index, chain, leading) for index, chain in zip(made, chains, strict=True))
    assert all(any(set(index[: len(search)]) == search for index in made) for search in searches)
    assert len(made) == least(list(searches))


# ---- indexes in two layers


@pytest.fixture
def layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every wide base relation is large, and few entries are merged."""
    monkeypatch.setattr(layered, "SMALLEST", 1)
    monkeypatch.setattr(layered, "_MERGED_FROM", 5)


def tables(shop: Warehouse) -> dict[str, int]:
    """What there is of such indexes, and how many entries."""
    with closing(sqlite3.connect(shop.path / "catalog.db")) as database:
        found = database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE '$% of line by %'"
        ).fetchall()
        return {name: database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for [name] in found}


def statements(shop: Warehouse, change: Mapping[str, list[tuple[int, ...]]]) -> list[str]:
    found: list[str] = []
    writer = shop._open_writer()
    writer.catalog.connection.set_trace_callback(found.append)
    shop.commit(change)
    writer.catalog.connection.set_trace_callback(None)
    return found


@pytest.mark.usefixtures("layers")
def test_large_wide_tables_have_indexes_in_two_layers(shop: Warehouse) -> None:
    shop.define(LINES)
    shop.commit({"line": [(order, 1, order % 3, order % 5, 0) for order in range(20)]})
    shop.define(VIEWS)
    assert not indexes(shop) - {"part supplier", "supplier part"}
    [(layer, entries), (recent, none)] = sorted(tables(shop).items())
    assert (layer[:6], entries, recent[:7], none) == ("$layer", 20, "$recent", 0)
    shop.commit({"line": [(20, 1, 0, 0, 0)]}, {"line": [(3, 1, 0, 3, 0)]})
    assert tables(shop) == {layer: 20, recent: 2}
    searched = [sql for sql in statements(shop, {"part": [(0,)], "supplier": [(0,)]}) if recent in sql]
    assert searched
    assert [x for [x] in shop.query("of_part(x)")] == [0, 6, 9, 12, 15, 18, 20]
    assert [x for [x] in shop.query("of_supplier(x)")] == [0, 5, 10, 15, 20]


@pytest.mark.usefixtures("layers")
def test_the_small_layer_is_merged_into_the_large_one(shop: Warehouse) -> None:
    shop.define(LINES)
    shop.commit({"line": [(order, 1, order % 3, order % 5, 0) for order in range(20)]})
    shop.define(VIEWS)
    shop.commit({"supplier": [(0,), (1,)]})
    for number in range(30):
        shop.commit({"line": [(100 + number, 1, 1, number % 3, 0)]}, {"line": [(number, 1, number % 3, number % 5, 0)]})
        [(_, entries), (_, recent)] = sorted(tables(shop).items())
        assert recent < 7 and entries >= 20 - number
    assert all(view.right for view in shop.verify())
    assert [x for [x] in shop.query("of_supplier(x)")] == [100 + n for n in range(30) if n % 3 < 2]


@pytest.mark.usefixtures("layers")
def test_a_row_number_used_again_is_found_once_and_by_its_own_value(shop: Warehouse) -> None:
    shop.define(LINES)
    shop.commit({"line": [(1, 1, 1, 1, 0), (2, 1, 2, 2, 0)]})
    shop.define(VIEWS)
    shop.commit(deletes={"line": [(2, 1, 2, 2, 0)]})
    shop.commit({"line": [(3, 1, 3, 3, 0)]})  # gets the row number of the one that went
    shop.commit(deletes={"line": [(3, 1, 3, 3, 0)]})
    shop.commit({"line": [(2, 1, 2, 2, 0)]})
    shop.commit({"supplier": [(2,), (3,)]})
    assert [x for [x] in shop.query("of_supplier(x)")] == [2]
    shop.commit(deletes={"supplier": [(2,)]})
    assert not list(shop.query("of_supplier(x)"))


@pytest.mark.usefixtures("layers")
def test_layers_go_with_their_table(shop: Warehouse) -> None:
    shop.define(LINES)
    shop.commit({"line": [(1, 1, 1, 1, 0)]})
    shop.define(VIEWS)
    assert tables(shop)
    shop.sql("ALTER TABLE line ADD COLUMN more INT")
    shop.commit({"line": [(2, 1, 1, 1, 0, None)], "supplier": [(1,)]})
    assert all(view.right for view in shop.verify())
    for name in ("of_part", "of_supplier", "of_both", "line"):
        shop.drop(name)
    assert not tables(shop)


@pytest.mark.usefixtures("layers")
@pytest.mark.parametrize("seed", range(6))
def test_streams_with_layers(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random changes, whatever is searched by."""
    monkeypatch.setattr(layout, "_NARROW", 0)
    play(stream(3 * seed + seed % 2, definitions=True), tmp_path / "w", external=0.2 * (seed % 3))
