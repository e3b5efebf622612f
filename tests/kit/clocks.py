"""Clocks that a test sets."""

from datetime import UTC, datetime, timedelta

from kcr.clock import Clock


class FixedClock:
    """A clock that stands still until it is set."""

    def __init__(self, moment: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment

    def boottime(self) -> float:
        return self.moment.timestamp()

    def later(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


class ShiftedClock:
    """A clock that a test sets forward or back while it runs, or suspends."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.by = timedelta()
        # Seconds for which the machine was suspended, while the loop's time stood still.
        self.suspended = 0.0

    def now(self) -> datetime:
        return self._clock.now() + self.by

    def boottime(self) -> float:
        return self._clock.boottime() + self.suspended
