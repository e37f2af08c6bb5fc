"""Spark as an engine: DataFrames and SQL only, so that it also runs on a cluster and over Spark Connect.

A relation's rows are kept as a few checkpointed chunks, each partitioned by a hash of the whole row. What a step derives is
partitioned the same way, so that finding the new rows moves nothing else; it takes one job. The new rows are one more
chunk, and small chunks are merged now and then, so that neither plans nor copies grow with the number of iterations
(docs/decisions/0005-spark-fixpoint.md).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from viewkeeper.engines.interface import Derivation
from viewkeeper.engines.names import sql_name
from viewkeeper.engines.session import path_to_read
from viewkeeper.engines.spark_dialect import STORAGE, SparkDialect
from viewkeeper.engines.spark_functions import register, spark_errors, used_in
from viewkeeper.engines.sql import Compiler, Reading, Statement
from viewkeeper.program.arrow import PRESENT, batch_of_rows, rows_of_batch, stored_schema
from viewkeeper.program.ast import Atom, Column, Constant, Program, Relation, Rule, Term, atoms_in
from viewkeeper.program.hierarchy import Hierarchy
from viewkeeper.program.safety import is_constant_fact
from viewkeeper.program.types import Kind
from viewkeeper.program.values import Stored, store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
Sized: TypeAlias = "tuple[DataFrame, int]"

# From here on rows go to Spark through a Parquet file rather than as Arrow data.
_BY_FILE = 100_000
# Below this a side of a join is sent to every worker.
_BROADCAST = 20_000
# Above this no hash table is made of a side: it would have to fit into memory. Sorting need not.
_HASHED = 2_000_000
# More chunks than this are merged.
_CHUNKS = 5
# What Spark expects of a join is the product of what it expects of both sides, so in a recursion the digits of these numbers can double
# in each round. Before they have so many bits the rows are written and read again.
_BITS, _MOST_BITS = 64, 1 << 17
_HASH = "$row"


@dataclass
class _Rows:
    """The rows of a relation: ``frame`` has its columns, ``chunks`` the same rows with their hash, each with its size.

    ``bits``: of the number of bytes that Spark expects, at the most.
    """

    frame: DataFrame
    count: int | None
    chunks: list[tuple[DataFrame, int]] = field(default_factory=list)
    delta: int = 0
    bits: int = _BITS

    @property
    def builds_known(self) -> bool:
        """Is it the known rows that a hash table is made of, to find those that are new?"""
        return (self.count or 0) < max(_BROADCAST, 2 * self.delta)


class SparkEngine:
    """Runs core programs on Spark. Relations are DataFrames of stored values, known to SQL as temporary views."""

    name = "spark"

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self.dialect = SparkDialect()
        self._relations: dict[str, Relation] = {}
        self._rows: dict[str, _Rows] = {}
        self._first: set[str] = set()
        self._members: set[str] = set()
        self._clustered: set[str] = set()
        self._registered: set[str] = set()
        self._statements: dict[Derivation, Statement] = {}
        self._directory: Path | None = None
        self._files = 0
        self._round = 0
        self._traces: dict[str, list[tuple[int, DataFrame]]] = {}

    def prepare(self, core: Program) -> None:
        for relation in core.relations:
            if relation.name not in self._relations:
                self._relations[relation.name] = relation
                self._rows[relation.name] = _Rows(self._empty(relation), 0)
                self._show(relation.name)
        self._compiler = Compiler(self._relations, Hierarchy.of(core.types), self.dialect)
        self._statements.clear()

    def close(self) -> None:
        """Forgets all rows; the session stays."""
        for name in self._relations:
            for reading in Reading:
                self.session.catalog.dropTempView(self.dialect.table(name, reading))
        self._rows.clear()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    # ---- rows in and out

    def insert(self, relation: str, rows: Iterable[pa.RecordBatch]) -> int:
        frame, count = self.frame(self._relations[relation], rows)
        return self._add(relation, [frame]) if count else 0

    def attach(self, declared: Relation, path: Path, count: int) -> None:
        """Takes a relation's rows from a snapshot, where they are distinct."""
        read = self._guarded(declared.name, lambda: self.session.read.parquet(path_to_read(path)))
        self.put(declared, read.selectExpr(*_stored_columns(declared)), count)

    def put(self, declared: Relation, frame: DataFrame, count: int | None) -> None:
        """Makes a frame of distinct rows the relation's rows; what was derived from others before stays as it is."""
        self._relations[declared.name] = declared
        self._rows[declared.name] = _Rows(frame, count)
        self._show(declared.name)

    def alter(self, declared: Relation, came: Iterable[pa.RecordBatch], went: Iterable[pa.RecordBatch]) -> None:
        """Adds rows that are not there and removes rows that are."""
        more, less = self.frame(declared, came), self.frame(declared, went)
        held = self._rows[declared.name]
        changed = changed_frame(held.frame, more, less, _columns(declared))
        self.put(declared, changed, None if held.count is None else held.count + more[1] - less[1])

    def frame(self, declared: Relation, rows: Iterable[pa.RecordBatch]) -> Sized:
        """Rows as a frame, with their number."""
        schema = stored_schema(declared.columns)
        table = pa.Table.from_batches([b for b in rows if b.num_rows], schema).rename_columns(_columns(declared))
        return (self._frame(table) if table.num_rows else self._empty(declared)), table.num_rows

    def rows_of(self, relation: str) -> Sized:
        return self._rows[relation].frame, self.count(relation)

    def write(self, declared: Relation, path: Path) -> None:
        """A relation's rows as a snapshot."""
        frame = self._rows[declared.name].frame.selectExpr(*_real_columns(declared))
        writer = frame.write.mode("overwrite").option("compression", "zstd")
        self._guarded(declared.name, lambda: writer.parquet(str(path.absolute())))

    def differences(self, declared: Relation, path: Path) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """The rows that a relation has more than a snapshot, and those it has less."""
        now, columns = self._rows[declared.name].frame, _columns(declared)
        read = self._guarded(declared.name, lambda: self.session.read.parquet(path_to_read(path)))
        then = read.selectExpr(*_stored_columns(declared))
        many = _BROADCAST  # of neither it is known how many there are
        came, went = without(now, (then, many), columns), without(then, (now, many), columns)
        return tuple(  # type: ignore[return-value]
            [row for batch in self.collect(declared, frame) for row in rows_of_batch(batch, len(columns))]
            for frame in (came, went)
        )

    def count(self, relation: str) -> int:
        rows = self._rows[relation]
        if rows.count is None:
            rows.count = self._guarded(relation, rows.frame.count)
        return rows.count

    def read(self, relation: Relation, ordered: bool = False) -> Iterator[pa.RecordBatch]:
        frame = self._rows[relation.name].frame
        if ordered and relation.columns:
            frame = frame.orderBy(*(frame[f"`{name}`"].asc_nulls_first() for name in _columns(relation)))
        return self.collect(relation, frame)

    def collect(self, relation: Relation, frame: DataFrame, count: int = 0) -> Iterator[pa.RecordBatch]:
        """A frame with the relation's columns as rows of stored values; many of them come through a file."""
        schema = stored_schema(relation.columns)
        if count < _BY_FILE or not self._is_local():
            table = self._guarded(relation.name, frame.toArrow)
            return iter(table.rename_columns(schema.names).cast(schema).to_batches(max_chunksize=50_000))
        path = self._new_file()
        self._guarded(relation.name, lambda: frame.write.option("compression", "zstd").parquet(str(path)))
        return self._batches(path, schema)

    def _batches(self, path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for part in sorted(path.glob("*.parquet")):
            with pq.ParquetFile(part) as file:
                for batch in file.iter_batches(50_000):
                    yield from pa.Table.from_batches([batch]).rename_columns(schema.names).cast(schema).to_batches()
        shutil.rmtree(path, ignore_errors=True)

    def _frame(self, table: pa.Table) -> DataFrame:
        if table.num_rows < _BY_FILE or not self._is_local():
            return self.session.createDataFrame(table)
        path = self._new_file()
        pq.write_table(table, path, row_group_size=max(1, table.num_rows // 4))
        return self.session.read.parquet(path_to_read(path))

    def _is_local(self) -> bool:
        """Do the workers see our files?"""
        return (self.session.conf.get("spark.master", "") or "").startswith("local")

    def _new_file(self) -> Path:
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="viewkeeper-"))
        self._files += 1
        return self._directory / f"{self._files}.parquet"

    def _empty(self, relation: Relation) -> DataFrame:
        types = [STORAGE.get(c.type.kind, "BIGINT") for c in relation.columns] or ["BIGINT"]
        columns = [f"CAST(NULL AS {type_}) AS `{name}`" for name, type_ in zip(_columns(relation), types, strict=True)]
        return self.session.sql(f"SELECT {', '.join(columns)} WHERE FALSE")

    def _show(self, relation: str) -> None:
        self._rows[relation].frame.createOrReplaceTempView(self.dialect.table(relation, Reading.ALL))

    # ---- evaluation

    def begin(self, relations: Sequence[str], since: Mapping[str, int] | None = None) -> None:
        assert not since, "there are no marks"
        self._first = set(relations)
        self._members = set(relations)
        self._clustered = set()
        self._round = 0

    def mark(self, relation: str) -> None:
        """Rows are not told apart by when they came: a round takes about as long for all of them."""

    def trace(self, relations: Iterable[str]) -> dict[str, list[tuple[int, DataFrame]]]:
        """Keeps what each round adds to these relations: the number of the round, counted within a stratum, and the new rows."""
        self._traces = {relation: [] for relation in relations}
        return self._traces

    def step(self, derivations: Mapping[str, Sequence[Derivation]]) -> dict[str, int]:
        self._round += 1
        frames = {
            relation: [self._derive(relation, derivation) for derivation in rules if not self._idle(derivation)]
            for relation, rules in derivations.items()
        }
        bits = {relation: max(map(self._bits, rules), default=_BITS) for relation, rules in derivations.items()}
        return {relation: self._add(relation, found, bits[relation]) for relation, found in frames.items()}

    def _bits(self, derivation: Derivation) -> int:
        return sum(self._rows[atom.relation].bits for atom, _ in atoms_in(derivation.rule.body))

    def end(self, relations: Sequence[str]) -> None:
        self._first = set()
        self._members = set()

    def derived(self, rules: Iterable[Rule], head: Relation) -> DataFrame | None:
        """What rules derive, each row as often as it is derived; None if it is certain that this is nothing."""
        self._relations.setdefault(head.name, head)
        facts: list[Rule] = []
        others: list[Rule] = []
        for rule in rules:
            (facts if is_constant_fact(rule) else others).append(rule)
        frames = [self._derive(head.name, Derivation(rule)) for rule in others if not self._idle(Derivation(rule))]
        if facts:
            values = [tuple(map(_stored, f.head.arguments, head.columns)) or (1,) for f in facts]
            frames.append(self.frame(head, [batch_of_rows(values, head)])[0])
        return reduce(lambda left, right: left.unionAll(right), frames) if frames else None

    def use(self, function: str) -> None:
        """Makes one of our functions known to Spark."""
        if function not in self._registered:
            register(self.session, {function})
            self._registered.add(function)

    def kept(self, relation: str, frame: DataFrame) -> Sized:
        """The frame computed now and once, with its size."""
        return self._kept(relation, frame)

    def _idle(self, derivation: Derivation) -> bool:
        """Does the rule read a relation or a delta that has no rows?"""
        atoms = [(i, x) for i, x in enumerate(derivation.rule.body) if isinstance(x, Atom)]
        return any(
            (self._rows[atom.relation].delta if position == derivation.delta else self._rows[atom.relation].count) == 0
            for position, atom in atoms
        )

    def _derive(self, relation: str, derivation: Derivation) -> DataFrame:
        statement = self._statements.get(derivation)
        if statement is None:
            sizes = {name: rows.count for name, rows in self._rows.items() if rows.count is not None}
            statement = self._compiler.rule(derivation.rule, derivation.delta, sizes)
            new = used_in(statement.sql) - self._registered
            register(self.session, new)
            self._registered |= new
            self._statements[derivation] = statement
            if derivation.delta is not None:
                self._cluster(statement)
        sql = self._hinted(statement)
        frame = self._guarded(relation, lambda: self.session.sql(sql, args=dict(statement.parameters)))
        return frame.toDF(*_columns(self._relations[relation]))

    def _cluster(self, statement: Statement) -> None:
        """Partitions what every iteration of the recursion joins with by the columns it is joined on, once."""
        for access in statement.accesses:
            rows = self._rows[access.relation]
            if access.relation in self._members | self._clustered or (rows.count or 0) < _BROADCAST:
                continue
            names = _columns(self._relations[access.relation])
            rows.frame = rows.frame.repartition(*(f"`{names[i]}`" for i in access.columns)).localCheckpoint(False)
            self._clustered.add(access.relation)
            self._show(access.relation)

    def _hinted(self, statement: Statement) -> str:
        """Join hints by the sizes we know: Spark knows none of checkpointed data."""
        sizes = {
            alias: self._rows[name].delta if reading is Reading.DELTA else self.count(name)
            for alias, (name, reading) in statement.aliases.items()
        }
        if len(sizes) < 2:
            return statement.sql
        largest = max(sizes, key=lambda alias: sizes[alias])
        hints = [f"{_hint(size)}({alias})" for alias, size in sizes.items() if alias != largest]
        return statement.sql.replace("SELECT ", f"SELECT /*+ {', '.join(hints)} */ ", 1)

    def _add(self, relation: str, found: list[DataFrame], bits: int = _BITS) -> int:
        """Makes the rows that are new the relation's delta; lineage is cut, one job. ``bits``: of the bytes that Spark expects of them."""
        rows, columns = self._rows[relation], _columns(self._relations[relation])
        if rows.count and not rows.chunks:
            rows.chunks = [self._kept(relation, _keyed(rows.frame, columns))]
        added = 0
        if found:
            candidates = _keyed(reduce(lambda left, right: left.unionAll(right), found), columns)
            new, added = self._kept(relation, _minus(candidates, rows, columns))
            rows.bits = max(rows.bits, bits if rows.builds_known else bits + rows.bits)
        if added and rows.bits > _MOST_BITS:
            new = self._measured(relation, new, added)
            rows.chunks = (
                [(self._measured(relation, _union(rows.chunks), rows.count or 0), rows.count or 0)] if rows.chunks else []
            )
            rows.bits = _BITS
        if added:
            rows.chunks.append((new, added))
            rows.count = (rows.count or 0) + added
            if relation in self._traces:
                self._traces[relation].append((self._round, new.select(*(f"`{name}`" for name in columns))))
            self._merge(relation, rows)
            rows.frame = _union(rows.chunks).select(*(f"`{name}`" for name in columns))
            self._show(relation)
        if relation in self._members:
            first = relation in self._first
            rows.delta = self.count(relation) if first else added
            self._first.discard(relation)
            delta = rows.frame if first else new.select(*(f"`{name}`" for name in columns)) if added else None
            if delta is not None:
                delta.createOrReplaceTempView(self.dialect.table(relation, Reading.DELTA))
        return added

    def _kept(self, relation: str, frame: DataFrame) -> tuple[DataFrame, int]:
        """Materialised, without lineage, with its size; one job."""

        def keep() -> tuple[DataFrame, int]:
            kept = frame.localCheckpoint(False)
            return kept, kept.count()

        return self._guarded(relation, keep)

    def _measured(self, relation: str, frame: DataFrame, count: int) -> DataFrame:
        """The same rows, written and read again: Spark forgets what it expected of them."""
        if count < _BY_FILE or not self._is_local():
            frame = self._frame(self._guarded(relation, frame.toArrow))
        else:
            path, written = self._new_file(), frame.write
            self._guarded(relation, lambda: written.parquet(str(path)))
            frame = self.session.read.parquet(path_to_read(path))
        return self._kept(relation, frame.repartition(f"`{_HASH}`"))[0]

    def _merge(self, relation: str, rows: _Rows) -> None:
        """Merges the tail of the chunks that is not much smaller than what is before it, so that each row is copied a few times only."""
        chunks = rows.chunks
        if len(chunks) <= _CHUNKS:
            return
        start = len(chunks) - 2
        while start > 0 and chunks[start - 1][1] < 4 * sum(size for _, size in chunks[start:]):
            start -= 1
        chunks[start:] = [self._kept(relation, _union(chunks[start:]))]

    def _guarded(self, relation: str, action: Callable[[], T]) -> T:
        with spark_errors(relation):
            return action()


def _hint(rows: int) -> str:
    """How to join with a side of so many rows, if it is the smaller one."""
    return "BROADCAST" if rows < _BROADCAST else "SHUFFLE_HASH" if rows <= _HASHED else "MERGE"


def _keyed(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Distinct rows with the hash they are partitioned by."""
    names = [f"`{name}`" for name in columns]
    hashed = frame.selectExpr(f"xxhash64({', '.join(names)}) AS `{_HASH}`", *names)
    return hashed.repartition(f"`{_HASH}`").dropDuplicates([_HASH, *columns])


def _minus(candidates: DataFrame, rows: _Rows, columns: Sequence[str]) -> DataFrame:
    """Candidates that are not among the rows; NULL equals NULL."""
    from pyspark.sql import functions as F

    if not rows.chunks:
        return candidates
    known = _union(rows.chunks).toDF(*(f"known {name}" for name in (_HASH, *columns)))
    same = F.expr(f"`known {_HASH}` = `{_HASH}`")
    for name in columns:
        same &= F.expr(f"ifnull(`known {name}` = `{name}`, `known {name}` IS NULL AND `{name}` IS NULL)")
    if rows.builds_known:
        return candidates.join(known.hint(_hint(max(_BROADCAST, rows.count or 0))), same, "left_anti")
    # The hash table is built of the candidates, the smaller side by now; an anti-join could only build it of the other.
    joined = known.join(candidates.hint("shuffle_hash"), same, "right_outer")
    return joined.where(f"`known {_HASH}` IS NULL").select(*(f"`{name}`" for name in (_HASH, *columns)))


def changed_frame(frame: DataFrame, came: Sized, went: Sized, columns: Sequence[str]) -> DataFrame:
    """Distinct rows without those that went and with those that came; NULL equals NULL."""
    if went[1]:
        frame = without(frame, went, columns)
    return frame.unionAll(came[0]) if came[1] else frame


def without(frame: DataFrame, rows: Sized, columns: Sequence[str], how: str = "left_anti") -> DataFrame:
    """The rows of a frame that are not among others, or with "left_semi" those that are."""
    from pyspark.sql import functions as F

    others = rows[0].toDF(*(f"known {name}" for name in columns)).hint(_hint(rows[1]))
    same = reduce(lambda a, b: a & b, (F.expr(f"`known {name}` <=> `{name}`") for name in columns))
    return frame.join(others, same, how)


def _stored(argument: Term, column: Column) -> Stored:
    assert isinstance(argument, Constant)
    return store(argument.value, column.type)


def _union(chunks: Sequence[tuple[DataFrame, int]]) -> DataFrame:
    return reduce(lambda left, right: left.unionAll(right), (frame for frame, _ in chunks))


def column_names(relation: Relation) -> list[str]:
    return _columns(relation)


def _columns(relation: Relation) -> list[str]:
    return [sql_name(column.name) for column in relation.columns] or [PRESENT]


def _stored_columns(relation: Relation) -> list[str]:
    """Real types → stored values."""
    forms = {
        Kind.BOOL: "CAST({0} AS BIGINT)",
        Kind.DATE: "CAST(unix_date({0}) AS BIGINT)",
        Kind.TIMESTAMP: "unix_micros({0})",
        Kind.DECIMAL: "CAST({0} * CAST({power} AS DECIMAL(19, 0)) AS BIGINT)",
    }
    return [
        forms.get(c.type.kind, "{0}").format(f"`{c.name}`", power=10**c.type.scale) + f" AS `{sql_name(c.name)}`"
        for c in relation.columns
    ] or [f"CAST({PRESENT} AS BIGINT) AS {PRESENT}"]


def _real_columns(relation: Relation) -> list[str]:
    """Stored values → real types."""
    forms = {
        Kind.BOOL: "CAST({0} AS BOOLEAN)",
        Kind.DATE: "date_from_unix_date(CAST({0} AS INT))",
        Kind.TIMESTAMP: "timestamp_micros({0})",
        Kind.DECIMAL: "CAST(concat(CAST({0} AS STRING), 'e-{scale}') AS DECIMAL({precision}, {scale}))",
    }
    return [
        forms.get(c.type.kind, "{0}").format(f"`{sql_name(c.name)}`", scale=c.type.scale, precision=c.type.precision)
        + f" AS `{c.name}`"
        for c in relation.columns
    ] or [f"CAST({PRESENT} AS BOOLEAN) AS {PRESENT}"]
