"""The software catalogue, evaluated on both engines: sizes, a sample, times; then a change and its exact effect."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import viewkeeper as vk

HERE = Path(__file__).parent
BASE = ("module", "procedure", "defined_in", "import", "depend_on")
# An import that brings a lot with it: colorsys needs nothing, subprocess needs much.
LINK = ("colorsys", "subprocess.Popen")
VIEWS = ("uses", "mod_dep", "needs", "ill_os", "module_size", "weight")


def main() -> None:
    sizes: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as directory:
        for engine in ("embedded", "spark"):
            sizes[engine] = load_and_show(Path(directory) / engine, engine)
        with vk.open(Path(directory) / "embedded") as catalogue:
            change_and_show(catalogue, recomputing(catalogue, Path(directory) / "anew"))
    if sizes["embedded"] != sizes["spark"]:
        sys.exit(f"the engines disagree: {sizes}")
    print("both engines give the same views")


def load_and_show(path: Path, engine: str) -> dict[str, int]:
    """A warehouse with the catalogue, its views computed by the engine."""
    print(f"— {engine} —")
    with vk.open(path, create=True) as catalogue:
        if engine == "spark":
            started = time.monotonic()
            from viewkeeper.engines.session import local_session

            local_session()
            print(f"a local Spark session started in {time.monotonic() - started:.1f} s")
        catalogue.define((HERE / "software.dl").read_text(), "software.dl", engine="embedded")
        commit = catalogue.load({name: HERE / "data" / f"{name}.csv.gz" for name in BASE}, engine=engine)
        print(f"loaded {sum(commit.inserted.values()):,} rows and computed {len(VIEWS)} views in {commit.seconds:.2f} s")
        sizes = {shown.relation.name: shown.rows for shown in catalogue.show() if shown.kind == "view"}
        for view in VIEWS:
            print(f"  {view:<12} {sizes[view]:>7,} rows")
        if engine == "embedded":
            sample(catalogue)
        wrong = [v.view for v in catalogue.verify(engine="embedded") if not v.right]
        if wrong:
            sys.exit(f"these views differ from a recomputation: {', '.join(wrong)}")
        print("verified: every view is as recomputed\n")
        return sizes


def change_and_show(catalogue: vk.Warehouse, recomputed: float) -> None:
    """A module imports one procedure more, and then no longer: what that changes, and how long it takes."""
    print(f"— one import more: {LINK[0]} imports {LINK[1]} —")
    # The first commit of a process prepares its statements.
    catalogue.preview(inserts={"import": [LINK]}, engine="embedded")
    for what, change in (("committed", {"inserts": {"import": [LINK]}}), ("taken back", {"deletes": {"import": [LINK]}})):
        started = time.monotonic()
        commit = catalogue.commit(**change, engine="embedded")
        show_change(what, commit, time.monotonic() - started, recomputed)
    wrong = [v.view for v in catalogue.verify(engine="embedded") if not v.right]
    if wrong:
        sys.exit(f"these views differ from a recomputation: {', '.join(wrong)}")
    print("verified: every view is as recomputed\n")


def show_change(what: str, commit: vk.Commit, seconds: float, recomputed: float) -> None:
    times = recomputed / seconds
    print(
        f"{what} in {seconds * 1000:.1f} ms; computing the views anew takes {recomputed * 1000:.0f} ms, {times:.0f} times as long"
    )
    for view in ("mod_dep", "ill_os"):
        changed = commit.changes[view]
        print(f"  {view:<12} {changed.inserted_rows:>5,} rows came, {changed.deleted_rows:,} went")
        for sign, table in (("+", changed.inserted), ("-", changed.deleted)):
            for row in table.slice(0, 3).to_pylist():
                print(f"    {sign} {', '.join(row.values())}")


def recomputing(catalogue: vk.Warehouse, path: Path) -> float:
    """How long all views take, computed from the base rows of the catalogue by the embedded engine."""
    with vk.open(path, create=True, engine="embedded") as anew:
        base = [shown for shown in catalogue.show() if shown.kind == "base"]
        anew.define("\n".join(shown.declaration for shown in base))
        for shown in base:
            columns = ", ".join(column.name for column in shown.relation.columns)
            anew.load(shown.relation.name, catalogue.query(f"{shown.relation.name}({columns})").to_arrow())
        started = time.monotonic()
        anew.define((HERE / "software.dl").read_text(), "software.dl")
        return time.monotonic() - started


def sample(catalogue: vk.Warehouse) -> None:
    print("the heaviest modules (modules based on them, lines of code they bring along):")
    heaviest = sorted(catalogue.query("weight(module, used_by, lines)"), key=lambda row: -row[1])[:5]
    for module, used_by, lines in heaviest:
        print(f"  {module:<12} {used_by:>4} modules  {lines:>7,} lines")
    print("what json is based on:")
    print("  " + ", ".join(row[0] for row in list(catalogue.query('mod_dep("json", m)'))[:8]) + " …")
    print("why shutil is in ill_os (it is based on modules that need different systems):")
    for one, os, other, other_os in list(catalogue.query('ill_os("shutil", one, os, other, other_os)'))[:3]:
        print(f"  {one} needs {os}, {other} needs {other_os}")


if __name__ == "__main__":
    main()
