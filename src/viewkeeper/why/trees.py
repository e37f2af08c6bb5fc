"""Proofs as the trees that are told: rows, conditions with their values, aggregates with some of what they are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from viewkeeper.program.alternatives import body_alternatives
from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Literal,
    Negation,
    Term,
    Test,
    Variable,
    aggregates_in,
    all_variables,
)
from viewkeeper.program.printing import print_body, print_constant, print_literal, print_rule, print_term
from viewkeeper.program.safety import inner_variables, scope_variables
from viewkeeper.program.values import restore
from viewkeeper.program.windows import Windowing
from viewkeeper.rewrite.fresh import Names
from viewkeeper.rewrite.terms import map_terms, name_wildcards, substitute
from viewkeeper.why.asking import Asker
from viewkeeper.why.forms import Row, constant, plain
from viewkeeper.why.instances import Step
from viewkeeper.why.outcome import Derivation
from viewkeeper.why.proofs import Proof

# How many of the assignments of an aggregate are shown.
MOST_PARTS = 5


@dataclass
class _Node:
    """A row at its place in the tree, before its premises are known."""

    row: Row
    above: bool
    premises: list[_Node | Derivation]


class Trees:
    def __init__(self, asker: Asker, proofs: Mapping[Row, Proof]) -> None:
        self.asker = asker
        self.proofs = proofs

    def of(self, goal: Row) -> Derivation:
        """The tree, made without recursion: a proof may be thousands of steps deep."""
        nodes = list(self._nodes(goal))
        made: dict[int, Derivation] = {}
        for node in reversed(nodes):
            premises = tuple(made.pop(id(p)) if isinstance(p, _Node) else p for p in node.premises)
            made[id(node)] = self._derivation(node, premises)
        return made[id(nodes[0])]

    def _nodes(self, goal: Row) -> Iterator[_Node]:
        """In the order of the printed tree, so that of equal rows the first one is the one that is derived."""
        told: set[Row] = set()
        todo = [_Node(goal, False, [])]
        while todo:
            node = todo.pop()
            proof = self.proofs[node.row]
            if isinstance(proof, Step):
                if node.row in told:
                    node.above = True
                else:
                    told.add(node.row)
                    node.premises = self._premises(proof)
                    todo += [p for p in reversed(node.premises) if isinstance(p, _Node)]
            yield node

    def _derivation(self, node: _Node, premises: tuple[Derivation, ...]) -> Derivation:
        row, proof = node.row, self.proofs[node.row]
        types = self.asker.relations[row.relation].types
        values = tuple(restore(v, t) for v, t in zip(row.values, types, strict=True))
        text = self.asker.print_row(row)
        if not isinstance(proof, Step):
            return Derivation(proof, text, row.relation, values)
        form = proof.form
        named = all_variables((form.rule.head, *form.rule.body))
        bindings = {n: restore(v, form.types[n]) for n, v in proof.values.items() if n in named}
        rule = print_rule(form.rule)
        return Derivation("rule", text, row.relation, values, form.number, rule, bindings, premises, above=node.above)

    def _premises(self, step: Step) -> list[_Node | Derivation]:
        found: list[_Node | Derivation] = []
        constants = step.form.constants(step.values)
        if step.form.windowing is not None:
            return [_Node(step.rows[0], False, []), *self._windows(step.form.windowing, constants)]
        if step.form.grouped is not None:
            return [self._group(aggregate, constants) for aggregate in step.form.grouped.aggregates]
        for position, literal in enumerate(step.form.body):
            if isinstance(literal, Atom):
                found.append(_Node(step.rows[position], False, []))
            found += self._condition(literal, constants)
        return [*found, *(self.aggregate(a) for a in aggregates_in(substitute([step.form.head], constants)[0]))]

    # ---- conditions

    def _condition(self, literal: Literal, constants: Mapping[str, Constant]) -> Iterator[Derivation]:
        """A literal that is no atom: the aggregates in it, then what it says with all values in place."""
        [given] = substitute([literal], constants)
        made = {a: self.aggregate(a) for a in aggregates_in(given)}
        yield from made.values()
        match given:
            case Atom():
                return
            case Negation():
                yield Derivation("absent", print_literal(plain([given])[0]))
            case (
                Comparison(operator="=", left=Constant(), right=Aggregate())
                | Comparison(operator="=", left=Aggregate(), right=Constant())
            ):
                return
            case _:
                [shown] = plain([_with_values(given, {a: self._value(a) for a in made})])
                yield Derivation("condition", print_literal(shown))

    # ---- aggregates

    def _group(self, aggregate: Aggregate, constants: Mapping[str, Constant]) -> Derivation:
        """An aggregate of a grouping rule, for one group. A group's NULL is like any other value."""
        known = {name: c for name, c in constants.items() if c.value is not None}
        empty = tuple(Test("is_null", (Variable(name),)) for name, c in constants.items() if c.value is None)
        [test] = substitute([Test("is_null", (replace(aggregate, body=(*aggregate.body, *empty)),))], known)
        assert isinstance(test, Test) and isinstance(test.arguments[0], Aggregate)
        return self.aggregate(test.arguments[0])

    def aggregate(self, aggregate: Aggregate) -> Derivation:
        """An aggregate without outer variables: its value, how much takes part, and some of it."""
        value = self._value(aggregate)
        [shown] = plain([Test("is_null", (aggregate,))])
        assert isinstance(shown, Test)
        if aggregate.operation in ("min", "max"):
            assert aggregate.target is not None
            aggregate = replace(aggregate, body=(*aggregate.body, Comparison("=", value, aggregate.target)))
        count = self._value(Aggregate("count", None, aggregate.body)).value
        assert isinstance(count, int)
        parts = tuple(Derivation("part", text) for text in sorted(islice(self._parts(aggregate), MOST_PARTS)))
        text = f"{print_term(shown.arguments[0])} = {print_constant(value)}"
        return Derivation("aggregate", text, premises=parts, count=count)

    def _windows(self, windowing: Windowing, constants: Mapping[str, Constant]) -> Iterator[Derivation]:
        """The windows of a row: their values, how many rows its partition has, and some of these."""
        known = {name: constants[name] for name in windowing.partition}
        body = (
            *substitute([windowing.source], {name: c for name, c in known.items() if c.value is not None}),
            *(Test("is_null", (Variable(name),)) for name, c in known.items() if c.value is None),
        )
        partition = Aggregate("count", None, body)
        count = self._value(partition).value
        assert isinstance(count, int)
        parts = tuple(Derivation("part", text) for text in sorted(islice(self._parts(partition), MOST_PARTS)))
        for name, window in zip(windowing.results, windowing.windows, strict=True):
            text = f"{print_term(window)} = {print_constant(constants[name])}"
            yield Derivation("aggregate", text, premises=parts, count=count)
            parts = ()  # they are the same for the others

    def _value(self, aggregate: Aggregate) -> Constant:
        value = value_of(aggregate, self.asker)
        assert value is not None
        return value

    def _parts(self, aggregate: Aggregate) -> Iterator[str]:
        """The assignments of the aggregate's body, each once."""
        told: set[tuple[object, ...]] = set()
        for alternative in body_alternatives(aggregate.body):
            body = name_wildcards(alternative, Names(inner_variables(aggregate)))
            visible = scope_variables(body)
            names = [name for name in all_variables(body) if name in visible]
            types = self.asker.typer.body_types(body)
            for found in self.asker.solutions([Variable(n) for n in names], [types[n] for n in names], body):
                values = dict(zip(names, found, strict=False))
                key = (*sorted((name, repr(value)) for name, value in values.items()),)
                if key not in told:
                    told.add(key)
                    constants = {name: constant(value, types[name]) for name, value in values.items()}
                    yield print_body(plain(substitute([x for x in body if _is_telling(x, body)], constants)))


def value_of(aggregate: Aggregate, asker: Asker) -> Constant | None:
    """The value of an aggregate without outer variables; the least of nothing has none."""
    variable = Variable(Names(inner_variables(aggregate)).fresh("value"))
    body = (Comparison("=", variable, aggregate),)
    type_ = asker.typer.body_types(body)[variable.name]
    found = next(asker.solutions([variable], [type_], body), None)
    return None if found is None else constant(found[0], type_)


def _is_telling(literal: Literal, body: tuple[Literal, ...]) -> bool:
    """Rows say what an assignment is; the other literals do only where there are none."""
    return isinstance(literal, Atom) or not any(isinstance(other, Atom) for other in body)


def _with_values(literal: Literal, values: Mapping[Aggregate, Constant]) -> Literal:
    def term(t: Term) -> Term:
        match t:
            case Aggregate():
                return values[t]
            case Call():
                return replace(t, arguments=tuple(map(term, t.arguments)))
        return t

    return map_terms(literal, term)
