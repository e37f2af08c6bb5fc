"""Gives every aggregate a relation of its own, with one row for each group.

    p(x, n) :- q(x), n = count : { r(x, _) }.

becomes

    p_count1(x, n) :- n = count : { r(x, _) }.            one row for each x of r
    p(x, n) :- q(x), p_count1(x, n).
    p(x, n) :- q(x), !p_count1(x, _), n = 0.              count and sum have a value for nothing, unless q is r

Where the aggregate's body does not bind a variable it shares with the rule, the rule's other literals say for which values it
is computed:

    p(x, n) :- q(x), n = count : { s(y), y < x }.

becomes

    p_for1(x) :- q(x).
    p_count1(x, n) :- n = count : { p_for1(x), s(y), y < x }.     …

An aggregate's body with alternatives or further aggregates becomes a relation, too. The check has made sure that the new
relations can be stratified.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from decimal import Decimal

from viewkeeper.program.alternatives import body_alternatives
from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Call,
    Column,
    Comparison,
    Constant,
    Either,
    Literal,
    Negation,
    Program,
    Relation,
    Rule,
    Term,
    Test,
    Value,
    Variable,
    Wildcard,
    aggregates_in,
    aggregates_of,
    all_variables,
)
from viewkeeper.program.check import bound_inside
from viewkeeper.program.functions import DEFAULTED, aggregate_type
from viewkeeper.program.grouping import EXTREMES, Grouping, equations, grouping_of, single_source
from viewkeeper.program.hierarchy import Hierarchy
from viewkeeper.program.safety import bound_variables, inner_variables, scope_variables
from viewkeeper.program.types import NUMBER, Kind, Type
from viewkeeper.program.typing import Typer, may_be_null
from viewkeeper.program.windows import windowing_of
from viewkeeper.rewrite.fresh import Names
from viewkeeper.rewrite.terms import map_terms, name_wildcards, substitute_in


def extract_aggregates(program: Program) -> Program:
    extraction = _Extraction(program)
    rules = [core for rule in program.rules for core in extraction.rule(rule)]
    return replace(program, relations=(*program.relations, *extraction.relations), rules=(*rules, *extraction.rules))


@dataclass
class _Extraction:
    program: Program
    relations: list[Relation] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names = Names(self.program.by_name)
        self.typer = Typer(dict(self.program.by_name), Hierarchy.of(self.program.types))

    def rule(self, rule: Rule) -> list[Rule]:
        """Core rules equivalent to a typed rule; relations they need are added on the way."""
        grouped = grouping_of(rule)
        if grouped is not None:
            return [self._grouping(rule, grouped)]
        if windowing_of(rule) is not None:
            return [rule]
        rule = _out_of_atoms(rule)
        aggregates = self._next_aggregates(rule)
        if not aggregates:
            return [rule]
        extract = self._extract_together if len(aggregates) > 1 else self._extract
        return [core for variant in extract(rule, *aggregates) for core in self.rule(variant)]

    # ---- the aggregates of a rule

    def _next_aggregates(self, rule: Rule) -> list[Aggregate]:
        """An aggregate that does not wait for the result of another one, and those that are like it but for what they compute."""
        waiting = [a for literal in (*rule.body, rule.head) for a in aggregates_in(literal)]
        visible = scope_variables((rule.head, *rule.body))
        bound = bound_variables(_independent(rule), set(), visible)
        ready = [a for a in waiting if (inner_variables(a) & visible) <= bound]
        assert ready or not waiting, "the check lets no such rule through"
        if not ready:
            return []
        first = self._sharing(ready[0], visible)
        return [a for a in ready if a is ready[0] or (first is not None and _is_over(self._sharing(a, visible), first))]

    def _sharing(self, aggregate: Aggregate, visible: AbstractSet[str]) -> Aggregate | None:
        """``_alike`` of an aggregate that can share a relation: min and max of groups, each of which has a value, in a single atom."""
        found = _alike(aggregate, visible)
        if found is None or aggregate.operation not in EXTREMES:
            return found
        assert aggregate.target is not None
        in_groups = bool(inner_variables(aggregate) & visible)
        if not in_groups or single_source(found) is None or self._target_type(aggregate.target, aggregate.body).nullable:
            return None
        return found

    def _extract_together(self, rule: Rule, *aggregates: Aggregate) -> list[Rule]:
        """Counts, sums, means, minima and maxima over the same rows.

        p(x, n, s) :- q(x), n = count : { r(x, _) }, s = sum z : { r(x, z) }.           becomes

        p_group1(x, n, s) :- n = count : { r(x, v1) }, s = sum v1 : { r(x, v1) }.
        p(x, n, s) :- q(x), p_group1(x, n, s).
        p(x, n, s) :- q(x), !p_group1(x, _, _), n = 0, s = 0.
        """
        visible = scope_variables((rule.head, *rule.body))
        shared = _shared(rule, aggregates[0])
        types = self.typer.rule(rule)[1]
        results: list[Variable] = []
        named: list[str | None] = []
        certain = any(self._has_rows(rule, aggregate, shared, types) for aggregate in aggregates)
        for aggregate in aggregates:
            rule, result = _result(rule, aggregate, shared)
            named.append(self._type_name(rule, aggregate, result, types))
            rule = _replace_in_rule(rule, aggregate, result, ())
            results.append(result)
        alike = [found for a in aggregates if (found := _alike(a, visible)) is not None]
        table = self._groups(f"{rule.head.relation}_group", shared, alike, results, named)
        columns = [*shared, *(result.name for result in results)]
        variants = [replace(rule, body=(*rule.body, _atom(table, columns)))]
        if shared and all(a.operation in DEFAULTED for a in aggregates) and not certain:
            nothing = Negation(Atom(table.name, (*map(Variable, shared), *(Wildcard() for _ in results))))
            values = zip(results, table.columns[len(shared) :], strict=True)
            zeros = [Comparison("=", result, _zero(column.type)) for result, column in values]
            variants.append(replace(rule, body=(*rule.body, nothing, *zeros)))
        return variants

    def _extract(self, rule: Rule, aggregate: Aggregate) -> list[Rule]:
        head = rule.head.relation
        shared = _shared(rule, aggregate)
        missing = [name for name in shared if name not in bound_inside(aggregate)]
        types = self.typer.rule(rule)[1]
        for name in missing:
            if types[name].nullable:
                return self._split_null(rule, aggregate, name)
        body = aggregate.body
        if missing:
            domain = self._define(f"{head}_for", missing, [_independent(rule)])
            body = (_atom(domain, missing), *body)
        rule, result = _result(rule, aggregate, shared)
        type_name = self._type_name(rule, aggregate, result, types)
        stem = f"{head}_{aggregate.operation}"
        table = self._groups(stem, shared, [self._flat(stem, replace(aggregate, body=body), shared)], [result], [type_name])
        variants = [_replace_in_rule(rule, aggregate, result, (_atom(table, [*shared, result.name]),))]
        certain = not missing and self._has_rows(rule, aggregate, shared, types)
        if shared and aggregate.operation in DEFAULTED and not certain:
            nothing = Negation(Atom(table.name, (*map(Variable, shared), Wildcard())))
            zero = Comparison("=", result, _zero(table.columns[-1].type))
            variants.append(_replace_in_rule(rule, aggregate, result, (nothing, zero)))
        return variants

    def _has_rows(self, rule: Rule, aggregate: Aggregate, shared: list[str], types: dict[str, Type]) -> bool:
        """Does the rule say itself that there is something to aggregate, as in ``r(x, _), n = count : { r(x, _) }``?"""
        match aggregate.body:
            case [Atom() as inner] if not any(types[name].nullable for name in shared):
                target = aggregate.target
                valued = target is None or not self._target_type(target, aggregate.body).nullable
                return valued and any(isinstance(x, Atom) and _is_among(x, inner, shared) for x in rule.body)
        return False

    def _split_null(self, rule: Rule, aggregate: Aggregate, name: str) -> list[Rule]:
        """The rule for the values of a variable, and the rule for NULL, which equals no group's value, so that there are no groups.

        p(x, n) :- q(x), n = count : { s(y), y < coalesce(x, 9) }.       becomes

        p(x, n) :- q(x), n = count : { s(y), y < coalesce(x, 9) }, !is_null(x).
        p(x, n) :- q(x), n = count : { p_null1(x1), s(y), y < coalesce(x1, 9) }, is_null(x).
        p_null1(x) :- q(x), is_null(x).
        """
        null = Test("is_null", (Variable(name),))
        table = self._define(f"{rule.head.relation}_null", [name], [(*_independent(rule), null)])
        inside = Names(all_variables((rule.head, *rule.body))).fresh(name)
        renamed = _rename(aggregate, {name: inside})
        renamed = replace(renamed, body=(_atom(table, [inside]), *renamed.body))
        known = replace(rule, body=(*rule.body, replace(null, negated=True)))
        return [known, _replace_in_rule(rule, aggregate, renamed, (null,))]

    def _type_name(self, rule: Rule, aggregate: Aggregate, result: Variable, types: dict[str, Type]) -> str | None:
        """A computed value fits every subtype of its base; as a column it must say which one its place needs."""
        if result.name in types and types[result.name].name:
            return types[result.name].name
        columns = self.typer.relations[rule.head.relation].columns
        places = zip(rule.head.arguments, columns, strict=True)
        return next((column.type.name for term, column in places if term is aggregate or term == result), None)

    def _groups(
        self, stem: str, shared: list[str], aggregates: list[Aggregate], results: list[Variable], named: list[str | None]
    ) -> Relation:
        """The relation with one row for each group of aggregates over one body; ``named``: the types that the results need to have."""
        types = self.typer.body_types(aggregates[0].body)
        columns = [Column(name, types[name]) for name in shared]
        for aggregate, result, name in zip(aggregates, results, named, strict=True):
            found = self._result_type(aggregate)
            columns.append(Column(result.name, replace(found, name=found.name or name)))
        table = self._declare(stem, columns)
        names = [result.name for result in results]
        self.rules.append(Rule(_atom(table, [*shared, *names]), equations(names, aggregates)))
        return table

    def _result_type(self, aggregate: Aggregate) -> Type:
        if aggregate.target is None:
            found = aggregate_type("count", None)
        else:
            found = aggregate_type(aggregate.operation, self._target_type(aggregate.target, aggregate.body))
        assert found is not None
        return found

    # ---- bodies of aggregates

    def _grouping(self, rule: Rule, grouped: Grouping) -> Rule:
        [first, *others] = grouped.aggregates
        stem = f"{rule.head.relation}_{first.operation}"
        if not others:
            return replace(rule, body=equations(grouped.results, [self._flat(stem, first, grouped.groups)]))
        # All of them over what one of them, with no target, is over.
        rows = self._flat(stem, replace(first, operation="count", target=None), grouped.groups)
        return replace(rule, body=grouped.over(rows.body))

    def _flat(self, stem: str, aggregate: Aggregate, shared: Iterable[str]) -> Aggregate:
        """The aggregate over a conjunction without further aggregates, in its target neither.

            s = sum y : { q(_, y) ; r(x, y) }

        becomes

            s = sum y : { p_over1(any1, y, x, branch1) }
            p_over1(any1, y, null, 0) :- q(any1, y).
            p_over1(null, y, x, 1) :- r(x, y).

        Every assignment counts once, and every _ is a variable. Alternatives that bind the same variables may give the same assignment,
        those that do not are different branches.
        """
        nested = aggregate.target is not None and any(aggregates_of(aggregate.target))
        if not nested and not any(isinstance(literal, Either) or any(aggregates_in(literal)) for literal in aggregate.body):
            return aggregate
        names = Names(inner_variables(aggregate))
        body = name_wildcards(aggregate.body, names)
        bodies = body_alternatives(body)
        bound = [frozenset(bound_variables(a, set(), scope_variables(a) | set(shared))) for a in bodies]
        branches = list(dict.fromkeys(bound))
        types = [self.typer.body_types(a) for a in bodies]
        variables = [name for name in all_variables(body) if any(name in b for b in bound)]
        columns = [
            Column(name, _common([t[name] if name in b else None for t, b in zip(types, bound, strict=True)]))
            for name in variables
        ]
        heads: list[list[Term]] = [
            [Variable(column.name) if column.name in b else Constant(None, column.type) for column in columns] for b in bound
        ]
        if len(branches) > 1:
            columns.append(Column(names.fresh("branch"), NUMBER))
            heads = [[*head, Constant(branches.index(b), NUMBER)] for head, b in zip(heads, bound, strict=True)]
        if nested:
            assert aggregate.target is not None
            columns.append(Column(names.fresh("value"), self._target_type(aggregate.target, bodies[0])))
            heads = [[*head, aggregate.target] for head in heads]
            aggregate = replace(aggregate, target=Variable(columns[-1].name))
        table = self._declare(f"{stem}_over", columns)
        for head, alternative in zip(heads, bodies, strict=True):
            self.rules += self.rule(Rule(Atom(table.name, tuple(head)), alternative))
        return replace(aggregate, body=(_atom(table, [column.name for column in columns]),))

    def _target_type(self, target: Term, body: tuple[Literal, ...]) -> Type:
        probe = Variable("target of the aggregate")
        types = self.typer.body_types((*body, Comparison("=", probe, target)))
        return types[probe.name].optional(may_be_null(target, self.typer.body_types(body)))

    # ---- new relations

    def _define(self, stem: str, columns: list[str], bodies: Iterable[tuple[Literal, ...]]) -> Relation:
        """A relation with one rule for each body."""
        bodies = list(bodies)
        types = [self.typer.body_types(body) for body in bodies]
        declared = [Column(name, _common([t[name] for t in types])) for name in columns]
        table = self._declare(stem, declared)
        for body in bodies:
            self.rules += self.rule(Rule(_atom(table, columns), body))
        return table

    def _declare(self, stem: str, columns: list[Column]) -> Relation:
        table = Relation(self.names.fresh(stem), tuple(columns))
        self.relations.append(table)
        self.typer.relations[table.name] = table
        return table


def _common(types: Sequence[Type | None]) -> Type:
    """The type of a variable that alternatives bind: its name where they agree on one, NULL where one does not bind it."""
    known = [t for t in types if t is not None]
    named = known[0] if all(t.name == known[0].name for t in known) else known[0].base
    return named.optional(len(known) < len(types) or any(t.nullable for t in known))


def _shared(rule: Rule, aggregate: Aggregate) -> list[str]:
    """The variables of the aggregate that are the rule's."""
    inside = inner_variables(aggregate) & scope_variables((rule.head, *rule.body))
    return [name for name in all_variables((rule.head, *rule.body)) if name in inside]


def _alike(aggregate: Aggregate, visible: AbstractSet[str]) -> Aggregate | None:
    """The aggregate with other names for its own variables: the same for all that go over the same rows. None if it is not so plain."""
    plain = not any(isinstance(literal, Either) or any(aggregates_in(literal)) for literal in aggregate.body)
    targets = () if aggregate.target is None else (aggregate.target,)
    if not plain or any(any(aggregates_of(term)) for term in targets):
        return None
    if (inner_variables(aggregate) & visible) - bound_inside(aggregate):
        return None
    body = name_wildcards(aggregate.body, Names({*inner_variables(aggregate), *visible}))
    names = Names(visible)
    return _rename(
        replace(aggregate, body=body), {name: names.fresh("v") for name in all_variables(body) if name not in visible}
    )


def _is_over(aggregate: Aggregate | None, other: Aggregate) -> bool:
    return aggregate is not None and aggregate.body == other.body


def _result(rule: Rule, aggregate: Aggregate, shared: list[str]) -> tuple[Rule, Variable]:
    """The variable for the aggregate's result: that of ``x = sum …``, whose equation goes, or a new one."""
    for literal in rule.body:
        match literal:
            case Comparison(operator="=", left=Variable() as x, right=term) if term is aggregate and x.name not in shared:
                return replace(rule, body=tuple(other for other in rule.body if other is not literal)), x
    return rule, Variable(Names(all_variables((rule.head, *rule.body))).fresh(aggregate.operation))


def _out_of_atoms(rule: Rule) -> Rule:
    """r(x, count : { s(x) }) is r(x, y), y = count : { s(x) }: the aggregate may use what the atom binds."""
    names = Names(all_variables((rule.head, *rule.body)))
    body: list[Literal] = []
    for literal in rule.body:
        equations: list[Literal] = []
        if isinstance(literal, Atom):
            arguments: list[Term] = []
            for argument in literal.arguments:
                if any(aggregates_of(argument)):
                    variable = Variable(names.fresh("argument"))
                    equations.append(Comparison("=", variable, argument))
                    argument = variable
                arguments.append(argument)
            literal = replace(literal, arguments=tuple(arguments))
        body += [literal, *equations]
    return replace(rule, body=tuple(body))


def _is_among(atom: Atom, inner: Atom, shared: list[str]) -> bool:
    """Is a row of the atom one of the aggregate's single atom?"""

    def fits(given: Term, wanted: Term) -> bool:
        match wanted:
            case Wildcard():
                return True
            case Variable() if wanted.name not in shared:
                return inner.arguments.count(wanted) == 1
            case Variable() | Constant():
                return given == wanted
        return False

    return atom.relation == inner.relation and all(map(fits, atom.arguments, inner.arguments))


def _rename(aggregate: Aggregate, names: Mapping[str, str]) -> Aggregate:
    """The aggregate with other names for variables."""
    renamed = substitute_in(aggregate, {old: Variable(new) for old, new in names.items()})
    assert isinstance(renamed, Aggregate)
    return renamed


def _independent(rule: Rule) -> tuple[Literal, ...]:
    """The literals that can be evaluated without any aggregate of the rule."""
    literals = [literal for literal in rule.body if not any(aggregates_in(literal))]
    bound = bound_variables(literals, set(), scope_variables(literals))
    return tuple(literal for literal in literals if scope_variables((literal,)) <= bound)


def _zero(type_: Type) -> Constant:
    value: Value = 0
    if type_.kind is Kind.FLOAT:
        value = 0.0
    elif type_.kind is Kind.DECIMAL:
        value = Decimal(0).scaleb(-type_.scale)
    return Constant(value, type_.base)


def _atom(relation: Relation, names: Iterable[str]) -> Atom:
    return Atom(relation.name, tuple(Variable(name) for name in names))


def _replace_in_rule(rule: Rule, aggregate: Aggregate, result: Term, more: tuple[Literal, ...]) -> Rule:
    def term(t: Term) -> Term:
        if t is aggregate:
            return result
        if isinstance(t, Call):
            return replace(t, arguments=tuple(term(a) for a in t.arguments))
        return t

    head = map_terms(rule.head, term)
    assert isinstance(head, Atom)
    return replace(rule, head=head, body=(*(map_terms(x, term) for x in rule.body), *more))
