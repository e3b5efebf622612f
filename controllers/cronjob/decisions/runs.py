"""Runs of CronJobs: the next one, one that was lost, those that are missed, and how their moments are shown.

A run is missed when a later one is due before it was started. That is an estimate, from the run that was due in an
earlier pass of this process. Runs during a suspension are not missed, nor those before a change of the spec.
"""

from collections import Counter
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from kcr.api.crontab import CronError, UnknownZoneError
from kcr.controllers.cronjob.decisions.clock_changes import NOTICE, ChangeNotice, change_notice
from kcr.controllers.cronjob.decisions.decide import next_run_delay
from kcr.controllers.cronjob.decisions.directives import directives_of, offset_of
from kcr.controllers.cronjob.decisions.plan import Facts, Plan, Start
from kcr.controllers.cronjob.decisions.schedule import MANY, PADDING, NeverDueError, due, recent, timetable_of, zone_of

# Why a run is missed: its Job could not be created; an earlier one runs and the policy is Forbid; its starting deadline
# was over; no controller ran in time.
NOT_CREATED, FORBID, DEADLINE, NOT_RUNNING = "not_created", "forbid", "deadline", "not_running"
CAUSES = (NOT_CREATED, FORBID, DEADLINE, NOT_RUNNING)
_SUSPENDED = "suspended"


class DueRun(NamedTuple):
    """The run that was due in a pass.

    Attributes:
        run: The moment it was scheduled for; of a suspended CronJob that of the pass.
        cause: Why it is missed, if a later one is due before it is started.
        generation: That of the CronJob.
    """

    run: datetime
    cause: str
    generation: int | None


def next_run_of(seen: Facts) -> datetime | None:
    """Return when the next run is due; None for never.

    Args:
        seen: The snapshot that a reconcile would read.
    """
    left = next_run_delay(seen.cron, seen.local, seen.now)
    return seen.now + left - PADDING if left is not None else None


def lost_run(seen: Facts) -> datetime | None:
    """Return the most recent run if it was not started and will not be, for its starting deadline is over.

    Args:
        seen: The snapshot that a reconcile would read, of a CronJob without a run that is due.
    """
    cron = seen.cron
    if cron.spec.starting_deadline_seconds is None:
        return None
    try:
        run = recent(cron, timetable_of(cron, seen.local), seen.now - offset_of(cron), use_deadline=False).run
    except (CronError, NeverDueError):
        return None
    last = cron.status.last_schedule_time
    return run if run is not None and (last is None or run > last) else None


def clock_change_of(seen: Facts) -> ChangeNotice | None:
    """Return the next change of the clock if it skips or repeats runs of the schedule; None for none that is near.

    Args:
        seen: The snapshot that a reconcile would read.
    """
    try:
        timetable = timetable_of(seen.cron, seen.local)
    except CronError:
        return None
    return change_notice(timetable, seen.now, max(NOTICE, directives_of(seen.cron).notice or NOTICE))


def moment_text(moment: datetime, seen: Facts) -> str:
    """Return a moment in the time zone of a CronJob, with the zone: `2026-11-23 03:30 Europe/Berlin`.

    Args:
        moment: A run.
        seen: The snapshot; its own zone is used where the CronJob names none, or one that is unknown.
    """
    try:
        zone = zone_of(seen.cron, seen.local)
    except UnknownZoneError:
        zone = seen.local
    local = moment.astimezone(zone)
    seconds = f":{local:%S}" if local.second else ""
    return f"{local:%Y-%m-%d %H:%M}{seconds} {zone.key if isinstance(zone, ZoneInfo) else local.tzname()}"


def due_run(seen: Facts, plan: Plan) -> DueRun | None:
    """Return the run that is due, with the cause if it is missed; None when none is."""
    cron = seen.cron
    if cron.spec.suspend:
        return DueRun(seen.now, _SUSPENDED, cron.metadata.generation)
    run, cause = None, FORBID
    if isinstance(plan.work, Start):
        run, cause = plan.work.run, NOT_CREATED
    elif any(one.reason == "JobAlreadyActive" for one in plan.announcements):
        run = due(cron, timetable_of(cron, seen.local), seen.now).run
    else:
        run, cause = lost_run(seen), DEADLINE
    return None if run is None else DueRun(run, cause, cron.metadata.generation)


def missed_runs(seen: Facts, before: DueRun | None, found: DueRun) -> dict[str, int]:
    """Return the number of runs that are missed by now, by cause, since another one is due.

    Args:
        seen: The facts that the pass has read.
        before: The run that was due before; None when that is not known.
        found: The run that is due now.
    """
    if found.cause == _SUSPENDED:
        return {}
    if before is not None and (found.run <= before.run or found.generation != before.generation):
        return {}
    cron, counts = seen.cron, Counter[str]()
    last = cron.status.last_schedule_time or cron.metadata.creation_timestamp or seen.now
    if before is not None and before.run > last and before.cause in (NOT_CREATED, FORBID):
        counts[before.cause] += 1
    is_lost = found.cause == DEADLINE
    counts[DEADLINE] += is_lost
    start = last if before is None else max(last, before.run)
    counts[DEADLINE if is_lost else NOT_RUNNING] += _between(seen, start, found.run)
    return {cause: count for cause, count in counts.items() if count}


def _between(seen: Facts, start: datetime, end: datetime) -> int:
    try:
        timetable = timetable_of(seen.cron, seen.local)
        run, count = timetable.next(start), 0
    except (CronError, NeverDueError):
        return 0
    while run is not None and run < end and count < MANY:
        run, count = timetable.next(run), count + 1
    return count
