"""Window functions: what stands before OVER, and the frame behind it, as windows of the engines.

What the engines do not have is put together of what they have: means and deviations of sums and counts, and functions with IGNORE NULLS of a
number: the so manyth value of the partition is looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.program.ast import Call, Constant, Frame, Order, Over, Term, Variable
from viewkeeper.program.types import NUMBER, Kind
from viewkeeper.sql.lowering.arguments import refuse_others
from viewkeeper.sql.lowering.bodies import Body
from viewkeeper.sql.lowering.expressions import Expressions
from viewkeeper.sql.lowering.frames import distances, in_units
from viewkeeper.sql.lowering.grouping import BY_NAME, DEVIATIONS, aggregates_of, deviation, refuse_no_argument
from viewkeeper.sql.lowering.rows import Rows
from viewkeeper.sql.lowering.values import ONE, ZERO, Lowered, boolean, choice, convert, is_null, mean_of, null_of
from viewkeeper.sql.lowering.windows import Windows
from viewkeeper.sql.reading import function_name
from viewkeeper.sql.types import BIGINT, DOUBLE, SqlType, bounded

if TYPE_CHECKING:
    from viewkeeper.sql.lowering.queries import Queries

_RANKS: dict[type[exp.Expr], tuple[str, SqlType]] = {
    exp.RowNumber: ("row_number", BIGINT), exp.Rank: ("rank", BIGINT), exp.DenseRank: ("dense_rank", BIGINT),
    exp.PercentRank: ("percent_rank", DOUBLE), exp.CumeDist: ("cume_dist", DOUBLE),
}  # fmt: skip
_PICKED: dict[type[exp.Expr], str] = {
    exp.FirstValue: "first_value", exp.First: "first_value", exp.LastValue: "last_value", exp.Last: "last_value",
    exp.NthValue: "nth_value",
}  # fmt: skip
_KNOWN = (
    "There are row_number, rank, dense_rank, percent_rank, cume_dist, ntile, lag, lead, first_value, last_value, nth_value, count, "
    "count_if, sum, avg, min, max, stddev, variance, bool_and and bool_or."
)
_BEFORE = Frame("rows", None, -1)
_SO_FAR = Frame("rows", None, 0)


def windowed(
    queries: Queries,
    select: exp.Select,
    body: Body,
    before: Callable[[exp.Expr], Lowered | None] | None = None,
    grouped: Body | None = None,
) -> Rows:
    """A query whose outputs have window functions; ``before`` knows what aggregates of ``grouped`` stand for."""
    plain = Expressions(queries, body, before)
    windows = Windows(queries, body, select)

    def special(node: exp.Expr) -> Lowered | None:
        if isinstance(node, exp.Window):
            return _Function(windows, plain, node).value()
        return before(node) if before is not None else None

    for node in select.expressions:
        _refuse_looked_up(queries, node)
    outputs = queries.outputs(select, Expressions(queries, body, special), grouped or body)
    after = windows.finish([value for _, value in outputs])
    found = [(name, value) for (name, _), (_, value) in zip(outputs, after.sources[0].columns, strict=False)]
    return Rows(after, found)


def _refuse_looked_up(queries: Queries, node: exp.Expr) -> None:
    """Queries are asked for each row before windows are computed."""
    for asking in node.find_all(exp.In, exp.Any, exp.All):
        asked = asking.this if isinstance(asking, exp.In) and asking.args.get("query") else asking.parent and asking.parent.this
        if isinstance(asked, exp.Expr) and asked is not asking and asked.find(exp.Window):
            hint = "Compute the window in a query in FROM, and ask around it."
            queries.refuse(asked, "a window function whose value is looked for in a query", hint)


@dataclass
class _Function:
    """One window function."""

    windows: Windows
    expressions: Expressions
    node: exp.Window
    keys: list[Lowered] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.queries = self.windows.queries
        self.statement = self.queries.builder.statement
        self.partition = tuple(self._column(self.expressions.value(part)) for part in self.node.args.get("partition_by") or ())
        order = self.node.args.get("order")
        ordered = order.expressions if order is not None else ()
        self.keys = [self.expressions.value(o.this) for o in ordered]
        self.order = tuple(
            Order(self._column(key), bool(o.args.get("desc")), bool(o.args.get("nulls_first")))
            for key, o in zip(self.keys, ordered, strict=True)
        )
        self.frame = self._frame()

    def value(self) -> Lowered:
        function, ignoring, condition = self.node.this, False, None
        while isinstance(function, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)):
            ignoring = ignoring or isinstance(function, exp.IgnoreNulls)
            condition = function.expression.this if isinstance(function, exp.Filter) else condition
            function = function.this
        kind = BY_NAME.get(function.name.lower(), type(function)) if isinstance(function, exp.Anonymous) else type(function)
        kind = exp.LogicalOr if kind is exp.Any else kind
        chosen = kind in _PICKED or kind in (exp.Lag, exp.Lead)
        if condition is not None and (chosen or kind in _RANKS or kind is exp.Ntile):
            self.queries.refuse(
                condition, f"FILTER for {self._name(function)}", "FILTER is for aggregates such as sum and count."
            )
        if condition is not None and aggregates_of(condition):
            self.queries.refuse(condition, "FILTER with an aggregate", "Ask about columns.")
        if ignoring and not chosen:
            self.queries.refuse(self.node, f"IGNORE NULLS for {self._name(function)}", "Leave it out.")
        if kind in _RANKS or kind in (exp.Min, exp.Max):
            refuse_others(function, () if kind in _RANKS else ("this",), self.statement)
        if kind in _RANKS or kind is exp.Ntile:
            self._check_frame(function, _SO_FAR)
            return self._ntile(function) if kind is exp.Ntile else self._rank(kind)
        if kind in (exp.Lag, exp.Lead):
            self._check_frame(function, None)
            return self._shifted(kind is exp.Lag, function, ignoring)
        if kind in _PICKED:
            return self._picked(_PICKED[kind], function, ignoring)
        return self._aggregate(kind, function, None if condition is None else self.expressions.boolean(condition))

    def _name(self, function: exp.Expr) -> str:
        return function_name(function, self.statement.source)

    # ---- partition, order, frame

    def _column(self, value: Lowered) -> Variable:
        return self.windows.column(_orderable(value))

    def _frame(self) -> Frame | None:
        spec = self.node.args.get("spec")
        if spec is None:
            return None
        frame = distances(self.queries, spec, self.keys)
        if frame.unit == "rows" or not {frame.low, frame.high} - {0, None}:
            return frame
        if len(self.order) != 1 or self.order[0].variable in self.partition:
            hint = "Order by one column, which is not that of PARTITION BY, or use ROWS."
            self.queries.refuse(spec, "a window of RANGE with distances that is not ordered by one column", hint)
        key = self.keys[0]
        power = 10 ** (key.type.scale if key.type.kind is Kind.DECIMAL else 0)
        if all(bound is None or bound % power == 0 for bound in (frame.low, frame.high)):
            return Frame("range", *(None if bound is None else bound // power for bound in (frame.low, frame.high)))
        self.order = (replace(self.order[0], variable=self._column(in_units(self.queries, key, spec))),)
        return frame

    def _check_frame(self, function: exp.Expr, allowed: Frame | None) -> None:
        if self.node.args.get("spec") is not None and self.frame != allowed:
            self.queries.refuse(self.node.args["spec"], f"a frame for {self._name(function)}", "Leave it out.")

    def _add(
        self, operation: str, target: Lowered | None, type_: SqlType, frame: Frame | None, number: int | None = None
    ) -> Variable:
        column = None if target is None else self.windows.column(target)
        return self.windows.add(operation, column, self.partition, Over((), self.order, frame, None, number), type_)

    def _number(self, value: Lowered, frame: Frame | None) -> Lowered:
        """How many values there are."""
        return Lowered(self._add("count", value if value.nullable else None, BIGINT, frame), BIGINT)

    def _constant(self, node: exp.Expr | None, default: int, least: int | None = None) -> int:
        if node is None:
            return default
        value = self.expressions.value(node).constant
        if not isinstance(value, int):
            self.queries.refuse(self.node, "a window function with a computed number", "Write the number.")
        if least is not None and value < least:
            name, hint = self._name(self.node.this), f"Write {least} or more."
            self.statement.refuse("SQL_TYPE", node, why=f"{name} counts from {least}, and {value} is less", hint=hint)
        return value

    # ---- ranks

    def _rank(self, kind: type[exp.Expr]) -> Lowered:
        operation, type_ = _RANKS[kind]
        return Lowered(self._add(operation, None, type_, None), type_)

    def _ntile(self, function: exp.Expr) -> Lowered:
        count = self._constant(function.this, 1, 1)
        return Lowered(self.windows.add("ntile", Constant(count, NUMBER), self.partition, Over((), self.order), BIGINT), BIGINT)

    # ---- other rows

    def _shifted(self, back: bool, function: exp.Expr, ignoring: bool) -> Lowered:
        value = self.expressions.value(function.this)
        offset = self._constant(function.args.get("offset"), 1)
        if offset < 0:
            back, offset = not back, -offset
        default = function.args.get("default")
        other = None if default is None else self.expressions.value(default)
        if ignoring and value.nullable:
            return self._shifted_among_values(back, offset, value, other)
        found = Lowered(self._add("lag" if back else "lead", value, value.type, None, offset), value.type, True)
        if other is None:
            return found
        found, other = self.expressions.alike([found, other], self.node)
        number = self._add("row_number", None, BIGINT, None)
        place: Term = number
        if not back:
            total = self.windows.add("count", None, self.partition, Over(), BIGINT)
            place = Call("+", (Call("-", (total, number)), ONE))
        return choice(Call("sql_le", (place, Constant(offset, NUMBER))), other, found)

    def _shifted_among_values(self, back: bool, offset: int, value: Lowered, other: Lowered | None) -> Lowered:
        """lag and lead with IGNORE NULLS: of the values before the row, or behind it."""
        if offset == 0:
            self.queries.refuse(self.node, "IGNORE NULLS with the row itself", "Leave it out.")
        passed = self._number(value, _BEFORE if back else _SO_FAR).term
        step = Constant(1 - offset if back else offset, NUMBER)
        found, nothing = self._looked_up(value, Call("+", (passed, step)))
        if other is None:
            return found
        found, other = self.expressions.alike([found, other], self.node)
        return choice(nothing, other, found)

    def _picked(self, name: str, function: exp.Expr, ignoring: bool) -> Lowered:
        value = self.expressions.value(function.this)
        number = self._constant(function.args.get("offset"), 1, 1) if name == "nth_value" else None
        if ignoring and value.nullable:
            return self._picked_among_values(name, value, number or 1)
        return Lowered(self._add(name, value, value.type, self.frame, number), value.type, True)

    def _picked_among_values(self, name: str, value: Lowered, number: int) -> Lowered:
        """A function with IGNORE NULLS: of the values in the frame, which are the last of those up to its end."""
        frame = self.frame or Frame("range", None, 0)
        inside, so_far = self._number(value, frame).term, self._number(value, replace(frame, low=None)).term
        place = so_far if name == "last_value" else Call("+", (Call("-", (so_far, inside)), Constant(number, NUMBER)))
        few = Call("sql_lt", (inside, Constant(number, NUMBER)))
        return self._looked_up(value, Call("sql_if", (few, ZERO, place)))[0]

    def _looked_up(self, value: Lowered, place: Term) -> tuple[Lowered, Variable]:
        """The so manyth value of the partition, or NULL; and whether there is none."""
        running = self._add("count", value, BIGINT, _SO_FAR)
        return self.windows.look_up(self.node, value, self.partition, running, place)

    # ---- aggregates

    def _aggregate(self, kind: type[exp.Expr], function: exp.Expr, condition: Lowered | None) -> Lowered:
        if kind not in (exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.LogicalAnd, exp.LogicalOr, *DEVIATIONS):
            self.statement.refuse(
                "SQL_FUNCTION", self.node, function=self._name(function), why="is no window function here", hint=_KNOWN
            )
        refuse_no_argument(self.queries, function)
        arguments = function.expressions if isinstance(function, exp.Anonymous) else [function.this, *function.expressions]
        if isinstance(arguments[0], exp.Distinct):
            self.queries.refuse(self.node, "DISTINCT in a window", "Leave it out.")
        if kind is exp.Count:
            return self._count(arguments, condition)
        value = _where(condition, self.expressions.value(arguments[0]))
        if kind is exp.CountIf:
            return self._number(choice(value.term, Lowered(ONE, BIGINT), null_of(BIGINT)), self.frame)
        if kind in (exp.Min, exp.Max, exp.LogicalAnd, exp.LogicalOr):
            return self._extreme("min" if kind in (exp.Min, exp.LogicalAnd) else "max", value, kind)
        return self._total(kind, value)

    def _count(self, arguments: list[exp.Expr], condition: Lowered | None) -> Lowered:
        one = Lowered(ONE, BIGINT)
        if isinstance(arguments[0], (exp.Star, exp.Literal)):
            return self._number(_where(condition, one), self.frame)
        values = [self.expressions.value(argument) for argument in arguments]
        if len(values) == 1:
            return self._number(_where(condition, values[0]), self.frame)
        for value in values:
            one = choice(is_null(value), null_of(BIGINT), one) if value.nullable else one
        return self._number(_where(condition, one), self.frame)

    def _extreme(self, operation: str, value: Lowered, kind: type[exp.Expr]) -> Lowered:
        if kind in (exp.LogicalAnd, exp.LogicalOr) and value.type.kind is not Kind.BOOL:
            why = f"conditions are needed here, not values of type {value.type}"
            self.statement.refuse("SQL_TYPE", self.node, why=why, hint="Compare them with something.")
        column = _orderable(value)
        found = Lowered(self._add(operation, column, column.type, self.frame), column.type, True)
        return boolean(Call("sql_ne", (found.term, ZERO)), True) if value.type.kind is Kind.BOOL else found

    def _total(self, kind: type[exp.Expr], value: Lowered) -> Lowered:
        if value.type.kind not in (Kind.NUMBER, Kind.DECIMAL, Kind.FLOAT):
            why = f"there is no sum or mean of values of type {value.type}"
            self.statement.refuse("SQL_TYPE", self.node, why=why, hint="Use CAST.")
        if kind in DEVIATIONS:
            one = convert(value, DOUBLE)
            square = Lowered(Call("*", (one.term, one.term)), DOUBLE, one.nullable)
            return deviation(kind, self._sum(one), self._sum(square), self._number(value, self.frame))
        total = self._sum(value)
        if kind is exp.Sum:
            return total
        number = self._number(value, self.frame)
        mean = mean_of(total, number, value.type)
        return choice(Call("sql_eq", (number.term, ZERO)), null_of(mean.type), mean)

    def _sum(self, value: Lowered) -> Lowered:
        precision, scale = value.type.digits
        result = bounded(precision + 10, scale) if value.type.kind is Kind.DECIMAL else replace(value.type, literal=False)
        return Lowered(self._add("sum", value, result, self.frame), result, True)


def _orderable(value: Lowered) -> Lowered:
    if value.type.kind is Kind.BOOL:
        return Lowered(Call("to_number", (value.term,)), BIGINT, value.nullable)
    return value


def _where(condition: Lowered | None, value: Lowered) -> Lowered:
    """The value where the condition holds, otherwise NULL."""
    return value if condition is None else choice(condition.term, value, null_of(value.type))
