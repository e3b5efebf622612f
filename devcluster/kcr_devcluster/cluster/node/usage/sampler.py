"""Measures the CPU and memory use of a node's containers on request.

Nothing is sampled before the first request, which takes a moment: CPU use is the difference between two samples.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kcr.clock import Clock
from kcr_devcluster.apiserver.http.resource_metrics import ContainerUsage, NodeUsage
from kcr_devcluster.cluster.node.process.processes import ProcessRun
from kcr_devcluster.cluster.node.usage.proc import charged_bytes, sample_sessions

# CPU time is counted in ticks of 10 ms: half a second is exact to 2 % of a core.
MIN_WINDOW_SECONDS = 0.5
# How old a sample may be to begin a window.
MAX_WINDOW_SECONDS = 15.0


class ContainerName(NamedTuple):
    """A container of a pod, by the pod's uid."""

    uid: str
    name: str


class _Sample(NamedTuple):
    """CPU time by container, at a moment on the loop's time."""

    at: float
    cpu_seconds: Mapping[ProcessRun, float]


class UsageSampler:
    """Measures the containers that run."""

    def __init__(self, node: str, running: Callable[[], Mapping[ProcessRun, ContainerName]], clock: Clock) -> None:
        """Make a sampler.

        Args:
            node: The node's name.
            running: Returns the containers that run.
            clock: The time.
        """
        self._node = node
        self._running = running
        self._clock = clock
        self._latest: _Sample | None = None

    async def usage(self) -> NodeUsage:
        """Measure and return the use of the containers that run now."""
        before = self._latest
        if before is None or asyncio.get_running_loop().time() - before.at > MAX_WINDOW_SECONDS:
            before, _ = self._sample()
        if (missing := before.at + MIN_WINDOW_SECONDS - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(missing)
        running = dict(self._running())
        self._latest, pids = self._sample()
        latest, moment, containers = self._latest, self._clock.now(), []
        for run, name in running.items():
            cores = max(latest.cpu_seconds[run] - before.cpu_seconds.get(run, 0.0), 0.0) / (latest.at - before.at)
            containers.append(ContainerUsage(name.uid, name.name, cores, sum(map(charged_bytes, pids[run]))))
            await asyncio.sleep(0)  # memory takes long to read
        return NodeUsage(self._node, moment, latest.at - before.at, tuple(containers))

    def _sample(self) -> tuple[_Sample, Mapping[ProcessRun, list[int]]]:
        """Return the sample, and the processes of each container that runs."""
        running = self._running()
        owners = {session: run for run in running for session in run.sessions}
        cpu_seconds: dict[ProcessRun, float] = dict.fromkeys(running, 0.0)
        pids: dict[ProcessRun, list[int]] = {run: [] for run in running}
        for run, process in sample_sessions(owners):
            cpu_seconds[run] += process.cpu_seconds
            pids[run].append(process.pid)
        return _Sample(asyncio.get_running_loop().time(), cpu_seconds), pids
