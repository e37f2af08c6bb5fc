"""How `auto` chooses for a change, and what it learns from it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest

import viewkeeper as vk
from viewkeeper.engines import session
from viewkeeper.engines.choice import Choice, choose_for_change
from viewkeeper.engines.costs import ANEW, EMBEDDED, SPARK, Costs, Task
from viewkeeper.errors import problem

SMALL = Task("insert", rows=10, held=1000)
MIDDLE = Task("delete", rows=1000, held=1000)
LARGE = Task("insert", rows=5_000_000, held=10_000_000, cores=64)
PROGRAM = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- edge(x, y), path(y, z).
.decl reached(x: number, n: number)
reached(x, n) :- n = count : { path(x, _) }.
"""


def chosen(task: Task, costs: Costs, **more: bool) -> Choice:
    given = {"strict": False, "cold": False, "spark_given": True} | more
    return choose_for_change("auto", task, costs, **given)


def test_small_changes_are_embedded_and_large_ones_on_many_cores_go_to_spark() -> None:
    assert chosen(SMALL, Costs({})).engine == "embedded"
    assert chosen(LARGE, Costs({})).engine == "spark"
    assert not chosen(SMALL, Costs({})).anew


def test_a_wish_is_followed() -> None:
    found = choose_for_change("spark", SMALL, Costs({}), strict=False, cold=False, spark_given=True)
    assert (found.engine, found.reason) == ("spark", "asked for")


def test_the_reason_tells_what_was_expected() -> None:
    assert chosen(SMALL, Costs({})).reason == "10 rows, expected embedded 0.95 ms, Spark 12.5 s"
    assert "embedded with views computed anew 24 ms, " in chosen(MIDDLE, Costs({})).reason


def test_what_was_measured_corrects_what_is_expected() -> None:
    costs = Costs({})
    before = costs.estimate(EMBEDDED, SMALL)
    assert costs.measured(EMBEDDED, SMALL, 50 * before)
    assert costs.estimate(EMBEDDED, SMALL) == pytest.approx(50 * before)
    # The same once more says nothing new once that is written down.
    costs.written()
    assert not costs.measured(EMBEDDED, SMALL, 50 * before)
    # Changes of other sizes are like the nearest that is known, those of other kinds are not.
    near = Task("insert", rows=3000, held=1000)
    assert costs.estimate(EMBEDDED, near) == pytest.approx(50 * near.expected(EMBEDDED))
    first = Task("first", rows=10, held=0)
    assert costs.estimate(EMBEDDED, first) == first.expected(EMBEDDED)
    # Another measurement counts for a part.
    costs.measured(EMBEDDED, SMALL, before)
    assert before < costs.estimate(EMBEDDED, SMALL) < 50 * before


def test_the_cheapest_way_is_taken_and_strict_excludes_computing_anew() -> None:
    assert chosen(MIDDLE, Costs({})).way == ANEW
    assert chosen(MIDDLE, Costs({}), strict=True).way == EMBEDDED
    assert chosen(MIDDLE, Costs({"spark delete 3": -20.0})).way == SPARK
    # Few rows never make it start from the beginning.
    assert chosen(SMALL, Costs({"anew insert 1": -20.0})).way == EMBEDDED


def test_without_spark_the_next_best_is_taken_and_the_reason_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "spark_problem", lambda: problem("SPARK_MISSING"))
    found = chosen(LARGE, Costs({}), spark_given=False)
    assert found.engine == "embedded"
    assert found.reason.endswith(f", but {problem('SPARK_MISSING').message}")


def known(path: Path) -> dict[str, float]:
    with sqlite3.connect(path / "catalog.db") as catalog:
        rows = catalog.execute("SELECT value FROM \"$meta\" WHERE key = 'costs'").fetchall()
    return msgspec.json.decode(rows[0][0]) if rows else {}


def test_costs_are_kept_in_the_catalog_and_used_when_it_is_opened_again(tmp_path: Path) -> None:
    with vk.open(tmp_path / "w", create=True) as warehouse:
        warehouse.define(PROGRAM)
        warehouse.commit({"edge": [(1, 2), (2, 3), (3, 4)]})
        for edge in ((2, 3), (3, 4)):
            warehouse.commit(deletes={"edge": [edge]})
    assert known(tmp_path / "w").keys() == {
        "embedded delete 0"
    }  # others were the first of their kind, and took the time to prepare
    with vk.open(tmp_path / "w") as warehouse:
        assert warehouse._open_writer().costs.known.keys() == known(tmp_path / "w").keys()


def test_many_rows_may_make_it_start_from_the_beginning(tmp_path: Path) -> None:
    rows = [(i, i + 1) for i in range(0, 600, 2)]
    with vk.open(tmp_path / "w", create=True) as warehouse:
        warehouse.define(PROGRAM)
        warehouse.commit({"edge": rows})
        commit = warehouse.commit(deletes={"edge": rows[:250]})
        assert {view.strategy for view in commit.views.values()} == {"recomputation"}
        assert commit.views["path"].reason == "less work than maintaining"
        assert commit.changes["path"].stored == ([], rows[:250])
        assert commit.changes["reached"].stored == ([], [(x, 1) for x, _ in rows[:250]])
        assert all(view.right for view in warehouse.verify())
        [logged] = warehouse.log(since=2)
        assert logged.reason == commit.reason != ""
        commit = warehouse.commit({"edge": rows[:250]}, strict=True)
        assert {view.strategy for view in commit.views.values()} == {"maintenance rules", "totals"}
        assert commit.changes["path"].stored == (rows[:250], [])
        # With few rows it goes on as if nothing had happened.
        commit = warehouse.commit({"edge": [(1, 2)]})
        assert commit.changes["path"].stored == ([(0, 2), (0, 3), (1, 2), (1, 3)], [])
        assert all(view.right for view in warehouse.verify())
