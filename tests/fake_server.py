"""A small server of one relation ``r(n: number, name: symbol)`` that speaks the protocol, and misbehaves as it is told.

It shares nothing with the real one but the format of events. Connections are cut in the middle of an event, events are repeated, bytes come one by one,
the log is forgotten, answers get lost behind the commit: whatever a network and a server can do to a client.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

COLUMNS = [{"name": "n", "type": "number", "key": True}, {"name": "name", "type": "symbol", "key": False}]
TOKEN = "vk_test"
Row = tuple[int, str]


@dataclass
class Faults:
    """How often what goes wrong; 0 is never, 1 always."""

    seed: int = 0
    cut: float = 0.0
    repeat: float = 0.0
    reset: float = 0.0
    away: float = 0.0
    close: float = 0.0
    slow: float = 0.0
    lose: float = 0.0
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def happens(self, rate: float) -> bool:
        return self.chance.random() < rate


class Cut(Exception):
    """The connection ends here."""


class FakeServer:
    """Runs in a thread of its own, on a free port."""

    def __init__(self, faults: Faults | None = None, heartbeat: float = 0.02) -> None:
        self.faults = faults or Faults()
        self.heartbeat = heartbeat
        self.history: list[tuple[list[Row], list[Row]]] = []  # of commit 1, 2, …
        self.rows: set[Row] = set()
        self.keys: dict[str, int] = {}
        self.acknowledged: dict[str, int | None] = {}
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.answer: Callable[[str, str], tuple[int, dict[str, Any]] | None] = lambda method, path: None
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> FakeServer:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *details: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def commit(self, inserted: list[Row], deleted: list[Row] = ()) -> int:  # type: ignore[assignment]
        """A commit that came from elsewhere."""
        return asyncio.run_coroutine_threadsafe(self._commit(inserted, list(deleted)), self._loop).result(10)

    def cut_all(self) -> None:
        """Ends every connection."""
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._tasks])

    # ---- the loop

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._request(reader, writer)
            writer.close()
        except (Cut, OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._tasks.discard(task)

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, target, _ = (await reader.readline()).decode().split(" ", 2)
        headers: dict[str, str] = {}
        while (line := (await reader.readline()).decode().strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        parts = urlsplit(target)
        parameters = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        self.requests.append((method, target, headers))
        told = self.answer(method, parts.path)
        if headers.get("authorization") != f"Bearer {TOKEN}":
            told = 401, error("UNAUTHORIZED", "there is no such token")
        elif told is None and self.faults.happens(self.faults.away):
            told = 503, error("BUSY", "come back later")
        if told is not None:
            await self._json(writer, *told)
        elif parts.path == "/v1/transactions":
            await self._transaction(writer, json.loads(body), headers["idempotency-key"])
        elif parts.path == "/v1/views" and parameters == {"name": "r"}:
            await self._json(writer, 200, {"views": [{"name": "r", "columns": COLUMNS}], "commit": len(self.history)})
        elif parts.path == "/v1/views/r":
            page = {"view": "r", "commit": len(self.history), "columns": COLUMNS, "rows": sorted(self.rows), "next": None}
            await self._json(writer, 200, page)
        elif parts.path == "/v1/commits":
            await self._json(writer, 200, {"commits": [{"commit": 1}], "last": len(self.history)})
        elif parts.path == "/v1/views/r/changes":
            await self._events(writer, headers, parameters)
        elif parts.path.endswith("/ack"):
            self.acknowledged[unquote(parts.path.split("/")[3])] = json.loads(body)["commit"]
            await self._json(writer, 200, {})
        else:
            await self._json(writer, 404, error("UNKNOWN_RELATION", "there is nothing here"))

    async def _json(self, writer: asyncio.StreamWriter, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        head = (
            f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + data)
        await writer.drain()

    # ---- changing

    async def _commit(self, inserted: list[Row], deleted: list[Row]) -> int:
        async with self._changed:
            came = [row for row in map(tuple, inserted) if row not in self.rows]
            went = [row for row in map(tuple, deleted) if row in self.rows]
            self.rows = (self.rows - set(went)) | set(came)  # type: ignore[arg-type]
            self.history.append((came, went))  # type: ignore[arg-type]
            self._changed.notify_all()
            return len(self.history)

    async def _transaction(self, writer: asyncio.StreamWriter, body: dict[str, Any], key: str) -> None:
        if self.faults.happens(self.faults.lose):
            raise Cut
        repeated = key in self.keys
        if not repeated:
            by = {op: [tuple(o["row"]) for o in body["operations"] if o["op"] == op] for op in ("insert", "delete")}
            self.keys[key] = await self._commit(by["insert"], by["delete"])  # type: ignore[arg-type]
        if self.faults.happens(self.faults.lose):
            raise Cut
        answer = {
            "commit": self.keys[key],
            "repeated": repeated,
            "engine": "embedded",
            "seconds": 0.0,
            "changes": {},
            "violations": {},
        }
        await self._json(writer, 200, answer)

    # ---- following

    async def _events(self, writer: asyncio.StreamWriter, headers: dict[str, str], parameters: dict[str, str]) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        stream = Stream(writer, self.faults)
        await stream.send(b"retry: 1000\n\n")
        if self.faults.happens(self.faults.close):
            await stream.event("end", {**error("CLOSING", "the server is about to go")})
            return
        name = parameters.get("name")
        asked = headers.get("last-event-id") or parameters.get("since")
        position = int(asked) if asked is not None else None
        known = self.acknowledged.get(name or "")
        if name is not None and (position is None or (known or 0) > position):
            position = known
        if name is not None:
            self.acknowledged.setdefault(name, None)
        if position is None and (parameters.get("snapshot") == "1" or name is not None):
            position = await self._whole(stream, "snapshot")
        elif position is None:
            position = len(self.history)
        elif self.faults.happens(self.faults.reset):
            position = await self._whole(stream, "reset")
        elif self.faults.happens(self.faults.repeat):
            position = max(0, position - 3)
        while True:
            while position < len(self.history):
                position += 1
                came, went = self.history[position - 1]
                if came or went:
                    change = {"commit": position, "first": position, "inserted": came, "deleted": went}
                    await stream.event("change", change, position)
            async with self._changed:
                if position == len(self.history):
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), self.heartbeat)
            if position == len(self.history):
                await stream.event("heartbeat", {"commit": position}, position)

    async def _whole(self, stream: Stream, kind: str) -> int:
        commit, rows = len(self.history), sorted(self.rows)
        parts = [rows[start : start + 3] for start in range(0, len(rows), 3)] or [[]]
        for number, part in enumerate(parts, 1):
            more = number < len(parts)
            data = {"commit": commit, "columns": COLUMNS, "rows": part, "more": more}
            await stream.event(kind, data | ({"reason": "forgotten"} if kind == "reset" else {}), None if more else commit)
        return commit


class Stream:
    """A chunked answer that may be cut at any byte, or come byte by byte."""

    def __init__(self, writer: asyncio.StreamWriter, faults: Faults) -> None:
        self._writer = writer
        self._left = faults.chance.randrange(1, 1500) if faults.happens(faults.cut) else None
        self._slow = faults.happens(faults.slow)
        self._chance = faults.chance

    async def event(self, name: str, data: dict[str, Any], number: int | None = None) -> None:
        place = "" if number is None else f"id: {number}\n"
        await self.send(f"event: {name}\n{place}data: {json.dumps(data)}\n\n".encode())

    async def send(self, data: bytes) -> None:
        cut = self._left is not None and self._left <= len(data)
        if self._left is not None:
            data, self._left = data[: self._left], self._left - len(data)
        while data:
            size = self._chance.randrange(1, 8) if self._slow else len(data)
            piece, data = data[:size], data[size:]
            self._writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await self._writer.drain()
            if self._slow:
                await asyncio.sleep(0)
        if cut:
            raise Cut


def error(code: str, message: str) -> dict[str, Any]:
    """The envelope."""
    one = {"code": code, "message": message, "hint": "wait"}
    return {"error": {**one, "kind": "store", "problems": [one]}}
