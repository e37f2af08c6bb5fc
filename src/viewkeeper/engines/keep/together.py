"""Rules that need nothing but one changed row of a stored relation: one statement evaluates all of them.

    SELECT 17, columns of rule 17 … UNION ALL SELECT 18, columns of rule 18 …

Most of them find nothing, and a statement of its own for each would cost more than its search.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from viewkeeper.engines.keep.changes import MANY, Row
from viewkeeper.engines.keep.few_rows import row_relation
from viewkeeper.engines.keep.states import Changed, States
from viewkeeper.program.ast import Atom, Rule

# SQLite takes 500 terms; what is prepared for some of them only is of no use for others.
_TERMS = 100
BETWEEN = "\nUNION ALL "
_WHAT = "row"

Statement = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class OneRow:
    """A rule, the place of the atom that is the changed row, and the stored relations that are read as they were."""

    rule: Rule
    place: int
    before: tuple[str, ...]


class Together:
    """Rules by number that start from a changed row of one relation; ``views``: what they tell something about."""

    def __init__(self, states: States, relation: str, rules: Mapping[int, OneRow]) -> None:
        self._states = states
        row = row_relation(states, relation, _WHAT)
        self._rules = {number: replace(one, rule=_with_row(one, row.name)) for number, one in rules.items()}
        self._names = [f"{_WHAT}_{i}" for i in range(len(row.columns))]
        self._before = tuple({name for one in rules.values() for name in one.before})
        self._widths = {number: max(1, len(one.rule.head.arguments)) for number, one in rules.items()}
        self._terms: dict[tuple[int, Changed], list[Statement]] = {}
        self._statements: dict[Changed, list[Statement]] = {}
        self.views = {one.rule.head.relation.partition("$")[0] for one in rules.values()}

    def find(self, rows: Sequence[Row]) -> dict[int, list[Row]] | None:
        """What changed rows lead to, by rule; None if that is much."""
        changed = self._states.changed_of(self._before)
        statements = self._statements.get(changed)
        if statements is None:
            statements = self._statements[changed] = self._compile(changed)
        self._states.in_tables(changed)
        found: dict[int, list[Row]] = {}
        for row in rows:
            values = dict(zip(self._names, row, strict=True))
            for sql, constants in statements:
                told = self._states.tables.fetch(sql, values | constants)
                if len(told) > MANY:
                    return None
                for number, *columns in told:
                    found.setdefault(number, []).append(tuple(columns[-self._widths[number] :]))
        return found

    def _compile(self, changed: Changed) -> list[Statement]:
        terms = [
            (number, *term)
            for number, one in self._rules.items()
            for term in self._term(number, frozenset([known for known in changed if known[0] in one.before]))
        ]
        return [self._compound(terms[i : i + _TERMS]) for i in range(0, len(terms), _TERMS)]

    def _term(self, number: int, changed: Changed) -> list[Statement]:
        if (number, changed) not in self._terms:
            one = self._rules[number]
            found = []
            for body, places in self._states.alternatives(one.rule.body, changed):
                select = self._states.tables.rule(Rule(one.rule.head, body), None, places[one.place])
                found.append((select.sql, dict(select.parameters)))
            self._terms[number, changed] = found
        return self._terms[number, changed]

    def _compound(self, terms: Sequence[tuple[int, str, dict[str, Any]]]) -> Statement:
        """Terms have the same number of columns: in front of its own each has the number of its rule, and NULL where others have more."""
        width = max(self._widths[number] for number, *_ in terms)
        selects, constants = [], dict[str, Any]()
        for i, (number, sql, parameters) in enumerate(terms):
            constants |= {f"k{i}{name}": value for name, value in parameters.items()}
            columns = re.sub(r":(p\d+)\b", rf":k{i}\1", sql.removeprefix("SELECT "))
            selects.append(f"SELECT {number}, {'NULL, ' * (width - self._widths[number])}{columns}")
        return f"{BETWEEN.join(selects)} LIMIT {MANY + 1}", constants


def _with_row(one: OneRow, row: str) -> Rule:
    literal = one.rule.body[one.place]
    assert isinstance(literal, Atom)
    body = (*one.rule.body[: one.place], Atom(row, literal.arguments), *one.rule.body[one.place + 1 :])
    return Rule(one.rule.head, body)
