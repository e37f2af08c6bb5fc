"""Which named types are subtypes of which."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from viewkeeper.program.ast import TypeDeclaration
from viewkeeper.program.functions import comparable
from viewkeeper.program.types import Type


@dataclass(frozen=True)
class Hierarchy:
    """For each named type all the named types it is a subtype of."""

    above: dict[str, frozenset[str]]

    @classmethod
    def of(cls, declarations: Iterable[TypeDeclaration]) -> Hierarchy:
        above: dict[str, set[str]] = {d.name: set() for d in declarations if d.form != "alias"}
        names = {d.name: d for d in declarations}

        def resolve(name: str) -> str:
            while name in names and names[name].form == "alias":
                name = names[name].parts[0]
            return name

        for declaration in declarations:
            parts = [resolve(part) for part in declaration.parts]
            if declaration.form == "subtype" and parts[0] in above:
                above[declaration.name].add(parts[0])
            elif declaration.form == "union":
                for part in parts:
                    above[part].add(declaration.name)
        return cls({name: frozenset(_closure(name, above)) for name in above})

    def subtype(self, narrow: Type, wide: Type) -> bool:
        """Is every value declared as ``narrow`` one of ``wide``?"""
        if not comparable(narrow, wide):
            return False
        if wide.name is None or narrow.name == wide.name:
            return True
        return narrow.name is not None and wide.name in self.above.get(narrow.name, ())

    def meet(self, left: Type, right: Type) -> Type | None:
        """The type of a value that is in both, or None where they cannot meet."""
        if self.subtype(left, right):
            return left
        if self.subtype(right, left):
            return right
        if comparable(left, right) and left.name and right.name and self.above[left.name] & self.above[right.name]:
            return left
        return None


def _closure(name: str, above: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    todo = [name]
    while todo:
        for parent in above.get(todo.pop(), ()):
            if parent not in found:
                found.add(parent)
                todo.append(parent)
    return found
