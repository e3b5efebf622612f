"""The values that pass between the steps of a reconcile."""

from datetime import datetime, timedelta, tzinfo
from typing import Literal, NamedTuple

import msgspec

from kcr.api.batch import CronJob, CronJobStatus, Job
from kcr.api.core import ObjectReference
from kcr.controllers.cronjob.decisions.clock_changes import ChangeNotice
from kcr.controllers.cronjob.decisions.jobs import JobToCreate


class Announcement(NamedTuple):
    """An event about the CronJob."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of one reconcile, after unconfirmed writes have been verified with the server.

    Attributes:
        cron: The CronJob: from the store, or from the server when that knew more.
        jobs: Its Jobs: those in the store, and one that was just started.
        unexpected: The Jobs that run and are not in the list of the CronJob on the server either.
        missing: UIDs of listed Jobs that are not on the server.
        local: The zone of schedules that name none.
        now: The moment to judge at.
    """

    cron: CronJob
    jobs: tuple[Job, ...]
    unexpected: tuple[Job, ...] = ()
    missing: frozenset[str] = frozenset()
    local: tzinfo
    now: datetime


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Start a run.

    Attributes:
        run: The moment it was scheduled for.
        job: Its Job.
        replaces: The Jobs to be deleted first.
    """

    run: datetime
    job: JobToCreate
    replaces: tuple[ObjectReference, ...] = ()


class NoOp(msgspec.Struct, frozen=True):
    """Start nothing.

    Attributes:
        requeue_after: The time until the next reconcile if nothing happens before; None for none.
    """

    requeue_after: timedelta | None = None


Work = Start | NoOp


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a reconcile.

    Attributes:
        work: Start a run, or not.
        status: The status as it is to be, whatever becomes of the work.
        announcements: The events of the observations and the decision, in their order.
        clock_change: A change of the clock to be announced once; None for none.
    """

    work: Work
    status: CronJobStatus
    announcements: tuple[Announcement, ...] = ()
    clock_change: ChangeNotice | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a start.

    Attributes:
        job: The Job of the run; None when there is none, or none of ours.
        is_new: Whether the Job did not exist before.
        error: The failure; `OwnWrites` knows whether the Job may exist all the same.
    """

    job: Job | None = None
    is_new: bool = False
    error: Exception | None = None
