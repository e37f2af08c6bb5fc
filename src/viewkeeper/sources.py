"""Where rows to load can come from: files by their ending, Arrow, pandas and Spark data, plain Python rows."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewkeeper.errors import DataError, counted, problem
from viewkeeper.program.arrow import batch_of_rows, rows_of_batch
from viewkeeper.program.ast import Relation
from viewkeeper.program.types import Kind, Type
from viewkeeper.program.values import BadValue, Stored, plain_check, store, store_dates, store_decimals, text_parser
from viewkeeper.store.delimited import BATCH, Format, opened, read_delimited
from viewkeeper.store.rejects import Reading

if TYPE_CHECKING:
    import pyarrow as pa

NumberedRow = tuple[int, Any]

# About how long a row of a file is, and how much shorter packed.
_BYTES, _PACKED = 40, 5
# So many rows of a list are converted by column.
_MANY = 100
_READ_FROM_TEXT = (Kind.DATE, Kind.TIMESTAMP, Kind.DECIMAL, Kind.BYTES)


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
    if is_file(source):
        return _file(Path(source), relation, options, reading)
    if hasattr(source, "toArrow") or hasattr(source, "__arrow_c_stream__"):
        return _converted(_arrow(source, relation), relation, reading)
    if isinstance(source, Iterable) and not isinstance(source, (bytes, Mapping)):
        return _converted(_iterated(source, relation), relation, reading)
    why = f"rows cannot be loaded from a {type(source).__name__}"
    raise DataError(problem("DATA_CONFLICT", why=why, hint="Give a path, an Arrow table, a data frame or rows."))


def is_file(source: Any) -> bool:
    return isinstance(source, (str, Path))


def has_column(source: Any, relation: Relation, options: Options) -> bool:
    """Does the source have the last column of a relation, as far as it tells: by names, or by the length of its first row?"""
    last, width = relation.columns[-1].name, relation.arity
    if is_file(source):
        return last in _names_in_file(Path(source), relation, options)
    names = getattr(getattr(source, "schema", None), "names", None) or getattr(source, "columns", None)
    if names is not None:
        return last in list(names)
    first = source[0] if isinstance(source, (list, tuple)) and source else ()
    return last in first if isinstance(first, Mapping) else isinstance(first, (list, tuple)) and len(first) == width


def _names_in_file(path: Path, relation: Relation, options: Options) -> Sequence[str]:
    name = path.name.removesuffix(".gz").lower()
    if name.endswith(".parquet") or path.is_dir():
        import pyarrow.dataset as ds

        return list(ds.dataset(path, format="parquet").schema.names)
    if name.endswith((".jsonl", ".ndjson")):
        with opened(path) as file:
            first = json.loads(file.readline() or "null")
        return list(first) if isinstance(first, Mapping) else []
    form = options.applied(Format.of_path(path))
    if form.header is False:
        return []
    with opened(path) as file:
        return [text.strip().strip('"') for text in file.readline().strip().split(form.delimiter)]


def about_rows(source: Any) -> int:
    """About how many rows a source has; 0 if it does not tell."""
    if is_file(source):
        path = Path(source)
        size = path.stat().st_size if path.is_file() else 0
        return -(-size * (_PACKED if path.suffix in (".gz", ".parquet") else 1) // _BYTES)
    number = getattr(source, "num_rows", None)
    return int(number) if number is not None else len(source) if hasattr(source, "__len__") else 0


def read_rows(source: Any, relation: Relation, reading: Reading) -> list[tuple[Stored, ...]]:
    """The rows of data in memory as stored values."""
    if isinstance(source, (list, tuple)):
        reading.rows += len(source)
        plain = _by_column(source, relation) if len(source) > _MANY else None
        if plain is not None:
            return plain
        convert = _converter(relation, reading)
        found = [convert(number, row) for number, row in enumerate(source, 1)]
        return [row for row in found if row is not None]
    if is_file(source):
        why = f"rows to change are given as data, not as a {type(source).__name__}"
        raise DataError(problem("DATA_CONFLICT", why=why, hint="Load files with load; or commit a file of operations."))
    width = max(1, relation.arity)
    return [row for batch in read_source(source, relation, Options(), reading) for row in rows_of_batch(batch, width)]


def taken(source: Any, relation: str) -> Any:
    """Data that can be read twice: rows that are handed out only once are taken now."""
    with _told(relation):
        return list(source) if hasattr(source, "__next__") else source


# ---- where rows come from


def _file(path: Path, relation: Relation, options: Options, reading: Reading) -> Iterator[pa.RecordBatch]:
    name = path.name.removesuffix(".gz").lower()
    if name.endswith(".parquet") or path.is_dir():
        return _converted(_parquet(path, relation), relation, reading)
    if name.endswith((".jsonl", ".ndjson")):
        return _converted(_json_lines(path, reading), relation, reading)
    return read_delimited(path, relation, options.applied(Format.of_path(path)), reading)


def _parquet(path: Path, relation: Relation) -> Iterator[NumberedRow]:
    import pyarrow as pa
    import pyarrow.dataset as ds

    try:
        dataset = ds.dataset(path, format="parquet")
        yield from _table_rows(dataset.schema.names, dataset.to_batches(batch_size=BATCH), relation)
    except (OSError, pa.ArrowException) as error:
        why = str(error).splitlines()[0]
        raise DataError(problem("BAD_FILE", file=path, why=why, hint="Check that it is Parquet.")) from None


def _arrow(source: Any, relation: Relation) -> Iterator[NumberedRow]:
    import pyarrow as pa

    with _told(relation.name):
        if hasattr(source, "toArrow"):  # a Spark DataFrame
            source = source.toArrow()
        stream = pa.RecordBatchReader.from_stream(source)
    yield from _table_rows(stream.schema.names, _iterated_batches(stream, relation), relation)


def _iterated_batches(stream: pa.RecordBatchReader, relation: Relation) -> Iterator[pa.RecordBatch]:
    with _told(relation.name):
        for batch in stream:
            yield from (batch.slice(start, BATCH) for start in range(0, batch.num_rows, BATCH))


def _iterated(source: Iterable[Any], relation: Relation) -> Iterator[NumberedRow]:
    with _told(relation.name):
        yield from enumerate(source, 1)


def _json_lines(path: Path, reading: Reading) -> Iterator[NumberedRow]:
    with opened(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                # Decimal keeps every digit; a float column turns it into the nearest float.
                value = json.loads(line, parse_float=Decimal)
            except (ValueError, RecursionError) as error:
                reading.rows += 1
                reading.reject(number, "", line.strip(), f"is not JSON: {error}")
                continue
            yield number, value


def _table_rows(names: Sequence[str], batches: Iterable[pa.RecordBatch], relation: Relation) -> Iterator[NumberedRow]:
    """By column names where they are the relation's, else by position."""
    wanted = [column.name for column in relation.columns] or ["present"]
    if len(names) != len(wanted):
        why = f'relation "{relation.name}" has {counted(relation.arity, "column")}, the data has {len(names)}'
        raise DataError(problem("DATA_CONFLICT", why=why, hint=f"The columns are ({', '.join(wanted)})."))
    order = [list(names).index(name) for name in wanted] if sorted(names) == sorted(wanted) else range(len(wanted))
    number = 0
    for batch in batches:
        columns = [batch.column(place).to_pylist() for place in order]
        for row in zip(*columns, strict=True):
            number += 1
            yield number, row if relation.columns else ()


@contextmanager
def _told(relation: str) -> Iterator[None]:
    """What a source of the caller's raises, as an error of ours that has it as its cause."""
    try:
        yield
    except Exception as error:
        why = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        raise DataError(problem("SOURCE_FAILED", relation=relation, why=why)) from error


# ---- values


def _converted(rows: Iterator[NumberedRow], relation: Relation, reading: Reading) -> Iterator[pa.RecordBatch]:
    """Python values → stored values. Texts are accepted for dates, timestamps, decimals and bytes, as in files."""
    convert = _converter(relation, reading)
    while chunk := list(islice(rows, BATCH)):
        reading.rows += len(chunk)
        found = [convert(number, row) for number, row in chunk]
        yield batch_of_rows([row for row in found if row is not None], relation)


def _converter(relation: Relation, reading: Reading) -> Callable[[int, Any], tuple[Stored, ...] | None]:
    """Makes rows of stored values; None of one that does not fit, which is told."""
    columns = [_storer(column.type) for column in relation.columns]

    def convert(number: int, row: Any) -> tuple[Stored, ...] | None:
        if type(row) is tuple and len(row) == len(columns) > 0:
            try:
                return tuple([store(value) for store, value in zip(columns, row, strict=True)])
            except BadValue:
                pass  # all that does not fit is told below
        return _stored_row(number, row, relation, reading)

    return convert


def _by_column(rows: Sequence[Any], relation: Relation) -> list[tuple[Stored, ...]] | None:
    """Rows of stored values, one column after the other; None if a row is unusual or does not fit, which is told row by row."""
    width = relation.arity
    if not width or not all(type(row) is tuple and len(row) == width for row in rows):
        return None
    try:
        values = zip(*rows, strict=True)
        columns = [_stored_column(column, declared.type) for column, declared in zip(values, relation.columns, strict=True)]
    except BadValue:
        return None
    return list(zip(*columns, strict=True))


def _stored_column(values: Sequence[Any], type_: Type) -> Sequence[Stored]:
    usual = plain_check(type_)
    if usual is None or {*map(type, values)} != {usual[0]}:
        return [*map(_storer(type_), values)]
    class_, store_plain = usual
    if class_ is int:  # what is between numbers that fit fits, too
        store_plain(min(values))
        store_plain(max(values))
        return values
    if class_ is str:
        store_plain("".join(values))
        return values
    if class_ is Decimal:
        return store_decimals(values, type_.precision, type_.scale)
    if class_ is datetime.date:
        return store_dates(values)
    return [*map(store_plain, values)]


@lru_cache(256)
def _storer(type_: Type) -> Callable[[Any], Stored]:
    """``_stored`` for one type; values of the class that is usual for it take a short way."""
    usual = plain_check(type_)
    if usual is None:
        return lambda value: _stored(value, type_)
    class_, store_plain = usual

    def store(value: Any) -> Stored:
        return store_plain(value) if type(value) is class_ else _stored(value, type_)

    return store


def _stored_row(number: int, row: Any, relation: Relation, reading: Reading) -> tuple[Stored, ...] | None:
    values = _fields(number, row, relation, reading)
    if values is None:
        return None
    stored: list[Stored] = []
    for value, column in zip(values, relation.columns, strict=True):
        try:
            stored.append(_stored(value, column.type))
        except BadValue as error:
            reading.reject(number, column.name, str(value), str(error))
    return (tuple(stored) or (1,)) if len(stored) == relation.arity else None


def _fields(number: int, row: Any, relation: Relation, reading: Reading) -> Sequence[Any] | None:
    """The row's values in the order of the columns: given by name, in order, or for one column as it is."""
    names = [column.name for column in relation.columns]
    if isinstance(row, Mapping):
        unknown = [key for key in row if key not in names]
        if unknown:
            reading.reject(number, str(unknown[0]), str(row), "is not a column")
            return None
        return [row.get(name) for name in names]
    if isinstance(row, Set):
        reading.reject(number, "", str(row), "is a set, which has no order")
        return None
    values = tuple(row) if isinstance(row, Iterable) and not isinstance(row, (str, bytes, bytearray)) else (row,)
    if len(values) != relation.arity:
        reading.reject(number, "", str(row), f"has {counted(len(values), 'field')}, not {relation.arity}")
        return None
    return values


def _stored(value: Any, type_: Type) -> Stored:
    if isinstance(value, str) and type_.kind in _READ_FROM_TEXT:
        return text_parser(type_)(value)
    if type(value).__module__ == "numpy":
        value = value.item()
    if isinstance(value, Decimal) and type_.kind is Kind.FLOAT:
        value = float(value)
    if getattr(value, "nanosecond", 0):
        raise BadValue("has more than microseconds")
    return store(value, type_)
