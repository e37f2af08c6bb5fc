"""Recursive descent for the whole language. Disjunctions are multiplied out while parsing."""

from __future__ import annotations

from .lexer import ParseError, Tokens
from .syntax import (
    WILDCARD,
    Agg,
    Atom,
    Call,
    Clause,
    Compare,
    Const,
    Directive,
    Literal,
    Over,
    Program,
    Term,
    Test,
    Truth,
    TypeExpr,
    Var,
)

COMPARISONS = {"=", "!=", "<", "<=", ">", ">="}
TESTS = {"match", "contains", "is_null"}
AGGREGATES = {"count", "sum", "min", "max", "mean"}
WINDOWS = {"row_number", "rank", "dense_rank", "ntile", "percent_rank", "cume_dist", "lag", "lead"}
WINDOWS |= {"first_value", "last_value", "nth_value"}
CONSTANTS = {"date", "timestamp", "decimal", "bytes"}
FUNCTIONS = {"min", "max", "cat", "strlen", "substr", "ord", "to_number", "to_unsigned", "to_float", "to_string"}
FUNCTIONS |= {"to_date", "to_timestamp", "range", "coalesce"}
# From weakest to tightest; all of these group to the left.
LEVELS = ["lor", "lxor", "land", "bor", "bxor", "band", "bshl bshr bshru", "+ -", "* / %"]
QUALIFIERS = {"inline", "magic", "no_magic", "no_inline", "btree", "brie", "input", "output", "printsize"}

Body = list[list[Literal]]


def parse(text: str) -> Program:
    return Parser(text).program()


class Parser(Tokens):
    # Declarations and directives.

    def program(self) -> Program:
        program = Program()
        while self.kind() != "end":
            match self.peek():
                case ".type":
                    self.type_decl(program)
                case ".decl":
                    self.decl(program)
                case ".input" | ".output" | ".printsize":
                    self.io_directive(program)
                case ".pragma":
                    self.next()
                    while self.kind() == "string":
                        self.next()
                case ".plan":
                    self.plan()
                case _:
                    program.clauses.append(self.clause())
        return program

    def type_decl(self, program: Program) -> None:
        self.expect(".type")
        name = self.name()
        if not self.accept("<:"):
            self.expect("=")
        members = [self.type_expr()]
        while self.accept("|"):
            members.append(self.type_expr())
        program.types[name] = members

    def type_expr(self) -> TypeExpr:
        name, precision, scale = self.name(), 18, 0
        if name == "decimal":
            self.expect("(")
            precision = int(self.next())
            self.expect(",")
            scale = int(self.next())
            self.expect(")")
        nullable = name.endswith("?") or self.accept("?")
        return TypeExpr(name.rstrip("?"), precision, scale, nullable)

    def decl(self, program: Program) -> None:
        self.expect(".decl")
        names = [self.name()]
        while self.accept(","):
            names.append(self.name())
        columns: list[tuple[str, TypeExpr]] = []
        self.expect("(")
        while not self.accept(")"):
            column = self.name()
            self.expect(":")
            columns.append((column, self.type_expr()))
            self.accept(",")
        for name in names:
            program.decls[name] = columns
        self.skip_key()
        while self.peek() in QUALIFIERS and self.peek(1) not in {"(", ":-", ","}:
            qualifier = self.next()
            if qualifier in {"input", "output", "printsize"}:
                program.directives += [Directive(qualifier, name, {}) for name in names]
            self.skip_key()

    def skip_key(self) -> None:
        """What is derived does not depend on keys."""
        if self.peek() == "key" and self.peek(1) == "(":
            close = self.tokens.index(("op", ")"), self.pos)
            if self.tokens[close + 1][1] not in {".", ":-", ","}:
                self.pos = close + 1

    def io_directive(self, program: Program) -> None:
        kind = self.next()[1:]
        names = [self.name()]
        while self.accept(","):
            names.append(self.name())
        params: dict[str, str] = {}
        if self.accept("("):
            while not self.accept(")"):
                key = self.name()
                self.expect("=")
                params[key] = self.string() if self.kind() == "string" else self.next()
                self.accept(",")
        program.directives += [Directive(kind, name, params) for name in names]

    def plan(self) -> None:
        """`.plan 0:(1,2), 1:(2,1)`: no effect."""
        self.expect(".plan")
        while True:
            self.next()
            self.expect(":")
            self.expect("(")
            while not self.accept(")"):
                self.next()
            if not self.accept(","):
                return

    # Rules.

    def clause(self) -> Clause:
        heads = [self.atom()]
        while self.accept(","):
            heads.append(self.atom())
        body = self.body() if self.accept(":-") else [[]]
        self.expect(".")
        return Clause(tuple(heads), tuple(tuple(conj) for conj in body))

    def atom(self, positive: bool = True) -> Atom:
        return Atom(self.name(), self.arguments(), positive)

    def arguments(self) -> tuple[Term, ...]:
        self.expect("(")
        args: list[Term] = []
        if not self.accept(")"):
            args.append(self.term())
            while self.accept(","):
                args.append(self.term())
            self.expect(")")
        return tuple(args)

    def body(self) -> Body:
        """`;` binds weaker than `,`."""
        result = self.conjunction()
        while self.accept(";"):
            result = result + self.conjunction()
        return result

    def conjunction(self) -> Body:
        result = self.literal()
        while self.accept(","):
            right = self.literal()
            result = [a + b for a in result for b in right]
        return result

    def literal(self) -> Body:
        negated = self.accept("!")
        if self.kind() == "name" and self.peek(1) == "(":
            if self.peek() in TESTS:
                return [[Test(self.name(), self.arguments(), not negated)]]
            if self.peek() not in FUNCTIONS | CONSTANTS | AGGREGATES | {"lnot", "bnot"}:
                return [[self.atom(not negated)]]
        start = self.pos
        try:
            left = self.term()
            if self.peek() in COMPARISONS:
                return [[Compare(self.next(), left, self.term())]]
            if isinstance(left, Const) and left.family == "bool":
                return [[Truth((left.text == "true") != negated)]]
            raise ParseError(f"expected a comparison, found {self.peek()!r} (token {self.pos})")
        except ParseError:
            if self.tokens[start] != ("op", "("):
                raise
        self.pos = start
        self.expect("(")
        inner = self.body()
        self.expect(")")
        return inner

    # Terms.

    def term(self, level: int = 0) -> Term:
        if level == len(LEVELS):
            return self.unary()
        left = self.term(level + 1)
        while self.peek() in LEVELS[level].split():
            op = self.next()
            left = Call(op, (left, self.term(level + 1)))
        return left

    def unary(self) -> Term:
        if self.peek() in {"bnot", "lnot"}:
            return Call(self.next(), (self.unary(),))
        if self.accept("-"):
            if self.kind() in {"int", "real"} and self.peek(1) != "^":
                number = self.primary()
                assert isinstance(number, Const)
                return Const(number.family, "-" + number.text)
            return Call("neg", (self.unary(),))
        base = self.primary()
        # `^` is tighter than unary operators on its left and groups to the right.
        return Call("^", (base, self.unary())) if self.accept("^") else base

    def primary(self) -> Term:
        if self.kind() == "string":
            return Const("symbol", self.string())
        if self.kind() == "real":
            return Const("real", self.next())
        if self.kind() == "int":
            text = self.next()
            return Const("unsigned", text[:-1]) if text.endswith("u") else Const("int", text)
        if self.accept("("):
            inner = self.term()
            self.expect(")")
            return inner
        if self.peek() in AGGREGATES:
            return self.aggregate()
        if self.peek() in WINDOWS and self.is_window():
            return self.aggregate()
        name = self.name()
        if name == "_":
            return Var(f"{WILDCARD}{self.fresh()}")
        if name in {"true", "false"}:
            return Const("bool", name)
        if name == "null":
            return Const("null", name)
        if name in CONSTANTS and self.accept("("):
            text = self.string()
            self.expect(")")
            return Const(name, text)
        if name in FUNCTIONS and self.peek() == "(":
            return Call(name, self.arguments())
        return Var(name)

    def aggregate(self) -> Term:
        """`min(x, y)` is a function, `min x : { ... }` and `min (x + y) : { ... }` are aggregates."""
        op, start = self.next(), self.pos
        number = None
        try:
            target = None if self.peek() == ":" else self.term()
            if self.kind() == "int":
                number = int(self.next())
            self.expect(":")
        except ParseError:
            if op not in FUNCTIONS:
                raise
            self.pos = start
            return Call(op, self.arguments())
        if self.accept("{"):
            body = self.body()
            self.expect("}")
        else:
            body = self.literal()
        over = self.over(number) if self.peek() == "over" and self.peek(1) == "(" else None
        return Agg(op, target, tuple(tuple(conj) for conj in body), self.fresh(), over=over)

    def is_window(self) -> bool:
        """`rank : {`, `lag x 2 : {`: everything else is a name."""
        colon = next((i for i in (1, 2, 3) if self.peek(i) in (":", ",", ")", "=")), 0)
        return self.peek(colon) == ":" and self.peek(colon + 1) == "{"

    def over(self, number: int | None) -> Over:
        """`over (p, q; x desc nulls first, y; rows -2 unbounded)`."""
        self.expect("over")
        self.expect("(")
        parts: list[list[list[str]]] = [[[]]]
        while not self.accept(")"):
            if self.accept(";"):
                parts.append([[]])
            elif self.accept(","):
                parts[-1].append([])
            else:
                parts[-1][-1].append(self.next())
        partition, order, extent = [[words for words in part if words] for part in (*parts, [], [])[:3]]
        words = extent[0] if extent else []
        bounds = [None if w == "unbounded" else int(w) for w in " ".join(words[1:]).replace("- ", "-").split()]
        return Over(
            tuple(word for [word] in partition),
            tuple(
                (name, "desc" in rest, "first" in rest or "desc" not in rest and "last" not in rest) for name, *rest in order
            ),
            (words[0], bounds[0], bounds[1]) if len(words) > 1 else None,
            int(words[0]) if len(words) == 1 else None,
            number,
        )
