"""Programs as text. The text parses back to an equal program."""

from __future__ import annotations

import datetime
from decimal import Decimal

from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Directive,
    Either,
    Literal,
    Negation,
    Order,
    Over,
    Program,
    Relation,
    Rule,
    Term,
    Test,
    Truth,
    TypeDeclaration,
    Variable,
    Wildcard,
)
from viewkeeper.program.types import Kind
from viewkeeper.program.values import format_timestamp, store_timestamp

# From weakest to tightest; the names of the grammar's levels.
INNER = "inner"
_LEVELS = ("lor", "lxor", "land", "bor", "bxor", "band", "bshl bshr bshru", "+ -", "* / %")
PRECEDENCE: dict[str, int] = {sign: level for level, signs in enumerate(_LEVELS, 1) for sign in signs.split()}
_UNARY = {"neg": "-", "bnot": "bnot ", "lnot": "lnot "}
_UNARY_LEVEL, _POWER_LEVEL, _ATOM_LEVEL = 10, 11, 12


def print_program(program: Program) -> str:
    """Declarations first, each relation with its directives, then the rules."""
    lines = [".pragma " + " ".join(quote(part) for part in pragma) for pragma in program.pragmas]
    lines += [print_type(declaration) for declaration in program.types]
    lines += [print_relation(relation) for relation in program.relations]
    lines += [f"{print_relation(relation)} {INNER}" for relation in program.inner]
    lines += [print_directive(directive) for directive in program.directives]
    lines += [print_rule(rule) for rule in program.rules]
    return "".join(line + "\n" for line in lines)


def print_type(declaration: TypeDeclaration) -> str:
    sign = "<:" if declaration.form == "subtype" else "="
    return f".type {declaration.name} {sign} {' | '.join(declaration.parts)}"


def print_relation(relation: Relation) -> str:
    columns = ", ".join(f"{column.name}: {column.type}" for column in relation.columns)
    key = [f"key({', '.join(relation.key)})"] if relation.key else []
    return " ".join([f".decl {relation.name}({columns})", *relation.qualifiers, *key])


def print_directive(directive: Directive) -> str:
    parameters = ", ".join(f"{name}={quote(value)}" for name, value in directive.parameters)
    return f".{directive.kind} {directive.relation}" + (f"({parameters})" if parameters else "")


def print_rule(rule: Rule) -> str:
    if not rule.body:
        return f"{print_literal(rule.head)}."
    return f"{print_literal(rule.head)} :- {print_body(rule.body)}."


def print_body(body: tuple[Literal, ...]) -> str:
    return ", ".join(print_literal(literal) for literal in body)


def print_literal(literal: Literal) -> str:
    match literal:
        case Atom():
            return f"{literal.relation}({', '.join(map(print_term, literal.arguments))})"
        case Negation():
            return "!" + print_literal(literal.atom)
        case Comparison():
            return f"{print_term(literal.left)} {literal.operator} {print_term(literal.right)}"
        case Test():
            return f"{'!' if literal.negated else ''}{literal.predicate}({', '.join(map(print_term, literal.arguments))})"
        case Truth():
            return "true" if literal.value else "false"
        case Either():
            return "(" + " ; ".join(print_body(alternative) for alternative in literal.alternatives) + ")"


def print_term(term: Term) -> str:
    return _term(term, 0)


def _term(term: Term, level: int) -> str:
    """The term, in parentheses if it binds weaker than its place does."""
    text, own = _bare(term)
    return f"({text})" if own < level else text


def _bare(term: Term) -> tuple[str, int]:
    match term:
        case Variable():
            return term.name, _ATOM_LEVEL
        case Wildcard():
            return "_", _ATOM_LEVEL
        case Constant():
            text = print_constant(term)
            return text, _UNARY_LEVEL if text.startswith("-") else _ATOM_LEVEL
        case Call(function="^"):
            left, right = term.arguments
            return f"{_term(left, _ATOM_LEVEL)} ^ {_term(right, _POWER_LEVEL)}", _POWER_LEVEL
        case Call() if term.function in PRECEDENCE and len(term.arguments) == 2:
            level = PRECEDENCE[term.function]
            left, right = term.arguments
            return f"{_term(left, level)} {term.function} {_term(right, level + 1)}", level
        case Call() if term.function in _UNARY:
            operand = term.arguments[0]
            # -(5) is the operator on a constant, -5 is a constant.
            literal = term.function == "neg" and isinstance(operand, Constant)
            return _UNARY[term.function] + _term(operand, _ATOM_LEVEL + literal if literal else _UNARY_LEVEL), _UNARY_LEVEL
        case Call():
            return f"{term.function}({', '.join(map(print_term, term.arguments))})", _ATOM_LEVEL
        case Aggregate():
            target = f" {print_term(term.target)}" if term.target is not None else ""
            number = f" {term.over.number}" if term.over is not None and term.over.number is not None else ""
            over = f" over ({print_over(term.over)})" if term.over is not None else ""
            return f"{term.operation}{target}{number} : {{ {print_body(term.body)} }}{over}", _ATOM_LEVEL


def print_over(over: Over) -> str:
    """``p; x desc nulls first; rows -2 0``: without what is empty at the end."""
    parts = [", ".join(v.name for v in over.partition), ", ".join(map(_order, over.order)), ""]
    if over.limit is not None:
        parts[2] = str(over.limit)
    elif over.frame is not None:
        parts[2] = f"{over.frame.unit} {_bound(over.frame.low)} {_bound(over.frame.high)}"
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return "; ".join(parts)


def _order(key: Order) -> str:
    direction = " desc" if key.descending else ""
    # Where NULL comes if nothing is said, as in SQLite and Spark.
    nulls = "" if key.nulls_first != key.descending else f" nulls {'first' if key.nulls_first else 'last'}"
    return f"{key.variable.name}{direction}{nulls}"


def _bound(bound: int | None) -> str:
    return "unbounded" if bound is None else str(bound)


def print_constant(constant: Constant) -> str:
    value = constant.value
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            unsigned = constant.type is not None and constant.type.kind is Kind.UNSIGNED
            return f"{value}u" if unsigned else str(value)
        case float():
            return _print_float(value)
        case str():
            return quote(value)
        case bytes():
            return f'bytes("{value.hex()}")'
        case datetime.datetime():
            return f'timestamp("{format_timestamp(store_timestamp(value))}")'
        case datetime.date():
            return f'date("{value.isoformat()}")'
        case Decimal():
            return f'decimal("{value:f}")'


def _print_float(value: float) -> str:
    text = repr(value)
    if "e" in text and "." not in text:
        return text.replace("e", ".0e")
    return text


def quote(text: str) -> str:
    """A symbol constant."""
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        text = text.replace(plain, escaped)
    return f'"{text}"'
