"""Relations as Parquet: ``snapshots/<relation>/<commit>/``, with real types, readable by anything.

A directory counts only if the catalog names it; others are left over from something that did not commit.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from viewkeeper.program.arrow import PRESENT, real_schema, to_real, to_stored
from viewkeeper.program.ast import Relation
from viewkeeper.store.catalog import Kept

_UNSAFE = str.maketrans({"?": "%3F"})


def snapshot_path(directory: Path, relation: str, commit: int) -> Path:
    """Capital letters are marked, as some file systems do not tell them from small ones."""
    name = "".join(f"^{c.lower()}" if c != c.lower() else c for c in relation).translate(_UNSAFE)
    return directory / "snapshots" / name / str(commit)


def write_snapshot(path: Path, relation: Relation, batches: Iterable[pa.RecordBatch]) -> int:
    """Stored values → Parquet; returns the number of rows."""
    path.mkdir(parents=True, exist_ok=True)
    rows = 0
    with pq.ParquetWriter(path / "part-0.parquet", _schema(relation), compression="zstd") as writer:
        for batch in batches:
            table = to_real([batch], relation)
            writer.write_table(table.cast(_schema(relation)))
            rows += table.num_rows
    return rows


def read_snapshot(path: Path, relation: Relation) -> Iterator[pa.RecordBatch]:
    """Parquet → stored values."""
    dataset = ds.dataset(path, format="parquet", exclude_invalid_files=True)
    for batch in dataset.to_batches(columns=_schema(relation).names, batch_size=50_000):
        if batch.num_rows:
            yield from to_stored(pa.Table.from_batches([batch]), relation).to_batches()


def count_snapshot(path: Path) -> int:
    return int(ds.dataset(path, format="parquet", exclude_invalid_files=True).count_rows())


def remove_leftovers(directory: Path, kept: Iterable[Kept]) -> None:
    """Deletes snapshot directories that no commit refers to."""
    wanted = {snapshot_path(directory, k.name, k.snapshot) for k in kept if k.snapshot is not None}
    for found in (directory / "snapshots").glob("*/*"):
        if found not in wanted:
            shutil.rmtree(found, ignore_errors=True)


def _schema(relation: Relation) -> pa.Schema:
    if not relation.columns:
        return pa.schema([pa.field(PRESENT, pa.bool_())])
    return real_schema(relation.columns)
