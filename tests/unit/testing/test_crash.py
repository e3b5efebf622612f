import asyncio

import pytest

from kcr.api.core import Namespace
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client
from kcr.errors import TransportError
from kcr.testing import CrashingTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = pytest.mark.kcr_virtual


def namespace(name: str) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name))


async def names(cluster: EmbeddedCluster) -> set[str]:
    return {found.metadata.name for found in await cluster.client.list(Namespace)}


async def test_only_writes_are_counted(kcr_cluster: EmbeddedCluster) -> None:
    transport = CrashingTransport(kcr_cluster.transport)
    client = Client(transport)
    await client.create(namespace("a"))
    await client.get(Namespace, Key("", "a"))
    await client.merge_patch(Namespace, Key("", "a"), {"metadata": {"labels": {"x": "y"}}})
    await client.delete(Namespace, Key("", "a"))
    assert transport.writes == 3


async def test_last_write_happens_and_is_not_answered(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    transport = CrashingTransport(kcr_cluster.transport)
    transport.crash_after(2)
    answered = []

    async def process() -> None:
        for name in ("a", "b", "c"):
            await Client(transport).create(namespace(name))
            answered.append(name)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(process())
        await transport.crashed.wait()
        await kcr_clock.settle()
        task.cancel()
    assert answered == ["a"]
    assert {"a", "b"} <= await names(kcr_cluster)
    assert "c" not in await names(kcr_cluster)


async def test_watch_falls_silent_after_the_crash(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    transport = CrashingTransport(kcr_cluster.transport)
    seen = []

    async def process() -> None:
        async with Client(transport).watch(Namespace, resource_version="", timeout_seconds=3600) as events:
            async for event in events:
                seen.append(event.object.metadata.name)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(process())
        await kcr_clock.settle()
        await kcr_cluster.client.create(namespace("before"))
        await kcr_clock.settle()
        transport.crash_after(0)
        await kcr_cluster.client.create(namespace("after"))
        await kcr_clock.settle()
        task.cancel()
    assert "before" in seen
    assert "after" not in seen


async def test_lost_reply_is_a_write_without_an_answer(kcr_cluster: EmbeddedCluster) -> None:
    transport = CrashingTransport(kcr_cluster.transport)
    transport.lose_reply(1)
    with pytest.raises(TransportError, match="the reply was lost"):
        await Client(transport).create(namespace("a"))
    assert "a" in await names(kcr_cluster)
    await Client(transport).create(namespace("b"))
