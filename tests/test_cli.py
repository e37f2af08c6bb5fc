"""The command line as people use it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from tests.commands import command, environment, process, viewkeeper, written

import viewkeeper as vk
from viewkeeper.cli.app import app

COMMANDS = [registered.callback.__name__ for registered in app.registered_commands if registered.callback]

PROGRAM = """
.decl edge(from: symbol, to: symbol)
.input edge
.decl reach(from: symbol, to: symbol)
.output reach
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
.printsize reach
"""

# Ten million steps of a recursion: much longer than any test waits.
ENDLESS = """
.decl n(x: number)
.input n
.output n
n(x + 1) :- n(x), x < 10000000.
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A warehouse with a graph."""
    with vk.open(tmp_path / "shop", create=True) as warehouse:
        warehouse.define(PROGRAM)
        warehouse.load("edge", [("a", "b"), ("b", "c")])
    return tmp_path / "shop"


# ---- help


def test_without_arguments_it_explains_itself() -> None:
    done = viewkeeper()
    assert (done.code, done.err) == (0, "")
    assert done.out == viewkeeper("--help").out == viewkeeper("-h").out
    for name in COMMANDS:
        assert re.search(rf"^  {name} +\w", done.out, re.MULTILINE), name
    assert "…" not in done.out
    assert "..." not in done.out.replace("[ARGS]...", "")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    done = viewkeeper(name, "--help")
    assert (done.code, done.err) == (0, "")
    assert f"viewkeeper {name} " in done.out
    assert re.search(r"Examples?:\n", done.out)
    assert "[[" not in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_version() -> None:
    assert viewkeeper("--version").out == f"viewkeeper {vk.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [["frobnicate"], ["init"], ["--wrong"], ["query", "shop"], ["load", "shop", "edge"], ["load", "shop", "a", "b", "c"],
     ["load", "shop", "a", "/dev/null", "a", "/dev/null"], ["query", "shop", "a(x)", "--json", "--csv"]],
)  # fmt: skip
def test_wrong_usage(arguments: list[str]) -> None:
    done = viewkeeper(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "Usage: viewkeeper" in done.err
    assert "Error: " in done.err


def test_help_is_quick() -> None:
    """What makes a start slow is not imported for it."""
    code = "import sys; from viewkeeper.cli.app import app; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pyarrow", "pandas", "pyspark", "lark", "rich.progress", "sqlglot", "prompt_toolkit"} & set(done.stdout.split())


# ---- run


@pytest.mark.parametrize("engine", ["embedded", "auto"])
def test_run(tmp_path: Path, engine: str) -> None:
    program = written(tmp_path / "program.dl", PROGRAM)
    written(tmp_path / "facts" / "edge.facts", "a\tb\nb\tc\n")
    done = viewkeeper("run", program, "-F", tmp_path / "facts", "-D", tmp_path / "new" / "out", "--engine", engine)
    assert (done.code, done.out, done.err) == (0, "reach\t3\n", "")
    assert [p.name for p in (tmp_path / "new" / "out").iterdir()] == ["reach.csv"]
    assert (tmp_path / "new" / "out" / "reach.csv").read_text() == "a\tb\na\tc\nb\tc\n"


def test_run_from_and_to_the_standard_streams(tmp_path: Path) -> None:
    written(tmp_path / "edge.facts", "ä\tb\n")
    done = viewkeeper("run", "-", "-F", tmp_path, "-D", "-", stdin=PROGRAM.encode())
    assert done.out == f"{'-' * 15}\nreach\n{'=' * 15}\nä\tb\n{'=' * 15}\nreach\t1\n"


def test_run_in_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "edge.facts", "a\tb\n")
    assert viewkeeper("run", written(tmp_path / "p.dl", PROGRAM)).code == 0
    assert (tmp_path / "reach.csv").read_text() == "a\tb\n"


def test_run_writes_all_files_or_none(tmp_path: Path) -> None:
    (tmp_path / "b.csv").mkdir()
    written(tmp_path / "a.csv", "as it was")
    text = ".decl a(x: number) .output a a(1). .decl b(x: number) .output b b(1). .printsize a"
    done = viewkeeper("run", written(tmp_path / "p.dl", text), "-D", tmp_path)
    assert (done.code, done.error, done.out) == (1, "UNWRITABLE_FILE", "")
    assert (tmp_path / "a.csv").read_text() == "as it was"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "b.csv", "p.dl"]


# ---- warehouses


def test_a_session(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    assert viewkeeper("init", shop).out == f"created {shop}\n"
    assert viewkeeper("show", shop).out == "no relations are defined yet\n"
    assert viewkeeper("verify", shop).out == "no views to verify\n"
    done = viewkeeper("define", shop, written(tmp_path / "p.dl", PROGRAM.replace("\n", "\r\n")))
    assert done.out.splitlines()[:2] == ["  edge: 0 rows", "  reach: 0 rows"]
    assert done.out.splitlines()[2].startswith("commit 1 in ")
    assert viewkeeper("define", shop, "-", stdin=PROGRAM.encode()).out == "nothing changed: nothing new\n"
    done = viewkeeper("load", shop, "edge", written(tmp_path / "e.csv", "from,to\na,b\nb,c\n"), "--engine", "embedded")
    assert done.out.splitlines()[:2] == ["  edge: 2 rows, 2 new", "  reach: 3 rows"]
    assert done.out.splitlines()[2].endswith(" on embedded (asked for)")
    assert viewkeeper("verify", shop).out == "  reach: 3 rows, as recomputed\n"
    assert viewkeeper("drop", shop, "reach").out == "dropped reach\n"
    assert viewkeeper("show", shop, "edge").out.splitlines()[2:] == [
        "edge      base     2  from: symbol, to: symbol  catalog", "", ".decl edge(from: symbol, to: symbol)",
    ]  # fmt: skip


def test_load_several_files(shop: Path, tmp_path: Path) -> None:
    viewkeeper("define", shop, "-", stdin=b".decl node(x: symbol)")
    files = written(tmp_path / "e.txt", "c|d\n"), written(tmp_path / "n.txt", "a\n")
    done = viewkeeper("load", shop, "edge", files[0], "node", files[1], "--delimiter", "|")
    assert done.out.splitlines()[:3] == ["  edge: 3 rows, 1 new", "  node: 1 row, 1 new", "  reach: 6 rows"]
    tab = viewkeeper("load", shop, "edge", written(tmp_path / "t.csv", "to\tfrom\nx\ty\n"), "--delimiter", "\\t", "--header")
    assert tab.out.startswith("  edge: 4 rows, 1 new")


def test_bad_rows(shop: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "e.facts", "x\ty\nz\n" + "\u001b[2Jbad\n" * 30)
    done = viewkeeper("load", shop, "edge", file, "--rejects", tmp_path / "bad.csv")
    assert (done.code, done.error, done.out) == (1, "BAD_ROWS", "")
    assert "31 of 32 rows do not fit" in done.err
    assert done.err.count(" has 1 field, not 2") == 20
    assert "\u001b" not in done.err
    assert f"All of them are in {tmp_path / 'bad.csv'}." in done.err
    assert len((tmp_path / "bad.csv").read_text().splitlines()) == 32
    done = viewkeeper("load", shop, "edge", file, "--skip-bad", "--rejects", tmp_path / "bad.csv")
    assert (done.code, done.out.splitlines()[0]) == (0, "  edge: 3 rows, 1 new")
    assert f"31 rows left out; all of them are in {tmp_path / 'bad.csv'}\n" in done.err


EVERY = """
.decl v(n: number, f: float, s: symbol?, b: bool, d: date, t: timestamp, m: decimal(5,2), x: bytes)
v(1, 1.5, "ä,\\"", true, date("2024-02-29"), timestamp("2024-02-29T12:00:00Z"), decimal("1.50"), bytes("00ff")).
v(-20, 1.0e100, null, false, date("0001-01-01"), timestamp("0001-01-01"), decimal("0.00"), bytes("")).
.decl w(s: symbol) w("表\\n\\t"). w("e").
"""


@pytest.fixture
def every(tmp_path: Path) -> Path:
    viewkeeper("init", tmp_path / "every")
    assert viewkeeper("define", tmp_path / "every", "-", stdin=EVERY.encode()).code == 0
    return tmp_path / "every"


def test_answers_as_a_table(every: Path) -> None:
    assert viewkeeper("query", every, "v(n, f, s, b, d, t, m, x)").out.splitlines() == [
        "  n       f  s     b      d           t                               m  x",
        "---  ------  ----  -----  ----------  ---------------------------  ----  ----",
        "-20  1e+100  NULL  false  0001-01-01  0001-01-01T00:00:00.000000Z  0.00",
        '  1     1.5  ä,"   true   2024-02-29  2024-02-29T12:00:00.000000Z  1.50  00ff',
        "(2 rows)",
    ]  # fmt: skip
    assert viewkeeper("query", every, "w(s), n = strlen(s)").out.splitlines() == [
        "s       n", "------  -", "e       1", "表\\n\\t  3", "(2 rows)",
    ]  # fmt: skip


def test_answers_as_json_and_csv(every: Path) -> None:
    lines = viewkeeper("query", every, "v(n, f, s, b, d, t, m, x)", "--json").out.splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "n": -20,
            "f": 1e100,
            "s": None,
            "b": False,
            "d": "0001-01-01",
            "t": "0001-01-01T00:00:00.000000Z",
            "m": "0.00",
            "x": "",
        },
        {
            "n": 1,
            "f": 1.5,
            "s": 'ä,"',
            "b": True,
            "d": "2024-02-29",
            "t": "2024-02-29T12:00:00.000000Z",
            "m": "1.50",
            "x": "00ff",
        },
    ]
    assert viewkeeper("query", every, "v(n, f, s, b, _, _, m, x)", "--csv").out.splitlines() == [
        "n,f,s,b,m,x", "-20,1e+100,,false,0.00,", '1,1.5,"ä,""",true,1.50,00ff',
    ]  # fmt: skip


def test_answers_as_arrow(every: Path, tmp_path: Path) -> None:
    done = viewkeeper("query", every, "v(n, _, s, _, _, _, m, _)", "--arrow", tmp_path / "a.arrow")
    assert (done.code, done.out, done.err) == (0, "", f"2 rows written to {tmp_path / 'a.arrow'}\n")
    with pa.ipc.open_file(tmp_path / "a.arrow") as reader:
        assert reader.read_all().column("n").to_pylist() == [-20, 1]
    assert viewkeeper("query", every, "v(n, _, s, _, _, _, m, _)", "--arrow", tmp_path).error == "UNWRITABLE_FILE"


def test_yes_or_no(shop: Path, tmp_path: Path) -> None:
    for query, told, rows in (('reach("a", "c")', "yes", ["true"]), ('reach("c", "a")', "no", [])):
        assert viewkeeper("query", shop, query).out == f"{told}\n"
        assert viewkeeper("query", shop, query, "--csv").out.splitlines() == ["present", *rows]
        assert viewkeeper("query", shop, query, "--json").out == "".join(f'{{"present": {row}}}\n' for row in rows)
        assert viewkeeper("query", shop, query, "--arrow", tmp_path / "a").err.startswith(f"{len(rows)} row")


def test_verify_tells_what_differs(shop: Path) -> None:
    with closing(sqlite3.connect(shop / "catalog.db", isolation_level=None)) as catalog:
        catalog.execute("UPDATE reach SET \"to\" = 'z' WHERE \"from\" = 'b'")
    done = viewkeeper("verify", shop)
    assert (done.code, done.error) == (1, "VERIFY_FAILED")
    assert done.out.splitlines() == ["  reach: differs: 1 missing, 1 too many", "    + ('b', 'c')", "    - ('b', 'z')"]


# ---- processes


def test_as_a_process(shop: Path) -> None:
    """Text is UTF-8, whatever the terminal says."""
    with vk.open(shop) as warehouse:
        warehouse.load("edge", [("c", "ä表")])
    env = environment(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", PYTHONIOENCODING="latin-1")
    done = process("query", shop, 'edge("c", y)', "--csv", env=env)
    assert (done.code, done.out) == (0, "y\nä表\n")
    done = process("query", shop, "edge(y, 'ä')", env=env)
    assert (done.code, done.error) == (1, "SYNTAX")


def test_a_reader_that_has_seen_enough(shop: Path, tmp_path: Path) -> None:
    with vk.open(shop) as warehouse:
        warehouse.load("edge", ((str(n), "x" * 100) for n in range(5000)))
    for query in ("edge(x, y)", 'edge("a", y)'):
        running = started("query", shop, query)
        assert running.stdout is not None
        running.stdout.close()
        assert running.stderr is not None
        assert (running.stderr.read(), running.wait()) == (b"", 141)
        running.stderr.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_output_that_cannot_be_written(shop: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command("query", shop, "edge(x, y)"), stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr.decode().startswith("error[UNWRITABLE_FILE]: standard output cannot be written: No space left")


def started(*arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def interrupted(running: subprocess.Popen[bytes]) -> float:
    """Ctrl-C; how long it took to end."""
    running.send_signal(signal.SIGINT)
    start = time.monotonic()
    try:
        running.wait(timeout=30)
    except subprocess.TimeoutExpired:
        running.kill()
        running.communicate()
        raise
    return time.monotonic() - start


def test_ctrl_c_ends_a_run(tmp_path: Path) -> None:
    written(tmp_path / "n.csv", "as it was")
    program = written(tmp_path / "p.dl", ENDLESS)
    os.mkfifo(tmp_path / "n.facts")
    running = started("run", program, "-F", tmp_path, "-D", tmp_path)
    written(tmp_path / "n.facts", "0\n")  # waits until somebody reads it
    time.sleep(1)
    seconds = interrupted(running)
    out, err = running.communicate()
    assert (running.returncode, out, err) == (130, b"", b"interrupted; nothing was changed\n")
    assert seconds < 3
    assert (tmp_path / "n.csv").read_text() == "as it was"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["n.csv", "n.facts", "p.dl"]


@pytest.mark.parametrize(
    "view",
    [
        # many short statements, one long statement
        "far(x + 1) :- far(x), x < 100000000. far(x) :- start(x).",
        "far(x) :- start(x), a = range(0, 30000), b = range(0, 30000), a + b < 0.",
    ],
)
def test_ctrl_c_ends_a_load(tmp_path: Path, view: str) -> None:
    with vk.open(tmp_path / "shop", create=True) as shop:
        shop.define(f".decl start(x: number) .decl far(x: number) {view}")
    file = written(tmp_path / "start.facts", "1\n2\n")
    running = subprocess.Popen(
        command("load", tmp_path / "shop", "start", file), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 30
    while vk.Warehouse.holder(tmp_path / "shop") is None and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)
    seconds = interrupted(running)
    out, err = running.communicate()
    assert (running.returncode, out, err) == (130, b"", b"interrupted; nothing was changed\n")
    assert seconds < 3
    with vk.open(tmp_path / "shop") as shop:
        assert [s.rows for s in shop.show()] == [0, 0]


def test_ctrl_c_before_the_command_starts(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("typer.core.TyperGroup.parse_args", interrupt)
    done = viewkeeper("show", shop)
    assert (done.code, done.err) == (130, "interrupted; nothing was changed\n")


@pytest.mark.parametrize(("statement", "late"), [("BEGIN IMMEDIATE", False), ("COMMIT", True)])
def test_ctrl_c_says_truly_whether_something_was_changed(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, late: bool
) -> None:
    class Interrupted(sqlite3.Connection):
        def execute(self, sql: str, *parameters: object) -> sqlite3.Cursor:
            done = super().execute(sql, *parameters)
            if sql == statement:
                raise KeyboardInterrupt
            return done

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Interrupted))
    done = viewkeeper("load", shop, "edge", written(tmp_path / "e.facts", "x\ty\n"))
    monkeypatch.undo()
    told = "interrupted, but the change was made already\n" if late else "interrupted; nothing was changed\n"
    assert (done.code, done.out, done.err) == (130, "", told)
    assert viewkeeper("query", shop, 'reach("x", "y")').out == ("yes\n" if late else "no\n")


# ---- progress


def on_a_terminal(*arguments: object) -> str:
    """What the command shows on a terminal, until it is stopped after some seconds."""
    leader, follower = pty.openpty()
    env = environment(TERM="xterm", COLUMNS="120", NO_COLOR=None)
    running = subprocess.Popen(command(*arguments), stdin=follower, stdout=follower, stderr=follower, env=env)
    os.close(follower)
    shown = b""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not re.search(rb"iteration [1-9]\d*, [1-9][\d,]* rows", shown):
        shown += os.read(leader, 4096)
    running.send_signal(signal.SIGINT)
    try:
        while part := os.read(leader, 4096):
            shown += part
    except OSError:  # the other end is closed
        pass
    os.close(leader)
    assert running.wait(timeout=20) == 130
    return shown.decode()


def test_progress_is_shown_on_a_terminal(tmp_path: Path) -> None:
    written(tmp_path / "n.facts", "0\n")
    shown = on_a_terminal("run", written(tmp_path / "p.dl", ENDLESS), "-F", tmp_path, "-D", tmp_path)
    assert re.search(r"stratum 1/1 n: iteration \d+, [\d,]+ rows", shown)
    assert "interrupted; nothing was changed" in shown
