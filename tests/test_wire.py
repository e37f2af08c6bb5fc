"""Values that go over the wire and come back are the same."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewkeeper.wire import decode_row, encode_row, encode_rows

VALUES = {
    "number": st.integers(-(2**63), 2**63 - 1),
    "unsigned": st.integers(0, 2**63 - 1),
    "float": st.floats(),
    "symbol": st.text(),
    "bool": st.booleans(),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(datetime.UTC)),
    "decimal(18,4)": st.decimals(-(10**13), 10**13, places=4),
    "bytes": st.binary(),
}
TYPES = [*VALUES, *(f"{name}?" for name in VALUES)]
ROWS = st.tuples(*(VALUES[name] for name in VALUES), *(st.none() | VALUES[name] for name in VALUES))


@given(ROWS)
def test_rows_come_back(row: tuple[object, ...]) -> None:
    text = msgspec.json.encode(encode_row(row, TYPES))
    assert encode_rows([row], TYPES) == [encode_row(row, TYPES)]
    back = decode_row(msgspec.json.decode(text), TYPES)
    for sent, got in zip(row, back, strict=True):
        if isinstance(sent, float) and math.isnan(sent):
            assert isinstance(got, float) and math.isnan(got)
        else:
            assert (type(sent), sent) == (type(got), got)


def test_a_decimal_keeps_all_its_digits() -> None:
    assert encode_row((Decimal("1E+2"), Decimal("1.500")), ["decimal(5,0)", "decimal(5,3)"]) == ["100", "1.500"]


@pytest.mark.parametrize(
    ("value", "type_name"),
    [
        ("1", "number"),
        (True, "number"),
        (1.5, "number"),
        (1, "symbol"),
        (1, "bool"),
        (True, "float"),
        ("inf", "float"),
        (1.5, "decimal(3,1)"),
        ("NaN", "decimal(3,1)"),
        ("x", "decimal(3,1)"),
        ("2026-13-01", "date"),
        (3, "date"),
        ("soon", "timestamp"),
        ("0g", "bytes"),
        ([1], "number"),
        (1, "nothing"),
    ],
)
def test_what_is_no_value_of_a_type_is_refused(value: object, type_name: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        decode_row([value], [type_name])
