"""What a warehouse holds at one moment, and engines that hold the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from viewkeeper.program.ast import Program, Relation
from viewkeeper.program.strata import dependencies
from viewkeeper.store.catalog import NOWHERE, Catalog, Kept

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from viewkeeper.engines.embedded import EmbeddedEngine
    from viewkeeper.engines.evaluator import Progress
    from viewkeeper.engines.interface import Engine
    from viewkeeper.engines.spark import SparkEngine
    from viewkeeper.program.plan import Demands


@dataclass(frozen=True)
class Work:
    """Views to compute: the core program that has only their rules, and the stored relations it reads.

    ``demands``: the views that are not stored, and that these read, are derived only as far as they are needed.
    """

    core: Program
    inputs: frozenset[str]
    demands: Demands | None = None

    @classmethod
    def of(cls, program: Program, views: Iterable[str]) -> Work:
        """All rows of these views, and of the external ones that they read."""
        from viewkeeper.rewrite.passes import normalise

        wanted = _with_external(program, frozenset(views))
        core = normalise(replace(program, rules=tuple(r for r in program.rules if r.head.relation in wanted), directives=()))
        read = {name for reads in dependencies(core).values() for name in reads}
        used = read | {rule.head.relation for rule in core.rules} | wanted
        core = replace(core, relations=tuple(r for r in core.relations if r.name in used))
        return cls(core, frozenset(read & program.by_name.keys() - wanted))

    @classmethod
    def asked(cls, program: Program, goal: str, kept: Mapping[str, Kept]) -> Work:
        """All rows of one view, and of the external ones that it reads what that takes."""
        work = cls.of(program, {goal})
        if not program.external & work.core.by_name.keys():
            return work
        return work.on_demand(goal, {name: one.rows for name, one in kept.items()})

    def on_demand(self, goal: str, sizes: Mapping[str, int]) -> Work:
        """The same for one of its views, with no more of the others than that takes; ``sizes``: how many rows what it reads has."""
        from viewkeeper.rewrite.magic import derive_goal

        derived = derive_goal(self.core, goal, sizes)
        return self if derived is None else Work(derived[0], self.inputs, derived[1])

    def evaluate(self, engine: Engine, report: Callable[[Progress], None] = lambda progress: None) -> None:
        """Computes the views on an engine that holds the inputs."""
        from viewkeeper.engines.demanding import evaluate_demands
        from viewkeeper.engines.evaluator import evaluate

        if self.demands is None:
            evaluate(self.core, engine, report)
        else:
            evaluate_demands(self.core, self.demands, engine, report)


def _with_external(program: Program, views: frozenset[str]) -> frozenset[str]:
    """These views, the external ones that they read, and the inner relations of all."""
    wanted, external, reads = views, program.external, dependencies(program.revealed) if program.external else {}
    while True:
        wanted |= program.inner_of(wanted)
        more = {name for view in wanted for name in reads.get(view, ()) if name in external} - wanted
        if not more:
            return wanted
        wanted |= more


@dataclass
class State:
    """A program, and where the rows of its relations are."""

    directory: Path
    catalog: Catalog
    program: Program
    kept: dict[str, Kept]
    spark: SparkSession | str | None

    @cached_property
    def tables(self) -> EmbeddedEngine:
        """The catalog's database as an engine."""
        from viewkeeper.engines.embedded import EmbeddedEngine

        hot = {kept.name for kept in self.kept.values() if kept.place == "hot"}
        hot |= self.program.inner_of(hot)
        return EmbeddedEngine(self.catalog.connection, hot, may_change=self.catalog.writable)

    def snapshot(self, relation: str) -> Path | None:
        """The snapshot that has exactly the relation's rows, if there is one."""
        from viewkeeper.store.snapshots import snapshot_path

        kept = self.kept[relation]
        return None if kept.snapshot is None or kept.is_stale else snapshot_path(self.directory, relation, kept.snapshot)

    def rows(self, relation: Relation, ordered: bool = False) -> Iterable[pa.RecordBatch]:
        """The rows of a stored relation; of a hot one they can be had in order."""
        from viewkeeper.store.snapshots import read_snapshot

        path = self.snapshot(relation.name)
        if self.kept[relation.name].place == "hot":
            return self.tables.read(relation, ordered)
        if self.kept[relation.name].place == NOWHERE:
            return self._derived(relation, ordered)
        assert path is not None
        return read_snapshot(path, relation)

    def _derived(self, relation: Relation, ordered: bool) -> list[pa.RecordBatch]:
        """The rows of a view that is not stored."""
        work = Work.of(self.program, {relation.name})
        with self.separate_engine("embedded", work) as engine:
            work.evaluate(engine)
            return list(engine.read(relation, ordered))

    @contextmanager
    def engine(self, name: str, work: Work) -> Iterator[Engine]:
        """An engine that holds what the work reads."""
        if name == "embedded" and not self._is_in_the_way(work):
            self.tables.prepare(work.core)
            for relation in work.inputs:
                if self.kept[relation].place == "cold":
                    self.tables.insert(relation, self.rows(self.program.relation(relation)))
            yield self.tables
        else:
            with self.separate_engine(name, work) as engine:
                yield engine

    def _is_in_the_way(self, work: Work) -> bool:
        """Has the connection tables of what is to be derived? Those that keep views that are not stored have the same names, and rows."""
        from viewkeeper.engines.names import sql_name

        found = {name for [name] in self.catalog.connection.execute("SELECT name FROM temp.sqlite_master WHERE type = 'table'")}
        return bool(found) and any(sql_name(r.name) in found for r in work.core.relations if r.name not in work.inputs)

    @contextmanager
    def separate_engine(self, name: str, work: Work) -> Iterator[Engine]:
        """An engine that holds what the work reads and shares nothing with what is stored."""
        from viewkeeper.engines.choice import start_engine

        engine = start_engine(name, self.spark)
        try:
            engine.prepare(work.core)
            for relation in sorted(work.inputs):
                if self.kept[relation].rows:
                    self._give(engine, self.program.relation(relation))
            yield engine
        finally:
            engine.close()

    def _give(self, engine: Engine, relation: Relation) -> None:
        from viewkeeper.engines.spark import SparkEngine

        if not isinstance(engine, SparkEngine) or not self.give_snapshot(engine, relation):
            engine.insert(relation.name, self.rows(relation))

    def give_snapshot(self, engine: SparkEngine, relation: Relation) -> bool:
        """Gives Spark the last snapshot of a relation with what the log tells since; False if there is none."""
        from viewkeeper.program.arrow import batch_of_rows
        from viewkeeper.store.log import Log, net
        from viewkeeper.store.snapshots import snapshot_path

        kept, log = self.kept[relation.name], Log(self.catalog)
        if kept.snapshot is None:
            return False
        came, went = net(log.rows(entry.commit, kept.name) for entry in log.entries(kept.snapshot, None, kept.name))
        engine.attach(relation, snapshot_path(self.directory, kept.name, kept.snapshot), kept.rows - len(came) + len(went))
        if came or went:
            engine.alter(relation, [batch_of_rows(list(came), relation)], [batch_of_rows(list(went), relation)])
        return True


def facts_of(program: Program, relation: Relation) -> list[pa.RecordBatch]:
    """The rows that the facts of a base relation stand for."""
    from viewkeeper.engines.embedded import EmbeddedEngine

    # Without its key: facts that break it are facts still, for the caller to refuse.
    others = tuple(replace(r, key=()) if r.name == relation.name else r for r in program.relations)
    work = Work.of(replace(program, relations=others), {relation.name})
    engine = EmbeddedEngine.private()
    try:
        engine.prepare(work.core)
        work.evaluate(engine)
        return list(engine.read(relation))
    finally:
        engine.close()
