"""Random streams of changes, the same for the same seed: a program, and what is done to a warehouse one thing after the other.

``python -m tests.streams FROM TO`` plays many and tells which fail, ``python -m tests.streams SEED`` makes one that fails small.

Changes are mostly those that maintenance gets wrong: rows that go and come back, groups that are emptied and filled again, keys that
move, and changes that change nothing.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tests.generator import NAMED, VALUES, Generated, generate
from tests.oracle import OracleError
from tests.oracle import evaluate as evaluate_naively
from tests.samples import Row, Value
from tests.shrink import smaller_programs
from tests.stream_programs import PROGRAMS

from viewkeeper.errors import ProgramError
from viewkeeper.language import parse

Rows = dict[str, set[Row]]
STEPS = 8


@dataclass(frozen=True)
class Operation:
    kind: str
    relation: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Transaction:
    """``way``: by commit(…), by transaction(), from a file, or through another object for the same warehouse."""

    operations: tuple[Operation, ...]
    way: str = "transaction"


@dataclass(frozen=True)
class Define:
    """Rules and declarations that come, or take the place of those with the same name."""

    text: str
    replaces: bool = False


@dataclass(frozen=True)
class Drop:
    relation: str


Step = Transaction | Define | Drop


@dataclass(frozen=True)
class Stream:
    """``few``: as many changed rows are brought in one by one, more are brought in together."""

    program: Generated
    steps: tuple[Step, ...]
    few: int


@dataclass(frozen=True)
class Base:
    """A base relation as it is declared: the types of its columns, whether they may be NULL, the positions of its key."""

    name: str
    types: tuple[str, ...]
    nullable: tuple[bool, ...]
    key: tuple[int, ...]

    def key_of(self, row: Row) -> Row:
        return tuple(row[i] for i in self.key)


# ---- what a program says


def head_of(rule: str) -> str:
    return rule[: rule.index("(")].strip()


def split(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The declarations and the rules of a text with one a line."""
    lines = [line for line in text.splitlines() if line.strip()]
    return tuple(x for x in lines if x.startswith(".")), tuple(x for x in lines if not x.startswith("."))


def declared(declarations: Sequence[str]) -> dict[str, Base]:
    """All relations, views too."""
    found = {}
    for line in declarations:
        match = re.fullmatch(r"\.decl ([\w, ]+)\((.*?)\)(?: key\((.*)\))?", line)
        if match is None:
            continue
        columns = re.findall(r"(\w+): (\w+(?:\(\d+,\d+\))?)(\??)", match[2])
        names = [name for name, _, _ in columns]
        key = tuple(names.index(name) for name in (match[3].split(", ") if match[3] else ()))
        for relation in match[1].split(", "):
            types, nullable = tuple(t for _, t, _ in columns), tuple(bool(n) for *_, n in columns)
            found[relation] = Base(relation, types, nullable, key)
    return found


def bases(program: Generated) -> list[Base]:
    views = {head_of(rule) for rule in program.rules}
    return [base for base in declared(program.declarations).values() if base.name not in views]


def written_program(name: str, seed: int = 0) -> Generated:
    declarations, rules = split(PROGRAMS[name])
    return Generated(seed, declarations, rules, {}, name == "failures on the way")


def random_program(seed: int) -> Generated:
    """A random program whose base relations have no facts in the text; some have keys."""
    program, rng = generate(seed), random.Random(seed)
    views = {head_of(rule) for rule in program.rules if ":-" in rule}
    facts = [rule for rule in program.rules if head_of(rule) not in views]
    told = evaluate_naively(
        "\n".join((*program.declarations, *facts)), {n: r for n, r in program.facts.items() if n not in views}
    )
    declarations = list(program.declarations)
    for i, line in enumerate(declarations):
        [base] = declared([line]).values() or [None]
        if base is not None and base.name not in views and base.types and rng.random() < 0.3:
            key = rng.sample(range(len(base.types)), rng.randint(1, max(1, len(base.types) - 1)))
            declarations[i] = f"{line} key({', '.join(f'c{k}' for k in key)})"
    rules = tuple(rule for rule in program.rules if head_of(rule) in views)
    found = replace(program, declarations=tuple(declarations), rules=rules, facts={})
    return replace(found, facts={base.name: with_one_row_a_key(base, told[base.name]) for base in bases(found)})


def accepted(program: Generated) -> bool:
    """A few random programs are not."""
    try:
        parse(program.text)
    except ProgramError:
        return False
    return True


def with_one_row_a_key(base: Base, rows: set[Row]) -> set[Row]:
    return set({base.key_of(row): row for row in sorted(rows, key=repr)}.values()) if base.key else rows


# ---- what changes mean


class KeyViolation(Exception):
    """Two rows with one key."""


def after(state: Rows, transaction: Transaction, relations: dict[str, Base]) -> Rows:
    """The base rows after a transaction: its operations one after the other, and then keys must be right."""
    found = {name: set(rows) for name, rows in state.items()}
    for operation in transaction.operations:
        base, rows = relations[operation.relation], found[operation.relation]
        for row in operation.rows:
            if operation.kind == "delete":
                rows.discard(row)
                continue
            if operation.kind == "upsert":
                rows -= {other for other in rows if base.key_of(other) == base.key_of(row)}
            rows.add(row)
    for name, rows in found.items():
        base = relations[name]
        if base.key and len({base.key_of(row) for row in rows}) < len(rows):
            raise KeyViolation(name)
    return found


# ---- random changes


def stream(seed: int, steps: int = STEPS, definitions: bool = False) -> Stream:
    """Every third has one of the programs written by hand."""
    names = list(PROGRAMS)
    program = random_program(seed)
    if seed % 3 == 0 or not accepted(program):
        program = written_program(names[seed // 3 % len(names)], seed)
    return stream_of(program, seed, steps, definitions)


def stream_of(program: Generated, seed: int, steps: int = STEPS, definitions: bool = False) -> Stream:
    return _Maker(program, random.Random(seed)).stream(steps, definitions)


class _Maker:
    def __init__(self, program: Generated, rng: random.Random) -> None:
        self.program, self.random = program, rng
        self.bases = {base.name: base for base in bases(program)}
        self.state: Rows = {name: set() for name in self.bases}
        self.gone: dict[str, list[Row]] = {name: [] for name in self.bases}

    def stream(self, steps: int, definitions: bool) -> Stream:
        first = self.first()
        made: list[Step] = [first] if first.operations else []
        self.state = after(self.state, first, self.bases)
        for _ in range(steps):
            made.append(self.transaction())
        if definitions:
            made = self.with_definitions(made)
        return Stream(self.program, tuple(made), few=self.random.choice((0, 1, 4, 32)))

    def first(self) -> Transaction:
        """What a random program comes with, or a handful of rows."""
        rows = {n: self.program.facts.get(n) or self.some(b, self.random.choice([0, 5, 12])) for n, b in self.bases.items()}
        return Transaction(
            tuple(
                Operation("insert", name, tuple(sorted(with_one_row_a_key(self.bases[name], set(found)), key=repr)))
                for name, found in rows.items()
                if found
            )
        )

    def transaction(self) -> Transaction:
        chosen = self.random.choices(list(self.bases), k=self.random.choice([1, 1, 1, 2, 3])) if self.bases else []
        operations = tuple(operation for name in chosen for operation in self.change(self.bases[name]))
        made = Transaction(
            operations, self.random.choice(["transaction", "transaction", "commit", "file", "other", "reopened"])
        )
        try:
            state = after(self.state, made, self.bases)
        except KeyViolation:
            return made
        for name in state:
            self.gone[name] = (self.gone[name] + sorted(self.state[name] - state[name], key=repr))[-30:]
        self.state = state
        return made

    def change(self, base: Base) -> list[Operation]:
        rows, choice = sorted(self.state[base.name], key=repr), self.random.choice
        few = self.random.sample(rows, min(len(rows), choice([1, 1, 2, 3])))
        new = self.some(base, choice([1, 1, 2, 3]))
        kind = choice(_KINDS + _KEYED * bool(base.key))
        match kind:
            case "come":
                return self.operations(base, ("insert", new))
            case "go":
                return self.operations(base, ("delete", few))
            case "come back":
                return self.operations(base, ("insert", self.gone[base.name][-choice([1, 2, 30]) :]))
            case "go and come back":
                return self.operations(base, ("delete", few), ("insert", few))
            case "come and go":
                return self.operations(base, ("insert", new), ("delete", new))
            case "empty":
                return self.operations(base, ("delete", rows))
            case "empty and fill":
                return self.operations(base, ("delete", rows), ("insert", self.some(base, 6)))
            case "move":
                return self.operations(base, ("delete", few), ("insert", [self.moved(base, row) for row in few]))
            case "nothing":
                absent = [row for row in new if row not in self.state[base.name]]
                return self.operations(base, ("insert", few), ("delete", absent))
            case "twice":
                return self.operations(base, ("insert", [*new, *new, *few]), ("delete", [*few, *few]))
            case "many":
                return self.operations(base, ("insert", self.some(base, 40)))
            case "half":
                return self.operations(base, ("delete", rows[::2]), ("insert", self.some(base, 10)))
            case "upsert":
                return self.operations(base, ("upsert", [*new, *(self.moved(base, row) for row in few)]))
            case "same":
                return self.operations(base, ("upsert", few))
            case "swap":
                return self.operations(base, ("delete", few), ("upsert", [*few, *(self.moved(base, row) for row in few), *few]))
        raise AssertionError(kind)

    def operations(self, base: Base, *parts: tuple[str, Sequence[Row]]) -> list[Operation]:
        return [Operation(kind, base.name, tuple(rows)) for kind, rows in parts if rows]

    def some(self, base: Base, count: int) -> list[Row]:
        return [tuple(map(self.value, base.types, base.nullable)) for _ in range(count)]

    def value(self, type_: str, nullable: bool) -> Value:
        return None if nullable and self.random.random() < 0.25 else self.random.choice(VALUES[NAMED.get(type_, type_)])

    def moved(self, base: Base, row: Row) -> Row:
        """The row with another value in one column, if there is one behind the key not in the key."""
        free = [i for i in range(len(row)) if i not in base.key] or list(range(len(row)))
        if not free:
            return row
        place = self.random.choice(free)
        return (*row[:place], self.value(base.types[place], base.nullable[place]), *row[place + 1 :])

    # ---- definitions that come later, are replaced, and dropped

    def with_definitions(self, steps: list[Step]) -> list[Step]:
        """Leaves some views out at first; they come, are replaced and go between the transactions."""
        relations = declared(self.program.declarations)
        views = [name for name in relations if name not in self.bases]
        late = views[self.random.randint(0, len(views)) :]
        lines = {name: [x for x in self.program.declarations if name in declared([x])] for name in relations}
        if any(len(declared(found)) > 1 for found in lines.values()):
            return steps
        rules = {name: [rule for rule in self.program.rules if head_of(rule) == name] for name in views}
        made = list(steps)
        places = sorted(self.random.randint(0, len(steps)) for _ in late)
        for place, name in reversed(list(zip(places, late, strict=True))):
            made.insert(place, Define("\n".join([*lines[name], *rules[name]])))
        for name in self.random.sample(views, min(len(views), 2)):
            fewer = self.random.sample(rules[name], max(1, len(rules[name]) - 1))
            made.insert(self.random.randint(0, len(made)), Define("\n".join([*lines[name], *fewer]), replaces=True))
        name = self.random.choice([*views, *views, *self.bases])
        place = self.random.randint(0, len(made))
        again = "\n".join([*lines[name], *rules.get(name, [])])
        made.insert(self.random.randint(place, len(made)), Define(again))
        made.insert(place, Drop(name))
        self.program = replace(
            self.program,
            declarations=tuple(x for x in self.program.declarations if not set(declared([x])) & set(late)),
            rules=tuple(rule for rule in self.program.rules if head_of(rule) not in late),
        )
        return made


_KINDS = [
    *("come", "come", "go", "go", "come back", "come back", "go and come back", "come and go", "empty", "empty and fill"),
    *("move", "move", "nothing", "twice", "many", "half"),
]
_KEYED = ["upsert", "upsert", "upsert", "same", "swap"]


# ---- shorter streams


def one_by_one(made: Stream) -> Stream:
    """Each row of each operation as a transaction of its own."""
    steps: list[Step] = []
    for step in made.steps:
        if isinstance(step, Transaction):
            steps += [
                Transaction((replace(operation, rows=(row,)),)) for operation in step.operations for row in operation.rows
            ]
        else:
            steps.append(step)
    return replace(made, steps=tuple(steps))


def all_at_once(made: Stream) -> Stream:
    """All transactions as one."""
    operations = [operation for step in made.steps if isinstance(step, Transaction) for operation in step.operations]
    return replace(made, steps=(Transaction(tuple(operations)),))


def smaller_streams(made: Stream) -> Iterator[Stream]:
    for i in range(len(made.steps)):
        yield replace(made, steps=made.steps[i + 1 :])
        yield replace(made, steps=made.steps[:i] + made.steps[i + 1 :])
    for program in smaller_programs(made.program):
        yield replace(made, program=program)
    for i, step in enumerate(made.steps):
        if not isinstance(step, Transaction):
            continue
        for shorter in _smaller_transactions(step):
            yield replace(made, steps=(*made.steps[:i], shorter, *made.steps[i + 1 :]))


def _smaller_transactions(step: Transaction) -> Iterator[Transaction]:
    if step.way != "transaction":
        yield replace(step, way="transaction")
    for i, operation in enumerate(step.operations):
        yield replace(step, operations=step.operations[:i] + step.operations[i + 1 :])
        rows = operation.rows
        for shorter in (rows[: len(rows) // 2], rows[len(rows) // 2 :], *(rows[:j] + rows[j + 1 :] for j in range(len(rows)))):
            if shorter and shorter != rows:
                yield replace(
                    step, operations=(*step.operations[:i], replace(operation, rows=shorter), *step.operations[i + 1 :])
                )


def expected(program: Generated, state: Rows) -> Rows | str:
    """All relations, or the kind of failure."""
    try:
        return evaluate_naively(program.text, state)
    except OracleError as error:
        return error.kind


if __name__ == "__main__":
    from tests.playing import main

    main()
