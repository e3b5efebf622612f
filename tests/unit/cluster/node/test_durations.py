import math

import pytest

from kcr.cluster.node.durations import seconds_of, text_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("30s", 30, id="seconds"),
        pytest.param("1m30s", 90, id="minutes-and-seconds"),
        pytest.param("2h", 7200, id="hours"),
        pytest.param("250ms", 0.25, id="milliseconds"),
        pytest.param("1.5s", 1.5, id="fraction"),
        pytest.param("5", 5, id="bare-number"),
        pytest.param("forever", math.inf, id="forever"),
    ],
)
def test_durations_are_read_as_go_writes_them(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "1 s", "-1", "1s2", "nan"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        seconds_of(text)


@pytest.mark.parametrize(("seconds", "text"), [(10, "10s"), (80, "1m20s"), (300, "5m0s"), (3600, "1h0m0s"), (0, "0s")])
def test_durations_are_printed_as_go_prints_them(seconds: float, text: str) -> None:
    assert text_of(seconds) == text
