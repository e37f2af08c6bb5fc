"""All of SQL's functions in Python, by their names in SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from viewkeeper.engines.sql_casts import CASTS
from viewkeeper.engines.sql_dates import DATES
from viewkeeper.engines.sql_numbers import NUMBERS, greatest, least
from viewkeeper.engines.sql_texts import TEXTS, joined

# Name → function and, for Spark, the type of its result. Of NULL they are NULL.
SQL_SCALARS: dict[str, tuple[Callable[..., Any], str]] = {**NUMBERS, **CASTS, **DATES, **TEXTS}

# Those that look at NULLs themselves.
LENIENT_SCALARS: dict[str, Callable[..., Any]] = {
    "vk_sql_greatest": greatest,
    "vk_sql_least": least,
    "vk_sql_concat_ws": joined,
}
