"""Statements of SQL on a warehouse: tables, rows, transactions within a script, definitions that stay."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewkeeper as vk
from viewkeeper.sql.reading import read_script
from viewkeeper.warehouse import Warehouse

Rows = list[tuple[Any, ...]]

TABLES = """
CREATE TABLE Item (id BIGINT PRIMARY KEY, name STRING NOT NULL, price DECIMAL(10,2), day DATE);
CREATE TABLE sale (item BIGINT, amount BIGINT);
CREATE MATERIALIZED VIEW sold AS SELECT item, sum(amount) AS amount, count(*) AS sales FROM sale GROUP BY item;
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Warehouse]:
    with vk.open(tmp_path / "shop", create=True) as warehouse:
        warehouse.sql(TABLES)
        warehouse.sql(
            "INSERT INTO item VALUES (1, 'ink', 1.5, DATE '2024-02-29'), (2, 'pen', NULL, NULL);"
            "INSERT INTO sale VALUES (1, 5), (1, 5), (2, NULL)"
        )
        yield warehouse


def rows(shop: Warehouse, query: str) -> Rows:
    answer = shop.sql(query)[-1].answer
    assert answer is not None
    return list(answer)


def everything(shop: Warehouse) -> object:
    """All that a failed statement must not change."""
    names = [relation.name for relation in shop.program.relations]
    return shop.program, len(shop.log()), {name: rows(shop, f"SELECT * FROM {name}") for name in names}


def right(shop: Warehouse) -> bool:
    return all(verified.right for verified in shop.verify())


def changed(shop: Warehouse, text: str) -> dict[str, tuple[int, int]]:
    commit = shop.sql(text)[-1].commit
    assert commit is not None
    return {name: (change.inserted_rows, change.deleted_rows) for name, change in commit.changes.items()}


def refusal(shop: Warehouse, text: str, **options: Any) -> str:
    """What is told about a statement that is refused; nothing is changed by it."""
    before = everything(shop)
    with pytest.raises(vk.ViewkeeperError) as caught:
        shop.sql(text, **options)
    assert everything(shop) == before
    return str(caught.value)


# ---- INSERT


def test_values_of_all_types(shop: Warehouse) -> None:
    shop.sql(
        "CREATE TABLE every (n INT, d DOUBLE, t STRING, b BOOLEAN, day DATE, time TIMESTAMP, m DECIMAL(5,2), x BINARY);"
        "INSERT INTO every VALUES (-9223372036854775808, 1e3, 'it''s \\n', TRUE, DATE '2024-02-29',"
        " TIMESTAMP '2024-02-29 12:30:00', -1.5, X'00FF'), (1L, 1.5D, r'\\n', FALSE, NULL, NULL, 2, NULL)"
    )
    noon = datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC)
    assert rows(shop, "SELECT * FROM every") == [
        (-(2**63), 1000.0, "it's \n", True, datetime.date(2024, 2, 29), noon, Decimal("-1.50"), b"\x00\xff"),
        (1, 1.5, "\\n", False, None, None, Decimal("2.00"), None),
    ]


def test_an_answer_has_real_types(shop: Warehouse) -> None:
    answer = shop.sql("SELECT id, price, day FROM item WHERE id = 1")[0].answer
    assert answer is not None
    assert answer.to_arrow().schema.types == [pa.int64(), pa.decimal128(10, 2), pa.date32()]


@pytest.mark.parametrize(
    ("type_", "value", "kept"),
    [
        ("DOUBLE", "1", 1.0), ("DOUBLE", "0.1", 0.1), ("BIGINT", "1.9", 1), ("BIGINT", "-1.9", -1), ("BIGINT", "2.5e0", 2),
        ("DECIMAL(5,2)", "1.005", Decimal("1.01")), ("DECIMAL(5,2)", "-1.005", Decimal("-1.01")),
        ("DECIMAL(5,2)", "7", Decimal("7.00")), ("DECIMAL(5,2)", "1.25e1", Decimal("12.50")), ("STRING", "12", "12"),
        ("STRING", "1.50", "1.50"), ("STRING", "1e10", "1.0E10"), ("STRING", "TRUE", "true"),
        ("STRING", "DATE '2024-02-29'", "2024-02-29"), ("STRING", "TIMESTAMP '2024-02-29 12:00:00.5'", "2024-02-29 12:00:00.5"),
        ("DATE", "TIMESTAMP '1969-12-31 23:00:00'", datetime.date(1969, 12, 31)),
        ("TIMESTAMP", "DATE '2024-02-29'", datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC)), ("BIGINT", "1 + 2 * 3", 7),
    ],
)  # fmt: skip
def test_values_become_those_of_the_column(shop: Warehouse, type_: str, value: str, kept: object) -> None:
    shop.sql(f"CREATE TABLE t (x {type_}); INSERT INTO t VALUES ({value})")
    assert rows(shop, "SELECT * FROM t") == [(kept,)]


@pytest.mark.parametrize(
    ("type_", "value"),
    [("DATE", "'2024-02-29'"), ("BIGINT", "'1'"), ("BOOLEAN", "1"), ("BIGINT", "TRUE"), ("DECIMAL(3,1)", "100"),
     ("BIGINT", "9223372036854775808"), ("BIGINT", "1e30"), ("TIMESTAMP", "1"), ("BINARY", "'a'")],
)  # fmt: skip
def test_values_that_are_not_those_of_the_column(shop: Warehouse, type_: str, value: str) -> None:
    shop.sql(f"CREATE TABLE t (x {type_})")
    assert refusal(shop, f"INSERT INTO t VALUES ({value})").startswith("error[SQL_TYPE]")


def test_columns_by_name(shop: Warehouse) -> None:
    assert changed(shop, "INSERT INTO ITEM (NAME, Id) VALUES ('cap', 3)") == {"Item": (1, 0)}
    assert rows(shop, "SELECT * FROM item WHERE id = 3") == [(3, "cap", None, None)]
    shop.sql("INSERT INTO item BY NAME SELECT 'nib' AS name, 4 AS ID")
    assert rows(shop, "SELECT name FROM item WHERE id = 4") == [("nib",)]


def test_rows_of_a_query(shop: Warehouse) -> None:
    assert changed(shop, "INSERT INTO sale SELECT item, amount FROM sale") == {"sale": (2, 2), "sold": (2, 2)}
    assert rows(shop, "SELECT * FROM sold") == [(1, 20, 4), (2, None, 2)]
    shop.sql("WITH one AS (SELECT 9 AS n) INSERT INTO sale SELECT n, n FROM one")
    assert rows(shop, "SELECT * FROM sold WHERE item = 9") == [(9, 9, 1)]
    assert right(shop)


def test_many_rows(shop: Warehouse) -> None:
    values = ", ".join(f"({n % 100}, -{n})" for n in range(5000))
    shop.sql(f"INSERT INTO sale VALUES {values}")
    assert rows(shop, "SELECT count(*), sum(amount) FROM sale") == [(5003, 10 - sum(range(5000)))]
    assert right(shop)


def test_many_rows_are_read_as_few_are() -> None:
    row = "(1, -2.5, 'it''s', NULL, true, FALSE, DATE '2024-02-29', 1e3)"
    [few], [many] = read_script(f"INSERT INTO t VALUES {row}"), read_script(f"INSERT INTO t VALUES {', '.join([row] * 3)}")
    assert [part.sql("spark") for part in many.tree.expression.expressions] == [
        few.tree.expression.expressions[0].sql("spark")
    ] * 3
    for text in (f"INSERT INTO t VALUES {row}, (1 + 1, 2)", f"INSERT INTO t VALUES {row}, (f(1), (2))"):
        assert len(read_script(text)[0].tree.expression.expressions) == 2


# ---- keys and values that must be there


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO item VALUES (1, 'other', NULL, NULL)",
        "INSERT INTO item VALUES (1, 'ink', 1.5, DATE '2024-02-29')",
        "INSERT INTO item VALUES (7, 'a', NULL, NULL), (7, 'a', NULL, NULL)",
        "INSERT INTO sale VALUES (3, 3); INSERT INTO item VALUES (7, 'a', NULL, NULL); INSERT INTO item VALUES (7, 'b', NULL, NULL)",
        "UPDATE item SET id = 1",
        "INSERT INTO item VALUES (1, 'b', NULL, NULL); DELETE FROM item WHERE name = 'ink'",
    ],
)
def test_one_row_for_each_key(shop: Warehouse, text: str) -> None:
    assert refusal(shop, text).startswith('error[KEY_VIOLATION]: table "Item" would have several rows with the same key (id)')


def test_a_key_can_be_given_up_and_taken(shop: Warehouse) -> None:
    shop.sql("UPDATE item SET id = 3 - id")
    assert rows(shop, "SELECT id, name FROM item") == [(1, "pen"), (2, "ink")]
    shop.sql("DELETE FROM item WHERE id = 1; INSERT INTO item VALUES (1, 'new', NULL, NULL)")
    assert rows(shop, "SELECT id, name FROM item") == [(1, "new"), (2, "ink")]
    assert changed(shop, "DELETE FROM item WHERE id = 1; INSERT INTO item VALUES (1, 'new', NULL, NULL)") == {}


@pytest.mark.parametrize(
    "text",
    ["INSERT INTO item VALUES (3, NULL, NULL, NULL)", "INSERT INTO item (id) VALUES (3)", "UPDATE item SET name = NULL",
     "INSERT INTO item (id, name) SELECT item, NULL FROM sale", "INSERT INTO item (name) VALUES ('x')"],
)  # fmt: skip
def test_values_that_must_be_there(shop: Warehouse, text: str) -> None:
    assert refusal(shop, text).startswith("error[SQL_NO_VALUE]: column ")


# ---- UPDATE, DELETE, TRUNCATE


def test_update(shop: Warehouse) -> None:
    assert changed(shop, "UPDATE Item AS i SET i.price = 2 * (SELECT max(amount) FROM sale), day = NULL WHERE i.id < 2") == {
        "Item": (1, 1)
    }
    assert rows(shop, "SELECT * FROM item") == [(1, "ink", Decimal("10.00"), None), (2, "pen", None, None)]
    assert changed(shop, "UPDATE item SET price = price") == {}


def test_update_of_copies(shop: Warehouse) -> None:
    shop.sql("INSERT INTO sale VALUES (1, 6); UPDATE sale SET amount = 6 WHERE amount = 5")
    assert rows(shop, "SELECT * FROM sale") == [(1, 6), (1, 6), (1, 6), (2, None)]
    shop.sql("UPDATE sale SET item = item + 1")
    assert rows(shop, "SELECT * FROM sold") == [(2, 18, 3), (3, None, 1)]
    assert right(shop)


def test_delete(shop: Warehouse) -> None:
    assert changed(shop, "DELETE FROM sale WHERE item IN (SELECT id FROM item WHERE name = 'ink')") == {
        "sale": (0, 1),
        "sold": (0, 1),
    }
    assert changed(shop, "DELETE FROM sale WHERE amount = 1") == {}
    assert rows(shop, "SELECT * FROM sale") == [(2, None)]
    shop.sql("DELETE FROM sale")
    shop.sql("TRUNCATE TABLE item")
    assert rows(shop, "SELECT * FROM sale") == rows(shop, "SELECT * FROM item") == rows(shop, "SELECT * FROM sold") == []


def test_rows_of_datalog(shop: Warehouse) -> None:
    """A relation without a key is a set: a row that is there can be inserted again."""
    shop.define(".decl edge(x: number, y: number)\n.decl twice(x: number)\ntwice(x) :- edge(x, y), edge(y, x).")
    shop.sql(
        "INSERT INTO edge VALUES (1, 2), (1, 2), (2, 1); INSERT INTO edge VALUES (1, 2); UPDATE edge SET y = 3 WHERE x = 2"
    )
    assert rows(shop, "SELECT * FROM edge") == [(1, 2), (2, 3)]
    shop.sql("DELETE FROM edge WHERE x = 1")
    assert list(shop.query("edge(x, y)")) == [(2, 3)]
    assert right(shop)


def test_bags_of_datalog(shop: Warehouse) -> None:
    shop.define(".decl one(x: number, n: number) bag key(x)\n.decl other(x: number, n: number) bag")
    shop.sql("INSERT INTO one VALUES (1), (1)")
    assert list(shop.query("one(x, n)")) == [(1, 2)]
    assert refusal(shop, "INSERT INTO other VALUES (1)").startswith("error[SQL_UNSUPPORTED]: changing a bag")
    shop.load("other", [(1, 2)])
    assert rows(shop, "SELECT * FROM other") == [(1,), (1,)]


# ---- transactions


def test_a_script_is_one_transaction(shop: Warehouse) -> None:
    """Each statement sees those before it."""
    before = len(shop.log())
    results = shop.sql(
        "INSERT INTO sale VALUES (3, 1); UPDATE sale SET amount = 2 WHERE item = 3; SELECT * FROM sold WHERE item = 3;"
        "INSERT INTO sale SELECT item + 1, amount FROM sold WHERE item = 3; DELETE FROM sale WHERE item = 3"
    )
    assert [result.kind for result in results] == ["insert", "update", "select", "insert", "delete"]
    assert results[2].answer is not None
    assert list(results[2].answer) == [(3, 2, 1)]
    assert len({id(result.commit) for result in results if result.commit is not None}) == 1
    assert len(shop.log()) == before + 1
    assert shop.log()[-1].changes == {"sale": (1, 0), "sold": (1, 0)}
    assert rows(shop, "SELECT * FROM sold WHERE item > 2") == [(4, 2, 1)]
    assert right(shop)


@pytest.mark.parametrize(
    "wrong", ["INSERT INTO sale VALUES ('a', 1)", "UPDATE sale SET amount = amount / 0", "SELECT 1 / 0", "SELECT x"]
)
def test_a_statement_that_fails_takes_the_others_back(shop: Warehouse, wrong: str) -> None:
    refusal(shop, f"INSERT INTO sale VALUES (3, 1); DELETE FROM sale WHERE item = 1; {wrong}; INSERT INTO sale VALUES (4, 4)")


def test_a_text_that_cannot_be_read_does_nothing(shop: Warehouse) -> None:
    assert refusal(shop, "CREATE TABLE t (x INT); INSERT INTO t VALUES (1").startswith("error[SQL_SYNTAX]")
    assert refusal(shop, "CREATE TABLE t (x INT); BEGIN").startswith("error[SQL_UNSUPPORTED]")


def test_definitions_are_commits_of_their_own(shop: Warehouse) -> None:
    told: list[str] = []
    with pytest.raises(vk.ViewkeeperError):
        shop.sql(
            "CREATE TABLE t (x INT); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); DROP TABLE nothing",
            each=lambda result: told.append(result.kind),
        )
    assert told == ["create table", "insert", "insert"]
    assert [logged.kind for logged in shop.log()[-2:]] == ["define", "transaction"]
    assert rows(shop, "SELECT * FROM t") == [(1,), (2,)]


def test_many_statements_that_read_what_they_changed(shop: Warehouse) -> None:
    shop.sql("; ".join(f"UPDATE sale SET amount = amount + {n} WHERE item = 1" for n in range(20)))
    assert rows(shop, "SELECT * FROM sold WHERE item = 1") == [(1, 2 * (5 + sum(range(20))), 2)]
    assert right(shop)


def test_dry_run(shop: Warehouse) -> None:
    before = everything(shop)
    results = shop.sql("INSERT INTO sale VALUES (3, 1); SELECT * FROM sold WHERE item = 3", dry_run=True)
    assert results[0].commit is not None
    assert results[0].commit.number is None
    assert list(results[0].commit.changes["sold"].values()) == [("insert", (3, 1, 1))]
    assert results[1].answer is not None
    assert list(results[1].answer) == [(3, 1, 1)]
    shop.sql("CREATE MATERIALIZED VIEW big AS SELECT item FROM sale", dry_run=True)
    shop.sql("DROP TABLE item", dry_run=True)
    assert everything(shop) == before
    assert refusal(shop, "CREATE TABLE t (x INT); INSERT INTO t VALUES (1)", dry_run=True).startswith("error[SQL_UNSUPPORTED]")


def test_strict(shop: Warehouse) -> None:
    shop.sql("INSERT INTO sale VALUES (3, 1)", strict=True)
    assert right(shop)


# ---- questions


def test_order_and_limit(shop: Warehouse) -> None:
    shop.sql("INSERT INTO sale VALUES (3, 1), (4, 2)")
    assert rows(shop, "SELECT * FROM sale ORDER BY amount") == [(2, None), (3, 1), (4, 2), (1, 5), (1, 5)]
    assert rows(shop, "SELECT item FROM sale ORDER BY amount DESC, item LIMIT 3 OFFSET 1") == [(1,), (4,), (3,)]
    assert rows(shop, "SELECT item FROM sale ORDER BY amount DESC NULLS FIRST LIMIT 2") == [(2,), (1,)]
    assert rows(shop, "SELECT * FROM sale ORDER BY item DESC, amount LIMIT 2") == [(4, 2), (3, 1)]
    assert rows(shop, "SELECT *, -item AS less FROM sale ORDER BY 3, 2 LIMIT 2") == [(4, 2, -4), (3, 1, -3)]
    assert refusal(shop, "SELECT * FROM sale ORDER BY 3").startswith("error[SQL_UNSUPPORTED]: ORDER BY 3, of 2 outputs,")
    shop.sql("CREATE MATERIALIZED VIEW most AS SELECT * FROM sale ORDER BY item DESC LIMIT 1")
    assert rows(shop, "SELECT * FROM most") == [(4, 2)]
    assert rows(shop, "SELECT item AS x, item AS x FROM sale ORDER BY -item LIMIT 1") == [(4, 4)]


def test_one_reading_for_all_questions(shop: Warehouse) -> None:
    first, second = shop.sql("SELECT item FROM sale; SELECT count(*), 'x', 1.5 FROM sale")
    assert first.answer is not None
    assert second.answer is not None
    assert (list(first.answer), list(second.answer)) == ([(1,), (1,), (2,)], [(3, "x", Decimal("1.5"))])


def test_names_do_not_mind_capital_letters(shop: Warehouse) -> None:
    shop.sql("insert into SALE (ITEM) values (8); update SaLe set AMOUNT = 1 where Item = 8")
    answer = shop.sql("SELECT Item, AMOUNT FROM Sold WHERE ITEM = 8")[0].answer
    assert answer is not None
    assert list(answer) == [(8, 1)]
    assert refusal(shop, "CREATE TABLE ITEM (x INT)").startswith('error[SQL_EXISTS]: there is a table "Item" already')
    shop.sql("DROP MATERIALIZED VIEW SOLD; DROP TABLE SALE")
    assert [relation.name for relation in shop.program.relations] == ["Item"]


# ---- bags


def test_a_table_without_a_key_counts_copies(shop: Warehouse) -> None:
    assert rows(shop, "SELECT * FROM sale") == [(1, 5), (1, 5), (2, None)]
    assert list(shop.query("sale(i, a, n)")) == [(1, 5, 2), (2, None, 1)]
    shop.sql("CREATE TABLE odd (copies INT, COPIES_2 STRING)")
    assert [column.name for column in shop.program.relation("odd").columns] == ["copies", "COPIES_2", "copies_3"]


def test_load_counts_copies(shop: Warehouse, tmp_path: Path) -> None:
    file = tmp_path / "sale.csv"
    file.write_text("item,amount\n1,5\n2,\n7,7\n7,7\n")
    assert shop.load("sale", file).inserted == {"sale": 4}
    expected = [(1, 5, 3), (2, None, 2), (7, 7, 2)]
    assert list(shop.query("sale(i, a, n)")) == expected
    shop.load("sale", pa.table({"amount": [7], "item": [7]}))
    shop.load("sale", [(7, 7), (8, 8)])
    shop.load("sale", pa.table({"item": [8], "amount": [8], "copies": [4]}))
    assert list(shop.query("sale(i, a, n), i > 6")) == [(7, 7, 4), (8, 8, 5)]
    assert right(shop)


# ---- definitions


def test_a_base_relation_without_rows_gets_other_columns(shop: Warehouse) -> None:
    shop.define(".decl p(x: number)")
    shop.define(".decl p(x: number, y: symbol)", replace=True)
    shop.load("p", [(1, "a")])
    assert rows(shop, "SELECT * FROM p") == [(1, "a")]


def test_what_is_defined_stays(shop: Warehouse) -> None:
    shop.sql(
        "ALTER TABLE sale ADD COLUMN note STRING; CREATE OR REPLACE MATERIALIZED VIEW sold AS SELECT DISTINCT item FROM sale"
    )
    shop.define(".decl few(item: number?)\nfew(i) :- sold(i).")
    with vk.open(shop.path) as other:
        assert other.program == shop.program
        assert everything(other) == everything(shop)
        assert rows(other, "SELECT * FROM few") == [(1,), (2,)]


def test_new_columns(shop: Warehouse) -> None:
    last = len(shop.log())
    shop.sql("CREATE MATERIALIZED VIEW wide AS SELECT * FROM sale")
    shop.sql("ALTER TABLE sale ADD COLUMNS (note STRING, day DATE)")
    assert rows(shop, "SELECT * FROM sale") == [(1, 5, None, None), (1, 5, None, None), (2, None, None, None)]
    assert rows(shop, "SELECT * FROM wide") == [(1, 5), (1, 5), (2, None)]
    assert set(shop.log()[-1].changes) == {"sale"}
    shop.sql("INSERT INTO sale VALUES (1, 5, 'a', NULL), (1, 5, 'b', NULL)")
    assert rows(shop, "SELECT * FROM sold") == [(1, 20, 4), (2, None, 1)]
    assert rows(shop, "SELECT * FROM wide WHERE item = 1") == [(1, 5)] * 4
    assert right(shop)
    assert list(shop.query("sale(i, a, n)", as_of=last)) == [(1, 5, 2), (2, None, 1)]
    shop.sql("ALTER TABLE item ADD COLUMN weight DOUBLE")
    assert rows(shop, "SELECT id, weight FROM item") == [(1, None), (2, None)]
    assert refusal(shop, "INSERT INTO item VALUES (1, 'x', NULL, NULL, NULL)").startswith("error[KEY_VIOLATION]")


def test_a_view_takes_the_place_of_another(shop: Warehouse) -> None:
    commit = shop.sql("CREATE OR REPLACE MATERIALIZED VIEW Sold AS SELECT item, max(amount) AS amount FROM sale GROUP BY item")[
        0
    ].commit
    assert commit is not None
    assert list(commit.changes["sold"].values())[:2] == [("delete", (1, 10, 2)), ("delete", (2, None, 1))]
    assert shop.log()[-1].changes["sold"] == (2, 2)
    assert rows(shop, "SELECT * FROM sold") == [(1, 5), (2, None)]
    assert list(shop.query("sold(i, a, n)", as_of=commit.number - 1)) == [(1, 10, 2), (2, None, 1)]  # type: ignore[operator]
    shop.sql("CREATE MATERIALIZED VIEW IF NOT EXISTS sold AS SELECT 1 AS x")
    assert right(shop)


def test_what_others_read_keeps_its_columns(shop: Warehouse) -> None:
    shop.sql("CREATE MATERIALIZED VIEW top AS SELECT item FROM sold WHERE amount > 1")
    told = refusal(shop, "CREATE OR REPLACE MATERIALIZED VIEW sold AS SELECT item FROM sale")
    columns = "(item BIGINT) with rows that may repeat instead of (item BIGINT, amount BIGINT, sales BIGINT NOT NULL)"
    assert told.startswith(f'error[SQL_REPLACED]: view "sold" would have other columns, {columns}, and is read by top\n')
    shop.define(".type Id <: symbol .decl named(x: Id) .decl v, w(x: Id) v(x) :- named(x). w(x) :- v(x).")
    told = refusal(shop, "CREATE OR REPLACE VIEW v AS SELECT DISTINCT concat(x, 'a') AS x FROM named")
    assert "other columns, .decl v(x: symbol) instead of .decl v(x: Id)" in told
    told = refusal(shop, "CREATE OR REPLACE MATERIALIZED VIEW sold AS SELECT * FROM top")
    assert told.startswith('error[SQL_REPLACED]: view "sold" would read "top", which reads it\n')
    assert refusal(shop, "DROP VIEW sold").startswith('error[DROP_DEPENDENTS]: "sold" cannot be dropped: top')
    assert refusal(shop, "DROP TABLE sale").startswith('error[DROP_DEPENDENTS]: "sale" cannot be dropped: sold')
    shop.sql(
        "CREATE OR REPLACE MATERIALIZED VIEW sold AS SELECT item, sum(amount) AS amount, count(*) + 1 AS sales FROM sale GROUP BY item"
    )
    assert rows(shop, "SELECT * FROM top") == [(1,)]
    assert right(shop)


def test_drop_and_create_again(shop: Warehouse) -> None:
    shop.sql("DROP TABLE IF EXISTS nothing; DROP VIEW IF EXISTS nothing; DROP MATERIALIZED VIEW sold; DROP TABLE sale")
    shop.sql("CREATE TABLE IF NOT EXISTS sale (x STRING); CREATE TABLE IF NOT EXISTS Sale (y INT)")
    assert rows(shop, "SHOW COLUMNS IN sale") == [("x",)]
    assert refusal(shop, "DROP VIEW item").startswith('error[SQL_OTHER_KIND]: "Item" is a table\n')


# ---- what is there


def test_show_and_describe(shop: Warehouse) -> None:
    assert rows(shop, "SHOW TABLES") == [
        ("Item", "id BIGINT, name STRING, price DECIMAL(10,2), day DATE"),
        ("sale", "item BIGINT, amount BIGINT"),
    ]
    assert rows(shop, "SHOW TABLES LIKE 's*'") == [("sale", "item BIGINT, amount BIGINT")]
    assert rows(shop, "SHOW VIEWS") == [("sold", "item BIGINT, amount BIGINT, sales BIGINT")]
    assert rows(shop, "DESCRIBE item")[:2] == [("id", "BIGINT", "no", "primary key"), ("name", "STRING", "no", "")]
    assert rows(shop, "DESC TABLE sale") == [("item", "BIGINT", "yes", ""), ("amount", "BIGINT", "yes", "")]
    shop.sql("ALTER TABLE sale ADD COLUMN note STRING")
    told = shop.sql("SHOW CREATE TABLE sale; REFRESH MATERIALIZED VIEW sold; EXPLAIN MATERIALIZED VIEW sold")
    assert told[0].message == "CREATE TABLE sale (item BIGINT, amount BIGINT);\nALTER TABLE sale ADD COLUMN note STRING;"
    assert told[1].message == "sold is always up to date"
    assert told[2].message.startswith("sold is kept from changes alone\n  sold: counting (")
    assert "sold?1: totals (" in told[2].message
    shop.define(".decl p(x: number)\np(1).")
    assert shop.sql("SHOW CREATE TABLE p")[0].message == ".decl p(x: number)\np(1)."


def test_explain_tells_the_inner_relations(shop: Warehouse) -> None:
    shop.sql("CREATE MATERIALIZED VIEW top AS SELECT max(amount) AS most FROM sold")
    parts = [part.relation for part in shop.explain("sold").parts]
    assert parts[0] == "sold"
    assert "sold?1" in parts
    assert not [part for part in (p.relation for p in shop.explain("top").parts) if part.startswith("sold")]


# ---- what is refused


REFUSED = {
    "ARRAY<INT>": "the type ARRAY<INT>",
    "STRUCT<a: INT>": "the type STRUCT<a: INT>",
    "MAP<STRING, INT>": "the type MAP<STRING, INT>",
    "DECIMAL(19,2)": "the type DECIMAL(19, 2)",
    "VARCHAR(10)": "the type VARCHAR(10)",
    "INT DEFAULT 1": "a DEFAULT",
    "INT GENERATED ALWAYS AS (1 + 1)": "a generated column",
    "INT CHECK (x > 1)": "a CHECK",
    "INT REFERENCES item(id)": "a FOREIGN KEY",
    "INT UNIQUE": "UNIQUE",
}


@pytest.mark.parametrize("column", REFUSED)
def test_columns_that_are_refused(shop: Warehouse, column: str) -> None:
    told = refusal(shop, f"CREATE TABLE t (x {column})")
    assert told.startswith(f"error[SQL_UNSUPPORTED]: {REFUSED[column]} ")
    assert "  = hint: " in told


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TEMPORARY VIEW v AS SELECT 1 AS x", "CREATE TABLE t AS SELECT 1 AS x", "CREATE TABLE t LIKE item", "CREATE TABLE t (x INT) USING delta",
        "CREATE TEMPORARY TABLE t (x INT)", "CREATE TABLE t (x INT) PARTITIONED BY (x)", "CREATE TABLE t (x INT) TBLPROPERTIES ('a' = 'b')",
        "CREATE TABLE a.t (x INT)", "CREATE OR REPLACE TABLE item (x INT)", "CREATE TABLE `a b` (x INT)", "CREATE TABLE t (`a b` INT)",
        "CREATE INDEX i ON item (id)", "ALTER TABLE item DROP COLUMN name", "ALTER TABLE item RENAME TO thing",
        "ALTER TABLE item ADD COLUMN x INT NOT NULL", "ALTER TABLE item ADD COLUMN x INT FIRST", "DROP TABLE sale CASCADE",
        "INSERT OVERWRITE sale VALUES (1, 2)", "MERGE INTO sale USING item ON TRUE WHEN MATCHED THEN DELETE", "BEGIN", "USE other",
        "SET x = 1", "EXPLAIN SELECT 1", "SHOW FUNCTIONS", "INSERT INTO sale PARTITION (item = 1) VALUES (2)",
    ],
)  # fmt: skip
def test_statements_that_are_refused(shop: Warehouse, text: str) -> None:
    told = refusal(shop, text)
    assert told.startswith(("error[SQL_UNSUPPORTED]", "error[SQL_EXISTS]")), told
    assert "  = hint: " in told


TOLD = {
    "SELECT * FROM item WHERE": """\
error[SQL_SYNTAX]: this is not SQL: something is missing near "WHERE"
 --> <sql>:1:20
  |
1 | SELECT * FROM item WHERE
  |                    ^^^^^
  = hint: Statements are written in Spark's dialect and separated by semicolons.""",
    "INSERT INTO items\nVALUES (1)": """\
error[SQL_TABLE]: there is no table or view "items"
 --> <sql>:1:13
  |
1 | INSERT INTO items
  |             ^^^^^
  = hint: Did you mean "Item"?""",
    "UPDATE item\nSET prise = 1": """\
error[SQL_COLUMN]: there is no column "prise" in "Item"
 --> <sql>:2:5
  |
2 | SET prise = 1
  |     ^^^^^
  = hint: Did you mean "price"?""",
    "SELECT 1;\nINSERT INTO item VALUES (3, 'cap', 1, '2024-02-29')": """\
error[SQL_TYPE]: a STRING cannot be stored in column "day", which is a DATE
 --> <sql>:2:39
  |
2 | INSERT INTO item VALUES (3, 'cap', 1, '2024-02-29')
  |                                       ^^^^^^^^^^^^
  = hint: Write CAST(… AS DATE).""",
    "DELETE FROM sold": """\
error[SQL_TARGET]: "sold" is a view: it has the rows of its query
 --> <sql>:1:13
  |
1 | DELETE FROM sold
  |             ^^^^
  = hint: Change the tables it reads, or define it anew with CREATE OR REPLACE MATERIALIZED VIEW.""",
    "INSERT INTO sale VALUES (1, 2), (3)": """\
error[SQL_WIDTH]: 1 value for the columns (item, amount) of "sale"
 --> <sql>:1:34
  |
1 | INSERT INTO sale VALUES (1, 2), (3)
  |                                  ^
  = hint: Give one value for each column, or list the columns that get one: INSERT INTO sale (…) VALUES (…).""",
    "INSERT INTO item (id) VALUES (3)": """\
error[SQL_NO_VALUE]: column "name" of "Item" is NOT NULL and gets no value
 --> <sql>:1:13
  |
1 | INSERT INTO item (id) VALUES (3)
  |             ^^^^^^^^
  = hint: Give a value for it.""",
    "CREATE TABLE t (a INT, b INT, PRIMARY KEY (b, a, B))": """\
error[SQL_DUPLICATE]: column "b" is there twice
 --> <sql>:1:50
  |
1 | CREATE TABLE t (a INT, b INT, PRIMARY KEY (b, a, B))
  |                                                  ^
  = hint: Name each column of the key once.""",
    "CREATE TABLE t ()": """\
error[SQL_UNSUPPORTED]: a table without columns is not supported
 --> <sql>:1:14
  |
1 | CREATE TABLE t ()
  |              ^
  = hint: Write down the columns.""",
    "ALTER TABLE sale ADD COLUMNS ()": """\
error[SQL_UNSUPPORTED]: ADD COLUMNS without columns is not supported
 --> <sql>:1:13
  |
1 | ALTER TABLE sale ADD COLUMNS ()
  |             ^^^^
  = hint: Write down the columns.""",
    "SELECT count() FROM sale": """\
error[SQL_FUNCTION]: count needs an argument
 --> <sql>:1:8
  |
1 | SELECT count() FROM sale
  |        ^^^^^
  = hint: Write one in the parentheses; count(*) counts rows.""",
    "SELECT FROM sale": """\
error[SQL_UNSUPPORTED]: a query without columns is not supported
 --> <sql>:1:13
  |
1 | SELECT FROM sale
  |             ^^^^
  = hint: Name columns, or write *.""",
    "SELECT": """\
error[SQL_UNSUPPORTED]: a query without columns is not supported
 --> <sql>:1:1
  |
1 | SELECT
  | ^^^^^^
  = hint: Name columns, or write *.""",
    "CREATE TABLE t (a INT, A STRING)": """\
error[SQL_DUPLICATE]: column "A" is there twice
 --> <sql>:1:24
  |
1 | CREATE TABLE t (a INT, A STRING)
  |                        ^
  = hint: Give it another name.""",
}


@pytest.mark.parametrize("text", TOLD)
def test_what_is_told(shop: Warehouse, text: str) -> None:
    assert refusal(shop, text) == TOLD[text]


def test_a_closed_warehouse(shop: Warehouse) -> None:
    shop.close()
    with pytest.raises(vk.StoreError, match="CLOSED"):
        shop.sql("SELECT 1")


def test_on_spark(shop: Warehouse, spark_session: object) -> None:
    """Both engines in turns, and snapshots of a warehouse that was just opened."""
    with vk.open(shop.path, spark=spark_session) as other:  # type: ignore[arg-type]
        other.checkpoint()
        other.sql("UPDATE sale SET amount = amount + 1; INSERT INTO sale SELECT id, 1 FROM item", engine="spark")
        other.sql("ALTER TABLE sale ADD COLUMN note STRING")
        other.sql("INSERT INTO sale (item) VALUES (2)", engine="spark")
        [found] = other.sql("SELECT item, amount FROM sale ORDER BY item DESC, amount NULLS LAST", engine="spark")
        assert found.answer is not None
        assert list(found.answer) == [(2, 1), (2, None), (2, None), (1, 1), (1, 6), (1, 6)]
        assert all(verified.right for verified in other.verify(engine="spark"))
    assert rows(shop, "SELECT * FROM sold") == [(1, 13, 3), (2, 1, 3)]


@pytest.mark.parametrize(
    ("query", "advice"),
    [
        ("SELECT id FROM item", ""),
        ("SELECT name FROM item", "with a key of the tables it reads among its columns"),
        ("SELECT id, rank() OVER (ORDER BY price) AS r FROM item", "with PARTITION BY"),
        ("SELECT id, rank() OVER (PARTITION BY name ORDER BY price) AS r FROM item", ""),
        ("SELECT id, price FROM item ORDER BY price LIMIT 3", ""),
        (
            "WITH RECURSIVE r(a, b) AS (SELECT item, amount FROM sale UNION SELECT r.a, sale.amount FROM r JOIN sale ON r.b = sale.item)"
            " SELECT a, b FROM r",
            "without what makes a recomputation necessary",
        ),
    ],
)
def test_explain_tells_what_would_be_cheaper(shop: Warehouse, query: str, advice: str) -> None:
    told = shop.sql(f"CREATE MATERIALIZED VIEW v AS {query}; EXPLAIN MATERIALIZED VIEW v")[-1].message
    assert advice in told
    assert ("It would be cheaper" in told) == bool(advice)


def test_what_inner_relations_take_is_told_of_their_view(shop: Warehouse) -> None:
    shop.sql(
        "CREATE MATERIALIZED VIEW linked AS WITH RECURSIVE r(a, b) AS (SELECT item, amount FROM sale"
        " UNION SELECT r.a, sale.amount FROM r JOIN sale ON r.b = sale.item) SELECT a, count(*) AS n FROM r GROUP BY a"
    )
    before = everything(shop)
    with pytest.raises(vk.StoreError) as caught:
        shop.sql("INSERT INTO sale VALUES (5, 1)", strict=True)
    assert caught.value.code == "STRICT"
    assert everything(shop) == before
    commit = shop.sql("INSERT INTO sale VALUES (5, 1)")[-1].commit
    assert commit is not None
    assert commit.views["linked"].strategy == "recomputation"
    assert set(commit.views) == {"sold", "linked"}


def test_full_joins_of_rows_that_are_null_throughout(shop: Warehouse) -> None:
    shop.sql("CREATE TABLE l (a BIGINT, b BIGINT); CREATE TABLE r (a BIGINT, b BIGINT)")
    shop.sql(
        "CREATE MATERIALIZED VIEW both_sides AS SELECT l.a AS la, l.b AS lb, r.a AS ra, r.b AS rb FROM l FULL JOIN r ON l.a = r.a"
    )
    shop.sql("INSERT INTO l VALUES (NULL, NULL), (NULL, NULL), (1, 2); INSERT INTO r VALUES (NULL, NULL), (1, NULL)")
    nothing = (None, None, None, None)
    assert rows(shop, "SELECT * FROM both_sides") == [nothing, nothing, nothing, (1, 2, 1, None)]
    assert rows(shop, "SELECT count(*) FROM l FULL JOIN r ON l.a = r.a") == [(4,)]
    assert rows(shop, "SELECT count(*) FROM l FULL JOIN r ON l.a = r.a FULL JOIN l AS m ON m.b = r.b") == [(7,)]
    shop.sql("DELETE FROM r WHERE a IS NULL")
    assert rows(shop, "SELECT la FROM both_sides") == [(None,), (None,), (1,)]
    assert right(shop)
