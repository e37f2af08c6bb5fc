"""TPC-H: all 22 queries kept as views of one warehouse while orders come and go, against answering them anew.

The scale is 1, or what TPCH_SCALE says. The subjects share a directory: the first leaves data, transactions and the answers
after all of them there, so that none of it is in the memory of the process that is measured.
"""

from __future__ import annotations

import os
import pickle
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.tpch.compare import difference, duckdb_answers, duckdb_with, spark_with, view
from tests.tpch.data import Model, Transaction, arguments, generate
from tests.tpch.schema import CREATE_TABLES, CREATE_VIEWS, QUERIES, TABLES

import viewkeeper as vk
from bench.debian import count
from bench.memory import PeakMemory
from bench.section import TIMES, Goal, Run, Section, Times, agree, goals, ms, number

SCALE = float(os.environ.get("TPCH_SCALE", "1"))
RUNS = 4
# Transactions of each kind, in this order; orders are inserted and deleted in turn.
ORDERS = 200
BATCHES = {"0.1 %": (0.001, 5), "1 %": (0.01, 3)}
KINDS = {
    "one": "one order and its lines inserted",
    "less": "one order and its lines deleted",
    "0.1 %": "0.1 % of the orders inserted, as many deleted",
    "1 %": "1 % of the orders inserted, as many deleted",
}


def data() -> dict[str, Path]:
    return generate(Path(tempfile.gettempdir()), SCALE)


def left(name: str) -> Path:
    """What one subject leaves for another."""
    return Path(tempfile.gettempdir()) / f"tpch-{name}.pickle"


# ---- subjects


def duckdb(run: Run) -> dict[str, Any]:
    files = data()
    connection = duckdb_with(files)
    seconds = {name: min(_again(connection, name) for _ in range(RUNS)) for name in QUERIES}
    rows = {name: count(connection, name) for name in TABLES}
    connection.close()
    model = Model(files)
    with left("transactions").open("wb") as file:
        for kind, transaction in transactions(model):
            pickle.dump((kind, transaction), file)
    answers = duckdb_answers({name: model.table(name) for name in TABLES})
    left("answers").write_bytes(pickle.dumps(answers))
    return {"seconds": seconds, "rows": rows}


def _again(connection: Any, name: str) -> float:
    started = time.perf_counter()
    connection.execute(f"CREATE OR REPLACE TABLE {name} AS {QUERIES[name]}")
    return time.perf_counter() - started


def transactions(model: Model) -> Iterator[tuple[str, Transaction]]:
    for _ in range(ORDERS):
        yield "one", model.one_order()
        yield "less", model.one_order_less()
    for kind, (fraction, times) in BATCHES.items():
        for _ in range(times):
            yield kind, model.refresh(fraction)


def spark(run: Run) -> dict[str, Any]:
    """Parquet as it was generated; the second of two rounds, so that the Java machine is warm."""
    from viewkeeper.engines.session import local_session

    session = spark_with(local_session(), data())
    seconds: dict[str, float] = {}
    for _ in range(2):
        for name, query in QUERIES.items():
            started = time.perf_counter()
            session.sql(query).toArrow()
            seconds[name] = time.perf_counter() - started
    return {"seconds": seconds}


def viewkeeper(run: Run) -> dict[str, Any]:
    files = data()
    with tempfile.TemporaryDirectory() as directory, PeakMemory() as whole:
        path = Path(directory) / "w"
        load = timed(path, lambda warehouse: (warehouse.sql(CREATE_TABLES), warehouse.load(files)))
        base = size(path)
        fill = timed(path, lambda warehouse: warehouse.sql(CREATE_VIEWS))
        filled = size(path)
        with vk.open(path) as warehouse:
            with PeakMemory() as kept:
                done = list(commits(warehouse))
            answers = pickle.loads(left("answers").read_bytes())
            different = {name: text for name in QUERIES if (text := difference(view(warehouse, name), answers[name]))}
        after = size(path)
    return {
        "load": load,
        "fill": fill,
        "commits": done,
        "different": different,
        "disk_mb": {"base": base, "filled": filled, "after": after},
        "memory_mb": {"whole": whole.megabytes, "kept": kept.megabytes},
    }


def timed(path: Path, work: Callable[[vk.Warehouse], object]) -> float:
    """The seconds of some work, closing the warehouse included: what is on the disk afterwards is all there is."""
    started = time.perf_counter()
    with vk.open(path, create=True) as warehouse:
        work(warehouse)
    return time.perf_counter() - started


def commits(warehouse: vk.Warehouse) -> Iterator[dict[str, Any]]:
    for kind, transaction in _unpickled(left("transactions")):
        given = arguments(transaction)
        started = time.perf_counter()
        commit = warehouse.commit(**given)
        seconds = time.perf_counter() - started
        yield {"kind": kind, "seconds": seconds, "engine": commit.engine, "views": by_query(commit)}


def _unpickled(path: Path) -> Iterator[tuple[str, Transaction]]:
    """One after the other: all of them together would be most of the memory."""
    with path.open("rb") as file:
        while True:
            try:
                yield pickle.load(file)
            except EOFError:
                return


def by_query(commit: vk.Commit) -> dict[str, float]:
    """Seconds for each query, views that only help it included as far as their names tell."""
    found: dict[str, float] = {}
    for name, maintained in commit.views.items():
        query = re.search(r"q\d\d", name)
        owner = query[0] if query else "shared"
        found[owner] = found.get(owner, 0.0) + maintained.seconds
    return found


def size(path: Path) -> int:
    """Megabytes of a directory."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) // 2**20


# ---- the report


def text(results: Mapping[str, Any]) -> list[str]:
    ours = results["viewkeeper"]
    agree("views and answers", ours["different"], {})
    by_duckdb, by_spark = (sum(results[name]["seconds"].values()) for name in ("duckdb", "spark"))
    done = {kind: [one for one in ours["commits"] if one["kind"] == kind] for kind in KINDS}
    medians = {kind: statistics.median(one["seconds"] for one in some) for kind, some in done.items()}
    orders = statistics.median(one["seconds"] for one in done["one"] + done["less"])
    return [
        *_beginning(results, by_duckdb, by_spark),
        "",
        TIMES[0] + " engine | times faster than DuckDB | than Spark |",
        TIMES[1] + " --- | ---: | ---: |",
        *(_line(kind, some, by_duckdb, by_spark) for kind, some in done.items()),
        "",
        *goals(
            Goal("one order, median: faster than DuckDB's answering", by_duckdb / orders, "at least", 100),
            Goal("0.1 % of the orders, median: faster than DuckDB's answering", by_duckdb / medians["0.1 %"], "at least", 1),
            Goal("1 % of the orders, median: faster than Spark's answering", by_spark / medians["1 %"], "at least", 1),
        ),
        "",
        "Much of a batch is pages: each row has its place in the table and in its indexes, of a database that is larger than its cache, and each place is another page to read, to log",
        "and to write back. Some indexes have two layers for that ([decision 0003](decisions/0003-sqlite-tables.md)); a transaction that merges those of one takes longer than others.",
        "",
        *_places(ours),
        "",
        *_by_view(results, done),
    ]


def _beginning(results: Mapping[str, Any], by_duckdb: float, by_spark: float) -> list[str]:
    ours, rows = results["viewkeeper"], results["duckdb"]["rows"]
    return [
        f"Scale {SCALE:g}: {sum(rows.values()):,} rows in eight tables, {rows['orders']:,} orders with {rows['lineitem']:,} lines. All 22 queries are views of one durable",
        f"warehouse. Loading the tables takes {number(ours['load'])} s, creating and filling the views {number(ours['fill'])} s. After the last transaction",
        "each view has the rows of DuckDB's answer.",
        f"Answering the 22 queries anew takes DuckDB {number(by_duckdb)} s (in memory, the best of {RUNS} for each query, warm) and Spark {number(by_spark)} s",
        "(Parquet, warm); bringing the changes into their tables is not counted.",
    ]


def _line(kind: str, done: list[dict[str, Any]], by_duckdb: float, by_spark: float) -> str:
    times = Times([one["seconds"] for one in done])
    engines = ", ".join(sorted({one["engine"] for one in done}))
    ratios = f"{number(by_duckdb / times.median)} | {number(by_spark / times.median)}"
    return f"| {KINDS[kind]} | {times.cells()} | {engines} | {ratios} |"


def _places(ours: Mapping[str, Any]) -> list[str]:
    disk, memory = ours["disk_mb"], ours["memory_mb"]
    return [
        f"On disk the warehouse takes {disk['filled']:,} MB with its views, of which {disk['base']:,} MB are the tables, and {disk['after']:,} MB after all transactions.",
        f"Resident memory stayed under {memory['kept'] + 1:,} MB during the transactions, under {memory['whole'] + 1:,} MB while loading and filling too.",
    ]


def _by_view(results: Mapping[str, Any], done: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    """Milliseconds of each view: answered anew, and kept by the median transaction of each kind."""
    names = [*QUERIES, *(["shared"] if any("shared" in one["views"] for some in done.values() for one in some) else [])]
    lines = [
        "Each view: answered anew, and its part of a transaction, medians; in parentheses how many times as long DuckDB and Spark take to answer it anew.",
        "",
        "| view | DuckDB | Spark | " + " | ".join(KINDS.values()) + " |",
        "| --- | ---: | ---: |" + " ---: |" * len(KINDS),
    ]
    for name in names:
        anew = [found[name] for who in ("duckdb", "spark") if name in (found := results[who]["seconds"])]
        kept = [statistics.median(one["views"].get(name, 0.0) for one in some) for some in done.values()]
        lines.append(view_line(name, anew, kept))
    return lines


def view_line(name: str, anew: Sequence[float], kept: Sequence[float]) -> str:
    """Nothing to do is no number of times less."""
    cells = [ms(one) for one in anew] or ["", ""]
    for one in kept:
        times = [number(other / one) for other in anew] if one >= 1e-5 else []
        cells.append(f"{ms(one)} ({', '.join(times)})" if times else ms(one))
    return f"| {name} | {' | '.join(cells)} |"


SECTION = Section("TPC-H", {"duckdb": duckdb, "spark": spark, "viewkeeper": viewkeeper}, text, limit=4 * 3600)
