"""Measures what the containers of a node use, when it is asked to.

Nothing is sampled before the first question, which takes a moment: CPU use is the difference between two samples.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kcr.apiserver.computed.resource_metrics import ContainerUsage, NodeUsage
from kcr.clock import Clock
from kcr.cluster.node.process.processes import ProcessRun
from kcr.cluster.node.usage.proc import charged_bytes, sample_processes

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
        """Measure, and return what the containers use that run now."""
        before = self._latest
        if before is None or asyncio.get_running_loop().time() - before.at > MAX_WINDOW_SECONDS:
            before, _ = self._sample()
        if (missing := before.at + MIN_WINDOW_SECONDS - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(missing)
        self._latest, pids = self._sample()
        window, running = self._latest.at - before.at, self._running()
        containers = tuple(
            ContainerUsage(
                running[run].uid, running[run].name,
                max(used - before.cpu_seconds.get(run, 0.0), 0.0) / window, sum(map(charged_bytes, pids[run])),
            )
            for run, used in self._latest.cpu_seconds.items()
        )  # fmt: skip
        return NodeUsage(self._node, self._clock.now(), window, containers)

    def _sample(self) -> tuple[_Sample, Mapping[ProcessRun, list[int]]]:
        """Return the sample, and the processes of each container that runs."""
        owners = {session: run for run in self._running() for session in run.sessions}
        cpu_seconds, pids = dict.fromkeys(self._running(), 0.0), {run: list[int]() for run in self._running()}
        for process in sample_processes():
            if (run := owners.get(process.session)) is not None:
                cpu_seconds[run] += process.cpu_seconds
                pids[run].append(process.pid)
        return _Sample(asyncio.get_running_loop().time(), cpu_seconds), pids
