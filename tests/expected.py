"""What every function of docs/language.md must give, in plain Python that knows nothing of the product.

A function that must fail raises ``Fails`` with the code of the condition. NULL is no argument here: a function of NULL is NULL, but
for those with ``lenient``.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any

from tests.samples import HIGHEST, LOWEST, SYMBOLS, Value, digits_of

EXACT = Context(prec=100)


class Fails(Exception):
    """The evaluation must stop with this condition."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Case:
    """One function at one combination of types: ``term`` over the variables a, b, c, its expected value, extra arguments to try."""

    term: str
    types: tuple[str, ...]
    result: str
    expected: Callable[..., Value]
    function: str
    more: tuple[tuple[Value, ...], ...] = ()
    lenient: bool = False

    def __str__(self) -> str:
        return f"{self.term} of {', '.join(self.types)}"

    def value(self, arguments: Sequence[Value]) -> Value:
        if None in arguments and not self.lenient:
            return None
        found = self.expected(*arguments)
        return None if found is None else fit(found, self.result)


def fit(value: Any, type_: str) -> Value:
    """The value if the type has it."""
    if type_ == "number" and not LOWEST <= value <= HIGHEST or type_ == "unsigned" and not 0 <= value <= HIGHEST:
        raise Fails("OVERFLOW")
    if type_ == "float":
        if not math.isfinite(value):
            raise Fails("OVERFLOW")
        return float(value) + 0.0
    if type_.startswith("decimal"):
        precision, scale = digits_of(type_)
        fitted = value.quantize(Decimal(1).scaleb(-scale), context=EXACT)
        assert fitted == value
        if abs(fitted) >= Decimal(10) ** (precision - scale):
            raise Fails("OVERFLOW")
        return fitted if fitted else abs(fitted)
    assert isinstance(value, (int, str, date, bytes))
    return value


# ---- arithmetic


def divide(x: int, y: int) -> int:
    if y == 0:
        raise Fails("DIVISION_BY_ZERO")
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def remainder(x: int, y: int) -> int:
    return x - y * divide(x, y)


def power(x: int, y: int) -> int:
    if y < 0 or abs(x) > 1 and y > 63:
        raise Fails("OVERFLOW")
    return x**y if abs(x) > 1 else [1, x, x * x][0 if y == 0 else 2 - y % 2]


def float_divide(x: float, y: float) -> float:
    if y == 0:
        raise Fails("DIVISION_BY_ZERO")
    return x / y


def float_power(x: float, y: float) -> float:
    try:
        return math.pow(x, y)
    except (OverflowError, ValueError):
        raise Fails("OVERFLOW") from None


def steps(*functions: Callable[..., Any], type_: str) -> Callable[..., Value]:
    """Functions after one another; what is between them must fit, too."""

    def apply(*arguments: Any) -> Value:
        found = arguments
        for function in functions:
            result = function(*found)
            found = tuple(fit(v, type_) for v in (result if isinstance(result, tuple) else (result,)))
        return found[0]

    return apply


# ---- bits


def signed(bits: int) -> int:
    bits %= 2**64
    return bits - 2**64 if bits >= 2**63 else bits


BITS: dict[str, Callable[[int, int], int]] = {
    "band": lambda x, y: x & y,
    "bor": lambda x, y: x | y,
    "bxor": lambda x, y: x ^ y,
    "bshl": lambda x, y: signed(x << (y & 63)),
    "bshr": lambda x, y: x >> (y & 63),
    "bshru": lambda x, y: signed((x % 2**64) >> (y & 63)),
    "land": lambda x, y: int(bool(x) and bool(y)),
    "lor": lambda x, y: int(bool(x) or bool(y)),
    "lxor": lambda x, y: int(bool(x) != bool(y)),
}


# ---- order


def order(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def least(*values: Any) -> Any:
    return min(values, key=order)


def greatest(*values: Any) -> Any:
    return max(values, key=order)


# ---- text


def substr(text: str, start: int, n: int) -> str:
    if start < 0 or start >= len(text):
        return ""
    return text[start:] if n < 0 else text[start : start + n]


def identify(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 4


def to_string(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return repr(value)
        case bytes():
            return value.hex()
        case datetime():
            return f"{value:%m-%dT%H:%M:%S.%fZ}".join([f"{value.year:04}-", ""])
        case date():
            return f"{value.year:04}-{value:%m-%d}"
        case Decimal():
            return f"{value:f}"
    return str(value)


def read(pattern: str, convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """From text; what the pattern does not match or cannot be converted is no value."""

    def parse(text: str) -> Any:
        try:
            if re.fullmatch(pattern, text):
                return convert(text)
        except ValueError:
            pass
        raise Fails("BAD_TEXT")

    return parse


def whole(low: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if not low <= int(text) <= HIGHEST:
            raise Fails("BAD_TEXT")  # the text is to blame, and the message shows it
        return int(text)

    return convert


def finite(text: str) -> float:
    if math.isinf(float(text)):
        raise Fails("BAD_TEXT")
    return float(text)


INTEGER = r"[+-]?[0-9]+"
text_to_number = read(INTEGER, whole(LOWEST))
text_to_unsigned = read(INTEGER, whole(0))
text_to_float = read(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", finite)
text_to_date = read(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", date.fromisoformat)
text_to_timestamp = read(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z",
    lambda text: datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ" if "." in text else "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC),
)

NUMBER_TEXTS = (
    "0", "-0", "+5", "007", "42", "-42", "9223372036854775807", "-9223372036854775808", "00000000000000000000000000001",
    "9223372036854775808", "-9223372036854775809", "99999999999999999999999", "", " 1", "1 ", "1\n", "1.0", "1e3", "0x10", "٣", "１",
    "--1", "+", "-", "+-1", "1_000", "1,000", "a", "1a", "½", "²", "nan", "inf",
)  # fmt: skip
FLOAT_TEXTS = (
    *NUMBER_TEXTS, "-1.5", "2", "1e3", ".5", "-.5e-3", "5.", "1E+10", "0.1", "1.7976931348623157e308", "5e-324", "2.5e-324", "1e-400",
    "-1e-400", "1e309", "-1e309", "1e999999999999", "-0.0", "infinity", "Infinity", "NaN", "1e", ".", "e5", "1.5f", "1.5d", "0x1p3",
    "1..2", "9007199254740993", "0.30000000000000004", "123456789012345678901234567890",
)  # fmt: skip
DATE_TEXTS = (
    "2024-02-29", "0001-01-01", "9999-12-31", "1582-10-10", "1970-01-01", "2023-02-29", "2024-13-01", "2024-00-10", "2024-1-1",
    "0000-01-01", "10000-01-01", "-001-01-01", "2024-02-29 ", "20240229", "2024-W09-4", "2024-060", "2024-02-30", "today", "", "٢٠٢٤-02-29",
)  # fmt: skip
TIMESTAMP_TEXTS = (
    "2024-02-29T12:30:00Z", "2024-02-29T12:30:00.25Z", "2024-02-29T12:30:00.000001Z", "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.9Z", "1582-10-10T01:02:03Z", "2023-02-29T00:00:00Z", "2024-02-29T25:00:00Z",
    "2024-02-29T24:00:00Z", "2024-02-29T12:60:00Z", "2024-02-29T12:30:60Z", "2024-02-29T12:30:00.1234567Z", "2024-02-29T12:30:00.Z",
    "0000-01-01T00:00:00Z", "yesterday", "", "2024-02-29T12:30:00z", "2024-02-29t12:30:00Z", "2024-02-29T12:30:00Z ", "12:30:00",
)  # fmt: skip


# ---- the table


def _binary(operator: str, types: tuple[str, str], result: str, expected: Callable[..., Any], **more: Any) -> Case:
    return Case(f"a {operator} b", types, result, expected, operator, **more)


def _arithmetic() -> list[Case]:
    plain: dict[str, Callable[..., Any]] = {"+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y}
    found: list[Case] = []
    for type_ in ("number", "unsigned"):
        found += [_binary(op, (type_, type_), type_, f) for op, f in plain.items()]
        found.append(_binary("/", (type_, type_), type_, divide))
        found.append(_binary("%", (type_, type_), type_, remainder))
        small = [(x, y) for x in (0, 1, 2, 3, 10, 1000, 2097151, 2097152) for y in (0, 1, 2, 3, 7, 18, 19, 62, 63, 64)]
        negative = [(-x, y) for x, y in small] if type_ == "number" else []
        found.append(_binary("^", (type_, type_), type_, power, more=(*small, *negative)))
    found += [_binary(op, ("float", "float"), "float", f) for op, f in plain.items()]
    found.append(_binary("/", ("float", "float"), "float", float_divide))
    roots = tuple(
        (x, y) for x in (0.0, 2.0, 0.25, -8.0, 10.0) for y in (0.5, -1.0, 2.0, 3.0, -0.5, 308.0, 309.0, 1023.0, -1074.0)
    )
    found.append(_binary("^", ("float", "float"), "float", float_power, more=roots))
    for type_ in ("number", "float", "decimal(18,2)", "decimal(18,0)", "decimal(18,18)"):
        found.append(Case("-a", (type_,), type_, lambda x: EXACT.minus(x) if isinstance(x, Decimal) else -x, "neg"))
    return found


def _decimals() -> list[Case]:
    found: list[Case] = []
    for left, right in ((2, 2), (0, 2), (4, 1), (18, 18), (0, 0), (17, 0)):
        types = (f"decimal(18,{left})", f"decimal(18,{right})")
        result = f"decimal(18,{max(left, right)})"
        found += [_binary("+", types, result, EXACT.add), _binary("-", types, result, EXACT.subtract)]
        if left + right <= 18:
            found.append(_binary("*", types, f"decimal(18,{left + right})", EXACT.multiply))
    found.append(_binary("*", ("decimal(9,5)", "decimal(9,4)"), "decimal(18,9)", EXACT.multiply))
    found += [_of_few_digits(*digits) for digits in ((8, 8, 9), (9, 9, 9), (8, 9, 10), (16, 17, 1), (17, 17, 1))]
    found.append(_binary("+", ("decimal(17,2)", "decimal(16,0)"), "decimal(18,2)", EXACT.add))
    found.append(Case("a * 3", ("decimal(18,2)",), "decimal(18,2)", lambda x: EXACT.multiply(x, 3), "*"))
    found.append(Case("a + 0.5", ("decimal(18,2)",), "decimal(18,2)", lambda x: EXACT.add(x, Decimal("0.5")), "+"))
    return found


def _of_few_digits(*digits: int) -> Case:
    """A sum that is a factor, of numbers that may or may not be too long for that."""
    types, result = tuple(f"decimal({one},0)" for one in digits), "decimal(18,0)"
    return Case("(a + b) * c", types, result, steps(lambda a, b, c: (EXACT.add(a, b), c), EXACT.multiply, type_=result), "*")


def _chains() -> list[Case]:
    """Every step of a longer term is checked, whatever comes after it."""
    found: list[Case] = []
    for type_ in ("number", "unsigned", "decimal(18,0)"):
        exact = EXACT if type_.startswith("decimal") else None
        add = exact.add if exact else lambda x, y: x + y
        sub = exact.subtract if exact else lambda x, y: x - y
        mul = exact.multiply if exact else lambda x, y: x * y
        found += [
            Case("a + b - b", (type_,) * 2, type_, steps(lambda a, b, f=add: (f(a, b), b), sub, type_=type_), "+"),
            Case("a - b + b", (type_,) * 2, type_, steps(lambda a, b, f=sub: (f(a, b), b), add, type_=type_), "-"),
            Case("a * b - a * b", (type_,) * 2, type_, steps(lambda a, b, f=mul: (f(a, b),) * 2, sub, type_=type_), "*"),
            Case("a - (b - a)", (type_,) * 2, type_, steps(lambda a, b, f=sub: (a, f(b, a)), sub, type_=type_), "-"),
        ]
    long = " * ".join("a" * 20)
    found.append(
        Case(
            f"{long} - {long}",
            ("number",),
            "number",
            steps(lambda a: a**20, lambda a: (a, a), lambda a, b: a - b, type_="number"),
            "*",
        )
    )
    found.append(Case("-(a - b)", ("number",) * 2, "number", steps(lambda a, b: a - b, lambda a: -a, type_="number"), "neg"))
    found.append(
        Case("(a + b) / 2", ("number",) * 2, "number", steps(lambda a, b: a + b, lambda a: divide(a, 2), type_="number"), "/")
    )
    return found


def _bits() -> list[Case]:
    found: list[Case] = []
    for type_ in ("number", "unsigned"):
        found += [_binary(name, (type_, type_), type_, f) for name, f in BITS.items()]
        found.append(Case("bnot a", (type_,), type_, lambda x: ~x, "bnot"))
        found.append(Case("lnot a", (type_,), type_, lambda x: int(not x), "lnot"))
    return found


def _text() -> list[Case]:
    places = (0, 1, 2, 3, 5, 300, -1, -5, HIGHEST, LOWEST, 2**32)
    pieces = tuple((s, i, n) for s in ("", "a", "abc", "a😀é日", "x" * 300) for i in places for n in places)
    return [
        Case("cat(a, b)", ("symbol",) * 2, "symbol", lambda x, y: x + y, "cat"),
        Case("cat(a, b, c, a)", ("symbol",) * 3, "symbol", lambda x, y, z: x + y + z + x, "cat"),
        Case("strlen(a)", ("symbol",), "number", len, "strlen"),
        Case("ord(a)", ("symbol",), "number", identify, "ord"),
        Case("substr(a, b, c)", ("symbol", "number", "number"), "symbol", substr, "substr", more=pieces),
        Case("to_date(a)", ("symbol",), "date", text_to_date, "to_date", more=tuple((t,) for t in DATE_TEXTS)),
        Case(
            "to_timestamp(a)",
            ("symbol",),
            "timestamp",
            text_to_timestamp,
            "to_timestamp",
            more=tuple((t,) for t in TIMESTAMP_TEXTS),
        ),
    ]


def _truncated(value: float | Decimal) -> int:
    return math.trunc(value)


def _conversions() -> list[Case]:
    numbers, floats = tuple((t,) for t in NUMBER_TEXTS), tuple((t,) for t in FLOAT_TEXTS)
    found = [
        Case("to_number(a)", ("symbol",), "number", text_to_number, "to_number", more=numbers),
        Case("to_unsigned(a)", ("symbol",), "unsigned", text_to_unsigned, "to_unsigned", more=numbers),
        Case("to_float(a)", ("symbol",), "float", text_to_float, "to_float", more=floats),
        Case("to_float(a)", ("number",), "float", float, "to_float", more=((2**53 + 1,), (2**62 + 2**9 + 1,), (2**62 + 2**9,))),
        Case("to_float(a)", ("unsigned",), "float", float, "to_float"),
        Case("to_float(a)", ("float",), "float", float, "to_float"),
    ]
    for type_ in ("number", "unsigned", "float", "bool", "decimal(18,0)", "decimal(18,2)", "decimal(18,18)"):
        found.append(Case("to_number(a)", (type_,), "number", _truncated, "to_number"))
        found.append(Case("to_unsigned(a)", (type_,), "unsigned", _truncated, "to_unsigned"))
        if type_.startswith("decimal"):
            found.append(Case("to_float(a)", (type_,), "float", float, "to_float"))
    return found


EVERY_TYPE = (
    "number", "unsigned", "float", "symbol", "bool", "date", "timestamp", "bytes", "decimal(18,2)", "decimal(5,5)", "decimal(18,0)",
)  # fmt: skip
# Decimals that go into a column with fewer digits, or with more after the point.
INTO_COLUMNS = [
    Case("a", (found,), column, lambda x: x, "+")
    for found, column in (
        ("decimal(18,2)", "decimal(6,2)"),
        ("decimal(6,2)", "decimal(8,4)"),
        ("decimal(18,2)", "decimal(18,4)"),
    )
] + [Case("max(a, b)", ("decimal(4,2)", "decimal(9,2)"), "decimal(4,2)", max, "max")]
ORDERED = tuple(type_ for type_ in EVERY_TYPE if type_ != "bool")


def _of_every_type() -> list[Case]:
    found: list[Case] = []
    for type_ in EVERY_TYPE:
        found.append(Case("to_string(a)", (type_,), "symbol", to_string, "to_string"))
        found.append(Case("coalesce(a, b)", (type_,) * 2, type_, lambda x, y: y if x is None else x, "coalesce", lenient=True))
    for type_ in ORDERED:
        found.append(Case("min(a, b)", (type_,) * 2, type_, least, "min"))
        found.append(Case("max(a, b)", (type_,) * 2, type_, greatest, "max"))
    for type_ in ("number", "symbol"):
        found.append(Case("min(a, b, c, a)", (type_,) * 3, type_, least, "min"))
        found.append(Case("max(c, b, a, a)", (type_,) * 3, type_, greatest, "max"))
    return found


CASES = [*_arithmetic(), *_decimals(), *_chains(), *_bits(), *_text(), *_conversions(), *_of_every_type()]


# ---- tests


def matches(pattern: str, text: str) -> bool:
    try:
        return re.fullmatch(pattern, text) is not None
    except re.error:
        raise Fails("BAD_TEXT") from None


PATTERNS = (
    "", ".", ".*", "a", "a.*", "[a-z]+", "(?i)ABC", "(?s).*", "(?s)two.lines", r"\d+", r"\w*", r"\s", "a|b", "^a$", "é", "[^é]", ".😀.", "..",
    r"\U0010ffff", r"(a)(b)\2", r"(?P<x>a)b(?P=x)?", "a{1,2}b?", "(", "*", "[", "a{2,1}", r"\q", "(?P<n>a)(?P<n>b)", "(?<=a)b",
)  # fmt: skip
PATTERN_TEXTS = (*SYMBOLS, "abb", "٣", "two\nlines\n", "a\n")
