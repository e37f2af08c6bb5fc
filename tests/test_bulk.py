"""Bulk loads through Spark, and relations that stay Parquet: the same rows as row by row, on either engine afterwards."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import viewkeeper as vk
from viewkeeper.bulk import load_with_spark
from viewkeeper.engines.session import our_session
from viewkeeper.language import parse
from viewkeeper.program.arrow import rows_of_batch
from viewkeeper.program.ast import Relation
from viewkeeper.sources import Options
from viewkeeper.store.delimited import Format, Reading, read_delimited
from viewkeeper.store.snapshots import read_snapshot

KINDS = (
    "number",
    "unsigned",
    "float",
    "symbol",
    "bool",
    "date",
    "timestamp",
    "decimal(7,2)",
    "bytes",
    "number?",
    "symbol?",
    "date?",
)
GOOD = [
    "-5,5,1.5,plain,true,2024-02-29,2024-02-29T12:30:00Z,12.50,00ff,7,x,2024-01-01",
    '0,0,-0.0,"quoted, with ""quotes""",false,0001-01-01,0001-01-01T00:00:00.000001Z,-0.5,,,,',
    '9223372036854775807,9223372036854775807,1e300,"two\nlines",true,9999-12-31,9999-12-31 23:59:59.999999,99999.99,AB,-1,ünï🙂,',
    " 1".strip() + ",1,.5, spaces ,true,1970-01-01,1970-01-01T00:00:00,1,0a0B,+3, ,1999-12-31",
    "-5,5,1.5,plain,true,2024-02-29,2024-02-29T12:30:00Z,12.50,00ff,7,x,2024-01-01",
]
BAD = {
    "number": "1x",
    "unsigned": "-1",
    "float": "inf",
    "bool": "yes",
    "date": "2023-02-29",
    "timestamp": "12:30",
    "decimal(7,2)": "1.234",
    "bytes": "0g",
    "number?": "9223372036854775808",
    "date?": "0000-01-01",
}
ALL = parse(f".decl all({', '.join(f'c{i}: {kind}' for i, kind in enumerate(KINDS))})").relation("all")


def row_by_row(path: Path, relation: Relation, form: Format) -> set[tuple[object, ...]]:
    reading = Reading(relation.name)
    rows = {row for batch in read_delimited(path, relation, form, reading) for row in rows_of_batch(batch, relation.arity)}
    assert not reading.rejects.values
    return rows


def by_spark(session: object, path: Path, relation: Relation, target: Path, options: Options = Options()) -> object:  # noqa: B008
    rows = load_with_spark(our_session(session), path, relation, options, target)  # type: ignore[arg-type]
    if rows is None:
        return None
    return rows, sorted((r for b in read_snapshot(target, relation) for r in rows_of_batch(b, relation.arity)), key=str)


def test_csv_of_every_type(spark_session: object, tmp_path: Path) -> None:
    path = tmp_path / "all.csv.gz"
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        file.write(",".join(f"c{i}" for i in range(len(KINDS))) + "\n" + "\n".join(GOOD) + "\n")
    expected = row_by_row(path, ALL, Format.of_path(path))
    assert by_spark(spark_session, path, ALL, tmp_path / "out") == (len(GOOD), sorted(expected, key=str))


def test_facts_without_quoting(spark_session: object, tmp_path: Path) -> None:
    relation = parse(".decl r(a: symbol, b: number, c: symbol?)").relation("r")
    path = tmp_path / "r.facts"
    path.write_bytes(b'"a"\t1\t\r\n\t2\tx,y\na b\t3\t""\n')
    expected = row_by_row(path, relation, Format())
    assert by_spark(spark_session, path, relation, tmp_path / "out") == (3, sorted(expected, key=str))


def test_columns_by_name(spark_session: object, tmp_path: Path) -> None:
    relation = parse(".decl r(a: symbol, b: number)").relation("r")
    path = tmp_path / "r.csv"
    path.write_text("b,a\n1,x\n2,y\n")
    assert by_spark(spark_session, path, relation, tmp_path / "out") == (2, [("x", 1), ("y", 2)])


def test_a_bad_row_leaves_the_decision_to_the_other_reader(spark_session: object, tmp_path: Path) -> None:
    fields = GOOD[0].split(",")
    lines = [",".join([*fields[:i], BAD[kind], *fields[i + 1 :]]) for i, kind in enumerate(KINDS) if kind in BAD]
    lines += [GOOD[0] + ",one more", ",".join(fields[:-1])]
    for number, line in enumerate(lines):
        path = tmp_path / f"{number}.csv"
        path.write_text(f"{GOOD[0]}\n{line}\n", encoding="utf-8")
        assert by_spark(spark_session, path, ALL, tmp_path / "out", Options(header=False)) is None, line
    path = tmp_path / "encoding.csv"
    path.write_bytes(GOOD[0].replace("plain", "\udcff").encode("utf-8", "surrogateescape") + b"\n")
    assert by_spark(spark_session, path, ALL, tmp_path / "out", Options(header=False)) is None


PROGRAM = """
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
.decl degree(x: symbol, n: number)
degree(x, n) :- edge(x, _), n = count : { edge(x, _) }.
"""


@pytest.mark.parametrize("hot_rows", [20_000_000, 2], ids=["hot", "cold"])
def test_engines_take_turns(spark_session: object, tmp_path: Path, hot_rows: int) -> None:
    vk.Warehouse.create(tmp_path / "w")
    first, second, third = (tmp_path / f"{name}.csv" for name in ("first", "second", "third"))
    first.write_text("x,y\na,b\nb,c\nc,d\n")
    second.write_text("x,y\nc,d\nd,a\n")
    third.write_text("x,y\nd,e\na,b\n")
    with vk.Warehouse(tmp_path / "w", spark=spark_session, hot_rows=hot_rows) as warehouse:  # type: ignore[arg-type]
        warehouse.define(PROGRAM)
        assert warehouse.load("edge", first, engine="spark").inserted == {"edge": 3}
        place = {shown.relation.name: shown.place for shown in warehouse.show()}
        assert ("catalog" in place["edge"], "snapshot" in place["edge"]) == (hot_rows > 2, True)
        assert warehouse.load("edge", second, engine="embedded").inserted == {"edge": 1}
        assert warehouse.load("edge", second, engine="spark").number is None
        assert warehouse.load("edge", third, engine="spark").inserted == {"edge": 1}
        assert len(warehouse.query("reach(x, y)", engine="embedded")) == 20
        assert len(warehouse.query("reach(x, y)", engine="spark")) == 20
        assert list(warehouse.query('degree("d", n)')) == [(2,)]
        if hot_rows == 2:
            with pytest.raises(vk.StoreError) as refused:
                warehouse.commit(deletes={"edge": [("a", "b")]}, strict=True)
            assert refused.value.code == "STRICT"
            assert "kept as snapshots only" in str(refused.value)
            assert len(warehouse.query("edge(x, y)")) == 5
        for engine in ("embedded", "spark"):
            assert [v.right for v in warehouse.verify(engine=engine)] == [True, True]
    with vk.open(tmp_path / "w", spark=spark_session) as warehouse:  # type: ignore[arg-type]
        assert len(warehouse.query('reach("a", y)')) == 5
