"""SQL's functions of texts in Python. Places are counted in code points, from 1."""

from __future__ import annotations

import functools
import hashlib
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from viewkeeper.engines.scalar import Failure
from viewkeeper.program.java_patterns import BadPattern, java_pattern

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


# ---- regular expressions


def compiled(pattern: str, function: str = "sql_regexp") -> re.Pattern[str]:
    try:
        return java_pattern(pattern)
    except BadPattern as error:
        raise Failure("BAD_TEXT", function=function, value=pattern, why=f"not a regular expression: {error}") from None


def rlike(text: str, pattern: str) -> int:
    return int(compiled(pattern, "sql_rlike").search(text) is not None)


def regexp_extract(text: str, pattern: str, group: int) -> str:
    """What the first match has in a group, nothing if there is none."""
    found = compiled(pattern).search(text)
    if found is None:
        return ""
    if not 0 <= group <= found.re.groups:
        why = f"it has {found.re.groups} groups, and none of the number {group}"
        raise Failure("BAD_TEXT", function="sql_regexp", value=pattern, why=why)
    return found[group] or ""


def regexp_replace(text: str, pattern: str, by: str) -> str:
    return compiled(pattern).sub(lambda found: _filled(by, found), text)


def _filled(by: str, found: re.Match[str]) -> str:
    """A replacement: $1 and ${name} are groups, \\ makes the next letter stand for itself."""
    parts, place = [], 0
    while place < len(by):
        reference = re.compile(r"\\(.)|\$([0-9]+)|\$\{([A-Za-z][A-Za-z0-9]*)\}|([^\\$])", re.DOTALL).match(by, place)
        if reference is None:
            raise _no_group(by, "a $ or \\ that stands for itself is written \\$ or \\\\")
        place = reference.end()
        if reference[2]:
            # As many digits as there is a group for.
            digits = next((n for n in range(len(reference[2]), 1, -1) if int(reference[2][:n]) <= found.re.groups), 1)
            place = reference.start(2) + digits
            parts.append(_group(found, int(reference[2][:digits]), by))
        else:
            parts.append(_group(found, reference[3], by) if reference[3] else reference[1] or reference[4])
    return "".join(parts)


def _group(found: re.Match[str], group: int | str, by: str) -> str:
    try:
        return found[group] or ""
    except IndexError:
        raise _no_group(by, f"there is no group {group}") from None


def _no_group(by: str, why: str) -> Failure:
    return Failure("BAD_TEXT", function="sql_regexp_replace", value=by, why=why)


def regexp_substr(text: str, pattern: str) -> str | None:
    """The first match, NULL if there is none or nothing in it."""
    found = compiled(pattern).search(text)
    return None if found is None else found[0] or None


def regexp_instr(text: str, pattern: str) -> int:
    found = compiled(pattern).search(text)
    return 0 if found is None else found.start() + 1


# ---- parts and distances


def overlay(text: str, by: str, start: int, length: int = -1) -> str:
    """The text with another one in the place of so many letters, as many as it has itself if that is negative."""
    dropped = places(length) if length >= 0 else len(by)
    return substring(text, 1, places(start - 1)) + by + substring(text, places(start + dropped))


def substring_index(text: str, separator: str, number: int) -> str:
    """What is before the separator of a number, or behind one counted from the end."""
    if not separator or places(number) == 0:
        return ""
    place = -1 if number > 0 else len(text)
    for _ in range(abs(number)):
        place = text.find(separator, place + 1) if number > 0 else text.rfind(separator, 0, max(0, place + len(separator) - 1))
        if place < 0:
            return text
    return text[:place] if number > 0 else text[place + len(separator) :]


def find_in_set(text: str, listed: str) -> int:
    parts = listed.split(",")
    return parts.index(text) + 1 if text in parts else 0


def levenshtein(left: str, right: str) -> int:
    row = list(range(len(right) + 1))
    for i, letter in enumerate(left, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(right, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (letter != other))
    return row[-1]


# The codes of the letters A to Z. What has the code 7 is passed over.
_SOUNDS = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01230127022455012623017202", strict=True))


def soundex(text: str) -> str:
    """A code for how a word sounds in English: Miller is M460. What begins with no letter stays."""
    first = text[:1].upper()
    if not text[:1].isascii() or first not in _SOUNDS:
        return text
    found, last = first, _SOUNDS[first]
    for letter in text[1:]:
        code = _SOUNDS.get(letter.upper(), "0") if letter.isascii() else "0"
        if code == "7":
            continue
        if code not in ("0", last):
            found += code
        last = code
    return found[:4].ljust(4, "0")


def hexadecimal(value: str | bytes) -> str:
    return (value.encode() if isinstance(value, str) else bytes(value)).hex().upper()


def unhex(text: str) -> bytes | None:
    if re.fullmatch(r"[0-9a-fA-F]*", text, re.ASCII) is None:
        return None
    return bytes.fromhex(text.zfill(len(text) + len(text) % 2))


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
    "vk_sql_sha1": (lambda text: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(), "string"),
    "vk_sql_crc32": (lambda text: zlib.crc32(text.encode()), "bigint"),
    "vk_sql_octet_length": (lambda value: len(value.encode() if isinstance(value, str) else value), "bigint"),
    "vk_sql_hex": (hexadecimal, "string"),
    "vk_sql_unhex": (unhex, "binary"),
    "vk_sql_levenshtein": (levenshtein, "bigint"),
    "vk_sql_soundex": (soundex, "string"),
    "vk_sql_overlay": (overlay, "string"),
    "vk_sql_substring_index": (substring_index, "string"),
    "vk_sql_find_in_set": (find_in_set, "bigint"),
    "vk_sql_regexp_extract": (regexp_extract, "string"),
    "vk_sql_regexp_replace": (regexp_replace, "string"),
    "vk_sql_regexp_substr": (regexp_substr, "string"),
    "vk_sql_regexp_instr": (regexp_instr, "bigint"),
    "vk_sql_regexp_count": (lambda text, pattern: sum(1 for _ in compiled(pattern).finditer(text)), "bigint"),
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
