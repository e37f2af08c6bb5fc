"""Groups whose values change, some hundred at once, and what reads them: told exactly, however many rows are taken out of SQLite."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.playing import told

import viewkeeper as vk
from viewkeeper.engines.keep import changes

PROGRAM = """
.decl owner(x: symbol, y: symbol)
.decl item(y: symbol, z: number)
.decl total(x: symbol, n: number, s: number)
total(x, n, s) :- owner(x, _), n = count : { owner(x, _) }, s = sum z : { owner(x, y), item(y, z) }.
.decl known(x: symbol)
known(x) :- total(x, _, _).
.decl heavy(x: symbol)
heavy(x) :- total(x, _, s), s > 20.
.decl uneven(x: symbol, s: number)
uneven(x, s) :- total(x, n, s), s != n, n >= 2.
.decl size(n: number)
size(n) :- total(_, n, _).
.decl average(x: symbol, a: float)
average(x, a) :- owner(x, _), a = mean z : { owner(x, y), item(y, z) }, a > 3.0.
.decl least(x: symbol, z: number)
least(x, z) :- owner(x, _), z = min v : { owner(x, y), item(y, v) }.
"""
EXTERNAL = "\n.external average\n.external least\n.external uneven\n"
Rows = set[tuple[object, ...]]


def truth(owner: set[tuple[str, str]], item: set[tuple[str, int]]) -> dict[str, Rows]:
    """What the views hold, by their definition."""
    owned: dict[str, list[int]] = {x: [] for x, _ in owner}
    for x, z in [(x, z) for x, y in owner for other, z in item if other == y]:
        owned[x].append(z)
    counts = {x: sum(1 for one, _ in owner if one == x) for x in owned}
    total = {(x, counts[x], sum(found)) for x, found in owned.items()}
    means = {(x, sum(found) / len(found)) for x, found in owned.items() if found}
    return {
        "total": {*total},
        "known": {(x,) for x, _, _ in total},
        "heavy": {(x,) for x, _, s in total if s > 20},
        "uneven": {(x, s) for x, n, s in total if s != n and n >= 2},
        "size": {(n,) for _, n, _ in total},
        "average": {(x, mean) for x, mean in means if mean > 3},
        "least": {(x, min(found)) for x, found in owned.items() if found},
    }


@pytest.mark.parametrize("external", ["", EXTERNAL], ids=["stored", "external"])
@pytest.mark.parametrize(("few", "many"), [(0, 0), (2, 20), (32, 150), (32, 10_000)])
def test_what_reads_groups_follows_their_values(
    few: int, many: int, external: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "FEW", few)
    monkeypatch.setattr(changes, "MANY", many)
    chance = random.Random(3)
    # One item that many own: its number changes many groups, and where nobody owns anything else the group comes and goes.
    owner = {(f"x{i}", "all") for i in range(60)} | {(f"x{chance.randrange(90)}", f"y{chance.randrange(9)}") for _ in range(80)}
    item = {("all", 7), ("y1", 12), ("y2", 1), ("y2", 5)}
    with vk.open(tmp_path / "shop", create=True, engine="embedded", durable=False) as shop:
        shop.define(PROGRAM + external)
        shop.commit({"owner": owner, "item": item})
        for _ in range(40):
            before = truth(owner, item)
            new_owner, new_item = set(owner), set(item)
            if chance.random() < 0.5:
                new_item ^= {
                    (chance.choice(["all", "y1", "y2", "y3"]), chance.randrange(1, 9)) for _ in range(chance.choice([1, 2]))
                }
            else:
                new_owner ^= {
                    (f"x{chance.randrange(90)}", chance.choice(["all", "y1", "y2", "y8"]))
                    for _ in range(chance.choice([1, 40]))
                }
            commit = shop.commit(
                {"owner": new_owner - owner, "item": new_item - item}, {"owner": owner - new_owner, "item": item - new_item}
            )
            owner, item = new_owner, new_item
            after = truth(owner, item)
            found = told(commit.changes)
            for view, rows in after.items():
                assert found.get(view, (set(), set())) == (rows - before[view], before[view] - rows), view
