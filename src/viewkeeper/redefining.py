"""A change of definitions: what depends on it is computed anew, and how that differs from what was there is told."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from viewkeeper.changed import StoredRow
from viewkeeper.engines.choice import Choice
from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.engines.keep import TooLarge, Worker
from viewkeeper.engines.layered import layers_of
from viewkeeper.engines.names import sql_name
from viewkeeper.errors import StoreError, problem
from viewkeeper.outcomes import Maintained
from viewkeeper.program.arrow import rows_of_batch
from viewkeeper.program.ast import Program, Relation
from viewkeeper.program.plan import Base, External, Plan
from viewkeeper.program.strata import reach
from viewkeeper.state import State, facts_of
from viewkeeper.store.catalog import NOWHERE, Kept
from viewkeeper.store.log import FIRST_ROWS
from viewkeeper.writer import cold_relations, plan_of

if TYPE_CHECKING:
    import pyarrow as pa

    from viewkeeper.change import Change


@dataclass
class Aside:
    """Rows of relations as they were, in temporary tables; ``rows``: how many each has."""

    tables: EmbeddedEngine
    rows: dict[str, int] = field(default_factory=dict)

    def copy_table(self, relation: Relation) -> None:
        """The rows of a table of the catalog."""
        self._create(relation, f' AS SELECT {_columns(relation)} FROM main."{sql_name(relation.name)}"')
        [[self.rows[relation.name]]] = self.tables.run(f"SELECT count(*) FROM {_was(relation.name)}", {})

    def copy(self, relation: Relation, batches: Iterable[pa.RecordBatch]) -> None:
        """Rows from elsewhere."""
        self._create(relation, f" ({_columns(relation)})")
        width, number = max(1, relation.arity), 0
        for batch in batches:
            rows = rows_of_batch(batch, width)
            self.tables.connection.executemany(f"INSERT INTO {_was(relation.name)} VALUES ({', '.join('?' * width)})", rows)
            number += batch.num_rows
        self.rows[relation.name] = number

    def _create(self, relation: Relation, what: str) -> None:
        self.tables.run(f"CREATE TABLE {_was(relation.name)}{what}", {})

    def read(self, name: str) -> list[StoredRow]:
        return self.tables.run(f"SELECT * FROM {_was(name)}", {}).fetchall()

    def give_back(self, before: Relation, relation: Relation) -> None:
        """Puts the rows into the table of a relation that has more columns now: NULL in those."""
        known = {column.name for column in before.columns}
        values = ", ".join(f'"{sql_name(c.name)}"' if c.name in known else "NULL" for c in relation.columns)
        self.tables.run(f'INSERT INTO main."{sql_name(relation.name)}" SELECT {values} FROM {_was(before.name)}', {})

    def drop(self, name: str) -> None:
        del self.rows[name]
        self.tables.run(f"DROP TABLE {_was(name)}", {})


class Redefinition:
    def __init__(self, change: Change, program: Program, choice: Choice) -> None:
        self.change, self.program, self.choice = change, program, choice
        self.before, self.held = change.program, dict(change.kept)
        self._state_before = State(change.directory, change.catalog, self.before, self.held, change.spark)
        # Views that are base relations from now on: their rows go.
        self._once_views = [
            r.name for r in program.relations if r.name in self.before.derived and r.name not in program.derived
        ]

    def carry_out(self) -> None:
        change, before, program = self.change, self.before, self.program
        old = plan_of(before, cold_relations(before, change.kept))
        change.take(program)
        self._keep_relations()
        new = plan_of(program, cold_relations(program, change.kept))
        facts = {name: rows for name in new.bases if (rows := self._new_facts(name))}
        affected = _above(new, _changed_steps(old, new) | facts.keys())
        if change.strict:
            self._refuse_anew(affected - set(new.bases))
        self._set_aside(old, new, affected)
        narrow = self._put_aside()
        maintainer = change.maintainer
        maintainer.create(new.core.by_name)
        for relation in narrow:
            self._widen(relation)
        for name, rows in facts.items():
            maintainer.base(name).want(rows, True)
            signs = maintainer.base(name).net()
            if signs:
                change.signs[name] = signs
                try:
                    maintainer.base(name).settle()
                except sqlite3.IntegrityError:
                    change.tell_broken_keys()
                    raise
                if name not in self._once_views:
                    change.note(name)
        for name in self._once_views:
            self._tell(program.relation(name))
        self._compute([name for name in new.core.by_name if name in affected - set(new.bases)])
        silent = {name for name in program.virtual if name in before.by_name and name not in before.derived}
        for name in sorted(change.aside.rows.keys() & (silent | before.by_name.keys() - program.by_name.keys())):
            if rows := change.aside.read(name):
                change.told(before.relation(name), [], rows)
                if name in silent:
                    change.update(name)
        maintainer.prepare()
        change.cold.follow(self.choice, change.defined)

    def _refuse_anew(self, names: set[str]) -> None:
        """Views that hold rows are not computed anew."""
        views = sorted(name for name in names & self.held.keys() if self.held[name].rows)
        if views:
            raise StoreError(
                problem("STRICT", views=", ".join(views), why="their definition, or one that they follow from, changes")
            )

    def _keep_relations(self) -> None:
        """Notes which relations there are now, and where."""
        change, before, program, held = self.change, self.before, self.program, self.held
        external = program.external
        for relation in program.relations:
            kind = "view" if relation.name in program.derived else "base"
            kept = change.kept.get(relation.name, Kept(relation.name, kind, 0, "hot", change.commit, None))
            if relation.name in external:
                kept = kept._replace(place=NOWHERE, rows=0, snapshot=None)
            elif relation.name in self._once_views:
                kept = kept._replace(place="hot", rows=0, snapshot=None)
            elif kept.place == NOWHERE:
                kept = kept._replace(place="hot")
            change.keep(kept._replace(kind=kind))
        change.defined = [r.name for r in program.relations if r.name not in held or _redefined(r, program, before)]
        for name in change.defined:
            self._take_in(name)
        for name in held.keys() - program.by_name.keys():
            if change.is_cold(name):
                change.cold.forget(before.relation(name))
            change.catalog.remove_relation(name)
            del change.kept[name]

    def _take_in(self, name: str) -> None:
        """A view that stayed a snapshot and is defined anew may become small enough for the catalog."""
        if name not in self.held:
            return
        change, relation = self.change, self.before.relation(name)
        if self.held[name].place == "cold" and name in self.before.derived:
            change.aside.copy(relation, self._state_before.rows(relation))
            change.keep(change.kept[name]._replace(place="hot", snapshot=None))
        elif self.program.relation(name) != relation:
            change.keep(change.kept[name]._replace(snapshot=None))

    # ---- what was there

    def _set_aside(self, old: Plan, new: Plan, affected: set[str]) -> None:
        """Removes what is not kept as it is, and copies the rows of relations that people know."""
        kinds = {r.name: type(step) for step in new.steps for r in step.relations}
        known, aside = self.before.by_name, self.change.aside
        for step in old.steps:  # before what they are derived from is removed
            for relation in step.relations if isinstance(step, External) else ():
                if relation.name in known and (relation.name in affected or kinds.get(relation.name) is not External):
                    aside.copy(relation, self._state_before.rows(relation))
        for step in old.steps:
            for relation in step.relations if not isinstance(step, External) else ():
                gone = kinds.get(relation.name) is not type(step)
                if not gone and relation.name not in affected:
                    continue
                if relation.name in known and (gone or not isinstance(step, Base)):
                    aside.copy_table(relation)
                if gone or not isinstance(step, Base):
                    self._drop_tables(relation.name)

    def _drop_tables(self, name: str) -> None:
        tables = self.change.tables
        for table in tables_of(tables.connection, name):
            tables.run(f'DROP TABLE IF EXISTS main."{table}"', {})
        tables.layers.forget()

    def _put_aside(self) -> list[Relation]:
        """Base relations that have other columns or another key now, as they were; their rows are copied, and their tables made anew."""
        found = []
        for relation in self.before.relations:
            name = relation.name
            if name in self.before.derived | self.program.derived or name not in self.program.by_name:
                continue
            now = self.program.relation(name)
            if (now.columns, now.key) == (relation.columns, relation.key) or self.change.is_cold(name):
                continue
            found.append(relation)
            self.change.aside.copy_table(relation)
            self._drop_tables(name)
        return found

    def _widen(self, before: Relation) -> None:
        """Gives the rows of a base relation back. Rows of two shapes have nothing in common: all go, and all come."""
        change, relation, name = self.change, self.program.relation(before.name), before.name
        if change.kept[name].rows:
            change.aside.give_back(before, relation)
            change.told(relation, change.maintainer.rows(name), change.aside.read(name), before)
            change.update(name, rows=change.kept[name].rows, snapshot=None)
        change.aside.drop(name)

    # ---- what there is now

    def _compute(self, names: list[str]) -> None:
        """Computes views whose tables are empty, and tells how they differ from what they were."""
        change, started = self.change, time.perf_counter()
        with change.worker(self.choice) as worker:
            elsewhere = self._fill(names, worker)
        seconds = time.perf_counter() - started
        for name in names:
            if name in self.program.by_name and name not in change.too_large:
                change.maintainer.hold(name)
                how = "recomputation" if change.aside.rows.get(name) else "first computation"
                engine = "spark" if name in elsewhere else "embedded"
                change.views[name] = Maintained(name, how, engine, seconds, 0, "its definition changed")
                self._tell(self.program.relation(name))

    def _fill(self, names: list[str], worker: Worker) -> set[str]:
        """Computes views whose tables are empty, those excepted that are too large; returns what was computed by the worker."""
        change = self.change
        run = change.maintainer.tables.run
        run("SAVEPOINT views")
        while True:
            try:
                found = change.maintainer.fill([name for name in names if name not in change.too_large], worker)
                run("RELEASE views")
                return found
            except TooLarge as large:
                change.too_large |= change.maintainer.above(large.relation)
                run("ROLLBACK TO views")

    def _tell(self, relation: Relation) -> None:
        """How a view differs from what it was."""
        change, name = self.change, relation.name
        was, rows = change.aside.rows, change.maintainer.count(name)
        if not was.get(name) and rows > FIRST_ROWS:
            change.told_first(relation, rows)
            return
        old, now = set(change.aside.read(name)) if name in was else set(), set(change.maintainer.rows(name))
        if name in was and self.before.relation(name).types != relation.types:
            # Rows of two shapes have nothing in common: all go, and all come.
            before = replace(relation, columns=self.before.relation(name).columns, key=())
            change.told(relation, list(now), list(old), before)
            change.update(name, rows=rows)
        elif old != now:
            change.told(relation, list(now - old), list(old - now))
            change.update(name, rows=rows)
        elif change.kept[name].rows != rows:  # it is stored now, or is not any more
            change.update(name, rows=rows)

    def _new_facts(self, name: str) -> list[StoredRow]:
        """Facts of base relations are rows. (Those of views are rules.)"""
        if name not in self.program.by_name:
            return []
        relation = self.program.relation(name)
        rules = _rules(self.program, relation)
        if not rules or (name in self.before.by_name and rules == _rules(self.before, relation)):
            return []
        return [row for batch in facts_of(self.program, relation) for row in rows_of_batch(batch, max(1, relation.arity))]


def tables_of(connection: sqlite3.Connection, name: str) -> list[str]:
    """What the catalog may have for a relation."""
    return [sql_name(name), f"$state of {sql_name(name)}", *layers_of(connection, sql_name(name))]


def _was(name: str) -> str:
    return f'temp."was {sql_name(name)}"'


def _columns(relation: Relation) -> str:
    return ", ".join(f'"{sql_name(c.name)}"' for c in relation.columns) or "present"


def _changed_steps(old: Plan, new: Plan) -> set[str]:
    """The relations that are new or kept otherwise than before."""
    before = {relation.name: step for step in old.steps for relation in step.relations}
    return {relation.name for step in new.steps for relation in step.relations if before.get(relation.name) != step}


def _above(plan: Plan, names: set[str]) -> set[str]:
    """The relations that depend on one of these, and these."""
    return {name for name in plan.core.by_name if reach(plan.reads, {name}) & names}


def _redefined(relation: Relation, program: Program, before: Program) -> bool:
    return before.relation(relation.name) != relation or _rules(program, relation) != _rules(before, relation)


def _rules(program: Program, relation: Relation) -> list[Any]:
    return [rule for rule in program.rules if rule.head.relation == relation.name]
