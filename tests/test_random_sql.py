"""Random SQL: after every transaction a view is what Spark answers to its query, and a table what DuckDB makes of it.

``VIEWKEEPER_SEEDS=500 pytest tests/test_random_sql.py`` plays more of it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.sql_playing import Asked, Player, spark_beside

import viewkeeper as vk

MORE = int(os.environ.get("VIEWKEEPER_SEEDS", "0"))
PROGRAMS = MORE or 12
RECOMPUTED = MORE or 8
ON_SPARK = 1
# Seeds that failed once.
FAILED_ONCE: tuple[int, ...] = ()

TABLES = """
CREATE TABLE r1 (i1 BIGINT, i2 BIGINT, s1 STRING, b1 BOOLEAN);
CREATE TABLE r2 (i1 BIGINT PRIMARY KEY, i2 BIGINT, m1 DECIMAL(10,2));
INSERT INTO r1 VALUES (1, 1, 'a', TRUE), (1, 1, 'a', TRUE), (NULL, 2, 'ab', FALSE), (2, NULL, NULL, NULL), (3, 1, '', TRUE);
INSERT INTO r2 VALUES (1, NULL, 1.50), (2, 1, NULL), (3, 3, -2.25);
"""
CHANGES = (
    "DELETE FROM r1 WHERE i1 = 1; UPDATE r2 SET i2 = i1",
    "INSERT INTO r1 VALUES (1, NULL, 'b', NULL), (1, 1, 'a', TRUE); DELETE FROM r2 WHERE i1 > 1",
    "DELETE FROM r1; DELETE FROM r2",
    "INSERT INTO r1 SELECT 1, NULL, 'a', NULL; INSERT INTO r2 VALUES (1, 1, 1.00)",
)
# The smallest queries that were wrong once.
WRONG_ONCE = (
    "SELECT i2 AS a FROM r1 WHERE i1 = i1",
    "SELECT min(i2) AS a FROM r1 GROUP BY ROLLUP (i1)",
    "SELECT i1, d FROM r1 RIGHT JOIN (SELECT max(i1) AS d FROM r2) x ON x.d >= 2",
    "SELECT x.s FROM (SELECT sum(i1) AS s FROM r2) x LEFT SEMI JOIN r1 ON 1 < x.s",
    "SELECT i1, i2, (SELECT sum(m1) FROM r2 WHERE r2.i1 <= r1.i1) AS s FROM r1",
    "SELECT i1, i2, (SELECT count(*) FROM r2 WHERE r2.i1 <> r1.i2 AND r2.i2 = r1.i1) AS s FROM r1",
    "SELECT i1, i2 FROM r1 WHERE EXISTS (SELECT 1 FROM r2 WHERE r2.i1 >= r1.i1 GROUP BY i2 HAVING count(*) > 1)",
    "SELECT i2 FROM r1 GROUP BY i2 HAVING count(*) = i2",
)


def test_views_are_what_spark_answers(tmp_path: Path, spark_session: SparkSession) -> None:
    session, asked = spark_beside(spark_session), Asked()
    for seed in (*FAILED_ONCE, *range(1, PROGRAMS + 1)):
        asked.add(Player(seed, tmp_path, session, views=3).play(3))
    # Most queries are queries to both, and most transactions change something.
    assert len(asked.refused) <= asked.views * 0.05, "\n".join(asked.refused)
    assert len(asked.spark_refused) <= asked.compared * 0.1, "\n".join(asked.spark_refused)
    assert asked.violations <= asked.transactions / 3


def test_views_kept_by_spark_are_what_it_answers(tmp_path: Path, spark_session: SparkSession) -> None:
    session = spark_beside(spark_session)
    for seed in range(1001, 1001 + ON_SPARK):
        Player(seed, tmp_path, session, engine="spark", views=2).play(2)


@pytest.mark.parametrize("first", range(2001, 2001 + RECOMPUTED, 4))
def test_views_are_what_a_computation_gives(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 4):
        Player(seed, tmp_path).play(6)


def test_queries_that_were_wrong_once_are_what_spark_answers(tmp_path: Path, spark_session: SparkSession) -> None:
    session = spark_beside(spark_session)
    player = Player(0, tmp_path, session)
    with vk.open(tmp_path / "wrong", create=True) as player.house:
        player.given(TABLES, WRONG_ONCE)
        for change in CHANGES:
            player.house.sql(change)
            player.check()
