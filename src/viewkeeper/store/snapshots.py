"""Relations as Parquet: ``snapshots/<relation>/<commit>/``, with real types, readable by anything.

A directory counts only if the catalog names it; others are left over from something that did not commit.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from string import ascii_uppercase
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from viewkeeper.errors import StoreError, problem
from viewkeeper.program.arrow import PRESENT, real_schema, to_real, to_stored
from viewkeeper.program.ast import Relation
from viewkeeper.store.catalog import Kept
from viewkeeper.store.lock import unread

DIRECTORY = "snapshots"
_CAPITALS = str.maketrans({letter: f"^{letter.lower()}" for letter in ascii_uppercase})
_LONGEST = 150


def snapshot_path(directory: Path, relation: str, commit: int) -> Path:
    return directory / DIRECTORY / file_name(relation) / str(commit)


def file_name(relation: str) -> str:
    """Capital letters are marked, as some file systems do not tell them from small ones."""
    name = quote(relation.translate(_CAPITALS), safe="^")
    if len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}~{hashlib.sha256(relation.encode()).hexdigest()[:20]}"
    return name


def write_snapshot(path: Path, relation: Relation, batches: Iterable[pa.RecordBatch]) -> int:
    """Stored values → Parquet; returns the number of rows."""
    shutil.rmtree(path, ignore_errors=True)  # left over from something that did not commit
    path.mkdir(parents=True)
    rows = 0
    with pq.ParquetWriter(path / "part-0.parquet", _schema(relation), compression="zstd") as writer:
        for batch in batches:
            writer.write_table(to_real([batch], relation))
            rows += batch.num_rows
    return rows


def settle_snapshot(path: Path) -> None:
    """Makes a snapshot durable, which it must be before a commit refers to it."""
    for place in (*path.iterdir(), path, path.parent, path.parent.parent):
        descriptor = os.open(place, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_snapshot(path: Path, relation: Relation) -> Iterator[pa.RecordBatch]:
    """Parquet → stored values."""
    for file in _parts(path):
        with _parquet(file) as parquet:
            for batch in parquet.iter_batches(50_000, columns=_schema(relation).names):
                yield from to_stored(pa.Table.from_batches([batch]), relation).to_batches()


def count_snapshot(path: Path) -> int:
    rows = 0
    for file in _parts(path):
        with _parquet(file) as parquet:
            rows += parquet.metadata.num_rows
    return rows


def remove_leftovers(directory: Path, kept: Iterable[Kept]) -> None:
    """Deletes snapshots that no commit refers to, unless somebody may still be reading one."""
    wanted = {snapshot_path(directory, k.name, k.snapshot) for k in kept if k.snapshot is not None}
    with unread(directory / DIRECTORY) as free:
        for relation in (directory / DIRECTORY).glob("*") if free else ():
            found = set(relation.iterdir())
            for leftover in found - wanted:
                shutil.rmtree(leftover, ignore_errors=True)
            if not found & wanted:
                relation.rmdir()


def _parts(path: Path) -> list[Path]:
    found = sorted(path.glob("*.parquet"))
    if not found:
        raise StoreError(problem("CATALOG_DAMAGED", path=path, why="there is no Parquet file"))
    return found


@contextmanager
def _parquet(file: Path) -> Iterator[pq.ParquetFile]:
    try:
        with pq.ParquetFile(file) as parquet:
            yield parquet
    except (OSError, pa.ArrowException) as error:
        raise StoreError(problem("CATALOG_DAMAGED", path=file, why=str(error).splitlines()[0])) from error


def _schema(relation: Relation) -> pa.Schema:
    if not relation.columns:
        return pa.schema([pa.field(PRESENT, pa.bool_())])
    return real_schema(relation.columns)
