"""The ordered lists of passes. Each pass is a function from Program to Program in a file of its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from viewkeeper.program.ast import Program
from viewkeeper.rewrite.drop_implied import drop_implied
from viewkeeper.rewrite.expand_alternatives import expand_alternatives
from viewkeeper.rewrite.extract_aggregates import extract_aggregates
from viewkeeper.rewrite.hoist_ranges import hoist_ranges
from viewkeeper.rewrite.isolate_aggregates import isolate_aggregates
from viewkeeper.rewrite.isolate_windows import isolate_windows
from viewkeeper.rewrite.project_negations import project_negations
from viewkeeper.rewrite.split_deep_terms import split_deep_terms
from viewkeeper.rewrite.type_terms import type_terms

Pass = Callable[[Program], Program]

# A checked program becomes a core program, the only kind that engines run:
# - rules have no alternatives, and every constant has its type;
# - `range` stands only in `x = range(…)`;
# - aggregates stand only in grouping rules `head :- r = sum y : { conjunction }`, not nested;
# - windows stand only in rules of relations of their own, which have the columns of the partition;
# - no term is too deep for an engine.
NORMALISE: tuple[Pass, ...] = (
    expand_alternatives,
    type_terms,
    hoist_ranges,
    isolate_windows,
    extract_aggregates,
    split_deep_terms,
)


# A core program becomes one whose views can be kept from changes:
# - each grouping rule has a relation of its own, and min and max read a single atom;
# - no atom says what a group of an aggregate says already, and no negation has a `_`.
MAINTAINABLE: tuple[Pass, ...] = (isolate_aggregates, drop_implied, project_negations)


def run_passes(program: Program, passes: Sequence[Pass]) -> Program:
    for rewrite in passes:
        program = rewrite(program)
    return program


def normalise(program: Program) -> Program:
    """The core form of a checked program."""
    return run_passes(program.revealed, NORMALISE)
