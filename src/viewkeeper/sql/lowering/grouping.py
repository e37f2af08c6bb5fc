"""GROUP BY and aggregates.

    SELECT g, sum(x), max(y) FROM … GROUP BY g

becomes a relation with totals for each group, one for each min and max, and one for what is counted once:

    v?1(g, s, n) :- s = sum x : { … }, n = count : { … }.
    v?2(g, m) :- m = max y : { … }.

Groups are encoded, so that NULL is a group like any other and the relations can be joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Either,
    Literal,
    Negation,
    Term,
    Test,
    Variable,
    Wildcard,
    variables_of,
)
from viewkeeper.program.types import NUMBER, Kind
from viewkeeper.sql.lowering.arguments import refuse_others
from viewkeeper.sql.lowering.bodies import Body, Correlation, Source
from viewkeeper.sql.lowering.expressions import Expressions
from viewkeeper.sql.lowering.values import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    Lowered,
    boolean,
    choice,
    convert,
    decode,
    encode,
    is_null,
    mean_of,
    nothing_of,
    null_of,
    present,
    width_of,
)
from viewkeeper.sql.reading import function_name
from viewkeeper.sql.types import BIGINT, BOOLEAN, DOUBLE, SqlType, bounded, decimal

if TYPE_CHECKING:
    from viewkeeper.sql.lowering.queries import Queries

AGGREGATES = (
    exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Variance,
    exp.VariancePop, exp.LogicalAnd, exp.LogicalOr, exp.AnyValue,
)  # fmt: skip
BY_NAME: dict[str, type[exp.Expr]] = {
    "mean": exp.Avg, "every": exp.LogicalAnd, "some": exp.LogicalOr, "std": exp.Stddev,
}  # fmt: skip
DEVIATIONS = (exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Variance, exp.VariancePop)
# Alternatives multiply: two of two each are four rules.
_FEW_OPTIONAL = 2
_TENTHS = 10  # digits that a sum has more than its terms


def aggregates_of(node: exp.Expr) -> list[exp.Expr]:
    """The aggregates of an expression that belong to the query it is in, also those that windows look at."""
    found: list[exp.Expr] = []
    todo = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, exp.Query) and part is not node:
            continue
        if isinstance(part, exp.Window):
            todo += _window_parts(part)
        elif is_aggregate(part):
            found.append(part)
        else:
            todo += list(part.iter_expressions())
    return found


def _window_parts(window: exp.Window) -> list[exp.Expr]:
    """What a window function is of; the function itself is no aggregate of the query."""
    function = window.this
    while isinstance(function, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
        function = function.this
    return [part for part in (*function.iter_expressions(), *window.iter_expressions()) if part is not window.this]


def is_aggregate(node: exp.Expr) -> bool:
    if isinstance(node, exp.Filter):
        return True
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in BY_NAME
    if isinstance(node, exp.Any) and isinstance(node.parent, (exp.Like, exp.ILike)):
        return False
    if isinstance(node, exp.Any):
        return not isinstance(node.this, exp.Query) and not isinstance(getattr(node.this, "this", None), exp.Query)
    return isinstance(node, exp.AggFunc) and not isinstance(node, (exp.Grouping, exp.GroupingId))


def refuse_no_argument(queries: Queries, function: exp.Expr) -> None:
    argument = function.this if not isinstance(function, exp.Anonymous) else next(iter(function.expressions), None)
    if argument is None or isinstance(argument, exp.Distinct) and not argument.expressions:
        name = function.name if isinstance(function, exp.Anonymous) else function.key
        why, hint = "needs an argument", "Write one in the parentheses; count(*) counts rows."
        queries.builder.statement.refuse("SQL_FUNCTION", function, function=name, why=why, hint=hint)


@dataclass
class Groups:
    """The groups of a query and what is computed for each.

    ``body`` is what is grouped, ``values`` what it is grouped by, ``correlation`` what ties it to a query around.
    """

    queries: Queries
    body: Body
    values: Sequence[Lowered]
    correlation: Correlation | None
    whole: bool  # no GROUP BY: everything is one group, also nothing
    _results: dict[tuple[str, Term | None], tuple[Variable, SqlType]] = field(default_factory=dict)
    _extremes: dict[tuple[str, Term, Term | None, bool], tuple[Variable, Variable, Lowered]] = field(default_factory=dict)
    _known: dict[str, Lowered] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.builder = self.body.builder
        self.literals: list[Literal] = list(self.correlation.literals if self.correlation else self.body.literals)
        outside = self.correlation.inside if self.correlation else ()
        self.keys: list[Variable] = []
        for term in (*outside, *(t for v in self.values for t in encode(v))):
            self.keys.append(self._named("key", term))
        if not self.keys and not self.whole:
            # GROUP BY () of nothing is nothing: a group that there is only where there are rows.
            self.keys = [self._named("one", ONE)]
        self.after = Body(self.builder, self.body.parent)
        self.key_variables = [self.after.variable(v.name) for v in self.keys]
        self._lookups: list[Literal] = []
        self._optional: list[_Optional] = []
        self._ties = len(outside)
        # Is there a row in each group for sure?
        self.filled = not self.whole
        self._grouped = len(self.body.literals)

    def _named(self, stem: str, term: Term) -> Variable:
        """A variable for a term that is never NULL."""
        if isinstance(term, Variable) and term not in self.keys:
            return term
        variable = self.builder.variable(stem)
        self.literals.append(Comparison("=", variable, term))
        return variable

    # ---- what was grouped by

    def value(self, number: int) -> Lowered:
        """One of the values that are grouped by, behind the grouping."""
        place = self._ties + sum(width_of(v) for v in self.values[:number])
        value = self.values[number]
        return decode(tuple(self.key_variables[place : place + width_of(value)]), value)

    # ---- aggregates

    def aggregate(self, node: exp.Expr) -> Lowered:
        key = node.sql("spark")
        if key not in self._known:
            self._known[key] = self._aggregate(node)
        return self._known[key]

    def _check_columns(self, node: exp.Expr) -> None:
        """Aggregates are of columns of their own query."""
        for column in node.find_all(exp.Column):
            found = None if column.is_star or column.parent_select is not node.parent_select else self.body.find(column)
            if found is not None and not {v.name for v in variables_of(found.term)} <= self.body.own:
                what, hint = f'"{column.name}" of the query around it in an aggregate', "Aggregate columns of the query itself."
                self.builder.statement.refuse("SQL_UNSUPPORTED", column, what=what, hint=hint)

    def _aggregate(self, node: exp.Expr) -> Lowered:
        self._check_columns(node)
        condition: Lowered | None = None
        expressions = Expressions(self.queries, self.body)
        function = node
        if isinstance(node, exp.Filter):
            condition, function = expressions.boolean(node.expression.this), node.this
        refuse_no_argument(self.queries, function)
        kind: type[exp.Expr] = type(function)
        argument = function.this
        if isinstance(function, exp.Anonymous):
            kind, argument = BY_NAME[function.name.lower()], function.expressions[0]
        elif isinstance(function, exp.Any):
            kind = exp.LogicalOr
        if kind not in AGGREGATES:
            name = function_name(function, self.builder.statement.source)
            hint = "There are count, sum, avg, min, max, stddev, variance, bool_and, bool_or, count_if and any_value."
            self.builder.statement.refuse("SQL_FUNCTION", node, function=name, why="cannot be kept", hint=hint)
        self._refuse_others(function, kind)
        if isinstance(argument, exp.Paren):
            argument = argument.this
        if isinstance(argument, exp.Distinct):
            return self._of_distinct(kind, [expressions.value(a) for a in argument.expressions], condition, node)
        if kind is exp.Count:
            return self._count(argument, function.expressions, condition, expressions)
        of_conditions = kind in (exp.CountIf, exp.LogicalAnd, exp.LogicalOr)
        value = expressions.boolean(argument) if of_conditions else expressions.value(argument)
        self._take_literals()
        if kind is exp.CountIf:
            return self._number_of(_and(condition, value))
        return self._of(kind, value, condition, node, self.body.times())

    def _refuse_others(self, function: exp.Expr, kind: type[exp.Expr]) -> None:
        """Refuses more arguments than an aggregate takes; only count takes several."""
        several = kind is exp.Count and not isinstance(function.this, exp.Star)
        alone = isinstance(function, exp.Anonymous) and len(function.expressions) == 1
        refuse_others(function, ("this", "expressions") if several or alone else ("this",), self.builder.statement)
        if kind is not exp.Count and isinstance(function.this, exp.Distinct) and len(function.this.expressions) > 1:
            refuse_others(function, (), self.builder.statement)

    def _take_literals(self) -> None:
        """Subqueries in the arguments of aggregates add to what is grouped."""
        added = self.body.literals[self._grouped :]
        if added and self.correlation is not None:
            what = "a subquery in an aggregate of a correlated subquery"
            self.builder.statement.refuse("SQL_UNSUPPORTED", None, what=what, hint="Compute it in FROM.")
        self.literals += added
        self._grouped = len(self.body.literals)

    def _count(
        self, argument: exp.Expr, others: Sequence[exp.Expr], condition: Lowered | None, expressions: Expressions
    ) -> Lowered:
        present_in: Lowered | None = condition
        if not isinstance(argument, exp.Star):
            for node in (argument, *others):
                value = expressions.value(node)
                if value.nullable:
                    present_in = _and(present_in, boolean(Call("sql_not", (is_null(value),)), False))
            self._take_literals()
        return self._number_of(present_in)

    def _number_of(self, condition: Lowered | None) -> Lowered:
        times = self.body.times()
        if condition is None:
            return Lowered(self._result("count" if times is None else "sum", times, BIGINT), BIGINT)
        return Lowered(self._result("sum", Call("sql_if", (condition.term, times or ONE, ZERO)), BIGINT), BIGINT)

    def _of(
        self, kind: type[exp.Expr], value: Lowered, condition: Lowered | None, node: exp.Expr, times: Term | None
    ) -> Lowered:
        if kind in (exp.LogicalAnd, exp.LogicalOr):
            return self._logical(kind, value, condition, node)
        if kind in (exp.Min, exp.Max, exp.AnyValue):
            return self._extreme("max" if kind is exp.Max else "min", value, condition)
        if value.type.kind is None:
            return null_of(BIGINT if kind is exp.Sum else DOUBLE)
        if value.type.kind not in (Kind.NUMBER, Kind.DECIMAL, Kind.FLOAT):
            why = f"there is no sum or mean of values of type {value.type}"
            self.builder.statement.refuse("SQL_TYPE", node, why=why, hint="Use CAST to make them numbers.")
        included = condition
        if value.nullable:
            included = _and(included, boolean(Call("sql_not", (is_null(value),)), False))
        certain = included is None and self.filled
        if kind is exp.Sum and certain:
            return self._sum(value, included, times)
        number = self._number_of(included)
        if kind is exp.Sum:
            return self._or_null(self._sum(value, included, times), number, certain)
        if kind is exp.Avg:
            return self._mean(value, included, number, times, certain)
        return self._deviation(kind, value, included, number, times)

    def _sum(self, value: Lowered, included: Lowered | None, times: Term | None) -> Lowered:
        result = value.type
        if value.type.kind is Kind.DECIMAL:
            precision, scale = value.type.digits
            result = bounded(precision + _TENTHS, scale)
            if result.scale != scale:
                result = decimal(38, scale)
        elif value.type.kind is Kind.NUMBER:
            result = BIGINT
        term = present(value)
        if times is not None:
            term = Call("*", (term, _in_type(times, value.type)))
        if included is not None:
            term = Call("sql_if", (included.term, term, nothing_of(value.type)))
        return Lowered(self._result("sum", term, result), result)

    def _or_null(self, value: Lowered, number: Lowered, certain: bool) -> Lowered:
        """NULL where nothing was added up."""
        if certain:
            return value
        return choice(Call("sql_eq", (number.term, ZERO)), null_of(value.type), value)

    def _mean(self, value: Lowered, included: Lowered | None, number: Lowered, times: Term | None, certain: bool) -> Lowered:
        total = self._sum(value, included, times)
        return self._or_null(mean_of(total, number, value.type), number, certain)

    def _deviation(
        self, kind: type[exp.Expr], value: Lowered, included: Lowered | None, number: Lowered, times: Term | None
    ) -> Lowered:
        one = convert(value, DOUBLE)
        square = Lowered(Call("*", (one.term, one.term)), DOUBLE, one.nullable)
        return deviation(kind, self._sum(one, included, times), self._sum(square, included, times), number)

    def _logical(self, kind: type[exp.Expr], value: Lowered, condition: Lowered | None, node: exp.Expr) -> Lowered:
        if value.type.kind not in (Kind.BOOL, None):
            why = f"conditions are needed here, not values of type {value.type}"
            self.builder.statement.refuse("SQL_TYPE", node, why=why, hint="Compare them with something.")
        deciding = kind is exp.LogicalOr
        decided = boolean(Call("sql_same", (value.term, TRUE if deciding else FALSE)), False)
        other = boolean(Call("sql_same", (value.term, FALSE if deciding else TRUE)), False)
        first, second = self._number_of(_and(condition, decided)), self._number_of(_and(condition, other))
        undecided = choice(Call("sql_gt", (second.term, ZERO)), boolean(FALSE if deciding else TRUE, False), null_of(BOOLEAN))
        return choice(Call("sql_gt", (first.term, ZERO)), boolean(TRUE if deciding else FALSE, False), undecided)

    def _extreme(self, operation: str, value: Lowered, condition: Lowered | None) -> Lowered:
        if value.type.kind is None:
            return null_of(value.type)
        if value.type.kind is Kind.BOOL:
            numbers = Lowered(Call("to_number", (value.term,)), BIGINT, value.nullable)
            found = self._extreme(operation, numbers, condition)
            return boolean(Call("sql_ne", (found.term, ZERO)), found.nullable)
        certain = condition is None and not value.nullable and self.filled
        key = (operation, value.term, condition.term if condition else None, certain)
        if key not in self._extremes:
            self._extremes[key] = (self.after.variable(operation), self.after.variable("nothing"), value)
        variable, nothing, _ = self._extremes[key]
        found = Lowered(variable, value.type)
        return found if certain else choice(nothing, null_of(value.type), found)

    def _of_distinct(self, kind: type[exp.Expr], values: list[Lowered], condition: Lowered | None, node: exp.Expr) -> Lowered:
        """What is counted or added up once for each value: over a relation of the values."""
        self._take_literals()
        if kind in (exp.Min, exp.Max):
            return self._extreme("min" if kind is exp.Min else "max", values[0], condition)
        if kind not in (exp.Count, exp.Sum, exp.Avg) or (kind is not exp.Count and len(values) > 1):
            self.builder.statement.refuse("SQL_UNSUPPORTED", node, what="DISTINCT in this aggregate", hint="Leave it out.")
        there = [Test("is_null", (v.term,), negated=True) for v in values if v.nullable]
        chosen = [Test("holds", (condition.term,))] if condition else []
        columns = [(v.name, self._type_of_key(i)) for i, v in enumerate(self.keys)]
        columns += [(f"value{i}", v.type) for i, v in enumerate(values)]
        head = [*self.keys, *(present(v) for v in values)]
        once = self.builder.derive(columns, (head, [*self.literals, *there, *chosen]))
        variables = [self.builder.variable("value") for _ in values]
        literals: list[Literal] = [Atom(once.name, (*self.keys, *variables))]
        results: list[tuple[str, Aggregate, SqlType]] = [("n", Aggregate("count", None, ()), BIGINT)]
        value = Lowered(variables[0], values[0].type)
        if kind is not exp.Count:
            result = (
                bounded(value.type.digits[0] + _TENTHS, value.type.scale) if value.type.kind is Kind.DECIMAL else value.type
            )
            results.append(("total", Aggregate("sum", variables[0], ()), BIGINT if result.kind is Kind.NUMBER else result))
        keys = [(v.name, v) for v in self.keys]
        relation = self.builder.group(keys, results, literals)
        found = self._look_up(relation.name, [(name, type_) for name, _, type_ in results])
        number = found[0]
        if kind is exp.Count:
            return number
        total = found[1]
        if kind is exp.Sum:
            return self._or_null(total, number, False)
        return self._or_null(mean_of(total, number, value.type), number, False)

    def _type_of_key(self, place: int) -> SqlType:
        """The type of a group's column."""
        if place < self._ties:
            assert self.correlation is not None
            return self.queries.type_of(self.correlation.inside[place], self.literals)
        types = [t for v in self.values for t in ((v.type, BOOLEAN) if v.nullable else (v.type,))]
        return types[place - self._ties] if types else BIGINT

    def _look_up(self, relation: str, columns: Iterable[tuple[str, SqlType]]) -> list[Lowered]:
        """Columns of a relation of the groups; where it has none of them, zeros."""
        variables = [(self.after.variable(name), type_) for name, type_ in columns]
        atom = Atom(relation, (*self.key_variables, *(v for v, _ in variables)))
        absent = Negation(Atom(relation, (*self.key_variables, *(Wildcard() for _ in variables))))
        zeros = [Comparison("=", v, nothing_of(type_)) for v, type_ in variables]
        if self.key_variables or not self.whole:
            self._optional.append(_Optional(variables, (atom,), (absent, *zeros)))
        else:
            self._lookups.append(atom)
        return [Lowered(v, type_) for v, type_ in variables]

    def _result(self, operation: str, target: Term | None, type_: SqlType) -> Variable:
        key = (operation, target)
        if key not in self._results:
            self._results[key] = (self.after.variable("n" if target is None else operation), type_)
        return self._results[key][0]

    # ---- the relations

    def finish(self, loose: bool = False) -> Body:
        """The body behind the grouping. ``loose``: with zeros where there is no such group, for subqueries."""
        keys = [(v.name, v) for v in self.keys]
        extremes = []
        for (operation, target, condition, certain), (variable, nothing, value) in self._extremes.items():
            chosen = [Test("holds", (condition,))] if condition is not None else []
            results = [(operation, Aggregate(operation, target, ()), value.type)]
            relation = self.builder.group(keys, results, [*self.literals, *chosen])
            extremes.append((relation.name, variable, nothing, value, certain and not loose))
        bound = self._totals(keys, loose, any(certain for *_, certain in extremes))
        for name, variable, nothing, value, certain in extremes:
            atom = Atom(name, (*self.key_variables, variable))
            if certain:
                bound.append(atom)
                continue
            absent = Negation(Atom(name, (*self.key_variables, Wildcard())))
            there = (atom, Comparison("=", nothing, FALSE))
            missing = (absent, Comparison("=", variable, nothing_of(value.type)), Comparison("=", nothing, TRUE))
            self._optional.append(_Optional([(variable, value.type), (nothing, BOOLEAN)], there, missing))
        after = self.after
        after.literals = [*bound, *self._looked_up(bound), *self._lookups]
        if self.correlation is not None and not loose:
            ties = zip(self.correlation.outside, self.key_variables, strict=False)
            after.literals += [Comparison("=", outside, variable) for outside, variable in ties]
        after.keys = [(tuple(v.name for v in self.key_variables),)]
        after.sources = list(self._sources())
        return after

    def _looked_up(self, bound: Sequence[Literal]) -> list[Literal]:
        """What a group may not have: looked up with two alternatives each. These multiply, so from a few on each gets a relation in which every
        group has a row; what the groups are must be known for that."""
        width = len(self.key_variables)
        known: list[Literal] = [
            Atom(atom.relation, (*self.key_variables, *(Wildcard() for _ in atom.arguments[width:])))
            for atom in bound
            if isinstance(atom, Atom)
        ]
        if len(self._optional) <= _FEW_OPTIONAL or (self.key_variables and not known):
            return [Either((one.there, one.missing)) for one in self._optional]
        keys = [(v.name, self._type_of_key(i)) for i, v in enumerate(self.keys)]
        found: list[Literal] = []
        for one in self._optional:
            row = [*self.key_variables, *(variable for variable, _ in one.variables)]
            columns = [*keys, *((variable.name, type_) for variable, type_ in one.variables)]
            relation = self.builder.derive(columns, (row, [*known[:1], *one.there]), (row, [*known[:1], *one.missing]))
            found.append(Atom(relation.name, tuple(row)))
        return found

    def _totals(self, keys: list[tuple[str, Variable]], loose: bool, bound: bool) -> list[Literal]:
        """What is counted and added up; and that there is such a group, if nothing else says so."""
        if not self._results:
            if bound or loose or (not self.key_variables and self.whole):
                return []
            columns = [(name, self._type_of_key(i)) for i, (name, _) in enumerate(keys)]
            relation = self.builder.derive(columns, ([v for _, v in keys], self.literals))
            return [Atom(relation.name, tuple(self.key_variables))]
        results = [
            (variable.name, Aggregate(operation, target, ()), type_)
            for (operation, target), (variable, type_) in self._results.items()
        ]
        relation = self.builder.group(keys, results, self.literals)
        variables = [variable for variable, _ in self._results.values()]
        atom = Atom(relation.name, (*self.key_variables, *variables))
        if not (loose and self.key_variables):
            return [atom]
        absent = Negation(Atom(relation.name, (*self.key_variables, *(Wildcard() for _ in variables))))
        zeros = [Comparison("=", v, nothing_of(type_)) for v, type_ in self._results.values()]
        return [Either(((atom,), (absent, *zeros)))]

    def _sources(self) -> Iterable[Source]:
        """Columns that were grouped by can be named in subqueries behind the grouping."""
        for source in self.body.sources:
            columns = [
                (name, self.value(number))
                for name, column in source.columns
                for number, value in enumerate(self.values)
                if column.term == value.term
            ]
            yield Source(source.alias, tuple(columns), source.hidden)


@dataclass(frozen=True)
class _Optional:
    """Values that a relation of the groups may not have for a group, and what they are then."""

    variables: Sequence[tuple[Variable, SqlType]]
    there: tuple[Literal, ...]
    missing: tuple[Literal, ...]


def deviation(kind: type[exp.Expr], total: Lowered, squares: Lowered, number: Lowered) -> Lowered:
    """A standard deviation or variance of so many values, from their sum and that of their squares."""
    whole = kind in (exp.StddevPop, exp.VariancePop)
    n = Call("to_float", (number.term,))
    spread: Term = Call("-", (squares.term, Call("/", (Call("*", (total.term, total.term)), n))))
    spread = Call("max", (spread, Constant(0.0, DOUBLE.kept)))
    divisor: Term = n if whole else Call("-", (n, Constant(1.0, DOUBLE.kept)))
    variance: Term = Call("/", (spread, divisor))
    if kind not in (exp.Variance, exp.VariancePop):
        variance = Call("sql_sqrt", (variance,))
    few = Call("sql_lt", (number.term, ONE if whole else Constant(2, NUMBER)))
    return choice(few, null_of(DOUBLE), Lowered(variance, DOUBLE))


def _and(left: Lowered | None, right: Lowered) -> Lowered:
    if left is None:
        return right
    return boolean(Call("sql_and", (left.term, right.term)), left.nullable or right.nullable)


def _in_type(times: Term, type_: SqlType) -> Term:
    """A number of copies as a factor."""
    match type_.kind:
        case Kind.DECIMAL:
            return Call("sql_decimal", (times, Constant(18, NUMBER), ZERO))
        case Kind.FLOAT:
            return Call("to_float", (times,))
    return times
