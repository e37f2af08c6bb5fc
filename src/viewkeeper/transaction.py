"""Transactions: operations collected, then committed as one.

with shop.transaction() as tx:
    tx.insert("depends", [("bash", "libc6")])
    tx.delete("depends", [("bash", "libc5")])
tx.changes["based_on"].inserted
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from viewkeeper.errors import DataError, StoreError, problem, shortened

if TYPE_CHECKING:
    from viewkeeper.changed import Changed
    from viewkeeper.outcomes import Commit

KINDS = ("insert", "delete", "upsert")


class Asked(NamedTuple):
    """An operation as the caller asked for it; ``line`` is where it stands in a file."""

    kind: str
    relation: str
    rows: Any
    line: int | None = None


class Transaction:
    """Operations in the order in which they are called. Leaving the ``with`` block commits them, an exception drops them."""

    def __init__(self, commit: Callable[[list[Asked]], Commit]) -> None:
        self._commit = commit
        self._asked: list[Asked] = []
        self._is_over = False
        self.result: Commit | None = None

    def insert(self, relation: str, rows: Any) -> None:
        """Rows that shall be there afterwards: tuples, mappings, an Arrow table, a data frame."""
        self._add("insert", relation, rows)

    def delete(self, relation: str, rows: Any) -> None:
        """Rows that shall not be there afterwards."""
        self._add("delete", relation, rows)

    def upsert(self, relation: str, rows: Any) -> None:
        """Rows that take the place of those with the same key."""
        self._add("upsert", relation, rows)

    def _add(self, kind: str, relation: str, rows: Any) -> None:
        self._refuse_over()
        self._asked.append(Asked(kind, relation, _kept(rows)))

    def _refuse_over(self) -> None:
        if self._is_over:
            raise StoreError(problem("TRANSACTION_OVER"))

    @property
    def commit_id(self) -> int | None:
        """The number of the commit; None if nothing had to be changed."""
        return None if self.result is None else self.result.number

    @property
    def changes(self) -> dict[str, Changed]:
        """The exact change of each relation that has changed, views included."""
        return {} if self.result is None else self.result.changes

    def __enter__(self) -> Transaction:
        self._refuse_over()
        return self

    def __exit__(self, kind: object, *details: object) -> None:
        was_over, self._is_over = self._is_over, True
        if kind is None and was_over:  # with the end of a block inside this one
            self._refuse_over()
        if kind is None:
            self.result = self._commit(self._asked)


def asked(
    inserts: Mapping[str, Any] | None, deletes: Mapping[str, Any] | None, upserts: Mapping[str, Any] | None
) -> list[Asked]:
    """Deletes first, then inserts, then upserts."""
    groups: Iterable[tuple[str, Mapping[str, Any] | None]] = (("delete", deletes), ("insert", inserts), ("upsert", upserts))
    for kind, group in groups:
        if group is not None and not isinstance(group, Mapping):
            wanted = "a mapping: for each relation its rows"
            raise DataError(problem("BAD_PARAMETER", value=shortened(repr(group)), parameter=f"{kind}s", wanted=wanted))
    return [Asked(kind, relation, rows) for kind, group in groups for relation, rows in (group or {}).items()]


def _kept(rows: Any) -> Any:
    """Rows that are handed out only once are taken now."""
    return list(rows) if hasattr(rows, "__next__") else rows
