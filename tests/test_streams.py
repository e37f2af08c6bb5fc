"""Streams of changes: after every commit each relation is what the naive evaluator says, and the change told is the difference.

When one fails, ``python -m tests.streams SEED`` makes it small. Put its seed into FAILED_ONCE.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from zlib import crc32

import pytest
from tests.playing import Player, play, told
from tests.samples import Row
from tests.stream_programs import PROGRAMS
from tests.streams import Rows, all_at_once, one_by_one, stream, written_program

import viewkeeper as vk
from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.program.ast import Relation

FAILED_ONCE = (1, 3, 11)
# Every third has a program written by hand, so that each of them has its turn.
SEEDS = sorted({*FAILED_ONCE, *range(3 * len(PROGRAMS))})


@pytest.mark.parametrize("seed", SEEDS)
def test_relations_and_changes_are_right(seed: int, tmp_path: Path) -> None:
    play(stream(seed, definitions=seed % 2 == 1), tmp_path / "w")


@pytest.mark.parametrize("seed", range(0, 24, 3))
def test_steps_of_any_size_come_to_the_same(seed: int, tmp_path: Path) -> None:
    made = stream(seed, steps=4)
    whole, small, large = (
        play(one, tmp_path / str(number)) for number, one in enumerate((made, one_by_one(made), all_at_once(made)))
    )
    if not whole.refused and not small.refused:
        assert whole.now == small.now == large.now
        assert net(whole) == net(small) == net(large)


@pytest.mark.parametrize("seed", range(1, 24, 3))
def test_tables_made_before_may_have_row_numbers(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Narrow relations are stored without by now; what a warehouse has stays as it is."""
    create, made = EmbeddedEngine.create_table, set[str]()

    def as_before(engine: EmbeddedEngine, relation: Relation, more: Mapping[str, str] = {}, numbered: bool = True) -> None:
        made.add(relation.name)
        create(engine, relation, more, numbered or crc32(relation.name.encode()) % 2 == 0)

    monkeypatch.setattr(EmbeddedEngine, "create_table", as_before)
    play(stream(seed, definitions=True), tmp_path / "w")
    assert made


def net(player: Player) -> dict[str, tuple[set[Row], set[Row]]]:
    """All changes of a warehouse as one."""
    found: dict[str, tuple[set[Row], set[Row]]] = {}
    with vk.open(player.path) as warehouse:
        for logged in warehouse.log(since=1):
            for name, (came, went) in told(warehouse.changes(logged.number)).items():
                all_came, all_went = found.setdefault(name, (set(), set()))
                back, again = went & all_came, came & all_went
                all_came ^= back | (came - again)
                all_went ^= again | (went - back)
    return {name: change for name, change in found.items() if any(change)}


def test_generated_streams_do_everything() -> None:
    """Views come, are replaced and dropped; rows are upserted; changes come in all ways."""
    text = repr([stream(seed, definitions=seed % 2 == 1) for seed in range(30)])
    for part in ("Define(", "replaces=True", "Drop(", "'upsert'", "'file'", "'other'", "'reopened'", "'commit'", "key("):
        assert text.count(part) >= 5, part


def test_the_naive_evaluator_reads_the_programs_written_by_hand() -> None:
    from tests.streams import bases, expected

    for name in PROGRAMS:
        program = written_program(name)
        empty: Rows = {base.name: set() for base in bases(program)}
        assert isinstance(expected(program, empty), dict), name


def test_a_view_replaced_by_one_with_other_columns(tmp_path: Path) -> None:
    with vk.open(tmp_path / "w", create=True) as shop:
        shop.define(".decl r(x: number, y: symbol)\n.decl v(x: number)\nv(x) :- r(x, _).")
        shop.commit({"r": [(1, "a"), (2, "b")]})
        commit = shop.define(".decl v(y: symbol, x: number)\nv(y, x) :- r(x, y).", replace=True)
        assert told(commit.changes)["v"] == ({("a", 1), ("b", 2)}, {(1,), (2,)})
        assert list(shop.query("v(y, x)", as_of=3)) == [("a", 1), ("b", 2)]
        assert commit.changes["v"].deleted.to_pylist() == [{"x": 1}, {"x": 2}]
        assert list(shop.query("v(x)", as_of=2)) == [(1,), (2,)]
        assert told(shop.changes(3))["v"] == ({("a", 1), ("b", 2)}, {(1,), (2,)})


@pytest.mark.parametrize("how", ["", "\n.external v"])
@pytest.mark.parametrize(
    ("text", "there"),
    [
        (".decl v(x: number)\nv(2). v(7).", {(2,), (7,)}),
        (".decl v(x: number)", set()),
        ('.decl v(x: symbol)\nv("a").', {("a",)}),
    ],
)
def test_a_view_replaced_by_a_base_relation(tmp_path: Path, how: str, text: str, there: set[tuple[object, ...]]) -> None:
    above = "\n.decl w(n: number)\nw(n) :- n = count : { v(_) }."
    with vk.open(tmp_path / "w", create=True, engine="embedded") as shop:
        shop.define(f".decl r(x: number)\n.decl v(x: number)\nv(x) :- r(x).{how}{above}")
        shop.commit({"r": [(1,), (2,), (3,)]})
        commit = shop.define(text, replace=True)
        was = {(1,), (2,), (3,)}
        common = was & there if "symbol" not in text else set()
        assert told(commit.changes)["v"] == (there - common, was - common) == told(shop.changes(3))["v"]
        assert told(commit.changes)["w"] == ({(len(there),)}, {(3,)})
        assert commit.rows["v"] == len(there) == shop.show("v")[0].rows
        assert set(shop.query("v(x)")) == set(shop.query("v(x)", as_of=3)) == there
        assert set(shop.query("v(x)", as_of=2)) == was
        # It has no rows but facts, so that it may become a view again.
        back = shop.define(".decl v(x: number)\nv(x) :- r(x).", replace=True)
        assert told(back.changes)["v"] == (was - common, there - common)
        assert set(shop.query("v(x)", as_of=3)) == there
        assert all(view.right for view in shop.verify())
