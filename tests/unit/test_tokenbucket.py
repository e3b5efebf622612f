import pytest

from kcr.tokenbucket import TokenBucket


def test_burst_goes_at_once_then_at_rate() -> None:
    # CL-2.
    limit = TokenBucket(5, 3)
    assert [limit.reserve(100.0) for _ in range(5)] == pytest.approx([0, 0, 0, 0.2, 0.4])


def test_bucket_fills_up_in_a_pause() -> None:
    limit = TokenBucket(5, 3)
    for _ in range(5):
        limit.reserve(0.0)
    assert [limit.reserve(60.0) for _ in range(4)] == pytest.approx([0, 0, 0, 0.2])


def test_burst_of_one_spaces_all_requests_evenly() -> None:
    limit = TokenBucket(2, 1)
    assert [limit.reserve(0.0) for _ in range(3)] == pytest.approx([0, 0.5, 1.0])


@pytest.mark.parametrize(("qps", "burst"), [(0, 1), (1, 0)])
def test_limit_that_lets_nothing_pass_is_refused(qps: float, burst: int) -> None:
    with pytest.raises(ValueError, match="token bucket"):
        TokenBucket(qps, burst)


def test_taking_never_owes_a_token() -> None:
    bucket = TokenBucket(1, 2)
    assert [bucket.take(0.0) for _ in range(4)] == [True, True, False, False]
    assert bucket.delay(0.75) == 0.25
    assert bucket.take(1.0)
    assert bucket.delay(1000.0) == 0
    assert [bucket.take(1000.0) for _ in range(3)] == [True, True, False]
