"""Loading: every source, all of it or nothing, and every bad row told."""

from __future__ import annotations

import csv
import datetime
import gzip
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.commands import written

import viewkeeper as vk
from viewkeeper.warehouse import Warehouse

TEXT = """
.decl sale(id: number, day: date?, city: symbol, amount: decimal(10,2))
.decl total(city: symbol, amount: decimal(18,2))
total(c, s) :- s = sum a : { sale(_, _, c, a) }.
.decl word(text: symbol)
.decl maybe(n: number?)
.decl flag()
.decl measure(at: timestamp, value: float?)
"""
DAY = datetime.date(2024, 2, 29)
SALES = [(1, DAY, "Oslo", Decimal("12.50")), (2, None, 'Rome, "the" city\nof', Decimal("-3.00"))]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Warehouse]:
    with vk.open(tmp_path / "shop", create=True) as warehouse:
        warehouse.define(TEXT)
        yield warehouse


def sales(shop: Warehouse) -> list[tuple[Any, ...]]:
    return list(shop.query("sale(id, day, city, amount)"))


def refused(code: str) -> Any:
    return pytest.raises(vk.DataError, match=rf"^error\[{code}\]")


def state(shop: Warehouse) -> list[Any]:
    """Everything a failed load must leave alone, the file with bad rows aside."""
    files = {path.relative_to(shop.path) for path in shop.path.rglob("*") if path.name[:10] != "catalog.db"}
    with closing(sqlite3.connect(shop.path / "catalog.db")) as catalog:
        dump = list(catalog.iterdump())
    return [dump, {f for f in files if f.parts[0] not in ("lock", "rejects")}]


# ---- files

CSV = 'id,day,city,amount\n1,2024-02-29,Oslo,12.50\n2,,"Rome, ""the"" city\nof",-3\n'
FILES: dict[str, str | bytes] = {
    "plain.csv": CSV,
    "UPPER.CSV": CSV,
    "windows.csv": "\ufeff" + CSV.replace("\n", "\r\n").replace("city\r\nof", "city\nof"),
    "order.csv": 'amount,id,city,day\n12.50,1,Oslo,2024-02-29\n-3.00,2,"Rome, ""the"" city\nof",\n',
    "spaces.csv": CSV.replace("id,day,city,amount", " id , day,city,amount "),
    "blank.csv": CSV + "\n\n",
    "plain.csv.gz": gzip.compress(CSV.encode()),
    "two.csv.gz": gzip.compress(CSV[:30].encode()) + gzip.compress(CSV[30:].encode()),
    "rows.jsonl": '[1, "2024-02-29", "Oslo", 12.50]\n\n[2, null, "Rome, \\"the\\" city\\nof", -3]\n',
    "objects.ndjson": '{"city": "Oslo", "id": 1, "amount": "12.5", "day": "2024-02-29"}\n'
    '{"id": 2, "city": "Rome, \\"the\\" city\\nof", "amount": -3.00}',
    "rows.jsonl.gz": gzip.compress(b'[1, "2024-02-29", "Oslo", 12.50]\n[2, null, "Rome, \\"the\\" city\\nof", -3]'),
}


@pytest.mark.parametrize("name", FILES)
def test_files(shop: Warehouse, tmp_path: Path, name: str) -> None:
    assert shop.load("sale", written(tmp_path / name, FILES[name])).inserted == {"sale": 2}
    assert sales(shop) == SALES


@pytest.mark.parametrize("name", ["a.facts", "a.tsv", "a", "a.facts.gz"])
def test_tab_separated(shop: Warehouse, tmp_path: Path, name: str) -> None:
    content = b"1\t2024-02-29\tOslo\t12.5\r\n2\t\t\"Ro\rme'\t1"
    shop.load("sale", written(tmp_path / name, gzip.compress(content) if name.endswith("gz") else content))
    assert sales(shop) == [(1, DAY, "Oslo", Decimal("12.50")), (2, None, "\"Ro\rme'", Decimal("1.00"))]


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("1;;2024-02-29;;Oslo;;12.50\n", {"delimiter": ";;"}),
        ("a b c d\n1 2024-02-29 Oslo 12.50\n", {"delimiter": " ", "header": True}),
        ("amount|city|day|id\n12.50|Oslo|2024-02-29|1\n", {"delimiter": "|", "header": True}),
    ],
)
def test_delimiters_and_headers(shop: Warehouse, tmp_path: Path, content: str, options: dict[str, Any]) -> None:
    shop.load("sale", written(tmp_path / "a.txt", content), **options)
    assert sales(shop) == SALES[:1]


def test_a_csv_without_header(shop: Warehouse, tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", "1;2024-02-29;Oslo;12.50\n")
    with refused("BAD_FILE") as told:
        shop.load("sale", file, delimiter=";")
    assert "--no-header" in str(told.value)
    shop.load("sale", file, delimiter=";", header=False)
    assert sales(shop) == SALES[:1]


@pytest.mark.parametrize("delimiter", ["", "\n", '"', ";;", "\r"])
def test_a_delimiter_that_cannot_be(shop: Warehouse, tmp_path: Path, delimiter: str) -> None:
    with refused("BAD_PARAMETER"):
        shop.load("sale", written(tmp_path / "a.csv", CSV), delimiter=delimiter)


@pytest.mark.parametrize("name", ["flag.facts", "flag.csv"])
def test_a_relation_without_columns(shop: Warehouse, tmp_path: Path, name: str) -> None:
    assert shop.load("flag", written(tmp_path / name, "")).number is None
    assert not shop.query("flag()")
    assert shop.load("flag", written(tmp_path / name, "()\n()\n")).inserted == {"flag": 1}
    assert shop.query("flag()")
    with refused("BAD_ROWS"):
        shop.load("flag", written(tmp_path / name, "(1)\n"))


def test_one_column(shop: Warehouse, tmp_path: Path) -> None:
    shop.load("word", written(tmp_path / "a.facts", "a\n\nb\tc\n".replace("\tc", "")))
    shop.load("word", written(tmp_path / "a.csv", 'text\nc\n""\n'))
    shop.load("maybe", written(tmp_path / "b.facts", "1\n\n"))
    assert list(shop.query("word(w)")) == [("",), ("a",), ("b",), ("c",)]
    assert list(shop.query("maybe(n)")) == [(None,), (1,)]


def test_parquet(shop: Warehouse, tmp_path: Path) -> None:
    table = pa.table({"city": ["Oslo", 'Rome, "the" city\nof'], "id": [1, 2], "amount": ["12.50", "-3"], "day": [DAY, None]})
    pq.write_table(table, tmp_path / "sale.parquet")
    (tmp_path / "many").mkdir()
    for number in (0, 1):
        pq.write_table(table.slice(number, 1), tmp_path / "many" / f"part-{number}.parquet")
    (tmp_path / "many" / "_SUCCESS").touch()
    assert shop.load("sale", tmp_path / "sale.parquet").inserted == {"sale": 2}
    assert shop.load("sale", tmp_path / "many").number is None
    assert sales(shop) == SALES


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("missing.csv", None, "no such file"),
        ("broken.csv.gz", gzip.compress(CSV.encode() * 100, mtime=0)[:-20], "ended before"),
        ("garbage.csv.gz", b"no gzip at all", "gzip"),
        ("bits.csv.gz", gzip.compress(CSV.encode(), mtime=0)[:12] + b"\xff" * 30, "rror"),
        ("broken.parquet", b"PAR1 but not really", "Parquet"),
        ("missing.parquet", None, "missing.parquet"),
        ("other.csv", "name\nx\n", "does not name the columns (id, day, city, amount)"),
    ],
)
def test_files_that_cannot_be_read(shop: Warehouse, tmp_path: Path, name: str, content: Any, why: str) -> None:
    before = state(shop)
    path = tmp_path / name
    if content is not None:
        written(path, content)
    with refused("BAD_FILE") as told:
        shop.load("sale", path)
    assert why in str(told.value)
    assert state(shop) == before
    assert not (shop.path / "rejects").exists()


def test_a_directory_is_no_delimited_file(shop: Warehouse, tmp_path: Path) -> None:
    (tmp_path / "sales.csv").mkdir()
    with refused("BAD_FILE|DATA_CONFLICT"):
        shop.load("sale", tmp_path / "sales.csv")


# ---- data of other libraries


def test_arrow(shop: Warehouse) -> None:
    table = pa.table(
        {"id": [1, 2], "day": [DAY, None], "city": [SALES[0][2], SALES[1][2]], "amount": [Decimal("12.5"), Decimal(-3)]}
    )
    shop.load("sale", table)
    assert shop.load("sale", table.select(["city", "amount", "id", "day"])).number is None
    assert shop.load("sale", table.rename_columns(["a", "b", "c", "d"])).number is None
    assert shop.load("sale", table.to_reader()).number is None
    assert shop.load("sale", table.to_batches()[0]).number is None
    assert sales(shop) == SALES
    with refused("DATA_CONFLICT"):
        shop.load("sale", table.drop_columns(["day"]))


def test_pandas(shop: Warehouse) -> None:
    frame = pd.DataFrame({"id": [1, 2], "day": [DAY, None], "city": [s[2] for s in SALES], "amount": [s[3] for s in SALES]})
    assert shop.load("sale", frame).inserted == {"sale": 2}
    assert sales(shop) == SALES
    times = pd.DataFrame(
        {"at": pd.to_datetime(["2024-02-29T12:00:00.000001", "2024-03-01T00:00:00.0"]), "value": [1.5, float("nan")]}
    )
    shop.load("measure", times)
    moment = datetime.datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=datetime.UTC)
    assert next(iter(shop.query("measure(t, v)"))) == (moment, 1.5)
    assert shop.query("measure(t, v), is_null(v)").to_arrow().num_rows == 1
    with refused("BAD_ROWS") as told:
        shop.load("measure", pa.table({"at": pa.array([1], pa.timestamp("ns")), "value": [1.0]}))
    assert "more than microseconds" in str(told.value)


def test_numpy(shop: Warehouse) -> None:
    shop.load("maybe", np.arange(3))
    shop.load("word", np.array(["x", "y"]))
    shop.load("measure", [(datetime.datetime(2024, 1, 1), np.float64(0.5))])
    assert list(shop.query("maybe(n)")) == [(0,), (1,), (2,)]
    assert list(shop.query("word(w)")) == [("x",), ("y",)]


def test_python_rows(shop: Warehouse) -> None:
    named = [{"id": 1, "day": "2024-02-29", "city": "Oslo", "amount": 12.5}]
    with refused("BAD_ROWS"):
        shop.load("sale", named)
    named[0]["amount"] = "12.50"
    shop.load("sale", named)
    shop.load("sale", iter([[2, None, SALES[1][2], -3]]))
    shop.load("word", ["one", ("two",), ["three"]])
    shop.load("flag", [()])
    assert sales(shop) == SALES
    assert list(shop.query("word(w)")) == [("one",), ("three",), ("two",)]


@pytest.mark.parametrize("source", [None, 7, b"bytes", {"id": 1}, object()])
def test_what_is_no_source(shop: Warehouse, source: object) -> None:
    with refused("DATA_CONFLICT"):
        shop.load("sale", source)


def test_a_source_that_fails(shop: Warehouse, tmp_path: Path) -> None:
    """Its error is the cause of ours, and is not taken for one of the catalog's."""

    def rows(error: Exception) -> Iterator[tuple[Any, ...]]:
        yield SALES[0]
        raise error

    before = state(shop)
    for error in (OSError(28, "No space left on device"), ValueError("no"), KeyError("x"), RuntimeError()):
        with refused("SOURCE_FAILED") as told:
            shop.load("sale", rows(error))
        assert told.value.__cause__ is error
    with refused("SOURCE_FAILED") as told:
        shop.load("sale", rows(sqlite3.OperationalError("no such table: nothing")))
    with pytest.raises(KeyboardInterrupt):
        shop.load("sale", rows(KeyboardInterrupt()))  # type: ignore[arg-type]
    assert state(shop) == before


# ---- bad rows

BAD = "id,day,city,amount\n1,2024-02-30,Oslo,12.50\n2,,Rome,1\nx,soon,Bonn,1.234\n4,,Kyiv\n,,,\n6,,Nice,1\n"
EXPECTED = [
    ["sale", "2", "day", "2024-02-30", "no such day"],
    ["sale", "4", "id", "x", "not a whole number"],
    ["sale", "4", "day", "soon", "not a date such as 2024-02-29"],
    ["sale", "4", "amount", "1.234", "has more than 2 digits after the point"],
    ["sale", "5", "", "4  Kyiv", "has 3 fields, not 4"],
    ["sale", "6", "id", "", "not a whole number"],
    ["sale", "6", "amount", "", "not a decimal number"],
]


def rejected(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        header, *found = csv.reader(file)
    assert header == ["relation", "line", "column", "value", "reason"]
    return found


def test_bad_rows_load_nothing_and_are_all_told(shop: Warehouse, tmp_path: Path) -> None:
    before = state(shop)
    with refused("BAD_ROWS") as told:
        shop.load("sale", written(tmp_path / "sale.csv", BAD))
    text = str(told.value)
    assert '4 of 6 rows do not fit relation "sale"; nothing was changed' in text
    assert "sale, line 4, column amount: '1.234' has more than 2 digits after the point" in text
    [file] = (shop.path / "rejects").iterdir()
    assert str(file) in text
    assert rejected(file) == EXPECTED
    assert state(shop) == before


def test_skip_bad_loads_the_others(shop: Warehouse, tmp_path: Path) -> None:
    commit = shop.load("sale", written(tmp_path / "sale.csv", BAD), skip_bad=True, rejects=tmp_path / "bad" / "rows.csv")
    assert (commit.inserted, commit.rejected, len(commit.rejects)) == ({"sale": 2}, 4, 7)
    assert commit.rejects_file == tmp_path / "bad" / "rows.csv"
    assert rejected(tmp_path / "bad" / "rows.csv") == EXPECTED
    assert [row[0] for row in sales(shop)] == [2, 6]
    commit = shop.load("sale", tmp_path / "sale.csv", skip_bad=True)
    assert (commit.number, commit.rejected) == (None, 4)


def test_one_bad_relation_of_several(shop: Warehouse, tmp_path: Path) -> None:
    before = state(shop)
    with refused("BAD_ROWS") as told:
        shop.load({"word": ["good"], "sale": written(tmp_path / "sale.csv", BAD), "maybe": [1, "two"]})
    assert '5 of 9 rows do not fit relation "word, sale, maybe"' in str(told.value)
    assert "maybe, line 2, column n: 'two' is of type str, not number" in str(told.value)
    assert state(shop) == before
    commit = shop.load({"word": ["good"], "sale": tmp_path / "sale.csv", "maybe": [1, "two"]}, skip_bad=True)
    assert (commit.inserted, commit.rejected) == ({"word": 1, "sale": 2, "maybe": 1}, 5)


def test_very_many_bad_rows(shop: Warehouse, tmp_path: Path) -> None:
    file = written(tmp_path / "n.facts", "".join(f"{n}{'x' if n % 10 else ''}\n" for n in range(60_000)))
    with refused("BAD_ROWS") as told:
        shop.load("maybe", file, rejects=tmp_path / "bad.csv")
    text = str(told.value)
    assert text.count("is not") + text.count("not a whole number") == 20
    assert "… and 53,980 more" in text
    assert len(rejected(tmp_path / "bad.csv")) == 54_000
    assert shop.load("maybe", file, skip_bad=True).inserted == {"maybe": 6_000}


def test_every_failing_load_has_a_file_of_its_own(shop: Warehouse) -> None:
    for _ in range(3):
        with refused("BAD_ROWS"):
            shop.load("maybe", ["x"])
    assert len(list((shop.path / "rejects").glob("maybe-*.csv"))) == 3


def test_a_file_for_bad_rows_that_cannot_be_written(shop: Warehouse, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    written(tmp_path / "file", "")
    before = state(shop)
    for place in (tmp_path / "directory", tmp_path / "file" / "bad.csv", Path("/proc/bad.csv")):
        for skip in (True, False):
            with refused("UNWRITABLE_FILE") as told:
                shop.load("maybe", [1, "x"], rejects=place, skip_bad=skip)
            assert str(place) in str(told.value)
    assert state(shop) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["directory", "file", "shop"]


def test_bad_rows_of_a_load_that_fails_otherwise_are_not_kept(shop: Warehouse, tmp_path: Path) -> None:
    with refused("BAD_FILE"):
        shop.load("sale", written(tmp_path / "a.csv.gz", gzip.compress(BAD.encode() * 1000, mtime=0)[:-9]))
    assert not list((shop.path / "rejects").glob("*"))


def test_bad_rows_are_not_kept_if_a_view_fails(shop: Warehouse) -> None:
    shop.define(".decl v(x: number?) v(6 / n) :- maybe(n).")
    with pytest.raises(vk.EvaluationError):
        shop.load("maybe", [1, "two", 0], skip_bad=True)
    assert not list((shop.path / "rejects").glob("*"))
    assert shop.load("maybe", [1, "two", 3], skip_bad=True).rejected == 1


def test_bytes_that_are_no_text(shop: Warehouse, tmp_path: Path) -> None:
    content = b"good\nb\xc3\xa4d\nb\xffd\n\xc3\nnul\x00\n\xed\xa0\x80\n"
    commit = shop.load("word", written(tmp_path / "w.facts", content), skip_bad=True)
    no_text, nul = "is not valid Unicode", "contains the character U+0000"
    assert [(r.line, r.reason) for r in commit.rejects] == [(3, no_text), (4, no_text), (5, nul), (6, no_text)]
    assert list(shop.query("word(w)")) == [("bäd",), ("good",)]
    assert commit.rejects_file is not None
    assert rejected(commit.rejects_file)[0][3] == "b\\udcffd"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('[1, null, "x"]', "has 3 fields, not 4"),
        ('"text"', "has 1 field, not 4"),
        ('{"id": 1, "when": 2}', "is not a column"),
        ('{"id": 1}', "no value"),
        ('[1.0, null, "x", 1]', "is of type Decimal, not number"),
        ('[true, null, "x", 1]', "is of type bool, not number"),
        ("[1, null, 5, 1]", "is of type int, not symbol"),
        ('[1, null, "\\ud800", 1]', "is not valid Unicode"),
        ('[1, null, "x", NaN]', "is of type float, not decimal"),
        ('[1, null, "x", 1e999]', "digits"),
        ('[99999999999999999999, null, "x", 1]', "does not fit 64 bits"),
        ("[1, null, [2], 1]", "is of type list, not symbol"),
    ],
)
def test_bad_json(shop: Warehouse, tmp_path: Path, line: str, reason: str) -> None:
    file = written(tmp_path / "a.jsonl", f'[7, null, "fine", 1]\n{line}\n')
    with refused("BAD_ROWS") as told:
        shop.load("sale", file)
    assert reason in str(told.value)
    assert shop.load("sale", file, skip_bad=True).rejected == 1
    assert [row[0] for row in sales(shop)] == [7]


@pytest.mark.parametrize(
    "content", ['id,day,city,amount\n1,,"Oslo"x,1\n2,,Rome,1\n', 'id,day,city,amount\n2,,Rome,1\n1,,"Oslo,1\n3,,Bonn,1\n']
)
def test_bad_csv(shop: Warehouse, tmp_path: Path, content: str) -> None:
    commit = shop.load("sale", written(tmp_path / "a.csv", content), skip_bad=True)
    assert commit.rejected == 1
    assert "is not valid CSV" in commit.rejects[0].reason
    assert [row[0] for row in sales(shop)] == [2]


@pytest.mark.parametrize("row", [{1, 2, 3, 4}, (1, None, "x"), 5, "text", (1, None, "x", float("inf")), (1, DAY, object(), 1)])
def test_bad_python_rows(shop: Warehouse, row: object) -> None:
    with refused("BAD_ROWS"):
        shop.load("sale", [SALES[0], row])
    assert shop.load("sale", [SALES[0], row], skip_bad=True).rejected == 1


def many_sales(number: int = 300) -> list[tuple[Any, ...]]:
    return [(i, DAY if i % 3 else None, f"city {i % 7}", Decimal(i) / 4) for i in range(number)]


def test_many_rows_of_a_transaction_are_stored_as_single_ones_are(shop: Warehouse) -> None:
    """They are converted by column; usual values, NULL, texts for dates and whole numbers for decimals among them."""
    unusual = [(1000, "2024-02-29", "x", 3), (1001, None, "y", Decimal("0.10"))]
    rows = many_sales()
    for given in (rows, [*rows, *unusual]):
        shop.commit(inserts={"sale": given})
        together = sales(shop)
        shop.commit(deletes={"sale": given})
        for row in given:
            shop.commit(inserts={"sale": [row]})
        assert sales(shop) == together and len(together) == len(given)
        shop.commit(deletes={"sale": given})
    shop.commit(
        inserts={
            "measure": [(datetime.datetime(2024, 1, 1), -0.0)] + [(datetime.datetime(2024, 1, 2), i / 2) for i in range(200)]
        }
    )
    assert sorted(str(v) for _, v in shop.query("measure(t, v)"))[0] == "0.0"


@pytest.mark.parametrize(
    "bad", [(2**63, DAY, "x", Decimal(1)), (1, DAY, "a\x00", Decimal(1)), (1, DAY, "\ud800", Decimal(1)), (1, DAY, "x", Decimal("0.001")),
            (True, DAY, "x", Decimal(1)), (1, DAY, None, Decimal(1)), (1, DAY, "x")]
)  # fmt: skip
def test_one_bad_row_among_many_of_a_transaction(shop: Warehouse, bad: tuple[Any, ...]) -> None:
    before = state(shop)
    with refused("BAD_ROWS"):
        shop.commit(inserts={"sale": [*many_sales(), bad]})
    assert state(shop) == before


def test_progress(shop: Warehouse) -> None:
    seen: list[Any] = []
    shop.load("maybe", range(120_000), report=seen.append)
    assert [(s.relation, s.rows) for s in seen] == [("maybe", 50_000), ("maybe", 100_000), ("maybe", 120_000)]


def test_a_file_and_rows_in_one_commit(shop: Warehouse, tmp_path: Path) -> None:
    lines = [json.dumps([n, None, f"city {n % 3}", f"{n}.25"]) for n in range(100)]
    shop.load({"sale": written(tmp_path / "a.jsonl", "\n".join(lines)), "word": ["x"]})
    assert list(shop.query("total(c, s)")) == [
        ("city 0", Decimal("1691.50")), ("city 1", Decimal("1625.25")), ("city 2", Decimal("1658.25")),
    ]  # fmt: skip
