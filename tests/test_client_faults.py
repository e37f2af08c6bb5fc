"""Whatever the network does, a client sees each change once and in order, and a commit is made once."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest
from tests.fake_server import TOKEN, FakeServer, Faults, Row

from viewkeeper.client import Change, Changes, connect, connect_async
from viewkeeper.client.following import Backoff

FAULTS = [
    Faults(1, cut=1.0),
    Faults(2, cut=0.7, repeat=0.5, slow=0.5),
    Faults(3, away=0.4, close=0.3, cut=0.5),
    Faults(4, lose=0.4, slow=1.0),
    Faults(5, cut=0.6, repeat=0.4, away=0.2, close=0.2, slow=0.3, lose=0.3),
]
RESETTING = [Faults(11, cut=0.8, reset=1.0), Faults(12, cut=0.6, reset=0.5, repeat=0.3, away=0.2, slow=0.4, lose=0.3)]
ids = {"ids": lambda faults: str(faults.seed)}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for a server that is away is not what these tests are about."""
    monkeypatch.setattr(Backoff, "next", lambda self: 0.001)


def write(server: FakeServer, commits: int, client_faults: bool = True) -> None:
    """Random commits through a client; each has a row of its own, so that every one of them changes something."""
    chance = random.Random(server.faults.seed)
    with connect(server.url, TOKEN) as client:
        for number in range(commits):
            gone = chance.sample(sorted(server.rows), min(len(server.rows), chance.randrange(3)))
            done = client.commit(inserts={"r": [(number, f"row {number}")]}, deletes={"r": gone})
            assert done.number == number + 1


def taken(changes: Changes, commit: int) -> list[Change]:
    """The changes up to a commit."""
    seen = []
    while (changes.commit or 0) < commit:
        item = changes.next_item()
        if isinstance(item, Change):
            seen.append(item)
    return seen


def applied(changes: list[Change]) -> set[Row]:
    rows: set[Row] = set()
    for change in changes:
        if change.whole:
            rows = set()
        assert rows.issuperset(change.deleted) and rows.isdisjoint(change.inserted)
        rows = rows.difference(change.deleted).union(change.inserted)  # type: ignore[arg-type]
    return rows


@pytest.mark.parametrize("faults", FAULTS, **ids)
def test_every_change_once_and_in_order(faults: Faults) -> None:
    with FakeServer(faults) as server, connect(server.url, TOKEN) as client:
        writer = threading.Thread(target=write, args=(server, 40))
        writer.start()
        seen = taken(client.view("r").follow(since=0), 40)
        writer.join()
        assert [change.commit for change in seen] == list(range(1, 41))
        assert [(sorted(c.inserted), sorted(c.deleted)) for c in seen] == [(sorted(a), sorted(b)) for a, b in server.history]


@pytest.mark.parametrize("faults", FAULTS + RESETTING, **ids)
def test_a_snapshot_and_what_follows_it_fit_together(faults: Faults) -> None:
    with FakeServer(faults) as server, connect(server.url, TOKEN) as client:
        server.commit([(n, "old") for n in range(100, 120)])
        writer = threading.Thread(target=lambda: [server.commit([(n, "new")], [(n + 100, "old")]) for n in range(20)])
        with client.view("r").follow(snapshot=True) as changes:
            writer.start()
            seen = taken(changes, 21)
            writer.join()
        assert seen[0].whole
        assert [change.commit for change in seen] == sorted({change.commit for change in seen})
        assert applied(seen) == server.rows


@pytest.mark.parametrize("faults", FAULTS + RESETTING, **ids)
def test_a_live_copy_is_the_answer(faults: Faults) -> None:
    told: list[Change] = []
    with FakeServer(faults) as server, connect(server.url, TOKEN) as client, client.live("r") as copy:
        mirror = set(copy)
        copy.listen(told.append)
        write(server, 30)
        assert copy.wait_for(30, 30)
        assert copy == server.rows
        for change in told:
            assert mirror.issuperset(change.deleted) and mirror.isdisjoint(change.inserted)
            mirror = mirror.difference(change.deleted).union(change.inserted)
        assert mirror == server.rows
        if not faults.reset:
            assert [change.commit for change in told] == list(range(1, 31))


@pytest.mark.parametrize("faults", FAULTS + RESETTING, **ids)
def test_the_same_with_an_event_loop(faults: Faults) -> None:
    async def follow(server: FakeServer) -> list[int]:
        told: list[Change] = []
        async with connect_async(server.url, TOKEN) as client, await client.live("r", key="n") as copy:
            copy.listen(told.append)
            for number in range(25):
                await client.commit(inserts={"r": [(number, "a")]}, deletes={"r": [(number - 5, "a")]})
            assert await copy.wait_for(25, 30)
            assert copy.rows() == server.rows
            assert copy[24] == (24, "a")
            return [change.commit for change in told]

    with FakeServer(faults) as server:
        commits = asyncio.run(follow(server))
        assert commits == sorted(set(commits))
        assert faults.reset or commits == list(range(1, 26))


@pytest.mark.parametrize("seed", range(3))
def test_a_commit_is_made_once_however_often_it_is_sent(seed: int) -> None:
    with FakeServer(Faults(seed, lose=0.5, away=0.2)) as server:
        write(server, 30)
        assert len(server.history) == 30
        sent = [headers["idempotency-key"] for _, target, headers in server.requests if "transactions" in target]
        assert len(set(sent)) == 30 < len(sent)
