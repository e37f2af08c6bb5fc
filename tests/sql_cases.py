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
    "log1p": (0.0, -1.0, -2.0, 1e-10), "asinh": (0.5, 2.0, 1e3), "acosh": (1.0, 2.5), "atanh": (0.5, -0.25), "cot": (1.0, -2.5), "sec": (0.0, 2.5),
    "csc": (1.0, -2.5),
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
        SqlCase("sql_hypot(a, b)", "hypot(a, b)", ("float",) * 2, "float", [(3.0, 4.0), (0.0, -1.5), (1e200, 1e200), (None, 1.0)], True),
        SqlCase("sql_rint(a)", "rint(a)", ("float",), "float", [(x,) for x in (*FLOATS, 3.5, -3.5, 1e300)]),
        *(
            SqlCase(f"sql_bround(a, {n})", f"bround(a, {n})", ("number",), "number", [(x,) for x in NUMBERS if n > -1 or x is None or abs(x) < 10**17])
            for n in (0, 2, -1, -2, -20)
        ),
        *(
            SqlCase(f"sql_bround(a, {n})", f"bround(a, {n})", ("float",), "float", [(x,) for x in (*FLOATS, 1.005, 2.675, -0.05, 0.25, 0.35)])
            for n in (0, 1, 2, 20, -1)
        ),
        *(
            SqlCase(f"sql_bround(a, {n})", f"bround(a, {n})", ("decimal(18,4)",), f"decimal(18,{max(0, min(4, n))})", [(x,) for x in (*FINE, D("2.5000"), D("0.0005"))])
            for n in (0, 1, 3, 4, 9, -1)
        ),
        *(
            SqlCase(f"sql_try_{n}(a, b)", f"try_{n}(a, b)", ("number",) * 2, "number", pairs((*NUMBERS, LOWEST)))
            for n in ("add", "subtract", "multiply")
        ),
        SqlCase("sql_factorial(a)", "factorial(int(a))", ("number",), "number", singles(0, 1, 20, 21, -1)),
        SqlCase("sql_bit_count(a)", "bit_count(a)", ("number",), "number", [(x,) for x in (*NUMBERS, LOWEST)]),
        SqlCase(
            "sql_width_bucket(a, b, c, 5)", "width_bucket(a, b, c, 5)", ("float",) * 3, "number",
            [*product((-1.0, 0.0, 0.1, 5.3, 9.99, 10.0, 11.0, None), (0.0, 10.0), (10.0, 0.0, 0.2, None))],
        ),
        *(SqlCase(f"sql_width_bucket(a, 0.0, 1.0, {n})", f"width_bucket(a, 0.0D, 1.0D, {n}L)", ("float",), "number", singles(0.3)) for n in (0, -1, HIGHEST, 10**6)),
        SqlCase("sql_hex(a)", "hex(a)", ("number",), "symbol", [(x,) for x in (*NUMBERS, LOWEST)]),
        SqlCase("sql_hex(a)", "hex(a)", ("symbol",), "symbol", [(x,) for x in TEXTS]),
        SqlCase("sql_hex(a)", "hex(a)", ("bytes",), "symbol", [(x,) for x in COMPARED["bytes"]]),
        SqlCase("sql_unhex(a)", "unhex(a)", ("symbol",), "bytes", singles("", "1F", "f", "0aB", "xyz", "1 ", "é")),
        SqlCase("sql_bin(a)", "bin(a)", ("number",), "symbol", [(x,) for x in (*NUMBERS, LOWEST)]),
        SqlCase(
            "sql_conv(a, b, c)", "conv(a, int(b), int(c))", ("symbol", "number", "number"), "symbol",
            [*product(("0", "100", "-10", "ff", "zZ9", " 12", "1.5", "", "x", "FFFFFFFFFF", None), (10, 16, 36), (2, 10, -10, 36, -16)),
             *product(("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551615"), (10,), (2, 10, -10, 36, -16)), ("1", 1, 10), ("1", 10, 37), ("1", 37, 10), ("1", 10, 1), ("1", 10, -37)],
        ),
        *(
            SqlCase("sql_format_number(a, b)", "format_number(a, int(b))", (t, "number"), "symbol", [*product(xs, (0, 1, 2, 5, -1, None))])
            for t, xs in {
                "number": NUMBERS, "decimal(18,4)": (*FINE, D("12345678.1250"), D("0.1250")),
                "float": (*FLOATS, 0.125, 1.005, 0.285, -0.001, 1e22, 1234567.891, 2.675),
            }.items()
        ),
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


def casts() -> list[SqlCase]:
    floats = (*FLOATS, 1e7, 9999999.0, 1e-3, 9.99e-4, 123456789.0, 1e22, 5e-324, 1.7976931348623157e308, 100.0, 0.05)
    found = [
        SqlCase("sql_string(a)", "CAST(a AS STRING)", (t,), "symbol", [(x,) for x in COMPARED[t]])
        for t in ("bool", "number", "symbol", "date", "timestamp", "decimal(18,2)")
    ]
    whole = ("0", " 12 ", "-7", "+5", "\t\n8\x7f", "9223372036854775807", "-9223372036854775808", "007")
    real = ("0", " 12 ", "-7", "+5", "\t\n8", "007", "1.5", ".5", "5.", "1e3", "-1.25E-2", "1.5d", "2F", " 3.0 ")
    days = (
        "2024",
        "2024-2",
        "2024-02-29",
        " 2024-2-9 ",
        "2024-02-29 12:30",
        "2024-02-29T",
        "2024-02-29Tx",
        "0001-01-01",
        "9999-12-31",
        "2024-02-29 ",
    )
    times = (
        "2024",
        "2024-2",
        "2024-02-29",
        "2024-02-29 12:30:45",
        "2024-02-29T1:2:3",
        "2024-02-29 12:30",
        "2024-02-29 12:30:45.5",
        "2024-02-29 12:30:45.1234567",
        "2024-02-29 12:30:45Z",
        "2024-02-29 12:30:45+01:30",
        "2024-02-29 12:30:45 UTC",
        "2024-02-29 12:30:45-8",
        "2024-02-29T12:30:45.123456-08:00",
        "2024-02-29T12:30:45 GMT+2",
        " 2024-02-29 12:30:45 ",
        "2024-02-29 12",
        "2024-02-29 12:30:45+0130",
        "2024-02-29 12:30:45.",
        "2024-02-29 12",
        "2024-02-29 12:30:45+0130",
    )
    return [
        *found,
        SqlCase("sql_string(a)", "CAST(a AS STRING)", ("float",), "symbol", [(x,) for x in floats if x != 5e-324]),
        SqlCase("sql_string(a)", "CAST(a AS STRING)", ("decimal(18,18)",), "symbol", singles(D("0.000000000000000001"), D("-0.5").quantize(D(1).scaleb(-18)))),
        SqlCase("sql_string(a)", "CAST(a AS STRING)", ("unsigned",), "symbol", singles(0, 7)),
        SqlCase("sql_text_to_number(a)", "CAST(a AS BIGINT)", ("symbol",), "number", singles(*whole)),
        SqlCase("sql_text_to_float(a)", "CAST(a AS DOUBLE)", ("symbol",), "float", singles(*real)),
        SqlCase("sql_text_to_decimal(a, 18, 1)", "CAST(a AS DECIMAL(18, 1))", ("symbol",), "decimal(18,1)", singles("1.25", " -1.25", "1e3", ".05", "5.", "1E-30", "0e99", "0")),
        SqlCase("sql_text_to_bool(a)", "CAST(a AS BOOLEAN)", ("symbol",), "bool", singles("t", "TRUE", " yes ", "y", "1", "f", "False", "no", "N", "0")),
        SqlCase("sql_text_to_date(a)", "CAST(a AS DATE)", ("symbol",), "date", singles(*days)),
        SqlCase("sql_text_to_timestamp(a)", "CAST(a AS TIMESTAMP)", ("symbol",), "timestamp", singles(*times)),
        *(
            SqlCase(f"sql_try_text_to_{to}(a)", f"try_cast(a AS {native})", ("symbol",), to, singles(*texts, "", "x", "1 2", "é"))
            for to, native, texts in (
                ("number", "BIGINT", (*whole, "1.5", "9223372036854775808")), ("float", "DOUBLE", (*real, "1,5")), ("bool", "BOOLEAN", ("t", " YES ", "0", "2")),
                ("date", "DATE", (*days, "2024-02-30", "24-01-01")), ("timestamp", "TIMESTAMP", (*times, "2024-02-30", "2024-02-29 25:00:00")),
            )
        ),
        SqlCase("sql_try_text_to_decimal(a, 4, 1)", "try_cast(a AS DECIMAL(4, 1))", ("symbol",), "decimal(4,1)", singles("1.25", "999.94", "999.95", "1e9", "x", "")),
        SqlCase("sql_try_decimal(a, 4, 1)", "try_cast(a AS DECIMAL(4, 1))", ("number",), "decimal(4,1)", singles(0, 999, -999, 1000)),
        SqlCase("sql_try_decimal(a, 4, 1)", "try_cast(a AS DECIMAL(4, 1))", ("float",), "decimal(4,1)", singles(0.05, 999.94, 999.95, -1e300)),
        SqlCase("sql_try_decimal(a, 4, 1)", "try_cast(a AS DECIMAL(4, 1))", ("decimal(18,4)",), "decimal(4,1)", singles(D("1.0500"), D("-999.9500"))),
        SqlCase("sql_try_to_number(a)", "try_cast(a AS BIGINT)", ("float",), "number", singles(0.5, -1.9, 1e18, 1e19, -1e300)),
        *(SqlCase("sql_to_bool(a)", "CAST(a AS BOOLEAN)", (t,), "bool", [(x,) for x in COMPARED[t]]) for t in ("number", "float", "decimal(18,2)")),
        SqlCase("sql_date_of(a)", "CAST(a AS DATE)", ("timestamp",), "date", [(x,) for x in TIMES]),
        SqlCase("sql_timestamp_of(a)", "CAST(a AS TIMESTAMP)", ("date",), "timestamp", [(x,) for x in DATES]),
    ]  # fmt: skip


DAY_PARTS = {
    "year": "year", "month": "month", "day": "day", "quarter": "quarter", "day_of_week": "dayofweek", "weekday": "weekday",
    "day_of_year": "dayofyear", "week_of_year": "weekofyear",
}  # fmt: skip
PATTERNS = (
    "yyyy-MM-dd", "y/M/d", "yy", "HH:mm:ss.SSS", "h:m a", "K k H", "EEE, d MMM yyyy", "EEEE MMMM", "E", "D", "DDD", "Q", "QQ",
    "'day' d''s", "''", "yyyyMMdd'T'HHmmss", "SSSSSS", "M L",
)  # fmt: skip


# Months that are shorter than others, and times of day before and after those of others.
MOMENTS = tuple(
    datetime.datetime.fromisoformat(t + "+00:00")
    for t in (
        "2024-01-31T10:30:00",
        "2024-02-29T10:29:59.9",
        "2024-03-31T00:00:00",
        "2023-02-28T23:00:00",
        "2024-03-30T10:30:00",
    )
)


def dates() -> list[SqlCase]:
    inner = [d for d in DATES if d is not None and 2 < d.year < 9990]
    inner_times = [t for t in TIMES if t is not None and 2 < t.year < 9990]
    shifts = (0, 1, -1, 12, -13, 25, None)
    found = [
        SqlCase(f"sql_{n}(a)", f"{native}(a)", ("date",), "number", [(x,) for x in DATES]) for n, native in DAY_PARTS.items()
    ]
    found += [
        SqlCase(f"sql_{n}(a)", f"{native}(a)", ("timestamp",), "number", [(x,) for x in TIMES])
        for n, native in DAY_PARTS.items()
    ]
    found += [
        SqlCase(f"sql_{n}(a)", f"{n}(a)", ("timestamp",), "number", [(x,) for x in TIMES]) for n in ("hour", "minute", "second")
    ]
    found += [
        SqlCase("sql_date_add(a, b)", "date_add(a, int(b))", ("date", "number"), "date", list(product((*inner, None), shifts))),
        SqlCase("sql_date_diff(a, b)", "datediff(a, b)", ("date", "date"), "number", pairs(DATES)),
        SqlCase("sql_add_months(a, b)", "add_months(a, int(b))", ("date", "number"), "date", list(product((*inner, None), shifts))),
        SqlCase(
            "sql_add_months(a, b)", "a + make_ym_interval(0, int(b))", ("timestamp", "number"), "timestamp",
            list(product((*inner_times, None), shifts)),
        ),
        SqlCase(
            "sql_timestamp_add(a, b)", "a + make_dt_interval(0, 0, 0, b / 1000000)", ("timestamp", "number"), "timestamp",
            list(product((*inner_times, None), (0, 1, -1, 86_400_000_001, None))),
        ),
        SqlCase("sql_timestamp_diff(a, b)", "unix_micros(a) - unix_micros(b)", ("timestamp",) * 2, "number", pairs(TIMES)),
        SqlCase("sql_last_day(a)", "last_day(a)", ("date",), "date", [(x,) for x in DATES]),
        *(
            SqlCase(f'sql_trunc(a, "{unit}")', f"trunc(a, '{unit}')", ("date",), "date", [(x,) for x in DATES])
            for unit in ("year", "YYYY", "yy", "quarter", "Month", "mon", "MM", "week")
        ),
        *(
            SqlCase(f'sql_date_trunc("{unit}", a)', f"date_trunc('{unit}', a)", ("timestamp",), "timestamp", [(x,) for x in TIMES])
            for unit in ("year", "QUARTER", "month", "week", "day", "dd", "HOUR", "minute", "second", "millisecond", "microsecond")
        ),
        SqlCase("sql_make_date(a, b, c)", "make_date(a, b, c)", ("number",) * 3, "date", [(2024, 2, 29), (1, 1, 1), (9999, 12, 31), (None, 1, 1)]),
        *(SqlCase(f'sql_date_format(a, "{p}")', f'date_format(a, "{p}")', ("timestamp",), "symbol", [(x,) for x in TIMES]) for p in PATTERNS),
        SqlCase("sql_make_timestamp(a, b, c, 23, 59, 59999999)", "make_timestamp(a, b, c, 23, 59, 59.999999)", ("number",) * 3, "timestamp", [(2024, 2, 29), (1, 1, 1), (9999, 12, 31), (None, 1, 1)]),
        SqlCase("sql_make_timestamp(2024, 12, 31, a, b, 60000000)", "make_timestamp(2024, 12, 31, a, b, 60)", ("number",) * 2, "timestamp", [(0, 0), (23, 59), (None, 1)]),
        *(
            SqlCase(f"sql_months_between(a, b, {how})", f"months_between(a, b, {how})", ("timestamp",) * 2, "float", pairs((*TIMES, *MOMENTS)))
            for how in ("true", "false")
        ),
        SqlCase("sql_months_until(a, b)", "timestampdiff(MONTH, a, b)", ("timestamp",) * 2, "number", pairs((*TIMES, *MOMENTS))),
        SqlCase("sql_next_day(a, b)", "next_day(a, b)", ("date", "symbol"), "date", [*product((*inner, None), ("mo", "TUE", "Wednesday", "TH", "fri", "SA", "sunday", None))]),
        *(
            SqlCase(f'sql_try_parse_time(a, "{p}")', f'try_to_timestamp(a, "{p}")', ("symbol",), "timestamp", singles(*xs))
            for p, xs in {
                "yyyyMMdd": ("20240229", "20240230", "2024-02-29", ""), "yyyy-MM-dd HH:mm:ss": ("2024-02-29 23:59:59", "2024-02-29 24:00:00", "2024-02-29"),
                "d/M/yyyy": ("9/2/2024", "9/13/2024", "x"),
            }.items()
        ),
        *(
            SqlCase(f'sql_parse_time(a, "{p}")', f'to_timestamp(a, "{p}")', ("symbol",), "timestamp", singles(*xs))
            for p, xs in {
                "yyyyMMdd": ("20240229", "00010101", "99991231"), "d/M/yyyy": ("9/2/2024", "09/02/2024", "31/12/1969"), "dd.MM.yy": ("01.02.99", "31.12.00"),
                "yyyy-MM-dd HH:mm:ss": ("2024-02-29 23:59:59", "1969-12-31 00:00:00"), "yyyy-MM-dd HH:mm:ss.SSS": ("2024-02-29 10:11:12.5", "2024-02-29 10:11:12.123"),
                "yyyy-MM-dd'T'HH:mm:ss.SSSSSS": ("2024-02-29T10:11:12.123456", "2024-02-29t10:11:12.1"), "MMM d yyyy": ("Feb 29 2024", "feb 1 2023", "MAY 31 2024"),
                "d MMMM yyyy": ("29 February 2024", "1 may 1970"), "HH:mm": ("10:11",), "yyyy": ("2024",), "MM/yyyy": ("02/2024",),
                "dd.MM.yyyy h:mm a": ("01.02.2024 12:30 AM", "01.02.2024 12:30 PM", "01.02.2024 3:05 pm"), "y-M-d H:m:s": ("2024-2-9 1:2:3",),
            }.items()
        ),
        SqlCase('sql_date_format(a, "d.M.y H")', "date_format(a, 'd.M.y H')", ("date",), "symbol", [(x,) for x in DATES]),
    ]  # fmt: skip
    return found


LONGER = (*TEXTS, "hello world", "o'neil-smith x", "ÀÉÎ", "ŉ ǆ ﬁ", "ΑΣ ΣΑΣ", "aXbXXc", "ababab")


REGEX_TEXTS = ("", "a", "ab-12", "a\n", "a\r\n", "a\rb", "٣", "é b", "😀x1", "A.b$", "[x]", "aab-77 ab-8", None)
PLAIN_TEXTS = tuple(t for t in REGEX_TEXTS if t != "😀x1")  # matches of nothing: Java finds one inside of 😀
REGEXES = (
    "a$", "a.b", "\\d+", "\\w", "\\bb", "\\s", "^$", "x*", "(?i)a\\.B", "[^a-c]", "[\\w-]+", "\\Q.b\\E", "\\p{Alpha}+", "[\\p{Punct}]", "(a+?)b", "a{2}", "(?:ab|12)",
    "(.)\\1", "\\Aa\\z", "a\\Z", "(?s).b", "a(?=b)", "(?<!a)b", "\\$", "[.$]", "\\[x\\]", "[a\\]]", "\\u0061", "(?<n>a)", "a++b", "b|", "-\\d{1,2}$", "[😀é]",
)  # fmt: skip


def texts() -> list[SqlCase]:
    one, two, three = ("symbol",), ("symbol",) * 2, ("symbol",) * 3
    parts = [*product(LONGER, ("", "a", "ab", "X", "😀", "ß", " ", None))]
    counted = list(product(("", "abc", "é😀x", "hello world", None), (0, 1, 2, -1, -2, -5, 4, 100, None)))
    ranges = list(product(("", "abc", "é😀xyz", None), (0, 1, 2, -1, -2, -7, 9), (0, 1, 3, -1, 100, None)))
    found = [
        SqlCase(f"sql_{n}(a)", f"{native}(a)", one, result, [(x,) for x in LONGER])
        for n, native, result in (
            ("upper", "upper", "symbol"), ("lower", "lower", "symbol"), ("reverse", "reverse", "symbol"), ("initcap", "initcap", "symbol"),
            ("md5", "md5", "symbol"), ("length", "char_length", "number"), ("ascii", "ascii", "number"), ("trim", "trim", "symbol"),
            ("ltrim", "ltrim", "symbol"), ("rtrim", "rtrim", "symbol"),
        )
    ]  # fmt: skip
    found += [
        SqlCase(f"sql_{n}(a, b)", native, two, result, parts)
        for n, native, result in (
            ("trim", "trim(BOTH b FROM a)", "symbol"), ("ltrim", "trim(LEADING b FROM a)", "symbol"), ("rtrim", "trim(TRAILING b FROM a)", "symbol"),
            ("instr", "instr(a, b)", "number"), ("starts_with", "startswith(a, b)", "bool"), ("ends_with", "endswith(a, b)", "bool"),
            ("contains", "contains(a, b)", "bool"), ("concat_ws", "concat_ws(a, b)", "symbol"),
        )
    ]  # fmt: skip
    texts_and_patterns = list(product(
        ("", "a", "abc", "a%c", "a_c", "x\ny", "é😀", "ABC", "a\\c", None),
        ("", "%", "_", "a%", "%c", "a_c", "a\\%c", "a\\_c", "__", "%\n%", "a.c", "[a]%", "a\\\\c", "É_", None),
    ))  # fmt: skip
    found += [
        SqlCase("sql_substring(a, b)", "substring(a, int(b))", ("symbol", "number"), "symbol", counted),
        SqlCase("sql_substring(a, b, c)", "substring(a, int(b), int(c))", ("symbol", "number", "number"), "symbol", ranges),
        SqlCase("sql_left(a, b)", "left(a, int(b))", ("symbol", "number"), "symbol", counted),
        SqlCase("sql_right(a, b)", "right(a, int(b))", ("symbol", "number"), "symbol", counted),
        SqlCase("sql_repeat(a, b)", "repeat(a, int(b))", ("symbol", "number"), "symbol", counted),
        SqlCase("sql_lpad(a, b)", "lpad(a, int(b))", ("symbol", "number"), "symbol", counted),
        SqlCase("sql_rpad(a, b)", "rpad(a, int(b))", ("symbol", "number"), "symbol", counted),
        *(
            SqlCase(f"sql_{n}(a, b, c)", f"{n}(a, int(b), c)", ("symbol", "number", "symbol"), "symbol",
                    [(a, b, c) for a, b in counted for c in ("", "ö", "xyz", None)])
            for n in ("lpad", "rpad")
        ),
        *(
            SqlCase(f"sql_{n}(a, b, c)", f"{n}(a, b, c)", three, "symbol",
                    [(a, b, c) for a, b in parts for c in ("", "ü", "yz", None)] + [("translate", "rnlt", "123"), ("aab", "aa", "xy")])
            for n in ("replace", "translate")
        ),
        SqlCase("sql_locate(a, b, c)", "locate(a, b, int(c))", ("symbol", "symbol", "number"), "number",
                [(b, a, c) for a, b in parts for c in (0, 1, 2, 5, -1)]),
        SqlCase("sql_split_part(a, b, c)", "split_part(a, b, int(c))", ("symbol", "symbol", "number"), "symbol",
                [(a, b, c) for a, b in parts for c in (1, 2, -1, 9, None)]),
        SqlCase("sql_like(a, b)", "a LIKE b", two, "bool", texts_and_patterns),
        SqlCase("sql_ilike(a, b)", "a ILIKE b", two, "bool", texts_and_patterns),
        SqlCase('sql_like(a, "a!%_", "!")', "a LIKE 'a!%_' ESCAPE '!'", one, "bool", singles("a%x", "abx", "a%")),
        SqlCase('sql_like(a, "%b_")', "a LIKE '%b_'", one, "bool", singles("abx", "b", "bb")),
        SqlCase('sql_like(a, "a\\\\_%")', "a LIKE 'a\\\\_%'", one, "bool", singles("a_x", "abx", "a_")),
        SqlCase('sql_ilike(a, "A%")', "a ILIKE 'A%'", one, "bool", singles("abx", "b", "Ab")),
        SqlCase("sql_rlike(a, b)", "a RLIKE b", two, "bool", list(product(LONGER, ("a", "^a", "b$", "[a-c]+", "l{2}", "", "(x|o)", None)))),
        *(SqlCase(f"sql_{n}(a)", f"{n}(a)", one, result, [(x,) for x in LONGER]) for n, result in (("sha1", "symbol"), ("crc32", "number"), ("octet_length", "number"))),
        SqlCase("sql_octet_length(a)", "octet_length(a)", ("bytes",), "number", [(x,) for x in COMPARED["bytes"]]),
        SqlCase("sql_soundex(a)", "soundex(a)", one, "symbol", singles("", "Miller", "Ashcraft", "Pfister", "tymczak", "9ab", "é", "aé b", "Honeyman", "lloyd", "a-a")),
        SqlCase("sql_levenshtein(a, b)", "levenshtein(a, b)", two, "number", [*pairs(("", "abc", "kitten", "sitting", "é😀x", "éx", None))]),
        SqlCase("sql_find_in_set(a, b)", "find_in_set(a, b)", two, "number", [*product(("", "a", "b", "a,b", "é", None), ("", "a,b", "b,,é", ",", None))]),
        SqlCase("sql_overlay(a, b, c)", "overlay(a, b, int(c))", ("symbol", "symbol", "number"), "symbol",
                [*product(("", "abc", "é😀xyz", None), ("", "X", "long text"), (-7, -1, 0, 1, 2, 9, None))]),
        *(SqlCase(f'sql_overlay(a, "Xy", b, {n})', f"overlay(a, 'Xy', int(b), {n})", ("symbol", "number"), "symbol",
                  [*product(("", "abc", "é😀xyz"), (-2, 0, 1, 3, 9))]) for n in (-1, 0, 1, 7)),
        SqlCase("sql_substring_index(a, b, c)", "substring_index(a, b, int(c))", ("symbol", "symbol", "number"), "symbol",
                [*product(("", "a.b.c", "aXXbXXXc", ".a.", None), ("", ".", "XX", "a", None), (0, 1, 2, -1, -2, 9, -9))]),
        SqlCase("sql_rlike(a, b)", "a RLIKE b", two, "bool", [*product(REGEX_TEXTS, REGEXES)]),
        SqlCase("sql_regexp_count(a, b)", "regexp_count(a, b)", two, "number", [*product(PLAIN_TEXTS, REGEXES)]),
        SqlCase("sql_regexp_instr(a, b)", "regexp_instr(a, b)", two, "number", [*product(REGEX_TEXTS, REGEXES)]),
        SqlCase("sql_regexp_substr(a, b)", "regexp_substr(a, b)", two, "symbol", [*product(REGEX_TEXTS, REGEXES)]),
        SqlCase("sql_regexp_extract(a, b, c)", "regexp_extract(a, b, int(c))", ("symbol", "symbol", "number"), "symbol",
                [*product(REGEX_TEXTS, ("(a)|(b)", "([a-z]+)-?(\\d*)", "(?<first>.)(.)?", None), (0, 1, 2, None))]),
        SqlCase("sql_regexp_replace(a, b, c)", "regexp_replace(a, b, c)", three, "symbol",
                [*product(PLAIN_TEXTS, ("([a-z]?)(\\d)?", "(b)|(x)", "(?<first>.)(.)"), ("", "-", "<$0>", "$2$1", "$11", "\\$\\\\", None)), ("ab", "(?<it>a)", "${it}${it}")]),
        SqlCase("sql_concat_ws(a, b, c)", "concat_ws(a, b, c)", three, "symbol", list(product((",", "", "é", None), ("x", None), ("", "y", None)))),
        SqlCase("sql_concat_ws(a)", "concat_ws(a)", one, "symbol", singles(",")),
        SqlCase("sql_chr(a)", "chr(a)", ("number",), "symbol", singles(65, 233, 321, -5, 255)),
        SqlCase("sql_sha2(a, b)", "sha2(a, int(b))", ("symbol", "number"), "symbol", list(product(("", "é😀", None), (0, 224, 256, 384, 512, 1, None)))),
    ]  # fmt: skip
    return found


CASES: list[SqlCase] = [*logic(), *numbers(), *casts(), *dates(), *texts()]


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
    *(SqlFailure(f"sql_text_to_{to}(a)", ("symbol",), to, (text,), "BAD_TEXT") for to, text in (
        ("number", "1.5"), ("number", ""), ("number", "9223372036854775808"), ("number", "1 2"), ("float", "x"), ("float", ""), ("bool", "2"), ("bool", ""),
        ("date", "2024-02-30"), ("date", "24-01-01"), ("date", "2024-13-01"), ("date", ""), ("timestamp", "2024-02-29 25:00:00"), ("timestamp", "noon"),
        ("timestamp", "2024-02-29 12:30Z"), ("timestamp", "2024-02-29 12:30:45+25:00"),
    )),
    *(SqlFailure(f"sql_text_to_{to}(a)", ("symbol",), to, (text,), "OVERFLOW") for to, text in (
        ("float", "inf"), ("float", "NaN"), ("float", "1e400"), ("date", "10000-01-01"), ("timestamp", "10000-01-01 00:00:00"),
        ("timestamp", "9999-12-31 23:59:59-01:00"),
    )),
    SqlFailure("sql_text_to_decimal(a, 3, 1)", ("symbol",), "decimal(3,1)", ("99.95",), "OVERFLOW"),
    SqlFailure("sql_text_to_decimal(a, 3, 1)", ("symbol",), "decimal(3,1)", ("1e9999",), "OVERFLOW"),
    SqlFailure("sql_text_to_decimal(a, 3, 1)", ("symbol",), "decimal(3,1)", ("1,5",), "BAD_TEXT"),
    SqlFailure("sql_date_add(a, b)", ("date", "number"), "date", (datetime.date(9999, 12, 31), 1), "OVERFLOW"),
    SqlFailure("sql_date_add(a, b)", ("date", "number"), "date", (datetime.date(9999, 12, 31), HIGHEST), "OVERFLOW"),
    SqlFailure("sql_date_add(a, b)", ("date", "number"), "date", (datetime.date(1, 1, 1), -1), "OVERFLOW"),
    *(SqlFailure("sql_add_months(a, b)", ("date", "number"), "date", (datetime.date(9999, 12, 1), n), "OVERFLOW") for n in (1, -120000, 2**31 - 1, 2**40)),
    *(SqlFailure("sql_add_months(a, b)", ("timestamp", "number"), "timestamp", (TIMES[0], n), "OVERFLOW") for n in (120000, 2**31 - 1, 2**40)),
    SqlFailure("sql_timestamp_add(a, b)", ("timestamp", "number"), "timestamp", (TIMES[5], 1), "OVERFLOW"),
    SqlFailure("sql_timestamp_add(a, b)", ("timestamp", "number"), "timestamp", (TIMES[5], HIGHEST), "OVERFLOW"),
    *(SqlFailure("sql_make_date(a, b, c)", ("number",) * 3, "date", row, "OVERFLOW") for row in ((2023, 2, 29), (0, 1, 1), (10000, 1, 1), (2024, 13, 1))),
    SqlFailure('sql_date_format(a, "yyyy B")', ("date",), "symbol", (datetime.date(2024, 1, 1),), "BAD_TEXT"),
    SqlFailure("sql_like(a, b)", ("symbol",) * 2, "bool", ("a", "a\\b"), "BAD_TEXT"),
    SqlFailure("sql_like(a, b)", ("symbol",) * 2, "bool", ("a", "a\\"), "BAD_TEXT"),
    SqlFailure("sql_rlike(a, b)", ("symbol",) * 2, "bool", ("a", "("), "BAD_TEXT"),
    SqlFailure("sql_split_part(a, b, c)", ("symbol", "symbol", "number"), "symbol", ("a", ",", 0), "OVERFLOW"),
    SqlFailure("sql_substring(a, b)", ("symbol", "number"), "symbol", ("a", 2**40), "OVERFLOW"),
    SqlFailure("sql_repeat(a, b)", ("symbol", "number"), "symbol", ("a", 2**40), "OVERFLOW"),
    SqlFailure("sql_chr(a)", ("number",), "symbol", (256,), "OVERFLOW"),
    SqlFailure("sql_rlike(a, b)", ("symbol",) * 2, "bool", ("a", "[a&&b]"), "BAD_TEXT"),
    *(SqlFailure("sql_regexp_extract(a, b, c)", ("symbol", "symbol", "number"), "symbol", ("a", "(a)", n), "BAD_TEXT") for n in (2,)),
    *(SqlFailure("sql_regexp_replace(a, b, c)", ("symbol",) * 3, "symbol", ("a", "(a)", by), "BAD_TEXT") for by in ("$", "$2")),
    *(SqlFailure('sql_parse_time(a, "yyyy-MM-dd")', ("symbol",), "timestamp", (text,), "BAD_TEXT") for text in ("2024-02-30", " 2024-02-01")),
    SqlFailure("sql_parse_time(a, b)", ("symbol",) * 2, "timestamp", ("2024", "YYYY"), "BAD_TEXT"),
    SqlFailure("sql_next_day(a, b)", ("date", "symbol"), "date", (datetime.date(2024, 1, 1), "Tag"), "BAD_TEXT"),
    SqlFailure("sql_next_day(a, b)", ("date", "symbol"), "date", (datetime.date(9999, 12, 31), "Mon"), "OVERFLOW"),
    SqlFailure("sql_make_timestamp(a, b, c, 23, 59, 60000001)", ("number",) * 3, "timestamp", (2024, 1, 1), "OVERFLOW"),
    SqlFailure("sql_conv(a, b, c)", ("symbol", "number", "number"), "symbol", ("18446744073709551616", 10, 16), "OVERFLOW"),
    SqlFailure("sql_bround(a, -1)", ("number",), "number", (HIGHEST,), "OVERFLOW"),
    SqlFailure("sql_try_text_to_date(a)", ("symbol",), "date", ("10000-01-01",), "OVERFLOW"),
]  # fmt: skip
