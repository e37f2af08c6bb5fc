"""Whatever the text: parsing gives a program or a ProgramError, in reasonable time."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.test_printing import FUNCTION_NAMES, conjunctions, terms

from viewkeeper.errors import ProgramError
from viewkeeper.language import parse, parse_query
from viewkeeper.language.tokens import tokenise
from viewkeeper.program.ast import Atom, Column, Literal, Program, Relation, Rule, Term
from viewkeeper.program.types import BASE_TYPES, Type, decimal_type

HERE = Path(__file__).parent
TEXTS = [
    path.read_text(encoding="utf-8") for path in sorted([*HERE.glob("programs/*/program.dl"), *HERE.glob("bad_programs/*.dl")])
]
PROGRAM = parse(".decl edge(a: number, b: number) .decl name(n: symbol)")

ODD = [
    "(", ")", "{", "}", "[", "]", ".", ",", ";", ":", ":-", "!", "=", "<=", '"', "'", "/*", "*/", "//", "#", "$", "@", "?", "_",
    "-", "^", "count", "sum", "min", ".decl", ".type", ".comp", ".input", "1e5", "0x", "9" * 5000, "1.5", "null", "nil", "as(",
    "\\", "\0", "\u2028", "\u00a0", "é", "日", "\ud800", "~", "<>", "<:", "decimal(", 'date("x")', "range(", 'match("(",',
    "eqrel", "choice-domain", "key", "key(", ")key(a", "a.b", "\n",
]  # fmt: skip


def pieces(text: str) -> list[str]:
    """The text cut behind each token."""
    ends = [token.end_pos or 0 for token in tokenise(text)]
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


PIECES = [pieces(text) for text in TEXTS]
ALL_PIECES = [piece for text in PIECES for piece in text]


def mutated(text: list[str], chance: random.Random) -> str:
    """The text with a few pieces removed, repeated, swapped, replaced or broken."""
    text = list(text)
    for _ in range(chance.randint(1, 5)):
        i, j = sorted((chance.randrange(len(text)), chance.randrange(len(text))))
        match chance.randrange(6):
            case 0:
                text[i] = ""
            case 1:
                text[i:i] = text[i : i + chance.randint(1, 20)]
            case 2:
                text[i], text[j] = text[j], text[i]
            case 3:
                text[i] += chance.choice(ODD)
            case 4:
                text[i] = chance.choice(ALL_PIECES)
            case 5:
                at = chance.randrange(len(text[i]) + 1)
                text[i] = text[i][:at] + chance.choice(ODD) + text[i][at:]
    return "".join(text)


def parses_or_tells(text: str) -> None:
    try:
        program = parse(text)
    except ProgramError:
        return
    assert parse(str(program)) == program


@pytest.mark.parametrize("seed", range(6))
def test_mutated_programs(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(40):
        parses_or_tells(mutated(chance.choice(PIECES), chance))


def test_random_queries() -> None:
    chance = random.Random(0)
    for _ in range(300):
        text = "".join(chance.choice(ALL_PIECES) for _ in range(chance.randint(1, 12)))
        with suppress(ProgramError):
            parse_query(text, PROGRAM)


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.one_of(st.characters(), st.sampled_from("(){}[].,;:-!=<>\"'/*#$@?_ \n\tp1")), max_size=60))
def test_random_text(text: str) -> None:
    parses_or_tells(text)


# ---- rules that are well-formed, but rarely well-typed

TYPES: list[Type] = [*BASE_TYPES.values(), decimal_type(6, 2)]
RELATIONS = tuple(
    Relation(name, tuple(Column(f"c{n}", type_) for n, type_ in enumerate(columns)))
    for name, columns in {
        "p": TYPES[:2],
        "q_1": [type_.optional() for type_ in TYPES[2:5]],
        "output": [],
        "magic": TYPES[5:],
        "Straße": TYPES[:1],
        "summe": [TYPES[0].optional()],
    }.items()
)


@settings(max_examples=150, deadline=None)
@given(relation=st.sampled_from(RELATIONS), arguments=st.lists(terms(2), min_size=4, max_size=4), body=conjunctions(2))
def test_random_rules(relation: Relation, arguments: list[Term], body: tuple[Literal, ...]) -> None:
    head = Atom(relation.name, tuple(arguments[: relation.arity]))
    parses_or_tells(str(Program(relations=RELATIONS, rules=(Rule(head, body),))))


# ---- size

HEAD = ".decl a(x: number) .decl p(x: number) "
HUGE = {
    "parentheses": f"p({'(' * 5000}1{')' * 5000}).",
    "open parentheses": f"p({'(' * 5000}1).",
    "sum": f"p(x) :- a(y), x = {' + '.join(['y'] * 2000)}.",
    "power": f"p(x) :- a(y), x = {' ^ '.join(['y'] * 2000)}.",
    "minus": f"p(x) :- a(y), x = {'-' * 5000}y.",
    "negations": f"p(x) :- a(x), {'!' * 5000}a(x).",
    "calls": f"p({'min(1, ' * 3000}1{')' * 3000}).",
    "aggregates": f"p(x) :- a(x), x = {'count : { a(_), x = ' * 500}1{' }' * 500}.",
    "records": f"p({'[' * 5000}1{']' * 5000}).",
    "conditions": f"p(x) :- {', '.join(['a(x)'] * 2000)}.",
    "alternatives": f"p(x) :- {', '.join(['(a(x) ; a(1))'] * 60)}.",
    "alternatives of an aggregate": f"p(x) :- a(x), x = count : {{ {', '.join(['(a(x) ; a(1))'] * 60)} }}.",
    "alternatives of an inner aggregate": f"p(x) :- x = count : {{ 1 = sum 1 : {{ {', '.join(['(a(_) ; a(1))'] * 60)} }} }}.",
    "digits": f"p({'9' * 100_000}).",
    "hexadecimal digits": f"p(0x{'f' * 100_000}).",
    "types in a circle": " ".join(f".type T{n} <: T{(n + 1) % 300}" for n in range(300)),
    "stray characters": "§" * 5000,
    "components": ".comp A {" * 3000,
    "keys": f".decl key(key: number) {'key(key) ' * 3000}",
    "open keys": ".decl key(key: number) key(" * 1000,
    "quotes": '"\n' * 3000,
    "comment": "/*" + "*" * 100_000,
    "equations in a circle": f"p(x0) :- a(_), {', '.join(f'x{n} = x{(n + 1) % 300} + 1' for n in range(300))}.",
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_texts(name: str) -> None:
    parses_or_tells(HEAD + HUGE[name])


@pytest.mark.parametrize("name", ["parentheses", "sum", "power", "minus", "negations", "calls", "aggregates"])
def test_too_deep(name: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse(HEAD + HUGE[name])
    assert [problem.code for problem in caught.value.problems] == ["TOO_DEEP"]


@pytest.mark.parametrize("function", FUNCTION_NAMES)
def test_long_terms_are_typed_in_reasonable_time(function: str) -> None:
    """Where terms asked for the types of their parts again and again, the time doubled with every level."""
    arguments = {"substr": ", 0, 1", "range": ", 1", "min": ", 1", "max": ", 1", "coalesce": ", 1"}.get(function, "")
    term = "1"
    for _ in range(60):
        term = f"{function}({term}{arguments})"
    parses_or_tells(f"{HEAD} p(x) :- a(y), x = {term}, x = {' + '.join(['y'] * 60)}.")
