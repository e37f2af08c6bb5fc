"""Clients, writers and a server as processes of their own, killed at any moment."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from tests import careful
from tests.children import ended, fork
from tests.served import ServerProcess
from tests.storm import storm

import viewkeeper
from viewkeeper.client import connect

SECONDS = float(os.environ.get("VIEWKEEPER_STORM_SECONDS", "20"))
PROGRAM = """
.decl item(id: number, value: number) key(id)
.decl even(id: number, value: number)
even(i, v) :- item(i, v), v % 2 = 0.
"""


def test_200_clients_20_views_5_writers_5_kills(tmp_path: Path) -> None:
    """The whole minute: python -m tests.storm --seconds 60"""
    outcome = storm(tmp_path, SECONDS)
    assert outcome.wrong == [], str(outcome)
    assert outcome.commits > 10
    assert outcome.events > outcome.commits


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with viewkeeper.open(tmp_path / "shop", create=True) as shop:
        shop.define(PROGRAM)
        shop.load("item", [(number, number) for number in range(20)])
    with ServerProcess(tmp_path / "shop", "--heartbeat", "200ms") as started:
        yield started


@pytest.mark.parametrize("seed", [1, 2])
def test_a_careful_client_that_is_killed_misses_nothing_and_repeats_nothing(
    tmp_path: Path, server: ServerProcess, seed: int
) -> None:
    chance = random.Random(seed)
    file = tmp_path / "careful.db"
    writer = fork(lambda: write(server.url, server.token, seed))
    for number in range(16):
        client = fork(lambda: careful.follow(server.url, server.token, "even", file))
        if number % 2:  # it has got somewhere; every other time it is killed wherever it is
            before = len(told_so_far(file))
            wait_until(lambda before=before: len(told_so_far(file)) > before)
        time.sleep(chance.random() * 0.3)
        os.kill(client, signal.SIGKILL)
        assert ended(client) == -signal.SIGKILL
        if number == 8:
            server.kill()
            server.start()
    os.kill(writer, signal.SIGKILL)
    assert ended(writer) == -signal.SIGKILL
    client = fork(lambda: careful.follow(server.url, server.token, "even", file))
    try:
        with viewkeeper.open(tmp_path / "shop") as shop:
            last = max(logged.number for logged in shop.log(view="even"))
            wait_until(lambda: told_so_far(file)[-1][0] == last)
            [first, *told] = told_so_far(file)
            wanted = [logged.number for logged in shop.log(int(str(first[0])), "even")]
            held = rows(file, "SELECT id, value FROM held ORDER BY id, value")
            assert held == sorted(shop.query("even(i, v)"))
        assert first[1] == "snapshot"
        assert told == [(number, "change") for number in wanted]
        assert len(told) > 8
    finally:
        os.kill(client, signal.SIGKILL)
        ended(client)


def write(url: str, token: str, seed: int) -> None:
    chance = random.Random(seed)
    with connect(url, token, patience=60) as client:
        while True:
            client.commit(upserts={"item": [(chance.randrange(40), chance.randrange(1000))]})
            time.sleep(chance.random() * 0.05)


def rows(file: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(file)) as database:
        return database.execute(query).fetchall()


def told_so_far(file: Path) -> list[tuple[object, ...]]:
    with suppress(sqlite3.OperationalError):
        return rows(file, 'SELECT "commit", kind FROM told ORDER BY number')
    return []


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)
