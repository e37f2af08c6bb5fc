"""What a query gives: a relation's rows that go to Arrow, pandas, Spark or plain Python."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from viewkeeper.errors import shortened
from viewkeeper.program.values import format_timestamp, store_timestamp

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Answer:
    """The rows of a query. A query without variables has no columns, and one row if it holds, none if not."""

    table: pa.Table
    columns: tuple[str, ...]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __bool__(self) -> bool:
        return len(self) > 0

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """The rows as tuples of Python values."""
        if not self.columns:
            return iter([()] * len(self))
        return zip(*(column.to_pylist() for column in self.table.columns), strict=True)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """As an Arrow table. One without columns could not have rows: it gets a column ``present``."""
        return self.table

    def to_pandas(self) -> pandas.DataFrame:
        return self.table.to_pandas()

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """As a Spark DataFrame, in the given session or a local one."""
        from viewkeeper.engines.session import local_session

        return (spark or local_session()).createDataFrame(self.table)


def text_of(value: Any) -> str:
    """A value of an answer as in files; NULL is the empty text.

    >>> text_of(True), text_of(decimal.Decimal("1.50")), text_of(b"\\x00\\xff"), text_of(None)
    ('true', '1.50', '00ff', '')
    """
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case datetime.datetime():
            return format_timestamp(store_timestamp(value))
        case bytes():
            return value.hex()
        case decimal.Decimal():
            return format(value, "f")
        case float():
            return repr(value)
    return str(value)


def shown_in_message(value: Any) -> str:
    """A value as messages show it.

    >>> shown_in_message(None), shown_in_message("ink"), shown_in_message(decimal.Decimal("1.50"))
    ('NULL', "'ink'", '1.50')
    """
    if value is None:
        return "NULL"
    return shortened(repr(value) if isinstance(value, str) else text_of(value))
