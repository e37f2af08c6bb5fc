"""What the reading of statements refuses, and what it says then."""

from __future__ import annotations

from dataclasses import dataclass, field

from viewkeeper.errors import Problem, Span, problem

# What viewkeeper leaves out: how a sentence about it begins, and what to do instead.
UNSUPPORTED: dict[str, tuple[str, str]] = {
    ".include": (".include is", "Put the text of the other file into this one."),
    ".limitsize": (".limitsize is", "Stop the recursion with a comparison in its rules instead."),
    ".once": (".once is", "Leave it out."),
    "as": ("type casts with as are", "Convert with to_number, to_string and their like, or change the declaration."),
    "autoinc": ("counters (autoinc) are", "Number the rows before they are loaded."),
    "btree_delete": ("subsumption (btree_delete) is", "Leave the word out, and keep the best rows with min or max."),
    "choice": ("choice domains are", "Choose a row with min or max in a relation of its own."),
    "components": ("components are", "Write their declarations and rules out."),
    "counter": ("counters ($) are", "Number the rows before they are loaded."),
    "data type": ("algebraic data types are", "Give each kind of value a relation of its own."),
    "dotted": ("components (names with a dot) are", "Write their declarations and rules out, with plain names."),
    "eqrel": (
        "equivalence relations (eqrel) are",
        "Write the rules out: r(x, x) :- r(x, _). r(y, x) :- r(x, y). r(x, z) :- r(x, y), r(y, z).",
    ),
    "functors": ("user-defined functors are", "Use the functions of the language, or compute the values before loading."),
    "lattices": ("lattices are", "Combine the values with min or max in a relation of its own."),
    "nil": ("records (nil) are", "Give each field a column of its own."),
    "overridable": ("components (overridable) are", "Leave the word out."),
    "preprocessor": ("the C preprocessor is", "Run it over the file first (cpp -P), or leave its lines out."),
    "records": ("records are", "Give each field a column of its own."),
    "subsumption": ("subsumption is", "Keep the best rows with min or max in a relation of its own."),
}


class Refused(Exception):
    """A part of a statement cannot be represented; why is recorded already."""


@dataclass
class Complaints:
    """Collects problems. Both ways of adding one return an exception for the caller to raise, or not."""

    problems: list[Problem] = field(default_factory=list)

    def wrong(self, code: str, span: Span, **parameters: object) -> Refused:
        self.problems.append(problem(code, span, **parameters))
        return Refused()

    def unsupported(self, feature: str, span: Span) -> Refused:
        what, hint = UNSUPPORTED[feature]
        return self.wrong("UNSUPPORTED", span, what=what, hint=hint)
