"""What FROM and WHERE become: literals that join, variables for the columns, and how often each row is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from sqlglot import exp

from viewkeeper.errors import closest
from viewkeeper.program.ast import (
    Atom,
    Call,
    Comparison,
    Constant,
    Literal,
    Term,
    Test,
    Variable,
    all_variables,
    variables_of,
)
from viewkeeper.program.functions import comparable
from viewkeeper.rewrite.terms import substitute, substitute_in
from viewkeeper.sql.lowering.builder import Builder, Table
from viewkeeper.sql.lowering.values import Lowered, encode
from viewkeeper.sql.types import type_of_column


@dataclass(frozen=True)
class Source:
    """Something that FROM names, with its columns."""

    alias: str
    columns: tuple[tuple[str, Lowered], ...]
    hidden: frozenset[str] = frozenset()  # columns that USING has merged into another table's

    def substituted(self, name: str, term: Term) -> Source:
        """With another term for a variable."""
        columns = tuple((n, replace(c, term=substitute_in(c.term, {name: term}))) for n, c in self.columns)
        return replace(self, columns=columns)


@dataclass
class Body:
    """A conjunction. ``copies`` are factors of the number of times that each of its rows is there.

    ``keys``: for each relation in it sets of variables that tell its rows apart. ``parent`` is the body of the query around this one, whose columns may be used here.
    """

    builder: Builder
    parent: Body | None = None
    literals: list[Literal] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    copies: list[Term] = field(default_factory=list)
    keys: list[tuple[tuple[str, ...], ...]] = field(default_factory=list)
    own: set[str] = field(default_factory=set)
    certain: set[str] = field(default_factory=set)  # variables that are not NULL
    settled: bool = False  # someone else knows its variables, so that none may be replaced

    # ---- what is in it

    def variable(self, stem: str) -> Variable:
        found = self.builder.variable(stem)
        self.own.add(found.name)
        return found

    def read(self, table: Table, alias: str) -> Source:
        """Joins a relation."""
        variables = [self.variable(name) for name in table.columns]
        arguments: list[Term] = [*variables]
        if table.copies:
            arguments.append(self.variable("copies"))
            self.copies.append(arguments[-1])
        self.literals.append(Atom(table.relation, tuple(arguments)))
        columns = [
            (name, Lowered(variable, type_, nullable))
            for name, variable, type_, nullable in zip(table.columns, variables, table.types, table.nullable, strict=True)
        ]
        self.keys.append(tuple(tuple(variables[i].name for i in key) for key in table.keys))
        source = Source(alias, tuple(columns))
        self.sources.append(source)
        return source

    def take(self, other: Body) -> None:
        """Everything that another body has."""
        self.literals += other.literals
        self.sources += other.sources
        self.copies += other.copies
        self.keys += other.keys
        self.own |= other.own
        self.certain |= other.certain

    def copy(self) -> Body:
        """Another one with the same contents."""
        found = Body(self.builder, self.parent)
        found.take(self)
        return found

    def free(self) -> list[str]:
        """Variables of queries around."""
        return [name for name in all_variables(tuple(self.literals)) if name not in self.own]

    def columns(self) -> Iterator[tuple[str, Lowered]]:
        for source in self.sources:
            yield from ((name, self.known(c)) for name, c in source.columns if name.lower() not in source.hidden)

    def known(self, value: Lowered) -> Lowered:
        """The value, with what conditions say about NULL."""
        if value.nullable and isinstance(value.term, Variable) and value.term.name in self.certain:
            return replace(value, nullable=False)
        return value

    # ---- names

    def resolve(self, column: exp.Column) -> Lowered:
        """What a name stands for, here or in a query around."""
        return self.find(column) or self._unknown(column)

    def find(self, column: exp.Column) -> Lowered | None:
        table, name = column.table, column.name
        if column.args.get("db") is not None:
            what, hint = (
                "a name of more than two parts",
                "Write table.column. There are no schemas, and columns have no fields.",
            )
            self.builder.statement.refuse("SQL_UNSUPPORTED", column, what=what, hint=hint)
        body: Body | None = self
        while body is not None:
            found = [
                (source, body.known(value))
                for source in body.sources
                if not table or source.alias.lower() == table.lower()
                for column_name, value in source.columns
                if column_name.lower() == name.lower() and (table or name.lower() not in source.hidden)
            ]
            if len(found) > 1:
                tables = " and in ".join(f'"{source.alias}"' for source, _ in found)
                hint = " or ".join(f"{source.alias}.{name}" for source, _ in found)
                self.builder.statement.refuse("SQL_AMBIGUOUS", column, column=name, tables=tables, hint=hint)
            if found:
                return found[0][1]
            body = body.parent
        return None

    def _unknown(self, column: exp.Column) -> NoReturn:
        sources = [source for body in self.chain() for source in body.sources]
        table, name = column.table, column.name
        aliases = [source.alias for source in sources]
        if table and table.lower() not in [alias.lower() for alias in aliases]:
            hint = f"{closest(table, aliases)}FROM names {', '.join(aliases) or 'no table'}."
            self.builder.statement.refuse("SQL_TABLE", column, table=table, hint=hint)
        known = [n for s in sources if not table or s.alias.lower() == table.lower() for n, _ in s.columns]
        where = f' in "{table}"' if table else ""
        hint = (
            f"{closest(name, known)}Its columns are {', '.join(known)}."
            if table
            else f"{closest(name, known)}There are {', '.join(known)}."
        )
        self.builder.statement.refuse(
            "SQL_COLUMN", column, column=name, where=where, hint=hint if known else "There is no table to read."
        )

    def chain(self) -> Iterator[Body]:
        body: Body | None = self
        while body is not None:
            yield body
            body = body.parent

    def value_of(self, name: str) -> Lowered:
        """The column that a variable stands for, here or in a query around."""
        for body in self.chain():
            for source in body.sources:
                for _, value in source.columns:
                    if value.term == Variable(name):
                        return body.known(value)
        if name in self.builder.computed:
            return self.builder.computed[name]
        # Part of a column, such as a total.
        type_ = next(self.builder.type_of_variable(name, body.literals) for body in self.chain() if name in body.own)
        return Lowered(Variable(name), type_of_column(type_), type_.nullable)

    # ---- conditions

    def equate(self, left: Lowered, right: Lowered) -> bool:
        """Makes two variables one where they must be equal; False if that cannot be done here."""
        one, other = left.term, right.term
        if self.settled and one != other:
            return False
        if not (isinstance(one, Variable) and isinstance(other, Variable)) or not comparable(left.type.kept, right.type.kept):
            return False
        if not {one.name, other.name} <= self.own or not self._plain(one.name) or not self._plain(other.name):
            return False
        if one.name != other.name:
            self.substitute(other.name, one)
        elif self.known(left).nullable:
            # x = x says that there is a value; in one place alone a variable may be NULL.
            self.literals.append(Test("is_null", (one,), negated=True))
        self.certain.add(one.name)
        return True

    def _plain(self, name: str) -> bool:
        """Is the variable bound by an atom, so that it can be joined?"""
        return any(isinstance(x, Atom) and Variable(name) in x.arguments for x in self.literals)

    def substitute(self, name: str, term: Term) -> None:
        self.literals = list(substitute(self.literals, {name: term}))
        self.sources = [source.substituted(name, term) for source in self.sources]
        self.copies = [substitute_in(factor, {name: term}) for factor in self.copies]
        new = [term.name] if isinstance(term, Variable) else []
        self.keys = [
            tuple(tuple(v for old in key for v in (new if old == name else [old])) for key in keys) for keys in self.keys
        ]

    def is_unique(self, terms: Iterable[Term]) -> bool:
        """Do these terms tell the rows apart, so that none is there twice?"""
        shown = {name for term in terms for name in _shown(term)}
        fixed = {
            side.name
            for x in self.literals
            if isinstance(x, Comparison) and x.operator == "="
            for side, other in ((x.left, x.right), (x.right, x.left))
            if isinstance(side, Variable) and not list(variables_of(other)) and not isinstance(other, Variable)
        }
        return not self.copies and all(any(set(key) <= shown | fixed for key in keys) for keys in self.keys)

    def times(self) -> Term | None:
        """How often a row is there, if that is not once."""
        product: Term | None = None
        for factor in self.copies:
            product = factor if product is None else Call("*", (product, factor))
        return product


def _shown(term: Term) -> set[str]:
    """The variables whose values can be told from a term's: itself, or those of a decoded value."""
    match term:
        case Variable():
            return {term.name}
        case Call(function="sql_if", arguments=(Variable() as flag, Constant(value=None), Variable() as value)):
            return {flag.name, value.name}
    return set()


# ---- correlation


@dataclass(frozen=True)
class Correlation:
    """What a body that uses columns of the query around it is on its own.

    ``outside`` and ``inside`` are terms that must be equal for a row of the body to belong to one outside.
    """

    literals: tuple[Literal, ...]
    outside: tuple[Term, ...]
    inside: tuple[Term, ...]


def correlate(inner: Body, around: Body, counted: bool = False) -> Correlation:
    """Separates a body from the ones around it.

    An equation of something inside with something outside becomes a column. For other columns of outside that are used inside, what
    binds them there is joined. ``counted``: it matters how often the rows inside are there, so that no value outside may be there twice.
    """
    outside: list[Term] = []
    inside: list[Term] = []
    kept: list[Literal] = []
    mapping: dict[str, Term] = {}
    for literal in inner.literals:
        pair = _equation(literal, inner.own)
        if pair is None:
            kept.append(literal)
            continue
        there, here = pair
        if isinstance(there, Variable) and there.name not in mapping:
            mapping[there.name] = here
        outside.append(there)
        inside.append(here)
    literals = list(substitute(kept, mapping))
    free = [name for name in all_variables(tuple(literals)) if name not in inner.own]
    bound = {a.name for x in literals if isinstance(x, Atom) for a in x.arguments if isinstance(a, Variable)}
    for name in [name for name in free if name in bound]:
        outside.append(Variable(name))
        inside.append(Variable(name))
    missing = [name for name in free if name not in bound]
    domain = _domain(missing, around)
    literals += substitute([_once(domain, [*missing, *mapping], around)] if counted and missing else domain, mapping)
    for name in missing:
        value = around.value_of(name)
        outside += encode(value)
        inside += encode(value)
    return Correlation(tuple(literals), tuple(outside), tuple(inside))


def _once(domain: list[Literal], names: Sequence[str], around: Body) -> Atom:
    """A relation of the values that those of the variables that it binds have in the domain, each once."""
    bound = set(all_variables(tuple(domain)))
    chosen = [name for name in names if name in bound]
    columns = [(name, around.value_of(name).type) for name in chosen]
    terms = tuple(Variable(name) for name in chosen)
    return Atom(around.builder.derive(columns, (terms, domain)).name, terms)


def _equation(literal: Literal, own: set[str]) -> tuple[Term, Term] | None:
    """The outer and the inner side of an equation between something outside and something inside."""
    if not isinstance(literal, Comparison) or literal.operator != "=":
        return None
    for there, here in ((literal.left, literal.right), (literal.right, literal.left)):
        outer, inner = {v.name for v in variables_of(there)}, {v.name for v in variables_of(here)}
        if outer and inner and not outer & own and inner <= own:
            return there, here
    return None


def _domain(names: Sequence[str], around: Body) -> list[Literal]:
    """Literals of the bodies around that bind the variables."""
    found: list[Literal] = []
    left = list(names)
    for body in around.chain():
        mine = [name for name in left if name in body.own]
        atoms = [x for x in body.literals if isinstance(x, Atom) and any(Variable(n) in x.arguments for n in mine)]
        bound = {n for n in mine for x in atoms if Variable(n) in x.arguments}
        found += atoms if bound == set(mine) else body.literals
        left = [name for name in left if name not in mine]
    return list(dict.fromkeys(found))
