"""Changes of the clock (daylight saving) that skip or repeat runs of a schedule.

A schedule for all hours keeps its pace across a change, and so does `@every`. One that names hours loses the runs of a
skipped hour, and has those of a repeated hour twice (k8s#121594).
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from itertools import islice
from typing import NamedTuple
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from kcr.api.cron import next_run
from kcr.api.crontab import Fields
from kcr.api.durations import human_duration
from kcr.controllers.cronjob.decisions.schedule import Timetable

# How long before a change an explanation shows it.
NOTICE = timedelta(days=7)

_ALL_HOURS = (1 << 24) - 1
_SECOND = timedelta(seconds=1)
# No zone changes its clock twice within this time and ends with the same offset.
_STEP = timedelta(days=7)
# So many runs are named; more than so many are not counted.
_NAMED, _MOST = 3, 200


class ClockChange(NamedTuple):
    """A change of the clock: its moment, and the offsets to UTC before and after it."""

    moment: datetime
    before: timedelta
    after: timedelta


class ChangeNotice(NamedTuple):
    """A change of the clock that affects a schedule, and the description of its effect."""

    at: datetime
    text: str


def next_change(zone: tzinfo, after: datetime, until: datetime) -> ClockChange | None:
    """Return the first change of a zone's clock later than one moment and not later than another; None for none.

    Args:
        zone: The zone.
        after: Any aware moment.
        until: The end of the search.
    """
    start = after.astimezone(UTC).replace(microsecond=0)
    before = _offset(start, zone)
    while start < until:
        end = min(start + _STEP, until.astimezone(UTC))
        if _offset(end, zone) != before:
            low, high = 0, -((start - end) // _SECOND)
            # Invariant: the offset is the former one at `low` seconds, and another one at `high`.
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _offset(start + middle * _SECOND, zone) == before else (low, middle)
            moment = start + high * _SECOND
            return ClockChange(moment, before, _offset(moment, zone))
        start = end
    return None


def change_notice(timetable: Timetable, now: datetime, within: timedelta) -> ChangeNotice | None:
    """Return the next change of the clock if it skips or repeats runs; None otherwise.

    Args:
        timetable: The schedule.
        now: The present, timezone-aware.
        within: How far ahead the change may be.
    """
    fields = timetable.expression
    if not isinstance(fields, Fields) or fields.hours & _ALL_HOURS == _ALL_HOURS:
        return None
    zone = fields.zone or timetable.zone
    change = next_change(zone, now, now + within)
    if change is None:
        return None
    runs = list(islice(_affected(fields, change), _MOST))
    return ChangeNotice(change.moment, _text(zone, change, runs)) if runs else None


def time_to_notice(timetable: Timetable, now: datetime, notice: timedelta, wait: timedelta | None) -> timedelta | None:
    """Return how long until a change is to be announced, if that is before the next reconcile; else its delay.

    Args:
        timetable: The schedule.
        now: The present.
        notice: How long before the change that is.
        wait: The delay of the next reconcile; None for none, and nothing is announced then.
    """
    fields = timetable.expression
    if wait is None or not isinstance(fields, Fields):
        return wait
    change = next_change(fields.zone or timetable.zone, now + notice, now + notice + wait)
    return wait if change is None else min(wait, change.moment - notice - now)


def _affected(fields: Fields, change: ClockChange) -> Iterator[datetime]:
    """Yield the readings of the clock at which runs are skipped or repeated."""
    # A clock that has not been set forward shows the skipped hour next; one that is set back the repeated hour.
    zone = timezone(min(change.before, change.after))
    steady, end = replace(fields, zone=zone), change.moment + abs(change.after - change.before)
    run = next_run(steady, change.moment - _SECOND, zone)
    while run is not None and run < end:
        yield run.astimezone(zone)
        run = next_run(steady, run, zone)


def _text(zone: tzinfo, change: ClockChange, runs: list[datetime]) -> str:
    name = zone.key if isinstance(zone, ZoneInfo) and zone.key else "the controller's zone"
    is_forward = change.after > change.before
    where = f"{'forward' if is_forward else 'back'} by {human_duration(abs(change.after - change.before))}"
    old = change.moment.astimezone(timezone(change.before))
    named = ", ".join(f"{run:%H:%M}" for run in runs[:_NAMED])
    more = f" and {len(runs) - _NAMED} more" if len(runs) > _NAMED else ""
    which = f"the run of {named} is" if len(runs) == 1 else f"the runs of {named}{more} are"
    effect = "skipped" if is_forward else "started twice"
    return f"the clock of {name} is set {where} on {old:%Y-%m-%d at %H:%M}: {which} {effect} on that day"


def _offset(moment: datetime, zone: tzinfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()
