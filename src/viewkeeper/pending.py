"""What statements make of a table before they are committed: for each row they are about, what was there and what is there now.

A row is known by its key. Where a table has none of its own it is the row itself; in a bag, which may hold a row several times, it
is the row without the number of its copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from viewkeeper.change import Operation, counts_copies, key_error
from viewkeeper.changed import StoredRow
from viewkeeper.program.ast import Relation

_MOST_TOLD = 20


class Pending:
    """The rows of one table. ``known``: the rows with a key that are stored."""

    def __init__(self, relation: Relation, known: Callable[[StoredRow], list[StoredRow]]) -> None:
        self.relation, self._known = relation, known
        self._bag = counts_copies(relation)
        places = {column.name: place for place, column in enumerate(relation.columns)}
        self._key = [places[name] for name in relation.key]
        self._before: dict[StoredRow, StoredRow | None] = {}
        self._since: dict[StoredRow, StoredRow | None] = {}
        self._now: dict[StoredRow, StoredRow | None] = {}

    def insert(self, rows: Iterable[StoredRow]) -> None:
        """Rows without the number of copies. Raises DataError if the key of one is there already."""
        broken: list[StoredRow] = []
        for row in rows:
            self._add(row, 1, broken)
        if broken:
            raise key_error(self.relation, broken, in_sql=True)

    def replace(self, pairs: Sequence[tuple[StoredRow, StoredRow]]) -> None:
        """Rows by others, all at once: a row may take the key that another one gives up."""
        broken: list[StoredRow] = []
        copies = [self.remove(old) for old, _ in pairs]
        for (_, new), number in zip(pairs, copies, strict=True):
            if number:
                self._add(new, number, broken)
        if broken:
            raise key_error(self.relation, list(dict.fromkeys(broken)), in_sql=True)

    def remove(self, row: StoredRow) -> int:
        """Removes all copies of a row; returns how many there were."""
        key = self._key_of(row)
        there = self._at(key)
        self._put(key, None)
        return 0 if there is None and self._key else there[-1] if self._bag and there is not None else 1

    def operations(self) -> list[Operation]:
        """From what was there to what is there now."""
        return self._operations(self._before)

    def step(self) -> list[Operation]:
        """The same, from what was there when this was last called."""
        found = self._operations(self._since)
        self._since = {}
        return found

    def _add(self, row: StoredRow, number: int, broken: list[StoredRow]) -> None:
        key = self._key_of(row)
        there = self._at(key)
        if self._bag:
            self._put(key, (*row, number + (there[-1] if there is not None else 0)))
        elif there is not None and self._key:
            if len(broken) <= _MOST_TOLD:
                broken += [there, row]
        else:
            self._put(key, row)

    def _key_of(self, row: StoredRow) -> StoredRow:
        if self._bag:
            return row[: len(self._key)]
        return tuple(row[place] for place in self._key) if self._key else row

    def _at(self, key: StoredRow) -> StoredRow | None:
        if key not in self._now:
            stored = self._known(key) if self._key else []
            self._before[key] = self._now[key] = stored[0] if stored else None
        return self._now[key]

    def _put(self, key: StoredRow, row: StoredRow | None) -> None:
        self._since.setdefault(key, self._now[key])
        self._now[key] = row

    def _operations(self, before: dict[StoredRow, StoredRow | None]) -> list[Operation]:
        if not self._key:
            # Whether it was there nobody has looked; who carries it out does.
            went = [key for key in before if self._now[key] is None]
            came = [key for key in before if self._now[key] is not None]
        else:
            went = [was for key, was in before.items() if was is not None and was != self._now[key]]
            came = [now for key, was in before.items() if (now := self._now[key]) is not None and was != now]
        found = (Operation("delete", self.relation, went), Operation("insert", self.relation, came))
        return [one for one in found if one.rows]
