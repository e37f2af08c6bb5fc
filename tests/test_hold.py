"""A warehouse that is held between changes, and transactions with a key, which are made once however often they are sent."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.children import ended, fork, holding
from tests.commands import viewkeeper

import viewkeeper as vk
from viewkeeper.store import keys
from viewkeeper.transaction import Asked
from viewkeeper.warehouse import Warehouse

TEXT = ".decl a(x: number, t: symbol) .decl b(x: number) b(x * 2) :- a(x, _)."
URL = {"url": "http://127.0.0.1:8765"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with vk.open(tmp_path / "shop", create=True) as shop:
        shop.define(TEXT)
    return tmp_path / "shop"


@pytest.fixture
def shop(path: Path) -> Iterator[Warehouse]:
    with vk.open(path) as opened:
        yield opened


def refused(code: str, work: Callable[[], object]) -> str:
    with pytest.raises(vk.ViewkeeperError) as told:
        work()
    assert told.value.code == code
    return str(told.value)


# ---- holding


def test_others_are_told_who_holds_it_and_its_note(path: Path) -> None:
    def work(stay: Callable[[], None]) -> None:
        with vk.open(path) as shop, shop.hold(URL):
            shop.commit({"a": [(1, "one")]})
            stay()

    with holding(work) as pid, vk.open(path) as other:
        told = refused("LOCKED", lambda: other.commit({"a": [(2, "two")]}))
        assert f"by process {pid} (" in told
        assert ", url http://127.0.0.1:8765" in told
        assert list(other.query("b(x)")) == [(2,)]
        assert viewkeeper("sql", path, "DELETE FROM a").error == "LOCKED"
        assert viewkeeper("drop", path, "b").error == "TOKEN_UNREADABLE"  # it goes to the server, if there is one
        found = Warehouse.holder(path)
        assert found is not None
        assert (found["pid"], found["url"]) == (pid, URL["url"])
        os.kill(pid, signal.SIGKILL)
        assert ended(pid) == -signal.SIGKILL
        assert "8765" in (path / "lock").read_text()
        assert Warehouse.holder(path) is None
        assert other.commit({"a": [(2, "two")]}).number == 3


def test_everything_of_this_warehouse_works_meanwhile(path: Path, shop: Warehouse) -> None:
    with vk.open(path) as other, shop.hold():
        assert shop.define(".decl c(x: number) c(x) :- b(x).").number == 2
        assert shop.load("a", [(1, "one")]).number == 3
        assert shop.sql("INSERT INTO a VALUES (2, 'two')")[0].commit.number == 4  # type: ignore[union-attr]
        assert shop.preview(deletes={"a": [(1, "one")]}).changes.keys() == {"a", "b", "c"}
        refused("LOCKED", lambda: other.drop("c"))
        assert shop.drop("c").number == 5
    with vk.open(path) as other:
        assert other.commit({"a": [(3, "three")]}).number == 6


def test_threads_share_what_one_of_them_holds(path: Path, shop: Warehouse) -> None:
    def write(first: int) -> None:
        for number in range(first, first + 20):
            shop.commit({"a": [(number, "x")]})

    with shop.hold(URL):
        threads = [threading.Thread(target=write, args=(100 * i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert Warehouse.holder(path) is not None
    assert Warehouse.holder(path) is None
    assert len(shop.query("b(x)")) == 80


def test_who_leaves_last_lets_it_go(path: Path, shop: Warehouse) -> None:
    first, second = shop.hold(URL), shop.hold({"url": "never told"})
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    holder = Warehouse.holder(path)
    assert holder is not None and holder["url"] == URL["url"]
    second.__exit__(None, None, None)
    assert Warehouse.holder(path) is None
    with shop.hold():
        pass


def test_a_failed_change_does_not_let_it_go(path: Path, shop: Warehouse) -> None:
    with shop.hold():
        refused("BAD_ROWS", lambda: shop.commit({"a": [("x", "y")]}))
        assert Warehouse.holder(path) is not None
        assert shop.commit({"a": [(1, "y")]}).number == 2


def test_a_child_does_not_have_what_its_parent_holds(path: Path) -> None:
    def work() -> None:
        refused("LOCKED", lambda: shop.commit({"a": [(2, "child")]}))

    with vk.open(path) as shop, shop.hold():
        assert ended(fork(work)) == 0
        assert Warehouse.holder(path) is not None
        assert shop.commit({"a": [(1, "parent")]}).number == 2


def test_holding_what_another_holds(path: Path, shop: Warehouse) -> None:
    with vk.open(path) as other, other.hold():
        refused("LOCKED", lambda: shop.hold().__enter__())
    shop.close()
    refused("CLOSED", lambda: shop.hold().__enter__())


def test_nobody_holds_what_is_no_warehouse(tmp_path: Path) -> None:
    assert Warehouse.holder(tmp_path / "nowhere") is None


def test_looking_does_not_disturb_writers(path: Path) -> None:
    """Looking takes the lock for a moment, on the text that somebody who was killed has left."""
    (path / "lock").write_text('{"pid": 1, "command": "x", "since": "long ago"}')

    def look() -> None:
        while True:
            Warehouse.holder(path)

    pids = [fork(look) for _ in range(2)]
    try:
        with vk.open(path) as shop:
            for number in range(300):
                shop.commit({"a": [(number, "x")]})
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            ended(pid)


# ---- keys

SAME: dict[str, Callable[[], Any]] = {
    "tuples": lambda: [(1, "one"), (2, "two")],
    "mappings": lambda: [{"x": 1, "t": "one"}],
    "a generator": lambda: ((n, str(n)) for n in range(3)),
    "a set": lambda: {(n, str(n)) for n in range(50)},
    "Arrow": lambda: pa.table({"x": [1, 2], "t": ["one", "two"]}),
    "nothing": list,
}


@pytest.mark.parametrize("rows", SAME)
def test_a_transaction_is_made_once(rows: str, shop: Warehouse) -> None:
    first = shop.commit({"a": SAME[rows]()}, key="k")
    assert not first.repeated
    before = list(shop.query("a(x, t)"))
    shop.commit(deletes={"a": before})
    again = shop.commit({"a": SAME[rows]()}, key="k")
    assert (again.number, again.repeated, again.changes) == (first.number, True, {})
    assert len(shop.query("a(x, t)")) == 0
    assert shop.commit({"a": SAME[rows]()}, key="other").repeated is False


def test_a_key_outlives_its_process(path: Path) -> None:
    def work(stay: Callable[[], None]) -> None:
        with vk.open(path) as shop:
            shop.commit({"a": {(n, str(n)) for n in range(20)}}, key="k")
            stay()

    with holding(work) as pid:
        os.kill(pid, signal.SIGKILL)
        ended(pid)
        with vk.open(path) as shop:
            assert shop.commit({"a": {(n, str(n)) for n in range(20)}}, key="k").repeated
            assert len(shop.log()) == 2


def test_killed_and_sent_again(path: Path) -> None:
    """Whoever is killed does not know whether its last transaction was made. Sent again, each is made once."""
    rng, sent = random.Random(2), 30

    def work(child: int) -> Callable[[Callable[[], None]], None]:
        def send(stay: Callable[[], None]) -> None:
            with vk.open(path) as shop:
                for number in range(10_000):
                    shop.commit({"a": [(number, str(child))]}, key=f"{child}/{number}")
                    if number == 3:
                        threading.Thread(target=stay, daemon=True).start()

        return send

    for child in range(12):
        with holding(work(child)) as pid:
            threading.Event().wait(rng.random() * 0.02)
            os.kill(pid, signal.SIGKILL)
            ended(pid)
        with vk.open(path) as shop:
            made = len(shop.query(f'a(x, "{child}")'))
            again = [shop.commit({"a": [(n, str(child))]}, key=f"{child}/{n}") for n in range(max(sent, made))]
            assert [one.repeated for one in again] == [n < made for n in range(len(again))]
            assert len({one.number for one in again}) == len(again)


def test_other_operations_under_the_same_key(shop: Warehouse) -> None:
    shop.commit({"a": [(1, "one")]}, key="k")
    for more in ({"inserts": {"a": [(1, "two")]}}, {"deletes": {"a": [(1, "one")]}}, {"inserts": {"b": [(1, "one")]}}):
        assert 'the key "k" named' in refused("KEY_REUSED", lambda more=more: shop.commit(**more, key="k"))  # type: ignore[misc]
    assert len(shop.log()) == 2


def test_a_key_of_a_transaction_that_changed_nothing(shop: Warehouse) -> None:
    shop.commit({"a": [(1, "one")]})
    first = shop.commit({"a": [(1, "one")]}, key="k")
    shop.commit(deletes={"a": [(1, "one")]})
    again = shop.commit({"a": [(1, "one")]}, key="k")
    assert (first.number, first.repeated, again.number, again.repeated) == (None, False, None, True)
    assert list(shop.query("a(x, t)")) == []


def test_a_key_of_a_transaction_that_failed_is_free(shop: Warehouse) -> None:
    refused("BAD_ROWS", lambda: shop.commit({"a": [("x", "y")]}, key="k"))
    assert shop.commit({"a": [(1, "y")]}, key="k").number == 2


def test_repeated_after_the_definition_has_changed(shop: Warehouse) -> None:
    first = shop.commit({"a": [(1, "one")]}, key="k")
    shop.drop("b")
    shop.commit(deletes={"a": [(1, "one")]})
    shop.drop("a")
    assert shop.commit({"a": [(1, "one")]}, key="k").number == first.number


def test_a_preview_leaves_no_key(shop: Warehouse) -> None:
    asked = [Asked("insert", "a", [(1, "one")])]
    assert shop.commit_operations(asked, key="k", dry_run=True).changes.keys() == {"a", "b"}
    done = shop.commit_operations(asked, key="k")
    assert (done.number, done.repeated) == (2, False)
    tried = shop.commit_operations(asked, key="k", dry_run=True)
    assert (tried.number, tried.repeated, tried.changes) == (None, True, {})


def test_operations_in_order(shop: Warehouse) -> None:
    done = shop.commit_operations([Asked("insert", "a", [(1, "x")]), Asked("delete", "a", [(1, "x"), (2, "y")])])
    assert done.number is None
    with shop.transaction(key="k") as tx:
        tx.insert("a", [(1, "x")])
    with shop.transaction(key="k") as again:
        again.insert("a", [(1, "x")])
    assert (tx.commit_id, again.commit_id) == (2, 2)


def test_keys_are_forgotten_after_a_week(path: Path, shop: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    now = keys.time.time()
    for day in range(10):
        monkeypatch.setattr(keys.time, "time", lambda day=day: now + day * 86_400)
        for number in range(3):
            shop.commit({"a": [(day, str(number))]}, key=f"{day}/{number}")
    assert shop.commit({"a": [(3, "2")]}, key="3/2").repeated
    shop.commit(deletes={"a": [(2, "2")]})
    assert not shop.commit({"a": [(2, "2")]}, key="2/2").repeated
    with closing(sqlite3.connect(path / "catalog.db")) as connection:
        [[left]] = connection.execute('SELECT count(*) FROM "$key" WHERE time <= ?', (now + 2 * 86_400,))
    assert left == 0


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", "\ud800", 7])
def test_what_is_no_key(key: Any, shop: Warehouse) -> None:
    refused("BAD_PARAMETER", lambda: shop.commit({"a": [(1, "one")]}, key=key))


def test_a_warehouse_from_before_there_were_keys(path: Path, shop: Warehouse) -> None:
    with closing(sqlite3.connect(path / "catalog.db")) as connection:
        connection.execute('DROP TABLE "$key"')
    assert shop.commit({"a": [(1, "one")]}, key="k").number == 2
    assert shop.commit({"a": [(1, "one")]}, key="k").repeated
    assert shop.verify()[0].right


@pytest.mark.parametrize("rows", [5, "text", None, [object()], (x for x in [1 / 1, object()])])
def test_rows_that_are_none_are_told_as_without_a_key(rows: Any, shop: Warehouse) -> None:
    with pytest.raises(vk.DataError):
        shop.commit({"a": rows}, key="k")


def test_a_source_that_fails(shop: Warehouse) -> None:
    def rows() -> Iterator[tuple[int, str]]:
        yield 1, "one"
        raise RuntimeError("broken pipe")

    assert "broken pipe" in refused("SOURCE_FAILED", lambda: shop.commit({"a": rows()}, key="k"))
