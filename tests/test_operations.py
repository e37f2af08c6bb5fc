"""Files of operations: what is wrong is told with its line, and nothing is changed."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.commands import viewkeeper
from tests.playing import everything, told

import viewkeeper as vk
from viewkeeper.client.calls import operations_of
from viewkeeper.warehouse import Warehouse

TEXT = """
.decl user(id: number, name: symbol, born: date?, paid: decimal(18,2)?) key(id)
.decl plain(x: float)
.decl view(x: float)
view(x) :- plain(x).
"""


def op(relation: str, kind: str, row: object) -> str:
    return json.dumps({"relation": relation, "op": kind, "row": row}) + "\n"


GOOD = op("plain", "insert", [1.5])


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Warehouse]:
    with vk.open(tmp_path / "shop", create=True) as warehouse:
        warehouse.define(TEXT)
        warehouse.commit({"plain": [(0.5,)], "user": [(1, "ann", None, None)]})
        yield warehouse


BAD: dict[str, tuple[str, str, str]] = {
    "no JSON": (GOOD + "{]\n", "BAD_OPERATION", "line 2: is not JSON: "),
    "half a line": (GOOD + '\n{"relation": "pl', "BAD_OPERATION", "line 3: is not JSON: "),
    "deep": (GOOD + "[" * 100_000 + "\n", "BAD_OPERATION", "line 2: is not JSON: "),
    "no object": (GOOD + "[1]\n", "BAD_OPERATION", "line 2: is not an object"),
    "unknown operation": ("\n" + op("plain", "put", [1.0]), "BAD_OPERATION", "line 2: 'put' is no operation"),
    "operation of another type": (op("plain", [], [1.0]), "BAD_OPERATION", "line 1: [] is no operation"),  # type: ignore[arg-type]
    "no row": ('{"relation": "plain", "op": "insert"}\n', "BAD_OPERATION", "line 1: lacks 'row'"),
    "no relation": ('{"row": [1], "op": "insert"}\n', "BAD_OPERATION", "line 1: lacks 'relation'"),
    "a field too many": (GOOD[:-2] + ', "at": 1}\n', "BAD_OPERATION", "line 1: has an unknown field 'at'"),
    "relation of another type": (op(5, "insert", [1]), "BAD_OPERATION", "line 1: its relation is not a text"),  # type: ignore[arg-type]
    "row of another type": (op("plain", "insert", "x"), "BAD_OPERATION", "line 1: its row is neither an array nor an object"),
    "two bad lines": ("1\n" + GOOD + "2\n", "BAD_OPERATION", "line 3: is not an object"),
    "unknown relation": (GOOD + op("plane", "insert", [1.0]), "UNKNOWN_RELATION", 'Did you mean "plain"?'),
    "a view": (GOOD + op("view", "delete", [1.5]), "BASE_CONFLICT", 'relation "view" is a view'),
    "no key": (GOOD + op("plain", "upsert", [1.5]), "NO_KEY", 'relation "plain" has no key'),
    "too few values": (GOOD + GOOD + "\n" + op("user", "insert", [1]), "BAD_ROWS", "user, line 4: '[1]' has 1 field, not 4"),
    "a wrong type": (GOOD + op("plain", "delete", ["x"]), "BAD_ROWS", "plain, line 2, column x: 'x' is of type str, not float"),
    "a wrong type further on": (GOOD + GOOD + op("plain", "insert", [True]), "BAD_ROWS", "plain, line 3, column x: "),
    "a bad date": (op("user", "insert", [2, "b", "2024-02-30", None]), "BAD_ROWS", "user, line 1, column born: "),
    "too many digits": (op("user", "insert", [2, "b", None, 1.005]), "BAD_ROWS", "user, line 1, column paid: "),
    "an unknown column": (op("plain", "insert", {"y": 1.0}), "BAD_ROWS", "plain, line 1, column y: "),
    "two rows of one key": (op("user", "insert", [1, "eve", None, None]), "KEY_VIOLATION", "user(1, 'eve', NULL, NULL)"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(shop: Warehouse, tmp_path: Path, name: str) -> None:
    text, code, why = BAD[name]
    file = tmp_path / "ops.jsonl"
    file.write_text(text, encoding="utf-8")
    before = everything(shop)
    for dry_run in (True, False):
        with pytest.raises(vk.ViewkeeperError, match=rf"^error\[{code}\]") as caught:
            shop.commit_file(file, dry_run=dry_run)
        assert why in str(caught.value)
    assert everything(shop) == before
    assert len(shop.log()) == 2


@pytest.mark.parametrize("text", ["", "\n", "\n  \n\n"])
def test_a_file_without_operations(shop: Warehouse, tmp_path: Path, text: str) -> None:
    (tmp_path / "ops.jsonl").write_text(text)
    assert shop.commit_file(tmp_path / "ops.jsonl").number is None


def test_operations_in_order(shop: Warehouse, tmp_path: Path) -> None:
    text = (
        op("plain", "insert", [1.5])
        + op("plain", "delete", {"x": 0.5})
        + "\n"
        + op("user", "upsert", {"id": 1, "name": "Ann", "born": "2000-02-29", "paid": 1.5})
        + op("plain", "delete", [1.5])
        + op("user", "upsert", [2, "bob", None, "10.25"])
        + op("plain", "insert", [3])
    )
    (tmp_path / "ops.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    foretold = shop.commit_file(tmp_path / "ops.jsonl.gz", dry_run=True)
    changes = told(shop.commit_file(tmp_path / "ops.jsonl.gz").changes)
    assert told(foretold.changes) == changes
    assert changes["plain"] == changes["view"] == ({(3.0,)}, {(0.5,)})
    assert [len(rows) for rows in changes["user"]] == [2, 1]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("ops.jsonl", None, "there is no such file"),
        ("ops.jsonl.gz", b"abc", "Not a gzipped file"),
        ("ops.jsonl.gz", gzip.compress(GOOD.encode() * 1000)[:-9], "ended before"),
    ],
)
def test_files_that_cannot_be_read(shop: Warehouse, tmp_path: Path, name: str, content: bytes | None, why: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(vk.ViewkeeperError, match=r"^error\[BAD_FILE\]") as caught:
        shop.commit_file(tmp_path / name)
    assert why in str(caught.value)


def test_text_that_is_no_utf8(shop: Warehouse, tmp_path: Path) -> None:
    (tmp_path / "ops.jsonl").write_bytes(GOOD.encode() + b'{"relation": "plain\xff", "op": "insert", "row": [1.0]}')
    before = everything(shop)
    with pytest.raises(vk.ViewkeeperError):
        shop.commit_file(tmp_path / "ops.jsonl")
    assert everything(shop) == before


# ---- transactions that are over


def test_a_transaction_is_over_after_its_block(shop: Warehouse) -> None:
    with shop.transaction() as made:
        made.insert("plain", [(1.5,)])
    before = everything(shop)
    for method in (made.insert, made.delete, made.upsert):
        with pytest.raises(vk.StoreError, match=r"^error\[TRANSACTION_OVER\]"):
            method("plain", [(2.5,)])
    with pytest.raises(vk.StoreError, match="TRANSACTION_OVER"), made:
        pass
    assert (everything(shop), made.commit_id) == (before, 3)


def test_a_transaction_that_failed_is_over_too(shop: Warehouse) -> None:
    before, dropped, refused = everything(shop), shop.transaction(), shop.transaction()
    with pytest.raises(ZeroDivisionError), dropped:
        dropped.insert("plain", [(1 / 0,)])
    with pytest.raises(vk.DataError, match="BAD_ROWS"), refused:
        refused.insert("plain", [("x",)])
    for transaction in (dropped, refused):
        with pytest.raises(vk.StoreError, match="TRANSACTION_OVER"):
            transaction.insert("plain", [(2.5,)])
    assert everything(shop) == before


def test_a_block_in_a_block_commits_once(shop: Warehouse) -> None:
    transaction = shop.transaction()
    with pytest.raises(vk.StoreError, match="TRANSACTION_OVER"), transaction, transaction:
        transaction.insert("plain", [(1.5,)])
    assert (shop.last(), transaction.commit_id) == (3, 3)


# ---- standard input


def test_operations_from_standard_input(shop: Warehouse) -> None:
    done = viewkeeper("commit", shop.path, "-", "--json", stdin=GOOD.encode())
    assert (done.code, done.out.count("\n")) == (0, 2)
    assert list(shop.query("view(x)")) == [(0.5,), (1.5,)]
    assert viewkeeper("commit", shop.path, "-", stdin=b"").code == 0
    bad = viewkeeper("commit", shop.path, "-", stdin=GOOD.encode() + b"{]\n")
    assert bad.error == "BAD_OPERATION"
    assert "line 2: is not JSON" in bad.err


def test_operations_from_an_open_file(shop: Warehouse, tmp_path: Path) -> None:
    (tmp_path / "ops.jsonl").write_text("{]\n")
    with (tmp_path / "ops.jsonl").open("rb") as file, pytest.raises(vk.DataError, match=r"ops\.jsonl, line 1: is not JSON"):
        shop.commit_file(file)
    with io.BytesIO(GOOD.encode()) as file:
        assert shop.commit_file(file).number == 3
        assert not file.closed


# ---- rows by relation


@pytest.mark.parametrize("rows", [[("plain", [(1.5,)])], [], "plain", {"plain"}, 5])
def test_rows_that_are_not_by_relation(shop: Warehouse, rows: Any) -> None:
    for parameter in ("inserts", "deletes", "upserts"):
        for method in (shop.commit, shop.preview):
            with pytest.raises(vk.DataError, match=rf"^error\[BAD_PARAMETER\].* is no value for the parameter {parameter}"):
                method(**{parameter: rows})
        with pytest.raises(vk.DataError, match="BAD_PARAMETER"):
            operations_of(**{"inserts": None, "deletes": None, "upserts": None, parameter: rows})
    assert shop.last() == 2
