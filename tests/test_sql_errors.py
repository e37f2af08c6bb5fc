"""What people read about statements of SQL that are refused or fail: in SQL's words, with the place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import viewkeeper as vk
from viewkeeper.warehouse import Warehouse

TABLES = "CREATE TABLE t (id BIGINT PRIMARY KEY, s STRING, d DATE, x BIGINT, b BOOLEAN)"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Warehouse]:
    with vk.open(tmp_path / "house", create=True) as warehouse:
        warehouse.sql(TABLES)
        yield warehouse


def told(house: Warehouse, text: str) -> str:
    """What is told about a statement; nothing is changed by it."""
    before = house.program, len(house.log())
    with pytest.raises(vk.ViewkeeperError) as caught:
        house.sql(text)
    assert (house.program, len(house.log())) == before
    return str(caught.value)


def place(text: str) -> str:
    """What the carets stand under."""
    line, carets = text.split("\n")[3:5]
    return line[carets.index("^") : carets.rindex("^") + 1]


# ---- constants that fail

CONSTANTS = {
    "SELECT * FROM t WHERE d > DATE '2024-02-30'": ("BAD_TEXT", "'2024-02-30'"),
    "SELECT * FROM t WHERE x > 1 AND d > DATE '2024-02-30'": ("BAD_TEXT", "'2024-02-30'"),
    "SELECT * FROM t WHERE s RLIKE '('": ("BAD_TEXT", "s RLIKE '('"),
    "SELECT * FROM t WHERE b OR s RLIKE '('": ("BAD_TEXT", "s RLIKE '('"),
    "SELECT s LIKE 'abc\\\\' AS y FROM t": ("BAD_TEXT", "s LIKE 'abc\\\\'"),
    "SELECT x + CAST('abc' AS INT) AS y FROM t": ("BAD_TEXT", "'abc'"),
    "SELECT 1/0 AS y FROM t": ("DIVISION_BY_ZERO", "1/0"),
    "SELECT sum(1/0) AS y FROM t": ("DIVISION_BY_ZERO", "1/0"),
    "SELECT t.x FROM t JOIN t AS u ON t.x = u.x + 1 % 0": ("DIVISION_BY_ZERO", "1 % 0"),
    "SELECT b AND 1/0 = 1 AS y FROM t": ("DIVISION_BY_ZERO", "1/0"),
    "SELECT CASE WHEN 1/0 = 1 THEN x END AS y FROM t": ("DIVISION_BY_ZERO", "1/0"),
    "SELECT make_date(2024, 13, 1) AS y FROM t": ("OVERFLOW", "make_date(2024, 13, 1"),
    "SELECT split_part(s, ' ', 0) AS y FROM t": ("OVERFLOW", "split_part(s, ' ', 0"),
    "SELECT CASE WHEN b THEN DATE '2024-02-30' END AS y FROM t": ("BAD_TEXT", "'2024-02-30'"),
    "SELECT coalesce(d, TIMESTAMP '2024-02-01 25:00:00') AS y FROM t": ("BAD_TEXT", "'2024-02-01 25:00:00'"),
    "SELECT regexp_replace(s, '[a&&b]', '') AS y FROM t": ("BAD_TEXT", "regexp_replace(s, '[a&&b]', ''"),
    "SELECT regexp_extract(s, '(') AS y FROM t": ("BAD_TEXT", "regexp_extract(s, '('"),
    "SELECT next_day(d, 'Tag') AS y FROM t": ("BAD_TEXT", "next_day(d, 'Tag'"),
    "SELECT sqrt(-1) AS y FROM t": ("OVERFLOW", "sqrt(-1"),
    "SELECT sqrt(2 - 1 - 1 - 1) AS y FROM t": ("OVERFLOW", "sqrt(2 - 1 - 1 - 1"),
}


@pytest.mark.parametrize("query", CONSTANTS)
def test_constants_that_fail_are_refused_where_a_view_is_defined(house: Warehouse, query: str) -> None:
    code, where = CONSTANTS[query]
    for kind in ("MATERIALIZED VIEW", "VIEW"):
        found = told(house, f"CREATE {kind} v AS {query}")
        assert found.startswith(f"error[{code}]")
        assert place(found) == where
        assert "  = hint: " in found


@pytest.mark.parametrize(
    "value",
    [
        "CASE WHEN x > 5 THEN 1/0 END",
        "CASE WHEN x > 2 THEN 1 WHEN x < 1/0 THEN 2 END",
        "CASE WHEN false THEN 1/0 ELSE 2 END",
        "CASE x WHEN 5 THEN 1/0 ELSE 2 END",
        "coalesce(x, 1/0)",
        "if(b, 1/0, 1)",
        "nvl2(x, 1, 1/0)",
        "coalesce(x, sqrt(-1) + x)",
        "b AND split_part(s, ' ', 0) = 'a'",
        "s LIKE 'a\\\\_b'",
        "1 / 2 + 1.5 - CAST('2' AS DECIMAL(3,1))",
        "cast(NULL AS INT) / 0",
        "CASE WHEN b THEN CAST('2024-02-30' AS DATE) END",
    ],
)
def test_constants_that_need_not_be_evaluated_are_not(house: Warehouse, value: str) -> None:
    house.sql(f"CREATE MATERIALIZED VIEW v AS SELECT id, {value} AS y FROM t")
    house.sql(
        "CREATE MATERIALIZED VIEW w AS SELECT upper(s) AS s, max(x) AS m, CASE WHEN count(*) < 0 THEN 1/0 END AS n FROM t GROUP BY upper(s)"
    )
    house.sql("INSERT INTO t VALUES (1, 'a', NULL, 3, false)")


def test_a_view_that_was_accepted_once_stays(house: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is refused one day, a warehouse that has it can be opened."""
    with monkeypatch.context() as patch:
        patch.setattr("viewkeeper.sql.lowering.evaluating.Constants.check", lambda *arguments: None)
        house.sql("CREATE MATERIALIZED VIEW v AS SELECT 1/0 AS y FROM t")
    house.close()
    with vk.open(tmp_path / "house") as again:
        assert "v" in again.program.derived


# ---- values that fail

FAILURES = {
    "SELECT 1/0": """\
error[DIVISION_BY_ZERO]: division by zero in 1 / 0
 --> <sql>:1:8
  |
1 | SELECT 1/0
  |        ^^^
  = hint: Write x / NULLIF(y, 0), which is NULL where y is 0.""",
    "SELECT id,\n  5 / x FROM t": """\
error[DIVISION_BY_ZERO]: division by zero in the query
 --> <sql>:2:3
  |
2 |   5 / x FROM t
  |   ^^^^^
  = hint: Write x / NULLIF(y, 0), which is NULL where y is 0.""",
    "INSERT INTO t VALUES (2, 'a', DATE '2024-02-30', 1, true)": """\
error[BAD_TEXT]: CAST('2024-02-30' AS DATE): no such day
 --> <sql>:1:36
  |
1 | INSERT INTO t VALUES (2, 'a', DATE '2024-02-30', 1, true)
  |                                    ^^^^^^^^^^^^
  = hint: Correct the text.""",
    "SELECT to_date('30.2.')": """\
error[BAD_TEXT]: to_date('30.2.'): not a date such as 2024-02-29
 --> <sql>:1:8
  |
1 | SELECT to_date('30.2.')
  |        ^^^^^^^^^^^^^^^
  = hint: Correct the text.""",
    "SELECT * FROM t WHERE CAST(s AS DOUBLE) > 1": """\
error[BAD_TEXT]: CAST('a' AS DOUBLE): not a number
 --> <sql>:1:28
  |
1 | SELECT * FROM t WHERE CAST(s AS DOUBLE) > 1
  |                            ^
  = hint: Convert only what can be: CASE WHEN s RLIKE '…' THEN CAST(s AS DOUBLE) END is NULL for all else.""",
    "SELECT s RLIKE concat(s, '(') FROM t": """\
error[BAD_TEXT]: RLIKE 'a(': not a regular expression: missing ), unterminated subpattern at position 1
 --> <sql>:1:8
  |
1 | SELECT s RLIKE concat(s, '(') FROM t
  |        ^^^^^^^^^^^^^^^^^^^^^
  = hint: Correct the pattern: a sign such as ( that stands for itself is written '\\\\('.""",
    "UPDATE t SET x = 9223372036854775807 + id": """\
error[OVERFLOW]: there is no result, or none that fits its type, in the query
 --> <sql>:1:8
  |
1 | UPDATE t SET x = 9223372036854775807 + id
  |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = hint: A BIGINT has 64 bits, a DECIMAL 18 digits, a DOUBLE is finite, and years go from 1 to 9999. Nothing was changed.""",
    "CREATE MATERIALIZED VIEW v AS SELECT 1 / x AS y FROM t": """\
error[DIVISION_BY_ZERO]: division by zero in the view "v"
 --> <sql>:1:38
  |
1 | CREATE MATERIALIZED VIEW v AS SELECT 1 / x AS y FROM t
  |                                      ^^^^^
  = hint: Write x / NULLIF(y, 0), which is NULL where y is 0.""",
}


@pytest.mark.parametrize("text", FAILURES)
def test_values_that_fail(house: Warehouse, text: str) -> None:
    house.sql("INSERT INTO t VALUES (1, 'a', NULL, 0, true)")
    assert told(house, text) == FAILURES[text]


def test_values_that_fail_in_a_view(house: Warehouse) -> None:
    house.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT sum(10 / x) AS y FROM t; CREATE MATERIALIZED VIEW w AS SELECT CAST(s AS DATE) AS d FROM t"
    )
    assert told(house, "INSERT INTO t VALUES (1, NULL, NULL, 0, true)") == (
        'error[DIVISION_BY_ZERO]: division by zero in the view "v"\n'
        "  = hint: Write x / NULLIF(y, 0), which is NULL where y is 0."
    )
    found = told(house, "INSERT INTO t VALUES (1, '2024-02-30', NULL, 1, true)")
    assert found.startswith("error[BAD_TEXT]: CAST('2024-02-30' AS DATE) in the view \"w\": no such day\n")
    with pytest.raises(
        vk.ViewkeeperError, match=r"CAST\('a' AS DATE\)"
    ):  # also where it is no statement of SQL that brings it about
        house.commit({"t": [(1, "a", None, 1, True)]})


# ---- rows that do not fit


def test_rows_of_one_key(house: Warehouse) -> None:
    house.sql("CREATE TABLE o (id BIGINT PRIMARY KEY, s STRING, amount DECIMAL(9,2), day DATE, at TIMESTAMP, b BOOLEAN)")
    house.sql("INSERT INTO o VALUES (1, 'it', 10.5, DATE '2024-01-01', TIMESTAMP '2024-01-01 12:00:00', true)")
    shown = """\
would have several rows with the same key (id):
  o(1, 'it', 10.50, 2024-01-01, 2024-01-01T12:00:00.000000Z, true)
  o(1, NULL, 2.00, NULL, NULL, NULL)
"""
    assert told(house, "INSERT INTO o (id, amount) VALUES (1, 2)") == (
        f'error[KEY_VIOLATION]: table "o" {shown}'
        "  = hint: UPDATE the other row, or DELETE it before in the same script. Nothing was changed."
    )
    with pytest.raises(vk.ViewkeeperError, match="or upsert") as caught:
        house.commit({"o": [(1, None, 2, None, None, None)]})
    assert "\n  o(1, 'it', 10.50, 2024-01-01, 2024-01-01T12:00:00.000000Z, true)\n" in str(caught.value)


def test_rows_that_violate_integrity(house: Warehouse) -> None:
    house.sql("CREATE VIEW v TBLPROPERTIES ('integrity' = 'reject') AS SELECT id, s, d, x / 2 AS y FROM t")
    assert "\n  v(1, NULL, 2024-01-01, 0.5)\n" in told(house, "INSERT INTO t VALUES (1, NULL, DATE '2024-01-01', 1, true)")


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("INSERT INTO n (id, a) VALUES (3, NULL)", 34),
        ("INSERT INTO n (id, a) VALUES (3, 1), (4, NULL)", 42),
        ("INSERT INTO n (id, a) SELECT id, NULL FROM t", 34),
        ("UPDATE n SET a = NULL", 18),
    ],
)
def test_values_that_must_be_there(house: Warehouse, text: str, column: int) -> None:
    house.sql(
        "CREATE TABLE n (id BIGINT PRIMARY KEY, a BIGINT NOT NULL); INSERT INTO n VALUES (1, 1); INSERT INTO t (id) VALUES (9)"
    )
    found = told(house, text)
    assert found.startswith('error[SQL_NO_VALUE]: column "a"')
    assert (place(found), f":1:{column}\n" in found) == ("NULL", True)


# ---- names of what is not there

NAMED = {
    "SELECT unix_timestamp() FROM t": "unix_timestamp gives another value each time",
    "SELECT split(s, 'a') FROM t": "split is not supported",
    "SELECT decode(x, 1, 'a') FROM t": "decode is not supported",
    "SELECT Max_By(s, x) FROM t": "Max_By cannot be kept",
    "SELECT percentile(x, 0.5) FROM t": "percentile cannot be kept",
    "SELECT collect_list( DISTINCT x) FROM t": "collect_list cannot be kept",
    "SELECT CURRENT_DATE FROM t": "current_date gives another value each time",
    "SELECT x FROM t WHERE sum(x) > 1": "the aggregate sum here is not supported",
    "SELECT d - d FROM t": "an interval on its own is not supported",
    "SELECT d + INTERVAL (x) DAY FROM t": "an interval of a computed number is not supported",
    "SELECT d + INTERVAL 1 MONTH 2 DAYS FROM t": "an interval of months and of days or less is not supported",
    "SELECT '2024-02-29' + INTERVAL 1 DAY FROM t": "an interval cannot be added to a value of type STRING",
    "SELECT d - d > x FROM t": "an interval can be compared with another of months, or another of days and less, only",
    "SELECT 1.5 * INTERVAL 1 DAY FROM t": "an interval multiplied by a DECIMAL(2,1) is not supported",
    "SELECT EXTRACT(EPOCH FROM d) FROM t": "EXTRACT of EPOCH is not supported",
    "SELECT TRY_CAST(s AS DECIMAL(20,2)) FROM t": "TRY_CAST to DECIMAL(20,2) is not supported",
    "SELECT date_format(d, 'yyyy GG') FROM t": "'GG' is not known in patterns of times",
    "SELECT to_date(s, 'yyyy-DDD') FROM t": "'DDD' is not known in patterns of times",
    "SELECT to_date(s, 'yMd') FROM t": "'yM' is not known in patterns of times",
    "SELECT datediff(DECADE, d, d) FROM t": "datediff has no unit 'DECADE'",
    "SELECT (x, id) FROM t": "a list in parentheses as a value is not supported",
    "SELECT s[0] FROM t": "[…] behind a value is not supported",
    "SELECT * FROM t LATERAL VIEW explode(s) AS y": "LATERAL VIEW is not supported",
    "SELECT * FROM t PIVOT (sum(x) FOR s IN ('a'))": "PIVOT is not supported",
    "SELECT * FROM t UNPIVOT (v FOR n IN (id, x))": "UNPIVOT is not supported",
    "SELECT * FROM t TIMESTAMP AS OF '2020-01-01'": "TIMESTAMP AS OF is not supported",
    "SELECT * FROM t CLUSTER BY x": "CLUSTER BY is not supported",
    "SELECT id FROM t FETCH FIRST 3 ROWS ONLY": "FETCH is not supported",
    "CREATE MATERIALIZED VIEW v24 AS MAP id USING 'cat' FROM t": "this form of CREATE MATERIALIZED VIEW is not supported",
    "SELECT t.id FROM t RIGHT SEMI JOIN t AS u ON t.x = u.x": "RIGHT SEMI JOIN is not supported",
    "SELECT y.t.x FROM t": "a name of more than two parts is not supported",
    "SELECT * FROM t TABLESAMPLE (10 PERCENT)": "TABLESAMPLE is not supported",
    "DELETE t FROM t WHERE x = 1": "a table before FROM in DELETE is not supported",
    "SELECT * FROM range(3)": "range(…) in FROM is not supported",
    "SELECT substring(s) FROM t": "substring takes 2 or 3 arguments, not 1",
    "SELECT make_date(1) FROM t": "make_date takes 3 arguments, not 1",
    "SELECT substring(s, 1, 2, 3) FROM t": "substring has an argument that it does not take",
    "SELECT length(s, x) FROM t": "length has an argument that it does not take",
    "SELECT initcap(s, s) FROM t": "initcap takes 1 argument, not 2",
    "SELECT d + 1000000000 * INTERVAL 1 DAY FROM t": "the interval is too long",
    "SELECT d + INTERVAL 999999999999 MONTHS FROM t": "the interval is too long",
    "SELECT regexp_replace(s, 'a', 'b', 2) FROM t": "regexp_replace has an argument that it does not take",
    "SELECT round(x, 1, 2) FROM t": "round has an argument that it does not take",
    "SELECT add_months(d, 1, 2) FROM t": "add_months has an argument that it does not take",
    "SELECT min(x, id) FROM t": "min has an argument that it does not take",
    "SELECT every(b, b) FROM t": "every has an argument that it does not take",
    "SELECT count_if(b, b) FROM t": "count_if has an argument that it does not take",
    "SELECT count(*, x) FROM t": "count has an argument that it does not take",
    "SELECT max(DISTINCT x, id) FROM t": "max has an argument that it does not take",
    "SELECT every(x) FROM t": "a condition is needed here, not a value of type BIGINT",
    "SELECT year() FROM t": "year needs more arguments",
    "SELECT nvl2(x, x) FROM t": "nvl2 needs more arguments",
    "SELECT sha2(s) FROM t": "sha2 needs more arguments",
    "SELECT like(s, 'a', s) FROM t": "a text of one character is needed behind ESCAPE",
    "SELECT nvl(x, x, x) FROM t": "nvl takes 2 arguments, not 3",
    "SELECT trunc(d, 'MM', 1) FROM t": "trunc takes 2 arguments, not 3",
    "SELECT log10(x, x) FROM t": "log10 takes 1 argument, not 2",
    "SELECT datediff(d, d, d, d) FROM t": "datediff takes 2 or 3 arguments, not 4",
    "SELECT if(b, x) FROM t": "if takes 3 arguments, not 2",
    "SELECT greatest(x) FROM t": "greatest takes 2 or more arguments, not 1",
    "SELECT chr(65, 66) FROM t": "chr takes 1 argument, not 2",
    "SELECT row_number(x) OVER (ORDER BY x) FROM t": "row_number has an argument that it does not take",
    "SELECT rank(x) OVER (ORDER BY x) FROM t": "rank has an argument that it does not take",
    "SELECT sha2(s, s) FROM t": "a value of type BIGINT is needed here, not STRING",
}


@pytest.mark.parametrize("text", NAMED)
def test_what_is_not_there_is_called_as_it_was_written(house: Warehouse, text: str) -> None:
    code, _, message = told(house, text).split("\n")[0].partition(": ")
    assert code in ("error[SQL_FUNCTION]", "error[SQL_UNSUPPORTED]", "error[SQL_TYPE]")
    assert message == NAMED[text]


# ---- shapes of queries

SHAPES = {
    "SELECT * EXCEPT (y) FROM t": ('there is no column "y" that EXCEPT could leave out', "y"),
    "SELECT * EXCEPT (x) FROM t JOIN t AS u ON t.id = u.id": ('column "x" is in "t" and in "u"', "x"),
    "SELECT t.* EXCEPT (id, s, d, x, b) FROM t": ("a query without columns is not supported", "t.* EXCEPT (id, s, d, x, b"),
    "SELECT * REPLACE (1 AS x) FROM t": ("* with REPLACE or RENAME is not supported", "* REPLACE (1 AS x"),
    "SELECT *, count(*) FROM t GROUP BY id": (
        'there is no column "s" behind GROUP BY: it is neither grouped by nor aggregated',
        "*",
    ),
    "SELECT id FROM t JOIN t AS u USING (id) JOIN t AS v USING (x)": ('column "x" is in "t" and in "u"', "t AS v USING (x"),
    "SELECT x AS y, id AS y, y + 1 FROM t": ('output "y" is there twice', "y"),
    "SELECT x AS y, sum(y) OVER () FROM t": ('there is no column "y"', "y"),
    "SELECT count(*) OVER w FROM t": ('"w" as a window, which WINDOW does not define, is not supported', "w"),
    "SELECT count(*) OVER (w ROWS 1 PRECEDING) FROM t WINDOW w AS (ORDER BY id)": (
        "a named window with more than its name is not supported",
        "w",
    ),
    "SELECT id FROM t QUALIFY x > 1": ("QUALIFY without a window function is not supported", "x > 1"),
    "SELECT rank() OVER (ORDER BY id) IN (SELECT x FROM t) FROM t": (
        "a window function whose value is looked for in a query is not supported",
        "rank() OVER (ORDER BY id",
    ),
    "SELECT rank() OVER (ORDER BY id ROWS 1 PRECEDING) FROM t": ("a frame for rank is not supported", "1"),
    "SELECT sum(x) OVER (ORDER BY id ROWS BETWEEN 2 FOLLOWING AND 1 FOLLOWING) FROM t": (
        "the frame ends before it starts",
        "2 FOLLOWING AND 1",
    ),
    "SELECT sum(x) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) FROM t": (
        "EXCLUDE in a window is not supported",
        "1 PRECEDING AND 1",
    ),
    "SELECT sum(x) OVER (ORDER BY s RANGE 1 PRECEDING) FROM t": ("1 is no distance between values of type STRING", "1"),
    "SELECT sum(x) OVER (ORDER BY x RANGE 1.5 PRECEDING) FROM t": ("1.5 is no distance between values of type BIGINT", "1.5"),
    "SELECT sum(x) OVER (ORDER BY id, x RANGE 1 PRECEDING) FROM t": (
        "a window of RANGE with distances that is not ordered by one column is not supported",
        "1",
    ),
    "SELECT sum(x) OVER (ORDER BY d RANGE INTERVAL '1' MONTH PRECEDING) FROM t": (
        "a distance of months or years is not supported",
        "'1'",
    ),
    "SELECT first_value(x) FILTER (WHERE b) OVER (ORDER BY id) FROM t": ("FILTER for first_value is not supported", "b"),
    "SELECT sum(x) IGNORE NULLS OVER (ORDER BY id) FROM t": (
        "IGNORE NULLS for sum is not supported",
        "sum(x) IGNORE NULLS OVER (ORDER BY id",
    ),
    "SELECT sum(count(*)) FILTER (WHERE max(x) > 1) OVER () FROM t": (
        "FILTER with an aggregate is not supported",
        "max(x) > 1",
    ),
    "SELECT count(DISTINCT x) OVER () FROM t": ("DISTINCT in a window is not supported", "count(DISTINCT x"),
    "SELECT id FROM t WHERE (x, id) IN ((1, 2), (1, 2, 3))": (
        "rows of 2 and 3 values cannot be compared",
        "x, id) IN ((1, 2), (1, 2, 3",
    ),
    "SELECT id FROM t WHERE x = (1, 2)": ("rows of 1 and 2 values cannot be compared", "x = (1, 2"),
    "SELECT id FROM t WHERE x BETWEEN SYMMETRIC 2 AND 1": ("BETWEEN SYMMETRIC is not supported", "x BETWEEN SYMMETRIC 2 AND 1"),
    "SELECT t.id FROM t RIGHT JOIN LATERAL (SELECT t.x AS y) z ON true": (
        "LATERAL in this kind of join is not supported",
        "t.x AS y) z ON true",
    ),
    "SELECT t.id FROM t, LATERAL (SELECT DISTINCT u.s FROM t u WHERE u.x = t.x) z": (
        "DISTINCT in a query behind LATERAL is not supported",
        "u.s FROM t u WHERE u.x = t.x) z",
    ),
    "SELECT (SELECT sum(u.x + t.x) FROM t AS u WHERE u.s = t.s) FROM t": (
        '"x" of the query around it in an aggregate is not supported',
        "t.x",
    ),
    "SELECT (SELECT sum(count(*)) OVER () FROM t AS u WHERE u.s = t.s) FROM t": (
        "windows over aggregates without GROUP BY in a correlated subquery is not supported",
        "sum(count(*)) OVER () FROM t AS u WHERE u.s = t.s",
    ),
}


@pytest.mark.parametrize("start", ["", "CREATE MATERIALIZED VIEW r AS "])
@pytest.mark.parametrize("text", SHAPES)
def test_shapes_of_queries_that_are_refused(house: Warehouse, start: str, text: str) -> None:
    message, where = SHAPES[text]
    found = told(house, f"{start}{text}")
    assert found.split("\n")[0].partition(": ")[2] == message
    assert place(found) == where
    assert "  = hint: " in found


# ---- mistakes that only the whole tells

ITSELF = {
    "SELECT x FROM t WHERE x NOT IN (SELECT id FROM q)": "behind NOT",
    "SELECT x FROM t WHERE NOT EXISTS (SELECT 1 FROM q WHERE q.id = t.x)": "behind NOT",
    "SELECT sum(id) FROM q": "in an aggregate",
    "SELECT max(q.id) FROM q JOIN t ON q.id = t.x GROUP BY t.s": "in an aggregate",
    "SELECT t.id FROM t LEFT JOIN q ON t.x = q.id": "in an outer join",
    "SELECT t.id FROM t LEFT ANTI JOIN q ON t.x = q.id": "in an outer join",
    "(SELECT id FROM t EXCEPT SELECT id FROM q)": "behind EXCEPT",
}


@pytest.mark.parametrize("start", ["", "CREATE MATERIALIZED VIEW r AS "])
@pytest.mark.parametrize("step", ITSELF)
def test_recursion_that_has_no_meaning(house: Warehouse, start: str, step: str) -> None:
    found = told(house, f"{start}WITH RECURSIVE q AS (SELECT id FROM t UNION {step}) SELECT * FROM q")
    assert found.startswith(
        f'error[SQL_UNSUPPORTED]: a recursive query that reads itself, "q", {ITSELF[step]} is not supported\n'
    )
    assert place(found) == "q"
    assert "report" not in found


@pytest.mark.parametrize("start", ["", "CREATE MATERIALIZED VIEW r AS "])
@pytest.mark.parametrize(
    ("value", "why", "where"),
    [
        ("trunc(d, 'nonsense')", "trunc has no unit 'nonsense'", "trunc(d, 'nonsense'"),
        ("date_trunc('nonsense', d)", "date_trunc has no unit 'nonsense'", "date_trunc('nonsense', d"),
        ("ntile(0) OVER (ORDER BY x)", "ntile counts from 1, and 0 is less", "0"),
        ("nth_value(s, 0) OVER (ORDER BY x)", "nth_value counts from 1, and 0 is less", "0"),
    ],
)
def test_constants_that_mean_nothing(house: Warehouse, start: str, value: str, why: str, where: str) -> None:
    found = told(house, f"{start}SELECT {value} AS y FROM t")
    assert found.startswith(f"error[SQL_TYPE]: {why}\n")
    assert place(found) == where


@pytest.mark.parametrize(
    ("text", "message", "where"),
    [
        ("CREATE MATERIALIZED VIEW v REFRESH EVERY 1 DAY AS SELECT 1", "REFRESH in the definition of a view", "REFRESH"),
        (
            "SELECT 1; CREATE OR REPLACE MATERIALIZED VIEW v (a) SCHEDULE CRON 'x' AS SELECT 1",
            "SCHEDULE in the definition of a view",
            "SCHEDULE",
        ),
        ("SHOW FUNCTIONS", "SHOW FUNCTIONS", "FUNCTIONS"),
    ],
)
def test_statements_in_other_forms(house: Warehouse, text: str, message: str, where: str) -> None:
    found = told(house, text)
    assert found.startswith(f"error[SQL_UNSUPPORTED]: {message} is not supported\n")
    assert place(found) == where
