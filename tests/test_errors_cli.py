"""Bad input and bad circumstances: one clear error with its code, exit code 1, nothing half done, never a traceback."""

from __future__ import annotations

import gzip
import os
import resource
import select
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from unittest import mock

import pytest
from tests.children import ended, fork
from tests.commands import Done, environment, process, viewkeeper, written

import viewkeeper as vk
from viewkeeper.store.failures import translated

TEXT = ".decl a(x: number, s: symbol) .decl b(x: number) b(x) :- a(x, _)."


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    with vk.open(tmp_path / "shop", create=True) as warehouse:
        warehouse.define(TEXT)
        warehouse.load("a", [(n, f"row {n}") for n in range(500)])
    return tmp_path / "shop"


def refused(done: Done, code: str) -> str:
    """What was said about it."""
    assert (done.code, done.out, done.error) == (1, "", code), done
    return done.err


def unchanged(shop: Path) -> bool:
    with vk.open(shop) as warehouse:
        return [s.rows for s in warehouse.show()] == [500, 500] and all(v.right for v in warehouse.verify())


# ---- files


@pytest.mark.parametrize("command", ["run", "define"])
@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("missing.dl", None, "No such file"),
        (".", None, "Is a directory"),
        ("latin.dl", "// Zürich".encode("latin-1"), "not UTF-8"),
        ("zero.dl/", None, "No such file"),
    ],
)
def test_programs_that_cannot_be_read(
    shop: Path, tmp_path: Path, command: str, name: str, content: bytes | None, why: str
) -> None:
    path = tmp_path / name
    if content is not None:
        written(path, content)
    arguments = ["run", path] if command == "run" else ["define", shop, path]
    assert why in refused(viewkeeper(*arguments), "BAD_FILE")


def test_a_program_that_is_wrong(shop: Path, tmp_path: Path) -> None:
    program = written(tmp_path / "p.dl", ".decl c(x: number)\nc(x) :- a(x).\nc(y) :- a(x, _).\n")
    for arguments in (["define", shop, program], ["run", program]):
        said = refused(viewkeeper(*arguments), "UNKNOWN_RELATION" if arguments[0] == "run" else "ARITY")
        assert f"{program}:2:9" in said
        assert "UNBOUND_VARIABLE" in said
    assert unchanged(shop)
    assert refused(viewkeeper("query", shop, "a(x, "), "SYNTAX")
    assert refused(viewkeeper("query", shop, ""), "SYNTAX")
    assert refused(viewkeeper("define", shop, "-", stdin=b"\xff"), "BAD_FILE")


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.facts", None, "there is no "),
        ("a.facts/", None, "it is a directory"),
        ("a.facts.gz", gzip.compress(b"1\tx\n" * 1000, mtime=0)[:-10], "ended before"),
        ("a.facts.gz", b"1\tx\n", "gzip"),
        ("a.facts", b"1\tx\n2\n3\t\xff\n", "a, line 3, column s: '\\udcff' is not valid Unicode"),
    ],
)
def test_facts_that_cannot_be_read(tmp_path: Path, name: str, content: bytes | None, why: str) -> None:
    if content is not None:
        written(tmp_path / name, content)
    elif name.endswith("/"):
        (tmp_path / name).mkdir()
    written(tmp_path / "b.csv", "as it was")
    program = written(tmp_path / "p.dl", TEXT + " .input a .output b")
    done = viewkeeper("run", program, "-F", tmp_path, "-D", tmp_path)
    assert (done.code, done.out) == (1, "")
    assert done.error in ("MISSING_FACTS", "BAD_FILE", "BAD_ROWS")
    assert why in done.err
    assert (tmp_path / "b.csv").read_text() == "as it was"


def test_files_to_load_that_are_not_there(shop: Path, tmp_path: Path) -> None:
    assert refused(viewkeeper("load", shop, "a", tmp_path / "none.csv"), "BAD_FILE")
    assert refused(viewkeeper("load", shop, "a", "/dev/null", "b", tmp_path / "none.csv"), "BAD_FILE")
    assert refused(viewkeeper("load", shop, "b", "/dev/null"), "BASE_CONFLICT")
    assert refused(viewkeeper("load", shop, "c", "/dev/null"), "UNKNOWN_RELATION")
    assert unchanged(shop)


# ---- warehouses


COMMANDS: list[list[str]] = [
    ["define", "/dev/null"], ["drop", "b"], ["load", "a", "/dev/null"], ["query", "b(x)"], ["show"], ["verify"],
]  # fmt: skip


def everything(shop: Path) -> Iterator[tuple[str, Done]]:
    for name, *arguments in COMMANDS:
        yield name, viewkeeper(name, shop, *arguments)


@pytest.mark.parametrize(
    "make", [lambda p: None, lambda p: p.mkdir(), lambda p: p.touch(), lambda p: (p / "catalog.db").mkdir(parents=True)]
)
def test_what_is_no_warehouse(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "w")
    for _, done in everything(tmp_path / "w"):
        assert "viewkeeper init" in refused(done, "NOT_A_WAREHOUSE")


def test_init_where_something_is(tmp_path: Path, shop: Path) -> None:
    written(tmp_path / "file", "text")
    for path in (shop, tmp_path, tmp_path / "file"):
        assert refused(viewkeeper("init", path), "PATH_EXISTS")
    assert refused(viewkeeper("init", tmp_path / "file" / "shop"), "READ_ONLY")
    assert unchanged(shop)


def damage_all(catalog: Path) -> None:
    catalog.write_bytes(b"\x5a" * catalog.stat().st_size)


def damage_header(catalog: Path) -> None:
    content = bytearray(catalog.read_bytes())
    content[:100] = os.urandom(100)
    catalog.write_bytes(content)


def damage_body(catalog: Path) -> None:
    content = bytearray(catalog.read_bytes())
    content[4096:] = b"\x5a" * (len(content) - 4096)
    catalog.write_bytes(content)


def truncate(catalog: Path) -> None:
    os.truncate(catalog, 5000)


def empty(catalog: Path) -> None:
    os.truncate(catalog, 0)


def change(statement: str) -> Callable[[Path], None]:
    def damage(catalog: Path) -> None:
        with closing(sqlite3.connect(catalog, isolation_level=None)) as connection:
            connection.execute(statement)

    return damage


DAMAGES = [
    damage_all, damage_header, damage_body, truncate, empty, change('DROP TABLE "$meta"'), change('DROP TABLE "$relation"'),
    change('DELETE FROM "$meta"'), change("UPDATE \"$meta\" SET value = 'x'"), change("UPDATE \"$definition\" SET text = '('"),
    change("UPDATE \"$definition\" SET text = CAST(x'ff' AS TEXT)"), change('DELETE FROM "$relation"'),
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_catalog(shop: Path, damage: Callable[[Path], None]) -> None:
    damage(shop / "catalog.db")
    before = (shop / "catalog.db").read_bytes()
    for _, done in everything(shop):
        assert "nothing was changed" in refused(done, "CATALOG_DAMAGED")
    assert (shop / "catalog.db").read_bytes() == before


def test_a_table_that_is_gone(shop: Path) -> None:
    change("DROP TABLE b")(shop / "catalog.db")
    assert refused(viewkeeper("query", shop, "b(x)"), "CATALOG_DAMAGED")
    assert refused(viewkeeper("verify", shop), "CATALOG_DAMAGED")
    assert viewkeeper("query", shop, "a(1, s)").code == 0


def test_garbage_in_the_log(shop: Path) -> None:
    """SQLite leaves out what is no valid part of the log: the last checkpoint is a commit boundary."""
    written(shop / "catalog.db-wal", os.urandom(9000))
    assert unchanged(shop)


def test_a_newer_format(shop: Path) -> None:
    change("UPDATE \"$meta\" SET value = '99'")(shop / "catalog.db")
    for _, done in everything(shop):
        assert "format 99" in refused(done, "CATALOG_VERSION")


# ---- circumstances


def as_nobody(work: Callable[[], object]) -> int:
    """Does the work without the rights of root, which may do everything."""

    def powerless() -> None:
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        work()

    return ended(fork(powerless))


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that others may look into, unlike ``tmp_path``."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    for directory in [path, *(p for p in path.rglob("*") if p.is_dir())]:
        directory.chmod(0o755)
    shutil.rmtree(path)


def protect(path: Path) -> None:
    for file in [*path.rglob("*"), path]:
        file.chmod(file.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))


def test_a_directory_that_cannot_be_written(public: Path) -> None:
    shop = public / "shop"
    with vk.open(shop, create=True) as warehouse:
        warehouse.define(TEXT)
        warehouse.load("a", [(1, "x")])
    protect(public)

    def work() -> None:
        for name, done in everything(shop):
            if name in ("query", "show", "verify"):
                assert done.code == 0, done
            else:
                assert "Nothing was changed" in refused(done, "READ_ONLY")
        assert viewkeeper("query", shop, "b(x)", "--csv").out == "x\n1\n"
        assert refused(viewkeeper("init", public / "new"), "READ_ONLY")
        assert refused(viewkeeper("query", shop, "b(x)", "--arrow", public / "b.arrow"), "UNWRITABLE_FILE")
        assert refused(viewkeeper("run", "-", "-D", public, stdin=b".decl a() .output a"), "UNWRITABLE_FILE")

    assert as_nobody(work) == 0


def test_files_that_may_not_be_read(public: Path) -> None:
    shop, facts, program = public / "shop", written(public / "a.facts", "1\tx\n"), written(public / "p.dl", TEXT + " .input a")
    with vk.open(shop, create=True) as warehouse:
        warehouse.define(TEXT)
    for file in (facts, program, shop):
        file.chmod(0)
    written(public / "q.dl", TEXT + " .input a").chmod(0o444)

    def work() -> None:
        assert refused(viewkeeper("run", program), "BAD_FILE")
        assert "permission denied" in refused(viewkeeper("run", public / "q.dl", "-F", public), "BAD_FILE")
        for _, done in everything(shop):
            assert "Permission denied" in refused(done, "UNREADABLE")

    assert as_nobody(work) == 0


def test_a_reader_that_cannot_write_notices_changes(public: Path) -> None:
    """Without the file that readers and writers share it cannot be sure of what it read."""
    shop = public / "shop"
    with vk.open(shop, create=True) as warehouse:
        warehouse.define(TEXT)
        warehouse.load("a", [(1, "x")])
    protect(public)
    ask, answer = os.pipe(), os.pipe()

    def work() -> None:
        with vk.open(shop) as warehouse:
            assert len(warehouse.query("b(x)")) == 1

            def disturb(progress: object) -> None:
                os.write(ask[1], b"x")
                os.read(answer[0], 1)

            with pytest.raises(vk.StoreError, match="CHANGED_MEANWHILE"):
                warehouse.query("b(x)", report=disturb)

    pid = fork(lambda: os._exit(as_nobody(work)))
    assert select.select([ask[0]], [], [], 20)[0]
    for directory in (public, shop):
        directory.chmod(0o755)
    for file in shop.iterdir():
        file.chmod(0o644)
    with vk.open(shop) as warehouse:
        warehouse.load("a", [(2, "y")])
    os.write(answer[1], b"xxxxxxxx")
    assert ended(pid) == 0
    for end in (*ask, *answer):
        os.close(end)


def limited(work: Callable[[], object], size: int) -> int:
    """Does the work where no file may grow beyond a size."""

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        work()

    return ended(fork(small))


def test_no_room_for_a_load(shop: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "a.facts", "".join(f"{n}\t{'x' * 100}\n" for n in range(1000, 60000)))

    def work() -> None:
        assert "Nothing was changed" in refused(viewkeeper("load", shop, "a", file), "DISK_FAILED")

    for size in (60_000, 500_000, 3_000_000):
        assert limited(work, size) == 0
        assert unchanged(shop)
    assert viewkeeper("load", shop, "a", file).code == 0


def test_a_full_disk(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite is told that the disk has no more than a hundred pages."""
    from viewkeeper.store import catalog

    connect = catalog._connection

    def small(uri: str) -> sqlite3.Connection:
        connection = connect(uri)
        connection.execute("PRAGMA max_page_count=100")
        return connection

    monkeypatch.setattr(catalog, "_connection", small)
    file = written(tmp_path / "a.facts", "".join(f"{n}\t{'x' * 100}\n" for n in range(1000, 20000)))
    assert "Nothing was changed" in refused(viewkeeper("load", shop, "a", file), "DISK_FULL")
    assert unchanged(shop)
    wide = ".decl w(x: number, y: number) w(x, y) :- a(x, _), a(y, _)."
    assert refused(viewkeeper("define", shop, "-", stdin=wide.encode()), "DISK_FULL")
    assert unchanged(shop)


FULL = """
import subprocess, sys
from pathlib import Path
from tests.commands import viewkeeper
import viewkeeper as vk

place = Path(sys.argv[1])
if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place]).returncode:
    sys.exit(77)
with vk.open(place / "shop", create=True) as shop:
    shop.define(".decl a(x: number)")
with (place / "fill").open("wb", buffering=0) as file:
    try:
        while file.write(bytes(4096)):
            pass
    except OSError:
        pass
insert = b'{"relation": "a", "op": "insert", "row": [1]}'
assert viewkeeper("commit", place / "shop", "-", stdin=insert).error == "DISK_FULL"
assert viewkeeper("query", place / "shop", "a(x)").error == "DISK_FULL"
(place / "fill").unlink()
assert viewkeeper("commit", place / "shop", "-", stdin=insert).code == 0
"""


@pytest.mark.skipif(shutil.which("unshare") is None, reason="mounting takes a namespace of its own")
def test_a_disk_that_others_have_filled(tmp_path: Path) -> None:
    """Not even the file that users of SQLite share can be made."""
    done = subprocess.run(
        ["unshare", "-rm", sys.executable, "-c", FULL, tmp_path], capture_output=True, cwd=Path(__file__).parents[1]
    )
    if done.returncode == 77 or done.stderr.startswith(b"unshare: "):
        pytest.skip("nothing can be mounted here")
    assert done.returncode == 0, done.stderr.decode()


def test_files_that_cannot_grow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """SQLite does not say why; a full disk is seen by its free space."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_IOERR_SHMSIZE, "SQLITE_IOERR_SHMSIZE"
    for place, code in ((tmp_path, "DISK_FAILED"), (tmp_path / "gone", "DISK_FAILED"), (tmp_path, "DISK_FULL")):
        if code == "DISK_FULL":
            monkeypatch.setattr(shutil, "disk_usage", lambda path: mock.Mock(free=0))
        with pytest.raises(vk.StoreError, match=rf"^error\[{code}\]"), translated(place):
            raise error


def test_no_room_for_anything_else(shop: Path, tmp_path: Path) -> None:
    written(tmp_path / "b.csv", "as it was")
    written(tmp_path / "a.facts", "".join(f"{n}\tx\n" for n in range(100_000, 130_000)))
    written(tmp_path / "bad.facts", "x\n" * 10_000)
    program = written(tmp_path / "p.dl", TEXT + " .input a .output b")

    def work() -> None:
        assert refused(viewkeeper("run", program, "-F", tmp_path, "-D", tmp_path), "UNWRITABLE_FILE")
        assert refused(viewkeeper("load", shop, "a", tmp_path / "bad.facts"), "UNWRITABLE_FILE")
        assert refused(viewkeeper("query", shop, "a(x, s), y = range(0, 50)", "--arrow", tmp_path / "a"), "UNWRITABLE_FILE")

    assert limited(work, 40_000) == 0
    assert limited(lambda: refused(viewkeeper("init", tmp_path / "new"), "DISK_FAILED"), 10_000) == 0
    assert (tmp_path / "b.csv").read_text() == "as it was"
    assert unchanged(shop)
    assert not list(tmp_path.glob("**/*.partial"))
    assert viewkeeper("init", tmp_path / "new").code == 0


# ---- engines


def test_an_unknown_engine(shop: Path, tmp_path: Path) -> None:
    program = written(tmp_path / "p.dl", TEXT)
    for arguments in (["run", program], ["define", shop, program], ["load", shop, "a", "/dev/null"], ["query", shop, "b(x)"],
                      ["verify", shop]):  # fmt: skip
        said = refused(viewkeeper(*arguments, "--engine", "duck"), "UNKNOWN_ENGINE")
        assert "auto, embedded, spark" in said


@pytest.mark.parametrize(
    ("java", "why"),
    [
        (None, "none was found"),
        ("echo 'openjdk version \"11.0.2\" 2019-01-15' >&2", "is version 11"),
        ("echo 'java version \"1.8.0_202\"' >&2", "is version 8"),
        ("echo something else", "does not say its version"),
        ("exit 1", "does not say its version"),
    ],
)
def test_spark_without_a_java_that_fits(shop: Path, tmp_path: Path, java: str | None, why: str) -> None:
    bin_directory = tmp_path / "bin"
    bin_directory.mkdir()
    if java is not None:
        written(bin_directory / "java", f"#!/bin/sh\n{java}\n").chmod(0o755)
    env = environment(PATH=str(bin_directory), JAVA_HOME=None)
    done = process("verify", shop, "--engine", "spark", env=env)
    said = refused(done, "JAVA_MISSING")
    assert "Spark needs Java 17 or newer" in said
    assert why in said
    assert len(said.splitlines()) == 2
    if java is None:
        assert process("verify", shop, "--engine", "embedded", env=env).code == 0
        assert process("run", written(tmp_path / "p.dl", TEXT), "-e", "spark", env=env).error == "JAVA_MISSING"


def test_without_pyspark(shop: Path, tmp_path: Path) -> None:
    written(tmp_path / "hidden" / "pyspark.py", "raise ImportError('hidden')")
    env = environment(PYTHONPATH=str(tmp_path / "hidden"))
    assert "pip install" in refused(process("verify", shop, "--engine", "spark", env=env), "SPARK_MISSING")
    assert process("verify", shop, env=env).code == 0


# ---- bugs


def test_a_bug_is_told_without_a_traceback(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("viewkeeper.warehouse.parse_query", broken)
    done = viewkeeper("query", shop, "b(x)")
    assert (done.code, done.error) == (70, "INTERNAL")
    assert "ZeroDivisionError: oops" in done.err
    monkeypatch.setenv("VIEWKEEPER_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        viewkeeper("query", shop, "b(x)")
