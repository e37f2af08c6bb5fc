"""Text in, checked Program out."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, count

from viewkeeper.errors import Problem, ProgramError, Source, Span, problem, shortened
from viewkeeper.language.lowering import lower, lower_body
from viewkeeper.language.parser import read_body, read_program
from viewkeeper.language.trees import span_of
from viewkeeper.program.alternatives import body_alternatives
from viewkeeper.program.ast import Atom, Column, Constant, Literal, Program, Relation, Rule, Variable, all_variables, atoms_in
from viewkeeper.program.check import alternatives_problems, check
from viewkeeper.program.functions import comparable
from viewkeeper.program.hierarchy import Hierarchy
from viewkeeper.program.merge import merge, without
from viewkeeper.program.printing import print_term
from viewkeeper.program.safety import scope_variables
from viewkeeper.program.types import NUMBER, Type
from viewkeeper.program.typing import Typer

__all__ = ["check_syntax", "parse", "parse_query", "parse_row"]


def parse(text: str, name: str = "<text>", base: Program | None = None, replacing: bool = False) -> Program:
    """The program of a text, checked; ``base`` is what is declared already, and the result has both.

    ``replacing``: what the base has of the relations that the text declares is left out.

    >>> print(parse(".decl p(x: number) p(1). p(x + 1) :- p(x), x < 3."), end="")
    .decl p(x: number)
    p(1).
    p(x + 1) :- p(x), x < 3.

    Raises ProgramError with all problems of the text at once.
    """
    reading = read_program(text)
    lowered = lower(reading.statements, base.types if base else (), reading.broken)
    program, problems = lowered.program, reading.problems + lowered.problems
    doubtful = frozenset(lowered.doubtful)
    if base is not None:
        for relation in program.relations if replacing else ():
            base = without(base, relation.name) if relation.name in base.by_name else base
        program, conflicts = merge(base, program)
        problems += conflicts
        doubtful |= {conflict.parameters["name"] for conflict in conflicts}
    problems += [p for p in check(program, doubtful) if not (lowered.elsewhere and p.code == "UNKNOWN_RELATION")]
    _raise(problems, Source(name, text))
    return program


def parse_query(text: str, program: Program) -> tuple[Program, Relation]:
    """A body such as ``reach("a", X), X != "b"`` as a relation of its own, added to the program.

    Its columns are the variables in order of appearance, those private to aggregates aside.
    """
    source = Source("<query>", text)
    tree, problems = read_body(text)
    _raise(problems, source)
    assert tree is not None
    body, problems = lower_body(tree)
    _raise(problems or alternatives_problems(body, span_of(tree)), source)
    visible = scope_variables(body)
    variables = [variable for name, variable in all_variables(body).items() if name in visible]
    columns, problems = _columns(variables, body, program)
    relation = Relation(_unused(program, body), columns)
    rule = Rule(Atom(relation.name, tuple(variables)), body)
    asked = replace(program, relations=(*program.relations, relation), rules=(*program.rules, rule))
    _raise(problems + check(asked, frozenset({relation.name} if problems else ())), source)
    return asked, relation


def check_syntax(text: str, name: str) -> None:
    """Refuses a text that is no body."""
    _raise(read_body(text)[1], Source(name, text))


def parse_row(text: str, program: Program) -> Atom:
    """An atom whose arguments are constants, typed: ``reach("a", "b")``."""
    source = Source("<row>", text)
    tree, problems = read_body(text)
    _raise(problems, source)
    assert tree is not None
    body, problems = lower_body(tree)
    _raise(problems or _not_a_row(body, span_of(tree)), source)
    [atom] = body
    assert isinstance(atom, Atom)
    fact = Rule(atom)
    _raise(check(replace(program, rules=(*program.rules, fact))), source)
    return Typer(program.by_name, Hierarchy.of(program.types)).rule(fact)[0].head


def _not_a_row(body: tuple[Literal, ...], span: Span | None) -> list[Problem]:
    """Why a body is not one atom with constants."""
    if len(body) != 1 or not isinstance(body[0], Atom):
        place = body[1].span if len(body) > 1 else span
        return [problem("NOT_A_ROW", place, what="this is more than" if len(body) > 1 else "this is not")]
    others = [argument for argument in body[0].arguments if not isinstance(argument, Constant)]
    return [problem("NOT_CONSTANT", argument.span, term=shortened(print_term(argument))) for argument in others]


def _columns(
    variables: list[Variable], body: tuple[Literal, ...], program: Program
) -> tuple[tuple[Column, ...], list[Problem]]:
    """A column for each variable: of the type it has in all alternatives, or of their common base."""
    typer = Typer(program.by_name, Hierarchy.of(program.types))
    found: dict[str, Type] = {}
    problems: list[Problem] = []
    for alternative in body_alternatives(body):
        _, types = typer.rule(Rule(Atom("", ()), alternative))
        for name, type_ in types.items():
            known = found.setdefault(name, type_)
            if not comparable(known, type_):
                span = all_variables(alternative)[name].span
                problems.append(problem("TYPE_CONFLICT", span, variable=name, first=known.base, where="", second=type_.base))
            elif known != type_:
                wider = max(known, type_, key=lambda t: t.precision)
                found[name] = (wider if known.name == type_.name else wider.base).optional(known.nullable or type_.nullable)
    return tuple(Column(v.name, found.get(v.name, NUMBER)) for v in variables), problems


def _unused(program: Program, body: tuple[Literal, ...]) -> str:
    """A name for the answer that neither the program nor the query uses."""
    used = {*program.by_name, *(atom.relation for atom, _ in atoms_in(body))}
    return next(name for name in chain(["answer"], (f"result{n}" for n in count(1))) if name not in used)


def _raise(problems: list[Problem], source: Source) -> None:
    if problems:
        far = (1 << 60, 0)
        ordered = sorted(problems, key=lambda p: (p.span.line, p.span.column) if p.span else far)
        raise ProgramError(replace(p, source=source) for p in ordered)
