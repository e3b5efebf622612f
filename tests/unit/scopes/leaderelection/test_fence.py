from datetime import UTC, datetime, timedelta

import pytest

from kcr.scopes.leaderelection.leadership import Fence, Reading

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Clocks:
    """The three clocks that a fence reads."""

    def __init__(self) -> None:
        self.loop, self.boot, self.wall = 1000.0, 5000.0, BEGIN

    def now(self) -> datetime:
        return self.wall

    def boottime(self) -> float:
        return self.boot

    def pass_by(self, loop: float, boot: float, wall: float) -> None:
        self.loop += loop
        self.boot += boot
        self.wall += timedelta(seconds=wall)


@pytest.mark.parametrize(
    ("passed", "is_closed"),
    [
        pytest.param((13.9, 13.9, 13.9), False, id="in-time"),
        pytest.param((14, 14, 14), True, id="in-step"),
        pytest.param((0.1, 14, 0.1), True, id="suspended"),
        pytest.param((0.1, 0.1, 14), True, id="paused-and-set-by-ntp"),
        pytest.param((14, 14, -3600), True, id="set-back-and-over"),
        pytest.param((2, 2, -3600), False, id="set-back"),
        pytest.param((14, 0, 0), True, id="loop-only"),
    ],
)
def test_clock_that_moved_furthest_decides(passed: tuple[float, float, float], is_closed: bool) -> None:  # CM-36
    clocks = Clocks()
    fence = Fence(clocks, lambda: clocks.loop, 14)
    fence.renewed(fence.read())
    clocks.pass_by(*passed)
    assert fence.is_closed == is_closed
    assert fence.age == pytest.approx(max(passed))


def test_fence_counts_from_the_moment_the_renewal_was_sent() -> None:
    clocks = Clocks()
    fence = Fence(clocks, lambda: clocks.loop, 14)
    sent = fence.read()
    clocks.pass_by(3, 3, 3)
    fence.renewed(sent)
    assert fence.age == 3


def test_fence_is_closed_before_the_first_renewal() -> None:
    assert Fence(Clocks(), lambda: 0.0, 14).is_closed


def test_reading_counts_seconds_by_its_fastest_clock() -> None:
    first = Reading(0, 0, BEGIN)
    assert first.seconds_until(Reading(1, 2, BEGIN + timedelta(seconds=3))) == 3
