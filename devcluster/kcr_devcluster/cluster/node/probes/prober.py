"""The prober: runs the probes of one container for as long as it runs.

The startup probe comes first; when it has succeeded, liveness and readiness probe run side by side, each at its own
pace.

Source: kubernetes/pkg/kubelet/prober/worker.go.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from kcr_devcluster.cluster.node.pods import KubeletContainer, Probe
from kcr_devcluster.cluster.node.probes.handlers import HandlerTarget, RunHandler
from kcr_devcluster.cluster.node.probes.results import (
    INITIAL,
    HandlerResult,
    ProbeType,
    first_run,
    next_result,
    next_run,
)


class ProbeObserver(Protocol):
    """Receives the results of a prober."""

    @property
    def is_terminating(self) -> bool:
        """Whether the pod terminates: only its readiness is probed then."""
        ...

    def on_run(self, kind: ProbeType, result: HandlerResult) -> None:
        """Note one run of a probe."""
        ...

    def on_change(self, kind: ProbeType, succeeds: bool) -> None:
        """Note that a probe has reached a threshold, and changed its state."""
        ...


def probes_of(container: KubeletContainer) -> Mapping[ProbeType, Probe]:
    """Return the probes of a container that have an effect; those of gRPC have none."""
    given: dict[ProbeType, Probe | None] = {
        "Startup": container.startup_probe, "Liveness": container.liveness_probe,
        "Readiness": container.readiness_probe,
    }  # fmt: skip
    return {
        kind: probe
        for kind, probe in given.items()
        if probe is not None and (probe.exec or probe.http_get or probe.tcp_socket)
    }


class Prober:
    """Probes one run of a container."""

    def __init__(self, target: HandlerTarget, since: float, run_handler: RunHandler, observer: ProbeObserver) -> None:
        """Make a prober.

        Args:
            target: The container.
            since: When it was started, on the loop's time.
            run_handler: Runs a probe once.
            observer: Learns of the results.
        """
        self._target = target
        self._since = since
        self._run_handler = run_handler
        self._observer = observer

    async def run(self) -> None:
        """Probe until a startup or liveness probe has reached its failure threshold; readiness without end."""
        probes = dict(probes_of(self._target.container))
        if (startup := probes.pop("Startup", None)) is not None and not await self._probe("Startup", startup):
            return
        async with asyncio.TaskGroup() as group:
            for kind, probe in probes.items():
                group.create_task(self._probe(kind, probe))

    async def _probe(self, kind: ProbeType, probe: Probe) -> bool:
        """Run one probe until it has nothing more to say, and return its state."""
        loop, result = asyncio.get_running_loop(), INITIAL[kind]
        due = first_run(probe, self._since, loop.time())
        while True:
            await asyncio.sleep(max(due - loop.time(), 0))
            if kind != "Readiness" and self._observer.is_terminating:
                return False
            outcome = await self._run_handler(probe, self._target)
            self._observer.on_run(kind, outcome)
            if outcome.outcome != "unknown":
                before = result.state
                result = next_result(result, outcome.outcome != "failure", probe)
                if result.state is not None and result.state is not before:
                    self._observer.on_change(kind, result.state)
                    if kind == "Startup" or (kind == "Liveness" and not result.state):
                        return result.state
            due = next_run(probe, due, loop.time())
