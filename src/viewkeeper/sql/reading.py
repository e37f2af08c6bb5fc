"""SQL text → sqlglot's trees, and complaints that name a place in the text."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from viewkeeper.errors import ProgramError, Source, Span, problem
from viewkeeper.program.ast import Relation, Rule
from viewkeeper.sql.plain_rows import plain_rows

# It warns where it keeps a statement as it is; that is understood or refused by us.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

DIALECT = "spark"


# Functions that are lowered by their names: sqlglot makes others of them, in which patterns, units or further arguments are lost.
_BY_NAME = frozenset(
    """
    date_add date_diff date_format date_sub date_trunc dateadd datediff from_unixtime ifnull initcap last_day log log10 log2 nvl
    regexp_extract timestampadd timestampdiff to_date to_timestamp to_unix_timestamp trunc unix_timestamp
    """.upper().split()
)
_MAY_IGNORE_NULLS = (exp.IgnoreNulls, exp.FirstValue, exp.LastValue, exp.First, exp.Last)
TYPED = "typed"
"""Marks DATE '…' and TIMESTAMP '…', which differ from casts: the text must be right whether it is needed or not."""


def _arguments(tokens: list[Token]) -> int:
    """How many there are, separated by commas."""
    depth, found = 0, 1
    for token in tokens:
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        found += token.token_type is TokenType.COMMA and depth == 0
    return found


def _typed_constant(parser: SparkParser, text: exp.Expr, to: exp.DataType) -> exp.Expr:
    found = parser.expression(exp.Cast(this=text, to=to))
    found.meta[TYPED] = True
    return found


class AnsiSpark(Spark):
    """Spark as it is by default since version 4: a CAST that cannot be done fails."""

    class Parser(SparkParser):
        STRICT_CAST = True
        FUNCTIONS: ClassVar = {name: build for name, build in SparkParser.FUNCTIONS.items() if name not in _BY_NAME}
        FUNCTION_PARSERS: ClassVar = {k: parse for k, parse in SparkParser.FUNCTION_PARSERS.items() if k not in _BY_NAME}
        TYPE_LITERAL_PARSERS: ClassVar = {
            **SparkParser.TYPE_LITERAL_PARSERS,
            **dict.fromkeys((exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ), _typed_constant),
        }
        # These have no place otherwise.
        PRIMARY_PARSERS: ClassVar = {
            **SparkParser.PRIMARY_PARSERS,
            TokenType.NULL: lambda self, token: self.expression(exp.Null(), token),
            TokenType.TRUE: lambda self, token: self.expression(exp.Boolean(this=True), token),
            TokenType.FALSE: lambda self, token: self.expression(exp.Boolean(this=False), token),
        }

        def _parse_position(self, haystack_first: bool = False) -> Any:
            start = self._index
            found = super()._parse_position(haystack_first)
            if _arguments(self._tokens[start : self._index]) > 3:
                self.raise_error("Too many arguments")
            return found

        def validate_expression(self, expression: Any, args: list[Any] | None = None) -> Any:
            """Also refuses arguments of a function that are not in what was made of it."""
            lost = [argument for argument in args or () if argument.parent is None and argument is not expression]
            if isinstance(expression, _MAY_IGNORE_NULLS):  # their second argument, TRUE or FALSE, is known by now
                lost = [argument for argument in lost if not isinstance(argument, exp.Boolean)]
            if lost:
                self.raise_error("Too many arguments")
            return super().validate_expression(expression, args)


Evaluate = Callable[[Rule, Relation], Any]


@dataclass(frozen=True)
class Statement:
    """One statement: what was read, its own text, and the text it is in, where it begins at ``start``.

    ``evaluate``: gives the value of a rule's head that depends on no rows; None if the statement was accepted once already.
    """

    tree: exp.Expr
    text: str
    source: Source
    evaluate: Evaluate | None = None
    start: int = 0

    def refuse(self, code: str, node: exp.Expr | None = None, **parameters: object) -> NoReturn:
        """Raises ProgramError that shows the place of a part of the statement."""
        span = place_of(node, self.source) or place_of(self.tree, self.source) or self.place()
        raise_problem(code, span, self.source, **parameters)

    def place(self, start: int = 0, end: int | None = None) -> Span:
        """The place of a part of its text; of all of it if nothing is said."""
        return _span(self.start + start, self.start + (len(self.text) if end is None else end), self.source)


def raise_problem(code: str, span: Span | None, source: Source, **parameters: object) -> NoReturn:
    raise ProgramError(replace(problem(code, span, **parameters), source=source))


def read_script(text: str, name: str = "<sql>", evaluate: Evaluate | None = None) -> list[Statement]:
    """The statements of a text, which are separated by semicolons. Raises ProgramError."""
    source, dialect = Source(name, text), AnsiSpark()
    try:
        pieces = _pieces(_whole_texts(dialect.tokenize(text), text))
    except SqlglotError:
        raise_problem("SQL_SYNTAX", _unclosed(source), source, why="a text, a name or a comment that begins here does not end")
    found = []
    for tokens in pieces:
        start, end = tokens[0].start, tokens[-1].end + 1
        try:
            # From the tokens of the whole text, so that places are those of the whole text.
            tree = _parsed(dialect, tokens, text)
        except ParseError as error:
            _raise_syntax(error, tokens, source)
        except RecursionError:
            raise_problem("SQL_SYNTAX", _span(start, end, source), source, why="it is nested too deeply")
        found.append(Statement(tree, text[start:end], source, evaluate, start))
    return found


def _parsed(dialect: AnsiSpark, tokens: list[Token], text: str) -> exp.Expr:
    if [token.text.upper() for token in tokens[:2]] == ["ALTER", "MATERIALIZED"]:
        tokens = [tokens[0], *tokens[2:]]  # as if it were any view, which sqlglot understands
    plain = plain_rows(tokens)
    [tree] = dialect.parser().parse(tokens if plain is None else plain[0], text)
    assert tree is not None
    if plain is None:
        return tree
    values = tree.args.get("expression")
    if isinstance(tree, exp.Insert) and isinstance(values, exp.Values) and values.expressions:
        values.set("expressions", [*values.expressions, *plain[1]])
        return tree
    [whole] = dialect.parser().parse(tokens, text)
    assert whole is not None
    return whole


def _pieces(tokens: list[Token]) -> list[list[Token]]:
    pieces: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            pieces.append([])
        else:
            pieces[-1].append(token)
    return [piece for piece in pieces if piece]


def _whole_texts(tokens: list[Token], text: str) -> list[Token]:
    """A doubled quotation mark stands for one, as in Spark since version 4; the tokens are those of two texts."""
    found: list[Token] = []
    for token in tokens:
        last = found[-1] if found else None
        if (
            last is not None
            and token.token_type is last.token_type is TokenType.STRING
            and last.end + 1 == token.start
            and text[last.end] == text[token.start]
        ):
            found[-1] = Token(
                TokenType.STRING, f"{last.text}{text[token.start]}{token.text}", last.line, last.col, last.start, token.end
            )
        else:
            found.append(token)
    return found


def _raise_syntax(error: ParseError, tokens: list[Token], source: Source) -> NoReturn:
    first = error.errors[0] if error.errors else {}
    why = str(first.get("description") or error).splitlines()[0].split(" but got <Token")[0].rstrip(".")
    if "missing for" in why:
        why = "something is missing"
    line, column, near = first.get("line"), first.get("col"), str(first.get("highlight") or "")
    if not line or not column:
        raise_problem("SQL_SYNTAX", _span(tokens[0].start, tokens[-1].end + 1, source), source, why=why)
    # sqlglot's column is that of the last letter.
    start = max(1, column - len(near) + 1)
    near = f' near "{near}"' if near else ""
    raise_problem("SQL_SYNTAX", Span(line, start, line, column + 1), source, why=f"{why[:1].lower()}{why[1:]}{near}")


def _unclosed(source: Source) -> Span:
    """Where the last quotation mark or comment is opened."""
    start = max(source.text.rfind(mark) for mark in ("'", '"', "`", "/*"))
    return _span(max(0, start), max(0, start) + 1, source)


def place_of(node: exp.Expr | None, source: Source) -> Span | None:
    """The place of a part of a statement, as far as its names and constants tell."""
    if node is None:
        return None
    known = [part.meta for part in node.walk() if "start" in part.meta]
    if not known:
        return place_of(node.parent, source) if isinstance(node.parent, exp.Expr) and node.parent is not node else None
    return _span(min(m["start"] for m in known), max(m["end"] for m in known) + 1, source)


def written_at(node: exp.Expr, source: Source) -> str:
    """A part of a statement as it was written, if it is known from where to where; else as sqlglot writes it."""
    known = [part.meta for part in node.walk() if "start" in part.meta]
    if not known or "start" not in node.meta or not isinstance(node, exp.Func):
        return node.unalias().sql(DIALECT)
    start, end = min(m["start"] for m in known), max(m["end"] for m in known) + 1
    text = source.text[start:end]
    # What closes it has no place of its own.
    rest = re.match(r"[\s)]*", source.text[end:])
    missing = text.count("(") - text.count(")")
    closing = rest[0] if rest is not None else ""
    return text + ")" * missing if 0 <= missing <= closing.count(")") else node.sql(DIALECT)


def function_name(node: exp.Expr, source: Source) -> str:
    """The name of a function as it was written: sqlglot has one name for all that mean the same."""
    if isinstance(node, exp.Anonymous):
        return str(node.name)
    text, start = source.text, node.meta.get("start")
    found = re.compile(r"(\w+)\s*\(").match(text, start) if start is not None else None
    if found is None:
        known = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        found = re.search(r"(\w+)\s*\(\s*(?:distinct\s+|all\s+)?$", text[: min(known)], re.IGNORECASE) if known else None
    own = node.sql_name() if isinstance(node, exp.Func) else node.key
    return found[1] if found is not None else own.lower()


def _span(start: int, end: int, source: Source) -> Span:
    def line_and_column(offset: int) -> tuple[int, int]:
        before = source.text[:offset]
        return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1

    return Span(*line_and_column(start), *line_and_column(end))
