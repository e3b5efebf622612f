"""What `kcr dev` shows of Jobs and events: values only, no terminal."""

from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from kcr.api.batch import Job
from kcr.api.conditions import find, is_true
from kcr.api.core import Event
from kcr.api.durations import human_duration
from kcr.api.meta import Key

# Conditions of a Job, the most important first.
_CONDITIONS = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet", "Suspended")
_INTERIM = ("FailureTarget", "SuccessCriteriaMet")
ENDED = ("Failed", "Complete")
# Between `Created pod` and `Started container`. They would scroll all else away; `kubectl describe` has them.
_EVERYDAY = {"Scheduled", "Pulling", "Pulled", "Created"}


class JobView(NamedTuple):
    """A Job as shown.

    Attributes:
        key: Its namespace and name.
        wanted: Successes it needs; None for a work queue, whose first success is enough.
        parallelism: Pods it may run at a time.
        active: Active pods, `ready` of which are ready.
        ready: See `active`.
        succeeded: Pods that succeeded.
        failed: Pods that failed.
        state: Its most important condition, `Running` when it has none.
        why: Reason and message of that condition, empty when there is nothing to explain.
        started: `status.startTime`; None before.
        ended: When it was Complete or Failed; None before.
    """

    key: Key
    wanted: int | None
    parallelism: int
    active: int
    ready: int
    succeeded: int
    failed: int
    state: str
    why: str
    started: datetime | None
    ended: datetime | None

    @property
    def kind(self) -> str:
        """How lines name its kind."""
        return "job"

    @property
    def has_ended(self) -> bool:
        """Whether it is Complete or Failed."""
        return self.state in ENDED

    @property
    def news(self) -> tuple[object, ...]:
        """What must differ for the Job to be printed again; empty while there is nothing to print.

        A change of the number of active pods alone is not printed. An interim condition is printed when pods
        outlive it: without them, the terminal condition follows at once.
        """
        if self.state in _INTERIM and not self.active:
            return ()
        if self.state == "Running" and not (self.active or self.succeeded or self.failed):
            return ()
        return self.state, self.succeeded, self.failed, self.active > 0


def view_of(job: Job) -> JobView:
    """Return what is shown of a Job."""
    status = job.status
    state = next((kind for kind in _CONDITIONS if is_true(status.conditions, kind)), "Running")
    condition = find(status.conditions, state)
    why = ""
    if condition is not None and state in ("Failed", "FailureTarget"):
        why = f"{condition.reason}: {condition.message}"
    return JobView(
        key=job.key,
        wanted=job.spec.completions,
        parallelism=1 if job.spec.parallelism is None else job.spec.parallelism,
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


class Timed(Protocol):
    """A view with a start and an end."""

    @property
    def started(self) -> datetime | None:
        """When it started."""
        ...

    @property
    def ended(self) -> datetime | None:
        """When it ended."""
        ...


def duration(view: Timed, now: datetime) -> str:
    """Return how long it runs or ran, as kubectl writes it: `7s`, `2m5s`, `3h20m`; empty before it started."""
    return "" if view.started is None else human_duration(max((view.ended or now) - view.started, timedelta()))


class Shares(NamedTuple):
    """The parts of a progress bar, in cells."""

    succeeded: int
    active: int
    rest: int


def shares(view: JobView, width: int) -> Shares:
    """Divide a progress bar into successes, active pods and the rest.

    A share that is not zero has at least one cell, and a bar is full only when the Job is.
    """
    if view.state == "Complete":
        return Shares(width, 0, 0)
    total = max(view.wanted if view.wanted is not None else view.succeeded + view.active, 1)
    done = min(view.succeeded, total)
    working = min(view.active, total - done)
    cells = min(round(width * done / total), width - 1) if done else 0
    cells = max(cells, 1) if done else 0
    active = min(max(round(width * working / total), 1), width - cells) if working else 0
    return Shares(cells, active, width - cells - active)


class EventView(NamedTuple):
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
    """Return what is shown of an event; None for the steps that every pod takes."""
    warning = event.type == "Warning"
    if event.reason in _EVERYDAY and not warning:
        return None
    about = event.involved_object
    name = shown_name(Key(about.namespace, about.name))
    times = f" (x{event.count})" if event.count > 1 else ""
    return EventView(f"{about.kind.lower()}/{name}", event.reason, f"{' '.join(event.message.split())}{times}", warning)
