"""Why a CronJob is where it is, and when it runs next: the words for a decision."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from kcr.api.batch import CronJob
from kcr.api.durations import human_duration
from kcr.api.explanation import Explanation, Step, ago, counted, in_time
from kcr.controllers.cronjob.decisions.decide import decide, look_again
from kcr.controllers.cronjob.decisions.plan import Announcement, Facts, Plan, Start

# So many Jobs are named; of the others the count says enough.
_NAMED = 3
_SUSPENDED = "suspended"
# What stops a schedule, by the reason of the event that says so: the headline and the remedy.
_STOPS: Mapping[str, tuple[str, str]] = {
    "UnknownTimeZone": (
        "never runs: its time zone is unknown",
        "set spec.timeZone to a name of the IANA database, such as Europe/Berlin",
    ),
    "UnparseableSchedule": (
        "never runs: its schedule cannot be parsed",
        "correct spec.schedule: five fields, such as */5 * * * *",
    ),
    "InvalidSchedule": ("never runs: no time fits its schedule", "correct spec.schedule"),
    "JobAlreadyActive": (
        "skips a run that is due: another one is running, and concurrencyPolicy is Forbid",
        "shorten the run, lengthen the schedule, or set concurrencyPolicy to Allow or Replace",
    ),
    "MissSchedule": ("has missed a run: its startingDeadlineSeconds is over", "set a longer startingDeadlineSeconds"),
}  # fmt: skip


class OwnEvidence(NamedTuple):
    """What a controller knows of itself, beside what its reconcile sees.

    Attributes:
        zone: The time zone of schedules that name none; empty when it is not known.
        pending: What was started, and is not confirmed or not on record.
    """

    zone: str = ""
    pending: tuple[str, ...] = ()


FROM_OUTSIDE = OwnEvidence()


def explain(seen: Facts, known: OwnEvidence = FROM_OUTSIDE) -> Explanation:
    """Return why a CronJob is where it is, from the decision that a reconcile would make now.

    Args:
        seen: What a reconcile would see.
        known: What else is known; nothing from outside.
    """
    plan = decide(seen)
    headline, remedies = _headline(seen, plan)
    return Explanation(
        headline=headline,
        wanted=_wanted(seen.cron, known),
        present=_present(seen, plan),
        next=_next(seen, plan),
        reasons=(*(f"{told.reason}: {told.message}" for told in plan.announcements), *known.pending),
        remedies=remedies,
    )


def _headline(seen: Facts, plan: Plan) -> tuple[str, tuple[str, ...]]:
    """Return the one thing to know, and what a user can do about it."""
    cron = seen.cron
    if cron.metadata.deletion_timestamp is not None:
        return "is being deleted", ()
    told = next((one for one in plan.announcements if one.reason in _STOPS), None)
    if told is not None:
        headline, remedy = _STOPS[told.reason]
        return headline, (remedy,)
    if cron.spec.suspend:
        name, namespace = cron.metadata.name, cron.metadata.namespace
        patch = f'kubectl -n {namespace} patch cronjob {name} --type merge -p \'{{"spec":{{"suspend":false}}}}\''
        return _SUSPENDED, (f"to resume it: {patch}",)
    if isinstance(plan.work, Start):
        return _late(seen, plan.work, plan.announcements)
    left = look_again(cron, seen.local, seen.now)
    if left is None:
        return "never runs again: no time fits its schedule", ()
    return f"runs next {in_time(seen.now + left, seen.now)}", ()


def _late(seen: Facts, start: Start, told: Sequence[Announcement]) -> tuple[str, tuple[str, ...]]:
    """Return the headline of a run that is due: a controller should have started it."""
    if any(one.reason == "TooManyMissedTimes" for one in told):
        remedy = "see whether its controller was down or a clock is wrong; startingDeadlineSeconds limits the look back"
        return "has missed more than 100 runs: only the latest is started", (remedy,)
    remedy = "see whether its controller runs: kube-controller-manager, or kcr run --controllers cronjob --take-over"
    late = human_duration(seen.now - start.run)
    return f"is due {'now' if late == '0s' else f'for {late}'}", (remedy,)


def _next(seen: Facts, plan: Plan) -> tuple[Step, ...]:
    steps = []
    if isinstance(plan.work, Start):
        names = ", ".join(one.name for one in plan.work.replaces)
        steps += [Step(f"deletes {names}, which it replaces", seen.now)] if names else []
        steps.append(Step(f"starts Job {plan.work.job.metadata.name}, due at {_moment(plan.work.run)}", seen.now))
    left = None if _is_stopped(seen, plan) else look_again(seen.cron, seen.local, seen.now)
    if left is not None:
        steps.append(Step("starts a Job", seen.now + left))
    return tuple(steps)


def _is_stopped(seen: Facts, plan: Plan) -> bool:
    """Return whether no run is due as long as nothing changes, whatever the schedule says."""
    if seen.cron.spec.suspend or seen.cron.metadata.deletion_timestamp is not None:
        return True
    return any(told.reason == "UnknownTimeZone" for told in plan.announcements)


def _wanted(cron: CronJob, known: OwnEvidence) -> str:
    spec = cron.spec
    own = f" in the time zone of its controller{f', {known.zone}' if known.zone else ''}"
    zone = f" in {spec.time_zone}" if spec.time_zone else own
    parts = [f"schedule {spec.schedule!r}{zone}", f"concurrencyPolicy {spec.concurrency_policy or 'Allow'}"]
    if spec.starting_deadline_seconds is not None:
        parts.append(f"startingDeadlineSeconds {spec.starting_deadline_seconds}")
    return ", ".join(parts)


def _present(seen: Facts, plan: Plan) -> str:
    active = plan.status.active
    names = ", ".join(one.name for one in active[:_NAMED])
    parts = [f"{counted(len(active), 'running Job')}{f': {names}' if names else ''}"]
    last, succeeded = plan.status.last_schedule_time, plan.status.last_successful_time
    parts.append(f"last run {ago(last, seen.now)}" if last else "no run so far")
    parts += [f"last success {ago(succeeded, seen.now)}"] if succeeded else []
    return ", ".join(parts)


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
