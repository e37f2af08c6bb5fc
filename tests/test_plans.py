"""Maintenance searches stored relations, it never reads one from end to end: what a change costs does not depend on their size.

Every program of tests/programs is maintained through a change; the statements that this takes are recorded, and SQLite tells its plan
for each of them.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.oracle import read_facts

import viewkeeper as vk
from viewkeeper.engines.keep import changes, maintainer, recursion
from viewkeeper.engines.keep.tables import Tables
from viewkeeper.engines.keep.together import BETWEEN
from viewkeeper.engines.names import sql_name
from viewkeeper.program.ast import Program
from viewkeeper.program.plan import Extreme, First, Grouped
from viewkeeper.warehouse import Warehouse
from viewkeeper.writer import plan_of

PROGRAMS = sorted(path.parent for path in (Path(__file__).parent / "programs").glob("*/program.dl"))

# What is written ← what is read for it from end to end. In each of these rules nothing that is known says which rows to look for.
SCANS: dict[str, tuple[str, ...]] = {
    # Every row meets every other one.
    "aggregate_assignments": ("out_group4$gain ← r",),
    "aggregate_correlated": ("shifted_sum1$gain ← below_for1", "shifted_sum1$gain ← r"),
    "aggregate_own_variables": ("out$gain ← out_max1",),
    "classic_graph_colouring": ("missing$gain ← colouring", "missing$gain ← edge"),
    "classic_reach_avoiding": ("dominates$gain ← node",),
    "classic_statistics": ("stat_mean1$gain ← sample", "stat_mean1$gain ← stat_for1"),
    "classic_type_hierarchy": ("abstract$gain ← class", "abstract$gain ← method"),
    "cross_product": ("all$gain ← a", "all$gain ← b", "gate$gain ← a"),
    "logic": ("t$gain ← v",),
    "null_negation": ("never_null$gain ← a",),
    "type_aliases": ("out$gain ← item", "out$gain ← person"),
    # They meet where one is larger.
    "aggregate_nested": ("best$gain ← g", "out_count_over2$gain ← g", "rank_count_over1$gain ← g"),
    "text_identifiers": ("r$gain ← _r1?",),
    # The value to look for is an argument of a function that cannot be turned round.
    "equations_bind": ("eq$gain ← r", "late$gain ← r"),
    "expressions_in_atoms": ("chain$gain ← next", "grows$gain ← word", "self$gain ← word"),
    "negation_terms": ("h$gain ← r",),
    "ord_function": ("same$gain ← w",),
    # A window over everything, which is one partition; the first rows of everything are searched, and just they are stored.
    "window_frames": ("times$gain ← seen", "times$gain ← times"),
    "window_heads": (
        "none_window1$gain ← none_window1",
        "none_window1$gain ← s",
        "sums_window1$gain ← prices",
        "sums_window1$gain ← sums_window1",
        "twice_window1$gain ← s",
        "twice_window1$gain ← twice_window1",
    ),
    "window_ranks": ("all$gain ← all", "all$gain ← s"),
    "window_top": ("five_window1$gain ← five_window1",),
}


_FIRST_ROWS = re.compile(r"LIMIT (1\b|\d+\))")


class Recorder:
    """The statements of one connection that change views, with their values."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: dict[str, tuple[Any, str | None]] = {}
        self.connection: sqlite3.Connection | None = None
        self.paused = True
        for name in ("run", "fetch"):
            monkeypatch.setattr(Tables, name, self.recording(getattr(Tables, name)))
        for module in (maintainer, recursion):
            monkeypatch.setattr(module, "renew", self.unrecorded(module.renew))

    def recording(self, run: Any) -> Any:
        def call(tables: Tables, sql: str, parameters: Any = (), relation: str | None = None) -> Any:
            if not self.paused:
                self.connection = tables.engine.connection
                self.found.setdefault(sql, (parameters, relation))
            return run(tables, sql, parameters, relation)

        return call

    def unrecorded(self, renew: Any) -> Any:
        """What is computed anew reads everything."""

        def call(*arguments: Any) -> None:
            before, self.paused = self.paused, True
            renew(*arguments)
            self.paused = before

        return call

    def scans(self, single: set[str]) -> Iterator[str]:
        """What is written, and the stored table that is read from end to end for it; those of at most one row do not count."""
        assert self.connection is not None
        # The terms of a statement that evaluates several rules have the same aliases for different tables.
        terms = [(term, *found) for sql, found in self.found.items() for term in sql.split(BETWEEN)]
        for sql, parameters, relation in terms:
            if sql.partition(" ")[0] not in ("SELECT", "INSERT", "UPDATE", "DELETE"):
                continue
            aliases = set(re.findall(r" AS (\w+)", sql))
            tables = re.findall(r'main\."([^"]*)"(?: AS (\w+))?', sql)
            stored = {alias or table: table for table, alias in tables if alias or table not in aliases}
            for *_, detail in self.connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters):
                match = re.match(r"SCAN (\S+)", detail)
                table = stored.get(match[1]) if match else None
                # The first rows of an index are found without reading the others.
                if table is not None and table not in single and not (" in order of " in detail and _FIRST_ROWS.search(sql)):
                    written = re.search(r'(?:INTO|UPDATE|FROM) (?:temp|main)\."([^"]*)"', sql)
                    # A query alone is one for a changed row, which finds what a view gains.
                    name = written[1] if written and not sql.startswith("SELECT") else f"{relation}$gain"
                    yield f"{re.sub(r'[$](fresh|change)$', '$gain', name)} ← {table}"


def single_rows(program: Program) -> set[str]:
    """Tables that have one row at most: of relations without columns, and of aggregates that are not grouped."""
    found: set[str] = set()
    for step in plan_of(program).steps:
        for relation in step.relations:
            grouped = step.first if isinstance(step, Extreme) else step
            if not (grouped.groups if isinstance(grouped, (Grouped, First)) else relation.columns):
                found |= {sql_name(relation.name), f"$state of {sql_name(relation.name)}"}
    return found


def changed(folder: Path, shop: Warehouse, recorder: Recorder) -> None:
    """Half of the rows go, and come back."""
    text = (folder / "program.dl").read_text(encoding="utf-8")
    shop.define(text)
    derived = shop.program.derived
    facts = read_facts(text, folder / "facts")
    rows = {name: sorted(found, key=repr) for name, found in facts.items() if name not in derived and found}
    shop.commit(rows)
    told = {r.name: sorted(shop_rows(shop, r.name), key=repr) for r in shop.program.relations if r.name not in derived}
    half = {name: found[::2] for name, found in told.items() if found}
    recorder.paused = False
    shop.commit(deletes=half)
    shop.commit(inserts=half)
    recorder.paused = True


def shop_rows(shop: Warehouse, name: str) -> list[tuple[Any, ...]]:
    columns = ", ".join(f"v{i}" for i in range(shop.program.relation(name).arity))
    return list(shop.query(f"{name}({columns})"))


@pytest.mark.parametrize("few", [0, 1000])
@pytest.mark.parametrize("folder", PROGRAMS, ids=lambda folder: folder.name)
def test_stored_relations_are_searched(folder: Path, few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether changed rows are brought in together or one by one."""
    monkeypatch.setattr(changes, "FEW", few)
    recorder = Recorder(monkeypatch)
    with vk.open(tmp_path / "shop", create=True) as shop:
        changed(folder, shop, recorder)
        found = sorted(set(recorder.scans(single_rows(shop.program)))) if recorder.found else []
    # What searches by now must be taken out of the list.
    assert found == sorted(SCANS.get(folder.name, ()))


SOFTWARE = Path(__file__).parent.parent / "examples" / "software"


@pytest.mark.parametrize("few", [0, changes.FEW])
def test_external_views_search_stored_relations(few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """80 views of which nothing is stored: a link that comes and goes is joined with what it leads to."""
    monkeypatch.setattr(changes, "FEW", few)
    recorder = Recorder(monkeypatch)
    bases = ("module", "procedure", "defined_in", "import", "depend_on")
    with vk.open(tmp_path / "shop", create=True) as shop:
        shop.define((SOFTWARE / "software.dl").read_text("utf-8"))
        shop.load({name: SOFTWARE / "data" / f"{name}.csv.gz" for name in bases})
        shop.define("\n".join((SOFTWARE / name).read_text("utf-8") for name in ("integrity.dl", "integrity_external.dl")))
        links = [("abc", "os.walk"), ("json.decoder", "tkinter.Tk"), ("tkinter", "json.dumps"), ("nowhere", "nothing")]
        recorder.paused = False
        for link in links:
            shop.commit({"import": [link]})
        shop.commit(deletes={"import": links})
        recorder.paused = True
        together = [sql for sql in recorder.found if BETWEEN in sql]
        assert together
        assert sorted(set(recorder.scans(single_rows(shop.program)))) == []
