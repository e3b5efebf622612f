"""A node in virtual time whose containers are simulated, and whose probes and hooks answer as the test says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from kcr.client import Client
from kcr.clock import Clock
from kcr.manager import Manager
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import FOREVER, Logs, RunResult
from kcr_devcluster.cluster.node.kubelet import Kubelet
from kcr_devcluster.cluster.node.pods import LifecycleHandler, Probe
from kcr_devcluster.cluster.node.probes.handlers import HandlerTarget
from kcr_devcluster.cluster.node.probes.results import HandlerResult
from kcr_devcluster.cluster.node.runtime import NodeInfo
from kcr_devcluster.cluster.node.simulated import SimulatedRuntime
from kcr_devcluster.cluster.node.volumes.retries import MountRetries

OK = HandlerResult("success")
NO = HandlerResult("failure", "no")


def _no_volumes() -> MountRetries:
    raise AssertionError("these pods have no volumes")


class Answers:
    """What handlers come to, by the first word of their command; each takes its time.

    Attributes:
        runs: Word and moment of each run, in seconds since the beginning.
    """

    def __init__(self, **answers: HandlerResult) -> None:
        self._answers = answers
        self._seconds: dict[str, float] = {}
        self._begin = asyncio.get_running_loop().time()
        self.runs: list[tuple[str, float]] = []

    def set(self, word: str, answer: HandlerResult) -> None:
        self._answers[word] = answer

    def take(self, word: str, seconds: float) -> None:
        self._seconds[word] = seconds

    def moments(self, word: str) -> list[float]:
        return [moment for run, moment in self.runs if run == word]

    async def run(self, handler: Probe | LifecycleHandler, target: HandlerTarget) -> HandlerResult:
        assert handler.exec is not None
        word = handler.exec.command[0]
        self.runs.append((word, round(asyncio.get_running_loop().time() - self._begin, 2)))
        await asyncio.sleep(self._seconds.get(word, 0))
        return self._answers[word]


@asynccontextmanager
async def probed_node(clock: Clock, answers: Answers, outcome: RunResult | None = None) -> AsyncIterator[Client]:
    """A node `n` whose containers run until something ends them."""
    run_for = outcome or RunResult(run_for=FOREVER)
    async with (
        EmbeddedCluster(clock=clock, random=Random(0), runtime=None, gc=False) as cluster,
        asyncio.TaskGroup() as group,
    ):
        manager = Manager(cluster.client, clock=clock, random=Random(1))
        logs = Logs(clock)
        kubelet = Kubelet(
            manager, SimulatedRuntime(logs, lambda *_: run_for, _no_volumes), logs,
            node=NodeInfo("n"), group=group, run_handler=answers.run,
        )  # fmt: skip
        running = group.create_task(manager.run())
        await manager.wait_ready()
        try:
            yield cluster.client
        finally:
            kubelet.close()
            running.cancel()


def does(word: str, **more: object) -> dict[str, object]:
    """A probe or hook that runs one word."""
    return {"exec": {"command": [word]}, **more}
