"""The façade: a warehouse is a directory with definitions, base rows and views that always fit them.

    with viewkeeper.open("shop", create=True) as shop:
        shop.define(text)
        shop.load("depends", "depends.csv.gz")
        shop.query('based_on("bash", X)').to_pandas()

Modules that need Arrow or Spark are imported where they are used, so that looking at a warehouse is quick.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from viewkeeper.definitions import Definitions, dependents_of
from viewkeeper.engines.choice import Choice, check_engine, choose_engine
from viewkeeper.errors import DataError, InterruptedLate, ProgramError, StoreError, closest, problem
from viewkeeper.language import parse, parse_query, parse_row
from viewkeeper.outcomes import Commit, Loading, Shown, Verified, silent
from viewkeeper.program.ast import Program, Relation
from viewkeeper.program.strata import dependencies, reach
from viewkeeper.state import State, Work
from viewkeeper.store.catalog import Catalog, Definition, Kept
from viewkeeper.store.lock import writer_lock
from viewkeeper.store.rejects import Reading, Rejects, bad_rows, unused_file

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from viewkeeper.answer import Answer
    from viewkeeper.change import Change
    from viewkeeper.engines.interface import Engine
    from viewkeeper.outcomes import Report
    from viewkeeper.why import Why

T = TypeVar("T")

__all__ = ["Commit", "Loading", "Shown", "Verified", "Warehouse"]


class Warehouse:
    """Definitions, base rows and views in a directory. Use ``viewkeeper.open``.

    Several threads may share one: changes are made one after the other, reading goes on meanwhile.
    """

    def __init__(
        self, path: str | Path, spark: SparkSession | str | None = None, engine: str = "auto", hot_rows: int = 20_000_000
    ) -> None:
        """``hot_rows``: a relation that Spark writes and that is larger stays Parquet, the catalog does not hold its rows."""
        check_engine(engine)
        self.path = Path(path)
        self.engine = engine
        self.hot_rows = hot_rows
        self._spark = spark
        self._changes = RLock()
        self._closed = self._changed = False
        # Open catalogs that nobody reads at the moment. Those of a parent process cannot be used.
        self._idle: dict[int, list[Catalog]] = {}
        self._definitions = Definitions(self.path)
        with self._reading():
            pass

    @classmethod
    def create(cls, path: str | Path, exist_ok: bool = False) -> None:
        """An empty warehouse in a new or empty directory; with ``exist_ok`` there may be one already."""
        Catalog.create(Path(path), exist_ok)

    def close(self) -> None:
        self._closed = True
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

    # ---- changing

    def define(self, text: str, name: str = "<text>", engine: str | None = None, report: Report = silent) -> Commit:
        """Adds relations, rules and facts; what is there already may be repeated. Views are computed at once."""
        with self._changing() as change:
            choice = self._choose(engine, change)
            program = parse(text, name, change.program)
            if program == change.program:
                return Commit(None, choice.engine, "nothing new")
            _refuse_views_with_rows(program, change)
            change.catalog.add_definition(change.commit, Definition("define", name, text))
            changed = change.adopt(program)
            change.add_facts(changed - program.derived)
            views = change.above(changed)
            change.recompute(views, choice, report)
            return change.log("define", choice, changed, views)

    def drop(self, name: str) -> Commit:
        """Removes a relation with its rows and rules, or a type, unless something depends on it."""
        with self._changing() as change:
            program = change.program
            if name not in {t.name for t in program.types}:
                self._known(name, program)
            dependents = dependents_of(name, program)
            if dependents:
                raise StoreError(problem("DROP_DEPENDENTS", relation=name, dependents=", ".join(dependents)))
            change.catalog.add_definition(change.commit, Definition("drop", name, ""))
            if name in change.kept:
                change.forget(name)
            return change.log("drop", Choice("embedded", "nothing to compute"), set(), set())

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
    ) -> Commit:
        """Adds rows to a base relation, or to several as one commit: ``load({"a": "a.csv", "b": rows})``.

        All rows or, if one does not fit, none; with ``skip_bad`` those that fit. Rows that are there already change nothing.
        """
        from viewkeeper.sources import Options

        sources = dict(relation) if isinstance(relation, Mapping) else {relation: source}
        options = Options(delimiter, header)
        with self._changing() as change, self._rejects(sources, rejects) as found:
            relations = [self._base(name, change.program) for name in sources]
            choice = self._choose(engine, change, sources.values())
            readings = {name: Reading(name, found) for name in sources}
            inserted = {r.name: change.load(r, sources[r.name], options, readings[r.name], choice, report) for r in relations}
            if found.rows and not skip_bad:
                raise bad_rows(", ".join(sources), found, sum(r.rows for r in readings.values()), found.keep())
            changed = {name for name, rows in inserted.items() if rows}
            views = change.above(changed)
            change.recompute(views, choice, report)
            commit = Commit(None, choice.engine, "every row is there already", inserted=inserted)
            if changed:
                commit = change.log("load", choice, changed, views, inserted)
            return replace(commit, rejected=found.rows, rejects=tuple(found.first), rejects_file=found.keep())

    # ---- asking

    def query(self, text: str, engine: str | None = None, report: Report = silent) -> Answer:
        """The assignments that make a body true: ``based_on("bash", X), !broken(X)``."""
        with self._reading() as state:
            from viewkeeper.answer import Answer
            from viewkeeper.engines.evaluator import evaluate
            from viewkeeper.program.arrow import to_real

            program, relation = self._asked(text, state.program, parse_query)
            work = Work.of(program, {relation.name})
            with state.engine(self._choose(engine, state).engine, work) as runner:
                evaluate(work.core, runner, report)
                return Answer(to_real(runner.read(relation, ordered=True), relation), tuple(c.name for c in relation.columns))

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

    def verify(self, view: str | None = None, engine: str | None = None, report: Report = silent) -> list[Verified]:
        """Recomputes one view or all from the base rows, on either engine, and compares."""
        with self._reading() as state:
            from viewkeeper.engines.evaluator import evaluate

            program = state.program
            if view is not None:
                self._known(view, program)
                if view not in program.derived:
                    raise StoreError(problem("NOT_A_VIEW", relation=view))
            views = program.derived if view is None else {view}
            work = Work.of(program, reach(dependencies(program), set(views)) & program.derived)
            # Nothing of what is stored is used but base rows.
            with state.separate_engine(self._choose(engine, state).engine, work) as runner:
                evaluate(work.core, runner, report)
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
                yield State(self.path, catalog, *self._contents(catalog), self._spark)
        except BaseException:
            catalog.close()
            raise
        if self._closed or catalog.frozen is not None:
            catalog.close()
        else:
            idle.append(catalog)

    @contextmanager
    def _changing(self) -> Iterator[Change]:
        """The warehouse held for one change; everything or nothing."""
        from viewkeeper.change import Change
        from viewkeeper.store.snapshots import remove_leftovers

        self._refuse_closed()
        with self._changes, writer_lock(self.path):
            catalog = Catalog.open(self.path, writable=True)
            try:
                with catalog.transaction():
                    program, kept = self._contents(catalog)
                    remove_leftovers(self.path, kept.values())
                    yield Change(self.path, catalog, program, kept, self._spark, catalog.last_commit() + 1, self.hot_rows)
                self._changed = True
            except BaseException:
                catalog.close()
                raise
            with _late():
                catalog.close()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreError(problem("CLOSED", path=self.path))

    def _contents(self, catalog: Catalog) -> tuple[Program, dict[str, Kept]]:
        program, kept = self._definitions.program(catalog), catalog.relations()
        if program.by_name.keys() != kept.keys():
            raise StoreError(problem("CATALOG_DAMAGED", path=self.path, why="its relations are not those that are defined"))
        return program, kept

    def _asked(self, text: str, program: Program, read: Callable[[str, Program], T]) -> T:
        try:
            return read(text, program)
        except ProgramError:
            if program.relations:
                raise
            raise StoreError(problem("NOTHING_DEFINED", path=self.path)) from None

    def _known(self, name: str, program: Program) -> None:
        if not program.relations:
            raise StoreError(problem("NOTHING_DEFINED", path=self.path))
        if name not in program.by_name:
            raise StoreError(problem("UNKNOWN_RELATION", relation=name, near=closest(name, program.by_name)))

    def _base(self, name: str, program: Program) -> Relation:
        self._known(name, program)
        if name in program.derived:
            raise DataError(problem("BASE_CONFLICT", relation=name))
        return program.relation(name)

    def _choose(self, engine: str | None, state: State, sources: Iterable[Any] = ()) -> Choice:
        rows = sum(kept.rows for kept in state.kept.values())
        files = [Path(source) for source in sources if isinstance(source, (str, Path))]
        size = sum(file.stat().st_size for file in files if file.is_file())
        cold = any(kept.place == "cold" for kept in state.kept.values())
        return choose_engine(engine or self.engine, rows=rows, file_bytes=size, cold=cold, spark_given=self._spark is not None)

    @contextmanager
    def _rejects(self, sources: Mapping[str, Any], file: str | Path | None) -> Iterator[Rejects]:
        """Where bad rows go; nothing is left of them unless they are kept."""
        path = unused_file(self.path / "rejects", "-".join(sources)) if file is None else Path(file)
        found = Rejects(path)
        try:
            yield found
        finally:
            found.discard()


def _refuse_views_with_rows(program: Program, change: Change) -> None:
    """A relation becomes a view with its first rule; only facts, which are rules too, may be in it by then."""
    from viewkeeper.change import facts_of

    for name in program.derived & change.kept.keys() - change.program.derived:
        facts = facts_of(change.program, change.program.relation(name))
        if change.kept[name].rows > sum(batch.num_rows for batch in facts):
            why = f'relation "{name}" holds rows that were loaded and cannot become a view'
            raise StoreError(
                problem("DATA_CONFLICT", why=why, hint="Give the view another name and a rule that reads this one.")
            )


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
    return Shown(relation, kept.kind, kept.rows, _place(kept), rules)


def _place(kept: Kept) -> str:
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
