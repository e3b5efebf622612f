"""The least time between two reconciles of a key."""

from kcr.api.meta import Key
from kcr.controller.gates import MinInterval
from kcr.workqueue import WorkQueue


def test_key_has_to_wait_until_the_interval_is_over() -> None:
    interval = MinInterval(10.0, WorkQueue())
    assert [interval.delay(Key("a", "b"), now) for now in (0.0, 4.0, 10.0, 11.0)] == [0.0, 6.0, 0.0, 9.0]
    assert interval.delay(Key("a", "c"), 11.0) == 0.0


def test_keys_of_long_ago_are_not_remembered() -> None:
    interval = MinInterval(10.0, WorkQueue())
    for number in range(1000):
        interval.delay(Key("a", str(number)), float(number))
    assert len(interval) <= 20
