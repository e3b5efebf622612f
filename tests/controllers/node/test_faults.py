"""The node when the server does not answer, forgets, or is found half-way."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from kcr.api.core import Pod
from kcr.client import Client, Request, Response, Transport
from kcr.errors import TransportError
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import FOREVER, NodeAgent, RunResult
from kcr_devcluster.cluster.node.pods import KubeletPod
from kcr_devcluster.cluster.scheduling import scheduler
from tests.kit.node_pods import create, delete, get, names, state

pytestmark = pytest.mark.kcr_virtual


class Unreliable:
    """A transport that fails one in so many requests: in turn before and after the server has acted.

    Which ones is drawn: a strict order would keep step with a client that looks up each unanswered write.
    """

    def __init__(self, inner: Transport, every: int) -> None:
        self.inner = inner
        self._every = every
        self._random = random.Random(every)
        self._failures = 0

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return self._send(request)

    @asynccontextmanager
    async def _send(self, request: Request) -> AsyncIterator[Response]:
        fails = self._random.randrange(self._every) == 0
        self._failures += fails
        if fails and self._failures % 2 == 0:
            raise TransportError("never sent")
        async with self.inner.send(request) as response:
            if fails and "watch=true" not in request.target:
                raise TransportError("answer lost")
            yield response


def node_of(cluster: EmbeddedCluster, clock: VirtualClock, transport: Transport, *, outcome: RunResult) -> NodeAgent:
    node = NodeAgent(
        Client(transport), clock=clock, random=random.Random(1), on_run=lambda pod, container, attempt: outcome
    )
    cluster.server.logs = node.logs
    return node


@asynccontextmanager
async def bare_cluster(clock: VirtualClock) -> AsyncIterator[EmbeddedCluster]:
    """A cluster with a scheduler and without a node."""
    async with EmbeddedCluster(clock=clock, random=random.Random(0), runtime=None) as cluster:
        scheduler.setup(cluster.manager)
        yield cluster


@pytest.mark.parametrize("every", [2, 3, 5, 7])
async def test_every_pod_ends_though_requests_fail(kcr_clock: VirtualClock, every: int) -> None:
    async with bare_cluster(kcr_clock) as cluster, asyncio.TaskGroup() as group:
        node = node_of(cluster, kcr_clock, Unreliable(cluster.transport, every), outcome=RunResult(run_for=5))
        running = group.create_task(node.run())
        for number in range(20):
            await create(cluster.client, f"p{number}")
        await kcr_clock.advance(600)
        pods = await cluster.client.list(KubeletPod, "default")
        assert {(pod.status.phase, state(pod)) for pod in pods} == {("Succeeded", "Completed 0")}
        for number in range(20):
            await delete(cluster.client, f"p{number}")
        await kcr_clock.advance(60)
        assert await names(cluster.client) == set()
        running.cancel()


async def test_nothing_stirs_after_the_end_of_the_node(kcr_clock: VirtualClock) -> None:
    errors: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    async with bare_cluster(kcr_clock) as cluster, asyncio.TaskGroup() as group:
        node = node_of(cluster, kcr_clock, cluster.transport, outcome=RunResult(exit_code=1, run_for=20))
        running = group.create_task(node.run())
        await create(cluster.client, "runs")
        await create(cluster.client, "backs-off", policy="OnFailure")
        await kcr_clock.advance(45)
        await create(cluster.client, "late")
        await kcr_clock.advance(1)
        running.cancel()
        await kcr_clock.settle()
        before = await cluster.client.list(KubeletPod, "default")
        await kcr_clock.advance(1000)
        assert await cluster.client.list(KubeletPod, "default") == before
    assert errors == []


async def test_changes_made_while_the_watch_was_away_are_found(kcr_clock: VirtualClock) -> None:
    async with bare_cluster(kcr_clock) as cluster, asyncio.TaskGroup() as group:
        node = node_of(cluster, kcr_clock, cluster.transport, outcome=RunResult(run_for=FOREVER))
        running = group.create_task(node.run())
        await create(cluster.client, "kept")
        await create(cluster.client, "lost")
        await kcr_clock.advance(1)
        running.cancel()
        await kcr_clock.settle()
        await delete(cluster.client, "lost", grace=0)
        await create(cluster.client, "fresh")
        again = group.create_task(
            node_of(cluster, kcr_clock, cluster.transport, outcome=RunResult(run_for=FOREVER)).run()
        )
        await kcr_clock.advance(1)
        assert await names(cluster.client) == {"kept", "fresh"}
        assert state(await get(cluster.client, "fresh")) == "running"
        # What the first node ran is lost, and under Never that is the end.
        kept = await get(cluster.client, "kept")
        assert (kept.status.phase, state(kept)) == ("Failed", "ContainerStatusUnknown 137")
        again.cancel()


async def test_restartable_pod_goes_on_under_a_new_node(kcr_clock: VirtualClock) -> None:
    async with bare_cluster(kcr_clock) as cluster, asyncio.TaskGroup() as group:
        node = node_of(cluster, kcr_clock, cluster.transport, outcome=RunResult(run_for=FOREVER))
        running = group.create_task(node.run())
        await create(cluster.client, "a", policy="OnFailure")
        await kcr_clock.advance(1)
        running.cancel()
        await kcr_clock.settle()
        again = group.create_task(
            node_of(cluster, kcr_clock, cluster.transport, outcome=RunResult(run_for=FOREVER)).run()
        )
        await kcr_clock.advance(1)
        pod = await get(cluster.client, "a")
        assert (state(pod), pod.status.container_statuses[0].restart_count) == ("running", 1)
        again.cancel()


async def test_pod_failed_by_somebody_else_stops_and_stays_failed(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    assert kcr_cluster.node is not None
    kcr_cluster.node.on_run = lambda pod, container, attempt: RunResult(run_for=FOREVER, term_exit_code=0)
    pod = await create(kcr_cluster.client, "a")
    await kcr_clock.advance(1)
    await kcr_cluster.client.merge_patch(Pod, pod.key, {"status": {"phase": "Failed"}}, subresource="status")
    await kcr_clock.advance(1)
    pod = await get(kcr_cluster.client, "a")
    assert (pod.status.phase, state(pod)) == ("Failed", "Completed 0")


async def test_pods_with_gates_wait_until_the_last_is_gone(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    pod = await create(kcr_cluster.client, "a", schedulingGates=[{"name": "example.dev/hold"}])
    await kcr_clock.advance(5)
    assert not (await get(kcr_cluster.client, "a")).spec.node_name
    gates: Sequence[object] = ()
    await kcr_cluster.client.merge_patch(KubeletPod, pod.key, {"spec": {"schedulingGates": gates}})
    await kcr_clock.advance(1)
    assert (await get(kcr_cluster.client, "a")).spec.node_name == "kcr-node-0"


async def test_hurried_node_writes_one_status_for_a_short_pod(kcr_clock: VirtualClock) -> None:
    async with bare_cluster(kcr_clock) as cluster, asyncio.TaskGroup() as group:
        node = NodeAgent(
            cluster.client, clock=kcr_clock, random=random.Random(1), fast=True,
            on_run=lambda pod, container, attempt: RunResult(logs="done\n"),
        )  # fmt: skip
        cluster.server.logs = node.logs
        running = group.create_task(node.run())
        await create(cluster.client, "a")
        await kcr_clock.advance(1)
        pod = await get(cluster.client, "a")
        assert (pod.status.phase, state(pod)) == ("Succeeded", "Completed 0")
        running.cancel()
