"""Keys: what would make two rows of one key is refused with both of them, and nothing is changed. NULL equals NULL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.playing import everything, told

import viewkeeper as vk
from viewkeeper.outcomes import Commit
from viewkeeper.warehouse import Warehouse

TEXT = """
.decl user(id: number?, name: symbol) key(id)
.decl price(item: symbol, shop: number?, cents: number) key(shop, item)
.decl plain(x: number)
.decl name(name: symbol)
name(n) :- user(_, n).
"""
Rows = list[tuple[Any, ...]]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Warehouse]:
    with vk.open(tmp_path / "shop", create=True) as warehouse:
        warehouse.define(TEXT)
        warehouse.commit({"user": [(1, "ann"), (2, "bob"), (None, "nobody")], "price": [("ink", None, 5), ("ink", 1, 6)]})
        yield warehouse


def upserted(shop: Warehouse, *rows: tuple[Any, ...]) -> Commit:
    return shop.commit(upserts={"user": rows})


REFUSED: dict[str, tuple[Callable[[Warehouse], object], str]] = {
    "within a transaction": (
        lambda shop: shop.commit({"user": [(7, "x"), (8, "z"), (7, "y")]}),
        "key (id):\n  user(7, 'x')\n  user(7, 'y')\n",
    ),
    "a stored row": (lambda shop: shop.commit({"user": [(1, "eve")]}), "key (id):\n  user(1, 'ann')\n  user(1, 'eve')\n"),
    "NULL equals NULL": (
        lambda shop: shop.commit({"user": [(None, "eve")]}),
        "key (id):\n  user(NULL, 'eve')\n  user(NULL, 'nobody')\n",
    ),
    "several columns": (
        lambda shop: shop.commit({"price": [("ink", None, 9), ("pen", None, 5)]}),
        "key (shop, item):\n  price('ink', NULL, 5)\n  price('ink', NULL, 9)\n",
    ),
    "a load": (lambda shop: shop.load("user", [(3, "x"), (2, "y")]), "key (id):\n  user(2, 'bob')\n  user(2, 'y')\n"),
    "facts of a definition": (
        lambda shop: shop.define(".decl k(a: number, b: number) key(a)\nk(1, 2). k(2, 2). k(1, 3)."),
        'relation "k" would have several rows with the same key (a):\n  k(1, 2)\n  k(1, 3)\n',
    ),
    "facts for a relation with rows": (
        lambda shop: shop.define('user(2, "ted").'),
        "key (id):\n  user(2, 'bob')\n  user(2, 'ted')\n",
    ),
    "an insert after an upsert": (
        lambda shop: _insert_after_upsert(shop),
        "key (id):\n  user(3, 'a')\n  user(3, 'b')\n",
    ),
}


def _insert_after_upsert(shop: Warehouse) -> None:
    with shop.transaction() as tx:
        tx.upsert("user", [(3, "a")])
        tx.insert("user", [(3, "b")])


@pytest.mark.parametrize("why", REFUSED)
def test_two_rows_of_one_key(shop: Warehouse, why: str) -> None:
    action, text = REFUSED[why]
    before = everything(shop)
    with pytest.raises(vk.ViewkeeperError, match=r"^error\[KEY_VIOLATION\]") as caught:
        action(shop)
    assert text in str(caught.value)
    assert everything(shop) == before
    assert shop.commit({"user": [(77, "next")]}).number is not None
    assert all(view.right for view in shop.verify())


def test_many_rows_are_told_in_part(shop: Warehouse) -> None:
    with pytest.raises(vk.ViewkeeperError) as caught:
        shop.commit({"user": [(n, name) for n in range(100, 130) for name in "ab"]})
    assert str(caught.value).count("user(") == 20
    assert "\n  …\n" in str(caught.value)


def test_an_empty_relation(tmp_path: Path) -> None:
    with vk.open(tmp_path / "w", create=True) as shop:
        shop.define(TEXT)
        with pytest.raises(vk.ViewkeeperError, match="KEY_VIOLATION"):
            shop.load("user", [(1, "a"), (1, "b")])
        assert shop.load("user", [(1, "a"), (1, "a")]).inserted == {"user": 1}


def test_an_upsert_takes_the_place_of_what_has_the_key(shop: Warehouse) -> None:
    assert told(upserted(shop, (1, "eve"), (4, "new")).changes) == {
        "user": ({(1, "eve"), (4, "new")}, {(1, "ann")}),
        "name": ({("eve",), ("new",)}, {("ann",)}),
    }
    assert told(upserted(shop, (None, "x")).changes)["user"] == ({(None, "x")}, {(None, "nobody")})


def test_the_last_upsert_of_a_key_counts(shop: Warehouse) -> None:
    assert told(upserted(shop, (1, "eve"), (1, "ada"), (5, "x"), (5, "y")).changes)["user"] == (
        {(1, "ada"), (5, "y")},
        {(1, "ann")},
    )
    assert upserted(shop, (1, "zoe"), (1, "ada")).changes == {}


def test_an_upsert_of_what_is_there_changes_nothing(shop: Warehouse) -> None:
    commit = upserted(shop, (1, "ann"), (None, "nobody"))
    assert (commit.number, commit.changes) == (None, {})


def test_an_upsert_takes_the_place_of_all_rows_of_the_transaction(shop: Warehouse) -> None:
    with shop.transaction() as tx:
        tx.insert("user", [(5, "a"), (5, "b"), (1, "c")])
        tx.upsert("user", [(5, "d"), (1, "e")])
    assert told(tx.changes)["user"] == ({(5, "d"), (1, "e")}, {(1, "ann")})


def test_keys_can_be_swapped(shop: Warehouse) -> None:
    both = {(1, "bob"), (2, "ann")}
    assert told(upserted(shop, *both).changes) == {"user": (both, {(1, "ann"), (2, "bob")})}
    with shop.transaction() as tx:
        tx.insert("user", [(1, "ann"), (2, "bob")])
        tx.delete("user", list(both))
    assert told(tx.changes) == {"user": ({(1, "ann"), (2, "bob")}, both)}


def test_a_delete_makes_room(shop: Warehouse) -> None:
    assert told(shop.commit({"user": [(1, "eve")]}, {"user": [(1, "ann")]}).changes)["user"] == ({(1, "eve")}, {(1, "ann")})


def test_upsert_without_a_key(shop: Warehouse) -> None:
    before = everything(shop)
    with pytest.raises(vk.ViewkeeperError, match=r"^error\[NO_KEY\]: relation \"plain\" has no key"):
        shop.commit({"user": [(9, "x")]}, upserts={"plain": [(1,)]})
    assert everything(shop) == before


@pytest.mark.parametrize("columns", ["a: number?, b: symbol?", "a: number, b: symbol"])
def test_first_rows_are_held_to_the_key(columns: str, tmp_path: Path) -> None:
    """Rows of an empty relation go straight into its table, many at a time."""
    with vk.open(tmp_path / "w", create=True) as shop:
        shop.define(f".decl r({columns}) key(a)")
        with pytest.raises(vk.DataError) as caught:
            shop.load("r", [(1, "x"), (2, "y"), (2, "y"), (1, "z")])
        assert caught.value.code == "KEY_VIOLATION"
        assert "r(1, 'x')\n  r(1, 'z')" in str(caught.value)
        assert shop.load("r", [(1, "x"), (2, "y"), (2, "y")]).inserted == {"r": 2}


@pytest.mark.parametrize(
    "columns", ["x: number, y: symbol", "x: number?, y: symbol?", "x: number, y: symbol, a: number, b: number, c: number"]
)
@pytest.mark.parametrize(("first", "then"), [("key(x)", ""), ("", "key(x)"), ("key(x)", "key(y)"), ("key(x)", "key(x, y)")])
def test_an_empty_relation_gets_another_key(first: str, then: str, columns: str, tmp_path: Path) -> None:
    width = columns.count(":")
    wild, more = ", _" * (width - 2), (0,) * (width - 2)
    with vk.open(tmp_path / "w", create=True, engine="embedded") as shop:
        shop.define(f".decl a({columns}) {first}\n.decl c(n: number) c(n) :- n = count : {{ a(_, _{wild}) }}.")
        shop.define(f".decl a({columns}) {then}", replace=True)
        shop.commit({"a": [(1, "p", *more)]})
        for row, alike in (((1, "q", *more), then == "key(x)"), ((2, "p", *more), then == "key(y)")):
            if alike:
                with pytest.raises(vk.DataError, match=r"^error\[KEY_VIOLATION\]"):
                    shop.commit({"a": [row]})
            else:
                assert told(shop.commit({"a": [row]}).changes)["a"] == ({row}, set())
        assert list(shop.query("c(n)")) == [(3 - then.count("key(x)") - then.count("key(y)"),)]
        assert all(view.right for view in shop.verify())
