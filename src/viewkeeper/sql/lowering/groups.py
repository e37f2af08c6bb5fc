"""GROUP BY: what a query gives of its groups, of several sets of them, and of everything as one group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.errors import ProgramError
from viewkeeper.program.ast import Comparison, Literal, Term, Variable
from viewkeeper.sql.lowering.bodies import Body, correlate
from viewkeeper.sql.lowering.evaluating import Doubt
from viewkeeper.sql.lowering.expressions import Expressions
from viewkeeper.sql.lowering.grouping import Groups, aggregates_of, is_aggregate
from viewkeeper.sql.lowering.rows import Rows, output_name, unaliased
from viewkeeper.sql.lowering.sets import union_all
from viewkeeper.sql.lowering.shorthands import windows_written_out, with_columns
from viewkeeper.sql.lowering.subqueries import OneRow, aggregates_alone
from viewkeeper.sql.lowering.values import Lowered, null_of, number
from viewkeeper.sql.lowering.window_functions import windowed
from viewkeeper.sql.lowering.windows import has_windows

if TYPE_CHECKING:
    from viewkeeper.sql.lowering.queries import Queries


def grouped(queries: Queries, select: exp.Select, body: Body) -> Rows:
    select = with_columns(queries, select, body)
    nodes, sets = _grouping_sets(queries, select, body)
    if len(sets) == 1:
        return _group(queries, select, body, nodes, sets[0])
    if has_windows(select):
        return _windows_over_sets(queries, select, body, nodes, sets)
    branches = [_group(queries, select, body.copy(), nodes, chosen) for chosen in sets]
    return union_all(queries, branches)


def _windows_over_sets(
    queries: Queries, select: exp.Select, body: Body, nodes: list[exp.Expr], sets: list[tuple[int, ...]]
) -> Rows:
    """Windows look at the groups of all sets together: at a union of what the query has of groups and aggregates."""
    values = [Expressions(queries, body).value(node) for node in nodes]
    parts = [*nodes, *(a for node in select.expressions for a in aggregates_of(node))]
    parts += [g for node in select.expressions for g in node.find_all(exp.Grouping, exp.GroupingId)]
    inner = select.copy()
    inner.set("expressions", [exp.alias_(part.copy(), f"part{i}") for i, part in enumerate(parts)])
    rows = union_all(queries, [_group(queries, inner, body.copy(), nodes, chosen) for chosen in sets])
    found = _GroupsOfSets(rows.body, parts, [value for _, value in rows.outputs])
    plain = _special(queries, found, nodes, values, tuple(range(len(nodes))), body, select)

    def special(node: exp.Expr) -> Lowered | None:
        return found.aggregate(node) if isinstance(node, (exp.Grouping, exp.GroupingId)) else plain(node)

    return windowed(queries, select, rows.body, special, body)


def _grouping_sets(queries: Queries, select: exp.Select, body: Body) -> tuple[list[exp.Expr], list[tuple[int, ...]]]:
    """What is grouped by, and the sets of it that are groups of their own."""
    group = select.args.get("group")
    nodes: list[exp.Expr] = []
    if group is None:
        return nodes, [()]
    if group.args.get("all"):
        nodes = list(dict.fromkeys(unaliased(node) for node in select.expressions if not aggregates_of(node)))
        return nodes, [tuple(range(len(nodes)))]
    nodes = []

    def place(node: exp.Expr) -> int:
        found = _group_node(queries, node, select, body)
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
    if group.args.get("grouping_sets"):  # GROUP BY a, b GROUPING SETS (…): these sets of what comes before
        sets = [tuple(place(n) for n in _listed(e)) for node in group.args["grouping_sets"] for e in node.expressions]
    for kind, part in ((exp.Rollup, "rollup"), (exp.Cube, "cube")):
        if group.args.get(part):  # WITH ROLLUP: of everything before
            sets = _sets(kind, [(i,) for i in range(len(nodes))])
    return nodes, sets


def _group_node(queries: Queries, node: exp.Expr, select: exp.Select, body: Body) -> exp.Expr:
    """What is grouped by; a number or a name may stand for an output."""
    if isinstance(node, exp.Literal) and not node.is_string:
        place = int(node.this)
        if not 1 <= place <= len(select.expressions):
            why = f"there is no output number {node.this}"
            queries.builder.statement.refuse("SQL_TYPE", node, why=why, hint="Name what to group by.")
        return unaliased(select.expressions[place - 1])
    if isinstance(node, exp.Column) and not node.table:
        known = any(name.lower() == node.name.lower() for name, _ in body.columns())
        for output in select.expressions:
            if not known and isinstance(output, exp.Alias) and output.alias.lower() == node.name.lower():
                return unaliased(output)
    return unaliased(node)


def _group(queries: Queries, select: exp.Select, body: Body, nodes: list[exp.Expr], chosen: tuple[int, ...]) -> Rows:
    group = select.args.get("group")
    whole = group is None or bool(group.args.get("all")) and not nodes
    before = Expressions(queries, body)
    values = [before.value(node) for node in nodes]
    _check_groups(queries, nodes)
    if whole and body.parent is not None and body.free() and has_windows(select):
        hint = "Compute the aggregates in a query in FROM."
        queries.refuse(select, "windows over aggregates without GROUP BY in a correlated subquery", hint)
    tie = correlate(body, body.parent, counted=True) if body.parent is not None and body.free() else None
    groups = Groups(queries, body, [values[i] for i in chosen], tie, whole)
    special = _special(queries, groups, nodes, values, chosen, body, select)
    expressions = Expressions(queries, groups.after, special)
    for node in _after_grouping(select):
        for aggregate in aggregates_of(node):
            groups.aggregate(aggregate)
    after = groups.finish()
    having = select.args.get("having")
    if having is not None:
        after.settled = True
        expressions.condition(having.this)
        after.settled = False
    if has_windows(select):
        return windowed(queries, select, after, special, body)
    return Rows(after, queries.outputs(select, expressions, body))


def one_row(queries: Queries, query: exp.Expr, around: Body, needed: bool = False) -> OneRow | None:
    """What a query gives that has one row whatever it reads, for each row around it; None if it is another query.

    ``needed``: a row around it is of no use if one of the values is NULL.
    """
    select = aggregates_alone(queries, query)
    if select is None:
        return None
    select = windows_written_out(queries, select)
    with queries.naming(select):
        row = _one_group(queries, select, queries.from_and_where(select, around), around, needed)
        queries.check_order(select, around, [output_name(node) for node in select.expressions])
        return row


def _one_group(queries: Queries, select: exp.Select, body: Body, around: Body, needed: bool) -> OneRow:
    """Aggregates without GROUP BY. They are looked up for each row around, also where there is nothing to aggregate."""
    tie = correlate(body, around, counted=True) if body.free() else None
    # Of aggregates that are NULL for nothing, and arithmetic with them, no value is needed where there is nothing.
    strict = needed and tie is not None and any(map(_is_null_for_nothing, select.expressions))
    groups = Groups(queries, body, [], tie, not strict)
    special = _special(queries, groups, [], [], (), body, select)
    for node in _after_grouping(select):
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
    expressions = Expressions(queries, around, special)
    values = [expressions.value(unaliased(node)) for node in select.expressions]
    having = select.args.get("having")
    return OneRow(values, expressions.boolean(having.this) if having is not None else None)


def _after_grouping(select: exp.Select) -> list[exp.Expr]:
    having, order = select.args.get("having"), select.args.get("order")
    return [*select.expressions, *([having.this] if having else []), *([order] if order else [])]


def _check_groups(queries: Queries, nodes: Sequence[exp.Expr]) -> None:
    for node in nodes:
        if aggregates_of(node):
            queries.refuse(node, "GROUP BY an aggregate", "Group by columns, and ask about aggregates in HAVING.")


def _special(
    queries: Queries,
    groups: Groups | _GroupsOfSets,
    nodes: list[exp.Expr],
    values: list[Lowered],
    chosen: tuple[int, ...],
    body: Body,
    select: exp.Select,
) -> Callable[[exp.Expr], Lowered | None]:
    """What aggregates and what was grouped by stand for behind the grouping."""
    plain = Expressions(queries, body)
    plain.doubt = Doubt.CHOSEN  # it is only compared
    whole_terms = any(not isinstance(node, exp.Column) for node in nodes)

    def special(node: exp.Expr) -> Lowered | None:
        if is_aggregate(node):
            return groups.aggregate(node)
        if isinstance(node, exp.Grouping):
            if node.expressions[0] not in nodes:
                queries.refuse(node, "grouping of what is not grouped by", "Name something of GROUP BY.")
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
                    return Expressions(queries, groups.after, special).value(output.this)
        found = found or body.resolve(node)
        place = next((i for i, v in enumerate(values) if v.term == found.term), None)
        if place is not None:
            return grouped(place)
        if isinstance(found.term, Variable) and found.term.name not in body.own:
            return found  # of a query around
        hint = "Group by it, or put it into an aggregate such as max."
        queries.builder.statement.refuse(
            "SQL_COLUMN",
            node,
            column=node.name,
            where=" behind GROUP BY: it is neither grouped by nor aggregated",
            hint=hint,
        )

    return special


@dataclass(frozen=True)
class _GroupsOfSets:
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
