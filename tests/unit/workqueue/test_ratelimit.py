import pytest

from kcr.workqueue import RateLimiter


def test_delays_double_up_to_the_maximum() -> None:
    limiter = RateLimiter[str]()
    delays = [limiter.when("a") for _ in range(20)]
    assert delays[:5] == [0.005, 0.01, 0.02, 0.04, 0.08]
    assert delays[17:] == [pytest.approx(655.36), 1000, 1000]


def test_keys_fail_each_for_itself() -> None:
    limiter = RateLimiter[str](1, 60)
    assert [limiter.when("a"), limiter.when("a"), limiter.when("b")] == [1, 2, 1]


def test_forgotten_key_begins_anew() -> None:
    limiter = RateLimiter[str](1, 60)
    limiter.when("a")
    limiter.forget("a")
    assert limiter.retries("a") == 0
    assert limiter.when("a") == 1


def test_thousands_of_failures_do_not_overflow() -> None:
    limiter = RateLimiter[str]()
    assert [limiter.when("a") for _ in range(2000)][-1] == 1000
