"""viewkeeper keeps materialized views exactly right while their data changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from viewkeeper.answer import Answer
from viewkeeper.errors import DataError, EngineError, EvaluationError, ProgramError, StoreError, ViewkeeperError
from viewkeeper.warehouse import Commit, Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "Commit",
    "DataError",
    "EngineError",
    "EvaluationError",
    "ProgramError",
    "StoreError",
    "ViewkeeperError",
    "Warehouse",
    "open",
]


def open(
    path: str | Path, spark: SparkSession | str | None = None, *, create: bool = False, engine: str = "auto"
) -> Warehouse:
    """Opens a warehouse directory; with ``create`` makes an empty one first if there is none.

    ``spark`` is a session to use, or a master URL; without it a local session starts the first time Spark is needed.
    """
    if create and not (Path(path) / "catalog.db").exists():
        Warehouse.create(path)
    return Warehouse(path, spark, engine)
