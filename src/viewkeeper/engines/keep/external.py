"""Keeps views of which nothing is stored: what changes in them is told, and their rows are there for a moment if a stored view needs them."""

from __future__ import annotations

from collections.abc import Iterable

from viewkeeper.engines.keep.changes import Signed
from viewkeeper.engines.keep.keeper import Signs, Stored
from viewkeeper.engines.keep.rederiving import BEFORE, Rederiving
from viewkeeper.engines.keep.tables import Tables
from viewkeeper.program.ast import Relation
from viewkeeper.program.plan import External, Group, free_magic
from viewkeeper.program.strata import reach


class Unstored(Stored):
    """One such view, and its changes."""

    def __init__(self, tables: Tables, relation: Relation, rederiving: Rederiving) -> None:
        super().__init__(tables, relation)
        self.rederiving = rederiving
        self._minus, self._plus = (rederiving.relations[f"{relation.name}${what}"] for what in ("minus", "plus"))
        self.create()
        self.forget()

    def forget(self) -> None:
        self.held = self.settled = False

    def is_empty(self) -> bool:
        return False  # as far as anybody knows

    def hold(self) -> None:
        """Derives all rows as they are at this point of the change."""
        if self.held:
            return
        tables, name = self.tables, self.relation.name
        tables.used(self.table)
        tables.noted(self)
        self.rederiving.ask(free_magic(self.relation), [(1,)])
        self.rederiving.run(BEFORE)
        old = self.rederiving.relations[f"{name}$old"]
        tables.run(f"INSERT INTO {self.table} ({self.columns}) SELECT {old.columns} FROM {old.in_table()}")
        self.held = True
        if self.settled:
            self._bring_in()

    def settle(self) -> None:
        """Notes what comes and goes."""
        told = ((self._minus, -1), (self._plus, 1))
        if self._minus.is_small and self._plus.is_small:
            if self._minus.number or self._plus.number:
                self.changes.add([(row, sign) for derived, sign in told for row in derived.rows()])
        else:
            for derived, sign in told:
                self.changes.note(f"SELECT {derived.columns}, {sign} FROM {derived.in_table()}")
        self._settled()

    def settled_elsewhere(self, rows: Iterable[Signed]) -> None:
        """Notes what comes and goes, as another engine found it."""
        self.changes.add(rows)
        self._settled()

    def _settled(self) -> None:
        self.settled = True
        self.tables.noted(self)
        if self.held:
            self._bring_in()

    def _bring_in(self) -> None:
        if self.changes.number:
            self.changes.in_table()
            self.apply()


class ExternalKeeper:
    """Keeps views that stored ones read, and is told when what these read has changed. The others are settled together in the end."""

    def __init__(self, tables: Tables, step: External, rederiving: Rederiving) -> None:
        self.relations, self.step, self.rederiving = step.relations, step, rederiving
        self.touched = self.rederived = 0
        self.members = {relation.name: Unstored(tables, relation, rederiving) for relation in step.relations}
        self._noticed: list[str] = []
        self.below = frozenset(reach(tables.plan.reads, {relation.name for relation in step.relations}))

    def create(self) -> None:
        pass

    def prepare(self) -> None:
        pass

    def fill(self) -> None:
        pass

    def empty(self) -> None:
        pass

    def notice(self, group: Group, signs: Signs) -> None:
        self._noticed += [name for name in group if name in signs]

    def settle(self) -> None:
        asked, derived = self.rederiving.asked, self.rederiving.derived
        for name in self._noticed:
            self.rederiving.start(name)
        self._noticed.clear()
        self.rederiving.run((1, self.step.stratum, 9), self.below)
        self.rederived += self.rederiving.asked - asked
        self.touched += self.rederiving.derived - derived
        self.tell()

    def tell(self) -> None:
        """Notes what changes in the views, all of which is derived."""
        for member in self.members.values():
            member.settle()

    def forget(self) -> None:
        self._noticed.clear()
        for member in self.members.values():
            member.changes.forget()
            member.forget()
