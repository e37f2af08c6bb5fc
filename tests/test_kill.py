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
from pathlib import Path

import pytest
from tests.children import ended, fork
from tests.playing import everything

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


class Killer:
    """Kills children, at moments spread evenly over the time that the last ones needed that came through."""

    def __init__(self, work: Callable[[], object]) -> None:
        """``work`` is done a few times to see how long it takes."""
        self.took = [self._run(work, 60)[1] for _ in range(3)]
        self.in_time = 0

    def kill(self, work: Callable[[], object], fraction: float) -> bool:
        """Does the work until it is killed; was that in time?"""
        came_through, seconds = self._run(work, fraction * 1.2 * sorted(self.took[-5:])[len(self.took[-5:]) // 2])
        if came_through:
            self.took.append(seconds)
        self.in_time += not came_through
        return not came_through

    @staticmethod
    def _run(work: Callable[[], object], most: float) -> tuple[bool, float]:
        start = time.perf_counter()
        pid = fork(work)
        while (seconds := time.perf_counter() - start) < most:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                assert os.waitstatus_to_exitcode(status) == 0
                return True, seconds
            time.sleep(0.0005)
        os.kill(pid, signal.SIGKILL)
        return ended(pid) == 0, most


def fractions(count: int) -> list[float]:
    rng = random.Random(7)
    spread = [(number + rng.random()) / count for number in range(count)]
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
    path, loads, lost = tmp_path / "shop", 1, 0
    with vk.open(path, create=True) as shop:
        shop.define(TEXT)
    killer = Killer(load(path, 0))
    for fraction in fractions(50):
        in_time = killer.kill(load(path, loads), fraction)
        with vk.open(path) as shop:
            done = bool(shop.query(f"edge({next(edges(loads))[0]}, _)"))
            assert done or in_time
            lost += not done
            loads += done
            check(shop, loads)
    assert min(killer.in_time, lost) >= 15, (killer.in_time, lost)
    with vk.open(path) as shop:
        assert shop.load("edge", edges(loads)).inserted == {"edge": CHAINS * LENGTH}
        check(shop, loads + 1)


def test_kill_while_defining(tmp_path: Path) -> None:
    path, views, lost = tmp_path / "shop", 1, 0
    with vk.open(path, create=True) as shop:
        shop.define(TEXT)
        shop.load("edge", [edge for number in range(8) for edge in edges(number)])
    killer = Killer(define(path, 1))
    for fraction in fractions(25):
        in_time = killer.kill(define(path, views + 1), fraction)
        with vk.open(path) as shop:
            done = f"view{views + 1}" in shop.program.by_name
            assert done or in_time
            lost += not done
            views += done
            check(shop, 8)
            assert set(shop.program.derived) == {"reach", "degree"} | {f"view{n + 1}" for n in range(views)}
    assert lost >= 5, (killer.in_time, lost)
    define(path, views + 1)()


def commits(path: Path, seed: int, there: int) -> Callable[[], object]:
    """Transactions one after the other, in which edges come and go, until somebody ends it; tells when the first is done."""

    def work() -> None:
        rng = random.Random(seed)
        with vk.open(path) as shop:
            for number in range(10_000):
                one, other = ([(rng.randrange(12), rng.randrange(12)) for _ in range(rng.choice([1, 3, 20]))] for _ in "ab")
                shop.commit({"edge": one}, {"edge": other}, {"last": [(seed, number)]})
                os.write(there, b"x") if not number else None

    return work


def replayed(shop: Warehouse) -> dict[str, set[tuple[object, ...]]]:
    """All relations as the log tells them."""
    found: dict[str, set[tuple[object, ...]]] = {name: set() for name in shop.program.by_name}
    for logged in shop.log():
        for name, changed in shop.changes(logged.number).items():
            for kind, row in changed.values():
                (found[name].add if kind == "insert" else found[name].remove)(row)
    return found


KILLS = 200


def test_kill_while_committing(tmp_path: Path) -> None:
    path, rng, done, (here, there) = tmp_path / "shop", random.Random(3), 0, os.pipe()
    with vk.open(path, create=True) as shop:
        shop.define(f"{TEXT} .decl last(child: number, number: number) key(child)")
    for seed in range(KILLS):
        pid = fork(commits(path, seed, there))
        os.read(here, 1)
        time.sleep(rng.random() * 0.02)
        os.kill(pid, signal.SIGKILL)
        assert ended(pid) == -signal.SIGKILL
        with vk.open(path) as shop:
            numbers = [logged.number for logged in shop.log()]
            assert numbers == list(range(1, len(numbers) + 1))
            # The last commit is there with all it did, or it is not: its number is among what it did.
            made = [number for child, number in shop.query("last(c, n)") if child == seed]
            done += made[0] + 1
            assert len(numbers) == 1 + done
            if seed % 25 == 0:
                assert all(view.right for view in shop.verify())
                assert replayed(shop) == everything(shop)
    os.close(here)
    os.close(there)
    assert done > 2 * KILLS
    with vk.open(path) as shop:
        assert replayed(shop) == everything(shop)
        assert all(view.right for view in shop.verify())
        assert shop.commit(upserts={"last": [(-1, 0)]}).number == done + 2


def test_kill_while_creating(tmp_path: Path) -> None:
    def create(number: int) -> Callable[[], object]:
        return lambda: Warehouse.create(tmp_path / str(number), exist_ok=True)

    killer = Killer(create(-1))
    killer.took = [killer.took[0]]  # the others had nothing to do
    for number, fraction in enumerate(fractions(25)):
        killer.kill(create(number), fraction)
        with vk.open(tmp_path / str(number), create=True) as shop:
            shop.define(TEXT)
            shop.load("edge", edges(0))
            check(shop, 1)
    assert killer.in_time >= 5


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
