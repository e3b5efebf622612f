"""Feeds a display from a manager's informers: Jobs, CronJobs, pods of their own, events, and the logs of pods."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import tzinfo
from typing import NamedTuple, TypeVar

from kcr.api.batch import CronJob, Job
from kcr.api.core import Event, Pod
from kcr.api.meta import Key, Resource, controller_of
from kcr.cli.display.display import Display
from kcr.cli.display.view import EventView, JobView, cronjob_view, event_view, pod_view, shown_name, view_of
from kcr.client import LogOptions
from kcr.errors import ApiError, TransportError
from kcr.informer import Handler
from kcr.manager import Manager

R = TypeVar("R", bound=Resource)

# How long the last lines of logs are waited for once the Jobs have ended.
_LAST_LINES_SECONDS = 5.0


# Exit codes of a process that SIGTERM or SIGKILL has ended.
_SIGNALLED = (143, 137)


class ContainerRun(NamedTuple):
    """One run of a container: `attempt` counts its restarts."""

    pod: Key
    uid: str
    container: str
    attempt: int


def runs_of(pod: Pod) -> tuple[ContainerRun, ...]:
    """Return the current run of each container that has started."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return tuple(
        ContainerRun(pod.key, pod.metadata.uid, status.name, status.restart_count)
        for status in statuses
        if status.state.running is not None or status.state.terminated is not None
    )


def failure_of(pod: Pod, run: ContainerRun) -> EventView | None:
    """Return an event that reports how a run of a container failed; None when it did not, or was told to end."""
    told_to_end = pod.metadata.deletion_timestamp is not None
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        ended = status.state.terminated
        if status.name == run.container and ended is not None and ended.exit_code:
            if told_to_end and ended.exit_code in _SIGNALLED:
                return None
            detail = f": {' '.join(ended.message.split())}" if ended.message else ""
            message = f"Container {run.container} ended with exit code {ended.exit_code}{detail}"
            return EventView(f"pod/{shown_name(pod.key)}", ended.reason, message, warning=True)
    return None


def log_of(run: ContainerRun, pod: Pod | None) -> LogOptions:
    """Return which log of a container is a run's: the previous one, once the pod shows that it was restarted."""
    runs = runs_of(pod) if pod is not None else ()
    was_restarted = any(now.container == run.container and now.attempt > run.attempt for now in runs)
    return LogOptions(container=run.container, previous=was_restarted)


class Progress:
    """Shows the Jobs, CronJobs, pods and events of a cluster, and waits until Jobs have ended.

    A component of the manager: its run follows logs, one task per run of a container.
    """

    def __init__(self, manager: Manager, display: Display, zone: tzinfo) -> None:
        """Attach to the manager's informers; nothing is shown before they run.

        Args:
            manager: Its informers call the handlers, and its client reads logs.
            display: Shows everything.
            zone: The zone of schedules that name none.
        """
        self._client = manager.client
        self._display = display
        # Events of before belong to an earlier run of a cluster with a data folder; they have whole seconds.
        self._since = manager.clock.now().replace(microsecond=0)
        self._pods = manager.store(Pod)
        # Lines are prefixed by the pod's name when several pods may print at once.
        self.name_pods = True
        # The Jobs that exist, and the last view of those deleted: `ended` returns how they ended.
        self._views: dict[Key, JobView] = {}
        self._deleted: set[Key] = set()
        self._changed = asyncio.Event()
        # Runs whose log is or was followed, and those whose failure was shown; forgotten with their pod.
        self._followed: set[ContainerRun] = set()
        self._failed: set[ContainerRun] = set()
        # Pods that no controller owns, and that are shown.
        self._bare: set[Key] = set()
        self._waiting: asyncio.Queue[ContainerRun] = asyncio.Queue()
        self._open = 0
        manager.informer(Job).add_handler(_Changes(self._job_changed, self._job_deleted))
        manager.informer(CronJob).add_handler(
            _Changes(lambda it: display.show(cronjob_view(it, zone)), lambda it: display.gone("cronjob", it.key))
        )
        manager.informer(Event).add_handler(_Changes(self._show_event, lambda event: None))
        manager.informer(Pod).add_handler(_Changes(self._pod_changed, self._pod_deleted))
        manager.add(self)

    async def run(self) -> None:
        """Follow logs until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._follow(await self._waiting.get()))

    async def ended(self, keys: Iterable[Key]) -> tuple[JobView, ...]:
        """Wait until these Jobs have ended or were deleted, and their logs are shown; return their last views."""
        wanted = tuple(keys)
        while not all(map(self._is_over, wanted)):
            await self._next_change()
        try:
            async with asyncio.timeout(_LAST_LINES_SECONDS):
                while self._open:
                    await self._next_change()
        except TimeoutError:
            self._display.warn("some logs have not ended with their Jobs, and are left")
        return tuple(self._views[key] for key in wanted if key in self._views)

    def _is_over(self, key: Key) -> bool:
        view = self._views.get(key)
        return key in self._deleted or (view is not None and view.has_ended)

    async def _next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _show_event(self, event: Event) -> None:
        if event.last_timestamp is not None and event.last_timestamp < self._since:
            return
        view = event_view(event)
        if view is not None:
            self._display.event(view)

    def _job_changed(self, job: Job) -> None:
        view = view_of(job)
        self._views[view.key] = view
        self._deleted.discard(view.key)
        self._display.show(view)
        self._changed.set()

    def _job_deleted(self, job: Job) -> None:
        self._deleted.add(job.key)
        self._display.gone("job", job.key)
        self._changed.set()

    def _pod_changed(self, pod: Pod) -> None:
        """Show a pod that no controller owns; follow the logs of any pod, and show how containers failed."""
        if controller_of(pod.metadata) is None:
            self._bare.add(pod.key)
            self._display.show(pod_view(pod))
        else:
            self._hide_bare(pod.key)
        for run in runs_of(pod):
            if run not in self._followed:
                self._followed.add(run)
                self._open += 1
                self._waiting.put_nowait(run)
            failure = failure_of(pod, run)
            if failure is not None and run not in self._failed:
                self._failed.add(run)
                self._display.event(failure)

    def _pod_deleted(self, pod: Pod) -> None:
        """Remove a pod from the display, and forget its runs."""
        self._hide_bare(pod.key)
        self._followed = {run for run in self._followed if run.uid != pod.metadata.uid}
        self._failed = {run for run in self._failed if run.uid != pod.metadata.uid}

    def _hide_bare(self, key: Key) -> None:
        if key in self._bare:
            self._bare.remove(key)
            self._display.gone("pod", key)

    async def _follow(self, run: ContainerRun) -> None:
        prefix = f"{run.pod.name} | " if self.name_pods else ""
        try:
            async with self._client.follow_log(run.pod, log_of(run, self._pods.get(run.pod))) as lines:
                async for line in lines:
                    self._display.log(prefix + line.decode(errors="replace").rstrip("\r\n"))
        except (ApiError, TransportError):
            # The pod or its log was deleted meanwhile, or the cluster ends.
            pass
        finally:
            self._open -= 1
            self._changed.set()


class _Changes(Handler[R]):
    """Calls back with each object that is new or has changed, and with each that was deleted."""

    def __init__(self, changed: Callable[[R], None], deleted: Callable[[R], None]) -> None:
        self._changed = changed
        self._deleted = deleted

    def on_add(self, obj: R, initial: bool) -> None:
        self._changed(obj)

    def on_update(self, old: R, new: R) -> None:
        self._changed(new)

    def on_delete(self, obj: R, final_state_unknown: bool) -> None:
        self._deleted(obj)
