from datetime import timedelta

from kcr_devcluster.apiserver.protocol.manifests import clamped_seconds


def test_seconds_beyond_the_calendar_are_clamped() -> None:
    assert clamped_seconds(2**63) == -clamped_seconds(-(2**63)) == timedelta(days=36_500)
