"""A slice of Debian and its security update: one transaction, and exactly what it changes in each view."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import viewkeeper as vk

HERE = Path(__file__).parent
BASE = ("package", "depends", "provides", "conflicts")
VIEWS = ("based_on", "available", "missing", "weight", "section_size", "clash")
SHOWN = 3


def main() -> None:
    print("— Debian: packages of the kernel, video and web sections with all that they need —")
    with tempfile.TemporaryDirectory() as directory, vk.open(Path(directory) / "debian", create=True) as debian:
        debian.define((HERE / "debian.dl").read_text(), "debian.dl")
        commit = debian.load({name: HERE / "data" / f"{name}.csv.gz" for name in BASE}, engine="embedded")
        print(f"loaded {sum(commit.inserted.values()):,} rows and computed {len(VIEWS)} views in {commit.seconds:.2f} s")
        rows = {shown.relation.name: shown.rows for shown in debian.show()}
        started = time.monotonic()
        update = debian.commit_file(HERE / "data" / "security-update.jsonl.gz", engine="embedded")
        print(f"the security update, read and committed as one transaction, took {(time.monotonic() - started) * 1000:.0f} ms:")
        for name in (*BASE, *VIEWS):
            show(name, rows[name], update)
        wrong = [v.view for v in debian.verify(engine="embedded") if not v.right]
        if wrong:
            sys.exit(f"these views differ from a recomputation: {', '.join(wrong)}")
        print("verified: every view is as recomputed")


def show(name: str, rows: int, commit: vk.Commit) -> None:
    """How many rows of a relation came and went, and for views the first of them."""
    changed = commit.changes.get(name)
    if changed is None:
        print(f"  {name:<12} {rows:>7,} rows, unchanged")
        return
    print(f"  {name:<12} {rows:>7,} rows, {changed.inserted_rows:,} came, {changed.deleted_rows:,} went")
    if name in VIEWS:
        for sign, table in (("-", changed.deleted), ("+", changed.inserted)):
            for row in table.slice(0, SHOWN).to_pylist():
                print(f"    {sign} {', '.join(f'{value:,}' if isinstance(value, int) else value for value in row.values())}")


if __name__ == "__main__":
    main()
