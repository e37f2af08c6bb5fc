"""Declarations of types and relations, and directives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from lark import Token, Tree

from viewkeeper.errors import Problem, Span, closest
from viewkeeper.language.complaints import Complaints, Refused
from viewkeeper.language.constants import CONSTANT_CALLS, unquote
from viewkeeper.language.trees import Node, span_of, subtrees, token, tree
from viewkeeper.program.ast import Column, Directive, Relation, TypeDeclaration
from viewkeeper.program.check import key_problems, parameter_problem
from viewkeeper.program.functions import FUNCTIONS, TESTS
from viewkeeper.program.types import BASE_TYPES, SYMBOL, Type, decimal_type

FUNCTION_NAMES = frozenset({*FUNCTIONS, *TESTS, *CONSTANT_CALLS, "as", "autoinc"})

_DIRECTIVE_QUALIFIERS = ("input", "output", "printsize", "external")
_REFUSED_QUALIFIERS = ("eqrel", "overridable", "btree_delete")

# What other languages call the types.
_TYPES_ELSEWHERE = {
    "int": "number", "integer": "number", "long": "number", "bigint": "number", "int64": "number", "uint": "unsigned",
    "uint64": "unsigned", "string": "symbol", "str": "symbol", "text": "symbol", "varchar": "symbol", "char": "symbol",
    "double": "float", "real": "float", "boolean": "bool", "datetime": "timestamp", "time": "timestamp", "binary": "bytes",
    "blob": "bytes", "numeric": "decimal(p,s)", "decimal": "decimal(p,s)", "money": "decimal(p,s)",
}  # fmt: skip


@dataclass(frozen=True)
class _Shape:
    """A type declaration before its parts are resolved."""

    node: Node
    name: Token
    form: str
    parts: list[Node]


@dataclass
class Declarations:
    """Collects declarations and directives.

    ``known`` are types declared before this text. ``doubtful`` are names whose declarations cannot be understood: nothing that
    follows from them is to be reported. ``elsewhere`` says that any name may be declared in a part that is left out.
    """

    complaints: Complaints
    known: Iterable[TypeDeclaration]
    doubtful: set[str]
    elsewhere: bool = False
    types: list[TypeDeclaration] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    directives: list[Directive] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._names: list[str] = []
        self._types: dict[str, Type] = {**BASE_TYPES, **{t.name: t.type for t in self.known}}

    # ---- types

    def declare_types(self, nodes: Iterable[Node]) -> None:
        """All type declarations of a text, in any order."""
        waiting = self._shapes(nodes)
        self._names = list(waiting)
        for name in waiting:
            self._types.pop(name, None)  # where it was declared before this text, merging compares the two
        before = -1
        while before != len(waiting):
            before = len(waiting)
            # In both directions: what a type is made of may be declared before or behind it.
            for shape in [*waiting.values(), *reversed(waiting.values())]:
                if shape.name in waiting and not any(_waits_for(part, waiting) for part in shape.parts):
                    del waiting[str(shape.name)]
                    self._declare_type(shape)
        self._report_circles(waiting)
        order = {name: place for place, name in enumerate(self._names)}
        self.types.sort(key=lambda declaration: order[declaration.name])

    def _shapes(self, nodes: Iterable[Node]) -> dict[str, _Shape]:
        found: dict[str, _Shape] = {}
        for node in nodes:
            name = token(node.children[1])
            try:
                shape = self._shape(node, name)
            except Refused:
                self.doubtful.add(str(name))
                continue
            if name in BASE_TYPES or name == "decimal" or name in found:
                self.complaints.wrong("DUPLICATE_TYPE", span_of(name), type=str(name))
            else:
                found[str(name)] = shape
        return found

    def _shape(self, node: Node, name: Token) -> _Shape:
        parts = subtrees(node)
        match node.data:
            case "type_record":
                raise self.complaints.unsupported("records", span_of(node))
            case "type_adt":
                raise self.complaints.unsupported("data type", span_of(node))
            case "type_symbol":
                base = "number" if node.children[0] == ".number_type" else "symbol"
                return _Shape(node, name, "subtype", [Tree("named_type", [Token("IDENT", base)])])
            case "type_subtype":
                return _Shape(node, name, "subtype", parts)
        return _Shape(node, name, "union" if len(parts) > 1 else "alias", parts)

    def _declare_type(self, shape: _Shape) -> None:
        try:
            declaration = self._type_declaration(shape)
        except Refused:
            self.doubtful.add(str(shape.name))
        else:
            self.types.append(declaration)
            self._types[str(shape.name)] = declaration.type

    def _type_declaration(self, shape: _Shape) -> TypeDeclaration:
        name, span = str(shape.name), span_of(shape.node)
        types = [self.type(part) for part in shape.parts]
        if shape.form == "alias":
            part = shape.parts[0]
            text = str(part.children[0]) if part.data == "named_type" else str(types[0])
            return TypeDeclaration(name, "alias", (text,), types[0], span)
        if any(t.base != types[0].base for t in types):
            raise self.complaints.wrong("TYPE_UNION", span, type=name, parts=" and ".join(str(t.base) for t in types))
        for part, found in zip(shape.parts, types, strict=True):
            if found.nullable or (shape.form == "union" and found.name is None):
                raise self.complaints.wrong("TYPE_PARTS", span_of(part), type=name, part=str(found))
        base = types[0].base
        own = Type(base.kind, base.precision, base.scale, name)
        return TypeDeclaration(name, shape.form, tuple(str(t) for t in types), own, span)

    def _report_circles(self, waiting: dict[str, _Shape]) -> None:
        """What is left depends on itself, or on what does. A circle is told once."""
        told: set[str] = set()
        for name, shape in waiting.items():
            circle = [] if name in told else _circle(name, waiting)
            if circle:
                told |= set(circle)
                self.complaints.wrong("TYPE_CYCLE", span_of(shape.name), type=name, cycle=" → ".join([*circle, name]))
        self.doubtful |= set(waiting)

    def type(self, node: Node) -> Type:
        """The type a column or another type is declared with."""
        name = token(node.children[0])
        match node.data:
            case "lattice_type":
                raise self.complaints.unsupported("lattices", span_of(node))
            case "decimal_type":
                return self._decimal(node)
        if name.type == "QUALIFIED":
            raise self.complaints.unsupported("dotted", span_of(name))
        if name in self._types:
            return self._types[name]
        if name.endswith("?") and name[:-1] in self._types:
            return self._types[name[:-1]].optional()
        raise self._unknown_type(name)

    def _decimal(self, node: Node) -> Type:
        name, precision, scale, nullable = node.children
        if name != "decimal":
            raise self.complaints.wrong("UNKNOWN_TYPE", span_of(name), type=f"{name}(…)", near='Did you mean "decimal(p,s)"? ')
        try:
            found = decimal_type(int(token(precision)), int(token(scale)))
        except ValueError:
            raise self.complaints.wrong("DECIMAL_DIGITS", span_of(node)) from None
        return found.optional(nullable is not None)

    def _unknown_type(self, token: Token) -> Refused:
        name = token.removesuffix("?")
        if self.elsewhere or name in self.doubtful:
            return Refused()
        near = closest(name, [*self._types, *self._names]) or closest(name.lower(), (), _TYPES_ELSEWHERE)
        return self.complaints.wrong("UNKNOWN_TYPE", span_of(token), type=name, near=near)

    # ---- relations

    def declare_relations(self, node: Node) -> None:
        """``.decl a, b(x: number) qualifiers``."""
        names, columns, *tags = node.children
        understood = True
        found: list[Column] = []
        for column in subtrees(columns):
            name, type_node = column.children
            try:
                type_ = self.type(tree(type_node))
            except Refused:
                type_, understood = SYMBOL, False
            found.append(Column(str(name), type_, span_of(column)))
        qualifiers, directives = self._qualifiers(tags)
        shape = Relation(str(tree(names).children[0]), tuple(found), qualifiers)
        key, key_span = self._key([tag for tag in tags if isinstance(tag, Tree) and tag.data == "key"], shape)
        for name in map(token, tree(names).children):
            try:
                self._check_name(name)
            except Refused:
                continue
            if not understood:
                self.doubtful.add(str(name))
            self.relations.append(replace(shape, name=str(name), key=key, span=span_of(name), key_span=key_span))
            self.directives += [Directive(kind, str(name), (), span_of(name)) for kind in directives]

    def _check_name(self, name: Token) -> None:
        if name.type == "QUALIFIED":
            raise self.complaints.unsupported("dotted", span_of(name))
        if name in FUNCTION_NAMES:
            self.doubtful.add(str(name))
            raise self.complaints.wrong("HEAD_FUNCTION", span_of(name), function=str(name))

    def _qualifiers(self, tags: Iterable[object]) -> tuple[tuple[str, ...], list[str]]:
        """The qualifiers to keep, each once, and those that stand for directives."""
        kept: dict[str, None] = {}
        directives: list[str] = []
        for tag in tags:
            if isinstance(tag, Tree):
                if tag.data == "choice":
                    self.complaints.unsupported("choice", span_of(tag))
            elif tag in _REFUSED_QUALIFIERS:
                self.complaints.unsupported(str(tag), span_of(tag))
            elif tag in _DIRECTIVE_QUALIFIERS:
                directives.append(str(tag))
            else:
                kept[str(tag)] = None
        return tuple(kept), directives

    def _key(self, clauses: Sequence[Node], relation: Relation) -> tuple[tuple[str, ...], Span | None]:
        """The columns of ``key(a, b)``, as far as they exist, and its place."""
        for second in clauses[1:]:
            hint = "Leave one of them out. A key of several columns is written key(a, b)."
            self.complaints.wrong("BAD_KEY", span_of(second), why="a relation has one key, and this is another", hint=hint)
        if not clauses:
            return (), None
        columns = [token(column) for column in clauses[0].children[1:] if column is not None]
        if not columns:
            hint = "Name the columns that tell its rows apart, as in key(name), or leave the key out."
            self.complaints.wrong("BAD_KEY", span_of(clauses[0]), why="the key has no columns", hint=hint)
        self.complaints.problems += key_problems(relation, [(str(column), span_of(column)) for column in columns])
        known = {column.name for column in relation.columns}
        return tuple(dict.fromkeys(str(column) for column in columns if column in known)), span_of(clauses[0])

    # ---- directives

    def direct(self, node: Node) -> None:
        """``.input name(…)``, ``.output``, ``.printsize``, ``.external`` and ``.integrity``."""
        keyword, names, *parameters = node.children
        kind = str(keyword)[1:]
        pairs = self._parameters(kind, [tree(parameter) for parameter in parameters if parameter is not None])
        for name in map(token, tree(names).children):
            if name.type == "QUALIFIED":
                self.complaints.unsupported("dotted", span_of(name))
            else:
                self.directives.append(Directive(kind, str(name), tuple(sorted(pairs)), span_of(name)))

    def _parameters(self, kind: str, nodes: Iterable[Node]) -> list[tuple[str, str]]:
        pairs: list[tuple[str, str]] = []
        problems: list[Problem] = []
        for key, value in (map(token, node.children) for node in nodes):
            text = unquote(value, self.complaints) if value.type == "STRING" else str(value)
            found = parameter_problem(kind, str(key), text, span_of(key), span_of(value))
            if found is None:
                pairs.append((str(key), text))
            else:
                problems.append(found)
        # The parameters of an IO that is not supported need not be known.
        self.complaints.problems += [p for p in problems if p.code == "UNSUPPORTED"] or problems
        return pairs


def _waits_for(part: Node, waiting: Iterable[str]) -> str | None:
    """The type that must be declared before this part can be."""
    name = str(part.children[0])
    return next((n for n in (name, name.removesuffix("?")) if n in waiting), None)


def _circle(name: str, waiting: dict[str, _Shape]) -> list[str]:
    """A way from a type through the types it is declared by back to itself; empty if there is none."""
    came: dict[str, str] = {}
    todo = [name]
    for at in todo:
        for part in waiting[at].parts:
            after = _waits_for(part, waiting)
            if after == name:
                way = [at]
                while way[0] != name:
                    way.insert(0, came[way[0]])
                return way
            if after is not None and after not in came:
                came[after] = at
                todo.append(after)
    return []
