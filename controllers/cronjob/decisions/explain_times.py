"""The moments that an explanation of a CronJob names: the next run, a run that was lost, and how they are shown."""

from datetime import datetime
from zoneinfo import ZoneInfo

from kcr.api.crontab import CronError, UnknownZoneError
from kcr.controllers.cronjob.decisions.clock_changes import NOTICE, ChangeNotice, change_notice
from kcr.controllers.cronjob.decisions.decide import next_run_delay
from kcr.controllers.cronjob.decisions.directives import directives_of, offset_of
from kcr.controllers.cronjob.decisions.plan import Facts
from kcr.controllers.cronjob.decisions.schedule import PADDING, NeverDueError, recent, timetable_of, zone_of


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
