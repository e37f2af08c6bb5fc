"""A naive evaluator of the language in docs/language.md, to check the product against.

It shares no code with the product and prefers being obviously right to being fast: programs are parsed by hand, rules
are evaluated by enumerating every assignment, and each stratum is repeated until nothing new is found. Programs are
assumed to be valid.
"""

from .evaluate import evaluate
from .files import read_facts, write_outputs
from .functions import OracleError
from .values import Row, Value

__all__ = ["OracleError", "Row", "Value", "evaluate", "read_facts", "write_outputs"]
