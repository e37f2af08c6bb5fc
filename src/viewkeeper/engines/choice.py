"""Which engine does a piece of work, and why."""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.errors import EngineError, problem

ENGINES = ("auto", "embedded", "spark")

# Below these, starting or feeding Spark costs more than it saves on one machine (docs/decisions/0004-two-engines.md).
SPARK_ROWS = 20_000_000
SPARK_FILE_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class Choice:
    engine: str
    reason: str


def choose_engine(wish: str, *, rows: int, file_bytes: int = 0, cold: bool = False, spark_given: bool = False) -> Choice:
    """The engine wished for; with "auto" the one that suits the size of the work."""
    if wish in ("embedded", "spark"):
        return Choice(wish, "asked for")
    if wish != "auto":
        raise EngineError(problem("UNKNOWN_ENGINE", engine=wish, known=", ".join(ENGINES)))
    why = None
    if cold:
        why = "a relation is kept only as a snapshot"
    elif file_bytes >= SPARK_FILE_BYTES:
        why = f"{file_bytes:,} bytes to load, Spark from {SPARK_FILE_BYTES:,} on"
    elif rows >= SPARK_ROWS:
        why = f"{rows:,} rows, Spark from {SPARK_ROWS:,} on"
    if why is None:
        return Choice("embedded", f"{rows:,} rows, embedded below {SPARK_ROWS:,}")
    from viewkeeper.engines.session import spark_problem

    missing = None if spark_given else spark_problem()
    if missing is not None:
        return Choice("embedded", f"{why}, but {missing.message}")
    return Choice("spark", why)
