"""Metadata-only informers on the embedded server: what comes over the wire, and what is cached."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

import kcr
from kcr.api.core import ConfigMap
from kcr.api.full.apiextensions_v1 import CustomResourceDefinition
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client, Request, Response, Transport
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.custom_resources import definition, version

pytestmark = pytest.mark.kcr_virtual

KEY = Key("default", "a")
Metadata = kcr.metadata_only(ConfigMap)


class Wiretap:
    """A transport that keeps the lines and bodies that come through it."""

    def __init__(self, inner: Transport) -> None:
        self.received = b""
        self.inner = inner

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        async with self.inner.send(request) as response:
            self._read, self._lines = response.read, response.lines
            self.status, self.headers = response.status, response.headers
            yield self

    async def read(self) -> bytes:
        body = await self._read()
        self.received += body
        return body

    async def lines(self) -> AsyncIterator[bytes]:
        async for line in self._lines():
            self.received += line
            yield line


async def test_metadata_follows_the_objects_and_their_data_stays_away(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    client = kcr_cluster.client
    await client.create(ConfigMap(metadata=ObjectMeta(namespace="default", name="a"), data={"large": "value"}))
    wiretap = Wiretap(kcr_cluster.transport)
    manager = kcr.Manager(Client(wiretap), clock=kcr_clock, random=Random(0))
    store = manager.store(Metadata)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(manager.run())
        await manager.wait_ready()
        assert store.list("default", labels={"app": "web"}) == ()
        await client.merge_patch(ConfigMap, KEY, {"metadata": {"labels": {"app": "web"}}, "data": {"large": "other"}})
        await kcr_clock.settle()
        assert [obj.key for obj in store.list("default", labels={"app": "web"})] == [KEY]
        await client.delete(ConfigMap, KEY)
        await kcr_clock.settle()
        assert store.get(KEY) is None
        task.cancel()
    assert b'"app":"web"' in wiretap.received
    assert b"large" not in wiretap.received


async def test_kind_may_be_followed_whole_and_by_its_metadata(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    manager = kcr.Manager(kcr_cluster.client, clock=kcr_clock, random=Random(0))
    whole, metadata = manager.store(ConfigMap), manager.store(Metadata)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(manager.run())
        await manager.wait_ready()
        assert {obj.key for obj in whole.list()} == {obj.key for obj in metadata.list()}
        probe = manager.health.answer("/readyz", {"verbose": [""]})
        assert probe is not None
        assert "informer-configmaps ok" in probe.text
        assert "informer-configmaps-metadata ok" in probe.text
        task.cancel()


class Names:
    """A reconciler that keeps its keys."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    async def reconcile(self, key: Key) -> kcr.Result:
        self.seen.add(str(key))
        return kcr.Result()


async def test_controllers_watch_and_own_by_the_metadata_alone(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    client = kcr_cluster.client
    widgets = kcr.unstructured("ex.io/v1", "Widget", plural="widgets")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await client.create_manifest(CustomResourceDefinition, definition(version("v1", schema)))
    await kcr_clock.settle()
    owner = await client.create(ConfigMap(metadata=ObjectMeta(namespace="default", name="owner")))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}
    metadata = {"name": "w", "ownerReferences": [{**reference, "controller": True}]}
    wiretap, watcher, owning = Wiretap(kcr_cluster.transport), Names(), Names()
    manager = kcr.Manager(Client(wiretap), clock=kcr_clock, random=Random(0))
    light = kcr.metadata_only(widgets)
    changed = kcr.watch(light, predicate=kcr.generation_changed)
    manager.add_controller("watcher", watcher, watches=[changed])
    manager.add_controller("owner", owning, watches=[kcr.owned(light, by=Metadata)])
    async with manager.running():
        made = {"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": metadata, "spec": {"large": "value"}}
        await client.create_manifest(widgets, made, "default")
        await kcr_clock.settle()
        assert watcher.seen == {"default/w"}
        assert owning.seen == {"default/owner"}
        watcher.seen.clear()
        await client.merge_patch(widgets, Key("default", "w"), {"metadata": {"labels": {"app": "web"}}})
        await kcr_clock.settle()
        assert watcher.seen == set()
        await client.merge_patch(widgets, Key("default", "w"), {"spec": {"large": "other"}})
        await kcr_clock.settle()
        assert watcher.seen == {"default/w"}
    assert b"large" not in wiretap.received
