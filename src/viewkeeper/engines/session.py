"""Spark sessions: the caller's, untouched, or a local one of ours.

Whatever session is given, we work in one of our own beside it (``newSession``): same cluster, same cached data, separate
settings and temporary views.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING

from viewkeeper.errors import EngineError, Problem, problem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = 17

# Settings of our own session; all of them can be set at run time, on any cluster.
SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.crossJoin.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Parquet as everybody reads it: microseconds, the Gregorian calendar for all years.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    # Adaptive execution forgets how checkpointed data is partitioned, and sizes of such data are unknown: the engine gives hints.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.join.preferSortMergeJoin": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # Spark 4.3 fails on a checkpoint of a union of checkpoints with inferred constraints ("key not found").
    "spark.sql.constraintPropagation.enabled": "false",
    # Else what occurs twice on the right of an AND or OR is computed even if the left decides, and may fail there.
    "spark.sql.subexpressionElimination.skipForShortcutExpr": "true",
    "spark.sql.codegen.aggregate.map.twolevel.enabled": "false",
}


@cache
def spark_problem() -> Problem | None:
    """Why Spark cannot be used here, or None. Looked up once."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return problem("SPARK_MISSING")
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if java is None:
        return problem("JAVA_MISSING", found=f"there is none in JAVA_HOME ({home})" if home else "none was found")
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError) as error:
        return problem("JAVA_MISSING", found=f"{java} cannot be started ({error})")
    version = re.search(r'version "(\d+)(?:\.(\d+))?', said)
    if version is None:
        return problem("JAVA_MISSING", found=f"{java} does not say its version")
    major = int(version[2] or 0) if version[1] == "1" else int(version[1])
    if major < JAVA:
        return problem("JAVA_MISSING", found=f"{java} is version {major}")
    return None


# Whose session pyspark knows, if it knows one.
_process = os.getpid()


def require_spark() -> None:
    found = spark_problem()
    if found is not None:
        raise EngineError(found)


def local_session(master: str | None = None) -> SparkSession:
    """A session on this machine (or on the given master), tuned for one machine: few partitions, no web page."""
    require_spark()
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    active = _active_session()
    if active is not None and master is None:
        return active
    cores = os.cpu_count() or 2
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run our functions
    if master is None:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.master(master or f"local[{cores}]")
        .appName("viewkeeper")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.driver.memory", os.environ.get("VIEWKEEPER_SPARK_MEMORY", "3g"))
        .config("spark.driver.extraJavaOptions", "-XX:+UseParallelGC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        # What the parser learns from statements would fill the memory in time.
        .config("spark.sql.parser.manageParserCaches", "true")
        .config("spark.sql.parser.parserDfaCacheFlushThreshold", "50000")
        .config("spark.log.level", "OFF")  # what matters comes back as an exception
    )
    with tempfile.TemporaryFile() as said, _errors_to(said):
        try:
            session = builder.getOrCreate()
        except Exception as error:
            said.seek(0)
            lines = [*str(error).splitlines()[:1], *said.read().decode(errors="replace").splitlines()[-5:]]
            raise EngineError(problem("ENGINE_FAILED", engine="Spark", why="\n  ".join(lines))) from None
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True  # Python's side writes what fails as well
    atexit.register(_stop, session, os.getpid())
    return session


def _stop(session: SparkSession, process: int) -> None:
    from py4j.protocol import Py4JError

    if process == os.getpid():  # not a child's to stop
        with suppress(OSError, Py4JError):  # its Java machine may have ended before
            session.stop()


@contextmanager
def _errors_to(file: IO[bytes]) -> Iterator[None]:
    """What is written to standard error meanwhile, by Java too, goes to the file: its greetings are of no use to anybody."""
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)


def session_is_there(given: SparkSession | str | None) -> bool:
    """Would ``our_session`` find one that is started?"""
    if given is not None and not isinstance(given, str):
        return True
    if "pyspark.sql" not in sys.modules:
        return False
    return _active_session() is not None


def _active_session() -> SparkSession | None:
    """The session that is there already. One whose Java machine has ended, or that is another process's, is forgotten, so that another
    can be started."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    global _process
    context = SparkContext._active_spark_context
    if _process == os.getpid():
        try:
            return SparkSession.getActiveSession()
        except (OSError, Py4JError):
            # The context tells itself that the machine is gone, and takes that for stopped; the connection stays.
            with warnings.catch_warnings(action="ignore"), suppress(OSError, Py4JError):
                if context is not None:
                    context.stop()
    # Forked: the session is the parent's, and two that speak through one connection get each other's answers.
    _process = os.getpid()
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    return None


def cores_of(given: SparkSession | str | None) -> int:
    """How many cores Spark has for us, as far as it tells."""
    if given is not None and not isinstance(given, str):
        with suppress(Exception):  # Spark Connect does not tell
            return int(given.sparkContext.defaultParallelism)
    return _cores()


@cache
def _cores() -> int:
    return os.cpu_count() or 2


def our_session(given: SparkSession | str | None) -> SparkSession:
    """A session of ours beside the given one, or on the given master, or local."""
    beside = local_session(given) if given is None or isinstance(given, str) else given
    session: SparkSession = beside.newSession()
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    return session


def path_to_read(path: Path) -> str:
    """A path as Spark reads it: it takes some characters for patterns, and its working directory is not ours.

    >>> path_to_read(Path("/data/a[1].csv"))
    '/data/a\\\\[1\\\\].csv'
    """
    return re.sub(r"([\\*?{}\[\]])", r"\\\1", str(path.absolute()))
