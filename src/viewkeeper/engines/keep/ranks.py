"""A relation of a recursion: its rows with their ranks, those in doubt, and what is asked about them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from viewkeeper.engines.keep.changes import is_few
from viewkeeper.engines.keep.keeper import Stored
from viewkeeper.engines.keep.tables import Select, Tables
from viewkeeper.program.ast import Column, Relation, Rule
from viewkeeper.program.plan import ID, NEW, OLD, RANK, SUSPENDED, Recursive
from viewkeeper.program.types import NUMBER


class Member(Stored):
    """One relation of the recursion."""

    def __init__(self, tables: Tables, relation: Relation) -> None:
        super().__init__(tables, relation, RANK)
        tables.declare(relation, "ranked")
        tables.declare(relation, "found")
        self.low = self.high = self.top = 0

    def derive(self, select: Select, **more: Any) -> int:
        """Adds what a rule derives."""
        sql = f'INSERT INTO {self.table} ({self.columns}, "{RANK}") {ended(select.sql)} ON CONFLICT DO NOTHING'
        return self.insert(sql, {**select.parameters, **more})

    def insert(self, sql: str, parameters: Mapping[str, Any]) -> int:
        """Adds rows, which get the next numbers; returns how many."""
        added = self.tables.run(sql, parameters, self.relation.name).rowcount
        self.top += added
        return added


class Asking(Member):
    """A member that is maintained: with tables of rows in doubt."""

    def __init__(self, tables: Tables, relation: Relation) -> None:
        super().__init__(tables, relation)
        number = [Column(name, NUMBER) for name in (ID, RANK)]
        name = relation.name
        tables.declare(relation, "asked")
        tables.declare(relation, "hit")
        self.doubt = tables.temporary(Relation(f"{name}$doubt", tuple(number)), key=ID)
        self.suspect = tables.temporary(Relation(f"{name}$suspect", (number[0],)), key=ID)
        self.lost = tables.temporary(tables.declare(relation, "lost"), key=ID)
        self.gone = tables.temporary(tables.declare(relation, "gone"), unique=True)
        self.gone_rows = self.suspects = 0
        self.doubting = cache(self._doubting)

    def doubted(self, select: Select) -> int:
        """Puts in doubt what a rule hits."""
        self.tables.used(self.doubt)
        return self.tables.run(self.doubting(select.sql), select.parameters, self.relation.name).rowcount

    def _doubting(self, hits: str) -> str:
        columns = self.tables.columns(self.relation)
        renamed = ", ".join(f"c{i} AS {name}" for i, name in enumerate(columns))
        width = len(columns)
        return (
            f'INSERT OR IGNORE INTO {self.doubt} SELECT h.rowid, h."{RANK}" FROM'
            f' (SELECT {renamed}, c{width} AS "{OLD}", c{width + 1} AS "{NEW}" FROM ({hits})) AS b'
            f' CROSS JOIN {self.table} AS h ON {self.same("h", "b")} WHERE h."{RANK}" > b."{OLD}" AND h."{RANK}" <= b."{NEW}"'
            f' AND h."{RANK}" < {SUSPENDED}'
        )

    def tell(self, low: int) -> None:
        """Notes which rows came, of those with a number above ``low``, and which of those that went did not come back."""
        gone = self.gone_rows
        if is_few(self.top - low + gone):
            came = (
                self.tables.fetch(f"SELECT {self.columns} FROM {self.table} WHERE rowid > ?", (low,)) if self.top > low else []
            )
            went = self.tables.fetch(f"SELECT {self.columns} FROM {self.gone}") if gone else []
            signed = [(row, 1) for row in came if row not in went] + [(row, -1) for row in went if row not in came]
            if signed:
                self.changes.add(signed)
        else:
            self._tell_in_table(low)
        self.gone_rows = 0

    def _tell_in_table(self, low: int) -> None:
        if self.top > low:
            absent = f"NOT EXISTS (SELECT 1 FROM {self.gone} AS g WHERE {self.same('g', 'h')})"
            self.changes.note(
                f"SELECT {self.of('h')}, 1 FROM {self.table} AS h WHERE h.rowid > :low AND {absent}", {"low": low}
            )
        if self.gone_rows:
            present = f"EXISTS (SELECT 1 FROM {self.table} AS h WHERE {self.same('h', 'g')})"
            self.changes.note(f"SELECT {self.of('g')}, -1 FROM {self.gone} AS g WHERE NOT {present}")

    def lowest(self) -> int | None:
        [[rank]] = self.tables.run(f'SELECT min("{RANK}") FROM {self.doubt}')
        return None if rank is None else int(rank)


@dataclass(frozen=True)
class Questions:
    """What is asked about rows of a member: whose doubt is dismissed, of any rank, who of a rank is a suspect, how suspects are lost, and
    who of those that went can be proved again; with the values in all these."""

    dismissed: str
    suspects: str
    losses: str
    again: list[str]
    values: dict[str, Any]


def questions(step: Recursive, member: Asking) -> Questions:
    tables, name = member.tables, member.relation.name
    parameters: dict[str, Any] = {}

    def proofs(rules: tuple[Rule, ...], prefix: str) -> list[str]:
        selects = [tables.select(rule, prefix=f"{prefix}{i}") for i, rule in enumerate(rules)]
        for select in selects:
            parameters.update(select.parameters)
        return [ended(select.sql) for select in selects]

    lower, same = proofs(step.proofs[name], "a"), proofs(step.raised[name], "b")
    none = " AND ".join(f"NOT EXISTS ({sql})" for sql in lower)
    doubted = f'FROM {member.doubt} AS d CROSS JOIN {member.table} AS t0 ON t0.rowid = d."{ID}"'
    suspects = f'INSERT INTO {member.suspect} SELECT t0.rowid {doubted} WHERE d."{RANK}" = :level AND {none}'
    of_any_rank = re.sub(r":level\b", f't0."{RANK}"', none)
    dismissed = f'DELETE FROM {member.doubt} WHERE "{ID}" IN (SELECT t0.rowid {doubted} WHERE NOT ({of_any_rank}))'
    some = " OR ".join(f"EXISTS ({sql})" for sql in same)
    losses = (
        f"INSERT INTO {member.lost} SELECT t0.rowid, :level, CASE WHEN {some} THEN :level + 1 ELSE {SUSPENDED} END"
        f' FROM {member.suspect} AS d CROSS JOIN {member.table} AS t0 ON t0.rowid = d."{ID}"'
    )
    again = [
        f'INSERT INTO {member.table} ({member.columns}, "{RANK}") SELECT {member.of("q")}, q."$proof" FROM (SELECT t0.*,'
        f' (SELECT c{len(tables.columns(member.relation))} FROM ({sql}) LIMIT 1) AS "$proof" FROM {member.gone} AS t0) AS q'
        ' WHERE q."$proof" IS NOT NULL ON CONFLICT DO NOTHING'
        for sql in proofs(step.again[name], "e")
    ]
    return Questions(dismissed, suspects, losses, again, parameters)


def ended(sql: str) -> str:
    """SQLite wants a WHERE where a FROM is missing, and reads ON as part of a join without one."""
    return sql if " WHERE " in sql else f"{sql} WHERE TRUE"
