"""Schedules drawn at random, and what they ought to do, by rules that know nothing of how the controller searches."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from random import Random
from typing import NamedTuple
from zoneinfo import ZoneInfo

from kcr.api.crontab import Fields, parse

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE, HOUR, DAY = 60, 3_600, 86_400

# Hours are whole in all of them, and no midnight is skipped.
PLAIN_ZONES = (
    "UTC", "America/New_York", "America/Los_Angeles", "America/Anchorage", "Europe/Berlin", "Europe/London",
    "Europe/Dublin", "Asia/Tokyo", "Australia/Sydney", "Pacific/Auckland", "Antarctica/Troll", "America/Chicago",
)  # fmt: skip
# Half and quarter hours, skipped midnights, skipped days, and changes at odd minutes.
ODD_ZONES = (
    "Africa/Cairo", "Africa/Casablanca", "Africa/Monrovia", "America/Asuncion", "America/Caracas",
    "America/Godthab", "America/Havana", "America/Sao_Paulo", "America/Scoresbysund", "America/St_Johns",
    "Asia/Amman", "Asia/Beirut", "Asia/Damascus", "Asia/Gaza", "Asia/Kathmandu", "Asia/Pyongyang", "Asia/Tehran",
    "Atlantic/Azores", "Australia/Lord_Howe", "Pacific/Apia", "Pacific/Chatham", "Pacific/Fakaofo",
    "Pacific/Kwajalein",
)  # fmt: skip

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class Drawn(NamedTuple):
    """A schedule as text, and what it means: the values of each field, and whether both days must match."""

    text: str
    values: tuple[frozenset[int], ...]
    both_days: bool

    def matches(self, wall: datetime) -> bool:
        minutes, hours, _, months, _ = self.values
        return wall.minute in minutes and wall.hour in hours and wall.month in months and self.is_day(wall)

    def is_day(self, wall: datetime) -> bool:
        dated, named = wall.day in self.values[2], wall.isoweekday() % 7 in self.values[4]
        return (dated and named) if self.both_days else (dated or named)


def drawn_item(random: Random, low: int, high: int, names: Sequence[str]) -> tuple[str, range, bool]:
    """One item of a field: text, values, and whether it is a star."""
    first, last = sorted((random.randint(low, high), random.randint(low, high)))
    step = random.randint(1, 12)
    shown = [names[value - low] if names and random.random() < 0.5 else str(value) for value in (first, last)]
    star = random.choice("*?")
    return random.choice([
        (star, range(low, high + 1), True),
        (f"{star}/{step}", range(low, high + 1, step), step == 1),
        (shown[0], range(first, first + 1), False),
        (shown[0], range(first, first + 1), False),
        (f"{shown[0]}/{step}", range(first, high + 1, step), False),
        (f"{shown[0]}-{shown[1]}", range(first, last + 1), False),
        (f"{shown[0]}-{shown[1]}/{step}", range(first, last + 1, step), False),
    ])  # fmt: skip


def drawn_schedule(random: Random) -> Drawn:
    spans: tuple[tuple[int, int, Sequence[str], float], ...] = (
        (0, 59, (), 0.2), (0, 23, (), 0.4), (1, 31, (), 0.6), (1, 12, MONTHS, 0.8), (0, 6, WEEKDAYS, 0.6),
    )  # fmt: skip
    texts, values, stars = [], [], []
    for low, high, names, any_value in spans:
        if random.random() < any_value:
            items = [("*", range(low, high + 1), True)]
        else:
            items = [drawn_item(random, low, high, names) for _ in range(random.choice((1, 1, 2, 3)))]
        texts.append(",".join(text for text, _, _ in items))
        values.append(frozenset(value for _, found, _ in items for value in found))
        stars.append(any(star for _, _, star in items))
    return Drawn(" ".join(texts), tuple(values), stars[2] or stars[4])


@cache
def changes(zone: str) -> tuple[datetime, ...]:
    """When the clocks of a zone change, to the hour, from 1990 to 2040; New Year's days when they never do."""
    place = ZoneInfo(zone)
    found = []
    moment, end = datetime(1990, 1, 1, tzinfo=UTC), datetime(2040, 1, 1, tzinfo=UTC)
    while moment < end:
        following = moment + timedelta(days=1)
        if moment.astimezone(place).utcoffset() != following.astimezone(place).utcoffset():
            hours = (moment + timedelta(hours=hour) for hour in range(24))
            last = max(
                hour for hour in hours if hour.astimezone(place).utcoffset() == moment.astimezone(place).utcoffset()
            )
            found.append(last)
        moment = following
    return tuple(found) or tuple(datetime(year, 1, 1, tzinfo=UTC) for year in range(1990, 2040))


def drawn_moment(random: Random, near: datetime, days: float) -> datetime:
    moment = near + timedelta(seconds=random.uniform(-days * DAY, days * DAY))
    # Mostly whole minutes and seconds, where mistakes of one would show.
    unit = random.choice((MINUTE, 1, 1e-6))
    return EPOCH + (moment - EPOCH) // timedelta(seconds=unit) * timedelta(seconds=unit)


def scanned(schedule: Drawn, zone: tzinfo, start: datetime, end: datetime) -> list[datetime]:
    """All runs in a window, by looking at every minute of it."""
    first, last = (int((moment - EPOCH).total_seconds()) for moment in (start, end))
    seconds = range(first - first % MINUTE, last, MINUTE)
    return [
        datetime.fromtimestamp(second, UTC)
        for second in seconds
        if schedule.matches(datetime.fromtimestamp(second, zone))
    ]


class Literal:
    """The search of the specification's section 9.2, word for word: one unit at a time, and nothing skipped."""

    def __init__(self, schedule: Drawn, zone: tzinfo, after: datetime) -> None:
        self.schedule = schedule
        self.zone = zone
        self.moved = False
        self.second = (after - EPOCH) // timedelta(seconds=1) + 1

    def run(self) -> datetime | None:
        limit = self.wall.year + 5
        while self.wall.year <= limit:
            if self.months() and self.days() and self.hours() and self.minutes() and self.seconds():
                return datetime.fromtimestamp(self.second, UTC)
        return None

    @property
    def wall(self) -> datetime:
        return datetime.fromtimestamp(self.second, self.zone)

    def offset(self, second: int) -> int:
        offset = datetime.fromtimestamp(second, self.zone).utcoffset()
        assert offset is not None
        return int(offset.total_seconds())

    def go(self, naive: datetime) -> None:
        reading = (naive.replace(tzinfo=UTC) - EPOCH) // timedelta(seconds=1)
        self.second = reading - self.offset(reading - self.offset(reading))

    def cut(self, **fields: int) -> None:
        if not self.moved:
            self.moved = True
            self.go(self.wall.replace(tzinfo=None, **fields))

    def months(self) -> bool:
        while self.wall.month not in self.schedule.values[3]:
            self.cut(day=1, hour=0, minute=0, second=0)
            wall = self.wall.replace(tzinfo=None)
            first = wall.replace(day=1)
            following = (first + timedelta(days=31)).replace(day=1)
            self.go(following + (wall - first))
            if self.wall.month == 1:
                return False
        return True

    def days(self) -> bool:
        while not self.schedule.is_day(self.wall):
            self.cut(hour=0, minute=0, second=0)
            before = self.second
            self.go(self.wall.replace(tzinfo=None) + timedelta(days=1))
            if self.second <= before:
                self.second = before + DAY
            hour = self.wall.hour
            self.second += ((24 - hour) if hour > 12 else -hour) * HOUR
            if self.wall.day == 1:
                return False
        return True

    def hours(self) -> bool:
        while self.wall.hour not in self.schedule.values[1]:
            self.cut(minute=0, second=0)
            self.second += HOUR
            if self.wall.hour == 0:
                return False
        return True

    def minutes(self) -> bool:
        while self.wall.minute not in self.schedule.values[0]:
            if not self.moved:
                self.moved = True
                self.second -= self.second % MINUTE
            self.second += MINUTE
            if self.wall.minute == 0:
                return False
        return True

    def seconds(self) -> bool:
        while self.wall.second != 0:
            self.moved = True
            self.second += 1
            if self.wall.second == 0:
                return False
        return True


def fields(text: str) -> Fields:
    """Parse an expression that is neither @every nor a descriptor."""
    expression = parse(text)
    assert isinstance(expression, Fields)
    return expression
