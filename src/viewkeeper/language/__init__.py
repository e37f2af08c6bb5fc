"""Text in, checked Program out."""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.errors import Problem, ProgramError, Source
from viewkeeper.language.lowering import Lowering
from viewkeeper.language.parser import query_body, statements
from viewkeeper.program.alternatives import body_alternatives
from viewkeeper.program.ast import Atom, Column, Program, Relation, Rule, Variable, all_variables
from viewkeeper.program.check import check
from viewkeeper.program.hierarchy import Hierarchy
from viewkeeper.program.merge import merge
from viewkeeper.program.safety import scope_variables
from viewkeeper.program.types import NUMBER, Type
from viewkeeper.program.typing import Typer

__all__ = ["parse", "parse_query"]


def parse(text: str, name: str = "<text>", base: Program | None = None) -> Program:
    """The program of a text, checked; ``base`` is what is declared already, and the result has both.

    >>> print(parse(".decl p(x: number) p(1). p(x + 1) :- p(x), x < 3."), end="")
    .decl p(x: number)
    p(1).
    p(x + 1) :- p(x), x < 3.

    Raises ProgramError with all problems of the text at once.
    """
    trees, problems = statements(text)
    lowering = Lowering(base.types if base else ())
    program = lowering.program(trees)
    problems += lowering.problems
    if base is not None:
        program, conflicts = merge(base, program)
        problems += conflicts
    problems += _without_echoes(check(program), problems)
    _raise(problems, Source(name, text))
    return program


def parse_query(text: str, program: Program) -> tuple[Program, Relation]:
    """A body such as ``reach("a", X), X != "b"`` as a relation of its own, added to the program.

    Its columns are the variables in order of appearance, those private to aggregates aside.
    """
    source = Source("<query>", text)
    tree, problems = query_body(text)
    lowering = Lowering(program.types)
    lowering.program([])
    body = lowering.body(tree) if tree is not None else ()
    problems += lowering.problems
    _raise(problems, source)
    visible = scope_variables(body)
    names = [variable for variable in all_variables(body) if variable in visible]
    relation = Relation(_unused("answer", program), tuple(_columns(names, body, program)))
    rule = Rule(Atom(relation.name, tuple(Variable(n) for n in names)), body)
    asked = replace(program, relations=(*program.relations, relation), rules=(*program.rules, rule))
    _raise(check(asked), source)
    return asked, relation


def _columns(names: list[str], body: tuple, program: Program) -> list[Column]:  # type: ignore[type-arg]
    typer = Typer(program.by_name, Hierarchy.of(program.types))
    found: dict[str, Type] = {}
    for alternative in body_alternatives(body):
        typed, types = typer.rule(Rule(Atom("", ()), alternative))
        for name, type_ in types.items():
            known = found.get(name)
            found[name] = type_ if known is None else (known if known.name == type_.name else known.base).optional(
                known.nullable or type_.nullable
            )
    return [Column(name, found.get(name, NUMBER)) for name in names]


def _unused(name: str, program: Program) -> str:
    known = program.by_name
    while name in known:
        name += "_"
    return name


def _without_echoes(found: list[Problem], before: list[Problem]) -> list[Problem]:
    """Leaves out what only follows from what was told already."""
    codes = {p.code for p in before}
    echoes: set[str] = set()
    if codes & {"SYNTAX", "UNSUPPORTED"}:
        echoes |= {"UNKNOWN_RELATION"}
    if codes & {"UNKNOWN_TYPE", "TYPE_CYCLE", "TYPE_UNION", "DUPLICATE_TYPE", "DECIMAL_DIGITS"}:
        echoes |= {"TYPE_CONFLICT", "TYPE_COLUMN", "TYPE_COMPARISON", "TYPE_FUNCTION"}
    return [p for p in found if p.code not in echoes]


def _raise(problems: list[Problem], source: Source) -> None:
    if problems:
        far = (1 << 60, 0)
        ordered = sorted(problems, key=lambda p: (p.span.line, p.span.column) if p.span else far)
        raise ProgramError(replace(p, source=source) for p in ordered)
