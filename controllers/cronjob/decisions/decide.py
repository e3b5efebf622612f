"""The decision of a reconcile: from the facts about a CronJob to a plan."""

from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo

from msgspec.structs import replace

from kcr.api.batch import CronJob
from kcr.api.crontab import CronError, UnknownZoneError
from kcr.controllers.cronjob.decisions import clock_changes
from kcr.controllers.cronjob.decisions.directives import directives_of, offset_of
from kcr.controllers.cronjob.decisions.jobs import job_name, job_of
from kcr.controllers.cronjob.decisions.plan import Announcement, Facts, NoOp, Plan, Start, Work
from kcr.controllers.cronjob.decisions.schedule import (
    NeverDueError,
    Timetable,
    due,
    is_ahead,
    names_zone,
    requeue_delay,
    timetable_of,
    zone_of,
)
from kcr.controllers.cronjob.decisions.status import drop_ended

Step = tuple[Work, tuple[Announcement, ...]]


def decide(seen: Facts) -> Plan:
    """Return the plan for a CronJob.

    Source: kubernetes/pkg/controller/cronjob/cronjob_controllerv2.go, syncCronJob.
    """
    # First the list: whether a run may start depends on the Jobs that are still active.
    status, noticed = drop_ended(seen)
    seen = replace(seen, cron=replace(seen.cron, status=status))
    work, events = _schedule(seen)
    notice = directives_of(seen.cron).notice
    plan = Plan(work=work, status=status, announcements=(*noticed, *events))
    return plan if notice is None else _with_notice(seen, plan, notice)


def next_run_delay(cron: CronJob, local: tzinfo, now: datetime) -> timedelta | None:
    """Return when the next run is due, whatever becomes of this one; None for never.

    For a start whose name is taken by another's Job, and for whatever has failed: upstream forgets the CronJob in the
    one case until it changes, and in the other lets all runs be missed that fall into the back-off.
    """
    try:
        timetable = timetable_of(cron, local)
    except CronError:
        return None
    return requeue_delay(cron, timetable, now)


def _with_notice(seen: Facts, plan: Plan, notice: timedelta) -> Plan:
    """Return the plan with the change of the clock to be announced, and a reconcile when the next one is to be."""
    work = plan.work
    if isinstance(work, NoOp) and work.requeue_after is None:
        # Suspended, deleted or never due.
        return plan
    timetable = timetable_of(seen.cron, seen.local)
    if isinstance(work, NoOp):
        work = NoOp(clock_changes.time_to_notice(timetable, seen.now, notice, work.requeue_after))
    return replace(plan, work=work, clock_change=clock_changes.change_notice(timetable, seen.now, notice))


def _schedule(seen: Facts) -> Step:
    """Check the conditions that prevent all runs, and parse the schedule."""
    spec = seen.cron.spec
    if seen.cron.metadata.deletion_timestamp is not None:
        return NoOp(), ()
    try:
        zone_of(seen.cron, seen.local)
    except UnknownZoneError as error:
        return NoOp(), _warned("UnknownTimeZone", str(error))
    if spec.suspend:
        return NoOp(), ()
    warned = _warned("UnsupportedSchedule", _UNSUPPORTED.format(spec.schedule)) if names_zone(seen.cron) else ()
    try:
        timetable = timetable_of(seen.cron, seen.local)
    except CronError as error:
        warning = _warned("UnparseableSchedule", f'unparseable schedule: "{spec.schedule}" : {error}')
        return NoOp(), (*warned, *warning)
    work, events = _run(seen, timetable)
    return work, (*warned, *events)


def _run(seen: Facts, timetable: Timetable) -> Step:
    """Start the due run, unless a condition prevents it."""
    try:
        # The latest run that is due; earlier ones that were missed are not made up for.
        run, too_many = due(seen.cron, timetable, seen.now)
    except NeverDueError as error:
        return NoOp(), _warned("InvalidSchedule", f"invalid schedule: {seen.cron.spec.schedule} : {error}")
    if run is None:
        return NoOp(requeue_delay(seen.cron, timetable, seen.now)), _clock_warning(seen)
    events = _warned("TooManyMissedTimes", _TOO_MANY) if too_many else ()
    for rule in SKIP_RULES:
        reasons = rule(seen, run)
        if reasons is not None:
            return NoOp(requeue_delay(seen.cron, timetable, seen.now)), (*events, *reasons)
    # The annotation is in UTC without `spec.timeZone`, whatever the zone of the schedule.
    zone = zone_of(seen.cron, seen.local) if seen.cron.spec.time_zone is not None else None
    replaces = seen.cron.status.active if seen.cron.spec.concurrency_policy == "Replace" else ()
    return Start(run=run, job=job_of(seen.cron, run, zone), replaces=replaces), events


def _clock_warning(seen: Facts) -> tuple[Announcement, ...]:
    last = seen.cron.status.last_schedule_time
    return _warned(FUTURE_RUN, _IN_FUTURE.format(last)) if last is not None and is_ahead(seen.cron, seen.now) else ()


def too_late(seen: Facts, run: datetime) -> tuple[Announcement, ...] | None:
    """The starting deadline has passed. `due` looks no further back than that, so this is a second lock."""
    seconds = seen.cron.spec.starting_deadline_seconds
    if seconds is None or (seen.now - offset_of(seen.cron) - run).total_seconds() <= seconds:
        return None
    return _warned("MissSchedule", f"Missed scheduled time to start a job: {run:%a, %d %b %Y %H:%M:%S %z}")


def already_started(seen: Facts, run: datetime) -> tuple[Announcement, ...] | None:
    """The run was started before. Runs of the same minute share a name, and are one."""
    name = job_name(seen.cron, run)
    status = seen.cron.status
    known = status.last_schedule_time == run or any(listed.name == name for listed in status.active)
    return () if known else None


def forbidden(seen: Facts, _: datetime) -> tuple[Announcement, ...] | None:
    """Another run is under way, and `concurrencyPolicy` is Forbid. The run is not lost: it is due until a later one."""
    if seen.cron.spec.concurrency_policy != "Forbid" or not seen.cron.status.active:
        return None
    message = "Not starting job because prior execution is running and concurrency policy is Forbid"
    return (Announcement("Normal", "JobAlreadyActive", message),)


SkipRule = Callable[[Facts, datetime], tuple[Announcement, ...] | None]

# Why a run that is due is not started: the events that say so, or None where nothing speaks against it. The first
# to object decides, so order is contract.
SKIP_RULES: tuple[SkipRule, ...] = (too_late, already_started, forbidden)

# The reason of the event about a last run in the future.
FUTURE_RUN = "LastScheduleTimeInFuture"
_IN_FUTURE = (
    "The last run is on record for {:%Y-%m-%dT%H:%M:%SZ}, which lies in the future: no run is started before a later "
    "one is due. A clock was set back, or was wrong then: set the clock of the controller right, or remove "
    "status.lastScheduleTime"
)
_UNSUPPORTED = (
    'CRON_TZ or TZ used in schedule "{}" is not officially supported, '
    "see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
)
_TOO_MANY = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"


def _warned(reason: str, message: str) -> tuple[Announcement, ...]:
    return (Announcement("Warning", reason, message),)
