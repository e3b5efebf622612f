"""A Job as displays show it."""

from datetime import datetime
from typing import ClassVar

import msgspec

from kcr.api.batch import Job
from kcr.api.conditions import find_condition, is_condition_true
from kcr.api.meta import Key

# Conditions of a Job, the most important first.
_CONDITIONS = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet", "Suspended")
# Its end is decided, and its last pods are terminating.
INTERIM = ("FailureTarget", "SuccessCriteriaMet")
ENDED = ("Failed", "Complete")


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

    def facts(self, now: datetime) -> str:
        """Return its counters; a count of zero is left out."""
        goal = "" if self.wanted is None else f"/{self.wanted}"
        counts = [f"{self.succeeded}{goal} succeeded"]
        counts += [f"{count} {word}" for count, word in ((self.active, "active"), (self.failed, "failed")) if count]
        return ", ".join(counts)


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
