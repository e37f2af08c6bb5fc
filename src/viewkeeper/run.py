"""One shot: a program, a directory of facts, a directory of outputs; as ``souffle -F facts -D out program.dl``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from viewkeeper.engines.choice import choose_engine, start_engine
from viewkeeper.engines.evaluator import evaluate
from viewkeeper.engines.interface import Engine
from viewkeeper.errors import DataError, problem
from viewkeeper.language import parse
from viewkeeper.outcomes import Loading, silent
from viewkeeper.program.ast import Directive, Program, Relation
from viewkeeper.rewrite.passes import normalise
from viewkeeper.store.delimited import Format, facts_path, read_delimited, write_delimited
from viewkeeper.store.rejects import Reading, bad_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from viewkeeper.outcomes import Report


def run_text(
    text: str, name: str, facts: Path, output: Path | None, stdout: TextIO, engine: str = "auto", report: Report = silent
) -> dict[str, int]:
    """As ``run``, for a program's text, on the engine that is asked for or that suits the size of the inputs."""
    program = parse(text, name)
    paths = [facts_path(facts, program.relation(d.relation), d) for d in program.directives if d.kind == "input"]
    size = sum(path.stat().st_size for path in paths if path.is_file())
    runner = start_engine(choose_engine(engine, rows=0, file_bytes=size).engine)
    try:
        return run(program, facts, output, runner, stdout, report)
    finally:
        runner.close()


def run(
    program: Program, facts: Path, output: Path | None, engine: Engine, stdout: TextIO, report: Report = silent
) -> dict[str, int]:
    """Reads the inputs, evaluates, writes the outputs; returns the sizes of the output relations.

    ``output`` None sends all outputs to ``stdout``. Output files appear whole, and all of them or none.
    """
    core = normalise(program)
    engine.prepare(core)
    for directive in program.directives:
        if directive.kind == "input":
            relation = program.relation(directive.relation)
            engine.insert(relation.name, _facts(facts, relation, directive, report))
    evaluate(core, engine, report)
    outputs = [directive for directive in program.directives if directive.kind in ("output", "printsize")]
    with _Files() as files:
        for directive in outputs:
            if output is not None and _to_file(directive):
                relation = program.relation(directive.relation)
                files.write(output / directive.get("filename", f"{relation.name}.csv"), relation, engine, directive)
    for directive in outputs:
        if output is None or not _to_file(directive):
            _print(program.relation(directive.relation), engine, directive, stdout)
    return {directive.relation: engine.count(directive.relation) for directive in outputs}


def _to_file(directive: Directive) -> bool:
    return directive.kind == "output" and directive.get("IO", "file") != "stdout"


def _facts(directory: Path, relation: Relation, directive: Directive, report: Report) -> Iterator[pa.RecordBatch]:
    path = facts_path(directory, relation, directive)
    if not path.exists():
        raise DataError(problem("MISSING_FACTS", relation=relation.name, file=path))
    reading = Reading(relation.name)
    for batch in read_delimited(path, relation, Format.of_directive(directive), reading):
        yield batch
        report(Loading(relation.name, reading.rows))
    if reading.rejects.rows:
        raise bad_rows(relation.name, reading.rejects, reading.rows, None)


def _print(relation: Relation, engine: Engine, directive: Directive, stdout: TextIO) -> None:
    if directive.kind == "printsize":
        stdout.write(f"{relation.name}\t{engine.count(relation.name)}\n")
        return
    stdout.write(f"{'-' * 15}\n{relation.name}\n{'=' * 15}\n")
    write_delimited(stdout, relation, engine.read(relation, ordered=True), Format.of_directive(directive))
    stdout.write(f"{'=' * 15}\n")


class _Files:
    """Files that are written under other names and get their own when all of them are complete."""

    def __init__(self) -> None:
        self._written: dict[Path, Path] = {}

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, failed: type[BaseException] | None, *details: object) -> None:
        try:
            for path, partial in self._written.items():
                if failed is None:
                    with _writing(path):
                        os.replace(partial, path)
        finally:
            for partial in self._written.values():
                partial.unlink(missing_ok=True)

    def write(self, path: Path, relation: Relation, engine: Engine, directive: Directive) -> None:
        partial = path.with_name(f"{path.name}.partial")
        with _writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                raise IsADirectoryError(None, "it is a directory")
            self._written[path] = partial
            with partial.open("w", encoding="utf-8", newline="") as file:
                write_delimited(file, relation, engine.read(relation, ordered=True), Format.of_directive(directive))


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = "Choose another directory with -D."
        raise DataError(problem("UNWRITABLE_FILE", file=path, why=error.strerror or str(error), hint=hint)) from None
