"""The indexes of an engine's tables: made for the searches of statements, and dropped when nothing is searched that way any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from viewkeeper.engines.indexes import Chain, chain_columns, chains_of, serves
from viewkeeper.engines.layout import has_few_columns, leading_column, may_be_null, unique_columns, unique_name
from viewkeeper.engines.names import ORDERED, sql_name
from viewkeeper.engines.order import Access
from viewkeeper.engines.selectivity import SMALLEST, Selectivity, spread_sample
from viewkeeper.engines.sqlite_dialect import STORAGE
from viewkeeper.program.ast import Relation

if TYPE_CHECKING:
    from viewkeeper.engines.embedded import EmbeddedEngine


class Indexing:
    def __init__(self, engine: EmbeddedEngine) -> None:
        self._engine = engine
        # Of relations stored in the order of their key: how many rows they had, and some of these.
        self._samples: dict[str, tuple[int, list[tuple[Any, ...]]]] = {}

    def make(self, access: Access, relation: Relation) -> None:
        """An index that starts with the columns bound, unless there is one."""
        joined = [i for i in access.columns if i not in access.computed]
        if self._may_be_made(relation) and self._engine.dialect.layered(relation, joined) is None:
            with self._wanted(relation, [access]) as chains:
                if chains:
                    self._make_indexes(relation, chains)

    def make_all(self, relation: Relation, searches: Sequence[Access], exactly: bool = True, layered: bool = False) -> None:
        """As few indexes as serve these searches. Others go; if not ``exactly``, only those that are the beginning of another.
        ``layered``: they may have two layers."""
        if not self._may_be_made(relation):
            return
        leading = leading_column(relation)
        with self._wanted(relation, searches) as chains:
            in_layers = self._in_layers(relation, searches, chains) if layered else {}
            self._make_layers(relation, set(in_layers.values()), exactly)
            chains = [chain for chain in chains if chain not in in_layers]
            known = self._make_indexes(relation, chains)
            kept = {next(name for name, index in known.items() if serves(index, chain, leading)) for chain in chains}
            for name, columns in list(known.items()):
                begins = any(other != name and longer[: len(columns)] == columns for other, longer in known.items())
                if name not in kept and (exactly or begins):
                    del known[name]
                    self._engine.run(
                        f"DROP INDEX {self._engine.dialect.where(relation.name)}.{self._engine.dialect.identifier(name)}"
                    )
                    self._engine.layers.forget()

    def rows_of_value(self, relation: Relation, column: int) -> float | None:
        """About how many rows share a value of a column; None if the relation is small, or not stored."""
        if relation.name not in self._engine.stored or self._engine.size(relation.name) < SMALLEST:
            return None
        return self._selectivity(relation).of_value(column)

    def _selectivity(self, relation: Relation, more: Mapping[str, tuple[int, ...]] | None = None) -> Selectivity:
        columns = [sql_name(column.name) for column in relation.columns]
        table, indexes = sql_name(relation.name), {**(more or {}), **self._indexes(relation)}
        keyed, size = bool(self._engine.key_names(relation.name)), self._engine.size(relation.name)
        sample = partial(self._sample, relation, columns, size) if keyed else None
        return Selectivity(self._engine.connection, table, columns, indexes, size, sample)

    def _sample(self, relation: Relation, columns: list[str], size: int) -> list[tuple[Any, ...]]:
        """Rows of a relation that have no numbers; the same as before unless there are many more or less now."""
        known, rows = self._samples.get(relation.name, (0, []))
        if not known / 2 <= size <= known * 2:
            places = unique_columns(relation)
            rows = spread_sample(self._engine.connection, sql_name(relation.name), columns, places, size)
            self._samples[relation.name] = size, rows
        return rows

    def _in_layers(self, relation: Relation, searches: Iterable[Access], chains: Iterable[Chain]) -> dict[Chain, int]:
        """Which chains are better served by an index of two layers, and by which column."""
        if has_few_columns(relation) or not self._engine.layers.are_worth_it(self._engine.size(relation.name)):
            return {}
        computed = {i for access in searches for i in access.computed}
        names = [sql_name(column.name) for column in relation.columns]
        table = sql_name(relation.name)
        rows = self._selectivity(relation).of_value
        single = {chain: next(iter(chain[0])) for chain in chains if len(chain) == len(chain[0]) == 1}
        return {
            chain: column
            for chain, column in single.items()
            if column not in computed and self._engine.layers.suits(table, names[column], rows(column))
        }

    def _make_layers(self, relation: Relation, columns: set[int], exactly: bool) -> None:
        table, names = sql_name(relation.name), [sql_name(column.name) for column in relation.columns]
        for column in sorted(columns):
            storage = STORAGE.get(relation.columns[column].type.kind, "INTEGER")
            self._engine.layers.make(table, names[column], storage)
        for name in sorted(self._engine.layers.columns(table).keys() - {names[i] for i in columns}) if exactly else ():
            self._engine.layers.drop(table, name)

    def _may_be_made(self, relation: Relation) -> bool:
        return self._engine.may_change or relation.name not in self._engine.stored

    def _make_indexes(self, relation: Relation, chains: Sequence[Chain]) -> dict[str, tuple[int, ...]]:
        """Indexes for chains of searches; returns all that there are. Of a narrow relation they have all columns, so that the rows
        themselves need not be looked up."""
        known, leading = self._indexes(relation), leading_column(relation)
        for chain in chains:
            if not any(serves(index, chain, leading) for index in known.values()):
                columns = chain_columns(chain, leading)
                rest = [i for i in range(relation.arity) if i not in columns] if has_few_columns(relation) else []
                known[self._create_index(relation, columns, rest)] = (*columns, *rest)
        return known

    @contextmanager
    def _wanted(self, relation: Relation, searches: Iterable[Access]) -> Iterator[list[Chain]]:
        """What indexes are to be made for inside, besides the one that makes rows unique."""
        unique = unique_columns(relation)
        wanted = {frozenset(access.columns) for access in searches}
        known = {} if may_be_null(relation) else {unique_name(relation): unique}
        if known:
            wanted = {one for one in wanted if not one >= set(unique)}
        selectivity = None
        if relation.name in self._engine.stored and any(len(one) > 1 for one in wanted):
            selectivity = self._selectivity(relation, known)
            wanted = selectivity.narrowed(wanted)
        if known:
            wanted = {one for one in wanted if one != frozenset(unique[: len(one)])}
        yield chains_of(wanted, leading_column(relation))
        if selectivity is not None and selectivity.is_news:
            selectivity.note()

    def _create_index(self, relation: Relation, columns: Sequence[int], rest: Sequence[int]) -> str:
        names = [sql_name(relation.columns[i].name) for i in (*columns, *rest)]
        name = self._engine.dialect.identifier
        index = f"{sql_name(relation.name)} by {' '.join(names[: len(columns)])}"
        self._engine.run(
            f"CREATE INDEX IF NOT EXISTS {self._engine.dialect.where(relation.name)}.{name(index)}"
            f" ON {name(sql_name(relation.name))} ({', '.join(map(name, names))})"
        )
        self._engine.layers.forget()
        return index

    def _indexes(self, relation: Relation) -> dict[str, tuple[int, ...]]:
        """The indexes that were made for searches of a relation, and their columns."""
        places = {sql_name(column.name): i for i, column in enumerate(relation.columns)}
        where, table = self._engine.dialect.where(relation.name), sql_name(relation.name)
        found: dict[str, list[int]] = {}
        sql = (
            "SELECT i.name, c.name FROM pragma_index_list(?, ?) AS i, pragma_index_info(i.name, ?) AS c"
            f" WHERE substr(i.name, 1, ?) = ? AND instr(i.name, '{ORDERED}') = 0 ORDER BY i.name, c.seqno"
        )
        start = f"{table} by "
        for index, column in self._engine.connection.execute(sql, (table, where, where, len(start), start)):
            found.setdefault(index, []).append(places.get(column, -1))
        return {index: tuple(columns) for index, columns in found.items() if -1 not in columns}
