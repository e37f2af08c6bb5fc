"""A real server for tests: ``viewkeeper serve`` in a process of its own, and plain ways to talk to it.

with serving(path) as server:
    server.post("/v1/transactions", {"operations": [...]})
    with server.follow("/v1/views/v/changes?snapshot=1") as events:
        events.next()
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import viewkeeper as vk

PATIENCE = 60.0
"""Seconds after which a test gives up waiting for something that must come."""

PROGRAM = """
.decl price(item: symbol, cents: number) key(item)
.decl dear(item: symbol, cents: number)
dear(i, c) :- price(i, c), c >= 100.
.decl sold(item: symbol, day: date, pieces: number)
.decl secret(item: symbol, margin: number)
.decl bargain(item: symbol)
bargain(i) :- price(i, c), secret(i, m), m < 5, c < 1000.
"""


@dataclass
class Answer:
    """What the server said."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of an error."""
        return str(self.json["error"]["code"])


@dataclass
class Server:
    """A server that runs: where it is, a token that may do everything, and its process."""

    path: Path
    url: str
    token: str
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        assert parts.hostname is not None and parts.port is not None
        return parts.hostname, parts.port

    def kill(self) -> None:
        """Ends it at once (SIGKILL)."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self) -> str:
        """Ends it as a user does; returns what it said on standard error."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            _, errors = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        return errors

    # ---- asking

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        token: str | None = "",
        headers: Mapping[str, str] = {},
    ) -> Answer:
        """One request; ``token``: another than the server's own, None for no token at all."""
        connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE)
        try:
            connection.request(method, path, body, {**self.headers(token), **headers})
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def headers(self, token: str | None = "") -> dict[str, str]:
        return {} if token is None else {"authorization": f"Bearer {token or self.token}"}

    def get(self, path: str, token: str | None = "", headers: Mapping[str, str] = {}) -> Answer:
        return self.ask("GET", path, None, token, headers)

    def post(self, path: str, body: Any, token: str | None = "", headers: Mapping[str, str] = {}) -> Answer:
        return self.ask("POST", path, json.dumps(body).encode(), token, {"content-type": "application/json", **headers})

    def commit(self, relation: str, *rows: Any, op: str = "insert", token: str | None = "", key: str | None = None) -> Answer:
        operations = [{"relation": relation, "op": op, "row": row} for row in rows]
        headers = {} if key is None else {"idempotency-key": key}
        return self.post("/v1/transactions", {"operations": operations}, token, headers)

    def make_token(self, name: str, **grants: Any) -> str:
        answer = self.post("/v1/tokens", {"name": name, "grants": grants})
        assert answer.status == 201, answer.body
        return str(answer.json["token"])

    @contextmanager
    def follow(self, path: str, token: str | None = "", headers: Mapping[str, str] = {}) -> Iterator[Events]:
        """A stream of events."""
        connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE)
        try:
            connection.request("GET", path, headers={**self.headers(token), **headers})
            answer = connection.getresponse()
            if answer.status != 200:
                raise AssertionError(f"{answer.status} {answer.read()!r}")
            yield Events(answer)
        finally:
            if connection.sock is not None:
                connection.sock.close()
            connection.close()


@dataclass(frozen=True)
class Event:
    name: str
    id: int | None
    data: Any


class Events:
    """Reads events one by one."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.answer = answer

    def next(self, skip: tuple[str, ...] = ("heartbeat",)) -> Event:
        """The next event; heartbeats are left out unless asked for. Raises EOFError at the end."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            fields: dict[str, str] = {}
            while line := self._line():
                name, _, value = line.partition(":")
                fields[name] = value.removeprefix(" ")
            if "event" in fields and fields["event"] not in skip:
                return Event(fields["event"], int(fields["id"]) if "id" in fields else None, json.loads(fields["data"]))
        raise TimeoutError

    def _line(self) -> str:
        line = self.answer.readline()
        if not line:
            raise EOFError
        return line.decode().rstrip("\n")


def make_warehouse(path: Path, program: str = PROGRAM) -> Path:
    """A warehouse with a small shop."""
    with vk.open(path, create=True, engine="embedded") as shop:
        shop.define(program)
    return path


def start(path: Path, *options: str, token: str | None = None) -> Server:
    """Starts a server on a free port, or with ``--port`` on the given one. Whoever starts it must stop it."""
    port = () if "--port" in options else ("--port", "0")
    command = [sys.executable, "-m", "viewkeeper", "serve", str(path), "--engine", "embedded", *port, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if line.startswith("admin token"):
            token = line.split()[-1]
        if line.startswith("serving "):
            local = (path / "server.token").read_text().strip()
            return Server(path, line.split()[-1], token or local, process, lines)
    _, errors = process.communicate(timeout=PATIENCE)
    raise AssertionError(f"the server did not start: {lines} {errors}")


@contextmanager
def serving(path: Path, *options: str, token: str | None = None, quiet: bool = True) -> Iterator[Server]:
    """A server for a while. At its end it must not have complained; ``token``: of an earlier one on the same warehouse."""
    server = start(path, *options, token=token)
    try:
        yield server
    finally:
        errors = server.stop()
    assert server.process.returncode in (0, -signal.SIGKILL), errors
    assert not quiet or not errors, errors


def raw(server: Server, data: bytes) -> socket.socket:
    """A connection on which some bytes were sent."""
    connection = socket.create_connection(server.address, timeout=PATIENCE)
    connection.sendall(data)
    return connection
