"""Queries that must fail, and the exact text their authors read."""

from __future__ import annotations

import pytest

from viewkeeper.errors import ProgramError
from viewkeeper.language import parse, parse_query

PROGRAM = parse(
    """
    .type City <: symbol
    .decl road(from: City, to: City, miles: number)
    .decl open()
    .decl reach(from: City, to: City)
    reach(x, y) :- road(x, y, _).
    """
)

CASES = {
    "parenthesis": (
        'reach("a", X',
        """
error[UNCLOSED_BRACKET]: "(" is not closed
 --> <query>:1:6
  |
1 | reach("a", X
  |      ^
  = hint: Write ")" behind what belongs inside.""",
    ),
    "comma": (
        'reach("a", X) X != "b"',
        """
error[SYNTAX]: unexpected "X"
 --> <query>:1:15
  |
1 | reach("a", X) X != "b"
  |               ^
  = hint: Expected "," or ";" here.""",
    ),
    "end": (
        'reach("a", X),',
        """
error[SYNTAX]: unexpected end of the text
 --> <query>:1:15
  |
1 | reach("a", X),
  |               ^
  = hint: Expected a condition here.""",
    ),
    "empty": (
        "",
        """
error[SYNTAX]: unexpected end of the text
 --> <query>:1:1
  |
1 |\x20
  | ^
  = hint: Expected a condition here.""",
    ),
    "rule": (
        "far(X) :- reach(_, X).",
        """
error[SYNTAX]: unexpected ":-"
 --> <query>:1:8
  |
1 | far(X) :- reach(_, X).
  |        ^^
  = hint: A query is a body: leave out the head and ":-".""",
    ),
    "two": (
        "reach(X, Y). road(X, Y, _).",
        """
error[SYNTAX]: unexpected "."
 --> <query>:1:12
  |
1 | reach(X, Y). road(X, Y, _).
  |            ^
  = hint: A query is one body: conditions with "," or ";" between them.""",
    ),
    "directive": (
        ".output reach",
        """
error[SYNTAX]: unexpected ".output"
 --> <query>:1:1
  |
1 | .output reach
  | ^^^^^^^
  = hint: A query is one body: conditions with "," or ";" between them.""",
    ),
    "unreadable": (
        'reach(\'a\', X), X == "b", reach(X, "c)',
        """
error[SYNTAX]: unexpected "'a'"
 --> <query>:1:7
  |
1 | reach('a', X), X == "b", reach(X, "c)
  |       ^^^
  = hint: Texts are written in double quotes: "…".

error[SYNTAX]: unexpected "=="
 --> <query>:1:18
  |
1 | reach('a', X), X == "b", reach(X, "c)
  |                  ^^
  = hint: Equality is written "=".

error[UNCLOSED_TEXT]: the text is not closed
 --> <query>:1:35
  |
1 | reach('a', X), X == "b", reach(X, "c)
  |                                   ^^^
  = hint: Write " at its end, on the same line. A line break in a text is written \\n.""",
    ),
    "unknown": (
        "reech(X, Y), answer(X)",
        """
error[UNKNOWN_RELATION]: relation "reech" is not declared
 --> <query>:1:1
  |
1 | reech(X, Y), answer(X)
  | ^^^^^
  = hint: Did you mean "reach"? Relations are declared with .decl reech(…).

error[UNKNOWN_RELATION]: relation "answer" is not declared
 --> <query>:1:14
  |
1 | reech(X, Y), answer(X)
  |              ^^^^^^
  = hint: Relations are declared with .decl answer(…).""",
    ),
    "types": (
        "road(X, Y, N), N < X",
        """
error[TYPE_COMPARISON]: N < X compares the types number and City
 --> <query>:1:16
  |
1 | road(X, Y, N), N < X
  |                ^^^^^
  = hint: Convert one side (to_number, to_string, to_date, …).""",
    ),
    "types_of_alternatives": (
        "reach(X, _) ;\nroad(_, _, X)",
        """
error[TYPE_CONFLICT]: variable "X" is used as symbol and as number
 --> <query>:2:12
  |
2 | road(_, _, X)
  |            ^
  = hint: One of the two types must be a subtype of the other. Use two variables, and compare them after a conversion.""",
    ),
    "unbound_in_alternative": (
        "reach(X, Y) ; road(X, _, _)",
        """
error[UNBOUND_VARIABLE]: variable "Y" is not bound: one of the alternatives does not bind it
 --> <query>:1:10
  |
1 | reach(X, Y) ; road(X, _, _)
  |          ^
  = hint: Bind it with an atom of the body, or with Y = … of bound values.""",
    ),
    "unbound_in_negation": (
        "reach(X, _), !road(X, Y, _)",
        """
error[UNBOUND_VARIABLE]: variable "Y" is not bound: it occurs in a negation, which binds nothing
 --> <query>:1:23
  |
1 | reach(X, _), !road(X, Y, _)
  |                       ^
  = hint: Bind it with an atom of the body, or with Y = … of bound values.""",
    ),
    "value": (
        "open",
        """
error[NOT_A_CONDITION]: this is a value, but a condition is needed here
 --> <query>:1:1
  |
1 | open
  | ^^^^
  = hint: Compare it with something. A relation without columns is written name().""",
    ),
    "alternatives": (
        ", ".join(["(open() ; 1 = 2)"] * 13),
        """
error[TOO_MANY_ALTERNATIVES]: the disjunctions of this rule multiply to more than 4096 alternatives
 --> <query>:1:1
  |
1 | (open() ; 1 = 2), (open() ; 1 = 2), (open() ; 1 = 2), (open() ; 1 = 2), (open() ; 1 = 2), (open() ; 1 = 2), (o…
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = hint: Give some of them a relation of their own.""",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_query(name: str) -> None:
    text, expected = CASES[name]
    with pytest.raises(ProgramError) as caught:
        parse_query(text, PROGRAM)
    assert str(caught.value) == expected.removeprefix("\n")


def test_a_full_stop_at_the_end_is_allowed() -> None:
    assert parse_query("reach(X, _).", PROGRAM) == parse_query("reach(X, _)", PROGRAM)
