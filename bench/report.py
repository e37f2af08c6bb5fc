"""The report: docs/benchmarks.md, a section for each subject, each with the date and place of its own measuring."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

TARGET = Path(__file__).parent.parent / "docs" / "benchmarks.md"
BEGINNING = """# Benchmarks

Written by `make bench`; one section alone by `python -m bench` and its name. Each section says when and where it was measured.
Only ratios within one section mean anything: machines are noisy.
"""


def write(measured: Mapping[str, str], titles: Sequence[str], target: Path = TARGET) -> Path:
    """The report with the sections that were measured; the others keep the text they had."""
    kept = sections(target.read_text(encoding="utf-8")) if target.exists() else {}
    found = {**kept, **measured}
    parts = [f"## {title}\n\n{found[title].strip()}\n" for title in titles if title in found]
    target.write_text("\n".join([BEGINNING, *parts]), encoding="utf-8")
    return target


def sections(document: str) -> dict[str, str]:
    """The text under each heading."""
    parts = re.split(r"^## (.+)\n", document, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def provenance(command: str) -> str:
    """When, where, with what and how a section was measured."""
    versions = ", ".join(f"{name} {_version(package)}" for name, package in (("Spark", "pyspark"), ("DuckDB", "duckdb")))
    return (
        f"Measured on {time.strftime('%Y-%m-%d')} by `{command}`: {os.cpu_count()} cores, "
        f"{psutil.virtual_memory().total / 2**30:.0f} GB of memory, {platform.system()}; Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, {versions} with 2 threads."
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
