"""Scripts of SQL, executed on a warehouse.

The whole text is read before anything is done. Statements that define something are a commit each. All others up to the next one of
those are one transaction, which queries in it see from inside:

1. What a statement makes of a table is kept as pending rows (``pending``).
2. A query that depends on none of them reads the last commit. For any other the pending rows are brought in, in a change that is
   taken back in the end.
3. At the end of the transaction the pending rows are brought in once, and committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from viewkeeper.answer import Answer
from viewkeeper.change import Change
from viewkeeper.changed import StoredRow
from viewkeeper.definitions import dependents_of
from viewkeeper.engines.choice import Choice
from viewkeeper.engines.constants import ConstantValues
from viewkeeper.errors import StoreError, problem
from viewkeeper.outcomes import Commit, Result
from viewkeeper.pending import Pending
from viewkeeper.program.arrow import rows_of_batch, stored_schema, to_real
from viewkeeper.program.ast import Program, Relation
from viewkeeper.program.merge import without
from viewkeeper.program.strata import dependencies, reach
from viewkeeper.showing import SHOWING, shown
from viewkeeper.sql.defining import defined, name_defined, refuse_definition
from viewkeeper.sql.failures import telling
from viewkeeper.sql.modifying import MODIFYING, deleted, insertion, truncated, updated
from viewkeeper.sql.naming import found, is_bag, only, plain_name, unknown_table, visible
from viewkeeper.sql.reading import Statement, read_script
from viewkeeper.sql.rows import assigned, written
from viewkeeper.state import State, Work
from viewkeeper.store.catalog import Definition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from viewkeeper.sql.lowering import Query
    from viewkeeper.warehouse import Warehouse

_DEFINING = (exp.Create, exp.Alter, exp.Drop)
_REFUSED: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Merge: ("MERGE", "Write UPDATE, DELETE and INSERT; in one script they are one transaction."),
    exp.Transaction: ("BEGIN", "The statements of a script are one transaction, up to a CREATE, ALTER or DROP."),
    exp.Commit: ("COMMIT", "The statements of a script are one transaction, up to a CREATE, ALTER or DROP."),
    exp.Rollback: ("ROLLBACK", "The statements of a script are one transaction; dry_run tries it and takes it back."),
    exp.Set: ("SET", "There are no settings in SQL."),
    exp.Use: ("USE", "A warehouse is one schema."),
    exp.Cache: ("CACHE", "Materialized views are kept anyway."),
}


def execute(house: Warehouse, text: str, name: str, engine: str | None, strict: bool, dry_run: bool) -> Iterator[Result]:
    """The results of all statements, in order, as soon as they are committed."""
    statements = read_script(text, name, ConstantValues())
    for statement in statements:
        _refuse_unknown(statement)
    if dry_run:
        _refuse_several(statements)
    script = _Script(house, engine, strict, dry_run)
    for group in _groups(statements):
        yield from [script.define(group[0])] if isinstance(group[0].tree, _DEFINING) else script.run(group)


def _groups(statements: Iterable[Statement]) -> list[list[Statement]]:
    """Definitions alone, what is between them together."""
    groups: list[list[Statement]] = []
    for statement in statements:
        alone = isinstance(statement.tree, _DEFINING) or not groups or isinstance(groups[-1][0].tree, _DEFINING)
        if alone:
            groups.append([])
        groups[-1].append(statement)
    return groups


def is_query(tree: exp.Expr) -> bool:
    return isinstance(tree, (exp.Query, exp.Values))


def kind_of(statement: Statement) -> str:
    """What a statement does, in words: "select", "insert", "create table" …"""
    tree = statement.tree
    if is_query(tree):
        return "select"
    if isinstance(tree, (exp.Create, exp.Drop, exp.Alter)):
        return f"{tree.key} {str(tree.args.get('kind')).lower()}"
    return (
        tree.name.lower() if isinstance(tree, exp.Command) else "truncate" if isinstance(tree, exp.TruncateTable) else tree.key
    )


def _refuse_unknown(statement: Statement) -> None:
    tree = statement.tree
    if type(tree) in _REFUSED:
        what, hint = _REFUSED[type(tree)]
        statement.refuse("SQL_UNSUPPORTED", tree, what=what, hint=hint)
    if isinstance(tree, exp.Command) and tree.name.upper() in ("CREATE", "ALTER", "DROP"):
        refuse_definition(statement)
    if not (is_query(tree) or isinstance(tree, (*_DEFINING, *MODIFYING, *SHOWING))):
        statement.refuse("SQL_SYNTAX", tree, why="no statement begins like this")


def _refuse_several(statements: Sequence[Statement]) -> None:
    for statement in statements:
        if isinstance(statement.tree, _DEFINING) and len(statements) > 1:
            hint = "Try it alone: what follows it would need it."
            statement.refuse("SQL_UNSUPPORTED", statement.tree, what="a dry run of a definition among others", hint=hint)


class _Affected(Exception):
    """A query depends on what is pending."""


@dataclass
class _Script:
    house: Warehouse
    engine: str | None
    strict: bool
    dry_run: bool

    # ---- definitions

    def define(self, statement: Statement) -> Result:
        """CREATE, ALTER or DROP as a commit of its own."""
        house = self.house
        changing = house._trying if self.dry_run else house._changing
        with changing(strict=self.strict, fresh=True) as change:
            program, definitions = self._defined(statement, change.program)
            if program == change.program:
                return Result(statement.text, kind_of(statement), Commit(None, "embedded", "nothing new"))
            own = definitions[0].name if definitions else ""
            rows = sum(kept.rows for kept in change.kept.values())
            choice = house._choose_for(change, self.engine, rows)
            _refuse_cold(program, change)
            for definition in definitions:
                change.catalog.add_definition(change.commit, definition)
            with telling(statement, own):
                change.adopt(program, choice)
                commit = change.finish("define" if not isinstance(statement.tree, exp.Drop) else "drop", choice)
            if self.dry_run:
                commit = change.previewed(commit)
            return Result(statement.text, kind_of(statement), commit)

    def _defined(self, statement: Statement, program: Program) -> tuple[Program, list[Definition]]:
        if isinstance(statement.tree, exp.Drop):
            names = _dropped(statement, program)
            for name in names:
                program = without(program, name)
            return program, [Definition("drop", name, "") for name in names]
        after = defined(statement, program)
        return after, [Definition("sql", name_defined(statement, after), statement.text)]

    # ---- transactions

    def run(self, statements: Sequence[Statement]) -> list[Result]:
        """Statements that define nothing, as one transaction."""
        house = self.house
        if not any(isinstance(statement.tree, MODIFYING) for statement in statements):
            with house._reading() as state:
                return [self._ask(statement, state) for statement in statements]
        with house._held():
            try:
                with house._attempt(self.strict, self.dry_run) as change:
                    transaction = _Transaction(self, change)
                    results = transaction.run(statements)
                    change.started = time.monotonic()  # what it costs to ask is not what it costs to change
                    with telling():
                        commit = house._carry_out(change, transaction.operations(), self.engine, self.dry_run)
            except _Affected:
                with house._trying(held=True) as trial:
                    transaction = _Transaction(self, trial, trying=True)
                    results = transaction.run(statements)
                with telling(), house._attempt(self.strict, self.dry_run) as change:
                    commit = house._carry_out(change, transaction.operations(), self.engine, self.dry_run)
        return [replace(one, commit=commit) if one.answer is None and not one.message else one for one in results]

    def _ask(self, statement: Statement, state: State) -> Result:
        if not is_query(statement.tree):
            return shown(statement, state, kind_of(statement))
        query = lowered(statement, statement.tree, state.program)
        with failing_in(statement, statement.tree, state.program):
            return self.answered(statement, query, state)

    def answered(self, statement: Statement, query: Query, state: State) -> Result:
        table, relation = self.rows(query, state)
        real = to_real(table.to_batches(), relation).rename_columns(list(query.columns))
        return Result(statement.text, kind_of(statement), answer=Answer(real, query.columns))

    def rows(self, query: Query, state: State) -> tuple[pa.Table, Relation]:
        """The rows of a query; nothing is left behind of what it took to compute them."""
        with state.catalog.scratch():
            alone = State(state.directory, state.catalog, state.program, state.kept, state.spark)
            return stored_answer(query, alone, self.house._choose(self.engine, state).engine)


@dataclass
class _Transaction:
    """Statements up to a commit. ``trying``: pending rows may be brought into the change, of which nothing stays."""

    script: _Script
    change: Change
    trying: bool = False
    pending: dict[str, Pending] = field(default_factory=dict)

    def run(self, statements: Iterable[Statement]) -> list[Result]:
        return [self._execute(statement) for statement in statements]

    def operations(self) -> list[Any]:
        return [operation for one in self.pending.values() for operation in one.operations()]

    def _execute(self, statement: Statement) -> Result:
        tree, program = statement.tree, self.change.program
        match tree:
            case exp.Insert():
                self._insert(statement, program)
            case exp.Update():
                self._update(statement, program)
            case exp.Delete() | exp.TruncateTable():
                affected = deleted(statement, program) if isinstance(tree, exp.Delete) else truncated(statement, program)
                pending = self._pending(affected.relation)
                for row in self._rows(statement, affected.query)[0]:
                    pending.remove(row)
            case _ if is_query(tree):
                query = lowered(statement, tree, program)
                with failing_in(statement, tree, program), self._reading(query) as state:
                    return self.script.answered(statement, query, state)
            case _:
                with self.script.house._reading() as state:
                    return shown(statement, state, kind_of(statement))
        return Result(statement.text, kind_of(statement))

    def _insert(self, statement: Statement, program: Program) -> None:
        wanted = insertion(statement, program)
        if wanted.values is not None:
            rows = written(statement, wanted, lambda query: self._rows(statement, query))
        else:
            assert wanted.query is not None
            given, query = self._rows(statement, wanted.query)
            columns = wanted.named(statement, query.columns)
            rows = assigned(statement, wanted.relation, columns, given, _types(query), _written_columns(wanted.query, query))
        self._pending(wanted.relation).insert(rows)

    def _update(self, statement: Statement, program: Program) -> None:
        wanted = updated(statement, program)
        columns = visible(wanted.relation)
        given, query = self._rows(statement, wanted.query)
        rows, types = list(dict.fromkeys(given)), _types(query)
        # Where the new value of each column is: behind the old ones if it is set, else where it was.
        set_to = {column.name: len(columns) + number for number, column in enumerate(wanted.columns)}
        places = [set_to.get(column.name, place) for place, column in enumerate(columns)]
        values = [tuple(row[place] for place in places) for row in rows]
        nodes = [(*[statement.tree.this] * len(columns), *wanted.values)[place] for place in places]
        new = assigned(statement, wanted.relation, columns, values, [types[place] for place in places], nodes)
        self._pending(wanted.relation).replace([(row[: len(columns)], one) for row, one in zip(rows, new, strict=True)])

    def _pending(self, relation: Relation) -> Pending:
        if relation.name not in self.pending:
            known: Callable[[StoredRow], list[StoredRow]] = lambda key: []  # noqa: E731
            if relation.key and self.change.kept[relation.name].rows:
                known = lambda key: self.change.maintainer.base(relation.name).rows_with_key(key)  # noqa: E731
            self.pending[relation.name] = Pending(relation, known)
        return self.pending[relation.name]

    def _rows(self, statement: Statement, tree: exp.Expr) -> tuple[list[StoredRow], Query]:
        """The rows of a query as stored values, each as often as it is there."""
        query = lowered(statement, tree, self.change.program)
        with failing_in(statement, tree, self.change.program), self._reading(query) as state:
            table, relation = self.script.rows(query, state)
        return [row for batch in table.to_batches() for row in rows_of_batch(batch, relation.arity)], query

    @contextmanager
    def _reading(self, query: Query) -> Iterator[State]:
        """What a query sees: the last commit, or what the statements so far have made of it."""
        read = Work.asked(query.program, query.relation.name, self.change.kept).inputs
        if not reach(dependencies(self.change.program), set(read)) & self.pending.keys():
            with self.script.house._reading() as state:
                yield state
            return
        if not self.trying:
            raise _Affected
        self._step()
        try:
            yield self.change
        finally:
            self.change.writer.engine.register()

    def _step(self) -> None:
        """Brings in what is pending since the last time."""
        operations = [operation for one in self.pending.values() for operation in one.step()]
        if not operations:
            return
        last = self.change
        self.change = Change(
            last.directory, last.catalog, last.program, last.kept, last.spark, last.commit + 1, last.hot_rows, last.writer
        )
        self.change.want(operations)
        self.change.propagate(Choice("embedded", "tried"))


# ---- queries


def lowered(statement: Statement, tree: exp.Expr, program: Program) -> Query:
    from viewkeeper.sql.lowering import lower_query

    return lower_query(statement, tree, program)


def failing_in(statement: Statement, tree: exp.Expr, program: Program) -> AbstractContextManager[None]:
    """Failures of a query's values are told with their place in the statement."""
    from viewkeeper.sql.lowering import lower_query

    return telling(statement, again=lambda: lower_query(statement, tree, program, careful=True))


def _types(query: Query) -> Sequence[Any]:
    return [column.type for column in query.relation.columns[: len(query.columns)]]


def _written_columns(tree: exp.Expr, query: Query) -> Sequence[exp.Expr] | None:
    """Where the columns of a query are written down; None if they are not one by one."""
    written = tree.expressions if isinstance(tree, exp.Select) else []
    return written if len(written) == len(query.columns) and not any(one.is_star for one in written) else None


def stored_answer(query: Query, state: State, engine: str) -> tuple[pa.Table, Relation]:
    """The rows of a query as stored values, in its order, each as often as it is there; with the relation they are rows of."""
    work = Work.asked(query.program, query.relation.name, state.kept)
    with state.engine(engine, work) as runner:
        work.evaluate(runner)
        batches = list(runner.read(query.relation, ordered=True))
    table = pa.Table.from_batches(batches, stored_schema(query.relation.columns))
    for order in reversed(query.order):
        table = table.take(_sorted(table.column(order.position), order.descending, order.nulls_first))
    table = _limited(table, query)
    width = len(query.columns)
    return table.select(list(range(width))), Relation(query.relation.name, query.relation.columns[:width])


def _sorted(column: pa.ChunkedArray, descending: bool, nulls_first: bool) -> pa.Array:
    """The order of a column's values; rows that agree in it stay in the order they have."""
    import pyarrow.compute as pc

    keys = pa.table({"null": pc.is_null(column).cast(pa.int8()), "value": column})
    where, how = "descending" if nulls_first else "ascending", "descending" if descending else "ascending"
    return pc.sort_indices(keys, sort_keys=[("null", where), ("value", how)])


def _limited(table: pa.Table, query: Query) -> pa.Table:
    """Copies side by side, and of all rows those between OFFSET and LIMIT."""
    start, stop = query.offset, None if query.limit is None else query.offset + query.limit
    if not is_bag(query.relation):
        return table.slice(start, None if stop is None else stop - start)
    places: list[int] = []
    seen = 0
    for place, copies in enumerate(table.column(table.num_columns - 1).to_pylist()):
        first, last = max(start, seen), seen + copies if stop is None else min(stop, seen + copies)
        places += [place] * max(0, last - first)
        seen += copies
        if stop is not None and seen >= stop:
            break
    return table.take(pa.array(places, pa.int64()))


# ---- definitions


def _dropped(statement: Statement, program: Program) -> list[str]:
    """The relations that DROP removes; none if IF EXISTS finds none. Refused while others depend on one."""
    tree = statement.tree
    only(statement, tree, "tables", "kind", "exists", "materialized", "restrict")
    kind = tree.args.get("kind")
    if kind not in ("TABLE", "VIEW"):
        statement.refuse("SQL_UNSUPPORTED", tree, what=f"DROP {kind}", hint="Tables and materialized views can be dropped.")
    names = []
    for table in tree.args["tables"]:
        name = found(plain_name(statement, table), program.by_name)
        if name is None:
            if tree.args.get("exists"):
                continue
            unknown_table(statement, table, table.name, program)
        what = "VIEW" if name in program.derived else "TABLE"
        if what != kind:
            full = "MATERIALIZED VIEW" if what == "VIEW" else what
            statement.refuse("SQL_OTHER_KIND", table, name=name, what=full.lower(), other=f"DROP {full} {name}")
        dependents = dependents_of(name, program)
        if dependents:
            raise StoreError(problem("DROP_DEPENDENTS", relation=name, dependents=", ".join(dependents)))
        names.append(name)
    return names


def _refuse_cold(program: Program, change: Change) -> None:
    for relation in program.relations:
        before = change.program.by_name.get(relation.name)
        if before is None or before.columns == relation.columns or relation.name in program.derived:
            continue
        if change.is_cold(relation.name):
            why = f'relation "{relation.name}" is kept as a snapshot only and cannot get columns'
            raise StoreError(problem("DATA_CONFLICT", why=why, hint="Load its rows into a new table."))
