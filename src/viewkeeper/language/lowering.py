"""Statements → Program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from viewkeeper.errors import Problem, closest
from viewkeeper.language.clauses import Clauses
from viewkeeper.language.complaints import Complaints, Refused
from viewkeeper.language.constants import unquote
from viewkeeper.language.declarations import Declarations
from viewkeeper.language.trees import Node, span_of, token, tree
from viewkeeper.program.ast import Literal, Program, Rule, TypeDeclaration
from viewkeeper.program.printing import INNER

_DIRECTIVES = (".decl", ".type", ".input", ".output", ".printsize", ".external", ".integrity", ".pragma", ".plan")
_REFUSED_DIRECTIVES = {
    ".comp": "components", ".init": "components", ".override": "components", ".functor": "functors", ".lattice": "lattices",
    ".limitsize": ".limitsize", ".include": ".include", ".once": ".once",
}  # fmt: skip
# What they stand for may declare anything; None is a directive that does not exist.
_DECLARE_ELSEWHERE = ("components", ".include", "preprocessor", None)


@dataclass
class Lowered:
    """A program as far as it could be represented, and what is wrong with the rest.

    ``doubtful`` are relations and types whose declarations cannot be understood, and ``elsewhere`` says that there may be
    declarations in a part that is left out.
    """

    program: Program
    problems: list[Problem] = field(default_factory=list)
    doubtful: set[str] = field(default_factory=set)
    elsewhere: bool = False


def lower(statements: Iterable[Node], known: Iterable[TypeDeclaration] = (), broken: Iterable[str] = ()) -> Lowered:
    """All statements as one program.

    ``known`` are types declared before this text, ``broken`` names whose declarations could not be read.
    """
    bodies = [tree(statement.children[0]) if statement.data == "statement" else statement for statement in statements]
    complaints, doubtful = Complaints(), set(broken)
    elsewhere = any(_feature(body) in _DECLARE_ELSEWHERE for body in bodies if body.data == "unsupported")
    declarations = Declarations(complaints, known, doubtful, elsewhere)
    clauses = Clauses(complaints, doubtful)
    rules: list[Rule] = []
    pragmas: list[tuple[str, ...]] = []
    declarations.declare_types(body for body in bodies if body.data.startswith("type_"))
    for body in bodies:
        try:
            match body.data:
                case "decl":
                    declarations.declare_relations(body)
                case "io":
                    declarations.direct(body)
                case "pragma":
                    pragmas.append(tuple(unquote(token(part), complaints) for part in body.children if part is not None))
                case "unsupported":
                    _refuse_directive(body, complaints)
                case "fact" | "rule":
                    rules += clauses.rules(body)
        except Refused:
            continue
    inner = [relation for relation in declarations.relations if INNER in relation.qualifiers]
    program = Program(
        tuple(declarations.types),
        tuple(relation for relation in declarations.relations if relation not in inner),
        tuple(declarations.directives),
        tuple(rules),
        tuple(pragmas),
        tuple(replace(relation, qualifiers=tuple(q for q in relation.qualifiers if q != INNER)) for relation in inner),
    )
    return Lowered(program, complaints.problems, doubtful, elsewhere)


def lower_body(node: Node) -> tuple[tuple[Literal, ...], list[Problem]]:
    """A body on its own, for queries."""
    complaints = Complaints()
    try:
        return Clauses(complaints, set()).body(node), complaints.problems
    except Refused:
        return (), complaints.problems


def _feature(node: Node) -> str | None:
    directive = token(node.children[0])
    return "preprocessor" if directive.startswith("#") else _REFUSED_DIRECTIVES.get(directive)


def _refuse_directive(node: Node, complaints: Complaints) -> None:
    directive, feature = token(node.children[0]), _feature(node)
    if feature is not None:
        complaints.unsupported(feature, span_of(directive))
    else:
        near, known = closest(directive, _DIRECTIVES), ", ".join(_DIRECTIVES)
        complaints.wrong("UNKNOWN_DIRECTIVE", span_of(directive), directive=str(directive), near=near, known=known)
