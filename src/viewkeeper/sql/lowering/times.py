"""SQL's functions of dates and timestamps → functions of programs."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, NoReturn

from sqlglot import exp

from viewkeeper.program.ast import Call, Constant, Term
from viewkeeper.program.sql_functions import DATE_UNITS, UNITS
from viewkeeper.program.time_patterns import BadTimePattern, reading_pattern, writing_pattern
from viewkeeper.program.types import BOOL, NUMBER, SYMBOL, TIMESTAMP, Kind, decimal_type
from viewkeeper.sql.lowering.arguments import argument
from viewkeeper.sql.lowering.intervals import MICROSECONDS, MONTHS, Interval, part_of, seconds, whole_number
from viewkeeper.sql.lowering.values import Lowered
from viewkeeper.sql.reading import function_name
from viewkeeper.sql.types import BIGINT, DATE_TYPE, DOUBLE, STRING, TIMESTAMP_TYPE, SqlType, decimal

if TYPE_CHECKING:
    from viewkeeper.sql.lowering.expressions import Expressions

_EPOCH = Constant(datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC), TIMESTAMP)
_FIELDS = {
    **dict.fromkeys(("YEAR", "YEARS", "Y", "YR"), "sql_year"), **dict.fromkeys(("QUARTER", "QTR"), "sql_quarter"),
    **dict.fromkeys(("MONTH", "MONTHS", "MON", "MONS"), "sql_month"), **dict.fromkeys(("WEEK", "WEEKS", "W"), "sql_week_of_year"),
    **dict.fromkeys(("DAY", "DAYS", "D"), "sql_day"), **dict.fromkeys(("DAYOFWEEK", "DOW"), "sql_day_of_week"), "DOY": "sql_day_of_year",
    **dict.fromkeys(("DAYOFWEEK_ISO", "DOW_ISO"), "sql_weekday"), **dict.fromkeys(("HOUR", "HOURS", "H"), "sql_hour"),
    **dict.fromkeys(("MINUTE", "MINUTES", "MIN", "MINS", "M"), "sql_minute"),
}  # fmt: skip
_OF_TIME = ("sql_hour", "sql_minute")
_SECONDS = ("SECOND", "SECONDS", "SEC", "SECS", "S")
_DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"


def extract(field: str, of: exp.Expr, node: exp.Expr, into: Expressions) -> Lowered:
    field = field.upper()
    operand = into.operand(of)
    if isinstance(operand, Interval):
        found = part_of(operand, field)
        return found if found is not None else _no_field(field, "DAY, HOUR, MINUTE and SECOND, or YEAR and MONTH", node, into)
    if field in _SECONDS:
        time = argument(operand, TIMESTAMP_TYPE, node, into)
        minute = Call("sql_date_trunc", (Constant("minute", SYMBOL), time.term))
        return seconds(Lowered(Call("sql_timestamp_diff", (time.term, minute)), BIGINT, time.nullable))
    if field not in _FIELDS:
        _no_field(field, ", ".join((*_FIELDS, "SECOND")), node, into)
    function = _FIELDS[field]
    value = argument(operand, TIMESTAMP_TYPE if function in _OF_TIME else DATE_TYPE, node, into)
    found = Lowered(Call(function, (value.term,)), BIGINT, value.nullable)
    return _plus_one(found) if function == "sql_weekday" else found


def _no_field(field: str, known: str, node: exp.Expr, into: Expressions) -> NoReturn:
    into.statement.refuse("SQL_UNSUPPORTED", node, what=f"EXTRACT of {field}", hint=f"There are {known}.")


def _plus_one(value: Lowered) -> Lowered:
    return Lowered(Call("+", (value.term, Constant(1, NUMBER))), BIGINT, value.nullable)


# ---- units


def _shift(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    """date_add(day, number), or the same with a unit: timestampadd(unit, number, time)."""
    if len(arguments) == 3:
        return _timestamp_add(arguments, node, into)
    return _date_add(arguments, node, into)


def _date_add(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions, sign: int = 1) -> Lowered:
    day = argument(into.value(arguments[0]), DATE_TYPE, arguments[0], into)
    days = argument(into.value(arguments[1]), BIGINT, arguments[1], into)
    if sign < 0:
        days = _negative(days)
    return Lowered(Call("sql_date_add", (day.term, days.term)), DATE_TYPE, day.nullable or days.nullable)


def _negative(value: Lowered) -> Lowered:
    if isinstance(value.constant, int):
        return Lowered(Constant(-value.constant, NUMBER), BIGINT)
    return Lowered(Call("neg", (value.term,)), BIGINT, value.nullable)


def _date_sub(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    return _date_add(arguments, node, into, sign=-1)


def _timestamp_add(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    unit = _unit_name(arguments[0], {**MONTHS, **MICROSECONDS, "DAYOFYEAR": 0}, node, into)
    number = argument(into.value(arguments[1]), BIGINT, arguments[1], into)
    time = argument(into.value(arguments[2]), TIMESTAMP_TYPE, arguments[2], into)
    size = MONTHS.get(unit) or MICROSECONDS.get(unit) or MICROSECONDS["DAY"]
    function = "sql_add_months" if unit in MONTHS else "sql_timestamp_add"
    by = number.term if size == 1 else Call("*", (number.term, Constant(size, NUMBER)))
    return Lowered(Call(function, (time.term, by)), TIMESTAMP_TYPE, time.nullable or number.nullable)


def _difference(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    """datediff(later, earlier) in days, or timestampdiff(unit, earlier, later)."""
    if len(arguments) == 3:
        return _timestamp_difference(arguments, node, into)
    days = [argument(into.value(part), DATE_TYPE, part, into) for part in arguments]
    return Lowered(Call("sql_date_diff", tuple(d.term for d in days)), BIGINT, any(d.nullable for d in days))


def _timestamp_difference(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    unit = _unit_name(arguments[0], {**MONTHS, **MICROSECONDS}, node, into)
    times = [argument(into.value(part), TIMESTAMP_TYPE, part, into) for part in arguments[1:]]
    start, end = (time.term for time in times)
    found: Term = Call("sql_months_until", (start, end)) if unit in MONTHS else Call("sql_timestamp_diff", (end, start))
    size = MONTHS.get(unit) or MICROSECONDS[unit]
    term = found if size == 1 else Call("/", (found, Constant(size, NUMBER)))
    return Lowered(term, BIGINT, any(time.nullable for time in times))


def _unit_name(unit: exp.Expr, known: Collection[str], node: exp.Expr, into: Expressions) -> str:
    name = unit.name.upper() if isinstance(unit, (exp.Column, exp.Var)) else ""
    return name if name in known else _no_unit(unit.name, known, node, into)


def _no_unit(name: str, known: Collection[str], node: exp.Expr, into: Expressions) -> NoReturn:
    why = f"{function_name(node, into.statement.source)} has no unit '{name}'"
    into.statement.refuse("SQL_TYPE", node, why=why, hint=f"Units are {', '.join(known)}.")


def _trunc(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    day = argument(into.value(arguments[0]), DATE_TYPE, arguments[0], into)
    unit = _truncating_unit(arguments[1], node, DATE_UNITS, into)
    return Lowered(Call("sql_trunc", (day.term, unit)), DATE_TYPE, day.nullable)


def _timestamp_trunc(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    moment = argument(into.value(arguments[1]), TIMESTAMP_TYPE, arguments[1], into)
    unit = _truncating_unit(arguments[0], node, frozenset(UNITS.values()), into)
    return Lowered(Call("sql_date_trunc", (unit, moment.term)), TIMESTAMP_TYPE, moment.nullable)


def _truncating_unit(unit: exp.Expr, node: exp.Expr, known: Collection[str], into: Expressions) -> Constant:
    name = unit.name if isinstance(unit, exp.Literal) else ""
    if UNITS.get(name.upper()) not in known:
        _no_unit(unit.name, [one for one in dict.fromkeys(UNITS.values()) if one in known], node, into)
    return Constant(name.lower(), SYMBOL)


# ---- texts


def _pattern(node: exp.Expr | None, check: Callable[[str], object], into: Expressions) -> Lowered:
    """A pattern of times; if it is constant, a right one."""
    if node is None:
        return Lowered(Constant(_DEFAULT_PATTERN, SYMBOL), STRING)
    found = argument(into.value(node), STRING, node, into)
    try:
        if isinstance(found.constant, str):
            check(found.constant)
    except BadTimePattern as error:
        hint = "docs/sql.md lists the letters of patterns; others that stand for themselves are in quotation marks."
        into.statement.refuse("SQL_TYPE", node, why=str(error), hint=hint)
    return found


def _date_format(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    time = argument(into.value(arguments[0]), TIMESTAMP_TYPE, arguments[0], into)
    return _formatted(time, _pattern(arguments[1], writing_pattern, into))


def _formatted(time: Lowered, pattern: Lowered) -> Lowered:
    return Lowered(Call("sql_date_format", (time.term, pattern.term)), STRING, time.nullable or pattern.nullable)


def name_of(pattern: str) -> Callable[[exp.Expr, Expressions], Lowered]:
    """dayname and monthname."""

    def lower(node: exp.Expr, into: Expressions) -> Lowered:
        day = argument(into.value(node.this), TIMESTAMP_TYPE, node.this, into)
        return _formatted(day, Lowered(Constant(pattern, SYMBOL), STRING))

    return lower


def _parsed(value: Lowered, pattern: exp.Expr | None, into: Expressions) -> Lowered:
    how = _pattern(pattern, reading_pattern, into)
    return Lowered(Call("sql_parse_time", (value.term, how.term)), TIMESTAMP_TYPE, value.nullable or how.nullable)


def _read(wanted: SqlType) -> Callable[[Sequence[exp.Expr], exp.Expr, Expressions], Lowered]:
    """to_date and to_timestamp. The pattern is for texts; dates and timestamps do not need it."""

    def lower(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
        value = into.value(arguments[0])
        if len(arguments) == 2 and value.type.kind is Kind.SYMBOL:
            value = _parsed(value, arguments[1], into)
        return into.cast_to(value, wanted, node)

    return lower


def _try_read(wanted: SqlType) -> Callable[[Sequence[exp.Expr], exp.Expr, Expressions], Lowered]:
    """try_to_date and try_to_timestamp."""

    def lower(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
        value = into.value(arguments[0])
        if len(arguments) == 1 or value.type.kind is not Kind.SYMBOL:
            return into.try_cast(value, wanted, node)
        pattern = _pattern(arguments[1], reading_pattern, into)
        if not pattern.is_constant:
            name = function_name(node, into.statement.source)
            into.statement.refuse("SQL_UNSUPPORTED", node, what=f"{name} with a computed pattern", hint="Write the pattern.")
        read = Lowered(Call("sql_try_parse_time", (value.term, pattern.term)), TIMESTAMP_TYPE, True)
        return into.cast_to(read, wanted, node)

    return lower


# ---- numbers


def _since_epoch(time: Lowered) -> Lowered:
    return Lowered(Call("sql_timestamp_diff", (time.term, _EPOCH)), BIGINT, time.nullable)


def _unix_timestamp(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    """Seconds since 1970, cut off behind the point."""
    if not arguments:
        why, hint = "gives another value each time", "A view follows its tables only."
        into.statement.refuse("SQL_FUNCTION", node, function=function_name(node, into.statement.source), why=why, hint=hint)
    value = into.value(arguments[0])
    if value.type.kind is Kind.SYMBOL:
        value = _parsed(value, arguments[1] if len(arguments) == 2 else None, into)
    return whole_number(Interval(_since_epoch(argument(value, TIMESTAMP_TYPE, arguments[0], into)), "SECOND"))


def _from_unixtime(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    pattern = _pattern(arguments[1] if len(arguments) == 2 else None, writing_pattern, into)
    return _formatted(_timestamp_of(1_000_000)(arguments[:1], node, into), pattern)


def _timestamp_of(size: int) -> Callable[[Sequence[exp.Expr], exp.Expr, Expressions], Lowered]:
    """timestamp_seconds and its kin, of whole numbers."""

    def lower(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
        number = argument(into.value(arguments[0]), BIGINT, arguments[0], into)
        by = number.term if size == 1 else Call("*", (number.term, Constant(size, NUMBER)))
        return Lowered(Call("sql_timestamp_add", (_EPOCH, by)), TIMESTAMP_TYPE, number.nullable)

    return lower


def unix_number(unit: str) -> Callable[[exp.Expr, Expressions], Lowered]:
    """unix_seconds and its kin: whole units since 1970, rounded down."""

    def lower(node: exp.Expr, into: Expressions) -> Lowered:
        time = argument(into.value(node.this), TIMESTAMP_TYPE, node.this, into)
        start = Call("sql_date_trunc", (Constant(unit, SYMBOL), time.term))
        found = _since_epoch(Lowered(start, TIMESTAMP_TYPE, time.nullable))
        return Lowered(Call("/", (found.term, Constant(MICROSECONDS[unit.upper()], NUMBER))), BIGINT, time.nullable)

    return lower


def unix_date(node: exp.Expr, into: Expressions) -> Lowered:
    day = argument(into.value(node.this), DATE_TYPE, node.this, into)
    first = Call("sql_date_of", (_EPOCH,))
    return Lowered(Call("sql_date_diff", (day.term, first)), BIGINT, day.nullable)


def date_from_unix_date(node: exp.Expr, into: Expressions) -> Lowered:
    days = argument(into.value(node.this), BIGINT, node.this, into)
    return Lowered(Call("sql_date_add", (Call("sql_date_of", (_EPOCH,)), days.term)), DATE_TYPE, days.nullable)


# ---- others


def add_months(node: exp.Expr, into: Expressions) -> Lowered:
    day = argument(into.value(node.this), DATE_TYPE, node.this, into)
    months = argument(into.value(node.expression), BIGINT, node.expression, into)
    return Lowered(Call("sql_add_months", (day.term, months.term)), DATE_TYPE, day.nullable or months.nullable)


def months_between(node: exp.Expr, into: Expressions) -> Lowered:
    times = [argument(into.value(part), TIMESTAMP_TYPE, part, into) for part in (node.this, node.expression)]
    rounded = node.args.get("roundoff")
    how = into.boolean(rounded) if rounded is not None else Lowered(Constant(True, BOOL), BIGINT)
    terms = (*(time.term for time in times), how.term)
    return Lowered(Call("sql_months_between", terms), DOUBLE, any(v.nullable for v in (*times, how)))


def make_timestamp(node: exp.Expr, into: Expressions) -> Lowered:
    parts = [node.args.get(name) for name in ("year", "month", "day", "hour", "min")]
    numbers = [argument(into.value(part), BIGINT, part, into) for part in parts if part is not None]
    last = node.args.get("sec")
    if len(numbers) < len(parts) or last is None:
        why, hint = "takes 6 arguments", "They are the year, month, day, hour, minute and second."
        into.statement.refuse("SQL_FUNCTION", node, function="make_timestamp", why=why, hint=hint)
    second = into.cast_to(into.value(last), decimal(16, 6), last)
    million = Constant(Decimal(1_000_000), decimal_type(7, 0))
    microseconds = Call("to_number", (Call("sql_multiply", (second.term, million, Constant(0, NUMBER))),))
    terms = (*(n.term for n in numbers), microseconds)
    return Lowered(Call("sql_make_timestamp", terms), TIMESTAMP_TYPE, any(v.nullable for v in (*numbers, second)))


By = Callable[[Sequence[exp.Expr], exp.Expr, "Expressions"], Lowered]

# Name → the fewest and the most arguments, and what it is lowered by.
TIMES_BY_NAME: dict[str, tuple[int, int, By]] = {
    **dict.fromkeys(("date_add", "dateadd"), (2, 3, _shift)),
    "date_sub": (2, 2, _date_sub),
    "timestampadd": (3, 3, _timestamp_add),
    **dict.fromkeys(("datediff", "date_diff"), (2, 3, _difference)),
    "timestampdiff": (3, 3, _timestamp_difference),
    "trunc": (2, 2, _trunc),
    "date_trunc": (2, 2, _timestamp_trunc),
    "date_format": (2, 2, _date_format),
    "to_date": (1, 2, _read(DATE_TYPE)),
    "to_timestamp": (1, 2, _read(TIMESTAMP_TYPE)),
    "try_to_date": (1, 2, _try_read(DATE_TYPE)),
    "try_to_timestamp": (1, 2, _try_read(TIMESTAMP_TYPE)),
    "unix_timestamp": (0, 2, _unix_timestamp),
    "to_unix_timestamp": (1, 2, _unix_timestamp),
    "from_unixtime": (1, 2, _from_unixtime),
    "timestamp_seconds": (1, 1, _timestamp_of(1_000_000)),
    "timestamp_millis": (1, 1, _timestamp_of(1_000)),
    "timestamp_micros": (1, 1, _timestamp_of(1)),
}
