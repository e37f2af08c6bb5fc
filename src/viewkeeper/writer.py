"""The one connection that changes a warehouse, kept open between changes with everything that is prepared on it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from viewkeeper.definitions import Definitions
from viewkeeper.engines.costs import Costs
from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.engines.keep import Maintainer
from viewkeeper.program.ast import Program
from viewkeeper.program.plan import Plan
from viewkeeper.program.strata import dependencies, reach
from viewkeeper.rewrite.maintain import maintain
from viewkeeper.rewrite.passes import normalise
from viewkeeper.store.catalog import Catalog, Kept
from viewkeeper.store.log import Log
from viewkeeper.store.snapshots import remove_leftovers

if TYPE_CHECKING:
    from viewkeeper.change import Change


class Writer:
    def __init__(self, path: Path, durable: bool = True) -> None:
        self.path = path
        self.catalog = Catalog.open(path, writable=True)
        if not durable:
            self.catalog.wait_for_disk(False)
        self.engine = EmbeddedEngine(self.catalog.connection)
        # What is temporary is emptied with every change: its pages as they were need not go through a file. Where a row was is not blanked,
        # which some builds of SQLite do unless told otherwise.
        for pragma in ("temp.journal_mode=MEMORY", "temp.secure_delete=OFF", "main.secure_delete=OFF"):
            self.catalog.connection.execute(f"PRAGMA {pragma}")
        self.process = os.getpid()
        self._version: int | None = None
        # Of the tables when they were last looked at because somebody else had changed the warehouse.
        self._schema: int | None = None
        self.last = 0
        """The number of the last commit, as of ``contents``."""
        self._program = Program()
        self._kept: dict[str, Kept] = {}
        self.costs = Costs(self.catalog.costs())
        self.engine.told = lambda relation: self._kept[relation].rows if relation in self._kept else 0
        self._maintainer: tuple[Program, frozenset[str], Maintainer] | None = None
        self._prepared: set[tuple[str, ...]] = set()
        remove_leftovers(path, self.catalog.relations().values())
        Log(self.catalog).remove_leftovers()

    def close(self) -> None:
        self.catalog.close()

    def contents(self, definitions: Definitions) -> tuple[Program, dict[str, Kept]]:
        """What is defined and where it is; looked up anew if somebody else has changed the warehouse."""
        [[version]] = self.catalog.connection.execute("PRAGMA data_version")
        if version != self._version:
            self._forget_other_tables()
            self._program, self._kept = definitions.contents(self.catalog)
            self.engine.layers.forget()
            self._version, self.last = version, self.catalog.last_commit()
        return self._program, dict(self._kept)

    def _forget_other_tables(self) -> None:
        """What is prepared is for tables as they were: somebody else may have made them anew."""
        [[schema]] = self.catalog.connection.execute("PRAGMA main.schema_version")
        if self._maintainer is not None and schema != self._schema:
            self.engine.drop_all_temporary()
            self._maintainer = None
            self._prepared.clear()
        self._schema = schema

    def done(self, change: Change) -> None:
        """A change was made by this writer."""
        both = change.moved & self._kept.keys() & change.kept.keys()
        if any(self._kept[name].snapshot not in (None, change.kept[name].snapshot) for name in both):
            remove_leftovers(self.path, change.kept.values())
        self._program, self._kept, self.last = change.program, change.kept, change.last

    def schema(self) -> tuple[int, int] | None:
        """Differs when tables, views or indexes have been made or dropped; None if the database does not answer."""
        with suppress(sqlite3.Error):
            run = self.catalog.connection.execute
            return run("PRAGMA main.schema_version").fetchone()[0], run("PRAGMA temp.schema_version").fetchone()[0]
        return None

    def taken_back(self, schema: tuple[int, int] | None) -> bool:
        """A change was taken back; can what is prepared still be used? ``schema``: as it was in the end of the change.

        If the change made no table, what was prepared before it is all there.
        """
        if schema is None or self.catalog.connection.in_transaction or self.schema() != schema:
            return False
        if self._maintainer is not None:
            self._maintainer[2].taken_back()
        self.engine.layers.forget()
        remove_leftovers(self.path, self.catalog.relations().values())
        Log(self.catalog).remove_leftovers()
        return True

    def maintainer(self, program: Program, kept: dict[str, Kept]) -> Maintainer:
        """Keeps the views of the program that are in the catalog."""
        cold = cold_relations(program, kept)
        if self._maintainer is None or self._maintainer[:2] != (program, cold):
            if self._maintainer is not None:
                self.engine.drop_all_temporary()
            self._maintainer = (program, cold, Maintainer(self.engine, plan_of(program, cold)))
            self._prepared.clear()
        return self._maintainer[2]

    def is_prepared(self, kind: tuple[str, ...]) -> bool:
        """Was there a change of this kind before? The next time there will have been."""
        if kind in self._prepared:
            return True
        self._prepared.add(kind)
        return False


def cold_relations(program: Program, kept: dict[str, Kept]) -> frozenset[str]:
    """Relations that are kept as snapshots only, and all that is above one."""
    cold = {k.name for k in kept.values() if k.place == "cold"}
    if not cold:
        return frozenset()
    graph = dependencies(program)
    return frozenset(cold | {view for view in program.derived if reach(graph, {view}) & cold})


@lru_cache(4)
def plan_of(program: Program, without: frozenset[str] = frozenset()) -> Plan:
    """How the views of a program are kept, some of its relations left out.

    A definition asks for the plan before it, and twice for the one after.
    """
    kept = program.derived - without
    kept |= program.inner_of(kept)
    rules = tuple(r for r in program.rules if r.head.relation in kept)
    relations = tuple(r for r in program.relations if r.name not in without)
    inner = tuple(r for r in program.inner if r.name in kept)
    external = program.external - without
    core = normalise(replace(program, relations=relations, inner=inner, rules=rules, directives=()))
    declared = program.by_name.keys() | {relation.name for relation in program.inner}
    virtual = program.virtual - without
    return maintain(core, declared, external | program.inner_of(external), virtual | program.inner_of(virtual))
