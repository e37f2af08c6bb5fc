"""Which views to store: told from the last transactions, and followed without a row changing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.commands import viewkeeper
from tests.playing import everything

import viewkeeper as vk
from viewkeeper.advice import Advice
from viewkeeper.errors import StoreError
from viewkeeper.warehouse import Warehouse

# A closure that a change of an edge changes everywhere, and a copy of which little changes.
TEXT = """
.decl edge(x: number, y: number)
.decl closure(x: number, y: number)
closure(x, y) :- edge(x, y).
closure(x, z) :- edge(x, y), closure(y, z).
.decl note(x: number, text: symbol)
.decl long_note(x: number, text: symbol) external
long_note(x, t) :- note(x, t), strlen(t) > 5.
"""


@pytest.fixture
def shop(tmp_path: Path) -> Warehouse:
    shop = vk.open(tmp_path / "shop", create=True, engine="embedded")
    shop.define(TEXT)
    shop.commit({"edge": [(i, i + 1) for i in range(60)], "note": [(i, "remark" * (i % 3)) for i in range(500)]})
    return shop


def test_views_are_judged_by_the_last_transactions(shop: Warehouse) -> None:
    for i in range(10):
        shop.commit({"edge": [(30, 100 + i)], "note": [(1000 + i, "another remark")]}, {"note": [(i, "remark" * (i % 3))]})
    before = everything(shop)
    played, advice = shop.advise(8)
    found = {one.view: one for one in advice}
    assert played == 8 and found.keys() == {"closure", "long_note"}
    assert found["closure"].rows == len(before["closure"]) and found["long_note"].rows == len(before["long_note"])
    assert found["closure"].size > found["long_note"].size > 0
    assert not found["closure"].is_external and found["long_note"].is_external
    assert all(one.stored > 0 and one.external > 0 for one in advice)
    # A chain: what comes to its middle comes to everything before it, and all of that is checked against what was.
    assert found["closure"].external > found["closure"].stored
    assert everything(shop) == before
    assert [shop.explain(one.view).cost.advised for one in advice] == advice  # type: ignore[union-attr]


def failing_copy(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_explain_compares_by_itself(shop: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.commit({"edge": [(30, 100)], "note": [(1000, "another remark")]})
    last, before = shop.last(), everything(shop)
    cost = shop.explain("closure").cost
    assert cost is not None and cost.advised is not None
    assert (cost.advised.view, cost.advised.is_external, cost.advised.rows) == ("closure", False, len(before["closure"]))
    assert cost.advised.size == cost.size > 0 and cost.advised.external > 0 and cost.advised.stored > 0
    assert shop.last() == last and everything(shop) == before
    for name, value in (("_PATIENCE", 0.0), ("_SMALL", 1 << 10), ("_copy", failing_copy)):
        with monkeypatch.context() as patch:
            patch.setattr(f"viewkeeper.advice.{name}", value)
            assert shop.explain("closure").cost.advised is None  # type: ignore[union-attr]
    shop.define(".virtual long_note")
    assert shop.explain("long_note").cost is None


def test_advice_is_followed(shop: Warehouse, tmp_path: Path) -> None:
    shop.commit({"edge": [(30, 100)], "note": [(1000, "another remark")]})
    before = everything(shop)
    shop.close()
    done = viewkeeper("advise", str(tmp_path / "shop"), "--commits", "5", "--apply")
    assert done.code == 0 and "the last 2 transactions played again" in done.out
    with vk.open(tmp_path / "shop") as again:
        assert everything(again) == before
        again.store(["closure", "long_note"], external=True)
        assert [one.rows for one in again.show() if one.kind == "view"] == [None, None]
        commit = again.store(["closure", "long_note"])
        assert commit.number and not commit.changes
        assert again.store("closure").number is None
        assert everything(again) == before and all(view.right for view in again.verify())


@pytest.mark.parametrize(
    ("external", "reason"),
    [
        (0.00100, "a change takes no longer without its rows, which take space"),
        (0.00105, "a change takes 0.05 ms longer without its rows, which take space"),
        (0.00250, "a change is 2.5 times faster with it"),
    ],
)
def test_reasons_say_what_was_measured(external: float, reason: str) -> None:
    assert Advice("v", False, 1, 100, 0.001, external).reason == reason


def test_there_must_be_something_to_judge_by(tmp_path: Path) -> None:
    with vk.open(tmp_path / "shop", create=True) as shop:
        shop.define(TEXT)
        with pytest.raises(StoreError) as error:
            shop.advise()
        assert error.value.code == "NO_ADVICE"
        with pytest.raises(StoreError) as error:
            shop.store("edge")
        assert error.value.code == "NOT_A_VIEW"


def test_a_warehouse_can_adapt_by_itself(shop: Warehouse, tmp_path: Path) -> None:
    shop.store("closure", external=True)
    before = everything(shop)
    shop.close()
    # A change in the middle of a chain is checked against everything that was there: storing is faster.
    for transactions, rows in ((20, None), (30, len(before["closure"]))):
        with vk.open(tmp_path / "shop", engine="embedded", durable=False, strategy="auto") as busy:
            for i in range(0, transactions, 2):
                busy.commit({"edge": [(30, 1000 + i)]})
                busy.commit(deletes={"edge": [(30, 1000 + i)]})
        with vk.open(tmp_path / "shop") as again:
            assert again.show("closure")[0].rows == rows
            assert everything(again) == before


@pytest.mark.parametrize("commits", [0, -1, True, "five"])
def test_so_many_transactions_cannot_be_played(shop: Warehouse, commits: Any) -> None:
    with pytest.raises(StoreError) as error:
        shop.advise(commits)
    assert error.value.code == "BAD_PARAMETER"


def test_a_strategy_is_known(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as error:
        vk.open(tmp_path / "shop", create=True, strategy="best")
    assert error.value.code == "BAD_PARAMETER"
