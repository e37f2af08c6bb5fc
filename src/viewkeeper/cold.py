"""Relations that are kept only as snapshots: too large for the catalog, or views of such.

A change of one is a new snapshot. Views are computed anew, and the difference is what has changed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from viewkeeper.changed import Changed, StoredRow
from viewkeeper.engines.choice import Choice
from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.engines.interface import Engine
from viewkeeper.engines.keep import Maintainer
from viewkeeper.engines.spark import SparkEngine
from viewkeeper.errors import StoreError, problem
from viewkeeper.outcomes import Maintained
from viewkeeper.program.arrow import rows_of_batch
from viewkeeper.program.ast import Program, Relation
from viewkeeper.program.strata import dependencies, reach
from viewkeeper.state import Work
from viewkeeper.store.snapshots import count_snapshot, read_snapshot, write_snapshot
from viewkeeper.writer import cold_relations, plan_of

if TYPE_CHECKING:
    import pyarrow as pa

    from viewkeeper.change import Change


class Cold:
    def __init__(self, change: Change) -> None:
        self.change = change

    # ---- base rows

    def load(self, relation: Relation, batches: Iterable[pa.RecordBatch]) -> int:
        width = max(1, relation.arity)
        return self._changed(relation, ((rows_of_batch(batch, width), True) for batch in batches))

    def want(self, relation: Relation, came: Sequence[StoredRow], went: Sequence[StoredRow]) -> None:
        self._changed(relation, ((came, True), (went, False)))

    def _changed(self, relation: Relation, wanted: Iterable[tuple[Iterable[StoredRow], bool]]) -> int:
        """A new snapshot with the rows changed; returns how many came."""
        engine = EmbeddedEngine.private()
        try:
            maintainer = Maintainer(engine, plan_of(Program(relations=(relation,))))
            maintainer.create([relation.name])
            engine.insert_into(relation, self.change.rows(relation))
            base = maintainer.base(relation.name)
            for rows, present in wanted:
                base.want(rows, present)
            if not base.net():
                return 0
            base.settle()
            came, went = maintainer.changes(relation.name)
            self._replace(relation, engine, came, went)
            return len(came)
        finally:
            engine.close()

    def _replace(self, relation: Relation, engine: Engine, came: Sequence[StoredRow], went: Sequence[StoredRow]) -> None:
        change = self.change
        rows = write_snapshot(change.new_snapshot(relation), relation, engine.read(relation))
        change.update(relation.name, rows=rows, place="cold", snapshot=change.commit)
        change.told(relation, came, went)
        change.signs[relation.name] = frozenset([1] * bool(came) + [-1] * bool(went))

    def take(self, relation: Relation, rows: int) -> int:
        """The new snapshot, written by Spark, has the relation's rows and more; returns how many more."""
        change, kept = self.change, self.change.kept[relation.name]
        more = rows - kept.rows
        if not more:
            return 0
        if kept.rows:
            old = set(_rows(change.rows(relation), relation))
            new = _rows(read_snapshot(change.new_snapshot(relation), relation), relation)
            change.told(relation, [row for row in new if row not in old], [])
        else:
            change.log.add_first(relation.name, rows)
            change.changes[relation.name] = first_of(change, relation, rows)
        change.update(relation.name, rows=rows, place="cold", snapshot=change.commit)
        change.signs[relation.name] = frozenset({1})
        return more

    def forget(self, relation: Relation) -> None:
        self.change.told(relation, [], list(_rows(self.change.rows(relation), relation)))

    # ---- views

    def follow(self, choice: Choice, defined: Iterable[str] = ()) -> None:
        """Computes anew the views above a cold relation of which something has changed."""
        change = self.change
        too_large = change.too_large & change.program.derived
        cold = cold_relations(change.program, change.kept) | too_large
        if not cold:
            return
        graph = dependencies(change.program)
        changed = set(change.signs) | set(defined) | too_large
        views = {v for v in cold & change.program.derived if reach(graph, {v}) & changed}
        if not views:
            return
        if change.strict and any(change.kept[view].rows for view in views):
            raise StoreError(problem("STRICT", views=", ".join(sorted(views)), why="kept as snapshots only"))
        work = Work.of(change.program, views)
        kept_in_catalog = any(not change.is_cold(view) for view in views)
        started = time.perf_counter()
        with change.separate_engine(choice.engine, work) as engine:
            work.evaluate(engine, change.report)
            for name in sorted(views):
                how = "recomputation" if change.kept[name].rows else "first computation"
                self._keep(engine, change.program.relation(name))
                seconds = time.perf_counter() - started
                change.views[name] = Maintained(name, how, choice.engine, seconds, 0, "kept as a snapshot only")
        if kept_in_catalog:
            change.drop_unused_tables()

    def _keep(self, engine: Engine, relation: Relation) -> None:
        change, name = self.change, relation.name
        held = change.kept[name].rows
        path, former = change.new_snapshot(relation), change.snapshot(name)
        rows = _write(engine, relation, path)
        if not held:
            change.log.add_first(name, rows)
            change.changes[name] = first_of(change, relation, rows)
        elif isinstance(engine, SparkEngine) and former is not None:
            came, went = engine.differences(relation, former)
            if came or went:
                change.told(relation, came, went)
        else:
            old, new = set(change.rows_before(relation)), set(_rows(read_snapshot(path, relation), relation))
            if new != old:
                change.told(relation, list(new - old), list(old - new))
        change.update(name, rows=rows, place="cold", snapshot=change.commit)
        change.signs[name] = frozenset({1})


def first_of(change: Change, relation: Relation, rows: int) -> Changed:
    """All rows of a relation that had none; they are read when somebody asks for them."""
    from viewkeeper.history import rows_as_of

    directory, commit = change.directory, change.commit
    change.firsts.add(relation.name)
    return Changed(relation, rows, 0, lambda: (rows_as_of(directory, relation, commit), []))


def _write(engine: Engine, relation: Relation, path: Path) -> int:
    if isinstance(engine, SparkEngine):
        engine.write(relation, path)
    else:
        write_snapshot(path, relation, engine.read(relation))
    return count_snapshot(path)


def _rows(batches: Iterable[pa.RecordBatch], relation: Relation) -> list[StoredRow]:
    width = max(1, relation.arity)
    return [row for batch in batches for row in rows_of_batch(batch, width)]
