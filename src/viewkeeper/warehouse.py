"""The façade: a warehouse is a directory with definitions, base rows and views that always fit them.

    with viewkeeper.open("shop", create=True) as shop:
        shop.define(text)
        shop.load("depends", "depends.csv.gz")
        shop.query('based_on("bash", X)').to_pandas()
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from viewkeeper.answer import Answer
from viewkeeper.engines.choice import Choice, choose_engine
from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.engines.evaluator import Progress, evaluate
from viewkeeper.engines.interface import Engine
from viewkeeper.engines.names import sql_name
from viewkeeper.errors import DataError, StoreError, closest, problem
from viewkeeper.language import parse, parse_query
from viewkeeper.program.arrow import to_real
from viewkeeper.program.ast import Program, Relation, Rule
from viewkeeper.program.printing import print_relation, print_rule
from viewkeeper.program.strata import dependencies, reach
from viewkeeper.rewrite.passes import normalise
from viewkeeper.sources import Options, read_source
from viewkeeper.store.catalog import Catalog, Definition, Kept, translated
from viewkeeper.store.delimited import Reading
from viewkeeper.store.lock import writer_lock
from viewkeeper.store.rejects import Reject, bad_rows, write_rejects
from viewkeeper.store.snapshots import count_snapshot, read_snapshot, remove_leftovers, snapshot_path, write_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EngineName = str


@dataclass(frozen=True)
class Loading:
    """Where a load is."""

    relation: str
    rows: int


Report = Callable[[Progress | Loading], None]


def _silent(progress: object) -> None:
    pass


@dataclass(frozen=True)
class Commit:
    """What a change of the warehouse did. ``number`` is None where nothing had to be changed."""

    number: int | None
    engine: str
    reason: str
    seconds: float
    rows: dict[str, int] = field(default_factory=dict)
    inserted: dict[str, int] = field(default_factory=dict)
    rejects: tuple[Reject, ...] = ()
    rejects_file: Path | None = None


@dataclass(frozen=True)
class Shown:
    """A relation as ``show`` tells it."""

    relation: Relation
    kind: str
    rows: int
    place: str
    rules: tuple[Rule, ...]

    @property
    def declaration(self) -> str:
        return "\n".join([print_relation(self.relation), *map(print_rule, self.rules)])


@dataclass(frozen=True)
class Verified:
    """A view compared with its recomputation: rows missing from it and rows it should not have."""

    view: str
    rows: int
    missing: pa.Table
    surplus: pa.Table

    @property
    def right(self) -> bool:
        return not len(self.missing) and not len(self.surplus)


class Warehouse:
    """Definitions, base rows and views in a directory. Use ``viewkeeper.open``."""

    def __init__(
        self,
        path: str | Path,
        spark: SparkSession | str | None = None,
        engine: EngineName = "auto",
        hot_rows: int = 20_000_000,
    ) -> None:
        """``hot_rows``: a relation that Spark writes and that is larger stays Parquet, the catalog does not hold its rows."""
        self.path = Path(path)
        self.hot_rows = hot_rows
        self.engine = engine
        self._spark = spark
        self._mutex = RLock()
        self._reader = Catalog.open(self.path, writable=False)
        self._folded: tuple[int, Program] = (0, Program())
        try:
            with self._reader.snapshot():
                self._program(self._reader)
        except BaseException:
            self._reader.close()
            raise

    @classmethod
    def create(cls, path: str | Path) -> None:
        """An empty warehouse in a new or empty directory."""
        directory = Path(path)
        if directory.exists() and (not directory.is_dir() or any(_visible(directory))):
            hint = "It is a warehouse already." if (directory / "catalog.db").exists() else "Choose a new or empty directory."
            raise StoreError(problem("PATH_EXISTS", path=path, hint=hint))
        with translated(directory):
            directory.mkdir(parents=True, exist_ok=True)
        Catalog.create(directory)

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Warehouse:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    @property
    def program(self) -> Program:
        """All that is defined now."""
        with self._mutex, self._reader.snapshot():
            return self._program(self._reader)

    # ---- changing

    def define(self, text: str, name: str = "<text>", engine: EngineName | None = None, report: Report = _silent) -> Commit:
        """Adds relations, rules and facts; what is there already may be repeated. Views are computed at once."""
        with self._writing() as writing:
            program = parse(text, name, writing.program)
            self._refuse_new_views_with_rows(program, writing)
            if program == writing.program:
                return Commit(None, "", "nothing new", 0.0)
            writing.catalog.add_definition(writing.commit, Definition("define", name, text))
            new = writing.adopt(program)
            changed = new | {name for name in program.by_name if _rules(program, name) != _rules(writing.before, name)}
            return self._complete(writing, "define", changed, engine, report, facts=True)

    def drop(self, relation: str, report: Report = _silent) -> Commit:
        """Removes a relation with its rows and rules, unless something depends on it."""
        with self._writing() as writing:
            self._known(relation, writing.program)
            dependents = sorted(
                name for name, reads in dependencies(writing.program).items() if relation in reads and name != relation
            )
            if dependents:
                raise StoreError(problem("DROP_DEPENDENTS", relation=relation, dependents=", ".join(dependents)))
            writing.catalog.add_definition(writing.commit, Definition("drop", relation, ""))
            writing.forget(relation)
            return self._complete(writing, "drop", set(), None, report)

    def load(
        self,
        relation: str | Mapping[str, Any],
        source: Any = None,
        *,
        delimiter: str | None = None,
        header: bool | None = None,
        skip_bad: bool = False,
        rejects: str | Path | None = None,
        engine: EngineName | None = None,
        report: Report = _silent,
    ) -> Commit:
        """Adds rows to a base relation, or to several as one commit: ``load({"a": "a.csv", "b": rows})``.

        All rows or, if one does not fit, none; with ``skip_bad`` those that fit. Rows that are there already change nothing.
        """
        sources = dict(relation) if isinstance(relation, Mapping) else {relation: source}
        options = Options(delimiter, header)
        with self._writing() as writing:
            for name in sources:
                self._known(name, writing.program)
                if name in writing.program.derived:
                    raise DataError(problem("BASE_CONFLICT", relation=name))
            choice = self._choose(engine, writing, [s for s in sources.values() if isinstance(s, (str, Path))])
            found: list[Reject] = []
            total = 0
            inserted: dict[str, int] = {}
            for name, given in sources.items():
                reading = Reading()
                inserted[name] = self._load_one(writing, choice, name, given, options, reading, report)
                found += reading.rejects
                total += reading.rows
            file = self._keep_rejects(found, rejects) if found else None
            if found and not skip_bad:
                raise bad_rows(", ".join(sources), found, total, file)
            changed = {name for name, rows in inserted.items() if rows}
            if not changed:
                return Commit(None, choice.engine, "every row is there already", 0.0, {}, inserted, tuple(found), file)
            commit = self._complete(writing, "load", changed, choice.engine, report, inserted=inserted)
            return replace(commit, inserted=inserted, rejects=tuple(found), rejects_file=file, reason=choice.reason)

    # ---- asking

    def query(self, text: str, engine: EngineName | None = None, report: Report = _silent) -> Answer:
        """The assignments that make a body true: ``based_on("bash", X), !broken(X)``."""
        with self._mutex, self._reader.snapshot():
            program, relation = parse_query(text, self._program(self._reader))
            core = normalise(program)
            kept = self._reader.relations()
            choice = self._choose(engine, _Reading(self._reader, program, kept), [])
            runner = self._runner(choice, self._reader, core, kept, {relation.name})
            try:
                wanted = {relation.name, *_helpers(core, program, {relation.name})}
                evaluate(core, runner, report, only=wanted)
                return Answer(to_real(runner.read(relation, ordered=True), relation), tuple(c.name for c in relation.columns))
            finally:
                self._release(runner, core, program)

    def show(self, relation: str | None = None) -> list[Shown]:
        """What is defined: relations, their kind, rows, and where they are kept."""
        with self._mutex, self._reader.snapshot():
            program, kept = self._program(self._reader), self._reader.relations()
            if relation is not None:
                self._known(relation, program)
            return [
                Shown(r, kept[r.name].kind, kept[r.name].rows, _place(kept[r.name]), tuple(_rules(program, r.name)))
                for r in program.relations
                if relation in (None, r.name)
            ]

    def verify(self, view: str | None = None, engine: EngineName | None = None, report: Report = _silent) -> list[Verified]:
        """Recomputes one view or all from the base rows, on either engine, and compares."""
        with self._mutex, self._reader.snapshot():
            program, kept = self._program(self._reader), self._reader.relations()
            if view is not None:
                self._known(view, program)
            views = sorted(program.derived if view is None else {view} & program.derived)
            core = normalise(program)
            choice = self._choose(engine, _Reading(self._reader, program, kept), [])
            needed = reach(dependencies(core), set(views))
            # A private engine: nothing of what is stored is used but base rows.
            runner = self._runner(choice, None, core, kept, set())
            try:
                for name in needed & set(program.by_name) - program.derived:
                    runner.insert(name, self._rows(self._reader, kept, program.relation(name)))
                evaluate(core, runner, report, only=needed - (set(program.by_name) - program.derived))
                return [self._compare(runner, kept, program.relation(name)) for name in views]
            finally:
                runner.close()

    def _compare(self, runner: Engine, kept: Mapping[str, Kept], relation: Relation) -> Verified:
        fresh = to_real(runner.read(relation), relation)
        held = to_real(self._rows(self._reader, kept, relation), relation)
        if fresh.num_columns:
            keys = fresh.column_names
            missing, surplus = _difference(fresh, held, keys), _difference(held, fresh, keys)
        else:
            missing, surplus = fresh.slice(held.num_rows), held.slice(fresh.num_rows)
        return Verified(relation.name, held.num_rows, missing, surplus)

    # ---- definitions

    def _program(self, catalog: Catalog) -> Program:
        """What the catalog's definitions amount to; folded anew only when there are more of them."""
        definitions = catalog.definitions()
        count, program = self._folded
        if len(definitions) < count:
            count, program = 0, Program()
        for definition in definitions[count:]:
            if definition.kind == "define":
                program = parse(definition.text, definition.name, program)
            else:
                program = _without(program, definition.name)
        self._folded = (len(definitions), program)
        return program

    def _known(self, name: str, program: Program) -> None:
        if name not in program.by_name:
            near = closest(name, program.by_name)
            raise StoreError(problem("UNKNOWN_RELATION", relation=name, near=near))

    def _refuse_new_views_with_rows(self, program: Program, writing: _Writing) -> None:
        for name in program.derived - writing.program.derived:
            if name in writing.kept and writing.kept[name].rows:
                why = f'relation "{name}" holds rows that were loaded and cannot become a view'
                raise StoreError(problem("DATA_CONFLICT", why=why, hint="Give the view another name and a rule that reads this one."))

    # ---- committing

    @contextmanager
    def _writing(self) -> Iterator[_Writing]:
        """The warehouse held for one change; everything or nothing."""
        with self._mutex, writer_lock(self.path):
            catalog = Catalog.open(self.path, writable=True)
            try:
                with catalog.transaction():
                    kept = catalog.relations()
                    remove_leftovers(self.path, kept.values())
                    program = self._program(catalog)
                    yield _Writing(catalog, program, kept, catalog.last_commit() + 1)
            except BaseException:
                self._folded = (0, Program())  # may hold what was rolled back
                raise
            finally:
                catalog.close()

    def _complete(
        self,
        writing: _Writing,
        kind: str,
        changed: set[str],
        engine: EngineName | None,
        report: Report,
        facts: bool = False,
        inserted: Mapping[str, int] | None = None,
    ) -> Commit:
        """Recomputes the views above what changed, and writes the commit."""
        program, catalog = writing.program, writing.catalog
        core = normalise(program)
        above = {name for name in program.derived if reach(dependencies(program), {name}) & changed}
        choice = self._choose(engine, writing, [])
        if facts:
            self._insert_facts(writing, core, changed)
        if above:
            self._recompute(writing, core, above, choice, report)
        for name in sorted(changed | above):
            kept = writing.kept[name]
            form = "recomputed" if name in above else "rows"
            catalog.add_change(writing.commit, name, (inserted or {}).get(name, kept.rows), None, form)
        seconds = time.monotonic() - writing.started
        detail = {"reason": choice.reason, "changed": sorted(changed), "recomputed": sorted(above)}
        catalog.add_commit(writing.commit, kind, choice.engine, seconds, detail)
        rows = {name: writing.kept[name].rows for name in sorted(changed | above)}
        return Commit(writing.commit, choice.engine, choice.reason, seconds, rows)

    def _insert_facts(self, writing: _Writing, core: Program, changed: set[str]) -> None:
        """Facts of base relations are rows; facts of views are rules."""
        base = changed - writing.program.derived
        engine = EmbeddedEngine(writing.catalog.connection, writing.program.by_name)
        engine.prepare(core)
        evaluate(core, engine, only=base)
        for name in base:
            writing.update(name, rows=engine.count(name))

    def _recompute(self, writing: _Writing, core: Program, above: set[str], choice: Choice, report: Report) -> None:
        program, catalog, kept = writing.program, writing.catalog, writing.kept
        for name in above:
            writing.empty(name)
        runner = self._runner(choice, catalog, core, kept, above)
        wanted = above | _helpers(core, program, above)
        try:
            evaluate(core, runner, report, only=wanted)
            for name in sorted(above):
                self._keep(writing, runner, program.relation(name), report)
        finally:
            self._release(runner, core, program)

    def _keep(self, writing: _Writing, runner: Engine, relation: Relation, report: Report) -> None:
        """Where a recomputed view's rows stay: the embedded engine wrote them where they belong, Spark's go through Parquet."""
        rows = runner.count(relation.name)
        if isinstance(runner, EmbeddedEngine):
            writing.update(relation.name, rows=rows, place="hot")
            return
        from viewkeeper.engines.spark import SparkEngine

        assert isinstance(runner, SparkEngine)
        path = snapshot_path(self.path, relation.name, writing.commit)
        runner.write(relation, path)
        if rows <= self.hot_rows:
            writing.ingest(relation, read_snapshot(path, relation))
        place = "hot" if rows <= self.hot_rows else "cold"
        writing.update(relation.name, rows=rows, place=place, snapshot=writing.commit)

    # ---- loading

    def _load_one(
        self, writing: _Writing, choice: Choice, name: str, source: Any, options: Options, reading: Reading, report: Report
    ) -> int:
        relation = writing.program.relation(name)
        kept = writing.kept[name]
        if choice.engine == "spark" and isinstance(source, (str, Path)):
            added = self._load_by_spark(writing, relation, Path(source), options, reading)
            if added is not None:
                return added
        batches = read_source(source, relation, options, reading)
        rows = 0

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal rows
            for batch in batches:
                rows += batch.num_rows
                report(Loading(name, rows))
                yield batch

        if kept.place == "cold":
            return self._add_to_cold(writing, relation, counted())
        added = writing.ingest(relation, counted())
        writing.update(name, rows=kept.rows + added)
        return added

    def _add_to_cold(self, writing: _Writing, relation: Relation, batches: Iterable[pa.RecordBatch]) -> int:
        """A new snapshot with the old rows and the new ones."""
        engine = EmbeddedEngine.private()
        try:
            engine.prepare(Program(relations=(relation,)))
            engine.insert(relation.name, self._rows(writing.catalog, writing.kept, relation))
            added = engine.insert(relation.name, batches)
            if added:
                path = snapshot_path(self.path, relation.name, writing.commit)
                rows = write_snapshot(path, relation, engine.read(relation))
                writing.update(relation.name, rows=rows, snapshot=writing.commit)
            return added
        finally:
            engine.close()

    def _load_by_spark(
        self, writing: _Writing, relation: Relation, source: Path, options: Options, reading: Reading
    ) -> int | None:
        """Through a snapshot that Spark writes; None if the file must be read row by row, to say what is wrong with it.

        A relation that starts beyond ``hot_rows`` stays a snapshot only, and so does what is added to it.
        """
        from viewkeeper.bulk import load_with_spark
        from viewkeeper.engines.session import our_session

        kept = writing.kept[relation.name]
        cold = kept.place == "cold"
        existing = snapshot_path(self.path, relation.name, kept.snapshot) if cold and kept.snapshot else None
        path = snapshot_path(self.path, relation.name, writing.commit)
        read = load_with_spark(our_session(self._spark), source, relation, options, path, existing)
        if read is None:
            return None
        reading.rows = read
        distinct = count_snapshot(path)
        if cold and distinct == kept.rows:
            return 0
        if cold or (not kept.rows and distinct > self.hot_rows):
            writing.update(relation.name, rows=distinct, place="cold", snapshot=writing.commit)
            return distinct - kept.rows
        added = writing.ingest(relation, read_snapshot(path, relation))
        if added:
            complete = not kept.rows
            writing.update(relation.name, rows=kept.rows + added, snapshot=writing.commit if complete else None)
        return added

    def _keep_rejects(self, found: list[Reject], file: str | Path | None) -> Path:
        if file is None:
            directory = self.path / "rejects"
            directory.mkdir(exist_ok=True)
            path = directory / f"{found[0].relation}-{time.strftime('%Y%m%d-%H%M%S')}.csv"
        else:
            path = Path(file)
        write_rejects(path, found)
        return path

    # ---- engines

    def _choose(self, engine: EngineName | None, state: _Reading | _Writing, files: list[Any]) -> Choice:
        rows = sum(k.rows for k in state.kept.values())
        size = sum(Path(f).stat().st_size for f in files if Path(f).is_file())
        cold = any(k.place == "cold" for k in state.kept.values())
        return choose_engine(engine or self.engine, rows=rows, file_bytes=size, cold=cold, spark_given=self._spark is not None)

    def _runner(
        self, choice: Choice, catalog: Catalog | None, core: Program, kept: Mapping[str, Kept], fresh: set[str]
    ) -> Engine:
        """An engine that holds what the catalog holds, ``fresh`` relations empty; without a catalog, one that holds nothing."""
        if choice.engine == "embedded":
            if catalog is None:
                private = EmbeddedEngine.private()
                private.prepare(core)
                return private
            hot = {k.name for k in kept.values() if k.place == "hot"}
            runner = EmbeddedEngine(catalog.connection, hot, may_change=catalog.writable)
            runner.prepare(core)
            for k in kept.values():
                if k.place == "cold" and k.name not in fresh:
                    runner.insert(k.name, self._rows(catalog, kept, core.relation(k.name)))
            return runner
        from viewkeeper.engines.session import our_session
        from viewkeeper.engines.spark import SparkEngine

        spark = SparkEngine(our_session(self._spark))
        spark.prepare(core)
        if catalog is not None:
            read = reach(dependencies(core), fresh) | _readable(core, fresh)
            for k in kept.values():
                if k.name in read and k.name not in fresh and k.rows:
                    self._give(spark, catalog, kept, core.relation(k.name))
        return spark

    def _give(self, spark: Any, catalog: Catalog, kept: Mapping[str, Kept], relation: Relation) -> None:
        k = kept[relation.name]
        if k.snapshot is not None and k.snapshot >= k.changed:
            spark.attach(relation, snapshot_path(self.path, relation.name, k.snapshot), k.rows)
        else:
            spark.insert(relation.name, self._rows(catalog, kept, relation))

    def _release(self, runner: Engine, core: Program, program: Program) -> None:
        if isinstance(runner, EmbeddedEngine):
            runner.drop_temporary()
        else:
            runner.close()

    def _rows(self, catalog: Catalog, kept: Mapping[str, Kept], relation: Relation) -> Iterable[pa.RecordBatch]:
        k = kept[relation.name]
        if k.place == "cold":
            assert k.snapshot is not None
            return read_snapshot(snapshot_path(self.path, relation.name, k.snapshot), relation)
        engine = EmbeddedEngine(catalog.connection, {relation.name}, may_change=False)
        return engine.read(relation)


@dataclass
class _Reading:
    catalog: Catalog
    program: Program
    kept: dict[str, Kept]


@dataclass
class _Writing:
    """One change under way."""

    catalog: Catalog
    program: Program
    kept: dict[str, Kept]
    commit: int

    def __post_init__(self) -> None:
        self.before = self.program
        self.started = time.monotonic()

    def adopt(self, program: Program) -> set[str]:
        """Takes over a grown program: tables for what is new. Returns the new relations."""
        new = {name for name in program.by_name if name not in self.kept}
        for relation in program.relations:
            kind = "view" if relation.name in program.derived else "base"
            if relation.name in new:
                self.update_kept(Kept(relation.name, kind, 0, "hot", self.commit, None))
            elif self.kept[relation.name].kind != kind:
                self.update_kept(replace(self.kept[relation.name], kind=kind))
        self.program = program
        self._engine().prepare(Program(program.types, program.relations))
        return new

    def forget(self, name: str) -> None:
        self.catalog.connection.execute(f'DROP TABLE IF EXISTS main."{sql_name(name)}"')
        self.catalog.remove_relation(name)
        del self.kept[name]
        self.program = _without(self.program, name)

    def ingest(self, relation: Relation, batches: Iterable[pa.RecordBatch]) -> int:
        return self._engine().insert_into(relation, batches)

    def empty(self, name: str) -> None:
        self._engine().clear(name)
        self.update(name, rows=0, place="hot")

    def update(self, name: str, **what: Any) -> None:
        what.setdefault("snapshot", None)
        self.update_kept(replace(self.kept[name], changed=self.commit, **what))

    def update_kept(self, kept: Kept) -> None:
        self.kept[kept.name] = kept
        self.catalog.put_relation(kept)

    def _engine(self) -> EmbeddedEngine:
        return EmbeddedEngine(self.catalog.connection, self.kept)


def _rules(program: Program, name: str) -> list[Rule]:
    return [rule for rule in program.rules if rule.head.relation == name]


def _helpers(core: Program, program: Program, names: set[str]) -> set[str]:
    """Relations that normalising added and that these ones need: they are not stored."""
    own = set(program.by_name)
    return reach(dependencies(core), names) - own


def _readable(core: Program, fresh: set[str]) -> set[str]:
    return {name for name in reach(dependencies(core), fresh)}


def _without(program: Program, name: str) -> Program:
    return replace(
        program,
        relations=tuple(r for r in program.relations if r.name != name),
        directives=tuple(d for d in program.directives if d.relation != name),
        rules=tuple(r for r in program.rules if r.head.relation != name),
    )


def _difference(left: pa.Table, right: pa.Table, keys: list[str]) -> pa.Table:
    """Rows of left that are not in right; NULL equals NULL."""
    held = set(zip(*(c.to_pylist() for c in right.columns), strict=True))
    mask = [row not in held for row in zip(*(c.to_pylist() for c in left.columns), strict=True)]
    return left.filter(pa.array(mask, pa.bool_()))


def _place(kept: Kept) -> str:
    parts = ["catalog" if kept.place == "hot" else ""]
    if kept.snapshot is not None:
        parts.append(f"snapshot of commit {kept.snapshot}")
    return " and ".join(part for part in parts if part)


def _visible(directory: Path) -> Iterable[Path]:
    return (p for p in directory.iterdir() if not p.name.startswith("catalog.db.partial"))
