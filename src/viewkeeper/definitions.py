"""The program that a warehouse's definitions amount to. They are kept as they were given, and folded one after the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from viewkeeper.errors import ProgramError, StoreError, problem
from viewkeeper.language import parse
from viewkeeper.program.ast import Program
from viewkeeper.program.strata import dependencies
from viewkeeper.store.catalog import Catalog, Definition


class Definitions:
    """Folds definitions, and remembers what the first so many of them gave. Several threads may use it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folded: tuple[int, Program] = (0, Program())

    def program(self, catalog: Catalog) -> Program:
        definitions = catalog.definitions()
        count, program = self._folded
        if len(definitions) < count:  # an older state than the last one
            count, program = 0, Program()
        for definition in definitions[count:]:
            program = self._fold(program, definition)
        self._folded = (len(definitions), program)
        return program

    def _fold(self, program: Program, definition: Definition) -> Program:
        if definition.kind == "drop":
            return _without(program, definition.name)
        try:
            return parse(definition.text, definition.name, program)
        except ProgramError as error:
            why = f"what {definition.name} defined is not valid any more: {error.problems[0].message}"
            raise StoreError(problem("CATALOG_DAMAGED", path=self._path, why=why)) from error


def dependents_of(name: str, program: Program) -> list[str]:
    """What would miss the relation, or if there is none of that name the type."""
    if name in program.by_name:
        return sorted(other for other, reads in dependencies(program).items() if name in reads and other != name)
    relations = [r.name for r in program.relations if name in (type_.name for type_ in r.types)]
    return sorted(relations + [t.name for t in program.types if name in t.parts])


def _without(program: Program, name: str) -> Program:
    """Without the relation, or if there is none of that name without the type."""
    if name not in program.by_name:
        return replace(program, types=tuple(t for t in program.types if t.name != name))
    return replace(
        program,
        relations=tuple(r for r in program.relations if r.name != name),
        directives=tuple(d for d in program.directives if d.relation != name),
        rules=tuple(r for r in program.rules if r.head.relation != name),
    )
