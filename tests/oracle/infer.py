"""Base types of all terms of a rule: things that must have one type are put into one class."""

from __future__ import annotations

from .scopes import Rule
from .syntax import Agg, Atom, Call, Compare, Const, Literal, Range, Term, Test, Truth, Var
from .values import Column

SYMBOL_ARGS = {"cat", "strlen", "ord", "to_date", "to_timestamp"}
RESULTS = {
    "cat": "symbol",
    "strlen": "number",
    "substr": "symbol",
    "ord": "number",
    "to_number": "number",
    "to_unsigned": "unsigned",
    "to_float": "float",
    "to_string": "symbol",
    "to_date": "date",
    "to_timestamp": "timestamp",
}

Key = object


class Types:
    """After construction, `family(term)` is the base type of each term in the rule, `scale(term)` that of a decimal."""

    def __init__(self, rule: Rule, columns: dict[str, list[Column]]) -> None:
        self.columns = columns
        self.parent: dict[Key, Key] = {}
        self.reals: list[Key] = []
        self.equations: list[Compare] = []
        self.scales: dict[str, int] = {}
        for literal in (*rule.heads, *rule.body):
            self.literal(literal)
        # A class without a type of its own: float if there is a constant with a point in it, else number.
        for key in self.reals:
            if not isinstance(self.root(key), str):
                self.same(key, "float")
        while True:
            known = len(self.scales)
            for eq in self.equations:
                for var, term in ((eq.left, eq.right), (eq.right, eq.left)):
                    if isinstance(var, Var) and var.name not in self.scales and self.scale(term) is not None:
                        self.scales[var.name] = self.scale(term) or 0
            if len(self.scales) == known:
                break

    # Classes. A base type is its own root.

    def root(self, key: Key) -> Key:
        while key in self.parent:
            key = self.parent[key]
        return key

    def same(self, a: Key, b: Key) -> None:
        a, b = self.root(a), self.root(b)
        if a != b:
            if isinstance(a, str):
                a, b = b, a
            assert not isinstance(a, str), f"{a} is not {b}"
            self.parent[a] = b

    @staticmethod
    def key(term: Term) -> Key:
        return ("variable", term.name) if isinstance(term, Var) else term

    def family(self, term: Term) -> str:
        root = self.root(self.key(term))
        return root if isinstance(root, str) else "number"

    def scale(self, term: Term | None) -> int | None:
        """Digits after the point; None if not (yet) known."""
        match term:
            case Var():
                return self.scales.get(term.name)
            case Const():
                return len(term.text.partition(".")[2]) if term.family in ("decimal", "real", "int") else None
            case Call():
                parts = [s for s in (self.scale(a) for a in term.args) if s is not None]
                return (sum(parts) if term.op == "*" else max(parts)) if parts else None
            case Agg():
                return self.scale(term.target)
        return None

    # Constraints.

    def literal(self, literal: Literal) -> None:
        match literal:
            case Atom():
                for arg, col in zip(literal.args, self.columns[literal.relation], strict=True):
                    self.same(self.term(arg), col.family)
                    if isinstance(arg, Var) and col.family == "decimal":
                        self.scales.setdefault(arg.name, col.scale)
            case Compare():
                self.same(self.term(literal.left), self.term(literal.right))
                if literal.op == "=":
                    self.equations.append(literal)
            case Test():
                for arg in literal.args:
                    key = self.term(arg)
                    if literal.name != "is_null":
                        self.same(key, "symbol")
            case Range():
                for arg in literal.args:
                    self.same(self.term(arg), self.term(literal.var))
            case Truth():
                pass

    def term(self, term: Term) -> Key:
        key = self.key(term)
        match term:
            case Const():
                if term.family == "real":
                    self.reals.append(key)
                elif term.family not in ("int", "null"):
                    self.same(key, term.family)
            case Call():
                self.call(term)
            case Agg():
                for conj in term.body:
                    for literal in conj:
                        self.literal(literal)
                target = None if term.target is None else self.term(term.target)
                if term.op in ("mean", "percent_rank", "cume_dist"):
                    self.same(key, "float")
                elif target is None or term.op in ("ntile", "count"):
                    self.same(key, "number")
                else:
                    self.same(key, target)
            case Var():
                pass
        return key

    def call(self, call: Call) -> None:
        args = [self.term(a) for a in call.args]
        if call.op in RESULTS:
            self.same(call, RESULTS[call.op])
            for i, arg in enumerate(args):
                if call.op in SYMBOL_ARGS:
                    self.same(arg, "symbol")
                elif call.op == "substr":
                    self.same(arg, "symbol" if i == 0 else "number")
        else:
            for arg in args:
                self.same(arg, call)
