"""Which indexes serve all searches of a relation, as few as possible.

An index on (a, b, c) finds rows by a, by a and b, and by all three, in any order of these. So searches whose columns contain each other
form a chain, and one index serves it. (Subotić, Jordan, Chang, Fekete, Scholz: Automatic Index Selection for Large-Scale Datalog
Computation, 2018.)
"""

from __future__ import annotations

from collections.abc import Collection

Columns = frozenset[int]
Chain = tuple[Columns, ...]
"""Each contains the one before."""


def chains_of(searches: Collection[Columns], leading: int | None) -> list[Chain]:
    """As few chains as possible, of all searches.

    ``leading``: the first column of the rows' key. Rows mostly come and go in its order, so an index that begins with another column
    changes in more places; where there is a choice, such searches share an index with each other.

    >>> [chain_columns(chain, 0) for chain in chains_of([frozenset({0, 2}), frozenset({2}), frozenset({1, 2})], 0)]
    [(2, 1), (0, 2)]
    """
    ordered = sorted(searches, key=lambda search: (leading in search, len(search), sorted(search)))
    before = _matched(ordered)
    after = {small: large for large, small in before.items()}
    found = []
    for search in ordered:
        if search not in before:
            chain = [search]
            while chain[-1] in after:
                chain.append(after[chain[-1]])
            found.append(tuple(chain))
    return found


def chain_columns(chain: Chain, leading: int | None) -> tuple[int, ...]:
    """The columns of an index that serves a chain.

    >>> chain_columns((frozenset({1, 2}), frozenset({0, 1, 2, 3})), 2)
    (2, 1, 0, 3)
    """
    columns: list[int] = []
    for search in chain:
        columns += sorted(search.difference(columns), key=lambda column: (column != leading, column))
    return tuple(columns)


def serves(index: tuple[int, ...], chain: Chain, leading: int | None) -> bool:
    """Does an index on these columns serve a chain, and begin with the leading column if it can?"""
    if leading in chain[0] and index[0] != leading:
        return False
    return all(frozenset(index[: len(search)]) == search for search in chain)


def _matched(ordered: list[Columns]) -> dict[Columns, Columns]:
    """For as many searches as possible one that it contains; none contains two, none is contained in two."""
    before: dict[Columns, Columns] = {}

    def place(small: Columns, tried: set[Columns]) -> bool:
        for large in ordered:
            if small < large and large not in tried:
                tried.add(large)
                if large not in before or place(before[large], tried):
                    before[large] = small
                    return True
        return False

    for small in ordered:
        place(small, set())
    return before
