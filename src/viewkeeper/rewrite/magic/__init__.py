"""Magic sets: programs that derive only what is asked for."""

from viewkeeper.rewrite.magic.goal import derive_goal
from viewkeeper.rewrite.magic.query_rules import QueryRules

__all__ = ["QueryRules", "derive_goal"]
