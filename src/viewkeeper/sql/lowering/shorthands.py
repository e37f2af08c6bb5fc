"""Parts of SELECT that stand for others: named windows, QUALIFY, * behind GROUP BY, and names of outputs before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.sql.lowering.bodies import Body
from viewkeeper.sql.lowering.expressions import Expressions
from viewkeeper.sql.lowering.grouping import is_aggregate
from viewkeeper.sql.lowering.rows import Rows
from viewkeeper.sql.lowering.values import Lowered
from viewkeeper.sql.lowering.windows import has_windows

if TYPE_CHECKING:
    from viewkeeper.sql.lowering.queries import Queries

Special = Callable[[exp.Expr], Lowered | None]


def parts_of(node: exp.Expr, wanted: Callable[[exp.Expr], bool]) -> Iterator[exp.Expr]:
    """The outermost parts of an expression that are wanted, without those of queries in it."""
    if wanted(node):
        yield node
    elif not isinstance(node, exp.Query):
        for part in node.iter_expressions():
            yield from parts_of(part, wanted)


# ---- WINDOW


def windows_written_out(queries: Queries, select: exp.Select) -> exp.Select:
    """``OVER w`` with what WINDOW says w is."""
    if not any(window.args.get("alias") or window.parent is select for window in select.find_all(exp.Window)):
        return select
    named = {window.name.lower(): window for window in select.args.get("windows") or ()}
    found = select.copy()
    for part in ("expressions", "qualify", "order"):
        value = found.args.get(part)
        for node in value if isinstance(value, list) else [value] if value is not None else []:
            for window in list(parts_of(node, lambda n: isinstance(n, exp.Window))):
                if window.args.get("alias") is not None:
                    _write_out(queries, window, named)
    found.set("windows", None)
    return found


def _write_out(queries: Queries, window: exp.Expr, named: dict[str, exp.Expr]) -> None:
    meant, seen = window, set[str]()
    while (alias := meant.args.get("alias")) is not None:
        if any(meant.args.get(part) for part in ("partition_by", "order", "spec")):
            queries.refuse(alias, "a named window with more than its name", "Write the window out.")
        name = alias.name.lower()
        if name not in named or name in seen:
            known = f"WINDOW names {', '.join(named)}." if named else "Name it: WINDOW w AS (PARTITION BY …)."
            queries.refuse(alias, f'"{alias.name}" as a window, which WINDOW does not define,', known)
        seen.add(name)
        meant = named[name]
    for part in ("partition_by", "order", "spec"):
        value = meant.args.get(part)
        copied = [one.copy() for one in value] if isinstance(value, list) else value.copy() if value is not None else None
        window.set(part, copied)
    window.set("alias", None)


# ---- QUALIFY


def qualified(queries: Queries, select: exp.Select, lower: Callable[[exp.Select], Rows]) -> Rows:
    """A query with QUALIFY: what it asks of the rows are outputs more, which are left out behind it."""
    asked = select.copy()
    clause = asked.args.pop("qualify")
    condition = with_names_of_outputs(queries, asked, clause.this)
    if not has_windows(asked) and not list(condition.find_all(exp.Window)):
        queries.refuse(condition, "QUALIFY without a window function", "Use WHERE or HAVING.")
    nodes = list(dict.fromkeys(parts_of(condition, _is_asked)))
    for place, node in enumerate(nodes):
        asked.append("expressions", exp.alias_(node.copy(), f"qualify{place + 1}"))
    rows = lower(asked)
    first = len(rows.outputs) - len(nodes)
    values = dict(zip(nodes, (value for _, value in rows.outputs[first:]), strict=True))
    rows.outputs = rows.outputs[:first]
    rows.body.settled = True
    Expressions(queries, rows.body, values.get).condition(condition)
    rows.body.settled = False
    return rows


def _is_asked(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Window, exp.Column)) or is_aggregate(node)


def with_names_of_outputs(queries: Queries, select: exp.Select, node: exp.Expr) -> exp.Expr:
    """An expression with what outputs are in the place of their names, which come before those of columns."""
    named: dict[str, list[exp.Expr]] = {}
    for output in select.expressions:
        named.setdefault(output.alias_or_name.lower(), []).append(output.unalias())
    found = exp.paren(node.copy(), copy=False)
    for column in list(parts_of(found, lambda n: isinstance(n, exp.Column))):
        meant = named.get(column.name.lower(), [])
        if isinstance(column, exp.Column) and not column.table and meant:
            if len(meant) > 1:
                _refuse_twice(queries, column)
            column.replace(exp.paren(meant[0].copy(), copy=False) if not isinstance(meant[0], exp.Column) else meant[0].copy())
    return found


# ---- * behind GROUP BY


def with_columns(queries: Queries, select: exp.Select, body: Body) -> exp.Select:
    """The query with the names of columns in the place of *."""
    if not any(output.is_star for output in select.expressions):
        return select
    outputs: list[exp.Expr] = []
    for node in select.expressions:
        if not node.is_star:
            outputs.append(node.copy())
            continue
        for alias, name, _ in queries.starred(node, body):
            column = exp.column(name, table=alias or None, quoted=True)
            column.meta.update((node.this if isinstance(node, exp.Column) else node).meta)
            outputs.append(column)
    found = select.copy()
    found.set("expressions", outputs)
    return found


# ---- names of outputs before


def knowing(queries: Queries, body: Body, before: Sequence[tuple[str, Lowered]], special: Special | None) -> Special:
    """What a name may stand for that no column has: an output that comes before."""

    def known(node: exp.Expr) -> Lowered | None:
        if isinstance(node, exp.Column) and not node.table and not node.is_star:
            name = node.name.lower()
            found = [value for output, value in before if output.lower() == name]
            if found and not any(column.lower() == name for column, _ in body.columns()):
                if len(found) > 1:
                    _refuse_twice(queries, node)
                return found[0]
        return special(node) if special is not None else None

    return known


def _refuse_twice(queries: Queries, node: exp.Expr) -> None:
    hint = "Give one of them another name with AS."
    queries.builder.statement.refuse("SQL_DUPLICATE", node, what="output", name=node.name, hint=hint)
