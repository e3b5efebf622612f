"""What a person is shown of a Job: values only, no terminal."""

from datetime import datetime, timedelta
from typing import NamedTuple

from kcr.api.batch import Job
from kcr.api.conditions import find, is_true
from kcr.api.core import Event
from kcr.api.meta import Key

# Conditions a Job may have, the last word first.
_CONDITIONS = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet", "Suspended")
ENDED = ("Failed", "Complete")


class JobView(NamedTuple):
    """A Job as shown.

    Attributes:
        key: Its namespace and name.
        wanted: Successes it needs; None for a work queue, whose first success is enough.
        parallelism: Pods it may run at a time.
        active: Pods that run or will; `ready` of them serve.
        ready: See `active`.
        succeeded: Pods that succeeded.
        failed: Pods that failed.
        state: Its telling condition, `Running` when it has none.
        why: Reason and message of that condition, empty when there is nothing to explain.
        started: When its clock began; None before.
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
    def has_ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state in ENDED


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


def counts(view: JobView) -> str:
    """Return the counters in words: `1 active (1 ready), 0/1 succeeded, 0 failed`."""
    goal = "" if view.wanted is None else f"/{view.wanted}"
    return f"{view.active} active ({view.ready} ready), {view.succeeded}{goal} succeeded, {view.failed} failed"


def line_of(view: JobView) -> str:
    """Return the Job as one plain line."""
    why = f" ({view.why})" if view.why else ""
    return f"job {shown_name(view.key)}: {view.state}{why}: {counts(view)}"


def duration(view: JobView, now: datetime) -> str:
    """Return how long it runs or ran, as kubectl writes it: `7s`, `2m5s`, `3h20m`; empty before it started."""
    if view.started is None:
        return ""
    seconds = max(0, int(((view.ended or now) - view.started) / timedelta(seconds=1)))
    if seconds < 120:
        return f"{seconds}s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 180:
        return f"{minutes}m{seconds}s" if seconds else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m" if minutes else f"{hours}h"


class Shares(NamedTuple):
    """How a bar is divided, in cells."""

    succeeded: int
    active: int
    rest: int


def shares(view: JobView, width: int) -> Shares:
    """Divide a bar among successes, pods at work and what is still to do.

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


def event_line(event: Event) -> str:
    """Return an event as one line: `pod/pi-x Started: Started container pi`."""
    about = event.involved_object
    times = f" (x{event.count})" if event.count > 1 else ""
    name = shown_name(Key(about.namespace, about.name))
    return f"{about.kind.lower()}/{name} {event.reason}: {' '.join(event.message.split())}{times}"
