"""All that can be wrong with a program, found at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from viewkeeper.errors import Problem, Span, closest, counted, problem, shortened
from viewkeeper.program.alternatives import MOST_ALTERNATIVES, body_alternatives, count_alternatives, rule_alternatives
from viewkeeper.program.ast import (
    LEVELS,
    NAMED_IN_MESSAGE,
    UNSTORED,
    Aggregate,
    Atom,
    Constant,
    Directive,
    Either,
    Literal,
    Program,
    Relation,
    Rule,
    aggregates_in,
    aggregates_of,
    all_variables,
    literal_terms,
    subterms,
    variables_of,
)
from viewkeeper.program.grouping import grouping_of
from viewkeeper.program.hierarchy import Hierarchy
from viewkeeper.program.printing import print_directive, print_term
from viewkeeper.program.safety import bound_variables, check_rule, inner_variables, is_constant_fact, scope_variables
from viewkeeper.program.strata import check_strata, components, dependencies, reads
from viewkeeper.program.types import Type
from viewkeeper.program.typing import Typer, may_be_null
from viewkeeper.program.windows import measure_problems

IO_PARAMETERS = ("IO", "filename", "delimiter", "headers", "rfc4180")


def check(program: Program, doubtful: frozenset[str] = frozenset()) -> list[Problem]:
    """The problems of a program, in the order of the text; empty if it can be run.

    ``doubtful`` are relations whose declarations have been complained about: what follows from them is not reported.
    """
    program = program.revealed
    doubtful |= _redeclared(program)
    problems = [*_declarations(program), *_directives(program, doubtful), *_names(program, doubtful)]
    relations = {relation.name: relation for relation in reversed(program.relations)}
    typer = Typer(relations, Hierarchy.of(program.types))
    for rule in program.rules:
        too_many = alternatives_problems((rule.head, *rule.body), rule.span)
        problems += too_many
        if too_many:
            continue
        known = not any(atom.relation in doubtful for atom in _atoms(rule))
        variables = set(all_variables(rule.body))
        for alternative in rule_alternatives(rule):
            if not is_constant_fact(alternative):
                problems += check_rule(alternative, variables)
            if known:
                typed, types = typer.rule(alternative)
                problems += measure_problems(typed, types)
                if all(atom.relation in relations for atom in _atoms(rule)):  # another might exclude NULL
                    problems += _nulls(typed, types, relations)
    problems += typer.problems
    problems += check_strata(program)
    problems += _keys_of_views(program, doubtful)
    if not problems:
        problems += _aggregate_domains(program)
    return _ordered(problems)


def _ordered(problems: Iterable[Problem]) -> list[Problem]:
    found: dict[tuple[object, ...], Problem] = {}
    for p in problems:
        found.setdefault((p.code, p.span, p.parameters.get("variable", p.message)), p)
    far = (1 << 60, 0)
    return sorted(found.values(), key=lambda p: (p.span.line, p.span.column) if p.span else far)


def _atoms(rule: Rule) -> list[Atom]:
    return [rule.head, *(atom for atom, _ in reads(rule))]


# ---- names


def _redeclared(program: Program) -> set[str]:
    """Relations that are declared twice in different ways."""
    first: dict[str, Relation] = {}
    return {r.name for r in program.relations if first.setdefault(r.name, r).types != r.types}


def _declarations(program: Program) -> Iterable[Problem]:
    seen: dict[str, Relation] = {}
    for relation in program.relations:
        first = seen.setdefault(relation.name, relation)
        if first is not relation:
            where = f", first in line {first.span.line}" if first.span else ""
            yield problem("DUPLICATE_RELATION", relation.span, relation=relation.name, where=where)
        names: set[str] = set()
        for column in relation.columns:
            if column.name in names:
                yield problem("DUPLICATE_COLUMN", column.span, relation=relation.name, column=column.name)
            names.add(column.name)
        yield from key_problems(relation, [(name, relation.key_span) for name in relation.key])


def key_problems(relation: Relation, key: Iterable[tuple[str, Span | None]]) -> Iterable[Problem]:
    """What is wrong with the columns of a key; each is given with its place."""
    known = [column.name for column in relation.columns]
    seen: set[str] = set()
    for name, span in key:
        if name not in known:
            near, columns = closest(name, known), f"Its columns are {', '.join(known)}." if known else "It has no columns."
            yield problem("UNKNOWN_COLUMN", span, relation=relation.name, column=name, near=near, columns=columns)
        elif name in seen:
            yield problem("BAD_KEY", span, why=f'the key names the column "{name}" twice', hint="Name it once.")
        seen.add(name)


def _keys_of_views(program: Program, doubtful: frozenset[str]) -> Iterable[Problem]:
    """A rule cannot be told to derive less, so that only what is loaded can be held to a key."""
    derived = program.derived - doubtful
    for relation in program.relations:
        # Of a key that was complained about only the place may be left.
        if (relation.key or relation.key_span) and relation.name in derived:
            heads = [rule.head.span for rule in program.rules if rule.derives and rule.head.relation == relation.name]
            # What was declared before this text has no place in it, but then a rule has.
            places = (relation.key_span, relation.span, *heads)
            yield problem("KEY_OF_VIEW", next(filter(None, places), None), relation=relation.name)


def _directives(program: Program, doubtful: frozenset[str]) -> Iterable[Problem]:
    known, derived = program.by_name, program.derived
    for directive in program.directives:
        if directive.relation not in known and directive.relation not in doubtful:
            yield _unknown(directive.relation, directive.span, known)
        if directive.kind in UNSTORED and directive.relation in known and directive.relation not in derived | doubtful:
            yield problem("EXTERNAL_BASE", directive.span, relation=directive.relation, kind=directive.kind)
        if directive.kind == "integrity":
            yield from _integrity(directive, program, doubtful)
        for name, value in directive.parameters:
            found = parameter_problem(directive.kind, name, value, directive.span, directive.span)
            if found is not None:
                yield found


def _integrity(directive: Directive, program: Program, doubtful: frozenset[str]) -> Iterable[Problem]:
    name = directive.relation
    if name not in program.by_name or name in doubtful:
        return
    if name not in program.derived:
        yield problem("INTEGRITY_BASE", directive.span, relation=name)
    first = next(d for d in program.directives if (d.kind, d.relation) == ("integrity", name))
    if first != directive:
        old, new = print_directive(first), print_directive(directive)
        yield problem("CONFLICTING_DEFINITION", directive.span, what="integrity view", name=name, old=old, new=new)
    yield from message_problems(program.relation(name), directive.get("message", ""), directive.span)


def message_problems(relation: Relation, message: str, span: Span | None = None) -> Iterable[Problem]:
    """The columns that a message names and that the relation does not have."""
    known = [column.name for column in relation.columns]
    for name in NAMED_IN_MESSAGE.findall(message):
        if name not in known:
            near, columns = closest(name, known), f"Its columns are {', '.join(known)}." if known else "It has no columns."
            yield problem("UNKNOWN_COLUMN", span, relation=relation.name, column=name, near=near, columns=columns)


def parameter_problem(kind: str, name: str, value: str, name_span: Span | None, value_span: Span | None) -> Problem | None:
    """What is wrong with a parameter of a directive."""
    if kind in UNSTORED:
        return problem("UNKNOWN_PARAMETER", name_span, parameter=name, near="", known=f"none: .{kind} takes no parameters")
    if kind == "integrity":
        if name == "level" and value not in LEVELS:
            return problem("BAD_PARAMETER", value_span, parameter=name, value=value, wanted="reject, warn or note")
        if name not in ("level", "message"):
            near = closest(name, ("level", "message"))
            return problem("UNKNOWN_PARAMETER", name_span, parameter=name, near=near, known="level and message")
        return None
    match name:
        case "IO" if value not in (("file", "stdout") if kind == "output" else ("file",)):
            hint = "Only files (IO=file) are read and written, and standard output (IO=stdout) is written."
            return problem("UNSUPPORTED", value_span, what=f"IO={value} is", hint=hint)
        case "headers" | "rfc4180" if value not in ("true", "false"):
            return problem("BAD_PARAMETER", value_span, parameter=name, value=value, wanted="true or false")
        case "delimiter" | "filename" if not value:
            return problem("BAD_PARAMETER", value_span, parameter=name, value=value, wanted="a text that is not empty")
        case _ if name not in IO_PARAMETERS:
            near = closest(name, IO_PARAMETERS)
            return problem("UNKNOWN_PARAMETER", name_span, parameter=name, near=near, known=", ".join(IO_PARAMETERS))
    return None


def _names(program: Program, doubtful: frozenset[str]) -> Iterable[Problem]:
    known = {relation.name: relation for relation in reversed(program.relations)}
    for rule in program.rules:
        for atom in _atoms(rule):
            relation = known.get(atom.relation)
            if atom.relation in doubtful:
                continue
            if relation is None:
                yield _unknown(atom.relation, _name_span(atom), known)
            elif relation.arity != len(atom.arguments):
                columns = ", ".join(f"{column.name}: {column.type}" for column in relation.columns)
                wanted, found = counted(relation.arity, "column"), len(atom.arguments)
                yield problem("ARITY", atom.span, relation=atom.relation, wanted=wanted, found=found, columns=columns)


def _unknown(name: str, span: Span | None, known: Iterable[str]) -> Problem:
    return problem("UNKNOWN_RELATION", span, relation=name, near=closest(name, known))


def _name_span(atom: Atom) -> Span | None:
    return atom.span and replace(atom.span, end_line=atom.span.line, end_column=atom.span.column + len(atom.relation))


# ---- rules


def alternatives_problems(body: tuple[Literal, ...], span: Span | None = None) -> list[Problem]:
    """Disjunctions that multiply to too many alternatives, in the body or in one of its aggregates."""
    bodies = [(body, span), *((aggregate.body, aggregate.span) for aggregate in _all_aggregates(body))]
    return [
        problem("TOO_MANY_ALTERNATIVES", place, most=MOST_ALTERNATIVES)
        for literals, place in bodies
        if count_alternatives(literals) > MOST_ALTERNATIVES
    ]


def _all_aggregates(body: Iterable[Literal]) -> Iterable[Aggregate]:
    """The aggregates of a body, those inside others included."""
    for literal in body:
        if isinstance(literal, Either):
            for alternative in literal.alternatives:
                yield from _all_aggregates(alternative)
        todo = list(aggregates_in(literal))
        for aggregate in todo:
            yield aggregate
            yield from _all_aggregates(aggregate.body)
            if aggregate.target is not None:
                todo += aggregates_of(aggregate.target)


def _nulls(rule: Rule, types: dict[str, Type], relations: dict[str, Relation]) -> Iterable[Problem]:
    relation = relations.get(rule.head.relation)
    if relation is None or relation.arity != len(rule.head.arguments):
        return
    for argument, column in zip(rule.head.arguments, relation.columns, strict=True):
        if not column.type.nullable and may_be_null(argument, types):
            nullable = [v.name for v in variables_of(argument) if may_be_null(v, types)]
            otherwise = f", or exclude NULL with !is_null({nullable[0]})" if nullable else ""
            state = "is" if isinstance(argument, Constant) else "may be"
            yield problem(
                "NULL_COLUMN", argument.span, term=shortened(print_term(argument)), column=f"{relation.name}.{column.name}",
                type=column.type, otherwise=otherwise, state=state,
            )  # fmt: skip


def _aggregate_domains(program: Program) -> Iterable[Problem]:
    """An aggregate that must be computed for values which only the recursion itself provides cannot be stratified."""
    place = {name: number for number, component in enumerate(components(dependencies(program))) for name in component}
    for rule in program.rules:
        for alternative in rule_alternatives(rule):
            if grouping_of(alternative) is not None:
                continue
            atoms = [literal for literal in alternative.body if isinstance(literal, Atom)]
            recursive = any(place.get(atom.relation) == place[rule.head.relation] for atom in atoms)
            if recursive:
                for literal in (alternative.head, *alternative.body):
                    yield from _dependent_aggregates(literal, alternative)


def _dependent_aggregates(literal: Literal, rule: Rule) -> Iterable[Problem]:
    visible = scope_variables((rule.head, *rule.body))
    for term in literal_terms(literal):
        for aggregate in (part for part in subterms(term) if isinstance(part, Aggregate)):
            shared = inner_variables(aggregate) & visible
            missing = sorted(shared - bound_inside(aggregate))
            if missing:
                yield problem("AGGREGATE_DOMAIN", aggregate.span, variable=missing[0], relation=rule.head.relation)


def bound_inside(aggregate: Aggregate) -> set[str]:
    """Variables that every alternative of the aggregate's own body binds."""
    bodies = body_alternatives(aggregate.body)
    return set.intersection(*(bound_variables(body, set(), scope_variables(body)) for body in bodies))
