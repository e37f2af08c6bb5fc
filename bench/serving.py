"""The server: how soon subscribers know of a commit, how many commits there are a second, and what a subscriber costs that only waits."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

import viewkeeper as vk
from bench.section import Goal, Run, Section, Times, goals, ms, number

PROGRAM = """
.decl price(item: symbol, cents: number)
.decl dear(item: symbol, cents: number)
dear(i, c) :- price(i, c), c >= 0.
"""
PATH = "/v1/views/dear/changes"
SUBSCRIBERS = (1, 100, 1_000)
A_SECOND, SECONDS = 10, 20
WRITERS, WRITING = 4, 10


@dataclass(frozen=True)
class Server:
    host: str
    port: int
    token: str
    process: int

    @property
    def megabytes(self) -> float:
        return float(psutil.Process(self.process).memory_info().rss) / 2**20


@contextmanager
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "shop"
        with vk.open(path, create=True, engine="embedded") as shop:
            shop.define(PROGRAM)
            shop.commit({"price": [(f"item {n}", n) for n in range(1_000)]})
        command = [sys.executable, "-m", "viewkeeper", "serve", str(path), "--port", "0", "--engine", "embedded"]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        token = ""
        try:
            for line in child.stdout:
                if line.startswith("admin token"):
                    token = line.split()[-1]
                if line.startswith("serving"):
                    host, _, port = line.split()[-1].removeprefix("http://").partition(":")
                    yield Server(host, int(port), token, child.pid)
                    break
        finally:
            child.terminate()
            child.wait()


@contextmanager
def subscribers(where: Server, many: int, arrived: dict[int, list[float]]) -> Iterator[None]:
    """So many subscribers in a process of their own; ``arrived`` has what came when they have left."""
    arguments = ["subscribe", where.host, str(where.port), where.token, PATH, str(many)]
    child = subprocess.Popen(
        [sys.executable, "-m", "bench.load", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    if child.stdout.readline().strip() != "ready":
        raise ValueError("the subscribers did not come")
    try:
        yield
    finally:
        told, _ = child.communicate("")
        arrived.update({int(commit): moments for commit, moments in json.loads(told).items()})


def latency(many: int, seconds: float) -> list[float]:
    """Seconds from a transaction's request to its event, for each subscriber and commit."""
    arrived: dict[int, list[float]] = {}
    with server() as where, subscribers(where, many, arrived):
        sent = dict(_commit_steadily(where, seconds))
        time.sleep(1)
    missing = [commit for commit in sent if len(arrived.get(commit, ())) != many]
    if missing:
        raise ValueError(f"{len(missing)} commits did not reach all {many} subscribers once")
    return [moment - sent[commit] for commit in list(sent)[A_SECOND:] for moment in arrived[commit]]


def _commit_steadily(where: Server, seconds: float) -> Iterator[tuple[int, float]]:
    connection = http.client.HTTPConnection(where.host, where.port)
    begin = time.monotonic()
    for place in range(round(A_SECOND * seconds)):
        time.sleep(max(0.0, begin + place / A_SECOND - time.monotonic()))
        body = json.dumps({"operations": [{"relation": "price", "op": "insert", "row": [f"new {place}", place]}]})
        started = time.monotonic()
        connection.request("POST", "/v1/transactions", body, {"authorization": f"Bearer {where.token}"})
        answer = json.loads(connection.getresponse().read())
        yield answer["commit"], started
    connection.close()


def throughput(many: int, seconds: float) -> dict[str, Any]:
    with server() as where, subscribers(where, many, {}):
        arguments = ["write", where.host, str(where.port), where.token, str(WRITERS), str(seconds)]
        told = subprocess.run([sys.executable, "-m", "bench.load", *arguments], stdout=subprocess.PIPE, text=True, check=True)
        took = json.loads(told.stdout)
    return {"a second": len(took) / seconds, "seconds": took[:: max(1, len(took) // 2000)]}


def memory(many: int) -> float:
    """Kilobytes for each subscriber that waits."""
    with server() as where:
        with subscribers(where, 50, {}):  # so that what is needed once is there
            pass
        before = where.megabytes
        with subscribers(where, many, {}):
            time.sleep(1)
            after = where.megabytes
    return (after - before) * 1024 / many


def viewkeeper(run: Run) -> dict[str, Any]:
    seconds = float(os.environ.get("BENCH_SECONDS", SECONDS))
    sizes = [many for many in SUBSCRIBERS if many <= int(os.environ.get("BENCH_SUBSCRIBERS", "1000"))]
    return {
        "latency": {str(many): latency(many, seconds) for many in sizes},
        "throughput": {str(many): throughput(many, min(WRITING, seconds)) for many in (0, 100)},
        "kilobytes": memory(1_000),
    }


def text(results: Mapping[str, Any]) -> list[str]:
    measured = results["viewkeeper"]
    times = {many: Times(seconds) for many, seconds in measured["latency"].items()}
    rates = {many: found["a second"] for many, found in measured["throughput"].items()}
    last = list(times)[-1]
    lines = [
        f"`viewkeeper serve` on one core, its load on the other. {A_SECOND} durable one-row commits a second, which change one view;",
        "all subscribers follow that view. The time is from the request of the transaction to the arrival of its event.",
        "",
        "| subscribers | events | median | p99 | max |",
        "| ---: | ---: | ---: | ---: | ---: |",
        *(f"| {int(many):,} | {found.cells()} |" for many, found in times.items()),
        "",
        f"{WRITERS} writers that commit one row after the other, each waiting for its answer:",
        "",
        "| subscribers | commits a second | median | p99 |",
        "| ---: | ---: | ---: | ---: |",
    ]
    for many, found in measured["throughput"].items():
        took = Times(found["seconds"])
        lines.append(f"| {many} | {number(rates[many])} | {ms(took.median)} | {ms(took.p99)} |")
    return [
        *lines,
        "",
        f"A subscriber that waits costs {number(measured['kilobytes'])} kB of memory (1,000 of them).",
        "",
        *goals(
            Goal(f"p99 from commit to {int(last):,} subscribers", times[last].p99 * 1000, "under", 100, "ms"),
            Goal("commits a second without subscribers", rates["0"], "at least", 300, "a second"),
        ),
    ]


SECTION = Section("The server", {"viewkeeper": viewkeeper}, text, limit=900)
