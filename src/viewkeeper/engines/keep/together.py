"""Rules that need nothing but changed rows of one stored relation: one statement evaluates all of them.

    SELECT 17, columns of rule 17 … UNION ALL SELECT 18, columns of rule 18 …

Most of them find nothing, and a statement of its own for each would cost more than its search. The changed row is a parameter; if there are
more than some, they are in a table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from viewkeeper.engines.keep.changes import MANY, Row
from viewkeeper.engines.keep.few_rows import row_relation
from viewkeeper.engines.keep.states import UNCHANGED, Changed, States
from viewkeeper.program.ast import Atom, Rule

# SQLite takes 500 terms; what is prepared for some of them only is of no use for others.
_TERMS = 100
BETWEEN = "\nUNION ALL "
_WHAT = "row"
# From here on it is cheaper to put rows into a table than to run the statement for each.
_SOME = 8

Statement = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class OneRow:
    """A rule, the place of the atom that is the changed row, and the stored relations that are read as they were."""

    rule: Rule
    place: int
    before: tuple[str, ...]


class Together:
    """Rules by number that start from changed rows of one relation; ``views``: what they tell something about."""

    def __init__(self, states: States, relation: str, rules: Mapping[int, OneRow]) -> None:
        self._states, self._changes, self._rules = states, states.tables.changes[relation], rules
        row = row_relation(states, relation, _WHAT)
        self._of_row = {number: replace(one, rule=_with_row(one, row.name)) for number, one in rules.items()}
        self._names = [f"{_WHAT}_{i}" for i in range(len(row.columns))]
        self._before = tuple({name for one in rules.values() for name in one.before})
        self._widths = {number: max(1, len(one.rule.head.arguments)) for number, one in rules.items()}
        self._terms: dict[tuple[int, Changed, bool], list[Statement]] = {}
        self._statements: dict[tuple[Changed, bool], list[Statement]] = {}
        self.views = {one.rule.head.relation.partition("$")[0] for one in rules.values()}

    def find(self, sign: int) -> dict[int, list[Row]] | None:
        """What rows that came (1) or went (-1) lead to, by rule; None if that is much."""
        by_row = self._changes.few and self._changes.number <= _SOME
        changed = self._states.changed_of(self._before) if self._before else UNCHANGED
        statements = self._statements.get((changed, by_row))
        if statements is None:
            statements = self._statements[changed, by_row] = self._compile(changed, by_row)
        self._states.in_tables(changed)
        known, found = self._states.values if changed else {}, dict[int, list[Row]]()
        if not by_row:
            self._changes.in_table()
            return found if self._add(statements, known, found) else None
        for row, its_sign in self._changes.rows():
            if its_sign == sign and not self._add(statements, known | dict(zip(self._names, row, strict=True)), found):
                return None
        return found

    def _add(self, statements: list[Statement], values: dict[str, Any], found: dict[int, list[Row]]) -> bool:
        """Adds what the statements tell; False if that is much."""
        for sql, constants in statements:
            told = self._states.tables.fetch(sql, values | constants)
            if len(told) > MANY:
                return False
            for number, *columns in told:
                found.setdefault(number, []).append(tuple(columns[-self._widths[number] :]))
        return True

    def _compile(self, changed: Changed, by_row: bool) -> list[Statement]:
        terms = [
            (number, *term)
            for number, one in self._rules.items()
            for term in self._term(number, frozenset([known for known in changed if known[0] in one.before]), by_row)
        ]
        return [self._compound(terms[i : i + _TERMS]) for i in range(0, len(terms), _TERMS)]

    def _term(self, number: int, changed: Changed, by_row: bool) -> list[Statement]:
        key = (number, changed, by_row)
        if key not in self._terms:
            one = (self._of_row if by_row else self._rules)[number]
            selects = [
                self._states.tables.rule(Rule(one.rule.head, body), None, places[one.place])
                for body, places in self._states.alternatives(one.rule.body, changed)
            ]
            self._terms[key] = [(select.sql, dict(select.parameters)) for select in selects]
        return self._terms[key]

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
