"""Resource quota controller: what it survives, and what it leaves alone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import msgspec
import pytest

from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.api.unstructured import unstructured
from kcr.errors import ConflictError, ServerError
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.controllers import quota_status
from tests.kit.cluster_controllers import running_controllers
from tests.kit.node_pods import create

pytestmark = pytest.mark.kcr_virtual

Quota = unstructured("v1", "ResourceQuota", plural="resourcequotas")
MANIFEST = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "5"}}}


@asynccontextmanager
async def written(clock: VirtualClock) -> AsyncIterator[tuple[EmbeddedCluster, FaultyTransport]]:
    """A cluster whose quotas are written through a faulty transport."""
    async with EmbeddedCluster(clock=clock, random=Random(0), runtime=None, gc=False) as cluster:
        faults = FaultyTransport(cluster.transport)
        quotas = cluster.server.registry.quotas
        async with running_controllers(clock, faults, lambda manager: quota_status.setup(manager, quotas)):
            yield cluster, faults


async def used(cluster: EmbeddedCluster) -> Any:
    path = Quota.resource.path("default", "q")
    return msgspec.json.decode(await cluster.client.request("GET", path))["status"].get("used")


@pytest.mark.parametrize("error", [ServerError(500, "", "no"), ConflictError(409, "", "no")], ids=["down", "conflict"])
async def test_status_is_written_though_requests_fail(
    kcr_clock: VirtualClock, error: ServerError | ConflictError
) -> None:
    async with written(kcr_clock) as (cluster, faults):
        faults.on("patch", nth=1).fail(error)
        await cluster.client.create_manifest(Quota, MANIFEST, "default")
        await create(cluster.client, "a")
        await kcr_clock.advance(5)
        assert await used(cluster) == {"pods": "1"}


async def test_overwritten_status_is_computed_again(kcr_clock: VirtualClock) -> None:
    """Source: test/e2e/apimachinery/resource_quota.go, should apply changes to a resourcequota status."""
    async with written(kcr_clock) as (cluster, _):
        await cluster.client.create_manifest(Quota, MANIFEST, "default")
        await kcr_clock.settle()
        for _ in range(2):
            wrong = {"status": {"used": {"pods": "4"}}}
            await cluster.client.merge_patch(Quota, Key("default", "q"), wrong, subresource="status")
            await kcr_clock.advance(quota_status.RESYNC_SECONDS - 1)
            assert await used(cluster) == {"pods": "4"}
            await kcr_clock.advance(1)
            assert await used(cluster) == {"pods": "0"}


async def test_quota_that_went_does_not_keep_the_writer(kcr_clock: VirtualClock) -> None:
    async with written(kcr_clock) as (cluster, faults):
        faults.on("patch", nth=1).fail(ServerError(500, "", "no"))
        await cluster.client.create_manifest(Quota, MANIFEST, "default")
        await kcr_clock.settle()
        await cluster.client.delete(Quota, Key("default", "q"))
        await kcr_clock.advance(5)
        await cluster.client.create_manifest(Quota, MANIFEST, "default")
        await kcr_clock.advance(5)
        assert await used(cluster) == {"pods": "0"}


async def test_what_changes_nothing_is_not_written(kcr_clock: VirtualClock) -> None:
    async with written(kcr_clock) as (cluster, faults):
        await cluster.client.create_manifest(Quota, MANIFEST, "default")
        await create(cluster.client, "a")
        await kcr_clock.advance(1)
        before = len(faults.calls)
        await cluster.client.merge_patch(Pod, Key("default", "a"), {"metadata": {"labels": {"a": "b"}}})
        await kcr_clock.advance(1)
        assert len(faults.calls) == before
