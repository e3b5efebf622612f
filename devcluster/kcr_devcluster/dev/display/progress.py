"""Feeds a display from a manager's informers: Jobs, CronJobs, pods of their own, events, and the logs of pods."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from datetime import tzinfo

from msgspec.structs import replace

from kcr.api.batch import CronJob, Job
from kcr.api.core import Event, Pod
from kcr.api.meta import Key, controller_of
from kcr.cli.display import Display, EventView, shown_name
from kcr.controllers.job.commands.job_progress import JobProgress, JobView, view_of
from kcr.controllers.job.commands.logs import ContainerRun, LogFollower, runs_of
from kcr.errors import KcrError
from kcr.informer import ChangeHandler
from kcr.manager import Manager
from kcr_devcluster.dev.display.explanations import FRESH_SECONDS, Explanations
from kcr_devcluster.dev.display.views import cronjob_view, event_view, pod_view
from kcr_devcluster.dev.display.workloads import is_in_question, job_state, running_owners

# How long the last lines of logs are waited for once the Jobs have ended.
_LAST_LINES_SECONDS = 5.0
# Exit codes of a process that SIGTERM or SIGKILL has ended.
_SIGNALLED = (143, 137)


def failure_of(pod: Pod, run: ContainerRun) -> EventView | None:
    """Return the event of a container's failed run; None if it succeeded or was stopped."""
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


class Progress:
    """Shows the Jobs, CronJobs, pods and events of a cluster, and waits until Jobs have ended."""

    def __init__(
        self, manager: Manager, display: Display, zone: tzinfo, explanations: Explanations, *, names_pods: bool = True
    ) -> None:
        """Attach to the manager's informers; nothing is shown before they run.

        Args:
            manager: Its informers call the handlers, and its client reads logs.
            display: Shows everything.
            zone: The zone of schedules that name none.
            explanations: The obstacles of Jobs that wait.
            names_pods: Whether several pods may print at once, so that lines are prefixed by the pod's name.
        """
        self._display = display
        self._explanations = explanations
        self._job_store, self._pods = manager.store(Job), manager.store(Pod)
        # The uids of owners of pods with a running container.
        self._running: set[str] = set()
        # Events of before belong to an earlier run of a cluster with a data folder; they have whole seconds.
        self._since = manager.clock.now().replace(microsecond=0)
        self._names_pods = names_pods
        # Runs whose failure was shown; forgotten with their pod.
        self._failed: set[ContainerRun] = set()
        # Pods that no controller owns, and that are shown.
        self._bare: set[Key] = set()
        self._jobs = JobProgress(manager, display, view=self._view)
        # A log that breaks off is no failure: the pod was deleted meanwhile, or the cluster ends.
        self._logs = LogFollower(manager.client, self._pods, self._write, on_end=self._jobs.notify)
        manager.informer(CronJob).add_handler(
            ChangeHandler(lambda it: display.show(cronjob_view(it, zone)), lambda it: display.gone("cronjob", it.key))
        )
        manager.informer(Event).add_handler(ChangeHandler(self._show_event, lambda event: None))
        manager.informer(Pod).add_handler(ChangeHandler(self._pod_changed, self._pod_deleted))
        manager.add(self._logs)
        manager.add(self)

    async def run(self) -> None:
        """Explain every two seconds the Jobs whose status does not name their obstacle."""
        while True:
            await asyncio.sleep(FRESH_SECONDS)
            jobs = self._job_store.snapshot()
            waiting = [job for job in jobs if is_in_question(job)]
            if not waiting:
                continue
            with suppress(KcrError):
                await self._explanations.refresh(jobs, None)
            self._running = running_owners(self._pods.snapshot())
            for job in waiting:
                self._jobs.show(job)

    def _view(self, job: Job) -> JobView:
        """Return a Job with the page's state, and its obstacle if the user can remove it."""
        view = view_of(job)
        if view.state != "Running" or not is_in_question(job):
            return view
        explanation = self._explanations.last.explanations.get(job.metadata.uid)
        if explanation is None or not explanation.remedies:
            return replace(view, state=job_state(job, is_running=True))
        return replace(view, state=job_state(job, job.metadata.uid in self._running), why=explanation.headline)

    async def ended(self, keys: Iterable[Key]) -> tuple[JobView, ...]:
        """Wait until these Jobs have ended or were deleted, and their logs are shown; return their last views."""
        wanted = tuple(keys)
        await self._jobs.ended(wanted)
        try:
            async with asyncio.timeout(_LAST_LINES_SECONDS):
                while self._has_open_log(wanted):
                    await self._jobs.next_change()
        except TimeoutError:
            self._display.warn("some logs have not ended with their Jobs, and are left")
        return self._jobs.views(wanted)

    def _has_open_log(self, jobs: tuple[Key, ...]) -> bool:
        """Return whether the log of a pod of these Jobs has not ended."""
        owned = ((run.pod.namespace, owner) for run, owner in self._logs.open.items() if owner is not None)
        return any(owner.kind == "Job" and Key(namespace, owner.name) in jobs for namespace, owner in owned)

    def _write(self, pod: Key, line: str) -> None:
        self._display.log(f"{pod.name} | {line}" if self._names_pods else line)

    def _show_event(self, event: Event) -> None:
        if event.last_seen is not None and event.last_seen < self._since:
            return
        view = event_view(event)
        if view is not None:
            self._display.event(view)

    def _pod_changed(self, pod: Pod) -> None:
        """Show a pod that no controller owns; follow the logs of any pod, and show how containers failed."""
        if controller_of(pod.metadata) is None:
            self._bare.add(pod.key)
            self._display.show(pod_view(pod))
        else:
            self._hide_bare(pod.key)
        self._logs.observe(pod)
        for run in runs_of(pod):
            failure = failure_of(pod, run)
            if failure is not None and run not in self._failed:
                self._failed.add(run)
                self._display.event(failure)

    def _pod_deleted(self, pod: Pod) -> None:
        """Remove a pod from the display, and forget its runs."""
        self._hide_bare(pod.key)
        self._logs.forget(pod)
        self._failed = {run for run in self._failed if run.uid != pod.metadata.uid}

    def _hide_bare(self, key: Key) -> None:
        if key in self._bare:
            self._bare.remove(key)
            self._display.gone("pod", key)
