"""The data of a scale, and random changes of it that always fit what is there.

    files = generate(directory, 0.01)
    model = Model(files)
    transaction = model.one_order()
    warehouse.commit(**arguments(transaction))
    model.table("orders")  # as the warehouse should have it now

The model holds the generated rows as Arrow and only what has changed as Python rows, so that scale 1 fits into memory.
"""

from __future__ import annotations

import datetime
import random
import shutil
import subprocess
import sysconfig
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import pyarrow as pa
import pyarrow.parquet as pq
from tests.tpch.schema import KEYS, TABLES, arrow_schema

Row = tuple[Any, ...]


class Operation(NamedTuple):
    relation: str
    op: str  # insert, delete or upsert
    rows: list[Row]


Transaction = list[Operation]


def generate(directory: Path, scale: float) -> dict[str, Path]:
    """A Parquet file for each table; what was generated there before is used again."""
    target = directory / f"tpch-{scale:g}"
    if not target.exists():
        # Generated beside and then renamed: what is there is complete.
        beside = directory / f"tpch-{scale:g}.part"
        shutil.rmtree(beside, ignore_errors=True)
        subprocess.run(
            [_generator(), "parquet", "--quiet", "--no-progress", "--scale-factor", f"{scale:g}", "--output-dir", beside],
            check=True,
            capture_output=True,
        )
        beside.rename(target)
    return {name: target / f"{name}.parquet" for name in TABLES}


def _generator() -> str:
    """tpchgen-cli of this environment, which need not be on the path."""
    found = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts")) or shutil.which("tpchgen-cli")
    if found is None:
        raise FileNotFoundError("tpchgen-cli is not installed; it comes with the extra dev")
    return found


def read(file: Path, table: str) -> pa.Table:
    return pq.read_table(file).cast(arrow_schema(table))


def arguments(transaction: Transaction) -> dict[str, dict[str, list[Row]]]:
    """A transaction as ``Warehouse.commit`` takes it."""
    found: dict[str, dict[str, list[Row]]] = {"inserts": {}, "deletes": {}, "upserts": {}}
    for relation, op, rows in transaction:
        found[f"{op}s"].setdefault(relation, []).extend(rows)
    return found


class Current:
    """The rows of a table now: those of ``base`` except the places in ``gone``, and ``added`` by the first column of the key.

    ``base`` is in the order of that column.
    """

    def __init__(self, name: str, base: pa.Table) -> None:
        self.base = base.combine_chunks()
        self.schema = base.schema
        self.names = base.schema.names
        self.key = tuple(self.names.index(column) for column in KEYS[name])
        self.first: Sequence[int] = base.column(self.key[0]).to_numpy()
        self.gone: set[int] = set()
        self.added: dict[int, dict[Row, Row]] = {}
        # Keys that were ever added, to draw from.
        self.drawn: list[Row] = []

    def key_of(self, row: Row) -> Row:
        return tuple(row[place] for place in self.key)

    def rows(self, first: int) -> list[Row]:
        """Those whose key begins with this."""
        there = (self._at(place) for place in self._places(first) if place not in self.gone)
        return [*there, *self.added.get(first, {}).values()]

    def any(self, choose: random.Random) -> Row:
        """A random row."""
        while True:
            place = choose.randrange(len(self.base) + len(self.drawn))
            if place < len(self.base):
                if place not in self.gone:
                    return self._at(place)
            else:
                key = self.drawn[place - len(self.base)]
                row = self.added.get(key[0], {}).get(key)
                if row is not None:
                    return row

    def remove(self, row: Row) -> None:
        key = self.key_of(row)
        if self.added.get(key[0], {}).pop(key, None) is None:
            self.gone.add(next(place for place in self._places(key[0]) if self.key_of(self._at(place)) == key))

    def add(self, row: Row) -> None:
        key = self.key_of(row)
        self.added.setdefault(key[0], {})[key] = row
        self.drawn.append(key)

    def table(self) -> pa.Table:
        keep = numpy.ones(len(self.base), bool)
        keep[list(self.gone)] = False
        left = self.base.filter(pa.array(keep))
        rows = [row for some in self.added.values() for row in some.values()]
        columns = zip(*rows, strict=True) if rows else ([] for _ in self.names)
        arrays = [pa.array(list(column), field.type) for column, field in zip(columns, self.schema, strict=True)]
        return pa.concat_tables([left, pa.Table.from_arrays(arrays, schema=self.schema)])

    def _at(self, place: int) -> Row:
        return tuple(column[place].as_py() for column in self.base.columns)

    def _places(self, first: int) -> range:
        return range(bisect_left(self.first, first), bisect_right(self.first, first))


# What can be updated. A new value is one that another row of the table has.
UPDATED = {
    "orders": ("o_orderstatus", "o_totalprice", "o_orderdate", "o_orderpriority", "o_custkey", "o_comment"),
    "lineitem": ("l_quantity", "l_discount", "l_extendedprice", "l_shipdate", "l_receiptdate", "l_returnflag", "l_shipmode"),
    "customer": ("c_acctbal", "c_mktsegment", "c_nationkey", "c_phone"),
    "part": ("p_name", "p_type", "p_brand", "p_container", "p_size"),
    "supplier": ("s_acctbal", "s_nationkey", "s_comment", "s_name"),
    "partsupp": ("ps_supplycost", "ps_availqty"),
    "nation": ("n_regionkey",),
}
COMPLAINT = "even the Customer wrote of Complaints"


class Model:
    """The current rows of all tables, and transactions that change them. The same seed gives the same transactions."""

    def __init__(self, files: Mapping[str, Path], seed: int = 1) -> None:
        self.tables = {name: Current(name, read(file, name)) for name, file in files.items()}
        self.choose = random.Random(seed)
        self.orders = len(self.tables["orders"].base)

    def table(self, name: str) -> pa.Table:
        return self.tables[name].table()

    # ---- transactions; the model is changed when they are made

    def one_order(self) -> Transaction:
        """A new order with its lines."""
        return self.insert_orders(1)

    def one_order_less(self) -> Transaction:
        return self.delete_orders(1)

    def refresh(self, fraction: float) -> Transaction:
        """New orders, as many as a fraction of those generated, and as many others deleted."""
        number = max(1, round(self.orders * fraction))
        # Deleted first, as a commit does it: a new order may have the key of a deleted one.
        return [*self.delete_orders(number), *self.insert_orders(number)]

    def insert_orders(self, number: int) -> Transaction:
        orders, lines = [], []
        for _ in range(number):
            order, its_lines = self._new_order()
            self._add("orders", [order])
            self._add("lineitem", its_lines)
            orders.append(order)
            lines += its_lines
        return [Operation("orders", "insert", orders), Operation("lineitem", "insert", lines)]

    def delete_orders(self, number: int) -> Transaction:
        orders, lines = [], []
        for _ in range(number):
            order = self.tables["orders"].any(self.choose)
            its_lines = self.tables["lineitem"].rows(order[0])
            self._remove("orders", [order])
            self._remove("lineitem", its_lines)
            orders.append(order)
            lines += its_lines
        return [Operation("lineitem", "delete", lines), Operation("orders", "delete", orders)]

    def update(self, relation: str, number: int = 1) -> Transaction:
        """Rows of a table with other values in one to three columns."""
        changed: dict[Row, Row] = {}
        for _ in range(number):
            row = self._updated(relation)
            changed[self.tables[relation].key_of(row)] = row
        return [Operation(relation, "upsert", list(changed.values()))]

    def mixed(self, number: int) -> Transaction:
        """So many orders come, as many go, and as many rows of each table that can be updated are."""
        operations = [*self.delete_orders(number), *self.insert_orders(number)]
        for relation in UPDATED:
            operations += self.update(relation, number)
        return operations

    # ---- rows

    def _add(self, relation: str, rows: Iterable[Row]) -> None:
        for row in rows:
            self.tables[relation].add(row)

    def _remove(self, relation: str, rows: Iterable[Row]) -> None:
        for row in rows:
            self.tables[relation].remove(row)

    def _updated(self, relation: str) -> Row:
        table, choose = self.tables[relation], self.choose
        old = table.any(choose)
        row = list(old)
        for column in choose.sample(UPDATED[relation], min(len(UPDATED[relation]), choose.randint(1, 3))):
            place = table.names.index(column)
            row[place] = table.any(choose)[place]
            if column == "s_comment" and choose.random() < 0.5:
                row[place] = COMPLAINT
        table.remove(old)
        table.add(tuple(row))
        return tuple(row)

    def _new_order(self) -> tuple[Row, list[Row]]:
        choose = self.choose
        key, date = self._unused_key(), datetime.date(1992, 1, 1) + datetime.timedelta(choose.randrange(2406))
        # Now and then one of more than 300 pieces, of which there are few.
        large = choose.random() < 0.05
        lines = [self._line(key, number, date, large) for number in range(1, (7 if large else choose.randint(1, 7)) + 1)]
        total = sum((line[5] * (1 - line[6]) * (1 + line[7]) for line in lines), Decimal(0))
        states = {line[9] for line in lines}
        model = self.tables["orders"].any(choose)
        order = (
            key,
            self._customer(),
            states.pop() if len(states) == 1 else "P",
            total.quantize(Decimal("0.01")),
            date,
            *model[5:7],
            0,
            model[8],
        )
        return order, lines

    def _unused_key(self) -> int:
        """Of every 32 keys the generator uses the first eight; new orders come between."""
        while True:
            key = self.choose.randrange(self.orders // 8 + 1) * 32 + self.choose.randrange(8, 32)
            if not self.tables["orders"].rows(key):
                return key

    def _customer(self) -> int:
        """A third of the customers never order."""
        while True:
            key: int = self.tables["customer"].any(self.choose)[0]
            if key % 3:
                return key

    def _line(self, order: int, number: int, date: datetime.date, large: bool) -> Row:
        choose = self.choose
        part, supplier = self.tables["partsupp"].any(choose)[:2]
        [row] = self.tables["part"].rows(part)
        quantity = Decimal(choose.randint(44, 50) if large else choose.randint(1, 50))
        shipped = date + datetime.timedelta(choose.randint(1, 121))
        received = shipped + datetime.timedelta(choose.randint(1, 30))
        today = datetime.date(1995, 6, 17)
        model = self.tables["lineitem"].any(choose)
        return (
            order,
            part,
            supplier,
            number,
            quantity.quantize(Decimal("0.01")),
            (quantity * row[7]).quantize(Decimal("0.01")),
            Decimal(choose.randint(0, 10)).scaleb(-2),
            Decimal(choose.randint(0, 8)).scaleb(-2),
            choose.choice("RA") if received <= today else "N",
            "O" if shipped > today else "F",
            shipped,
            date + datetime.timedelta(choose.randint(30, 90)),
            received,
            *model[13:16],
        )


def stream(model: Model) -> Iterator[Transaction]:
    """Transactions of every kind: single orders, updates of each table, several orders at once, everything mixed."""
    yield model.one_order()
    yield model.one_order_less()
    for relation in UPDATED:
        yield model.update(relation, 3)
    yield model.refresh(0.001)
    yield model.refresh(0.01)
    yield model.mixed(5)
