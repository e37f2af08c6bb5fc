"""A printed program parses back to an equal one."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viewkeeper.language import parse
from viewkeeper.language.lowering import lower
from viewkeeper.language.parser import read_program
from viewkeeper.program import ast
from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Call,
    Column,
    Comparison,
    Constant,
    Directive,
    Either,
    Literal,
    Negation,
    Program,
    Relation,
    Rule,
    Term,
    Truth,
    Variable,
    Wildcard,
)
from viewkeeper.program.functions import FUNCTIONS, TESTS
from viewkeeper.program.printing import PRECEDENCE
from viewkeeper.program.types import BASE_TYPES, BYTES, DATE, TIMESTAMP, UNSIGNED, decimal_type
from viewkeeper.program.values import type_of_value

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*/program.dl"))


def read(text: str) -> Program:
    """The program of a text without the check: trees made at random have no types."""
    reading = read_program(text)
    lowered = lower(reading.statements)
    assert not reading.problems + lowered.problems, [p.render() for p in reading.problems + lowered.problems]
    return lowered.program


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.parent.name)
def test_printed_program_is_the_same(path: Path) -> None:
    program = parse(path.read_text(encoding="utf-8"))
    assert parse(str(program)) == program


# ---- programs made at random

NAMES = st.sampled_from(["x", "y", "X1", "long_name", "?q", "_z", "größe", "date", "input", "counts", "land2"])
RELATIONS = st.sampled_from(["p", "q_1", "output", "magic", "Straße", "summe"])
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
FLOATS = st.floats(allow_nan=False, allow_infinity=False).map(lambda value: value + 0.0)

CONSTANTS: st.SearchStrategy[Term] = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(Constant),
    st.integers(0, 2**63 - 1).map(lambda value: Constant(value, UNSIGNED)),
    st.one_of(FLOATS, st.sampled_from([1e16, -1e16, 1e-7, 5e-324, 1.7976931348623157e308])).map(Constant),
    TEXTS.map(Constant),
    st.sampled_from(['"', "\\", "\\n", "\n\r\t", "//", "/*", '\\"']).map(Constant),
    st.booleans().map(Constant),
    st.just(Constant(None)),
    st.dates().map(lambda value: Constant(value, DATE)),
    st.datetimes(timezones=st.just(datetime.UTC)).map(lambda value: Constant(value, TIMESTAMP)),
    st.decimals(-(10**9), 10**9, places=4, allow_nan=False).map(lambda value: Constant(value, type_of_value(value))),
    st.binary(max_size=4).map(lambda value: Constant(value, BYTES)),
)
FUNCTION_NAMES = sorted(
    name for name in FUNCTIONS if name.isidentifier() and name not in {*PRECEDENCE, "neg", "bnot", "lnot", "^"}
)


def terms(depth: int) -> st.SearchStrategy[Term]:
    leaves = st.one_of(CONSTANTS, NAMES.map(Variable), st.just(Wildcard()))
    if depth == 0:
        return leaves
    inner = st.deferred(lambda: terms(depth - 1))
    binary = st.builds(lambda sign, a, b: Call(sign, (a, b)), st.sampled_from([*PRECEDENCE, "^"]), inner, inner)
    unary = st.builds(lambda sign, a: Call(sign, (a,)), st.sampled_from(["neg", "bnot", "lnot"]), inner)
    named = st.builds(
        lambda name, arguments: Call(name, tuple(arguments)),
        st.sampled_from(FUNCTION_NAMES),
        st.lists(inner, min_size=2, max_size=3),
    )
    bodies = st.deferred(lambda: conjunctions(depth - 1))
    counts = st.builds(lambda body: Aggregate("count", None, body), bodies)
    others = st.builds(Aggregate, st.sampled_from(["sum", "min", "max", "mean"]), inner, bodies)
    return st.one_of(leaves, binary, binary, unary, named, counts, others)


def literals(depth: int) -> st.SearchStrategy[Literal]:
    inner = terms(depth)
    atoms = st.builds(lambda name, arguments: Atom(name, tuple(arguments)), RELATIONS, st.lists(inner, max_size=3))
    tests = st.builds(
        lambda name, a, b, negated: ast.Test(name, (a, b)[: TESTS[name]], negated),
        st.sampled_from(sorted(TESTS)), inner, inner, st.booleans(),
    )  # fmt: skip
    comparisons = st.builds(Comparison, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), inner, inner).map(as_read)
    simple = st.one_of(atoms, atoms.map(Negation), comparisons, comparisons, tests, st.booleans().map(Truth))
    if depth == 0:
        return simple
    alternatives = st.lists(st.deferred(lambda: conjunctions(depth - 1)), min_size=2, max_size=3)
    return st.one_of(simple, simple, alternatives.map(lambda found: Either(tuple(found))))


def as_read(comparison: Comparison) -> Comparison:
    """``count : { … } = n`` is read as ``n = count : { … }``."""
    left, right = comparison.left, comparison.right
    turned = comparison.operator == "=" and isinstance(left, Aggregate) and isinstance(right, Variable)
    return replace(comparison, left=right, right=left) if turned else comparison


def conjunctions(depth: int) -> st.SearchStrategy[tuple[Literal, ...]]:
    return st.lists(literals(depth), min_size=1, max_size=3).map(tuple)


HEADS = st.builds(lambda name, arguments: Atom(name, tuple(arguments)), RELATIONS, st.lists(terms(2), max_size=3))


@settings(max_examples=300, deadline=None)
@given(term=terms(4))
def test_printed_term_is_the_same(term: Term) -> None:
    program = Program(rules=(Rule(Atom("p", (term,))),))
    assert read(str(program)) == program


@settings(max_examples=300, deadline=None)
@given(head=HEADS, body=conjunctions(3))
def test_printed_rule_is_the_same(head: Atom, body: tuple[Literal, ...]) -> None:
    program = Program(relations=(Relation(head.relation, ()),), rules=(Rule(head, body), Rule(head)))
    assert read(str(program)) == program


@settings(max_examples=100, deadline=None)
@given(
    pragmas=st.lists(st.one_of(st.tuples(TEXTS), st.tuples(TEXTS, TEXTS)), max_size=2).map(tuple),
    name=RELATIONS,
    delimiter=TEXTS.filter(bool),
    headers=st.sampled_from(["true", "false"]),
)
def test_printed_directives_are_the_same(pragmas: tuple[tuple[str, ...], ...], name: str, delimiter: str, headers: str) -> None:
    directive = Directive("input", name, (("delimiter", delimiter), ("headers", headers)))
    program = Program(relations=(Relation(name, ()),), directives=(directive,), pragmas=pragmas)
    assert read(str(program)) == program


@st.composite
def relations(draw: st.DrawFn) -> Relation:
    names = draw(st.lists(st.one_of(NAMES, st.sampled_from(["key", "count", "min", "true"])), max_size=4, unique=True))
    columns = tuple(Column(name, draw(st.sampled_from([*BASE_TYPES.values(), decimal_type(6, 2)]))) for name in names)
    qualifiers = draw(st.lists(st.sampled_from(["inline", "no_inline", "magic", "no_magic", "btree", "brie"]), unique=True))
    key = draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    return Relation(draw(st.one_of(RELATIONS, st.just("key"))), columns, tuple(qualifiers), tuple(key))


@settings(max_examples=150, deadline=None)
@given(declared=st.lists(relations(), min_size=1, max_size=3, unique_by=lambda relation: relation.name), body=conjunctions(1))
def test_printed_relations_are_the_same(declared: list[Relation], body: tuple[Literal, ...]) -> None:
    """Whatever follows: a rule or fact of a relation with the name key is none of the declaration."""
    for rules in [
        (),
        (Rule(Atom("key", (Variable("x"),)), body),),
        (Rule(Atom("key", (Constant(True),))),),
        (Rule(Atom("key", ())),),
    ]:
        program = Program(relations=tuple(declared), rules=rules)
        assert read(str(program)) == program


@pytest.mark.parametrize(
    "tags", ["key(a, c) inline btree", "inline key(a, c) btree", "inline btree\n  key(a,\n    c)", "inline btree\nkey(a, c)"]
)
def test_a_key_stands_anywhere_among_the_qualifiers(tags: str) -> None:
    program = read(f".decl p(a: number, b: number, c: number) {tags}\n.decl q(a: number)\n")
    assert str(program) == ".decl p(a: number, b: number, c: number) inline btree key(a, c)\n.decl q(a: number)\n"
    assert program.relation("p").key == ("a", "c")
    assert program.relation("q").key == ()


@pytest.mark.parametrize("rest", ["key(1).", "key(x) :- p(x).", "key(x), p(x) :- p(x), x < 3.", "key(true).", "key()."])
@pytest.mark.parametrize("space", [" ", "\n", "\n    "])
def test_key_is_a_name_like_any_other(rest: str, space: str) -> None:
    program = read(f".decl p(x: number){space}{rest}")
    assert program.relation("p").key == ()
    assert program.rules[0].head.relation == "key"


# ---- what is easily mistaken

SAME = [
    "-5", "-(5)", "-(-5)", "- -x", "-x ^ 2", "(-x) ^ 2", "(-5) ^ 2", "-(5 ^ 2)", "2 ^ -x", "2 ^ (-5)", "2 ^ 3 ^ 4",
    "(2 ^ 3) ^ 4", "x - (y - z)", "x - y - z", "x - -5", "x * (y + z)", "(x + y) * z", "x / (y * z)", "x bshl (y bshr z)",
    "bnot -5", "-bnot x", "bnot (x + 1)", "lnot (x lor y)", "x lor y lxor z land w bor v bxor u band t bshl s + r * q ^ p",
    "((((((((q ^ p * r) + s) bshl t) band u) bxor v) bor w) land z) lxor y) lor x", "1.0e16", "1.0e-7", "0.1", "-0.0", "1u",
    'cat("a", cat("b", "c"))', "min(x, max(y, 2), 3)", "sum (x + 1) * 2 : { q(x) }", "sum x : { q(x) } + count : { q(_) }",
    "sum sum y : { q(y) } * x : { q(x) }", "min (x) : { q(x) }", "max min(x, y) : { q(x, y) }", "count : q(_)",
    "count : { q(x) ; q(y), x < 1 }", "count : { (q(x) ; q(y)), (q(x) ; q(z)) }", '"\\\\\\"\\n\\t\\r"', 'decimal("0.50")',
    'timestamp("0001-01-01")', 'bytes("00FF")', "null", "true", "0xff", "0b101u", "(x)", "((x))",
]  # fmt: skip


@pytest.mark.parametrize("text", SAME)
def test_printed_text_is_the_same(text: str) -> None:
    program = read(f"p({text}) :- q({text}), {text} = {text}, !q({text}).")
    assert read(str(program)) == program


def test_parentheses_only_where_they_are_needed() -> None:
    text = (
        "p(x + y * (z - 1) ^ 2) :- q(x, -y, z), -(1) < x, (x = 1 ; y = 2, (x = 2 ; x = 3)), !r(sum x * 2 : { q(x, _, _) }).\n"
    )
    assert str(read(text)) == text


def test_floats_keep_their_digits() -> None:
    for value in (1e16, 1e22, 1.5e-300, math.pi, 0.1, 123456789.0):
        program = Program(rules=(Rule(Atom("p", (Constant(value),))),))
        assert read(str(program)) == program


def test_decimals_keep_their_scale() -> None:
    program = read('p(decimal("1.50"), decimal("-0.00"), decimal("7")).')
    assert [constant.value.as_tuple() for constant in program.rules[0].head.arguments] == [  # type: ignore[union-attr]
        Decimal(text).as_tuple() for text in ("1.50", "-0.00", "7")
    ]
    assert read(str(program)) == program
