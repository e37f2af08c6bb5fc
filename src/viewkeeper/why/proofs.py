"""One derivation for a row, and for every row it needs, that never goes round in a circle.

A row of a stratum that is not recursive takes the first rule instance that gives it: its premises are of lower strata. In a recursive
stratum rows may follow from each other, so they are searched backward and proved forward:

1. A row that is **wanted** is visited: some of the rule instances that give it are fetched, those with the oldest premises first. Their
   premises in the same stratum become wanted, too.
2. A row is **proved** by the first instance whose premises of the same stratum are all proved.
3. What waited for the row is looked at again. The search ends when the row asked for is proved.

A row that is visited again gets more of its instances, so that in the end all are seen: what has a derivation is proved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count, islice

from viewkeeper.why.asking import Asker
from viewkeeper.why.forms import Form, Row
from viewkeeper.why.instances import Instances, Step, first

Proof = Step | str
"""A rule instance; or "base" or "fact" for a row that needs no reason."""

# How many more instances of each rule a visit fetches than the one before.
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
    """What is left of the instances of a row."""

    sources: list[Iterator[tuple[int, Step]]]
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

    def __post_init__(self) -> None:
        # Rows to visit: those that were visited least first, and of these the oldest.
        self.queue: list[tuple[int, int, int, Row]] = []
        self._ticket = count()

    def prove(self, goal: Row) -> Proof | None:
        self._want(goal, 0)
        while goal not in self.proved and self.queue:
            _, rank, _, row = heappop(self.queue)
            if row not in self.proved:
                self._visit(row, rank)
        return self.proved.get(goal)

    # 1

    def _want(self, row: Row, rank: int) -> None:
        if row in self.visits or row in self.proved:
            return
        if row in self.asker.facts:
            self._prove(row, "fact")
            return
        forms = sorted(self.asker.forms(row.relation), key=self._is_recursive)
        self.visits[row] = _Visits([self.instances.of(form, row, self._latest(form)) for form in forms])
        heappush(self.queue, (0, rank, next(self._ticket), row))

    def _is_recursive(self, form: Form) -> bool:
        return bool(self._latest(form))

    def _latest(self, form: Form) -> frozenset[str]:
        from viewkeeper.program.ast import Atom

        return self.members & {literal.relation for literal in form.body if isinstance(literal, Atom)}

    def _visit(self, row: Row, rank: int) -> None:
        visits = self.visits[row]
        left = []
        for source in visits.sources:
            found = list(islice(source, GROWTH**visits.number))
            if found:
                left.append(source)
            for latest, step in found:
                self._consider(row, step, latest)
                if row in self.proved:
                    return
        visits.sources, visits.number = left, visits.number + 1
        if left:
            heappush(self.queue, (visits.number, rank, next(self._ticket), row))

    def _consider(self, row: Row, step: Step, latest: int) -> None:
        needed = {premise for premise in step.rows.values() if premise.relation in self.members}
        for premise in needed:
            self._want(premise, latest)
        instance = _Instance(row, step, needed - self.proved.keys())
        if not instance.waits:
            self._prove(row, step)
        for premise in instance.waits:
            self.waiting.setdefault(premise, []).append(instance)

    # 2 and 3

    def _prove(self, row: Row, proof: Proof) -> None:
        todo: list[tuple[Row, Proof]] = [(row, proof)]
        while todo:
            row, proof = todo.pop()
            if row in self.proved:
                continue
            self.proved[row] = proof
            for instance in self.waiting.pop(row, []):
                instance.waits.discard(row)
                if not instance.waits:
                    todo.append((instance.head, instance.step))
