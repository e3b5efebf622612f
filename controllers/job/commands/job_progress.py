"""Shows Jobs as they change, until they have ended."""

import asyncio
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import ClassVar

import msgspec

from kcr.api.batch import Job
from kcr.api.conditions import find_condition, is_condition_true
from kcr.api.meta import Key
from kcr.cli.display import Display
from kcr.client import Client
from kcr.errors import NotFoundError
from kcr.informer import ChangeHandler
from kcr.manager import Manager

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


class JobProgress:
    """Shows the Jobs of a manager's informer, and waits until some of them have ended."""

    def __init__(
        self,
        manager: Manager,
        display: Display,
        only: Collection[Key] = (),
        view: Callable[[Job], JobView] = view_of,
    ) -> None:
        """Attach to the informer of Jobs; nothing is shown before the manager runs.

        Args:
            manager: Its informer calls the handlers.
            display: Shows the Jobs.
            only: The Jobs to show; empty for all.
            view: Returns how a Job is shown.
        """
        self._display = display
        self._view = view
        self._only = frozenset(only)
        # The Jobs that exist, and the last view of those deleted: `ended` returns how they ended.
        self._views: dict[Key, JobView] = {}
        self._deleted: set[Key] = set()
        self._changed = asyncio.Event()
        manager.informer(Job).add_handler(ChangeHandler(self.show, self._job_deleted))

    async def find_unseen(self, client: Client, keys: Iterable[Key]) -> None:
        """Ask the server for Jobs that the informer's first list had not: those that do not exist count as deleted.

        The list may be older than the Job. Only an answer of the server shows whether it was deleted before the list.
        """
        for key in keys:
            if key not in self._views:
                try:
                    await client.get(Job, key)
                except NotFoundError:
                    self._deleted.add(key)
                    self.notify()

    async def ended(self, keys: Iterable[Key]) -> tuple[JobView, ...]:
        """Wait until these Jobs have ended or were deleted, and return their last views."""
        wanted = tuple(keys)
        while not all(map(self.is_over, wanted)):
            await self.next_change()
        return self.views(wanted)

    def view(self, key: Key) -> JobView | None:
        """Return the last view of a Job; None before it was seen."""
        return self._views.get(key)

    def views(self, keys: Iterable[Key]) -> tuple[JobView, ...]:
        """Return the last views of those of these Jobs that were ever seen."""
        return tuple(self._views[key] for key in keys if key in self._views)

    def is_over(self, key: Key) -> bool:
        """Return whether a Job has ended or was deleted."""
        view = self._views.get(key)
        return key in self._deleted or (view is not None and view.has_ended)

    async def next_change(self) -> None:
        """Wait for the next change of a Job, or call of `notify`."""
        self._changed.clear()
        await self._changed.wait()

    def notify(self) -> None:
        """Wake the waiters for a change."""
        self._changed.set()

    def show(self, job: Job) -> None:
        """Show a Job as it is now."""
        if self._only and job.key not in self._only:
            return
        view = self._view(job)
        self._views[view.key] = view
        self._deleted.discard(view.key)
        self._display.show(view)
        self.notify()

    def _job_deleted(self, job: Job) -> None:
        if self._only and job.key not in self._only:
            return
        self._deleted.add(job.key)
        self._display.gone("job", job.key)
        self.notify()
