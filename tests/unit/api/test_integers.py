import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr.api.integers import parse_int

# More than Python's own limit, which counts leading zeros.
ZEROS = "0" * (sys.get_int_max_str_digits() + 1)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("7", 7), ("007", 7), ("+7", 7), ("-7", -7), ("-0", 0), (f"{ZEROS}1", 1), (f"-{ZEROS}", 0),
        ("9223372036854775807", 2**63 - 1), ("9223372036854775808", None), ("-9223372036854775808", -(2**63)),
        ("-9223372036854775809", None), ("9" * 5000, None), (f"{ZEROS}1x", None), ("", None), ("+", None),
        ("--1", None), ("٣", None), ("²", None),
        ("1_000", None), (" 1", None), ("1\n", None), ("1.0", None), ("0x1", None), ("1e3", None),
    ],
)  # fmt: skip
def test_texts_are_read_as_go_reads_them(text: str, number: int | None) -> None:
    assert parse_int(text) == number


@given(st.integers(), st.integers(min_value=2, max_value=65), st.integers(min_value=0, max_value=30))
def test_every_number_of_so_many_bits_is_read(number: int, bits: int, zeros: int) -> None:
    sign = "-" if number < 0 else ""
    fits = -(1 << (bits - 1)) <= number < 1 << (bits - 1)
    assert parse_int(f"{sign}{'0' * zeros}{abs(number)}", bits) == (number if fits else None)
