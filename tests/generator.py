"""Random valid programs with facts, the same for the same seed.

A program has base relations and layers of views. A view's rules read lower layers in every way, and their own layer without negation
and aggregates, so that strata are right by construction. Values stay small: what could fail is guarded by a comparison, and in
recursive rules only bounded values are made, so that every program ends. A few programs leave the guards out (``risky``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal

from tests.samples import Row, Value, literal

# Few values of each type, so that joins meet.
VALUES: dict[str, list[Value]] = {
    "number": [0, 1, 2, 3, 4, -1, 7],
    "unsigned": [0, 1, 2, 3, 5],
    "float": [0.0, 0.5, 1.5, -1.0, 2.25],
    "symbol": ["", "a", "b", "ab", "é😀", "12"],
    "bool": [False, True],
    "date": [date(2024, 2, 29), date(1969, 12, 31), date(2000, 1, 1)],
    "timestamp": [
        datetime(2024, 2, 29, 12, 30, 0, 250000, UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC),
    ],
    "decimal(18,2)": [Decimal("0.00"), Decimal("1.50"), Decimal("-2.25"), Decimal("10.00")],
    "bytes": [b"", b"\x00", b"ab", b"\xff"],
}
NAMED = {"Id": "number", "Tag": "symbol"}
TYPES = ["symbol", "symbol", "Id", "Tag", "unsigned", "float", "decimal(18,2)", "bool", "date", "timestamp", "bytes"]
NUMERIC = ("number", "unsigned", "float", "decimal(18,2)")
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True)
class Column:
    type: str
    nullable: bool

    @property
    def base(self) -> str:
        return base(self.type)


@dataclass(frozen=True)
class Relation:
    name: str
    columns: tuple[Column, ...]
    layer: int


@dataclass(frozen=True)
class Generated:
    """A program in parts that can be left out one by one, and its facts."""

    seed: int
    declarations: tuple[str, ...]
    rules: tuple[str, ...]
    facts: dict[str, set[Row]]
    risky: bool

    @property
    def text(self) -> str:
        return "\n".join((*self.declarations, *self.rules))


@dataclass
class Variable:
    name: str
    type: str
    nullable: bool


@dataclass(frozen=True)
class Term:
    """``needs`` are the variables without which it has no value; ``nullable``: one of them may be NULL."""

    text: str
    needs: frozenset[str] = frozenset()
    nullable: bool = False


def base(type_: str) -> str:
    return NAMED.get(type_, type_)


def generate(seed: int) -> Generated:
    return _Generator(seed).program()


@dataclass
class _Body:
    """A conjunction in the making, with the variables it has bound. ``outer`` is the body around an aggregate."""

    layer: int
    outer: _Body | None = None
    variables: dict[str, Variable] = field(default_factory=dict)
    literals: list[str] = field(default_factory=list)
    recursive: bool = False

    def visible(self) -> list[Variable]:
        """Variables that terms may use. In a recursive rule an aggregate may not depend on values of the recursion that it does not
        bind itself, so there only its own."""
        around = self.outer.visible() if self.outer and not self.recursive else []
        return [*self.variables.values(), *around]

    def need(self, term: Term) -> None:
        """A comparison with the term is true, so none of its variables is NULL. Outside of an aggregate it may still be."""
        for name in term.needs:
            if name in self.variables:
                self.variables[name].nullable = False


@dataclass
class _Generator:
    seed: int

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.risky = self.chance(0.05)
        # A program has few types, so that its relations have something to say to each other.
        self.types = ["number"] * 3 + self.random.sample(TYPES, 2)
        self.relations: list[Relation] = []
        self.names = 0

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def constant(self, type_: str) -> str:
        """Numbers are mostly written without a hint of their type."""
        value = self.random.choice(VALUES[base(type_)])
        if isinstance(value, int | Decimal) and not isinstance(value, bool) and value == int(value) and self.chance(0.5):
            return literal(int(value), "number") if type_ != "unsigned" or self.chance(0.5) else literal(int(value), "unsigned")
        return literal(value, base(type_))

    # ---- programs

    def program(self) -> Generated:
        declarations = [f".type {name} <: {type_}" for name, type_ in NAMED.items()]
        rules: list[str] = []
        facts: dict[str, set[Row]] = {}
        for number in range(self.random.randint(2, 4)):
            relation = self.declare(f"b{number}", 0)
            rows = self.rows(relation)
            told = {row for row in rows if self.chance(0.3)}
            rules += [
                f"{relation.name}({', '.join(map(self.written, row, relation.columns))})." for row in sorted(told, key=repr)
            ]
            facts[relation.name] = rows - told
        for layer in range(1, self.random.randint(2, 5)):
            views = [self.declare(f"v{layer}{letter}", layer) for letter in "ab"[: self.random.choice([1, 1, 2])]]
            for view in views:
                rules += [self.rule(view, recursive=False) for _ in range(self.random.choice([1, 1, 2]))]
                rules += [self.rule(view, recursive=True) for _ in range(self.random.choice([0, 0, 1, 2]))]
            if self.chance(0.1):
                facts[views[0].name] = self.rows(views[0])
        declarations += [
            f".decl {r.name}({', '.join(f'c{i}: {c.type}' + '?' * c.nullable for i, c in enumerate(r.columns))})"
            for r in self.relations
        ]
        return Generated(self.seed, tuple(declarations), tuple(rules), facts, self.risky)

    def declare(self, name: str, layer: int) -> Relation:
        width = self.random.choice([0, 1, 1, 2, 2, 2, 2, 3, 3] if self.relations else [2, 3])
        columns = tuple(Column(self.random.choice(self.types), self.chance(0.2)) for _ in range(width))
        self.relations.append(Relation(name, columns, layer))
        return self.relations[-1]

    def rows(self, relation: Relation) -> set[Row]:
        return {
            tuple(None if c.nullable and self.chance(0.25) else self.random.choice(VALUES[c.base]) for c in relation.columns)
            for _ in range(self.random.choice([0, 4, 6, 8, 12, 16]))
        }

    def written(self, value: Value, column: Column) -> str:
        return literal(value, column.base)

    # ---- rules

    def rule(self, head: Relation, recursive: bool) -> str:
        if not recursive and head.columns and self.chance(0.15):
            return self.grouping_rule(head)
        body = _Body(head.layer, recursive=recursive)
        if recursive:
            self.atom(body, self.pick(lambda r: r.layer == head.layer))
        for _ in range(self.random.choice([0, 1, 1, 2]) if recursive else self.random.choice([1, 1, 2, 2, 3])):
            self.atom(body, self.pick(lambda r: r.layer < head.layer))
        for _ in range(self.random.choice([0, 1, 1, 2, 3])):
            self.condition(body)
        heads = [self.head(head, body)]
        if self.chance(0.05):
            heads.append(self.head(head, body))
        self.random.shuffle(body.literals)
        if not body.literals:
            body.literals.append("true")
        return f"{', '.join(heads)} :- {', '.join(body.literals)}."

    def grouping_rule(self, head: Relation) -> str:
        """h(g, s) :- s = sum y : { r(g, y) }: the last column that can hold a result does."""
        for place in reversed(range(len(head.columns))):
            inner = _Body(head.layer)
            found = self.aggregate_parts(inner, head.columns[place].base)
            if found is None:
                continue
            arguments = []
            for i, column in enumerate(head.columns):
                fitting = [v for v in inner.variables.values() if fits(v, column) and (column.nullable or not v.nullable)]
                if i == place:
                    arguments.append("result")
                elif fitting:
                    arguments.append(self.random.choice(fitting).name)
                else:
                    arguments.append(self.constant(column.type))
            sides = ["result", found.text]
            self.random.shuffle(sides)
            return f"{head.name}({', '.join(arguments)}) :- {sides[0]} = {sides[1]}."
        return self.rule(head, recursive=False)

    def head(self, head: Relation, body: _Body) -> str:
        arguments = [self.head_argument(column, body) for column in head.columns]
        return f"{head.name}({', '.join(arguments)})"

    def head_argument(self, column: Column, body: _Body) -> str:
        def fitting_variables() -> list[Variable]:
            return [v for v in body.variables.values() if fits(v, column) and (column.nullable or not v.nullable)]

        fitting = fitting_variables()
        sources = [r for r in self.relations if r.layer < body.layer and any(fits(c, column) for c in r.columns)]
        if not fitting and sources and self.chance(0.8):
            self.atom(body, self.random.choice(sources))
            fitting = fitting_variables()
        if fitting and self.chance(0.75):
            return self.random.choice(fitting).name
        if body.recursive:
            return self.bounded(column, body, fitting)
        if self.chance(0.1):
            return "null" if column.nullable else self.constant(column.type)
        term = self.term(column.base, body, 2)
        if term.nullable and not column.nullable or column.type in NAMED and term.text in body.variables:
            return f"coalesce({term.text}, {self.constant(column.type)})"  # what is computed has no NULL and no named type
        return term.text

    def bounded(self, column: Column, body: _Body, fitting: Sequence[Variable]) -> str:
        """A value that recursion can make only finitely often."""
        whole = [v for v in fitting if column.base in ("number", "unsigned", "symbol")]
        if not whole or self.chance(0.2):
            return self.random.choice(fitting).name if fitting else self.constant(column.type)
        x = self.random.choice(whole).name
        if column.base == "symbol":
            body.literals.append(f"strlen({x}) < {self.random.randint(1, 4)}")
            return self.random.choice([f'cat({x}, "b")', f'cat("a", {x})', f"cat({x}, {x})", f"substr({x}, 1, 2)"])
        limit = self.random.randint(3, 9)
        body.literals.append(f"{x} < {limit}")
        body.variables[x].nullable = False
        if column.base == "unsigned":
            return self.random.choice([f"{x} + 1", f"{x} / 2", f"max({x}, 2)"])
        return self.random.choice([f"{x} + 1", f"max({x}, -3) * 2 - 1", f"{x} % 3", f"({x} + 2) % 5", f"min({x}, 4)"])

    # ---- literals

    def pick(self, wanted: Callable[[Relation], bool]) -> Relation:
        return self.random.choice([r for r in self.relations if wanted(r)])

    def fresh(self, body: _Body, type_: str, nullable: bool) -> Variable:
        self.names += 1
        variable = Variable(self.random.choice("xyzXw") + str(self.names), type_, nullable)
        body.variables[variable.name] = variable
        return variable

    def atom(self, body: _Body, relation: Relation, wildcards: bool = True) -> None:
        arguments = []
        around = body.outer.visible() if body.outer else []
        joined = False
        before = list(body.variables.values())
        for column in relation.columns:
            known = [v for v in (body.variables.values() if self.chance(0.1) else before) if meets(v.type, column.type)]
            outside = [v for v in around if meets(v.type, column.type)]
            if known and (not joined or self.chance(0.3)) and self.chance(0.8):
                arguments.append(self.join(self.random.choice(known), column))
                joined = True
            elif outside and self.chance(0.5):
                # From here on it is bound in here as well.
                variable = self.random.choice(outside)
                body.variables.setdefault(variable.name, Variable(variable.name, narrower(variable.type, column.type), False))
                arguments.append(variable.name)
            elif wildcards and self.chance(0.15):
                arguments.append("_")
            elif self.chance(0.08):
                arguments.append(self.constant(column.type))
            elif self.chance(0.05) and body.variables:
                term = self.term(column.base, body, 1)
                body.need(term)
                arguments.append(term.text)
            else:
                arguments.append(self.fresh(body, column.type, column.nullable).name)
        body.literals.append(f"{relation.name}({', '.join(arguments)})")

    def join(self, variable: Variable, column: Column) -> str:
        variable.nullable = False
        variable.type = narrower(variable.type, column.type)
        return variable.name

    def condition(self, body: _Body, depth: int = 1) -> None:
        kinds = [self.comparison, self.comparison, self.comparison, self.negation, self.negation, self.equation, self.test]
        if depth:
            kinds += [self.aggregate_condition, self.aggregate_condition, self.disjunction]
        if not body.outer and not body.recursive:
            kinds.append(self.range)
        self.random.choice(kinds)(body)

    def comparison(self, body: _Body) -> None:
        variables = body.visible()
        type_ = base(self.random.choice(variables).type) if variables else "number"
        left, right = self.term(type_, body, 1), self.term(type_, body, 1)
        if left.text == right.text:
            right = Term(self.constant(type_))
        operator = self.random.choice(COMPARISONS if self.chance(0.6) else ("!=", "<=", ">="))
        body.literals.append(f"{left.text} {operator} {right.text}")
        body.need(left)
        body.need(right)

    def negation(self, body: _Body) -> None:
        relation = self.pick(lambda r: r.layer < body.layer)
        arguments = []
        for column in relation.columns:
            known = [v for v in body.visible() if meets(v.type, column.type)]
            if known and self.chance(0.7):
                arguments.append(self.random.choice(known).name)
            elif self.chance(0.6):
                arguments.append("_")
            elif self.chance(0.5):
                arguments.append(self.constant(column.type))
            else:
                arguments.append(self.term(column.base, body, 1).text)
        body.literals.append(f"!{relation.name}({', '.join(arguments)})")

    def equation(self, body: _Body) -> None:
        if body.recursive and not body.outer:
            return self.comparison(body)  # x = y + 1 could go on for ever
        variables = body.visible()
        type_ = base(self.random.choice(variables).type) if variables else "number"
        term = self.term(type_, body, 2)
        body.need(term)
        variable = self.fresh(body, type_, False)
        sides = [variable.name, term.text]
        self.random.shuffle(sides)
        body.literals.append(f"{sides[0]} = {sides[1]}")
        return None

    def range(self, body: _Body) -> None:
        low, high = self.random.randint(-3, 3), self.random.randint(-3, 6)
        known = [v for v in body.visible() if v.type == "number"]
        end = str(high)
        if known and self.chance(0.4):
            name = self.random.choice(known).name
            body.literals.append(f"{name} < 10")
            body.need(Term(name, frozenset({name})))
            end = f"max({name}, -10)"
        step = f", {self.random.choice([1, 2, -1, -2, 3])}" if self.chance(0.4) else ""
        target = self.fresh(body, "number", False).name
        body.literals.append(f"{target} = range({low}, {end}{step})")

    def test(self, body: _Body) -> None:
        negation = self.random.choice(["", "!"])
        symbols = [v for v in body.visible() if base(v.type) == "symbol"]
        if symbols and self.chance(0.6):
            text = self.term("symbol", body, 1)
            first = self.random.choice(
                ['match("[a-z]*"', 'match(".?"', 'contains("b"', f"contains({symbols[0].name}", 'contains(""']
            )
            body.literals.append(f"{negation}{first}, {text.text})")
            body.need(text)
            if symbols[0].name in first:
                body.need(Term(first, frozenset({symbols[0].name})))
            return
        nullable = [v for v in body.visible() if v.nullable]
        if nullable:
            name = self.random.choice(nullable).name
            body.literals.append(f"{negation}is_null({name})")
            if negation:
                body.need(Term(name, frozenset({name})))

    def disjunction(self, body: _Body) -> None:
        """Alternatives that only filter, or that bind the same new variables."""
        relations = [r for r in self.relations if r.layer < body.layer and r.columns]
        if relations and self.chance(0.4):
            first = self.random.choice(relations)
            others = [r for r in relations if [c.base for c in r.columns] == [c.base for c in first.columns]]
            chosen = [first, self.random.choice(others)]
            types = [(chosen[0].columns[i].type, chosen[1].columns[i].type) for i in range(len(first.columns))]
            new = [
                self.fresh(body, a if a == b else base(a), any(r.columns[i].nullable for r in chosen)).name
                for i, (a, b) in enumerate(types)
            ]
            alternatives = [f"{r.name}({', '.join(new)})" for r in chosen]
            if body.outer is None and self.chance(0.5):
                number = [n for n in new if base(body.variables[n].type) == "number"]
                alternatives[1] += f", {number[0]} < 3" if number else ""
            body.literals.append(f"({' ; '.join(alternatives)})")
            return
        alternatives = []
        before = {name: (v.type, v.nullable) for name, v in body.variables.items()}
        for _ in range(2):
            alternative = _Body(body.layer, body.outer, dict(body.variables), [], body.recursive)
            if self.chance(0.5):
                self.atom(alternative, self.pick(lambda r: r.layer < body.layer))
            for _ in range(self.random.choice([1, 1, 2]) - bool(alternative.literals)):
                self.random.choice([self.comparison, self.comparison, self.negation, self.test])(alternative)
            alternatives.append(", ".join(alternative.literals) or "true")
        for name, (type_, nullable) in before.items():  # only one of the alternatives may have narrowed it
            body.variables[name].type, body.variables[name].nullable = type_, nullable
        body.literals.append(f"({' ; '.join(alternatives)})")

    # ---- aggregates

    def aggregate_condition(self, body: _Body) -> None:
        type_ = base(self.random.choice(["number", "float", *self.types]))
        found = self.aggregate(body, type_)
        if found is None:
            return
        if self.chance(0.6) and not body.recursive:
            body.literals.append(f"{self.fresh(body, type_, False).name} = {found.text}")
        else:
            other = self.term(type_, body, 0)
            body.need(other)
            body.literals.append(f"{found.text} {self.random.choice(COMPARISONS)} {other.text}")

    def aggregate(self, body: _Body, type_: str) -> Term | None:
        """An aggregate whose result has the type, inside the body's rule."""
        if body.outer is not None and body.outer.outer is not None:
            return None
        return self.aggregate_parts(_Body(body.layer, body, recursive=body.recursive), type_)

    def aggregate_parts(self, inner: _Body, type_: str) -> Term | None:
        for _ in range(self.random.choice([1, 1, 1, 2])):
            self.atom(inner, self.pick(lambda r: r.layer < inner.layer))
        for _ in range(self.random.choice([0, 0, 1, 2])):
            self.condition(inner, depth=int(self.chance(0.3)))
        body = ", ".join(self.random.sample(inner.literals, len(inner.literals)))
        operations = ["min", "max"] if type_ not in ("bool",) else []
        operations += ["count", "count", "sum"] if type_ == "number" else ["sum"] if type_ in NUMERIC else []
        operations += ["mean"] if type_ == "float" else []
        if not operations:
            return None
        operation = self.random.choice(operations)
        if operation == "count":
            plain = len(inner.literals) == 1 and inner.literals[0][0] in "bv" and self.chance(0.3)
            return Term(f"count : {body}" if plain else f"count : {{ {body} }}")
        known = [base(v.type) for v in inner.visible() if base(v.type) in NUMERIC]
        type_ = self.random.choice(known or ["number"]) if operation == "mean" else type_
        target = self.term(type_, inner, 1)
        if not target.needs:
            target = Term(literal(VALUES[type_][0], type_))  # nothing else says which type it has
        body = ", ".join(self.random.sample(inner.literals, len(inner.literals)))  # with the guards of the target
        return Term(f"{operation} {target.text} : {{ {body} }}")

    # ---- terms

    def term(self, type_: str, body: _Body, depth: int) -> Term:
        """A term of a base type over the variables of the body; guards are added to the body."""
        if depth and self.chance(0.4):
            made = self.call(type_, body, depth - 1)
            if made is not None:
                return made
        known = [v for v in body.visible() if base(v.type) == type_]
        if known and self.chance(0.75):
            variable = self.random.choice(known)
            return Term(variable.name, frozenset({variable.name}), variable.nullable)
        return Term(self.constant(type_))

    def call(self, type_: str, body: _Body, depth: int) -> Term | None:
        if self.chance(0.15) and not (body.recursive and body.outer):
            found = self.aggregate(body, type_)
            if found is not None:
                return Term(f"({found.text})", found.needs, found.nullable)
        if self.chance(0.15):
            return self.coalesced(type_, body, depth)
        makers: dict[str, Callable[[_Body, int], Term | None]] = {
            "number": self.number,
            "unsigned": self.unsigned,
            "float": self.float,
            "decimal(18,2)": self.decimal,
            "symbol": self.symbol,
        }
        if type_ in makers and self.chance(0.8):
            return makers[type_](body, depth)
        if type_ == "bool":
            return None
        return self.apply(
            self.random.choice(["min({0}, {1})", "max({0}, {1})"]), self.term(type_, body, depth), self.term(type_, body, 0)
        )

    def apply(self, template: str, *arguments: Term) -> Term:
        texts = [f"({a.text})" if " " in a.text and "({" not in template else a.text for a in arguments]
        return Term(
            template.format(*texts), frozenset().union(*(a.needs for a in arguments)), any(a.nullable for a in arguments)
        )

    def coalesced(self, type_: str, body: _Body, depth: int) -> Term:
        first, second = self.term(type_, body, depth), self.term(type_, body, 0)
        return Term(f"coalesce({first.text}, {second.text})", first.needs & second.needs, first.nullable and second.nullable)

    def guarded(self, body: _Body, term: Term, *conditions: str) -> Term:
        """The term behind comparisons that keep it from failing, or a constant that does not."""
        if self.risky:
            return term
        if not term.needs:
            return Term("2.0" if "." in conditions[0] else "2")
        text = f"({term.text})" if " " in term.text else term.text
        body.literals += [f"{text} {condition}" for condition in conditions]
        body.need(term)
        return term

    def small(self, body: _Body, type_: str, depth: int) -> Term:
        term = self.term(type_, body, 0)
        limits = {"unsigned": ("< 1000",), "float": ("< 1000.0", "> -1000.0")}.get(type_, ("< 1000", "> -1000"))
        return self.guarded(body, term, *limits)

    def number(self, body: _Body, depth: int) -> Term:
        def get(type_: str = "number") -> Term:
            return self.term(type_, body, depth)

        match self.random.randrange(16):
            case 0 | 1 | 2:
                return self.apply(self.random.choice(["{0} + {1}", "{0} - {1}"]), get(), get())
            case 3:
                return self.apply("{0} * {1}", self.small(body, "number", depth), self.small(body, "number", depth))
            case 4:
                return self.apply(
                    self.random.choice(["{0} / {1}", "{0} % {1}"]),
                    get(),
                    self.guarded(body, self.term("number", body, 0), "!= 0"),
                )
            case 5:
                return self.apply(self.random.choice(["{0} / 2", "{0} % 3", "{0} / -3"]), get())
            case 6:
                return self.apply(self.random.choice(["-{0}", "bnot {0}", "lnot {0}"]), get())
            case 7:
                operator = self.random.choice(["band", "bor", "bxor", "land", "lor", "lxor"])
                return self.apply(f"{{0}} {operator} {{1}}", get(), get())
            case 8:
                operator = self.random.choice(["bshl 2", "bshr 1", "^ 2"])
                return self.apply(f"{{0}} {operator}", self.small(body, "number", depth))
            case 9:
                return self.apply("strlen({0})", get("symbol"))
            case 10:
                return self.apply("ord({0}) % 7", get("symbol"))
            case 11:
                return self.apply("to_number({0})", get(self.random.choice(["bool", "unsigned", "decimal(18,2)", "number"])))
            case 12:
                return self.apply("to_number({0})", self.small(body, "float", depth))
            case 13:
                text = self.term("symbol", body, 0)
                if not self.risky:
                    body.literals.append(f'match("[0-9]{{1,4}}", {text.text})')
                    body.need(text)
                return self.apply("to_number({0})", text)
            case _:
                return self.apply(self.random.choice(["min({0}, {1})", "max({0}, {1}, 2)"]), get(), get())

    def unsigned(self, body: _Body, depth: int) -> Term:
        def get(type_: str = "unsigned") -> Term:
            return self.term(type_, body, depth)

        match self.random.randrange(6):
            case 0:
                return self.apply("{0} + {1}", get(), get())
            case 1:
                return self.apply("{0} * {1}", self.small(body, "unsigned", depth), self.small(body, "unsigned", depth))
            case 2:
                return self.apply(
                    self.random.choice(["{0} / 2u", "{0} % 3", "{0} bshr 1", "{0} bshru 1u", "{0} band 3"]), get()
                )
            case 3:
                left, right = self.term("unsigned", body, 0), self.term("unsigned", body, 0)
                body.literals.append(f"{left.text} >= {right.text}")
                body.need(left)
                body.need(right)
                return self.apply("{0} - {1}", left, right)
            case 4:
                return self.apply("to_unsigned({0})", get("bool"))
            case _:
                return self.apply("to_unsigned(max({0}, 0))", get("number"))

    def float(self, body: _Body, depth: int) -> Term:
        def get(type_: str = "float") -> Term:
            return self.term(type_, body, depth)

        match self.random.randrange(6):
            case 0:
                return self.apply(self.random.choice(["{0} + {1}", "{0} - {1}"]), get(), get())
            case 1:
                return self.apply("{0} * {1}", self.small(body, "float", depth), self.small(body, "float", depth))
            case 2:
                return self.apply(self.random.choice(["{0} / 4.0", "-{0}", "{0} * 0.5", "{0} + 1"]), get())
            case 3:
                return self.apply("{0} / {1}", get(), self.guarded(body, self.term("float", body, 0), "> 0.25"))
            case _:
                return self.apply("to_float({0})", get(self.random.choice(["number", "unsigned", "decimal(18,2)", "float"])))

    def decimal(self, body: _Body, depth: int) -> Term | None:
        def get() -> Term:
            return self.term("decimal(18,2)", body, depth)

        template = self.random.choice(["{0} + {1}", "{0} - {1}", "-{0}", "{0} + 1", "{0} * 2", "{0} - 0.25", "3 * {0}"])
        if "*" in template:
            known = [v for v in body.visible() if base(v.type) == "decimal(18,2)"]
            if not known:
                return None  # 3 * 10 has no digits after the point
            variable = self.random.choice(known)
            return self.apply(template, Term(variable.name, frozenset({variable.name}), variable.nullable))
        return self.apply(template, get(), get()) if "{1}" in template else self.apply(template, get())

    def symbol(self, body: _Body, depth: int) -> Term:
        match self.random.randrange(4):
            case 0:
                return self.apply("cat({0}, {1})", self.term("symbol", body, depth), self.term("symbol", body, 0))
            case 1:
                return self.apply(
                    f"substr({{0}}, {self.random.randint(0, 2)}, {self.random.randint(-1, 2)})",
                    self.term("symbol", body, depth),
                )
            case _:
                variables = body.visible()
                type_ = base(self.random.choice(variables).type) if variables else "number"
                return self.apply("to_string({0})", self.term(type_, body, 0))


def meets(left: str, right: str) -> bool:
    """Can values of the two types be joined?"""
    return base(left) == base(right) and (left == right or left in VALUES or right in VALUES)


def narrower(left: str, right: str) -> str:
    return left if left in NAMED else right


def fits(variable: Variable | Column, column: Column) -> bool:
    return variable.type == column.type or base(variable.type) == column.type
