"""One shot: a program, a directory of facts, a directory of outputs; as ``souffle -F facts -D out program.dl``."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from viewkeeper.engines.evaluator import Report, evaluate
from viewkeeper.engines.interface import Engine
from viewkeeper.errors import DataError, problem
from viewkeeper.program.ast import Directive, Program, Relation
from viewkeeper.rewrite.passes import normalise
from viewkeeper.store.delimited import Format, Reading, facts_path, read_delimited, write_delimited
from viewkeeper.store.rejects import bad_rows


def run(
    program: Program, facts: Path, output: Path | None, engine: Engine, stdout: TextIO, report: Report = lambda progress: None
) -> dict[str, int]:
    """Reads the inputs, evaluates, writes the outputs; returns the sizes of the output relations.

    ``output`` None sends all outputs to ``stdout``. Output files appear whole or not at all.
    """
    core = normalise(program)
    engine.prepare(core)
    for directive in _unique(program, "input"):
        relation = program.relation(directive.relation)
        engine.insert(relation.name, _facts(facts, relation, directive))
    evaluate(core, engine, report)
    sizes = {}
    for directive in program.directives:
        relation = program.relation(directive.relation)
        if directive.kind == "output":
            sizes[relation.name] = engine.count(relation.name)
            if output is None or directive.get("IO", "file") == "stdout":
                _to_stdout(relation, engine, directive, stdout)
            else:
                _to_file(output / directive.get("filename", f"{relation.name}.csv"), relation, engine, directive)
        elif directive.kind == "printsize":
            sizes[relation.name] = engine.count(relation.name)
            stdout.write(f"{relation.name}\t{sizes[relation.name]}\n")
    return sizes


def input_bytes(program: Program, facts: Path) -> int:
    """The size of the input files."""
    paths = [facts_path(facts, program.relation(d.relation), d) for d in _unique(program, "input")]
    return sum(path.stat().st_size for path in paths if path.is_file())


def _unique(program: Program, kind: str) -> Iterator[Directive]:
    return (directive for directive in program.directives if directive.kind == kind)


def _facts(directory: Path, relation: Relation, directive: Directive) -> Iterator:  # type: ignore[type-arg]
    path = facts_path(directory, relation, directive)
    if not path.exists():
        raise DataError(problem("MISSING_FACTS", relation=relation.name, file=path))
    reading = Reading()
    yield from read_delimited(path, relation, Format.of_directive(directive), reading)
    if reading.rejects:
        raise bad_rows(relation.name, reading.rejects, reading.rows, None)


def _to_stdout(relation: Relation, engine: Engine, directive: Directive, stdout: TextIO) -> None:
    stdout.write(f"{'-' * 15}\n{relation.name}\n{'=' * 15}\n")
    write_delimited(stdout, relation, engine.read(relation, ordered=True), Format.of_directive(directive))
    stdout.write(f"{'=' * 15}\n")


def _to_file(path: Path, relation: Relation, engine: Engine, directive: Directive) -> None:
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with io.open(partial, "w", encoding="utf-8", newline="") as file:
            write_delimited(file, relation, engine.read(relation, ordered=True), Format.of_directive(directive))
        os.replace(partial, path)
    except OSError as error:
        raise DataError(problem("BAD_FILE", file=path, why=error.strerror or str(error), hint="Choose another directory with -D.")) from None
