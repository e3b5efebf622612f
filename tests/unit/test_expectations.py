from collections.abc import Callable
from datetime import timedelta

import pytest

from kcr.expectations import Expectations
from kcr.testing import VirtualClock

pytestmark = pytest.mark.kcr_virtual

A, NAMESAKE = ("default", "pi", "1"), ("default", "pi", "2")
Expected = Expectations[tuple[str, str, str]]


# EX-1, EX-4
async def test_nothing_expected_is_met(kcr_clock: VirtualClock) -> None:
    expected = Expected(kcr_clock)
    assert expected.expectations_met(A)
    assert expected.time_left(A) is None
    expected.creation_observed(A)
    assert expected.expectations_met(A)


# EX-3, EX-5
@pytest.mark.parametrize(
    ("expect", "observe"),
    [
        pytest.param(Expected.expect_creations, Expected.creation_observed, id="creations"),
        pytest.param(Expected.expect_deletions, Expected.deletion_observed, id="deletions"),
    ],
)
async def test_writes_are_expected_until_all_are_seen(
    kcr_clock: VirtualClock, expect: Callable[..., None], observe: Callable[..., None]
) -> None:
    expected = Expected(kcr_clock)
    expect(expected, A, 3)
    observe(expected, A)
    assert not expected.expectations_met(A)
    observe(expected, A, 2)
    assert expected.expectations_met(A)


async def test_deletions_do_not_stand_for_creations(kcr_clock: VirtualClock) -> None:
    expected = Expected(kcr_clock)
    expected.expect_creations(A, 1)
    expected.deletion_observed(A)
    assert not expected.expectations_met(A)


# EX-2
async def test_new_expectations_replace_the_old(kcr_clock: VirtualClock) -> None:
    expected = Expected(kcr_clock)
    expected.expect_creations(A, 5)
    expected.expect_deletions(A, 1)
    expected.deletion_observed(A)
    assert expected.expectations_met(A)


# EX-2
async def test_observations_may_outnumber_expectations(kcr_clock: VirtualClock) -> None:
    expected = Expected(kcr_clock)
    expected.expect_creations(A, 1)
    expected.creation_observed(A, 3)
    assert expected.expectations_met(A)
    expected.expect_creations(A, 1)
    assert not expected.expectations_met(A)


# EX-11
async def test_namesake_with_another_uid_inherits_nothing(kcr_clock: VirtualClock) -> None:
    expected = Expected(kcr_clock)
    expected.expect_creations(A, 1)
    assert expected.expectations_met(NAMESAKE)


# EX-4, EX-6
async def test_expectations_expire_after_five_minutes(kcr_clock: VirtualClock) -> None:
    expected = Expected(kcr_clock)
    expected.expect_creations(A, 1)
    await kcr_clock.advance(299)
    assert not expected.expectations_met(A)
    assert expected.time_left(A) == timedelta(seconds=1)
    await kcr_clock.advance(1)
    assert expected.time_left(A) == timedelta(0)
    assert expected.expectations_met(A)
    assert expected.expired == 1
    assert expected.time_left(A) is None


# EX-7
async def test_forgotten_key_is_met(kcr_clock: VirtualClock) -> None:
    expected = Expected(kcr_clock)
    expected.expect_creations(A, 1)
    expected.forget(A)
    assert expected.expectations_met(A)
