"""Jobs of many namespaces: those of one do not delay those of another."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kcr.api.batch import Job
from kcr.api.core import Namespace, Pod
from kcr.api.meta import ObjectMeta
from kcr.client import Request, Response, Transport
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import job_controller, manifest

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.soak]

TENANT_JOBS = 400


class SlowServer:
    """A transport to a server that takes 20 ms for each write."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        if request.method != "GET":
            await asyncio.sleep(0.02)
        async with self.inner.send(request) as response:
            yield response


async def test_many_jobs_of_one_namespace_do_not_delay_those_of_another(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    client = kcr_cluster.client
    async with job_controller(kcr_cluster, kcr_clock, transport=SlowServer(kcr_cluster.transport)):
        await client.create(Namespace(metadata=ObjectMeta(name="other")))
        for number in range(TENANT_JOBS):
            await client.create_manifest(Job, manifest(f"job-{number}"), "default")
        await kcr_clock.advance(0.5)
        other = manifest("urgent")
        other["metadata"]["namespace"] = "other"
        await client.create_manifest(Job, other, "other")
        await kcr_clock.advance(0.5)
        assert len(await client.list(Pod, "other")) == 1
        assert len(await client.list(Pod, "default")) < TENANT_JOBS / 2, "the other Jobs still wait"
