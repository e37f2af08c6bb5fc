"""Statements → Program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from lark import Token, Tree

from viewkeeper.errors import Problem, Span, closest, problem
from viewkeeper.language.parser import Node, span_of
from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Call,
    Column,
    Comparison,
    Constant,
    Directive,
    Either,
    Literal,
    Negation,
    Program,
    Relation,
    Rule,
    Term,
    Test,
    Truth,
    TypeDeclaration,
    Value,
    Variable,
    Wildcard,
)
from viewkeeper.program.functions import AGGREGATES, FUNCTIONS, TESTS
from viewkeeper.program.types import BASE_TYPES, DATE, NUMBER, SYMBOL, TIMESTAMP, UNSIGNED, Type, decimal_type
from viewkeeper.program.values import BadValue, check_float, parse_bytes, parse_date, parse_timestamp, restore, type_of_value

_IGNORED_QUALIFIERS = frozenset({"inline", "no_inline", "magic", "no_magic", "brie", "btree"})
_DIRECTIVE_QUALIFIERS = ("input", "output", "printsize")
_REFUSED_QUALIFIERS = {
    "eqrel": "equivalence relations (eqrel)",
    "overridable": "components (overridable)",
    "btree_delete": "subsumption (btree_delete)",
}
_REFUSED_DIRECTIVES = {
    ".comp": "components", ".init": "components", ".override": "components", ".functor": "user-defined functors", ".lattice": "lattices",
    ".limitsize": ".limitsize", ".include": ".include", ".once": ".once", "#": "the C preprocessor",
}  # fmt: skip
_REFUSED_CALLS = {"as": "type casts with as()", "autoinc": "counters (autoinc)"}
_CONSTANT_CALLS = ("date", "timestamp", "decimal", "bytes")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}


class _Refused(Exception):
    """A part of the statement cannot be represented; the problem is recorded already."""


@dataclass
class Lowering:
    """Collects the parts of a program; ``problems`` has what was refused.

    ``known`` are types declared before this text.
    """

    known: tuple[TypeDeclaration, ...] = ()
    problems: list[Problem] = field(default_factory=list)
    types: list[TypeDeclaration] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    directives: list[Directive] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    pragmas: list[tuple[str, ...]] = field(default_factory=list)

    def program(self, statements: Iterable[Node]) -> Program:
        """All statements as one program. Types first: they may be used before they are declared."""
        bodies = [_subtree(statement) for statement in statements]
        self._types([body for body in bodies if body.data.startswith("type_")])
        for body in bodies:
            try:
                self._statement(body)
            except _Refused:
                continue
        return Program(
            tuple(self.types), tuple(self.relations), tuple(self.directives), tuple(self.rules), tuple(self.pragmas)
        )

    def _refuse(self, node: Token | Node, what: str, hint: str = "") -> _Refused:
        self.problems.append(problem("UNSUPPORTED", span_of(node), what=what, hint=hint))
        return _Refused()

    def _wrong(self, code: str, span: Span, **parameters: object) -> _Refused:
        self.problems.append(problem(code, span, **parameters))
        return _Refused()

    # ---- declarations

    def _statement(self, node: Node) -> None:
        match node.data:
            case "decl":
                self._decl(node)
            case "io":
                self._io(node)
            case "pragma":
                self.pragmas.append(tuple(_unquote(part) for part in node.children if part is not None))
            case "unsupported":
                token = _token(node.children[0])
                what = _REFUSED_DIRECTIVES[token if token.startswith(".") else "#"]
                raise self._refuse(token, what, "Leave it out." if token.startswith("#") else "")
            case "fact" | "rule":
                self._clause(node)

    def _types(self, nodes: list[Node]) -> None:
        """Resolves type declarations in any order."""
        declared: dict[str, TypeDeclaration] = {t.name: t for t in self.known}
        waiting: list[tuple[Node, str, str, list[Node]]] = []
        for node in nodes:
            try:
                name, form, parts = self._type_shape(node)
            except _Refused:
                continue
            if name in BASE_TYPES or name == "decimal" or name in declared or any(name == w[1] for w in waiting):
                self._wrong("DUPLICATE_TYPE", span_of(node), type=name)
                continue
            waiting.append((node, name, form, parts))
        progress = True
        while waiting and progress:
            progress = False
            for entry in list(waiting):
                node, name, form, parts = entry
                names = [_type_name(part) for part in parts]
                if not all(n in declared or n in BASE_TYPES or n == "decimal" for n in names):
                    continue
                waiting.remove(entry)
                progress = True
                try:
                    declared[name] = self._declare(node, name, form, parts, declared)
                    self.types.append(declared[name])
                except _Refused:
                    declared[name] = TypeDeclaration(name, "alias", ("number",), NUMBER)
        for node, name, _, parts in waiting:
            unknown = [n for part in parts if (n := _type_name(part)) not in {*declared, *BASE_TYPES, "decimal"}]
            cyclic = any(n == w[1] for n in unknown for w in waiting)
            if cyclic:
                self._wrong("TYPE_CYCLE", span_of(node), type=name)
            else:
                near = closest(unknown[0], [*declared, *BASE_TYPES])
                self._wrong("UNKNOWN_TYPE", span_of(node), type=unknown[0], near=near)
        self._declared = declared
        # keep the order of the text
        order = {name: i for i, name in enumerate(_type_decl_name(node) for node in nodes)}
        self.types.sort(key=lambda t: order[t.name])

    def _type_shape(self, node: Node) -> tuple[str, str, list[Node]]:
        name = str(node.children[1])
        parts = [_subtree(child) for child in node.children[2:] if child is not None]
        match node.data:
            case "type_record":
                raise self._refuse(node, "records", "Give each field a column of its own.")
            case "type_adt":
                raise self._refuse(node, "algebraic data types")
            case "type_symbol":
                base = "number" if node.children[0] == ".number_type" else "symbol"
                return name, "subtype", [Tree("named_type", [Token("IDENT", base)])]
            case "type_subtype":
                return name, "subtype", parts
        return name, "union" if len(parts) > 1 else "alias", parts

    def _declare(
        self, node: Node, name: str, form: str, parts: list[Node], declared: dict[str, TypeDeclaration]
    ) -> TypeDeclaration:
        self._declared = declared
        types = [self._type(part) for part in parts]
        texts = tuple(str(t) for t in types) if form != "alias" else (_type_text(parts[0], types[0]),)
        if form == "alias":
            return TypeDeclaration(name, form, texts, types[0], span_of(node))
        if any(t.base != types[0].base for t in types):
            raise self._wrong("TYPE_UNION", span_of(node), type=name, parts=" and ".join(str(t) for t in types))
        if any(t.nullable for t in types) or form == "union" and any(t.name is None for t in types):
            raise self._wrong("TYPE_PARTS", span_of(node), type=name)
        base = types[0].base
        return TypeDeclaration(name, form, texts, Type(base.kind, base.precision, base.scale, name), span_of(node))

    def _type(self, node: Node) -> Type:
        token = _token(node.children[0])
        if node.data == "decimal_type":
            if token != "decimal":
                raise self._wrong("UNKNOWN_TYPE", span_of(node), type=str(token), near="")
            try:
                found = decimal_type(_integer(node.children[1]), _integer(node.children[2]))
            except ValueError:
                raise self._wrong("DECIMAL_DIGITS", span_of(node)) from None
            return found.optional() if node.children[3] is not None else found
        name = str(token)
        nullable = name.endswith("?") and name not in self._declared
        base = name.removesuffix("?") if nullable else name
        if base in BASE_TYPES:
            return BASE_TYPES[base].optional(nullable)
        if base in self._declared:
            found = self._declared[base].type
            return found.optional() if nullable else found
        raise self._wrong("UNKNOWN_TYPE", span_of(token), type=base, near=closest(base, [*BASE_TYPES, *self._declared]))

    def _decl(self, node: Node) -> None:
        names, columns, *tags = node.children
        found: list[Column] = []
        refused = False
        for column in columns.children if isinstance(columns, Tree) else ():
            name, type_node = _subtree(column).children
            try:
                found.append(Column(str(name), self._type(_subtree(type_node)), span_of(column)))
            except _Refused:
                found.append(Column(str(name), SYMBOL, span_of(column)))
        kept: list[str] = []
        directives: list[str] = []
        for tag in tags:
            if isinstance(tag, Tree):
                self._refuse(tag, "choice domains")
            elif tag in _REFUSED_QUALIFIERS:
                self._refuse(tag, _REFUSED_QUALIFIERS[tag])
            elif tag in _DIRECTIVE_QUALIFIERS:
                directives.append(str(tag))
            elif str(tag) not in kept:
                kept.append(str(tag))
        for name in _subtree(names).children:
            assert isinstance(name, Token) and not refused
            self.relations.append(Relation(str(name), tuple(found), tuple(kept), span_of(name)))
            self.directives += [Directive(kind, str(name), (), span_of(name)) for kind in directives]

    def _io(self, node: Node) -> None:
        keyword, names, *parameters = node.children
        pairs = []
        for parameter in parameters:
            if parameter is not None:
                key, value = _subtree(parameter).children
                pairs.append((str(key), _unquote(value) if _token(value).type == "STRING" else str(value)))
        for name in _subtree(names).children:
            self.directives.append(Directive(str(keyword)[1:], str(name), tuple(sorted(pairs)), span_of(_token(name))))

    # ---- clauses

    def _clause(self, node: Node) -> None:
        heads: list[Atom] = []
        for part in _subtree(node.children[0]).children:
            if isinstance(part, Tree) and part.data == "comparison" and part.children[1] == "<=":
                raise self._refuse(node, "subsumption")
            heads.append(self._head(_subtree(part)))
        body = self._disjunction(_subtree(node.children[1])) if node.data == "rule" else ()
        for head in heads:
            self.rules.append(Rule(head, body, span_of(node)))

    def _head(self, node: Node) -> Atom:
        if node.data == "qualified":
            raise self._refuse(node, "components (names with a dot)")
        if node.data != "call":
            raise self._wrong("HEAD", span_of(node))
        name = str(node.children[0])
        if name in TESTS or name in FUNCTIONS or name in _CONSTANT_CALLS:
            raise self._wrong("HEAD_FUNCTION", span_of(node), function=name)
        return Atom(name, self._arguments(node.children[1]), span_of(node))

    def body(self, node: Node) -> tuple[Literal, ...]:
        """A body on its own, for queries."""
        try:
            return self._disjunction(node)
        except _Refused:
            return ()

    def _disjunction(self, node: Node) -> tuple[Literal, ...]:
        alternatives = tuple(self._conjunction(_subtree(child)) for child in node.children)
        if len(alternatives) == 1:
            return alternatives[0]
        return (Either(alternatives, span_of(node)),)

    def _conjunction(self, node: Node) -> tuple[Literal, ...]:
        found: list[Literal] = []
        for child in node.children:
            found += self._literal(_subtree(child))
        return tuple(found)

    def _literal(self, node: Node) -> tuple[Literal, ...]:
        match node.data:
            case "comparison":
                left, operator, right = node.children
                return (Comparison(str(operator), self._term(left), self._term(right), span_of(node)),)
            case "negation":
                return (self._negation(node),)
            case "parentheses":
                return self._disjunction(_subtree(node.children[0]))
            case "call":
                name, arguments = str(node.children[0]), self._arguments(node.children[1])
                if name in TESTS:
                    return (self._test(name, arguments, False, span_of(node)),)
                if name in FUNCTIONS or name in _CONSTANT_CALLS or name in _REFUSED_CALLS:
                    self._term(node)
                    raise self._wrong("NOT_A_CONDITION", span_of(node))
                return (Atom(name, arguments, span_of(node)),)
            case "variable" if node.children[0] in ("true", "false"):
                return (Truth(node.children[0] == "true", span_of(node)),)
            case "qualified":
                raise self._refuse(node, "components (names with a dot)")
        self._term(node)
        raise self._wrong("NOT_A_CONDITION", span_of(node))

    def _negation(self, node: Node) -> Literal:
        inner = self._literal(_subtree(node.children[0]))
        match inner:
            case (Atom() as atom,):
                return Negation(atom, span_of(node))
            case (Test() as test,):
                return Test(test.predicate, test.arguments, not test.negated, span_of(node))
            case (Truth() as truth,):
                return Truth(not truth.value, span_of(node))
        raise self._wrong("NEGATED_CONDITION", span_of(node))

    def _test(self, name: str, arguments: tuple[Term, ...], negated: bool, span: Span) -> Test:
        if len(arguments) != TESTS[name]:
            raise self._wrong("FUNCTION_ARITY", span, function=name, wanted=TESTS[name], found=len(arguments))
        return Test(name, arguments, negated, span)

    # ---- terms

    def _arguments(self, node: object) -> tuple[Term, ...]:
        if node is None:
            return ()
        assert isinstance(node, Tree)
        return tuple(self._term(child) for child in node.children)

    def _term(self, node: object) -> Term:
        assert isinstance(node, Tree)
        span = span_of(node)
        match node.data:
            case "number" | "unsigned":
                text = str(node.children[0])
                value = int(text.removesuffix("u"), 0) if text[:2].lower() in ("0x", "0b") else int(text.removesuffix("u"))
                return Constant(value, UNSIGNED if node.data == "unsigned" else None, span)
            case "float":
                return self._float(node)
            case "string":
                return Constant(self._string(node), None, span)
            case "wildcard":
                return Wildcard(span)
            case "variable":
                return self._variable(node)
            case "call":
                return self._call(node)
            case "aggregate_call":
                name, first, rest = node.children
                return Call(str(name), (self._term(first), *self._arguments(rest)), span)
            case "aggregate":
                return self._aggregate(node)
            case "parentheses":
                return self._parentheses(node)
            case "prefix":
                return self._prefix(node)
            case "power":
                left, _, right = node.children
                return Call("^", (self._term(left), self._term(right)), span)
            case "term" | "xor" | "conj" | "bits_or" | "bits_xor" | "bits_and" | "shift" | "sum" | "product":
                return self._operators(node)
            case "record":
                raise self._refuse(node, "records", "Give each field a column of its own.")
            case "branch_value":
                counter = node.children[0] is None
                raise self._refuse(node, "counters ($)" if counter else "algebraic data types")
            case "functor":
                raise self._refuse(node, "user-defined functors")
            case "qualified":
                raise self._refuse(node, "components (names with a dot)")
        raise self._wrong("NOT_A_VALUE", span)

    def _float(self, node: Node) -> Term:
        try:
            return Constant(check_float(float(str(node.children[0]))), None, span_of(node))
        except BadValue as error:
            raise self._wrong("CONSTANT_TEXT", span_of(node), kind="float", text=str(node.children[0]), why=str(error)) from None

    def _string(self, node: Node) -> str:
        text = str(node.children[0])[1:-1]
        parts = text.split("\\\\")
        for part in parts:
            for at in range(len(part) - 1):
                if part[at] == "\\" and part[at + 1] not in _ESCAPES:
                    raise self._wrong("ESCAPE", span_of(node), escape=part[at : at + 2])
        return _unquote(node.children[0])

    def _variable(self, node: Node) -> Term:
        name, span = str(node.children[0]), span_of(node)
        match name:
            case "true" | "false":
                return Constant(name == "true", None, span)
            case "null":
                return Constant(None, None, span)
            case "nil":
                raise self._refuse(node, "records (nil)")
        return Variable(name, span)

    def _call(self, node: Node) -> Term:
        name, span = str(node.children[0]), span_of(node)
        if name in _REFUSED_CALLS:
            raise self._refuse(node, _REFUSED_CALLS[name])
        arguments = self._arguments(node.children[1])
        if name in _CONSTANT_CALLS:
            return self._constant_call(name, arguments, span)
        return Call(name, arguments, span)

    def _constant_call(self, name: str, arguments: tuple[Term, ...], span: Span) -> Term:
        if len(arguments) != 1 or not isinstance(arguments[0], Constant) or not isinstance(arguments[0].value, str):
            raise self._wrong("CONSTANT_CALL", span, kind=name)
        text = arguments[0].value
        try:
            value: Value
            match name:
                case "date":
                    value = restore(parse_date(text), DATE)
                case "timestamp":
                    value = restore(parse_timestamp(text), TIMESTAMP)
                case "bytes":
                    value = parse_bytes(text)
                case _:
                    value = Decimal(text)
                    if not value.is_finite() or set(text.lower()) & set("e_"):
                        raise BadValue("not a decimal number")
            return Constant(value, type_of_value(value), span)
        except (BadValue, ArithmeticError) as error:
            why = str(error) if isinstance(error, BadValue) else "not a decimal number"
            raise self._wrong("CONSTANT_TEXT", span, kind=name, text=text, why=why) from None

    def _aggregate(self, node: Node) -> Term:
        operation, target, body = node.children
        name = str(operation)
        assert name in AGGREGATES
        if (target is None) != (name == "count"):
            code = "COUNT_TARGET" if name == "count" else "AGGREGATE_TARGET"
            raise self._wrong(code, span_of(node), operation=name)
        if _subtree(body).data == "aggregate_atom":
            literals = self._literal(Tree("call", _subtree(body).children, _subtree(body).meta))
        else:
            literals = self._disjunction(_subtree(_subtree(body).children[0]))
        return Aggregate(name, None if target is None else self._term(target), literals, span_of(node))

    def _parentheses(self, node: Node) -> Term:
        inner = _subtree(node.children[0])
        if len(inner.children) != 1 or len(_subtree(inner.children[0]).children) != 1:
            raise self._wrong("NOT_A_VALUE", span_of(node))
        return self._term(_subtree(inner.children[0]).children[0])

    def _prefix(self, node: Node) -> Term:
        operator, operand = node.children
        literal = isinstance(operand, Tree) and operand.data in ("number", "float")
        inner = self._term(operand)
        if operator == "-" and literal:
            assert isinstance(inner, Constant) and isinstance(inner.value, (int, float))
            return Constant(-inner.value + (0.0 if isinstance(inner.value, float) else 0), inner.type, span_of(node))
        return Call("neg" if operator == "-" else str(operator), (inner,), span_of(node))

    def _operators(self, node: Node) -> Term:
        first, *rest = node.children
        term = self._term(first)
        for operator, operand in zip(rest[::2], rest[1::2], strict=True):
            right = self._term(operand)
            assert term.span is not None and right.span is not None
            term = Call(str(operator), (term, right), term.span.to(right.span))
        return term


def _subtree(node: object) -> Node:
    assert isinstance(node, Tree), node
    if node.data == "statement":
        return _subtree(node.children[0])
    return node


def _token(node: object) -> Token:
    assert isinstance(node, Token)
    return node


def _integer(node: object) -> int:
    return int(str(node), 0)


def _type_name(node: Node) -> str:
    name = str(node.children[0])
    return name.removesuffix("?") if name.removesuffix("?") in BASE_TYPES else name


def _type_decl_name(node: Node) -> str:
    return str(node.children[1])


def _type_text(node: Node, type_: Type) -> str:
    return str(node.children[0]) if node.data == "named_type" else str(type_)


def _unquote(token: object) -> str:
    text = str(token)[1:-1]
    parts = text.split("\\\\")
    for escape, plain in _ESCAPES.items():
        if escape != "\\":
            parts = [part.replace("\\" + escape, plain) for part in parts]
    return "\\".join(parts)


