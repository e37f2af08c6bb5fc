"""What the tests share: engines, and a way to evaluate a program text on one of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.engines import engine, subject  # noqa: F401  fixtures
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.engines.evaluator import evaluate
from viewkeeper.engines.interface import Engine
from viewkeeper.language import parse
from viewkeeper.program.arrow import batch_of_rows, rows_of_batch
from viewkeeper.program.ast import Program
from viewkeeper.program.values import restore, store
from viewkeeper.rewrite.passes import normalise

sys.path.insert(0, str(Path(__file__).parent))

Rows = Mapping[str, set[tuple[object, ...]]]
MakeEngine = Callable[[], Engine]


def evaluate_text(text: str | Program, facts: Rows, make_engine: MakeEngine) -> dict[str, set[tuple[object, ...]]]:
    """All declared relations of the program after evaluation, as Python values."""
    program = parse(text) if isinstance(text, str) else text
    core = normalise(program)
    runner = make_engine()
    try:
        runner.prepare(core)
        for name, rows in facts.items():
            relation = program.relation(name)
            stored = [tuple(store(v, t) for v, t in zip(row, relation.types, strict=True)) or (1,) for row in rows]
            runner.insert(name, [batch_of_rows(stored, relation)])
        evaluate(core, runner)
        found: dict[str, set[tuple[object, ...]]] = {}
        for relation in program.relations:
            found[relation.name] = {
                tuple(restore(v, t) for v, t in zip(row, relation.types, strict=True)) if relation.columns else ()
                for batch in runner.read(relation)
                for row in rows_of_batch(batch, max(1, relation.arity))
            }
        return found
    finally:
        runner.close()


class SparkInOneProcess(LoadScopeScheduling):
    """Tests on Spark go to one process, where they share a session, and so do those of a file that share a server; each of the others goes to
    whoever is free."""

    def _split_scope(self, nodeid: str) -> str:
        on_spark = "spark" in nodeid or nodeid.startswith(("tests/test_bulk.py", "tests/test_warehouse.py"))
        file = nodeid.partition("::")[0]
        shares = file.startswith("tests/test_serve_") or file in ("tests/test_client_server.py", "tests/test_cli_served.py")
        return "spark" if on_spark else file if shares else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SparkInOneProcess:
    return SparkInOneProcess(config, log)


@pytest.fixture
def embedded() -> MakeEngine:
    """Makes private embedded engines."""
    return EmbeddedEngine.private


@pytest.fixture(scope="session")
def spark_session() -> object:
    """The one Spark session of the tests, as a caller would hand it in."""
    from viewkeeper.engines.session import local_session

    return local_session()


@pytest.fixture
def spark_engine(spark_session: object) -> MakeEngine:
    """Makes Spark engines, each with a session of its own beside the shared one."""
    from viewkeeper.engines.session import our_session
    from viewkeeper.engines.spark import SparkEngine

    return lambda: SparkEngine(our_session(spark_session))  # type: ignore[arg-type]
