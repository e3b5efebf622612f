from datetime import timedelta

import pytest

from kcr.controllers.job.decisions.failures import Backoff, advanced, limit_exceeded, restarts_exceeded, time_left
from tests.kit.builders import NOW, ago, job, pod


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(0, 0), (1, 10), (2, 20), (3, 40), (4, 80), (5, 160), (6, 320), (7, 600), (8, 600), (5000, 600)],
)
def test_delay_doubles_with_each_failure_up_to_its_cap(failures: int, seconds: int) -> None:
    # job-controller §18, table.
    assert time_left(Backoff(failures, NOW), NOW, 10, 600) == timedelta(seconds=seconds)


def test_delay_is_counted_from_the_end_of_the_pod() -> None:
    assert time_left(Backoff(1, ago(4)), NOW, 10, 600) == timedelta(seconds=6)
    assert time_left(Backoff(1, ago(11)), NOW, 10, 600) == timedelta()


def test_failures_add_up_until_a_success_wipes_them_out() -> None:
    failed, succeeded = pod("a", "Failed", finished=ago(20)), pod("b", "Succeeded", finished=ago(10))
    record = advanced(Backoff(2, ago(90)), (), (failed,))
    assert record == Backoff(3, ago(20), frozenset({"uid-a"}))
    assert advanced(record, (succeeded,), ()) == Backoff(counted=frozenset({"uid-b"}))
    assert advanced(Backoff(2, ago(90)), (), ()) == Backoff(2, ago(90))


def test_pod_that_comes_again_is_counted_once() -> None:
    # Its status write failed, or its reply was lost, or the lists were full.
    first, second = pod("a", "Failed", finished=ago(20)), pod("b", "Failed", finished=ago(5))
    record = advanced(Backoff(), (), (first,))
    assert advanced(record, (), (first,)) is record
    assert advanced(record, (), (first, second))[:2] == (2, ago(5))
    assert advanced(advanced(record, (), ()), (), (second,))[:2] == (2, ago(5))


def test_only_failures_after_the_latest_success_count() -> None:
    # job-controller §18; row 30: at the same instant the success wins.
    success = pod("s", "Succeeded", finished=ago(10))
    before, same, after = (pod(f"f{end}", "Failed", finished=ago(end)) for end in (20, 10, 5))
    assert advanced(Backoff(4, ago(99)), (success,), (before, same, after))[:2] == (1, ago(5))
    assert advanced(Backoff(), (success,), (same,))[:2] == (0, None)
    earlier, between = pod("t", "Succeeded", finished=ago(15)), pod("g", "Failed", finished=ago(12))
    assert advanced(Backoff(), (success, earlier), (between, after))[:2] == (1, ago(5))


@pytest.mark.parametrize(("failed", "limit", "exceeded"), [(0, 0, False), (1, 0, True), (6, 6, False), (7, 6, True)])
def test_more_pods_must_fail_than_the_limit(failed: int, limit: int, exceeded: bool) -> None:
    assert limit_exceeded(job(backoff_limit=limit), failed) is exceeded


@pytest.mark.parametrize(
    ("limit", "restarts", "exceeded"),
    [
        pytest.param(0, (0, 0), False, id="zero-and-none"),
        pytest.param(0, (1, 0), True, id="zero-and-one"),
        pytest.param(2, (1, 1), True, id="sum-reaches-the-limit"),
        pytest.param(3, (1, 1), False, id="sum-below-the-limit"),
    ],
)
def test_restarts_in_place_reach_the_limit(limit: int, restarts: tuple[int, int], exceeded: bool) -> None:
    # job-controller §17, rows 44 to 46.
    pods = [pod(f"p{n}", restarts=count) for n, count in enumerate(restarts)]
    assert restarts_exceeded(job(backoff_limit=limit), pods, "OnFailure") is exceeded
    assert not restarts_exceeded(job(backoff_limit=limit), pods, "Never")


def test_restarts_of_ended_pods_are_past_and_pending_ones_count() -> None:
    # Rows 47 and 48.
    ended = [pod(f"e{n}", "Succeeded", restarts=2) for n in range(4)]
    assert not restarts_exceeded(job(backoff_limit=1), ended, "OnFailure")
    assert restarts_exceeded(job(backoff_limit=1), [pod(phase="Pending", restarts=1)], "OnFailure")
