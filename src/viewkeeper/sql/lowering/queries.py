"""Queries → bodies: SELECT with its FROM and WHERE, set operations, WITH, and relations for what must be one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NoReturn

from sqlglot import exp

from viewkeeper.errors import closest
from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Literal,
    Relation,
    Term,
    Truth,
    Variable,
)
from viewkeeper.sql.lowering import groups, subqueries
from viewkeeper.sql.lowering.bodies import Body
from viewkeeper.sql.lowering.builder import BAG, COPIES, Builder, Table
from viewkeeper.sql.lowering.expressions import Expressions
from viewkeeper.sql.lowering.grouping import aggregates_of
from viewkeeper.sql.lowering.joins import join
from viewkeeper.sql.lowering.recursion import recursive
from viewkeeper.sql.lowering.rows import Named, Rows, output_name, table_of
from viewkeeper.sql.lowering.sets import combined
from viewkeeper.sql.lowering.shorthands import knowing, qualified, windows_written_out
from viewkeeper.sql.lowering.sources import read, values
from viewkeeper.sql.lowering.subqueries import OneRow
from viewkeeper.sql.lowering.values import Lowered, encode, null_of
from viewkeeper.sql.lowering.window_functions import windowed
from viewkeeper.sql.lowering.windows import has_windows, hoist_order, limited, placed
from viewkeeper.sql.naming import clause, first_of
from viewkeeper.sql.types import BIGINT, SqlType, type_of_column

# Parts of a query that have a meaning here; hints have none that changes an answer.
_CLAUSES = frozenset(
    [
        "with_",
        "expressions",
        "from_",
        "joins",
        "where",
        "group",
        "having",
        "distinct",
        "order",
        "limit",
        "offset",
        "hint",
        "qualify",
        "windows",
        "this",
        "expression",
        "by_name",
    ]
)
_LOCKS = "FOR UPDATE or FOR SHARE"


@dataclass
class Queries:
    """Lowers the queries of one statement."""

    builder: Builder
    named: dict[str, Named] = field(default_factory=dict)

    def refuse(self, node: exp.Expr | None, what: str, hint: str) -> NoReturn:
        self.builder.statement.refuse("SQL_UNSUPPORTED", node, what=what, hint=hint)

    # ---- queries

    def rows(self, query: exp.Expr, parent: Body | None = None) -> Rows:
        match query:
            case exp.Subquery() | exp.Paren():
                if query.args.get("locks"):
                    self.refuse(query, _LOCKS, "Leave it out.")
                if any(query.args.get(part) for part in ("limit", "order", "offset")):
                    return self.rows(around(query), parent)
                return self.rows(query.this, parent)
            case exp.Select() | exp.SetOperation():
                if query.args.get("limit") is not None or query.args.get("offset") is not None:
                    return limited(self, query, lambda asked: self._rows(asked, parent))
                rows = self._rows(query, parent)
                self.check_order(query, parent, [name for name, _ in rows.outputs])
                return rows
            case exp.Values():
                return values(self, query, parent)
            case exp.Table():
                body = Body(self.builder, parent)
                self.read(query, body)
                return Rows(body, list(body.columns()))
        self.refuse(
            query, f"{query.key.upper()} as a query", "A query is a SELECT, or several with UNION, INTERSECT or EXCEPT."
        )

    def _rows(self, query: exp.Expr, parent: Body | None) -> Rows:
        with self.naming(query):
            if isinstance(query, exp.Select):
                return self._qualified(windows_written_out(self, query), parent)
            assert isinstance(query, exp.SetOperation)
            self._refuse_clauses(query)
            return combined(self, query, parent)

    def check_order(self, query: exp.Expr, parent: Body | None, outputs: Sequence[str]) -> None:
        """ORDER BY alone says nothing about a view, which has no order. But what it names must be there."""
        asked = query.copy()
        order = asked.args.pop("order", None)
        if order is None:
            return
        if isinstance(asked, exp.Select):
            asked.set("distinct", None)
        names = {name.lower() for name in outputs}
        others = [o for o in order.expressions if not isinstance(o.this, exp.Column) or o.this.sql().lower() not in names]
        order.set("expressions", others)
        hidden, keys = hoist_order(self, asked, order)
        if hidden:
            self._rows(asked, parent)
        placed(self, order, keys, hidden, len(outputs) + hidden)

    @contextmanager
    def naming(self, query: exp.Expr) -> Iterator[None]:
        """What WITH names can be read meanwhile."""
        before = self.named
        self.named = {**self.named, **self._with(query)}
        try:
            yield
        finally:
            self.named = before

    def _with(self, query: exp.Expr) -> dict[str, Named]:
        clause = query.args.get("with_")
        found: dict[str, Named] = {}
        if clause is None:
            return found
        for cte in clause.expressions:
            alias = cte.args["alias"]
            name = alias.name.lower()
            uses = sum(1 for t in query.find_all(exp.Table) if t.name.lower() == name and not t.db)
            columns = tuple(column.name for column in alias.args.get("columns") or ())
            found[name] = Named(cte.this, columns, uses, {**self.named, **found})
            reads_itself = any(t.name.lower() == name and not t.db for t in cte.this.find_all(exp.Table))
            if clause.args.get("recursive") and reads_itself:
                found[name].table = recursive(self, name, found[name], query)
        return found

    # ---- SELECT

    def _qualified(self, select: exp.Select, parent: Body | None) -> Rows:
        if select.args.get("qualify") is None:
            return self._select(select, parent)
        return qualified(self, select, lambda asked: self._select(asked, parent))

    def _select(self, select: exp.Select, parent: Body | None) -> Rows:
        body = self.from_and_where(select, parent)
        distinct = select.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            self.refuse(distinct, "DISTINCT ON", "Use row_number() over a partition.")
        having = select.args.get("having")
        grouped = select.args.get("group") is not None or having is not None
        if grouped or any(aggregates_of(e) for e in select.expressions):
            rows = groups.grouped(self, select, body)
        elif has_windows(select):
            rows = windowed(self, select, body)
        else:
            rows = Rows(body, self.outputs(select, Expressions(self, body), body))
        rows.distinct = distinct is not None
        return rows

    def from_and_where(self, select: exp.Select, parent: Body | None) -> Body:
        self._refuse_clauses(select)
        if not select.expressions:
            self.refuse(select, "a query without columns", "Name columns, or write *.")
        body = Body(self.builder, parent)
        source = select.args.get("from_")
        if source is not None:
            self.read(source.this, body)
        else:
            body.literals.append(Truth(True))  # a rule, not a fact: what it derives is a view and no table
        for node in select.args.get("joins") or ():
            body = join(self, node, body, select)
        where = select.args.get("where")
        if where is not None:
            Expressions(self, body).condition(where.this)
        return body

    def _refuse_clauses(self, query: exp.Expr) -> None:
        """What is not known here has no effect, and is not to be overlooked."""
        for part, value in query.args.items():
            if value and part not in _CLAUSES:
                self.refuse(first_of(value) or query, _LOCKS if part == "locks" else clause(part), "Leave it out.")

    def outputs(self, select: exp.Select, expressions: Expressions, body: Body) -> list[tuple[str, Lowered]]:
        found: list[tuple[str, Lowered]] = []
        before: list[tuple[str, Lowered]] = []
        expressions.special = knowing(self, body, before, expressions.special)
        for node in select.expressions:
            match node:
                case exp.Star() | exp.Column(this=exp.Star()):
                    found += [(name, value) for _, name, value in self.starred(node, body)]
                case _:
                    found.append((output_name(node), expressions.value(node)))
                    before += found[-1:] if isinstance(node, exp.Alias) else []
        if not found:
            self.refuse(select.expressions[0], "a query without columns", "Leave one of them.")
        return found

    def starred(self, node: exp.Expr, body: Body) -> list[tuple[str, str, Lowered]]:
        """What * stands for: of each column the table, the name and the value."""
        star = node.this if isinstance(node, exp.Column) else node
        if star.args.get("replace") or star.args.get("rename"):
            self.refuse(node, "* with REPLACE or RENAME", "Name the columns.")
        if not body.sources:
            self.refuse(node, "* without a table", "Name something in FROM.")
        table = node.table if isinstance(node, exp.Column) else ""
        sources = [s for s in body.sources if not table or s.alias.lower() == table.lower()]
        if not sources:
            hint = f"FROM names {', '.join(s.alias for s in body.sources)}."
            self.builder.statement.refuse("SQL_TABLE", node, table=table, hint=hint)
        shown = [(s.alias, n, v) for s in sources for n, v in s.columns if table or n.lower() not in s.hidden]
        columns = [(alias, name, body.known(value)) for alias, name, value in shown]
        return _without(columns, star.args.get("except_") or (), body)

    # ---- relations

    def define(self, rows: Rows, name: str | None = None) -> Table:
        """A relation with what a query gives; an inner one if it has no name."""
        if rows.body.free():
            self.refuse(None, "a query that uses columns from outside it, here", "Write the condition outside.")
        outputs = [(n, rows.body.known(v)) for n, v in rows.outputs]
        columns = [(n, v.type) for n, v in outputs]
        terms = [v.term for _, v in outputs]
        match rows.body.literals:
            case [Atom() as atom] if atom.arguments == tuple(terms) and self.builder.rename(atom.relation, columns, name):
                relation = self.builder.relations[name or atom.relation]
                return replace(table_of(relation), columns=tuple(n for n, _ in columns), types=tuple(t for _, t in columns))
        if rows.distinct or rows.body.is_unique(terms):
            relation = self.builder.derive(columns, (terms, rows.body.literals), name=name)
            return replace(table_of(relation), columns=tuple(n for n, _ in columns), types=tuple(t for _, t in columns))
        return self._bag(rows.body, outputs, name)

    def _bag(self, body: Body, outputs: list[tuple[str, Lowered]], name: str | None) -> Table:
        """With a last column for the number of copies."""
        literals = list(body.literals)
        groups: list[tuple[str, Variable]] = []
        direct = True
        for output, value in outputs:
            term = value.term
            if isinstance(term, Variable) and all(term != v for _, v in groups):
                groups.append((output, term))
                continue
            direct = direct and not value.nullable and not value.is_constant
            for part in encode(value):
                variable = self.builder.variable(output)
                literals.append(Comparison("=", variable, part))
                groups.append((output, variable))
        copies = self._free_name([n for n, _ in outputs])
        times = body.times()
        counted = [(copies, Aggregate("count" if times is None else "sum", times, ()), BIGINT)]
        if direct:
            relation = self.builder.group(groups, counted, literals, name)
        else:
            inner = self.builder.group(groups, counted, literals)
            variables = [self.builder.variable(c.name) for c in inner.columns]
            relation = self._decoded(outputs, inner, variables, copies, name)
        types = tuple(v.type for _, v in outputs)
        names = tuple(n for n, _ in outputs)
        return replace(table_of(self.mark_bag(relation)), columns=names, types=types)

    def _decoded(
        self, outputs: list[tuple[str, Lowered]], inner: Relation, variables: list[Variable], copies: str, name: str | None
    ) -> Relation:
        terms: list[Term] = []
        place = 0
        seen: list[Term] = []
        for _, value in outputs:
            plain = isinstance(value.term, Variable) and value.term not in seen
            seen.append(value.term)
            if plain or not value.nullable:
                terms.append(variables[place])
                place += 1
            else:
                missing = null_of(value.type).term
                terms.append(Call("sql_if", (variables[place + 1], missing, variables[place])))
                place += 2
        terms.append(variables[-1])
        atom = Atom(inner.name, tuple(variables))
        columns = [*((n, v.type) for n, v in outputs), (copies, BIGINT)]
        return self.builder.derive(columns, (terms, [atom]), name=name)

    def mark_bag(self, relation: Relation) -> Relation:
        marked = replace(relation, qualifiers=(BAG,))
        self.builder.relations[relation.name] = marked
        self.builder.inner = [marked if r.name == relation.name else r for r in self.builder.inner]
        return marked

    def _free_name(self, names: Sequence[str]) -> str:
        used = {name.lower() for name in names}
        return next(n for n in (COPIES, *(f"{COPIES}{i}" for i in range(2, 1000))) if n not in used)

    def type_of(self, term: Term, literals: Sequence[Literal]) -> SqlType:
        return type_of_column(self.builder.type_of(term, literals))

    # ---- what other modules lower

    def read(self, node: exp.Expr, body: Body) -> None:
        """Joins what FROM names."""
        read(self, node, body)

    def one_row(self, query: exp.Expr, around: Body, needed: bool = False) -> OneRow | None:
        return groups.one_row(self, query, around, needed)

    def exists(self, query: exp.Expr, body: Body, negated: bool = False) -> Literal | None:
        return subqueries.exists(self, query, body, negated)

    def exists_value(self, query: exp.Expr, body: Body) -> Lowered:
        return subqueries.exists_value(self, query, body)

    def is_in(self, node: exp.In, into: Expressions, negated: bool = False) -> Literal | None:
        return subqueries.is_in(self, node, into, negated)

    def in_value(self, node: exp.In, into: Expressions) -> Lowered:
        return subqueries.in_value(self, node, into)

    def quantified(self, node: exp.Expr, into: Expressions) -> Lowered:
        return subqueries.quantified(self, node, into)

    def scalar(self, query: exp.Expr, body: Body, needed: bool) -> Lowered:
        return subqueries.scalar(self, query, body, needed)


def _without(
    columns: list[tuple[str, str, Lowered]], excepted: Sequence[exp.Expr], body: Body
) -> list[tuple[str, str, Lowered]]:
    """The columns but for those that EXCEPT names."""
    found, statement = columns, body.builder.statement
    for node in excepted:
        table, name = node.table if isinstance(node, exp.Column) else "", node.name
        named = [c for c in found if c[1].lower() == name.lower() and (not table or c[0].lower() == table.lower())]
        if len(named) > 1:
            tables = " and in ".join(f'"{alias}"' for alias, _, _ in named)
            hint = " or ".join(f"{alias}.{name}" for alias, _, _ in named)
            statement.refuse("SQL_AMBIGUOUS", node, column=name, tables=tables, hint=hint)
        if not named:
            hint = f"{closest(name, [c[1] for c in found])}There are {', '.join(c[1] for c in found)}."
            statement.refuse("SQL_COLUMN", node, column=name, where=" that EXCEPT could leave out", hint=hint)
        found = [c for c in found if c is not named[0]]
    return found


def around(query: exp.Expr) -> exp.Select:
    """A query in parentheses with ORDER BY or LIMIT behind it, as one that reads it."""
    inner = query.copy()
    outer = exp.Select(expressions=[exp.Star()])
    for part in ("order", "limit", "offset", "with_"):
        outer.set(part, inner.args.pop(part, None))
    inner.set("alias", exp.TableAlias(this=exp.to_identifier("query")))
    outer.set("from_", exp.From(this=inner))
    return outer
