"""Rows as Arrow data: stored values between engines, real types for everybody else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from viewkeeper.program.ast import Column, Relation
from viewkeeper.program.types import Kind, Type

_STORED = {Kind.FLOAT: pa.float64(), Kind.SYMBOL: pa.string(), Kind.BYTES: pa.binary()}
_REAL = {
    Kind.NUMBER: pa.int64(),
    Kind.UNSIGNED: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.SYMBOL: pa.string(),
    Kind.BOOL: pa.bool_(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
    Kind.BYTES: pa.binary(),
}
PRESENT = "present"


def stored_type(type_: Type) -> pa.DataType:
    return _STORED.get(type_.kind, pa.int64())


def real_type(type_: Type) -> pa.DataType:
    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(type_.precision, type_.scale)
    return _REAL[type_.kind]


def stored_schema(columns: Sequence[Column]) -> pa.Schema:
    """A relation without columns has one that is always 1."""
    if not columns:
        return pa.schema([pa.field(PRESENT, pa.int64())])
    return pa.schema([pa.field(column.name, stored_type(column.type)) for column in columns])


def real_schema(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([pa.field(c.name, real_type(c.type), nullable=c.type.nullable) for c in columns])


def batch_of_rows(rows: Sequence[Sequence[Any]], relation: Relation) -> pa.RecordBatch:
    """Rows of stored values as a batch."""
    schema = stored_schema(relation.columns)
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, type=f.type) for values, f in zip(columns, schema, strict=True)], schema=schema
    )


def rows_of_batch(batch: pa.RecordBatch, width: int) -> Iterator[tuple[Any, ...]]:
    assert batch.num_columns == width
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def to_real(batches: Iterable[pa.RecordBatch], relation: Relation) -> pa.Table:
    """Stored values → the table a user gets."""
    schema = real_schema(relation.columns)
    table = pa.Table.from_batches(list(batches), stored_schema(relation.columns))
    if not relation.columns:
        return pa.table({PRESENT: pa.array([True] * table.num_rows, pa.bool_())})
    arrays = [_real_array(column, c.type) for column, c in zip(table.columns, relation.columns, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _real_array(array: pa.ChunkedArray, type_: Type) -> pa.ChunkedArray:
    match type_.kind:
        case Kind.BOOL:
            return array.cast(pa.bool_())
        case Kind.DATE:
            return array.cast(pa.int32()).cast(pa.date32())
        case Kind.TIMESTAMP:
            return array.cast(pa.timestamp("us", "UTC"))
        case Kind.DECIMAL:
            return _reinterpret(array.cast(pa.decimal128(19, 0)), pa.decimal128(type_.precision, type_.scale))
        case _:
            return array


def to_stored(table: pa.Table, relation: Relation) -> pa.Table:
    """The table of a user, with the relation's real types, → stored values."""
    if not relation.columns:
        return pa.table({PRESENT: pa.array([1] * table.num_rows, pa.int64())})
    arrays = [_stored_array(column, c.type) for column, c in zip(table.columns, relation.columns, strict=True)]
    return pa.Table.from_arrays(arrays, schema=stored_schema(relation.columns))


def _stored_array(array: pa.ChunkedArray, type_: Type) -> pa.ChunkedArray:
    match type_.kind:
        case Kind.BOOL:
            return array.cast(pa.int64())
        case Kind.DATE:
            return array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
        case Kind.TIMESTAMP:
            return array.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        case Kind.DECIMAL:
            return _reinterpret(array.cast(pa.decimal128(38, type_.scale)), pa.decimal128(38, 0)).cast(pa.int64())
        case _:
            return array.cast(stored_type(type_))


def _reinterpret(array: pa.ChunkedArray, type_: pa.Decimal128Type) -> pa.ChunkedArray:
    """The same unscaled integers under another scale."""
    chunks = [pa.Array.from_buffers(type_, len(c), c.buffers(), offset=c.offset) for c in array.chunks]
    return pa.chunked_array(chunks, type=type_)
