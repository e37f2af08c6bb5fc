"""Plays a stream of changes on a warehouse, and compares it with the naive evaluator after every one."""

from __future__ import annotations

import gzip
import json
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.generator import Generated
from tests.samples import Row, literal
from tests.shrink import shrink
from tests.streams import (
    Base,
    Define,
    Drop,
    KeyViolation,
    Operation,
    Rows,
    Step,
    Stream,
    Transaction,
    after,
    bases,
    declared,
    expected,
    head_of,
    smaller_streams,
    split,
    stream,
)

import viewkeeper as vk
from viewkeeper.changed import Changed
from viewkeeper.engines.keep import changes as keep_changes
from viewkeeper.errors import EvaluationError, ViewkeeperError
from viewkeeper.outcomes import Commit
from viewkeeper.program.arrow import rows_of_batch
from viewkeeper.program.values import restore
from viewkeeper.store.catalog import NOWHERE
from viewkeeper.warehouse import Warehouse


class Wrong(Exception):
    """The warehouse is not what it should be: what is wrong in a word, and the details."""

    def __init__(self, what: str, *details: object) -> None:
        super().__init__("\n".join([what, *map(str, details)]))
        self.what = what


class Unseen(Exception):
    """An error of a virtual view that nobody reads: it is not refused, and what the view has cannot be asked for."""


def play(made: Stream, path: Path, external: float = 0.0, virtual: float = 0.0) -> Player:
    """Plays the stream in a new directory, and looks back in the end; ``external``: which part of the views is not stored; ``virtual``: and of
    which part of these nothing is told."""
    names = names_in(made)
    chance = random.Random(repr((made.program.text, external)))
    unstored = [name for name in sorted(names) if chance.random() < external]
    player = Player(
        path, made.program, names, {name: "virtual" if chance.random() < virtual else "external" for name in unstored}
    )
    usual = keep_changes.FEW, keep_changes.MANY
    keep_changes.FEW, keep_changes.MANY = made.few, 3 * made.few
    try:
        player.define(Define(made.program.text))
        if not player.now:
            return player  # with nothing, not even for no rows
        for step in made.steps:
            player.play(step)
        player.look_back()
    except Unseen:
        pass
    finally:
        player.close()
        keep_changes.FEW, keep_changes.MANY = usual
    return player


class Player:
    """A warehouse, and beside it what it should hold: ``program``, the base rows, all relations, and what they were."""

    def __init__(self, path: Path, program: Generated, names: set[str], unstored: dict[str, str]) -> None:
        self.path, self.names, self.unstored = path, names, unstored
        self.silent: set[str] = set()  # relations of which something may not have been told
        self.warehouse = vk.open(path, create=True)
        self.other: Warehouse | None = None
        self.program = replace(program, declarations=(), rules=())
        self.base: Rows = {}
        self.now: Rows = {}
        self.past: dict[int, tuple[Generated, Rows]] = {0: (self.program, {})}
        self.refused = 0

    def close(self) -> None:
        self.warehouse.close()
        if self.other is not None:
            self.other.close()

    def play(self, step: Step) -> None:
        match step:
            case Transaction():
                self.transaction(step)
            case Define():
                self.define(step)
            case Drop():
                self.drop(step)

    # ---- definitions

    def define(self, step: Define) -> None:
        declarations, rules = split(step.text)
        old_declarations, old_rules = self.program.declarations, self.program.rules
        if step.replaces:
            again = declared(declarations).keys()
            old_declarations = tuple(x for x in old_declarations if not declared([x]).keys() & again)
            old_rules = tuple(rule for rule in old_rules if head_of(rule) not in again)
        program = replace(
            self.program,
            declarations=tuple(dict.fromkeys((*old_declarations, *declarations))),
            rules=tuple(dict.fromkeys((*old_rules, *rules))),
        )
        # Somewhere else something may have been dropped that the text needs.
        if not self.used(program) <= declared(program.declarations).keys():
            self.must_refuse("UNKNOWN_RELATION", lambda: self.warehouse.define(step.text, replace=step.replaces))
            return
        state = {base.name: self.base.get(base.name, set()) for base in bases(program)}
        views = {head_of(rule) for rule in rules if ":-" in rule} & self.unstored.keys() & declared(declarations).keys()
        text = "\n".join([step.text, *(f".{self.unstored[name]} {name}" for name in sorted(views))])
        self.change(program, state, lambda: self.warehouse.define(text, replace=step.replaces))

    def drop(self, step: Drop) -> None:
        program = replace(
            self.program,
            declarations=tuple(x for x in self.program.declarations if step.relation not in declared([x])),
            rules=tuple(rule for rule in self.program.rules if head_of(rule) != step.relation),
        )
        if step.relation not in self.now:
            self.must_refuse("UNKNOWN_RELATION", lambda: self.warehouse.drop(step.relation))
        elif step.relation in self.used(program):
            self.must_refuse("DROP_DEPENDENTS", lambda: self.warehouse.drop(step.relation))
        else:
            state = {name: rows for name, rows in self.base.items() if name != step.relation}
            self.change(program, state, lambda: self.warehouse.drop(step.relation))

    def used(self, program: Generated) -> set[str]:
        """The relations that rules name."""
        return {name for rule in program.rules for name in re.findall(r"(\w+)\(", rule)} & self.names

    # ---- rows

    def transaction(self, step: Transaction) -> None:
        if step.way == "commit":
            order = ("delete", "insert", "upsert")
            step = replace(step, operations=tuple(sorted(step.operations, key=lambda one: order.index(one.kind))))
        if not {operation.relation for operation in step.operations} <= self.base.keys():
            self.must_refuse("UNKNOWN_RELATION", lambda: self.commit(step))
            return
        try:
            state = after(self.base, step, self.bases())
        except KeyViolation:
            self.must_refuse("KEY_VIOLATION", lambda: self.commit(step))
            return
        self.change(self.program, state, lambda: self.commit(step))

    def bases(self) -> dict[str, Base]:
        return {base.name: base for base in bases(self.program)}

    def commit(self, step: Transaction) -> Commit:
        match step.way:
            case "commit":
                groups = grouped(step.operations)
                return self.as_foretold(
                    self.warehouse.preview(groups["insert"], groups["delete"], groups["upsert"]),
                    self.warehouse.commit(groups["insert"], groups["delete"], groups["upsert"]),
                )
            case "file":
                file = self.path.with_suffix(".jsonl.gz")
                file.write_bytes(gzip.compress("".join(map(line, each_row(step.operations))).encode()))
                return self.as_foretold(self.warehouse.commit_file(file, dry_run=True), self.warehouse.commit_file(file))
            case "other":
                self.other = self.other or vk.open(self.path)
                return collected(self.other, step.operations)
            case "reopened":
                self.warehouse.close()
                self.warehouse = vk.open(self.path)
        return collected(self.warehouse, step.operations)

    def as_foretold(self, preview: Commit, commit: Commit) -> Commit:
        if preview.number is not None or told(preview.changes) != told(commit.changes):
            raise Wrong("preview", told(preview.changes), told(commit.changes))
        return commit

    # ---- comparing

    def change(self, program: Generated, state: Rows, action: Any) -> None:
        """Does something after which the program and the base rows shall be these."""
        want = expected(program, state)
        if isinstance(want, str):
            self.must_refuse("", action, EvaluationError)
            return
        try:
            commit = action()
        except EvaluationError as error:
            # A failure that a relation further on would have excluded: programs with guards have none.
            if not program.risky:
                raise Wrong("refused", error) from error
            self.unchanged()
            return
        self.same(want)
        if told(commit.changes).keys() & self.warehouse.program.virtual:
            raise Wrong("told", commit.changes.keys(), self.warehouse.program.virtual)
        self.silent |= self.warehouse.program.virtual
        changes = {name: changed for name, changed in told(commit.changes).items() if name not in self.silent}
        difference = {
            name: (want.get(name, set()) - self.now.get(name, set()), self.now.get(name, set()) - want.get(name, set()))
            for name in (want.keys() | self.now.keys()) - self.silent
            if want.get(name, set()) != self.now.get(name, set())
        }
        if changes != difference:
            raise Wrong("changes", f"told: {changes}", f"true: {difference}")
        if commit.number is None and (difference or program != self.program):
            raise Wrong("no commit")
        self.program, self.base, self.now = program, state, want
        if commit.number is not None:
            if commit.number != max(self.past) + 1:
                raise Wrong("number", commit.number)
            self.past[commit.number] = (program, want)

    def must_refuse(self, code: str, action: Any, kind: type[ViewkeeperError] = ViewkeeperError) -> None:
        try:
            action()
        except kind as error:
            if code and error.code not in (code, "" if self.now else "NOTHING_DEFINED"):
                raise
        else:
            if kind is EvaluationError and self.warehouse.program.virtual:
                raise Unseen
            raise Wrong("not refused", code or kind.__name__)
        self.refused += 1
        self.unchanged()

    def unchanged(self) -> None:
        self.same(self.now)
        last = max((logged.number for logged in self.warehouse.log()), default=0)
        if last != max(self.past):
            raise Wrong("a commit of what was refused")

    def same(self, want: Rows) -> None:
        got = everything(self.warehouse)
        wrong = {name: (want[name] - got[name], got[name] - want[name]) for name in want if want[name] != got[name]}
        if wrong or got.keys() != want.keys():
            raise Wrong("state", *(f"{name} lacks {less} and has {more}" for name, (less, more) in wrong.items()))

    # ---- what was

    def look_back(self) -> None:
        """The log, applied to nothing, gives every state; so do queries as of then."""
        state: Rows = {}
        with vk.open(self.path) as again:
            for number, (program, want) in self.past.items():
                if number:
                    for name, (came, went) in told(again.changes(number)).items():
                        if name in self.silent:
                            continue
                        held = state.setdefault(name, set())
                        if went - held or came & held:
                            raise Wrong("log", number, name)
                        held -= went
                        held |= came
                state = {name: rows for name, rows in state.items() if rows}
                if state != {name: rows for name, rows in want.items() if rows and name not in self.silent}:
                    raise Wrong("log", number, state, want)
                if number % 3 == max(self.past) % 3:
                    self.look_at(again, number, program, want)

    def look_at(self, again: Warehouse, number: int, program: Generated, want: Rows) -> None:
        for base in declared(program.declarations).values():
            columns = ", ".join(f"c{i}" for i in range(len(base.types)))
            got = set(again.query(f"{base.name}({columns})", as_of=number))
            if got != want[base.name]:
                raise Wrong("as of", number, base.name, got, want[base.name])
            some = min((row for row in want[base.name] if len(row) > 1 and row[0] is not None), key=repr, default=None)
            if some is not None:
                columns = columns.replace("c0", literal(some[0], base.types[0]), 1)
                got, right = (
                    set(again.query(f"{base.name}({columns})", as_of=number)),
                    {r for r in want[base.name] if r[0] == some[0]},
                )
                if {(some[0], *row) for row in got} != right:
                    raise Wrong("as of, a part", number, base.name, columns, got, right)


def names_in(made: Stream) -> set[str]:
    """All relations that are ever declared."""
    texts = [made.program.text, *(step.text for step in made.steps if isinstance(step, Define))]
    return {name for text in texts for name in declared(split(text)[0])}


def everything(warehouse: Warehouse) -> Rows:
    found: Rows = {}
    with warehouse._reading() as state:
        for relation in state.program.relations:
            batches = list(state.rows(relation))
            rows = [
                tuple(restore(v, t) for v, t in zip(row, relation.types, strict=False))
                for batch in batches
                for row in rows_of_batch(batch, max(1, relation.arity))
            ]
            found[relation.name] = set(rows)  # type: ignore[arg-type]
            kept = state.kept[relation.name]
            if not len(found[relation.name]) == len(rows) == (len(rows) if kept.place == NOWHERE else kept.rows):
                raise Wrong("count", relation.name, rows, state.kept[relation.name])
    return found


def told(changes: Mapping[str, Changed]) -> dict[str, tuple[set[Row], set[Row]]]:
    """What came and what went, of each relation that changed."""
    found = {}
    for name, changed in changes.items():
        rows = list(changed.values())
        came, went = [row for kind, row in rows if kind == "insert"], [row for kind, row in rows if kind == "delete"]
        if not rows or len(set(rows)) < len(rows) or (len(came), len(went)) != (changed.inserted_rows, changed.deleted_rows):
            raise Wrong("told", name, rows)
        found[name] = set(came), set(went)
    return found  # type: ignore[return-value]


def collected(warehouse: Warehouse, operations: tuple[Operation, ...]) -> Commit:
    with warehouse.transaction() as tx:
        for operation in operations:
            getattr(tx, operation.kind)(operation.relation, operation.rows)
    assert tx.result is not None
    return tx.result


def grouped(operations: tuple[Operation, ...]) -> dict[str, dict[str, list[Row]]]:
    found: dict[str, dict[str, list[Row]]] = {"insert": {}, "delete": {}, "upsert": {}}
    for operation in operations:
        found[operation.kind].setdefault(operation.relation, []).extend(operation.rows)
    return found


def each_row(operations: tuple[Operation, ...]) -> list[dict[str, object]]:
    return [{"relation": one.relation, "op": one.kind, "row": row} for one in operations for row in one.rows]


def line(operation: dict[str, object]) -> str:
    def text(value: object) -> str:
        match value:
            case datetime():
                return value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
            case date():
                return value.isoformat()
            case Decimal():
                return format(value, "f")
            case bytes():
                return value.hex()
        raise TypeError(value)

    return json.dumps(operation, default=text) + "\n"


# ---- many streams


def outcome(made: Stream, external: float = 0.0, virtual: float = 0.0) -> tuple[str, str]:
    """What is wrong in a word, and the details."""
    directory = Path(tempfile.mkdtemp(prefix="streams"))
    try:
        play(made, directory / "w", external, virtual)
    except Wrong as wrong:
        return wrong.what, str(wrong)
    except Exception as error:
        return f"{type(error).__name__} {str(error)[:40]}", str(error)
    finally:
        shutil.rmtree(directory)
    return "right", ""


def main() -> None:
    """``python -m tests.streams FIRST LAST`` plays many, ``python -m tests.streams SEED`` makes one that fails small; ``external=0.5`` and ``virtual=0.5`` go with both."""
    external, virtual = (
        next((float(a.partition("=")[2]) for a in sys.argv if a.startswith(f"{which}=")), 0.0)
        for which in ("external", "virtual")
    )
    first, *more = (int(a) for a in sys.argv[1:] if "=" not in a)
    if more:
        found = Counter()
        for seed in range(first, more[0]):
            what, details = outcome(stream(seed, definitions=seed % 2 == 1), external, virtual)
            found[what] += 1
            if what != "right":
                print(seed, details[:400].replace("\n", " | "), flush=True)
        print(found)
        return
    made = stream(first, definitions=first % 2 == 1)
    what = outcome(made, external, virtual)[0]
    assert what != "right", "it is right"
    small = shrink(made, lambda one: outcome(one, external, virtual)[0] == what, smaller_streams)
    print(outcome(small, external, virtual)[1], small.program.text, sep="\n\n")
    for step in small.steps:
        print(step)
