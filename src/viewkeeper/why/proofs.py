"""One derivation for a row, and for every row it needs, that never goes round in a circle.

A row of a stratum that is not recursive takes the first rule instance that gives it: its premises are of lower strata. In a recursive
stratum rows may follow from each other, so they are searched backward and proved forward:

1. A row that is **wanted** is visited: some of the rule instances that give it are fetched, those with the oldest premises first. Their
   premises in the same stratum become wanted, too.
2. A row is **proved** by the first instance whose premises of the same stratum are all proved.
3. What waited for the row is looked at again. The search ends when the row asked for is proved.

A row that is visited again gets more of its instances, so that in the end all are seen: what has a derivation is proved.

The recursion that computed a view stored rows in the order in which it found them. As long as that order holds, each row has an instance
with older premises only, and the one with the oldest is all that is needed. Where that is not enough, because rows came and went or
another engine wrote them, the search begins again, breadth first, with instances that have all premises but one from rules that
are not recursive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count, islice

from viewkeeper.program.ast import Atom
from viewkeeper.why.asking import Asker
from viewkeeper.why.forms import Row, can_be_unfolded, unfolded
from viewkeeper.why.instances import Instances, Step, first

Proof = Step | str
"""A rule instance; or "base" or "fact" for a row that needs no reason."""

# How many instances of each rule the first visit of a row fetches, breadth first, and how many times as many the next.
BREADTH = 64
GROWTH = 4


class Proofs:
    """Finds proofs, and keeps those it has found."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.instances = Instances(asker)
        self.found: dict[Row, Proof] = {}
        self._searches: dict[tuple[str, ...], _Search] = {}

    def of(self, goal: Row) -> dict[Row, Proof] | None:
        """Proofs of the row and of all that its proof needs; None if no rule gives a row that is there."""
        todo = [goal]
        while todo:
            row = todo.pop()
            if row in self.found:
                continue
            proof = self._prove(row)
            if proof is None:
                return None
            if isinstance(proof, Step) and not proof.form.number:
                proof = "fact"
            self.found[row] = proof
            if isinstance(proof, Step):
                todo += proof.rows.values()
        return self.found

    def _prove(self, row: Row) -> Proof | None:
        if row in self.asker.facts:
            return "fact"
        stratum = self.asker.strata[row.relation]
        if not stratum.recursive:
            found = (first(self.instances.of(form, row)) for form in self.asker.forms(row.relation))
            given = None if row.relation in self.asker.views else "base"
            return next((step for step in found if step is not None), given)
        if stratum.relations not in self._searches:
            self._searches[stratum.relations] = _Search(self.asker, self.instances, frozenset(stratum.relations))
        return self._searches[stratum.relations].prove(row)


@dataclass(eq=False)
class _Instance:
    """A rule instance that waits for premises."""

    head: Row
    step: Step
    waits: set[Row]


@dataclass(eq=False)
class _Visits:
    """What is left of the instances of a row: those to fetch at once, and those to fetch when it is visited again."""

    sources: list[Iterator[tuple[int, Step]]]
    later: list[Iterator[tuple[int, Step]]]
    number: int = 0


@dataclass
class _Search:
    """The search in one recursive stratum."""

    asker: Asker
    instances: Instances
    members: frozenset[str]
    proved: dict[Row, Proof] = field(default_factory=dict)
    waiting: dict[Row, list[_Instance]] = field(default_factory=dict)
    visits: dict[Row, _Visits] = field(default_factory=dict)
    ordered: bool = True

    def __post_init__(self) -> None:
        # Rows to visit: those that were visited least first, and of these, if they are ordered, the oldest.
        self.queue: list[tuple[int, int, int, Row]] = []
        self._ticket = count()
        forms = [form for name in sorted(self.members) for form in self.asker.forms(name)]
        self.latest = {form: self.members & {x.relation for x in form.body if isinstance(x, Atom)} for form in forms}
        plain = [form for form in forms if not self.latest[form] and can_be_unfolded(form)]
        given = {form.head.relation: form for form in reversed(plain)}
        self.hints = {form: hint for form in forms if (hint := unfolded(form, self.members, given))}

    def prove(self, goal: Row) -> Proof | None:
        self._want(goal, 0)
        while goal not in self.proved and self.queue:
            number, age, _, row = heappop(self.queue)
            if row in self.proved:
                continue
            if self.ordered and number or not self._visit(row, age):
                self.ordered = False
                self.queue, self.visits, self.waiting = [], {}, {}
                self._want(goal, 0)
        return self.proved.get(goal)

    # 1

    def _want(self, row: Row, age: int) -> None:
        if row in self.visits or row in self.proved:
            return
        if row in self.asker.facts:
            self._prove(row, "fact")
            return
        forms = sorted(self.asker.forms(row.relation), key=lambda form: bool(self.latest[form]))
        if self.ordered:
            visits = _Visits([self.instances.of(form, row, self.latest[form]) for form in forms], [])
        else:
            visits = _Visits(
                [self.instances.of(form, row, more=self.hints.get(form, ())) for form in forms],
                [self.instances.of(form, row) for form in forms if form in self.hints],
            )
        self.visits[row] = visits
        heappush(self.queue, (0, age, next(self._ticket), row))

    def _visit(self, row: Row, age: int) -> bool:
        """False if the row is older than what it follows from: there is no order."""
        visits = self.visits[row]
        most = 1 if self.ordered else BREADTH * GROWTH**visits.number
        batches = [(source, list(islice(source, most))) for source in visits.sources]
        if self.ordered and not self._is_ordered(row, [each for _, batch in batches for each in batch]):
            return False
        for _, batch in batches:
            for latest, step in batch:
                self._consider(row, step, latest)
                if row in self.proved:
                    return True
        visits.sources = [source for source, batch in batches if len(batch) == most] + visits.later
        visits.number, visits.later = visits.number + 1, []
        if visits.sources:
            heappush(self.queue, (visits.number, age, next(self._ticket), row))
        return True

    def _is_ordered(self, row: Row, found: list[tuple[int, Step]]) -> bool:
        """Is one of the instances older than the row? Row numbers of different relations cannot be compared."""
        number = self.asker.number(row)
        alone = len(self.members) == 1
        return not alone or number is None or any(latest < number for latest, _ in found)

    def _consider(self, row: Row, step: Step, age: int) -> None:
        needed = {premise for premise in step.rows.values() if premise.relation in self.members}
        for premise in needed:
            self._want(premise, age)
        instance = _Instance(row, step, needed - self.proved.keys())
        if not instance.waits:
            self._prove(row, step)
        for premise in instance.waits:
            self.waiting.setdefault(premise, []).append(instance)

    # 2 and 3

    def _prove(self, row: Row, proof: Proof) -> None:
        todo: deque[tuple[Row, Proof]] = deque([(row, proof)])
        while todo:
            row, proof = todo.popleft()  # breadth first: short proofs
            if row in self.proved:
                continue
            self.proved[row] = proof
            for instance in self.waiting.pop(row, []):
                instance.waits.discard(row)
                if not instance.waits:
                    todo.append((instance.head, instance.step))
