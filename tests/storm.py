"""Many clients follow many views while writers commit and the server is killed again and again.

    python -m tests.storm --seconds 60

Afterwards the log of the warehouse is read without the server, and everything that clients saw is compared with it: each client saw every commit that changed
its view, once, in order, with exactly the rows that came and went, and holds exactly the answer. Each transaction that a writer made is one commit.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.served import ServerProcess

import viewkeeper
from viewkeeper.client import AsyncClient, Change, connect_async
from viewkeeper.wire import encode_row

ROOT = Path(__file__).parent.parent
GROUPS = 8
VIEWS = [
    *(f"of_group_{group}" for group in range(GROUPS)),
    "item",
    "total",
    "counted",
    "largest",
    "linked",
    "reach",
    "lonely",
    "linked_external",
    "lonely_external",
    "busy",
    "link",
    "done",
]
PROGRAM = "\n".join(
    [
        ".decl done(writer: number, number: number)",
        ".decl item(id: number, grp: number, value: number) key(id)",
        ".decl link(a: number, b: number)",
        *(f".decl of_group_{g}(id: number, value: number) of_group_{g}(i, v) :- item(i, {g}, v)." for g in range(GROUPS)),
        ".decl total(grp: number, value: number) total(g, s) :- s = sum v : { item(_, g, v) }, item(_, g, _).",
        ".decl counted(grp: number, items: number) counted(g, n) :- item(_, g, _), n = count : { item(_, g, _) }.",
        ".decl largest(grp: number, value: number) largest(g, m) :- item(_, g, _), m = max v : { item(_, g, v) }.",
        ".decl linked(a: number, b: number, value: number) linked(a, b, v) :- link(a, b), item(b, _, v).",
        ".decl reach(a: number, b: number) reach(a, b) :- link(a, b). reach(a, c) :- reach(a, b), link(b, c).",
        ".decl lonely(id: number) lonely(i) :- item(i, _, _), !link(i, _).",
        ".decl linked_external(a: number, b: number, value: number) .external linked_external",
        "linked_external(a, b, v) :- link(a, b), item(b, _, v).",
        ".decl lonely_external(id: number) .external lonely_external lonely_external(i) :- item(i, _, _), !link(i, _).",
        ".decl busy(grp: number) busy(g) :- counted(g, n), n > 5.",
    ]
)


# ---- what a client saw


@dataclass
class Seen:
    """What one client was told, and what it holds."""

    view: str
    kind: str
    began: int = -1
    changes: list[tuple[int, str]] = field(default_factory=list)
    resets: int = 0
    rows: set[tuple[Any, ...]] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)

    def take(self, change: Change) -> None:
        if change.whole:
            self.resets += self.began >= 0
            self.began, self.rows = change.commit, set(change.inserted)
            return
        if not self.rows.issuperset(change.deleted) or not self.rows.isdisjoint(change.inserted):
            self.errors.append(f"commit {change.commit} does not fit")
        self.rows = self.rows.difference(change.deleted).union(change.inserted)
        self.changes.append((change.commit, digest(change.inserted, change.deleted)))

    def report(self) -> dict[str, Any]:
        return {**vars(self), "rows": digest(self.rows, ())}


def digest(inserted: Iterable[tuple[Any, ...]], deleted: Iterable[tuple[Any, ...]]) -> str:
    return hashlib.sha256(json.dumps([sorted(inserted), sorted(deleted)]).encode()).hexdigest()[:16]


# ---- the processes


async def run_clients(url: str, token: str, first: int, number: int) -> None:
    """So many clients, each with connections of its own; tells when all are there, and when told the last commit what they saw."""
    last = asyncio.get_running_loop().create_future()
    ready = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(_client(url, token, n, ready, last)) for n in range(first, first + number)]
    for _ in tasks:
        await ready.acquire()
    print("ready", flush=True)
    line = await asyncio.to_thread(sys.stdin.readline)
    last.set_result(int(line))
    for task in tasks:
        print(json.dumps((await task).report()), flush=True)


async def _client(url: str, token: str, number: int, ready: asyncio.Semaphore, last: asyncio.Future[int]) -> Seen:
    view = VIEWS[number % len(VIEWS)]
    follow = (_live, _follow, _from_the_beginning)[number // len(VIEWS) % 3]
    async with connect_async(url, token, silence=10) as client:
        return await follow(client, Seen(view, follow.__name__), ready, last)


async def _live(client: AsyncClient, seen: Seen, ready: asyncio.Semaphore, last: asyncio.Future[int]) -> Seen:
    async with await client.live(seen.view) as copy:
        seen.began, seen.rows = copy.commit, set(copy.rows())
        copy.listen(lambda change: seen.errors.append("reset") if change.whole else seen.take(change))
        ready.release()
        await copy.wait_for(await last)
        if copy.rows() != seen.rows:
            seen.errors.append("the copy is not what its listener was told")
    return seen


async def _follow(client: AsyncClient, seen: Seen, ready: asyncio.Semaphore, last: asyncio.Future[int]) -> Seen:
    async with client.view(seen.view).follow(snapshot=True) as changes:
        await _until(changes, seen, ready, last)
    return seen


async def _from_the_beginning(client: AsyncClient, seen: Seen, ready: asyncio.Semaphore, last: asyncio.Future[int]) -> Seen:
    seen.began = 0
    async with client.view(seen.view).follow(since=1) as changes:
        await _until(changes, seen, ready, last)
    return seen


async def _until(changes: Any, seen: Seen, ready: asyncio.Semaphore, last: asyncio.Future[int]) -> None:
    ready.release()
    while not last.done() or (changes.commit or 0) < last.result():
        item = await changes.next_item()
        if isinstance(item, Change):
            seen.take(item)


async def run_writers(url: str, token: str, writers: int, pause: float) -> None:
    """Writers that commit until they are told to stop; tells the commits that they made."""
    stop = asyncio.Event()
    async with connect_async(url, token, patience=120, silence=10) as client:
        tasks = [asyncio.create_task(_writer(client, number, stop, pause)) for number in range(writers)]
        await asyncio.to_thread(sys.stdin.readline)
        stop.set()
        print(json.dumps([await task for task in tasks]), flush=True)


async def _writer(client: AsyncClient, writer: int, stop: asyncio.Event, pause: float) -> list[tuple[int, bool]]:
    chance, made = random.Random(writer), []
    while not stop.is_set():
        number = len(made)
        upserts = [
            (writer * 1000 + chance.randrange(12), chance.randrange(GROUPS), chance.randrange(100))
            for _ in range(chance.randrange(3))
        ]
        links = [(writer * 1000 + chance.randrange(12), chance.randrange(5) * 1000 + chance.randrange(12)) for _ in range(2)]
        done = await client.commit(
            inserts={"done": [(writer, number)], "link": links[:1]},
            deletes={"link": links[1:] + [(b, a) for a, b in links[:1]], "done": [(writer, number - 20)]},
            upserts={"item": [row for place, row in enumerate(upserts) if row[0] not in {r[0] for r in upserts[:place]}]},
        )
        assert done.number is not None
        made.append((done.number, done.repeated))
        await asyncio.sleep(pause * chance.random() * 2)
    return made


# ---- the storm


@dataclass(frozen=True)
class Outcome:
    """What it came to."""

    commits: int
    repeated: int
    events: int
    kills: int
    wrong: list[str]

    def __str__(self) -> str:
        told = f"{self.commits:,} commits, {self.repeated} of them sent again, {self.events:,} changes seen, server killed {self.kills} times"
        return told + ("; all is right" if not self.wrong else "\n" + "\n".join(self.wrong[:20]))


def storm(
    directory: Path,
    seconds: float,
    clients: int = 200,
    writers: int = 5,
    kills: int = 5,
    processes: int = 2,
    pause: float = 0.12,
) -> Outcome:
    """Clients follow all views while writers commit for so long, not counting starts of the server, which is killed so many times."""
    path = directory / "shop"
    with viewkeeper.open(path, create=True) as warehouse:
        warehouse.define(PROGRAM)
    with ServerProcess(path, "--heartbeat", "1s") as server:
        token = server.token
        share = -(-clients // processes)
        following = [_child("clients", server.url, token, n * share, min(share, clients - n * share)) for n in range(processes)]
        try:
            for child in following:
                assert _line(child) == "ready"
            writing = _child("writers", server.url, token, writers, pause)
            following.append(writing)
            for _ in range(kills):
                time.sleep(seconds / (kills + 1))
                server.kill()
                server.start()
            time.sleep(seconds / (kills + 1))
            _say(writing, "stop")
            made = [commit for writer in json.loads(_line(writing)) for commit in writer]
            last = max(number for number, _ in made)
            seen = []
            for child in following[:-1]:
                _say(child, last)
            for n, child in enumerate(following[:-1]):
                seen += [json.loads(_line(child)) for _ in range(min(share, clients - n * share))]
            for child in following:
                assert child.wait(30) == 0
        finally:
            for child in following:
                if child.poll() is None:
                    child.send_signal(signal.SIGKILL)
                    child.wait()
                for pipe in (child.stdin, child.stdout):
                    assert pipe is not None
                    pipe.close()
    return _compare(path, made, seen, kills)


def _child(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.storm", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _say(child: subprocess.Popen[str], what: object) -> None:
    assert child.stdin is not None
    child.stdin.write(f"{what}\n")
    child.stdin.flush()


def _line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    line = child.stdout.readline()
    assert line, f"{child.args} ended with {child.wait()}"
    return line.strip()


def _compare(path: Path, made: list[tuple[int, bool]], seen: list[dict[str, Any]], kills: int) -> Outcome:
    """The log is the truth."""
    wrong = []
    with viewkeeper.open(path) as warehouse:
        commits = [logged.number for logged in warehouse.log(since=1)]
        if sorted(number for number, _ in made) != commits:
            wrong.append(f"writers made {len(made)} transactions, the log has {len(commits)} commits")
        truth: dict[str, list[tuple[int, str]]] = {view: [] for view in VIEWS}
        for commit in commits:
            for view, changed in warehouse.changes(commit).items():
                types = [str(column.type) for column in changed.relation.columns]
                rows = {"insert": [], "delete": []}  # type: ignore[var-annotated]
                for operation, row in changed.values():
                    rows[operation].append(tuple(encode_row(row, types)))
                truth[view].append((commit, digest(rows["insert"], rows["delete"])))
        answers = {view: digest(_rows(warehouse, view), ()) for view in VIEWS}
        wrong += [
            f"{verified.view} is wrong in the warehouse"
            for verified in warehouse.verify(engine="embedded")
            if not verified.right
        ]
    for number, one in enumerate(seen):
        who = f"client {number} of {one['view']} ({one['kind']})"
        wrong += [f"{who}: {text}" for text in one["errors"]]
        wrong += [f"{who}: {one['resets']} resets"] * bool(one["resets"])
        wanted = [change for change in truth[one["view"]] if change[0] > one["began"]]
        if [tuple(change) for change in one["changes"]] != wanted:
            wrong.append(f"{who} saw {difference(one['changes'], wanted)}")
        if one["rows"] != answers[one["view"]]:
            wrong.append(f"{who} holds other rows than the server")
    events = sum(len(one["changes"]) for one in seen)
    return Outcome(len(commits), sum(repeated for _, repeated in made), events, kills, wrong)


def _rows(warehouse: viewkeeper.Warehouse, view: str) -> list[tuple[Any, ...]]:
    [shown] = warehouse.show(view)
    names = ", ".join(f"v{place}" for place in range(len(shown.relation.columns)))
    return list(warehouse.query(f"{view}({names})"))


def difference(seen: list[list[Any]], wanted: list[tuple[int, str]]) -> str:
    """What is wrong with a list of changes, in a few words."""
    numbers, right = [commit for commit, _ in seen], [commit for commit, _ in wanted]
    twice = sorted({n for n in numbers if numbers.count(n) > 1})
    missing, surplus = sorted(set(right) - set(numbers)), sorted(set(numbers) - set(right))
    return f"{len(numbers)} changes of {len(right)}: missing {missing[:5]}, too many {surplus[:5]}, twice {twice[:5]}, in order: {numbers == sorted(numbers)}"


def main() -> None:
    if sys.argv[1:2] == ["clients"]:
        asyncio.run(run_clients(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
        return
    if sys.argv[1:2] == ["writers"]:
        asyncio.run(run_writers(sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5])))
        return
    parser = argparse.ArgumentParser(prog="python -m tests.storm")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--writers", type=int, default=5)
    parser.add_argument("--kills", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        outcome = storm(Path(directory), asked.seconds, asked.clients, asked.writers, asked.kills)
    print(outcome)
    sys.exit(bool(outcome.wrong))


if __name__ == "__main__":
    main()
