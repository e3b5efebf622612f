"""Views of CronJobs, pods without a controller and events; that of Jobs is in `kcr.controllers.job.commands`."""

from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from typing import ClassVar

import msgspec

from kcr.api.batch import CronJob
from kcr.api.core import Event, Pod
from kcr.api.cron import next_run
from kcr.api.crontab import CronError, Every, Expression, UnknownZoneError, load_zone, parse
from kcr.api.meta import Key
from kcr.cli.display import EventView, shown_name
from kcr.controllers.job.commands.job_progress import JobView

# Between `Created pod` and `Started container`. They would scroll all else away; `kubectl describe` has them.
_EVERYDAY = {"Scheduled", "Pulling", "Pulled", "Created"}


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


def event_view(event: Event) -> EventView | None:
    """Return the view of an event; None for the steps of every pod."""
    warning = event.type == "Warning"
    if event.reason in _EVERYDAY and not warning:
        return None
    about = event.involved_object
    name = shown_name(Key(about.namespace, about.name))
    times = f" (x{event.times})" if event.times > 1 else ""
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
    started: ClassVar[datetime | None] = None
    ended: ClassVar[datetime | None] = None
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

    def facts(self, now: datetime) -> str:
        """Return its schedule, and its last and next run."""
        return f"{self.schedule}, last run {_text(self.last)}, next run {_text(self.next_run(now))}"

    def next_run(self, now: datetime) -> datetime | None:
        """Return when it is next due after a moment; None when it never is."""
        if self.suspended or self.expression is None:
            return None
        if isinstance(self.expression, Every):
            start, delay = self.last or self.created, self.expression.delay
            return start + ((now - start) // delay + 1) * delay
        return next_run(self.expression, now, self.zone)


def _text(moment: datetime | None) -> str:
    return "none" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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

    def facts(self, now: datetime) -> str:
        """Return how often it was restarted."""
        return f"restarted {self.restarts} times" if self.restarts else ""


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
