"""The log: for each commit and relation the rows that came and those that went.

form "rows"    in the log itself, packed
form "file"    too many for that: a Parquet file log/<commit>/<relation>.parquet of stored values with a column $s, 1 or -1
form "first"   the relation had no rows before; what came is what is there, less what came since
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from viewkeeper.errors import StoreError, problem
from viewkeeper.program.ast import Relation
from viewkeeper.store.catalog import READ, Catalog, Logged
from viewkeeper.store.lock import unread

Rows = Sequence[tuple[Any, ...]]

DIRECTORY = "log"
# Above this many rows a change goes to a file, or is only marked if it is the first.
PACKED_ROWS = 100_000
FIRST_ROWS = 10_000
_COMPRESS_FROM = 4096
_SIGN = "$s"
_PLAIN, _COMPRESSED = b"\x00", b"\x01"


@dataclass(frozen=True)
class Entry:
    """What one commit did to one relation."""

    commit: int
    relation: str
    inserted: int
    deleted: int
    form: str


def pack(came: Rows, went: Rows) -> bytes:
    """
    >>> unpack(pack([(1, "a", None)], [(2, "b", b"x")]))
    ([(1, 'a', None)], [(2, 'b', b'x')])
    """
    data = msgspec.msgpack.encode((came, went))
    return _PLAIN + data if len(data) < _COMPRESS_FROM else _COMPRESSED + zlib.compress(data, 1)


def unpack(packed: bytes) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    data = packed[1:] if packed[:1] == _PLAIN else zlib.decompress(packed[1:])
    came, went = msgspec.msgpack.decode(data)
    return [tuple(row) for row in came], [tuple(row) for row in went]


class Log:
    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.added: list[Logged] = []

    @property
    def directory(self) -> Path:
        return self.catalog.directory / DIRECTORY

    def add(self, commit: int, relation: Relation, came: Rows, went: Rows, before: Relation | None = None) -> None:
        """``before``: the relation that what went was in, where it had other columns; a file could not hold both."""
        if len(came) + len(went) <= PACKED_ROWS or before is not None:
            self.added.append((relation.name, len(came), len(went), "rows", pack(came, went)))
            return
        path = self._file(commit, relation.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        (self.catalog.directory / READ).mkdir(exist_ok=True)  # who reads the file shows it there
        _write(path, relation, came, went)
        self.added.append((relation.name, len(came), len(went), "file", None))

    def add_first(self, relation: str, rows: int) -> None:
        self.added.append((relation, rows, 0, "first", None))

    def rows(self, commit: int, relation: str) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """The rows that came and those that went, of an entry that tells them."""
        packed = self.catalog.packed_change(commit, relation)
        return _read(self._file(commit, relation)) if packed is None else unpack(packed)

    def entries(self, since: int = 0, until: int | None = None, relation: str | None = None) -> list[Entry]:
        """In order, those of commits after ``since`` up to ``until``."""
        return [Entry(*row) for row in self.catalog.changes(since, until, relation)]

    def remove_leftovers(self) -> None:
        """Files of commits that did not come about, and of those that are forgotten, unless somebody may still be reading one."""
        found = {int(path.name): path for path in self.directory.glob("*") if path.name.isdecimal()}
        if not found:
            return
        last, oldest = self.catalog.last_commit(), self.catalog.oldest()
        for commit, path in found.items():
            if commit > last:
                shutil.rmtree(path, ignore_errors=True)
        forgotten = [path for commit, path in found.items() if commit <= oldest]
        if forgotten:
            with unread(self.catalog.directory / READ) as free:
                for path in forgotten if free else ():
                    shutil.rmtree(path, ignore_errors=True)

    def _file(self, commit: int, relation: str) -> Path:
        from viewkeeper.store.snapshots import file_name

        return self.directory / str(commit) / f"{file_name(relation)}.parquet"


def net(changes: Iterable[tuple[Rows, Rows]]) -> tuple[set[tuple[Any, ...]], set[tuple[Any, ...]]]:
    """Changes one after the other as one: what came in all, what went in all."""
    came: set[tuple[Any, ...]] = set()
    went: set[tuple[Any, ...]] = set()
    for more, less in changes:
        for row in less:
            if row in came:
                came.discard(row)
            else:
                went.add(row)
        for row in more:
            if row in went:
                went.discard(row)
            else:
                came.add(row)
    return came, went


def _write(path: Path, relation: Relation, came: Rows, went: Rows) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from viewkeeper.program.arrow import batch_of_rows

    tables = []
    for rows, sign in ((came, 1), (went, -1)):
        table = pa.Table.from_batches([batch_of_rows(rows, relation)])
        tables.append(table.append_column(_SIGN, pa.array([sign] * len(rows), pa.int64())))
    pq.write_table(pa.concat_tables(tables), path, compression="zstd")
    for place in (path, path.parent, path.parent.parent):
        descriptor = os.open(place, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _read(path: Path) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(problem("CATALOG_DAMAGED", path=path, why=str(error).splitlines()[0])) from error
    *columns, signs = (column.to_pylist() for column in table.columns)
    found: dict[int, list[tuple[Any, ...]]] = {1: [], -1: []}
    for sign, *row in zip(signs, *columns, strict=True):
        found[sign].append(tuple(row))
    return found[1], found[-1]
