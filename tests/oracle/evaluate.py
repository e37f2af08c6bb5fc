"""Naive bottom-up evaluation: strata in order, each repeated until nothing new is found.

A rule holds for every assignment of its variables that makes the body true. Errors are late: a term with an error in it
has the value `Poison`, its literal counts as true for the time being, and only if an assignment satisfies all the
other literals is the error raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from . import functions
from .infer import Types
from .parser import parse
from .poison import Env, Found, NoValue, Poison, checked, poison
from .scopes import Rule
from .strata import strata
from .syntax import (
    WILDCARD,
    Agg,
    Atom,
    Call,
    Compare,
    Const,
    Literal,
    Range,
    Term,
    Test,
    Truth,
    Var,
    aggregates,
    literal_terms,
    needed_vars,
)
from .values import Column, OracleError, Row, Value, columns, store
from .windows import windows


def evaluate(text: str, facts: dict[str, set[Row]]) -> dict[str, set[Row]]:
    """All relations of the program, with the given rows added to the facts in it."""
    program = parse(text)
    cols = {name: columns(program, name) for name in program.decls}
    relations: dict[str, set[Row]] = {name: set() for name in program.decls}
    for name, rows in facts.items():
        relations[name] = {store_row(row, cols[name]) for row in rows}
    for stratum in strata(program):
        prepared = [Prepared(rule, relations, cols) for rule in stratum]
        changed = True
        while changed:
            derived = [item for rule in prepared for item in rule.derive()]
            before = sum(map(len, relations.values()))
            for name, row in derived:
                relations[name].add(row)
            changed = sum(map(len, relations.values())) != before
    return relations


def store_row(row: Row, cols: list[Column]) -> Row:
    return tuple(store(value, col) for value, col in zip(row, cols, strict=True))


class Prepared:
    """A rule together with the relations that it reads."""

    def __init__(self, rule: Rule, relations: dict[str, set[Row]], cols: dict[str, list[Column]]) -> None:
        self.rule = rule
        self.relations = relations
        self.cols = cols
        self.types = Types(rule, cols)
        self.index: dict[tuple[str, tuple[int, ...]], dict[Row, list[Row]]] = {}
        self.grouped: dict[int, Value | Poison] = {}

    def derive(self) -> list[tuple[str, Row]]:
        """All rows that the rule gives from the relations as they are now."""
        self.index.clear()
        result: list[tuple[str, Row]] = []
        for env, error in self.found():
            for head in self.rule.heads:
                try:
                    values = [self.value(arg, env) for arg in head.args]
                except NoValue:
                    continue
                if error is not None:
                    raise OracleError(error.kind)
                result.append((head.relation, store_row(checked(values), self.cols[head.relation])))
        return result

    def found(self) -> Iterable[Found]:
        equations = [lit for lit in self.rule.body if isinstance(lit, Compare) and isinstance(lit.right, Agg)]
        if any(isinstance(eq.right, Agg) and eq.right.over for eq in equations):
            return self.windowed()
        return self.groups() if self.rule.grouping else self.solve(self.rule.body, {}, None)

    def windowed(self) -> Iterator[Found]:
        """A rule that is equations with windows: once for each row of their atom."""
        aggs = {eq.left.name: eq.right for eq in self.rule.body}  # type: ignore[union-attr]
        [[atom]] = next(iter(aggs.values())).body  # type: ignore[union-attr]
        for env in windows(aggs, self.relations[atom.relation], self.types.family, self.types.scale):  # type: ignore[arg-type,union-attr]
            yield {k: Poison(v.kind) if isinstance(v, OracleError) else v for k, v in env.items()}, None

    def groups(self) -> Iterator[Found]:
        """A rule that is equations with an aggregate each: once for each value of the head's other variables."""
        aggs = [agg for eq in self.rule.body for term in literal_terms(eq) for agg in aggregates(term)]
        of_agg: list[dict[tuple[Value | Poison, ...], list[Found]]] = [{} for _ in aggs]
        for agg, groups in zip(aggs, of_agg, strict=True):
            for env, error in self.distinct(agg, {}):
                groups.setdefault(tuple(env[v] for v in self.rule.grouping), []).append((env, error))
        for key in of_agg[0]:
            try:
                for agg, groups in zip(aggs, of_agg, strict=True):
                    self.grouped[agg.id] = self.combine(agg, groups.get(key, []))
            except NoValue:
                continue
            yield from self.solve(self.rule.body, dict(zip(self.rule.grouping, key, strict=True)), None)
        self.grouped.clear()

    # Assignments.

    def solve(self, literals: tuple[Literal, ...], env: Env, error: Poison | None) -> Iterator[Found]:
        """Every extension of the assignment that makes all the literals true."""
        if not literals:
            yield env, error
            return
        i = self.choose(literals, env)
        for extended, new_error in self.step(literals[i], env):
            yield from self.solve(literals[:i] + literals[i + 1 :], extended, error or new_error)

    def choose(self, literals: tuple[Literal, ...], env: Env) -> int:
        """The first literal that can be evaluated now; cheap tests and equations before aggregates, atoms last."""
        ready = [i for i, literal in enumerate(literals) if is_ready(literal, env)]
        if not ready:
            raise OracleError("unbound")
        return min(ready, key=lambda i: cost(literals[i], env))

    def step(self, literal: Literal, env: Env) -> Iterable[Found]:
        """The extensions of the assignment that make one literal true."""
        try:
            match literal:
                case Truth():
                    return [(env, None)] if literal.value else []
                case Compare():
                    return self.compare(literal, env)
                case Test():
                    return self.test(literal, env)
                case Range():
                    return self.ranges(literal, env)
                case Atom():
                    return list(self.rows(literal, env)) if literal.positive else self.negation(literal, env)
        except NoValue:
            return []

    def compare(self, literal: Compare, env: Env) -> list[Found]:
        """A comparison with NULL is not true, a binding equation with NULL neither."""
        for var, term in ((literal.left, literal.right), (literal.right, literal.left)):
            if literal.op == "=" and isinstance(var, Var) and var.name not in env:
                value = self.value(term, env)
                return [] if value is None else [({**env, var.name: value}, poison([value]))]
        values = [self.value(literal.left, env), self.value(literal.right, env)]
        if None in values:
            return []
        if poison(values):
            return [(env, poison(values))]
        return [(env, None)] if functions.compare(literal.op, *values) else []

    def test(self, literal: Test, env: Env) -> list[Found]:
        """Of NULL only `is_null` is true; neither `match` nor `!match` is."""
        values = [self.value(arg, env) for arg in literal.args]
        try:
            if poison(values):
                return [(env, poison(values))]
            if literal.name == "is_null":
                true = values[0] is None
            elif None in values:
                return []
            else:
                true = functions.test(literal.name, values)
        except OracleError as error:
            return [(env, Poison(error.kind))]
        return [(env, None)] if true == literal.positive else []

    def ranges(self, literal: Range, env: Env) -> list[Found]:
        values = [self.value(arg, env) for arg in literal.args]
        if None in values:
            return []
        try:
            each = functions.number_range([v for v in checked(values) if isinstance(v, int)])
        except OracleError as error:
            return [({**env, literal.var.name: Poison(error.kind)}, Poison(error.kind))]
        if literal.var.name in env:  # y = 3, y = range(2, 5) has given it the value 3 already
            return [(env, None)] if env[literal.var.name] in each else []
        return [({**env, literal.var.name: number}, None) for number in each]

    def negation(self, literal: Atom, env: Env) -> list[Found]:
        """No row agrees with all arguments; `_` agrees with every value, NULL with none."""
        fixed = {i: self.value(a, env) for i, a in enumerate(literal.args) if not is_wildcard(a)}
        if None in fixed.values():
            return [(env, None)]
        error = poison(fixed.values())
        if error:
            return [(env, error)]
        return [] if self.lookup(literal.relation, fixed) else [(env, None)]

    def rows(self, literal: Atom, env: Env) -> Iterator[Found]:
        """An atom that binds its free variables to each agreeing row. NULL agrees with nothing."""
        unbound = {i: a.name for i, a in enumerate(literal.args) if isinstance(a, Var) and a.name not in env}
        fixed = {i: self.value(a, env) for i, a in enumerate(literal.args) if i not in unbound}
        error = poison(fixed.values())
        if None in fixed.values():
            return
        fixed = {i: v for i, v in fixed.items() if not isinstance(v, Poison)}
        for row in self.lookup(literal.relation, fixed):
            extended = dict(env)
            for i, name in unbound.items():
                if name in extended and (row[i] is None or extended[name] != row[i]):
                    break
                extended[name] = row[i]
            else:
                yield extended, error

    def lookup(self, relation: str, fixed: dict[int, Value | Poison]) -> list[Row]:
        """The rows with these values in these columns."""
        where = tuple(fixed)
        if (relation, where) not in self.index:
            table: dict[Row, list[Row]] = {}
            for row in self.relations[relation]:
                table.setdefault(tuple(row[i] for i in where), []).append(row)
            self.index[relation, where] = table
        return self.index[relation, where].get(checked(fixed.values()), [])

    # Terms.

    def value(self, term: Term, env: Env) -> Value | Poison:
        try:
            match term:
                case Var():
                    return env[term.name]
                case Const():
                    return functions.constant(term.family, term.text, self.types.family(term))
                case Agg():
                    if term.id in self.grouped:
                        return self.grouped[term.id]
                    return self.combine(term, self.distinct(term, env))
                case Call():
                    return self.call(term, env)
        except OracleError as error:
            return Poison(error.kind)

    def call(self, term: Call, env: Env) -> Value | Poison:
        """A function of NULL is NULL, but for coalesce."""
        values = [self.value(arg, env) for arg in term.args]
        if term.op == "coalesce":
            return values[1] if values[0] is None else values[0]
        error = poison(values)
        if error or None in values:
            return error
        return functions.apply(term.op, values, self.types.family(term))

    def distinct(self, agg: Agg, env: Env) -> list[Found]:
        """Every assignment of the aggregate's own variables, each `_` being one, counts once."""
        start = {name: env[name] for name in agg.outer if name in env}
        result: dict[frozenset[tuple[str, Value | Poison]], Found] = {}
        for conj in agg.body:
            for found, error in self.solve(conj, start, None):
                result[frozenset(found.items())] = (found, error)
        return list(result.values())

    def combine(self, agg: Agg, found: list[Found]) -> Value | Poison:
        """NULLs are left out of everything but count."""
        error = poison([error for _, error in found])
        if error:
            return error
        if agg.target is None:
            return len(found)
        values = [v for v in (self.value(agg.target, env) for env, _ in found) if v is not None]
        if poison(values):
            return poison(values)
        try:
            result = functions.aggregate(agg.op, values, self.types.family(agg.target), self.types.scale(agg.target) or 0)
        except OracleError as overflow:
            return Poison(overflow.kind)
        if result is None:
            raise NoValue
        return result


def is_wildcard(term: Term) -> bool:
    return isinstance(term, Var) and term.name.startswith(WILDCARD)


def free(literal: Literal, env: Env) -> set[str]:
    return {v for term in literal_terms(literal) for v in needed_vars(term) if v not in env}


def cost(literal: Literal, env: Env) -> int:
    if isinstance(literal, Atom) and free(literal, env):
        return 2
    return int(isinstance(literal, Range) or any(aggregates(term) for term in literal_terms(literal)))


def is_ready(literal: Literal, env: Env) -> bool:
    """Whether everything that the literal does not bind itself is bound."""
    match literal:
        case Atom():
            binds = (lambda t: isinstance(t, Var)) if literal.positive else is_wildcard
            return all(binds(t) or needed_vars(t) <= env.keys() for t in literal.args)
        case Compare() if literal.op == "=":
            sides = ((literal.left, literal.right), (literal.right, literal.left))
            return any(needed_vars(b) <= env.keys() and (isinstance(a, Var) or not free(literal, env)) for a, b in sides)
        case Range():
            return all(needed_vars(t) <= env.keys() for t in literal.args)
    return not free(literal, env)
