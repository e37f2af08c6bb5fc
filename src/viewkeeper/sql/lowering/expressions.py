"""Expressions: operators, constants and casts. Functions are in ``functions``, subqueries in ``subqueries``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, NoReturn

from sqlglot import exp

from viewkeeper.program.ast import Call, Comparison, Constant, Literal, Term, Test, Truth, Variable
from viewkeeper.program.types import BYTES, DATE, FLOAT, NUMBER, SYMBOL, TIMESTAMP, Kind
from viewkeeper.program.values import BadValue, parse_date, parse_timestamp, restore
from viewkeeper.sql.lowering.arguments import refuse_number
from viewkeeper.sql.lowering.bodies import Body
from viewkeeper.sql.lowering.evaluating import Doubt
from viewkeeper.sql.lowering.functions import lower_function
from viewkeeper.sql.lowering.intervals import Interval, combined, compared, constant_interval, made_interval, whole_number
from viewkeeper.sql.lowering.row_values import compared_by_values
from viewkeeper.sql.lowering.values import (
    Lowered,
    as_decimal,
    boolean,
    choice,
    common_type,
    convert,
    is_null,
    null_of,
    number,
)
from viewkeeper.sql.reading import TYPED, function_name
from viewkeeper.sql.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE_TYPE,
    DOUBLE,
    NULL_TYPE,
    STRING,
    TIMESTAMP_TYPE,
    SqlType,
    bounded,
    decimal,
    type_of_sql,
)

if TYPE_CHECKING:
    from viewkeeper.sql.lowering.queries import Queries

NUMERIC = (Kind.NUMBER, Kind.DECIMAL, Kind.FLOAT)
MOST_DIGITS = 18  # behind the point

_COMPARISONS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.EQ: ("=", "sql_eq"),
    exp.NEQ: ("!=", "sql_ne"),
    exp.LT: ("<", "sql_lt"),
    exp.LTE: ("<=", "sql_le"),
    exp.GT: (">", "sql_gt"),
    exp.GTE: (">=", "sql_ge"),
}


class Expressions:
    """Lowers the expressions of one query over a body.

    ``special`` is asked first: it knows aggregates and what was grouped by, and gives None for everything else.
    """

    def __init__(self, queries: Queries, body: Body, special: Callable[[exp.Expr], Lowered | None] | None = None) -> None:
        self.queries, self.body, self.special = queries, body, special
        # Is the value needed, so that a row is of no use where it is NULL?
        self.needed = False
        self.doubt = Doubt.NONE
        self.statement = body.builder.statement

    # ---- conditions

    def condition(self, node: exp.Expr) -> None:
        """Adds what must be true to the body."""
        for place, part in enumerate(_conjuncts(node)):
            with self.doubting(Doubt.CONNECTED if place else Doubt.NONE):
                self._conjunct(part)

    def _conjunct(self, node: exp.Expr) -> None:
        by_values = compared_by_values(self.statement, node)
        if by_values is not None:
            self.condition(by_values)
            return
        literal: Literal | None = None
        match node:
            case exp.Exists():
                literal = self.queries.exists(node.this, self.body)
            case exp.Not(this=exp.Exists() as inner):
                literal = self.queries.exists(inner.this, self.body, negated=True)
            case exp.In() if node.args.get("query"):
                literal = self.queries.is_in(node, self)
            case exp.Not(this=exp.In() as inner) if inner.args.get("query"):
                literal = self.queries.is_in(inner, self, negated=True)
            case exp.Between() if not node.args.get("symmetric"):
                self._compare(exp.GTE(this=node.this, expression=node.args["low"]))
                self._compare(exp.LTE(this=node.this, expression=node.args["high"]))
                return
        if literal is not None:
            self.body.literals.append(literal)
        elif type(node) in _COMPARISONS and not isinstance(node.expression, (exp.Any, exp.All)):
            self._compare(node)
        elif isinstance(node, exp.NullSafeEQ):
            self._must_be_same(*self._alike(node))
        else:
            self._holds(node)

    def _holds(self, node: exp.Expr) -> None:
        match node:
            case exp.Is(expression=exp.Null()):
                value = self.value(node.this)
                self.body.literals.append(Test("is_null", (value.term,)) if value.nullable else Truth(False))
                return
            case exp.Not(this=exp.Is(expression=exp.Null()) as inner):
                value = self.value(inner.this)
                if value.nullable:
                    self.body.literals.append(Test("is_null", (value.term,), negated=True))
                    self._certain(value)
                return
        value = self.boolean(node)
        if value.is_constant:
            if value.constant is not True:
                self.body.literals.append(Truth(False))
            return
        self.body.literals.append(Test("holds", (value.term,)))

    def _certain(self, *values: Lowered) -> None:
        self.body.certain |= {v.term.name for v in values if isinstance(v.term, Variable)}

    def _compare(self, node: exp.Expr) -> None:
        self.needed = True
        left, right = self._comparable(node)
        self.needed = False
        self._must_compare(*_COMPARISONS[type(node)], left, right)

    def _must_be_same(self, left: Lowered, right: Lowered) -> None:
        if self.body.known(left).nullable and self.body.known(right).nullable:
            self.body.literals.append(Test("holds", (Call("sql_same", (left.term, right.term)),)))
        elif left.constant is None and left.is_constant or right.constant is None and right.is_constant:
            self.body.literals.append(Truth(False))
        else:
            self._must_compare(*_COMPARISONS[exp.EQ], left, right)

    def _must_compare(self, operator: str, function: str, left: Lowered, right: Lowered) -> None:
        if operator == "=" and self.body.equate(left, right):
            return
        if left.type.kind is Kind.BOOL and operator not in ("=", "!="):
            self.body.literals.append(Test("holds", (Call(function, (left.term, right.term)),)))
        elif left.constant is None and left.is_constant or right.constant is None and right.is_constant:
            self.body.literals.append(Truth(False))
        else:
            self.body.literals.append(Comparison(operator, left.term, right.term))
        self._certain(left, right)

    # ---- values

    def boolean(self, node: exp.Expr) -> Lowered:
        value = self.value(node)
        if value.type.kind is None:
            return null_of(BOOLEAN)
        if value.type.kind is not Kind.BOOL:
            self._refuse_type(
                node, f"a condition is needed here, not a value of type {value.type}", "Compare it with something."
            )
        return value

    def value(self, node: exp.Expr) -> Lowered:
        found = self.operand(node)
        if isinstance(found, Interval):
            hint = "Add it to a date, compare it, EXTRACT a part or CAST it to BIGINT; datediff gives the number of days."
            self._unsupported(node, "an interval on its own", hint)
        return found

    def operand(self, node: exp.Expr) -> Lowered | Interval:
        """A value, or an interval where there may be one."""
        known = self.special(node) if self.special is not None else None
        if known is not None:
            return known
        needed, self.needed = self.needed, self.needed and isinstance(node, _STRICT)
        found = self._value(node)
        self.needed = needed
        term = found.amount.term if isinstance(found, Interval) else found.term
        if node.meta.get(TYPED):
            self.body.builder.constants.check_typed(term, node)
        self.body.builder.constants.check(term, node, self.doubt)
        return found

    @contextmanager
    def doubting(self, doubt: Doubt) -> Iterator[None]:
        """What is lowered meanwhile is perhaps not evaluated for every row."""
        before = self.doubt
        self.doubt = max(before, doubt)
        yield
        self.doubt = before

    def _perhaps(self, nodes: Sequence[exp.Expr], doubt: Doubt, lower: Callable[[exp.Expr], Lowered]) -> list[Lowered]:
        """Lowers the first of several expressions, and those that are not always evaluated after it."""
        first = lower(nodes[0])
        with self.doubting(doubt):
            return [first, *map(lower, nodes[1:])]

    def _value(self, node: exp.Expr) -> Lowered | Interval:
        by_values = compared_by_values(self.statement, node)
        if by_values is not None:
            return self.value(by_values)
        if type(node) in _COMPARISONS:
            return self._comparison(node)
        match node:
            case exp.Paren() | exp.Alias():
                return self.operand(node.this)
            case exp.Column():
                return self._column(node)
            case exp.Literal() | exp.Boolean() | exp.Null() | exp.HexString():
                return self.constant(node)
            case exp.And() | exp.Or():
                return self._connective(node)
            case exp.Not():
                value = self.boolean(node.this)
                return boolean(Call("sql_not", (value.term,)), value.nullable)
            case exp.Is():
                return self._is(node)
            case exp.NullSafeEQ():
                left, right = self._comparable(node)
                return boolean(Call("sql_same", (left.term, right.term)), False)
            case exp.NullSafeNEQ():
                left, right = self._comparable(node)
                return boolean(Call("sql_not", (Call("sql_same", (left.term, right.term)),)), False)
            case exp.Between():
                if node.args.get("symmetric"):
                    self._unsupported(node, "BETWEEN SYMMETRIC", "Write least and greatest around the bounds.")
                low = exp.GTE(this=node.this, expression=node.args["low"])
                return self._both(self.value(low), self.value(exp.LTE(this=node.this, expression=node.args["high"])))
            case exp.In():
                return self.queries.in_value(node, self) if node.args.get("query") else self._in_list(node)
            case exp.Exists():
                return self.queries.exists_value(node.this, self.body)
            case exp.Subquery() | exp.Select() | exp.SetOperation():
                return self.queries.scalar(node, self.body, self.needed)
            case exp.Case():
                return self._case(node)
            case exp.If():
                if node.args.get("false") is None:
                    refuse_number(node, 2, 3, 3, self)
                return self._if(node.this, node.args["true"], node.args.get("false"))
            case exp.Coalesce():
                return self._coalesce([node.this, *node.expressions])
            case exp.Nullif():
                left, right = self._alike(node)
                same = Call("sql_eq", (left.term, right.term))
                return choice(same, null_of(left.type), left)
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod() | exp.IntDiv():
                return self._arithmetic(node)
            case exp.Neg():
                return self._negative(node)
            case exp.Cast():
                return self._cast(node)
            case exp.Interval():
                return constant_interval(node, self.statement)
            case exp.Anonymous() if (interval := made_interval(node, self)) is not None:
                return interval
            case exp.Window():
                self._unsupported(node, "a window function here", "Window functions stand in the list of SELECT.")
            case exp.AggFunc():
                self._unsupported(
                    node,
                    f"the aggregate {function_name(node, self.statement.source)} here",
                    "Aggregates stand in SELECT, HAVING and ORDER BY, and not in each other.",
                )
        return lower_function(node, self)

    def _column(self, node: exp.Column) -> Lowered:
        if isinstance(node.this, exp.Star):
            self._unsupported(node, "* here", "It stands alone in the list of SELECT, or in count(*).")
        return self.body.resolve(node)

    def constant(self, node: exp.Expr) -> Lowered:
        match node:
            case exp.Null():
                return Lowered(Constant(None, NUMBER.optional()), NULL_TYPE, True)
            case exp.Boolean():
                return boolean(Constant(bool(node.this), BOOLEAN.kept), False)
            case exp.HexString():
                return Lowered(Constant(bytes.fromhex(node.this.zfill(len(node.this) + len(node.this) % 2)), BYTES), BINARY)
        assert isinstance(node, exp.Literal)
        text = node.this
        if node.is_string:
            if "\x00" in text:
                self._refuse_type(node, "a text cannot contain the character U+0000", "Leave it out.")
            return Lowered(Constant(text, SYMBOL), STRING)
        if re.fullmatch(r"[0-9]+", text):
            if int(text) >= 2**63:
                self._refuse_type(node, f"{text} does not fit 64 bits", "Write a smaller number.")
            return number(int(text))
        if re.fullmatch(r"[0-9]*\.[0-9]*", text):
            value = Decimal(text)
            scale = len(text.partition(".")[2])
            precision = max(len(str(int(value))) + scale if int(value) else scale, 1)
            if precision > MOST_DIGITS:
                self._refuse_type(
                    node, f"{text} has more than {MOST_DIGITS} digits", "Round it, or write it as 1.5E0, a double."
                )
            return Lowered(Constant(value, decimal(precision, scale).kept), decimal(precision, scale))
        try:
            return Lowered(Constant(float(text) + 0.0, FLOAT), DOUBLE)
        except ValueError:
            self._refuse_type(node, f"{text} is not a number", "Write 1, 1.5 or 1E3.")

    # ---- logic

    def _connective(self, node: exp.Expr) -> Lowered:
        kind = type(node)
        values = self._perhaps(_operands(node, kind), Doubt.CONNECTED, self.boolean)
        function = "sql_and" if kind is exp.And else "sql_or"
        return boolean(Call(function, tuple(v.term for v in values)), any(v.nullable for v in values))

    def _both(self, left: Lowered, right: Lowered) -> Lowered:
        return boolean(Call("sql_and", (left.term, right.term)), left.nullable or right.nullable)

    def _comparison(self, node: exp.Expr) -> Lowered:
        if isinstance(node.expression, (exp.Any, exp.All)):
            return self.queries.quantified(node, self)
        left, right = self._comparable(node)
        return boolean(Call(_COMPARISONS[type(node)][1], (left.term, right.term)), left.nullable or right.nullable)

    def compared(self, node: exp.Expr, left: Lowered, right: Lowered) -> Lowered:
        """A comparison of values that are known already."""
        left, right = self.alike([left, right], node)
        return boolean(Call(_COMPARISONS[type(node)][1], (left.term, right.term)), left.nullable or right.nullable)

    def _is(self, node: exp.Is) -> Lowered:
        match node.expression:
            case exp.Null():
                return boolean(is_null(self.value(node.this)), False)
            case exp.Boolean() as wanted:
                value = self.boolean(node.this)
                same = Call("sql_same", (value.term, Constant(bool(wanted.this), BOOLEAN.kept)))
                return boolean(same, False)
            case exp.Not(this=exp.Null()):
                return boolean(Call("sql_not", (is_null(self.value(node.this)),)), False)
        self._unsupported(node, "this use of IS", "IS NULL, IS TRUE and IS FALSE can be asked.")

    def _in_list(self, node: exp.In) -> Lowered:
        if not node.expressions:
            self._unsupported(node, "this use of IN", "Write a list of values or a query in parentheses.")
        values = self.alike([self.value(part) for part in (node.this, *node.expressions)], node)
        return boolean(Call("sql_in", tuple(v.term for v in values)), any(v.nullable for v in values))

    def _case(self, node: exp.Case) -> Lowered:
        conditions: list[Lowered] = []
        results: list[exp.Expr | None] = []
        for branch in node.args["ifs"]:
            condition = branch.this if node.this is None else exp.EQ(this=node.this, expression=branch.this)
            with self.doubting(Doubt.CHOSEN if conditions else Doubt.NONE):
                conditions.append(self.boolean(condition))
            results.append(branch.args["true"])
        results.append(node.args.get("default"))
        with self.doubting(Doubt.CHOSEN):
            values = self.alike([self.value(r) if r is not None else self.constant(exp.Null()) for r in results], node)
        pairs = zip(conditions, values, strict=False)
        terms = (*(term for condition, value in pairs for term in (condition.term, value.term)), values[-1].term)
        return Lowered(Call("sql_if", terms), values[-1].type, any(v.nullable for v in values))

    def _if(self, condition: exp.Expr, one: exp.Expr, other: exp.Expr | None) -> Lowered:
        test = self.boolean(condition)
        with self.doubting(Doubt.CHOSEN):
            values = [self.value(one), self.value(other) if other is not None else self.constant(exp.Null())]
        return choice(test.term, *self.alike(values, condition))

    def _coalesce(self, nodes: Sequence[exp.Expr]) -> Lowered:
        values = self.alike(self._perhaps(nodes, Doubt.CHOSEN, self.value), nodes[0])
        found = values[-1]
        for value in reversed(values[:-1]):
            if value.nullable:
                found = Lowered(Call("coalesce", (value.term, found.term)), value.type, found.nullable)
            else:
                found = value
        return found

    # ---- types

    def _alike(self, node: exp.Expr) -> tuple[Lowered, Lowered]:
        left, right = self.alike([self.value(node.this), self.value(node.expression)], node)
        return left, right

    def _comparable(self, node: exp.Expr) -> tuple[Lowered, Lowered]:
        """Both sides of a comparison in one type."""
        sides = self.operand(node.this), self.operand(node.expression)
        intervals = compared(*sides, node, self)
        left, right = intervals or self.alike([side for side in sides if isinstance(side, Lowered)], node)
        return left, right

    def alike(self, values: Sequence[Lowered], node: exp.Expr) -> list[Lowered]:
        """The values in one type."""
        values = self._read_texts(values)
        wanted: SqlType | None = NULL_TYPE
        for value in values:
            before, wanted = wanted, common_type(wanted, value.type) if wanted else None
            if wanted is None:
                types = f"{before} and {value.type}"
                self._refuse_type(
                    node, f"values of the types {types} have no type in common", "Use CAST to give them one type."
                )
        assert wanted is not None
        if wanted.kind is Kind.DECIMAL and wanted.scale > MOST_DIGITS:
            self._refuse_type(node, f"{wanted} has more than {MOST_DIGITS} digits behind the point", "Round the values.")
        return [convert(value, wanted) for value in values]

    def _read_texts(self, values: Sequence[Lowered]) -> list[Lowered]:
        """Constant texts beside dates, times and numbers are read as such, as Spark does."""
        others = {v.type.kind for v in values if v.type.kind not in (None, Kind.SYMBOL)}
        if len(others) != 1:
            return list(values)
        [kind] = others
        return [self.read_text(v, kind) if v.type.kind is Kind.SYMBOL and v.is_constant else v for v in values]

    def read_text(self, value: Lowered, kind: Kind | None) -> Lowered:
        text = value.constant
        assert isinstance(text, str)
        try:
            match kind:
                case Kind.DATE:
                    return Lowered(Constant(restore(parse_date(text.strip()), DATE), DATE), DATE_TYPE)
                case Kind.TIMESTAMP:
                    return Lowered(Constant(restore(parse_timestamp(text.strip()), TIMESTAMP), TIMESTAMP), TIMESTAMP_TYPE)
                case Kind.NUMBER | Kind.DECIMAL:
                    return self.constant(exp.Literal.number(text.strip())) if re.fullmatch(r"[0-9.]+", text.strip()) else value
        except BadValue:
            pass
        return value

    # ---- arithmetic

    def _arithmetic(self, node: exp.Expr) -> Lowered | Interval:
        left, right = self.operand(node.this), self.operand(node.expression)
        found = combined(node, left, right, self)
        if found is not None:
            return found
        assert isinstance(left, Lowered) and isinstance(right, Lowered)
        return self.calculate(type(node), left, right, node)

    def calculate(self, operator: type[exp.Expr], left: Lowered, right: Lowered, node: exp.Expr) -> Lowered:
        kinds = {left.type.kind, right.type.kind}
        if kinds == {None}:
            return Lowered(Constant(None, NUMBER.optional()), BIGINT, True)
        if None in kinds:
            left, right = (convert(v, o.type) if v.type.kind is None else v for v, o in ((left, right), (right, left)))
            kinds = {left.type.kind}
        nullable = left.nullable or right.nullable
        if left.type.kind is Kind.DATE and right.type.kind is Kind.NUMBER and operator in (exp.Add, exp.Sub):
            days = right.term if operator is exp.Add else Call("neg", (right.term,))
            return Lowered(Call("sql_date_add", (left.term, days)), DATE_TYPE, nullable)
        if not kinds <= set(NUMERIC):
            types = f"{left.type} and {right.type}"
            self._refuse_type(
                node, f"there is no arithmetic with values of the types {types}", "Use CAST to make them numbers."
            )
        if operator is exp.IntDiv:
            whole = [Lowered(_to_number(v), BIGINT, v.nullable) for v in (left, right)]
            return Lowered(Call("/", (whole[0].term, whole[1].term)), BIGINT, nullable)
        if Kind.FLOAT in kinds or (operator is exp.Div and kinds == {Kind.NUMBER}):
            left, right = convert(left, DOUBLE), convert(right, DOUBLE)
            function = "sql_mod" if operator is exp.Mod else _SIGNS[operator]
            return Lowered(Call(function, (left.term, right.term)), DOUBLE, nullable)
        if Kind.DECIMAL in kinds:
            return self._decimal(operator, as_decimal(left), as_decimal(right), nullable, node)
        return Lowered(Call(_SIGNS[operator], (left.term, right.term)), BIGINT, nullable)

    def _decimal(self, operator: type[exp.Expr], left: Lowered, right: Lowered, nullable: bool, node: exp.Expr) -> Lowered:
        (p1, s1), (p2, s2) = left.type.digits, right.type.digits
        if operator in (exp.Add, exp.Sub):
            scale = max(s1, s2)
            result = bounded(max(p1 - s1, p2 - s2) + scale + 1, scale)
            term: Term = Call(_SIGNS[operator], (left.term, right.term))
            if result.scale != scale:
                term = Call("sql_decimal", (term, Constant(MOST_DIGITS, NUMBER), Constant(result.scale, NUMBER)))
        elif operator is exp.Mul:
            result = bounded(p1 + p2 + 1, s1 + s2)
            self._check_digits(result, node)
            exact = result.scale == s1 + s2
            more = () if exact else (Constant(result.scale, NUMBER),)
            term = Call("*" if exact else "sql_multiply", (left.term, right.term, *more))
        elif operator is exp.Div:
            scale = max(6, s1 + p2 + 1)
            result = bounded(p1 - s1 + s2 + scale, scale)
            # Spark gives more digits to quotients than 18 digits have room for.
            result = decimal(result.precision, min(result.scale, max(6, s1)))
            term = Call("sql_divide", (left.term, right.term, Constant(result.scale, NUMBER)))
        else:
            scale = max(s1, s2)
            result = bounded(min(p1 - s1, p2 - s2) + scale, scale)
            operands = [convert(v, decimal(v.type.precision + scale - v.type.scale, scale)) for v in (left, right)]
            term = Call("sql_mod", (operands[0].term, operands[1].term))
        self._check_digits(result, node)
        return Lowered(term, result, nullable)

    def _check_digits(self, result: SqlType, node: exp.Expr) -> None:
        if result.scale > MOST_DIGITS:
            why = f"the result has {result.scale} digits behind the point, and there is room for {MOST_DIGITS}"
            self._refuse_type(node, why, "Round or CAST the operands.")

    def _negative(self, node: exp.Expr) -> Lowered | Interval:
        value = self.operand(node.this)
        if isinstance(value, Interval):
            return value.times(-1)
        if value.is_constant and isinstance(value.constant, (int, float, Decimal)):
            assert isinstance(value.term, Constant)
            return Lowered(Constant(-value.constant, value.term.type), value.type)
        if value.type.kind is None:
            return value
        if value.type.kind not in NUMERIC:
            self._refuse_type(node, f"a value of type {value.type} has no negative", "Use CAST to make it a number.")
        return Lowered(Call("neg", (value.term,)), value.type, value.nullable)

    # ---- casts

    def _cast(self, node: exp.Cast) -> Lowered:
        value = self.operand(node.this)
        if isinstance(value, Interval):
            if type_of_sql(node.to) != BIGINT:
                self._unsupported(node, f"a CAST of an interval to {node.to.sql('spark')}", "It can be cast to BIGINT.")
            return whole_number(value)
        return self.cast(value, node.to, node, bool(node.args.get("safe")))

    def cast(self, value: Lowered, to: exp.DataType, node: exp.Expr, gently: bool = False) -> Lowered:
        wanted = type_of_sql(to)
        if wanted is None:
            self._refuse_type(node, f"there is no type {to.sql('spark')} here", _TYPES)
        return self.try_cast(value, wanted, node) if gently else self.cast_to(value, wanted, node)

    def try_cast(self, value: Lowered, wanted: SqlType, node: exp.Expr) -> Lowered:
        """A cast that gives NULL where it would fail."""
        self._check_digits(wanted, node)
        digits: tuple[Term, ...] = ()
        if wanted.kind is Kind.DECIMAL:
            digits = Constant(wanted.precision, NUMBER), Constant(wanted.scale, NUMBER)
            if wanted.precision > MOST_DIGITS:
                self._unsupported(node, f"TRY_CAST to {wanted}", f"Decimals have up to {MOST_DIGITS} digits.")
        match value.type.kind, wanted.kind:
            case Kind.SYMBOL, kind if kind in _FROM_TEXT:
                function = _FROM_TEXT[kind].replace("sql_", "sql_try_", 1)
            case Kind.NUMBER | Kind.FLOAT | Kind.DECIMAL, Kind.DECIMAL:
                function = "sql_try_decimal"
            case Kind.FLOAT, Kind.NUMBER:
                function = "sql_try_to_number"
            case _:
                return self.cast_to(value, wanted, node)
        return Lowered(Call(function, (value.term, *digits)), wanted, True)

    def cast_to(self, value: Lowered, wanted: SqlType, node: exp.Expr) -> Lowered:
        self._check_digits(wanted, node)
        if value.type.kind is None:
            return null_of(wanted)
        digits = (
            (Constant(wanted.kept.precision, NUMBER), Constant(wanted.scale, NUMBER)) if wanted.kind is Kind.DECIMAL else ()
        )
        nullable = value.nullable
        if value.is_constant and value.type.kind is Kind.SYMBOL and wanted.kind in (Kind.DATE, Kind.TIMESTAMP):
            found = self.read_text(value, wanted.kind)
            if found.type.kind is wanted.kind:
                return found
        match value.type.kind, wanted.kind:
            case one, other if one is other is not Kind.DECIMAL:
                return Lowered(value.term, wanted, nullable)
            case Kind.SYMBOL, Kind.NUMBER | Kind.FLOAT | Kind.DECIMAL | Kind.DATE | Kind.TIMESTAMP | Kind.BOOL:
                return Lowered(Call(_FROM_TEXT[wanted.kind], (value.term, *digits)), wanted, nullable)
            case _, Kind.SYMBOL if value.type.kind is not Kind.BYTES:
                return Lowered(Call("sql_string", (value.term,)), STRING, nullable)
            case Kind.NUMBER | Kind.FLOAT | Kind.DECIMAL, Kind.DECIMAL:
                return Lowered(Call("sql_decimal", (value.term, *digits)), wanted, nullable)
            case Kind.BOOL, Kind.DECIMAL:
                return self.cast_to(Lowered(Call("to_number", (value.term,)), BIGINT, nullable), wanted, node)
            case Kind.NUMBER | Kind.DECIMAL, Kind.FLOAT:
                return Lowered(Call("to_float", (value.term,)), DOUBLE, nullable)
            case Kind.BOOL, Kind.FLOAT:
                return Lowered(Call("to_float", (Call("to_number", (value.term,)),)), DOUBLE, nullable)
            case Kind.FLOAT | Kind.DECIMAL | Kind.BOOL, Kind.NUMBER:
                return Lowered(Call("to_number", (value.term,)), BIGINT, nullable)
            case Kind.NUMBER, Kind.BOOL:
                return boolean(Call("sql_ne", (value.term, Constant(0, NUMBER))), nullable)
            case Kind.DATE, Kind.TIMESTAMP:
                return convert(value, TIMESTAMP_TYPE)
            case Kind.TIMESTAMP, Kind.DATE:
                return Lowered(Call("sql_date_of", (value.term,)), DATE_TYPE, nullable)
        self._refuse_type(
            node, f"a value of type {value.type} cannot be made a {wanted}", "Cast it in steps, or use a function."
        )

    # ---- complaints

    def _refuse_type(self, node: exp.Expr, why: str, hint: str) -> NoReturn:
        self.statement.refuse("SQL_TYPE", node, why=why, hint=hint)

    def _unsupported(self, node: exp.Expr, what: str, hint: str) -> NoReturn:
        self.statement.refuse("SQL_UNSUPPORTED", node, what=what, hint=hint)


# What is NULL if a part of it is.
_STRICT = (exp.Paren, exp.Alias, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Cast, exp.Subquery, exp.Select)
_TYPES = "Types are BIGINT (and smaller), DOUBLE, DECIMAL(p,s), STRING, BOOLEAN, DATE, TIMESTAMP and BINARY."
_SIGNS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_FROM_TEXT = {
    Kind.NUMBER: "sql_text_to_number", Kind.FLOAT: "sql_text_to_float", Kind.DECIMAL: "sql_text_to_decimal",
    Kind.DATE: "sql_text_to_date", Kind.TIMESTAMP: "sql_text_to_timestamp", Kind.BOOL: "sql_text_to_bool",
}  # fmt: skip


def _conjuncts(node: exp.Expr) -> list[exp.Expr]:
    match node:
        case exp.And():
            return [*_conjuncts(node.this), *_conjuncts(node.expression)]
        case exp.Paren():
            return _conjuncts(node.this)
        case exp.Or():
            return _factored(node)
    return [node]


def _operands(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """What a chain of AND, or one of OR, connects."""
    inner = node.this if isinstance(node, exp.Paren) else node
    return [*_operands(inner.this, kind), *_operands(inner.expression, kind)] if isinstance(inner, kind) else [node]


def _factored(node: exp.Expr) -> list[exp.Expr]:
    """What all sides of an OR have in common, such as the condition of a join, and what is left of it."""
    sides = [_conjuncts(side) for side in _operands(node, exp.Or)]
    common = [part for part in sides[0] if all(part in side for side in sides)]
    if not common:
        return [node]
    rest = [[part for part in side if part not in common] for side in sides]
    return common if not all(rest) else [*common, exp.or_(*(exp.and_(*side) for side in rest))]


def _to_number(value: Lowered) -> Term:
    return value.term if value.type.kind is Kind.NUMBER else Call("to_number", (value.term,))
