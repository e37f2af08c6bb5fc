"""As few indexes as serve all searches, and none that is not needed any more."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import combinations
from pathlib import Path

import pytest

import viewkeeper as vk
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
