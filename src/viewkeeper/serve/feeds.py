"""Feeds: what changes in an answer, computed and encoded once for all who follow it.

1. A commit is published. Each feed reads from the log what the commits since its last look changed, and encodes that.
2. The events go to the feed's ring, which holds the last few, and are written to everybody who waits for them.
3. A subscriber is only a position, the last commit it was told. What comes after it is in the ring, or for one that is behind in the log.

So a slow subscriber costs nothing but its position, and never delays anybody.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

import msgspec

from viewkeeper.serve.envelopes import LOG
from viewkeeper.serve.grants import Refused
from viewkeeper.watched import Told, Wanted, json_rows
from viewkeeper.wire import CHANGE, HEARTBEAT, HINT, event

T = TypeVar("T")
RING_EVENTS = 256
RING_BYTES = 8 * 1024 * 1024
LINGER = 5.0
"""A feed that nobody follows is forgotten after so many seconds."""


@dataclass(frozen=True)
class Every:
    """How often something is told: at most once in so many seconds, or once for so many commits. Neither: each commit."""

    seconds: float = 0.0
    commits: int = 0

    def __bool__(self) -> bool:
        return bool(self.seconds or self.commits)


@dataclass(frozen=True)
class Topic:
    """What a feed tells: subscribers with equal topics share it."""

    wanted: Wanted
    mode: str = "exact"
    every: Every = Every()


@dataclass(frozen=True)
class Event:
    """Bytes that tell what changed with the commits from ``first`` to ``commit``."""

    first: int
    commit: int
    data: bytes

    @cached_property
    def chunk(self) -> bytes:
        """As one chunk of HTTP, for all to whom it is written directly."""
        return b"%x\r\n%s\r\n" % (len(self.data), self.data) if self.data else b""


class Waiting(Protocol):
    """A subscriber that has been told everything and waits for more."""

    def push(self, events: Sequence[Event]) -> bool:
        """Writes events at once, if that is possible without waiting."""


@dataclass(frozen=True)
class Look:
    """What a look into the log found: events up to a commit; or that everybody must start anew, or that the view is gone."""

    until: int
    events: tuple[Event, ...] = ()
    reset: str | None = None
    gone: bool = False


class Reader(Protocol):
    """What feeds need of the service."""

    @property
    def last(self) -> int: ...

    async def read(self, function: Callable[[], T], for_feed: bool = False) -> T: ...

    def follow(self, topic: Topic, since: int, until: int | None) -> Told: ...

    def encode(self, topic: Topic, told: Told) -> tuple[Event, ...]: ...


class Feed:
    """One topic, with the events of the last commits."""

    def __init__(self, topic: Topic, upto: int) -> None:
        self.topic, self.upto, self.floor = topic, upto, upto
        self.reset_at, self.reason = -1, ""
        self.gone = False
        self.beat = 0
        self.subscribers = 0
        self.left = time.monotonic()
        self.last_told = 0.0
        self.events: deque[Event] = deque()
        self._bytes = 0
        self._waiting: dict[Waiting, asyncio.Future[None]] = {}
        self._heartbeat = (-1, b"")
        self.task: asyncio.Task[None] | None = None

    def is_due(self, last: int) -> bool:
        """Are there commits to look at?"""
        return not self.gone and last - self.upto >= max(1, self.topic.every.commits)

    def moved(self, subscriber: Waiting) -> asyncio.Future[None]:
        """Done when there is something that the subscriber must see to itself."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[subscriber] = waiting
        return waiting

    def left_by(self, subscriber: Waiting) -> None:
        self._waiting.pop(subscriber, None)

    def wake(self) -> None:
        """Wakes all who wait."""
        waiting, self._waiting = self._waiting, {}
        for one in waiting.values():
            if not one.done():
                one.set_result(None)

    def _push(self, events: Sequence[Event]) -> None:
        """Writes events to all who wait; who cannot take them now is woken and sees to it."""
        late = [subscriber for subscriber in self._waiting if not subscriber.push(events)]
        for subscriber in late:
            waiting = self._waiting.pop(subscriber)
            if not waiting.done():
                waiting.set_result(None)

    def take(self, look: Look) -> None:
        """What was found becomes what subscribers read."""
        if look.gone:
            self.gone = True
        elif look.reset is not None:
            self.events.clear()
            self._bytes = 0
            self.reset_at, self.reason, self.floor = look.until, look.reset, look.until
        for one in look.events:
            self.events.append(one)
            self._bytes += len(one.data)
        while len(self.events) > RING_EVENTS or self._bytes > RING_BYTES and len(self.events) > 1:
            dropped = self.events.popleft()
            self._bytes -= len(dropped.data)
            self.floor = dropped.commit
        self.upto = max(self.upto, look.until)
        if look.gone or look.reset is not None:
            self.wake()
        elif look.events:
            self.last_told = time.monotonic()
            self._push(look.events)

    def after(self, position: int) -> tuple[bytes, int] | None:
        """What to send to a subscriber at a position, and the position it has then; None: only the log knows."""
        if position < self.floor:
            return None
        found = None
        for one in reversed(self.events):
            if one.commit <= position:
                break
            found = one
        if found is None:
            return b"", max(self.upto, position)
        return None if found.first <= position else (found.data, found.commit)

    def heartbeat(self, position: int) -> bytes:
        if self._heartbeat[0] != position:
            self._heartbeat = position, event(HEARTBEAT, b'{"commit":%d}' % position, position)
        return self._heartbeat[1]


class Hub:
    """All feeds."""

    def __init__(self, service: Reader) -> None:
        self.service = service
        self.feeds: dict[Topic, Feed] = {}
        self.log_reads = 0

    def feed(self, topic: Topic, commit: int) -> Feed:
        """The feed of a topic; a new one tells what comes after a commit."""
        found = self.feeds.get(topic)
        if found is None or found.gone:
            found = self.feeds[topic] = Feed(topic, commit)
            if commit < self.service.last:
                self._start(found)
        return found

    def leave(self, feed: Feed) -> None:
        feed.subscribers -= 1
        feed.left = time.monotonic()

    def publish(self, commit: int, changed: frozenset[str] | None) -> None:
        """A commit was made that changed these relations; None: anything may have changed."""
        for feed in self.feeds.values():
            is_there = feed.task is None and feed.upto == commit - 1 and not feed.topic.every
            if is_there and changed is not None and feed.topic.wanted.view not in changed:
                feed.upto = commit
                continue
            self._start(feed)

    def beat(self) -> None:
        """Time for a heartbeat."""
        for feed in list(self.feeds.values()):
            feed.beat += 1
            feed.wake()

    def forget_unused(self) -> None:
        limit = time.monotonic() - LINGER
        for topic, feed in list(self.feeds.items()):
            if not feed.subscribers and feed.left < limit:
                del self.feeds[topic]

    def _start(self, feed: Feed) -> None:
        if feed.task is None:
            feed.task = asyncio.get_running_loop().create_task(self._look(feed))
            feed.task.add_done_callback(lambda task: self._looked(feed, task))

    async def _look(self, feed: Feed) -> None:
        """Looks until there is nothing new."""
        while feed.is_due(self.service.last):
            every = feed.topic.every
            wait = feed.last_told + every.seconds - time.monotonic() if every.seconds else 0.0
            if wait > 0:
                await asyncio.sleep(wait)
            since = feed.upto
            until = since + every.commits if every.commits else None
            feed.take(await self.service.read(lambda: self.look(feed.topic, since, until), True))  # noqa: B023

    def _looked(self, feed: Feed, task: asyncio.Task[None]) -> None:
        feed.task = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not isinstance(error, Refused):  # the server is closing
            LOG.error("a feed failed: %r", error)
            feed.take(Look(self.service.last, reset="it could not be followed"))
        if error is None and feed.is_due(self.service.last):  # a commit came when it had just finished
            self._start(feed)

    def look(self, topic: Topic, since: int, until: int | None = None) -> Look:
        """Reads the log; in a thread."""
        self.log_reads += 1
        told = self.service.follow(topic, since, until)
        return Look(told.until, self.service.encode(topic, told), told.reset, told.gone)

    async def catch_up(self, feed: Feed, position: int) -> Look:
        """What one subscriber has missed, up to where its feed is."""
        return await self.service.read(lambda: self.look(feed.topic, position, feed.upto))


def encoded(topic: Topic, told: Told, level: str | None) -> tuple[Event, ...]:
    """The events that tell changes. One of which nothing is left tells nothing, but says where it began."""
    found = []
    for step in told.steps:
        data: dict[str, Any] = {"commit": step.commit, "first": step.first}
        if level is not None:
            data["level"] = level
        if topic.mode == "exact":
            came, went = step.changed.stored
            data["inserted"], data["deleted"] = (json_rows(rows, step.changed.relation) for rows in (came, went))
            if not came and not went:
                found.append(Event(step.first, step.commit, b""))
                continue
        name = CHANGE if topic.mode == "exact" else HINT
        found.append(Event(step.first, step.commit, event(name, msgspec.json.encode(data), step.commit)))
    return tuple(found)


def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> Coroutine[Any, Any, None]:
    """Ends tasks and waits for them."""

    async def ended(given: list[asyncio.Task[Any]]) -> None:
        for task in given:
            task.cancel()
        await asyncio.gather(*given, return_exceptions=True)

    return ended(list(tasks))
