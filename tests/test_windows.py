"""Windows: every operation over every frame is what the naive evaluator says, and maintenance touches only what it must."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import pytest
from tests.oracle import evaluate
from tests.playing import told

import viewkeeper as vk
from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.engines.evaluator import evaluate as compute
from viewkeeper.engines.keep.tables import Tables
from viewkeeper.errors import EvaluationError
from viewkeeper.language import parse
from viewkeeper.program.arrow import batch_of_rows, rows_of_batch
from viewkeeper.program.ast import Aggregate, Atom, Comparison, Frame, Order, Over, Rule, Variable
from viewkeeper.rewrite.passes import normalise

BASE = ".decl s(g: number?, x: number?, f: float?, t: symbol)\n"
FRAMES = [
    "",
    "; rows -1 1",
    "; rows -2 -1",
    "; rows 1 unbounded",
    "; rows unbounded 0",
    "; range 0 unbounded",
    "; range unbounded unbounded",
]
FRAMES += ["; range -2 2", "; range 1 3", "; range unbounded -1", "; range -1 unbounded"]
ORDERS = ["x", "x desc", "x nulls last", "x desc nulls first"]
FRAMED = [
    "count",
    "count f",
    "sum x",
    "sum f",
    "mean x",
    "mean f",
    "min t",
    "max x",
    "first_value t",
    "last_value f",
    "nth_value t 2",
]
OTHERS = ["row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile 3", "lag t", "lag x 0", "lead f 2"]


def type_of(operation: str) -> str:
    name, *target = operation.split()
    if name in ("percent_rank", "cume_dist", "mean"):
        return "float?"
    if not target or name in ("count", "ntile"):
        return "number"
    return {"x": "number?", "f": "float?", "t": "symbol?"}[target[0]]


def a_program(order: str, frame: str, partition: str) -> str:
    operations = FRAMED if frame else [*FRAMED, *OTHERS]
    over = f"over ({partition}; {order}{frame})"
    columns = ", ".join(f"r{i}: {type_of(operation)}" for i, operation in enumerate(operations))
    results = ", ".join(f"r{i}" for i in range(len(operations)))
    windows = ", ".join(f"r{i} = {operation} : {{ s(g, x, f, t) }} {over}" for i, operation in enumerate(operations))
    return f"{BASE}.decl w(g: number?, x: number?, f: float?, t: symbol, {columns})\nw(g, x, f, t, {results}) :- {windows}."


def some_rows(seed: int, number: int) -> set[tuple[Any, ...]]:
    choose = random.Random(seed).choice
    groups, numbers = (1, 2, None), (1, 2, 3, 5, 8, None, None)
    floats = (0.1, 1e16, -1e16, 3.0, None)
    return {(choose(groups), choose(numbers), choose(floats), choose("abc")) for _ in range(number)}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("order", ORDERS)
def test_every_operation_over_every_frame(order: str, frame: str) -> None:
    for seed, (number, partition) in enumerate(((25, "g"), (9, ""), (1, "g"), (0, "g"))):
        text, rows = a_program(order, frame, partition), some_rows(seed, number)
        core = normalise(parse(text))
        engine = EmbeddedEngine.private()
        try:
            engine.prepare(core)
            engine.insert("s", [batch_of_rows(sorted(rows, key=repr), core.relation("s"))])
            compute(core, engine)
            relation = core.relation("w")
            found = {row for batch in engine.read(relation) for row in rows_of_batch(batch, relation.arity)}
        finally:
            engine.close()
        assert found == evaluate(text, {"s": rows})["w"]


# ---- text


def test_a_window_is_printed_and_read_back() -> None:
    text = """\
.decl s(p: symbol, x: number)
.decl w(p: symbol, x: number, a: number, b: number?, c: number?)
w(p, x, a, b, c) :- a = row_number : { s(p, x) } over (p; x desc, p nulls last; 10), \
b = lag x 2 : { s(p, x) } over (p; x desc nulls first), c = sum x : { s(p, x) } over (p; x; range -2 unbounded).
"""
    program = parse(text)
    assert str(program) == text
    assert parse(str(program)) == program
    source = (Atom("s", (Variable("p"), Variable("x"))),)
    p, x = Variable("p"), Variable("x")
    assert program.rules[0] == Rule(
        Atom("w", (p, x, Variable("a"), Variable("b"), Variable("c"))),
        (
            Comparison(
                "=", Variable("a"), Aggregate("row_number", None, source, Over((p,), (Order(x, True, False), Order(p, False, False)), limit=10))
            ),
            Comparison("=", Variable("b"), Aggregate("lag", x, source, Over((p,), (Order(x, True, True),), number=2))),
            Comparison("=", Variable("c"), Aggregate("sum", x, source, Over((p,), (Order(x),), Frame("range", -2, None)))),
        ),
    )  # fmt: skip


def test_names_of_windows_are_names_elsewhere() -> None:
    text = ".decl rank(over: number, lag: symbol)\nrank(over, lag) :- rank(over, lag), over = 1 + count : { rank(_, lag) }."
    with pytest.raises(vk.ProgramError) as caught:
        parse(text)
    assert caught.value.code == "AGGREGATE_CYCLE"


def test_windows_in_queries(tmp_path: Path) -> None:
    with vk.open(tmp_path / "w", create=True) as shop:
        shop.define(".decl s(x: number)")
        shop.commit({"s": [(3,), (5,)]})
        assert list(shop.query("r = rank : { s(x) } over (; x desc)")) == [(1,), (2,)]


# ---- maintenance

TOP = """
.decl s(g: symbol, x: number, y: number)
.decl top(g: symbol, x: number, y: number, r: number)
top(g, x, y, r) :- r = row_number : { s(g, x, y) } over (g; x desc; 3).
.decl sums(g: symbol, x: number, n: number?)
sums(g, x, n) :- n = sum y : { s(g, x, y) } over (g; x).
"""


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What is fetched from SQLite: the statement and how many rows it gives."""
    found: list[tuple[str, int]] = []
    usual = Tables.fetch

    def fetch(tables: Tables, sql: str, parameters: Any = (), relation: str | None = None) -> Any:
        rows = usual(tables, sql, parameters, relation)
        found.append((sql, len(rows)))
        return rows

    monkeypatch.setattr(Tables, "fetch", fetch)
    return found


def test_what_comes_behind_the_last_row_that_is_kept_reads_nothing_else(tmp_path: Path, fetched: list[tuple[str, int]]) -> None:
    with vk.open(tmp_path / "w", create=True) as shop:
        shop.define(TOP.split(".decl sums")[0])
        shop.commit({"s": [(g, x, 0) for g in "ab" for x in range(1000)]})
        fetched.clear()
        assert "top" not in shop.commit({"s": [("a", 500, 1)]}, {"s": [("a", 7, 0)]}).changes
        assert [rows for sql, rows in fetched if "top" in sql] == [1]
        fetched.clear()
        commit = shop.commit(deletes={"s": [("a", 998, 0)]})
        assert told(commit.changes)["top"] == ({("a", 997, 0, 2), ("a", 996, 0, 3)}, {("a", 998, 0, 2), ("a", 997, 0, 3)})
        assert max(rows for sql, rows in fetched if "top" in sql) == 3
        assert [view.right for view in shop.verify()] == [True]


def test_only_touched_partitions_are_computed(tmp_path: Path, fetched: list[tuple[str, int]]) -> None:
    with vk.open(tmp_path / "w", create=True) as shop:
        shop.define(TOP)
        shop.commit({"s": [(g, x, 1) for g in "abcdefgh" for x in range(10)]})
        fetched.clear()
        commit = shop.commit({"s": [("c", 8, 9)]})
        assert told(commit.changes)["sums"] == ({("c", 8, 18), ("c", 9, 19)}, {("c", 8, 9), ("c", 9, 10)})
        assert max(rows for _, rows in fetched) == 11
        assert commit.views["sums"].strategy == "partitions recomputed"


def test_partitions_that_are_emptied_and_many_rows_at_once(tmp_path: Path) -> None:
    with vk.open(tmp_path / "w", create=True) as shop:
        shop.define(TOP)
        rows = [(g, x, x % 7) for g in "abc" for x in range(100)]
        shop.commit({"s": rows})
        shop.commit({"s": [("d", x, 0) for x in range(50)]}, {"s": rows[:100]})
        assert [view.right for view in shop.verify()] == [True, True]
        commit = shop.commit({"s": rows[:2]})
        assert told(commit.changes)["top"] == ({("a", 1, 1, 1), ("a", 0, 0, 2)}, set())


@pytest.mark.parametrize("order", ["", "y", "y desc"])
@pytest.mark.parametrize("kind", ["", ".external v"])
def test_partitions_of_one_row(order: str, kind: str, tmp_path: Path) -> None:
    with vk.open(tmp_path / "w", create=True, engine="embedded") as shop:
        shop.define(f"""
            .decl q(x: number, y: number)
            .decl v(x: number, y: number, n: number)
            v(x, y, n) :- n = row_number : {{ q(x, y) }} over (x, y; {order}; 2). {kind}
        """)
        shop.commit({"q": [(1, 1), (1, 2)]})
        commit = shop.commit({"q": [(2, 1)]}, {"q": [(1, 2)]})
        assert list(commit.changes["v"].values()) == [("delete", (1, 2, 1)), ("insert", (2, 1, 1))]
        assert list(shop.query("v(x, y, n)")) == [(1, 1, 1), (2, 1, 1)]


@pytest.mark.parametrize("kind", ["number", "decimal(18,2)", "float"])
def test_a_sum_that_is_too_large_is_refused(kind: str, tmp_path: Path) -> None:
    from decimal import Decimal

    most = {"number": 2**63 - 1, "decimal(18,2)": Decimal("9999999999999999.99"), "float": 1.7e308}[kind]
    with vk.open(tmp_path / "w", create=True) as shop:
        shop.define(
            f".decl s(i: number, x: {kind})\n.decl w(i: number, t: {kind}?)\nw(i, t) :- t = sum x : {{ s(i, x) }} over (; i)."
        )
        shop.commit({"s": [(1, most)]})
        with pytest.raises(EvaluationError) as caught:
            shop.commit({"s": [(2, most)]})
        assert caught.value.code == "OVERFLOW"
        assert list(shop.query("w(i, t)")) == [(1, most)]


# ---- what is told


def test_explain_tells_the_strategy_and_the_index(tmp_path: Path) -> None:
    with vk.open(tmp_path / "w", create=True) as shop:
        shop.define(TOP)
        [part] = shop.explain("top").parts
        assert part.strategy == "partitions recomputed"
        assert "s by g in order of x desc y" in part.indexes
        assert "LIMIT 3" in part.statements[0]


def test_why_tells_the_row_and_its_partition(tmp_path: Path) -> None:
    with vk.open(tmp_path / "w", create=True) as shop:
        shop.define(TOP)
        shop.commit({"s": [("a", 1, 5), ("a", 2, 6), ("b", 3, 7)]})
        out = io.StringIO()
        print(shop.why('top("a", 1, 5, 2)'), file=out)
        assert out.getvalue() == (
            'top("a", 1, 5, 2)   rule 1: top(g, x, y, r) :- r = row_number : { s(g, x, y) } over (g; x desc; 3).\n'
            '├─ s("a", 1, 5)   base row\n'
            "└─ row_number : { s(g, x, y) } over (g; x desc; 3) = 2   of 2 rows\n"
            '   ├─ s("a", 1, 5)\n'
            '   └─ s("a", 2, 6)\n'
        )
        absence = shop.why('top("a", 1, 5, 1)').absence
        assert absence is not None and absence.attempts[0].reason == 'that gives top("a", 1, 5, 2)'
