"""When a schedule next falls due: five fields compared with the wall clock of a zone, or a fixed delay.

Moments are counted in whole seconds of UTC, and read in a zone only to compare them with the fields: Python's own
arithmetic on aware datetimes moves the hands of the wall clock, not time.
"""

from datetime import MAXYEAR, UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple

from kcr.api.crontab import Expression, Fields

# Years after which a search gives up, counted from the year it starts in.
HORIZON = 5
# No schedule needs half as many moves of the hands within the horizon; one that needs more never falls due.
MOST_STEPS = 2_000

MINUTE, HOUR, DAY = 60, 3_600, 86_400

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = _EPOCH.toordinal()
_SECOND = timedelta(seconds=1)
# The range of datetime, less the offset that a zone may add or take away.
_EARLIEST = (datetime(2, 1, 1, tzinfo=UTC) - _EPOCH) // _SECOND
_LATEST = (datetime(MAXYEAR, 12, 30, tzinfo=UTC) - _EPOCH) // _SECOND


def next_run(expression: Expression, after: datetime, zone: tzinfo) -> datetime | None:
    """Return the first moment later than another one at which a schedule falls due.

    Args:
        expression: The parsed schedule.
        after: Any aware moment.
        zone: Where the clock hangs that the fields are compared with, unless the text names a zone.

    Returns:
        Whole seconds, UTC; None when nothing matches until the end of the fifth year to come.
    """
    if isinstance(expression, Fields):
        return _found(expression, (after - _EPOCH) // _SECOND, expression.zone or zone)
    start = after.astimezone(UTC).replace(microsecond=0)
    return start + expression.delay if expression.delay < datetime.max.replace(tzinfo=UTC) - start else None


# Every pass over a CronJob repeats the same search, and so do all CronJobs with the same schedule.
@lru_cache(16_384)
def _found(fields: Fields, second: int, zone: tzinfo) -> datetime | None:
    return search(fields, _EPOCH + timedelta(seconds=second), zone).moment


class Found(NamedTuple):
    """The result of a search, and its number of steps. None: no time within the horizon."""

    moment: datetime | None
    steps: int


def search(fields: Fields, after: datetime, zone: tzinfo) -> Found:
    """Return the first moment later than `after` that matches the fields on a clock of the zone.

    Readings that a change of the clocks skips do not happen, and those it repeats happen twice. Where midnight is
    skipped, schedules restricted to some days may lose that day, as they do upstream; and when it is the first of a
    month, those restricted to some months may lose nearly all of it. A day that is missing whole is stepped over,
    where upstream never ends.

    Source: cronjob-controller §9.2, after github.com/robfig/cron, SpecSchedule.Next.
    """
    hands = _Hands(zone, min(max((after - _EPOCH) // _SECOND + 1, _EARLIEST), _LATEST))
    limit = min(hands.wall.year + HORIZON, MAXYEAR - 1)
    if fields.is_never():
        return Found(None, hands.steps)
    try:
        while hands.wall.year <= limit:
            if (
                hands.reach_month(fields)
                and hands.reach_day(fields)
                and hands.reach_hour(fields)
                and hands.reach_minute(fields)
                and hands.reach_full_minute()
            ):
                return Found(_EPOCH + timedelta(seconds=hands.seconds), hands.steps)
    except _EndlessError:
        pass
    return Found(None, hands.steps)


class _EndlessError(Exception):
    """The hands have moved too often."""


class _Hands:
    """The hands of a clock in a zone: a moment that is moved, and how the clock reads then.

    Each `reach_…` moves on to a value that matches. False means that a larger unit has changed meanwhile, so that
    all of them are to be matched again.
    """

    __slots__ = ("moved", "seconds", "steps", "wall", "zone")

    def __init__(self, zone: tzinfo, seconds: int) -> None:
        self.zone = zone
        self.steps = 0
        # Whether the smaller units are at their beginning already.
        self.moved = False
        self._move_to(seconds)

    def reach_month(self, fields: Fields) -> bool:
        while not fields.months >> self.wall.month & 1:
            if not self.moved:
                self._cut(self.wall.replace(day=1, hour=0, minute=0, second=0))
            self._move_to(self._next_month())
            if self.wall.month == 1:
                return False
        return True

    def reach_day(self, fields: Fields) -> bool:
        while not fields.is_day(self.wall):
            if not self.moved:
                self._cut(self.wall.replace(hour=0, minute=0, second=0))
            before = self.seconds
            self._move_to(_moment(self.wall.toordinal() + 1, self.wall, self.zone))
            if hour := self.wall.hour:  # this day has no midnight
                self._move_to(self.seconds + (24 - hour if hour > 12 else -hour) * HOUR)
            if self.seconds <= before:  # there is no such day at all
                self._move_to(before + DAY)
            if self.wall.day == 1:
                return False
        return True

    def reach_hour(self, fields: Fields) -> bool:
        while not fields.hours >> self.wall.hour & 1:
            if not self.moved:
                self._cut(self.wall.replace(minute=0, second=0))
            self._move_by(_distance(fields.hours, self.wall.hour, 24), HOUR)
            if self.wall.hour == 0:
                return False
        return True

    def reach_minute(self, fields: Fields) -> bool:
        while not fields.minutes >> self.wall.minute & 1:
            if not self.moved:
                self.moved = True
                self._move_to(self.seconds - self.seconds % MINUTE)
            self._move_by(_distance(fields.minutes, self.wall.minute, 60), MINUTE)
            if self.wall.minute == 0:
                return False
        return True

    def reach_full_minute(self) -> bool:
        if self.wall.second == 0:
            return True
        self.moved = True
        self._move_to(self.seconds + MINUTE - self.wall.second)
        return False

    def _move_to(self, seconds: int) -> None:
        if self.steps == MOST_STEPS:
            raise _EndlessError
        self.steps += 1
        self.seconds = seconds
        self.wall = datetime.fromtimestamp(seconds, self.zone)

    def _move_by(self, count: int, unit: int) -> None:
        """Move that many units ahead; but only one when the clocks change on the way, to miss no reading."""
        offset = self.wall.utcoffset()
        start = self.seconds
        self._move_to(start + count * unit)
        if count > 1 and self.wall.utcoffset() != offset:
            self._move_to(start + unit)

    def _cut(self, wall: datetime) -> None:
        self.moved = True
        self._move_to(_moment(wall.toordinal(), wall, self.zone))

    def _next_month(self) -> int:
        wall = self.wall
        year, month = (wall.year, wall.month + 1) if wall.month < 12 else (wall.year + 1, 1)
        return _moment(date(year, month, 1).toordinal() + wall.day - 1, wall, self.zone)


def _distance(bits: int, value: int, end: int) -> int:
    """Return how far it is from a value to the next larger one in the set, or to the end when there is none."""
    larger = bits >> value + 1
    return (larger & -larger).bit_length() if larger else end - value


def _moment(day: int, wall: datetime, zone: tzinfo) -> int:
    """Return when a clock in the zone shows that day and the time of that reading, in seconds of UTC.

    The result for readings that never happen, or happen twice, is contract: the searches depend on it.
    """
    reading = (day - _EPOCH_DAY) * DAY + wall.hour * HOUR + wall.minute * MINUTE + wall.second
    return reading - _offset(reading - _offset(reading, zone), zone)


def _offset(seconds: int, zone: tzinfo) -> int:
    offset = datetime.fromtimestamp(seconds, zone).utcoffset()
    return offset // _SECOND if offset else 0
