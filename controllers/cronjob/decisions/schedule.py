"""Schedules of CronJobs: the due run, missed runs, and the time of the next reconcile."""

from datetime import datetime, timedelta, tzinfo
from enum import Enum
from typing import NamedTuple

from kcr.api.batch import CronJob
from kcr.api.cron import next_run
from kcr.api.crontab import Expression, UnknownZoneError, load_zone, parse
from kcr.controllers.cronjob.decisions.directives import offset_of

# A timer fires this much after its run is due, so that it is never early.
PADDING = timedelta(milliseconds=100)
# By so much the clocks of two machines may differ without a word: that delays one run, at most.
SKEW = timedelta(minutes=1)
# More missed runs than these are worth a warning.
MANY = 100
# Steps of a walk over missed runs, before it starts to halve the way.
WALK = 100

_SECOND = timedelta(seconds=1)


class NeverDueError(ValueError):
    """The schedule never falls due; the message is the one that users know from Kubernetes."""


class Timetable(NamedTuple):
    """A schedule, and the zone of its times unless its text names one."""

    expression: Expression
    zone: tzinfo

    def next(self, after: datetime) -> datetime | None:
        """Return the first run later than a moment, in whole seconds of UTC; None when there is none for years."""
        return next_run(self.expression, after, self.zone)


class Missed(Enum):
    """How many runs passed since the earliest one that counts, by an estimate."""

    NONE = 0
    FEW = 1
    MANY = 2


class Recent(NamedTuple):
    """The most recent run, or None; where the search for it began; and how many runs passed meanwhile."""

    earliest: datetime
    run: datetime | None
    missed: Missed


class Due(NamedTuple):
    """The run to start now, or None; and whether so many were missed that it is worth a warning."""

    run: datetime | None
    too_many: bool


def names_zone(cronjob: CronJob) -> bool:
    """Return whether the schedule itself seems to name a zone, which makes `spec.timeZone` irrelevant for when it runs.

    The API server lets no such schedule in; older objects may have one.

    Source: cronjob-controller §8.1, after kubernetes/pkg/controller/cronjob/cronjob_controllerv2.go, formatSchedule.
    """
    return "TZ" in cronjob.spec.schedule


def zone_of(cronjob: CronJob, local: tzinfo) -> tzinfo:
    """Return the zone of `spec.timeZone`, or the local one when the field is absent.

    Raises:
        UnknownZoneError: There is no such zone: nothing can be started, and the message is for the user.
    """
    name = cronjob.spec.time_zone
    if name is None:
        return local
    try:
        return load_zone(name)
    except UnknownZoneError as error:
        raise UnknownZoneError(f'invalid timeZone: "{name}": {error}') from error


def timetable_of(cronjob: CronJob, local: tzinfo) -> Timetable:
    """Return the timetable that schedule and zone make together. A zone that is unknown counts as absent.

    Raises:
        CronError: The schedule cannot be read.

    Source: cronjob-controller §8.1, after kubernetes/pkg/controller/cronjob/cronjob_controllerv2.go, formatSchedule.
    """
    schedule, name = cronjob.spec.schedule, cronjob.spec.time_zone
    if name is None or names_zone(cronjob):
        return Timetable(parse(schedule), local)
    try:
        load_zone(name)
    except UnknownZoneError:
        return Timetable(parse(schedule), local)
    return Timetable(parse(f"TZ={name} {schedule}"), local)


def due(cronjob: CronJob, timetable: Timetable, now: datetime) -> Due:
    """Return the run to start: of all that were missed within the starting deadline, the most recent one.

    Raises:
        NeverDueError: The schedule never falls due.

    Source: kubernetes/pkg/controller/cronjob/utils.go, nextScheduleTime.
    """
    # A run that starts later by its spread falls due later by as much.
    found = recent(cronjob, timetable, now - offset_of(cronjob), use_deadline=True)
    return Due(found.run, found.run is not None and found.missed is Missed.MANY)


def is_ahead(cronjob: CronJob, now: datetime) -> bool:
    """Return whether the last run lies in the future, so that nothing is started until the clock has passed it.

    A clock was wrong when it was put on record, or is now. Upstream says nothing.
    """
    last = cronjob.status.last_schedule_time
    return last is not None and last - now > SKEW


def requeue_delay(cronjob: CronJob, timetable: Timetable, now: datetime) -> timedelta | None:
    """Return the delay until the next reconcile, shortly after the next run.

    To be asked after `status.lastScheduleTime` has moved on. The starting deadline does not matter here.

    Returns:
        Zero or less means at once; None that no run is ahead.

    Source: kubernetes/pkg/controller/cronjob/cronjob_controllerv2.go, nextScheduleTimeDuration.
    """
    now -= offset_of(cronjob)
    try:
        found = recent(cronjob, timetable, now, use_deadline=False)
    except NeverDueError:
        base = now
    else:
        base = found.run or (found.earliest if found.missed is Missed.NONE else now)
    following = timetable.next(base)
    return None if following is None else following + PADDING - now


def recent(cronjob: CronJob, timetable: Timetable, now: datetime, *, use_deadline: bool) -> Recent:
    """Return the most recent run that is not in the future.

    The number of missed runs is estimated from the distance of the first two, and the search begins two such
    distances back. So uneven schedules may lose their most recent run, as they do upstream: `* 9-17 * * *`,
    last run 09:05, starts nothing at 20:00.

    Raises:
        NeverDueError: The schedule has no two runs to take the distance of.

    Source: kubernetes/pkg/controller/cronjob/utils.go, mostRecentScheduleTime.
    """
    earliest = _earliest(cronjob, now, use_deadline=use_deadline)
    first = timetable.next(earliest)
    if first is not None and now < first:
        return Recent(earliest, None, Missed.NONE)
    second = first and timetable.next(first)
    if first is None or second is None or (gap := second - first) < _SECOND:
        raise NeverDueError("time difference between two schedules is less than 1 second")
    if now < second:
        return Recent(earliest, first, Missed.NONE)
    passed = (now - first) // gap + 1
    run, _ = last_run(timetable, first + (passed - 2) * gap, now)
    return Recent(earliest, run, Missed.MANY if passed > MANY else Missed.FEW)


def last_run(timetable: Timetable, start: datetime, now: datetime) -> tuple[datetime | None, int]:
    """Return the last run later than `start` and not later than `now`, and how many runs were computed for it.

    Where runs crowd behind a long pause (`* * * 1-2 *`) there may be a hundred thousand of them, so after a while
    the way is halved instead of walked. Delays (`@every`), which depend on where one starts, are walked always:
    the start is at most two of them back.
    """
    found: datetime | None = None
    run = timetable.next(start)
    steps = 1
    while run is not None and run <= now and steps < WALK:
        found, run = run, timetable.next(run)
        steps += 1
    if run is None or now < run:
        return found, steps
    found, end = run, now
    while end - found >= _SECOND:
        middle = found + (end - found) / 2
        run = timetable.next(middle)
        steps += 1
        if run is None or now < run:
            end = middle
        else:
            found = run
    return found, steps


def _earliest(cronjob: CronJob, now: datetime, *, use_deadline: bool) -> datetime:
    # A CronJob that is not created yet has missed no run.
    earliest = cronjob.status.last_schedule_time or cronjob.metadata.creation_timestamp or now
    deadline = cronjob.spec.starting_deadline_seconds
    if use_deadline and deadline is not None and (now - earliest) // _SECOND >= deadline:
        return now - timedelta(seconds=deadline)
    return earliest
