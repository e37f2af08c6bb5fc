"""The relation of a subquery has rows only for what the query around it can ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

import viewkeeper as vk
from viewkeeper.program import ast
from viewkeeper.program.grouping import grouping_of
from viewkeeper.program.strata import reads

TABLES = """
CREATE TABLE orders (o BIGINT NOT NULL, c BIGINT NOT NULL, day BIGINT NOT NULL, status STRING NOT NULL, PRIMARY KEY (o));
CREATE TABLE lines (o BIGINT NOT NULL, n BIGINT NOT NULL, part BIGINT NOT NULL, q BIGINT NOT NULL, PRIMARY KEY (o, n));
CREATE TABLE customer (c BIGINT NOT NULL, nation STRING NOT NULL, PRIMARY KEY (c));
CREATE TABLE flag (c BIGINT NOT NULL, f BIGINT);
"""


def read_inside(path: Path, query: str) -> list[tuple[list[str], int]]:
    """Of each rule of an inner relation: what it reads, and how many conditions it has."""
    with vk.open(path, create=True, engine="embedded") as shop:
        shop.sql(f"{TABLES} CREATE MATERIALIZED VIEW v AS {query}")
        inner = {relation.name for relation in shop.program.inner}
        found = []
        for rule in shop.program.rules:
            if rule.head.relation in inner:
                grouping = grouping_of(rule)
                body = rule.body if grouping is None else grouping.body
                conditions = sum(isinstance(x, (ast.Comparison, ast.Test)) for x in body)
                found.append((sorted({atom.relation for atom, _ in reads(rule)} - inner), conditions))
    return found


@pytest.mark.parametrize(
    ("query", "inside"),
    [
        # By a key, and what it leads to:
        ("SELECT o FROM orders WHERE day > 9 AND EXISTS (SELECT 1 FROM lines l WHERE l.o = orders.o)", [(["lines", "orders"], 1)]),
        ("SELECT o FROM orders WHERE day > 9 AND NOT EXISTS (SELECT 1 FROM lines l WHERE l.o = orders.o)",
         [(["lines", "orders"], 1)]),
        ("SELECT o FROM orders JOIN customer USING (c) WHERE nation = 'x' AND EXISTS (SELECT 1 FROM lines l WHERE l.o = orders.o)",
         [(["customer", "lines", "orders"], 1)]),
        ("SELECT o FROM orders WHERE status = 'F' AND day < (SELECT sum(q) FROM lines l WHERE l.o = orders.o)",
         [(["lines", "orders"], 1)]),
        # A condition on the columns that are compared needs no table:
        ("SELECT o FROM orders WHERE o > 9 AND EXISTS (SELECT 1 FROM lines l WHERE l.o = orders.o)", [(["lines"], 1)]),
        # Nothing is asked for, or only that there is an order:
        ("SELECT o FROM orders WHERE EXISTS (SELECT 1 FROM lines l WHERE l.o = orders.o)", [(["lines"], 0)]),
        # Not by a key:
        ("SELECT c FROM flag WHERE f > 1 AND EXISTS (SELECT 1 FROM orders o WHERE o.c = flag.c)", [(["orders"], 0)]),
        # What the condition reads is not known there:
        ("SELECT n FROM lines WHERE q > 1 AND EXISTS (SELECT 1 FROM orders o WHERE o.o = lines.o)", [(["orders"], 0)]),
        # A condition that may fail is not evaluated where others would have prevented it:
        ("SELECT o FROM orders WHERE status = 'F' AND cast(status AS BIGINT) > 1 AND EXISTS (SELECT 1 FROM lines l WHERE l.o = orders.o)",
         [(["lines", "orders"], 1)]),
    ],
)  # fmt: skip
def test_what_the_relation_of_a_subquery_reads(tmp_path: Path, query: str, inside: list[tuple[list[str], int]]) -> None:
    assert read_inside(tmp_path / "w", query) == inside


def test_two_readers_must_agree(tmp_path: Path) -> None:
    """What one of them does not ask for is kept for the other."""
    parts = "SELECT l.o, sum(q) AS q FROM lines l GROUP BY l.o"
    ask = "SELECT orders.o FROM orders JOIN sums ON sums.o = orders.o WHERE"
    one = f"WITH sums AS ({parts}) {ask} day > 9 AND status = 'F' UNION ALL {ask} day > 9 AND status = 'P'"
    assert read_inside(tmp_path / "w", one)[0] == (["lines", "orders"], 1)


def test_subqueries_beside_each_other_are_restricted_alike(tmp_path: Path) -> None:
    other = "SELECT 1 FROM lines l WHERE l.o = lines.o AND l.part <> lines.part"
    query = (
        "SELECT lines.o, lines.n FROM lines JOIN orders ON orders.o = lines.o"
        f" WHERE status = 'F' AND EXISTS ({other}) AND NOT EXISTS ({other} AND l.q > 5)"
    )
    assert read_inside(tmp_path / "w", query) == [(["lines", "orders"], 2), (["lines", "orders"], 3)]
