"""Warehouses from Python: definitions, rows, views that fit them, and what is left behind: nothing."""

from __future__ import annotations

import datetime
import gc
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.commands import viewkeeper

import viewkeeper as vk
from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.store.catalog import FORMAT
from viewkeeper.store.lock import reader_lock
from viewkeeper.warehouse import Warehouse

PAIR = """
.decl edge(from: symbol, to: symbol)
.decl reach(from: symbol, to: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
"""
REACH = f"""{PAIR}
.decl node(name: symbol)
node(x) :- edge(x, _) ; edge(_, x).
.decl apart(from: symbol, to: symbol)
apart(x, y) :- node(x), node(y), !reach(x, y).
.decl size(name: symbol, n: number)
size(x, n) :- node(x), n = count : {{ reach(x, _) }}.
"""

TYPES = """
.decl Every(n: number?, u: unsigned?, f: float?, s: symbol?, b: bool?, d: date?, t: timestamp?, m: decimal(18,3)?, x: bytes?)
.decl Copy(n: number?, u: unsigned?, f: float?, s: symbol?, b: bool?, d: date?, t: timestamp?, m: decimal(18,3)?, x: bytes?)
Copy(n, u, f, s, b, d, t, m, x) :- Every(n, u, f, s, b, d, t, m, x).
.decl flag()
.decl raised()
raised() :- flag().
"""
UTC = datetime.UTC
ROWS: list[tuple[Any, ...]] = [
    (None,) * 9,
    (0, 0, 0.0, "", False, datetime.date(1, 1, 1), datetime.datetime(1, 1, 1, tzinfo=UTC), Decimal("0.000"), b""),
    (
        -(2**63),
        2**63 - 1,
        5e-324,
        "'; DROP TABLE every; -- \"\\ 表\n\t\u2028",
        True,
        datetime.date(9999, 12, 31),
        datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        Decimal("-999999999999999.999"),
        bytes(range(256)),
    ),
]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Warehouse]:
    with vk.open(tmp_path / "shop", create=True) as warehouse:
        yield warehouse


@pytest.fixture
def graph(shop: Warehouse) -> Warehouse:
    shop.define(REACH)
    shop.load("edge", [("a", "b"), ("b", "c")])
    return shop


def rows(warehouse: Warehouse, query: str, engine: str | None = None) -> list[tuple[Any, ...]]:
    return list(warehouse.query(query, engine=engine))


def catalog(warehouse: Warehouse) -> closing[sqlite3.Connection]:
    """The catalog as somebody else's program sees it."""
    return closing(sqlite3.connect(warehouse.path / "catalog.db", isolation_level=None))


def right(warehouse: Warehouse, engine: str | None = None) -> bool:
    found = warehouse.verify(engine=engine)
    return bool(found) and all(view.right for view in found)


def refused(code: str) -> Any:
    return pytest.raises(vk.ViewkeeperError, match=rf"^error\[{code}\]")


# ---- definitions


def test_definitions_grow(shop: Warehouse) -> None:
    assert shop.define(".decl a(x: number)\na(1).").rows == {"a": 1}
    assert shop.define(".decl b(x: number) b(x + 1) :- a(x).").rows == {"b": 1}
    assert shop.define("b(x + 2) :- a(x).").rows == {"b": 2}
    assert rows(shop, "b(x)") == [(2,), (3,)]
    again = shop.define(".decl b(x: number) b(x + 1) :- a(x). a(1).")
    assert (again.number, again.reason) == (None, "nothing new")
    assert shop.define("a(7).").rows == {"a": 2, "b": 4}
    assert right(shop)


def test_a_conflict_is_refused_with_the_difference(graph: Warehouse) -> None:
    before = graph.program
    with refused("CONFLICTING_DEFINITION") as told:
        graph.define(".decl more(x: number)\n.decl edge(from: symbol, to: number)")
    assert ".decl edge(from: symbol, to: symbol)" in str(told.value)
    assert ".decl edge(from: symbol, to: number)" in str(told.value)
    assert graph.program == before


def test_definitions_survive_byte_for_byte(tmp_path: Path) -> None:
    texts = ["// first\r\n.decl  a( x:number )\r\n\ta(1) .", '.type City <: symbol // ä\n.decl b(c: City) b("Zürich").\n\n\n']
    with vk.open(tmp_path / "w", create=True) as warehouse:
        for number, text in enumerate(texts):
            warehouse.define(text, f"text {number}")
        program = warehouse.program
        with catalog(warehouse) as stored:
            assert [text for (text,) in stored.execute('SELECT text FROM "$definition" ORDER BY id')] == texts
    for _ in range(2):
        with vk.open(tmp_path / "w") as warehouse:
            assert warehouse.program == program
            assert rows(warehouse, "a(x), b(c)") == [(1, "Zürich")]


def test_drop(graph: Warehouse) -> None:
    with refused("DROP_DEPENDENTS") as told:
        graph.drop("reach")
    assert "apart, size depend on it" in str(told.value)
    for name in ("apart", "size", "reach"):
        graph.drop(name)
    assert {shown.relation.name for shown in graph.show()} == {"edge", "node"}
    graph.define(".decl reach(n: number) reach(n) :- n = count : { edge(_, _) }.")
    assert rows(graph, "reach(n)") == [(2,)]
    with vk.open(graph.path) as same:
        assert rows(same, "reach(n)") == [(2,)]
    with catalog(graph) as stored:
        tables = {name for (name,) in stored.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {name for name in tables if not name.startswith("$")} == {"edge", "node", "reach"}
    with refused("UNKNOWN_RELATION"):
        graph.drop("apart")


def test_drop_a_relation_that_depends_on_itself(graph: Warehouse) -> None:
    graph.define(".decl odd(x: symbol) .decl even(x: symbol) odd(x) :- even(x). even(x) :- odd(x), node(x).")
    with refused("DROP_DEPENDENTS"):
        graph.drop("odd")
    before = {shown.relation.name for shown in graph.show()}
    with refused("UNKNOWN_RELATION"):
        graph.drop("odd", "even", "neither")
    assert {shown.relation.name for shown in graph.show()} == before
    assert graph.drop("odd", "even").number == graph.last()
    assert {shown.relation.name for shown in graph.show()} == before - {"odd", "even"}
    with vk.open(graph.path) as same:
        assert same.program == graph.program


def test_views_that_depend_on_each_other_are_kept_alike(graph: Warehouse) -> None:
    graph.define(
        ".decl odd(x: symbol) .decl even(x: symbol) odd(x) :- even(x). odd(x) :- node(x). even(x) :- odd(x). .external odd"
    )

    def kept() -> set[str]:
        return {shown.place for shown in graph.show() if shown.relation.name in ("odd", "even")}

    assert kept() == {"nothing: external"}
    for view in ("odd", "even"):
        graph.define(f".virtual {view}")
        assert kept() == {"nothing: virtual"}
        graph.store(view)
        assert kept() == {"catalog"} and graph.store(["odd", "even"]).number is None
        graph.store(view, external=True)
        assert kept() == {"nothing: external"} and graph.store(view, external=True).number is None
    with vk.open(graph.path) as same:
        assert same.program == graph.program


@pytest.mark.parametrize("said", [".external odd", ".virtual odd"])
@pytest.mark.parametrize(
    "before", [".external odd .external even", ".virtual even", ".external even .virtual odd", ".external odd"]
)
def test_where_views_were_kept_together_outlasts_what_kept_them_together(graph: Warehouse, before: str, said: str) -> None:
    rules = "odd(x) :- even(x). odd(x) :- given(x). even(x) :- odd(x). "
    graph.define(f".decl given(x: symbol) .decl odd(x: symbol) .decl even(x: symbol) {rules} {before}")
    graph.define(said)
    graph.define(".decl odd(x: symbol) odd(x) :- given(x).", replace=True)
    for shop in (graph, vk.open(graph.path)):
        places = {shown.relation.name: shown.place for shown in shop.show()}
        assert places["odd"] == "catalog"
        assert places["even"] == ("catalog" if "even" not in before else f"nothing: {said.split()[0][1:]}")
        shop.commit({"given": [(f"n{shop.last()}",)]})
        assert rows(shop, "even(x)") == rows(shop, "odd(x)") and right(shop)


def test_drop_a_type(shop: Warehouse) -> None:
    shop.define(".type City <: symbol .type Place = City | Village .type Village <: symbol .decl home(c: City)")
    with refused("DROP_DEPENDENTS") as told:
        shop.drop("City")
    assert "Place, home depend on it" in str(told.value)
    for name in ("home", "Place", "City"):
        shop.drop(name)
    shop.define(".type City <: number .decl home(c: City) home(1).")
    with vk.open(shop.path) as same:
        assert rows(same, "home(c)") == [(1,)]


def test_facts_become_rules_when_a_relation_becomes_a_view(shop: Warehouse) -> None:
    shop.define(".decl a(x: number) a(1). a(1 + 1). .decl b(x: number) b(9).")
    shop.define("a(x) :- b(x).")
    assert rows(shop, "a(x)") == [(1,), (2,), (9,)]
    shop.load("b", [10])
    assert rows(shop, "a(x)") == [(1,), (2,), (9,), (10,)]
    assert right(shop)
    with refused("DATA_CONFLICT"):
        shop.define("b(x) :- a(x).")


def test_rows_of_a_view_come_only_from_its_rules(graph: Warehouse) -> None:
    with refused("BASE_CONFLICT"):
        graph.load("reach", [("x", "y")])
    with refused("UNKNOWN_RELATION") as told:
        graph.load("egde", [("x", "y")])
    assert 'Did you mean "edge"?' in str(told.value)


def test_an_aggregate_in_a_head_is_a_view(shop: Warehouse) -> None:
    shop.define(".decl a(x: number) .decl n(x: number) n(count : { a(_) }).")
    shop.load("a", [1, 2, 3])
    assert rows(shop, "n(x)") == [(3,)]
    with refused("BASE_CONFLICT"):
        shop.load("n", [1])


def test_a_stored_definition_that_is_not_valid_any_more(graph: Warehouse) -> None:
    with catalog(graph) as stored:
        stored.execute("UPDATE \"$definition\" SET text = 'reach(x) :- '")
    with refused("CATALOG_DAMAGED"):
        vk.open(graph.path)


def test_a_warehouse_without_relations(shop: Warehouse) -> None:
    for ask in (lambda: shop.query("a(x)"), lambda: shop.load("a", []), lambda: shop.show("a"), lambda: shop.verify("a")):
        with refused("NOTHING_DEFINED"):
            ask()
    assert rows(shop, "x = 1 + 1") == [(2,)]


# ---- views


def test_views_follow_loads(graph: Warehouse) -> None:
    assert rows(graph, "reach(x, y)") == [("a", "b"), ("a", "c"), ("b", "c")]
    assert rows(graph, "size(x, n)") == [("a", 2), ("b", 1), ("c", 0)]
    commit = graph.load("edge", [("c", "a"), ("a", "b")])
    assert commit.inserted == {"edge": 1}
    assert commit.rows == {"edge": 3, "reach": 9, "apart": 0, "size": 3}
    assert rows(graph, "size(x, n)") == [("a", 3), ("b", 3), ("c", 3)]
    assert right(graph)
    assert graph.load("edge", [("a", "b")]).number is None


def test_a_commit_that_does_not_wait_for_the_disk_survives_its_process(tmp_path: Path) -> None:
    program = f"""
import os, viewkeeper as vk
shop = vk.open({str(tmp_path / "w")!r}, create=True, durable=False)
shop.define(".decl r(x: number)")
shop.commit({{"r": [1, 2]}})
[[waits]] = shop._writer.catalog.connection.execute("PRAGMA synchronous")
os._exit(40 + waits)
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == 41  # 1 is NORMAL
    with vk.open(tmp_path / "w") as shop:
        assert list(shop.query("r(x)")) == [(1,), (2,)]
        shop.commit({"r": [3]})
        assert shop._writer is not None
        assert shop._writer.catalog.connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_preview_of_many_first_rows_tells_them_and_leaves_nothing(tmp_path: Path) -> None:
    rows = [(i, i + 1) for i in range(0, 30_000, 2)]
    with vk.open(tmp_path / "w", create=True) as shop:
        shop.define(".decl r(x: number, y: number)\n.decl v(y: number)\nv(y) :- r(_, y), y > 10.")
        foretold = shop.preview({"r": rows})
        assert (foretold.number, foretold.changes["r"].inserted.num_rows) == (None, 15_000)
        assert foretold.changes["v"].stored == ([(y,) for _, y in rows if y > 10], [])
        assert [shown.rows for shown in shop.show()] == [0, 0]
        assert len(shop.log()) == 1
        assert shop.commit({"r": rows}).changes["v"].stored == foretold.changes["v"].stored


def test_a_load_of_several_relations_is_one_commit(shop: Warehouse) -> None:
    shop.define(".decl a(x: number) .decl b(x: number) .decl both(x: number) both(x) :- a(x), b(x).")
    commit = shop.load({"a": [1, 2], "b": [2, 3]})
    assert (commit.number, commit.inserted, commit.rows["both"]) == (2, {"a": 2, "b": 2}, 1)
    with catalog(shop) as stored:
        [own, *changes] = stored.execute('SELECT relation, inserted, form FROM "$log" WHERE commit_id = 2 ORDER BY 1')
        [[known]] = stored.execute("SELECT rows FROM \"$log\" WHERE commit_id = 2 AND relation = ''")
    assert own[:2] == ("", 0)
    assert known.startswith(b'["load",') and b'"view":"both"' in known
    assert changes == [("a", 2, "rows"), ("b", 2, "rows"), ("both", 1, "rows")]


@pytest.mark.parametrize(
    ("rule", "bad", "code"),
    [
        ("v(x * 2) :- a(x).", 2**62, "OVERFLOW"),
        ("v(6 / x) :- a(x).", 0, "DIVISION_BY_ZERO"),
        ("v(sum y : { a(y), y > x }) :- a(x).", 2**63 - 1, "OVERFLOW"),
    ],
)
def test_a_failing_view_leaves_everything_as_it_was(shop: Warehouse, rule: str, bad: int, code: str) -> None:
    shop.define(f".decl a(x: number) .decl v(x: number) {rule}")
    shop.load("a", [1, 2, 3])
    before = rows(shop, "a(x)"), rows(shop, "v(x)")
    with refused(code):
        shop.load("a", [4, 5, 2**63 - 2, bad])
    with refused(code):
        shop.define(f".decl w(x: number) {rule.replace('v(', 'w(').replace('a(x)', f'x = {bad}')} a({bad}).")
    assert (rows(shop, "a(x)"), rows(shop, "v(x)")) == before
    assert right(shop)
    assert shop.load("a", [4]).number == 3


def test_verify_finds_what_does_not_fit(graph: Warehouse) -> None:
    with catalog(graph) as stored:
        stored.execute("DELETE FROM reach WHERE \"from\" = 'b'")
        stored.execute("INSERT INTO size VALUES ('z', 7, 1)")
    found = {view.view: view for view in graph.verify()}
    assert not found["reach"].right
    assert found["reach"].missing.to_pylist() == [{"from": "b", "to": "c"}]
    assert found["size"].surplus.to_pylist() == [{"name": "z", "n": 7}]
    assert found["node"].right
    assert [view.right for view in graph.verify("size")] == [False]
    with refused("NOT_A_VIEW"):
        graph.verify("edge")


# ---- asking


def test_the_log_of_what_is_dropped(shop: Warehouse) -> None:
    shop.define(".decl a(x: number) .decl leaf(x: number) leaf(x) :- a(x). .decl bare(x: number) bare(x) :- a(x), x > 9.")
    shop.commit({"a": [1]})
    for name in ("leaf", "bare", "a"):
        shop.drop(name)
    assert [(one.number, one.changes) for one in shop.log(view="leaf")] == [(2, {"leaf": (1, 0)}), (3, {"leaf": (0, 1)})]
    assert [one.number for one in shop.log(view="a")] == [2, 5]
    assert shop.log(view="bare") == []  # it never had rows
    done = viewkeeper("log", shop.path, "--view", "leaf", "--json")
    assert [json.loads(line)["op"] for line in done.out.splitlines()] == ["insert", "delete"]
    with refused("NOTHING_DEFINED"):
        shop.log(view="")
    shop.define(".decl b(x: number)")
    for name in ("leav", ""):
        with refused("UNKNOWN_RELATION"):
            shop.log(view=name)
    shop.trim_log(0)
    with refused("UNKNOWN_RELATION"):
        shop.log(view="leaf")


def test_answers(graph: Warehouse) -> None:
    answer = graph.query('size(Name, n), Name != "c"')
    assert answer.columns == ("Name", "n")
    assert (len(answer), bool(answer), list(answer)) == (2, True, [("a", 2), ("b", 1)])
    assert answer.to_arrow().to_pydict() == {"Name": ["a", "b"], "n": [2, 1]}
    assert pa.table(answer) == answer.to_arrow()
    assert answer.to_pandas()["n"].tolist() == [2, 1]
    assert bool(graph.query('reach("a", "c")')) is True
    assert list(graph.query('reach("c", "a")')) == []
    assert list(graph.query('reach("a", "c")')) == [()]
    assert rows(graph, "n = count : { reach(_, _) }.") == [(3,)]


def test_a_query_computes_only_itself(graph: Warehouse) -> None:
    """Not the helpers of the views it reads, such as the counts behind ``size``."""
    seen: list[Any] = []
    graph.query("size(x, n), n > 1", report=seen.append)
    assert {(progress.stratum, progress.strata) for progress in seen} == {(1, 1)}


def test_queries_leave_nothing_behind(graph: Warehouse) -> None:
    for number in range(30):
        graph.query(f"size(x, n), m = count : {{ reach(_, x) }}, n != {number}")
    with refused("DIVISION_BY_ZERO"):
        graph.query("size(x, n), m = 1 / n")
    [idle] = graph._idle[os.getpid()] or [None]  # type: ignore[list-item]
    if idle is not None:
        assert idle.connection.execute("SELECT name FROM sqlite_temp_master").fetchall() == []
        assert not idle.connection.in_transaction


def test_show(graph: Warehouse) -> None:
    shown = {s.relation.name: s for s in graph.show()}
    assert [(s.kind, s.rows, s.place) for s in (shown["edge"], shown["reach"])] == [
        ("base", 2, "catalog"),
        ("view", 3, "catalog"),
    ]
    [size] = graph.show("size")
    assert size.declaration.splitlines() == [
        ".decl size(name: symbol, n: number)",
        "size(x, n) :- node(x), n = count : { reach(x, _) }.",
    ]
    with refused("UNKNOWN_RELATION"):
        graph.show("nothing")


# ---- values and names


def check_every_type(warehouse: Warehouse, engine: str | None = None) -> None:
    def order(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return (row[0] is not None, row[0])

    assert sorted(rows(warehouse, "Copy(n, u, f, s, b, d, t, m, x)", engine), key=order) == sorted(ROWS, key=order)
    assert rows(warehouse, "raised()", engine) == [()]


def test_every_type(shop: Warehouse) -> None:
    shop.define(TYPES)
    shop.load({"Every": ROWS, "flag": [()]})
    assert shop.load({"Every": ROWS, "flag": [()]}).number is None
    check_every_type(shop)
    assert right(shop)
    schema = shop.query("Copy(n, u, f, s, b, d, t, m, x)").to_arrow().schema
    assert [str(t) for t in schema.types] == [
        "int64", "int64", "double", "string", "bool", "date32[day]", "timestamp[us, tz=UTC]", "decimal128(18, 3)", "binary",
    ]  # fmt: skip


NAMES = ["select", "Select", "SELECT", "table", "a?", "?x", "_x", "__", "表", "é", "É", "\u212a", "K", "k", "rowid", "ROWID",
         "oid", "_rowid_", "sqlite_master", "SQLITE_x", "present", "answer", "main", "temp", "index", "from",
         "null_", "x" * 300]  # fmt: skip


def test_names_that_mean_something_elsewhere(shop: Warehouse) -> None:
    columns = ", ".join(f"{name}: symbol" for name in NAMES)
    text = f".decl wide({columns})\n"
    for name in NAMES:
        text += f".decl {name}({name}: number, b: number?)\n.decl v{name}(rowid: number) v{name}(x) :- {name}(x, _).\n"
        text += f"v{name}(x + 1) :- v{name}(x), x < 5, !{name}(x, x).\n"
    shop.define(text)
    for number, name in enumerate(NAMES):
        shop.load(name, [(number % 7, None), (number % 7, number)])
    shop.load("wide", [[f'\'; DROP TABLE "{name}"; --' for name in NAMES]])
    for number, name in enumerate(NAMES):
        assert rows(shop, f"{name}(a, b)") == [(number % 7, None), (number % 7, number)], name
        top = number if number < 7 else max(number % 7, 5)
        assert rows(shop, f"v{name}(x)") == [(x,) for x in range(number % 7, top + 1)], name
    assert shop.query("wide(" + ", ".join(f"v{i}" for i in range(len(NAMES))) + ")").to_arrow().num_rows == 1
    assert right(shop)
    for name in NAMES:
        shop.drop(f"v{name}")
        shop.drop(name)
    assert [s.relation.name for s in shop.show()] == ["wide"]


# ---- objects, threads, processes


def test_a_closed_warehouse_says_so(tmp_path: Path) -> None:
    with vk.open(tmp_path / "w", create=True) as warehouse:
        warehouse.define(".decl a(x: number)")
    warehouse.close()
    for use in (lambda: warehouse.query("a(x)"), lambda: warehouse.load("a", [1]), lambda: warehouse.show()):
        with refused("CLOSED"):
            use()


def test_open(tmp_path: Path) -> None:
    with refused("NOT_A_WAREHOUSE"):
        vk.open(tmp_path / "w")
    with vk.open(tmp_path / "w", create=True), vk.open(str(tmp_path / "w"), create=True) as same:
        assert same.show() == []
    with refused("PATH_EXISTS"):
        vk.Warehouse.create(tmp_path / "w")
    with refused("UNKNOWN_ENGINE"):
        vk.open(tmp_path / "w", engine="duck")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").touch()
    with refused("PATH_EXISTS"):
        vk.open(tmp_path / "full", create=True)
    assert [p.name for p in (tmp_path / "full").iterdir() if p.name != "lock"] == ["letter.txt"]


def test_what_an_interrupted_creation_left_does_not_matter(tmp_path: Path) -> None:
    for name in ("catalog.db.partial", "catalog.db.partial-wal", "catalog.db.partial-shm", "lock"):
        (tmp_path / name).write_text("leftover")
    with vk.open(tmp_path, create=True) as warehouse:
        assert warehouse.show() == []
    assert not list(tmp_path.glob("*partial*"))


def test_two_objects_see_each_other(graph: Warehouse) -> None:
    with vk.open(graph.path) as other:
        assert rows(other, "reach(x, y)") == rows(graph, "reach(x, y)")
        other.define(".decl hop(x: symbol) hop(y) :- edge(_, y).")
        graph.load("edge", [("x", "y")])
        assert rows(other, "hop(x)") == rows(graph, "hop(x)") == [("b",), ("c",), ("y",)]
        graph.drop("hop")
        with refused("UNKNOWN_RELATION"):
            other.query("hop(x)")
        other.define(".decl hop(x: number) hop(1).")
        assert rows(graph, "hop(x)") == [(1,)]


def test_reading_goes_on_while_rows_are_loaded(graph: Warehouse) -> None:
    """By the same object, by another one, and by a change that would disturb."""

    def source() -> Iterator[tuple[str, str]]:
        yield "c", "d"
        with vk.open(graph.path) as other:
            assert rows(graph, 'edge("a", x)') == rows(other, 'edge("a", x)') == [("b",)]
            assert not graph.query('edge("c", _)')
            with refused("LOCKED"):
                graph.define(".decl other(x: number)")
            with refused("LOCKED"):
                other.load("edge", [("y", "z")])
        yield "d", "e"

    assert graph.load("edge", source()).inserted == {"edge": 2}
    assert rows(graph, 'reach("a", x)') == [("b",), ("c",), ("d",), ("e",)]


def test_an_answer_of_the_warehouse_can_be_loaded(graph: Warehouse) -> None:
    graph.define(".decl closure(from: symbol, to: symbol)")
    assert graph.load("closure", graph.query("reach(x, y)")).inserted == {"closure": 3}


def test_threads_share_a_warehouse(shop: Warehouse) -> None:
    shop.define(".decl a(x: number) .decl twice(x: number) twice(x * 2) :- a(x).")
    done, wrong = threading.Event(), []

    def read() -> None:
        while not done.is_set():
            try:
                [(one, two)] = rows(shop, "n = count : { a(_) }, m = count : { twice(_) }")
                if one != two:
                    wrong.append((one, two))
            except BaseException as error:
                wrong.append(error)

    def write(start: int) -> None:
        try:
            for number in range(start, start + 10):
                shop.load("a", [number])
        except BaseException as error:
            wrong.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    writers = [threading.Thread(target=write, args=(start,)) for start in (0, 100)]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert wrong == []
    assert rows(shop, "n = count : { twice(_) }") == [(20,)]


def test_a_forked_child_reads_with_connections_of_its_own(graph: Warehouse) -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0 if rows(graph, 'edge("a", x)') == [("b",)] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert rows(graph, 'edge("a", x)') == [("b",)]


def open_files() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_no_file_stays_open(tmp_path: Path) -> None:
    with vk.open(tmp_path / "w", create=True) as warehouse:
        warehouse.define(".decl a(x: number) .decl b(x: number) b(x) :- a(x).")
    before = open_files()
    for number in range(100):
        with vk.open(tmp_path / "w") as warehouse:
            warehouse.query("b(x)")
            if number % 10 == 0:
                warehouse.load("a", [number])
                warehouse.verify()
                with pytest.raises(vk.ViewkeeperError):
                    warehouse.load("a", ["x"])
    assert open_files() == before


def test_no_file_is_left_behind(graph: Warehouse) -> None:
    graph.close()
    assert {path.name for path in graph.path.iterdir()} == {"catalog.db", "lock"}


def test_the_log_of_a_large_load_is_given_back(shop: Warehouse) -> None:
    shop.define(".decl a(x: number, s: symbol)")
    shop.load("a", ((number, "x" * 200) for number in range(200_000)))
    log = shop.path / "catalog.db-wal"
    assert log.stat().st_size > 40_000_000
    until = time.monotonic() + 30  # it is folded beside the work; who writes next gives the space back
    while log.stat().st_size > 40_000_000 and time.monotonic() < until:
        time.sleep(0.01)
        shop.commit({"a": [(-1, "")]}, deletes={"a": [(-1, "")]})
        shop.commit(deletes={"a": [(-1, "")]})
    assert log.stat().st_size < 40_000_000


def test_the_log_begins_anew_while_commits_go_on(shop: Warehouse) -> None:
    shop.define(".decl a(x: number)")
    log, longest = shop.path / "catalog.db-wal", 0
    for number in range(1500):
        shop.commit({"a": [number]})
        longest = max(longest, log.stat().st_size)
    # Three pages and more a commit; folded with every 250th.
    assert longest < 1000 * 3 * 4096
    assert [shown.rows for shown in shop.show("a")] == [1500]


def test_a_commit_is_made_also_if_the_log_cannot_be_folded(shop: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    shop.define(".decl a(x: number)")
    monkeypatch.setattr("viewkeeper.store.catalog._FOLD_EVERY", 1)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert [shop.commit({"a": [number]}).number for number in range(3)] == [2, 3, 4]
    monkeypatch.undo()
    shop.close()
    with vk.open(shop.path) as again:
        assert [shown.rows for shown in again.show("a")] == [3]


def test_rows_are_counted_whenever_one_looks(shop: Warehouse) -> None:
    shop.define(
        ".decl a(x: number) .decl even(x: number) even(x) :- a(x), x % 2 = 0. .decl odd(x: number) .external odd odd(x) :- a(x), x % 2 = 1."
    )
    for number in range(150):
        shop.commit({"a": [number]}, deletes={"a": [number - 3]})
        if number == 70:
            shop.trim_log(40)
        if number % 7 == 0:
            with vk.open(shop.path) as other:
                rows = {shown.relation.name: shown.rows for shown in other.show()}
            there = {max(0, number - 2 + i) for i in range(3)} & set(range(number + 1))
            assert rows == {"a": len(there), "even": sum(x % 2 == 0 for x in there), "odd": None}, number


# ---- snapshots


def test_leftover_snapshots_are_removed(graph: Warehouse) -> None:
    leftover = graph.path / "snapshots" / "edge" / "99"
    leftover.mkdir(parents=True)
    (leftover / "part-0.parquet").touch()
    with reader_lock(graph.path / "snapshots"):
        graph.load("edge", [("r", "s")])
        assert leftover.exists()
    with vk.open(graph.path) as again:
        again.load("edge", [("s", "t")])
        assert not leftover.parent.exists()
        assert right(again)


# ---- the other engine


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A directory whose name means something in URLs and patterns."""
    path = tmp_path / "a b [1] {x,y} 100%25 ü?*"
    path.mkdir()
    return path


def test_every_type_on_spark(odd: Path, spark_session: Any) -> None:
    """And on with the other engine, whichever wrote last."""
    names = (
        ".decl a?(x: number?, Y: symbol) .decl A?(x: number) A?(x) :- a?(x, _), x > 0. .decl none() none() :- a?(_, _), false."
    )
    with vk.open(odd / "shop", spark=spark_session, create=True) as shop:
        shop.define(TYPES + names)
        commit = shop.load({"Every": ROWS, "flag": [()], "a?": [(1, "x"), (None, "y"), (2, "X")]}, engine="spark")
        assert commit.engine == "spark"
        assert commit.rows == {"A?": 2, "Copy": 3, "Every": 3, "a?": 3, "flag": 1, "raised": 1}
        check_every_type(shop, "embedded")
        check_every_type(shop, "spark")
        assert right(shop, "embedded")
        assert {s.place for s in shop.checkpoint() if s.rows} == {"catalog and snapshot of commit 2"}
        shop.load({"Every": [(7, *ROWS[1][1:])], "a?": [(3, "z")]}, engine="embedded")
        assert rows(shop, "A?(x), !none()", "spark") == [(1,), (2,), (3,)]
    with vk.open(odd / "shop", spark=spark_session) as shop:
        assert rows(shop, "Copy(n, _, _, _, _, _, _, _, _)") == [(None,), (-(2**63),), (0,), (7,)]
        assert right(shop, "spark")
        shop.drop("A?")
        shop.define(".decl other(x: number)")
        assert "^a%3F" not in {path.name for path in (odd / "shop" / "snapshots").iterdir()}


def test_views_that_stay_snapshots(tmp_path: Path, spark_session: Any) -> None:
    with vk.open(tmp_path / "shop", spark=spark_session, create=True) as shop:
        shop.hot_rows = 2
        shop.define(PAIR)
        shop.load("edge", [("a", "b"), ("b", "c")], engine="spark")
        places = {s.relation.name: s.place for s in shop.show()}
        assert (places["edge"], places["reach"]) == ("catalog", "snapshot of commit 2")
        assert rows(shop, "reach(x, y)", "embedded") == [("a", "b"), ("a", "c"), ("b", "c")]
        assert right(shop, "embedded")
        shop.load("edge", [("c", "d")], engine="embedded")
        assert {s.relation.name: s.place for s in shop.show()}["reach"] == "snapshot of commit 3"
        assert rows(shop, 'reach(x, "d")', "embedded") == [("a",), ("b",), ("c",)]
        assert right(shop, "embedded")
        shop.hot_rows = 100
        commit = shop.define(".decl reach(x: symbol, y: symbol) reach(x, y) :- edge(x, y).", replace=True, engine="spark")
        assert (commit.changes["reach"].inserted_rows, commit.changes["reach"].deleted_rows) == (0, 3)
        assert {s.relation.name: s.place for s in shop.show()}["reach"] == "catalog"
        assert right(shop, "embedded")
        shop.hot_rows = 2
        commit = shop.define(PAIR, replace=True, engine="spark")
        assert (commit.changes["reach"].inserted_rows, commit.changes["reach"].deleted_rows) == (3, 0)
        assert {s.relation.name: s.place for s in shop.show()}["reach"] == "snapshot of commit 5"
        commit = shop.define(".decl reach(x: symbol, y: symbol)", replace=True)  # a base relation now
        assert (commit.changes["reach"].inserted_rows, commit.changes["reach"].deleted_rows) == (0, 6)
        assert rows(shop, "reach(x, y)", "embedded") == [] and commit.rows["reach"] == 0
        assert shop.define(PAIR, replace=True, engine="spark").changes["reach"].inserted_rows == 6
        assert right(shop, "embedded")
        shop.load("edge", [("d", "e")], engine="spark")
        [snapshot] = (shop.path / "snapshots" / "reach").iterdir()
        for part in snapshot.glob("*.parquet"):
            part.write_bytes(b"garbage")
        with refused("CATALOG_DAMAGED"):
            shop.query("reach(x, y)", engine="embedded")


def test_a_session_that_is_handed_in_stays_as_it_is(tmp_path: Path, spark_session: Any) -> None:
    spark = spark_session.newSession()
    spark.conf.set("spark.sql.ansi.enabled", "false")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    spark.range(3).createOrReplaceTempView("edge")
    before = {row.key: row.value for row in spark.sql("SET").collect()}
    with vk.open(tmp_path / "shop", spark=spark, create=True) as shop:
        shop.define(PAIR + TYPES)
        frame = spark.createDataFrame([("a", "b"), ("b", "c")], "from string, to string")
        assert shop.load("edge", frame, engine="spark").inserted == {"edge": 2}
        times = spark.sql("SELECT CAST(1 AS BIGINT) n, CAST(NULL AS BIGINT) u, 1.5D f, 's' s, true b, DATE'2024-02-29' d,"
                          " TIMESTAMP'2024-02-29 09:00:00' t, CAST(1.5 AS DECIMAL(10, 1)) m, X'00' x")  # fmt: skip
        shop.load("Every", times)
        noon = datetime.datetime(2024, 2, 29, 0, tzinfo=UTC)
        assert rows(shop, "Every(_, _, _, _, _, _, t, m, _)", "spark") == [(noon, Decimal("1.500"))]
        answer = shop.query("reach(x, y)", engine="spark").to_spark(spark)
        assert sorted(map(tuple, answer.collect())) == [("a", "b"), ("a", "c"), ("b", "c")]
        assert [found.right for found in shop.verify("reach", engine="spark")] == [True]
    assert {row.key: row.value for row in spark.sql("SET").collect()} == before
    assert [view.name for view in spark.catalog.listTables()] == ["edge"]
    assert spark.table("edge").count() == 3


def test_a_failure_on_spark_changes_nothing(tmp_path: Path, spark_session: Any) -> None:
    with vk.open(tmp_path / "shop", spark=spark_session, create=True, engine="spark") as shop:
        shop.define(".decl a(x: number) .decl v(x: number) v(6 / x) :- a(x).")
        shop.load("a", [1, 2])
        with refused("DIVISION_BY_ZERO"):
            shop.load("a", [3, 0])
        assert rows(shop, "v(x)", "embedded") == [(3,), (6,)]
        assert shop.load("a", [3], engine="embedded").number == 3
        assert {path.parent.name for path in (shop.path / "snapshots").glob("*/*")} <= {"v"}


NARROW = """
.decl a(x: number, y: number)
.decl v(x: number)
v(x) :- a(x, _).
"""


def as_formerly(path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[tuple[int, int]]) -> None:
    """A warehouse in which all tables have row numbers."""
    create = EmbeddedEngine.create_table
    with monkeypatch.context() as patched, vk.open(path, create=True, engine="embedded") as shop:
        patched.setattr(
            EmbeddedEngine, "create_table", lambda engine, relation, more={}, numbered=True: create(engine, relation, more)
        )
        shop.define(NARROW)
        shop.commit({"a": rows})
    with closing(sqlite3.connect(path / "catalog.db")) as database:
        assert "WITHOUT ROWID" not in "".join(
            sql for [sql] in database.execute("SELECT sql FROM sqlite_master WHERE tbl_name IN ('a', 'v')")
        )
        database.execute("""UPDATE "$meta" SET value = '7' WHERE key = 'format'""")
        database.commit()


def test_a_warehouse_of_the_format_before_is_read_and_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(i, i) for i in range(100)]
    as_formerly(tmp_path / "w", monkeypatch, rows)
    with vk.open(tmp_path / "w", engine="embedded") as shop:
        assert sorted(shop.query("a(x, y)")) == rows
        assert shop.commit(deletes={"a": rows[:40]}).changes["v"].deleted_rows == 40
        assert shop.commit({"a": rows[:40]}).changes["v"].inserted_rows == 40
        assert all(view.right for view in shop.verify())
    with closing(sqlite3.connect(tmp_path / "w" / "catalog.db")) as database:
        assert database.execute("""SELECT value FROM "$meta" WHERE key = 'format'""").fetchall() == [(str(FORMAT),)]


def test_indexes_in_which_a_column_is_repeated_are_mended(tmp_path: Path) -> None:
    """SQLite does not find (x, y) in a list of rows by such an index, and so rows that were to go stayed."""
    rows = [(i, i / 2) for i in range(100)]
    with vk.open(tmp_path / "w", create=True, engine="embedded") as shop:
        shop.define(".decl a(x: number, y: float) .decl own(y: float, m: float) own(y, m) :- a(_, y), m = max y : { a(_, y) }.")
        shop.commit({"a": rows})

    def indexes() -> set[str]:
        with closing(sqlite3.connect(tmp_path / "w" / "catalog.db")) as database:
            return {name for [name] in database.execute("SELECT name FROM sqlite_master WHERE instr(name, ' in order of ')")}

    assert indexes() == {"a in order of y"}
    with closing(sqlite3.connect(tmp_path / "w" / "catalog.db")) as database:
        database.execute('DROP INDEX "a in order of y"')
        database.execute('CREATE INDEX "a in order of y y" ON a (y, y)')
        database.execute("""UPDATE "$meta" SET value = '8' WHERE key = 'format'""")
        database.commit()
    with vk.open(tmp_path / "w", engine="embedded") as shop:
        shop.commit({"a": [(-1, 0.5)]}, deletes={"a": rows[:40]})
        assert sorted(shop.query("a(x, y)")) == [(-1, 0.5), *rows[40:]]
        assert all(view.right for view in shop.verify())
        shop.drop("own")
        assert indexes() == set()


def test_tables_that_somebody_else_makes_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(i, i) for i in range(100)]
    as_formerly(tmp_path / "w", monkeypatch, rows)
    with vk.open(tmp_path / "w", engine="embedded") as shop, vk.open(tmp_path / "w", engine="embedded") as other:
        shop.commit(deletes={"a": rows[:40]})
        shop.commit({"a": rows[:40]})
        other.drop("v")
        other.drop("a")
        other.define(NARROW)
        other.commit({"a": rows})
        assert shop.commit(deletes={"a": rows[:40]}).changes["v"].deleted_rows == 40
        assert sorted(shop.query("a(x, y)")) == rows[40:]
        assert all(view.right for view in shop.verify())


def test_long_texts_beside_a_key_are_not_stored_in_its_order(tmp_path: Path) -> None:
    with vk.open(tmp_path / "w", create=True, engine="embedded") as shop:
        shop.define(
            ".decl doc(id: number, t: symbol) key(id) .decl size(id: number, n: number) key(id) .decl tag(id: number, t: symbol)"
        )
    with closing(sqlite3.connect(tmp_path / "w" / "catalog.db")) as database:
        made = dict(database.execute("SELECT name, sql FROM sqlite_master WHERE name IN ('doc', 'size', 'tag')"))
    assert {name for name, sql in made.items() if sql.endswith("WITHOUT ROWID")} == {"size", "tag"}
