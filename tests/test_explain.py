"""The rules that explain a recursive view are those of the literature, and running them gives what the warehouse does.

The example is the transitive closure of Staudt and Jarke, "Incremental maintenance of externally materialized views" (VLDB 1996):
its rules are example 1, its data example 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.commands import viewkeeper
from tests.conftest import evaluate_text
from tests.playing import told

import viewkeeper as vk
from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.language import parse
from viewkeeper.rewrite.maintenance_rules import maintenance_rules
from viewkeeper.rewrite.passes import normalise
from viewkeeper.warehouse import Warehouse

TEXT = """
.decl edge(x: symbol, y: symbol)
.decl closure(x: symbol, y: symbol)
closure(x, y) :- edge(x, y).
closure(x, y) :- edge(x, z), closure(z, y).
"""
RULES = """\
closure_del(x, y) :- edge_del(x, y).
closure_new(x, y) :- closure(x, y), !closure_del(x, y).
edge_new(x, y) :- edge(x, y), !edge_del(x, y).
closure_red(x, y) :- closure_del(x, y), edge_new(x, y).
closure_new(x, y) :- closure_red(x, y).
closure_ins(x, y) :- edge_ins(x, y).
closure_new(x, y) :- closure_ins(x, y).
edge_new(x, y) :- edge_ins(x, y).
closure_plus(x, y) :- closure_ins(x, y), !closure(x, y).
closure_minus(x, y) :- closure_del(x, y), !closure_ins(x, y), !closure_red(x, y).
closure_del(x, y) :- edge_del(x, z), closure(z, y).
closure_del(x, y) :- edge(x, z), closure_del(z, y).
closure_red(x, y) :- closure_del(x, y), edge_new(x, z), closure_new(z, y).
closure_ins(x, y) :- edge_ins(x, z), closure_new(z, y).
closure_ins(x, y) :- edge_new(x, z), closure_ins(z, y).""".splitlines()


def pairs(text: str) -> set[tuple[object, ...]]:
    return {tuple(pair) for pair in text.split()}


EDGES = pairs("fe ed ea ab dc bc cg")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Warehouse]:
    with vk.open(tmp_path / "shop", create=True) as warehouse:
        warehouse.define(TEXT)
        yield warehouse


def test_the_rules_of_example_1(shop: Warehouse) -> None:
    [part] = shop.explain("closure").parts
    assert (part.relation, part.strategy) == ("closure", "maintenance rules")
    assert list(part.maintenance) == RULES


def test_the_sets_of_example_2() -> None:
    program = maintenance_rules(normalise(parse(TEXT)), ["closure"])
    closure = evaluate_text(TEXT, {"edge": EDGES}, EmbeddedEngine.private)["closure"]
    facts = {"edge": EDGES, "closure": closure, "edge_del": pairs("bc"), "edge_ins": pairs("hd")}
    found = evaluate_text(str(program), facts, EmbeddedEngine.private)
    assert found["closure_del"] == pairs("bc bg ac ag ec eg fc fg")
    assert found["edge_new"] == pairs("fe ed ea ab dc cg hd")
    assert found["closure_red"] == pairs("ec eg fc fg")
    assert found["closure_ins"] == found["closure_plus"] == pairs("hd hc hg")
    assert found["closure_minus"] == pairs("ac ag bc bg")


def test_the_warehouse_changes_what_example_2_says(shop: Warehouse) -> None:
    shop.commit({"edge": list(EDGES)})
    commit = shop.commit({"edge": [("h", "d")]}, {"edge": [("b", "c")]})
    assert told(commit.changes) == {
        "edge": (pairs("hd"), pairs("bc")),
        "closure": (pairs("hd hc hg"), pairs("ac ag bc bg")),
    }
    assert commit.views["closure"].strategy == "maintenance rules"


def test_what_is_no_view(shop: Warehouse) -> None:
    for name, code in (("edge", "NOT_A_VIEW"), ("nothing", "UNKNOWN_RELATION")):
        with pytest.raises(vk.ViewkeeperError, match=rf"^error\[{code}\]"):
            shop.explain(name)


def test_what_is_no_view_is_told_without_a_word_of_verify(shop: Warehouse) -> None:
    for ask in (shop.explain, shop.store, shop.violated):
        with pytest.raises(vk.StoreError, match=r"^error\[NOT_A_VIEW\]: relation .edge. is no view") as told:
            ask("edge")
        assert told.value.problems[0].hint == "Name a view. `viewkeeper show` tells which relations are views."


def test_commits_before_anything_was_defined(shop: Warehouse) -> None:
    shop.drop("closure")
    shop.drop("edge")
    with pytest.raises(vk.StoreError, match=r"^error\[NOTHING_DEFINED\]"):
        shop.query("edge(x, y)", as_of=3)
    shop.define(TEXT)
    for commit, first in ((0, 1), (3, 4)):
        with pytest.raises(
            vk.StoreError, match=rf"^error\[NOTHING_DEFINED_THEN\]: after commit {commit} .* with commit {first}"
        ):
            shop.query("edge(x, y)", as_of=commit)
    assert list(shop.query("x = 1", as_of=0)) == [(1,)]
    assert list(shop.query("edge(x, y)", as_of=1)) == []


def test_commits_that_there_are_not(shop: Warehouse) -> None:
    for number in (-1, 2, 99):
        with pytest.raises(vk.ViewkeeperError, match=r"^error\[UNKNOWN_COMMIT\].*the last one is 1"):
            shop.changes(number)
        with pytest.raises(vk.ViewkeeperError, match=r"^error\[UNKNOWN_COMMIT\]"):
            shop.query("edge(x, y)", as_of=number)
    for no_number in ("1", 1.0, True):
        with pytest.raises(vk.ViewkeeperError, match=r"^error\[BAD_PARAMETER\].*parameter commit"):
            shop.query("edge(x, y)", as_of=no_number)  # type: ignore[arg-type]
    assert shop.changes(0) == {}


ALL_WAYS = """
.decl e(x: number?, y: number?)
.decl counted(x: number?) counted(x) :- e(x, _).
.decl sums(n: number) sums(n) :- n = count : { e(_, _) }.
.decl least(n: number?) least(n) :- n = min y : { e(_, y) }.
.decl ranked(x: number?, y: number?, r: number) ranked(x, y, r) :- r = rank : { e(x, y) } over (x; y).
.decl away(x: number?) away(x) :- e(_, x). .external away
.decl nulls(x: number?, y: number?) nulls(x, y) :- e(x, y). nulls(x, z) :- nulls(x, y), e(y, z).
.decl f(x: number, y: number) f(x, y) :- e(x, y), !is_null(x), !is_null(y).
.decl path(x: number, y: number) path(x, y) :- f(x, y). path(x, z) :- path(x, y), f(y, z).
"""


def test_a_commit_tells_of_every_view_why_it_was_brought_up_to_date_in_this_way(shop: Warehouse) -> None:
    shop.define(ALL_WAYS)
    first = shop.load("e", [(1, 2)])
    commit = shop.commit({"e": [(2, 3)]})
    assert {view.strategy for view in commit.views.values()} == {
        "counting", "totals", "ordered index", "partitions recomputed", "rederivation", "recomputation", "maintenance rules"
    }  # fmt: skip
    reasons = {name: view.reason for name, view in commit.views.items()}
    assert reasons == {name: shop.explain(name).parts[0].why for name in commit.views}
    assert reasons["nulls"] == "a column of the recursion may be NULL"
    assert first.views["counted"].reason == "first rows of what it reads"
    for made, logged in zip((first, commit), shop.log(since=2), strict=True):
        assert {view["view"]: view["reason"] for view in logged.views} == {n: v.reason for n, v in made.views.items()}
    assert "touched (a column of the recursion may be NULL)" in viewkeeper("log", shop.path, "--since", 3).out


def test_strict_refuses_to_compute_anew(tmp_path: Path) -> None:
    text = ".decl e(x: number?, y: number?) .decl r(x: number?, y: number?) r(x, y) :- e(x, y). r(x, z) :- r(x, y), e(y, z)."
    with vk.open(tmp_path / "w", create=True) as shop:
        shop.define(text)
        shop.commit({"e": [(1, 2)]}, strict=True)
        with pytest.raises(vk.StoreError) as told:
            shop.commit({"e": [(2, None)]}, strict=True)
        assert told.value.code == "STRICT"
        assert list(shop.query("r(x, y)")) == [(1, 2)]
        assert shop.commit({"e": [(2, None)]}).views["r"].strategy == "recomputation"
        assert len(shop.query("r(x, y)")) == 3


def test_strict_refuses_definitions_that_compute_anew(shop: Warehouse) -> None:
    other = ".decl closure(x: symbol, y: symbol) closure(x, y) :- edge(x, y)."
    shop.define(".decl far(x: symbol) far(x) :- closure(_, x).", strict=True)
    shop.define(other, replace=True, strict=True)  # there are no rows yet
    shop.commit({"edge": EDGES})
    for text, replace in ((TEXT, True), (other + 'closure("a", "z").', True), ('edge("y", "z").', False)):
        with pytest.raises(vk.StoreError, match=r"^error\[STRICT\]: closure, far would"):
            shop.define(text, replace=replace, strict=True)
    assert shop.last() == 4
    shop.define(".decl near(x: symbol) near(x) :- closure(x, _).", strict=True)
    assert shop.define(TEXT, replace=True).views["closure"].strategy == "recomputation"


def test_strict_definitions_from_the_command_line(shop: Warehouse) -> None:
    shop.commit({"edge": EDGES})
    other = b".decl closure(x: symbol, y: symbol) closure(x, y) :- edge(x, y)."
    assert viewkeeper("define", shop.path, "-", "--replace", "--strict", stdin=other).error == "STRICT"
    assert viewkeeper("define", shop.path, "-", "--replace", stdin=other).code == 0
