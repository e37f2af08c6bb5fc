"""Where rows to load can come from: files by their ending, Arrow, pandas and Spark data, plain Python rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from viewkeeper.errors import DataError, problem
from viewkeeper.program.arrow import batch_of_rows
from viewkeeper.program.ast import Relation
from viewkeeper.program.types import Kind, Type
from viewkeeper.program.values import BadValue, Stored, store, text_parser
from viewkeeper.store.delimited import Format, Reading, opened, read_delimited
from viewkeeper.store.rejects import Reject

BATCH = 50_000
Report = Callable[[int], None]


@dataclass(frozen=True)
class Options:
    """How to read a delimited file where its ending does not say it."""

    delimiter: str | None = None
    header: bool | None = None

    def applied(self, form: Format) -> Format:
        if self.delimiter is not None:
            form = replace(form, delimiter=self.delimiter)
        return form if self.header is None else replace(form, header=self.header)


def read_source(source: Any, relation: Relation, options: Options, reading: Reading) -> Iterator[pa.RecordBatch]:
    """The source's rows as stored values; what does not fit goes to ``reading.rejects``."""
    if isinstance(source, (str, Path)):
        return _file(Path(source), relation, options, reading)
    if hasattr(source, "toArrow"):  # a Spark DataFrame
        source = source.toArrow()
    if hasattr(source, "__arrow_c_stream__"):
        table = pa.RecordBatchReader.from_stream(source).read_all()
        return _records(_table_rows(table, relation), relation, reading)
    if isinstance(source, Iterable):
        return _records(enumerate(source, 1), relation, reading)
    raise DataError(
        problem("DATA_CONFLICT", why=f"rows cannot be loaded from a {type(source).__name__}", hint="Give a path, an Arrow table, a data frame or rows.")
    )


def _file(path: Path, relation: Relation, options: Options, reading: Reading) -> Iterator[pa.RecordBatch]:
    name = path.name.removesuffix(".gz").lower()
    if name.endswith(".parquet") or path.is_dir():
        return _records(_table_rows(_parquet(path), relation), relation, reading)
    if name.endswith((".jsonl", ".ndjson")):
        return _records(_json_rows(path, relation, reading), relation, reading)
    return read_delimited(path, relation, options.applied(Format.of_path(path)), reading)


def _parquet(path: Path) -> pa.Table:
    try:
        return ds.dataset(path, format="parquet").to_table()
    except (OSError, pa.ArrowException) as error:
        raise DataError(problem("BAD_FILE", file=path, why=str(error).splitlines()[0], hint="Check that it is Parquet.")) from None


def _table_rows(table: pa.Table, relation: Relation) -> Iterator[tuple[int, Sequence[object]]]:
    """By column names where they are the relation's, else by position."""
    names = [column.name for column in relation.columns]
    if table.num_columns != len(names):
        raise DataError(
            problem(
                "DATA_CONFLICT",
                why=f'relation "{relation.name}" has {len(names)} columns, the data has {table.num_columns}',
                hint=f"The columns are ({', '.join(names)}).",
            )
        )
    if sorted(names) == sorted(table.column_names):
        table = table.select(names)
    number = 0
    for batch in table.to_batches(max_chunksize=BATCH):
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            number += 1
            yield number, row


def _json_rows(path: Path, relation: Relation, reading: Reading) -> Iterator[tuple[int, Sequence[object]]]:
    names = [column.name for column in relation.columns]
    with opened(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except ValueError as error:
                reading.rows += 1
                reading.rejects.append(Reject(relation.name, number, "", line.strip(), f"is not JSON: {error}"))
                continue
            if isinstance(value, dict):
                unknown = [key for key in value if key not in names]
                if unknown:
                    reading.rows += 1
                    reading.rejects.append(Reject(relation.name, number, unknown[0], line.strip(), "is not a column"))
                    continue
                value = [value.get(name) for name in names]
            yield number, value if isinstance(value, list) else [value]


def _records(rows: Iterable[tuple[int, Any]], relation: Relation, reading: Reading) -> Iterator[pa.RecordBatch]:
    """Python values → stored values. Texts are accepted for dates, timestamps, decimals and bytes, as in files."""
    chunk: list[tuple[Stored, ...]] = []
    for number, row in rows:
        reading.rows += 1
        stored = _row(number, row, relation, reading)
        if stored is not None:
            chunk.append(stored)
        if len(chunk) == BATCH:
            yield batch_of_rows(chunk, relation)
            chunk = []
    if chunk:
        yield batch_of_rows(chunk, relation)


def _row(number: int, row: Any, relation: Relation, reading: Reading) -> tuple[Stored, ...] | None:
    if isinstance(row, (str, bytes)) or not isinstance(row, Iterable):
        row = (row,)
    values = tuple(row)
    if len(values) != relation.arity:
        reason = f"has {len(values)} fields, not {relation.arity}"
        reading.rejects.append(Reject(relation.name, number, "", str(values), reason))
        return None
    stored: list[Stored] = []
    good = True
    for value, column in zip(values, relation.columns, strict=True):
        try:
            stored.append(_store(value, column.type))
        except BadValue as error:
            reading.rejects.append(Reject(relation.name, number, column.name, str(value), str(error)))
            good = False
    return (tuple(stored) or (1,)) if good else None


def _store(value: object, type_: Type) -> Stored:
    if isinstance(value, str) and type_.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.DECIMAL, Kind.BYTES):
        return text_parser(type_)(value)
    return store(value, type_)

