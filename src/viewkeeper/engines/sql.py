"""Core rules → SELECT statements, in one compiler; what differs between the engines is in their dialects.

A rule becomes

    SELECT head FROM atoms WHERE joins AND comparisons AND NOT EXISTS negations

Values of the program are parameters, never text. Arithmetic that may overflow is checked once, where a chain of + - * ends
(``Expression.chain``). A comparison that can fail is evaluated only where those hold that cannot, or not as easily (``Risk``).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum

from viewkeeper.engines.names import sql_name
from viewkeeper.engines.order import Access, Matches, accesses, join_order
from viewkeeper.engines.windows import Windows, limited
from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Literal,
    Negation,
    Relation,
    Rule,
    Term,
    Test,
    Truth,
    Variable,
    Wildcard,
    all_variables,
    literal_terms,
)
from viewkeeper.program.functions import FUNCTIONS, Function
from viewkeeper.program.grouping import Grouping, grouping_of
from viewkeeper.program.hierarchy import Hierarchy
from viewkeeper.program.types import MAX_PRECISION, NUMBER, Kind, Type
from viewkeeper.program.typing import Inferred, Typer
from viewkeeper.program.values import Stored, store
from viewkeeper.program.windows import windowing_of

CHAINED = frozenset({"+", "-", "*", "neg", "rescale"})
_LARGEST = 10**MAX_PRECISION - 1
LONGEST_CHAIN = 8  # An engine that goes on in doubles must not reach infinity before the check.


class Reading(Enum):
    """Which rows of a relation an atom sees."""

    ALL = "all"
    DELTA = "delta"


class Risk(IntEnum):
    """How an expression can fail."""

    NONE = 0
    OVERFLOW = 1  # of + - *, which nobody expects
    ANY = 2


@dataclass(frozen=True)
class Expression:
    """A piece of SQL with its type. ``chain`` is the number of steps of arithmetic whose overflow was not checked yet.

    ``value`` is that of a constant; ``most``, of a decimal, what its digits can be at most without the point, where that is known.
    """

    sql: str
    type: Type
    chain: int = 0
    risk: Risk = Risk.NONE
    nullable: bool = False
    value: object = None
    most: int | None = None


@dataclass(frozen=True)
class Statement:
    """A SELECT with its parameters, and how it searches the relations it reads."""

    sql: str
    parameters: dict[str, Stored]
    accesses: tuple[Access, ...]
    aliases: dict[str, tuple[str, Reading]]


class Dialect(ABC):
    """What differs between the engines.

    ``hasty``: the engine calls functions in Python for every row, even in a branch of a CASE that is not taken.
    ``same``: the operator that is true of NULL and NULL.
    """

    hasty = False
    same = "IS"

    @abstractmethod
    def identifier(self, name: str) -> str: ...

    @abstractmethod
    def source(self, relation: Relation, reading: Reading, alias: str) -> tuple[str, list[str]]:
        """The FROM item of an atom (none if it is a row of a query around this one), and conditions that go with it."""

    def layered(self, relation: Relation, bound: Collection[int]) -> int | None:
        """The column, of those bound, whose value is looked up before the rows that have it (``layered.Layered``)."""
        return None

    def layered_rows(self, relation: Relation, place: int, alias: str, value: str) -> str:
        """The condition that a row has a value, and is found so."""
        raise AssertionError("an engine without such indexes names no column to find rows by")

    @abstractmethod
    def parameter(self, name: str, type_: Type) -> str: ...

    @abstractmethod
    def checked(self, expression: Expression) -> str:
        """A finished chain of + - *, with a failure if it left its type's range."""

    @abstractmethod
    def call(self, function: str, arguments: Sequence[Expression], result: Type) -> str: ...

    @abstractmethod
    def test(self, predicate: str, arguments: Sequence[str]) -> str: ...

    @abstractmethod
    def aggregate(self, operation: str, target: Expression | None, result: Type) -> str: ...

    @abstractmethod
    def window(self, operation: str, target: str, type_: Type | None, over: str, own: bool) -> str:
        """The value of count, sum, min, max or mean in a window; NULL of nothing, but for count. ``own``: the row itself is in it."""

    @abstractmethod
    def chosen(self, operation: str, target: str, row: str, number: int, over: str) -> str:
        """The first, last or so many-th value in a window by the numbers of its rows, whatever order the window has."""

    @abstractmethod
    def range(self, arguments: Sequence[str], alias: str) -> tuple[str, str]:
        """A FROM item that yields the numbers of a range, and the name of its value."""

    def column(self, alias: str, relation: Relation, position: int) -> str:
        return f"{alias}.{self.identifier(sql_name(relation.columns[position].name))}"


@dataclass
class Compiler:
    """Compiles the rules of one core program."""

    relations: Mapping[str, Relation]
    hierarchy: Hierarchy
    dialect: Dialect

    def rule(
        self,
        rule: Rule,
        delta: int | None = None,
        sizes: Mapping[str, int] | None = None,
        first: int | None = None,
        matches: Matches | None = None,
    ) -> Statement:
        """The rule, with the literal at position ``delta`` reading only the newest rows. The join starts there, or at ``first``."""
        if windowing_of(rule) is not None:
            return self.windows(rule)
        typer = Typer(dict(self.relations), self.hierarchy)
        _, types = typer.rule(rule)
        grouped = grouping_of(rule)
        body = rule.body if grouped is None else grouped.body
        targets = () if grouped is None else [a.target for a in grouped.aggregates if a.target is not None]
        results = (*rule.head.arguments, *targets)
        compilation = _Body(self, typer, body, results, types, {} if sizes is None else sizes, delta, first, matches)
        if grouped is None:
            heads = [compilation.root(compilation.term(a)) for a in rule.head.arguments]
            sql = f"SELECT {_named(heads)}{compilation.tail()}"
        else:
            sql = self._grouping(rule.head, grouped, compilation)
        return Statement(sql, compilation.parameters, tuple(compilation.accesses), compilation.aliases)

    def windows(self, rule: Rule, where: str = "", single: bool = False, beside: str = "") -> Statement:
        """A rule with windows; ``where``: a condition for the rows t0 that it reads, all of one partition if ``single``.

        ``beside``: another FROM item, which the condition compares them with.
        """
        windowing = windowing_of(rule)
        assert windowing is not None
        typer = Typer(dict(self.relations), self.hierarchy)
        _, types = typer.rule(rule)
        body = _Body(self, typer, (windowing.source,), rule.head.arguments, types, {}, None, None)
        windows = Windows(self.dialect, self.relations[windowing.source.relation], windowing, types)
        inner = windows.select(f"{beside} CROSS JOIN {body.sources[0]}" if beside else body.sources[0], where, single)
        body.bindings = {name: Expression(f"g.g{i}", types[name], nullable=True) for i, name in enumerate(windowing.columns)}
        body.bindings |= {name: Expression(f"g.v{i}", types[name], nullable=True) for i, name in enumerate(windowing.results)}
        heads = [body.root(body.term(a)) for a in rule.head.arguments]
        sql = f"SELECT {_named(heads)} FROM ({inner}) AS g WHERE {limited(windowing)}"
        return Statement(sql, body.parameters, (), body.aliases)

    def _grouping(self, head: Atom, grouping: Grouping, body: _Body) -> str:
        # SELECT head FROM (SELECT groups, aggregates FROM body GROUP BY groups) WHERE there are results
        columns = [body.root(body.term(Variable(name))) for name in grouping.groups]
        values = [self._value(a, body.types[name], body) for name, a in zip(grouping.results, grouping.aggregates, strict=True)]
        selected = [f"{sql} AS g{i}" for i, sql in enumerate(columns)] + [f"{sql} AS v{i}" for i, sql in enumerate(values)]
        grouped = f" GROUP BY {', '.join(columns)}" if columns else ""
        inner = f"SELECT {', '.join(selected)}{body.tail()}{grouped}"
        body.bindings = {name: Expression(f"g.g{i}", body.types[name]) for i, name in enumerate(grouping.groups)}
        body.bindings |= {name: Expression(f"g.v{i}", body.types[name]) for i, name in enumerate(grouping.results)}
        heads = [body.root(body.term(a)) for a in head.arguments]
        there = " AND ".join(f"g.v{i} IS NOT NULL" for i in range(len(values)))
        return f"SELECT {_named(heads)} FROM ({inner}) AS g WHERE {there}"

    def _value(self, aggregate: Aggregate, result: Type, body: _Body) -> str:
        target = None if aggregate.target is None else body.term(aggregate.target)
        if target is not None:
            target = Expression(body.root(target), target.type)
        return self.dialect.aggregate(aggregate.operation, target, result)


def _named(heads: Sequence[str]) -> str:
    """The head's columns; a relation without columns has one that is always 1."""
    return ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(heads)) if heads else "1 AS c0"


@dataclass
class _Body:
    """The FROM and WHERE of one conjunctive body."""

    compiler: Compiler
    typer: Typer
    body: tuple[Literal, ...]
    results: tuple[Term, ...]
    types: dict[str, Type]
    sizes: Mapping[str, int]
    delta: int | None
    first: int | None
    matches: Matches | None = None
    bindings: dict[str, Expression] = field(default_factory=dict)
    parameters: dict[str, Stored] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    joins: list[str] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    aliases: dict[str, tuple[str, Reading]] = field(default_factory=dict)
    guards: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dialect = self.compiler.dialect
        if not any(isinstance(literal, Atom) for literal in self.body):
            order: list[int] = []
        else:
            first = self.delta if self.first is None else self.first
            order = join_order(self.body, first, self.sizes, self.compiler.relations, self.matches)
        self.accesses = accesses(self.body, order)
        late = [late for number, position in enumerate(order) for late in self._atom(position, f"t{number}")]
        equations = self._equations()
        found: list[Expression | None] = [self._equal(column, term) for column, term in late]
        found += [equations[i] if i in equations else self._condition(literal) for i, literal in enumerate(self.body)]
        conditions = [condition for condition in found if condition is not None]
        negations = [self._negation(literal, i) for i, literal in enumerate(self.body) if isinstance(literal, Negation)]
        safe = [condition.sql for condition in conditions if not condition.risk]
        risky = [c.sql for c in sorted(conditions + negations, key=lambda condition: condition.risk) if c.risk]
        # The joins are among the guards: an engine evaluates a condition as soon as it has the values, before it joins the rest.
        self.conditions = safe + [_guarded(sql, self.joins + safe + risky[:i]) for i, sql in enumerate(risky)]
        self.conditions += [condition.sql for condition in negations if not condition.risk]

    def tail(self) -> str:
        sources = [source for source in self.sources if source]
        text = f" FROM {' CROSS JOIN '.join(sources)}" if sources else ""
        where = self.joins + self.conditions
        if not where:
            return text
        # SQLite wants a FROM-less SELECT to have a WHERE all the same; both engines accept it.
        return f"{text} WHERE {' AND '.join(where)}"

    # ---- atoms

    def _atom(self, position: int, alias: str) -> Iterable[tuple[str, Term]]:
        atom = self.body[position]
        assert isinstance(atom, Atom)
        relation = self.compiler.relations[atom.relation]
        reading = Reading.DELTA if position == self.delta else Reading.ALL
        source, conditions = self.dialect.source(relation, reading, alias)
        self.sources.append(source)
        self.aliases[alias] = (relation.name, reading)
        self.joins += conditions
        layered = self._layered(atom, relation)
        for place, argument in enumerate(atom.arguments):
            column = self.dialect.column(alias, relation, place)
            if place == layered:
                self.joins.append(self.dialect.layered_rows(relation, place, alias, self.term(argument).sql))
                continue
            match argument:
                case Wildcard():
                    continue
                case Variable() if argument.name not in self.bindings:
                    type_ = relation.columns[place].type
                    most = 10**type_.precision - 1 if type_.kind is Kind.DECIMAL else None
                    self.bindings[argument.name] = Expression(
                        column, self.types[argument.name], nullable=type_.nullable, most=most
                    )
                case Variable():
                    self.joins.append(f"{column} = {self.bindings[argument.name].sql}")
                case Constant():
                    self.joins.append(f"{column} = {self.term(argument).sql}")
                case _:
                    yield column, argument

    def _layered(self, atom: Atom, relation: Relation) -> int | None:
        bound = [
            place
            for place, a in enumerate(atom.arguments)
            if isinstance(a, Constant) or (isinstance(a, Variable) and a.name in self.bindings)
        ]
        return self.dialect.layered(relation, bound)

    def _equal(self, column: str, term: Term) -> Expression:
        right = self.term(term)
        return Expression(f"{column} = {self.root(right)}", NUMBER, risk=right.risk)

    def _negation(self, negation: Negation, number: int) -> Expression:
        relation = self.compiler.relations[negation.atom.relation]
        alias = f"n{number}"
        source, conditions = self.dialect.source(relation, Reading.ALL, alias)
        failing = []
        layered = None if negation.same else self._layered(negation.atom, relation)  # NULL has no entries
        for place, argument in enumerate(negation.atom.arguments):
            if not isinstance(argument, Wildcard):
                value = self.term(argument)
                column = self.dialect.column(alias, relation, place)
                if place == layered:
                    conditions.append(self.dialect.layered_rows(relation, place, alias, self.root(value)))
                else:
                    conditions.append(f"{column} {self.dialect.same if negation.same else '='} {self.root(value)}")
                failing += [f"{self.root(value)} IS NULL OR "] if value.risk else []
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        absent = f"NOT EXISTS (SELECT 1{f' FROM {source}' if source else ''}{where})"
        # !r(1 / x) fails for x = 0 even where r is empty; of NULL it holds anyhow.
        return Expression(f"({''.join(failing)}{absent})", NUMBER, risk=Risk.ANY) if failing else Expression(absent, NUMBER)

    # ---- comparisons

    def _equations(self) -> dict[int, Expression | None]:
        """Binds variables by ``x = term``; for each position of an equation used up, what is left of it as a condition."""
        used: dict[int, Expression | None] = {}
        waiting = {i: x for i, x in enumerate(self.body) if isinstance(x, Comparison) and x.operator == "="}
        progress = True
        while progress:
            progress = False
            for position, equation in list(waiting.items()):
                for side, other in ((equation.left, equation.right), (equation.right, equation.left)):
                    if isinstance(side, Variable) and side.name not in self.bindings and self._ready(other):
                        used[position] = self._bind(side.name, other, waiting.pop(position))
                        progress = True
                        break
        return used

    def _ready(self, term: Term) -> bool:
        return set(all_variables((Comparison("=", term, term),))) <= self.bindings.keys()

    def _bind(self, name: str, term: Term, equation: Comparison) -> Expression | None:
        if isinstance(term, Call) and term.function == "range":
            alias = f"g{len(self.sources)}"
            source, value = self.dialect.range([self.root(self.term(a)) for a in term.arguments], alias)
            self.sources.append(source)
            self.bindings[name] = Expression(value, self.types[name])
            return None
        bound = self.term(term)
        root = self.root(bound)
        self.bindings[name] = Expression(root, bound.type, risk=bound.risk)
        # An equation is not true of NULL, and it fails with its term, used or not.
        needed = bound.nullable or bound.risk and not self._is_used(name, equation)
        return Expression(f"{root} IS NOT NULL", NUMBER, risk=bound.risk) if needed else None

    def _is_used(self, name: str, equation: Comparison) -> bool:
        """Is the variable evaluated anyhow, for a result or another condition?"""
        others = [x for x in self.body if isinstance(x, (Comparison, Test)) and x is not equation]
        terms = (*self.results, *(term for literal in others for term in literal_terms(literal)))
        return any(name in _evaluated(term) for term in terms)

    def _condition(self, literal: Literal) -> Expression | None:
        match literal:
            case Comparison(left=member, right=Call(function="range") as call):
                # x = range(…) with x bound already
                alias = f"g{len(self.sources)}"
                source, value = self.dialect.range([self.root(self.term(a)) for a in call.arguments], alias)
                self.sources.append(source)
                return Expression(f"{self.root(self.term(member))} = {value}", NUMBER)
            case Comparison():
                left, right = self._compared(literal.left), self._compared(literal.right)
                operator = "<>" if literal.operator == "!=" else literal.operator
                return Expression(f"{self.root(left)} {operator} {self.root(right)}", NUMBER, risk=max(left.risk, right.risk))
            case Test(predicate="is_null"):
                argument = self.term(literal.arguments[0])
                return Expression(
                    f"{self.root(argument)} IS {'NOT ' if literal.negated else ''}NULL", NUMBER, risk=argument.risk
                )
            case Test():
                arguments = [self.term(a) for a in literal.arguments]
                sql = self.dialect.test(literal.predicate, [self.root(a) for a in arguments])
                unknown = literal.predicate == "match" and not _is_pattern(literal.arguments[0])
                risk = Risk.ANY if unknown else max(a.risk for a in arguments)
                return Expression(f"NOT {sql}" if literal.negated else sql, NUMBER, risk=risk)
            case Truth():
                return Expression("TRUE" if literal.value else "FALSE", NUMBER)
            case _:
                return None

    def _compared(self, term: Term) -> Expression:
        """A side of a comparison. A decimal brought to more digits never fails here: from 19 digits on it is just larger than all."""
        if not (isinstance(term, Call) and term.function == "rescale"):
            return self.term(term)
        value = self._argument(term.arguments[0], chained=False)
        result = self._type(term)
        power = 10 ** (result.scale - value.type.scale)
        low, top, factor = (self._number(n) for n in (10**MAX_PRECISION // power, 10**MAX_PRECISION, power))
        scaled = self.dialect.call("*", [value, factor], result)
        sql = f"CASE WHEN {value.sql} >= {low.sql} THEN {top.sql} WHEN {value.sql} <= -{low.sql} THEN -{top.sql} ELSE {scaled} END"
        return Expression(sql, result, 0, value.risk, value.nullable)

    # ---- terms

    def root(self, expression: Expression) -> str:
        """The expression where its value is used: arithmetic is checked here."""
        return self.dialect.checked(expression) if expression.chain and not _fits(expression) else expression.sql

    def term(self, term: Term) -> Expression:
        match term:
            case Variable():
                return self.bindings[term.name]
            case Constant():
                return self._constant(term)
            case Call():
                return self._call(term)
        raise AssertionError(f"not in a core program: {term}")

    def _constant(self, constant: Constant) -> Expression:
        assert constant.type is not None
        name = f"p{len(self.parameters)}"
        # A constant with more digits than its place has is just a constant that equals nothing there.
        self.parameters[name] = store(constant.value, constant.type.optional())
        sql = self.dialect.parameter(name, constant.type)
        stored = self.parameters[name]
        most = abs(stored) if constant.type.kind is Kind.DECIMAL and isinstance(stored, int) else None
        return Expression(sql, constant.type, nullable=constant.value is None, value=constant.value, most=most)

    def _call(self, call: Call) -> Expression:
        function = FUNCTIONS[call.function]
        chained = call.function in CHAINED
        arguments = self._arguments(call, function, chained and call.function != "rescale")
        result = self._type(call)
        fails = function.can_fail([a.value for a in arguments])
        own = Risk.NONE if not fails else Risk.OVERFLOW if chained else Risk.ANY
        risk = max(own, *(a.risk for a in arguments))
        nullable = function.may_be_null([a.nullable for a in arguments])
        chain = 1 + sum(a.chain for a in arguments) if chained else 0
        if call.function == "rescale":
            arguments[1] = self._number(10 ** (result.scale - arguments[0].type.scale))
        most = _most(call.function, arguments) if chained and result.kind is Kind.DECIMAL else None
        name = "*" if call.function == "rescale" else call.function
        if risk and self.guards and "vk_" in self.dialect.call(name, [replace(a, sql="x") for a in arguments], result):
            guards = " AND ".join(self.guards)
            arguments = [replace(a, sql=f"CASE WHEN {guards} THEN {a.sql} END") for a in arguments]
        return Expression(self.dialect.call(name, arguments, result), result, chain, risk, nullable, most=most)

    def _arguments(self, call: Call, function: Function, chained: bool) -> list[Expression]:
        """The arguments. What a hasty engine calls in one that may not be needed gets NULL where it is not."""
        found: list[Expression] = []
        for place, argument in enumerate(call.arguments):
            guards = self.guards
            if self.dialect.hasty and 0 <= function.sure <= place:
                self.guards = [*guards, *_needed(call.function, [a.sql for a in found], len(call.arguments))]
            found.append(self._argument(argument, chained))
            self.guards = guards
        return found

    def _argument(self, term: Term, chained: bool) -> Expression:
        """An operand; in a chain of arithmetic its check may wait for the end of the chain."""
        found = self.term(term)
        match found.type.kind:
            case Kind.UNSIGNED:
                waits = False  # 1 - 2 + 3 must fail
            case Kind.DECIMAL:
                # Each result must have 18 digits. An operand brought to the scale of the other may have more until they are added.
                waits = _fits(found) or (isinstance(term, Call) and term.function == "rescale")
            case _:
                waits = found.chain < LONGEST_CHAIN
        return found if chained and waits else replace(found, sql=self.root(found), chain=0)

    def _type(self, call: Call) -> Type:
        inferred = self.typer._infer(call, {n: Inferred(e.type) for n, e in self.bindings.items()})
        assert inferred is not None, call
        return inferred.type

    def _number(self, value: int) -> Expression:
        name = f"p{len(self.parameters)}"
        self.parameters[name] = value
        return Expression(self.dialect.parameter(name, NUMBER), NUMBER, value=value)


def _evaluated(term: Term) -> set[str]:
    """The variables that are evaluated with the term in any case."""
    match term:
        case Variable():
            return {term.name}
        case Call():
            sure = FUNCTIONS[term.function].sure
            arguments = term.arguments if sure == -1 else term.arguments[:sure]
            return set().union(*map(_evaluated, arguments))
    return set()


def _needed(function: str, before: Sequence[str], count: int) -> list[str]:
    """When the next argument of a function is needed, given those before it: what Spark's SQL says of it."""
    match function:
        case "coalesce":
            return [f"{sql} IS NULL" for sql in before]
        case "sql_and" | "sql_or":
            return [f"{sql} IS DISTINCT FROM {'0L' if function == 'sql_and' else '1L'}" for sql in before]
    # Behind condition, value, …, condition comes the value of the last condition, or else another condition or the last value.
    is_value = len(before) % 2 == 1 and len(before) < count
    unmet = before[:-1:2] if is_value else before[::2]
    return [*(f"{sql} IS DISTINCT FROM 1L" for sql in unmet), *([f"{before[-1]} = 1L"] if is_value else [])]


def _is_pattern(term: Term) -> bool:
    """A constant that is a regular expression cannot make a match fail."""
    try:
        return isinstance(term, Constant) and isinstance(term.value, str) and bool(re.compile(term.value))
    except re.error:
        return False


def _guarded(condition: str, guards: Sequence[str]) -> str:
    if not guards:
        return f"({condition})"
    return f"CASE WHEN {' AND '.join(guards)} THEN {condition} ELSE FALSE END"


def _fits(expression: Expression) -> bool:
    """Is it a decimal that cannot have too many digits?"""
    return expression.most is not None and expression.most <= _LARGEST


def _most(function: str, arguments: Sequence[Expression]) -> int:
    """What the result of decimal arithmetic can be at most, without its point."""
    first, *others = [a.most if a.most is not None and (a.chain or _fits(a)) else _LARGEST for a in arguments]
    match function:
        case "neg":
            return first
        case "rescale":
            factor = arguments[1].value
            assert isinstance(factor, int)
            return first * factor
        case "*":
            return first * others[0]
    return first + others[0]
