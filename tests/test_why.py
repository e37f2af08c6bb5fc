"""Why a row is there, and why not: every node of every tree is checked against the naive evaluator."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.commands import viewkeeper
from tests.derivations import Rows, check_tree
from tests.generator import generate
from tests.oracle import OracleError, Row, evaluate, read_facts

import viewkeeper as vk
from viewkeeper.errors import EvaluationError, ProgramError
from viewkeeper.language import parse, parse_row
from viewkeeper.program.ast import Constant, Program
from viewkeeper.program.printing import print_constant
from viewkeeper.program.types import Type
from viewkeeper.state import State
from viewkeeper.store.catalog import NOWHERE
from viewkeeper.store.snapshots import snapshot_path, write_snapshot
from viewkeeper.why import Why, explain

PROGRAMS = sorted(path.parent for path in (Path(__file__).parent / "programs").glob("*/program.dl"))
SEEDS = range(40)
MOST_ROWS = 8  # of each view


def constant_of(value: object, type_: Type) -> str:
    return print_constant(Constant(value, type_.base.optional(value is None)))  # type: ignore[arg-type]


def atom_of(relation: str, row: Row, program: Program) -> str:
    types = program.relation(relation).types
    return f"{relation}({', '.join(constant_of(v, t) for v, t in zip(row, types, strict=True))})"


@contextmanager
def warehouse_of(text: str, facts: Rows, path: Path) -> Iterator[vk.Warehouse]:
    with vk.open(path, create=True, engine="embedded") as warehouse:
        warehouse.define(text)
        given = {name: sorted(rows, key=repr) for name, rows in facts.items() if rows}
        if given:
            warehouse.load({name: [list(row) for row in rows] for name, rows in given.items()})
        yield warehouse


def check_views(warehouse: vk.Warehouse, rows: Rows, facts: Rows) -> int:
    """Explains rows of every view, and some that are not there. Returns how many trees were checked."""
    program, checked = warehouse.program, 0
    chance = random.Random(1)
    for relation in program.relations:
        there = sorted(rows[relation.name], key=repr)
        for row in chance.sample(there, min(MOST_ROWS, len(there))):
            why = warehouse.why(atom_of(relation.name, row, program))
            assert why and why.derivation is not None and why.absence is None
            assert why.derivation.row == row
            check_tree(why.derivation, program, rows, facts)
            assert len(str(why).splitlines()) >= len(list(why.derivation.walk()))
            assert [entry["id"] for entry in why.to_dicts()] == list(range(1, len(why.to_dicts()) + 1))
            checked += 1
        for row in others(there, chance):
            why = warehouse.why(atom_of(relation.name, row, program))
            assert not why and why.absence is not None and why.derivation is None
            assert "see `viewkeeper verify`" not in str(why)
            assert why.to_dicts()
    return checked


def others(rows: list[Row], chance: random.Random) -> list[Row]:
    """Rows that are not there, made of values that are."""
    if not rows or not rows[0]:
        return []
    made = {tuple(chance.choice(rows)[place] for place in range(len(rows[0]))) for _ in range(6)}
    return sorted(made - set(rows), key=repr)[:4]


def accepted(text: str) -> bool:
    try:
        return bool(parse(text).rules)
    except ProgramError:
        return False


def check_program(text: str, facts: Rows, path: Path, directives: str = "") -> int:
    """``directives`` say which views are not stored: nothing for the naive evaluator."""
    program = parse(text)
    given = {name: rows for name, rows in facts.items() if name not in program.derived}
    try:
        rows = evaluate(text, given)
        with warehouse_of(f"{text}\n{directives}", given, path):
            pass
    except (OracleError, EvaluationError):
        return 0
    with vk.open(path) as warehouse:
        return check_views(warehouse, rows, given)


@pytest.mark.parametrize("folder", PROGRAMS, ids=lambda folder: folder.name)
def test_rows_of_programs(folder: Path, tmp_path: Path) -> None:
    text = (folder / "program.dl").read_text(encoding="utf-8")
    assert check_program(text, read_facts(text, folder / "facts"), tmp_path / "w")


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_of_random_programs(seed: int, tmp_path: Path) -> None:
    generated = generate(seed)
    if accepted(generated.text):
        check_program(generated.text, generated.facts, tmp_path / "w")


# ---- what people read


SHOP = """
.decl depends(package: symbol, on: symbol)
.decl broken(package: symbol)
.decl weight(package: symbol, kb: number?)
.decl based_on(package: symbol, on: symbol)
based_on(p, q) :- depends(p, q).
based_on(p, r) :- based_on(p, q), depends(q, r).
.decl fine(package: symbol)
fine(p) :- (depends(p, _) ; weight(p, _)), !broken(p).
.decl heavy(package: symbol, kb: number)
heavy(p, k) :- weight(p, k), k * 2 > 100.
.decl unknown(kb: number?, n: number)
unknown(k, n) :- n = count : { weight(_, k) }.
.decl users(package: symbol, n: number)
users(p, n) :- depends(_, p), n = count : { depends(_, p) }, n > 1.
.decl ready()
ready() :- fine("bash"), !broken(_).
.decl limit(kb: number)
limit(50 + 50).
"""
ROWS = {
    "depends": [("bash", "libc"), ("bash", "tinfo"), ("tinfo", "libc"), ("libc", "gcc"), ("gcc", "libc")],
    "weight": [("bash", 70), ("libc", 20), ("gcc", None), ("tinfo", None)],
    "broken": [("gcc",)],
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[vk.Warehouse]:
    with vk.open(tmp_path_factory.mktemp("why") / "shop", create=True, engine="embedded") as warehouse:
        warehouse.define(SHOP)
        warehouse.load(ROWS)
        yield warehouse


TREES = {
    "base": ('depends("bash", "libc")', 'depends("bash", "libc")   base row'),
    "fact": ("limit(100)", "limit(100)   fact"),
    "circle": (
        'based_on("gcc", "gcc")',
        """
based_on("gcc", "gcc")   rule 2: based_on(p, r) :- based_on(p, q), depends(q, r).
├─ based_on("gcc", "libc")   rule 1: based_on(p, q) :- depends(p, q).
│  └─ depends("gcc", "libc")   base row
└─ depends("libc", "gcc")   base row""",
    ),
    "negation": (
        'fine("bash")',
        """
fine("bash")   rule 1: fine(p) :- (depends(p, _) ; weight(p, _)), !broken(p).
├─ depends("bash", "libc")   base row
└─ !broken("bash")   no such row""",
    ),
    "comparison": (
        'heavy("bash", 70)',
        """
heavy("bash", 70)   rule 1: heavy(p, k) :- weight(p, k), k * 2 > 100.
├─ weight("bash", 70)   base row
└─ 70 * 2 > 100""",
    ),
    "group of NULL": (
        "unknown(null, 2)",
        """
unknown(null, 2)   rule 1: unknown(k, n) :- n = count : { weight(_, k) }.
└─ count : { weight(_, k), is_null(k) } = 2   of 2 rows
   ├─ weight("gcc", null)
   └─ weight("tinfo", null)""",
    ),
    "aggregate": (
        'users("libc", 3)',
        """
users("libc", 3)   rule 1: users(p, n) :- depends(_, p), n = count : { depends(_, p) }, n > 1.
├─ depends("bash", "libc")   base row
├─ count : { depends(_, "libc") } = 3   of 3 rows
│  ├─ depends("bash", "libc")
│  ├─ depends("gcc", "libc")
│  └─ depends("tinfo", "libc")
└─ 3 > 1""",
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_a_row_that_is_there(name: str, shop: vk.Warehouse) -> None:
    text, expected = TREES[name]
    assert str(shop.why(text)) == expected.removeprefix("\n")


ABSENCES = {
    "base": ('depends("bash", "gcc")', 'depends("bash", "gcc"): no such row was inserted'),
    "join": (
        'based_on("libc", "tinfo")',
        """
based_on("libc", "tinfo") is not there
├─ rule 1 needs depends("libc", "tinfo"): there is no such row
│  └─ depends("libc", "tinfo"): no such row was inserted
└─ rule 2 needs based_on("libc", q), depends(q, "tinfo"): 2 rows fit based_on("libc", q), none of them has depends(q, "tinfo")""",
    ),
    "negation": (
        'fine("gcc")',
        """
fine("gcc") is not there
├─ rule 1 needs depends("gcc", _), !broken("gcc"): broken("gcc") is there
└─ rule 1 needs weight("gcc", _), !broken("gcc"): broken("gcc") is there""",
    ),
    "comparison": (
        'heavy("libc", 20)',
        """
heavy("libc", 20) is not there
└─ rule 1 needs weight("libc", 20), 20 * 2 > 100: 20 * 2 > 100 is not true""",
    ),
    "group": (
        "unknown(null, 3)",
        """
unknown(null, 3) is not there
└─ rule 1 needs n = count : { weight(_, k) }: that gives unknown(null, 2)""",
    ),
    "aggregate": (
        'users("gcc", 5)',
        """
users("gcc", 5) is not there
└─ rule 1 needs depends(_, "gcc"), 5 = count : { depends(_, "gcc") }, 5 > 1: count : { depends(_, "gcc") } is 1""",
    ),
    "negation of everything": (
        "ready()",
        """
ready() is not there
└─ rule 1 needs fine("bash"), !broken(_): broken("gcc") is there""",
    ),
    "fact": ("limit(99)", "limit(99): no such row was inserted"),
}


@pytest.mark.parametrize("name", ABSENCES)
def test_a_row_that_is_not_there(name: str, shop: vk.Warehouse) -> None:
    text, expected = ABSENCES[name]
    assert str(shop.why(text)) == expected.removeprefix("\n")


@pytest.mark.parametrize(
    ("text", "code", "column"),
    [
        ('based_on("bash", X)', "NOT_CONSTANT", 18),
        ('based_on(_, "libc")', "NOT_CONSTANT", 10),
        ("limit(50 + 50)", "NOT_CONSTANT", 7),
        ('based_on("a", "b"), broken("b")', "NOT_A_ROW", 21),
        ('broken("a") ; broken("b")', "NOT_A_ROW", 1),
        ('!broken("a")', "NOT_A_ROW", 1),
        ("1 < 2", "NOT_A_ROW", 1),
        ('brokn("a")', "UNKNOWN_RELATION", 1),
        ('broken("a", "b")', "ARITY", 1),
        ("broken(1)", "TYPE_COLUMN", 8),
        ("broken(null)", "NULL_COLUMN", 8),
        ("limit(1", "UNCLOSED_BRACKET", 6),
    ],
)
def test_what_is_no_row(text: str, code: str, column: int, shop: vk.Warehouse) -> None:
    with pytest.raises(ProgramError) as caught:
        shop.why(text)
    assert caught.value.code == code
    span = caught.value.problems[0].span
    assert span is not None and span.column == column


def test_nothing_is_defined(tmp_path: Path) -> None:
    with vk.open(tmp_path / "w", create=True) as warehouse, pytest.raises(vk.StoreError) as caught:
        warehouse.why("p(1)")
    assert caught.value.code == "NOTHING_DEFINED"


def test_a_second_derivation_of_a_row_is_not_told(tmp_path: Path) -> None:
    text = """.decl b(x: number) .decl v(x: number) .decl w(x: number, y: number)
    v(x) :- b(x). w(x, y) :- v(x), v(y)."""
    with warehouse_of(text, {"b": {(1,)}}, tmp_path / "w") as warehouse:
        lines = str(warehouse.why("w(1, 1)")).splitlines()
    assert lines[1:] == ["├─ v(1)   rule 1: v(x) :- b(x).", "│  └─ b(1)   base row", "└─ v(1)   (above)"]


def test_aggregates_show_a_few_rows(tmp_path: Path) -> None:
    text = ".decl b(x: number) .decl v(n: number, m: number) v(count : { b(_) }, max x : { b(x) })."
    with warehouse_of(text, {"b": {(x,) for x in range(10, 27)}}, tmp_path / "w") as warehouse:
        why = warehouse.why("v(17, 26)")
    assert str(why).splitlines()[1:] == [
        "├─ count : { b(_) } = 17   of 17 rows", *(f"│  ├─ b({x})" for x in range(10, 15)), "│  └─ and 12 more",
        "└─ max x : { b(x) } = 26   of 1 row", "   └─ b(26)",
    ]  # fmt: skip


# ---- views that are large, deep, in no order or wrong

CLOSURES = {
    "left": "r(x, z) :- r(x, y), e(y, z).",
    "right": "r(x, z) :- e(x, y), r(y, z).",
    "both": "r(x, z) :- r(x, y), r(y, z).",
    "mutual": "s(x, z) :- r(x, y), e(y, z). r(x, z) :- s(x, z). s(x, z) :- r(x, y), s(y, z).",
}
GRAPH = ".decl e(x: number, y: number) .decl r(x: number, y: number) .decl s(x: number, y: number) r(x, y) :- e(x, y)."


def shuffle(path: Path, table: str) -> None:
    """As if another engine had written the rows."""
    with closing(sqlite3.connect(path / "catalog.db")) as connection, connection:
        rows = connection.execute(f"SELECT * FROM {table} ORDER BY (x * 7919 + y * 104729) % 1009").fetchall()
        connection.execute(f"DELETE FROM {table}")
        for row in rows:
            connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "shuffled"])
@pytest.mark.parametrize("name", CLOSURES)
def test_closures_of_graphs_with_circles(name: str, ordered: bool, tmp_path: Path) -> None:
    text, chance = f"{GRAPH} {CLOSURES[name]}", random.Random(7)
    edges = {(chance.randrange(30), chance.randrange(30)) for _ in range(50)}
    with warehouse_of(text, {"e": edges}, tmp_path / "w") as warehouse:
        rows = {name: set(warehouse.query(f"{name}(x, y)")) for name in ("e", "r", "s")}
    if not ordered:
        shuffle(tmp_path / "w", "r")
        shuffle(tmp_path / "w", "s")
    with vk.open(tmp_path / "w") as warehouse:
        for x, y in chance.sample(sorted(rows["r"]), 40):
            derivation = warehouse.why(f"r({x}, {y})").derivation
            assert derivation is not None
            check_tree(derivation, warehouse.program, rows, {"e": edges})


def test_a_deep_derivation(tmp_path: Path) -> None:
    depth = 1100  # more than Python's own stack has
    text = f".decl e(x: number) .decl r(x: number) r(0). r(x + 1) :- r(x), e(x), x < {depth}."
    with warehouse_of(text, {"e": {(x,) for x in range(depth)}}, tmp_path / "w") as warehouse:
        why = warehouse.why(f"r({depth})")
    assert why.derivation is not None
    nodes = 1 + 3 * depth
    assert len(list(why.derivation.walk())) == len(str(why).splitlines()) == len(why.to_dicts()) == nodes
    json.dumps(why.to_dicts())


def test_a_row_that_no_rule_gives(tmp_path: Path) -> None:
    for name in ("left", "none"):
        text = f"{GRAPH} {CLOSURES.get(name, '')}"
        with warehouse_of(text, {"e": {(1, 2), (2, 3)}}, tmp_path / name):
            pass
        with closing(sqlite3.connect(tmp_path / name / "catalog.db")) as connection, connection:
            connection.execute("INSERT INTO r VALUES (3, 1, 1048576)")
        with vk.open(tmp_path / name) as warehouse, pytest.raises(vk.StoreError) as caught:
            warehouse.why("r(3, 1)")
        assert str(caught.value).startswith("error[UNDERIVED_ROW]: r(3, 1) is there, but no rule gives it\n")


def test_a_row_that_a_view_lacks(tmp_path: Path) -> None:
    with warehouse_of(GRAPH, {"e": {(1, 2)}}, tmp_path / "w"):
        pass
    with closing(sqlite3.connect(tmp_path / "w" / "catalog.db")) as connection, connection:
        connection.execute("DELETE FROM r")
    with vk.open(tmp_path / "w") as warehouse:
        assert "the view is not what its rules give, see `viewkeeper verify`" in str(warehouse.why("r(1, 2)"))


def test_functions_that_fail_elsewhere(tmp_path: Path) -> None:
    """The rows that make a function fail are excluded, whatever the order in which the rule is looked at."""
    text = """.decl a(x: number, y: number) .decl b(y: number) .decl v(x: number, z: number)
    v(x, 100 / y) :- a(x, y), b(y), 100 / y > 2."""
    with warehouse_of(text, {"a": {(1, 0), (1, 5), (1, 7)}, "b": {(5,)}}, tmp_path / "w") as warehouse:
        assert str(warehouse.why("v(1, 20)")).splitlines()[1:] == [
            "├─ a(1, 5)   base row",
            "├─ b(5)   base row",
            "└─ 100 / 5 > 2",
        ]
        assert not warehouse.why("v(1, 14)")


# ---- views of which nothing is stored


def unstored(program: Program, seed: object) -> str:
    """Directives that leave some of the views external, some virtual and some stored."""
    chance = random.Random(str(seed))
    kinds = {name: chance.choice(["", ".external", ".external", ".virtual"]) for name in sorted(program.derived)}
    return "\n".join(f"{kind} {name}" for name, kind in kinds.items() if kind)


@pytest.mark.parametrize("seed", range(100, 112))
def test_rows_of_random_programs_that_are_not_all_stored(seed: int, tmp_path: Path) -> None:
    generated = generate(seed)
    if accepted(generated.text):
        directives = unstored(parse(generated.text), seed)
        check_program(generated.text, generated.facts, tmp_path / "w", directives)


@pytest.mark.parametrize("kind", ["external", "virtual"])
@pytest.mark.parametrize("name", CLOSURES)
def test_unstored_closures_of_graphs_with_circles(name: str, kind: str, tmp_path: Path) -> None:
    text, chance = f"{GRAPH} {CLOSURES[name]}", random.Random(7)
    edges = {(chance.randrange(12), chance.randrange(12)) for _ in range(20)}
    assert check_program(text, {"e": edges}, tmp_path / "w", f".{kind} r") > 8


UNSTORED = """
.decl edge(x: symbol, y: symbol)
.decl closure(x: symbol, y: symbol)
closure(x, y) :- edge(x, y).
closure(x, z) :- closure(x, y), closure(y, z).
.external closure
.decl circular(x: symbol)
circular(x) :- closure(x, x).
.decl apart(x: symbol, y: symbol)
apart(x, y) :- edge(x, _), edge(_, y), !closure(x, y).
.decl reached(x: symbol, n: number)
reached(x, n) :- edge(x, _), n = count : { closure(x, _) }.
.decl near(x: symbol)
near(x) :- reached(x, n), n < 2.
.virtual near
"""
UNSTORED_WHY = {
    "a circle": (
        'closure("b", "b")',
        """
closure("b", "b")   rule 2: closure(x, z) :- closure(x, y), closure(y, z).
├─ closure("b", "a")   rule 1: closure(x, y) :- edge(x, y).
│  └─ edge("b", "a")   base row
└─ closure("a", "b")   rule 1
   └─ edge("a", "b")   base row""",
    ),
    "stored above external": (
        'circular("a")',
        """
circular("a")   rule 1: circular(x) :- closure(x, x).
└─ closure("a", "a")   rule 2: closure(x, z) :- closure(x, y), closure(y, z).
   ├─ closure("a", "b")   rule 1: closure(x, y) :- edge(x, y).
   │  └─ edge("a", "b")   base row
   └─ closure("b", "a")   rule 1
      └─ edge("b", "a")   base row""",
    ),
    "negation": (
        'apart("f", "a")',
        """
apart("f", "a")   rule 1: apart(x, y) :- edge(x, _), edge(_, y), !closure(x, y).
├─ edge("f", "g")   base row
├─ edge("b", "a")   base row
└─ !closure("f", "a")   no such row""",
    ),
    "aggregate": (
        'reached("a", 3)',
        """
reached("a", 3)   rule 1: reached(x, n) :- edge(x, _), n = count : { closure(x, _) }.
├─ edge("a", "b")   base row
└─ count : { closure("a", _) } = 3   of 3 rows
   ├─ closure("a", "a")
   ├─ closure("a", "b")
   └─ closure("a", "c")""",
    ),
    "virtual above stored": (
        'near("f")',
        """
near("f")   rule 1: near(x) :- reached(x, n), n < 2.
├─ reached("f", 1)   rule 1: reached(x, n) :- edge(x, _), n = count : { closure(x, _) }.
│  ├─ edge("f", "g")   base row
│  └─ count : { closure("f", _) } = 1   of 1 row
│     └─ closure("f", "g")
└─ 1 < 2""",
    ),
    "not there": (
        'circular("f")',
        """
circular("f") is not there
└─ rule 1 needs closure("f", "f"): there is no such row
   └─ closure("f", "f") is not there
      ├─ rule 1 needs edge("f", "f"): there is no such row
      │  └─ edge("f", "f"): no such row was inserted
      └─ rule 2 needs closure("f", y), closure(y, "f"): 1 row fits closure("f", y), but nothing fits closure("g", "f")
         └─ closure("g", "f") is not there
            ├─ rule 1 needs edge("g", "f"): there is no such row
            │  └─ edge("g", "f"): no such row was inserted
            └─ rule 2 needs closure("g", y), closure(y, "f"): nothing fits closure("g", y)""",
    ),
    "not there for a negation": (
        'apart("a", "c")',
        """
apart("a", "c") is not there
└─ rule 1 needs edge("a", _), edge(_, "c"), !closure("a", "c"): closure("a", "c") is there""",
    ),
    "not there for an aggregate": (
        'reached("a", 2)',
        """
reached("a", 2) is not there
└─ rule 1 needs edge("a", _), 2 = count : { closure("a", _) }: count : { closure("a", _) } is 3""",
    ),
    "not there though virtual": (
        'near("a")',
        """
near("a") is not there
└─ rule 1 needs reached("a", n), n < 2: 1 row fits reached("a", n), but 3 < 2 is not true""",
    ),
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[vk.Warehouse]:
    edges = {("a", "b"), ("b", "a"), ("b", "c"), ("f", "g")}
    with warehouse_of(UNSTORED, {"edge": edges}, tmp_path_factory.mktemp("why") / "graph") as warehouse:
        yield warehouse


@pytest.mark.parametrize("name", UNSTORED_WHY)
def test_rows_that_are_not_stored(name: str, graph: vk.Warehouse) -> None:
    text, expected = UNSTORED_WHY[name]
    assert str(graph.why(text)) == expected.removeprefix("\n")


def test_an_external_view_is_as_it_is_now(tmp_path: Path) -> None:
    with warehouse_of(UNSTORED, {"edge": {("a", "b")}}, tmp_path / "w") as warehouse:
        assert not warehouse.why('circular("a")')
        warehouse.commit(inserts={"edge": [("b", "a")]})
        assert warehouse.why('circular("a")')
        warehouse.commit(deletes={"edge": [("a", "b")]})
        assert not warehouse.why('closure("a", "b")')


def test_a_virtual_view_that_fails(tmp_path: Path) -> None:
    """Not with a wrong answer, although a query of the row alone may succeed."""
    text = ".decl b(x: number) .decl v(x: number) v(100 / x) :- b(x). .virtual v"
    with warehouse_of(text, {"b": {(0,), (5,)}}, tmp_path / "w") as warehouse, pytest.raises(EvaluationError) as caught:
        warehouse.why("v(20)")
    assert caught.value.code == "DIVISION_BY_ZERO"


SALES = """
CREATE TABLE sale (id INT NOT NULL, city STRING NOT NULL, amount INT NOT NULL, PRIMARY KEY (id));
CREATE VIEW turnover AS
    SELECT city, sum(amount) AS total FROM sale WHERE id NOT IN (SELECT id FROM sale WHERE amount < 2) GROUP BY city HAVING sum(amount) > 10;
CREATE MATERIALIZED VIEW best AS SELECT city, total FROM turnover t WHERE NOT EXISTS (SELECT 1 FROM turnover o WHERE o.total > t.total);
INSERT INTO sale VALUES (1, 'Rome', 7), (2, 'Rome', 8), (3, 'Oslo', 11), (4, 'Oslo', 1), (5, 'Bonn', 3);
"""


@contextmanager
def sales_of(path: Path) -> Iterator[vk.Warehouse]:
    with vk.open(path, create=True, engine="embedded") as warehouse:
        warehouse.sql(SALES)
        yield warehouse


def check_sales(best: Why, second: Why, none: Why) -> None:
    assert best.derivation is not None
    told = [node.text for node in best.derivation.walk()]
    assert 'turnover("Rome", 15)' in told and 'sale(1, "Rome", 7)' in told
    assert second.absence is not None and second.absence.attempts[0].missing is None
    assert none.absence is not None and none.absence.attempts[0].missing is not None
    assert none.absence.attempts[0].missing.text == 'turnover("Bonn", 3)'


def test_a_view_of_sql_below_a_materialized_one(tmp_path: Path) -> None:
    with sales_of(tmp_path / "w") as warehouse:
        check_sales(*(warehouse.why(text) for text in ('best("Rome", 15)', 'best("Oslo", 11)', 'best("Bonn", 3)')))


def cold(state: State) -> State:
    """As if Spark had written relations that are too large for the catalog: their inner relations are not stored either."""
    kept = dict(state.kept)
    for name, one in state.kept.items():
        if one.place != NOWHERE:
            relation = state.program.relation(name)
            write_snapshot(snapshot_path(state.directory, name, one.changed), relation, state.rows(relation))
            kept[name] = one._replace(place="cold", snapshot=one.changed)
    return replace(state, kept=kept)


def test_an_external_view_over_snapshots(tmp_path: Path) -> None:
    found = []
    with sales_of(tmp_path / "w") as warehouse:
        for text in ('best("Rome", 15)', 'best("Oslo", 11)', 'best("Bonn", 3)'):
            with warehouse._reading() as state:
                found.append(explain(parse_row(text, state.program), cold(state)))
    check_sales(*found)


# ---- the command


def test_command(shop: vk.Warehouse) -> None:
    done = viewkeeper("why", shop.path, 'fine("bash")')
    assert (done.code, done.err) == (0, "")
    assert done.out == str(shop.why('fine("bash")')) + "\n"


def test_command_for_a_row_that_is_not_stored(graph: vk.Warehouse) -> None:
    done = viewkeeper("why", graph.path, 'circular("a")')
    assert (done.code, done.err) == (0, "")
    assert done.out == str(graph.why('circular("a")')) + "\n"


def test_command_with_json(shop: vk.Warehouse) -> None:
    done = viewkeeper("why", shop.path, "--json", 'heavy("bash", 70)')
    entries = [json.loads(line) for line in done.out.splitlines()]
    assert [entry["kind"] for entry in entries] == ["rule", "base", "condition"]
    assert entries[0]["premises"] == [2, 3]
    assert entries[0]["bindings"] == {"p": "bash", "k": 70}
    done = viewkeeper("why", shop.path, "--json", 'fine("gcc")')
    assert [json.loads(line)["kind"] for line in done.out.splitlines()] == ["missing", "attempt", "attempt"]


def test_command_refuses_what_is_no_row(shop: vk.Warehouse) -> None:
    done = viewkeeper("why", shop.path, 'based_on("bash", X)')
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error[NOT_CONSTANT]: X is not a constant")


def test_null_in_the_place_of_an_aggregate(tmp_path: Path) -> None:
    with vk.open(tmp_path / "w", create=True, engine="embedded") as shop:
        shop.define(
            ".decl d(k: number?, x: number)\nd(1, 2).\n.decl m(k: number?, n: number?)\nm(k, n) :- n = sum x : { d(k, x) }."
        )
        assert str(shop.why("m(1, null)")).endswith("n = sum x : { d(1, x) }: that gives m(1, 2)")
        assert str(shop.why("m(null, null)")).endswith("nothing fits the braces")
        shop.define(
            ".decl b(z: number?)\nb(null).\n.decl v(n: number?, z: number?)\nv(n, z) :- n = count : { b(z) }.\nv(x, x) :- v(_, x)."
        )
        assert sorted(map(str, shop.query("v(x, y)"))) == ["(1, None)", "(None, None)"]
        assert "rule 2" in str(shop.why("v(null, null)")) and "rule 1" in str(shop.why("v(1, null)"))
