"""The node: registers itself, and runs the kubelet and a container runtime for as long as its Node object exists."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import structlog

from kcr.api.core import Node as NodeObject
from kcr.api.core import reference_to
from kcr.api.meta import Key
from kcr.client import Client
from kcr.clock import Clock
from kcr.informer import Handler, Selection
from kcr.manager import Manager
from kcr_devcluster.apiserver.http.resource_metrics import NodeUsage
from kcr_devcluster.cluster.node.connection import NodeConnection
from kcr_devcluster.cluster.node.kubelet import Kubelet
from kcr_devcluster.cluster.node.logs import Logs
from kcr_devcluster.cluster.node.pods import KubeletContainer, KubeletPod
from kcr_devcluster.cluster.node.probes.handlers import run_handler
from kcr_devcluster.cluster.node.process_pods.process_runtime import process_runtime
from kcr_devcluster.cluster.node.registration import Heartbeats, register
from kcr_devcluster.cluster.node.runtime import ContainerRuntime, NodeInfo, RecordWarning, RunningContainer
from kcr_devcluster.cluster.node.simulated import OnRun, RunResult, SimulatedRuntime, annotated_outcome, default_outcome
from kcr_devcluster.cluster.node.usage.sampler import UsageSampler
from kcr_devcluster.options import Runtime

if TYPE_CHECKING:
    from kcr_devcluster.cluster.node.volumes.retries import MountRetries

NODE_NAME = "kcr-node-0"
KUBELET = "kubelet"
# How long a node is away whose Node object was deleted.
AWAY_SECONDS = 10.0


class NodeAgent:
    """Runs every pod of the cluster, as processes or as a simulation.

    Attributes:
        logs: The output of containers.
        on_run: Returns the outcome of a simulated run: called with the pod, the container's name and how often it
            has run before (0 the first time). Where it is or returns None, the annotations `sim.kcr.dev/…` decide.
        info: Its name and address; `api_url` and `kubeconfig` in it are handed to processes once they are set.
        heartbeats: Set once the node has to say that it is alive.
    """

    def __init__(  # noqa: PLR0913 - each is one independent choice, by name
        self,
        client: Client,
        *,
        clock: Clock,
        random: Random,
        runtime: Runtime = "simulated",
        on_run: OnRun | None = None,
        fast: bool = False,
        info: NodeInfo | None = None,
        connection: NodeConnection | None = None,
        heartbeats: asyncio.Event | None = None,
    ) -> None:
        """Make a node.

        Args:
            client: How to reach the server.
            clock: For the times in statuses and logs.
            random: For names and pauses.
            runtime: Whether commands really run.
            on_run: See above.
            fast: Whether simulated pods skip the states that last no time.
            info: Its name and address; None for the first node's.
            connection: The connection of `client`, so that it can be cut; None when it cannot.
            heartbeats: Set once the node has to say that it is alive; None for an event of its own.
        """
        self.logs: Logs = Logs(clock)
        self.on_run = on_run
        info = info or NodeInfo(NODE_NAME)
        if runtime == "process" and (info.names is None or not info.names.has_addresses):
            info = replace(info, host_network=True)
        self.info: NodeInfo = info
        self._client = client
        self._connection = connection
        self._clock = clock
        self._random = random
        self._process = runtime == "process"
        self._fast = fast
        self.heartbeats: asyncio.Event = heartbeats or asyncio.Event()
        # Set while the machine is down.
        self._down = asyncio.Event()
        self._up = asyncio.Event()
        self._kubelet: Kubelet | None = None
        self._sampler: UsageSampler | None = None

    def running_containers(self, key: Key, uid: str) -> Mapping[str, RunningContainer]:
        """Return the containers of a pod that run here, by name."""
        return {} if self._kubelet is None else self._kubelet.running_containers(key, uid)

    async def run(self) -> None:
        """Run pods until cancelled; every process has ended when this returns.

        When its Node object is deleted, the node is lost with all that runs on it. It comes back a little later,
        as a machine does that was replaced by one of the same name.
        """
        try:
            while True:
                await self._run_until_lost()
                self.logs.clear()
                if self._down.is_set():
                    await self._up.wait()
                else:
                    await asyncio.sleep(AWAY_SECONDS)
        finally:
            if self._connection is not None:
                self._connection.restore()

    async def usage(self) -> NodeUsage | None:
        """Measure the CPU and memory use of containers; None for a lost node, and for simulated containers."""
        return None if self._sampler is None else await self._sampler.usage()

    async def delete(self) -> None:
        """Lose the node: delete its Node object.

        Raises:
            NotFoundError: It is lost already, or has not begun yet.
        """
        await self._client.delete(NodeObject, Key("", self.info.name))

    def silence(self) -> None:
        """Cut the node off: its containers run on, but it sends and receives nothing until `resume`.

        After 50 s its Ready condition is Unknown. After the time that they tolerate that, 300 s unless they say
        otherwise, its pods are deleted and replaced elsewhere; they stay terminating until the node is back or deleted.

        Raises:
            ValueError: The node has a connection of its own.
        """
        if self._connection is None:
            raise ValueError(f"node {self.info.name}: it is not a node of an embedded cluster, and cannot be cut off")
        self.heartbeats.set()
        self._connection.cut()

    def lose(self) -> None:
        """Switch the machine off: all that runs there ends, unreported; `resume` starts it again without containers.

        Its Node object stays, and its pods are treated as with `silence`.
        """
        self.heartbeats.set()
        self._up.clear()
        self._down.set()

    def resume(self) -> None:
        """End the outage that `silence` or `lose` began."""
        if self._connection is not None:
            self._connection.restore()
        self._down.clear()
        self._up.set()

    async def _run_until_lost(self) -> None:
        """Register the node, and run a kubelet with its own manager until the node is down or its object is deleted."""
        await register(self._client, self.info, self._clock)
        key = Key("", self.info.name)
        lost = asyncio.Event()
        manager = Manager(self._client, clock=self._clock, random=Random(self._random.getrandbits(64)))
        async with self._open_runtime(self._recorder(manager)) as runtime, asyncio.TaskGroup() as group:
            kubelet = Kubelet(
                manager, runtime, self.logs, node=self.info, group=group, fast=self._fast,
                run_handler=run_handler if self._process else None,
            )  # fmt: skip
            self._kubelet = kubelet
            manager.select(Selection(NodeObject, fields=f"metadata.name={self.info.name}"))
            manager.informer(NodeObject).add_handler(_NodeLost(lost))
            running = group.create_task(self._run_manager(manager))
            beating: asyncio.Task[None] | None = None
            try:
                await manager.wait_ready()
                nodes = manager.store(NodeObject)
                beats = Heartbeats(self._client, self.info, self._clock, nodes)
                beating = group.create_task(beats.run(self.heartbeats))
                if nodes.get(key) is not None:
                    await _first(group, lost, self._down)
            finally:
                self._kubelet = None
                kubelet.close()
                running.cancel()
                if beating is not None:
                    beating.cancel()

    async def _run_manager(self, manager: Manager) -> None:
        # A task of its own, so this context is that of all its log lines.
        structlog.contextvars.bind_contextvars(component=KUBELET, node=self.info.name)
        await manager.run()

    def _recorder(self, manager: Manager) -> RecordWarning:
        recorder = manager.recorder(KUBELET, host=self.info.name)
        return lambda pod, reason, message: recorder.event(reference_to(pod), "Warning", reason, message)

    @asynccontextmanager
    async def _open_runtime(self, record: RecordWarning) -> AsyncIterator[ContainerRuntime]:
        def volumes() -> "MountRetries":
            from kcr_devcluster.cluster.node.volumes.retries import checked_volumes  # noqa: PLC0415  # few pods have volumes

            return checked_volumes(self._client, self.info, record)

        if not self._process:
            yield SimulatedRuntime(self.logs, self._outcome_of, volumes, fast=self._fast)
            return
        async with process_runtime(self._client, self.logs, self.info, record) as runtime:
            self._sampler = UsageSampler(self.info.name, runtime.running, self._clock)
            try:
                yield runtime
            finally:
                self._sampler = None

    def _outcome_of(self, pod: KubeletPod, container: KubeletContainer, attempt: int) -> RunResult:
        outcome = self.on_run(pod, container.name, attempt) if self.on_run is not None else None
        if outcome is not None:
            return outcome
        return annotated_outcome(pod, container.name, attempt, default_outcome(pod, container))


async def _first(group: asyncio.TaskGroup, *events: asyncio.Event) -> None:
    """Return when one of several events is set."""
    waiting = [group.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


class _NodeLost(Handler[NodeObject]):
    def __init__(self, lost: asyncio.Event) -> None:
        self._lost = lost

    def on_delete(self, obj: NodeObject, final_state_unknown: bool) -> None:
        self._lost.set()
