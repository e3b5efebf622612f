"""Durations as people read them.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/util/duration/duration_test.go.
"""

from datetime import UTC, datetime, timedelta

import pytest

from kcr.apiserver.durations import age, human

HOUR, DAY = 3600, 86400


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
    assert human(timedelta(seconds=seconds)) == expected


def test_age_counts_from_the_moment() -> None:
    now = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert age("2026-01-01T00:00:00Z", now) == "60s"
    assert age(None, now) == "<unknown>"
