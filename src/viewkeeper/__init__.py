"""viewkeeper keeps materialized views exactly right while their data changes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from viewkeeper.errors import DataError, EngineError, EvaluationError, ProgramError, StoreError, ViewkeeperError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from viewkeeper.answer import Answer
    from viewkeeper.outcomes import Commit
    from viewkeeper.warehouse import Warehouse
    from viewkeeper.why import Why

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
    "Why",
    "open",
]

# Imported when they are first used: the command line says --help without them.
_LATER = {
    "Answer": "viewkeeper.answer",
    "Commit": "viewkeeper.outcomes",
    "Warehouse": "viewkeeper.warehouse",
    "Why": "viewkeeper.why",
}


def __getattr__(name: str) -> object:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def open(
    path: str | Path,
    spark: SparkSession | str | None = None,
    *,
    create: bool = False,
    engine: str = "auto",
    durable: bool = True,
    strategy: str = "declared",
) -> Warehouse:
    """Opens a warehouse directory; with ``create`` makes an empty one first if there is none.

    ``spark`` is a session to use, or a master URL; without it a local session starts the first time Spark is needed.
    With the ``strategy`` "auto" views are stored or not as the transactions of late suggest, which closing finds out.
    Without ``durable`` a commit does not wait for the disk: it survives its process, but the last ones may be lost with the power.
    """
    from viewkeeper.warehouse import Warehouse

    if create:
        Warehouse.create(path, exist_ok=True)
    return Warehouse(path, spark, engine, durable=durable, strategy=strategy)
