"""Feeds a stream of one-row changes to a view in Pathway and tells how long each took until the view had it.

Run by the interpreter that has Pathway, with nothing of ours: ``python pathway_stream.py closure STREAM OUT``. STREAM is a JSON file
with the files to load and the changes; each change is sent when the one before it has come out.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pathway as pw
import psutil


class Depends(pw.Schema):
    package: str = pw.column_definition(primary_key=True)
    dependency: str = pw.column_definition(primary_key=True)


class Package(pw.Schema):
    name: str = pw.column_definition(primary_key=True)
    version: str = pw.column_definition(primary_key=True)
    section: str = pw.column_definition(primary_key=True)
    installed_kb: int = pw.column_definition(primary_key=True)


SCHEMAS: dict[str, Any] = {"depends": Depends, "package": Package}


class Source(pw.io.python.ConnectorSubject):
    """A relation, filled by ``work``. One that does not change ends with it, so that time does not wait for it."""

    # Pathway looks for deletions in ``run`` only.
    _deletions_enabled = True

    def __init__(self, work: Callable[[Source], None]) -> None:
        super().__init__()
        self.work = work

    def run(self) -> None:
        self.work(self)

    def apply(self, op: str, row: dict[str, Any]) -> None:
        if op == "insert":
            self.next(**row)
        else:
            self.delete(**row)


class Output:
    """Counts the rows of the view, and tells when a change has gone through.

    A change need not change the view, and then nothing would come out: the number of base rows comes out with it.
    """

    def __init__(self) -> None:
        self.rows = self.changed = 0
        self.ended = threading.Condition()
        self.count = 0

    def on_change(self, key: Any, row: Any, time: int, is_addition: bool) -> None:
        if row["view"]:
            self.rows += 1 if is_addition else -1
            self.changed += 1

    def on_time_end(self, time: int) -> None:
        with self.ended:
            self.count += 1
            self.ended.notify_all()

    def wait_beyond(self, count: int, seconds: float) -> bool:
        with self.ended:
            return self.ended.wait_for(lambda: self.count > count, seconds)


def closure(depends: pw.Table) -> pw.Table:
    def step(based_on: pw.Table, depends: pw.Table) -> dict[str, pw.Table]:
        longer = depends.join(based_on, depends.dependency == based_on.package).select(
            package=depends.package, dependency=based_on.dependency
        )
        return {"based_on": distinct(pw.Table.concat_reindex(depends, longer))}

    return pw.iterate(step, based_on=pw.iterate_universe(distinct(depends)), depends=depends).based_on


def distinct(table: pw.Table) -> pw.Table:
    return table.groupby(table.package, table.dependency).reduce(table.package, table.dependency)


def totals(depends: pw.Table, package: pw.Table) -> pw.Table:
    needed = package.copy()
    joined = (
        depends.join(package, depends.package == package.name)
        .select(section=package.section, dependency=depends.dependency)
        .join(needed, pw.left.dependency == needed.name)
        .select(section=pw.left.section, kb=needed.installed_kb)
    )
    return joined.groupby(joined.section).reduce(
        joined.section,
        packages=pw.reducers.count(),
        total=pw.reducers.sum(joined.kb),
        largest=pw.reducers.max(joined.kb),
    )


def main(view: str, stream: dict[str, Any], out: Path) -> None:
    output = Output()

    def fill(name: str) -> Callable[[Source], None]:
        def work(source: Source) -> None:
            for row in read(name, stream["files"][name]):
                source.next(**row)
            source.commit()

        return work

    def fill_and_change(source: Source) -> None:
        started = time.perf_counter()
        fill("depends")(source)
        wait_until_loaded(output, stream["rows"])
        load = time.perf_counter() - started
        done = [change(source, output, op, values) for op, _, values in stream["changes"]]
        result = {
            "load": load,
            "rows": stream["rows"],
            "rows_after": output.rows,
            "done": done,
            "memory_mb": psutil.Process().memory_info().rss // 2**20,
            "version": pw.__version__,
        }
        out.write_text(json.dumps(result))

    tables = {
        name: pw.io.python.read(
            Source(fill_and_change if name == "depends" else fill(name)), schema=SCHEMAS[name], autocommit_duration_ms=None
        )
        for name in stream["files"]
    }
    if view == "closure":
        shown = closure(tables["depends"]).select(view=True, text=pw.this.package, packages=0, total=0, largest=0)
    else:
        shown = totals(tables["depends"], tables["package"]).select(
            view=True, text=pw.this.section, packages=pw.this.packages, total=pw.this.total, largest=pw.this.largest
        )
    base = tables["depends"].reduce(number=pw.reducers.count())
    base = base.select(view=False, text="", packages=pw.this.number, total=0, largest=0)
    pw.io.subscribe(pw.Table.concat_reindex(shown, base), on_change=output.on_change, on_time_end=output.on_time_end)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


def change(source: Source, output: Output, op: str, values: list[Any]) -> tuple[float, int]:
    """One row of depends: how long until the view had it, and how many rows of the view came or went."""
    count, before = output.count, output.changed
    row = dict(zip(Depends.column_names(), values))
    started = time.perf_counter()
    source.apply(op, row)
    source.commit()
    if not output.wait_beyond(count, 120):
        raise TimeoutError(f"nothing came of {op} {values} in two minutes")
    return time.perf_counter() - started, output.changed - before


def read(name: str, file: str) -> list[dict[str, Any]]:
    columns = SCHEMAS[name].column_names()
    with gzip.open(file, "rt", encoding="utf-8", newline="") as lines:
        rows = [dict(zip(columns, row)) for row in csv.reader(lines)][1:]
    for row in rows:
        if "installed_kb" in row:
            row["installed_kb"] = int(row["installed_kb"])
    return rows


def wait_until_loaded(output: Output, rows: int, quiet: float = 2.0) -> None:
    """Several relations may come in as several steps: loading is over when all rows are there and no step ends for a while."""
    limit = time.monotonic() + 900
    while output.wait_beyond(output.count, quiet) or output.rows != rows:
        if time.monotonic() > limit:
            raise TimeoutError(f"{output.rows:,} rows instead of {rows:,} after a quarter of an hour")


if __name__ == "__main__":
    main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text()), Path(sys.argv[3]))
