"""Which engine does a piece of work, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from viewkeeper.errors import EngineError, problem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from viewkeeper.engines.interface import Engine

ENGINES = ("auto", "embedded", "spark")

# Below these, starting or feeding Spark costs more than it saves on one machine (docs/decisions/0004-two-engines.md).
SPARK_ROWS = 20_000_000
SPARK_FILE_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class Choice:
    """``catalog``: the engine for what is in the catalog, where only the rest is for the other one."""

    engine: str
    reason: str
    catalog: str = ""

    @property
    def of_catalog(self) -> str:
        return self.catalog or self.engine


def check_engine(name: str) -> None:
    if name not in ENGINES:
        raise EngineError(problem("UNKNOWN_ENGINE", engine=name, known=", ".join(ENGINES)))


def choose_engine(wish: str, *, rows: int, file_bytes: int = 0, cold: bool = False, spark_given: bool = False) -> Choice:
    """The engine wished for; with "auto" the one that suits the size of the work."""
    check_engine(wish)
    if wish != "auto":
        return Choice(wish, "asked for")
    why, catalog = None, ""
    if file_bytes >= SPARK_FILE_BYTES:
        why = f"{file_bytes:,} bytes to load, Spark from {SPARK_FILE_BYTES:,} on"
    elif rows >= SPARK_ROWS:
        why = f"{rows:,} rows, Spark from {SPARK_ROWS:,} on"
    elif cold:
        why, catalog = "a relation is kept only as a snapshot", "embedded"
    if why is None:
        return Choice("embedded", f"{rows:,} {'row' if rows == 1 else 'rows'}, embedded below {SPARK_ROWS:,}")
    from viewkeeper.engines.session import spark_problem

    missing = None if spark_given else spark_problem()
    if missing is not None:
        return Choice("embedded", f"{why}, but {missing.message}")
    return Choice("spark", why, catalog)


def start_engine(name: str, spark: SparkSession | str | None = None) -> Engine:
    """An engine that holds nothing yet. ``spark``: a session or a master URL to use instead of a local one."""
    if name == "embedded":
        from viewkeeper.engines.embedded import EmbeddedEngine

        return EmbeddedEngine.private()
    from viewkeeper.engines.session import our_session
    from viewkeeper.engines.spark import SparkEngine

    return SparkEngine(our_session(spark))
