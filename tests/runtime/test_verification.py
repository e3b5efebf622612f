"""`Informer.verify`: the cache against the server, object by object."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

import kcr
from kcr.api.core import ConfigMap
from kcr.api.meta import ObjectMeta
from kcr.cli.debug.commands import verified_lines
from kcr.client import Client, Request, Response, Transport
from kcr.errors import NotSyncedError
from kcr.informer import Informer, Selection
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]


def config(name: str, namespace: str = "default", **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace, labels={"app": name[0]}), data=data)


@asynccontextmanager
async def informed(cluster: EmbeddedCluster, *selections: Any, client: Client | None = None) -> AsyncIterator[Any]:
    manager = kcr.Manager(client or cluster.client, random=random.Random(0))
    if selections:
        manager.select(*selections)
    informer = manager.informer(ConfigMap)
    async with manager.running():
        yield informer


async def differences(informer: Informer[ConfigMap]) -> list[str]:
    return [text for one in await informer.verify() for text in one.differences]


async def test_cache_that_is_right_has_no_difference(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    for number in range(450):
        await kcr_cluster.client.create(config(f"a{number}", n=str(number)))
    async with informed(kcr_cluster) as informer:
        (verified,) = await informer.verify()
        assert (verified.differences, verified.objects) == ((), len(informer.store))
        (line,) = verified_lines([verified])
    assert line == f"configmaps: {verified.objects} objects at version {verified.version}, as the server has them"


async def test_each_kind_of_difference_is_named(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    for name in ("same", "lost", "old", "other"):
        await kcr_cluster.client.create(config(name, n=f"of {name}"))
    async with informed(kcr_cluster) as informer:
        await kcr_cluster.client.merge_patch(ConfigMap, kcr.Key("default", "old"), {"data": {"n": "2"}})
        await kcr_clock.advance(1)
        writer, shown = informer.writer, {obj.metadata.name: obj for obj in informer.store.list("default")}
        writer.store._objects.pop(("default", "lost"))
        old = shown["old"]
        writer.store._objects["default", "old"] = replace(old, metadata=replace(old.metadata, resource_version="1"))
        writer.store._objects["default", "gone"] = replace(old, metadata=replace(old.metadata, name="gone"))
        shown["other"].data["n"] = "changed in place"
        found = await differences(informer)
        lines = list(verified_lines(await informer.verify()))
        shown["other"].data["n"] = "of other"
    at = old.metadata.resource_version
    assert found == [
        f"default/gone: the store shows version {at}, the server does not have it",
        f"default/lost: the store lacks version {shown['lost'].metadata.resource_version}",
        f"default/old: the store shows version 1, the server has {at}",
        f"default/other: the store shows another content of version {shown['other'].metadata.resource_version}",
    ]
    assert lines[0].endswith(", 4 differences")
    assert lines[1] == f"  {found[0]}"


async def test_selections_and_transforms_are_no_differences(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await kcr_cluster.client.create(kcr.api.core.Namespace(metadata=ObjectMeta(name="team")))
    for namespace in ("default", "team"):
        for name in ("a1", "a2", "b1"):
            await kcr_cluster.client.create(config(name, namespace, n="1"))
    slim = Selection(ConfigMap, "team", labels="app=a", transform=lambda obj: replace(obj, data={}))
    async with informed(kcr_cluster, slim) as informer:
        (verified,) = await informer.verify()
    assert (verified.selection, verified.objects, verified.differences) == ("configmaps in team (app=a)", 2, ())


async def test_quiet_kind_is_compared_although_others_have_changed(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await kcr_cluster.client.create(config("a"))
    async with informed(kcr_cluster) as informer:
        await kcr_cluster.client.create(kcr.api.core.Secret(metadata=ObjectMeta(name="other", namespace="default")))
        # No bookmark comes before the minute is over.
        began = asyncio.get_running_loop().time()
        assert await differences(informer) == []
        assert asyncio.get_running_loop().time() - began < 1


async def test_deletion_that_the_store_has_missed_is_named(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    deaf = Deaf(kcr_cluster.transport)
    created = await kcr_cluster.client.create(config("gone"))
    async with informed(kcr_cluster, client=Client(deaf)) as informer:
        deaf.is_deaf = True
        await kcr_cluster.client.delete(ConfigMap, created.key)
        at = created.metadata.resource_version
        assert await differences(informer) == [
            f"default/gone: the store shows version {at}, the server does not have it"
        ]


async def test_changes_meanwhile_are_no_differences(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    for number in range(450):
        await kcr_cluster.client.create(config(f"a{number:03}", n=str(number)))

    async def change() -> None:
        for number in range(0, 450, 7):
            key = kcr.Key("default", f"a{number:03}")
            if number % 2:
                await kcr_cluster.client.delete(ConfigMap, key)
            else:
                await kcr_cluster.client.merge_patch(ConfigMap, key, {"data": {"n": "x"}})
            await kcr_cluster.client.create(config(f"b{number:03}"))
            await asyncio.sleep(0.003)

    async with informed(kcr_cluster) as informer, asyncio.TaskGroup() as group:
        group.create_task(change())
        assert await differences(informer) == []


class Deaf:
    """A transport whose watches say nothing any more, once it is deaf."""

    def __init__(self, inner: Transport) -> None:
        self.inner, self.is_deaf = inner, False

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        async with self.inner.send(request) as response:
            yield _Deaf(response, self) if "watch=" in request.target else response


class _Deaf:
    def __init__(self, response: Response, transport: Deaf) -> None:
        self.status, self.headers, self._response, self._transport = (
            response.status,
            response.headers,
            response,
            transport,
        )

    async def read(self) -> bytes:
        return await self._response.read()

    async def lines(self) -> AsyncIterator[bytes]:
        async for line in self._response.lines():
            if self._transport.is_deaf:
                await asyncio.get_running_loop().create_future()
            yield line


async def test_store_that_lags_behind_is_said_to_be_late(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    deaf = Deaf(kcr_cluster.transport)
    async with informed(kcr_cluster, client=Client(deaf)) as informer:
        deaf.is_deaf = True
        await kcr_cluster.client.create(config("new"))
        with pytest.raises(NotSyncedError, match=r"configmaps: the store is late: it is at version \d+, and the"):
            await informer.verify()
