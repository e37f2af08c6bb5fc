"""Transactions that the disk does not take: the error says so, nothing is changed, and the same warehouse goes on when there is room."""

from __future__ import annotations

import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.children import ended, fork
from tests.playing import everything
from tests.test_errors_cli import as_nobody, limited, protect, public  # noqa: F401  a fixture

import viewkeeper as vk
from viewkeeper.warehouse import Warehouse

TEXT = """
.decl edge(x: number, y: number)
.decl reach(x: number, y: number)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
.decl degree(x: number, n: number)
degree(x, n) :- n = count : { edge(x, _) }.
"""
FEW = [(n, n + 1) for n in range(5)]
MANY = [(1000 * n, 1000 * n + 1) for n in range(1, 60_000)]


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with vk.open(tmp_path / "shop", create=True) as shop:
        shop.define(TEXT)
        shop.commit({"edge": FEW})
    yield tmp_path / "shop"
    # Whatever happened: it is as it was, and goes on.
    with vk.open(tmp_path / "shop") as shop:
        assert everything(shop)["edge"] == set(FEW)
        assert [logged.number for logged in shop.log()] == [1, 2]
        assert all(view.right for view in shop.verify())
        assert shop.commit({"edge": [(7, 0)]}, {"edge": [(0, 1)]}).number == 3
        assert all(view.right for view in shop.verify())


def refused(shop: Warehouse, code: str, **what: Any) -> None:
    before = everything(shop)
    for call in (shop.preview, shop.commit):
        with pytest.raises(vk.ViewkeeperError, match=rf"^error\[{code}\](.|\n)*Nothing was changed"):
            call(**what)
    assert everything(shop) == before


@pytest.mark.parametrize("size", [200_000, 1_000_000, 3_000_000])
def test_files_that_may_not_grow(path: Path, size: int) -> None:
    def work() -> None:
        with vk.open(path) as shop:
            with pytest.raises(vk.ViewkeeperError, match=r"^error\[DISK_F(ULL|AILED)\](.|\n)*Nothing was changed"):
                shop.commit({"edge": MANY}, {"edge": FEW})
            assert everything(shop)["edge"] == set(FEW)

    assert limited(work, size) == 0


def test_the_same_object_goes_on_when_there_is_room(path: Path) -> None:
    def work() -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        with vk.open(path) as shop:
            resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
            with pytest.raises(vk.ViewkeeperError, match=r"^error\[DISK_F"):
                shop.commit({"edge": MANY})
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            preview = shop.preview({"edge": MANY})
            assert preview.changes["edge"].inserted_rows == preview.changes["reach"].inserted_rows == len(MANY)

    assert ended(fork(work)) == 0


def test_a_full_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite is told that the disk has no more than a hundred pages."""
    from viewkeeper.store import catalog

    connect = catalog._connection

    def small(uri: str) -> sqlite3.Connection:
        connection = connect(uri)
        connection.execute("PRAGMA max_page_count=100")
        return connection

    with monkeypatch.context() as patched:
        patched.setattr(catalog, "_connection", small)
        with vk.open(path) as shop:
            refused(shop, "DISK_FULL", inserts={"edge": MANY})
            assert shop.preview({"edge": [(9, 10)]}).changes["edge"].inserted_rows == 1


def test_a_directory_that_cannot_be_written(public: Path) -> None:  # noqa: F811
    with vk.open(public / "shop", create=True) as shop:
        shop.define(TEXT)
        shop.commit({"edge": FEW})
    protect(public)

    def work() -> None:
        with vk.open(public / "shop") as shop:
            refused(shop, "READ_ONLY", inserts={"edge": [(8, 9)]}, deletes={"edge": FEW})
            assert everything(shop)["edge"] == set(FEW)

    assert as_nobody(work) == 0


_SPARK_ENDS = """
import os, signal, sys
import viewkeeper as vk
from viewkeeper.engines.session import local_session

shop = vk.open(sys.argv[1], engine="spark")
shop.commit({"edge": [(100, 101)]})
gateway = local_session().sparkContext._gateway.proc
os.kill(gateway.pid, signal.SIGKILL)
gateway.wait()
try:
    shop.commit({"edge": [(101, 102)]})
except vk.EngineError as error:
    print(error.code)
    shop.commit({"edge": [(101, 102)]})
print(shop.commit({}, {"edge": [(100, 101), (101, 102)]}).engine)
"""


def test_a_java_machine_that_has_ended_is_replaced(tmp_path: Path) -> None:
    """Out of memory, or killed: at most the transaction that meets it fails, and the next one has another machine."""
    with vk.open(tmp_path / "shop", create=True) as shop:
        shop.define(TEXT)
        shop.commit({"edge": FEW})
        before = everything(shop)
    command = [sys.executable, "-c", _SPARK_ENDS, str(tmp_path / "shop")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() in (["spark"], ["ENGINE_FAILED", "spark"])
    with vk.open(tmp_path / "shop") as shop:
        assert everything(shop) == before
