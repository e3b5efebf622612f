"""The views of Jobs, CronJobs, pods and events for `kcr dev`: values only, no terminal."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from typing import ClassVar

import msgspec

from kcr.api.batch import CronJob, Job
from kcr.api.conditions import find_condition, is_condition_true
from kcr.api.core import Event, Pod
from kcr.api.cron import next_run
from kcr.api.crontab import CronError, Every, Expression, UnknownZoneError, load_zone, parse
from kcr.api.durations import human_duration
from kcr.api.meta import Key

# Conditions of a Job, the most important first.
_CONDITIONS = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet", "Suspended")
# Its end is decided, and its last pods are terminating.
INTERIM = ("FailureTarget", "SuccessCriteriaMet")
ENDED = ("Failed", "Complete")
# Between `Created pod` and `Started container`. They would scroll all else away; `kubectl describe` has them.
_EVERYDAY = {"Scheduled", "Pulling", "Pulled", "Created"}


class JobView(msgspec.Struct, frozen=True):
    """A Job as shown.

    Attributes:
        key: Its namespace and name.
        wanted: Successes it needs; None for a work queue, whose first success is enough.
        active: Active pods, `ready` of which are ready.
        ready: See `active`.
        succeeded: Pods that succeeded.
        failed: Pods that failed.
        state: Its most important condition, `Running` when it has none; or its activity instead of running.
        why: Reason and message of that condition, or the cause of its wait; empty when there is nothing to explain.
        started: `status.startTime`; None before.
        ended: When it was Complete or Failed; None before.
    """

    kind: ClassVar[str] = "job"
    key: Key
    wanted: int | None
    active: int
    ready: int
    succeeded: int
    failed: int
    state: str
    why: str
    started: datetime | None
    ended: datetime | None

    @property
    def has_ended(self) -> bool:
        """Whether it is Complete or Failed."""
        return self.state in ENDED

    @property
    def news(self) -> tuple[object, ...]:
        """The fields whose change prints the Job again; empty while there is nothing to print.

        A change of the number of active pods alone is not printed. An interim condition is printed when pods
        outlive it: without them, the terminal condition follows at once.
        """
        if self.state in INTERIM and not self.active:
            return ()
        if self.state == "Running" and not (self.active or self.succeeded or self.failed):
            return ()
        return self.state, self.succeeded, self.failed, self.active > 0, bool(self.why)


def view_of(job: Job) -> JobView:
    """Return the view of a Job."""
    status = job.status
    state = next((kind for kind in _CONDITIONS if is_condition_true(status.conditions, kind)), "Running")
    condition = find_condition(status.conditions, state)
    why = ""
    if condition is not None and state in ("Failed", "FailureTarget"):
        why = f"{condition.reason}: {condition.message}"
    return JobView(
        key=job.key,
        wanted=job.spec.completions,
        active=status.active,
        ready=status.ready or 0,
        succeeded=status.succeeded,
        failed=status.failed,
        state=state,
        why=why,
        started=status.start_time,
        ended=condition.last_transition_time if condition is not None and state in ENDED else None,
    )


def shown_name(key: Key) -> str:
    """Return the name, with its namespace unless that is `default`."""
    return key.name if key.namespace == "default" else str(key)


def duration(view: "JobView | PodView", now: datetime) -> str:
    """Return how long it runs or ran, as kubectl writes it: `7s`, `2m5s`, `3h20m`; empty before it started."""
    return "" if view.started is None else human_duration(max((view.ended or now) - view.started, timedelta()))


def shares(view: JobView, width: int) -> tuple[int, int, int]:
    """Divide the cells of a progress bar into successes, active pods and the rest.

    A share that is not zero has at least one cell, and a bar is full only when the Job is.
    """
    if view.state == "Complete":
        return width, 0, 0
    total = max(view.wanted if view.wanted is not None else view.succeeded + view.active, 1)
    done = min(view.succeeded, total)
    working = min(view.active, total - done)
    cells = min(round(width * done / total), width - 1) if done else 0
    cells = max(cells, 1) if done else 0
    active = min(max(round(width * working / total), 1), width - cells) if working else 0
    return cells, active, width - cells - active


class EventView(msgspec.Struct, frozen=True):
    """An event as shown.

    Attributes:
        about: Kind and name of the involved object: `pod/pi-x`.
        reason: The reason, one word.
        message: The message, on one line.
        warning: Whether its type is `Warning`.
    """

    about: str
    reason: str
    message: str
    warning: bool


def event_view(event: Event) -> EventView | None:
    """Return the view of an event; None for the steps of every pod."""
    warning = event.type == "Warning"
    if event.reason in _EVERYDAY and not warning:
        return None
    about = event.involved_object
    name = shown_name(Key(about.namespace, about.name))
    times = f" (x{event.count})" if event.count > 1 else ""
    return EventView(f"{about.kind.lower()}/{name}", event.reason, f"{' '.join(event.message.split())}{times}", warning)


class CronJobView(msgspec.Struct, frozen=True):
    """A CronJob as shown.

    Attributes:
        key: Its namespace and name.
        schedule: As its author wrote it.
        expression: The parsed schedule; None when it cannot be parsed.
        zone: The time zone of the schedule.
        suspended: Whether `spec.suspend` is set.
        active: How many of its Jobs are active.
        last: When its last run was due; None before the first.
        created: When it was created.
    """

    kind: ClassVar[str] = "cronjob"
    # Nothing ends a CronJob, and no state of it needs a reason.
    has_ended: ClassVar[bool] = False
    why: ClassVar[str] = ""
    key: Key
    schedule: str
    expression: Expression | None
    zone: tzinfo
    suspended: bool
    active: int
    last: datetime | None
    created: datetime

    @property
    def state(self) -> str:
        """`Suspended` or `Scheduled`."""
        return "Suspended" if self.suspended else "Scheduled"

    @property
    def news(self) -> tuple[object, ...]:
        """The fields whose change prints it again."""
        return self.schedule, self.suspended, self.last

    def next_run(self, now: datetime) -> datetime | None:
        """Return when it is next due after a moment; None when it never is."""
        if self.suspended or self.expression is None:
            return None
        if isinstance(self.expression, Every):
            start, delay = self.last or self.created, self.expression.delay
            return start + ((now - start) // delay + 1) * delay
        return next_run(self.expression, now, self.zone)


def cronjob_view(cronjob: CronJob, zone: tzinfo) -> CronJobView:
    """Return the view of a CronJob.

    Args:
        cronjob: The CronJob.
        zone: The zone of schedules that name none.
    """
    spec, status = cronjob.spec, cronjob.status
    expression: Expression | None = None
    # The server validates both fields; a value that gets past it counts as absent.
    with suppress(UnknownZoneError):
        zone = zone if spec.time_zone is None else load_zone(spec.time_zone)
    with suppress(CronError):
        expression = parse(spec.schedule)
    return CronJobView(
        key=cronjob.key,
        schedule=spec.schedule,
        expression=expression,
        zone=zone,
        suspended=bool(spec.suspend),
        active=len(status.active),
        last=status.last_schedule_time,
        created=cronjob.metadata.creation_timestamp or datetime.fromtimestamp(0, UTC),
    )


class PodView(msgspec.Struct, frozen=True):
    """A pod that no controller owns, as shown.

    Attributes:
        key: Its namespace and name.
        state: Why a container waits, else the pod's own reason, else its phase.
        why: The pod's own message.
        ready: How many of its `containers` are ready.
        containers: See `ready`.
        restarts: How often its containers were restarted.
        started: When it was created.
        ended: When its last container ended, once it has succeeded or failed; None before.
        has_ended: Whether it has succeeded or failed.
    """

    kind: ClassVar[str] = "pod"
    key: Key
    state: str
    why: str
    ready: int
    containers: int
    restarts: int
    started: datetime | None
    ended: datetime | None
    has_ended: bool

    @property
    def news(self) -> tuple[object, ...]:
        """The fields whose change prints the pod again; empty while it is pending."""
        return () if self.state == "Pending" else (self.state, self.restarts)


def pod_view(pod: Pod) -> PodView:
    """Return the view of a pod without a controller."""
    reports, status = pod.status.container_statuses, pod.status
    waiting = next((one.state.waiting.reason for one in reports if one.state.waiting and one.state.waiting.reason), "")
    ends = [one.state.terminated.finished_at for one in reports if one.state.terminated]
    has_ended = status.phase in ("Succeeded", "Failed")
    gone = pod.metadata.deletion_timestamp is not None and not has_ended
    return PodView(
        key=pod.key,
        state="Terminating" if gone else waiting or status.reason or status.phase or "Pending",
        why=" ".join(status.message.split()) if has_ended else "",
        ready=sum(one.ready for one in reports),
        containers=len(pod.spec.containers),
        restarts=sum(one.restart_count for one in reports),
        started=pod.metadata.creation_timestamp,
        ended=max(filter(None, ends), default=None) if has_ended else None,
        has_ended=has_ended,
    )
