"""A log that is trimmed: what is not forgotten is told as before, and what is forgotten is refused, never told wrong."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.commands import viewkeeper
from tests.playing import Player, everything, names_in, told
from tests.streams import Define, Rows, stream

import viewkeeper as vk
from viewkeeper import change as changing
from viewkeeper.store import catalog, log
from viewkeeper.warehouse import Warehouse

TEXT = ".decl a(x: number) .decl b(x: number) b(x * 2) :- a(x). .decl c(x: number) c(x) :- b(x), x > 4. .external c"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Ten commits: a definition, and nine of one row."""
    with vk.open(tmp_path / "shop", create=True, durable=False) as shop:
        shop.define(TEXT)
        for number in range(2, 11):
            shop.commit({"a": [(number,)]}, {"a": [(number - 3,)]})
    return tmp_path / "shop"


def refused(code: str, work: Callable[[], object]) -> str:
    with pytest.raises(vk.StoreError) as caught:
        work()
    assert caught.value.code == code
    return str(caught.value)


def rows(shop: Warehouse, relation: str, commit: int) -> list[Any]:
    return list(shop.query(f"{relation}(x)", as_of=commit))


def test_what_is_kept_is_told_as_before(path: Path) -> None:
    with vk.open(path) as shop:
        before = {c: (rows(shop, "a", c), rows(shop, "b", c), rows(shop, "c", c)) for c in range(1, 11)}
        changes = {c: told(shop.changes(c)) for c in range(1, 11)}
        assert (shop.oldest(), shop.trim_log(4), shop.oldest()) == (0, 7, 6)
        assert [one.number for one in shop.log()] == [7, 8, 9, 10]
        assert [one.number for one in shop.log(since=8)] == [9, 10]
        for commit in range(6, 11):
            assert (rows(shop, "a", commit), rows(shop, "b", commit), rows(shop, "c", commit)) == before[commit]
        assert {c: told(shop.changes(c)) for c in range(7, 11)} == {c: changes[c] for c in range(7, 11)}
        for commit in range(6):
            assert "begins after commit 6" in refused("LOG_TRIMMED", lambda commit=commit: rows(shop, "a", commit))  # type: ignore[misc]
        for commit in range(7):
            refused("LOG_TRIMMED", lambda commit=commit: shop.changes(commit))  # type: ignore[misc]
        refused("UNKNOWN_COMMIT", lambda: rows(shop, "a", 11))


@pytest.mark.parametrize("reopened", [False, True])
def test_everything_goes_on_after_all_is_forgotten(path: Path, reopened: bool) -> None:
    shop = vk.open(path)
    assert shop.trim_log(0) == 11
    if reopened:
        shop.close()
        shop = vk.open(path)
    assert (shop.log(), shop.oldest()) == ([], 10)
    assert rows(shop, "a", 10) == [(8,), (9,), (10,)]
    held = shop.ask("b(x), x > 5")
    assert shop.commit({"a": [(11,)]}).number == 11
    assert [(number, list(changed.values())) for number, changed in held.changes()] == [(11, [("insert", (22,))])]
    assert shop.define(".decl d(x: number) d(x) :- a(x).").number == 12
    assert rows(shop, "a", 10) == [(8,), (9,), (10,)]
    assert all(view.right for view in shop.verify())
    shop.close()


def test_who_is_behind_is_told(path: Path) -> None:
    with vk.open(path) as shop:
        early, late = shop.ask("b(x)"), shop.ask("b(x), !c(x)")
        for number in range(11, 15):
            shop.commit({"a": [(number,)]})
        assert [number for number, _ in late.changes()] == []
        for number in range(15, 18):
            shop.commit({"a": [(number,)]})
        shop.trim_log(2)
        refused("LOG_TRIMMED", lambda: list(early.changes()))
        assert early.commit == 10
        refused("LOG_TRIMMED", lambda: list(late.changes()))
        again = shop.ask("b(x)")
        shop.commit({"a": [(18,)]})
        shop.trim_log(1)
        assert [number for number, _ in again.changes()] == [18]


def test_trimming_less_changes_nothing(path: Path) -> None:
    with vk.open(path) as shop:
        assert [shop.trim_log(keep) for keep in (20, 10, 4, 7, 4, 3)] == [1, 1, 7, 7, 7, 8]
    with vk.open(path.with_name("empty"), create=True) as shop:
        assert (shop.trim_log(0), shop.trim_log(timedelta(0)), shop.oldest()) == (1, 1, 0)


def test_by_age(path: Path) -> None:
    with closing(sqlite3.connect(path / "catalog.db")) as connection, connection:
        connection.execute("""UPDATE "$log" SET form = '2020-01-01T00:00:00Z' WHERE commit_id <= 4 AND relation = ''""")
    with vk.open(path) as shop:
        assert shop.trim_log(timedelta(days=365_000)) == 1
        assert shop.trim_log(timedelta.max) == 1
        assert shop.trim_log(timedelta(days=30)) == 5
        assert shop.trim_log(timedelta(days=30)) == 5
        assert [one.number for one in shop.log()] == [5, 6, 7, 8, 9, 10]
        with closing(sqlite3.connect(path / "catalog.db")) as connection, connection:
            connection.execute("""UPDATE "$log" SET form = '2020-01-01T00:00:00Z' WHERE relation = ''""")
        assert shop.trim_log(timedelta(seconds=5)) == 11


@pytest.mark.parametrize("keep", [-1, True, "4", None, timedelta(seconds=-1), 1.5])
def test_what_is_no_length(path: Path, keep: Any) -> None:
    with vk.open(path) as shop:
        refused("BAD_PARAMETER", lambda: shop.trim_log(keep))


def test_keys_outlive_the_log(path: Path) -> None:
    with vk.open(path) as shop:
        first = shop.commit({"a": [(100,)]}, key="k")
        shop.commit(deletes={"a": [(100,)]})
        shop.trim_log(0)
        again = shop.commit({"a": [(100,)]}, key="k")
        assert (again.number, again.repeated, shop.log()) == (first.number, True, [])


def test_relations_that_were_dropped_or_changed(path: Path) -> None:
    """Also those whose rows before are known only from the commit that removed them."""
    with vk.open(path) as shop:
        shop.define(".decl gone(x: number) gone(x) :- a(x).")  # 11
        shop.commit({"a": [(20,)]})  # 12
        shop.define(".decl b(x: number, y: number) b(x, x) :- a(x). .decl c(x: number) c(x) :- b(x, _).", replace=True)  # 13
        shop.drop("gone")  # 14
        shop.commit({"a": [(21,)]})
        b, gone = rows(shop, "b", 12), rows(shop, "gone", 12)
        shop.trim_log(3)
        assert (shop.oldest(), rows(shop, "b", 12), rows(shop, "gone", 12)) == (12, b, gone)
        assert rows(shop, "gone", 13) == gone
        shop.trim_log(1)
        assert shop.oldest() == 14
        refused("LOG_TRIMMED", lambda: rows(shop, "gone", 13))
        assert len(shop.query("b(x, y)", as_of=14)) == 4


def test_first_rows_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relations whose first rows are not in the log, and changes that are files."""
    monkeypatch.setattr(changing, "FIRST_ROWS", 5)
    monkeypatch.setattr(changing, "_MANY_FIRST", 5)
    monkeypatch.setattr(log, "PACKED_ROWS", 5)
    with vk.open(tmp_path / "w", create=True) as shop:
        shop.define(TEXT)
        shop.load("a", range(10))  # 2: first
        shop.commit({"a": [(n,) for n in range(20, 30)]})  # 3: files
        shop.commit(deletes={"a": [(n,) for n in range(9)]})  # 4: files
        shop.commit({"a": [(50,)]})  # 5
        states = {c: (rows(shop, "a", c), rows(shop, "b", c)) for c in range(1, 6)}
        files = sorted(int(path.name) for path in (tmp_path / "w" / "log").iterdir())
        assert {3, 4} <= set(files)
        for oldest in (1, 2, 3, 4, 5):
            assert shop.trim_log(5 - oldest) == oldest + 1
            assert {c: (rows(shop, "a", c), rows(shop, "b", c)) for c in range(oldest, 6)} == {
                c: states[c] for c in range(oldest, 6)
            }
            assert sorted(int(path.name) for path in (tmp_path / "w" / "log").iterdir()) == [f for f in files if f > oldest]
            if oldest < 2:
                assert len(told(shop.changes(2))["a"][0]) == 10


def test_files_stay_while_somebody_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "PACKED_ROWS", 5)
    with vk.open(tmp_path / "w", create=True) as shop, vk.open(tmp_path / "w") as reader:
        shop.define(TEXT)
        shop.load("a", range(10))
        shop.commit({"a": [(n,) for n in range(20, 30)]})
        shop.commit(deletes={"a": [(n,) for n in range(20, 30)]})
        with reader._reading() as state:
            shop.trim_log(0)
            from viewkeeper.history import History

            then = History(state, reader._definitions, 3)
            assert len(then.rows(state.program.relation("a"))) == 20
        assert (tmp_path / "w" / "log" / "3").exists()
        shop.trim_log(0)
    with vk.open(tmp_path / "w") as shop:
        shop.commit({"a": [(100,)]})
        assert list((tmp_path / "w" / "log").iterdir()) == []


def test_a_failure_forgets_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object, until: int) -> None:
        forget(self, until)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    forget = catalog.Catalog.forget
    with vk.open(path) as shop:
        monkeypatch.setattr(catalog.Catalog, "forget", fail)
        with pytest.raises(KeyboardInterrupt):
            shop.trim_log(2)
        monkeypatch.undo()
        assert (shop.oldest(), len(shop.log())) == (0, 10)
        assert shop.trim_log(2) == 9


def test_explain_and_advice_go_no_further_back(path: Path) -> None:
    with vk.open(path) as shop:
        shop.trim_log(3)
        assert shop.advise(50)[0] == 3
        cost = shop.explain("b").cost
        assert cost is not None and sum(number for _, number, _ in cost.seconds) == 3


def test_command_line(path: Path) -> None:
    done = viewkeeper("log", path, "--trim", "2")
    assert (done.code, done.out) == (0, "the log begins with commit 9\n")
    assert [line.split()[1] for line in viewkeeper("log", path).out.splitlines() if line.startswith("commit")] == ["9", "10"]
    assert viewkeeper("query", path, "a(x)", "--as-of", "7").error == "LOG_TRIMMED"
    said = {since: viewkeeper("log", path, "--since", since).err for since in ("0", "5", "7", "8")}
    forgotten = {"5": "commits 6 to 8 are", "7": "commit 8 is"}
    assert said == {
        since: f"note: {forgotten[since]} not in the log any more\n" if since in forgotten else "" for since in said
    }
    assert viewkeeper("log", path, "--trim", "-1").code == 2


# ---- random streams


@pytest.mark.parametrize("seed", range(14))
def test_streams(seed: int, tmp_path: Path) -> None:
    """As the streams of test_streams.py, with the log trimmed at some moments, and some views external."""
    made, rng = stream(seed, definitions=seed % 2 == 1), random.Random(seed)
    names = names_in(made)
    player = Player(tmp_path / "w", made.program, names, {name: "external" for name in sorted(names) if rng.random() < 0.3})
    try:
        player.define(Define(made.program.text))
        if not player.now:
            return
        for step in made.steps:
            player.play(step)
            if rng.random() < 0.3:
                player.warehouse.trim_log(rng.randint(1, 4))
                _look_back(player)
        _look_back(player)
    finally:
        player.close()


def _look_back(player: Player) -> None:
    """From the oldest state that is known the log leads to all later ones, and so do queries as of then."""
    with vk.open(player.path) as again:
        oldest, last = again.oldest(), max(player.past)
        state: Rows = {name: set(found) for name, found in player.past[oldest][1].items()}
        assert [one.number for one in again.log()] == list(range(oldest + 1, last + 1))
        for number in range(oldest, last + 1):
            program, want = player.past[number]
            for name, (came, went) in told(again.changes(number)).items() if number > oldest else ():
                held = state.setdefault(name, set())
                assert not went - held and not came & held
                state[name] = (held - went) | came
            assert {n: r for n, r in state.items() if r} == {n: r for n, r in want.items() if r}
            player.look_at(again, number, program, want)
        if oldest:
            refused("LOG_TRIMMED", lambda: again.query("1 = 1", as_of=oldest - 1))
        assert everything(again) == player.now


def test_trim_and_spark_snapshots(tmp_path: Path, spark_session: Any) -> None:
    """Spark reads a snapshot with what the log tells since; if that is forgotten, the rows of the catalog."""
    with vk.open(tmp_path / "w", spark_session, create=True) as shop:
        shop.define(TEXT)
        shop.commit({"a": [(n,) for n in range(10)]}, engine="embedded")
        shop.checkpoint()
        shop.commit({"a": [(20,)]}, {"a": [(1,)]}, engine="embedded")
        shop.commit({"a": [(21,)]}, engine="embedded")
        assert "snapshot of commit 2" in shop.show("a")[0].place
        shop.trim_log(1)
        assert "snapshot" not in shop.show("a")[0].place
        assert not list((tmp_path / "w" / "snapshots").glob("a/*"))
        assert len(shop.query("b(x)", engine="spark")) == 11
        assert all(view.right for view in shop.verify(engine="spark"))
        shop.checkpoint()
        shop.trim_log(0)
        assert "snapshot of commit 4" in shop.show("a")[0].place
        shop.commit({"a": [(22,)]}, engine="spark")
        shop.trim_log(1)
        assert all(view.right for view in shop.verify(engine="spark"))
