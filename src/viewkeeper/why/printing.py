"""Trees as text and as flat lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from viewkeeper.errors import counted
from viewkeeper.why.outcome import Absence, Attempt, Derivation, Why

_NODE = Derivation | Absence | Attempt | str


def print_why(why: Why) -> str:
    """The tree. A rule is written out where it is used for the first time."""
    root: _NODE = why.derivation or why.absence or ""
    lines: list[str] = []
    rules: set[tuple[str | None, int | None]] = set()
    todo: list[tuple[_NODE, str, str]] = [(root, "", "")]
    while todo:
        node, first, rest = todo.pop()
        lines.append(first + _line(node, rules))
        below = _below(node)
        for place, child in reversed(list(enumerate(below))):
            last = place == len(below) - 1
            todo.append((child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  ")))
    return "\n".join(lines)


def _below(node: _NODE) -> Sequence[_NODE]:
    match node:
        case Derivation(kind="aggregate", count=int() as count):
            more = count - len(node.premises)
            return [*node.premises, f"and {more:,} more"] if more > 0 else node.premises
        case Derivation():
            return node.premises
        case Absence():
            return node.attempts
        case Attempt(missing=Absence() as missing):
            return [missing]
    return ()


def _line(node: _NODE, rules: set[tuple[str | None, int | None]]) -> str:
    match node:
        case Derivation(kind="rule"):
            if node.above:
                return f"{node.text}   (above)"
            known = (node.relation, node.number) in rules
            rules.add((node.relation, node.number))
            return f"{node.text}   rule {node.number}" + ("" if known else f": {node.rule}")
        case Derivation(kind="base"):
            return f"{node.text}   base row"
        case Derivation(kind="fact"):
            return f"{node.text}   fact"
        case Derivation(kind="absent"):
            return f"{node.text}   no such row"
        case Derivation(kind="aggregate", count=int() as count):
            return f"{node.text}   of {counted(count, 'row')}" if count else f"{node.text}   of nothing"
        case Derivation():
            return node.text
        case Absence(kind="base"):
            return f"{node.text}: no such row was inserted"
        case Absence(kind="above"):
            return f"{node.text} is not there (above)"
        case Absence(kind="unexplored"):
            return f"{node.text} is not there (not looked into)"
        case Absence():
            return f"{node.text} is not there" + ("" if node.attempts else ": no rule gives such a row")
        case Attempt():
            return f"rule {node.number} needs {node.needs}: {node.reason}"
    return node


def flat(why: Why) -> list[dict[str, Any]]:
    """One dict for each node, in the order of the printed tree; ``premises`` are numbers of others."""
    found: list[dict[str, Any]] = []
    todo: list[tuple[_NODE, dict[str, Any] | None]] = [(why.derivation or why.absence or "", None)]
    while todo:
        node, above = todo.pop()
        entry: dict[str, Any] = {"id": len(found) + 1, **_entry(node)}
        found.append(entry)
        if above is not None:
            above.setdefault("premises", []).append(entry["id"])
        below = [child for child in _below(node) if not isinstance(child, str)]
        todo += [(child, entry) for child in reversed(below)]
    return found


def _entry(node: _NODE) -> dict[str, Any]:
    match node:
        case Derivation():
            shown: dict[str, Any] = {
                "kind": node.kind,
                "text": node.text,
                "relation": node.relation,
                "row": node.row,
                "number": node.number,
            }
            shown |= {"rule": node.rule, "bindings": node.bindings or None, "count": node.count, "above": node.above or None}
            return {name: value for name, value in shown.items() if value is not None}
        case Absence():
            return {"kind": "missing", "text": node.text, "relation_kind": node.kind}
        case Attempt():
            return {"kind": "attempt", "number": node.number, "rule": node.rule, "needs": node.needs, "reason": node.reason}
    return {}
