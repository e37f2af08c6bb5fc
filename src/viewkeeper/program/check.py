"""All that can be wrong with a program, found at once."""

from __future__ import annotations

from collections.abc import Iterable

from viewkeeper.errors import Problem, closest, problem
from viewkeeper.program.alternatives import MOST_ALTERNATIVES, count_alternatives, rule_alternatives
from viewkeeper.program.ast import Aggregate, Atom, Directive, Literal, Program, Relation, Rule, atoms_in, literal_terms, subterms
from viewkeeper.program.hierarchy import Hierarchy
from viewkeeper.program.safety import bound_variables, check_rule, inner_variables, is_constant_fact, scope_variables
from viewkeeper.program.strata import check_strata, components, dependencies
from viewkeeper.program.typing import Typer, grouping_aggregate, may_be_null
from viewkeeper.program.printing import print_term

IO_PARAMETERS = ("IO", "filename", "delimiter", "headers", "rfc4180")


def check(program: Program) -> list[Problem]:
    """The problems of a program, in the order of the text; empty if it can be run."""
    problems = [*_declarations(program), *_directives(program), *_names(program)]
    relations = {relation.name: relation for relation in reversed(program.relations)}
    typer = Typer(relations, Hierarchy.of(program.types))
    for rule in program.rules:
        if count_alternatives(rule.body) > MOST_ALTERNATIVES:
            problems.append(problem("TOO_MANY_ALTERNATIVES", rule.span, most=MOST_ALTERNATIVES))
            continue
        for alternative in rule_alternatives(rule):
            if not is_constant_fact(alternative):
                problems += check_rule(alternative)
            typed, types = typer.rule(alternative)
            problems += _nulls(typed, types, relations)
    problems += typer.problems
    problems += check_strata(program)
    if not problems:
        problems += _aggregate_domains(program)
    return _ordered(problems)


def _ordered(problems: Iterable[Problem]) -> list[Problem]:
    found: dict[tuple[object, ...], Problem] = {}
    for p in problems:
        found.setdefault((p.code, p.span, p.message), p)
    far = (1 << 60, 0)
    return sorted(found.values(), key=lambda p: (p.span.line, p.span.column) if p.span else far)


def _declarations(program: Program) -> Iterable[Problem]:
    seen: dict[str, Relation] = {}
    for relation in program.relations:
        first = seen.setdefault(relation.name, relation)
        if first is not relation:
            line = first.span.line if first.span else "?"
            yield problem("DUPLICATE_RELATION", relation.span, relation=relation.name, line=line)
        names: set[str] = set()
        for column in relation.columns:
            if column.name in names:
                yield problem("DUPLICATE_COLUMN", column.span, relation=relation.name, column=column.name)
            names.add(column.name)


def _directives(program: Program) -> Iterable[Problem]:
    known = program.by_name
    for directive in program.directives:
        if directive.relation not in known:
            yield problem(
                "UNKNOWN_RELATION", directive.span, relation=directive.relation, near=closest(directive.relation, known)
            )
        yield from _parameters(directive)


def _parameters(directive: Directive) -> Iterable[Problem]:
    for name, value in directive.parameters:
        if name not in IO_PARAMETERS:
            near = closest(name, IO_PARAMETERS)
            yield problem("UNKNOWN_PARAMETER", directive.span, parameter=name, near=near, known=", ".join(IO_PARAMETERS))
        elif name == "IO" and value not in (("file", "stdout") if directive.kind == "output" else ("file",)):
            yield problem("UNSUPPORTED", directive.span, what=f"IO={value}", hint="Only files are read and written, and IO=stdout.")
        elif name in ("headers", "rfc4180") and value not in ("true", "false"):
            yield problem("BAD_PARAMETER", directive.span, parameter=name, value=value, wanted="true or false")
        elif name in ("delimiter", "filename") and not value:
            yield problem("BAD_PARAMETER", directive.span, parameter=name, value=value, wanted="a text")


def _names(program: Program) -> Iterable[Problem]:
    known = {relation.name: relation for relation in reversed(program.relations)}
    for rule in program.rules:
        for atom in (rule.head, *(atom for atom, _ in atoms_in(rule.body))):
            relation = known.get(atom.relation)
            if relation is None:
                yield problem("UNKNOWN_RELATION", atom.span, relation=atom.relation, near=closest(atom.relation, known))
            elif relation.arity != len(atom.arguments):
                yield problem(
                    "ARITY", atom.span, relation=atom.relation, wanted=relation.arity, found=len(atom.arguments),
                    columns=", ".join(column.name for column in relation.columns),
                )  # fmt: skip


def _nulls(rule: Rule, types: dict, relations: dict[str, Relation]) -> Iterable[Problem]:  # type: ignore[type-arg]
    relation = relations.get(rule.head.relation)
    if relation is None or relation.arity != rule.head.arguments.__len__():
        return
    for argument, column in zip(rule.head.arguments, relation.columns, strict=True):
        if not column.type.nullable and may_be_null(argument, types):
            yield problem(
                "NULL_COLUMN", argument.span, term=print_term(argument), column=f"{relation.name}.{column.name}", type=column.type
            )


def _aggregate_domains(program: Program) -> Iterable[Problem]:
    """An aggregate that must be computed for values which only the recursion itself provides cannot be stratified."""
    place = {name: number for number, component in enumerate(components(dependencies(program))) for name in component}
    for rule in program.rules:
        for alternative in rule_alternatives(rule):
            if grouping_aggregate(alternative) is not None:
                continue
            recursive = any(
                isinstance(literal, Atom) and place[literal.relation] == place[rule.head.relation] for literal in alternative.body
            )
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
    from viewkeeper.program.alternatives import body_alternatives

    bodies = body_alternatives(aggregate.body)
    return set.intersection(*(bound_variables(body, set(), scope_variables(body)) for body in bodies))
