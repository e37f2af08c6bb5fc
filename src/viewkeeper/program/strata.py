"""Which relations depend on which, and in what order they can be computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from viewkeeper.errors import Problem, problem
from viewkeeper.program.ast import Atom, Program, Rule, atoms_in


@dataclass(frozen=True)
class Stratum:
    """Relations that depend on each other, or one that does not depend on itself."""

    relations: tuple[str, ...]
    recursive: bool


Graph = Mapping[str, Mapping[str, str]]
"""For each relation those its rules read, with the strictest use: "positive" < "aggregate" < "negation"."""

_STRICTNESS = {"positive": 0, "aggregate": 1, "negation": 2}


def dependencies(program: Program) -> dict[str, dict[str, str]]:
    graph: dict[str, dict[str, str]] = {relation.name: {} for relation in program.relations}
    for rule in program.rules:
        uses = graph.setdefault(rule.head.relation, {})
        for atom, use in reads(rule):
            if _STRICTNESS[use] >= _STRICTNESS[uses.get(atom.relation, "positive")]:
                uses[atom.relation] = use
    return graph


def reads(rule: Rule) -> Iterator[tuple[Atom, str]]:
    """The atoms a rule reads, those in aggregates of its head included, and how: "positive", "negation" or "aggregate"."""
    yield from ((atom, use) for atom, use in atoms_in((rule.head,)) if atom is not rule.head)
    yield from atoms_in(rule.body)


def stratify(program: Program) -> list[Stratum]:
    """Strata in an order in which each needs only earlier ones and itself."""
    graph = dependencies(program)
    return [
        Stratum(tuple(component), len(component) > 1 or component[0] in graph[component[0]]) for component in components(graph)
    ]


def depths(program: Program) -> dict[str, int]:
    """How many negations and aggregates are below each relation, one above the other.

    Relations of one depth can be computed together, whichever of them read which.
    """
    graph = dependencies(program)
    found: dict[str, int] = {}
    for component in components(graph):
        below = {(found.get(other, 0), use != "positive") for name in component for other, use in graph[name].items()}
        found |= dict.fromkeys(component, max((depth + is_more for depth, is_more in below), default=0))
    return found


def reach(graph: Mapping[str, Iterable[str]], names: set[str]) -> set[str]:
    """The names and everything they depend on."""
    found, todo = set(names), list(names)
    while todo:
        for name in graph.get(todo.pop(), ()):
            if name not in found:
                found.add(name)
                todo.append(name)
    return found


def components(graph: Graph) -> list[list[str]]:
    """Strongly connected components, dependencies first (Tarjan 1972, with an explicit stack)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[list[str]] = []
    for root in graph:
        if root in index:
            continue
        work: list[tuple[str, Iterator[str]]] = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in graph:
                    continue
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(graph[successor])))
                    break
                if successor in on_stack:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component: list[str] = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.append(member)
                        if member == node:
                            break
                    found.append(component[::-1])
    return found


_MARKS = {"positive": "", "negation": "!", "aggregate": "aggregate of "}


def check_strata(program: Program) -> list[Problem]:
    """Negation and aggregation must not go round in a circle. A circle with several of them is told once."""
    graph = dependencies(program)
    place = {name: number for number, component in enumerate(components(graph)) for name in component}
    problems: dict[frozenset[tuple[str, str]], Problem] = {}
    for rule in program.rules:
        head = rule.head.relation
        for atom, use in reads(rule):
            if use == "positive" or place.get(atom.relation) != place.get(head):
                continue
            circle = [head, *_path(graph, atom.relation, head)]
            steps = [f"{_MARKS[use]}{atom.relation}", *(f"{_MARKS[graph[a][b]]}{b}" for a, b in pairwise(circle[1:]))]
            code = "NEGATION_CYCLE" if use == "negation" else "AGGREGATE_CYCLE"
            found = problem(code, atom.span, relation=atom.relation, cycle=" → ".join([head, *steps]))
            problems.setdefault(frozenset(pairwise(circle)), found)
    return list(problems.values())


def _path(graph: Graph, start: str, goal: str) -> list[str]:
    """A shortest way from start to goal along dependencies."""
    came: dict[str, str | None] = {start: None}
    todo = [start]
    for node in todo:
        if node == goal:
            break
        for successor in graph.get(node, ()):
            if successor not in came:
                came[successor] = node
                todo.append(successor)
    path: list[str] = []
    at: str | None = goal
    while at is not None:
        path.append(at)
        at = came[at]
    return path[::-1]
