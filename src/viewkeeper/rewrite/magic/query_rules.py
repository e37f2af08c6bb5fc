"""Rules that derive those rows of views that are asked for: magic sets, for every pattern of bound columns that occurs.

Four stages make them, each a function of its own: the core program is *normalised* (``rewrite.passes``; here also: the body of
an aggregate or of a window gets a relation of its own), *adorned* (``adorn``), and split by *supplementary predicates* with *magic rules*
for what each literal asks for (``supplementary``).

A negation needs its relation complete for what is asked, and so does an aggregate. The rules therefore have levels: a rule is evaluated
when no rule of a lower level has anything to do. What a rule asks for is derived on the level of what is asked, which is lower; the strata of the
program bound how deep that goes, and no rule ever sees the absence of a row that comes later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Call,
    Column,
    Comparison,
    Constant,
    Literal,
    Negation,
    Program,
    Relation,
    Rule,
    Term,
    Variable,
    Wildcard,
    all_variables,
)
from viewkeeper.program.grouping import Grouping, grouping_of
from viewkeeper.program.hierarchy import Hierarchy
from viewkeeper.program.plan import PRESENT, Demands, Level, shown_columns
from viewkeeper.program.strata import stratify
from viewkeeper.program.types import NUMBER
from viewkeeper.program.typing import Typer
from viewkeeper.program.windows import Windowing, windowing_of
from viewkeeper.rewrite.fresh import Names
from viewkeeper.rewrite.magic.adorn import adorn, bindable_columns
from viewkeeper.rewrite.magic.names import ONE, arguments_of, beside, magic
from viewkeeper.rewrite.magic.supplementary import magic_rules, supplement
from viewkeeper.rewrite.terms import name_wildcards

# The states of a view that is not stored, and what is asked for to have them: rows before a change, from which those after it are made; or
# rows after it, derived by themselves.
_DEMANDED = {"old": "old", "new": "old", "after": "old", "now": "now"}


@dataclass
class QueryRules:
    """The rules for the views that are derived on demand, growing with what is asked for.

    ``small``: relations that have so few rows that it pays to ask for what they are joined with. ``strata``: which views are derived before which.
    """

    core: Program
    views: frozenset[str]
    small: frozenset[str] = frozenset()
    relations: dict[str, Relation] = field(default_factory=dict)
    levels: dict[str, Level] = field(default_factory=dict)
    rules: dict[Rule, None] = field(default_factory=dict)
    whole: dict[Rule, tuple[str, ...]] = field(default_factory=dict)
    strata: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.strata:
            self.strata = {name: number for number, stratum in enumerate(stratify(self.core)) for name in stratum.relations}
        self.of: dict[str, list[Rule]] = {name: [] for name in self.views}
        for rule in self.core.rules:
            if rule.head.relation in self.views:
                self.of[rule.head.relation].append(rule)
        self._asked: set[tuple[str, str, str]] = set()
        self._todo: list[tuple[str, str, str]] = []
        self._patterns: dict[tuple[str, str], str] = {}
        self._numbers: dict[str, int] = {}
        self.hierarchy = Hierarchy.of(self.core.types)
        for name, relation in self.core.by_name.items():
            self.relations[name] = relation
            self.relations[f"{name}$old"] = beside(relation, "old")

    def demands(self) -> Demands:
        return Demands(self.relations, tuple(self.rules), self.levels, self.whole)

    # ---- asking

    @property
    def asks_for_everything(self) -> bool:
        return not any("b" in adornment for _, adornment, _ in self._asked)

    def ask(self, view: str, adornment: str) -> str:
        """The relation whose rows ask for rows of a view."""
        self._magic(view, adornment, "old")
        return magic(view, adornment)

    def site(
        self, head: Atom, level: Level, trigger: Sequence[Literal], body: Sequence[Literal], stem: str, whole: bool = False
    ) -> None:
        """Adds a rule that starts from a trigger, with what it asks for on the way; ``whole``: for all rows of what it reads."""
        if any(_is_never(literal) for literal in (*trigger, *body)):
            return
        trigger, body = _with_terms_named(head, trigger, body)
        adorned = adorn(head, trigger, body, self.demanded, self.bindable, _free if whole else self.pattern)

        def declare(names: Sequence[str], prefix: tuple[Literal, ...]) -> str:
            types = self.typer.body_types(prefix)
            columns = tuple(Column(name, types[name]) for name in names) or (Column(PRESENT, NUMBER),)
            number = self._numbers[stem] = self._numbers.get(stem, 0) + 1
            return self.declare(Relation(f"{stem}{number}", columns), level)

        supplemented = supplement(adorned, declare, whole)
        for asked, _ in supplemented.asked:
            self._magic(asked.view, asked.adornment, asked.state)
        made = [*supplemented.supplementary, *magic_rules(supplemented, self.relations), supplemented.rule]
        self.rules |= dict.fromkeys(made)

    def demanded(self, relation: str) -> tuple[str, str] | None:
        view, _, what = relation.partition("$")
        return (view, _DEMANDED[what]) if view in self.views and what in _DEMANDED else None

    def pattern(self, view: str, adornment: str) -> str:
        """How rows of a view are asked for: by fewer columns, if to derive them the same view is asked for by these alone.

        Whoever asks whether p(x, y) is there, with p(x, z) :- p(x, y), e(y, z), has all p(x, _) derived anyway.
        """
        key = (view, adornment)
        if key not in self._patterns:
            self._patterns[key] = adornment
            fewer = next(self._fewer(view, adornment), None)
            if fewer is not None:
                self._patterns[key] = self.pattern(view, fewer)
        return self._patterns[key]

    def _fewer(self, view: str, adornment: str) -> Iterator[str]:
        for rule in self.of[view] if self.groups(view) is None else ():
            heads = arguments_of(rule.head)
            guards, equations = self.guard(magic(view, adornment), rule, adornment)
            body = [*equations, *map(old, rule.body)]
            adorned = adorn(rule.head, guards, body, self.demanded, self.bindable)
            for place, asked in adorned.asked.items():
                literal = adorned.body[place]
                if asked.view == view and isinstance(literal, Atom) and asked.adornment != adornment:
                    kept = [i for i, mark in enumerate(asked.adornment) if mark == "b"]
                    if all(adornment[i] == "b" and literal.arguments[i] == heads[i] for i in kept):
                        yield asked.adornment

    def bindable(self, view: str) -> tuple[int, ...]:
        """The columns by which rows of a view can be asked for; of an aggregate those of its groups."""
        places = bindable_columns(self.core.relation(view))
        groups = self.groups(view)
        return places if groups is None else tuple(i for i in places if i in groups)

    def groups(self, view: str) -> tuple[int, ...] | None:
        for rule in self.of[view][:1]:
            heads = [a.name if isinstance(a, Variable) else "" for a in rule.head.arguments]
            grouping, windowing = grouping_of(rule), windowing_of(rule)
            if windowing is not None:
                return tuple(map(heads.index, windowing.partition))
            if grouping is not None:
                return tuple(map(heads.index, grouping.groups))
        return None

    def _magic(self, view: str, adornment: str, state: str) -> None:
        if (view, adornment, state) in self._asked:
            return
        self._asked.add((view, adornment, state))
        self._todo.append((view, adornment, state))
        shown = zip(shown_columns(self.core.relation(view)), adornment, strict=True)
        columns = tuple(column for column, mark in shown if mark == "b") or (Column(PRESENT, NUMBER),)
        self.declare(Relation(magic(view, adornment, state), columns), self.level(view, state, self.groups(view) is not None))

    def level(self, view: str, state: str, grouped: bool = False) -> Level:
        """Of rows that are derived because they are asked for; ``grouped``: of what an aggregate or a window of them reads."""
        return (0, self.strata[view], 1 if grouped else 2) if state == "old" else (1, self.strata[view], 0)

    def work(self) -> None:
        """Makes the rules of all that is asked for so far."""
        while self._todo:
            view, adornment, state = self._todo.pop(0)
            for rule in self.of[view]:
                self._answer(view, adornment, state, rule)

    # ---- answering

    def _answer(self, view: str, adornment: str, state: str, rule: Rule) -> None:
        """The rule with a guard, so that it derives only what is asked for."""
        relation = self.core.relation(view)
        guards, equations = self.guard(magic(view, adornment, state), rule, adornment)
        level = self.level(view, state)
        self.declare(beside(relation, state), level)
        everything = "b" not in adornment and not self._restricts(rule)
        windowing, grouping = windowing_of(rule), grouping_of(rule)
        if windowing is None and grouping is None:
            head = Atom(f"{view}${state}", arguments_of(rule.head))
            self.site(head, level, guards, [*equations, *self.in_state(rule, state)], f"{view}$sup", everything)
            return
        rows, over = self.rows(relation, "body", rule, self.level(view, state, grouped=True))
        source = [old(literal) for literal in source_of(rule, windowing, grouping)]
        self.site(rows, self.level(view, state, grouped=True), guards, source, f"{view}$sup", everything)
        whole = Rule(Atom(f"{view}$old", arguments_of(rule.head)), over)
        self.rules[whole] = None
        self.whole[whole] = (*self.whole.get(whole, ()), magic(view, adornment))

    def _restricts(self, rule: Rule) -> bool:
        """Does a rule itself bind something, so that it needs few of the rows that it reads?"""
        for literal in rule.body:
            if isinstance(literal, Atom) and (
                literal.relation in self.small or any(isinstance(a, Constant) for a in literal.arguments)
            ):
                return True
            if isinstance(literal, Comparison) and literal.operator == "=":
                sides = (literal.left, literal.right)
                if any(isinstance(x, Variable) for x in sides) and any(isinstance(x, Constant) for x in sides):
                    return True
        return False

    def in_state(self, rule: Rule, state: str) -> list[Literal]:
        """The body of a rule that derives rows of a state."""
        assert state == "old"
        return [old(literal) for literal in rule.body]

    def rows(self, view: Relation, what: str, rule: Rule, level: Level) -> tuple[Atom, tuple[Literal, ...]]:
        """A relation for what an aggregate or a window reads, and the body of the rule that reads it instead."""
        windowing, grouping = windowing_of(rule), grouping_of(rule)
        body = source_of(rule, windowing, grouping)
        names = list(all_variables(body))
        if grouping is not None:
            names = [*grouping.groups, *(name for name in names if name not in grouping.groups)]
        types = self.typer.body_types(body)
        columns = tuple(Column(name, types[name]) for name in names) or (Column(PRESENT, NUMBER),)
        self.declare(Relation(f"{view.name}${what}", columns), level)
        rows = Atom(f"{view.name}${what}", tuple(map(Variable, names)) or (ONE,))
        if grouping is not None:
            return rows, grouping.over((rows,))
        assert windowing is not None
        return rows, tuple(_over(literal, rows) for literal in rule.body)

    def guard(self, relation: str, rule: Rule, adornment: str, whole: bool = False) -> tuple[list[Literal], list[Literal]]:
        """An atom of what is asked for, and equations for terms of the head that it cannot bind. ``whole``: it has all columns."""
        names = Names(all_variables((rule.head, *rule.body)))
        equations: list[Literal] = []
        arguments: list[Term] = []
        for argument, mark in zip(arguments_of(rule.head), adornment, strict=True):
            if mark == "f":
                arguments += [Wildcard()] if whole else []
                continue
            if isinstance(argument, Call):
                variable = Variable(names.fresh("asked"))
                equations.append(Comparison("=", variable, argument))
                argument = variable
            arguments.append(argument)
        return [Atom(relation, tuple(arguments) or (ONE,))], equations

    # ---- relations

    def declare(self, relation: Relation, level: Level) -> str:
        self.relations[relation.name] = relation
        self.levels[relation.name] = level
        return relation.name

    @property
    def typer(self) -> Typer:
        return Typer(self.relations, self.hierarchy)


def _free(view: str, adornment: str) -> str:
    return "f" * len(adornment)


def source_of(rule: Rule, windowing: Windowing | None, grouping: Grouping | None) -> tuple[Literal, ...]:
    """What an aggregate or a window reads, with names for all its columns: each row counts."""
    if windowing is not None:
        return (windowing.source,)
    assert grouping is not None
    return name_wildcards(grouping.body, Names(all_variables((rule.head, *rule.body))))


def _is_never(literal: Literal) -> bool:
    """NULL equals nothing, so no row is one with it in a place."""
    return isinstance(literal, Atom) and any(isinstance(a, Constant) and a.value is None for a in literal.arguments)


def _over(literal: Literal, source: Atom) -> Literal:
    assert isinstance(literal, Comparison) and isinstance(literal.right, Aggregate)
    return replace(literal, right=replace(literal.right, body=(source,)))


def state_of(literal: Literal, state: str) -> Literal:
    """The literal on another state of its relation."""
    match literal:
        case Atom():
            return Atom(f"{literal.relation}${state}", arguments_of(literal))
        case Negation():
            return replace(literal, atom=Atom(f"{literal.atom.relation}${state}", arguments_of(literal.atom)))
    return literal


def old(literal: Literal) -> Literal:
    return state_of(literal, "old")


def _with_terms_named(
    head: Atom, trigger: Sequence[Literal], body: Sequence[Literal]
) -> tuple[Sequence[Literal], Sequence[Literal]]:
    """A trigger binds the variables that are its arguments; where one is computed, it is compared when its own variables are bound."""
    names = Names(all_variables((head, *trigger, *body)))
    equations: list[Literal] = []

    def named(term: Term) -> Term:
        if not isinstance(term, Call):
            return term
        variable = Variable(names.fresh("told"))
        equations.append(Comparison("=", variable, term))
        return variable

    atoms = [replace(x, arguments=tuple(map(named, x.arguments))) if isinstance(x, Atom) else x for x in trigger]
    return atoms, [*equations, *body]
