"""What a Job gets although something it does not need goes wrong."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.client import Request, Response, Transport
from kcr.cluster import EmbeddedCluster
from kcr.errors import TransportError
from kcr.testing import VirtualClock
from tests.chaos.network_faults import refusal
from tests.kit.harness import conditions, counters, create, finished, job_controller, manifest, pods_of, read

KEY = Key("default", "pi")
FOREVER = {"sim.kcr.dev/run-for": "forever"}


class NoNewPods:
    """A transport on which every creation of a pod fails while it is closed: some webhook does not answer."""

    def __init__(self, inner: Transport, code: str) -> None:
        self._inner = inner
        self._code = code
        self.closed = False

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        if self.closed and request.method == "POST" and request.target.partition("?")[0].endswith("/pods"):
            if self._code == "cut":
                raise TransportError("no answer")
            yield refusal(self._code)
            return
        async with self._inner.send(request) as response:
            yield response


# A refusal, the server's own failure, and silence: the last two leave open whether the pod was made.
failing = pytest.mark.parametrize("code", ["403", "500", "cut"])


@failing
@pytest.mark.virtual
async def test_deadline_holds_while_no_pod_can_be_made(
    cluster: EmbeddedCluster, clock: VirtualClock, code: str
) -> None:
    # job-controller §24.
    door = NoNewPods(cluster.transport, code)
    door.closed = True
    async with job_controller(cluster, clock, transport=door):
        await create(cluster.client, manifest(activeDeadlineSeconds=40))
        await clock.advance(42)
        assert conditions(await read(cluster.client))[-1] == ("Failed", "DeadlineExceeded")


@failing
@pytest.mark.virtual
async def test_ended_pods_are_counted_while_none_can_be_made(
    cluster: EmbeddedCluster, clock: VirtualClock, code: str
) -> None:
    # job-controller §10: a failing creation does not prevent the status update.
    door = NoNewPods(cluster.transport, code)
    async with job_controller(cluster, clock, transport=door):
        await create(cluster.client, manifest(parallelism=2, completions=4, annotations={"sim.kcr.dev/run-for": "10s"}))
        await clock.advance(5)
        (pod, _) = await pods_of(cluster.client)
        door.closed = True
        await cluster.client.delete(Pod, pod.key, grace_period_seconds=0)
        await clock.advance(30)
        assert counters(await read(cluster.client)) == (0, 0, 0, 1, 1)
        door.closed = False
        job = await finished(cluster.client, seconds=120)
    assert (job.status.succeeded, job.status.failed) == (4, 1)


@failing
@pytest.mark.virtual
async def test_suspension_is_met_while_no_pod_can_be_made(
    cluster: EmbeddedCluster, clock: VirtualClock, code: str
) -> None:
    # job-controller §25.
    door = NoNewPods(cluster.transport, code)
    async with job_controller(cluster, clock, transport=door):
        await create(cluster.client, manifest(parallelism=2, annotations=FOREVER))
        await clock.advance(5)
        door.closed = True
        await cluster.client.merge_patch(Job, KEY, {"spec": {"parallelism": 3}})
        await clock.advance(5)
        await cluster.client.merge_patch(Job, KEY, {"spec": {"suspend": True}})
        await clock.advance(5)
        job = await read(cluster.client)
        assert (conditions(job), job.status.active) == ([("Suspended", "JobSuspended")], 0)


@failing
@pytest.mark.virtual
async def test_job_goes_while_no_pod_can_be_made(cluster: EmbeddedCluster, clock: VirtualClock, code: str) -> None:
    # job-controller §28.
    door = NoNewPods(cluster.transport, code)
    async with job_controller(cluster, clock, transport=door):
        await create(cluster.client, manifest(parallelism=2, annotations=FOREVER))
        await clock.advance(5)
        door.closed = True
        await cluster.client.merge_patch(Job, KEY, {"spec": {"parallelism": 3}})
        await clock.advance(5)
        await cluster.client.delete(Job, KEY, propagation="Foreground")
        await clock.advance(60)
        assert await cluster.client.list(Job, "default") == ()
        assert await pods_of(cluster.client) == ()
