"""Streams of events: one for each subscriber, from a snapshot or a position on.

A stream has no queue. It sends what comes after its position and waits until that has gone out; one whose reader takes nothing for a while is
cut off.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from viewkeeper.errors import ViewkeeperError
from viewkeeper.serve.envelopes import LOG, envelope, internal_error
from viewkeeper.serve.feeds import Event, Feed, Topic
from viewkeeper.serve.grants import Refused, Token, unknown_relation
from viewkeeper.watched import Found, json_rows, told_columns
from viewkeeper.wire import END, RESET, SNAPSHOT, Column, event

if TYPE_CHECKING:
    from viewkeeper.serve.service import Service

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
PIECE = 64 * 1024
"""What is longer goes out in pieces, each when the one before has gone."""
SNAPSHOT_ROWS = 5_000
_SHARED_BYTES = 32 * 1024 * 1024
PROTOCOL = "viewkeeper.protocol"
"""Where a scope has the connection, if it is one of ``running``."""
_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
    ],
}


@dataclass(frozen=True)
class Start:
    """Where a subscriber begins: at a commit; None: with a snapshot, because of ``reset`` if there is one."""

    topic: Topic
    token: Token
    position: int | None
    name: str | None = None
    reset: str | None = None


@dataclass(frozen=True)
class Taken:
    """A snapshot as it is sent."""

    commit: int
    parts: tuple[bytes, ...]


class Stream:
    """One subscriber."""

    def __init__(self, service: Service, feed: Feed, start: Start, send: Send, scope: Mapping[str, Any]) -> None:
        self.service, self.feed, self.start, self._send = service, feed, start, send
        self.protocol = scope.get(PROTOCOL)
        self.task: asyncio.Task[Any] | None = asyncio.current_task()
        self.sending: float | None = None
        self.ending: ViewkeeperError | None = None
        self.position = 0
        self._whole = True
        self._beat = feed.beat

    async def run(self, position: int | None) -> None:
        """Tells everything after a position, or a snapshot first, until somebody ends it."""
        await self._write(b"retry: 1000\n\n")
        if position is None:
            reset = self.start.reset
            self.position = await self._snapshot(SNAPSHOT if reset is None else RESET, reset)
        else:
            self.position = position
        feed = self.feed
        while True:
            if feed.gone:
                raise unknown_relation(feed.topic.wanted.view)
            if self.position < feed.reset_at:
                self.position = await self._snapshot(RESET, feed.reason)
                continue
            found = feed.after(self.position)
            if found is None:
                self.position = await self._catch_up(self.position)
                continue
            data, self.position = found
            if data:
                await self._write(data)
                self._beat = feed.beat
            elif self._beat < feed.beat:
                self._beat = feed.beat
                await self._write(feed.heartbeat(self.position))
            else:
                await feed.moved(self)

    def push(self, events: Sequence[Event]) -> bool:
        """Writes events straight to the connection, unless they are large, or it has not taken yet what was written before."""
        chunk = b"".join(one.chunk for one in events) if len(events) > 1 else events[0].chunk
        protocol = self.protocol
        if protocol is None or len(chunk) > PIECE or protocol.flow.write_paused or events[0].first <= self.position:
            return False
        if chunk and not protocol.transport.is_closing():
            protocol.transport.write(chunk)
            self.service.metrics.sent(len(chunk), len(events))
        self.position, self._beat = events[-1].commit, self.feed.beat
        return True

    async def _catch_up(self, position: int) -> int:
        """Reads the log for this subscriber alone."""
        self.service.metrics.catch_ups += 1
        look = await self.service.hub.catch_up(self.feed, position)
        if look.gone:
            raise unknown_relation(self.feed.topic.wanted.view)
        if look.reset is not None:
            return await self._snapshot(RESET, look.reset)
        for one in look.events:
            await self._write(one.data)
        return look.until

    async def _snapshot(self, kind: str, reason: str | None = None) -> int:
        taken = await self.service.streams.snapshot(self.feed, kind, reason)
        for part in taken.parts:
            await self._write(part)
        return taken.commit

    async def _write(self, data: bytes) -> None:
        """Sends an event; returns when it is on its way."""
        self.sending = time.monotonic()
        self._whole = False
        if len(data) <= PIECE:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})
        else:
            for start in range(0, len(data), PIECE):
                await self._send({"type": "http.response.body", "body": data[start : start + PIECE], "more_body": True})
                self.sending = time.monotonic()
        self._whole = True
        self.sending = None
        self.service.metrics.sent(len(data))

    async def finish(self, error: ViewkeeperError | None) -> None:
        """Says why it ends, if it can."""
        if error is not None and self._whole:
            await self._write(event(END, envelope(error)))
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def end(self, error: ViewkeeperError) -> None:
        """Ends it from outside."""
        if self.ending is None:
            self.ending = error
            if self.task is not None:
                self.task.cancel()

    def cut(self) -> None:
        """Ends it at once, with what was not sent yet."""
        if self.protocol is not None:
            self.protocol.transport.abort()
        self.end(Refused(503, "CLOSING"))


class Streams:
    """All subscribers."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.open: set[Stream] = set()
        self.by_token: Counter[str] = Counter()
        self._snapshots: dict[tuple[Topic, str], tuple[int, asyncio.Task[Taken]]] = {}

    async def serve(self, start: Start, receive: Callable[[], Awaitable[Any]], send: Send, scope: Mapping[str, Any]) -> None:
        """One subscriber from its beginning to its end."""
        service, token = self.service, start.token.name
        if self.by_token[token] >= service.settings.max_subscriptions:
            raise Refused(429, "TOO_MANY", what="subscriptions of this token", limit=service.settings.max_subscriptions)
        feed = service.hub.feed(start.topic, service.last)
        stream = Stream(service, feed, start, send, scope)
        feed.subscribers += 1
        self.by_token[token] += 1
        self.open.add(stream)
        gone = asyncio.get_running_loop().create_task(_disconnected(receive, stream))
        try:
            await send(_START)
            await self._told(stream)
        finally:
            gone.cancel()
            self.open.discard(stream)
            self.by_token[token] -= 1
            if not self.by_token[token]:
                del self.by_token[token]
            feed.left_by(stream)
            service.hub.leave(feed)

    async def _told(self, stream: Stream) -> None:
        error: ViewkeeperError | None
        try:
            await stream.run(stream.start.position)
            error = None
        except asyncio.CancelledError:
            # Cancelled by ourselves: to say why it ends, or because nobody is there any more.
            error = stream.ending
        except ViewkeeperError as found:
            error = found
        except Exception:
            LOG.exception("a stream failed")
            error = internal_error()
        try:
            async with asyncio.timeout(5):
                await stream.finish(error)
        except (TimeoutError, asyncio.CancelledError):
            stream.cut()

    async def snapshot(self, feed: Feed, kind: str, reason: str | None) -> Taken:
        """The answer as it is now, with the last commit that anybody was told of. Subscribers that come at the same time share it, as long
        as their feed tells all that came after it."""
        key, last = (feed.topic, f"{kind} {reason}"), self.service.last
        known, task = self._snapshots.get(key, (-1, None))
        if task is None or known != last or task.done() and not _is_fresh(task, feed):
            job = self.service.read(lambda: self._take(feed.topic, kind, reason))
            task = asyncio.get_running_loop().create_task(job)
            self._snapshots[key] = last, task
            task.add_done_callback(lambda done: self._took(key, done))
        return await asyncio.shield(task)

    def _took(self, key: tuple[Topic, str], task: asyncio.Task[Taken]) -> None:
        """Kept for a moment, for those who come together; a large one only for those who wait already."""
        failed = task.cancelled() or task.exception() is not None
        large = not failed and sum(map(len, task.result().parts)) > _SHARED_BYTES
        if failed or large:
            self._forget(key, task)
        else:
            asyncio.get_running_loop().call_later(1.0, self._forget, key, task)

    def _forget(self, key: tuple[Topic, str], task: asyncio.Task[Taken]) -> None:
        if self._snapshots.get(key, (-1, None))[1] is task:
            del self._snapshots[key]

    def _take(self, topic: Topic, kind: str, reason: str | None) -> Taken:
        found = self.service.warehouse.rows_of(topic.wanted)
        return Taken(found.commit, snapshot_events(found, kind, reason))

    def look_after(self) -> None:
        """Cuts off who does not read, and ends the streams of tokens that are not valid any more."""
        late = time.monotonic() - self.service.settings.stall
        for stream in list(self.open):
            if stream.sending is not None and stream.sending < late:
                self.service.metrics.stalled += 1
                stream.cut()
        self.check_tokens()

    def check_tokens(self) -> None:
        """Ends the streams of tokens that were revoked, have expired, or may not read their view any more."""
        tokens = {name: self.service.accounts.named(name) for name in list(self.by_token)}
        for stream in list(self.open):
            token = tokens.get(stream.start.token.name)
            if token is None or token.created != stream.start.token.created:
                stream.end(Refused(401, "TOKEN_ENDED", name=stream.start.token.name))

    async def end_all(self, error: ViewkeeperError) -> None:
        tasks = [stream.task for stream in self.open if stream.task is not None]
        for stream in list(self.open):
            stream.end(error)
        if tasks:
            await asyncio.wait(tasks, timeout=6)


def snapshot_events(found: Found, kind: str, reason: str | None = None) -> tuple[bytes, ...]:
    """A snapshot in parts; only the last one has the commit as its id, so that nobody resumes in the middle."""
    columns = [Column(*column) for column in told_columns(found.relation)]
    parts = []
    for start in range(0, max(1, len(found.rows)), SNAPSHOT_ROWS):
        more = start + SNAPSHOT_ROWS < len(found.rows)
        rows = json_rows(found.rows[start : start + SNAPSHOT_ROWS], found.relation)
        data = {"commit": found.commit, "columns": columns, "rows": rows, "more": more}
        if reason is not None:
            data["reason"] = reason
        parts.append(event(kind, msgspec.json.encode(data), None if more else found.commit))
    return tuple(parts)


def _is_fresh(task: asyncio.Task[Taken], feed: Feed) -> bool:
    return not task.cancelled() and task.exception() is None and task.result().commit >= max(feed.floor, feed.reset_at)


async def _disconnected(receive: Callable[[], Awaitable[Any]], stream: Stream) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    stream.protocol = None
    if stream.task is not None:
        stream.task.cancel()
