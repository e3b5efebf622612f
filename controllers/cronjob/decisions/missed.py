"""Runs of CronJobs that are missed: a later one is due before they were started.

An estimate, from the run that was due in an earlier pass of this process. Runs during a suspension are not missed, nor
those before a change of the spec.
"""

from collections import Counter
from datetime import datetime
from typing import NamedTuple

from kcr.api.crontab import CronError
from kcr.controllers.cronjob.decisions.explain_times import lost_run
from kcr.controllers.cronjob.decisions.plan import Facts, Plan, Start
from kcr.controllers.cronjob.decisions.schedule import MANY, NeverDueError, due, timetable_of

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
    """Return how many runs lie between two moments, up to `MANY`."""
    try:
        timetable = timetable_of(seen.cron, seen.local)
        run, count = timetable.next(start), 0
    except (CronError, NeverDueError):
        return 0
    while run is not None and run < end and count < MANY:
        run, count = timetable.next(run), count + 1
    return count
