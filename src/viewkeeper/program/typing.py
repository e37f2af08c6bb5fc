"""Types of variables and constants in a rule.

1. Variables take the types of the columns they stand in, and of what they are equated with.
2. Variables still unknown take the type of a negated or head column they stand in.
3. Open constants (``1``, ``1.5``) take the type of their place.

The result is the same rule with every constant typed and decimals brought to the scale of their place.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation

from viewkeeper.errors import Problem, Span, closest, counted, problem, shortened
from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Either,
    Literal,
    Negation,
    Relation,
    Rule,
    Term,
    Test,
    Variable,
    Wildcard,
    all_variables,
    constants_of,
    subterms,
    variables_of,
)
from viewkeeper.program.functions import FUNCTIONS, Function, aggregate_type, comparable
from viewkeeper.program.grouping import grouping_of
from viewkeeper.program.hierarchy import Hierarchy
from viewkeeper.program.printing import print_literal, print_term
from viewkeeper.program.types import BOOL, FLOAT, MAX_PRECISION, NUMBER, SYMBOL, Kind, Type, decimal_type
from viewkeeper.program.values import INT_MAX, INT_MIN, BadValue, type_of_value
from viewkeeper.program.windows import is_nullable, window_type, windowing_of


@dataclass(frozen=True)
class Inferred:
    """A type, and whether it is only that of a computed value, which fits every subtype of its base."""

    type: Type
    free: bool = False


Environment = dict[str, Inferred]

# What other languages call the functions.
_FUNCTIONS_ELSEWHERE = {
    "concat": "cat", "length": "strlen", "len": "strlen", "substring": "substr", "str": "to_string", "string": "to_string",
    "int": "to_number", "integer": "to_number", "double": "to_float", "avg": "mean", "average": "mean", "ifnull": "coalesce",
    "nvl": "coalesce", "itos": "to_string", "itou": "to_unsigned", "itof": "to_float", "ftoi": "to_number", "stoi": "to_number",
}  # fmt: skip
# What the arguments of tests are; of others they are anything.
_TESTED = {"match": SYMBOL, "contains": SYMBOL, "holds": BOOL}
_INTERNAL = ("neg", "rescale", "fit_digits")

# Functions of open constants only are open themselves: 1 + 2 is a float where one is expected.
_AS_ITS_ARGUMENTS = frozenset({"+", "-", "*", "/", "%", "^", "neg", "min", "max", "coalesce", "range"})


@dataclass
class _Memory:
    """What has been inferred of the terms of one rule.

    It depends only on the term and on the types of its variables. Without a memory the bodies of aggregates inside aggregates
    would be gone through again and again.
    """

    inferred: dict[tuple[object, ...], Inferred | None] = field(default_factory=dict)
    _terms: dict[int, tuple[Term, tuple[str, ...]]] = field(default_factory=dict)

    def variables(self, term: Term) -> tuple[str, ...]:
        """The variables of a term, which is kept, so that its id stays its own."""
        if id(term) not in self._terms:
            self._terms[id(term)] = term, tuple(all_variables((Comparison("=", term, Wildcard()),)))
        return self._terms[id(term)][1]


@dataclass
class Typer:
    """Types the rules of one program; what is wrong is collected in ``problems``."""

    relations: dict[str, Relation]
    hierarchy: Hierarchy
    problems: list[Problem] = field(default_factory=list)
    _memory: _Memory = field(default_factory=_Memory, repr=False)
    _conflicting: set[str] = field(default_factory=set, repr=False)

    def rule(self, rule: Rule) -> tuple[Rule, dict[str, Type]]:
        """The typed rule and the types of its variables, those private to aggregates aside."""
        self._memory = _Memory()
        self._conflicting = set()
        environment: Environment = {}
        grouped, windowing = grouping_of(rule), windowing_of(rule)
        if grouped is not None:
            self._silent()._infer_body(grouped.body, environment, None)
        if windowing is not None:
            self._silent()._infer_body((windowing.source,), environment, None)
        self._infer_body(rule.body, environment, rule.head)
        body = tuple(self._literal(literal, environment) for literal in rule.body)
        head = self._atom(rule.head, environment, in_head=True)
        typed = replace(rule, head=head, body=body)
        types = {name: inferred.type for name, inferred in environment.items()}
        return typed, _with_nullability(typed, types, self.relations)

    def body_types(self, body: tuple[Literal, ...]) -> dict[str, Type]:
        """The types of a typed body's variables."""
        self._memory = _Memory()
        environment: Environment = {}
        self._infer_body(body, environment, None)
        types = {name: inferred.type for name, inferred in environment.items()}
        return _with_nullability(Rule(Atom("", ()), body), types, self.relations)

    def _silent(self) -> Typer:
        """One whose problems are not reported."""
        return Typer(self.relations, self.hierarchy, [], self._memory)

    # ---- 1 and 2: variables

    def _infer_body(self, body: Sequence[Literal], environment: Environment, head: Atom | None) -> None:
        reported: set[str] = set()
        self._settle(body, environment, reported, defaults=False)
        for atom in _negated(body) + ([head] if head else []):
            self._take_columns(atom, environment, reported, only_unknown=True)
        self._settle(body, environment, reported, defaults=False)
        self._settle(body, environment, reported, defaults=True)

    def _settle(self, body: Sequence[Literal], environment: Environment, reported: set[str], defaults: bool) -> None:
        before = None
        while before != environment:
            before = dict(environment)
            for literal in body:
                self._infer_literal(literal, environment, reported, defaults)

    def _infer_literal(self, literal: Literal, environment: Environment, reported: set[str], defaults: bool) -> None:
        match literal:
            case Atom():
                self._take_columns(literal, environment, reported)
            case Comparison(operator="="):
                for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
                    if isinstance(side, Variable) and side.name not in environment:
                        found = self._infer(other, environment) or (_default(other) if defaults else None)
                        if found is not None:
                            environment[side.name] = Inferred(found.type, found.free)
            case Either():
                for alternative in literal.alternatives:
                    for inner in alternative:
                        self._infer_literal(inner, environment, reported, defaults)

    def _take_columns(self, atom: Atom, environment: Environment, reported: set[str], only_unknown: bool = False) -> None:
        relation = self.relations.get(atom.relation)
        if relation is None or relation.arity != len(atom.arguments):
            return
        for argument, column in zip(atom.arguments, relation.columns, strict=True):
            if not isinstance(argument, Variable):
                continue
            known, column_type = environment.get(argument.name), column.type.optional(False)
            if known is None or (known.free and comparable(known.type, column_type)):
                if known is None or not only_unknown:
                    environment[argument.name] = Inferred(column_type, free=only_unknown)
            elif not only_unknown and argument.name not in reported:
                meet = self.hierarchy.meet(known.type, column_type)
                if meet is None:
                    reported.add(argument.name)
                    self._conflicting.add(argument.name)
                    self._report(
                        "TYPE_CONFLICT", argument.span, variable=argument.name, first=known.type, second=column_type,
                        where=f", in the column {atom.relation}.{column.name},",
                    )  # fmt: skip
                else:
                    environment[argument.name] = Inferred(meet)

    def _infer(self, term: Term, environment: Environment) -> Inferred | None:
        """The type of a term as far as it is known, without reporting anything."""
        if not isinstance(term, (Call, Aggregate)):
            return self._infer_once(term, environment)
        key = (id(term), *map(environment.get, self._memory.variables(term)))
        if key not in self._memory.inferred:
            self._memory.inferred[key] = self._infer_once(term, environment)
        return self._memory.inferred[key]

    def _infer_once(self, term: Term, environment: Environment) -> Inferred | None:
        match term:
            case Variable():
                return environment.get(term.name)
            case Constant():
                known = term.type or (None if _is_open(term) else type_of_value(term.value))
                return Inferred(known, free=True) if known else None
            case Call():
                return self._infer_call(term, environment)
            case Aggregate():
                result = self._aggregate_type(term, environment)
                return Inferred(result, free=result.name is None) if result else None
            case _:
                return None

    def _infer_call(self, call: Call, environment: Environment) -> Inferred | None:
        known = [self._infer(argument, environment) for argument in call.arguments]
        if any(
            inferred is None and any(isinstance(part, (Variable, Wildcard)) for part in subterms(argument))
            for argument, inferred in zip(call.arguments, known, strict=True)
        ):
            return None
        if all(inferred is None for inferred in known) and call.function in _AS_ITS_ARGUMENTS:
            return None
        function = FUNCTIONS.get(call.function)
        if function is None or not function.arity[0] <= len(call.arguments) <= function.arity[1]:
            return None
        # Only what is open is typed here, so that the work does not double with every level of a term.
        silent = self._silent()
        types = [
            inferred.type
            if inferred is not None and not isinstance(argument, Constant)
            else silent._term(argument, environment, wanted)[1]
            for argument, inferred, wanted in zip(call.arguments, known, _wanted(call, function, known, None), strict=True)
        ]
        result = _call_type(call, [t for t in types if t is not None]) if all(types) else None
        return Inferred(result, free=True) if result else None

    def _aggregate_type(self, aggregate: Aggregate, environment: Environment) -> Type | None:
        inner = self._inner(aggregate, environment)
        if aggregate.target is None:
            return _aggregated(aggregate, None)
        target = self._infer(aggregate.target, inner) or _default(aggregate.target)
        return _aggregated(aggregate, target.type) if target else None

    def _inner(self, aggregate: Aggregate, environment: Environment) -> Environment:
        """The environment inside an aggregate; variables shared with the outside keep their types."""
        inner = dict(environment)
        self._silent()._infer_body(aggregate.body, inner, None)
        return inner

    # ---- 3: constants, and the report of what does not fit

    def _literal(self, literal: Literal, environment: Environment) -> Literal:
        match literal:
            case Atom():
                return self._atom(literal, environment)
            case Negation():
                return replace(literal, atom=self._atom(literal.atom, environment))
            case Comparison():
                return self._comparison(literal, environment)
            case Test():
                expected = _TESTED.get(literal.predicate)
                arguments = tuple(self._term(a, environment, expected) for a in literal.arguments)
                for argument, (_, found) in zip(literal.arguments, arguments, strict=True):
                    if expected is not None and found is not None and found.kind is not expected.kind:
                        accepts = "symbols" if expected is SYMBOL else f"a {expected}"
                        self._report_function(literal.predicate, accepts, [found], argument.span, argument)
                self._check_pattern(literal)
                return replace(literal, arguments=tuple(term for term, _ in arguments))
            case Either():
                alternatives = tuple(
                    tuple(self._literal(inner, environment) for inner in alternative) for alternative in literal.alternatives
                )
                return replace(literal, alternatives=alternatives)
            case _:
                return literal

    def _atom(self, atom: Atom, environment: Environment, in_head: bool = False) -> Atom:
        relation = self.relations.get(atom.relation)
        if relation is None or relation.arity != len(atom.arguments):
            return atom
        arguments = []
        for argument, column in zip(atom.arguments, relation.columns, strict=True):
            if in_head and isinstance(argument, Constant) and column.type.kind is Kind.DECIMAL:
                self._check_range(_adopt(argument, column.type), column.type)
            term, found = self._term(argument, environment, column.type)
            known = self._infer(argument, environment)
            if found is not None:
                free = known is None or known.free or (not isinstance(argument, Variable) and found.name is None)
                term = self._fit(term, found, column.type, in_head)
                wanted = found if not in_head or found.kind is not Kind.DECIMAL else column.type
                suitable = (
                    comparable(wanted, column.type)
                    if free or not in_head
                    else self.hierarchy.subtype(replace(wanted, name=found.name), column.type)
                )
                if not in_head and not free:
                    suitable = self.hierarchy.meet(found, column.type) is not None
                if not suitable or (wanted is not found and found.scale > column.type.scale):
                    self._report_column(argument, found, atom.relation, column.name, column.type)
            arguments.append(term)
        return replace(atom, arguments=tuple(arguments))

    def _check_pattern(self, literal: Test) -> None:
        pattern = literal.arguments[0]
        if literal.predicate == "match" and isinstance(pattern, Constant) and isinstance(pattern.value, str):
            why = _pattern_error(pattern.value)
            if why is not None:
                self._report("BAD_PATTERN", pattern.span, pattern=shortened(pattern.value), why=why)

    def _fit(self, term: Term, found: Type, wanted: Type, in_head: bool) -> Term:
        """Decimals going into a head column: bring to its scale, check its digits."""
        if not in_head or found.kind is not Kind.DECIMAL or wanted.kind is not Kind.DECIMAL or found.scale > wanted.scale:
            return term
        if isinstance(term, Constant):
            return term
        if found.scale < wanted.scale:
            term = Call("rescale", (term, Constant(wanted.scale, NUMBER)), term.span)
            found = decimal_type(MAX_PRECISION, wanted.scale)
        if found.precision > wanted.precision:
            term = Call("fit_digits", (term, Constant(wanted.precision, NUMBER)), term.span)
        return term

    def _comparison(self, literal: Comparison, environment: Environment) -> Comparison:
        known = [inferred.type for t in (literal.left, literal.right) if (inferred := self._infer(t, environment))]
        model = known[0] if known else None
        left, left_type = self._term(literal.left, environment, model)
        right, right_type = self._term(literal.right, environment, left_type or model)
        if left_type is not None and right_type is not None:
            if left_type.kind is right_type.kind is Kind.DECIMAL:
                scale = max(left_type.scale, right_type.scale)
                left, right = self._to_scale(left, left_type, scale), self._to_scale(right, right_type, scale)
            elif not comparable(left_type, right_type) and not self._in_conflict(literal.left, literal.right):
                self._report(
                    "TYPE_COMPARISON", literal.span, comparison=shortened(print_literal(literal)),
                    left_type=left_type, right_type=right_type,
                )  # fmt: skip
        return replace(literal, left=left, right=right)

    def _term(self, term: Term, environment: Environment, expected: Type | None) -> tuple[Term, Type | None]:
        match term:
            case Constant():
                adopted = _adopt(term, expected)
                if adopted.type is not None:
                    self._check_range(adopted, adopted.type)
                return adopted, adopted.type
            case Variable():
                inferred = environment.get(term.name)
                return term, inferred.type if inferred else None
            case Call():
                return self._call(term, environment, expected)
            case Aggregate():
                return self._aggregate(term, environment, expected)
            case _:
                return term, None

    def _check_range(self, constant: Constant, type_: Type) -> None:
        value = constant.value
        if type_.kind not in (Kind.NUMBER, Kind.UNSIGNED, Kind.DECIMAL) or not isinstance(value, (int, Decimal)):
            return
        low, high = _range(type_)
        if not low <= value <= high:
            self._report("CONSTANT_RANGE", constant.span, value=shortened(str(value)), type=type_.base, low=low, high=high)

    def _to_scale(self, term: Term, found: Type, scale: int) -> Term:
        if found.kind is not Kind.DECIMAL or found.scale == scale:
            return term
        if isinstance(term, Constant) and term.value is None:
            return replace(term, type=decimal_type(MAX_PRECISION, scale).optional())
        if isinstance(term, Constant):
            scaled = _as_decimal(term, decimal_type(MAX_PRECISION, scale))
            self._check_range(scaled, decimal_type(MAX_PRECISION, scale))
            return scaled
        return Call("rescale", (term, Constant(scale, NUMBER)), term.span)

    def _call(self, call: Call, environment: Environment, expected: Type | None) -> tuple[Term, Type | None]:
        function = FUNCTIONS.get(call.function)
        if function is None:
            self._report_unknown(call)
            return call, None
        low, high = function.arity
        if not low <= len(call.arguments) <= high:
            takes = counted(low, "argument") if low == high else f"{low} or {'more' if high > 3 else high} arguments"
            self._report("FUNCTION_ARITY", call.span, function=call.function, wanted=takes, found=len(call.arguments))
            return call, None
        wanted = _wanted(call, function, [self._infer(a, environment) for a in call.arguments], expected)
        arguments: list[Term] = []
        types: list[Type | None] = []
        for argument, place in zip(call.arguments, wanted, strict=True):
            term, found = self._term(argument, environment, place)
            arguments.append(term)
            types.append(found)
        if any(t is None for t in types):
            return replace(call, arguments=tuple(arguments)), None
        found_types = [t for t in types if t is not None]
        result = _call_type(replace(call, arguments=tuple(arguments)), found_types)
        if result is None:
            self._report_function(call.function, function.accepts, found_types, call.span, *call.arguments)
        elif result.kind is Kind.DECIMAL and call.function in ("+", "-"):
            arguments = [self._to_scale(a, t, result.scale) for a, t in zip(arguments, found_types, strict=True)]
        return replace(call, arguments=tuple(arguments)), result

    def _aggregate(self, term: Aggregate, environment: Environment, expected: Type | None) -> tuple[Term, Type | None]:
        inner: Environment = dict(environment)
        self._infer_body(term.body, inner, None)
        body = tuple(self._literal(literal, inner) for literal in term.body)
        if term.target is None:
            return replace(term, body=body), _aggregated(term, None)
        target, found = self._term(term.target, inner, expected)
        result = _aggregated(term, found) if found else None
        if found is not None and result is None:
            accepts = "any type but bool" if term.operation in ("min", "max") else "number, unsigned, float or decimal"
            self._report_function(term.operation, accepts, [found], term.target.span, term.target)
        return replace(term, target=target, body=body), result

    # ---- reports

    def _in_conflict(self, *terms: Term) -> bool:
        """Is one of the terms' variables used with types that do not fit each other? That has been told, and says enough."""
        return any(v.name in self._conflicting for term in terms for v in variables_of(term))

    def _report_column(self, argument: Term, found: Type, relation: str, column: str, wanted: Type) -> None:
        if not self._in_conflict(argument):
            term = shortened(print_term(argument))
            place = f"{relation}.{column}"
            self._report(
                "TYPE_COLUMN",
                argument.span,
                term=term,
                found=found,
                column=place,
                wanted=wanted,
                fix=_how_to_fit(found, wanted),
            )

    def _report_function(self, function: str, accepts: str, found: Sequence[Type], span: Span | None, *arguments: Term) -> None:
        if self._in_conflict(*arguments):
            return
        sign = "-" if function == "neg" else function
        alike = "All its arguments must be of one type. " if len({str(t.base) for t in found}) > 1 else ""
        types = " and ".join(str(t) for t in found)
        self._report("TYPE_FUNCTION", span, function=sign, accepts=accepts, found=types, alike=alike)

    def _report_unknown(self, call: Call) -> None:
        name = call.function
        span = call.span and replace(call.span, end_line=call.span.line, end_column=call.span.column + len(name))
        if name in self.relations:
            near = "It is a relation, which has no value: use it as a condition. "
        else:
            known = [
                function
                for function in FUNCTIONS
                if function.isidentifier() and function not in _INTERNAL and not function.startswith("sql_")
            ]
            near = closest(name, known, _FUNCTIONS_ELSEWHERE)
        self._report("UNKNOWN_FUNCTION", span, function=name, near=near)

    def _report(self, code: str, span: Span | None, **parameters: object) -> None:
        found = problem(code, span, **parameters)
        if not any(p.code == code and p.span == span for p in self.problems):
            self.problems.append(found)


# ---- constants


def _is_open(constant: Constant) -> bool:
    value = constant.value
    return constant.type is None and (value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)))


def _adopt(constant: Constant, expected: Type | None) -> Constant:
    """An open constant in the type of its place, if it can be."""
    if not _is_open(constant):
        known = constant.type or type_of_value(constant.value)
        if known.kind is Kind.DECIMAL and constant.value is not None and expected is not None and expected.scale >= known.scale:
            return _as_decimal(constant, expected)
        return replace(constant, type=known)
    if constant.value is None:
        return replace(constant, type=(expected or NUMBER).base.optional())
    value = constant.value
    assert isinstance(value, (int, float))
    kind = expected.kind if expected else None
    if kind is Kind.DECIMAL:
        assert expected is not None
        return _as_decimal(constant, expected)
    if isinstance(value, int):
        if kind is Kind.FLOAT:
            return replace(constant, value=float(value), type=FLOAT)
        return replace(constant, type=expected.base if expected and kind is Kind.UNSIGNED else NUMBER)
    return replace(constant, type=FLOAT)


def _as_decimal(constant: Constant, expected: Type) -> Constant:
    """The constant as a decimal of the expected scale where it has no more digits than that, else of its own."""
    exact = Decimal(repr(constant.value)) if isinstance(constant.value, float) else Decimal(constant.value)  # type: ignore[arg-type]
    try:
        value = exact.quantize(Decimal(1).scaleb(-expected.scale))
    except InvalidOperation:
        value = exact
    if value != exact:
        value = exact
    try:
        return replace(constant, value=value, type=type_of_value(value))
    except BadValue:  # more digits than there are: out of range
        return replace(constant, value=value, type=decimal_type(MAX_PRECISION, expected.scale))


def _range(type_: Type) -> tuple[int | Decimal, int | Decimal]:
    match type_.kind:
        case Kind.DECIMAL:
            high = Decimal(10**type_.precision - 1).scaleb(-type_.scale)
            return -high, high
        case Kind.UNSIGNED:
            return 0, INT_MAX
    return INT_MIN, INT_MAX


def _how_to_fit(found: Type, wanted: Type) -> str:
    """What to do about a value that a column does not take."""
    if found.kind is not wanted.kind:
        return "Convert it (to_number, to_float, to_string, …), or change the declaration."
    if found.kind is Kind.DECIMAL and found.scale != wanted.scale:
        return "Declare the column with as many digits after the point."
    return f"Only values of {wanted.optional(False)} and its subtypes fit there; change one of the declarations."


def _pattern_error(pattern: str) -> str | None:
    """Why a text is no regular expression."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return str(error)
    return None


def _default(term: Term) -> Inferred | None:
    """The type of a term made of open constants only, when nothing says otherwise."""
    parts = list(subterms(term))
    if any(isinstance(part, (Variable, Wildcard, Aggregate)) for part in parts):
        return None
    constants = [part.value for part in parts if isinstance(part, Constant)]
    return Inferred(FLOAT if any(isinstance(value, float) for value in constants) else NUMBER, free=True)


def _wanted(call: Call, function: Function, known: Sequence[Inferred | None], expected: Type | None) -> Sequence[Type | None]:
    """For each argument the type that it adopts if it is open."""
    places = function.places(len(call.arguments))
    shared = len(places) if function.alike == -1 else function.alike
    alike = [position for position in range(shared) if places[position] is None]
    model = next((inferred.type for position in alike if (inferred := known[position])), expected)
    if call.function == "*" and model is not None and model.kind is Kind.DECIMAL:
        model = decimal_type(MAX_PRECISION, 0)  # 2 * price has the scale of price
    return [model if position in alike else place or NUMBER for position, place in enumerate(places)]


def _aggregated(aggregate: Aggregate, target: Type | None) -> Type | None:
    return (aggregate_type if aggregate.over is None else window_type)(aggregate.operation, target)


def _call_type(call: Call, types: Sequence[Type]) -> Type | None:
    return FUNCTIONS[call.function].typing(types, constants_of(call))


# ---- NULL


def _with_nullability(rule: Rule, types: dict[str, Type], relations: dict[str, Relation]) -> dict[str, Type]:
    """A variable may be NULL only if a column binds it that may be, and nothing else in the body needs its value."""
    windowing = windowing_of(rule)
    if windowing is not None:
        found = _with_nullability(Rule(Atom("", ()), (windowing.source,)), types, relations)
        values = zip(windowing.results, windowing.windows, strict=True)
        return found | {name: found[name].optional(is_nullable(w.operation)) for name, w in values if name in found}
    sources = _sources(rule.body, relations)
    grouped = grouping_of(rule)
    if grouped is not None:
        inner = _with_nullability(Rule(Atom("", ()), grouped.body), dict(types), relations)
        for name, type_ in inner.items():
            sources.setdefault(name, [type_.nullable])
    return {name: type_.optional(_is_nullable(sources.get(name, []))) for name, type_ in types.items()}


def _is_nullable(sources: list[bool]) -> bool:
    return len(sources) == 1 and sources[0]


def _sources(body: Sequence[Literal], relations: dict[str, Relation]) -> dict[str, list[bool]]:
    """For each variable what binds it or needs its value, and whether that may be NULL."""
    sources: dict[str, list[bool]] = {}

    def occurs(name: str, nullable: bool) -> None:
        sources.setdefault(name, []).append(nullable)

    def needs(term: Term) -> None:
        for name in required_variables(term):
            occurs(name, False)

    for literal in body:
        match literal:
            case Atom() if literal.relation in relations:
                for argument, column in zip(literal.arguments, relations[literal.relation].columns, strict=False):
                    if isinstance(argument, Variable):
                        occurs(argument.name, column.type.nullable)
                    else:
                        needs(argument)
            case Comparison():
                needs(literal.left)
                needs(literal.right)
            case Test() if literal.predicate != "is_null" or literal.negated:
                for argument in literal.arguments:
                    needs(argument)
    for literal in body:
        if isinstance(literal, Either):
            alternatives = [_sources(alternative, relations) for alternative in literal.alternatives]
            for name in {name for found in alternatives for name in found}:
                # What only some alternatives need is no need of the others, unless they are all that binds it.
                if name not in sources or all(name in found for found in alternatives):
                    occurs(name, any(_is_nullable(found[name]) for found in alternatives if name in found))
    return sources


def required_variables(term: Term) -> set[str]:
    """The variables without whose values the term has none."""
    match term:
        case Variable():
            return {term.name}
        case Call():
            return _function(term).needs([required_variables(a) for a in term.arguments])
    return set()


def _function(call: Call) -> Function:
    """The function called; of one that does not exist, or not with so many arguments, it does not matter which."""
    function = FUNCTIONS.get(call.function)
    return function if function and function.arity[0] <= len(call.arguments) <= function.arity[1] else FUNCTIONS["+"]


def may_be_null(term: Term, types: dict[str, Type]) -> bool:
    """Can the term have no value, given which variables may be NULL?"""
    match term:
        case Constant():
            return term.value is None
        case Variable():
            return types[term.name].nullable if term.name in types else False
        case Call():
            return _function(term).may_be_null([may_be_null(a, types) for a in term.arguments])
        case _:
            return False


def _negated(body: Sequence[Literal]) -> list[Atom]:
    return [literal.atom for literal in body if isinstance(literal, Negation)]
