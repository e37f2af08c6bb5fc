"""What to say about a token that does not fit, and where to go on reading."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from lark import Token

from viewkeeper.errors import Problem, Span, closest, problem
from viewkeeper.language.tokens import UNREADABLE, column_of, quoted, span_of, unreadable

REFUSED = frozenset({"UNSUPPORTED", "UNKNOWN_DIRECTIVE"})
DIRECTIVES = REFUSED | {"_DECL", "TYPE", "IO", "_PRAGMA", "_PLAN"}
QUALIFIERS = (
    "input",
    "output",
    "printsize",
    "external",
    "virtual",
    "inline",
    "no_inline",
    "magic",
    "no_magic",
    "btree",
    "brie",
    "bag",
)
_KEY = "key(…)"
_KEYS_ELSEWHERE = {"key": _KEY, "primary": _KEY, "primary_key": _KEY, "unique": _KEY}
_NAMES = ("IDENT", "QUALIFIER", "KEY")
_COMMENT_SIGNS = ("PERCENT", "MINUS")  # of other languages
_CLOSING = {"LPAR": "RPAR", "LBRACE": "RBRACE", "LSQB": "RSQB"}
_RESERVED = frozenset({"AGGREGATE", "LOR", "LXOR", "LAND", "BOR", "BXOR", "BAND", "SHIFT", "BNOT", "LNOT"})

# What people call the tokens, in the order in which they are told.
_CALLED = {
    "IDENT": "a name", "STRING": "a text", "NUMBER": "a number", "SUBTYPE": '"<:"', "EQUALS": '"="', "LPAR": '"("',
    "LBRACE": '"{"', "COLON": '":"', "COMMA": '","', "SEMICOLON": '";"', "VBAR": '"|"', "RPAR": '")"', "RBRACE": '"}"',
    "RSQB": '"]"', "IF": '":-"', "DOT": '"."',
}  # fmt: skip
_SIGNS = {"RPAR": ")", "RBRACE": "}", "RSQB": "]"}


def recover(tokens: Sequence[Token], start: int, position: int, expected: set[str]) -> tuple[Problem, int]:
    """The problem of a statement that goes wrong at a position, and the position to go on from."""
    token = tokens[position] if position < len(tokens) else None
    if _is_stray_word(tokens, start, position) or tokens[start].type in _COMMENT_SIGNS:
        return _unexpected(tokens, start, _wish_at_start(tokens, start)), _next_line(tokens, start)
    anew = token is None or token.type in DIRECTIVES or _is_head(tokens, start, position)
    if anew and position > start:
        resume = position
    elif tokens[start].type in DIRECTIVES:
        resume = _behind_directive(tokens, start, position)
    else:
        resume = _behind_statement(tokens, position)
    opened = _open_brackets(tokens[start:position])
    if token is not None and token.type in UNREADABLE:
        return unreadable(token), resume
    if _can_close(opened, expected) and (anew or _ends(tokens, position)):
        return _unclosed(opened[-1]), resume
    if anew and "DOT" in expected:
        return problem("MISSING_DOT", _behind(tokens[position - 1])), resume
    return _unexpected(tokens, position, _wish(tokens, start, position, expected, bool(opened))), resume


def unexpected_in_query(tokens: Sequence[Token], position: int, expected: set[str]) -> Problem:
    """The problem of a query that goes wrong at a position."""
    opened = _open_brackets(tokens[:position])
    kind = tokens[position].type if position < len(tokens) else None
    if kind is None and _can_close(opened, expected):
        return _unclosed(opened[-1])
    if kind == "IF":
        wish = 'A query is a body: leave out the head and ":-".'
    elif kind == "DOT" or kind in DIRECTIVES:
        wish = 'A query is one body: conditions with "," or ";" between them.'
    else:
        wish = _wish(tokens, -1, position, expected, bool(opened))
    return _unexpected(tokens, position, wish)


def _can_close(opened: Sequence[Token], expected: set[str]) -> bool:
    return bool(opened) and _CLOSING[opened[-1].type] in expected


def _unclosed(bracket: Token) -> Problem:
    return problem("UNCLOSED_BRACKET", span_of(bracket), bracket=str(bracket), closing=_SIGNS[_CLOSING[bracket.type]])


# ---- where to go on


def _is_head(tokens: Sequence[Token], start: int, position: int) -> bool:
    """Does a new rule or fact seem to start here: a relation with its arguments on a line of its own?"""
    if position + 1 >= len(tokens) or tokens[position].type not in _NAMES or tokens[position + 1].type != "LPAR":
        return False
    if position == start or tokens[position].line == tokens[position - 1].end_line:
        return False
    behind = behind_brackets(tokens, position + 1)
    if behind < len(tokens) and tokens[behind].type == "IF":
        return True
    rule = any(token.type == "IF" for token in tokens[start:position])
    return not rule and column_of(tokens[position]) <= column_of(tokens[start])


def _ends(tokens: Sequence[Token], position: int) -> bool:
    """Can this token not be inside brackets?"""
    return tokens[position].type == "IF" or (tokens[position].type == "DOT" and not _touching_number(tokens, position))


def _is_stray_word(tokens: Sequence[Token], start: int, position: int) -> bool:
    """Is this a single word at the end of a line that has a statement already, or ``keys(a, b)`` behind a declaration?"""
    same_line = start > 0 and tokens[start - 1].end_line == tokens[start].line
    if not same_line or tokens[start].type not in _NAMES:
        return False
    types = [token.type for token in tokens[start + 1 : position]]
    brackets = types[:1] == ["LPAR"] and types[-1] == "RPAR" and set(types[1:-1]) <= {*_NAMES, "COMMA"}
    return not types or (brackets and tokens[start].type == "IDENT" and _is_behind_declaration(tokens, start))


def _is_behind_declaration(tokens: Sequence[Token], start: int) -> bool:
    before = takewhile(lambda token: token.line == tokens[start].line, (tokens[at] for at in range(start - 1, -1, -1)))
    return any(token.type == "_DECL" for token in before)


def _next_line(tokens: Sequence[Token], position: int) -> int:
    line = tokens[position].line
    return next((after for after in range(position, len(tokens)) if tokens[after].line != line), len(tokens))


def behind_brackets(tokens: Sequence[Token], position: int, barriers: frozenset[str] = frozenset()) -> int:
    """The position behind the bracket that opens here and all in it, or of the first token that cannot be in it."""
    depth = 0
    while position < len(tokens) and tokens[position].type not in barriers:
        depth += (tokens[position].type in _CLOSING) - (tokens[position].type in _SIGNS)
        position += 1
        if depth <= 0:
            break
    return position


def _behind_statement(tokens: Sequence[Token], position: int) -> int:
    """Behind the next full stop (one in front of a digit or a letter ends nothing), or at the next directive."""
    while position < len(tokens):
        token = tokens[position]
        position += 1
        if position == len(tokens) or tokens[position].type in DIRECTIVES:
            return position
        if token.type == "DOT" and tokens[position].start_pos != token.end_pos:
            return position
    return position


def _behind_directive(tokens: Sequence[Token], start: int, position: int) -> int:
    """On the line behind a directive and the bracket that goes wrong; behind the wrong token if the bracket is not closed."""
    ends = (behind_brackets(tokens, at) for at in range(start, position) if tokens[at].type in _CLOSING)
    end = next((end for end in ends if end > position), position)
    if any(token.type in DIRECTIVES or token.type == "IF" for token in tokens[position:end]):
        end = position
    return max(_next_line(tokens, max(end - 1, start)), start + 1)


def behind_construct(tokens: Sequence[Token], position: int) -> int:
    """Behind a directive that is not supported: the rest of its line and the brackets that open there or on the next line."""
    line = tokens[position].line
    position += 1
    while position < len(tokens):
        token = tokens[position]
        if token.line != line and token.type != "LBRACE":
            return position
        position = behind_brackets(tokens, position) if token.type in _CLOSING else position + 1
        line = tokens[position - 1].end_line
    return position


def declared_names(tokens: Sequence[Token]) -> set[str]:
    """The names that a declaration, however wrong, seems to declare."""
    if tokens[0].type not in ("_DECL", "TYPE"):
        return set()
    names = takewhile(lambda token: token.type in _NAMES or token.type == "COMMA", tokens[1:])
    return {str(token) for token in names if token.type in _NAMES}


# ---- what to say


def _unexpected(tokens: Sequence[Token], position: int, wish: str) -> Problem:
    if position < len(tokens):
        return problem("SYNTAX", span_of(tokens[position]), found=quoted(tokens[position]), wish=wish)
    end = _behind(tokens[-1]) if tokens else Span(1, 1, 1, 2)
    return problem("SYNTAX", end, found="end of the text", wish=wish)


def _wish(tokens: Sequence[Token], start: int, position: int, expected: set[str], inside: bool) -> str:
    """What would fit instead, or what was meant."""
    token = tokens[position] if position < len(tokens) else None
    before = tokens[position - 1] if position > max(start, 0) else None
    match token.type if token is not None else "", str(token):
        case "IF", _ if any(other.type == "IF" for other in tokens[max(start, 0) : position]):
            return 'A rule has one ":-". Is the "." of the rule before it missing?'
        case "IF", _ if position == start:
            return 'The head of the rule is missing: write name(…) before ":-".'
        case "DOT", _ if position == start:
            return "There is nothing for it to end. Directives have no full stop."
        case "DOT", _ if _touching_number(tokens, position):
            return f"A number starts with a digit: 0.{tokens[position + 1]}"
        case "RPAR" | "RBRACE" | "RSQB", sign if not inside:
            return f'There is no opening bracket for this "{sign}".'
        case "LATTICE", _:
            return 'Inequality is written "!=".'
        case _, "and" | "AND":
            return '"And" is written ",".'
        case _, "or" | "OR":
            return '"Or" is written ";".'
        case kind, word if kind in _RESERVED and "IDENT" in expected and "STRING" not in expected:
            return f'"{word}" is a word of the language; use another name.'
    if before is not None and before in ("not", "NOT"):
        return 'Negation is written "!".'
    return _wish_at_start(tokens, start) if position == start else _described(expected)


def _described(expected: set[str]) -> str:
    if "COMPARISON" in expected:
        expected = expected - {"EQUALS"}  # signs of terms and comparisons fit nearly everywhere
    called = [name for kind, name in _CALLED.items() if kind in expected]
    if "UNDERSCORE" in expected:
        plain = {"IDENT", "STRING", "NUMBER", "LPAR"}
        called = ["a condition" if "BANG" in expected else "a value"]
        called += [name for kind, name in _CALLED.items() if kind in expected - plain]
    choices = " or ".join(filter(None, [", ".join(called[:-1]), *called[-1:]]))
    return f"Expected {choices} here." if called else ""


def _wish_at_start(tokens: Sequence[Token], start: int) -> str:
    if tokens[start].type in _COMMENT_SIGNS:
        return "Comments start with //."
    if _is_behind_declaration(tokens, start):
        near = closest(tokens[start], QUALIFIERS, _KEYS_ELSEWHERE)
        return f"{near}Behind a declaration come its qualifiers: {', '.join((*QUALIFIERS, _KEY))}."
    return "A statement starts with a directive such as .decl, or with the name of a relation."


def _touching_number(tokens: Sequence[Token], position: int) -> bool:
    after = tokens[position + 1] if position + 1 < len(tokens) else None
    return after is not None and after.type == "NUMBER" and after.start_pos == tokens[position].end_pos


def _open_brackets(tokens: Sequence[Token]) -> list[Token]:
    opened: list[Token] = []
    for token in tokens:
        if token.type in _CLOSING:
            opened.append(token)
        elif token.type in _SIGNS and opened:
            opened.pop()
    return opened


def _behind(token: Token) -> Span:
    """The place right behind a token."""
    span = span_of(token)
    return Span(span.end_line, span.end_column, span.end_line, span.end_column + 1)
