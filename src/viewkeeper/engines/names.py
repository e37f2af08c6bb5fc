"""Names of relations and columns as names of tables and columns.

SQL names do not tell capitals from small letters, ours do: capital letters are marked behind a ``$``, which our names cannot
contain. The catalog's own tables start with a ``$``.
"""

from __future__ import annotations


def sql_name(name: str) -> str:
    """
    >>> sql_name("edge"), sql_name("Edge"), sql_name("EDGE")
    ('edge', 'edge$1', 'edge$f')
    """
    capitals = sum(1 << position for position, letter in enumerate(name) if letter != letter.lower())
    return f"{name.lower()}${capitals:x}" if capitals else name
