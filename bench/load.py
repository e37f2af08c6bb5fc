"""Load for a server, from a process of its own and over plain sockets, so that it costs little itself.

``python -m bench.load subscribe HOST PORT TOKEN PATH NUMBER``: prints "ready" when so many subscribers are there; at the end of its standard
input it prints what they received: for each commit the moments it arrived at.
``python -m bench.load write HOST PORT TOKEN WRITERS SECONDS``: prints how many one-row transactions were committed, and how long each took.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections import defaultdict

_ID = re.compile(rb"\nid: (\d+)\n")
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


class Subscriber(asyncio.Protocol):
    def __init__(self, request: bytes, arrived: dict[int, list[float]], waiting: list[int], ready: asyncio.Event) -> None:
        self.request, self.arrived, self.waiting, self.ready = request, arrived, waiting, ready
        self.started = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(self.request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        if not self.started and b"retry" in data:
            self.started = True
            self.waiting[0] -= 1
            if not self.waiting[0]:
                self.ready.set()
        if b"event: change" in data:
            for number in _ID.findall(data):
                self.arrived[int(number)].append(now)


async def subscribe(host: str, port: int, token: str, path: str, number: int) -> None:
    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    arrived: dict[int, list[float]] = defaultdict(list)
    loop, waiting, ready = asyncio.get_running_loop(), [number], asyncio.Event()
    transports = []
    for place in range(number):
        transport, _ = await loop.create_connection(lambda: Subscriber(request, arrived, waiting, ready), host, port)
        transports.append(transport)
        if place % 100 == 99:
            await asyncio.sleep(0.05)
    if number:
        await asyncio.wait_for(ready.wait(), 60)
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    for transport in transports:
        transport.abort()
    print(json.dumps(arrived), flush=True)


async def write(host: str, port: int, token: str, writers: int, seconds: float) -> None:
    end = time.monotonic() + seconds
    took = await asyncio.gather(*(_writer(host, port, token, f"{place}", end) for place in range(writers)))
    print(json.dumps([one for found in took for one in found]), flush=True)


async def _writer(host: str, port: int, token: str, name: str, end: float) -> list[float]:
    reader, writer = await asyncio.open_connection(host, port)
    took = []
    while (started := time.monotonic()) < end:
        row = [f"{name}-{len(took)}", len(took)]
        body = json.dumps({"operations": [{"relation": "price", "op": "insert", "row": row}]}).encode()
        head = f"POST /v1/transactions HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"refused: {answer!r}")
        found = _LENGTH.search(answer)
        assert found is not None
        await reader.readexactly(int(found[1]))
        took.append(time.monotonic() - started)
    writer.close()
    return took


def main() -> None:
    kind, host, port, token, *rest = sys.argv[1:]
    job = subscribe(host, int(port), token, rest[0], int(rest[1])) if kind == "subscribe" else None
    job = job or write(host, int(port), token, int(rest[0]), float(rest[1]))
    try:
        import uvloop

        uvloop.run(job)
    except ImportError:
        asyncio.run(job)


if __name__ == "__main__":
    main()
