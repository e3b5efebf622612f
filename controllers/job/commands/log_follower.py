"""Follows the logs of containers: each run of a container once, line by line."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from kcr.api.core import Pod
from kcr.api.meta import Key, OwnerReference, controller_of
from kcr.client import Client, LogOptions
from kcr.errors import ApiError, KcrError, TransportError
from kcr.informer import Store

_WHOLE_LOG = LogOptions()


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


def log_of(run: ContainerRun, pod: Pod | None, options: LogOptions) -> LogOptions:
    """Return which log of a container is a run's: the previous one, once the pod shows that it was restarted."""
    runs = runs_of(pod) if pod is not None else ()
    was_restarted = any(now.container == run.container and now.attempt > run.attempt for now in runs)
    return options._replace(container=run.container, previous=was_restarted)


class LogFollower:
    """Follows the log of every run of a container that it is shown, one task per run.

    A component: its `run` reads, and ends by cancellation only.
    """

    def __init__(
        self,
        client: Client,
        pods: Store[Pod],
        write: Callable[[Key, str], None],
        *,
        on_end: Callable[[], None],
        on_error: Callable[[Key, KcrError], None] = lambda pod, error: None,
        options: LogOptions = _WHOLE_LOG,
    ) -> None:
        """Follow nothing yet.

        Args:
            client: Reads the logs.
            pods: Shows whether a container was restarted since.
            write: Called with the pod and each line, without its end.
            on_end: Called when a log has ended; `open` says which have not.
            on_error: Called when a log cannot be read, or breaks off: with its pod or node, or with the server.
            options: Which part of each log is read, and of which container; empty for all containers.
        """
        self._client = client
        self._pods = pods
        self._write = write
        self._on_end = on_end
        self._on_error = on_error
        self._options = options
        # Runs whose log is or was followed; forgotten with their pod.
        self._followed: set[ContainerRun] = set()
        self._waiting: asyncio.Queue[ContainerRun] = asyncio.Queue()
        # The runs whose log has not ended, and the controllers of their pods.
        self.open: dict[ContainerRun, OwnerReference | None] = {}

    def observe(self, pod: Pod) -> None:
        """Follow the logs of a pod's containers that have started since the last call."""
        for run in runs_of(pod):
            wanted = self._options.container in ("", run.container)
            if wanted and run not in self._followed:
                self._followed.add(run)
                self.open[run] = controller_of(pod.metadata)
                self._waiting.put_nowait(run)

    def skip(self, pod: Pod) -> None:
        """Never follow the present runs of a pod's containers: their logs are printed already."""
        self._followed.update(runs_of(pod))

    def forget(self, pod: Pod) -> None:
        """Forget the runs of a pod that was deleted."""
        self._followed = {run for run in self._followed if run.uid != pod.metadata.uid}

    async def run(self) -> None:
        """Follow logs until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._follow(await self._waiting.get()))

    async def _follow(self, run: ContainerRun) -> None:
        options = log_of(run, self._pods.get(run.pod), self._options)
        try:
            async with self._client.follow_log(run.pod, options) as lines:
                async for line in lines:
                    self._write(run.pod, line.decode(errors="replace").rstrip("\r\n"))
        except (ApiError, TransportError) as error:
            self._on_error(run.pod, error)
        finally:
            del self.open[run]
            self._on_end()
