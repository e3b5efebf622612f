from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr.client.wire.congestion import (
    CALM,
    CALM_SECONDS,
    FEW_FAILURES,
    LEAST,
    LEAST_WHEN_SLOW,
    LONGEST_PAUSE_SECONDS,
    MANY_FAILURES,
    MOST,
    Congestion,
    failed,
    is_overload,
    is_slow,
    may_send,
    sent,
    slowed,
    succeeded,
    usual_seconds,
)
from kcr.errors import KcrError, TransportError, error_for

# Sent, and answered so many seconds later: well, slowly, or not.
STEPS = st.lists(st.tuples(st.sampled_from(("ok", "slow", "fail")), st.floats(0, 3), st.integers(0, 5)), max_size=200)


def lived(steps: list[tuple[str, float, int]]) -> tuple[Congestion, float]:
    """Return what is known after requests one after the other, and the time then."""
    known, now = CALM, 0.0
    for end, seconds, retry_after in steps:
        now = max(now, known.next_probe)
        assert may_send(known, 0, now)
        known, began, now = sent(known, now, 0.5), now, now + seconds
        match end:
            case "ok":
                known = succeeded(known, began, now)
            case "slow":
                known = slowed(known, began, now)
            case _:
                known = failed(known, began, now, float(retry_after), usual=0.01, spread=0.5)
    return known, now


@pytest.mark.law
@given(STEPS)
def test_limit_stays_between_its_bounds(steps: list[tuple[str, float, int]]) -> None:
    known, _ = lived(steps)
    assert LEAST <= known.limit <= MOST
    assert LEAST <= known.threshold <= MOST
    assert 0 <= known.pause_seconds <= LONGEST_PAUSE_SECONDS


@pytest.mark.law
@given(STEPS)
def test_all_is_calm_again_after_ten_seconds_of_successes(steps: list[tuple[str, float, int]]) -> None:
    known, now = lived(steps)
    now = max(now, known.next_probe)
    # The first ends a pause, if there is one.
    for moment in (now + 1, now + 2, now + 2 + CALM_SECONDS):
        known = succeeded(known, moment - 0.5, moment)
    assert known is CALM


@pytest.mark.law
@given(STEPS, st.integers(1, 30))
def test_pause_lasts_as_long_as_the_server_asks(steps: list[tuple[str, float, int]], retry_after: int) -> None:
    known, now = lived([*steps, *[("fail", 0.01, 0)] * (MANY_FAILURES + 3)])
    assert known.pause_seconds
    now = max(now, known.next_probe)
    known = failed(sent(known, now, 0.5), now, now, float(retry_after), usual=0.01, spread=0.5)
    assert not may_send(known, 0, now + retry_after - 0.01)
    assert may_send(known, 0, now + max(retry_after, LONGEST_PAUSE_SECONDS * 1.5))


@pytest.mark.law
@given(STEPS, st.floats(0, 1))
def test_server_that_refuses_everything_is_sent_a_request_a_second(
    steps: list[tuple[str, float, int]], spread: float
) -> None:
    known, start = lived(steps)
    probes = []
    now = start = max(start, known.next_probe)
    while now < start + 20:
        if may_send(known, 0, now):
            known = failed(sent(known, now, spread), now, now, 0.0, usual=0.01, spread=spread)
            probes.append(now - start)
        now += 0.01
    # However many are sent at first, after two seconds there is one in a second at most.
    assert len([one for one in probes if one >= 2]) <= 18
    assert len([one for one in probes if one < 2]) <= MANY_FAILURES + 10


def test_pauses_between_probes_double_up_to_a_second() -> None:
    known, now, pauses = fail(CALM, MANY_FAILURES), 0.0, []
    for _ in range(6):
        pauses.append(round(known.next_probe - now, 3))
        now = known.next_probe
        known = failed(sent(known, now, 0.0), now, now, 0.0, usual=0.01, spread=0.0)
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def fail(known: Congestion, times: int, now: float = 0.0, usual: float = 0.0) -> Congestion:
    for _ in range(times):
        known = failed(known, now, now, 0.0, usual=usual, spread=0.0)
    return known


def test_few_failures_that_last_for_a_second_begin_a_pause() -> None:
    known = fail(CALM, FEW_FAILURES - 1)
    assert not known.pause_seconds
    assert not fail(known, 1, 0.5).pause_seconds
    assert fail(known, 1, 1.0).pause_seconds


def test_rejections_begin_no_pause_while_what_was_admitted_takes_its_time() -> None:
    known = fail(CALM, 3 * MANY_FAILURES, usual=0.2)
    assert not known.pause_seconds
    assert not fail(known, 1, 0.5, usual=0.2).pause_seconds
    assert fail(known, 1, 0.7, usual=0.2).pause_seconds


def test_failures_of_one_round_trip_lower_the_limit_once() -> None:
    known = fail(CALM, 10)
    assert known.limit == MOST * 0.9
    known = failed(succeeded(known, 0.0, 0.1), 0.05, 0.1, 0.0, usual=0.01, spread=0.0)
    assert known.limit == MOST * 0.9 * 0.9


def test_limit_grows_by_one_per_round_trip() -> None:
    known = failed(CALM, 0.0, 0.0, 0.0, usual=0.01, spread=0.0)
    for _ in range(int(known.limit)):
        known = succeeded(known, 0.1, 0.2)
    assert known.limit == pytest.approx(91, abs=0.01)


def test_limit_doubles_in_each_round_trip_after_a_pause() -> None:
    known = succeeded(fail(CALM, MANY_FAILURES), 1.0, 1.1)
    assert known.limit == LEAST
    for _ in range(int(LEAST)):
        known = succeeded(known, 1.2, 1.3)
    assert known.limit == 2 * LEAST


def test_answer_to_a_request_of_before_ends_no_pause() -> None:
    known = fail(CALM, MANY_FAILURES, now=1.0)
    assert succeeded(known, 0.5, 1.5) == known
    assert failed(known, 0.5, 1.5, 9.0, usual=0.01, spread=0.0) == known
    assert not succeeded(known, 1.2, 1.5).pause_seconds


def test_slow_answers_leave_room_for_others() -> None:
    known, moments = CALM, count(1)
    for _ in range(50):
        now = float(next(moments))
        known = slowed(known, now - 0.5, now)
    assert LEAST_WHEN_SLOW * 0.9 < known.limit <= LEAST_WHEN_SLOW
    assert not slowed(fail(CALM, MANY_FAILURES), 1.0, 2.0).pause_seconds


@pytest.mark.parametrize(
    ("seconds", "usual", "slow"),
    [
        pytest.param(0.9, 0.005, False, id="under-a-second"),
        pytest.param(1.5, 0.005, True, id="jump"),
        pytest.param(5.0, 1.0, False, id="webhooks-that-are-slow-as-ever"),
    ],
)
def test_answer_is_slow_beside_what_is_usual(seconds: float, usual: float, slow: bool) -> None:
    assert is_slow(seconds, usual) == slow


def test_usual_latency_follows_what_lasts() -> None:
    usual = 0.01
    for _ in range(100):
        usual = usual_seconds(usual, 5.0)
    assert is_slow(5.0, usual)
    for _ in range(10_000):
        usual = usual_seconds(usual, 5.0)
    assert not is_slow(5.0, usual)


@pytest.mark.parametrize(
    ("error", "overload"),
    [
        pytest.param(error_for(429, "", ""), True, id="busy"),
        pytest.param(error_for(503, "", ""), True, id="unavailable"),
        pytest.param(TransportError(), True, id="no-answer"),
        pytest.param(error_for(500, "", "webhook failed"), False, id="failure-of-its-own"),
        pytest.param(error_for(409, "", ""), False, id="conflict"),
        pytest.param(KcrError(), False, id="not-sent"),
    ],
)
def test_overload_is_told_from_other_errors(error: Exception, overload: bool) -> None:
    assert is_overload(error) == overload
