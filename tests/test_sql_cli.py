"""``viewkeeper sql`` and ``viewkeeper shell`` as people use them."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.commands import command, environment, viewkeeper, written

import viewkeeper as vk
from viewkeeper.cli.shell import completions, history_file, is_finished

TABLES = """
CREATE TABLE item (id BIGINT PRIMARY KEY, name STRING);
INSERT INTO item VALUES (1, 'ink'), (2, 'pen');
CREATE MATERIALIZED VIEW items AS SELECT count(*) AS n FROM item;
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    with vk.open(tmp_path / "shop", create=True) as warehouse:
        warehouse.sql(TABLES)
    return tmp_path / "shop"


def timeless(text: str) -> str:
    return re.sub(r"in \d+\.\d+ s on .*", "in TIME", text)


# ---- sql


def test_a_session(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    viewkeeper("init", shop)
    done = viewkeeper("sql", shop, "-f", written(tmp_path / "tables.sql", TABLES))
    assert (done.code, done.err) == (0, "")
    assert timeless(done.out) == (
        "  item: 0 rows\ncommit 1 in TIME\n  item: +2 -0\ncommit 2 in TIME\n  items: 1 row\ncommit 3 in TIME\n"
    )
    assert viewkeeper("sql", shop, "SELECT * FROM item ORDER BY name DESC; SELECT * FROM items").out == (
        "id  name\n--  ----\n 2  pen\n 1  ink\n(2 rows)\nn\n-\n2\n(1 row)\n"
    )
    done = viewkeeper("sql", shop, "-", stdin=b"INSERT INTO item VALUES (3, 'cap');\nUPDATE item SET name = 'x' WHERE id > 1;")
    assert timeless(done.out) == "  item: +2 -1\n  items: +1 -1\ncommit 4 in TIME\n"
    assert viewkeeper("verify", shop).code == 0
    assert viewkeeper("sql", shop, "CREATE TABLE IF NOT EXISTS item (x INT)").out == "nothing changed: nothing new\n"
    assert viewkeeper("sql", shop, "DELETE FROM item WHERE id = 9").out == "nothing changed: everything is as wanted already\n"
    assert viewkeeper("sql", shop, "REFRESH MATERIALIZED VIEW items").out == "items is always up to date\n"


def test_json(shop: Path) -> None:
    done = viewkeeper(
        "sql", shop, "INSERT INTO item VALUES (3, 'ä'); SELECT * FROM item WHERE id > 1; SHOW CREATE TABLE item", "--json"
    )
    assert [json.loads(line) for line in done.out.splitlines()] == [
        {"commit": 4, "relation": "item", "op": "insert", "row": [3, "ä"]},
        {"commit": 4, "relation": "items", "op": "delete", "row": [2]},
        {"commit": 4, "relation": "items", "op": "insert", "row": [3]},
        {"id": 2, "name": "pen"},
        {"id": 3, "name": "ä"},
        {"message": "CREATE TABLE item (id BIGINT PRIMARY KEY, name STRING);"},
    ]


def test_dry_run(shop: Path) -> None:
    done = viewkeeper("sql", shop, "DELETE FROM item; SELECT * FROM items", "--dry-run")
    assert done.out == "  item: +0 -2\n  items: +1 -1\nnothing was changed (dry run)\nn\n-\n0\n(1 row)\n"
    assert viewkeeper("sql", shop, "SELECT * FROM items").out == "n\n-\n2\n(1 row)\n"


def test_what_is_told(shop: Path, tmp_path: Path) -> None:
    script = written(tmp_path / "wrong.sql", "SELECT 1 AS one;\nSELECT nme FROM item;\n")
    done = viewkeeper("sql", shop, "-f", script)
    assert (done.code, done.out, done.error) == (1, "", "SQL_COLUMN")
    assert f" --> {script}:2:8\n  |\n2 | SELECT nme FROM item;\n  |        ^^^\n" in done.err
    done = viewkeeper("sql", shop, "CREATE TABLE t (x INT); INSERT INTO t VALUES (1); DROP TABLE nothing; SELECT 1")
    assert (done.code, done.error) == (1, "SQL_TABLE")
    assert timeless(done.out) == "  t: 0 rows\ncommit 4 in TIME\n  t: +1 -0\ncommit 5 in TIME\n"
    assert viewkeeper("sql", shop, "-f", tmp_path / "missing.sql").error == "BAD_FILE"


@pytest.mark.parametrize("arguments", [[], ["SELECT 1", "-f", "x.sql"]])
def test_wrong_usage(shop: Path, arguments: list[str]) -> None:
    done = viewkeeper("sql", shop, *arguments)
    assert (done.code, done.out) == (2, "")


def test_explain_tells_inner_relations(shop: Path) -> None:
    viewkeeper("sql", shop, "CREATE MATERIALIZED VIEW last AS SELECT name FROM item WHERE id = (SELECT max(id) FROM item)")
    assert re.search(r"^last\?\d: ", viewkeeper("explain", shop, "last").out, re.MULTILINE)


# ---- shell


def test_statements_that_are_piped_in(shop: Path) -> None:
    text = "SELECT *\nFROM items;\n\n\\d item\nSELECT x FROM items;\n?item(x, _), x > 1\nSELECT ';\n' AS semicolon; -- done\nSELECT 7 AS n"
    done = viewkeeper("shell", shop, stdin=text.encode())
    assert done.code == 1
    assert done.error == "SQL_COLUMN"
    assert done.out == (
        "n\n-\n2\n(1 row)\n"
        "column  type    null  key\n------  ------  ----  -----------\nid      BIGINT  no    primary key\nname    STRING  yes\n(2 rows)\n"
        "x\n-\n2\n(1 row)\n"
        "semicolon\n---------\n;\\n\n(1 row)\n"
        "n\n-\n7\n(1 row)\n"
    )
    assert viewkeeper("shell", shop, stdin=b"\\q\nSELECT 1;").out == ""
    assert viewkeeper("shell", shop, stdin=b"\\h\n").out.startswith("Statements of SQL end with a semicolon")
    assert "items" in viewkeeper("shell", shop, stdin=b"\\d\n").out


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        ("SELECT 1", False), ("SELECT 1;", True), ("SELECT ';", False), ("SELECT ';'", False), ('SELECT ";" ;', True),
        ("SELECT 'it''s;", False), ("SELECT 'a\\';", False), ("SELECT `;", False), ("SELECT 1 /* ;", False), ("SELECT 1 /* ; */;", True),
        ("SELECT 1; -- and", True), ("-- ;", False), ("  ", True), ("\\d", True), ("?a(x)", True), ("SELECT 1; SELECT", False),
    ],
)  # fmt: skip
def test_where_a_statement_ends(text: str, finished: bool) -> None:
    assert is_finished(text) is finished


def test_completion(shop: Path) -> None:
    with vk.open(shop) as warehouse:
        assert completions(warehouse, "ite") == ["item", "items"]
        assert completions(warehouse, "NA") == ["name"]
        assert completions(warehouse, "sel") == ["select"]
        assert completions(warehouse, "SEL") == ["SELECT"]
        assert completions(warehouse, "") == []


def test_where_the_history_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert history_file() == tmp_path / "state" / "viewkeeper" / "history"
    assert (tmp_path / "state" / "viewkeeper" / "history").stat().st_mode & 0o077 == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(written(tmp_path / "file", "")))
    assert history_file() is None


class Terminal:
    """A shell on a pseudo-terminal."""

    def __init__(self, leader: int) -> None:
        self.leader, self.seen = leader, ""

    def type(self, text: str) -> None:
        os.write(self.leader, text.encode())

    def wait_for(self, text: str, seconds: float = 60) -> None:
        """Until the text is printed, after what was waited for before."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self.leader], [], [], 0.1)[0]:
                self.seen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", os.read(self.leader, 65536).decode(errors="replace"))
        self.seen = self.seen.partition(text)[2]


@contextmanager
def terminal(shop: Path, state: Path) -> Iterator[tuple[Terminal, subprocess.Popen[bytes]]]:
    leader, follower = pty.openpty()
    env = environment(TERM="xterm", XDG_STATE_HOME=str(state), PROMPT_TOOLKIT_NO_CPR="1")
    running = subprocess.Popen(
        command("shell", shop), stdin=follower, stdout=follower, stderr=follower, env=env, close_fds=True
    )
    os.close(follower)
    try:
        yield Terminal(leader), running
    finally:
        running.kill()
        running.wait()
        os.close(leader)


@pytest.mark.skipif(sys.platform != "linux", reason="terminals differ")
def test_a_terminal(shop: Path, tmp_path: Path) -> None:
    with terminal(shop, tmp_path / "state") as (screen, running):
        screen.wait_for("shop>")
        screen.type("SELECT n AS\r")
        screen.wait_for("..>")
        screen.type("many FROM items;\r")
        screen.wait_for("many\r\n----\r\n   2\r\n(1 row)")
        screen.wait_for("shop>")
        screen.type("SELECT nonsense\x03")
        screen.wait_for("shop>")
        screen.type("SELECT x FROM items;\r")
        screen.wait_for("error[SQL_COLUMN]")
        screen.wait_for("shop>")
        screen.type("\x04")
        assert running.wait(30) == 0
    assert "SELECT n AS" in (tmp_path / "state" / "viewkeeper" / "history").read_text()


# ---- NULL in tables


def test_null_is_told_from_the_empty_text(shop: Path) -> None:
    viewkeeper("sql", shop, "INSERT INTO item VALUES (7, NULL), (8, ''), (9, 'NULL')")
    told = "id  name\n--  ----\n 7  NULL\n 8\n 9  NULL\n(3 rows)\n"
    assert viewkeeper("sql", shop, "SELECT * FROM item WHERE id > 6").out == told
    assert viewkeeper("query", shop, "item(id, name), id > 6").out == told
    assert viewkeeper("query", shop, "item(id, name), id > 6", "--csv").out == "id,name\n7,\n8,\n9,NULL\n"
    assert viewkeeper("query", shop, "item(id, name), id = 7", "--json").out == '{"id": 7, "name": null}\n'


def test_null_is_dim_where_there_are_colours(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewkeeper.cli.output._has_colours", lambda: True)
    done = viewkeeper("sql", shop, "SELECT NULL AS number, 'NULL' AS text, 12 AS n")
    assert done.out == "number  text   n\n------  ----  --\n  \x1b[2mNULL\x1b[0m  NULL  12\n(1 row)\n"
