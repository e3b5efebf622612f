from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr.testing import VirtualClock
from kcr.workqueue import BucketRateLimiter, ItemExponential, MaxOf, RateLimiter, default_limiter

pytestmark = pytest.mark.kcr_virtual


def delays(limiter: RateLimiter[str], times: int, key: str = "a") -> list[float]:
    return [limiter.when(key) for _ in range(times)]


async def test_delays_double_up_to_the_maximum() -> None:  # WQ-18
    found = delays(ItemExponential[str](), 30)
    assert found[:5] == [0.005, 0.01, 0.02, 0.04, 0.08]
    assert found[17] == pytest.approx(655.36)
    assert set(found[18:]) == {1000}


async def test_thousands_of_failures_do_not_overflow() -> None:  # WQ-18
    assert delays(ItemExponential[str](), 2000)[-1] == 1000


async def test_keys_fail_each_for_itself() -> None:
    limiter = ItemExponential[str](1, 60)
    assert [limiter.when("a"), limiter.when("a"), limiter.when("b")] == [1, 2, 1]


@pytest.mark.parametrize(
    "limiter",
    [
        pytest.param(ItemExponential[str](1, 60), id="exponential"),
        pytest.param(MaxOf[str](ItemExponential(1, 60), ItemExponential(2, 2)), id="max-of"),
    ],
)
async def test_forgotten_key_begins_anew(limiter: RateLimiter[str]) -> None:  # WQ-19, WQ-20
    first = limiter.when("a")
    limiter.when("a")
    assert limiter.retries("a") == 2
    limiter.forget("a")
    assert limiter.retries("a") == 0
    assert limiter.when("a") == first


async def test_bucket_lets_a_burst_pass_and_then_spreads(kcr_clock: VirtualClock) -> None:  # WQ-17
    limiter = BucketRateLimiter[str](per_second=10, burst=3)
    assert delays(limiter, 5) == pytest.approx([0, 0, 0, 0.1, 0.2])
    limiter.forget("a")
    assert limiter.retries("a") == 0
    await kcr_clock.advance(3600)
    assert delays(limiter, 4) == pytest.approx([0, 0, 0, 0.1])


@given(pauses=st.lists(st.floats(0, 2), max_size=30), burst=st.integers(1, 5))
async def test_bucket_never_exceeds_its_rate(pauses: list[float], burst: int) -> None:
    limiter, clock, moments, now = BucketRateLimiter[str](per_second=2, burst=burst), VirtualClock(), list[float](), 0.0
    for pause in pauses:
        await clock.advance(pause)
        now += pause
        moments.append(now + limiter.when("a"))
    assert moments == sorted(moments)
    # Any `burst + n` tokens take at least the time in which n come back.
    for first, last in zip(moments, moments[burst:], strict=False):
        assert last - first >= 0.5 - 1e-6


@pytest.mark.parametrize(("per_second", "burst"), [(0, 1), (1, 0)])
async def test_bucket_that_lets_nothing_pass_is_refused(per_second: float, burst: int) -> None:
    with pytest.raises(ValueError, match=r"BucketRateLimiter: .* is 0: give it"):
        BucketRateLimiter[str](per_second, burst)


async def test_longest_of_several_delays_counts() -> None:  # WQ-17
    limiter = MaxOf[str](ItemExponential(1, 60), ItemExponential(3, 5))
    assert delays(limiter, 4) == [3, 5, 5, 8]
    assert limiter.retries("a") == 4


async def test_controllers_default_delays_each_key_by_itself() -> None:  # WQ-17
    limiter = default_limiter()
    assert [limiter.when(f"key-{number}") for number in range(1000)] == [0.005] * 1000
    assert [limiter.when("one-more") for _ in range(20)][-1] == 1000


async def test_keys_idle_for_long_are_dropped(kcr_clock: VirtualClock) -> None:  # WQ-23
    limiter = ItemExponential[str](1, 60)
    delays(limiter, 5, "gone")
    await kcr_clock.advance(60)
    delays(limiter, 5, "alive")
    await kcr_clock.advance(61)
    limiter.when("other")
    assert limiter.retries("gone") == 0
    assert limiter.retries("alive") == 5


def test_no_controller_counts_by_a_queues_memory() -> None:  # WQ-20
    root = Path(__file__).parents[3] / "controllers"
    assert not [module.name for module in root.rglob("*.py") if ".retries(" in module.read_text()]
