"""SQL's scalar functions → functions of programs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.errors import closest, counted, shortened
from viewkeeper.program.ast import Call, Constant, Term
from viewkeeper.program.sql_functions import DATE_UNITS, UNITS
from viewkeeper.program.types import NUMBER, SYMBOL, Kind
from viewkeeper.sql.lowering.evaluating import Doubt
from viewkeeper.sql.lowering.values import Lowered, boolean, choice, convert, is_null, null_of
from viewkeeper.sql.reading import function_name, written_at
from viewkeeper.sql.types import BIGINT, BOOLEAN, DATE_TYPE, DOUBLE, STRING, TIMESTAMP_TYPE, SqlType, bounded

if TYPE_CHECKING:
    from viewkeeper.sql.lowering.expressions import Expressions


@dataclass(frozen=True)
class Simple:
    """A function whose arguments and result have fixed types: ``parts`` names them in sqlglot's tree, optional ones at the end."""

    function: str
    parts: tuple[str, ...]
    takes: tuple[SqlType, ...]
    gives: SqlType
    optional: int = 0
    may_be_null: bool = False


def _simple(function: str, parts: str, takes: str, gives: SqlType, optional: int = 0, may_be_null: bool = False) -> Simple:
    return Simple(function, tuple(parts.split()), tuple(_LETTERS[letter] for letter in takes), gives, optional, may_be_null)


_LETTERS = {"s": STRING, "n": BIGINT, "f": DOUBLE, "d": DATE_TYPE, "t": TIMESTAMP_TYPE, "b": BOOLEAN}

_SIMPLE: dict[type[exp.Expr], Simple] = {
    exp.Upper: _simple("sql_upper", "this", "s", STRING),
    exp.Lower: _simple("sql_lower", "this", "s", STRING),
    exp.Length: _simple("sql_length", "this", "s", BIGINT),
    exp.Substring: _simple("sql_substring", "this start length", "snn", STRING, 1),
    exp.Replace: _simple("sql_replace", "this expression replacement", "sss", STRING),
    exp.Left: _simple("sql_left", "this expression", "sn", STRING),
    exp.Right: _simple("sql_right", "this expression", "sn", STRING),
    exp.Repeat: _simple("sql_repeat", "this times", "sn", STRING),
    exp.Reverse: _simple("sql_reverse", "this", "s", STRING),
    exp.Initcap: _simple("sql_initcap", "this", "s", STRING),
    exp.Translate: _simple("sql_translate", "this from_ to", "sss", STRING),
    exp.SplitPart: _simple("sql_split_part", "this delimiter part_index", "ssn", STRING),
    exp.Ascii: _simple("sql_ascii", "this", "s", BIGINT),
    exp.MD5: _simple("sql_md5", "this", "s", STRING),
    exp.StartsWith: _simple("sql_starts_with", "this expression", "ss", BOOLEAN),
    exp.EndsWith: _simple("sql_ends_with", "this expression", "ss", BOOLEAN),
    exp.Contains: _simple("sql_contains", "this expression", "ss", BOOLEAN),
    exp.RegexpLike: _simple("sql_rlike", "this expression", "ss", BOOLEAN),
    exp.Sqrt: _simple("sql_sqrt", "this", "f", DOUBLE),
    exp.Exp: _simple("sql_exp", "this", "f", DOUBLE),
    exp.Ln: _simple("sql_ln", "this", "f", DOUBLE, may_be_null=True),
    exp.Pow: _simple("sql_power", "this expression", "ff", DOUBLE),
    exp.Year: _simple("sql_year", "this", "d", BIGINT),
    exp.Month: _simple("sql_month", "this", "d", BIGINT),
    exp.Day: _simple("sql_day", "this", "d", BIGINT),
    exp.DayOfMonth: _simple("sql_day", "this", "d", BIGINT),
    exp.Quarter: _simple("sql_quarter", "this", "d", BIGINT),
    exp.DayOfWeek: _simple("sql_day_of_week", "this", "d", BIGINT),
    exp.DayOfYear: _simple("sql_day_of_year", "this", "d", BIGINT),
    exp.WeekOfYear: _simple("sql_week_of_year", "this", "d", BIGINT),
    exp.Hour: _simple("sql_hour", "this", "t", BIGINT),
    exp.Minute: _simple("sql_minute", "this", "t", BIGINT),
    exp.Second: _simple("sql_second", "this", "t", BIGINT),
    exp.DateDiff: _simple("sql_date_diff", "this expression", "dd", BIGINT),
    exp.LastDay: _simple("sql_last_day", "this", "d", DATE_TYPE),
}
# Functions that sqlglot does not know, by name: the same, with the arguments in order.
_NAMED: dict[str, Simple] = {
    "weekday": _simple("sql_weekday", "0", "d", BIGINT),
    "make_date": _simple("sql_make_date", "0 1 2", "nnn", DATE_TYPE),
}
_FIELDS = {
    "YEAR": "sql_year", "YEARS": "sql_year", "MONTH": "sql_month", "MONTHS": "sql_month", "DAY": "sql_day", "DAYS": "sql_day",
    "QUARTER": "sql_quarter", "DOW": "sql_day_of_week", "DAYOFWEEK": "sql_day_of_week", "DOY": "sql_day_of_year",
    "WEEK": "sql_week_of_year", "HOUR": "sql_hour", "MINUTE": "sql_minute",
}  # fmt: skip
_OF_TIME = ("sql_hour", "sql_minute")
_NOT_VALUES: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Tuple: ("a list in parentheses as a value", "Compare one by one: a = 1 AND b = 2."),
    exp.HexString: ("a BINARY constant here", "It can stand in INSERT … VALUES."),
    exp.Bracket: ("[…] behind a value", "There are no arrays and maps."),
}
_NOT_FIXED = (exp.Rand, exp.Uuid, exp.CurrentDate, exp.CurrentTimestamp)
_CASTS = {"bigint": BIGINT, "smallint": BIGINT, "tinyint": BIGINT, "double": DOUBLE, "float": DOUBLE, "boolean": BOOLEAN}


def lower_function(node: exp.Expr, into: Expressions) -> Lowered:
    """Refuses what is not known."""
    simple = _SIMPLE.get(type(node))
    if simple is not None:
        return _call(simple, [node.args.get(part) for part in simple.parts], node, into)
    if isinstance(node, exp.Anonymous):
        return _named(node, into)
    special = _SPECIAL.get(type(node))
    if special is not None:
        return special(node, into)
    if isinstance(node, _NOT_FIXED):
        into.statement.refuse(
            "SQL_FUNCTION",
            node,
            function=function_name(node, into.statement.source),
            why="gives another value each time",
            hint="A view follows its tables only.",
        )
    if not isinstance(node, exp.Func):
        what, hint = _NOT_VALUES.get(
            type(node), (written_at(node, into.statement.source), "There are the operators of docs/sql.md.")
        )
        into.statement.refuse("SQL_FUNCTION", node, function=shortened(what), why="is not supported", hint=hint)
    name = function_name(node, into.statement.source)
    into.statement.refuse("SQL_FUNCTION", node, function=name, why="is not supported", hint=_KNOWN)


def _call(simple: Simple, nodes: list[exp.Expr | None], node: exp.Expr, into: Expressions) -> Lowered:
    given = [part for part in nodes if part is not None]
    if not len(simple.takes) - simple.optional <= len(given) <= len(simple.takes):
        fewest = f"{len(simple.takes) - simple.optional} or " if simple.optional else ""
        why = f"takes {fewest}{counted(len(simple.takes), 'argument')}, not {len(given)}"
        name = function_name(node, into.statement.source)
        into.statement.refuse("SQL_FUNCTION", node, function=name, why=why, hint=_KNOWN)
    values = [argument(into.value(part), wanted, part, into) for part, wanted in zip(given, simple.takes, strict=False)]
    nullable = simple.may_be_null or any(v.nullable for v in values)
    return Lowered(Call(simple.function, tuple(v.term for v in values)), simple.gives, nullable)


def argument(value: Lowered, wanted: SqlType, node: exp.Expr, into: Expressions) -> Lowered:
    """A value where a function takes values of one type."""
    if value.type.kind is None:
        return null_of(wanted)
    if value.type.kind is wanted.kind:
        return value
    if value.type.kind is Kind.SYMBOL and value.is_constant:
        value = into.read_text(value, wanted.kind)
    match value.type.kind, wanted.kind:
        case Kind.NUMBER | Kind.DECIMAL, Kind.FLOAT:
            return convert(value, DOUBLE)
        case Kind.DATE, Kind.TIMESTAMP:
            return convert(value, TIMESTAMP_TYPE)
        case Kind.TIMESTAMP, Kind.DATE:
            return Lowered(Call("sql_date_of", (value.term,)), DATE_TYPE, value.nullable)
        case one, Kind.SYMBOL if one is not Kind.BYTES:
            return Lowered(Call("sql_string", (value.term,)), STRING, value.nullable)
        case one, other if one is other:
            return value
    why = f"a value of type {wanted} is needed here, not {value.type}"
    into.statement.refuse("SQL_TYPE", node, why=why, hint=f"Use CAST(… AS {wanted}).")


def _named(node: exp.Anonymous, into: Expressions) -> Lowered:
    name, arguments = node.name.lower(), node.expressions
    if name in _NAMED:
        return _call(_NAMED[name], list(arguments), node, into)
    match name, arguments:
        case "isnull", [one]:
            return boolean(is_null(into.value(one)), False)
        case "isnotnull", [one]:
            return boolean(Call("sql_not", (is_null(into.value(one)),)), False)
        case "btrim", [text, *rest]:
            return _trimmed("sql_trim", text, rest[0] if rest else None, into)
        case ("positive", [one]):
            return into.value(one)
        case "date_part", [exp.Literal() as field, value]:
            return _extract(exp.Extract(this=exp.var(field.name), expression=value), into)
        case ("pmod", [left, right]):
            return _pmod(left, right, node, into)
        case _, [one] if name in _CASTS:
            return into.cast_to(into.value(one), _CASTS[name], node)
        case "zeroifnull", [one]:
            return into.value(exp.Coalesce(this=one, expressions=[exp.Literal.number(0)]))
    if name == "now":
        why = "gives another value each time"
        into.statement.refuse("SQL_FUNCTION", node, function=node.name, why=why, hint="A view follows its tables only.")
    known = closest(name, [*_NAMED, *(f.sql_name().lower() for f in _SIMPLE if issubclass(f, exp.Func))])
    into.statement.refuse("SQL_FUNCTION", node, function=node.name, why="is not a function here", hint=f"{known}{_KNOWN}")


_KNOWN = "docs/sql.md lists the functions."


# ---- functions with rules of their own


def _extract(node: exp.Expr, into: Expressions) -> Lowered:
    field = node.this.name.upper()
    value = into.value(node.expression)
    if field in ("SECOND", "SECONDS"):
        into.statement.refuse("SQL_UNSUPPORTED", node, what="EXTRACT of seconds with their fractions", hint="Use second(…).")
    if field not in _FIELDS:
        into.statement.refuse("SQL_UNSUPPORTED", node, what=f"EXTRACT of {field}", hint=f"There are {', '.join(_FIELDS)}.")
    function = _FIELDS[field]
    value = argument(value, TIMESTAMP_TYPE if function in _OF_TIME else DATE_TYPE, node, into)
    return Lowered(Call(function, (value.term,)), BIGINT, value.nullable)


def _trim(node: exp.Expr, into: Expressions) -> Lowered:
    position = str(node.args.get("position") or "BOTH").upper()
    function = {"LEADING": "sql_ltrim", "TRAILING": "sql_rtrim"}.get(position, "sql_trim")
    return _trimmed(function, node.this, node.args.get("expression"), into)


def _trimmed(function: str, text: exp.Expr, letters: exp.Expr | None, into: Expressions) -> Lowered:
    values = [argument(into.value(part), STRING, part, into) for part in (text, letters) if part is not None]
    return Lowered(Call(function, tuple(v.term for v in values)), STRING, any(v.nullable for v in values))


def _pad(node: exp.Expr, into: Expressions) -> Lowered:
    parts = [node.this, node.expression, node.args.get("fill_pattern")]
    kinds = (STRING, BIGINT, STRING)
    values = [argument(into.value(p), k, p, into) for p, k in zip(parts, kinds, strict=True) if p is not None]
    function = "sql_lpad" if node.args["is_left"] else "sql_rpad"
    return Lowered(Call(function, tuple(v.term for v in values)), STRING, any(v.nullable for v in values))


def _position(node: exp.Expr, into: Expressions) -> Lowered:
    text = argument(into.value(node.this), STRING, node.this, into)
    part = argument(into.value(node.args["substr"]), STRING, node, into)
    start = node.args.get("position")
    if start is None:
        return Lowered(Call("sql_instr", (text.term, part.term)), BIGINT, text.nullable or part.nullable)
    first = argument(into.value(start), BIGINT, start, into)
    nullable = text.nullable or part.nullable or first.nullable
    return Lowered(Call("sql_locate", (part.term, text.term, first.term)), BIGINT, nullable)


def _concat(node: exp.Expr, into: Expressions) -> Lowered:
    parts = node.expressions if isinstance(node, exp.Concat) else [node.this, node.expression]
    values = [argument(into.value(part), STRING, part, into) for part in parts]
    return Lowered(Call("cat", tuple(v.term for v in values)), STRING, any(v.nullable for v in values))


def _concat_ws(node: exp.Expr, into: Expressions) -> Lowered:
    values = [argument(into.value(part), STRING, part, into) for part in node.expressions]
    return Lowered(Call("sql_concat_ws", tuple(v.term for v in values)), STRING, values[0].nullable)


def _like(node: exp.Expr, into: Expressions) -> Lowered:
    escape: Term = Constant("\\", SYMBOL)
    if isinstance(node, exp.Escape):
        escape = into.constant(node.expression).term if isinstance(node.expression, exp.Literal) else escape
        node = node.this
    text, pattern = (argument(into.value(part), STRING, part, into) for part in (node.this, node.expression))
    function = "sql_ilike" if isinstance(node, exp.ILike) else "sql_like"
    found = boolean(Call(function, (text.term, pattern.term, escape)), text.nullable or pattern.nullable)
    return boolean(Call("sql_not", (found.term,)), found.nullable) if node.args.get("negate") else found


def _sha2(node: exp.Expr, into: Expressions) -> Lowered:
    text = argument(into.value(node.this), STRING, node.this, into)
    bits = argument(into.value(node.args["length"]), BIGINT, node, into)
    return Lowered(Call("sql_sha2", (text.term, bits.term)), STRING, text.nullable or bits.nullable)


def _chr(node: exp.Expr, into: Expressions) -> Lowered:
    value = argument(into.value(node.expressions[0]), BIGINT, node, into)
    return Lowered(Call("sql_chr", (value.term,)), STRING, value.nullable)


def _numeric(node: exp.Expr, into: Expressions) -> Lowered:
    value = into.value(node.this)
    if value.type.kind is None:
        return null_of(BIGINT)
    if value.type.kind not in (Kind.NUMBER, Kind.FLOAT, Kind.DECIMAL):
        why = f"a number is needed here, not a value of type {value.type}"
        into.statement.refuse("SQL_TYPE", node, why=why, hint="Use CAST to make it one.")
    return value


def _abs(node: exp.Expr, into: Expressions) -> Lowered:
    value = _numeric(node, into)
    return Lowered(Call("sql_abs", (value.term,)), value.type, value.nullable)


def _sign(node: exp.Expr, into: Expressions) -> Lowered:
    value = convert(_numeric(node, into), DOUBLE)
    return Lowered(Call("sql_sign", (value.term,)), DOUBLE, value.nullable)


def _round(node: exp.Expr, into: Expressions) -> Lowered:
    value = _numeric(node, into)
    places = into.value(node.args["decimals"]).constant if node.args.get("decimals") is not None else 0
    if not isinstance(places, int):
        into.statement.refuse("SQL_UNSUPPORTED", node, what="round to a computed number of digits", hint="Write the number.")
    result = value.type
    if value.type.kind is Kind.DECIMAL:
        precision, scale = value.type.digits
        kept = max(0, min(scale, places))
        result = bounded(max(precision - scale + kept + 1, 1), kept)
    return Lowered(Call("sql_round", (value.term, Constant(places, NUMBER))), result, value.nullable)


def _whole(function: str) -> Callable[[exp.Expr, Expressions], Lowered]:
    def lower(node: exp.Expr, into: Expressions) -> Lowered:
        value = _numeric(node, into)
        if node.args.get("decimals") is not None:
            into.statement.refuse("SQL_UNSUPPORTED", node, what="rounding up or down to digits", hint="Multiply and divide.")
        result = BIGINT
        if value.type.kind is Kind.DECIMAL:
            precision, scale = value.type.digits
            result = bounded(precision - scale + 1, 0)
        return Lowered(Call(function, (value.term,)), result, value.nullable)

    return lower


def _log(node: exp.Expr, into: Expressions) -> Lowered:
    value = argument(into.value(node.expression), DOUBLE, node.expression, into)
    base = into.value(node.this).constant
    if base in (2, 10):
        return Lowered(Call(f"sql_log{base}", (value.term,)), DOUBLE, True)
    into.statement.refuse("SQL_FUNCTION", node, function="log", why="has the bases 2, 10 and e only", hint="Divide logarithms.")


def _most(function: str) -> Callable[[exp.Expr, Expressions], Lowered]:
    def lower(node: exp.Expr, into: Expressions) -> Lowered:
        values = into.alike([into.value(part) for part in (node.this, *node.expressions)], node)
        return Lowered(Call(function, tuple(v.term for v in values)), values[0].type, all(v.nullable for v in values))

    return lower


def _pmod(left: exp.Expr, right: exp.Expr, node: exp.Expr, into: Expressions) -> Lowered:
    once = into.calculate(exp.Mod, into.value(left), into.value(right), node)
    divisor = into.value(right)
    return into.calculate(exp.Mod, into.calculate(exp.Add, once, divisor, node), divisor, node)


def _date_add(node: exp.Expr, into: Expressions) -> Lowered:
    day = argument(into.value(node.this), DATE_TYPE, node.this, into)
    days = argument(into.value(node.expression), BIGINT, node.expression, into)
    return Lowered(Call("sql_date_add", (day.term, days.term)), DATE_TYPE, day.nullable or days.nullable)


def _add_months(node: exp.Expr, into: Expressions) -> Lowered:
    day = argument(into.value(node.this), DATE_TYPE, node.this, into)
    months = argument(into.value(node.expression), BIGINT, node.expression, into)
    return Lowered(Call("sql_add_months", (day.term, months.term)), DATE_TYPE, day.nullable or months.nullable)


def _trunc(node: exp.Expr, into: Expressions) -> Lowered:
    day = argument(into.value(node.this), DATE_TYPE, node.this, into)
    return Lowered(Call("sql_trunc", (day.term, _unit(node, DATE_UNITS, into))), DATE_TYPE, day.nullable)


def _timestamp_trunc(node: exp.Expr, into: Expressions) -> Lowered:
    moment = argument(into.value(node.this), TIMESTAMP_TYPE, node.this, into)
    return Lowered(
        Call("sql_date_trunc", (_unit(node, frozenset(UNITS.values()), into), moment.term)), TIMESTAMP_TYPE, moment.nullable
    )


def _unit(node: exp.Expr, known: Collection[str], into: Expressions) -> Constant:
    unit = node.args["unit"]
    if UNITS.get(unit.name.upper()) not in known:
        why = f"{function_name(node, into.statement.source)} has no unit '{unit.name}'"
        hint = f"Units are {', '.join(one for one in dict.fromkeys(UNITS.values()) if one in known)}."
        into.statement.refuse("SQL_TYPE", node, why=why, hint=hint)
    return Constant(unit.name.lower(), SYMBOL)


def _to_date(node: exp.Expr, into: Expressions) -> Lowered:
    if node.args.get("format") is not None:
        into.statement.refuse("SQL_UNSUPPORTED", node, what="to_date with a format", hint="Write dates as 2024-02-29.")
    return into.cast_to(into.value(node.this), DATE_TYPE, node)


def _nvl2(node: exp.Expr, into: Expressions) -> Lowered:
    test = into.value(node.this)
    with into.doubting(Doubt.CHOSEN):
        one, other = into.alike([into.value(node.args["true"]), into.value(node.args["false"])], node)
    return choice(is_null(test), other, one)


def _equal_null(node: exp.Expr, into: Expressions) -> Lowered:
    return into.value(exp.NullSafeEQ(this=node.this, expression=node.expression))


def _bits(function: str) -> Callable[[exp.Expr, Expressions], Lowered]:
    def lower(node: exp.Expr, into: Expressions) -> Lowered:
        parts = [part for part in (node.this, node.args.get("expression")) if part is not None]
        values = [argument(into.value(part), BIGINT, part, into) for part in parts]
        return Lowered(Call(function, tuple(v.term for v in values)), BIGINT, any(v.nullable for v in values))

    return lower


_SPECIAL: dict[type[exp.Expr], Callable[[exp.Expr, Expressions], Lowered]] = {
    exp.Extract: _extract,
    exp.Trim: _trim,
    exp.Pad: _pad,
    exp.StrPosition: _position,
    exp.Concat: _concat,
    exp.DPipe: _concat,
    exp.ConcatWs: _concat_ws,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _like,
    exp.SHA2: _sha2,
    exp.Chr: _chr,
    exp.Abs: _abs,
    exp.Sign: _sign,
    exp.Round: _round,
    exp.Ceil: _whole("sql_ceil"),
    exp.Floor: _whole("sql_floor"),
    exp.Log: _log,
    exp.Greatest: _most("sql_greatest"),
    exp.Least: _most("sql_least"),
    exp.TsOrDsAdd: _date_add,
    exp.AddMonths: _add_months,
    exp.DateTrunc: _trunc,
    exp.TimestampTrunc: _timestamp_trunc,
    exp.TsOrDsToDate: _to_date,
    exp.Nvl2: _nvl2,
    exp.EqualNull: _equal_null,
    exp.BitwiseAnd: _bits("band"),
    exp.BitwiseOr: _bits("bor"),
    exp.BitwiseXor: _bits("bxor"),
    exp.BitwiseNot: _bits("bnot"),
}
