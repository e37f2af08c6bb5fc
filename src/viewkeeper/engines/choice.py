"""Which engine does a piece of work, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from viewkeeper.engines.costs import ANEW, EMBEDDED, SPARK, SPARK_ANEW, WAYS, Costs, Task
from viewkeeper.errors import EngineError, problem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from viewkeeper.engines.interface import Engine

ENGINES = ("auto", "embedded", "spark")

# Below these, starting or feeding Spark costs more than it saves on one machine (docs/decisions/0004-two-engines.md).
SPARK_ROWS = 20_000_000
SPARK_FILE_BYTES = 256 * 1024 * 1024
# Another way than maintaining embedded must be expected to be better by this, as estimates are rough.
_DOUBT = 1.1


class Choice(NamedTuple):
    """``catalog``: the engine for what is in the catalog, where only the rest is for the other one.

    ``anew``: views are computed anew. ``task``: what the choice was made for, where it is a change.
    """

    engine: str
    reason: str
    catalog: str = ""
    anew: bool = False
    task: Task | None = None

    @property
    def of_catalog(self) -> str:
        return self.catalog or self.engine

    @property
    def way(self) -> str:
        return (SPARK_ANEW if self.of_catalog == "spark" else ANEW) if self.anew else self.of_catalog


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


def choose_for_change(wish: str, task: Task, costs: Costs, *, strict: bool, cold: bool, spark_given: bool) -> Choice:
    """The way of bringing the change in that is expected to take least, on the engine wished for or with "auto" on either."""
    check_engine(wish)
    if cold and wish == "auto":
        return choose_engine(wish, rows=0, cold=True, spark_given=spark_given)._replace(task=task)
    ways = [way for way in task.ways if wish in ("auto", _engine(way)) and not (strict and way in (ANEW, SPARK_ANEW))]
    if wish != "auto" and len(ways) == 1:
        return Choice(wish, "asked for", task=task)
    expected = {way: costs.estimate(way, task) for way in ways}
    best, missing = _least(expected), ""
    if wish != "auto":
        return Choice(wish, "asked for", anew=best in (ANEW, SPARK_ANEW), task=task)
    if _engine(best) == "spark" and not spark_given:
        from viewkeeper.engines.session import spark_problem

        found = spark_problem()
        if found is not None:
            missing = f", but {found.message}"
            best = _least({way: seconds for way, seconds in expected.items() if _engine(way) != "spark"})
    listed = ", ".join(f"{WAYS[way]} {_seconds(expected[way])}" for way in ways)
    rows = f"{'' if task.exact else 'about '}{task.rows:,} {'row' if task.rows == 1 else 'rows'}"
    reason = f"{rows}, expected {listed}{missing}"
    return Choice(_engine(best), reason, anew=best in (ANEW, SPARK_ANEW), task=task)


def _engine(way: str) -> str:
    return "spark" if way.startswith(SPARK) else "embedded"


def _least(expected: Mapping[str, float]) -> str:
    return min(expected, key=lambda way: expected[way] * (1 if way == EMBEDDED else _DOUBT))


def _seconds(seconds: float) -> str:
    """
    >>> _seconds(0.00042), _seconds(1.234), _seconds(1234.5)
    ('0.42 ms', '1.23 s', '1,234 s')
    """
    if seconds < 1:
        return f"{seconds * 1000:.2g} ms"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:,.0f} s"


def start_engine(name: str, spark: SparkSession | str | None = None) -> Engine:
    """An engine that holds nothing yet. ``spark``: a session or a master URL to use instead of a local one."""
    if name == "embedded":
        from viewkeeper.engines.embedded import EmbeddedEngine

        return EmbeddedEngine.private()
    from viewkeeper.engines.session import our_session
    from viewkeeper.engines.spark import SparkEngine

    return SparkEngine(our_session(spark))
