"""Cuts the data of this example out of the benchmark's: packages of a few sections, and all that they need.

The security update is cut the same way: the operations that concern these packages.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SOURCE = HERE.parent.parent / "bench" / "data" / "debian"
SECTIONS = {"kernel", "video", "web"}

Rows = list[list[str]]


def main() -> None:
    relations = {name: read(name) for name in ("package", "depends", "provides", "conflicts")}
    with gzip.open(SOURCE / "security-update.jsonl.gz", "rt", encoding="utf-8") as file:
        update = [json.loads(line) for line in file]
    names = wanted(relations, update)
    needed = {row[1] for row in relations["depends"][1:] if row[0] in names}
    for name, rows in relations.items():
        # Whoever provides what is needed is told, even where the provider itself is not in the slice.
        kept = [row for row in rows[1:] if row[0] in names or (name == "provides" and row[1] in needed)]
        write(name, [rows[0], *kept])
    lines = [json.dumps(one) + "\n" for one in update if one["row"][0] in names]
    (HERE / "data" / "security-update.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


def wanted(relations: dict[str, Rows], update: list[dict[str, Any]]) -> set[str]:
    """Packages of the sections, before or after the update, with everything they are based on."""
    inserted = [one for one in update if one["op"] == "insert"]
    below = defaultdict(set)
    for package, dependency in [*relations["depends"][1:], *(one["row"] for one in inserted if one["relation"] == "depends")]:
        below[package].add(dependency)
    packages = [*relations["package"][1:], *(one["row"] for one in inserted if one["relation"] == "package")]
    todo = [row[0] for row in packages if row[2] in SECTIONS]
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += below[name]
    return found


def read(name: str) -> Rows:
    with gzip.open(SOURCE / f"{name}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def write(name: str, rows: Rows) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    (HERE / "data" / f"{name}.csv.gz").write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


if __name__ == "__main__":
    main()
