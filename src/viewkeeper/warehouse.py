"""The façade: a warehouse is a directory with definitions, base rows and views that always fit them.

    with viewkeeper.open("shop", create=True) as shop:
        shop.define(text)
        shop.load("depends", "depends.csv.gz")
        shop.query('based_on("bash", X)').to_pandas()

Modules that need Arrow or Spark are imported where they are used, so that looking at a warehouse is quick.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from viewkeeper.collecting import without_collecting
from viewkeeper.definitions import Definitions, dependents_of, failures_told
from viewkeeper.engines.choice import Choice, check_engine, choose_engine, choose_for_change
from viewkeeper.engines.costs import DELETE, FIRST, INSERT, MANY, Task
from viewkeeper.engines.session import cores_of, session_is_there
from viewkeeper.errors import (
    DataError,
    EvaluationError,
    InterruptedLate,
    Problem,
    ProgramError,
    StoreError,
    ViewkeeperError,
    closest,
    problem,
)
from viewkeeper.language import parse, parse_query, parse_row
from viewkeeper.outcomes import Commit, Leveled, Loading, Logged, Shown, Verified, is_logged, logged, silent
from viewkeeper.program.ast import LEVELS, UNSTORED, Program, Relation
from viewkeeper.program.merge import with_integrity, with_storage, without
from viewkeeper.program.patience import at_most
from viewkeeper.program.strata import dependencies, reach
from viewkeeper.state import State, Work
from viewkeeper.store.catalog import NOWHERE, Catalog, Definition, Kept
from viewkeeper.store.lock import holder_of, writer_lock
from viewkeeper.store.rejects import Reading, Rejects, bad_rows, unused_file
from viewkeeper.transaction import Asked, Transaction, asked

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from viewkeeper.advice import Advice
    from viewkeeper.answer import Answer
    from viewkeeper.change import Change, Operation
    from viewkeeper.changed import Changed
    from viewkeeper.engines.interface import Engine
    from viewkeeper.explain import Explained
    from viewkeeper.held import Held
    from viewkeeper.outcomes import Report, Result
    from viewkeeper.watched import Found, Told, Wanted
    from viewkeeper.why import Why
    from viewkeeper.writer import Writer

T = TypeVar("T")

# With the strategy "auto" so many transactions after the last definition tell how views are best kept.
_ENOUGH = 50

__all__ = ["Commit", "Loading", "Shown", "Verified", "Warehouse", "at_most"]


class Warehouse:
    """Definitions, base rows and views in a directory. Use ``viewkeeper.open``.

    Several threads may share one: changes are made one after the other, reading goes on meanwhile.
    """

    def __init__(
        self,
        path: str | Path,
        spark: SparkSession | str | None = None,
        engine: str = "auto",
        hot_rows: int = 20_000_000,
        durable: bool = True,
        strategy: str = "declared",
    ) -> None:
        """``hot_rows``: a relation that Spark writes and that is larger stays Parquet, the catalog does not hold its rows.

        ``durable``: a commit returns when it is on the disk. ``strategy``: views are stored as "declared", or with "auto" as ``adapt`` finds
        best, on closing, when there were enough transactions since the last definition.
        """
        check_engine(engine)
        if strategy not in ("declared", "auto"):
            raise StoreError(problem("BAD_PARAMETER", value=strategy, parameter="strategy", wanted="declared or auto"))
        self.path = Path(path)
        self.engine = engine
        self.hot_rows = hot_rows
        self.durable = durable
        self.strategy = strategy
        self._spark = spark
        self._changes = RLock()
        self._closed = self._changed = False
        self._holding: dict[int, int] = {}  # how often each process holds it
        self._for_commits = writer_lock(self.path, again=True)
        self._lock = ExitStack()
        self._writer: Writer | None = None
        # Open catalogs that nobody reads at the moment. Those of a parent process cannot be used.
        self._idle: dict[int, list[Catalog]] = {}
        self._definitions = Definitions(self.path)
        with self._reading():
            pass

    @classmethod
    def create(cls, path: str | Path, exist_ok: bool = False) -> None:
        """An empty warehouse in a new or empty directory; with ``exist_ok`` there may be one already."""
        Catalog.create(Path(path), exist_ok)

    @contextmanager
    def hold(self, note: Mapping[str, str] = {}) -> Iterator[None]:
        """Nobody else changes the warehouse meanwhile, also not between changes; those who try are told the ``note``.

        All threads that share this object can change it. What holds it first says the note, what leaves last lets it go.
        """
        self._refuse_closed()
        process = os.getpid()
        with self._changes:
            if not self._holding.get(process):
                self._lock = ExitStack()  # not the one of a parent process
                self._lock.enter_context(writer_lock(self.path, note))
            self._holding[process] = self._holding.get(process, 0) + 1
        try:
            yield
        finally:
            if process == os.getpid():
                with self._changes:
                    self._holding[process] -= 1
                    if not self._holding[process]:
                        self._lock.close()

    @staticmethod
    def holder(path: str | Path) -> dict[str, Any] | None:
        """Who holds a warehouse for changes now: "pid", "command", "since" and its note. Empty if it has not said so yet; None if nobody does."""
        return holder_of(Path(path))

    def close(self) -> None:
        if self._changed and not self._closed and self.strategy == "auto":
            with suppress(StoreError):  # somebody else changes it now, or there is nothing to judge by
                self.adapt(at_least=_ENOUGH)
        self._closed = True
        self._close_writer()
        self._for_commits.close()
        for catalog in self._idle.pop(os.getpid(), []):
            catalog.close()
        if self._changed:
            with _late():
                self._changed = False
                Catalog.fold_log(self.path)

    def __enter__(self) -> Warehouse:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    @property
    def program(self) -> Program:
        """All that is defined now."""
        with self._reading() as state:
            return state.program

    # ---- definitions

    def define(
        self,
        text: str,
        name: str = "<text>",
        engine: str | None = None,
        report: Report = silent,
        *,
        replace: bool = False,
        strict: bool = False,
    ) -> Commit:
        """Adds relations, rules and facts; what is there already may be repeated. Views are computed at once.

        ``replace``: what the text declares takes the place of what there is of the same name. Only what changes, and what
        depends on it, is computed anew; ``strict`` refuses even that for views that hold rows.
        """
        with self._changing(report, strict, fresh=True) as change:
            choice = self._choose_for(change, engine, sum(kept.rows for kept in change.kept.values()))
            program = parse(text, name, change.program, replacing=replace)
            if program == change.program:
                return Commit(None, choice.engine, "nothing new")
            _refuse_lost_rows(program, change)
            change.catalog.add_definition(change.commit, Definition("replace" if replace else "define", name, text))
            change.adopt(program, choice)
            return change.finish("define", choice)

    def store(self, views: str | Iterable[str], *, external: bool = False) -> Commit:
        """Stores views from now on, or with ``external`` nothing of them, and so those that depend on each other with one of them.
        Their rows stay what they are."""
        with self._changing(fresh=True) as change:
            program = change.program
            for view in [views] if isinstance(views, str) else views:
                self._known_view(view, program)
                for one in sorted(program.together_with({view})):
                    how = {directive.kind for directive in program.directives if directive.relation == one} & {*UNSTORED}
                    wanted = {"external"} if external and (one == view or how) else set()
                    if how != wanted:
                        program = with_storage(program, one, bool(wanted))
                        change.catalog.add_definition(change.commit, Definition("external" if wanted else "store", one, ""))
            choice = self._choose_for(change, None, sum(kept.rows for kept in change.kept.values()))
            if program == change.program:
                return Commit(None, choice.engine, "nothing new")
            change.adopt(program, choice)
            return change.finish("define", choice)

    def set_level(self, view: str, level: str | None) -> Leveled:
        """Makes a view an integrity view: "reject" refuses transactions that add rows to it, "warn" and "note" tell the rows. None ends it.

        Tells what is violated now. That stays as it is, and blocks nothing.
        """
        if level is not None and level not in LEVELS:
            raise StoreError(problem("BAD_PARAMETER", value=level, parameter="level", wanted="reject, warn, note or None"))
        with self._changing(fresh=True) as change:
            self._known_view(view, change.program)
            program = with_integrity(change.program, view, level)
            violated = self._rows_of(view, change)
            if program.integrity.get(view) == change.program.integrity.get(view):
                return Leveled(Commit(None, "embedded", "nothing new"), violated)
            change.catalog.add_definition(change.commit, Definition("level", view, level or ""))
            choice = Choice("embedded", "nothing to compute")
            if program.virtual == change.program.virtual:
                change.level(program)
            else:
                change.adopt(program, choice)  # violations are told, also of a view of which else nothing is
            return Leveled(change.finish("define", choice), violated)

    def drop(self, *names: str) -> Commit:
        """Removes relations with their rows and rules, or types, unless something else depends on them."""
        with self._changing(fresh=True) as change:
            program = change.program
            for name in names:
                if name not in {t.name for t in change.program.types}:
                    self._known(name, change.program)
                dependents = [other for other in dependents_of(name, change.program) if other not in names]
                if dependents:
                    raise StoreError(problem("DROP_DEPENDENTS", relation=name, dependents=", ".join(dependents)))
            choice = Choice("embedded", "nothing to compute")
            if not names:
                return Commit(None, choice.engine, "nothing to drop")
            for name in dict.fromkeys(names):
                change.catalog.add_definition(change.commit, Definition("drop", name, ""))
                program = without(program, name)
            change.adopt(program, choice)
            return change.finish("drop", choice)

    # ---- rows

    def load(
        self,
        relation: str | Mapping[str, Any],
        source: Any = None,
        *,
        delimiter: str | None = None,
        header: bool | None = None,
        skip_bad: bool = False,
        rejects: str | Path | None = None,
        engine: str | None = None,
        report: Report = silent,
        strict: bool = False,
    ) -> Commit:
        """Adds rows to a base relation, or to several as one commit: ``load({"a": "a.csv", "b": rows})``.

        All rows or, if one does not fit, none; with ``skip_bad`` those that fit. Rows that are there already change nothing.
        """
        from viewkeeper.sources import Options, about_rows, is_file

        sources = dict(relation) if isinstance(relation, Mapping) else {relation: source}
        options = Options(delimiter, header)
        with self._changing(report, strict) as change, self._rejects(sources, rejects) as found:
            relations = [self._base(name, change.program) for name in sources]
            rows = sum(about_rows(source) for source in sources.values())
            choice = self._choose_for(change, engine, rows, sources, exact=not any(map(is_file, sources.values())))
            readings = {name: Reading(name, found) for name in sources}
            inserted = {r.name: change.load(r, sources[r.name], options, readings[r.name], choice) for r in relations}
            if found.rows and not skip_bad:
                raise bad_rows(", ".join(sources), found, sum(r.rows for r in readings.values()), found.keep())
            commit = Commit(None, choice.engine, "every row is there already")
            if change.signs:
                change.propagate(choice)
                commit = change.finish("load", choice)
            return replace(
                commit, inserted=inserted, rejected=found.rows, rejects=tuple(found.first), rejects_file=found.keep()
            )

    def transaction(self, engine: str | None = None, strict: bool = False, *, key: str | None = None) -> Transaction:
        """Collects operations; leaving its ``with`` block commits them as one."""
        return Transaction(lambda operations: self.commit_operations(operations, engine=engine, strict=strict, key=key))

    def commit(
        self,
        inserts: Mapping[str, Any] | None = None,
        deletes: Mapping[str, Any] | None = None,
        upserts: Mapping[str, Any] | None = None,
        *,
        engine: str | None = None,
        strict: bool = False,
        key: str | None = None,
    ) -> Commit:
        """Rows to insert, delete and upsert, by relation, as one transaction; returns exactly what changed.

        Deletes come first, then inserts, then upserts. ``strict`` refuses to compute a view anew. ``key`` names the transaction: a
        second one with the same key changes nothing.
        """
        return self.commit_operations(asked(inserts, deletes, upserts), engine=engine, strict=strict, key=key)

    def preview(
        self,
        inserts: Mapping[str, Any] | None = None,
        deletes: Mapping[str, Any] | None = None,
        upserts: Mapping[str, Any] | None = None,
        *,
        engine: str | None = None,
        strict: bool = False,
    ) -> Commit:
        """What ``commit`` would change; nothing is changed."""
        return self.commit_operations(asked(inserts, deletes, upserts), engine=engine, strict=strict, dry_run=True)

    def commit_file(
        self,
        path: str | Path | BinaryIO,
        *,
        engine: str | None = None,
        strict: bool = False,
        dry_run: bool = False,
        key: str | None = None,
    ) -> Commit:
        """A file of operations, one JSON object a line, as one transaction: {"relation": "r", "op": "insert", "row": [1, "a"]}."""
        from viewkeeper.operations import read_operations

        operations = read_operations(Path(path) if isinstance(path, (str, Path)) else path)
        return self.commit_operations(operations, engine=engine, strict=strict, dry_run=dry_run, key=key)

    def commit_operations(
        self,
        operations: Sequence[Asked],
        *,
        engine: str | None = None,
        strict: bool = False,
        dry_run: bool = False,
        key: str | None = None,
    ) -> Commit:
        """Operations, each on rows of one relation, as one transaction; ``dry_run`` tells what would change.

        ``key`` names the transaction for a week: a second one with the same key changes nothing, and tells the first one's number.
        """
        if key is not None:
            return self._commit_once(operations, key, engine, strict, dry_run)
        wanted: list[Operation] | None = None
        with self._changes, self._locked(), without_collecting(one.rows for one in operations):
            try:
                with self._attempt(strict, dry_run) as change:
                    change.guarded = False
                    wanted = self._wanted(operations, change)
                    return self._carry_out(change, wanted, engine, dry_run)
            except EvaluationError:
                if strict or wanted is None or change.guarded:
                    raise
            # All is as it was. What fails on the way may be right in the end, which costs more to find out.
            with self._attempt(strict, dry_run) as change:
                return self._carry_out(change, wanted, engine, dry_run)

    def _attempt(self, strict: bool, dry_run: bool) -> AbstractContextManager[Change]:
        """A change of the warehouse, which the caller holds; ``dry_run``: of which nothing stays."""
        return self._trying(strict, held=True) if dry_run else self._changing(strict=strict, held=True)

    def _commit_once(self, operations: Sequence[Asked], key: str, engine: str | None, strict: bool, dry_run: bool) -> Commit:
        from viewkeeper.sources import taken
        from viewkeeper.store.keys import Keys, check_key, digest

        check_key(key)
        operations = [one._replace(rows=taken(one.rows, one.relation)) for one in operations]
        with self._held(), self._attempt(strict, dry_run) as change:
            keys, asked = Keys(change.catalog), digest((one.kind, one.relation, one.rows) for one in operations)
            used = keys.find(key)
            if used is None:
                commit = self._carry_out(change, self._wanted(operations, change), engine, dry_run)
                keys.note(key, commit.number, asked)
                return commit
            if used.digest != asked:
                raise StoreError(problem("KEY_REUSED", key=key))
            return Commit(None if dry_run else used.commit, "embedded", "made already under this key", repeated=True)

    def _wanted(self, operations: Sequence[Asked], change: Change) -> list[Operation]:
        """The operations with their rows as stored values; all that do not fit are told at once."""
        from viewkeeper.change import Operation
        from viewkeeper.sources import read_rows

        found = Rejects()
        wanted = []
        total = 0
        for one in operations:
            relation = self._base(one.relation, change.program)
            reading = Reading(one.relation, found, first_line=one.line or 1)
            wanted.append(Operation(one.kind, relation, read_rows(one.rows, relation, reading)))
            total += reading.rows
        if found.rows:
            raise bad_rows(", ".join(dict.fromkeys(one.relation for one in operations)), found, total, None)
        return wanted

    def _carry_out(self, change: Change, wanted: Sequence[Operation], engine: str | None, dry_run: bool) -> Commit:
        """Operations as one transaction."""
        total = sum(len(one.rows) for one in wanted)
        deleted = sum(len(one.rows) for one in wanted if one.kind == "delete")
        choice = self._choose_for(change, engine, total, [one.relation.name for one in wanted], deleted)
        change.want(wanted)
        commit = Commit(None, choice.engine, "everything is as wanted already")
        if change.signs:
            change.propagate(choice)
            commit = change.finish("transaction", choice)
        return change.previewed(commit) if dry_run else commit

    # ---- SQL

    def sql(
        self,
        text: str,
        *,
        name: str = "<sql>",
        engine: str | None = None,
        strict: bool = False,
        dry_run: bool = False,
        each: Callable[[Result], None] = lambda result: None,
    ) -> list[Result]:
        """Executes statements of SQL in Spark's dialect, separated by semicolons; returns what each gave, and tells ``each`` before.

        INSERT, UPDATE and DELETE are one transaction, up to the next statement that defines something, which is a commit of its own.
        """
        from viewkeeper.statements import execute

        self._refuse_closed()
        results = []
        for result in execute(self, text, name, engine, strict, dry_run):
            results.append(result)
            each(result)
        return results

    # ---- asking

    def query(self, text: str, engine: str | None = None, report: Report = silent, *, as_of: int | None = None) -> Answer:
        """The assignments that make a body true: ``based_on("bash", X), !broken(X)``; ``as_of``: after that commit."""
        with self._reading() as state:
            return self._query(text, state, engine, report) if as_of is None else self._query_as_of(text, state, as_of, report)

    def _query(self, text: str, state: State, engine: str | None, report: Report = silent) -> Answer:
        from viewkeeper.answer import Answer
        from viewkeeper.program.arrow import to_real

        program, relation = self._asked(text, state.program, parse_query)
        work = Work.asked(program, relation.name, state.kept)
        with state.engine(self._choose(engine, state).engine, work) as runner:
            work.evaluate(runner, report)
            return Answer(to_real(runner.read(relation, ordered=True), relation), tuple(c.name for c in relation.columns))

    def _query_as_of(self, text: str, state: State, commit: int, report: Report) -> Answer:
        from viewkeeper.answer import Answer
        from viewkeeper.history import History
        from viewkeeper.program.arrow import batch_of_rows, to_real

        then = History(state, self._definitions, commit)
        first = next((definition.commit for definition in state.catalog.definitions() if definition.commit > commit), None)
        nothing = None if first is None else problem("NOTHING_DEFINED_THEN", commit=commit, first=first)
        relation, rows = self._asked(text, then.program, lambda text, program: then.answer(text, report), nothing)
        return Answer(to_real([batch_of_rows(rows, relation)], relation), tuple(c.name for c in relation.columns))

    def ask(self, text: str, engine: str | None = None) -> Held:
        """The answer of a query with the number of its commit; later its ``changes`` are exactly what each commit changed in it."""
        from viewkeeper.held import Held, answer_changes

        def follow(held: Held) -> Iterator[tuple[int, Changed]]:
            with self._reading() as state:
                yield from answer_changes(held, state, self._definitions)

        with self._reading() as state:
            return Held(text, self._query(text, state, engine), state.catalog.last_commit(), follow)

    def levels(self) -> dict[str, str]:
        """The integrity views and their levels."""
        with self._reading() as state:
            return {view: integrity.level for view, integrity in state.program.integrity.items()}

    def violated(self, view: str) -> Answer:
        """The rows of a view: of an integrity view, what is violated now."""
        with self._reading() as state:
            self._known_view(view, state.program)
            return self._rows_of(view, state)

    def _rows_of(self, view: str, state: State) -> Answer:
        from viewkeeper.answer import Answer
        from viewkeeper.program.arrow import to_real

        relation = state.program.relation(view)
        return Answer(to_real(state.rows(relation, ordered=True), relation), tuple(c.name for c in relation.columns))

    def last(self) -> int:
        """The number of the last commit; 0 if there is none."""
        with self._reading() as state:
            return state.catalog.last_commit()

    def rows_of(self, wanted: Wanted, *, as_of: int | None = None, most: int | None = None) -> Found:
        """Rows of a view, with the number of the commit after which they are there; ``most``: so many are enough."""
        from viewkeeper.watched import find

        with self._reading() as state:
            return find(wanted, state, self._definitions, as_of, most)

    def follow(self, wanted: Wanted, since: int, until: int | None = None, *, gather: bool = False) -> Told:
        """What the commits after one, up to another or to the last, changed in rows of a view; ``gather``: as one change."""
        from viewkeeper.watched import follow

        with self._reading() as state:
            return follow(wanted, since, until, state, self._definitions, gather)

    def check_wanted(self, wanted: Wanted) -> None:
        """Refuses a view, columns and values that there are not, and what is no filter."""
        from viewkeeper.watched import Fitting

        with self._reading() as state:
            Fitting(wanted, state.program)

    def check_visible(self, text: str, visible: Callable[[str], bool], *, row: bool = False) -> None:
        """Refuses a query, or a ``row``, that names relations which are not visible, as if they did not exist."""
        from viewkeeper.watched import only_visible

        with self._reading() as state:
            program = only_visible(state.program, visible)
            parse_row(text, program) if row else parse_query(text, program)

    def log(self, since: int = 0, view: str | None = None, until: int | None = None) -> list[Logged]:
        """The commits after ``since`` up to ``until``, in order, or those that changed a relation, with what they changed."""
        with self._reading() as state:
            if view is not None and view not in state.program.by_name and not is_logged(state.catalog, view):
                self._known(view, state.program)
            return logged(state.catalog, since, view, until)

    def oldest(self) -> int:
        """The commit after which the log begins, 0 unless it was trimmed: the first that can be asked for, and followed."""
        with self._reading() as state:
            return state.catalog.oldest()

    def trim_log(self, keep: int | timedelta) -> int:
        """Forgets what commits did, except the last ``keep`` ones or those that are younger; returns the first that is not forgotten.

        The warehouse stays as it is. What it was before cannot be asked for any more.
        """
        from viewkeeper.store.log import Log

        number = keep.total_seconds() if isinstance(keep, timedelta) else keep
        if isinstance(number, bool) or not isinstance(keep, (int, timedelta)) or number < 0:
            raise StoreError(
                problem("BAD_PARAMETER", value=keep, parameter="keep", wanted="a number of commits or a timedelta")
            )
        with self._held():
            with self._changing(held=True) as change:
                catalog, forgotten = change.catalog, change.catalog.oldest()
                until = catalog.last_commit() - keep if isinstance(keep, int) else catalog.last_before(_moment(keep))
                if until > forgotten:
                    change.forget(until)
            if until > forgotten:
                Log(self._open_writer().catalog).remove_leftovers()
        return max(until, forgotten) + 1

    def changes(self, commit: int) -> dict[str, Changed]:
        """What a commit changed, from the log."""
        with self._reading() as state:
            from viewkeeper.history import changes_of

            return changes_of(state, self._definitions, commit)

    def explain(self, view: str) -> Explained:
        """How a view is kept: strategy, rules, statements and indexes; and what it takes stored and external."""
        from viewkeeper.advice import glance
        from viewkeeper.explain import cost_of, explain

        with self._reading() as state:
            self._known_view(view, state.program)
            if view in state.program.virtual:
                return explain(state.program, state.kept, view)
            cost = cost_of(view, state.kept[view], state.catalog)
            if cost.advised is None:
                cost = replace(cost, advised=glance(view, state, self._definitions))
            return replace(explain(state.program, state.kept, view), cost=cost)

    def advise(self, commits: int = 50) -> tuple[int, list[Advice]]:
        """Which views to store: the last transactions are played again on copies of the warehouse, with all views stored and with none.

        Returns how many transactions that were, and for each view what it costs either way. ``explain`` tells it from then on.
        """
        from viewkeeper.advice import advise

        if isinstance(commits, bool) or not isinstance(commits, int) or commits < 1:
            raise StoreError(problem("BAD_PARAMETER", value=commits, parameter="commits", wanted="a number of at least 1"))
        with self._reading() as state:
            played, found = advise(state, self._definitions, commits)
        with suppress(StoreError), self._changing() as change:  # unless somebody else holds it, or it cannot be written
            change.catalog.put_advice({one.view: vars(one) for one in found})
        return played, found

    def adapt(self, commits: int = 50, at_least: int = 1, advice: Iterable[Advice] | None = None) -> dict[str, bool]:
        """Stores views, or stops storing them, as ``advise`` says, if it has so many transactions to judge by; ``advice``: what it has said.

        Returns the views for which that is a change, and whether they are external now.
        """
        if advice is None:
            played, advice = self.advise(max(commits, at_least))
            if played < at_least:
                return {}
        changed = {one.view: one.external_is_better for one in advice if one.external_is_better is not one.is_external}
        for external in (False, True):
            if views := [view for view, how in changed.items() if how is external]:
                self.store(views, external=external)
        return changed

    def why(self, text: str) -> Why:
        """Why a row such as ``based_on("bash", "libc6")`` is there: one derivation; or what is missing."""
        with self._reading() as state:
            from viewkeeper.why import explain

            return explain(self._asked(text, state.program, parse_row), state)

    def show(self, relation: str | None = None) -> list[Shown]:
        """What is defined: relations, their kind, rows, and where they are kept."""
        with self._reading() as state:
            if relation is not None:
                self._known(relation, state.program)
            return [_shown(r, state) for r in state.program.relations if relation in (None, r.name)]

    def checkpoint(self, relation: str | None = None) -> list[Shown]:
        """Writes snapshots with Spark, of one relation or of all, where the last one is not what is there now.

        It is no commit. Spark reads what is in a snapshot much faster than what is only in the catalog.
        """
        from viewkeeper.engines.session import require_spark

        if self._spark is None:
            require_spark()
        with self._changing() as change:
            if relation is not None:
                self._known(relation, change.program)
                self._stored(relation, change)
            names = [r.name for r in change.program.relations if relation in (None, r.name)]
            change.checkpoint(names)
            return [_shown(change.program.relation(name), change) for name in names]

    def verify(self, view: str | None = None, engine: str | None = None, report: Report = silent) -> list[Verified]:
        """Recomputes one view or all from the base rows, on either engine, and compares."""
        with self._reading() as state:
            program = state.program
            if view is not None:
                self._known_view(view, program)
                self._stored(view, state)
            views = program.derived - program.external if view is None else {view}
            work = Work.of(program, reach(dependencies(program), set(views)) & program.derived)
            # Nothing of what is stored is used but base rows.
            with state.separate_engine(self._choose(engine, state).engine, work) as runner:
                work.evaluate(runner, report)
                return [_compare(runner, state, program.relation(name)) for name in sorted(views)]

    # ---- states

    @contextmanager
    def _reading(self) -> Iterator[State]:
        """The last commit, whatever is changed meanwhile."""
        self._refuse_closed()
        idle = self._idle.setdefault(os.getpid(), [])
        try:
            catalog = idle.pop()
        except IndexError:
            catalog = Catalog.open(self.path, writable=False)
        try:
            with catalog.snapshot():
                state = State(self.path, catalog, *self._definitions.contents(catalog), self._spark)
                with failures_told(lambda: self._definitions.names(catalog)):
                    yield state
        except BaseException:
            catalog.close()
            raise
        if self._closed or catalog.frozen is not None:
            catalog.close()
        else:
            idle.append(catalog)

    @contextmanager
    def _changing(
        self, report: Report = silent, strict: bool = False, fresh: bool = False, held: bool = False
    ) -> Iterator[Change]:
        """The warehouse held for one change; everything or nothing. ``fresh``: with nothing prepared, for other definitions;
        ``held``: by the caller."""
        from viewkeeper.change import Change

        self._refuse_closed()
        with nullcontext() if held else self._held():
            if fresh:
                self._close_writer()
            writer, schema = self._open_writer(), None
            try:
                with writer.catalog.transaction():
                    program, kept = writer.contents(self._definitions)
                    number = writer.last + 1
                    change = Change(
                        self.path, writer.catalog, program, kept, self._spark, number, self.hot_rows, writer, strict, report
                    )
                    try:
                        with failures_told(lambda: change.program.by_name):
                            yield change
                    except (ViewkeeperError, _DryRun):
                        schema = writer.schema()
                        raise
                    change.write_relations()
                self._changed = True
                writer.done(change)
            except BaseException:
                if fresh or not writer.taken_back(schema):
                    self._close_writer()
                raise
            if fresh:
                with _late():
                    self._close_writer()

    @contextmanager
    def _trying(self, strict: bool = False, fresh: bool = False, held: bool = False) -> Iterator[Change]:
        """The warehouse held for a change of which nothing stays."""
        with suppress(_DryRun), self._changing(strict=strict, fresh=fresh, held=held) as change:
            yield change
            raise _DryRun

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Nobody else changes the warehouse meanwhile."""
        with self._changes, self._locked():
            yield

    def _locked(self) -> AbstractContextManager[None]:
        return nullcontext() if self._holding.get(os.getpid()) else self._for_commits

    def _open_writer(self) -> Writer:
        from viewkeeper.writer import Writer

        if self._writer is None or self._writer.process != os.getpid():
            self._writer = Writer(self.path, self.durable)
        return self._writer

    def _close_writer(self) -> None:
        if self._writer is not None and self._writer.process == os.getpid():
            self._writer.close()
        self._writer = None

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreError(problem("CLOSED", path=self.path))

    def _asked(self, text: str, program: Program, read: Callable[[str, Program], T], nothing: Problem | None = None) -> T:
        """What a text reads as; ``nothing``: what to say if there is no relation that it could name."""
        try:
            return read(text, program)
        except ProgramError:
            if program.relations:
                raise
            raise StoreError(nothing or problem("NOTHING_DEFINED", path=self.path)) from None

    def _known(self, name: str, program: Program) -> None:
        if not program.relations:
            raise StoreError(problem("NOTHING_DEFINED", path=self.path))
        if name not in program.by_name:
            raise StoreError(problem("UNKNOWN_RELATION", relation=name, near=closest(name, program.by_name)))

    def _known_view(self, name: str, program: Program) -> None:
        self._known(name, program)
        if name not in program.derived:
            raise StoreError(problem("NOT_A_VIEW", relation=name))

    def _stored(self, name: str, state: State) -> None:
        if state.kept[name].place == NOWHERE:
            raise StoreError(problem("NOTHING_STORED", relation=name))

    def _base(self, name: str, program: Program) -> Relation:
        self._known(name, program)
        if name in program.derived:
            raise DataError(problem("BASE_CONFLICT", relation=name))
        return program.relation(name)

    def _choose(self, engine: str | None, state: State) -> Choice:
        """Who reads everything, by the number of all rows."""
        rows = sum(kept.rows for kept in state.kept.values())
        cold = any(kept.place == "cold" for kept in state.kept.values())
        return choose_engine(engine or self.engine, rows=rows, cold=cold, spark_given=self._spark is not None)

    def _choose_for(
        self, change: Change, engine: str | None, rows: int, relations: Iterable[str] = (), deleted: int = 0, exact: bool = True
    ) -> Choice:
        """Who changes so many rows of these relations; if there is none of them, who computes views for the first time."""
        first = not any(change.kept[name].rows for name in relations)
        kind = FIRST if first else DELETE if deleted * 2 > rows else INSERT
        wish, given = engine or self.engine, self._spark is not None
        if wish == "embedded" and rows < MANY:  # there is one way
            return Choice(wish, "asked for", task=Task(kind, rows, 0, exact=exact))
        held = sum(kept.rows for kept in change.kept.values())
        task = Task(kind, rows, held, cores_of(self._spark), session_is_there(self._spark), exact)
        cold = change.has_cold
        return choose_for_change(wish, task, change.writer.costs, strict=change.strict, cold=cold, spark_given=given)

    @contextmanager
    def _rejects(self, sources: Mapping[str, Any], file: str | Path | None) -> Iterator[Rejects]:
        """Where bad rows go; nothing is left of them unless they are kept."""
        path = unused_file(self.path / "rejects", "-".join(sources)) if file is None else Path(file)
        found = Rejects(path)
        try:
            yield found
        finally:
            found.discard()


def _refuse_lost_rows(program: Program, change: Change) -> None:
    """A relation becomes a view with its first rule; only facts, which are rules too, may be in it by then. One whose columns
    change must be a view: what was loaded would be lost."""
    from viewkeeper.state import facts_of

    def refuse(why: str) -> None:
        hint = "Give the view another name and a rule that reads this one."
        raise StoreError(problem("DATA_CONFLICT", why=why, hint=hint))

    for name in change.kept.keys() & program.by_name.keys() - change.program.derived:
        if name in program.derived:
            facts = facts_of(change.program, change.program.relation(name))
            if change.kept[name].rows > sum(batch.num_rows for batch in facts):
                refuse(f'relation "{name}" holds rows that were loaded and cannot become a view')
        elif program.relation(name) != change.program.relation(name) and change.kept[name].rows:
            refuse(f'relation "{name}" holds rows and cannot be declared otherwise')


def _moment(ago: timedelta) -> str:
    """The time of then, as commits tell it."""
    now = datetime.now(UTC).replace(tzinfo=None)
    then = now - ago if ago < now - datetime.min else datetime.min
    return f"{then.isoformat(timespec='seconds')}Z"


class _DryRun(Exception):
    """Ends a change whose result is known, so that nothing of it stays."""


@contextmanager
def _late() -> Iterator[None]:
    """Ctrl-C from here on comes when the change is made."""
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedLate from None


# ---- showing and comparing


def _shown(relation: Relation, state: State) -> Shown:
    kept = state.kept[relation.name]
    rules = tuple(rule for rule in state.program.rules if rule.head.relation == relation.name)
    integrity = state.program.integrity.get(relation.name)
    level = None if integrity is None else integrity.level
    place = "nothing: virtual" if relation.name in state.program.virtual else _place(kept)
    return Shown(relation, kept.kind, None if kept.place == NOWHERE else kept.rows, place, rules, level)


def _place(kept: Kept) -> str:
    if kept.place == NOWHERE:
        return "nothing: external"
    places = ["catalog"] if kept.place == "hot" else []
    if kept.snapshot is not None:
        places.append(f"snapshot of commit {kept.snapshot}")
    return " and ".join(places)


def _compare(runner: Engine, state: State, relation: Relation) -> Verified:
    from viewkeeper.program.arrow import to_real

    fresh = to_real(runner.read(relation, ordered=True), relation)
    held = to_real(state.rows(relation, ordered=True), relation)
    if fresh.equals(held):
        return Verified(relation.name, held.num_rows, fresh.slice(0, 0), held.slice(0, 0))
    return Verified(relation.name, held.num_rows, _difference(fresh, held), _difference(held, fresh))


def _difference(left: pa.Table, right: pa.Table) -> pa.Table:
    """Rows of left that are not in right; NULL equals NULL."""
    import pyarrow as pa

    held = set(zip(*(column.to_pylist() for column in right.columns), strict=True))
    mask = [row not in held for row in zip(*(column.to_pylist() for column in left.columns), strict=True)]
    return left.filter(pa.array(mask, pa.bool_()))
