"""SQL's functions of texts in Python. Places are counted in code points, from 1."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from viewkeeper.engines.scalar import Failure, compiled

_INT = 2**31


def places(number: int) -> int:
    """A place or a length, which Spark counts in 32 bits."""
    if not -_INT <= number < _INT:
        raise Failure("OVERFLOW")
    return number


def substring(text: str, start: int, length: int = _INT - 1) -> str:
    first = places(start) - 1 if start > 0 else len(text) + places(start) if start < 0 else 0
    return text[max(0, first) : max(0, first + places(length))]


def pad_left(text: str, length: int, pad: str = " ") -> str:
    return _padding(text, places(length), pad) + text[: max(0, length)]


def pad_right(text: str, length: int, pad: str = " ") -> str:
    return text[: max(0, length)] + _padding(text, places(length), pad)


def _padding(text: str, length: int, pad: str) -> str:
    missing = max(0, length - len(text))
    return (pad * (missing // len(pad) + 1))[:missing] if pad else ""


def locate(part: str, text: str, start: int) -> int:
    if places(start) < 1:
        return 0
    return text.find(part, start - 1) + 1 if part else 1


def left(text: str, length: int) -> str:
    return text[: max(0, places(length))]


def right(text: str, length: int) -> str:
    return text[max(0, len(text) - places(length)) :] if length > 0 else ""


def repeat(text: str, times: int) -> str:
    return text * max(0, places(times))


def initials(text: str) -> str:
    """Each word with a capital letter; words end at spaces only."""
    return " ".join(word[:1].title() + word.lower()[len(word[:1].lower()) :] for word in text.split(" "))


def translate(text: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for place, letter in enumerate(old):
        table.setdefault(ord(letter), new[place] if place < len(new) else None)
    return text.translate(table)


def split_part(text: str, separator: str, number: int) -> str:
    if places(number) == 0:
        raise Failure("OVERFLOW")
    parts = text.split(separator) if separator else [text]
    index = number - 1 if number > 0 else len(parts) + number
    return parts[index] if 0 <= index < len(parts) else ""


def _letters(pattern: str, escape: str) -> Iterator[tuple[str, bool]]:
    """The letters of a LIKE, each with whether it stands for others."""
    letters = iter(pattern)
    for letter in letters:
        if letter != escape:
            yield letter, letter in "_%"
            continue
        following = next(letters, "")
        if following not in {"_", "%", escape}:
            why = f"{escape} stands before neither _ nor % nor {escape}"
            raise Failure("BAD_TEXT", function="sql_like", value=pattern, why=why)
        yield following, False


@functools.lru_cache(maxsize=256)
def like_pattern(pattern: str, escape: str) -> re.Pattern[str]:
    """The regular expression of a LIKE."""
    many = {"_": ".", "%": ".*"}
    return re.compile("".join(many[x] if stands else re.escape(x) for x, stands in _letters(pattern, escape)), re.DOTALL)


def glob_pattern(pattern: str, escape: str = "\\") -> str:
    """The same as SQLite's GLOB has it, which knows capital letters as SQLite's LIKE does not.

    >>> glob_pattern("50!% of [_]*%", "!")
    '50% of [[]?][*]*'
    """
    many, special = {"_": "?", "%": "*"}, "*?["
    return "".join(many[x] if stands else f"[{x}]" if x in special else x for x, stands in _letters(pattern, escape))


def like(text: str, pattern: str, escape: str = "\\") -> int:
    return int(like_pattern(pattern, escape).fullmatch(text) is not None)


def ilike(text: str, pattern: str, escape: str = "\\") -> int:
    return like(text.lower(), pattern.lower(), escape)


def rlike(text: str, pattern: str) -> int:
    return int(compiled(pattern, "sql_rlike").search(text) is not None)


def joined(separator: str | None, *texts: str | None) -> str | None:
    return None if separator is None else separator.join(text for text in texts if text is not None)


def character(number: int) -> str:
    if number >= 0 and number % 256 == 0:
        raise Failure("OVERFLOW")  # no text has the character U+0000
    return chr(number % 256) if number > 0 else ""


def sha2(text: str, bits: int) -> str | None:
    name = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}.get(bits)
    return hashlib.new(name, text.encode()).hexdigest() if name else None


# Name in SQL → function and, for Spark, the type of its result.
TEXTS: dict[str, tuple[Callable[..., Any], str]] = {
    "vk_sql_upper": (str.upper, "string"),
    "vk_sql_lower": (str.lower, "string"),
    "vk_sql_reverse": (lambda text: text[::-1], "string"),
    "vk_sql_initcap": (initials, "string"),
    "vk_sql_md5": (lambda text: hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(), "string"),
    "vk_sql_sha2": (sha2, "string"),
    "vk_sql_ascii": (lambda text: ord(text[0]) if text else 0, "bigint"),
    "vk_sql_chr": (character, "string"),
    "vk_sql_substring": (substring, "string"),
    "vk_sql_lpad": (pad_left, "string"),
    "vk_sql_rpad": (pad_right, "string"),
    "vk_sql_locate": (locate, "bigint"),
    "vk_sql_left": (left, "string"),
    "vk_sql_right": (right, "string"),
    "vk_sql_repeat": (repeat, "string"),
    "vk_sql_replace": (lambda text, old, new: text.replace(old, new) if old else text, "string"),
    "vk_sql_translate": (translate, "string"),
    "vk_sql_split_part": (split_part, "string"),
    "vk_sql_like": (like, "bigint"),
    "vk_sql_ilike": (ilike, "bigint"),
    "vk_sql_rlike": (rlike, "bigint"),
    "vk_sql_starts_with": (lambda text, part: int(text.startswith(part)), "bigint"),
    "vk_sql_ends_with": (lambda text, part: int(text.endswith(part)), "bigint"),
}
