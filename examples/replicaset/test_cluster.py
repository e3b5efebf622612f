"""The whole controller on the embedded cluster, in virtual time: faults, crashes, and other clients."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_asyncio
import yaml

import kcr
from examples.replicaset.controller import setup
from kcr.api.apps import ReplicaSet
from kcr.api.core import Pod
from kcr.api.meta import controller_of
from kcr.client import Transport
from kcr.testing import CrashingTransport, PodScript, VirtualClock, eventually, namespace_ends
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = pytest.mark.kcr_virtual

KEY = kcr.Key("default", "web")


def manifest(replicas: int) -> dict[str, Any]:
    """The ReplicaSet of the example, for so many pods."""
    found: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "web.yaml").read_text(encoding="utf-8"))
    found["metadata"]["namespace"] = "default"
    found["spec"]["replicas"] = replicas
    return found


@asynccontextmanager
async def running(transport: Transport, clock: VirtualClock) -> AsyncIterator[None]:
    """Run the controller over a transport for as long as the context lives."""
    manager = kcr.Manager(kcr.Client(transport), clock=clock, random=Random(1))
    setup(manager)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(manager.run())
        yield
        task.cancel()


async def scaled(client: kcr.Client, replicas: int) -> tuple[Pod, ...]:
    """Wait until the status and the server both have so many pods, and return them."""

    async def right() -> bool:
        owner = await client.get(ReplicaSet, KEY)
        return owner.status.replicas == replicas == len(await client.list(Pod, "default"))

    await eventually(right, seconds=120)
    return await client.list(Pod, "default")


@pytest_asyncio.fixture
async def server(kcr_clock: VirtualClock) -> EmbeddedCluster:
    """A cluster without a node, where the test is the kubelet, and without a ReplicaSet controller of its own."""
    return EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None, deployments=False)


async def test_replicas_follow_the_spec_and_deletions(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with server, running(server.transport, kcr_clock):
        client = server.client
        await client.create_manifest(ReplicaSet, manifest(3), "default")
        first, *_ = await scaled(client, 3)
        await client.delete(Pod, first.key)
        assert first.metadata.uid not in {pod.metadata.uid for pod in await scaled(client, 3)}
        await client.merge_patch(ReplicaSet, KEY, {"spec": {"replicas": 1}})
        await scaled(client, 1)
        await client.delete(ReplicaSet, KEY)

        async def collected() -> bool:
            return not await client.list(Pod, "default")

        await eventually(collected, seconds=60)


async def test_pod_counts_as_available_after_min_ready_seconds(
    server: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with server, running(server.transport, kcr_clock):
        client = server.client
        body = manifest(1)
        body["spec"]["minReadySeconds"] = 30
        await client.create_manifest(ReplicaSet, body, "default")
        await scaled(client, 1)
        await PodScript(client, kcr_clock).run()
        await kcr_clock.advance(29)
        assert (await client.get(ReplicaSet, KEY)).status.available_replicas == 0
        await kcr_clock.advance(2)
        assert (await client.get(ReplicaSet, KEY)).status.available_replicas == 1


@pytest.mark.parametrize("write", range(1, 8))
async def test_crash_after_any_write_makes_no_pod_too_many(
    server: EmbeddedCluster, kcr_clock: VirtualClock, write: int
) -> None:
    async with server:
        client = server.client
        await client.create_manifest(ReplicaSet, manifest(3), "default")
        dying = CrashingTransport(server.transport)
        dying.crash_after(write)
        async with running(dying, kcr_clock):
            await kcr_clock.advance(60)
        async with running(server.transport, kcr_clock):
            pods = await scaled(client, 3)
            await kcr_clock.advance(60)
    assert all((reference := controller_of(pod.metadata)) and reference.name == "web" for pod in pods)
    assert len(await client.list(Pod, "default")) == 3


@pytest.mark.parametrize("loss", ["silence", "cut", "garbage", "502"])
async def test_lost_reply_makes_no_pod_too_many(server: EmbeddedCluster, kcr_clock: VirtualClock, loss: Any) -> None:
    async with server:
        lossy = CrashingTransport(server.transport)
        for write in range(1, 5):
            lossy.lose_reply(write, loss)
        async with running(lossy, kcr_clock):
            await server.client.create_manifest(ReplicaSet, manifest(3), "default")
            await scaled(server.client, 3)
            await kcr_clock.advance(120)
            assert len(await scaled(server.client, 3)) == 3


async def test_refusal_is_a_condition_until_it_is_over(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with server, running(server.transport, kcr_clock):
        client = server.client
        quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}}
        await client.create_manifest(kcr.unstructured("v1", "ResourceQuota", plural="resourcequotas"), quota, "default")
        await client.create_manifest(ReplicaSet, manifest(2), "default")
        await scaled(client, 1)
        failure = (await client.get(ReplicaSet, KEY)).status.conditions[0]
        assert (failure.type, failure.status, failure.reason) == ("ReplicaFailure", "True", "FailedCreate")
        assert "exceeded quota: small" in failure.message
        await client.merge_patch(ReplicaSet, KEY, {"spec": {"replicas": 1}})
        await kcr_clock.advance(60)
        assert (await client.get(ReplicaSet, KEY)).status.conditions == ()


@pytest.mark.kcr_cluster(deployments=False)
async def test_namespace_with_live_replicas_ends(kcr_cluster: EmbeddedCluster) -> None:
    stored = kcr.unstructured("apps/v1", "ReplicaSet", plural="replicasets")
    await namespace_ends(kcr_cluster, setup, [stored.of(manifest(2))])
