"""Recursive views: each row with its rank.

Rows go in the order of their ranks. Those that lost a derivation are asked for a proof of lower ranks; who has none, for one of the same
rank, which raises its own a little; who has neither goes, and asks those that may depend on it, all of higher rank. What went for
want of lower ranks only comes back in the end, together with what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from viewkeeper.engines.keep.keeper import Signs, Stored
from viewkeeper.engines.keep.ranks import Asking, Member, Questions, questions
from viewkeeper.engines.keep.tables import Select, Tables
from viewkeeper.program.ast import Atom, Constant, Relation, Rule
from viewkeeper.program.plan import ID, NEW, RANK, SUSPENDED, Group, Recomputed, Recursive

Round = Callable[[int, int], None]
# So many rows in doubt are asked for a proof together, whatever their ranks: most have one, and who loses it is asked again.
_AT_ONCE = 200


class _Fixpoint:
    """Members of a recursion, and their computation from what they hold and what their rules add."""

    def __init__(self, tables: Tables, step: Recursive | Recomputed) -> None:
        self.relations, self.tables, self.touched = step.relations, tables, 0
        self.members = {relation.name: Member(tables, relation) for relation in step.relations}
        self._rules, self._deltas = step.rules, step.deltas
        self.round: Round = lambda iteration, rows: None

    def create(self) -> None:
        for member in self.members.values():
            member.create()

    def empty(self) -> None:
        for member in self.members.values():
            member.empty()

    def forget(self) -> None:
        for member in self.members.values():
            member.changes.forget()

    def fill(self) -> None:
        self.start()
        for name, member in self.members.items():
            for rule in self._rules[name]:
                member.derive(self.tables.select(rule))
        self.repeat()

    def start(self) -> None:
        """From here on new rows are counted as new."""
        for member in self.members.values():
            member.low = member.top = self.tables.top(member.relation)

    @cached_property
    def deltas(self) -> dict[str, list[tuple[Select, Member]]]:
        return {
            name: [(self.tables.select(rule, place), self._read(rule, place)) for rule, place in self._deltas[name]]
            for name in self.members
        }

    def _read(self, rule: Rule, place: int) -> Member:
        literal = rule.body[place]
        assert isinstance(literal, Atom)
        return self.members[literal.relation.removesuffix("$ranked")]

    def repeat(self) -> None:
        """Derives what follows from the rows that are new since the start, and from those in turn."""
        iteration = rows = 0
        members = list(self.members.values())
        for member in members:
            member.high = member.top
        while any(member.high > member.low for member in members):
            for name, member in self.members.items():
                for select, read in self.deltas[name]:
                    if read.high > read.low:
                        rows += member.derive(select, delta_low=read.low, delta_high=read.high)
            for member in members:
                member.low, member.high = member.high, member.top
            iteration += 1
            self.round(iteration, rows)
        self.touched += rows


class RenewingKeeper(_Fixpoint):
    """A recursion that is computed anew."""

    def __init__(self, tables: Tables, step: Recomputed) -> None:
        super().__init__(tables, step)
        self.step = step

    def prepare(self) -> None:
        pass

    def notice(self, group: Group, signs: Signs) -> None:
        pass

    def settle(self) -> None:
        renew(self.tables, self, self.members.values())


def renew(tables: Tables, keeper: Any, stored: Iterable[Stored], fill: Callable[[], object] | None = None) -> None:
    """Computes what a keeper keeps anew, by itself or as told, and notes the difference."""
    held = list(stored)
    for one in held:
        old = tables.temporary(
            Relation(f"{one.relation.name}$old", tables.relations[f"{one.relation.name}$change"].columns[:-2]), unique=True
        )
        tables.used(old)
        tables.run(f"INSERT INTO {old} SELECT {one.columns} FROM {one.table}")
    keeper.empty()
    (fill or keeper.fill)()
    for one in held:
        old = tables.table(f"{one.relation.name}$old")
        for left, right, sign in ((old, one.table, -1), (one.table, old, 1)):
            one.changes.note(
                f"SELECT {one.of('a')}, {sign} FROM {left} AS a WHERE NOT EXISTS (SELECT 1 FROM {right} AS b WHERE {one.same('b', 'a')})"
            )


class RecursionKeeper(_Fixpoint):
    def __init__(self, tables: Tables, step: Recursive) -> None:
        super().__init__(tables, step)
        self.step = step
        self.members: dict[str, Asking] = {relation.name: Asking(tables, relation) for relation in step.relations}  # type: ignore[assignment]
        self._noticed: dict[Group, Signs] = {}
        # How many rows are in doubt, and whether none of them has a proof of lower ranks.
        self._doubts, self._sure = 0, False
        # Does what was noticed bring new rows?
        self._news = False
        self._hits: dict[tuple[Group, str], list[Select]] = {}
        self._found: dict[tuple[Group, str], list[Select]] = {}

    def prepare(self) -> None:
        for name in self.members:
            for group in self.step.hits:
                self._hit(group, name)
                self._finding(group, name)
        _ = self.deltas, self._lost, self._questions

    def _hit(self, group: Group, name: str) -> list[Select]:
        if (group, name) not in self._hits:
            self._hits[group, name] = [self.tables.select(rule) for rule in self.step.hits[group][name]]
        return self._hits[group, name]

    def _finding(self, group: Group, name: str) -> list[Select]:
        if (group, name) not in self._found:
            self._found[group, name] = [self.tables.select(rule) for rule in self.step.found[group][name]]
        return self._found[group, name]

    @cached_property
    def _lost(self) -> dict[str, list[Select]]:
        return {name: [self.tables.select(rule) for rule in self.step.lost[name]] for name in self.members}

    @cached_property
    def _questions(self) -> dict[str, Questions]:
        return {name: questions(self.step, member) for name, member in self.members.items()}

    # ---- a change

    def forget(self) -> None:
        super().forget()
        for member in self.members.values():
            member.gone_rows = 0
        self._noticed.clear()
        self._doubts, self._sure, self._news = 0, False, False

    def notice(self, group: Group, signs: Signs) -> None:
        self._noticed[group] = signs
        if not self._news:
            finding = (select for name in self.members for select in self._finding(group, name))
            self._news = any(_concerned(select.rule, signs) for select in finding)
        for changed in group:
            self.tables.changes[changed].in_table()
        for name, member in self.members.items():
            for select in self._hit(group, name):
                if _concerned(select.rule, signs):
                    self._doubt(member, select)

    def settle(self) -> None:
        while self._doubts:
            if not self._sure and self._doubts <= _AT_ONCE:
                self._dismiss()
            else:
                self._decide(self._lowest())
        for member in self.members.values():
            self.tables.emptied(member.doubt)
        if self._news or any(member.gone_rows for member in self.members.values()):
            self._return()
        self._noticed.clear()
        self._news = False

    def _doubt(self, member: Asking, select: Select) -> None:
        hit = member.doubted(select)
        if hit:
            self.touched += hit
            self._doubts += hit
            self._sure = False

    def _dismiss(self) -> None:
        """Whoever has a proof of lower ranks is not in doubt any more, unless one of these is lost."""
        for name in self.members:
            question = self._questions[name]
            self._doubts -= self.tables.run(question.dismissed, question.values, name).rowcount
        self._sure = True

    def _lowest(self) -> int:
        return min(rank for member in self.members.values() if (rank := member.lowest()) is not None)

    def _decide(self, level: int) -> None:
        """Who of a rank stays, who rises, and who goes."""
        members, run = list(self.members.items()), self.tables.run
        for name, member in members:
            question, of_level = self._questions[name], {"level": level}
            if self._sure:
                sql = f'INSERT INTO {member.suspect} SELECT "{ID}" FROM {member.doubt} WHERE "{RANK}" = :level'
                member.suspects = run(sql, of_level).rowcount
            else:
                member.suspects = run(question.suspects, question.values | of_level, name).rowcount
            self._doubts -= run(f'DELETE FROM {member.doubt} WHERE "{RANK}" = :level', of_level).rowcount
        hit = [(name, member) for name, member in members if member.suspects]
        for _, member in hit:
            ids = f'SELECT "{ID}" FROM {member.suspect}'
            run(f'UPDATE {member.table} SET "{RANK}" = {SUSPENDED} WHERE rowid IN ({ids})')
        for name, _ in hit:
            question = self._questions[name]
            run(question.losses, question.values | {"level": level}, name)
        if hit:
            for name, member in members:
                for select in self._lost[name]:
                    self._doubt(member, select)
        for _, member in hit:
            going = f'SELECT "{ID}" FROM {member.lost} WHERE "{NEW}" = {SUSPENDED}'
            rising = f'SELECT "{ID}" FROM {member.lost} WHERE "{NEW}" < {SUSPENDED}'
            run(f'UPDATE {member.table} SET "{RANK}" = :level + 1 WHERE rowid IN ({rising})', {"level": level})
            run(f"INSERT INTO {member.gone} SELECT {member.columns} FROM {member.table} WHERE rowid IN ({going})")
            self.tables.used(member.gone)
            member.gone_rows += run(f"DELETE FROM {member.table} WHERE rowid IN ({going})").rowcount
            run(f"DELETE FROM {member.suspect}")
            run(f"DELETE FROM {member.lost}")

    def _return(self) -> None:
        """What went and can be proved all the same comes back, what is new comes, and then what follows from both."""
        self.start()
        starts = {name: member.low for name, member in self.members.items()}
        for name, member in self.members.items():
            if member.gone_rows:
                question = self._questions[name]
                for sql in question.again:
                    member.insert(sql, question.values)
            for group, signs in self._noticed.items():
                for select in self._finding(group, name):
                    if _concerned(select.rule, signs):
                        self.touched += member.derive(select)
        self.repeat()
        for name, member in self.members.items():
            member.tell(starts[name])


def _concerned(rule: Rule, signs: Signs) -> bool:
    """Are there rows of the kind that the rule starts from?"""
    literal = rule.body[0]
    assert isinstance(literal, Atom) and isinstance(literal.arguments[-2], Constant)
    return literal.arguments[-2].value in signs.get(literal.relation.removesuffix("$change"), ())
