"""Core rules → SELECT statements, in one compiler; what differs between the engines is in their dialects.

A rule becomes

    SELECT head FROM atoms WHERE joins AND comparisons AND NOT EXISTS negations

Values of the program are parameters, never text. Arithmetic that may overflow is checked once, where a chain of + - * ends
(``Expression.chain``). A comparison that can fail is evaluated only where the other comparisons hold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from viewkeeper.engines.names import sql_name
from viewkeeper.engines.order import Access, accesses, join_order
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
)
from viewkeeper.program.functions import FUNCTIONS
from viewkeeper.program.hierarchy import Hierarchy
from viewkeeper.program.types import NUMBER, Kind, Type
from viewkeeper.program.typing import Inferred, Typer, group_variables, grouping_aggregate
from viewkeeper.program.values import Stored, store

CHAINED = frozenset({"+", "-", "*", "neg", "rescale"})


class Reading(Enum):
    """Which rows of a relation an atom sees."""

    ALL = "all"
    DELTA = "delta"


@dataclass(frozen=True)
class Expression:
    """A piece of SQL with its type. ``chain`` says that it is arithmetic whose overflow was not checked yet."""

    sql: str
    type: Type
    chain: bool = False
    partial: bool = False
    nullable: bool = False


@dataclass(frozen=True)
class Statement:
    """A SELECT with its parameters, and how it searches the relations it reads."""

    sql: str
    parameters: dict[str, Stored]
    accesses: tuple[Access, ...]


class Dialect(ABC):
    """What differs between the engines."""

    @abstractmethod
    def identifier(self, name: str) -> str: ...

    @abstractmethod
    def source(self, relation: Relation, reading: Reading, alias: str) -> tuple[str, list[str]]:
        """The FROM item of an atom, and conditions that go with it."""

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

    def rule(self, rule: Rule, delta: int | None = None, sizes: Mapping[str, int] | None = None) -> Statement:
        """The rule, with the literal at position ``delta`` reading only the newest rows."""
        typer = Typer(dict(self.relations), self.hierarchy)
        _, types = typer.rule(rule)
        grouped = grouping_aggregate(rule)
        body = rule.body if grouped is None else grouped.body
        compilation = _Body(self, typer, body, types, sizes or {}, delta)
        if grouped is None:
            heads = [compilation.root(compilation.term(a)) for a in rule.head.arguments]
            sql = f"SELECT {_named(heads)}{compilation.tail()}"
        else:
            sql = self._grouping(rule, grouped, compilation)
        return Statement(sql, compilation.parameters, tuple(compilation.accesses))

    def _grouping(self, rule: Rule, aggregate: Aggregate, body: _Body) -> str:
        # SELECT head FROM (SELECT groups, aggregate FROM body GROUP BY groups) WHERE there is a result
        comparison = rule.body[0]
        assert isinstance(comparison, Comparison) and isinstance(comparison.left, Variable)
        result = comparison.left.name
        groups = group_variables(rule, aggregate)
        columns = [body.root(body.term(Variable(name))) for name in groups]
        target = None if aggregate.target is None else body.term(aggregate.target)
        if target is not None:
            target = Expression(body.root(target), target.type)
        value = self.dialect.aggregate(aggregate.operation, target, body.types[result])
        selected = [f"{sql} AS g{i}" for i, sql in enumerate(columns)] + [f"{value} AS v"]
        grouping = f" GROUP BY {', '.join(columns)}" if columns else ""
        inner = f"SELECT {', '.join(selected)}{body.tail()}{grouping}"
        body.bindings = {name: Expression(f"g.g{i}", body.types[name]) for i, name in enumerate(groups)}
        body.bindings[result] = Expression("g.v", body.types[result])
        heads = [body.root(body.term(a)) for a in rule.head.arguments]
        return f"SELECT {_named(heads)} FROM ({inner}) AS g WHERE g.v IS NOT NULL"


def _named(heads: Sequence[str]) -> str:
    """The head's columns; a relation without columns has one that is always 1."""
    return ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(heads)) if heads else "1 AS c0"


@dataclass
class _Body:
    """The FROM and WHERE of one conjunctive body."""

    compiler: Compiler
    typer: Typer
    body: tuple[Literal, ...]
    types: dict[str, Type]
    sizes: Mapping[str, int]
    delta: int | None
    bindings: dict[str, Expression] = field(default_factory=dict)
    parameters: dict[str, Stored] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    joins: list[str] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dialect = self.compiler.dialect
        if not any(isinstance(literal, Atom) for literal in self.body):
            order: list[int] = []
        else:
            order = join_order(self.body, self.delta, self.sizes)
        self.accesses = accesses(self.body, order)
        late = [late for number, position in enumerate(order) for late in self._atom(position, f"t{number}")]
        equations = self._equations()
        total: list[str] = []
        partial: list[str] = []
        for sql, term in late:
            right = self.term(term)
            (partial if right.partial else total).append(f"{sql} = {self.root(right)}")
        for literal in self.body:
            if literal in equations:
                continue
            condition = self._condition(literal)
            if condition is not None:
                (partial if condition.partial else total).append(condition.sql)
        self.conditions = total + [_guarded(sql, total) for sql in partial]
        self.conditions += [self._negation(literal, i) for i, literal in enumerate(self.body) if isinstance(literal, Negation)]

    def tail(self) -> str:
        text = f" FROM {' CROSS JOIN '.join(self.sources)}" if self.sources else ""
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
        self.joins += conditions
        for place, argument in enumerate(atom.arguments):
            column = self.dialect.column(alias, relation, place)
            match argument:
                case Wildcard():
                    continue
                case Variable() if argument.name not in self.bindings:
                    nullable = relation.columns[place].type.nullable
                    self.bindings[argument.name] = Expression(column, self.types[argument.name], nullable=nullable)
                case Variable():
                    self.joins.append(f"{column} = {self.bindings[argument.name].sql}")
                case Constant():
                    self.joins.append(f"{column} = {self.term(argument).sql}")
                case _:
                    yield column, argument

    def _negation(self, negation: Negation, number: int) -> str:
        relation = self.compiler.relations[negation.atom.relation]
        alias = f"n{number}"
        source, conditions = self.dialect.source(relation, Reading.ALL, alias)
        for place, argument in enumerate(negation.atom.arguments):
            if not isinstance(argument, Wildcard):
                conditions.append(f"{self.dialect.column(alias, relation, place)} = {self.root(self.term(argument))}")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"NOT EXISTS (SELECT 1 FROM {source}{where})"

    # ---- comparisons

    def _equations(self) -> list[Literal]:
        """Binds variables by ``x = term``; returns the equations used up."""
        used: list[Literal] = []
        waiting = [x for x in self.body if isinstance(x, Comparison) and x.operator == "="]
        progress = True
        while progress:
            progress = False
            for equation in list(waiting):
                for side, other in ((equation.left, equation.right), (equation.right, equation.left)):
                    if isinstance(side, Variable) and side.name not in self.bindings and self._ready(other):
                        self._bind(side.name, other)
                        waiting.remove(equation)
                        used.append(equation)
                        progress = True
                        break
        return used

    def _ready(self, term: Term) -> bool:
        return set(all_variables((Comparison("=", term, term),))) <= self.bindings.keys()

    def _bind(self, name: str, term: Term) -> None:
        if isinstance(term, Call) and term.function == "range":
            alias = f"g{len(self.sources)}"
            source, value = self.dialect.range([self.root(self.term(a)) for a in term.arguments], alias)
            self.sources.append(source)
            self.bindings[name] = Expression(value, self.types[name])
            return
        bound = self.term(term)
        root = self.root(bound)
        self.bindings[name] = Expression(root, bound.type, partial=bound.partial)
        if bound.nullable:  # an equation is not true of NULL
            self.joins.append(f"{root} IS NOT NULL")

    def _condition(self, literal: Literal) -> Expression | None:
        match literal:
            case Comparison(left=left, right=Call(function="range") as call):
                # x = range(…) with x bound already
                alias = f"g{len(self.sources)}"
                source, value = self.dialect.range([self.root(self.term(a)) for a in call.arguments], alias)
                self.sources.append(source)
                return Expression(f"{self.root(self.term(left))} = {value}", NUMBER)
            case Comparison():
                left, right = self.term(literal.left), self.term(literal.right)
                operator = "<>" if literal.operator == "!=" else literal.operator
                return Expression(
                    f"{self.root(left)} {operator} {self.root(right)}", NUMBER, partial=left.partial or right.partial
                )
            case Test(predicate="is_null"):
                argument = self.term(literal.arguments[0])
                return Expression(
                    f"{self.root(argument)} IS {'NOT ' if literal.negated else ''}NULL", NUMBER, partial=argument.partial
                )
            case Test():
                arguments = [self.term(a) for a in literal.arguments]
                sql = self.dialect.test(literal.predicate, [self.root(a) for a in arguments])
                partial = literal.predicate == "match" or any(a.partial for a in arguments)
                return Expression(f"NOT {sql}" if literal.negated else sql, NUMBER, partial=partial)
            case Truth():
                return Expression("TRUE" if literal.value else "FALSE", NUMBER)
            case _:
                return None

    # ---- terms

    def root(self, expression: Expression) -> str:
        """The expression where its value is used: arithmetic is checked here."""
        return self.dialect.checked(expression) if expression.chain else expression.sql

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
        return Expression(self.dialect.parameter(name, constant.type), constant.type, nullable=constant.value is None)

    def _call(self, call: Call) -> Expression:
        arguments = [self.term(a) for a in call.arguments]
        inferred = self.typer._infer(call, {n: Inferred(e.type) for n, e in self.bindings.items()})
        assert inferred is not None, call
        chained = call.function in CHAINED
        if not chained or inferred.type.kind is Kind.UNSIGNED:
            arguments = [Expression(self.root(a), a.type, False, a.partial, a.nullable) for a in arguments]
        partial = FUNCTIONS[call.function].partial or any(a.partial for a in arguments)
        every = call.function == "coalesce"
        nullable = (all if every else any)(a.nullable for a in arguments)
        if call.function == "rescale":
            power = 10 ** (inferred.type.scale - arguments[0].type.scale)
            name = f"p{len(self.parameters)}"
            self.parameters[name] = power
            arguments = [arguments[0], Expression(self.dialect.parameter(name, NUMBER), NUMBER)]
            return Expression(self.dialect.call("*", arguments, inferred.type), inferred.type, True, True, nullable)
        sql = self.dialect.call(call.function, arguments, inferred.type)
        return Expression(sql, inferred.type, chained, partial, nullable)


def _guarded(condition: str, guards: Sequence[str]) -> str:
    if not guards:
        return f"({condition})"
    return f"CASE WHEN {' AND '.join(guards)} THEN {condition} ELSE FALSE END"
