"""Names of relations and columns as names of tables and columns.

SQL names do not tell capitals from small letters, ours do: capital letters are marked behind a ``$``, which our names cannot
contain. The catalog's own tables start with a ``$``. What SQLite keeps for itself is marked the same way: its own names of the
row number, which deltas are read by, and all tables that begin with ``sqlite_``.
"""

from __future__ import annotations

from functools import cache
from string import ascii_lowercase, ascii_uppercase

# Part of the names of indexes that views need to be kept; others are for what statements search.
ORDERED = " in order of "
_SMALL = str.maketrans(ascii_uppercase, ascii_lowercase)
_ROW_NUMBERS = frozenset({"rowid", "oid", "_rowid_"})


@cache
def sql_name(name: str) -> str:
    """
    >>> sql_name("edge"), sql_name("Edge"), sql_name("EDGE")
    ('edge', 'edge$1', 'edge$f')
    >>> sql_name("rowid"), sql_name("sqlite_edge")
    ('rowid$0', '$sqlite_edge')
    """
    small = name.translate(_SMALL)
    capitals = sum(1 << position for position, letter in enumerate(name) if letter != small[position])
    marked = f"{small}${capitals:x}" if capitals or small in _ROW_NUMBERS else small
    return f"${marked}" if marked.startswith("sqlite_") else marked


def quoted(name: str) -> str:
    """A name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'
