"""One change of a warehouse under way. All of it is one transaction of the catalog; see ``store.catalog``."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewkeeper.bulk import load_with_spark
from viewkeeper.engines.choice import Choice
from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.engines.evaluator import evaluate
from viewkeeper.engines.interface import Engine
from viewkeeper.engines.names import sql_name
from viewkeeper.outcomes import Commit, Loading
from viewkeeper.program.ast import Program, Relation
from viewkeeper.program.strata import dependencies, reach
from viewkeeper.sources import Options, read_source
from viewkeeper.state import State, Work
from viewkeeper.store.catalog import Kept
from viewkeeper.store.rejects import Reading
from viewkeeper.store.snapshots import count_snapshot, read_snapshot, settle_snapshot, snapshot_path, write_snapshot

if TYPE_CHECKING:
    import pyarrow as pa

    from viewkeeper.outcomes import Report


@dataclass
class Change(State):
    """The state that a change starts from, and becomes as it goes on.

    ``hot_rows``: a relation that Spark writes and that is larger stays a snapshot; the catalog does not hold its rows.
    """

    commit: int
    hot_rows: int

    def __post_init__(self) -> None:
        self.started = time.monotonic()

    # ---- definitions

    def adopt(self, program: Program) -> set[str]:
        """Takes over a grown program: tables for what is new. Returns the relations that are new or have new rules."""
        changed = {
            r.name for r in program.relations if r.name not in self.kept or _rules(program, r) != _rules(self.program, r)
        }
        for relation in program.relations:
            kind = "view" if relation.name in program.derived else "base"
            old = self.kept.get(relation.name, Kept(relation.name, kind, 0, "hot", self.commit, None))
            if relation.name not in self.kept:
                self.tables.stored |= {relation.name}
                self.tables.create_table(relation)
            self._keep(replace(old, kind=kind))
        self.program = program
        return changed

    def forget(self, relation: str) -> None:
        """Removes a relation and its rows."""
        self.catalog.connection.execute(f'DROP TABLE IF EXISTS main."{sql_name(relation)}"')
        self.catalog.remove_relation(relation)
        del self.kept[relation]

    # ---- rows

    def add_facts(self, relations: Iterable[str]) -> None:
        """Facts of base relations are rows. (Those of views are rules.)"""
        for name in relations:
            relation = self.program.relation(name)
            if _rules(self.program, relation):
                self.add_rows(relation, facts_of(self.program, relation))

    def add_rows(self, relation: Relation, batches: Iterable[pa.RecordBatch]) -> int:
        """Adds rows that are not there yet; returns how many."""
        kept = self.kept[relation.name]
        if kept.place == "cold":
            return self._add_to_snapshot(relation, batches)
        added = self.tables.insert_into(relation, batches)
        if added:
            self.update(relation.name, rows=kept.rows + added)
        return added

    def _add_to_snapshot(self, relation: Relation, batches: Iterable[pa.RecordBatch]) -> int:
        """A new snapshot with the old rows and the new ones."""
        engine = EmbeddedEngine.private()
        try:
            engine.prepare(Program(relations=(relation,)))
            engine.insert(relation.name, self.rows(relation))
            added = engine.insert(relation.name, batches)
            if added:
                rows = write_snapshot(self._new_snapshot(relation), relation, engine.read(relation))
                self.update(relation.name, rows=rows, snapshot=self.commit)
            return added
        finally:
            engine.close()

    def load(self, relation: Relation, source: Any, options: Options, reading: Reading, choice: Choice, report: Report) -> int:
        """Adds the rows of a source; returns how many are new."""
        if choice.engine == "spark" and isinstance(source, (str, Path)):
            added = self._load_with_spark(relation, Path(source), options, reading)
            if added is not None:
                return added
        batches = read_source(source, relation, options, reading)
        return self.add_rows(relation, _reported(relation, batches, report))

    def _load_with_spark(self, relation: Relation, source: Path, options: Options, reading: Reading) -> int | None:
        """Through a snapshot that Spark writes; None if the file must be read row by row, to say what is wrong with it.

        A relation that starts beyond ``hot_rows`` stays a snapshot only, and so does what is added to it.
        """
        from viewkeeper.engines.session import our_session

        kept = self.kept[relation.name]
        cold = kept.place == "cold"
        path = self._new_snapshot(relation)
        existing = self.snapshot(relation.name) if cold else None
        read = load_with_spark(our_session(self.spark), source, relation, options, path, existing)
        if read is None:
            return None
        reading.rows = read
        distinct = count_snapshot(path)
        if cold or (not kept.rows and distinct > self.hot_rows):
            if distinct != kept.rows:
                self.update(relation.name, rows=distinct, place="cold", snapshot=self.commit)
            return distinct - kept.rows
        added = self.tables.insert_into(relation, read_snapshot(path, relation))
        if added:
            self.update(relation.name, rows=kept.rows + added, snapshot=None if kept.rows else self.commit)
        return added

    # ---- views

    def above(self, changed: set[str]) -> set[str]:
        """The views that depend on one of these relations, or are one of them."""
        graph = dependencies(self.program)
        return {view for view in self.program.derived if reach(graph, {view}) & changed}

    def recompute(self, views: set[str], choice: Choice, report: Report) -> None:
        """Computes views anew from what they read."""
        if not views:
            return
        for name in views:
            self.tables.stored |= {name}
            self.tables.clear(name)
            self.update(name, rows=0, place="hot")
        work = Work.of(self.program, views)
        with self.engine(choice.engine, work) as engine:
            evaluate(work.core, engine, report)
            for name in sorted(views):
                self._keep_view(engine, self.program.relation(name))

    def _keep_view(self, engine: Engine, relation: Relation) -> None:
        """Where a view's rows stay: the embedded engine wrote them where they belong, Spark's go through a snapshot."""
        rows = engine.count(relation.name)
        if engine is self.tables:
            self.update(relation.name, rows=rows)
            return
        from viewkeeper.engines.spark import SparkEngine

        assert isinstance(engine, SparkEngine)
        path = self._new_snapshot(relation)
        engine.write(relation, path)
        hot = rows <= self.hot_rows
        if hot:
            self.tables.insert_into(relation, read_snapshot(path, relation))
        self.update(relation.name, rows=rows, place="hot" if hot else "cold", snapshot=self.commit)

    # ---- the catalog

    def update(self, relation: str, **what: Any) -> None:
        """Notes that the relation's rows have changed; a snapshot of it that is not named here is out of date."""
        what.setdefault("snapshot", None)
        if what["snapshot"] is not None:
            settle_snapshot(snapshot_path(self.directory, relation, what["snapshot"]))
        self._keep(replace(self.kept[relation], changed=self.commit, **what))

    def _keep(self, kept: Kept) -> None:
        if self.kept.get(kept.name) != kept:
            self.kept[kept.name] = kept
            self.catalog.put_relation(kept)

    def _new_snapshot(self, relation: Relation) -> Path:
        return snapshot_path(self.directory, relation.name, self.commit)

    def log(
        self, kind: str, choice: Choice, changed: set[str], recomputed: set[str], inserted: Mapping[str, int] | None = None
    ) -> Commit:
        """Writes the commit."""
        rows = {name: self.kept[name].rows for name in sorted(changed | recomputed)}
        for name, count in rows.items():
            form = "recomputed" if name in recomputed else "rows"
            self.catalog.add_change(self.commit, name, (inserted or {}).get(name, count), None, form)
        seconds = time.monotonic() - self.started
        detail = {"reason": choice.reason, "changed": sorted(changed), "recomputed": sorted(recomputed)}
        self.catalog.add_commit(self.commit, kind, choice.engine, seconds, detail)
        return Commit(self.commit, choice.engine, choice.reason, seconds, rows, dict(inserted or {}))


def _rules(program: Program, relation: Relation) -> list[Any]:
    return [rule for rule in program.rules if rule.head.relation == relation.name]


def facts_of(program: Program, relation: Relation) -> list[pa.RecordBatch]:
    """The rows that the facts of a base relation stand for."""
    work = Work.of(program, {relation.name})
    engine = EmbeddedEngine.private()
    try:
        engine.prepare(work.core)
        evaluate(work.core, engine)
        return list(engine.read(relation))
    finally:
        engine.close()


def _reported(relation: Relation, batches: Iterable[pa.RecordBatch], report: Report) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        report(Loading(relation.name, rows))
        yield batch
