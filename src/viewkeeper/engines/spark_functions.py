"""Functions that Spark's own cannot match exactly, as Python functions on the workers; and what Spark's failures mean.

Workers run these by importing this package, so it must be installed where they run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from viewkeeper.engines import scalar, sql_casts, sql_dates, sql_texts
from viewkeeper.engines.scalar import Failure, evaluation_error, float_sum, strict
from viewkeeper.engines.sql_scalars import SQL_SCALARS
from viewkeeper.errors import EngineError, problem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "vk_power": (scalar.power, "bigint"),
    "vk_float_power": (scalar.float_power, "double"),
    "vk_float_to_string": (repr, "string"),
    "vk_to_date": (scalar.to_date, "bigint"),
    "vk_to_timestamp": (scalar.to_timestamp, "bigint"),
    "vk_match": (scalar.matches, "boolean"),
    "vk_float_sum": (lambda values: float_sum(values) if values else None, "double"),
    "vk_float_mean": (lambda values: scalar.float_mean(values) if values else None, "double"),
    "vk_exact_total": (scalar.exact_total, "string"),
    "vk_mean": (lambda total, divisor: scalar.mean(int(total), divisor), "double"),
    **SQL_SCALARS,
}

_MARK = "VK|"
_MEANINGS = (
    (re.compile(r"\[DATETIME_OVERFLOW|(integer|long) overflow"), "OVERFLOW"),
    (re.compile(r"\[(DIVIDE_BY_ZERO|REMAINDER_BY_ZERO)"), "DIVISION_BY_ZERO"),
    (re.compile(r"\[(ARITHMETIC_OVERFLOW|BINARY_ARITHMETIC_OVERFLOW|CAST_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE)"), "OVERFLOW"),
)
# Only casts to numbers are Spark's own.
_REFUSED = re.compile(r"\[CAST_INVALID_INPUT\] The value '(.*?)' of the type \"STRING\"", re.DOTALL)


def register(session: SparkSession, names: set[str]) -> None:
    """Makes the named functions known to a session."""
    for name in names & _FUNCTIONS.keys():
        function, result = _FUNCTIONS[name]
        session.udf.register(name, _marked(strict(function)), result)


def used_in(sql: str) -> set[str]:
    return set(re.findall(r"\bvk_\w+", sql)) & _FUNCTIONS.keys()


def _marked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Failures as text that survives the way through Spark."""

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Failure as failure:
            parts = [failure.code, *(str(failure.parameters.get(key, "")) for key in ("function", "value"))]
            raise ValueError(_MARK + "|".join(parts) + "|VK") from None

    return call


@contextmanager
def spark_errors(relation: str | None = None) -> Iterator[None]:
    """Spark's failures as errors of ours."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except ConnectionError:
        raise EngineError(problem("ENGINE_FAILED", engine="Spark", why="its Java machine has ended")) from None
    except (PySparkException, Py4JError) as error:
        text = str(error)
        failure = failure_in(text)
        if failure is not None:
            raise evaluation_error(failure, relation) from None
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        why = next((line for line in lines if "[" in line), lines[0]) if lines else type(error).__name__
        raise EngineError(problem("ENGINE_FAILED", engine="Spark", why=why)) from error


def failure_in(text: str) -> Failure | None:
    """The failure that the text of a Spark error tells of, or None."""
    at = text.find(_MARK)
    if at >= 0:
        code, _, rest = text[at + len(_MARK) :].partition("|")
        code = re.match(r"\w+", code)[0]  # type: ignore[index]
        if code != "BAD_TEXT":
            return Failure(code)
        function, _, value = rest.partition("|")
        return _explained(function, re.split(r"\|VK|\s+SQLSTATE|\n", value)[0])
    refused = _REFUSED.search(text)
    if refused:
        return _explained("sql_text_to_number", refused[1])
    for pattern, code in _MEANINGS:
        if pattern.search(text):
            return Failure(code)
    return None


def _explained(function: str, value: str) -> Failure:
    """The same failure once more, here, to have its reason."""
    again: dict[str, Callable[[str], Any]] = {
        "match": lambda pattern: scalar.matches(pattern, ""),
        "sql_rlike": lambda pattern: sql_texts.rlike("", pattern),
        "sql_like": lambda pattern: sql_texts.like("", pattern),
        "sql_regexp": lambda pattern: sql_texts.compiled(pattern),
        "sql_date_format": lambda pattern: sql_dates.format_time(0, pattern),
        "sql_next_day": lambda name: sql_dates.next_day(0, name),
    }
    module = sql_casts if function.startswith("sql_") else scalar
    once_more = again.get(function) or getattr(module, function, None)
    try:
        if once_more is not None:
            once_more(value)
    except Failure as failure:
        return failure
    return Failure("BAD_TEXT", function=function, value=value, why="not accepted")
