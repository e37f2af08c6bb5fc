"""The service: a warehouse that is held, one thread that changes it, a few that read it, and the hub that tells what changed."""

from __future__ import annotations

import asyncio
import datetime
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

from viewkeeper.errors import ViewkeeperError
from viewkeeper.outcomes import Commit
from viewkeeper.serve.accounts import LOCAL_TOKEN, Accounts
from viewkeeper.serve.answers import AnswerCache
from viewkeeper.serve.envelopes import LOG
from viewkeeper.serve.feeds import Event, Hub, Topic, cancel_all, encoded
from viewkeeper.serve.grants import EVERYTHING, Refused
from viewkeeper.serve.metrics import Metrics
from viewkeeper.serve.settings import Settings
from viewkeeper.serve.streams import Streams
from viewkeeper.warehouse import Warehouse, at_most
from viewkeeper.watched import Told

T = TypeVar("T")
LOCAL = "local command line"
_TRIM_EVERY = 300.0
_FEEDERS = 2


class Service:
    """Everything that requests need. It is opened before the server listens and closed when it has stopped."""

    def __init__(self, path: Path, settings: Settings, engine: str = "auto", durable: bool = True) -> None:
        self.path, self.settings = path, settings
        self._stack = ExitStack()
        self.warehouse = self._stack.enter_context(Warehouse(path, engine=engine, durable=durable))
        self.metrics = Metrics(self)
        self.hub = Hub(self)
        self.streams = Streams(self)
        self.answers = AnswerCache()
        self.closing = False
        self.last = self.warehouse.last()
        self.levels: dict[str, str] = {}
        self.names: frozenset[str] = frozenset()
        # Views of which commits tell nothing: whoever follows one looks at every commit.
        self.untold: frozenset[str] = frozenset()
        # Tasks that wait for the body of a request.
        self.receiving: set[asyncio.Task[Any]] = set()
        self._waiting = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    # ---- beginning and end

    def open(self, url: str) -> str | None:
        """Takes the warehouse; returns the admin's token at the first start."""
        certfile = self.settings.certfile
        note = {"url": url} | ({"certfile": str(certfile.resolve())} if certfile is not None else {})
        self._stack.enter_context(self.warehouse.hold(note))
        self.last = self.warehouse.last()
        self.names, self.levels, self.untold = self.find_names()
        self.accounts = Accounts(self.path)
        self._stack.callback(self.accounts.close)
        self._stack.callback(self._remove_local_token)
        self._write_local_token()
        first = None
        if self.accounts.is_first_start() and self.accounts.named("admin") is None:
            first = self.accounts.create("admin", EVERYTHING)
        self._writer = ThreadPoolExecutor(1, "writer")
        self._readers = ThreadPoolExecutor(self.settings.readers, "reader")
        self._feeders = ThreadPoolExecutor(_FEEDERS, "feeder")
        self._stack.callback(self._readers.shutdown, cancel_futures=True)
        self._stack.callback(self._feeders.shutdown, cancel_futures=True)
        self._stack.callback(self._writer.shutdown)
        return first

    def close(self) -> None:
        """Ends the threads and gives the warehouse back."""
        self._stack.close()

    async def start(self) -> None:
        """Begins what happens from time to time."""
        self._loop = asyncio.get_running_loop()
        jobs = (
            (self.settings.heartbeat, self.hub.beat),
            (1.0, self.streams.look_after),
            (1.0, self.hub.forget_unused),
            (_TRIM_EVERY, self._begin_trimming),
        )
        self._tasks = [self._loop.create_task(_repeat(seconds, job)) for seconds, job in jobs]

    async def stop(self) -> None:
        """Says good-bye to subscribers, and to those who have not said yet what they want."""
        self.closing = True
        for task in self.receiving:
            task.cancel()
        await cancel_all(self._tasks)
        await self.streams.end_all(Refused(503, "CLOSING"))
        await cancel_all([feed.task for feed in self.hub.feeds.values() if feed.task is not None])

    def _write_local_token(self) -> None:
        with suppress(ViewkeeperError):
            self.accounts.revoke(LOCAL)
        path = self.path / LOCAL_TOKEN
        partial = path.with_name(f"{LOCAL_TOKEN}.partial")
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(self.accounts.create(LOCAL, EVERYTHING) + "\n")
        partial.replace(path)

    def _remove_local_token(self) -> None:
        (self.path / LOCAL_TOKEN).unlink(missing_ok=True)
        with suppress(ViewkeeperError):
            self.accounts.revoke(LOCAL)

    # ---- reading and changing

    async def read(self, function: Callable[[], T], for_feed: bool = False) -> T:
        """Runs something in a thread that reads; it may not take too long. Feeds have threads of their own, so that questions do not delay them."""
        if self.closing:
            raise Refused(503, "CLOSING")

        def limited() -> T:
            with at_most(self.settings.query_seconds):
                return function()

        return await asyncio.get_running_loop().run_in_executor(self._feeders if for_feed else self._readers, limited)

    async def change(self, function: Callable[[], T]) -> T:
        """Runs something in the one thread that changes the warehouse."""
        if self.closing:
            raise Refused(503, "CLOSING")
        if self._waiting >= self.settings.waiting_commits:
            raise Refused(503, "BUSY", waiting=self._waiting)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._writer, function)
        finally:
            self._waiting -= 1

    @property
    def waiting(self) -> int:
        """How many changes are waiting or being made."""
        return self._waiting

    def committed(self, commit: Commit, defines: bool = False) -> None:
        """Tells the hub; called by the writer, so that it is told even if nobody waits for the answer any more."""
        self.metrics.committed(commit)
        if commit.number is None or commit.repeated:
            return
        assert self._loop is not None
        if defines:
            self._loop.call_soon_threadsafe(self._publish, commit.number, None, self.find_names())
        else:
            self._loop.call_soon_threadsafe(self._publish, commit.number, frozenset(commit.changes), None)

    def _publish(
        self, commit: int, changed: frozenset[str] | None, defined: tuple[frozenset[str], dict[str, str], frozenset[str]] | None
    ) -> None:
        self.last = max(self.last, commit)
        if defined is not None:
            self.names, self.levels, self.untold = defined
        self.hub.publish(commit, None if changed is None else changed | self.untold)

    # ---- what feeds need

    def follow(self, topic: Topic, since: int, until: int | None) -> Told:
        return self.warehouse.follow(topic.wanted, since, until, gather=bool(topic.every))

    def encode(self, topic: Topic, told: Told) -> tuple[Event, ...]:
        return encoded(topic, told, self.levels.get(topic.wanted.view))

    def find_names(self) -> tuple[frozenset[str], dict[str, str], frozenset[str]]:
        """The names of all relations, the levels of integrity views, and the virtual views."""
        program = self.warehouse.program
        return frozenset(program.by_name), self.warehouse.levels(), program.virtual

    def oldest(self) -> int:
        return self.warehouse.oldest()

    # ---- the log

    def _begin_trimming(self) -> None:
        if self.settings.keep_log is not None and not self.closing:
            task = asyncio.get_running_loop().create_task(self._trim())
            self._tasks.append(task)
            task.add_done_callback(self._tasks.remove)

    async def _trim(self) -> None:
        try:
            await self.change(self.trim_log)
        except ViewkeeperError as error:
            LOG.error("the log could not be shortened: %s", error.code)

    def trim_log(self) -> None:
        """Forgets what is older than wanted, but nothing that a named subscription still needs."""
        keep, last = self.settings.keep_log, self.warehouse.last()
        if isinstance(keep, datetime.timedelta):
            begin = (datetime.datetime.now(datetime.UTC) - keep).strftime("%Y-%m-%dT%H:%M:%SZ")
            keep = sum(one.time >= begin for one in self.warehouse.log(self.oldest()))
        assert keep is not None
        needed = self.accounts.least_acknowledged(time.time() - self.settings.keep_subscriptions)
        if needed is not None:
            keep = max(keep, last - needed)
        if last - keep > self.oldest():
            self.warehouse.trim_log(keep)


async def _repeat(seconds: float, job: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            job()
        except Exception:
            LOG.exception("what happens every %s s failed", seconds)
