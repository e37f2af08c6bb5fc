"""kill -9 at any moment of creating, defining and loading leaves the warehouse at a commit boundary.

Children are forked from this process, which has everything imported, so that a kill hits the work and not its preparation. The
moments are spread evenly over the time the work takes when nobody disturbs it.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.children import ended, fork

import viewkeeper as vk
from viewkeeper.warehouse import Warehouse

TEXT = """
.decl edge(a: number, b: number)
.decl reach(a: number, b: number)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
.decl degree(a: number, n: number)
degree(x, n) :- edge(x, _), n = count : { reach(x, _) }.
"""
CHAINS, LENGTH = 12, 12


def edges(number: int) -> Iterator[tuple[int, int]]:
    """A few chains that no other number has."""
    for chain in range(CHAINS):
        start = (number * CHAINS + chain) * (LENGTH + 1)
        yield from ((node, node + 1) for node in range(start, start + LENGTH))


@dataclass
class Hits:
    """How the children ended: ``killed`` before the commit, after it, or ``late``: they were done before the signal."""

    before: int = 0
    after: int = 0
    late: int = 0


def duration(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    assert ended(fork(work)) == 0
    return time.perf_counter() - start


def killed(work: Callable[[], object], delay: float) -> bool:
    """Does the work and kills it after a while; was it in time?"""
    pid = fork(work)
    time.sleep(delay)
    os.kill(pid, signal.SIGKILL)
    return ended(pid) == -signal.SIGKILL


def delays(count: int, longest: float) -> list[float]:
    rng = random.Random(7)
    spread = [longest * (number + rng.random()) / count for number in range(count)]
    rng.shuffle(spread)
    return spread


def check(shop: Warehouse, loads: int) -> None:
    """The views fit the rows, and the rows are those of some number of whole loads."""
    assert all(view.right for view in shop.verify())
    shown = {s.relation.name: s.rows for s in shop.show()}
    assert shown["edge"] == loads * CHAINS * LENGTH
    assert shown["reach"] == loads * CHAINS * LENGTH * (LENGTH + 1) // 2


def load(path: Path, number: int) -> Callable[[], object]:
    def work() -> None:
        with vk.open(path) as shop:
            shop.load("edge", edges(number))

    return work


def define(path: Path, number: int) -> Callable[[], object]:
    def work() -> None:
        with vk.open(path) as shop:
            shop.define(f".decl view{number}(a: number, b: number) view{number}(x, y) :- reach(x, y), x != y + {number}.")

    return work


def test_kill_while_loading(tmp_path: Path) -> None:
    path, hits, loads = tmp_path / "shop", Hits(), 0
    with vk.open(path, create=True) as shop:
        shop.define(TEXT)
    longest = 0.0
    for _ in range(3):
        longest = max(longest, duration(load(path, loads)))
        loads += 1
    for delay in delays(40, 1.2 * longest):
        in_time = killed(load(path, loads), delay)
        with vk.open(path) as shop:
            done = bool(shop.query(f"edge({next(edges(loads))[0]}, _)"))
            assert done or in_time
            hits.late += not in_time
            hits.before += not done
            hits.after += done and in_time
            loads += done
            check(shop, loads)
    assert hits.before >= 10, hits
    with vk.open(path) as shop:
        assert shop.load("edge", edges(loads)).inserted == {"edge": CHAINS * LENGTH}
        check(shop, loads + 1)


def test_kill_while_defining(tmp_path: Path) -> None:
    path, hits, views = tmp_path / "shop", Hits(), 0
    with vk.open(path, create=True) as shop:
        shop.define(TEXT)
        shop.load("edge", edges(0))
    longest = max(duration(define(path, views := views + 1)) for _ in range(3))
    for delay in delays(20, 1.2 * longest):
        in_time = killed(define(path, views + 1), delay)
        with vk.open(path) as shop:
            done = f"view{views + 1}" in shop.program.by_name
            assert done or in_time
            hits.before += not done
            views += done
            check(shop, 1)
            assert set(shop.program.derived) == {"reach", "degree"} | {f"view{n + 1}" for n in range(views)}
    assert hits.before >= 5, hits
    define(path, views + 1)()


def test_kill_while_creating(tmp_path: Path) -> None:
    def create(number: int) -> Callable[[], object]:
        return lambda: Warehouse.create(tmp_path / str(number))

    longest = max(duration(create(-number)) for number in (1, 2, 3))
    there = 0
    for number, delay in enumerate(delays(20, 1.2 * longest)):
        killed(create(number), delay)
        path = tmp_path / str(number)
        there += (path / "catalog.db").exists()
        with vk.open(path, create=True) as shop:
            shop.define(TEXT)
            shop.load("edge", edges(0))
            check(shop, 1)
    assert there < 20


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGHUP])
def test_other_deadly_signals(tmp_path: Path, signal_number: int) -> None:
    path = tmp_path / "shop"
    with vk.open(path, create=True) as shop:
        shop.define(TEXT)
    for number in range(3):
        pid = fork(load(path, number))
        time.sleep(0.01 * number)
        os.kill(pid, signal_number)
        ended(pid)
    with vk.open(path) as shop:
        assert all(view.right for view in shop.verify())
        shop.load("edge", edges(99))
