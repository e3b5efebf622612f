"""The values that pass between the rooms of a reconcile."""

from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from kcr.api.batch import Job, JobStatus
from kcr.api.core import Pod
from kcr.controllers.job.decisions.failures import Backoff
from kcr.controllers.job.decisions.indexed import Indexes
from kcr.controllers.job.decisions.pod_template import IndexedPod


class Limits(NamedTuple):
    """The tunables a decision depends on; seconds and counts, and whether all Jobs are ours."""

    backoff_base_seconds: float = 10.0
    backoff_max_seconds: float = 600.0
    max_uncounted: int = 500
    max_changes: int = 500
    take_over: bool = False


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of one reconcile, all read at the same moment.

    Attributes:
        job: The Job from the store.
        pods: The pods that concern it (`failures.concerns`): those of the store that it keeps, and those just adopted.
        untracked: UIDs of pods whose finalizer was removed, though the store may still show it.
        expectations_met: Whether every create was answered, and all deletions were observed.
        backoff: The failures so far.
        limits: The tunables.
        now: The moment to judge at.
        started: When the Job started, if no status says so yet.
    """

    job: Job
    pods: tuple[Pod, ...]
    untracked: frozenset[str]
    expectations_met: bool
    backoff: Backoff
    limits: Limits
    now: datetime
    started: datetime | None = None


class PodCounts(NamedTuple):
    """The pods of a snapshot by state, and their totals.

    `tracked` has the UIDs of those that carry the finalizer, as far as this process knows.
    """

    tracked: frozenset[str]
    active: tuple[Pod, ...]
    terminating: int
    newly_succeeded: tuple[Pod, ...]
    newly_failed: tuple[Pod, ...]
    succeeded: int
    failed: int
    indexes: Indexes | None


class Ending(NamedTuple):
    """How a Job ends: `condition` is Complete or Failed."""

    condition: str
    reason: str
    message: str


class ScaleUp(msgspec.Struct, frozen=True):
    """Create a pod for each of these."""

    members: tuple[IndexedPod, ...]


class ScaleDown(msgspec.Struct, frozen=True):
    """Remove these pods, uncounted: there are too many, or the Job is suspended."""

    pods: tuple[Pod, ...]


class Terminate(msgspec.Struct, frozen=True):
    """Delete these pods because the Job ends; they keep their finalizer until they are counted."""

    pods: tuple[Pod, ...]


class Hold(msgspec.Struct, frozen=True):
    """Neither create nor delete."""


Work = ScaleUp | ScaleDown | Terminate | Hold


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a reconcile.

    Attributes:
        work: The one kind of work of this reconcile.
        counts: The pods as counted.
        ending: How the Job ends, or None.
        managed: Whether the number of pods is managed; False while expectations are not met.
        delayed: Whether pods are missing that have to wait after a failure.
        started: When the Job started, now if only now; None while it is suspended and has not.
        backoff: The failures, this snapshot's included.
        requeue_after: The time until the next reconcile if nothing happens before; None for none.
    """

    work: Work
    counts: PodCounts
    ending: Ending | None
    managed: bool
    delayed: bool
    started: datetime | None
    backoff: Backoff
    requeue_after: timedelta | None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a plan.

    Attributes:
        created: The number of new pods that exist or may exist.
        refused: How many the server would not create, though their namespace is to stay.
        deleted: The pods that are deleted or terminating.
        untracked: UIDs of the pods that have lost their finalizer.
        unconfirmed: How many of the created had no answer; each pod may exist.
        error: The first error, to be raised when the status has been written.
    """

    created: int = 0
    refused: int = 0
    deleted: tuple[Pod, ...] = ()
    untracked: frozenset[str] = frozenset()
    unconfirmed: int = 0
    error: Exception | None = None


class StatusUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The status to write, and the steps after it.

    Attributes:
        status: The status to write before any finalizer is removed.
        untrack: The pods whose finalizer may go once that is written.
        require_version: UIDs of those among them that go uncounted because they have not ended: their resourceVersion
            is a precondition of the removal.
        handled: The actions that the podFailurePolicy took on failures, one each.
        tracked: UIDs of all pods that carry the finalizer.
        ending: How the Job ends, or None.
        capped: Whether more pods have ended than may be counted at once; another reconcile follows.
        requeue: Whether work was put off that no event will ask for.
        announcements: Events (reason, message) that go with the status.
    """

    status: JobStatus
    untrack: tuple[Pod, ...]
    require_version: frozenset[str]
    handled: tuple[str, ...]
    tracked: frozenset[str]
    ending: Ending | None
    capped: bool
    requeue: bool
    announcements: tuple[tuple[str, str], ...]
