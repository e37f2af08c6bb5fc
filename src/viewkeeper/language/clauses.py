"""Rules and facts: conditions and values, which share one grammar, are told apart here."""

from __future__ import annotations

from dataclasses import dataclass

from lark import Tree

from viewkeeper.errors import Span, counted
from viewkeeper.language import windows
from viewkeeper.language.complaints import Complaints, Refused
from viewkeeper.language.constants import CONSTANT_CALLS, constant_call, float_number, unquote, whole_number
from viewkeeper.language.declarations import FUNCTION_NAMES
from viewkeeper.language.trees import Node, span_of, token, tree
from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Either,
    Literal,
    Negation,
    Rule,
    Term,
    Test,
    Truth,
    Variable,
    Wildcard,
)
from viewkeeper.program.functions import TESTS

_REFUSED_VALUES = {"record": "records", "functor": "functors", "qualified": "dotted"}


@dataclass
class Clauses:
    """Makes rules of trees. ``doubtful`` are names that have been complained about already."""

    complaints: Complaints
    doubtful: set[str]

    def rules(self, node: Node) -> list[Rule]:
        """The rules of one clause: one for each head."""
        heads: list[Atom] = []
        for part in map(tree, tree(node.children[0]).children):
            if part.data == "comparison" and part.children[1] == "<=":
                raise self.complaints.unsupported("subsumption", span_of(part))
            heads.append(self._head(part))
        body = self.body(tree(node.children[1])) if node.data == "rule" else ()
        return [Rule(head, body, span_of(node)) for head in heads]

    def _head(self, node: Node) -> Atom:
        if node.data == "qualified":
            raise self.complaints.unsupported("dotted", span_of(node))
        if node.data != "call":
            raise self.complaints.wrong("HEAD", span_of(node))
        name = token(node.children[0])
        if name in FUNCTION_NAMES:
            if name in self.doubtful:  # refused where it is declared
                raise Refused
            raise self.complaints.wrong("HEAD_FUNCTION", span_of(name), function=str(name))
        return Atom(str(name), self._arguments(node.children[1]), span_of(node))

    # ---- conditions

    def body(self, node: Node) -> tuple[Literal, ...]:
        """A disjunction; one with a single alternative is just its literals."""
        alternatives = tuple(self._conjunction(tree(child)) for child in node.children)
        return alternatives[0] if len(alternatives) == 1 else (Either(alternatives, span_of(node)),)

    def _conjunction(self, node: Node) -> tuple[Literal, ...]:
        found: list[Literal] = []
        for child in node.children:
            found += self._literal(tree(child))
        return tuple(found)

    def _literal(self, node: Node) -> tuple[Literal, ...]:
        span = span_of(node)
        match node.data:
            case "comparison":
                left, operator, right = self._term(node.children[0]), str(node.children[1]), self._term(node.children[2])
                if operator == "=" and isinstance(left, Aggregate) and isinstance(right, Variable):
                    left, right = right, left  # count : { … } = n is n = count : { … }
                return (Comparison(operator, left, right, span),)
            case "negation":
                return (self._negation(node),)
            case "parentheses":
                return self.body(tree(node.children[0]))
            case "call" if node.children[0] in TESTS:
                return (self._test(node),)
            case "call" if node.children[0] not in FUNCTION_NAMES:
                return (Atom(str(node.children[0]), self._arguments(node.children[1]), span),)
            case "variable" if node.children[0] in ("true", "false"):
                return (Truth(node.children[0] == "true", span),)
        self._term(node)  # complains about what is wrong inside
        raise self.complaints.wrong("NOT_A_CONDITION", span)

    def _negation(self, node: Node) -> Literal:
        span = span_of(node)
        match self._literal(tree(node.children[0])):
            case (Atom() as atom,):
                return Negation(atom, span)
            case (Test() as test,):
                return Test(test.predicate, test.arguments, not test.negated, span)
            case (Truth() as truth,):
                return Truth(not truth.value, span)
        raise self.complaints.wrong("NEGATED_CONDITION", span)

    def _test(self, node: Node) -> Test:
        name, arguments, span = str(node.children[0]), self._arguments(node.children[1]), span_of(node)
        if len(arguments) != TESTS[name]:
            wanted = counted(TESTS[name], "argument")
            raise self.complaints.wrong("FUNCTION_ARITY", span, function=name, wanted=wanted, found=len(arguments))
        return Test(name, arguments, False, span)

    # ---- values

    def _arguments(self, node: object) -> tuple[Term, ...]:
        return () if node is None else tuple(self._term(child) for child in tree(node).children)

    def _term(self, node: object) -> Term:
        node = tree(node)
        span = span_of(node)
        match node.data:
            case "number" | "unsigned":
                return whole_number(token(node.children[0]), self.complaints)
            case "float":
                return float_number(token(node.children[0]), self.complaints)
            case "string":
                return Constant(unquote(token(node.children[0]), self.complaints), None, span)
            case "wildcard":
                return Wildcard(span)
            case "variable":
                return self._variable(str(node.children[0]), span)
            case "call":
                return self._call(node)
            case "aggregate_call":
                name, first, rest = node.children
                return Call(str(name), (self._term(first), *self._arguments(rest)), span)
            case "aggregate":
                return self._aggregate(node)
            case "window":
                return self._window(node)
            case "parentheses":
                return self._parentheses(node)
            case "prefix":
                return self._prefix(node)
            case "power":
                left, _, right = node.children
                return Call("^", (self._term(left), self._term(right)), span)
            case "term" | "xor" | "conj" | "bits_or" | "bits_xor" | "bits_and" | "shift" | "sum" | "product":
                return self._operators(node)
            case "branch_value":
                raise self.complaints.unsupported("counter" if node.children[0] is None else "data type", span)
            case refused if refused in _REFUSED_VALUES:
                raise self.complaints.unsupported(_REFUSED_VALUES[refused], span)
        raise self.complaints.wrong("NOT_A_VALUE", span)

    def _variable(self, name: str, span: Span) -> Term:
        match name:
            case "true" | "false":
                return Constant(name == "true", None, span)
            case "null":
                return Constant(None, None, span)
            case "nil":
                raise self.complaints.unsupported("nil", span)
        return Variable(name, span)

    def _call(self, node: Node) -> Term:
        name, span = str(node.children[0]), span_of(node)
        if name in ("as", "autoinc"):
            raise self.complaints.unsupported(name, span)
        if name in TESTS:
            raise self.complaints.wrong("NOT_A_VALUE", span)
        arguments = self._arguments(node.children[1])
        if name in CONSTANT_CALLS:
            return constant_call(name, arguments, span, self.complaints)
        return Call(name, arguments, span)

    def _aggregate(self, node: Node) -> Term:
        operation, target, body, over = node.children
        name, body = str(operation), tree(body)
        if (target is None) != (name == "count") and not (over is not None and name == "count"):
            code = "COUNT_TARGET" if name == "count" else "AGGREGATE_TARGET"
            raise self.complaints.wrong(code, span_of(operation if target is None else target), operation=name)
        if body.data == "aggregate_atom":
            literals = self._literal(Tree("call", body.children, body.meta))
        else:
            literals = self.body(tree(body.children[0]))
        made = None if over is None else windows.over(tree(over), None, self.complaints)
        return Aggregate(name, None if target is None else self._term(target), literals, made, span_of(node))

    def _window(self, node: Node) -> Term:
        operation, target, number, body, over = node.children
        literals = self.body(tree(tree(body).children[0]))
        made = windows.over(tree(over), None if number is None else token(number), self.complaints)
        return Aggregate(str(operation), None if target is None else self._term(target), literals, made, span_of(node))

    def _parentheses(self, node: Node) -> Term:
        alternatives = tree(node.children[0]).children
        literals = tree(alternatives[0]).children
        if len(alternatives) > 1 or len(literals) > 1:
            raise self.complaints.wrong("NOT_A_VALUE", span_of(node))
        return self._term(literals[0])

    def _prefix(self, node: Node) -> Term:
        operator, operand = node.children
        inner = self._term(operand)
        if operator == "-" and tree(operand).data in ("number", "float"):
            match inner:
                case Constant(value=float() as value):
                    return Constant(-value + 0.0, inner.type, span_of(node))
                case Constant(value=int() as value):
                    return Constant(-value, inner.type, span_of(node))
        return Call("neg" if operator == "-" else str(operator), (inner,), span_of(node))

    def _operators(self, node: Node) -> Term:
        first, *rest = node.children
        term = self._term(first)
        for operator, operand in zip(rest[::2], rest[1::2], strict=True):
            term = Call(str(operator), (term, self._term(operand)), span_of(first).to(span_of(operand)))
        return term
