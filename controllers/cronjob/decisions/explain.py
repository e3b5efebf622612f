"""Why a CronJob is where it is, and when it runs next: the words for a decision."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from kcr.api.batch import CronJob, Job, finished_type
from kcr.api.conditions import find_condition
from kcr.api.core import Event
from kcr.api.durations import human_duration
from kcr.api.explanation import Code, Explanation, Step, ago, counted, in_time, ordered
from kcr.controllers.cronjob.decisions.decide import FUTURE_RUN, decide
from kcr.controllers.cronjob.decisions.directives import directives_of, offset_of
from kcr.controllers.cronjob.decisions.plan import Facts, Plan, Start
from kcr.controllers.cronjob.decisions.runs import clock_change_of, lost_run, moment_text, next_run_of
from kcr.controllers.cronjob.decisions.schedule import is_ahead
from kcr.refusals import refusal_of

# So many Jobs are named; of the others the count says enough.
_NAMED = 3
# How long a controller may take before its silence is worth a remark.
_PATIENCE = timedelta(seconds=10)
_CHANGE = "correct spec.jobTemplate to one"
_CONTROLLER = "see whether its controller runs: kube-controller-manager, or kcr run --controllers cronjob --take-over"
_SKEW = "see whether its controller was down or a clock is wrong; startingDeadlineSeconds limits the look back"
# Reasons of events that the explanation shows in another place.
_TOLD_OTHERWISE = ("SawCompletedJob", FUTURE_RUN)
# Obstacles of a schedule by the reason of their event: the headline and the remedy.
_STOPS: Mapping[str, tuple[str, str]] = {
    "UnparseableSchedule": (
        "never runs: its schedule cannot be parsed",
        "correct spec.schedule: five fields, such as */5 * * * *",
    ),
    "InvalidSchedule": (
        "never runs: no time fits its schedule", "correct spec.schedule to times that there are, such as 0 0 28 2 *",
    ),
    "JobAlreadyActive": (
        "skips the run that is due: another one runs (concurrencyPolicy Forbid)",
        "shorten the run, lengthen the schedule, or set concurrencyPolicy to Allow or Replace",
    ),
    "MissSchedule": ("has missed a run: its startingDeadlineSeconds is over", "set a longer startingDeadlineSeconds"),
}  # fmt: skip


class CronJobEvidence(NamedTuple):
    """Facts about a CronJob beyond the inputs of its reconcile.

    Attributes:
        events: Those about it, the latest last.
        zone: The time zone of schedules that name none, as a controller knows; empty when it is not known.
        pending: Writes of the controller itself that are unconfirmed or unrecorded.
        zones: The sources of time zones on this machine, and their versions; empty when they are not known.
        is_own: Whether this machine is the controller's.
    """

    events: tuple[Event, ...] = ()
    zone: str = ""
    pending: tuple[str, ...] = ()
    zones: str = ""
    is_own: bool = False


NOTHING = CronJobEvidence()


def explain(seen: Facts, known: CronJobEvidence = NOTHING) -> Explanation:
    """Return why a CronJob is where it is, from the decision that a reconcile would make now.

    Args:
        seen: The snapshot that a reconcile would read.
        known: All other evidence.
    """
    plan = decide(seen)
    failed = _latest_failure(seen.jobs)
    found = _situation(seen, plan, known, failed)
    remedies = (*found.remedies, *_stuck_run(seen, plan))
    if failed is not None:
        remedies += (f"see why it failed: kcr explain -n {failed.metadata.namespace} job/{failed.metadata.name}",)
    return replace(
        found,
        steps=_next(seen, plan, _refused(known.events) is not None),
        reasons=(
            *found.reasons,
            *_announced(plan),
            *_failure(failed, seen.now),
            *directives_of(seen.cron).faults,
            *known.pending,
        ),
        remedies=remedies,
        wanted=_wanted(seen.cron, known),
        present=_present(seen, plan),
    )


def _situation(seen: Facts, plan: Plan, known: CronJobEvidence, failed: Job | None) -> Explanation:
    cron = seen.cron
    if cron.metadata.deletion_timestamp is not None:
        held = ", ".join(cron.metadata.finalizers)
        facts = (f"it stays until its finalizers are removed: {held}",) if held else ()
        return Explanation(Code.TERMINATING, "is being deleted", reasons=tuple(facts))
    if (stopped := _stopped(plan, known)) is not None:
        return stopped
    if cron.spec.suspend:
        name, namespace = cron.metadata.name, cron.metadata.namespace
        patch = f'kubectl -n {namespace} patch cronjob {name} -p \'{{"spec":{{"suspend":false}}}}\''
        return Explanation(Code.WAITING, "suspended", (), ("spec.suspend is true",), (f"to resume it: {patch}",))
    if isinstance(plan.work, Start):
        return _due(seen, plan, plan.work, known.events)
    following = next_run_of(seen)
    if following is None:
        return Explanation(Code.WAITING, "never runs again: no time fits its schedule")
    headline = f"runs next in {human_duration(following - seen.now)}, at {moment_text(following, seen)}"
    if (lost := lost_run(seen)) is not None:
        limit = f"startingDeadlineSeconds ({cron.spec.starting_deadline_seconds}) was over before it was started"
        fact = f"the run of {moment_text(lost, seen)} was missed: {limit}"
        remedies = ("set a longer startingDeadlineSeconds", _CONTROLLER)
        return Explanation(Code.WAITING, f"{headline}; has missed a run", reasons=(fact,), remedies=tuple(remedies))
    if (ahead := _ahead(seen)) is not None:
        return _set_back(seen, ahead, headline)
    return Explanation(Code.WAITING, f"{headline}; its latest Job failed" if failed is not None else headline)


def _stopped(plan: Plan, known: CronJobEvidence) -> Explanation | None:
    if _has_unknown_zone(plan):
        return _unknown_zone(known)
    told = next((one for one in plan.announcements if one.reason in _STOPS), None)
    if told is None:
        return None
    headline, remedy = _STOPS[told.reason]
    return Explanation(Code.WAITING, headline, remedies=(remedy,))


def _has_unknown_zone(plan: Plan) -> bool:
    return any(one.reason == "UnknownTimeZone" for one in plan.announcements)


def _unknown_zone(known: CronJobEvidence) -> Explanation:
    is_stopped = known.is_own or any(event.reason == "UnknownTimeZone" for event in known.events)
    headline = (
        "never runs: its controller does not know its time zone"
        if is_stopped
        else "next run unknown: this machine does not know its time zone"
    )
    facts = (f"the time zones of this machine are from {known.zones}",) if known.zones else ()
    where = "this machine" if known.is_own or not is_stopped else "the controller's machine"
    after = ", and start the controller again" if is_stopped else ", and ask again"
    remedies = (
        f"update the time zones of {where}, the system's package tzdata or pip install --upgrade tzdata{after}",
        "or set spec.timeZone to a name that it has, such as Europe/Berlin",
    )
    return Explanation(Code.WAITING, headline, reasons=facts, remedies=remedies)


def _ahead(seen: Facts) -> datetime | None:
    """Return the time of the last run when it lies in the future; None otherwise."""
    last = seen.cron.status.last_schedule_time
    return last if is_ahead(seen.cron, seen.now) else None


def _set_back(seen: Facts, last: datetime, headline: str) -> Explanation:
    """Return that the last run lies in the future, and that no run is due before it."""
    metadata = seen.cron.metadata
    fact = (
        f"status.lastScheduleTime is {moment_text(last, seen)}, {in_time(last, seen.now)}: a clock was set back since, "
        "or was ahead then; no run is due before that time"
    )
    patch = '{"status":{"lastScheduleTime":null}}'
    command = f"kubectl -n {metadata.namespace} patch cronjob {metadata.name} --subresource=status"
    remedies = (
        "see whether the clock of its controller is right, and that of this machine",
        f"if they are, to have it run before that time: {command} -p '{patch}'",
    )
    return Explanation(Code.NOT_READY, f"{headline}: its last run lies in the future", (), (fact,), tuple(remedies))


def _due(seen: Facts, plan: Plan, start: Start, events: Sequence[Event]) -> Explanation:
    namespace = seen.cron.metadata.namespace
    last = _refused(events)
    if last is not None:
        found = refusal_of(last.message, namespace=namespace, resource="jobs", change=_CHANGE, plugin="cronjob")
        return Explanation(
            Code.REFUSED,
            f"cannot create Jobs: {found.cause}",
            reasons=(f"{ago(last.last_seen, seen.now)}: {last.message}",),
            remedies=(found.remedy,),
            webhook=found.webhook,
        )
    if any(one.reason == "TooManyMissedTimes" for one in plan.announcements):
        return Explanation(Code.WAITING, "has missed more than 100 runs: only the latest is started", remedies=(_SKEW,))
    late = seen.now - start.run - offset_of(seen.cron)
    if late < _PATIENCE:
        return Explanation(Code.CREATING, f"starts Job {start.job.metadata.name} now")
    return Explanation(Code.CREATING, f"has been due for {human_duration(late)}", remedies=(_CONTROLLER,))


def _refused(events: Sequence[Event]) -> Event | None:
    """Return the event that says why the latest Job was not created; None when it was."""
    tries = [event for event in events if event.reason in ("FailedCreate", "SuccessfulCreate")]
    return tries[-1] if tries and tries[-1].reason == "FailedCreate" else None


def _announced(plan: Plan) -> tuple[str, ...]:
    """Return the events that a reconcile would record.

    But for the ends of Jobs, of which there are events already, and a last run in the future, which has its own case.
    """
    return tuple(f"{one.reason}: {one.message}" for one in plan.announcements if one.reason not in _TOLD_OTHERWISE)


def _stuck_run(seen: Facts, plan: Plan) -> tuple[str, ...]:
    if seen.cron.spec.concurrency_policy != "Forbid" or not plan.status.active:
        return ()
    if not any(one.reason == "JobAlreadyActive" for one in plan.announcements):
        return ()
    name, namespace = plan.status.active[0].name, seen.cron.metadata.namespace
    return (f"see what the run waits for: kcr explain -n {namespace} job/{name}",)


def _latest_failure(jobs: Sequence[Job]) -> Job | None:
    latest = max(jobs, key=lambda job: (str(job.metadata.creation_timestamp), job.metadata.name), default=None)
    return latest if latest is not None and finished_type(latest) == "Failed" else None


def _failure(job: Job | None, now: datetime) -> tuple[str, ...]:
    condition = find_condition(job.status.conditions, "Failed") if job is not None else None
    if job is None or condition is None:
        return ()
    why = ": ".join(filter(None, (condition.reason, condition.message)))
    return (f"its latest Job, {job.metadata.name}, failed {ago(condition.last_transition_time, now)}: {why}",)


def _next(seen: Facts, plan: Plan, is_refused: bool) -> tuple[Step, ...]:
    cron, steps = seen.cron, []
    if cron.metadata.deletion_timestamp is not None:
        return ()
    if cron.spec.suspend:
        return _when_resumed(seen)
    if _has_unknown_zone(plan):
        return ()
    if isinstance(plan.work, Start):
        names = ", ".join(one.name for one in plan.work.replaces)
        steps += [Step(f"deletes {names}, which it replaces", seen.now)] if names else []
        due = moment_text(plan.work.run, seen)
        name = plan.work.job.metadata.name
        again = Step(f"tries again to create Job {name}, due at {due}, each time after a longer wait")
        steps.append(again if is_refused else Step(f"starts Job {name}, due at {due}", seen.now))
    following = next_run_of(seen)
    if following is not None:
        change = clock_change_of(seen)
        ahead = [Step(change.text, change.at)] if change is not None else []
        steps += ordered([Step(_start_text(cron, plan), following), *ahead])
    return tuple(steps)


def _start_text(cron: CronJob, plan: Plan) -> str:
    active = plan.status.active
    names = ", ".join(one.name for one in active[:_NAMED])
    if isinstance(plan.work, Start):
        return "starts a Job"
    if active and cron.spec.concurrency_policy == "Forbid":
        return f"starts a Job, unless {names} still {'runs' if len(active) == 1 else 'run'} (concurrencyPolicy Forbid)"
    if active and cron.spec.concurrency_policy == "Replace":
        return f"starts a Job, and deletes {names} if still running (concurrencyPolicy Replace)"
    return "starts a Job"


def _when_resumed(seen: Facts) -> tuple[Step, ...]:
    resumed = replace(seen, cron=replace(seen.cron, spec=replace(seen.cron.spec, suspend=False)))
    plan = decide(resumed)
    if isinstance(plan.work, Start):
        return (Step(f"when it is resumed: starts the run of {moment_text(plan.work.run, seen)} at once"),)
    following = next_run_of(resumed)
    if following is None:
        return ()
    return (Step(f"when it is resumed: runs next at {moment_text(following, seen)}"),)


def _wanted(cron: CronJob, known: CronJobEvidence) -> str:
    spec = cron.spec
    own = f" in {known.zone}, the zone of its controller" if known.zone else " (no timeZone: taken for UTC)"
    zone = f" in {spec.time_zone}" if spec.time_zone else own
    parts = [f"schedule {spec.schedule!r}{zone}", f"concurrencyPolicy {spec.concurrency_policy or 'Allow'}"]
    if spec.starting_deadline_seconds is not None:
        parts.append(f"startingDeadlineSeconds {spec.starting_deadline_seconds}")
    window = directives_of(cron).spread
    if window is not None:
        parts.append(f"spread {human_duration(window)}: starts {human_duration(offset_of(cron))} after its schedule")
    return ", ".join(parts)


def _present(seen: Facts, plan: Plan) -> str:
    active, spec = plan.status.active, seen.cron.spec
    names = ", ".join(one.name for one in active[:_NAMED])
    parts = [f"{counted(len(active), 'running Job')}{f': {names}' if names else ''}"]
    for end, limit in (("Complete", spec.successful_jobs_history_limit), ("Failed", spec.failed_jobs_history_limit)):
        count = sum(finished_type(job) == end for job in seen.jobs)
        parts += [f"{count} {end}{f' (keeps {limit})' if limit is not None else ''}"] if count else []
    last, succeeded = plan.status.last_schedule_time, plan.status.last_successful_time
    if _ahead(seen) is not None and last is not None:
        parts.append(f"last run {in_time(last, seen.now)}")
    else:
        parts.append(f"last run {ago(last, seen.now)}" if last else "no run so far")
    parts += [f"last success {ago(succeeded, seen.now)}"] if succeeded else []
    return ", ".join(parts)
