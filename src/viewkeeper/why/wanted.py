"""What it takes for a rule's head to be a certain row."""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.program.ast import Comparison, Constant, Literal, Relation, Test, Variable, all_variables
from viewkeeper.program.types import Type
from viewkeeper.program.values import BadValue, Stored, store
from viewkeeper.rewrite.fresh import Names
from viewkeeper.why.forms import Form, Row, constant


@dataclass(frozen=True)
class Wanted:
    """Values of variables, and conditions beside the rule's body.

    p(x, y + 1) is p(1, 3) if x is 1, value1 is 3 and value1 = y + 1. NULL equals nothing, so of p(null, 3) the condition is is_null(x).
    """

    values: dict[str, Stored]
    types: dict[str, Type]
    conditions: tuple[Literal, ...]

    @property
    def constants(self) -> dict[str, Constant]:
        return {name: constant(value, self.types[name]) for name, value in self.values.items()}


def wanted_of(form: Form, row: Row, relation: Relation) -> Wanted | None:
    """None if the head's constants say already that it is another row. Terms of a grouping rule's head are left to be compared."""
    names = Names(all_variables((form.head, *form.body)))
    values: dict[str, Stored] = {}
    types: dict[str, Type] = {}
    conditions: list[Literal] = []
    for argument, value, column in zip(form.head.arguments, row.values, relation.columns, strict=True):
        match argument:
            case Constant():
                if _stored(argument, column.type) != value:
                    return None
            case Variable() if value is None:
                conditions.append(Test("is_null", (argument,)))
            case Variable():
                if values.setdefault(argument.name, value) != value:
                    return None
                types[argument.name] = form.types[argument.name]
            case _ if form.grouped is not None:
                continue
            case _ if value is None:
                conditions.append(Test("is_null", (argument,)))
            case _:
                name = names.fresh("value")
                values[name], types[name] = value, column.type.base
                conditions.append(Comparison("=", Variable(name), argument))
    return Wanted(values, types, tuple(conditions))


def _stored(found: Constant, type_: Type) -> object:
    try:
        return store(found.value, type_.optional())
    except BadValue:
        return found  # equals no stored value
