"""Clients that behave badly get a clear answer or a clean end, and nobody else notices."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.serving import PATIENCE, Server, make_warehouse, raw, serving

STALL = 1.5


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = make_warehouse(tmp_path_factory.mktemp("robust") / "shop")
    with serving(path, "--stall", f"{STALL}s", "--heartbeat", "500ms") as started:
        yield started


def all_of(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    parts = []
    while True:
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)


def count(server: Server, metric: str) -> int:
    text = server.get("/metrics").body.decode()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(f"viewkeeper_{metric} "))


def wait_for(server: Server, metric: str, wanted: int) -> None:
    end = time.monotonic() + PATIENCE
    while count(server, metric) != wanted:
        assert time.monotonic() < end, f"{metric} is {count(server, metric)}, not {wanted}"
        time.sleep(0.05)


def head(server: Server, method: str, path: str, more: str = "") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\n{more}\r\n".encode()


@pytest.mark.parametrize(
    "data", [b"nonsense\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"GET / HTTP/9.9\r\n\r\n", b"\x00" * 100]
)
def test_what_is_not_http_is_refused(server: Server, data: bytes) -> None:
    with raw(server, data) as connection:
        answer = all_of(connection)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b'"code":"BAD_REQUEST"' in answer


def test_a_body_that_ends_early_has_no_effect(server: Server) -> None:
    before = server.get("/v1").json["commit"]
    body = b'{"operations": [{"relation": "price", "op": "insert", "row": ["half", 200]}]}'
    for sent in (0, 10, len(body)):
        with raw(server, head(server, "POST", "/v1/transactions", f"Content-Length: {len(body) + 1}\r\n") + body[:sent]):
            pass
    assert server.get("/v1").json["commit"] == before
    assert server.get("/v1/views/price?item=half").json["rows"] == []


def test_a_client_that_leaves_before_its_answer_has_committed(server: Server) -> None:
    body = b'{"operations": [{"relation": "price", "op": "insert", "row": ["gone", 200]}]}'
    with server.follow("/v1/views/price/changes?item=gone") as events:
        with raw(server, head(server, "POST", "/v1/transactions", f"Content-Length: {len(body)}\r\n") + body):
            pass
        assert events.next().data["inserted"] == [["gone", 200]]


def test_a_subscriber_that_leaves_is_forgotten(server: Server) -> None:
    wait_for(server, "subscribers", 0)
    connections = [raw(server, head(server, "GET", "/v1/views/dear/changes")) for _ in range(20)]
    wait_for(server, "subscribers", 20)
    for number, connection in enumerate(connections):
        if number % 2:  # a reset instead of an orderly end
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        connection.close()
    wait_for(server, "subscribers", 0)


def test_a_client_that_stops_reading_is_cut_off_and_delays_nobody(server: Server) -> None:
    rows = [[f"{'x' * 1000} {n}", "2026-01-01", n] for n in range(3_000)]
    cut = count(server, "subscribers_cut_off_total")
    sleeping = socket.socket()
    sleeping.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sleeping.settimeout(PATIENCE)
    sleeping.connect(server.address)
    process = psutil.Process(server.process.pid)
    with sleeping, server.follow("/v1/views/sold/changes") as events:
        sleeping.sendall(head(server, "GET", "/v1/views/sold/changes"))
        wait_for(server, "subscribers", 2)
        before = process.memory_info().rss
        for number in range(12):
            commit = server.commit("sold", *rows, op="insert" if number % 2 == 0 else "delete").json["commit"]
            assert events.next().id == commit
        # 12 events of 3 MB were not kept for one who does not read: the ring holds less than three.
        assert process.memory_info().rss - before < 150 * 2**20
        wait_for(server, "subscribers_cut_off_total", cut + 1)
        wait_for(server, "subscribers", 1)
        server.commit("sold", rows[0])
        assert events.next().data["inserted"] == [rows[0]]
        received = all_of(sleeping)
    assert b"event: change" in received
    assert not received.endswith(b"0\r\n\r\n")  # not as if that had been all


def test_a_slow_reader_gets_everything_from_the_log(server: Server) -> None:
    """One that is behind the ring of its feed, but reads."""
    connection = http_events(server, "/v1/views/sold/changes?item=slow")
    with connection:
        rows = [["slow", "2026-01-01", n] for n in range(400)]
        commits = [server.commit("sold", row).json["commit"] for row in rows]
        text = b""
        while text.count(b"event: change") < len(rows):
            text += connection.recv(3000)
        found = [
            int(line.split()[1])
            for line in text.decode().splitlines()
            if line.startswith("id:") and int(line.split()[1]) in commits
        ]
    assert list(dict.fromkeys(found)) == commits


def http_events(server: Server, path: str) -> socket.socket:
    connection = raw(server, head(server, "GET", path))
    text = b""
    while b"retry" not in text:
        text += connection.recv(1000)
    return connection


def test_half_open_connections_do_not_hold_up_the_end(tmp_path: Path) -> None:
    path = make_warehouse(tmp_path / "shop")
    with serving(path) as server:
        silent = raw(server, b"")
        partial = raw(server, b"GET /v1 HTTP/1.1\r\nHos")
        waiting = raw(server, head(server, "POST", "/v1/transactions", "Content-Length: 1000\r\n") + b"{")
        stream = http_events(server, "/v1/views/dear/changes")
        assert server.get("/healthz").status == 200
    for connection in (silent, partial, waiting, stream):
        assert b"200 OK" not in all_of(connection)
        connection.close()


def test_many_connections_at_once(server: Server) -> None:
    connections = [raw(server, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") for _ in range(200)]
    answers = [all_of(connection) for connection in connections]
    for connection in connections:
        connection.close()
    assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)


def test_requests_on_one_connection_are_answered_in_order(server: Server) -> None:
    requests = b"".join(head(server, "GET", f"/v1/commits/{n}") for n in (1, 99999, 1))
    with raw(server, requests + head(server, "GET", "/healthz", "Connection: close\r\n")) as connection:
        answer = all_of(connection)
    statuses = [part.split(b" ")[0] for part in answer.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"404", b"200", b"200"]


def test_ctrl_c_ends_it_well(tmp_path: Path) -> None:
    import signal

    path = make_warehouse(tmp_path / "shop")
    with serving(path) as server:
        os.kill(server.process.pid, signal.SIGINT)
        assert server.process.stdout is not None
        assert select.select([server.process.stdout], [], [], PATIENCE)[0]
        assert server.process.stdout.readline() == "stopped\n"
        assert server.process.wait(PATIENCE) == 0
    assert not (path / "server.token").exists()
