"""The program that a warehouse's definitions amount to. They are kept as they were given, and folded one after the other."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from viewkeeper.errors import EvaluationError, Problem, ProgramError, StoreError, problem
from viewkeeper.language import parse
from viewkeeper.program.ast import Program, owner_of
from viewkeeper.program.merge import with_integrity, with_storage, without
from viewkeeper.program.strata import dependencies
from viewkeeper.store.catalog import Catalog, Definition, Kept


class Definitions:
    """Folds definitions, and remembers what the first so many of them gave: they are never changed. Several threads may use it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folded: dict[int, Program] = {0: Program()}

    def contents(self, catalog: Catalog) -> tuple[Program, dict[str, Kept]]:
        """What is defined, and where the rows of its relations are."""
        program, kept = self.program(catalog), catalog.relations()
        if program.by_name.keys() != kept.keys():
            raise StoreError(problem("CATALOG_DAMAGED", path=self._path, why="its relations are not those that are defined"))
        return program, kept

    def program_at(self, catalog: Catalog, commit: int) -> Program:
        """What was defined then."""
        return self._first(catalog.definitions(commit))

    def program(self, catalog: Catalog) -> Program:
        return self._first(catalog.definitions())

    def _first(self, definitions: list[Definition]) -> Program:
        """What these amount to."""
        known = max(count for count in list(self._folded) if count <= len(definitions))
        for count in range(known, len(definitions)):
            self._folded[count + 1] = self.fold(self._folded[count], definitions[count])
        return self._folded[len(definitions)]

    def names(self, catalog: Catalog) -> frozenset[str]:
        """All relations that there are or have been."""
        self.program(catalog)
        return frozenset().union(*(program.by_name for program in self._folded.values()))

    def fold(self, program: Program, definition: Definition) -> Program:
        if definition.kind == "drop":
            return without(program, definition.name)
        if definition.kind in ("store", "external"):
            return with_storage(program, definition.name, definition.kind == "external")
        if definition.kind == "level":
            return with_integrity(program, definition.name, definition.text or None)
        try:
            if definition.kind == "sql":
                from viewkeeper.sql.defining import folded

                return folded(definition.text, definition.name, program)
            return parse(definition.text, definition.name, program, replacing=definition.kind == "replace")
        except ProgramError as error:
            why = f"what {definition.name} defined is not valid any more: {error.problems[0].message}"
            raise StoreError(problem("CATALOG_DAMAGED", path=self._path, why=why)) from error


def dependents_of(name: str, program: Program) -> list[str]:
    """What would miss the relation, or if there is none of that name the type."""
    if name in program.by_name:
        inner = {relation.name: owner_of(relation.name) for relation in program.inner}
        found = {inner.get(other, other) for other, reads in dependencies(program).items() if name in reads}
        return sorted(found - {name})
    relations = [r.name for r in program.relations if name in (type_.name for type_ in r.types)]
    return sorted(relations + [t.name for t in program.types if name in t.parts])


@contextmanager
def failures_told(names: Callable[[], Container[str]]) -> Iterator[None]:
    """Failures of functions are told of the views that people know, not of the relations that these are computed by."""
    try:
        yield
    except EvaluationError as error:
        known = names()
        raise EvaluationError(_told_of_known(found, known) for found in error.problems) from None


def _told_of_known(found: Problem, known: Container[str]) -> Problem:
    relation = found.parameters.get("relation")
    if found.span is not None or found.parameters.get("where") != f'a rule of "{relation}"':  # told otherwise, as SQL does
        return found
    name = str(relation).partition("$")[0]
    while name and name not in known:
        name = owner_of(name) or name.rpartition("_")[0]
    where = f'a rule of "{name}"' if name else "the query"
    return replace(found, parameters={**found.parameters, "where": where, "relation": name or None})
