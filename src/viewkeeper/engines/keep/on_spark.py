"""The work of keepers done on Spark: what a plan's rules derive is computed there, what is stored stays in SQLite.

Spark gets relations as they were before the change, or as they are, and their changes. Gains of counted and grouped views are added up
there and settled in SQLite. Recursive views follow the maintenance rules. Counts, totals and ranks are valid
afterwards, so that either engine can go on.

Ranks. A row that Spark derives in a round follows from rows of earlier rounds, and from rows that keep their rank: above the highest
rank that there is, the number of the round is a rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from viewkeeper.engines.evaluator import evaluate
from viewkeeper.engines.keep.counting import CountingKeeper
from viewkeeper.engines.keep.external import ExternalKeeper
from viewkeeper.engines.keep.grouping import ExtremeKeeper
from viewkeeper.engines.keep.keeper import Keeper, Signs, TooLarge
from viewkeeper.engines.keep.recursion import RecursionKeeper, RenewingKeeper, renew
from viewkeeper.engines.keep.rederiving_on_spark import rederive
from viewkeeper.engines.keep.tables import Tables
from viewkeeper.engines.keep.totals import EXACT, TotalKeeper
from viewkeeper.engines.keep.windows import WindowKeeper
from viewkeeper.engines.spark import Sized, SparkEngine, changed_frame, column_names, without
from viewkeeper.program.arrow import batch_of_rows, rows_of_batch
from viewkeeper.program.ast import Atom, Column, Literal, Negation, Program, Relation, Rule, relation_read
from viewkeeper.program.plan import COUNT, OPPOSITE, RANK, RANK_STEP, SIGN, Group, beside
from viewkeeper.program.types import NUMBER, Kind

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Give = Callable[[SparkEngine, Relation, bool], bool]
"""Gives the engine the rows that a relation had before the change, or for a fresh one those it has; False if that is for others to do."""

MaintenanceRules = Callable[[Program, Sequence[str]], Program]

_OLD = "$old"
_BATCH = 50_000
# From here on rows are inserted in the order of the table's index.
_SORTED = 50_000


class SparkWorker:
    """Does what it can of the steps of one change; a method that returns False leaves the work to the keeper."""

    name = "spark"

    def __init__(self, start: Callable[[], SparkEngine], give: Give, rules: MaintenanceRules, hot_rows: int) -> None:
        self._start, self._give, self._rules, self.hot_rows = start, give, rules, hot_rows
        self._started: SparkEngine | None = None

    def begin(self, tables: Tables, signs: Signs, fresh: set[str]) -> None:
        """Starts a change. ``signs``, ``fresh``: what has changed so far, and what of that was empty before; they grow as it goes on."""
        self.tables, self._signs, self._fresh = tables, signs, fresh
        self._core = tables.plan.core
        self._olds: dict[str, Sized] = {}
        self._news: dict[str, Sized] = {}
        self._changed: dict[str, tuple[Sized, Sized]] = {}
        self._filled: set[str] = set()
        self._gains: dict[str, list[DataFrame]] = {}
        self._bound: dict[str, DataFrame] = {}

    def close(self) -> None:
        if self._started is not None:
            self._started.close()

    @cached_property
    def engine(self) -> SparkEngine:
        self._started = self._start()
        self._started.prepare(Program(types=self._core.types))
        return self._started

    # ---- relations on Spark

    def _now(self, name: str) -> Sized:
        """The relation as it is at this moment."""
        if name in self._signs or name in self._filled:
            return self._new(name)
        return self._old(name)

    def _new(self, name: str) -> Sized:
        if name not in self._news:
            relation, fresh = self._core.relation(name), name in self._fresh
            if fresh and name not in self._filled and self._give(self.engine, relation, True):
                self._news[name] = self.engine.rows_of(name)
            elif fresh or name in self._filled:
                self._news[name] = self._stored(relation)
            else:
                (frame, rows), (came, went) = self._old(name), self._changes(name)
                if name not in self._news:
                    changed = changed_frame(frame, came, went, column_names(relation))
                    self._news[name] = changed, rows + came[1] - went[1]
        return self._news[name]

    def _old(self, name: str) -> Sized:
        if name not in self._olds:
            relation = self._core.relation(name)
            if name in self._fresh:
                self._olds[name] = self.engine.frame(relation, ())
            elif self._give(self.engine, relation, False):
                self._olds[name] = self.engine.rows_of(name)
            elif name in self._signs:
                frame, rows = self._news[name] = self._stored(relation)
                came, went = self._changes(name)
                self._olds[name] = changed_frame(frame, went, came, column_names(relation)), rows + went[1] - came[1]
            else:
                self._olds[name] = self._stored(relation)
            self._bound.pop(name, None)
        return self._olds[name]

    def _stored(self, relation: Relation) -> Sized:
        return self.engine.frame(relation, self.tables.engine.read(relation))

    def _changes(self, name: str) -> tuple[Sized, Sized]:
        """What came and what went."""
        relation = self._core.relation(name)
        if name in self._fresh:
            return self._new(name), self._old(name)
        if name not in self._changed:
            self._changed[name] = self._noted(relation, 1), self._noted(relation, -1)
        return self._changed[name]

    def _noted(self, relation: Relation, sign: int) -> Sized:
        columns = ", ".join(self.tables.columns(relation))
        sql = f'SELECT {columns} FROM {self.tables.changes[relation.name].in_table()} WHERE "{SIGN}" = {sign}'
        cursor = self.tables.run(sql)
        return self.engine.frame(relation, (batch_of_rows(b, relation) for b in iter(lambda: cursor.fetchmany(_BATCH), [])))

    def _bind(self, rules: Iterable[Rule]) -> None:
        """Makes known to SQL what rules read, as it is at this moment."""
        for name in {relation_read(literal) for rule in rules for literal in rule.body} - {""}:
            if name.endswith("$change"):
                of = name.removesuffix("$change")
                self._put(beside(self._core.relation(of), "change"), self._signed(of))
            else:
                self._put(self._core.relation(name), self._now(name))

    def _signed(self, name: str) -> Sized:
        (came, more), (went, less) = self._changes(name)
        frames = [
            frame.selectExpr("*", f"{sign}L AS `{SIGN}`", f"{-sign}L AS `{OPPOSITE}`")
            for frame, rows, sign in ((came, more, 1), (went, less, -1))
            if rows
        ]
        columns = column_names(beside(self._core.relation(name), "change"))
        if not frames:
            return self.engine.frame(beside(self._core.relation(name), "change"), ())
        return reduce(lambda a, b: a.unionAll(b), frames).toDF(*columns), more + less

    def put_state(self, relation: Relation) -> None:
        """Gives Spark r$old, r$new, r$del or r$ins of a relation that is there, r$plus or r$minus of one that is derived; nothing else has rows."""
        name, _, state = relation.name.partition("$")
        if state in ("old", "new"):
            self._put(relation, self._old(name) if state == "old" else self._now(name))
        elif state in ("ins", "plus", "del", "minus") and name in self._signs:
            came, went = self._changes(name)
            self._put(relation, came if state in ("ins", "plus") else went)
        else:
            self._put(relation, self.engine.frame(relation, ()))

    def _put(self, relation: Relation, rows: Sized) -> None:
        if self._bound.get(relation.name) is not rows[0]:
            self.engine.put(relation, *rows)
            self._bound[relation.name] = rows[0]

    # ---- first computation

    def fill(self, keeper: Keeper) -> bool:
        match keeper:
            case CountingKeeper():
                self._fill_counted(keeper)
            case TotalKeeper():
                return self._fill_totals(keeper)
            case ExtremeKeeper():
                self._fill_extreme(keeper)
            case WindowKeeper():
                self._fill_windows(keeper)
            case RecursionKeeper() | RenewingKeeper():
                self._fill_recursion(keeper)
            case _:
                return False
        return True

    def _fill_counted(self, keeper: CountingKeeper) -> None:
        # p$n(row) = number of derivations of the row
        relation = keeper.step.relation
        self._bind(keeper.step.rules)
        derived = self.engine.derived(keeper.step.rules, relation)
        if derived is None:
            self._take(relation, self.engine.frame(relation, ()))
            return
        columns = column_names(relation)
        counted, rows = self.engine.kept(relation.name, _grouped(derived, columns, {COUNT: "count(1)"}))
        self._take(relation, (counted.select(*_quoted(columns)), rows))
        self._insert(keeper.stored.table, _with(relation, COUNT), counted, rows)

    def _fill_totals(self, keeper: TotalKeeper) -> bool:
        # totals(group) = how often, how often not NULL, and the sum, exactly
        step = keeper.step
        self._bind([step.full])
        derived = self.engine.derived([step.full], step.gains)
        if derived is None:
            self._filled.add(step.relation.name)
            return False
        names = column_names(step.gains)
        self.engine.use("vk_exact_total")
        folded = _grouped(derived, names[: len(keeper.groups)], _totals(keeper, names[len(keeper.groups) : -1]))
        if not keeper.groups:
            folded = folded.selectExpr("1L AS present", "*")
        totals, rows = self.engine.kept(step.relation.name, folded)
        self._check(step.relation, rows)
        keeper.make_indexes()
        keeper.forget_totals()
        state = tuple(Column(name, _TEXT if name.startswith(EXACT) else NUMBER) for name in keeper.sums)
        columns = step.gains.columns[: len(keeper.groups)] or (Column("present", NUMBER),)
        self._insert(keeper.state, Relation(step.relation.name, (*columns, *state)), totals, rows)
        keeper.evaluate_totals()
        self._filled.add(step.relation.name)
        return True

    def _fill_extreme(self, keeper: ExtremeKeeper) -> None:
        first, relation = keeper.first, keeper.relation
        source = column_names(keeper.lookup.source)
        frame, _ = self._now(first.source)
        groups = [source[i] for i in first.groups]
        found = _grouped(frame, groups, {"$value": f"{first.operation}(`{source[first.target]}`)"}).where(
            "`$value` IS NOT NULL"
        )
        kept, rows = self.engine.kept(relation.name, found.toDF(*column_names(relation)))
        self._take(relation, (kept, rows))
        self._insert(keeper.stored.table, relation, kept, rows)

    def _fill_windows(self, keeper: WindowKeeper) -> None:
        frame, rows = self._windows(keeper, self._now(keeper.step.source))
        self._take(keeper.relation, (frame, rows))
        self._insert(keeper.stored.table, keeper.relation, frame, rows)

    def _windows(self, keeper: WindowKeeper, source: Sized) -> Sized:
        """The rows that a rule with windows gives for these rows of what it reads."""
        self._put(keeper.source, source)
        derived = self.engine.derived([keeper.step.rule], keeper.relation)
        assert derived is not None
        return self.engine.kept(keeper.relation.name, derived.distinct() if keeper.distinct else derived)

    def _fill_recursion(self, keeper: RecursionKeeper | RenewingKeeper) -> None:
        members = {relation.name: relation for relation in keeper.relations}
        rules = [rule for rule in self._core.rules if rule.head.relation in members]
        self._bind([replace(rule, body=tuple(x for x in rule.body if relation_read(x) not in members)) for rule in rules])
        for relation in members.values():
            self._put(relation, self.engine.frame(relation, ()))
        traces = self.engine.trace(members)
        evaluate(self._program(rules, members), self.engine)
        for name, relation in members.items():
            self._check(relation, self.engine.count(name))
        for name, relation in members.items():
            self._take(relation, self.engine.rows_of(name))
            self._bound.pop(name, None)
            ranked = [frame.selectExpr("*", f"{(number + 1) * RANK_STEP}L AS `{RANK}`") for number, frame in traces[name]]
            if ranked:
                rows = self.engine.count(name)
                table = keeper.members[name].table
                self._insert(table, _with(relation, RANK), reduce(lambda a, b: a.unionAll(b), ranked), rows)

    def _program(self, rules: Sequence[Rule], members: Mapping[str, Relation]) -> Program:
        read = {relation_read(x) for rule in rules for x in rule.body} - {""} - members.keys()
        relations = (*(self._core.relation(name) for name in sorted(read)), *members.values())
        return Program(types=self._core.types, relations=relations, rules=tuple(rules))

    def _take(self, relation: Relation, rows: Sized) -> None:
        self._check(relation, rows[1])
        self._news[relation.name] = rows
        self._filled.add(relation.name)

    def _check(self, relation: Relation, rows: int) -> None:
        if rows > self.hot_rows:
            raise TooLarge(relation.name)

    # ---- maintenance

    def notice(self, keeper: Keeper, group: Group) -> bool:
        match keeper:
            case CountingKeeper():
                self._gain(keeper.step.changes[group], beside(keeper.step.relation, "gain"))
            case TotalKeeper():
                self._gain(keeper.step.changes[group], keeper.step.gains)
            case RecursionKeeper() | RenewingKeeper() | WindowKeeper():
                pass
            case _:
                return False
        return True

    def _gain(self, rules: Sequence[Rule], gains: Relation) -> None:
        """Derivations gained or lost, at this moment; they are computed together with others."""
        self._bind(rules)
        derived = self.engine.derived(rules, gains)
        if derived is not None:
            self._gains.setdefault(gains.name, []).append(derived)

    def settle(self, keeper: Keeper) -> bool:
        match keeper:
            case CountingKeeper():
                self._add_up(keeper, beside(keeper.step.relation, "gain"))
                keeper.settle()
            case TotalKeeper():
                self._add_up(keeper, keeper.step.gains)
                keeper.settle()
            case WindowKeeper():
                self._renew_partitions(keeper)
            case RecursionKeeper():
                self._maintain(keeper)
            case ExternalKeeper():
                rederive(self, keeper)
            case RenewingKeeper():
                renew(self.tables, keeper, keeper.members.values(), lambda: self.fill(keeper))
            case _:
                return False
        return True

    def _add_up(self, keeper: CountingKeeper | TotalKeeper, gains: Relation) -> None:
        # p$gain(row, sum n)
        found = self._gains.pop(gains.name, [])
        if not found:
            return
        columns = column_names(gains)
        derived = reduce(lambda a, b: a.unionAll(b), found)
        net = _grouped(derived, columns[:-1], {COUNT: f"sum(`{COUNT}`)"}).where(f"`{COUNT}` <> 0")
        keeper.gains.use_table()
        named = replace(gains, name=keeper.relations[0].name)  # what fails is told as a failure of the view
        self._insert(keeper.gain, named, net, 0)

    # ---- windows

    def _renew_partitions(self, keeper: WindowKeeper) -> None:
        """Computes the partitions that have changed again; which ones these are, and what they are to be, is given to the keeper."""
        source = keeper.step.source
        if source not in self._signs:
            return
        columns = [column_names(keeper.source)[i] for i in keeper.step.partition]
        rows = self._now(source)
        keeper.use_tables()
        if columns:
            (came, more), (went, less) = self._changes(source)
            both = [frame.select(*_quoted(columns)) for frame, number in ((came, more), (went, less)) if number]
            touched = self.engine.kept(source, reduce(lambda a, b: a.unionAll(b), both).distinct())
            rows = without(rows[0], touched, columns, "left_semi"), rows[1]
            partitions = replace(keeper.source, columns=keeper.partition, key=())
            self._insert(keeper.partitions, partitions, *touched)
            keeper.touched += touched[1]
        fresh, number = self._windows(keeper, rows)
        self._insert(keeper.fresh, keeper.relation, fresh, number)
        keeper.compare()

    # ---- recursion

    def _maintain(self, keeper: RecursionKeeper) -> None:
        """Runs the maintenance rules, and brings in what they give."""
        members = {relation.name: relation for relation in keeper.relations}
        program, below = self._maintenance(list(members))
        for name in (*below, *members):
            self._put(_old(self._core.relation(name)), self._old(name))
        for name in below:
            nothing = self.engine.frame(self._core.relation(name), ())
            came, went = self._changes(name) if name in self._signs else (nothing, nothing)
            for what, rows in (("ins", came), ("del", went), ("new", self._now(name))):
                self._put(_old(self._core.relation(name), what), rows)
        for relation in members.values():
            for what in ("ins", "del", "new", "red", "plus", "minus"):
                self.engine.put(_old(relation, what), *self.engine.frame(relation, ()))
        traces = self.engine.trace(f"{name}{_OLD}_{what}" for name in members for what in ("red", "ins"))
        evaluate(program, self.engine)
        top = max(self._highest(member.table) for member in keeper.members.values())
        for name, relation in members.items():
            self._bring_in(keeper, relation, [*traces[f"{name}{_OLD}_red"], *traces[f"{name}{_OLD}_ins"]], top)

    def _maintenance(self, members: list[str]) -> tuple[Program, list[str]]:
        """The maintenance rules with names that no program has, and what they read; for that what is new is known."""
        rules = [rule for rule in self._core.rules if rule.head.relation in members]
        below = sorted({relation_read(x) for rule in rules for x in rule.body} - {"", *members})
        relations = tuple(_old(self._core.relation(name)) for name in (*below, *members))
        renamed = Program(types=self._core.types, relations=relations, rules=tuple(map(_of_old, rules)))
        program = self._rules(renamed, [f"{name}{_OLD}" for name in members])
        known = {f"{name}{_OLD}_new" for name in below}
        return replace(program, rules=tuple(rule for rule in program.rules if rule.head.relation not in known)), below

    def _highest(self, table: str) -> int:
        [[rank]] = self.tables.run(f'SELECT coalesce(max("{RANK}"), 0) FROM {table}')
        return -(-int(rank) // RANK_STEP) * RANK_STEP

    def _bring_in(self, keeper: RecursionKeeper, relation: Relation, rounds: list[tuple[int, DataFrame]], top: int) -> None:
        member, columns = keeper.members[relation.name], column_names(relation)
        came, went, hit = (self.engine.rows_of(f"{relation.name}{_OLD}_{what}") for what in ("plus", "minus", "del"))
        self._changed[relation.name] = came, went
        for rows, sign in ((came, 1), (went, -1)):
            if rows[1]:
                signed = Relation(relation.name, (*_shown(relation), Column(SIGN, NUMBER)))
                self._insert(member.change, signed, rows[0].selectExpr("*", f"{sign}L AS `{SIGN}`"), rows[1], (SIGN,))
                member.changes.put(rows[1])
        if went[1]:
            member.remove()
        if not rounds or not came[1] + hit[1]:
            return
        # Rows that stayed untouched keep their rank, though they may have been derived once more.
        found = [frame.selectExpr("*", f"{top + (number + 1) * RANK_STEP}L AS `{RANK}`") for number, frame in rounds]
        ranked = _grouped(reduce(lambda a, b: a.unionAll(b), found), columns, {RANK: f"min(`{RANK}`)"})
        touched = (came[0].unionAll(hit[0]), came[1] + hit[1])
        ranked = without(ranked, touched, columns, "left_semi")
        again = f' ON CONFLICT DO UPDATE SET "{RANK}" = excluded."{RANK}"'
        self._insert(member.table, _with(relation, RANK), ranked, touched[1], more=again)

    # ---- rows into SQLite

    def _insert(
        self, table: str, relation: Relation, frame: DataFrame, rows: int, named: tuple[str, ...] = (), more: str = ""
    ) -> None:
        """Adds a frame's rows to a table; ``named``: further columns, where the table has more than these."""
        if rows >= _SORTED:
            frame = frame.orderBy(*_quoted(column_names(relation)))
        columns = ", ".join(self.tables.name(c.name) for c in relation.columns)
        into = f"{table} ({columns})" if named else table
        sql = f"INSERT INTO {into} VALUES ({', '.join('?' * len(column_names(relation)))}){more}"
        for batch in self.engine.collect(relation, frame, rows):
            self._run(sql, batch)

    def _run(self, sql: str, batch: pa.RecordBatch) -> None:
        self.tables.engine.connection.executemany(sql, rows_of_batch(batch, batch.num_columns))


def _grouped(frame: DataFrame, groups: Sequence[str], values: Mapping[str, str]) -> DataFrame:
    from pyspark.sql import functions as F

    return frame.groupBy(*_quoted(groups)).agg(*(F.expr(sql).alias(name) for name, sql in values.items()))


def _quoted(names: Iterable[str]) -> list[str]:
    return [f"`{name}`" for name in names]


def _totals(keeper: TotalKeeper, targets: Sequence[str]) -> dict[str, str]:
    """The sums of ``TotalKeeper.sums`` in Spark's SQL."""
    n = f"`{COUNT}`"
    expressions = {"$n": f"coalesce(sum({n}), 0L)"}
    for i, t in enumerate(_quoted(targets)):
        expressions |= {
            f"$m{i}": f"coalesce(sum(CASE WHEN {t} IS NULL THEN 0L ELSE {n} END), 0L)",
            f"$high{i}": f"coalesce(sum({n} * shiftright({t}, 32)), 0L)",
            f"$low{i}": f"coalesce(sum({n} * ({t} & 4294967295L)), 0L)",
            f"{EXACT}{i}": f"vk_exact_total(collect_list({t}))",
        }
    return {name: expressions[name] for name in keeper.sums}


_TEXT = replace(NUMBER, kind=Kind.SYMBOL)


def _shown(relation: Relation) -> tuple[Column, ...]:
    return relation.columns or (Column("present", NUMBER),)


def _with(relation: Relation, *more: str) -> Relation:
    """The relation's table: its columns, and behind them what its keeper needs."""
    return Relation(relation.name, (*_shown(relation), *(Column(name, NUMBER) for name in more)))


def _old(relation: Relation, what: str = "") -> Relation:
    return replace(relation, name=f"{relation.name}{_OLD}_{what}" if what else f"{relation.name}{_OLD}", key=())


def _of_old(rule: Rule) -> Rule:
    """The rule with relations as they were before the change."""
    return Rule(_renamed(rule.head), tuple(_renamed_literal(literal) for literal in rule.body))


def _renamed(atom: Atom) -> Atom:
    return replace(atom, relation=f"{atom.relation}{_OLD}")


def _renamed_literal(literal: Literal) -> Literal:
    match literal:
        case Atom():
            return _renamed(literal)
        case Negation():
            return replace(literal, atom=_renamed(literal.atom))
    return literal
