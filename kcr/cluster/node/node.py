"""The node: a kubelet and a runtime, ordinary clients of the server."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from random import Random
from typing import Literal

from kcr.api.core import Node as NodeObject
from kcr.api.meta import Key
from kcr.client import Client
from kcr.clock import Clock
from kcr.cluster.node.events import Events
from kcr.cluster.node.feed import PodFeed
from kcr.cluster.node.images import BUILT_IN, ImageCommand
from kcr.cluster.node.kubelet import Kubelet
from kcr.cluster.node.logs import Logs
from kcr.cluster.node.outcome import OnRun, Outcome, annotated_outcome, default_outcome
from kcr.cluster.node.place import Place
from kcr.cluster.node.pods import Container, RunnablePod
from kcr.cluster.node.process import process_runtime
from kcr.cluster.node.registration import follow, register
from kcr.cluster.node.runtime import Runtime
from kcr.cluster.node.simulated import SimulatedRuntime

# How long a node is away whose Node object was deleted.
AWAY_SECONDS = 10.0


class _UnregisteredError(Exception):
    """The Node object is gone; raised to end all that the node is doing."""


class Node:
    """Runs every pod of the cluster, as processes or as a simulation.

    Attributes:
        logs: What containers print.
        on_run: Says how a simulated run goes: called with the pod, the container's name and how often it
            has run before (0 the first time). Where it is or returns None, the annotations `sim.kcr.dev/…` say.
        place: Its name and address; `api_url` and `kubeconfig` in it are handed to processes once they are set.
    """

    def __init__(  # noqa: PLR0913  # the options of the embedded cluster's node, all by name
        self,
        client: Client,
        *,
        clock: Clock,
        random: Random,
        runtime: Literal["simulated", "process"] = "simulated",
        on_run: OnRun | None = None,
        name: str = "kcr-node-0",
        default_runtime: float = 0.0,
        fast: bool = False,
        images: Mapping[str, ImageCommand] = {},
    ) -> None:
        """Make a node.

        Args:
            client: How to reach the server.
            clock: For the times in statuses and logs.
            random: For names and pauses.
            runtime: Whether commands really run.
            on_run: See above.
            name: The node's name.
            default_runtime: How many seconds a Job's container runs when nobody says otherwise.
            fast: Whether simulated pods skip the states that last no time.
            images: What images run beside the usual ones.
        """
        self.logs = Logs(clock)
        self.on_run = on_run
        self.place = Place(name, shared=runtime == "process")
        self._client = client
        self._clock = clock
        self._random = random
        self._process = runtime == "process"
        self._default_runtime = default_runtime
        self._fast = fast
        self._images = {**BUILT_IN, **images}

    async def run(self) -> None:
        """Run pods until cancelled; every process has ended when this returns.

        When its Node object is deleted, the node is lost with all that runs on it. It comes back a little later,
        as a machine does that was replaced by one of the same name.
        """
        while True:
            try:
                await self._live()
            except* _UnregisteredError:
                self.logs.clear()
            await asyncio.sleep(AWAY_SECONDS)

    async def delete(self) -> None:
        """Lose the node: delete its Node object.

        Raises:
            NotFoundError: It is lost already, or has not begun yet.
        """
        await self._client.delete(NodeObject, Key("", self.place.name))

    async def _live(self) -> None:
        """Run pods until the Node object is gone.

        Raises:
            ExceptionGroup: Of an `_UnregisteredError`: it is.
        """
        name, place = self.place.name, self.place
        events = Events(self._client, self._clock, name)
        async with self._open_runtime() as runtime, asyncio.TaskGroup() as group:
            kubelet = Kubelet(
                self._client, runtime, events, self.logs, group,
                clock=self._clock, random=self._random, place=place, fast=self._fast,
            )  # fmt: skip

            await register(self._client, name, place.ip, self._clock.now())
            group.create_task(events.run())
            group.create_task(PodFeed(self._client, self._random, on_pod=kubelet.observe, on_gone=kubelet.forget).run())
            try:
                await follow(self._client, name, lambda _: None)
                raise _UnregisteredError(name)
            finally:
                kubelet.close()

    def _open_runtime(self) -> AbstractAsyncContextManager[Runtime]:
        if self._process:
            return process_runtime(self._client, self.logs, self.place, self._images)
        return nullcontext(SimulatedRuntime(self.logs, self._outcome_of, fast=self._fast))

    def _outcome_of(self, pod: RunnablePod, container: Container, attempt: int) -> Outcome:
        usual = default_outcome(pod, container, self._default_runtime)
        outcome = self.on_run(pod, container.name, attempt) if self.on_run is not None else None
        if outcome is not None:
            return outcome
        return annotated_outcome(pod, container.name, attempt, usual)
