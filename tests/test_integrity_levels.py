"""Integrity views with a level: what adds rows to one is refused or told; what was violated before blocks nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.commands import viewkeeper
from tests.playing import everything

import viewkeeper as vk
from viewkeeper import change as changing
from viewkeeper.errors import ViolationError
from viewkeeper.language import parse
from viewkeeper.warehouse import Warehouse

TEXT = """
.decl defined_in(name: symbol, module: symbol)
.decl size(name: symbol, lines: number) key(name)
.decl twice(name: symbol, a: symbol, b: symbol)
twice(n, a, b) :- defined_in(n, a), defined_in(n, b), a < b.
.decl long(name: symbol, lines: number)
long(n, l) :- size(n, l), l > 100.
.decl unsized(name: symbol)
unsized(n) :- defined_in(n, _), !size(n, _).
.integrity twice(level="reject", message="{a} and {b} define {name}")
.integrity long(level=warn)
.integrity unsized(level=note, message="{name} has no size")
"""
TWO = [("dump", "json"), ("dump", "pickle")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Warehouse.create(tmp_path / "shop")
    return tmp_path / "shop"


@pytest.fixture(params=["stored", "external"])
def shop(path: Path, request: pytest.FixtureRequest) -> Iterator[Warehouse]:
    with vk.open(path, engine="embedded", durable=False) as opened:
        opened.define(TEXT)
        if request.param == "external":
            opened.store(["twice", "long", "unsized"], external=True)
        yield opened


def refused(work: Callable[[], object]) -> ViolationError:
    with pytest.raises(ViolationError) as told:
        work()
    assert told.value.code == "INTEGRITY_VIOLATED"
    return told.value


WAYS: dict[str, Callable[[Warehouse, list[Any]], object]] = {
    "commit": lambda shop, rows: shop.commit({"defined_in": rows}),
    "transaction": lambda shop, rows: _transaction(shop, rows),
    "load": lambda shop, rows: shop.load("defined_in", rows),
    "sql": lambda shop, rows: shop.sql(f"INSERT INTO defined_in VALUES {', '.join(map(str, rows))}"),
    "preview": lambda shop, rows: shop.preview({"defined_in": rows}),
    "with a key": lambda shop, rows: shop.commit({"defined_in": rows}, key="k"),
}


def _transaction(shop: Warehouse, rows: list[Any]) -> None:
    with shop.transaction() as tx:
        tx.insert("defined_in", rows)


@pytest.mark.parametrize("way", WAYS)
def test_what_adds_a_row_is_refused(shop: Warehouse, way: str) -> None:
    before, commits = everything(shop), len(shop.log())
    error = refused(lambda: WAYS[way](shop, TWO))
    assert 'the integrity view "twice" would get 1 row:\n  json and pickle define dump\n' in str(error)
    assert error.violations.keys() == {"twice"}
    assert list(error.violations["twice"].changed.rows()) == [("dump", "json", "pickle")]
    assert (everything(shop), len(shop.log())) == (before, commits)
    WAYS[way](shop, TWO[:1])
    assert all(view.right for view in shop.verify())


def test_what_was_there_before_blocks_nothing(shop: Warehouse) -> None:
    shop.set_level("twice", "warn")
    told = shop.commit({"defined_in": TWO}).violations
    assert list(told) == ["twice", "unsized"]
    leveled = shop.set_level("twice", "reject")
    assert list(leveled.violated) == [("dump", "json", "pickle")]
    assert list(leveled.commit.violations["twice"].told()) == ["json and pickle define dump"]
    assert shop.commit({"defined_in": [("load", "json")]}).violations.keys() == {"unsized"}
    assert len(refused(lambda: shop.commit({"defined_in": [("dump", "marshal")]})).violations["twice"].changed.stored[0]) == 2
    # One violation goes, and no other comes.
    assert shop.commit(deletes={"defined_in": TWO[:1]}).violations == {}
    refused(lambda: shop.commit({"defined_in": TWO[:1]}))


def test_only_the_end_of_a_transaction_counts(shop: Warehouse) -> None:
    shop.commit({"defined_in": TWO[:1]})
    with shop.transaction() as tx:
        tx.insert("defined_in", TWO[1:])
        tx.delete("defined_in", TWO[:1])
    assert tx.commit_id is not None


def test_warnings_and_notes_are_told(shop: Warehouse) -> None:
    for work in (shop.preview, shop.commit):
        told = work({"size": [("dump", 101), ("load", 99)], "defined_in": [("loads", "json")]}).violations
        assert {view: (one.level, list(one.told())) for view, one in told.items()} == {
            "long": ("warn", ["long('dump', 101)"]),
            "unsized": ("note", ["loads has no size"]),
        }
    assert shop.commit(deletes={"size": [("dump", 101)]}).violations == {}


def test_all_views_that_refuse_are_told(shop: Warehouse) -> None:
    shop.set_level("long", "reject")
    error = refused(lambda: shop.commit({"defined_in": TWO, "size": [(f"p{i:02}", 200 + i) for i in range(30)]}))
    assert [one.parameters["view"] for one in error.problems] == ["long", "twice"]
    assert (str(error).count("  long('p"), "  …" in str(error)) == (20, True)
    assert len(error.violations["long"].changed.stored[0]) == 30


def test_a_definition_tells_and_does_not_refuse(path: Path) -> None:
    with vk.open(path) as shop:
        head, tail = TEXT.split(".integrity", 1)
        shop.define(head)
        shop.commit({"defined_in": TWO})
        told = shop.define(f".integrity{tail}").violations
        assert {view: (one.level, list(one.told())) for view, one in told.items()} == {
            "twice": ("reject", ["json and pickle define dump"]),
            "unsized": ("note", ["dump has no size"]),
        }
        assert shop.define(TEXT).number is None
        assert shop.define('.integrity twice(level="warn")').violations.keys() == {"twice"}
        assert shop.define(".decl other(x: number)").violations == {}
        more = "twice(n, a, a) :- defined_in(n, a)."
        assert len(shop.define(more).violations["twice"].changed.stored[0]) == 3
        assert (
            shop.define(".decl more(n: symbol) more(n) :- twice(n, _, _). .integrity more").violations["more"].level == "reject"
        )
        assert shop.levels() == {"long": "warn", "more": "reject", "twice": "warn", "unsized": "note"}


def test_levels_last(path: Path) -> None:
    with vk.open(path) as shop:
        shop.define(TEXT)
        assert shop.set_level("long", None).commit.number == 2
        assert shop.set_level("unsized", "reject").commit.number == 3
        assert shop.set_level("unsized", "reject").commit.number is None
    with vk.open(path) as shop:
        assert shop.levels() == {"twice": "reject", "unsized": "reject"}
        assert [(s.relation.name, s.level) for s in shop.show() if s.kind == "view"] == [
            ("twice", "reject"),
            ("long", None),
            ("unsized", "reject"),
        ]
        assert "dump has no size" in str(refused(lambda: shop.commit({"defined_in": TWO[:1]})))
        assert shop.commit({"size": [("dump", 1000)]}).violations == {}
        assert parse(str(shop.program)) == shop.program
        assert '.integrity unsized(level="reject", message="{name} has no size")' in str(shop.program)
        shop.drop("unsized")
        assert shop.levels() == {"twice": "reject"}


def test_what_has_no_level(shop: Warehouse) -> None:
    for view, level, code in (
        ("size", "warn", "NOT_A_VIEW"),
        ("sizes", "warn", "UNKNOWN_RELATION"),
        ("twice", "error", "BAD_PARAMETER"),
    ):
        with pytest.raises(vk.StoreError) as told:
            shop.set_level(view, level)
        assert told.value.code == code


def test_two_levels_in_one_text() -> None:
    with pytest.raises(vk.ProgramError, match=r'integrity view "b" is defined differently already') as told:
        parse(".decl a(x: number) .decl b(x: number) b(x) :- a(x). .integrity b(level=warn)\n.integrity b")
    assert "2 | .integrity b" in str(told.value)
    assert "--> <text>:2:12" in str(told.value)


# ---- many rows


@pytest.mark.parametrize("level", ["reject", "warn"])
def test_more_first_rows_than_are_logged(path: Path, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changing, "FIRST_ROWS", 5)
    monkeypatch.setattr(changing, "_MANY_FIRST", 5)
    rows = [(f"p{i}", 101 + i) for i in range(10)]
    with vk.open(path, engine="embedded") as shop:
        shop.define(TEXT)
        shop.set_level("long", level)
        if level == "reject":
            assert list(refused(lambda: shop.load("size", rows)).violations["long"].changed.rows()) == rows
        else:
            assert list(shop.preview({"size": rows}).violations["long"].changed.rows()) == rows
            told = shop.load("size", rows).violations["long"].changed
            assert list(told.rows()) == rows


def test_random_streams_never_add_to_what_rejects(path: Path) -> None:
    """Played beside a warehouse without levels: what is refused is exactly what adds a row there."""
    rng, refusals = random.Random(5), 0
    plain = path.with_name("plain")
    with vk.open(path, durable=False) as shop, vk.open(plain, create=True, durable=False) as other:
        shop.define(TEXT)
        other.define(TEXT.split(".integrity")[0])
        for _ in range(80):
            came = {
                "defined_in": [(rng.choice("abcd"), rng.choice("xyz")) for _ in range(rng.randrange(3))],
            }
            went = {"defined_in": [(rng.choice("abcd"), rng.choice("xyz")) for _ in range(rng.randrange(4))]}
            sizes = {"size": [(rng.choice("abcd"), rng.choice([5, 500])) for _ in range(rng.randrange(2))]}
            changes = other.preview(came, went, sizes).changes
            added = {view: list(changes[view].rows()) for view in ("twice", "long", "unsized") if view in changes}
            added = {view: rows for view, rows in added.items() if rows}
            if "twice" in added:
                error = refused(lambda came=came, went=went, sizes=sizes: shop.commit(came, went, sizes))  # type: ignore[misc]
                assert list(error.violations["twice"].changed.rows()) == added["twice"]
                refusals += 1
            else:
                done = shop.commit(came, went, sizes)
                other.commit(came, went, sizes)
                assert {view: list(one.changed.rows()) for view, one in done.violations.items()} == added
        assert everything(shop) == everything(other)
    assert 5 < refusals < 75


def test_what_is_prepared_survives_refusals(path: Path) -> None:
    """Refused and tried transactions between others, which find nothing of them."""
    with vk.open(path, durable=False) as shop:
        shop.define(TEXT)
        shop.commit({"defined_in": [("x", "m")], "size": [("x", 1)]})
        shop.commit({"size": [("y", 101)]}, {"defined_in": [("x", "m")]})
        writer = shop._writer
        for number in range(5):
            name = f"p{number}"
            assert shop.commit({"defined_in": [(name, "m")]}).violations.keys() == {"unsized"}
            refused(lambda name=name: shop.commit({"defined_in": [(name, "n"), ("other", "m")], "size": [(name, 300)]}))  # type: ignore[misc]
            with pytest.raises(vk.DataError):
                shop.commit({"size": [("y", 7)]})  # another row has its key
            assert shop.preview({"size": [(name, 300)]}).changes.keys() == {"size", "long", "unsized"}
            done = shop.commit({"size": [(name, 200 + number)]})
            assert {view: list(one.told()) for view, one in done.violations.items()} == {
                "long": [f"long('{name}', {200 + number})"]
            }
            assert list(done.changes["unsized"].values()) == [("delete", (name,))]
            assert shop._writer is writer
        assert all(view.right for view in shop.verify())


# ---- SQL


def test_sql(path: Path) -> None:
    with vk.open(path) as shop:
        shop.sql(
            """
            CREATE TABLE item (id BIGINT PRIMARY KEY, cents BIGINT);
            CREATE MATERIALIZED VIEW free TBLPROPERTIES ('integrity' = 'reject', 'integrity.message' = 'item {id} is free')
              AS SELECT id FROM item WHERE cents = 0;
            CREATE VIEW dear TBLPROPERTIES ('integrity' = 'Warn') AS SELECT id, cents FROM item WHERE cents > 100;
            """
        )
        assert shop.levels() == {"dear": "warn", "free": "reject"}
        assert shop.program.external == {"dear"}
        assert "  item 7 is free\n" in str(refused(lambda: shop.sql("INSERT INTO item VALUES (7, 0), (8, 8)")))
        [done] = shop.sql("INSERT INTO item VALUES (1, 1000)")
        assert done.commit is not None and list(done.commit.violations["dear"].told()) == ["dear(1, 1000)"]
        refused(lambda: shop.sql("UPDATE item SET cents = 0 WHERE id = 1"))
        refused(lambda: shop.sql("UPDATE item SET cents = 0 WHERE id = 1", dry_run=True))
        shop.sql("ALTER VIEW free SET TBLPROPERTIES ('integrity' = 'note')")
        shop.sql("UPDATE item SET cents = 0 WHERE id = 1")
        [told] = shop.sql("ALTER MATERIALIZED VIEW free SET TBLPROPERTIES ('integrity' = 'reject')")
        assert told.commit is not None and list(told.commit.violations["free"].told()) == ["item 1 is free"]
        shop.sql("ALTER VIEW dear SET TBLPROPERTIES ('integrity' = 'none')")
    with vk.open(path) as shop:
        assert shop.levels() == {"free": "reject"}
        assert shop.sql("SHOW CREATE TABLE free")[0].message.count(";\n") == 2
        shop.sql("CREATE OR REPLACE MATERIALIZED VIEW free AS SELECT id FROM item WHERE cents < 0")
        assert shop.levels() == {}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("ALTER VIEW v SET TBLPROPERTIES ('integrity' = 'loud')", "BAD_PARAMETER"),
        ("ALTER VIEW v SET TBLPROPERTIES ('comment' = 'loud')", "SQL_UNSUPPORTED"),
        ("ALTER VIEW v SET TBLPROPERTIES ('integrity.message' = 'loud')", "SQL_SYNTAX"),
        ("ALTER VIEW v SET TBLPROPERTIES ('integrity' = 'warn', 'integrity.message' = '{no}')", "UNKNOWN_COLUMN"),
        ("ALTER VIEW v RENAME TO w", "SQL_UNSUPPORTED"),
        ("ALTER VIEW t SET TBLPROPERTIES ('integrity' = 'warn')", "SQL_OTHER_KIND"),
        ("ALTER VIEW w SET TBLPROPERTIES ('integrity' = 'warn')", "SQL_TABLE"),
        ("ALTER VIEW v UNSET TBLPROPERTIES ('integrity')", "SQL_UNSUPPORTED"),
        ("ALTER TABLE t SET TBLPROPERTIES ('integrity' = 'warn')", "SQL_UNSUPPORTED"),
        ("CREATE VIEW w TBLPROPERTIES ('integrity' = 'loud') AS SELECT id FROM t", "BAD_PARAMETER"),
        ("CREATE VIEW w TBLPROPERTIES ('speed' = 'fast') AS SELECT id FROM t", "SQL_UNSUPPORTED"),
        ("CREATE TABLE w (id BIGINT) TBLPROPERTIES ('integrity' = 'warn')", "SQL_UNSUPPORTED"),
    ],
)
def test_sql_that_is_refused(path: Path, text: str, code: str) -> None:
    with vk.open(path) as shop:
        shop.sql("CREATE TABLE t (id BIGINT PRIMARY KEY); CREATE VIEW v AS SELECT id FROM t")
        with pytest.raises(vk.ProgramError) as told:
            shop.sql(text)
        assert told.value.code == code


def test_fewer_copies_are_no_violation(path: Path) -> None:
    with vk.open(path) as shop:
        shop.sql("CREATE TABLE t (a STRING, n BIGINT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE n < 0")
        shop.sql("INSERT INTO t VALUES ('x', -1), ('x', -1), ('x', -2)")
        shop.set_level("v", "reject")
        refused(lambda: shop.sql("INSERT INTO t VALUES ('x', -3)"))
        shop.sql("DELETE FROM t WHERE n = -2")
        refused(lambda: shop.sql("INSERT INTO t VALUES ('x', -1)"))


# ---- the command line


def test_command_line(path: Path, tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(TEXT)
    (tmp_path / "ok.jsonl").write_text('{"relation": "defined_in", "op": "insert", "row": ["dump", "json"]}\n')
    (tmp_path / "bad.jsonl").write_text('{"relation": "defined_in", "op": "insert", "row": ["dump", "pickle"]}\n')
    assert viewkeeper("define", path, tmp_path / "p.dl").code == 0
    done = viewkeeper("commit", path, tmp_path / "ok.jsonl")
    assert (done.code, "note: the integrity view unsized has got 1 row\n  dump has no size\n" in done.err) == (0, True)
    assert viewkeeper("commit", path, tmp_path / "bad.jsonl").error == "INTEGRITY_VIOLATED"
    assert viewkeeper("level", path, "twice").out == "twice: reject; nothing is violated\n"
    assert viewkeeper("level", path, "twice", "warn").out == "twice: warn; nothing is violated\n"
    done = viewkeeper("commit", path, tmp_path / "bad.jsonl", "--dry-run")
    assert "warning: the integrity view twice would get 1 row\n" in done.err
    done = viewkeeper("commit", path, tmp_path / "bad.jsonl", "--json")
    assert "warning: the integrity view twice has got 1 row\n  json and pickle define dump\n" in done.err
    done = viewkeeper("level", path, "twice", "reject")
    assert done.out.startswith("twice: reject; violated now:\nname  a     b")
    assert viewkeeper("level", path, "twice", "--json").out == '{"name": "dump", "a": "json", "b": "pickle"}\n'
    assert viewkeeper("level", path, "twice", "none").out == "twice is no integrity view; it has 1 row\n"
    assert viewkeeper("level", path, "twice", "loud").code == 2
    assert "view, warn" in viewkeeper("show", path).out


def test_advice_for_what_would_be_refused(path: Path) -> None:
    """Transactions are taken back on copies, where what went comes again."""
    with vk.open(path) as shop:
        shop.define(TEXT)
        shop.set_level("twice", None)
        shop.commit({"defined_in": TWO})
        shop.commit(deletes={"defined_in": TWO[1:]})
        shop.set_level("twice", "reject")
        shop.commit({"defined_in": [("load", "json")]})
        assert shop.advise()[0] == 3


def test_reject_on_spark(path: Path, spark_session: Any) -> None:
    with vk.open(path, spark_session, engine="spark") as shop:
        shop.define(TEXT)
        shop.commit({"defined_in": TWO[:1]}, engine="spark")
        error = refused(lambda: shop.commit({"defined_in": TWO[1:]}, engine="spark"))
        assert list(error.violations["twice"].told()) == ["json and pickle define dump"]
        refused(lambda: shop.load("defined_in", TWO, engine="spark"))
        told = shop.commit({"size": [("dump", 500)]}, engine="spark").violations
        assert list(told["long"].told()) == ["long('dump', 500)"]
        assert all(view.right for view in shop.verify(engine="embedded"))


def test_reject_on_spark_what_is_kept_as_a_snapshot(path: Path, tmp_path: Path, spark_session: Any) -> None:
    (tmp_path / "many.csv").write_text("name,module\n" + "".join(f"p{i},m\n" for i in range(50)))
    with vk.open(path, spark_session, engine="spark") as shop:
        shop.hot_rows = 10
        shop.define(TEXT.replace("note", "reject"))
        error = refused(lambda: shop.load("defined_in", tmp_path / "many.csv"))
        assert len(list(error.violations["unsized"].changed.rows())) == 50
        shop.set_level("unsized", "warn")
        assert len(list(shop.load("defined_in", tmp_path / "many.csv").violations["unsized"].changed.rows())) == 50
        shop.set_level("unsized", "reject")
        refused(lambda: shop.commit({"defined_in": [("p0", "n")]}))
        refused(lambda: shop.commit({"defined_in": [("new", "n")]}))
        assert shop.commit(deletes={"defined_in": [("p0", "m")]}).violations == {}


def test_the_violations_of_a_virtual_view_are_told(tmp_path: Path) -> None:
    with vk.open(tmp_path / "shop", create=True, engine="embedded") as shop:
        shop.define(".decl e(x: number, y: number)\n.decl bad(x: number) virtual\nbad(x) :- e(x, x).")
        shop.commit({"e": [(1, 1)]})
        assert list(shop.set_level("bad", "reject").violated) == [(1,)]
        with pytest.raises(vk.DataError) as error:
            shop.commit({"e": [(2, 2)]})
        assert error.value.code == "INTEGRITY_VIOLATED"
        shop.set_level("bad", None)
        assert shop.commit({"e": [(2, 2)]}).changes.keys() == {"e"}
