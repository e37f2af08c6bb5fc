"""One change of a warehouse under way. All of it is one transaction of the catalog; see ``store.catalog``.

Base rows are *wanted* first: noted as what shall be there and what shall not, and reduced to what has to change for that. Then
the maintainer brings the change in, with what follows from it, and in the end it is written down: in the log, and in the
catalog's account of relations. Relations that are kept only as snapshots are the business of ``cold``.
"""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from viewkeeper.answer import shown_in_message
from viewkeeper.bulk import load_with_spark
from viewkeeper.changed import Changed, StoredRow
from viewkeeper.engines.choice import Choice
from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.engines.keep import ITSELF, Maintainer, TooLarge, Worker, strategy
from viewkeeper.engines.names import sql_name
from viewkeeper.errors import DataError, EvaluationError, StoreError, problem
from viewkeeper.outcomes import Commit, Loading, Maintained, Violated
from viewkeeper.program.arrow import rows_of_batch
from viewkeeper.program.ast import Program, Relation, owner_of
from viewkeeper.program.plan import Base, External, Recomputed, Step
from viewkeeper.program.strata import dependencies, reach
from viewkeeper.program.values import restore
from viewkeeper.redefining import Aside, Redefinition, tables_of
from viewkeeper.sources import Options, has_column, read_source
from viewkeeper.state import State
from viewkeeper.store.catalog import NOWHERE, WRITE_EVERY, Kept
from viewkeeper.store.catalog import TABLES as CATALOG_TABLES
from viewkeeper.store.log import FIRST_ROWS, Log
from viewkeeper.store.rejects import Reading
from viewkeeper.store.snapshots import count_snapshot, read_snapshot, settle_snapshot, snapshot_path
from viewkeeper.writer import Writer, cold_relations, plan_of

if TYPE_CHECKING:
    import pyarrow as pa

    from viewkeeper.cold import Cold
    from viewkeeper.engines.spark import SparkEngine
    from viewkeeper.outcomes import Report

_SHOWN = 20
# So many rows of relations that had none are reason enough to compute what reads them, instead of following them.
_MANY_FIRST = 10_000
# What it takes to prepare is little beside changes of so many rows.
_LEARNED_AT_ONCE = 1_000
CAME = frozenset({1})


class Operation(NamedTuple):
    """Rows of stored values to insert, delete or upsert."""

    kind: str
    relation: Relation
    rows: Sequence[StoredRow]


@dataclass
class Change(State):
    """The state that a change starts from, and becomes as it goes on.

    ``hot_rows``: a relation that Spark writes and that is larger stays a snapshot; the catalog does not hold its rows.
    ``strict``: views that hold rows are not computed anew. ``guarded``: what cannot be maintained is computed anew; else it fails.
    """

    commit: int
    hot_rows: int
    writer: Writer
    strict: bool = False
    report: Report = lambda progress: None
    guarded: bool = True

    def __post_init__(self) -> None:
        self.started = time.monotonic()
        self.last = self.commit - 1
        self.log = Log(self.catalog)
        self.changes: dict[str, Changed] = {}
        self.views: dict[str, Maintained] = {}
        self.signs: dict[str, frozenset[int]] = {}
        self._fresh: dict[str, int] = {}
        self._snapshots: set[str] = set()
        self._maintainer: Maintainer | None = None
        # Relations of the plan that have turned out to be too large for the catalog, and all above them.
        self.too_large: set[str] = set()
        self.firsts: set[str] = set()
        self.defined: list[str] = []
        self.before: Program | None = None  # where this is a definition
        # Relations that are not what the log makes of what is written of them.
        self.moved: set[str] = set()

    @cached_property
    def tables(self) -> EmbeddedEngine:
        self.writer.engine.stored |= {kept.name for kept in self.kept.values() if kept.place == "hot"}
        return self.writer.engine

    @property
    def maintainer(self) -> Maintainer:
        if self._maintainer is None:
            self._maintainer = self.writer.maintainer(self.program, self.kept)
            self._maintainer.clear()  # of what is left from the change before
        return self._maintainer

    @cached_property
    def aside(self) -> Aside:
        return Aside(self.tables)

    @cached_property
    def cold(self) -> Cold:
        from viewkeeper.cold import Cold

        return Cold(self)

    @property
    def has_cold(self) -> bool:
        """Is any relation kept only as a snapshot, or will be?"""
        return bool(self.too_large) or any(kept.place == "cold" for kept in self.kept.values())

    def is_cold(self, relation: str) -> bool:
        return self.kept[relation].place == "cold"

    # ---- base rows

    def load(self, relation: Relation, source: Any, options: Options, reading: Reading, choice: Choice) -> int:
        """Wants the rows of a source; returns how many are new."""
        if counts_copies(relation):
            return self._load_bag(relation, source, options, reading)
        if choice.engine == "spark" and isinstance(source, (str, Path)):
            added = self._load_with_spark(relation, Path(source), options, reading)
            if added is not None:
                return added
        batches = _reported(relation, read_source(source, relation, options, reading), self.report)
        if self.is_cold(relation.name):
            return self.cold.load(relation, batches)
        return self._want_all(relation, batches)

    def _load_bag(self, relation: Relation, source: Any, options: Options, reading: Reading) -> int:
        """Wants each row of a source once more, or as often more as it says itself; returns how many rows that are."""
        counted = has_column(source, relation, options)
        read = replace(relation, columns=relation.columns if counted else relation.columns[:-1], key=())
        more: Counter[StoredRow] = Counter()
        for batch in _reported(relation, read_source(source, read, options, reading), self.report):
            for row in rows_of_batch(batch, max(1, read.arity)):
                more[row[: relation.arity - 1]] += row[-1] if counted else 1
        known = self.maintainer.base(relation.name).rows_with_key if self.kept[relation.name].rows else lambda key: []
        rows = [(*row, number + sum(found[-1] for found in known(row))) for row, number in more.items()]
        self.want([Operation("upsert", relation, rows)])
        return more.total()

    def _load_with_spark(self, relation: Relation, source: Path, options: Options, reading: Reading) -> int | None:
        """Through a snapshot that Spark writes; None if the file must be read row by row, to say what is wrong with it.

        A relation that starts beyond ``hot_rows`` stays a snapshot only, and so does what is added to it.
        """
        from viewkeeper.engines.session import our_session

        kept = self.kept[relation.name]
        path = self.new_snapshot(relation)
        existing = self.snapshot(relation.name) if self.is_cold(relation.name) else None
        read = load_with_spark(our_session(self.spark), source, relation, options, path, existing)
        if read is None:
            return None
        reading.rows = read
        distinct = count_snapshot(path)
        if existing is not None or (not kept.rows and distinct > self.hot_rows and not relation.key):
            return self.cold.take(relation, distinct)
        added = self._want_all(relation, read_snapshot(path, relation))
        if added and not kept.rows:
            self._snapshots.add(relation.name)
        return added

    def _want_all(self, relation: Relation, batches: Iterable[pa.RecordBatch]) -> int:
        """Rows that shall be there; returns how many are not yet."""
        name, base = relation.name, self.maintainer.base(relation.name)
        if self.kept[name].rows == 0:
            # Into the table at once: what comes first needs no comparison.
            added = self._insert_first(relation, iter(batches))
            if added:
                self._fresh[name], self.signs[name] = added, CAME
            return added
        for batch in batches:
            base.want(rows_of_batch(batch, max(1, relation.arity)), True)
        signs = base.net()
        if signs:
            self.signs[name] = signs
        return base.came()

    def _insert_first(self, relation: Relation, batches: Iterator[pa.RecordBatch]) -> int:
        """Rows of a relation that has none; returns how many."""
        added = 0
        for batch in batches:
            try:
                added += self.tables.insert_into(relation, [batch])
            except sqlite3.IntegrityError:
                base = self.maintainer.base(relation.name)
                for rest in (batch, *batches):
                    base.want(rows_of_batch(rest, max(1, relation.arity)), True)
                base.net()
                raise key_error(relation, base.broken_keys(_SHOWN + 1)) from None
        return added

    def want(self, operations: Iterable[Operation]) -> None:
        """Makes the operations, one after the other, into what is there after them."""
        pending: dict[str, _Pending] = {}
        for operation in operations:
            name = operation.relation.name
            if name not in pending:
                known = (lambda key: []) if self.is_cold(name) else self.maintainer.base(name).rows_with_key
                pending[name] = _Pending(operation.relation, known)
            pending[name].take(operation)
        for name, wanted in pending.items():
            if self.is_cold(name):
                came = [row for row, present in wanted.rows.items() if present]
                went = [row for row, present in wanted.rows.items() if not present]
                self.cold.want(wanted.relation, came, went)
                continue
            signs = self.maintainer.base(name).net_of(wanted.rows, alone=len(pending) == 1)
            if signs:
                self.signs[name] = signs

    def tell_broken_keys(self) -> None:
        """Rows that cannot come because of their key are told, all of them: why SQLite refused a change."""
        for relation in map(self.program.relation, self.signs):
            rows = self.maintainer.base(relation.name).broken_keys(_SHOWN + 1) if relation.key else []
            if rows:
                raise key_error(relation, rows) from None

    # ---- views

    def propagate(self, choice: Choice) -> None:
        """Brings in what is wanted, and what follows from it."""
        if not self.signs:
            return
        hot = {name: signs for name, signs in self.signs.items() if not self.is_cold(name)}
        with self.worker(choice) as worker:
            found = self._carry_out(hot, worker, choice)
        for name in hot:
            self.tables.layers.changed(sql_name(name), self.maintainer.number(name))
        self._learn(choice)
        self.signs |= found
        for name in found:
            if name in self.program.by_name:
                self.note(name)
        if self.has_cold:
            self.cold.follow(choice)

    def _learn(self, choice: Choice) -> None:
        """How long it took so far tells what such a change costs, unless most of that was to prepare for the first of its kind."""
        costs, task = self.writer.costs, choice.task
        if task is None:
            return
        prepared = self.writer.is_prepared((choice.way, task.kind, *self.signs))
        if (prepared or task.rows >= _LEARNED_AT_ONCE) and costs.measured(choice.way, task, time.monotonic() - self.started):
            self.catalog.put_costs(costs.written())

    def _carry_out(self, hot: dict[str, frozenset[int]], worker: Worker, choice: Choice) -> dict[str, frozenset[int]]:
        first = bool(hot) and hot.keys() <= self._fresh.keys() and sum(self._fresh.values()) > _MANY_FIRST and not self.strict
        run, renewing = self.maintainer.tables.run, choice.anew or first
        reason = "less work than maintaining" if choice.anew else "first rows of what it reads" if first else ""
        if worker is ITSELF and not renewing and not (self.guarded and self.maintainer.can_fail):
            return self._maintain(hot, worker, renewing, reason)
        self.guarded = True
        run("SAVEPOINT views")  # the pages as they were go to a file meanwhile
        while True:
            try:
                found = self._maintain(hot, worker, renewing, reason)
                run("RELEASE views")
                return found
            except TooLarge as large:
                self.too_large |= self.maintainer.above(large.relation)
            except EvaluationError as error:
                # On the way from the old state to the new one rows meet that are in neither together.
                if self.strict or renewing:
                    raise
                renewing, reason = True, f"maintenance met {error.code}"
            run("ROLLBACK TO views")

    @contextmanager
    def worker(self, choice: Choice) -> Iterator[Worker]:
        """Who does the work for views in the catalog."""
        if choice.of_catalog == "embedded":
            yield ITSELF
            return
        from viewkeeper.engines.keep.on_spark import SparkWorker
        from viewkeeper.engines.session import our_session
        from viewkeeper.engines.spark import SparkEngine
        from viewkeeper.rewrite.maintenance_rules import maintenance_rules

        worker = SparkWorker(lambda: SparkEngine(our_session(self.spark)), self._give_spark, maintenance_rules, self.hot_rows)
        try:
            yield worker
        finally:
            worker.close()

    def _give_spark(self, engine: SparkEngine, relation: Relation, fresh: bool) -> bool:
        """Snapshots, where they are good for something; other rows are read from the tables."""
        name = relation.name
        if name not in self.kept or not fresh:
            return name in self.kept and self.give_snapshot(engine, relation)
        if name in self._snapshots:
            engine.attach(relation, self.new_snapshot(relation), self._fresh[name])
        return name in self._snapshots

    def _maintain(
        self, hot: dict[str, frozenset[int]], worker: Worker, renewing: bool, reason: str
    ) -> dict[str, frozenset[int]]:
        self.views.clear()
        maintainer = self.maintainer

        def settled(step: Step, seconds: float, engine: str, touched: int, rederived: int) -> None:
            if isinstance(step, Base):
                return
            if self.strict and isinstance(step, Recomputed):
                views = dict.fromkeys(self._view(relation.name) for relation in step.relations)
                held = [view for view in views if view in self.kept and self.kept[view].rows]
                if held:
                    raise StoreError(problem("STRICT", views=", ".join(held), why=step.why))
            usual, external = strategy(step), isinstance(step, External)
            usually = step.why if isinstance(step, Recomputed) else ""
            for relation in step.relations:
                name, how, why = relation.name, usual, usually
                if renewing and not external:
                    how, why = "recomputation", reason
                elif name in maintainer.fresh and not external:
                    how, why = "first computation", ""
                view = self._view(name)
                told = self.views.get(view)  # what an inner relation took is part of what its view took
                if told is None:
                    self.views[view] = Maintained(view, how, engine, seconds, touched, why, rederived)
                    continue
                told.add(seconds, touched, rederived)
                if how == "recomputation" or (view == name and told.strategy != "recomputation"):
                    told.strategy, told.engine, told.why = how, engine, why

        try:
            return maintainer.propagate(hot, self._fresh, renewing, settled, worker, self.too_large)
        except sqlite3.IntegrityError:
            self.tell_broken_keys()
            raise

    def _view(self, relation: str) -> str:
        """The relation, or what it is an inner part of."""
        return relation if relation in self.kept else self.maintainer.plan.parts.get(relation) or owner_of(relation)

    def note(self, name: str) -> None:
        """Takes a relation's changes over, to be told and logged."""
        relation, kept, maintainer = self.program.relation(name), self.kept[name], self.maintainer
        first = name in maintainer.fresh
        if first and (rows := maintainer.count(name)) > FIRST_ROWS:
            self.told_first(relation, rows)
            return
        if first:
            maintainer.detail(name)
        came, went = maintainer.changes(name)
        self.told(relation, came, went)
        if name in self._snapshots:
            self.update(name, rows=kept.rows + len(came) - len(went), snapshot=self.commit)
        else:
            self.kept[name] = kept.moved(self.commit, len(came) - len(went))  # as the log tells it, too

    def told_first(self, relation: Relation, rows: int) -> None:
        from viewkeeper.cold import first_of

        self.log.add_first(relation.name, rows)
        self.changes[relation.name] = first_of(self, relation, rows)
        self.update(relation.name, rows=rows, snapshot=self.commit if relation.name in self._snapshots else None)

    def told(
        self, relation: Relation, came: Sequence[StoredRow], went: Sequence[StoredRow], before: Relation | None = None
    ) -> None:
        """Logs a change; ``before``: the relation that what went was in, where it had other columns."""
        self.log.add(self.commit, relation, came, went, before)
        self.changes[relation.name] = Changed.of(relation, came, went, before)

    # ---- definitions

    def adopt(self, program: Program, choice: Choice) -> None:
        """Takes over another program: what its definition or the definition of what it reads changes is computed anew."""
        self.before = self.program
        Redefinition(self, program, choice).carry_out()

    def level(self, program: Program) -> None:
        """Takes over a program that differs only in how integrity views are taken."""
        self.before = self.program
        self.take(program)

    def take(self, program: Program) -> None:
        """From here on the program is another one."""
        self.program, self._maintainer = program, None

    def drop_unused_tables(self) -> None:
        """What is kept only as a snapshot needs no table, and nor does what was kept for its sake."""
        used = plan_of(self.program, cold_relations(self.program, self.kept)).core.by_name
        keep = {table for name in used for table in tables_of(self.tables.connection, name)} | CATALOG_TABLES
        found = self.tables.run("SELECT name FROM main.sqlite_master WHERE type = 'table'", {}).fetchall()
        for [table] in found:
            if table not in keep and not table.startswith("sqlite_"):
                self.tables.run(f'DROP TABLE main."{table}"', {})

    # ---- rows as they were

    def rows_before(self, relation: Relation) -> list[StoredRow]:
        """The rows of a relation that is about to become a snapshot."""
        if relation.name in self.aside.rows:
            return self.aside.read(relation.name)
        return [row for batch in self.rows(relation) for row in rows_of_batch(batch, max(1, relation.arity))]

    def read_changes(self) -> dict[str, Changed]:
        """The changes as they can be read when nothing is left of this one."""
        return {
            name: Changed.of(changed.relation, self.rows_before(changed.relation), []) if name in self.firsts else changed
            for name, changed in self.changes.items()
        }

    # ---- the catalog

    def update(self, relation: str, **what: Any) -> None:
        """Notes that the relation's rows have changed. A snapshot that is not named here is stale; the log tells what came since."""
        if what.get("snapshot") is not None:
            settle_snapshot(snapshot_path(self.directory, relation, what["snapshot"]))
        if self.kept[relation].place == NOWHERE:
            what = {}
        self.keep(self.kept[relation]._replace(**{"changed": self.commit, **what}))

    def keep(self, kept: Kept) -> None:
        old = self.kept.get(kept.name)
        if old is None or old.place != kept.place:
            self._maintainer = None  # keeps other relations from now on
        if old != kept:
            self.kept[kept.name] = kept
            self.moved.add(kept.name)

    def write_relations(self) -> None:
        """Writes down what has become of relations. Called once, in the end."""
        whole = self.commit % WRITE_EVERY == 0
        self.catalog.put_relations([self.kept[name] for name in (self.kept if whole else self.moved) if name in self.kept])

    def checkpoint(self, relations: Iterable[str]) -> None:
        """Folds what the log tells into new snapshots of the last commit."""
        from viewkeeper.engines.session import our_session
        from viewkeeper.engines.spark import SparkEngine

        wanted = [name for name in relations if self.kept[name].rows and self.snapshot(name) is None]
        engine = SparkEngine(our_session(self.spark)) if wanted else None
        last = self.commit - 1
        for name in wanted:
            assert engine is not None
            relation, path = self.program.relation(name), snapshot_path(self.directory, name, last)
            engine.prepare(Program(types=self.program.types, relations=(relation,)))
            self._give(engine, relation)
            engine.write(relation, path)
            if count_snapshot(path) != self.kept[name].rows:
                raise StoreError(problem("CATALOG_DAMAGED", path=path, why="a snapshot and the log do not give what is there"))
            settle_snapshot(path)
            self.keep(self.kept[name]._replace(snapshot=last))
        if engine is not None:
            engine.close()

    def forget(self, until: int) -> None:
        """Removes what the log tells of commits up to one, and snapshots that what follows does not lead on from."""
        self.catalog.put_relations(self.kept.values())  # what the log has told of their rows is forgotten
        self.catalog.forget(until)
        for kept in list(self.kept.values()):
            if kept.is_stale and kept.snapshot is not None and kept.snapshot < until:
                self.keep(kept._replace(snapshot=None))

    def new_snapshot(self, relation: Relation) -> Path:
        return snapshot_path(self.directory, relation.name, self.commit)

    def previewed(self, commit: Commit) -> Commit:
        """The commit as it can be read when nothing is left of this change."""
        from viewkeeper.integrity import readable

        return replace(commit, number=None, changes=self.read_changes(), violations=readable(self, commit.violations))

    def _violations(self) -> dict[str, Violated]:
        from viewkeeper.integrity import definition_violations, transaction_violations

        return transaction_violations(self) if self.before is None else definition_violations(self, self.before)

    def finish(self, kind: str, choice: Choice) -> Commit:
        """Writes the commit, unless an integrity view refuses it."""
        violations = self._violations() if self.program.integrity else {}
        seconds = time.monotonic() - self.started
        engines = {view.engine for view in self.views.values()} or {choice.engine}
        engine = engines.pop() if len(engines) == 1 else choice.engine
        views = {name: view for name, view in self.views.items() if name in self.kept}
        detail = {"reason": choice.reason, "views": [*views.values()]}
        self.catalog.add_commit(self.commit, kind, engine, seconds, detail, self.log.added)
        self.last = self.commit
        told = [self.kept[name] for name in sorted({*self.defined, *self.changes}) if name in self.kept]
        rows = {kept.name: None if kept.place == NOWHERE else kept.rows for kept in told}
        changes = dict(self.changes)
        return Commit(self.commit, engine, choice.reason, seconds, rows, changes=changes, views=views, violations=violations)


def counts_copies(relation: Relation) -> bool:
    """Does the last column of a base relation say how often the row before it is there?"""
    return "bag" in relation.qualifiers and relation.key == tuple(column.name for column in relation.columns[:-1])


class _Pending:
    """What the operations on a relation amount to: for each row that they name whether it is there in the end."""

    def __init__(self, relation: Relation, known: Callable[[StoredRow], list[StoredRow]]) -> None:
        self.relation, self.known = relation, known
        self.rows: dict[StoredRow, bool] = {}
        places = {column.name: i for i, column in enumerate(relation.columns)} if relation.key else {}
        self._key = [places[name] for name in relation.key]
        self._named: dict[StoredRow, list[StoredRow]] = {}

    def take(self, operation: Operation) -> None:
        present = operation.kind != "delete"
        if operation.kind != "upsert":
            for row in operation.rows:
                self.rows[row] = present
                if self._key and present:
                    self._named.setdefault(self.key(row), []).append(row)
            return
        if not self._key:
            raise DataError(problem("NO_KEY", relation=self.relation.name))
        for row in operation.rows:
            key = self.key(row)
            for other in (*self.known(key), *self._named.get(key, ())):
                self.rows[other] = False
            self.rows[row], self._named[key] = True, [row]

    def key(self, row: StoredRow) -> StoredRow:
        return tuple(row[i] for i in self._key)


def key_error(relation: Relation, rows: Sequence[StoredRow], in_sql: bool = False) -> DataError:
    shown = [
        f"  {relation.name}({', '.join(shown_in_message(restore(v, c.type)) for v, c in zip(row, relation.columns, strict=True))})"
        for row in rows[:_SHOWN]
    ]
    if len(rows) > _SHOWN:
        shown.append("  …")
    key = ", ".join(relation.key)
    return DataError(problem("KEY_VIOLATION", relation=relation.name, key=key, rows="\n".join(shown), in_sql=in_sql))


def _reported(relation: Relation, batches: Iterable[pa.RecordBatch], report: Report) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        report(Loading(relation.name, rows))
        yield batch


def above(program: Program, changed: Iterable[str]) -> set[str]:
    """The views that depend on one of these relations, or are one of them."""
    graph, names = dependencies(program), set(changed)
    return {view for view in program.derived if reach(graph, {view}) & names}
