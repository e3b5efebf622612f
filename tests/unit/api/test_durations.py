"""Whole numbers and durations as Go reads and prints them, and as people read them.

Source: Go's time.ParseDuration; kubernetes/staging/src/k8s.io/apimachinery/pkg/util/duration/duration_test.go.
"""

import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr.api.durations import age, go_duration, human_duration, parse_duration, parse_int

HOUR, DAY = 3600, 86400
# More than Python's own limit, which counts leading zeros.
ZEROS = "0" * (sys.get_int_max_str_digits() + 1)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-2, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (179, "2m59s"), (599, "9m59s"),
        (600, "10m"), (3 * HOUR - 1, "179m"), (3 * HOUR, "3h"), (7 * HOUR + 60, "7h1m"), (8 * HOUR, "8h"),
        (2 * DAY - 1, "47h"), (2 * DAY, "2d"), (7 * DAY + 23 * HOUR, "7d23h"), (8 * DAY, "8d"),
        (729 * DAY, "729d"), (730 * DAY, "2y"), (800 * DAY, "2y70d"), (8 * 365 * DAY, "8y"),
    ],
)  # fmt: skip
def test_duration_has_one_unit_or_two(seconds: int, expected: str) -> None:
    assert human_duration(timedelta(seconds=seconds)) == expected


def test_age_counts_from_the_moment() -> None:
    now = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert age("2026-01-01T00:00:00Z", now) == "60s"
    assert age(None, now) == "<unknown>"


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("30s", 30 * 10**9), ("1m30s", 90 * 10**9), ("2h", 2 * HOUR * 10**9), ("250ms", 250 * 10**6),
        ("-1.5s", -1_500 * 10**6), ("+3us", 3_000), ("3µs", 3_000), ("0", 0), (".5s", 500 * 10**6),
        ("1s2ns", 10**9 + 2),
    ],
)  # fmt: skip
def test_go_duration_is_read_in_nanoseconds(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'invalid duration ""'), ("soon", 'invalid duration "soon"'), ("5", 'missing unit in duration "5"'),
        ("1d", 'unknown unit "d" in duration "1d"'), ("2562048h", 'invalid duration "2562048h"'),
    ],
)  # fmt: skip
def test_what_is_no_go_duration_is_refused_in_its_words(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^time: {message}$"):
        parse_duration(text)


@pytest.mark.parametrize(("seconds", "text"), [(10, "10s"), (80, "1m20s"), (300, "5m0s"), (3600, "1h0m0s"), (0, "0s")])
def test_duration_is_printed_as_go_prints_it(seconds: int, text: str) -> None:
    assert go_duration(seconds) == text


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
