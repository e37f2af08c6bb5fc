"""Why a row is in a view, or why it is not.

The views are stored, or derived for the time of the question, so premises are found by asking: which assignments make a rule's body true
and its head the row? ``forms`` has the rules in the shape that is asked about, ``asking`` asks, ``proofs`` chooses derivations that do not go round in a circle, ``trees``
shows them, and ``absence`` looks for what is missing where there is none.
"""

from __future__ import annotations

from viewkeeper.errors import StoreError, problem
from viewkeeper.program.ast import Atom, Constant
from viewkeeper.program.values import store
from viewkeeper.state import State
from viewkeeper.why.absence import Absences
from viewkeeper.why.asking import Asker
from viewkeeper.why.forms import Row
from viewkeeper.why.outcome import Absence, Attempt, Derivation, Why
from viewkeeper.why.proofs import Proofs
from viewkeeper.why.trees import Trees

__all__ = ["Absence", "Attempt", "Derivation", "Why", "explain"]


def explain(atom: Atom, state: State) -> Why:
    """Why a row, given as an atom of typed constants, is there, or what is missing."""
    columns = state.program.relation(atom.relation).columns
    constants = [argument for argument in atom.arguments if isinstance(argument, Constant)]
    row = Row(atom.relation, tuple(store(a.value, c.type) for a, c in zip(constants, columns, strict=True)))
    asker = Asker(state, atom.relation)
    try:
        text = asker.print_row(row)
        if not asker.holds(row):
            return Why(text, None, Absences(asker).of(row))
        proofs = Proofs(asker).of(row)
        if proofs is None:
            raise StoreError(problem("UNDERIVED_ROW", row=text, view=row.relation))
        return Why(text, Trees(asker, proofs).of(row), None)
    finally:
        asker.close()
