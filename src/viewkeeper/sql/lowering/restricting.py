"""Restricts the relation of a subquery to what the query around it can ask for.

    q(p) :- orders(o, d, p), d > 9, q?1(o).
    q?1(o) :- lines(o, late), late = 1.                                 becomes

    q?1(o) :- lines(o, late), late = 1, orders(o, d, _), d > 9.

Without it rows are kept, and groups computed, for all orders there are. Only rows that are looked up by their key are joined, so none of the
subquery's rows becomes several, and only if they or what they lead to carry a condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from viewkeeper.program.ast import (
    Atom,
    Comparison,
    Constant,
    Literal,
    Relation,
    Rule,
    Term,
    Test,
    Variable,
    Wildcard,
    aggregates_in,
    all_variables,
    atoms_in,
    literal_terms,
    subterms,
)
from viewkeeper.program.functions import can_fail
from viewkeeper.program.grouping import EXTREMES, grouping_of
from viewkeeper.program.strata import components, reach, reads
from viewkeeper.rewrite.terms import substitute, substitute_in

Fresh = Callable[[str], Variable]


@dataclass(frozen=True)
class _Restriction:
    """What holds around a relation wherever it is read, as far as can be told from its columns.

    Variables have names that say what they are: ``0`` is the first column, ``orders(0).date`` the date of the order with that key. So it is
    seen whether two readers say the same.
    """

    lookups: tuple[Atom, ...]
    conditions: tuple[Literal, ...]

    @property
    def useful(self) -> tuple[Atom, ...]:
        """The lookups that say something, or lead to what does."""
        needed, found = set(all_variables(self.conditions)), list[Atom]()
        for atom in reversed(self.lookups):
            told = _told(atom)
            if told & needed or not told:
                found.insert(0, atom)
                needed |= all_variables((atom,)).keys()
        return tuple(found)

    def common(self, other: _Restriction) -> _Restriction:
        lookups = tuple(atom for atom in self.lookups if atom in other.lookups)
        known = {name for atom in lookups for name in all_variables((atom,))}
        conditions = [x for x in self.conditions if x in other.conditions and _lookup_variables(x) <= known]
        return _Restriction(lookups, tuple(conditions))


def _lookup_variables(literal: Literal) -> set[str]:
    return {name for name in all_variables((literal,)) if "." in name}


def _told(atom: Atom) -> set[str]:
    """What a lookup tells; nothing, if all its columns are known, so that it can only say whether there is such a row."""
    return {name for name in all_variables((atom,)) if name.startswith(f"{atom.relation}(")}


def restrict(
    rules: Sequence[Rule], others: Iterable[Rule], inner: Iterable[str], relations: Mapping[str, Relation], fresh: Fresh
) -> list[Rule]:
    """The rules with what is asked of inner relations; ``others``: rules of what they read."""
    return _Restricting(tuple(rules), tuple(others), frozenset(inner), relations, fresh).rules()


@dataclass(frozen=True)
class _Restricting:
    before: tuple[Rule, ...]
    others: tuple[Rule, ...]
    inner: frozenset[str]
    relations: Mapping[str, Relation]
    fresh: Fresh

    def rules(self) -> list[Rule]:
        found = list(self.before)
        graph = _graph((*self.others, *found))
        # Who reads a relation comes before it, so that what is asked is handed on.
        for component in reversed(components(graph)):
            name = component[0]
            if name not in self.inner or len(component) > 1 or name in graph[name]:
                continue
            restriction = self._restriction(name, found)
            if restriction is not None:
                found = [self._restricted(rule, restriction) if rule.head.relation == name else rule for rule in found]
        return found

    # ---- what is asked of a relation

    def _restriction(self, name: str, rules: Sequence[Rule]) -> _Restriction | None:
        """What all who read a relation say about it; None if that is nothing."""
        own = [rule for rule in rules if rule.head.relation == name]
        if not own or any(_conjunction(rule) is None for rule in own):
            return None
        graph = _graph((*self.others, *rules))
        common: _Restriction | None = None
        for reader in rules:
            if any(atom.relation == name for atom, _ in reads(reader)):
                body = _conjunction(reader)
                if body is None:
                    return None
                said = self._said(name, body, own, graph)
                common = said if common is None else common.common(said)
        return common if common is not None and (common.conditions or common.useful) else None

    def _said(self, name: str, body: tuple[Literal, ...], own: Sequence[Rule], graph: _Graph) -> _Restriction:
        known = _places(name, body, own)
        lookups, conditions = list[Atom](), list[Literal]()
        for atom in self._lookups(name, body, known, graph):
            lookups.append(self._named(atom, known, conditions))
        conditions += substitute([literal for literal in body if _is_condition(literal, known)], known)
        return _Restriction(tuple(lookups), tuple(dict.fromkeys(conditions)))

    def _lookups(self, name: str, body: tuple[Literal, ...], known: Mapping[str, Term], graph: _Graph) -> Iterator[Atom]:
        """Atoms that are found by a key that is known, one after the other; what they tell becomes known."""
        left = [x for x in body if isinstance(x, Atom) and x.relation != name and name not in reach(graph, {x.relation})]
        progress = True
        while progress:
            progress = False
            for atom in list(left):
                if all(isinstance(a, Constant) or (isinstance(a, Variable) and a.name in known) for a in self._key(atom)):
                    left.remove(atom)
                    if len(self._key(atom)) < len(atom.arguments) or self._chooses(atom.relation):
                        progress = True
                        yield atom

    def _chooses(self, relation: str) -> bool:
        """Does it hold rows that are chosen by a value? Others would be joined for nothing, most likely."""
        rules = [rule for rule in self.before if rule.head.relation == relation and relation in self.inner]
        literals = [x for rule in rules for x in _conjunction(rule) or () if isinstance(x, (Comparison, Test))]
        return any(isinstance(part, Constant) for x in literals for term in literal_terms(x) for part in subterms(term))

    def _named(self, atom: Atom, known: dict[str, Term], conditions: list[Literal]) -> Atom:
        """The atom with names that say what its variables are. What it says of values that are known is a condition."""
        relation = self.relations[atom.relation]
        arguments: list[Term] = []
        key = set(self._key_places(atom))
        row = ", ".join(_text(substitute_in(argument, known)) for argument in self._key(atom))
        for place, argument in enumerate(atom.arguments):
            if place in key:
                arguments.append(substitute_in(argument, known))
                continue
            own = Variable(f"{atom.relation}({row}).{relation.columns[place].name}")
            arguments.append(own)
            if isinstance(argument, Variable) and argument.name not in known:
                known[argument.name] = own
            elif isinstance(argument, (Variable, Constant)):
                conditions.append(Comparison("=", own, substitute_in(argument, known)))
        return Atom(atom.relation, tuple(arguments))

    def _key_places(self, atom: Atom) -> list[int]:
        """The columns that tell a row of the relation; all, if it has no key."""
        relation = self.relations[atom.relation]
        return [i for i, column in enumerate(relation.columns) if not relation.key or column.name in relation.key]

    def _key(self, atom: Atom) -> list[Term]:
        return [atom.arguments[i] for i in self._key_places(atom)]

    # ---- the relation

    def _restricted(self, rule: Rule, restriction: _Restriction) -> Rule:
        mapping: dict[str, Term] = {str(place): argument for place, argument in enumerate(rule.head.arguments)}
        body = _conjunction(rule)
        assert body is not None
        joined = list(body)
        for atom in restriction.useful:
            self._look_up(atom, joined, mapping)
        joined += [literal for literal in substitute(restriction.conditions, mapping) if literal not in joined]
        grouping = grouping_of(rule)
        return replace(rule, body=tuple(joined) if grouping is None else grouping.over(tuple(joined)))

    def _look_up(self, atom: Atom, joined: list[Literal], mapping: dict[str, Term]) -> None:
        """Joins a row that is found by its key. One that is joined already is the same row."""
        key = [substitute_in(argument, mapping) for argument in self._key(atom)]
        there = next((x for x in joined if isinstance(x, Atom) and x.relation == atom.relation and self._key(x) == key), None)
        arguments: list[Term] = []
        for place, argument in enumerate(atom.arguments):
            old = None if there is None else there.arguments[place]
            if isinstance(argument, Variable) and argument.name not in mapping:
                mapping[argument.name] = self.fresh("known") if old is None or isinstance(old, Wildcard) else old
            arguments.append(substitute_in(argument, mapping))
        if there is None:
            joined.append(Atom(atom.relation, tuple(arguments)))
        else:
            joined[joined.index(there)] = replace(there, arguments=tuple(arguments))


_Graph = Mapping[str, Mapping[str, str]]


def _graph(rules: Iterable[Rule]) -> dict[str, dict[str, str]]:
    graph: dict[str, dict[str, str]] = {}
    for rule in rules:
        uses = graph.setdefault(rule.head.relation, {})
        for atom, use in reads(rule):
            uses[atom.relation] = use
            graph.setdefault(atom.relation, {})
    return graph


def _conjunction(rule: Rule) -> tuple[Literal, ...] | None:
    """What a rule joins, groups or not; None if it is another rule, such as one with windows."""
    grouping = grouping_of(rule)
    if grouping is not None:
        # Minima and maxima that share a row with other results are taken from one atom.
        several = len(grouping.aggregates) > 1 and any(a.operation in EXTREMES for a in grouping.aggregates)
        return None if several or _has_aggregates(grouping.body) else grouping.body
    return None if _has_aggregates((rule.head, *rule.body)) else rule.body


def _has_aggregates(literals: Iterable[Literal]) -> bool:
    return any(any(aggregates_in(literal)) for literal in literals)


def _places(name: str, body: tuple[Literal, ...], own: Sequence[Rule]) -> dict[str, Term]:
    """Variables that the relation is read with, everywhere alike, and that its own rules have variables for."""
    asked = [atom.arguments for atom, _ in atoms_in(body) if atom.relation == name]
    found: dict[str, Term] = {}
    for place, argument in enumerate(asked[0]):
        alike = isinstance(argument, Variable) and all(other[place] == argument for other in asked)
        if alike and all(_is_own(rule, place) for rule in own):
            assert isinstance(argument, Variable)
            found.setdefault(argument.name, Variable(str(place)))
    return found


def _is_own(rule: Rule, place: int) -> bool:
    """Is that of the head a variable, of a group if the rule groups?"""
    argument, grouping = rule.head.arguments[place], grouping_of(rule)
    return isinstance(argument, Variable) and (grouping is None or argument.name in grouping.groups)


def _is_condition(literal: Literal, known: Mapping[str, Term]) -> bool:
    """Can it be told from what is known, without a failure that the rest of the body would have prevented?"""
    if not isinstance(literal, (Comparison, Test)) or any(aggregates_in(literal)):
        return False
    risky = (isinstance(literal, Test) and literal.predicate == "match") or any(map(can_fail, literal_terms(literal)))
    variables = all_variables((literal,))
    return bool(variables) and not risky and variables.keys() <= known.keys()


def _text(term: Term) -> str:
    return term.name if isinstance(term, Variable) else repr(term)
