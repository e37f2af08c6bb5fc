"""Commands while a server holds the warehouse: they find it and print what they would print without it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.commands import Done, command, environment, viewkeeper, written
from tests.served import ServerProcess

import viewkeeper as vk
from viewkeeper.cli.watch import Watched
from viewkeeper.client import Change

PROGRAM = """
.type City <: symbol
.decl sale(id: number, city: City, day: date, amount: decimal(10,2)) key(id)
.decl total(city: City, amount: decimal(18,2))
total(c, s) :- sale(_, c, _, _), s = sum a : { sale(_, c, _, a) }.
.decl large(id: number)
large(i) :- sale(i, _, _, a), a > 100.
"""
CHANGES = [
    {"relation": "sale", "op": "upsert", "row": [1, "Oslo", "2024-02-29", "12.50"]},
    {"relation": "sale", "op": "insert", "row": [2, "Rome", "2024-03-01", 900]},
]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """Two equal warehouses; a server holds the second."""
    directory = tmp_path_factory.mktemp("places")
    with vk.open(directory / "local" / "shop", create=True) as shop:
        shop.define(PROGRAM)
    shutil.copytree(directory / "local", directory / "served")
    with ServerProcess(directory / "served" / "shop", "--heartbeat", "200ms"):
        yield directory / "local", directory / "served"


def both(places: tuple[Path, Path], *arguments: object, stdin: bytes = b"") -> Done:
    """The command in both places; says the same but for times."""
    done = []
    for place in places:
        os.chdir(place)
        done.append(viewkeeper(*arguments, stdin=stdin))
    local, served = (Done(one.code, timeless(one.out), timeless(one.err)) for one in done)
    assert served == local
    return local


def timeless(text: str) -> str:
    text = re.sub(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z", "TIME", re.sub(r"\d+\.\d+ m?s\b", "SECONDS", text))
    # The server is told which engine to take.
    return re.sub(r"\((asked for|.*, expected .*)\)", "(WHY)", text)


def test_the_same_with_a_server_and_without(places: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    changes = written(tmp_path / "changes.jsonl", "".join(json.dumps(one) + "\n" for one in CHANGES))
    assert both(places, "commit", "shop", changes, "--dry-run").out.endswith("(dry run)\n")
    assert both(places, "commit", "shop", changes, "--dry-run", "--json").out.count("\n") == 5
    assert "  total: +2 -0" in both(places, "commit", "shop", changes).out
    assert both(places, "commit", "shop", changes).out.startswith("nothing changed")
    assert both(places, "commit", "shop", "-", stdin=changes.read_bytes()).out.startswith("nothing changed")
    assert both(places, "show", "shop").code == 0
    assert ".decl total" in both(places, "show", "shop", "total").out
    for form in ([], ["--json"], ["--csv"], ["--as-of", "1"]):
        assert both(places, "query", "shop", "sale(i, c, d, a), a > 10", *form).code == 0
    assert both(places, "query", "shop", 'total("Oslo", _)').out == "yes\n"
    assert both(places, "query", "shop", 'total("Paris", _)', "--json").out == ""
    assert both(places, "query", "shop", "large(2)", "--json").out == '{"present": true}\n'
    assert "rule 1" in both(places, "why", "shop", "large(2)").out
    assert both(places, "why", "shop", "large(2)", "--json").code == 0
    assert both(places, "why", "shop", "large(1)").code == 0
    assert both(places, "log", "shop").out.count("commit ") == 2
    assert both(places, "log", "shop", "--since", "1", "--view", "total").code == 0
    assert both(places, "log", "shop", "--json").out.count("\n") == 5


def test_definitions_and_levels(places: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = b".decl small(id: number) small(i) :- sale(i, _, _, a), a < 100."
    assert "  small: " in both(places, "define", "shop", "-", stdin=program).out
    assert both(places, "define", "shop", "-", stdin=program).out == "nothing changed: nothing new\n"
    again = program.replace(b"<", b"<=")
    assert both(places, "define", "shop", "-", "--replace", "--strict", stdin=again).error == "STRICT"
    assert both(places, "level", "shop", "small").out.startswith("small is no integrity view")
    assert both(places, "level", "shop", "small", "warn").code == 0
    assert both(places, "level", "shop", "small").code == 0
    more = written(tmp_path / "more.jsonl", '{"relation": "sale", "op": "insert", "row": [3, "Bonn", "2024-03-01", 1]}\n')
    assert "warning: the integrity view small" in both(places, "commit", "shop", more).err
    assert both(places, "level", "shop", "small", "reject").code == 0
    worse = written(tmp_path / "worse.jsonl", '{"relation": "sale", "op": "insert", "row": [4, "Bonn", "2024-03-01", 2]}\n')
    refused = both(places, "commit", "shop", worse)
    assert (refused.code, refused.error) == (1, "INTEGRITY_VIOLATED")
    assert both(places, "level", "shop", "small", "none").code == 0
    assert both(places, "drop", "shop", "small").out == "dropped small\n"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["query", "shop", "nothing(x)"], "UNKNOWN_RELATION"),
        (["query", "shop", "total(x"], "UNCLOSED_BRACKET"),
        (["show", "shop", "nothing"], "UNKNOWN_RELATION"),
        (["why", "shop", "large(x)"], "NOT_CONSTANT"),
        (["log", "shop", "--view", "nothing"], "UNKNOWN_RELATION"),
        (["query", "shop", "large(x)", "--as-of", "99"], "UNKNOWN_COMMIT"),
        (["drop", "shop", "sale"], "DROP_DEPENDENTS"),
        (["commit", "shop", "missing.jsonl"], "BAD_FILE"),
    ],
)
def test_errors_are_the_same(
    places: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = both(places, *arguments)
    assert (done.code, done.error) == (1, code)


def test_a_bad_program_shows_its_place(places: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = written(tmp_path / "bad.dl", ".decl x(y: number)\nx(z) :- large(w).")
    done = both(places, "define", "shop", program)
    assert done.code == 1
    assert f"{program}:2:3" in done.err


def test_an_address_in_place_of_the_directory(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    shop = places[1] / "shop"
    holder = vk.Warehouse.holder(shop)
    assert holder is not None
    monkeypatch.setenv("VIEWKEEPER_TOKEN", (shop / "server.token").read_text().strip())
    wanted = viewkeeper("query", shop, "total(c, a)").out
    assert viewkeeper("query", holder["url"], "total(c, a)").out == wanted
    assert viewkeeper("query", "--url", holder["url"], "total(c, a)").out == wanted
    assert viewkeeper("query", "total(c, a)", f"--url={holder['url']}").out == wanted
    monkeypatch.delenv("VIEWKEEPER_TOKEN")
    done = viewkeeper("query", "--url", holder["url"], "total(c, a)")
    assert (done.code, done.error) == (1, "NO_TOKEN")
    done = viewkeeper("query", "--url", holder["url"], "total(c, a)", "--token", "vk_wrong")
    assert (done.code, done.error) == (1, "NO_TOKEN")
    assert viewkeeper("query", shop, "total(c, a)", "--engine", "embedded").code == 2


def test_a_token_that_cannot_be_read(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewkeeper.cli.place.TOKEN_FILE", "missing")
    done = viewkeeper("show", places[1] / "shop")
    assert (done.code, done.error) == (1, "TOKEN_UNREADABLE")


def test_a_server_with_a_certificate_of_its_own(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=shop"],
        check=True, capture_output=True, env={**os.environ, "OPENSSL_CONF": os.devnull, "RANDFILE": str(tmp_path / "rnd")},
    )  # fmt: skip
    with vk.open(tmp_path / "shop", create=True) as shop:
        shop.define(PROGRAM)
    with ServerProcess(tmp_path / "shop", "--certfile", str(cert), "--keyfile", str(key)) as server:
        assert viewkeeper("query", tmp_path / "shop", "large(x)").out == "x\n-\n(0 rows)\n"
        done = viewkeeper("query", server.url, "large(x)", "--token", server.token)
        assert (done.code, done.error) == (1, "UNREACHABLE")
        assert "certificate" in done.err


def test_nobody_at_the_address() -> None:
    done = viewkeeper("watch", "http://127.0.0.1:1", "v")
    assert (done.code, done.error) == (1, "UNREACHABLE")


def test_watch_needs_a_server(places: tuple[Path, Path]) -> None:
    done = viewkeeper("watch", places[0] / "shop", "total")
    assert (done.code, done.error) == (1, "NOT_SERVED")
    assert viewkeeper("watch", places[1] / "shop", "total", "city").code == 2
    assert viewkeeper("watch", places[1] / "shop", "totall").error == "UNKNOWN_RELATION"


@pytest.mark.parametrize("as_json", [False, True])
def test_watch(places: tuple[Path, Path], tmp_path: Path, as_json: bool) -> None:
    shop = places[1] / "shop"
    rows = [{"op": "upsert", "row": [10, "Bergen", "2024-02-29", 5]}, {"op": "delete", "row": [12, "Bergen", "2024-02-29", 1]}]
    text = "".join(json.dumps({"relation": "sale", **row}) + "\n" for row in rows)
    assert viewkeeper("commit", shop, written(tmp_path / "before.jsonl", text)).code == 0
    watching = subprocess.Popen(
        command("watch", shop, "total", "city=Bergen", "--snapshot", *["--json"] * as_json),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(NO_COLOR=None),
    )
    assert watching.stdout is not None
    try:
        first = [watching.stdout.readline() for _ in range(2)]
        changed = [(10, "Bergen", 7), (11, "Turin", 8), (12, "Bergen", 1)]
        text = "".join(
            json.dumps({"relation": "sale", "op": "upsert", "row": [n, c, "2024-02-29", a]}) + "\n" for n, c, a in changed
        )
        assert viewkeeper("commit", shop, written(tmp_path / "watched.jsonl", text)).code == 0
        lines = [watching.stdout.readline() for _ in range(2 if as_json else 3)]
    finally:
        watching.send_signal(signal.SIGINT)
        out, err = watching.communicate(timeout=60)
    assert (out, watching.returncode) == ("", 130)
    assert err == "following total; Ctrl-C ends it\n\n1 change: +1 -1\n"
    if as_json:
        number = json.loads(lines[0])["commit"]
        told = {"commit": number, "relation": "total"}
        assert json.loads(first[0]) == {"commit": number - 1, "relation": "total", "op": "snapshot"}
        assert json.loads(first[1]) == {"commit": number - 1, "relation": "total", "op": "insert", "row": ["Bergen", "5.00"]}
        assert [json.loads(line) for line in lines] == [
            {**told, "op": "delete", "row": ["Bergen", "5.00"]},
            {**told, "op": "insert", "row": ["Bergen", "8.00"]},
        ]
    else:
        assert re.fullmatch(r"commit \d+: snapshot, 1 row\n", first[0])
        assert first[1] == "  + Bergen  5.00\n"
        assert re.fullmatch(r"commit \d+: \+1 -1\n", lines[0])
        assert lines[1:] == ["  - Bergen  5.00\n", "  + Bergen  8.00\n"]


def test_what_is_watched_is_coloured_on_a_terminal() -> None:
    lines = list(Watched("v", False)._lines(Change(7, 5, ((1, "a\x1b"),), ((2, None),), level="warn")))
    assert [line.partition("m")[0] for line in lines] == ["\x1b[1", "\x1b[31", "\x1b[32"]
    plain = [re.sub(r"\x1b\[\d+m", "", line) for line in lines]
    assert plain == ["commits 5 to 7 warn: +1 -1", "  - 2  NULL", "  + 1  a\\x1b"]
