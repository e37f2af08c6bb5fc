"""The warehouse as it was: what is there now, with the log taken back."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from viewkeeper.changed import Changed, StoredRow
from viewkeeper.errors import StoreError, problem
from viewkeeper.outcomes import silent
from viewkeeper.program.ast import Directive, Program, Relation
from viewkeeper.state import State
from viewkeeper.store.catalog import NOWHERE, Catalog
from viewkeeper.store.log import Log, net

if TYPE_CHECKING:
    from viewkeeper.definitions import Definitions
    from viewkeeper.outcomes import Report
    from viewkeeper.state import Work


@dataclass(frozen=True)
class History:
    """What a state was at an earlier commit."""

    state: State
    definitions: Definitions
    commit: int

    def __post_init__(self) -> None:
        if isinstance(self.commit, bool) or not isinstance(self.commit, int):
            wanted = "the number of a commit"
            raise StoreError(problem("BAD_PARAMETER", value=self.commit, parameter="commit", wanted=wanted))
        last = self.state.catalog.last_commit()
        if not 0 <= self.commit <= last:
            raise StoreError(problem("UNKNOWN_COMMIT", commit=self.commit, last=last))
        refuse_forgotten(self.commit, self.state.catalog.oldest(), self.commit)

    @cached_property
    def program(self) -> Program:
        """What was defined then. Views that were stored and have not been all the time since are derived: the log does not tell of them throughout."""
        then = self.definitions.program_at(self.state.catalog, self.commit)
        stored = then.derived - then.external
        gone = {name for name in stored if name in self.state.kept and self.state.kept[name].place == NOWHERE}
        gone |= {name for program in self._later.values() for name in stored & program.virtual}
        more = tuple(Directive("external", name) for name in sorted(gone))
        return replace(then, directives=(*then.directives, *more)) if more else then

    @cached_property
    def _later(self) -> dict[int, Program]:
        """What was defined after each later commit that defined something."""
        commits = {definition.commit for definition in self.state.catalog.definitions()}
        return {n: self.definitions.program_at(self.state.catalog, n) for n in sorted(commits) if n > self.commit}

    def rows(self, relation: Relation) -> list[StoredRow]:
        """The rows of a relation."""
        from viewkeeper.program.arrow import rows_of_batch

        if relation.name in self.program.external:
            return self._computed(self.program, relation)
        current, came, went = self._taken_back(relation.name)
        width = max(1, relation.arity)
        batches = self.state.rows(self.state.program.relation(relation.name)) if current else ()
        now = [row for batch in batches for row in rows_of_batch(batch, width)]
        return [*(row for row in now if row not in came), *went]

    def answer(self, text: str, report: Report = silent) -> tuple[Relation, list[StoredRow]]:
        """The answer to a question."""
        from viewkeeper.language import parse_query

        program, relation = parse_query(text, self.program)
        return relation, self._computed(program, relation, report)

    def _computed(self, program: Program, relation: Relation, report: Report = silent) -> list[StoredRow]:
        """The rows of a view, derived from what is there now and what was taken back of it."""
        from viewkeeper.program.arrow import batch_of_rows, rows_of_batch

        work, taken_back = self._work(program, relation.name)
        state = replace(self.state, kept={name: self.state.kept[name] for name in work.inputs}, spark=None)
        with self.state.catalog.scratch(), state.engine("embedded", work) as engine:
            for name in sorted(work.inputs):
                if self.state.kept[name].place == NOWHERE:  # it is a view now
                    engine.insert(name, self.state.rows(self.state.program.relation(name)))
            for name, rows in taken_back.items():
                engine.insert(name, [batch_of_rows(rows, work.core.relation(name))])
            work.evaluate(engine, report)
            batches = engine.read(relation, ordered=True)
            return [row for batch in batches for row in rows_of_batch(batch, max(1, relation.arity))]

    def _work(self, program: Program, goal: str) -> tuple[Work, dict[str, list[StoredRow]]]:
        """How a view is derived from what is there now, and the rows that have to be put in for that."""
        from viewkeeper.rewrite.take_back import came, take_back, went
        from viewkeeper.state import Work

        work = Work.of(program, {goal})
        changed: dict[str, bool] = {}
        rows: dict[str, list[StoredRow]] = {}
        for name in work.inputs:
            is_read, since, before = self._taken_back(name)
            if since or before or not is_read:
                changed[name] = is_read
                rows |= {came(name): [*since], went(name): [*before]}
        read = frozenset(name for name in work.inputs if changed.get(name, True))
        core = _declared_as(self.state.program, work.core, read)
        work = Work(take_back(core, changed), read)
        if changed or program.external & core.by_name.keys():
            sizes = {name: kept.rows for name, kept in self.state.kept.items()}
            work = work.on_demand(goal, sizes | {name: len(found) for name, found in rows.items()})
        return work, rows

    def _taken_back(self, name: str) -> tuple[bool, set[StoredRow], set[StoredRow]]:
        """Whether to start from what is there now or from nothing, what to take away from it, and what to add."""
        until = self._end(name)
        log = Log(self.state.catalog)
        entries = log.entries(self.commit, until, name)
        begun = next((place for place, entry in enumerate(entries) if entry.form == "first"), None)
        if begun is not None:  # before it there was nothing
            return False, *net(log.rows(entry.commit, name) for entry in entries[:begun])
        changes = [log.rows(entry.commit, name) for entry in entries]
        if until is not None:
            if changes and entries[-1].commit == until:
                changes[-1] = [], changes[-1][1]  # what came there is of another relation
            changes.append(([], self._untold(name, until)))
        return until is None, *net(changes)

    def _end(self, name: str) -> int | None:
        """The commit that dropped the relation after this one, made another one of it, or told no more of it."""
        relation = self.program.relation(name)
        for commit, program in self._later.items():
            if name not in program.by_name or program.relation(name).types != relation.types or name in program.virtual:
                return commit
        return None

    def _untold(self, name: str, until: int) -> list[StoredRow]:
        """The rows of a view that became virtual, as that tells nothing. Those of a base relation are told to have gone."""
        last = History(self.state, self.definitions, until - 1)
        became_virtual = name in last.program.derived and name in self._later[until].virtual
        return last.rows(last.program.relation(name)) if became_virtual else []


def _declared_as(program: Program, core: Program, read: Collection[str]) -> Program:
    """A core program of then that reads these relations as they are declared now, maybe with other names of columns."""
    relations = tuple(program.relation(r.name) if r.name in read else r for r in core.relations)
    return replace(core, relations=relations)


def refuse_forgotten(since: int, oldest: int, commit: int) -> None:
    """What a commit did, or what was there then, takes the log since ``since``."""
    if since < oldest:
        raise StoreError(problem("LOG_TRIMMED", commit=commit, oldest=oldest))


def rows_as_of(directory: Path, relation: Relation, commit: int) -> list[StoredRow]:
    """The rows that a relation had after a commit."""
    from viewkeeper.definitions import Definitions

    catalog = Catalog.open(directory, writable=False)
    try:
        with catalog.snapshot():
            definitions = Definitions(directory)
            state = State(directory, catalog, *definitions.contents(catalog), None)
            return History(state, definitions, commit).rows(relation)
    finally:
        catalog.close()


def changes_of(state: State, definitions: Definitions, commit: int, only: str | None = None) -> dict[str, Changed]:
    """What a commit changed, by relation; ``only``: of this one."""
    History(state, definitions, commit)  # refuses a commit that there is not
    if commit:
        refuse_forgotten(commit - 1, state.catalog.oldest(), commit)
    log, found = Log(state.catalog), {}
    programs = [definitions.program_at(state.catalog, number) for number in (commit, commit - 1)]
    for entry in log.entries(commit - 1, commit, only):
        relation = next(p.relation(entry.relation) for p in programs if entry.relation in p.by_name)
        if entry.form == "first":
            rows = History(state, definitions, commit).rows(relation)
            found[entry.relation] = Changed.of(relation, rows, [])
        else:
            old = programs[1].relation(entry.relation) if entry.relation in programs[1].by_name else relation
            before = old if old.types != relation.types else None
            found[entry.relation] = Changed.of(relation, *log.rows(commit, entry.relation), before)
    return found
