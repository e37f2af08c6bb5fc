"""Measures and writes docs/benchmarks.md: ``make bench``, or ``python -m bench maintenance`` for one section alone."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.report import provenance, write
from bench.section import Section

# In the order of the report: the module of each section.
SECTIONS = {
    "closure": "bench.closure",
    "maintenance": "bench.maintenance",
    "update": "bench.update",
    "pathway": "bench.against_pathway",
    "growth": "bench.growth",
    "dense": "bench.dense",
    "batches": "bench.batches",
    "tpch": "bench.tpch",
    "subscriptions": "bench.subscriptions",
    "paper": "bench.paper",
    "integrity": "bench.integrity",
    "serving": "bench.serving",
}


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m bench", description="Measures and writes docs/benchmarks.md.")
    arguments.add_argument("sections", nargs="*", metavar="SECTION", help=f"one of {', '.join(SECTIONS)}; none: all")
    arguments.add_argument("--large", action="store_true", help="also the largest sizes, which take long")
    given = arguments.parse_args()
    unknown = [name for name in given.sections if name not in SECTIONS]
    if unknown:
        arguments.error(f"unknown section {unknown[0]}")
    titles = [section_of(name).title for name in SECTIONS]
    failed = []
    for name in given.sections or SECTIONS:
        try:
            text = measure(name, given.large)
        except MeasuringError as error:
            print(f"{name} failed and keeps its last text: {error}", file=sys.stderr)
            failed.append(name)
            continue
        # Written after each section, so that what was measured is not lost.
        print(f"{name} is written to {write({section_of(name).title: text}, titles)}", flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def section_of(name: str) -> Section:
    section: Section = import_module(SECTIONS[name]).SECTION
    return section


class MeasuringError(Exception):
    pass


def measure(name: str, large: bool) -> str:
    """The text of a section: its subjects one after the other, each in a process of its own."""
    section, results = section_of(name), {}
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        for subject in section.subjects:
            started = time.monotonic()
            print(f"measuring {name}: {subject} …", flush=True)
            results[subject] = in_a_process(name, subject, large, section.limit, results, Path(directory))
            print(f"  {time.monotonic() - started:.0f} s", flush=True)
    try:
        lines = section.text(results)
    except (ValueError, KeyError) as error:
        raise MeasuringError(f"the results do not fit: {error}") from error
    command = f"python -m bench {name}{' --large' if large else ''}"
    return "\n".join([provenance(command), "", *lines])


def in_a_process(name: str, subject: str, large: bool, limit: int, earlier: dict[str, Any], directory: Path) -> Any:
    inputs, output, log = directory / "earlier.json", directory / f"{subject}.json", directory / "log"
    inputs.write_text(json.dumps({"large": large, "earlier": earlier}))
    command = [sys.executable, "-m", "bench.child", name, subject, str(inputs), str(output)]
    with log.open("w") as told:
        # A group of its own, so that what it has started (a Java machine) ends with it.
        child = subprocess.Popen(command, stdout=told, stderr=told, env=environment(directory), start_new_session=True)
        try:
            code = child.wait(limit)
        except subprocess.TimeoutExpired:
            raise MeasuringError(f"{subject} took more than {limit} s") from None
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    if code or not output.exists():
        raise MeasuringError(f"{subject} ended with {code}\n{log.read_text()[-3000:]}")
    return json.loads(output.read_text())


def environment(directory: Path) -> dict[str, str]:
    """Temporary files of a child go where they are removed even if it is killed."""
    return {**os.environ, "TMPDIR": str(directory)}


if __name__ == "__main__":
    main()
