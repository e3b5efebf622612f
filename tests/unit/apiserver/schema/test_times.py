import pytest

from kcr_devcluster.apiserver.schema.times import micro, whole_seconds


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        pytest.param("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", id="as-stored"),
        pytest.param("2026-01-01T00:00:00.987Z", "2026-01-01T00:00:00Z", id="fraction-cut"),
        pytest.param("2026-01-01T02:00:00+02:00", "2026-01-01T00:00:00Z", id="offset"),
        pytest.param("2025-12-31T23:30:00.1-00:30", "2026-01-01T00:00:00Z", id="both"),
    ],
)
def test_time_is_stored_in_whole_seconds_of_utc(text: str, stored: str) -> None:
    assert whole_seconds(text) == stored


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="parsing time"):
        whole_seconds(text)


def test_micro_time_keeps_six_digits_in_utc() -> None:
    assert micro("2026-01-01T00:00:00.000001Z") == "2026-01-01T00:00:00.000001Z"
    assert micro("2026-01-01T01:00:00.500000+01:00") == "2026-01-01T00:00:00.500000Z"


@pytest.mark.parametrize(("text", "rest"), [("2026-01-01T00:00:00Z", "Z"), ("2026-01-01T00:00:00.123Z", ".123Z")])
def test_micro_time_with_other_digits_is_refused(text: str, rest: str) -> None:
    with pytest.raises(ValueError, match=rf'cannot parse "{rest}" as ".000000"'):
        micro(text)
