"""Views kept on Spark: the same changes as on the embedded engine, and either engine goes on from what the other one left."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.children import ended, fork
from tests.generator import VALUES, Generated, generate
from tests.streams import written_program

import viewkeeper as vk
from viewkeeper.engines import spark
from viewkeeper.engines.evaluator import evaluate
from viewkeeper.engines.session import session_is_there
from viewkeeper.errors import EvaluationError, ProgramError
from viewkeeper.language import parse
from viewkeeper.program.arrow import batch_of_rows, rows_of_batch
from viewkeeper.program.types import Kind
from viewkeeper.rewrite.passes import normalise
from viewkeeper.warehouse import Warehouse

CLOSURE = """
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- edge(x, y), reach(y, z).
"""
# 36 once gave wrong counts; all are quick on Spark.
SEEDS = (11, 20, 36)
COMMITS = 3


@pytest.fixture
def shop(tmp_path: Path, spark_session: Any) -> Iterator[Warehouse]:
    with vk.open(tmp_path / "shop", spark=spark_session, create=True) as opened:
        yield opened


def pairs(text: str) -> list[tuple[str, str]]:
    return [(word[0], word[1]) for word in text.split()]


def content(shop: Warehouse) -> dict[str, set[tuple[Any, ...]]]:
    """All relations, as values that can be compared."""
    found = {}
    for relation in shop.program.relations:
        names = [f"v{i}" for i in range(relation.arity)]
        rows = shop.query(f"{relation.name}({', '.join(names)})", engine="embedded")
        found[relation.name] = {tuple(row) for row in rows} if names else ({()} if rows else set())
    return found


def check(shop: Warehouse, before: dict[str, set[tuple[Any, ...]]], commit: vk.Commit) -> dict[str, set[tuple[Any, ...]]]:
    """Views are what a recomputation gives, changes what is different; returns what is there."""
    now = content(shop)
    assert [v.view for v in shop.verify(engine="embedded") if not v.right] == []
    for name, rows in now.items():
        changed = commit.changes.get(name)
        told = {"insert": set(), "delete": set()} if changed is None else split(changed)
        assert told == {"insert": rows - before[name], "delete": before[name] - rows}, name
    return now


def split(changed: Any) -> dict[str, set[tuple[Any, ...]]]:
    found: dict[str, set[tuple[Any, ...]]] = {"insert": set(), "delete": set()}
    for operation, row in changed.values():
        found[operation].add(row)
    return found


def test_the_closure_of_the_paper(shop: Warehouse) -> None:
    shop.define(CLOSURE)
    first = shop.load("edge", pairs("fe ed ea ab dc bc cg"), engine="spark")
    assert (first.views["reach"].strategy, first.views["reach"].engine) == ("first computation", "spark")
    commit = shop.commit({"edge": [("h", "d")]}, {"edge": [("b", "c")]}, engine="spark")
    assert split(commit.changes["reach"]) == {"insert": set(pairs("hd hc hg")), "delete": set(pairs("ac ag bc bg"))}
    assert (commit.engine, commit.views["reach"].strategy, commit.views["reach"].engine) == (
        "spark",
        "maintenance rules",
        "spark",
    )
    assert [v.right for v in shop.verify(engine="embedded")] == [True]


KINDS = """
.decl sale(shop: symbol, item: symbol, amount: number, price: float)
.decl closed(shop: symbol)
.decl open(shop: symbol)
open(s) :- sale(s, _, _, _), !closed(s).
.decl pair(a: symbol, b: symbol)
pair(a, b) :- sale(a, i, _, _), sale(b, i, _, _), a != b.
.decl amount(shop: symbol, total: number, often: number)
amount(s, t, n) :- open(s), t = sum a : { sale(s, _, a, _) }, n = count : { sale(s, _, _, _) }.
.decl turnover(shop: symbol, total: float)
turnover(s, t) :- t = sum p : { sale(s, _, _, p) }, open(s).
.decl dearest(shop: symbol, price: float)
dearest(s, p) :- open(s), p = max q : { sale(s, _, _, q) }.
.decl all(n: number, mean: float)
all(n, m) :- n = count : { sale(_, _, _, _) }, m = mean p : { sale(_, _, _, p) }.
"""


def test_every_strategy_and_hand_over(shop: Warehouse) -> None:
    shop.define(KINDS)
    before = content(shop)
    rows = [(s, i, n, p) for n, (s, i) in enumerate(pairs("ax ay bx bz cz cy")) for p in (0.1, 0.2)]
    before = check(shop, before, shop.load("sale", rows, engine="spark"))
    for engine in ("embedded", "spark"):
        change = {"sale": [("d", "x", 9, 0.3)], "closed": [("a",)]}, {"sale": rows[:3]}
        commit = shop.commit(*change, engine=engine)
        assert {view.engine for view in commit.views.values() if view.strategy in ("counting", "totals")} == {engine}
        before = check(shop, before, commit)
        before = check(shop, before, shop.commit(change[1], change[0], engine=engine))
    commit = shop.commit(deletes={"sale": rows}, engine="spark")
    before = check(shop, before, commit)
    check(shop, before, shop.commit({"sale": rows[:2]}, engine="embedded"))


def test_many_rows_go_through_files(shop: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("spark._BY_FILE", "keep.on_spark._SORTED"):
        monkeypatch.setattr(f"viewkeeper.engines.{name}", 1)
    shop.define(CLOSURE)
    before = check(shop, content(shop), shop.load("edge", pairs("ab bc ca cd"), engine="spark"))
    shop.checkpoint("reach")
    before = check(shop, before, shop.commit({"edge": pairs("de")}, {"edge": pairs("bc")}, engine="spark"))
    check(shop, before, shop.commit({"edge": pairs("bc")}, {"edge": pairs("cd ab")}, engine="embedded"))


def test_ranks_of_a_cycle_are_good_for_either_engine(shop: Warehouse) -> None:
    """Rows that only prove each other must go, whoever gave them their ranks."""
    shop.define(CLOSURE)
    before = content(shop)
    choose = random.Random(7)
    edges = [(a, b) for a in "abcdef" for b in "abcdef" if a != b]
    there = set(choose.sample(edges, 10))
    before = check(shop, before, shop.load("edge", sorted(there), engine="spark"))
    for engine in ("embedded", "spark", "embedded", "embedded", "spark", "embedded", "embedded"):
        went = set(choose.sample(sorted(there), 3))
        came = set(choose.sample(sorted(set(edges) - there), 2))
        there = there - went | came
        before = check(shop, before, shop.commit({"edge": came}, {"edge": went}, engine=engine))
    check(shop, before, shop.commit(deletes={"edge": there}, engine="embedded"))


def a_row(choose: random.Random, relation: Any) -> tuple[Any, ...]:
    names = {Kind.DECIMAL: "decimal(18,2)"}
    return tuple(
        None if c.type.nullable and choose.random() < 0.25 else choose.choice(VALUES[names.get(c.type.kind, c.type.kind.value)])
        for c in relation.columns
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_engines_in_random_turns(seed: int, tmp_path: Path, spark_session: Any) -> None:
    run_stream(generate(seed), COMMITS, tmp_path / "shop", spark_session)


@pytest.mark.parametrize("seed", SEEDS[1:2])
def test_external_views_on_engines_in_random_turns(seed: int, tmp_path: Path, spark_session: Any) -> None:
    run_stream(generate(seed), COMMITS, tmp_path / "shop", spark_session, external=0.6)


def test_the_closure_of_the_paper_that_is_not_stored(shop: Warehouse) -> None:
    shop.define(CLOSURE + ".external reach\n.decl far(x: symbol, z: symbol)\nfar(x, z) :- reach(x, y), reach(y, z).")
    shop.load("edge", pairs("fe ed ea ab dc bc cg"), engine="embedded")
    commit = shop.commit({"edge": [("h", "d")]}, {"edge": [("b", "c")]}, engine="spark")
    assert split(commit.changes["reach"]) == {"insert": set(pairs("hd hc hg")), "delete": set(pairs("ac ag bc bg"))}
    assert (commit.views["reach"].strategy, commit.views["reach"].engine) == ("rederivation", "spark")
    assert 0 < commit.views["reach"].rederived <= 19
    assert split(commit.changes["far"]) == {"insert": set(pairs("hc hg")), "delete": set(pairs("ac ag bg"))}
    assert [v.right for v in shop.verify(engine="embedded")] == [True]
    assert list(shop.query('reach("h", X)', engine="spark")) == [("c",), ("d",), ("g",)]


def test_a_virtual_view_of_which_a_part_is_told(shop: Warehouse) -> None:
    shop.define(
        """
        .decl edge(x: symbol, y: symbol)
        .decl hop(x: symbol, z: symbol) virtual
        hop(x, z) :- edge(x, y), edge(y, z).
        .decl from_a(z: symbol)
        from_a(z) :- hop("a", z).
        """
    )
    shop.load("edge", pairs("ea ab bc bd"), engine="embedded")
    commit = shop.commit({"edge": pairs("bf cg")}, {"edge": pairs("bc")}, engine="spark")
    assert commit.changes.keys() == {"edge", "from_a"}
    assert split(commit.changes["from_a"]) == {"insert": {("f",)}, "delete": {("c",)}}
    assert [v.right for v in shop.verify(engine="embedded")] == [True]


def run_stream(generated: Generated, commits: int, path: Path, spark: Any, external: float = 0.0) -> None:
    """A program and a stream of small transactions, each on an engine chosen at random."""
    program, choose = parse(generated.text), random.Random(generated.seed)
    unstored = [name for name in sorted(program.derived) if choose.random() < external] if external else []
    with vk.open(path, spark=spark, create=True) as shop:
        shop.define("\n".join([generated.text, *(f".external {name}" for name in unstored)]))
        bases = [r for r in program.relations if r.name not in program.derived]
        held = content(shop)
        loaded = {r.name: sorted(generated.facts.get(r.name, ()), key=repr) for r in bases}
        commit = shop.load({name: rows for name, rows in loaded.items() if rows}, engine=choose.choice(["spark", "embedded"]))
        held = check(shop, held, commit)
        for number in range(commits):
            engine = "spark" if number == 0 else choose.choice(["spark", "embedded"])
            deletes = {r.name: choose.sample(sorted(held[r.name], key=repr), min(2, len(held[r.name]))) for r in bases}
            inserts = {r.name: [a_row(choose, r) for _ in range(choose.randint(0, 2))] for r in bases}
            try:
                commit = shop.commit(inserts, deletes, engine=engine)
            except EvaluationError:
                assert content(shop) == held
                continue
            held = check(shop, held, commit)


WINDOWS = ("windows", "the first rows", "windows of floats and decimals")


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_on_engines_in_turns(name: str, tmp_path: Path, spark_session: Any) -> None:
    generated = written_program(name, seed=1)
    program, choose = parse(generated.text), random.Random(1)
    facts = {r.name: {a_row(choose, r) for _ in range(12)} for r in program.relations if r.name not in program.derived}
    run_stream(replace(generated, facts=facts), 2, tmp_path / "shop", spark_session)


def streams(seeds: range, commits: int, directory: Path, spark: Any) -> None:
    """Many of them, by hand: python -c 'from tests.test_spark_maintenance import …'."""
    for seed in seeds:
        generated = generate(seed)
        try:
            parse(generated.text)
        except ProgramError:
            continue
        try:
            run_stream(generated, commits, directory / str(seed), spark)
        except Exception as error:
            print(seed, type(error).__name__, str(error)[:300])


def test_a_forked_child_leaves_the_session_to_its_parent(tmp_path: Path, spark_session: Any) -> None:
    """Else both would speak through one connection, and get each other's answers."""
    with vk.open(tmp_path / "shop", create=True) as shop:
        shop.define(CLOSURE)

    def work() -> None:
        assert not session_is_there(None)
        with vk.open(tmp_path / "shop") as child:
            assert "Spark" in child.commit({"edge": [("a", "b")]}).reason

    assert session_is_there(None)
    assert ended(fork(work)) == 0
    assert spark_session.sql("SELECT 1").collect() == [(1,)]
    assert session_is_there(None)


@pytest.mark.parametrize(("most_bits", "broadcast"), [(1 << 10, 10), (1 << 17, 10), (1 << 17, 20_000)])
def test_what_spark_expects_does_not_double_with_each_round(
    most_bits: int, broadcast: int, spark_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers of millions of digits take Spark minutes a round."""
    monkeypatch.setattr(spark, "_MOST_BITS", most_bits)
    monkeypatch.setattr(spark, "_BROADCAST", broadcast)
    core = normalise(
        parse(".decl e(x: number, y: number) .decl c(x: number, y: number) c(x, y) :- e(x, y). c(x, z) :- e(x, y), c(y, z).")
    )
    engine, links = spark.SparkEngine(spark_session), 16
    try:
        engine.prepare(core)
        engine.insert("e", [batch_of_rows([(i, i + 1) for i in range(links)], core.relation("e"))])
        evaluate(core, engine)
        found = {row for batch in engine.read(core.relation("c")) for row in rows_of_batch(batch, 2)}
        digits = len(str(engine.rows_of("c")[0]._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    finally:
        engine.close()
    assert found == {(x, y) for y in range(links + 1) for x in range(y)}
    assert digits < 1000  # without it 8,000 after 11 rounds, and twice as many after each further one
