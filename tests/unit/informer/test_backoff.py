from random import Random

from kcr.informer.backoff import Backoff


class Fixed(Random):
    """A random source that always says the same."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self._value = value

    def random(self) -> float:
        return self._value


# RF-3
def test_pauses_double_up_to_half_a_minute() -> None:
    backoff = Backoff(Fixed(0.0))
    assert [backoff.pause(0.0) for _ in range(8)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]


# RF-3
def test_chance_lengthens_a_pause_at_most_twofold() -> None:
    assert Backoff(Fixed(0.5)).pause(0.0) == 0.8 * 1.5


# RF-3
def test_two_quiet_minutes_start_anew() -> None:
    backoff = Backoff(Fixed(0.0))
    assert [backoff.pause(now) for now in (0.0, 119.0, 238.0, 358.0)] == [0.8, 1.6, 3.2, 0.8]
