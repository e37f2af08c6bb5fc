"""One writer at a time, readers always: with real processes."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.children import ended, fork, holding
from tests.commands import viewkeeper

import viewkeeper as vk
from viewkeeper.store import catalog

TEXT = ".decl a(x: number) .decl b(x: number) b(x * 2) :- a(x)."


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A warehouse that no connection of this process is open to: connections do not survive a fork."""
    with vk.open(tmp_path / "shop", create=True) as shop:
        shop.define(TEXT)
        shop.load("a", [1])
    return tmp_path / "shop"


def loading(path: Path) -> Callable[[Callable[[], None]], object]:
    """A load that stays in the middle."""

    def work(stay: Callable[[], None]) -> None:
        def rows() -> Iterator[int]:
            yield from range(100_000)
            stay()

        with vk.open(path) as shop:
            shop.load("a", rows())

    return work


def contents(path: Path) -> tuple[list[tuple[int]], list[tuple[int]]]:
    with vk.open(path) as shop:
        return list(shop.query("a(x)")), list(shop.query("b(x)"))


def test_a_second_writer_is_told_who_holds_the_warehouse(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/loader", "-v", "a"])  # the child has it, too
    with holding(loading(path)) as pid:
        with vk.open(path) as shop, pytest.raises(vk.StoreError) as told:
            shop.load("a", [2])
        assert told.value.code == "LOCKED"
        assert re.search(rf"by process {pid} \(loader -v a\) since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d", str(told.value))
        done = viewkeeper("load", path, "a", os.devnull)
        assert (done.code, done.error, f"process {pid}" in done.err) == (1, "LOCKED", True)
        for command in (["drop", path, "b"], ["define", path, "-"]):
            assert viewkeeper(*command).error == "LOCKED"


def test_readers_see_the_state_before(path: Path) -> None:
    with vk.open(path) as shop:
        assert list(shop.query("b(x)")) == [(2,)]
    with holding(loading(path)):
        assert contents(path) == ([(1,)], [(2,)])
        with vk.open(path) as shop:
            assert all(view.right for view in shop.verify())
            assert [s.rows for s in shop.show()] == [1, 1]
        assert viewkeeper("query", path, "b(x)", "--csv").out == "x\n2\n"
    assert contents(path) == ([(1,)], [(2,)])


def test_a_dead_writer_does_not_block(path: Path) -> None:
    with holding(loading(path)) as pid:
        os.kill(pid, signal.SIGKILL)
        assert ended(pid) == -signal.SIGKILL
        assert str(pid) in (path / "lock").read_text()
        with vk.open(path) as shop:
            assert shop.load("a", [2]).inserted == {"a": 1}
    assert contents(path) == ([(1,), (2,)], [(2,), (4,)])


def test_a_child_of_the_writer_does_not_keep_the_lock(path: Path) -> None:
    children: list[int] = []

    def rows() -> Iterator[int]:
        yield 7
        children.append(fork(signal.pause))

    with vk.open(path) as shop:
        shop.load("a", rows())
        assert shop.load("a", [8]).number == 4
    os.kill(children[0], signal.SIGKILL)
    assert ended(children[0]) == -signal.SIGKILL


def test_a_lock_whose_file_was_removed_is_taken_where_others_find_it(path: Path) -> None:
    with vk.open(path) as shop:
        shop.commit({"a": [(2,)]})
        (path / "lock").unlink()
        shop.commit({"a": [(3,)]})
        with holding(loading(path)) as pid, pytest.raises(vk.ViewkeeperError, match=f"process {pid} "):
            shop.commit({"a": [(4,)]})
        shop.commit({"a": [(5,)]})
        assert sorted(shop.query("a(x)")) == [(1,), (2,), (3,), (5,)]


@pytest.mark.parametrize("text", ["", "garbage", "{}", '{"pid": 1, "command": "x", "since": "long ago"}', "\ufeff"])
def test_only_the_lock_counts_not_what_the_file_says(path: Path, text: str) -> None:
    (path / "lock").write_text(text)
    with vk.open(path) as shop:
        assert shop.load("a", [2]).number == 3


def test_a_lock_that_says_nothing_yet(path: Path) -> None:
    with holding(loading(path)), vk.open(path) as shop:
        (path / "lock").write_text("")
        with pytest.raises(vk.StoreError, match="being changed by another process"):
            shop.load("a", [2])


def test_another_program_holds_the_database(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "_PATIENCE", 0.1)
    with closing(sqlite3.connect(path / "catalog.db", isolation_level=None)) as other, vk.open(path) as shop:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(vk.StoreError, match="being changed by another program"):
            shop.load("a", [2])
        other.execute("ROLLBACK")
        assert shop.load("a", [2]).number == 3


def test_readers_and_a_writer_do_not_disturb_each_other(path: Path) -> None:
    """Also not while the one opens or closes the warehouse that the others have just closed or opened."""

    def read() -> None:
        rows = 0
        while rows < 40:
            with vk.open(path) as shop:
                [(rows, derived)] = shop.query("n = count : { a(_) }, m = count : { b(_) }")
                assert rows == derived

    def write() -> None:
        for number in range(2, 41):
            with vk.open(path) as shop:
                shop.load("a", [number])

    for pid in [fork(read), fork(read), fork(write)]:
        assert ended(pid) == 0


def test_two_processes_create_one_warehouse(tmp_path: Path) -> None:
    def work() -> None:
        try:
            with vk.open(tmp_path / "w", create=True) as shop:
                assert shop.show() == []
        except vk.StoreError as error:
            if error.code != "LOCKED":
                raise

    for _ in range(5):
        for pid in [fork(work) for _ in range(4)]:
            assert ended(pid) == 0
        with vk.open(tmp_path / "w") as shop:
            shop.define(TEXT)
        for file in (tmp_path / "w").iterdir():
            file.unlink()
