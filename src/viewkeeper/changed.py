"""What a commit changed, as its caller gets it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from viewkeeper.program.ast import Relation, Value
from viewkeeper.program.values import restore

if TYPE_CHECKING:
    import pyarrow as pa

StoredRow = tuple[Any, ...]
Rows = Sequence[StoredRow]


@dataclass(frozen=True)
class Changed:
    """The exact change of one relation: rows that came and rows that went, none twice, none in both."""

    relation: Relation
    inserted_rows: int
    deleted_rows: int
    read: Callable[[], tuple[Rows, Rows]] = field(repr=False, compare=False)
    before: Relation | None = None
    """The relation as it was declared before, if this commit has changed its columns."""

    @classmethod
    def of(cls, relation: Relation, came: Rows, went: Rows, before: Relation | None = None) -> Changed:
        return cls(relation, len(came), len(went), lambda: (came, went), before)

    @cached_property
    def stored(self) -> tuple[list[StoredRow], list[StoredRow]]:
        """Rows of stored values that came and that went, in order."""
        came, went = self.read()
        return sorted(came, key=order), sorted(went, key=order)

    @property
    def inserted(self) -> pa.Table:
        """The rows that came, ordered."""
        return _table(self.stored[0], self.relation)

    @property
    def deleted(self) -> pa.Table:
        """The rows that went, ordered."""
        return _table(self.stored[1], self.before or self.relation)

    def rows(self) -> Iterator[tuple[Value, ...]]:
        """The rows that came, as Python values."""
        return (row for operation, row in self.values() if operation == "insert")

    def values(self) -> Iterator[tuple[str, tuple[Value, ...]]]:
        """Rows that went ("delete") and then those that came ("insert"), as Python values."""
        came, went = self.stored
        for operation, rows, relation in (("delete", went, self.before or self.relation), ("insert", came, self.relation)):
            for row in rows:
                yield operation, tuple(restore(value, type_) for value, type_ in zip(row, relation.types, strict=False))


def _table(rows: Rows, relation: Relation) -> pa.Table:
    from viewkeeper.program.arrow import batch_of_rows, to_real

    return to_real([batch_of_rows(rows, relation)], relation)


def order(row: StoredRow) -> tuple[Any, ...]:
    """Rows by their values, NULL first."""
    return tuple((value is not None, value) for value in row)
