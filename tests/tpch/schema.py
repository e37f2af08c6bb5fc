"""The eight tables and the 22 queries, in Spark's SQL."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

TABLES = {
    "region": """
        r_regionkey BIGINT NOT NULL,
        r_name STRING NOT NULL,
        r_comment STRING NOT NULL,
        PRIMARY KEY (r_regionkey)""",
    "nation": """
        n_nationkey BIGINT NOT NULL,
        n_name STRING NOT NULL,
        n_regionkey BIGINT NOT NULL,
        n_comment STRING NOT NULL,
        PRIMARY KEY (n_nationkey)""",
    "supplier": """
        s_suppkey BIGINT NOT NULL,
        s_name STRING NOT NULL,
        s_address STRING NOT NULL,
        s_nationkey BIGINT NOT NULL,
        s_phone STRING NOT NULL,
        s_acctbal DECIMAL(15,2) NOT NULL,
        s_comment STRING NOT NULL,
        PRIMARY KEY (s_suppkey)""",
    "customer": """
        c_custkey BIGINT NOT NULL,
        c_name STRING NOT NULL,
        c_address STRING NOT NULL,
        c_nationkey BIGINT NOT NULL,
        c_phone STRING NOT NULL,
        c_acctbal DECIMAL(15,2) NOT NULL,
        c_mktsegment STRING NOT NULL,
        c_comment STRING NOT NULL,
        PRIMARY KEY (c_custkey)""",
    "part": """
        p_partkey BIGINT NOT NULL,
        p_name STRING NOT NULL,
        p_mfgr STRING NOT NULL,
        p_brand STRING NOT NULL,
        p_type STRING NOT NULL,
        p_size INT NOT NULL,
        p_container STRING NOT NULL,
        p_retailprice DECIMAL(15,2) NOT NULL,
        p_comment STRING NOT NULL,
        PRIMARY KEY (p_partkey)""",
    "partsupp": """
        ps_partkey BIGINT NOT NULL,
        ps_suppkey BIGINT NOT NULL,
        ps_availqty INT NOT NULL,
        ps_supplycost DECIMAL(15,2) NOT NULL,
        ps_comment STRING NOT NULL,
        PRIMARY KEY (ps_partkey, ps_suppkey)""",
    "orders": """
        o_orderkey BIGINT NOT NULL,
        o_custkey BIGINT NOT NULL,
        o_orderstatus STRING NOT NULL,
        o_totalprice DECIMAL(15,2) NOT NULL,
        o_orderdate DATE NOT NULL,
        o_orderpriority STRING NOT NULL,
        o_clerk STRING NOT NULL,
        o_shippriority INT NOT NULL,
        o_comment STRING NOT NULL,
        PRIMARY KEY (o_orderkey)""",
    "lineitem": """
        l_orderkey BIGINT NOT NULL,
        l_partkey BIGINT NOT NULL,
        l_suppkey BIGINT NOT NULL,
        l_linenumber INT NOT NULL,
        l_quantity DECIMAL(15,2) NOT NULL,
        l_extendedprice DECIMAL(15,2) NOT NULL,
        l_discount DECIMAL(15,2) NOT NULL,
        l_tax DECIMAL(15,2) NOT NULL,
        l_returnflag STRING NOT NULL,
        l_linestatus STRING NOT NULL,
        l_shipdate DATE NOT NULL,
        l_commitdate DATE NOT NULL,
        l_receiptdate DATE NOT NULL,
        l_shipinstruct STRING NOT NULL,
        l_shipmode STRING NOT NULL,
        l_comment STRING NOT NULL,
        PRIMARY KEY (l_orderkey, l_linenumber)""",
}
KEYS = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
CREATE_TABLES = ";\n".join(f"CREATE TABLE {name} ({columns}\n)" for name, columns in TABLES.items())

# "q01" to "q22" and their texts, which DuckDB understands too.
QUERIES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((Path(__file__).parent / "queries").glob("q*.sql"))}
CREATE_VIEWS = ";\n".join(f"CREATE MATERIALIZED VIEW {name} AS\n{query}" for name, query in QUERIES.items())

_ARROW = {
    "BIGINT": pa.int64(),
    "INT": pa.int32(),
    "STRING": pa.string(),
    "DATE": pa.date32(),
    "DECIMAL(15,2)": pa.decimal128(15, 2),
}


def arrow_schema(table: str) -> pa.Schema:
    """The columns of a table as Arrow has them.

    >>> arrow_schema("region").names
    ['r_regionkey', 'r_name', 'r_comment']
    """
    columns = [line.split()[:2] for line in TABLES[table].strip().splitlines() if "NOT NULL" in line]
    return pa.schema([pa.field(name, _ARROW[type_], nullable=False) for name, type_ in columns])
