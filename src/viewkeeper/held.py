"""A question whose answer somebody holds: what it was, and what each later commit changes in it.

Nothing is kept of the answer here. A question that is one relation with columns that are bound or different is answered from what a commit
changed in it; of any other, or if nothing is told of the relation, the answers before and after a commit are derived, if it changed something
that they depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from viewkeeper.answer import Answer
from viewkeeper.changed import Changed, StoredRow
from viewkeeper.definitions import Definitions
from viewkeeper.errors import EvaluationError, ProgramError, ViewkeeperError
from viewkeeper.history import History, changes_of, refuse_forgotten
from viewkeeper.language import parse_query
from viewkeeper.program.ast import Atom, Constant, Program, Rule, Variable
from viewkeeper.program.hierarchy import Hierarchy
from viewkeeper.program.strata import dependencies, reach
from viewkeeper.program.typing import Typer
from viewkeeper.program.values import store
from viewkeeper.state import State
from viewkeeper.store.log import Log


@dataclass
class Held:
    """The answer to a question; ``commit``: the last one that it, with the changes taken so far, is the answer after."""

    text: str
    answer: Answer
    commit: int
    follow: Callable[[Held], Iterator[tuple[int, Changed]]]

    def changes(self) -> Iterator[tuple[int, Changed]]:
        """The commits since that changed the answer, in order, each with the exact change. The next call goes on behind them."""
        return self.follow(self)


def answer_changes(held: Held, state: State, definitions: Definitions) -> Iterator[tuple[int, Changed]]:
    """What the commits after one changed in an answer. After commits that leave the question without one, by what they define or as a function
    fails, the next answer is told as it differs from the last one; if there is none, that is an error, and nothing is missed."""
    last = state.catalog.last_commit()
    refuse_forgotten(held.commit, state.catalog.oldest(), held.commit)
    defining = {definition.commit for definition in state.catalog.definitions()}
    failed: ViewkeeperError | None = None
    for number in range(held.commit + 1, last + 1):
        if failed is not None and number not in defining and not _may_mend(failed, held.text, number, state, definitions):
            continue
        try:
            if number > held.commit + 1 or (number in defining and _redefined(held.text, number, state, definitions)):
                changed = _compared(held.text, held.commit, number, state, definitions)
            else:
                changed = _change(held.text, number, state, definitions)
        except (ProgramError, EvaluationError) as error:
            failed = error
            continue
        failed, held.commit = None, number
        if changed is not None:
            yield number, changed
    if failed is not None:
        raise failed


def _may_mend(failed: ViewkeeperError, text: str, number: int, state: State, definitions: Definitions) -> bool:
    """Whether a question that had no answer may have one after a commit that defines nothing: not if it cannot be asked."""
    if isinstance(failed, ProgramError):
        return False
    program, relation = parse_query(text, definitions.program_at(state.catalog, number))
    entries = {entry.relation for entry in Log(state.catalog).entries(number - 1, number)}
    return not entries.isdisjoint(reach(dependencies(program), {relation.name}))


def _change(text: str, number: int, state: State, definitions: Definitions) -> Changed | None:
    entries = {entry.relation for entry in Log(state.catalog).entries(number - 1, number)}
    if not entries:
        return None
    program, relation = parse_query(text, definitions.program_at(state.catalog, number))
    rule = Typer(program.by_name, Hierarchy.of(program.types)).rule(program.rules[-1])[0]
    atom = _plain(rule)
    if atom is None or atom.relation in program.virtual:
        if not reach(dependencies(program), {relation.name}) & entries:
            return None
        return _compared(text, number - 1, number, state, definitions)
    if atom.relation not in entries:
        return None
    changed = changes_of(state, definitions, number)[atom.relation]
    came, went = (list(_matching(rows, atom, rule.head, program)) for rows in changed.stored)
    return Changed.of(relation, came, went) if came or went else None


def _redefined(text: str, number: int, state: State, definitions: Definitions) -> bool:
    """Whether a commit made something else of what a question may depend on: the log tells only of what each relation is."""
    before, after = (definitions.program_at(state.catalog, commit) for commit in (number - 1, number))
    if before.types != after.types:
        return True
    other = {relation.name for relation in set(before.relations) ^ set(after.relations)} | before.virtual ^ after.virtual
    other |= {rule.head.relation for rule in set(before.rules) ^ set(after.rules)}
    return any(
        not other.isdisjoint(reach(dependencies(program), {name for name in program.by_name if name in text}))
        for program in (before, after)
    )


def _compared(text: str, since: int, until: int, state: State, definitions: Definitions) -> Changed | None:
    """How the answers after two commits differ."""
    old, before = History(state, definitions, since).answer(text)
    new, after = History(state, definitions, until).answer(text)
    if old.types != new.types:
        return Changed.of(new, after, before, old) if after or before else None
    came, went = set(after) - set(before), set(before) - set(after)
    return Changed.of(new, list(came), list(went)) if came or went else None


def _plain(rule: Rule) -> Atom | None:
    """The atom that is all of the question, if different rows of its relation are different answers."""
    if len(rule.body) != 1 or not isinstance(rule.body[0], Atom):
        return None
    atom = rule.body[0]
    return atom if all(isinstance(argument, (Variable, Constant)) for argument in atom.arguments) else None


def _matching(rows: list[StoredRow], atom: Atom, head: Atom, program: Program) -> Iterator[StoredRow]:
    """The answers that rows of an atom's relation are."""
    columns = program.relation(atom.relation).columns
    if any(isinstance(argument, Constant) and argument.value is None for argument in atom.arguments):
        return  # NULL equals nothing
    wanted = [
        (i, store(a.value, c.type.optional()))  # one with more digits than the column has equals nothing there
        for i, (a, c) in enumerate(zip(atom.arguments, columns, strict=True))
        if isinstance(a, Constant)
    ]
    names = [a.name if isinstance(a, Variable) else None for a in atom.arguments]
    places = [names.index(a.name) for a in head.arguments if isinstance(a, Variable)]
    twice = [(i, names.index(name)) for i, name in enumerate(names) if name is not None and names.index(name) < i]
    for row in rows:
        if all(row[i] == value for i, value in wanted) and all(row[i] == row[j] and row[i] is not None for i, j in twice):
            yield tuple(row[i] for i in places) or (1,)
