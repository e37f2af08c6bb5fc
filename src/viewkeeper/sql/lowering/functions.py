"""SQL's scalar functions → functions of programs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.errors import closest, shortened
from viewkeeper.program.ast import Call, Constant, Term
from viewkeeper.program.signatures import MANY
from viewkeeper.program.types import FLOAT, NUMBER, SYMBOL, Kind
from viewkeeper.sql.lowering.arguments import KNOWN, argument, refuse_missing, refuse_number, refuse_others
from viewkeeper.sql.lowering.evaluating import Doubt
from viewkeeper.sql.lowering.times import (
    TIMES_BY_NAME,
    By,
    add_months,
    date_from_unix_date,
    extract,
    make_timestamp,
    months_between,
    name_of,
    unix_date,
    unix_number,
)
from viewkeeper.sql.lowering.values import Lowered, boolean, choice, convert, is_null, null_of, number
from viewkeeper.sql.reading import function_name, written_at
from viewkeeper.sql.types import BIGINT, BINARY, BOOLEAN, DATE_TYPE, DOUBLE, STRING, TIMESTAMP_TYPE, SqlType, bounded, decimal

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
    exp.Substring: _simple("sql_substring", "this start length", "snn", STRING, 1),
    exp.Left: _simple("sql_left", "this expression", "sn", STRING),
    exp.Right: _simple("sql_right", "this expression", "sn", STRING),
    exp.Repeat: _simple("sql_repeat", "this times", "sn", STRING),
    exp.Reverse: _simple("sql_reverse", "this", "s", STRING),
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
    exp.NextDay: _simple("sql_next_day", "this expression", "ds", DATE_TYPE),
    exp.RegexpReplace: _simple("sql_regexp_replace", "this expression replacement", "sss", STRING),
    exp.RegexpCount: _simple("sql_regexp_count", "this expression", "ss", BIGINT),
    exp.RegexpInstr: _simple("sql_regexp_instr", "this expression", "ss", BIGINT),
    exp.RegexpSubstr: _simple("sql_regexp_substr", "this expression", "ss", STRING, may_be_null=True),
    exp.Overlay: _simple("sql_overlay", "this expression from_ for_", "ssnn", STRING, 1),
    exp.SubstringIndex: _simple("sql_substring_index", "this delimiter count", "ssn", STRING),
    exp.Levenshtein: _simple("sql_levenshtein", "this expression", "ss", BIGINT),
    exp.Soundex: _simple("sql_soundex", "this", "s", STRING),
    exp.SHA: _simple("sql_sha1", "this", "s", STRING),
    exp.Unhex: _simple("sql_unhex", "this", "s", BINARY, may_be_null=True),
    exp.Atan2: _simple("sql_atan2", "this expression", "ff", DOUBLE),
    exp.Rint: _simple("sql_rint", "this", "f", DOUBLE),
    exp.Factorial: _simple("sql_factorial", "this", "n", BIGINT, may_be_null=True),
    exp.WidthBucket: _simple(
        "sql_width_bucket", "this min_value max_value num_buckets", "fffn", BIGINT, may_be_null=True
    ),
    **{
        kind: _simple(f"sql_{kind.__name__.lower()}", "this", "f", DOUBLE)
        for kind in (
            exp.Sin, exp.Cos, exp.Tan, exp.Asin, exp.Acos, exp.Atan, exp.Sinh, exp.Cosh, exp.Tanh, exp.Asinh, exp.Acosh, exp.Atanh,
            exp.Degrees, exp.Radians, exp.Cbrt, exp.Cot, exp.Sec, exp.Csc,
        )
    },
}  # fmt: skip
# Functions that sqlglot does not know, by name: the same, with the arguments in order.
_NAMED: dict[str, Simple] = {
    "weekday": _simple("sql_weekday", "0", "d", BIGINT),
    "make_date": _simple("sql_make_date", "0 1 2", "nnn", DATE_TYPE),
    "last_day": _simple("sql_last_day", "0", "d", DATE_TYPE),
    "log2": _simple("sql_log2", "0", "f", DOUBLE, may_be_null=True),
    "log10": _simple("sql_log10", "0", "f", DOUBLE, may_be_null=True),
    "log1p": _simple("sql_log1p", "0", "f", DOUBLE, may_be_null=True),
    "expm1": _simple("sql_expm1", "0", "f", DOUBLE),
    "hypot": _simple("sql_hypot", "0 1", "ff", DOUBLE),
    "initcap": _simple("sql_initcap", "0", "s", STRING),
    "crc32": _simple("sql_crc32", "0", "s", BIGINT),
    "find_in_set": _simple("sql_find_in_set", "0 1", "ss", BIGINT),
    "regexp": _simple("sql_rlike", "0 1", "ss", BOOLEAN),
    "shiftrightunsigned": _simple("bshru", "0 1", "nn", BIGINT),
}
_NOT_VALUES: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Tuple: ("a list in parentheses as a value", "Compare one by one: a = 1 AND b = 2."),
    exp.Bracket: ("[…] behind a value", "There are no arrays and maps."),
}
_NOT_FIXED = (exp.Rand, exp.Uuid, exp.CurrentDate, exp.CurrentTimestamp)


def lower_function(node: exp.Expr, into: Expressions) -> Lowered:
    """Refuses what is not known."""
    simple = _SIMPLE.get(type(node))
    if simple is not None:
        refuse_others(node, simple.parts, into.statement)
        refuse_missing(node.this if isinstance(node.this, exp.TsOrDsToDate) else node, (), into.statement)
        return _call(simple, [node.args.get(part) for part in simple.parts], node, into)
    if isinstance(node, exp.Anonymous):
        return _named(node, into)
    special = _SPECIAL.get(type(node))
    if special is not None:
        refuse_others(node, (*_PARTS, *_OTHER_PARTS.get(type(node), ())), into.statement)
        refuse_missing(node, _NEEDED.get(type(node), ()), into.statement)
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
    into.statement.refuse("SQL_FUNCTION", node, function=name, why="is not supported", hint=KNOWN)


def _call(simple: Simple, nodes: Sequence[exp.Expr | None], node: exp.Expr, into: Expressions) -> Lowered:
    given = [part for part in nodes if part is not None]
    most = len(simple.takes)
    if not most - simple.optional <= len(given) <= most:
        refuse_number(node, len(given), most - simple.optional, most, into)
    values = [argument(into.value(part), wanted, part, into) for part, wanted in zip(given, simple.takes, strict=False)]
    return _applied(simple.function, values, simple.gives, simple.may_be_null)


def _applied(function: str, values: Sequence[Lowered], gives: SqlType, may_be_null: bool = False) -> Lowered:
    nullable = may_be_null or any(v.nullable for v in values)
    return Lowered(Call(function, tuple(v.term for v in values)), gives, nullable)


def _named(node: exp.Anonymous, into: Expressions) -> Lowered:
    name, arguments = node.name.lower(), node.expressions
    if name in _NAMED:
        return _call(_NAMED[name], arguments, node, into)
    if name in _NAMED_SPECIAL:
        least, most, lower = _NAMED_SPECIAL[name]
        if not least <= len(arguments) <= most:
            refuse_number(node, len(arguments), least, most, into)
        return lower(arguments, node, into)
    if name in ("now", "monotonically_increasing_id"):
        why = "gives another value each time"
        into.statement.refuse("SQL_FUNCTION", node, function=node.name, why=why, hint="A view follows its tables only.")
    names = [*_NAMED, *_NAMED_SPECIAL, *(f.sql_name().lower() for f in _SIMPLE if issubclass(f, exp.Func))]
    hint = f"{closest(name, names)}{KNOWN}"
    into.statement.refuse("SQL_FUNCTION", node, function=node.name, why="is not a function here", hint=hint)


# ---- functions with rules of their own


def _trim(node: exp.Expr, into: Expressions) -> Lowered:
    position = str(node.args.get("position") or "BOTH").upper()
    function = {"LEADING": "sql_ltrim", "TRAILING": "sql_rtrim"}.get(position, "sql_trim")
    return _trimmed(function, node.this, node.args.get("expression"), into)


def _trimmed(function: str, text: exp.Expr, letters: exp.Expr | None, into: Expressions) -> Lowered:
    values = [argument(into.value(part), STRING, part, into) for part in (text, letters) if part is not None]
    return Lowered(Call(function, tuple(v.term for v in values)), STRING, any(v.nullable for v in values))


def _length(node: exp.Expr, into: Expressions) -> Lowered:
    value = into.value(node.this)
    if value.type.kind is Kind.BYTES:
        return _applied("sql_octet_length", [value], BIGINT)
    return _applied("sql_length", [argument(value, STRING, node.this, into)], BIGINT)


def _bytes_of(given: exp.Expr, into: Expressions) -> Lowered:
    value = into.value(given)
    value = value if value.type.kind is Kind.BYTES else argument(value, STRING, given, into)
    return _applied("sql_octet_length", [value], BIGINT)


def _replace(node: exp.Expr, into: Expressions) -> Lowered:
    parts = [node.this, node.expression, node.args.get("replacement") or exp.Literal.string("")]
    return _applied("sql_replace", [argument(into.value(part), STRING, part, into) for part in parts], STRING)


def _regexp_extract(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    values = [argument(into.value(part), STRING, part, into) for part in arguments[:2]]
    group = argument(into.value(arguments[2]), BIGINT, arguments[2], into) if len(arguments) == 3 else number(1)
    return _applied("sql_regexp_extract", [*values, group], STRING)


def _space(node: exp.Expr, into: Expressions) -> Lowered:
    times = argument(into.value(node.this), BIGINT, node.this, into)
    return _applied("sql_repeat", [Lowered(Constant(" ", SYMBOL), STRING), times], STRING)


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
        if not isinstance(node.expression, exp.Literal) or not node.expression.is_string or len(node.expression.name) != 1:
            why, hint = "a text of one character is needed behind ESCAPE", "Write LIKE '10!%' ESCAPE '!'."
            into.statement.refuse("SQL_TYPE", node, why=why, hint=hint)
        escape = into.constant(node.expression).term
        node = node.this
    if isinstance(node.expression, (exp.Any, exp.All)):
        return _like_several(node, escape, into)
    text, pattern = (argument(into.value(part), STRING, part, into) for part in (node.this, node.expression))
    function = "sql_ilike" if isinstance(node, exp.ILike) else "sql_like"
    found = boolean(Call(function, (text.term, pattern.term, escape)), text.nullable or pattern.nullable)
    return boolean(Call("sql_not", (found.term,)), found.nullable) if node.args.get("negate") else found


def _like_several(node: exp.Expr, escape: Term, into: Expressions) -> Lowered:
    """LIKE ANY and LIKE ALL of patterns; with NOT each of them is denied."""
    patterns = node.expression.this
    if isinstance(patterns, exp.Query) or escape != Constant("\\", SYMBOL):
        into.statement.refuse("SQL_UNSUPPORTED", node, what="this LIKE of several patterns", hint="Write a list of patterns.")
    single = [patterns.this] if isinstance(patterns, exp.Paren) else patterns.expressions
    parts = [type(node)(this=node.this, expression=part, negate=node.args.get("negate")) for part in single]
    joined = exp.Or if isinstance(node.expression, exp.Any) else exp.And
    return into.value(functools.reduce(lambda left, right: joined(this=left, expression=right), parts))


def _sha2(node: exp.Expr, into: Expressions) -> Lowered:
    text = argument(into.value(node.this), STRING, node.this, into)
    bits = argument(into.value(node.args["length"]), BIGINT, node, into)
    return Lowered(Call("sql_sha2", (text.term, bits.term)), STRING, text.nullable or bits.nullable)


def _chr(node: exp.Expr, into: Expressions) -> Lowered:
    if len(node.expressions) != 1:
        refuse_number(node, len(node.expressions), 1, 1, into)
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


def _round(node: exp.Expr, into: Expressions, function: str = "sql_round") -> Lowered:
    value = _numeric(node, into)
    places = into.value(node.args["decimals"]).constant if node.args.get("decimals") is not None else 0
    if not isinstance(places, int):
        into.statement.refuse("SQL_UNSUPPORTED", node, what="round to a computed number of digits", hint="Write the number.")
    result = value.type
    if value.type.kind is Kind.DECIMAL:
        precision, scale = value.type.digits
        kept = max(0, min(scale, places))
        result = bounded(max(precision - scale + kept + 1, 1), kept)
    return Lowered(Call(function, (value.term, Constant(places, NUMBER))), result, value.nullable)


def _bround(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    places = arguments[1] if len(arguments) == 2 else None
    rounded = exp.Round(this=arguments[0], decimals=places)
    rounded.parent = node.parent
    return _round(rounded, into, "sql_bround")


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


def _log(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    """Of a number, or of a base and a number."""
    values = [argument(into.value(part), DOUBLE, part, into) for part in arguments]
    return _applied("sql_ln" if len(values) == 1 else "sql_log", values, DOUBLE, may_be_null=True)


def _constant(value: float) -> Callable[..., Lowered]:
    return lambda *_: Lowered(Constant(value, FLOAT), DOUBLE)


def _as_number(given: exp.Expr, into: Expressions) -> Lowered:
    value = into.value(given)
    return into.cast_to(value, BIGINT, given)


def _hex(node: exp.Expr, into: Expressions) -> Lowered:
    value = into.value(node.this)
    if value.type.kind in (Kind.NUMBER, Kind.FLOAT, Kind.DECIMAL):
        value = into.cast_to(value, BIGINT, node.this)
    elif value.type.kind is not Kind.BYTES:
        value = argument(value, STRING, node.this, into)
    return _applied("sql_hex", [value], STRING)


def _conv(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    wanted = (STRING, BIGINT, BIGINT)
    values = [argument(into.value(part), to, part, into) for part, to in zip(arguments, wanted, strict=True)]
    return _applied("sql_conv", values, STRING, may_be_null=True)


def _format_number(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    value = _numeric(exp.Paren(this=arguments[0]), into)
    return _applied("sql_format_number", [value, argument(into.value(arguments[1]), BIGINT, arguments[1], into)], STRING, True)


def _bit_count(node: exp.Expr, into: Expressions) -> Lowered:
    value = into.value(node.this)
    value = into.cast_to(value, BIGINT, node) if value.type.kind is Kind.BOOL else argument(value, BIGINT, node.this, into)
    return _applied("sql_bit_count", [value], BIGINT)


# ---- NULL instead of failures

_TRIED: dict[type[exp.Expr], str] = {exp.Add: "sql_try_add", exp.Sub: "sql_try_subtract", exp.Mul: "sql_try_multiply"}


def _try(operator: type[exp.Expr]) -> Callable[[exp.Expr, Expressions], Lowered]:
    """Sums, differences and products of whole numbers are NULL where they do not fit."""

    def lower(node: exp.Expr, into: Expressions) -> Lowered:
        left, right = (_numeric(exp.Paren(this=part), into) for part in (node.this, node.expression))
        if left.type.kind is right.type.kind is Kind.NUMBER:
            return _applied(_TRIED[operator], [left, right], BIGINT, may_be_null=True)
        return into.calculate(operator, left, right, node)

    return lower


def _try_divide(operator: type[exp.Expr], parts: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    """NULL where the divisor is 0."""
    left, right = (_numeric(exp.Paren(this=part), into) for part in parts)
    zero, divisor = into.alike([number(0), right], node)
    divisor = choice(Call("sql_eq", (divisor.term, zero.term)), null_of(right.type), right)
    return into.calculate(operator, left, divisor, node)


def _most(function: str) -> Callable[[exp.Expr, Expressions], Lowered]:
    def lower(node: exp.Expr, into: Expressions) -> Lowered:
        if not node.expressions:
            refuse_number(node, 1, 2, MANY, into)
        values = into.alike([into.value(part) for part in (node.this, *node.expressions)], node)
        return Lowered(Call(function, tuple(v.term for v in values)), values[0].type, all(v.nullable for v in values))

    return lower


def _pmod(left: exp.Expr, right: exp.Expr, node: exp.Expr, into: Expressions) -> Lowered:
    once = into.calculate(exp.Mod, into.value(left), into.value(right), node)
    divisor = into.value(right)
    return into.calculate(exp.Mod, into.calculate(exp.Add, once, divisor, node), divisor, node)


def _nvl2(node: exp.Expr, into: Expressions) -> Lowered:
    test = into.value(node.this)
    with into.doubting(Doubt.CHOSEN):
        one, other = into.alike([into.value(node.args["true"]), into.value(node.args["false"])], node)
    return choice(is_null(test), other, one)


def _two(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    return into.value(exp.Coalesce(this=arguments[0], expressions=[arguments[1]]))


def _to_date(node: exp.Expr, into: Expressions) -> Lowered:
    return into.cast_to(into.value(node.this), DATE_TYPE, node)


def _equal_null(node: exp.Expr, into: Expressions) -> Lowered:
    return into.value(exp.NullSafeEQ(this=node.this, expression=node.expression))


def _bits(function: str) -> Callable[[exp.Expr, Expressions], Lowered]:
    def lower(node: exp.Expr, into: Expressions) -> Lowered:
        parts = [part for part in (node.this, node.args.get("expression")) if part is not None]
        values = [argument(into.value(part), BIGINT, part, into) for part in parts]
        return Lowered(Call(function, tuple(v.term for v in values)), BIGINT, any(v.nullable for v in values))

    return lower


def _null_or_zero(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    zero = exp.Literal.number(0)
    if node.name.lower() == "zeroifnull":
        return into.value(exp.Coalesce(this=arguments[0], expressions=[zero]))
    return into.value(exp.Nullif(this=arguments[0], expression=zero))


def _cast_by_name(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    return into.cast_to(into.value(arguments[0]), _CASTS[node.name.lower()], node)


def _trimmed_by_name(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    return _trimmed("sql_trim", arguments[0], arguments[1] if len(arguments) == 2 else None, into)


def _extract_by_name(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    field = arguments[0].name if isinstance(arguments[0], exp.Literal) else "a computed field"
    return extract(field, arguments[1], node, into)


def _is_null(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    return boolean(is_null(into.value(arguments[0])), False)


def _is_not_null(arguments: Sequence[exp.Expr], node: exp.Expr, into: Expressions) -> Lowered:
    return boolean(Call("sql_not", (is_null(into.value(arguments[0])),)), False)


_CASTS = {
    "bigint": BIGINT, "smallint": BIGINT, "tinyint": BIGINT, "double": DOUBLE, "float": DOUBLE, "boolean": BOOLEAN,
    "decimal": decimal(10, 0),
}  # fmt: skip

# Name → the fewest and the most arguments, and what it is lowered by.
_NAMED_SPECIAL: dict[str, tuple[int, int, By]] = {
    **TIMES_BY_NAME,
    **dict.fromkeys(_CASTS, (1, 1, _cast_by_name)),
    "isnull": (1, 1, _is_null),
    "isnotnull": (1, 1, _is_not_null),
    **dict.fromkeys(("nvl", "ifnull"), (2, 2, _two)),
    **dict.fromkeys(("zeroifnull", "nullifzero"), (1, 1, _null_or_zero)),
    "btrim": (1, 2, _trimmed_by_name),
    "positive": (1, 1, lambda given, node, into: _numeric(exp.Paren(this=given[0]), into)),
    "pmod": (2, 2, lambda given, node, into: _pmod(given[0], given[1], node, into)),
    "try_mod": (2, 2, lambda given, node, into: _try_divide(exp.Mod, given, node, into)),
    **dict.fromkeys(("date_part", "datepart"), (2, 2, _extract_by_name)),
    "regexp_extract": (2, 3, _regexp_extract),
    "octet_length": (1, 1, lambda given, node, into: _bytes_of(given[0], into)),
    "bround": (1, 2, _bround),
    "log": (1, 2, _log),
    "e": (0, 0, _constant(math.e)),
    "bin": (1, 1, lambda given, node, into: _applied("sql_bin", [_as_number(given[0], into)], STRING)),
    "conv": (3, 3, _conv),
    "format_number": (2, 2, _format_number),
}

_SPECIAL: dict[type[exp.Expr], Callable[[exp.Expr, Expressions], Lowered]] = {
    exp.Extract: lambda node, into: extract(node.this.name, node.expression, node, into),
    exp.Length: _length,
    exp.BitLength: lambda node, into: into.calculate(exp.Mul, _bytes_of(node.this, into), number(8), node),
    exp.Replace: _replace,
    exp.Space: _space,
    exp.Hex: _hex,
    exp.BitwiseCount: _bit_count,
    exp.Pi: _constant(math.pi),
    exp.Negative: lambda node, into: into.value(exp.Neg(this=node.this)),
    exp.SafeAdd: _try(exp.Add),
    exp.SafeSubtract: _try(exp.Sub),
    exp.SafeMultiply: _try(exp.Mul),
    exp.SafeDivide: lambda node, into: _try_divide(exp.Div, (node.this, node.expression), node, into),
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
    exp.Greatest: _most("sql_greatest"),
    exp.Least: _most("sql_least"),
    exp.AddMonths: add_months,
    exp.MonthsBetween: months_between,
    exp.TimestampFromParts: make_timestamp,
    exp.Dayname: name_of("EEE"),
    exp.Monthname: name_of("MMM"),
    exp.UnixDate: unix_date,
    exp.DateFromUnixDate: date_from_unix_date,
    exp.UnixSeconds: unix_number("second"),
    exp.UnixMillis: unix_number("millisecond"),
    exp.UnixMicros: unix_number("microsecond"),
    exp.TsOrDsToDate: _to_date,
    exp.Nvl2: _nvl2,
    exp.EqualNull: _equal_null,
    exp.BitwiseAnd: _bits("band"),
    exp.BitwiseOr: _bits("bor"),
    exp.BitwiseXor: _bits("bxor"),
    exp.BitwiseNot: _bits("bnot"),
    exp.BitwiseLeftShift: _bits("bshl"),
    exp.BitwiseRightShift: _bits("bshr"),
}
# What some functions need here, beyond what sqlglot asks for.
_NEEDED: dict[type[exp.Expr], tuple[str, ...]] = {exp.Nvl2: ("false",), exp.SHA2: ("length",)}
# What special functions look at: these, and some of them others.
_PARTS = ("this", "expression", "expressions")
_OTHER_PARTS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Trim: ("position",),
    exp.Pad: ("fill_pattern", "is_left"),
    exp.StrPosition: ("substr", "position"),
    exp.Replace: ("replacement",),
    exp.SHA2: ("length",),
    exp.Round: ("decimals",),
    exp.Ceil: ("decimals",),
    exp.Floor: ("decimals",),
    exp.Nvl2: ("true", "false"),
    exp.MonthsBetween: ("roundoff",),
    exp.TimestampFromParts: ("year", "month", "day", "hour", "min", "sec"),
}
