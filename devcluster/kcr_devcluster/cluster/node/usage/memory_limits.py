"""Memory limits of containers and pods: whose processes use more is killed, as the kernel's OOM killer does it.

No limit is set for the processes themselves: a program that is refused memory behaves otherwise than one that is
killed. Their use is sampled, for as long as a container with a limit runs. Memory that a process takes and frees
between two samples is not seen.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from kcr_devcluster.apiserver.schema.quantities import amount
from kcr_devcluster.cluster.node.pods import KubeletContainer, KubeletPod
from kcr_devcluster.cluster.node.process.processes import ProcessRun
from kcr_devcluster.cluster.node.usage.proc import charged_bytes, has_process_table, resident_bytes, sample_sessions

INTERVAL_SECONDS = 0.2
# How often the processes of a container are searched for; more often while it is young, and starts them.
SEARCH_SECONDS = 1.0
YOUNG_SECONDS = 3.0
_NANO = 10**9

R = TypeVar("R")


class MemoryUse(NamedTuple):
    """The memory use and limit of a container, in bytes; `pod_limit` is that of all containers of its pod together."""

    uid: str
    used: int
    limit: int | None
    pod_limit: int | None


def over_limit(uses: Mapping[R, MemoryUse]) -> set[R]:
    """Return the containers to kill: those over their own limit, and the largest one of a pod over its limit."""
    over = {run for run, use in uses.items() if use.limit is not None and use.used > use.limit}
    for uid in {use.uid for use in uses.values() if use.pod_limit is not None}:
        of_pod = {run: use for run, use in uses.items() if use.uid == uid}
        limit = max(use.pod_limit or 0 for use in of_pod.values())
        if sum(use.used for use in of_pod.values()) > limit and not over & of_pod.keys():
            over.add(max(of_pod, key=lambda run: of_pod[run].used))
    return over


class _Limited(NamedTuple):
    """A container with a limit, its own or its pod's, in bytes; `since` is its start on the loop's time."""

    uid: str
    limit: int | None
    pod_limit: int | None
    since: float


class MemoryLimits:
    """Kills containers that use more memory than they may. It has a task for as long as there are any to watch."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._runs: dict[ProcessRun, _Limited] = {}
        self._pids: dict[ProcessRun, tuple[int, ...]] = {}
        self._searched_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def watch(self, run: ProcessRun, pod: KubeletPod, container: KubeletContainer) -> None:
        """Watch a container that has just been started, if it has a limit."""
        limit, pod_limit = _limit_of(container.resources), _limit_of(pod.spec.resources)
        if (limit is None and pod_limit is None) or not has_process_table():
            return
        since = asyncio.get_running_loop().time()
        self._runs[run] = _Limited(pod.metadata.uid, limit, pod_limit, since)
        if self._task is None:
            self._task = self._group.create_task(self._watch())

    def forget(self, run: ProcessRun) -> None:
        """Stop watching a container that has ended."""
        self._runs.pop(run, None)
        self._pids.pop(run, None)

    def close(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        try:
            while self._runs:
                self._search()
                pause = INTERVAL_SECONDS
                # Resident memory is quick to read, and never less than charged memory, which decides.
                if over_limit(self._uses(resident_bytes)):
                    pause = SEARCH_SECONDS
                    # Before anything is killed: a process id that was found earlier may be another process's by now.
                    self._pids = processes_by_run(self._runs)
                    for run in over_limit(self._uses(charged_bytes)):
                        self._kill(run)
                await asyncio.sleep(pause)
        finally:
            self._task = None

    def _search(self) -> None:
        """Search for the processes of all containers with a limit, when it is time."""
        now = asyncio.get_running_loop().time()
        is_young = any(now - limited.since < YOUNG_SECONDS for limited in self._runs.values())
        if now < self._searched_at + SEARCH_SECONDS and not is_young:
            return
        self._searched_at = now
        self._pids = processes_by_run(self._runs)

    def _uses(self, measure: Callable[[int], int]) -> dict[ProcessRun, MemoryUse]:
        return {
            run: MemoryUse(limited.uid, sum(map(measure, self._pids.get(run, ()))), limited.limit, limited.pod_limit)
            for run, limited in self._runs.items()
        }

    def _kill(self, run: ProcessRun) -> None:
        run.is_out_of_memory = True
        run.kill()
        for pid in self._pids.get(run, ()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        self.forget(run)


def processes_by_run(runs: Iterable[ProcessRun]) -> dict[ProcessRun, tuple[int, ...]]:
    """Return the processes of containers."""
    owners = {session: run for run in runs for session in run.sessions}
    found: dict[ProcessRun, list[int]] = {}
    for run, sample in sample_sessions(owners):
        found.setdefault(run, []).append(sample.pid)
    return {run: tuple(pids) for run, pids in found.items()}


def _limit_of(resources: Mapping[str, Any]) -> int | None:
    text = (resources.get("limits") or {}).get("memory")
    return None if text is None else amount(str(text)) // _NANO
