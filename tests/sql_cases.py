"""SQL's functions: for each the arguments to try, and what Spark calls it."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal as D
from itertools import product

from tests.samples import Row, Value

HIGHEST, LOWEST = 2**63 - 1, -(2**63)


@dataclass(frozen=True)
class SqlCase:
    """A term of a, b and c, the same in Spark's SQL, and rows of arguments. ``about``: the last digits of floats may differ."""

    term: str
    native: str
    types: Sequence[str]
    result: str
    rows: Sequence[Row]
    about: bool = False

    @property
    def function(self) -> str:
        return self.term.partition("(")[0]

    def __str__(self) -> str:
        return f"{self.term} of {', '.join(self.types)}"


def pairs(values: Iterable[Value]) -> list[Row]:
    known = list(values)
    return list(product(known, known))


def singles(*values: Value) -> list[Row]:
    return [(value,) for value in (*values, None)]


BOOLS = (True, False, None)
NUMBERS = (0, 1, -1, 2, 7, -7, 45, -55, 10**12 + 5, HIGHEST, LOWEST + 1, None)
FLOATS = (0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 1e10, -123456.789, 1e-7, 3.0000000001, 1e15 + 0.5, None)
MONEY = tuple(
    None if t is None else D(t) for t in ("0.00", "0.01", "-0.01", "1.50", "-1.55", "15.00", "99.99", "-1234567.89", None)
)
FINE = tuple(None if t is None else D(t) for t in ("0.0000", "0.0001", "1.5000", "-1.5500", "3.0007", "-99.9900", None))
TEXTS = ("", "a", "B", "abc", "Straße", "é😀x", "Zz zZ", "  pad ", "a%b_c", "\n\t", None)
DATES = tuple(
    None if t is None else datetime.date.fromisoformat(t)
    for t in (
        "1970-01-01", "1969-12-31", "2024-02-29", "2023-02-28", "2000-12-31", "2021-01-03", "2020-12-28", "1600-02-29", "0001-01-01",
        "9999-12-31", "2024-01-31", None,
    )
)  # fmt: skip
TIMES = tuple(
    None if t is None else datetime.datetime.fromisoformat(t + "+00:00")
    for t in (
        "1970-01-01T00:00:00", "1969-12-31T23:59:59.999999", "2024-02-29T12:30:45.123450", "2024-12-31T23:59:59.5", "0001-01-01T00:00:00",
        "9999-12-31T23:59:59.999999", "1582-10-10T01:02:03", "2021-01-03T13:00:00.000001", "2024-05-15T08:09:10", None,
    )
)  # fmt: skip

COMPARED: dict[str, Sequence[Value]] = {
    "bool": BOOLS,
    "number": NUMBERS,
    "float": FLOATS,
    "symbol": TEXTS,
    "date": DATES,
    "timestamp": TIMES,
    "decimal(18,2)": MONEY,
    "bytes": (b"", b"\x00", b"a", b"\xff", None),
}
SIGNS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def logic() -> list[SqlCase]:
    two, three = ("bool",) * 2, ("bool",) * 3
    every = list(product(BOOLS, BOOLS, BOOLS))
    found = [
        SqlCase("sql_and(a, b)", "a AND b", two, "bool", pairs(BOOLS)),
        SqlCase("sql_or(a, b)", "a OR b", two, "bool", pairs(BOOLS)),
        SqlCase("sql_and(a, b, c)", "a AND b AND c", three, "bool", every),
        SqlCase("sql_or(a, b, c)", "a OR b OR c", three, "bool", every),
        SqlCase("sql_not(a)", "NOT a", ("bool",), "bool", singles(True, False)),
        SqlCase(
            "sql_if(a, b, c)", "if(a, b, c)", ("bool", "number", "number"), "number", list(product(BOOLS, (1, None), (2, None)))
        ),
        SqlCase(
            "sql_if(a, 1, b, 2, c, 3, 4)", "CASE WHEN a THEN 1 WHEN b THEN 2 WHEN c THEN 3 ELSE 4 END", three, "number", every
        ),
        SqlCase(
            "sql_if(a, b, c)", "if(a, b, c)", ("bool", "symbol", "symbol"), "symbol", [(True, "x", None), (None, "x", "é")]
        ),
    ]
    for type_, values in COMPARED.items():
        types = (type_, type_)
        found += [SqlCase(f"sql_{n}(a, b)", f"a {sign} b", types, "bool", pairs(values)) for n, sign in SIGNS.items()]
        found.append(SqlCase("sql_same(a, b)", "a <=> b", types, "bool", pairs(values)))
        found.append(SqlCase("sql_null(a)", "a IS NULL", (type_,), "bool", singles(*values[:3])))
        listed = [(values[0], values[1], values[0]), (values[0], values[1], None), (None, values[0], values[0])]
        found.append(
            SqlCase("sql_in(a, b, c)", "a IN (b, c)", (type_,) * 3, "bool", [*listed, (values[0], values[1], values[1])])
        )
    mixed = ("decimal(18,2)", "decimal(18,4)")
    wide = [(D(10**18 - 1).scaleb(-2), D(10**18 - 1).scaleb(-4)), (D(1 - 10**18).scaleb(-2), D(1 - 10**18).scaleb(-4))]
    for n, sign in {**SIGNS, "same": "<=>"}.items():
        found.append(SqlCase(f"sql_{n}(a, b)", f"a {sign} b", mixed, "bool", [*product(MONEY, FINE), *wide]))
        found.append(
            SqlCase(f"sql_{n}(a, b)", f"a {sign} b", mixed[::-1], "bool", [*product(FINE, MONEY), *((b, a) for a, b in wide)])
        )
    return found


REAL = {
    "sqrt": (0.0, 2.0, 1e300, 5e-324), "cbrt": (-8.0, 2.0), "exp": (0.0, 1.0, -700.0, 700.0), "expm1": (1e-10, -5.0),
    "sin": (0.0, 1.0, -3.5), "cos": (0.0, 1.0, 100.0), "tan": (0.0, 1.0), "asin": (-1.0, 0.5), "acos": (0.5, 1.0),
    "atan": (0.0, 1e10), "sinh": (1.0, -2.0), "cosh": (1.0, -2.0), "tanh": (0.5, 100.0), "degrees": (1.0, 3.14),
    "radians": (180.0, -1.0), "ln": (1.0, 2.5, 0.0, -1.0), "log10": (1000.0, 0.0, -2.0, 3.0), "log2": (8.0, 0.0, -2.0, 3.0),
    "log1p": (0.0, -1.0, -2.0, 1e-10),
}  # fmt: skip


def numbers() -> list[SqlCase]:
    two = ("decimal(18,2)", "decimal(18,4)")
    nonzero = [(a, b) for a, b in product(MONEY, FINE) if b != 0]
    whole = [(a, b) for a, b in pairs(NUMBERS) if b != 0]
    found = [
        SqlCase("sql_decimal(a, 18, 3)", "CAST(a AS DECIMAL(18, 3))", ("float",), "decimal(18,3)", singles(*FLOATS[:9], 2.0005, -0.0005, 1e14)),
        SqlCase("sql_decimal(a, 5, 0)", "CAST(a AS DECIMAL(5, 0))", ("float",), "decimal(5,0)", singles(0.5, 1.5, -0.5, 99999.4, 1e-300)),
        SqlCase("sql_decimal(a, 18, 5)", "CAST(a AS DECIMAL(18, 5))", ("number",), "decimal(18,5)", singles(0, -7, 10**12)),
        SqlCase("sql_decimal(a, 18, 0)", "CAST(a AS DECIMAL(18, 0))", ("number",), "decimal(18,0)", singles(10**18 - 1, 1 - 10**18)),
        SqlCase("sql_decimal(a, 9, 1)", "CAST(a AS DECIMAL(9, 1))", ("decimal(18,4)",), "decimal(9,1)", [*((x,) for x in FINE), (D("0.0500"),)]),
        SqlCase("sql_decimal(a, 18, 6)", "CAST(a AS DECIMAL(18, 6))", ("decimal(18,2)",), "decimal(18,6)", [(x,) for x in MONEY]),
        SqlCase("sql_decimal(a, 3, 2)", "CAST(a AS DECIMAL(3, 2))", ("bool",), "decimal(3,2)", singles(True, False)),
        SqlCase("sql_divide(a, b, 6)", "CAST(a / b AS DECIMAL(18, 6))", two, "decimal(18,6)", nonzero),
        SqlCase("sql_divide(a, b, 2)", "CAST(a / b AS DECIMAL(18, 2))", two, "decimal(18,2)", nonzero),
        SqlCase("sql_divide(b, a, 0)", "CAST(b / a AS DECIMAL(18, 0))", two[::-1], "decimal(18,0)", [(b, a) for a, b in nonzero]),
        SqlCase("sql_multiply(a, b, 6)", "CAST(a * b AS DECIMAL(18, 6))", two, "decimal(18,6)", list(product(MONEY, FINE))),
        SqlCase("sql_multiply(a, b, 3)", "CAST(a * b AS DECIMAL(18, 3))", two, "decimal(18,3)", list(product(MONEY, FINE))),
        SqlCase("sql_multiply(a, b, 8)", "CAST(a * b AS DECIMAL(18, 8))", two, "decimal(18,8)", list(product(MONEY, FINE))),
        SqlCase(
            "sql_average(a, b, 6)", "CAST(a / CAST(b AS DECIMAL(18, 0)) AS DECIMAL(18, 6))", ("decimal(18,2)", "number"), "decimal(18,6)",
            list(product(MONEY, (1, 3, 7, -2, None))),
        ),
        SqlCase("sql_mod(a, b)", "a % b", ("number",) * 2, "number", whole),
        SqlCase("sql_mod(a, b)", "a % b", ("float",) * 2, "float", [(a, b) for a, b in pairs(FLOATS) if b != 0]),
        SqlCase("sql_mod(a, b)", "a % b", ("decimal(18,2)",) * 2, "decimal(18,2)", [(a, b) for a, b in pairs(MONEY) if b != 0]),
        SqlCase("sql_abs(a)", "abs(a)", ("number",), "number", [(x,) for x in NUMBERS]),
        SqlCase("sql_abs(a)", "abs(a)", ("float",), "float", [(x,) for x in FLOATS]),
        SqlCase("sql_abs(a)", "abs(a)", ("decimal(18,2)",), "decimal(18,2)", [(x,) for x in MONEY]),
        *(
            SqlCase("sql_sign(a)", "sign(a)", (t,), "float", [(x,) for x in COMPARED[t]])
            for t in ("number", "float", "decimal(18,2)")
        ),
        *(
            SqlCase(f"sql_round(a, {n})", f"round(a, {n})", ("number",), "number", [(x,) for x in NUMBERS if n > -1 or x is None or abs(x) < 10**17])
            for n in (0, 2, -1, -3, -20)
        ),
        *(
            SqlCase(f"sql_round(a, {n})", f"round(a, {n})", ("float",), "float", [(x,) for x in (*FLOATS, 1.005, 2.675, -0.05)])
            for n in (0, 1, 2, 20, -1, -4)
        ),
        *(
            SqlCase(f"sql_round(a, {n})", f"round(a, {n})", ("decimal(18,4)",), f"decimal(18,{max(0, min(4, n))})", [(x,) for x in FINE])
            for n in (0, 1, 3, 4, 9, -1, -2)
        ),
        SqlCase("sql_round(a)", "round(a)", ("decimal(18,2)",), "decimal(18,0)", [(x,) for x in MONEY]),
        SqlCase("sql_round(a)", "round(a)", ("float",), "float", [(x,) for x in FLOATS]),
        SqlCase("sql_round(a)", "round(a)", ("number",), "number", [(x,) for x in NUMBERS]),
        SqlCase("sql_power(a, b)", "power(a, b)", ("float",) * 2, "float", [(2.0, 10.0), (2.0, -1.5), (-8.0, 3.0), (0.0, 0.0), (None, 1.0)], True),
        SqlCase("sql_log(a, b)", "log(a, b)", ("float",) * 2, "float", [(2.0, 10.0), (10.0, 0.0), (-1.0, 3.0), (0.5, 3.0), (None, 1.0)], True),
        SqlCase("sql_atan2(a, b)", "atan2(a, b)", ("float",) * 2, "float", [(1.0, 2.0), (0.0, -1.0), (-1.0, 0.0), (0.0, 0.0), (1.0, None)], True),
        *(SqlCase(f"sql_{n}(a)", f"{n}(a)", ("float",), "float", singles(*xs), True) for n, xs in REAL.items()),
    ]  # fmt: skip
    for n in ("ceil", "floor"):
        found += [
            SqlCase(f"sql_{n}(a)", f"{n}(a)", ("number",), "number", [(x,) for x in NUMBERS]),
            SqlCase(f"sql_{n}(a)", f"{n}(a)", ("float",), "number", [(x,) for x in FLOATS]),
            SqlCase(f"sql_{n}(a)", f"{n}(a)", ("decimal(18,2)",), "decimal(18,0)", [(x,) for x in MONEY]),
        ]
    for n in ("greatest", "least"):
        found += [
            SqlCase(f"sql_{n}(a, b)", f"{n}(a, b)", (t, t), t, pairs(values)) for t, values in COMPARED.items() if t != "bool"
        ]
        found.append(
            SqlCase(f"sql_{n}(a, b, c, 5)", f"{n}(a, b, c, 5)", ("number",) * 3, "number", [(1, None, 7), (None, None, None)])
        )
    return found


CASES: list[SqlCase] = [*logic(), *numbers()]


@dataclass(frozen=True)
class SqlFailure:
    """A term that fails for the arguments."""

    term: str
    types: Sequence[str]
    result: str
    row: Row
    code: str

    def __str__(self) -> str:
        return f"{self.term} of {self.row}"


_MOST = D(10**18 - 1)
FAILURES: list[SqlFailure] = [
    SqlFailure("sql_decimal(a, 5, 2)", ("number",), "decimal(5,2)", (1000,), "OVERFLOW"),
    SqlFailure("sql_decimal(a, 5, 2)", ("float",), "decimal(5,2)", (999.995,), "OVERFLOW"),
    SqlFailure("sql_decimal(a, 2, 1)", ("decimal(18,2)",), "decimal(2,1)", (D("9.95"),), "OVERFLOW"),
    SqlFailure("sql_decimal(a, 18, 18)", ("number",), "decimal(18,18)", (HIGHEST,), "OVERFLOW"),
    SqlFailure("sql_divide(a, b, 2)", ("decimal(18,2)",) * 2, "decimal(18,2)", (D("1.00"), D("0.00")), "DIVISION_BY_ZERO"),
    SqlFailure("sql_divide(a, b, 6)", ("decimal(18,0)", "decimal(18,2)"), "decimal(18,6)", (_MOST, D("0.01")), "OVERFLOW"),
    SqlFailure("sql_multiply(a, b, 0)", ("decimal(18,0)",) * 2, "decimal(18,0)", (_MOST, D(10)), "OVERFLOW"),
    SqlFailure("sql_average(a, b, 6)", ("decimal(18,0)", "number"), "decimal(18,6)", (_MOST, 0), "DIVISION_BY_ZERO"),
    *(
        SqlFailure("sql_mod(a, b)", (t, t), t, row, "DIVISION_BY_ZERO")
        for t, row in {"number": (1, 0), "float": (1.0, 0.0), "decimal(18,2)": (D("1.00"), D("0.00"))}.items()
    ),
    SqlFailure("sql_abs(a)", ("number",), "number", (LOWEST,), "OVERFLOW"),
    SqlFailure("sql_round(a, -1)", ("number",), "number", (HIGHEST,), "OVERFLOW"),
    SqlFailure("sql_round(a, -1)", ("decimal(18,0)",), "decimal(18,0)", (_MOST,), "OVERFLOW"),
    SqlFailure("sql_round(a, -308)", ("float",), "float", (1.7e308,), "OVERFLOW"),
    SqlFailure("sql_ceil(a)", ("float",), "number", (1e19,), "OVERFLOW"),
    SqlFailure("sql_floor(a)", ("float",), "number", (-1e19,), "OVERFLOW"),
    *(
        SqlFailure(f"sql_{n}(a)", ("float",), "float", (x,), "OVERFLOW")
        for n, x in {"sqrt": -1.0, "exp": 1000.0, "asin": 1.5, "acos": -2.0, "cosh": 1e10}.items()
    ),
    SqlFailure("sql_power(a, b)", ("float",) * 2, "float", (0.0, -1.0), "OVERFLOW"),
    SqlFailure("sql_log(a, b)", ("float",) * 2, "float", (1.0, 2.0), "OVERFLOW"),
]  # fmt: skip
