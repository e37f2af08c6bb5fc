"""Checks the trees of ``why``: every node of one, without trusting how it was found."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from tests.oracle import Row, evaluate

from viewkeeper.language import parse
from viewkeeper.program.ast import Program, atoms_in
from viewkeeper.program.printing import print_relation, print_rule, print_type
from viewkeeper.program.strata import reads
from viewkeeper.program.windows import windowing_of
from viewkeeper.why import Derivation

Rows = Mapping[str, set[Row]]
Fact = tuple[str, Row]

parsed = cache(parse)


def fact_of(node: Derivation) -> Fact:
    assert node.relation is not None and node.row is not None
    return node.relation, node.row


def check_tree(tree: Derivation, program: Program, rows: Rows, loaded: Rows) -> None:
    """``rows`` are all relations as the naive evaluator has them, ``loaded`` what was given to it."""
    derived: dict[Fact, set[Fact]] = {}
    for node in tree.walk():
        if node.relation is None:
            assert node.kind in ("absent", "condition", "aggregate", "part"), node
            assert node.kind == "aggregate" or not node.premises
            continue
        fact = fact_of(node)
        assert fact[1] in rows[fact[0]], f"{node.text} is not there"
        match node.kind:
            case "base":
                assert fact[0] not in program.derived and fact[1] in loaded.get(fact[0], set()), node
            case "fact":
                assert fact[1] in facts_of(program)[fact[0]], node
            case "rule" if node.above:
                assert fact in derived and not node.premises, f"{node.text} was not derived above"
            case "rule":
                assert fact not in derived, f"{node.text} is derived twice"
                derived[fact] = {fact_of(premise) for premise in node.premises if premise.relation is not None}
                check_instance(node, program, rows)
            case _:
                raise AssertionError(node)
    check_no_circle(derived)


@cache
def _facts(text: str) -> Rows:
    program = parse(text)
    stated = [rule for rule in program.rules if not rule.body]
    lines = [*map(print_type, program.types), *map(print_relation, program.relations), *map(print_rule, stated)]
    return evaluate("\n".join(lines), {})


def facts_of(program: Program) -> Rows:
    return _facts(str(program))


def check_instance(node: Derivation, program: Program, rows: Rows) -> None:
    """The rule gives the row from the premises alone. Relations it negates or aggregates are all there: what is missing counts, too."""
    assert node.relation is not None and node.rule is not None
    [rule] = [rule for rule in program.rules if print_rule(rule) == node.rule and rule.head.relation == node.relation][:1]
    premises = [fact_of(premise) for premise in node.premises if premise.relation is not None]
    whole = {atom.relation for atom, use in reads(rule) if use != "positive"}
    given: dict[str, set[Row]] = {name: set(rows[name]) for name in whole}
    for name, row in premises:
        if name not in whole:
            given.setdefault(name, set()).add(row)
    windowing = windowing_of(rule)
    positive = {atom.relation for atom, use in atoms_in(rule.body) if use == "positive"}
    assert {name for name, _ in premises} <= (positive if windowing is None else {windowing.source.relation})
    relation = program.relation(node.relation)
    conclusion = print_relation(relation).replace(f".decl {relation.name}(", ".decl the_conclusion(", 1)
    text = node.rule.replace(f"{relation.name}(", "the_conclusion(", 1)
    lines = [*map(print_type, program.types), *map(print_relation, program.relations), conclusion, text]
    found = evaluate("\n".join(lines), given)["the_conclusion"]
    assert node.row in found, f"{node.text} does not follow from {premises} by {node.rule}"


def check_no_circle(derived: Mapping[Fact, set[Fact]]) -> None:
    left = dict(derived)
    while left:
        ready = [fact for fact, premises in left.items() if not premises & left.keys()]
        assert ready, f"a circle: {list(left)}"
        for fact in ready:
            del left[fact]
