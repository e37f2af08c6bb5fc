"""Queries → bodies: SELECT with its FROM and WHERE, set operations, WITH, and relations for what must be one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from sqlglot import exp

from viewkeeper.errors import ProgramError, closest
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
from viewkeeper.sql.lowering import subqueries
from viewkeeper.sql.lowering.bodies import Body, Source, correlate
from viewkeeper.sql.lowering.builder import BAG, COPIES, Builder, Table
from viewkeeper.sql.lowering.evaluating import Doubt
from viewkeeper.sql.lowering.expressions import Expressions
from viewkeeper.sql.lowering.grouping import Groups, aggregates_of, is_aggregate
from viewkeeper.sql.lowering.joins import join
from viewkeeper.sql.lowering.recursion import recursive
from viewkeeper.sql.lowering.rows import Named, Rows, table_of, with_names
from viewkeeper.sql.lowering.sets import combined, union_all
from viewkeeper.sql.lowering.subqueries import OneRow, aggregates_alone
from viewkeeper.sql.lowering.values import Lowered, encode, null_of, number
from viewkeeper.sql.lowering.windows import hoist_order, limited, placed, windowed
from viewkeeper.sql.naming import clause, first_of
from viewkeeper.sql.reading import function_name
from viewkeeper.sql.types import BIGINT, SqlType, type_of_column

# Parts of a query that have a meaning here; hints have none that changes an answer, and windows are refused where they are used.
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
                if any(query.args.get(part) for part in ("limit", "order", "offset")):
                    self.refuse(query, "LIMIT behind a query in parentheses", "Write it inside.")
                if query.args.get("locks"):
                    self.refuse(query, _LOCKS, "Leave it out.")
                return self.rows(query.this, parent)
            case exp.Select() | exp.SetOperation():
                if query.args.get("limit") is not None or query.args.get("offset") is not None:
                    return limited(self, query, lambda asked: self._rows(asked, parent))
                rows = self._rows(query, parent)
                self._check_order(query, parent, [name for name, _ in rows.outputs])
                return rows
            case exp.Values():
                return self._values(query, parent)
            case exp.Table():
                body = Body(self.builder, parent)
                self.read(query, body)
                return Rows(body, list(body.columns()))
        self.refuse(
            query, f"{query.key.upper()} as a query", "A query is a SELECT, or several with UNION, INTERSECT or EXCEPT."
        )

    def _rows(self, query: exp.Expr, parent: Body | None) -> Rows:
        before = self.named
        self.named = {**self.named, **self._with(query)}
        try:
            if isinstance(query, exp.Select):
                return self._select(query, parent)
            assert isinstance(query, exp.SetOperation)
            self._refuse_clauses(query)
            return combined(self, query, parent)
        finally:
            self.named = before

    def _check_order(self, query: exp.Expr, parent: Body | None, outputs: Sequence[str]) -> None:
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

    def _select(self, select: exp.Select, parent: Body | None) -> Rows:
        body = self.from_and_where(select, parent)
        distinct = select.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            self.refuse(distinct, "DISTINCT ON", "Use row_number() over a partition.")
        having = select.args.get("having")
        grouped = select.args.get("group") is not None or having is not None
        if grouped or any(aggregates_of(e) for e in select.expressions):
            rows = self._grouped(select, body)
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
        for node in select.expressions:
            match node:
                case exp.Star():
                    if node.args.get("except_") or node.args.get("replace"):
                        self.refuse(node, "* with EXCEPT or REPLACE", "Name the columns.")
                    found += self._all(node, body)
                case exp.Column(this=exp.Star()):
                    sources = [s for s in body.sources if s.alias.lower() == node.table.lower()]
                    if not sources:
                        hint = f"FROM names {', '.join(s.alias for s in body.sources) or 'no table'}."
                        self.builder.statement.refuse("SQL_TABLE", node, table=node.table, hint=hint)
                    found += [(name, body.known(value)) for source in sources for name, value in source.columns]
                case _:
                    found.append((output_name(node), expressions.value(node)))
        return found

    def _all(self, node: exp.Expr, body: Body) -> list[tuple[str, Lowered]]:
        if not body.sources:
            self.refuse(node, "* without a table", "Name something in FROM.")
        return list(body.columns())

    # ---- GROUP BY

    def _grouped(self, select: exp.Select, body: Body) -> Rows:
        nodes, sets = self._grouping_sets(select, body)
        if len(sets) == 1:
            return self._group(select, body, nodes, sets[0])
        if has_windows(select):
            return self._windows_over_sets(select, body, nodes, sets)
        branches = [self._group(select, body.copy(), nodes, chosen) for chosen in sets]
        return union_all(self, branches)

    def _windows_over_sets(self, select: exp.Select, body: Body, nodes: list[exp.Expr], sets: list[tuple[int, ...]]) -> Rows:
        """Windows look at the groups of all sets together: at a union of what the query has of groups and aggregates."""
        values = [Expressions(self, body).value(node) for node in nodes]
        parts = [*nodes, *(a for node in select.expressions for a in aggregates_of(node))]
        parts += [g for node in select.expressions for g in node.find_all(exp.Grouping, exp.GroupingId)]
        inner = select.copy()
        inner.set("expressions", [exp.alias_(part.copy(), f"part{i}") for i, part in enumerate(parts)])
        rows = union_all(self, [self._group(inner, body.copy(), nodes, chosen) for chosen in sets])
        found = GroupsOfSets(rows.body, parts, [value for _, value in rows.outputs])
        plain = self._special(found, nodes, values, tuple(range(len(nodes))), body, select)

        def special(node: exp.Expr) -> Lowered | None:
            return found.aggregate(node) if isinstance(node, (exp.Grouping, exp.GroupingId)) else plain(node)

        return windowed(self, select, rows.body, special)

    def _grouping_sets(self, select: exp.Select, body: Body) -> tuple[list[exp.Expr], list[tuple[int, ...]]]:
        """What is grouped by, and the sets of it that are groups of their own."""
        group = select.args.get("group")
        if group is None:
            return [], [()]
        if group.args.get("all"):
            self.refuse(group, "GROUP BY ALL", "Name what to group by.")
        nodes: list[exp.Expr] = []

        def place(node: exp.Expr) -> int:
            found = self._group_node(node, select, body)
            if found not in nodes:
                nodes.append(found)
            return nodes.index(found)

        sets: list[tuple[int, ...]] = [()]
        for node in group.expressions:
            if isinstance(node, (exp.Rollup, exp.Cube, exp.GroupingSets)):
                choices = _sets(type(node), [tuple(place(n) for n in _listed(e)) for e in node.expressions])
            else:
                choices = [(place(node),)]
            sets = [tuple(dict.fromkeys((*one, *more))) for one in sets for more in choices]
        for kind, part in ((exp.Rollup, "rollup"), (exp.Cube, "cube")):
            if group.args.get(part):  # WITH ROLLUP: of everything before
                sets = _sets(kind, [(i,) for i in range(len(nodes))])
        return nodes, sets

    def _group_node(self, node: exp.Expr, select: exp.Select, body: Body) -> exp.Expr:
        """What is grouped by; a number or a name may stand for an output."""
        if isinstance(node, exp.Literal) and not node.is_string:
            place = int(node.this)
            if not 1 <= place <= len(select.expressions):
                why = f"there is no output number {node.this}"
                self.builder.statement.refuse("SQL_TYPE", node, why=why, hint="Name what to group by.")
            return _unaliased(select.expressions[place - 1])
        if isinstance(node, exp.Column) and not node.table:
            known = any(name.lower() == node.name.lower() for name, _ in body.columns())
            for output in select.expressions:
                if not known and isinstance(output, exp.Alias) and output.alias.lower() == node.name.lower():
                    return _unaliased(output)
        return _unaliased(node)

    def _group(self, select: exp.Select, body: Body, nodes: list[exp.Expr], chosen: tuple[int, ...]) -> Rows:
        whole = select.args.get("group") is None
        before = Expressions(self, body)
        values = [before.value(node) for node in nodes]
        self._check_groups(nodes)
        tie = correlate(body, body.parent, counted=True) if body.parent is not None and body.free() else None
        groups = Groups(self, body, [values[i] for i in chosen], tie, whole)
        special = self._special(groups, nodes, values, chosen, body, select)
        expressions = Expressions(self, groups.after, special)
        for node in self._after_grouping(select):
            for aggregate in aggregates_of(node):
                groups.aggregate(aggregate)
        after = groups.finish()
        having = select.args.get("having")
        if having is not None:
            after.settled = True
            expressions.condition(having.this)
            after.settled = False
        if has_windows(select):
            return windowed(self, select, after, special)
        return Rows(after, self.outputs(select, expressions, body))

    def one_row(self, query: exp.Expr, around: Body, needed: bool = False) -> OneRow | None:
        """What a query gives that has one row whatever it reads, for each row around it; None if it is another query.

        ``needed``: a row around it is of no use if one of the values is NULL.
        """
        select = aggregates_alone(self, query)
        if select is None:
            return None
        before = self.named
        self.named = {**self.named, **self._with(select)}
        try:
            row = self._one_group(select, self.from_and_where(select, around), around, needed)
            self._check_order(select, around, [output_name(node) for node in select.expressions])
            return row
        finally:
            self.named = before

    def _one_group(self, select: exp.Select, body: Body, around: Body, needed: bool) -> OneRow:
        """Aggregates without GROUP BY. They are looked up for each row around, also where there is nothing to aggregate."""
        tie = correlate(body, around, counted=True) if body.free() else None
        # Of aggregates that are NULL for nothing, and arithmetic with them, no value is needed where there is nothing.
        strict = needed and tie is not None and any(map(_is_null_for_nothing, select.expressions))
        groups = Groups(self, body, [], tie, not strict)
        special = self._special(groups, [], [], (), body, select)
        for node in self._after_grouping(select):
            for aggregate in aggregates_of(node):
                groups.aggregate(aggregate)
        after = groups.finish(loose=not strict)
        if tie is not None:
            # The group's columns are the terms outside, so that the relations are searched by them.
            after.literals = [x for x in after.literals if not _is_tie(x, tie.outside, groups.key_variables)]
            for outside, variable in zip(tie.outside, groups.key_variables, strict=True):
                after.substitute(variable.name, outside)
        around.literals += after.literals
        around.own |= after.own
        expressions = Expressions(self, around, special)
        values = [expressions.value(_unaliased(node)) for node in select.expressions]
        having = select.args.get("having")
        return OneRow(values, expressions.boolean(having.this) if having is not None else None)

    def _after_grouping(self, select: exp.Select) -> list[exp.Expr]:
        having, order = select.args.get("having"), select.args.get("order")
        return [*select.expressions, *([having.this] if having else []), *([order] if order else [])]

    def _check_groups(self, nodes: Sequence[exp.Expr]) -> None:
        for node in nodes:
            if aggregates_of(node):
                self.refuse(node, "GROUP BY an aggregate", "Group by columns, and ask about aggregates in HAVING.")

    def _special(
        self,
        groups: Groups | GroupsOfSets,
        nodes: list[exp.Expr],
        values: list[Lowered],
        chosen: tuple[int, ...],
        body: Body,
        select: exp.Select,
    ) -> Callable[[exp.Expr], Lowered | None]:
        """What aggregates and what was grouped by stand for behind the grouping."""
        plain = Expressions(self, body)
        plain.doubt = Doubt.CHOSEN  # it is only compared
        whole_terms = any(not isinstance(node, exp.Column) for node in nodes)

        def special(node: exp.Expr) -> Lowered | None:
            if is_aggregate(node):
                return groups.aggregate(node)
            if isinstance(node, exp.Grouping):
                if node.expressions[0] not in nodes:
                    self.refuse(node, "grouping of what is not grouped by", "Name something of GROUP BY.")
                return number(0 if nodes.index(node.expressions[0]) in chosen else 1)
            if isinstance(node, exp.GroupingId):
                bits = [0 if i in chosen else 1 for i in range(len(nodes))]
                return number(int("".join(map(str, bits)) or "0", 2))
            if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
                return column(node)
            if whole_terms and node in nodes:
                return grouped(nodes.index(node))
            if (
                whole_terms
                and not isinstance(node, (exp.Literal, exp.Null, exp.Boolean))
                and not list(node.find_all(exp.Query, exp.AggFunc))
            ):
                return same_term(node)
            return None

        def grouped(place: int) -> Lowered:
            return groups.value(chosen.index(place)) if place in chosen else null_of(values[place].type)

        def same_term(node: exp.Expr) -> Lowered | None:
            try:
                term = plain.value(node).term
            except ProgramError:  # it reads what only aggregates give
                return None
            place = next((i for i, v in enumerate(values) if v.term == term), None)
            return None if place is None else grouped(place)

        def column(node: exp.Column) -> Lowered | None:
            found = body.find(node)
            if found is None and not node.table:  # HAVING may name outputs
                for output in select.expressions:
                    if isinstance(output, exp.Alias) and output.alias.lower() == node.name.lower():
                        return Expressions(self, groups.after, special).value(output.this)
            found = found or body.resolve(node)
            place = next((i for i, v in enumerate(values) if v.term == found.term), None)
            if place is not None:
                return grouped(place)
            if isinstance(found.term, Variable) and found.term.name not in body.own:
                return found  # of a query around
            hint = "Group by it, or put it into an aggregate such as max."
            self.builder.statement.refuse(
                "SQL_COLUMN",
                node,
                column=node.name,
                where=" behind GROUP BY: it is neither grouped by nor aggregated",
                hint=hint,
            )

        return special

    # ---- FROM

    def read(self, node: exp.Expr, body: Body) -> None:
        """Joins what FROM names."""
        match node:
            case exp.Table():
                self._read_table(node, body)
            case exp.Subquery():
                self._read_rows(self.rows(node.this, body.parent), node.alias, _alias_columns(node), body, node)
            case exp.Values():
                self._read_rows(self._values(node, body.parent), node.alias, _alias_columns(node), body, node)
            case _:
                self.refuse(node, f"{node.key.upper()} in FROM", "FROM names tables, views and queries in parentheses.")
        for more in node.args.get("joins") or ():
            self.refuse(more, "a join in parentheses", "Write the joins one after the other.")

    def _read_table(self, node: exp.Table, body: Body) -> None:
        if not isinstance(node.this, exp.Identifier):
            hint = "FROM names tables, views and queries in parentheses; VALUES (1), (2) lists rows."
            self.refuse(node, f"{function_name(node.this, self.builder.statement.source)}(…) in FROM", hint)
        for part in ("pivots", "sample", "hints", "when", "version", "laterals"):
            if node.args.get(part):
                self.refuse(first_of(node.args[part]) or node, clause(part), "Leave it out.")
        alias = node.alias or node.name
        named = None if node.db else self.named.get(node.name.lower())
        if named is not None:
            self._read_named(named, alias, _alias_columns(node), body, node)
            return
        table = self.table(node)
        body.read(table, alias)
        body.sources[-1] = _renamed(body.sources[-1], _alias_columns(node), node, self)

    def _read_named(self, named: Named, alias: str, columns: Sequence[str], body: Body, node: exp.Expr) -> None:
        before = self.named
        if named.table is None:
            self.named = named.outer
            try:
                rows = self.rows(named.query)
            finally:
                self.named = before
            rows.outputs = with_names(rows.outputs, named.columns, node, self.builder.statement)
            if named.uses < 2:
                self._read_rows(rows, alias, columns, body, node)
                return
            named.table = self.define(rows)
        body.read(named.table, alias)
        body.sources[-1] = _renamed(body.sources[-1], columns, node, self)

    def _read_rows(self, rows: Rows, alias: str, columns: Sequence[str], body: Body, node: exp.Expr) -> None:
        if rows.body.free():
            self.refuse(node, "a query in FROM that uses columns from outside it", "Write the condition outside.")
        if rows.distinct:
            body.read(self.define(rows), alias)
            body.sources[-1] = _renamed(body.sources[-1], columns, node, self)
            return
        inner = rows.body
        outputs = with_names(
            [(name, inner.known(value)) for name, value in rows.outputs], columns, node, self.builder.statement
        )
        inner.sources = [Source(alias, tuple(outputs))]
        body.take(inner)

    def table(self, node: exp.Table) -> Table:
        relations = self.builder.program.by_name
        name = node.name
        if node.db or node.catalog:
            self.refuse(node, "a name with a dot", "A warehouse has one schema: write the table's name alone.")
        found = name if name in relations else next((r for r in relations if r.lower() == name.lower()), None)
        if found is None:
            known = [*relations, *self.named]
            hint = closest(name, known) or (f"There are {', '.join(known)}." if known else "Make one with CREATE TABLE.")
            self.builder.statement.refuse("SQL_TABLE", node, table=name, hint=hint)
        return table_of(relations[found])

    def _values(self, node: exp.Values, parent: Body | None) -> Rows:
        expressions = Expressions(self, Body(self.builder, parent))
        lists = [
            [expressions.value(e) for e in (row.expressions if isinstance(row, exp.Tuple) else [row])]
            for row in node.expressions
        ]
        if len({len(row) for row in lists}) != 1:
            self.builder.statement.refuse(
                "SQL_TYPE", node, why="the rows have different numbers of values", hint="Give each the same."
            )
        columns = [expressions.alike(list(column), node) for column in zip(*lists, strict=True)]
        bodies: list[tuple[list[Term], list[Literal]]] = [
            ([number(i).term, *(column[i].term for column in columns)], [Truth(True)]) for i in range(len(lists))
        ]
        names = [(f"col{i + 1}", column[0].type) for i, column in enumerate(columns)]
        relation = self.builder.derive([("row", BIGINT), *names], *bodies)
        body = Body(self.builder, parent)
        body.read(table_of(relation), "values")
        body.keys = [((body.sources[0].columns[0][1].term.name,),)]  # type: ignore[union-attr]
        body.sources = [Source("values", body.sources[0].columns[1:])]
        return Rows(body, list(body.sources[0].columns))

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

    # ---- subqueries

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


@dataclass(frozen=True)
class GroupsOfSets:
    """Groups of several sets, computed already: ``parts`` are what they are grouped by and what is known of them."""

    after: Body
    parts: Sequence[exp.Expr]
    values: Sequence[Lowered]

    def value(self, number: int) -> Lowered:
        return self.values[number]

    def aggregate(self, node: exp.Expr) -> Lowered:
        return self.values[next(i for i, part in enumerate(self.parts) if part == node)]


def _is_null_for_nothing(node: exp.Expr) -> bool:
    """Is an expression NULL if all its aggregates are over nothing?"""
    match node:
        case exp.Alias() | exp.Paren() | exp.Neg() | exp.Cast():
            return _is_null_for_nothing(node.this)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            return _is_null_for_nothing(node.this) or _is_null_for_nothing(node.expression)
        case exp.Sum() | exp.Avg() | exp.Min() | exp.Max():
            return True
    return False


def _is_tie(literal: Literal, outside: Sequence[Term], keys: Sequence[Variable]) -> bool:
    return isinstance(literal, Comparison) and literal.right in keys and literal.left in outside


def has_windows(select: exp.Select) -> bool:
    return any(True for node in select.expressions for _ in node.find_all(exp.Window))


def output_name(node: exp.Expr) -> str:
    if isinstance(node, (exp.Alias, exp.Column)):
        return node.alias_or_name
    return re.sub(r"\W+", "_", node.sql("spark")).strip("_").lower()[:40] or "value"


def _unaliased(node: exp.Expr) -> exp.Expr:
    while isinstance(node, (exp.Alias, exp.Paren)):
        node = node.this
    return node


def _alias_columns(node: exp.Expr) -> tuple[str, ...]:
    alias = node.args.get("alias")
    return tuple(c.name for c in (alias.args.get("columns") or ())) if isinstance(alias, exp.TableAlias) else ()


def _renamed(source: Source, names: Sequence[str], node: exp.Expr, queries: Queries) -> Source:
    return replace(source, columns=tuple(with_names(list(source.columns), names, node, queries.builder.statement)))


def _listed(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    return [node.this if isinstance(node, exp.Paren) else node]


def _sets(kind: type[exp.Expr], listed: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The sets of what is grouped by that a ROLLUP, CUBE or GROUPING SETS stands for."""
    if kind is exp.Rollup:
        return [sum(listed[:n], ()) for n in range(len(listed), -1, -1)]
    if kind is exp.Cube:
        chosen, width = range(2 ** len(listed) - 1, -1, -1), len(listed)
        return [sum((one for i, one in enumerate(listed) if bits >> (width - 1 - i) & 1), ()) for bits in chosen]
    return listed
