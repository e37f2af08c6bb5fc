"""Small programs that one of the evaluators, or printing, once got wrong."""

from __future__ import annotations

PROGRAMS = {
    "an aggregate in an atom uses what the atom binds": """
        .decl b0(c0: symbol, c1: number, c2: number)
        .decl b1(c0: number)
        .decl h(c0: number)
        b0("aa", 1, 2). b0("a", 2, 2). b1(1). b1(2).
        h(max 0 : { b1(w5), b0(max cat(y6, y6) : { b0(y6, w4, w4) }, w5, w4) }) :- b1(w4).
    """,
    "an aggregate goes into a column of a named type": """
        .type Id <: number
        .decl b1(c0: number, c1: number?)
        .decl h(c0: number, c1: Id)
        b1(1, 2). b1(2, null).
        h(x, max y - y : { b1(y, _) }) :- b1(x, _).
    """,
    "an aggregate in a head over views": """
        .decl a(x: symbol)
        .decl v(x: number)
        .decl w(x: number?)
        .decl h(x: number)
        a("b"). w(2).
        v(ord(x) % 7) :- a(x).
        h(count : { w(x), v(x) }) :- true.
    """,
    "a range of a variable that has a value": """
        .decl h(x: number, y: number)
        h(1, y) :- y = 3 * -1, y = range(2, 3).
        h(2, y) :- y = 2, y = range(2, 3).
        h(3, y) :- y = range(2, 6), y = 1 + x, x = range(3, 9).
    """,
    "an aggregate whose target is an outer variable that is NULL": """
        .decl v(c0: symbol)
        .decl w(c0: number, c1: unsigned?)
        .decl h(x: number)
        .decl g(x: number, m: unsigned, s: unsigned)
        v("a"). v("b"). w(1, 5u). w(2, null).
        h(y) :- w(y, x), m = min x : { v(_) }, m > 0.
        g(y, s, n) :- w(y, x), s = sum x : { v(_) }, n = sum coalesce(x, 7u) : { v(_) }.
    """,
    "a mean under a condition with an outer NULL": """
        .decl b1(c0: number, c1: float?)
        .decl h(c0: number, m: float)
        b1(1, 0.5). b1(2, null). b1(3, -1.0).
        h(x, m) :- b1(x, z), m = mean 2 : { coalesce(z, -1.0) != 1.0 + coalesce(z, 3.0) }, m >= 1.5.
    """,
    "a group of a named type over a nested aggregate": """
        .type Id <: number
        .decl v1a(c0: Id, c1: number)
        .decl h(c0: Id, c1: number, c2: date)
        v1a(1, 0). v1a(3, 2).
        h(x, x, r) :- r = max date("2024-02-29") : { sum x : { 2 = y } >= z, v1a(x, z) }.
    """,
    "alternatives in an aggregate that bind different variables": """
        .decl q(x: number, y: number)
        .decl r(x: number, y: number?)
        .decl h(how: symbol, n: number)
        q(1, 5). q(2, 5). q(3, 6). r(1, 5). r(2, 5). r(3, null).
        h("wildcards", n) :- n = sum y : { q(_, y) ; r(_, y) }.
        h("other variables", n) :- n = count : { q(x, y) ; r(_, x) }.
        h("some unbound", n) :- n = count : { q(x, _), (q(x, y), y > 5 ; x = 2 ; r(x, y)) }.
        h("the same", n) :- n = count : { q(x, y) ; r(x, y) }.
    """,
    "an aggregate in an aggregate of NULL": """
        .decl q(x: number, y: number?)
        .decl h(x: number, n: number)
        q(1, null). q(2, 5). q(2, null).
        h(x, n) :- n = sum y + count : { q(_, _) } : { q(x, y) }.
    """,
    "a grouping rule the other way round": """
        .decl q(x: number, y: number)
        .decl h(x: number, n: number)
        q(1, 5). q(2, 5). q(2, 6).
        h(x, n) :- sum y : { q(x, y) } = n.
    """,
    "not true": """
        .decl h(n: number)
        h(1) :- !true. h(2) :- !false. h(3) :- (!true ; true).
    """,
    "a guard that could overflow": """
        .decl b0(c0: number, c1: number?)
        .decl v(c0: number)
        .decl h()
        b0(0, -1). b0(1, -1). b0(2, -1). b0(3, -1). v(1). v(0).
        h() :- x >= x % y, v(x), y != 0, y = 4 + sum x : { b0(_, x) }.
    """,
    "what a join leaves out cannot fail": """
        .decl a(x: number, y: number)
        .decl b(y: number)
        .decl v(x: number, z: number)
        a(1, 0). a(1, 5). a(1, 7). b(5). b(8). b(9). b(10).
        v(x, 100 / y) :- a(x, y), b(y), 100 / y > 2.
    """,
}
