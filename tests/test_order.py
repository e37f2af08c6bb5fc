"""In which order a view's relations are joined when it is computed at first."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import viewkeeper as vk
from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.engines.order import Matches, join_order
from viewkeeper.language import parse
from viewkeeper.program.ast import Atom, Column, Program, Relation
from viewkeeper.program.types import NUMBER

DECLARED = """
.decl region(key: number, name: symbol) key(key)
.decl nation(key: number, region: number) key(key)
.decl supplier(key: number, nation: number) key(key)
.decl customer(key: number, nation: number) key(key)
.decl orders(key: number, customer: number, day: number) key(key)
.decl line(order: number, number: number, supplier: number, part: number) key(order, number)
.decl part(key: number, name: symbol) key(key)
.decl found(x: number)
"""
SIZES = {
    "region": 5, "nation": 25, "supplier": 10_000, "customer": 150_000, "orders": 1_500_000, "line": 6_000_000, "part": 200_000,
}  # fmt: skip
MATCHES = {
    ("supplier", 1): 400.0, ("customer", 1): 6_000.0, ("orders", 1): 10.0, ("line", 0): 4.0, ("line", 2): 600.0, ("line", 3): 30.0,
}  # fmt: skip


def counted(relation: str, column: int) -> float | None:
    return MATCHES.get((relation, column))


def order(body: str, sizes: dict[str, int] = SIZES, matches: Matches | None = counted) -> list[str]:
    program: Program = parse(f"{DECLARED}found(o) :- {body}.")
    [rule] = program.rules
    known = {relation.name: relation for relation in program.relations}
    found = join_order(rule.body, None, sizes, known, matches)
    return [atom.relation for i in found if isinstance(atom := rule.body[i], Atom)]


def test_customers_of_a_nation_are_not_met_with_its_suppliers() -> None:
    found = order(
        'region(r, "ASIA"), nation(n, r), supplier(s, n), customer(c, n), orders(o, c, d), line(o, _, s, _), d >= 5, d < 9'
    )
    assert found == ["orders", "customer", "nation", "region", "line", "supplier"]


def test_what_is_looked_up_by_its_key_comes_after_what_names_it() -> None:
    assert order("part(p, _), line(o, _, _, p)") == ["line", "part"]
    assert order('part(p, "ring"), line(o, _, _, p)') == ["part", "line"]
    assert order("line(o, _, _, p), orders(o, _, 7)") == ["orders", "line"]


def test_everything_small_is_joined_as_it_always_was() -> None:
    small, body = dict.fromkeys(SIZES, 10), 'supplier(o, n), nation(n, r), region(r, "ASIA")'
    assert order(body, small, lambda relation, column: None) == order(body, small, None) == ["region", "nation", "supplier"]


@pytest.mark.parametrize("key", ["", " key(id)"])
def test_it_is_known_how_many_rows_share_a_value(key: str, tmp_path: Path) -> None:
    """Whether rows have numbers, by which some are taken at random, or are stored in the order of their key."""
    people = Relation("person", tuple(Column(name, NUMBER) for name in ("id", "country", "team")))
    with vk.open(tmp_path / "w", create=True, engine="embedded", durable=False) as shop:
        shop.define(f".decl person(id: number, country: number, team: number){key}")
        shop.load("person", [(i, i * 7919 % 2, i * 7919 % 500) for i in range(20_000)])
        for numbered in (False, True):
            with closing(sqlite3.connect(shop.path / "catalog.db")) as database:
                if numbered:
                    database.execute("ALTER TABLE person RENAME TO rows")
                    database.execute("CREATE TABLE person AS SELECT * FROM rows")
                engine = EmbeddedEngine(database, {"person"}, may_change=False)
                assert (engine.row_names("person") == ["rowid"]) is numbered
                found = [engine.indexes.rows_of_value(people, column) for column in range(3)]
                assert all(
                    one is not None and wanted / 3 < one < 3 * wanted
                    for one, wanted in zip(found, (1, 10_000, 40), strict=True)
                )
