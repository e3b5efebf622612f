"""The garbage collector and the namespace controller as clients: what they survive, and what they never do."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

import kcr
from kcr.api.coordination import Lease
from kcr.api.core import ConfigMap, Event, Namespace
from kcr.api.full.apiextensions_v1 import CustomResourceDefinition
from kcr.api.meta import Key
from kcr.client import Request, Response, Transport
from kcr.errors import TransportError
from kcr.manager import Manager
from kcr.testing import VirtualClock
from kcr_devcluster.apiserver.kinds.catalogue import CONFIG_MAPS, KINDS, NAMESPACES
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.controllers.garbage_collector import GarbageCollector
from kcr_devcluster.cluster.controllers.namespaces import NamespaceController
from tests.kit.cluster_controllers import running_controllers
from tests.kit.custom_resources import definition, version

pytestmark = pytest.mark.kcr_virtual
GHOST = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "no-such"}


class Meddling:
    """A transport on which something happens before each request is sent."""

    def __init__(self, inner: Transport, before: Callable[[Request], Awaitable[None]]) -> None:
        self.inner = inner
        self._before = before

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return self._send(request)

    @asynccontextmanager
    async def _send(self, request: Request) -> AsyncIterator[Response]:
        await self._before(request)
        async with self.inner.send(request) as response:
            yield response


def garbage_collector(manager: Manager) -> None:
    collector = GarbageCollector(manager, [kind.type for kind in KINDS])
    for kind in (CONFIG_MAPS, NAMESPACES):
        collector.watch(kind.type)


def namespaces(manager: Manager) -> None:
    controller = NamespaceController(manager, [kind.type for kind in KINDS])
    controller.watch(CONFIG_MAPS.type)


@asynccontextmanager
async def collected(
    clock: VirtualClock, before: Callable[[EmbeddedCluster, Request], Awaitable[None]] | None = None
) -> AsyncIterator[EmbeddedCluster]:
    """A cluster whose garbage collector and namespace controller reach it through a meddling transport."""

    async def meddle(request: Request) -> None:
        if before is not None:
            await before(cluster, request)

    async with (
        EmbeddedCluster(clock=clock, random=random.Random(0), runtime=None, gc=False) as cluster,
        running_controllers(clock, Meddling(cluster.transport, meddle), garbage_collector, namespaces),
    ):
        yield cluster


async def make(cluster: EmbeddedCluster, name: str, *owners: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Create a ConfigMap, and return a reference to it."""
    manifest = {"metadata": {"name": name, "ownerReferences": owners, **metadata}}
    made = await cluster.client.create_manifest(ConfigMap, manifest, "default")
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": made.metadata.uid}


async def names(cluster: EmbeddedCluster) -> list[str]:
    return [found.metadata.name for found in await cluster.client.list(ConfigMap, "default")]


async def test_collection_goes_on_after_watches_ended(kcr_clock: VirtualClock) -> None:
    async with collected(kcr_clock) as cluster:
        cluster.server.close()
        await make(cluster, "a", GHOST)
        await kcr_clock.advance(2)
        assert await names(cluster) == []


async def test_nothing_is_missed_while_history_is_forgotten(kcr_clock: VirtualClock) -> None:
    async with collected(kcr_clock) as cluster:
        above = await make(cluster, "above")
        await make(cluster, "below", above)
        await kcr_clock.settle()
        cluster.server.close()
        await cluster.client.delete(ConfigMap, Key("default", "above"))
        await make(cluster, "other", GHOST)
        cluster.storage.compact()
        await kcr_clock.advance(2)
        assert await names(cluster) == []


@pytest.mark.soak
async def test_collection_goes_on_for_days(kcr_clock: VirtualClock) -> None:
    async with collected(kcr_clock) as cluster:
        await kcr_clock.advance(2 * 86400)
        await make(cluster, "a", GHOST)
        await kcr_clock.settle()
        assert await names(cluster) == []


async def test_object_adopted_in_the_last_moment_stays(kcr_clock: VirtualClock) -> None:
    async def adopt(cluster: EmbeddedCluster, request: Request) -> None:
        if request.method == "DELETE":
            patch = {"metadata": {"ownerReferences": [living]}}
            await cluster.client.merge_patch(ConfigMap, Key("default", "a"), patch)

    async with collected(kcr_clock, adopt) as cluster:
        living = await make(cluster, "living")
        await make(cluster, "a", GHOST)
        await kcr_clock.settle()
        assert await names(cluster) == ["a", "living"]


async def test_namesake_made_in_the_last_moment_stays(kcr_clock: VirtualClock) -> None:
    async def replace(cluster: EmbeddedCluster, request: Request) -> None:
        if request.method == "DELETE":
            await cluster.client.delete(ConfigMap, Key("default", "a"))
            await make(cluster, "a")

    async with collected(kcr_clock, replace) as cluster:
        await make(cluster, "a", GHOST)
        await kcr_clock.settle()
        assert await names(cluster) == ["a"]


@pytest.mark.parametrize("seed", range(3))
async def test_all_that_must_go_goes_though_requests_fail(kcr_clock: VirtualClock, seed: int) -> None:
    luck = random.Random(seed)

    async def fail(cluster: EmbeddedCluster, request: Request) -> None:
        if luck.random() < 0.3:
            raise TransportError("never sent")

    async with collected(kcr_clock, fail) as cluster:
        await cluster.client.create_manifest(Namespace, {"metadata": {"name": "room"}})
        await cluster.client.create_manifest(ConfigMap, {"metadata": {"name": "inside"}}, "room")
        above = await make(cluster, "above")
        for number in range(5):
            await make(cluster, f"below-{number}", {**above, "blockOwnerDeletion": True})
        await cluster.client.delete(ConfigMap, Key("default", "above"), propagation="Foreground")
        await cluster.client.delete(Namespace, Key("", "room"))
        await kcr_clock.advance(300)
        assert await names(cluster) == []
        assert "room" not in [found.metadata.name for found in await cluster.client.list(Namespace)]


async def test_owner_made_anew_is_another(kcr_clock: VirtualClock) -> None:
    async with collected(kcr_clock) as cluster:
        await make(cluster, "below", await make(cluster, "above"))
        await kcr_clock.settle()
        cluster.server.close()
        await cluster.client.delete(ConfigMap, Key("default", "above"))
        await make(cluster, "above")
        cluster.storage.compact()
        await kcr_clock.advance(2)
        assert await names(cluster) == ["above"]


async def test_object_with_its_owner_costs_no_request(kcr_clock: VirtualClock) -> None:
    sent: list[str] = []

    async def note(cluster: EmbeddedCluster, request: Request) -> None:
        sent.append(request.target)

    async with collected(kcr_clock, note) as cluster:
        sent.clear()
        await make(cluster, "below", await make(cluster, "above"))
        await kcr_clock.settle()
        assert sent == []


@pytest.mark.parametrize("wrong", [{"name": "other"}, {"kind": "Secret"}])
async def test_reference_must_fit_whole(kcr_clock: VirtualClock, wrong: dict[str, str]) -> None:
    async with collected(kcr_clock) as cluster:
        await make(cluster, "below", {**await make(cluster, "above"), **wrong})
        await kcr_clock.settle()
        assert await names(cluster) == ["above"]


async def test_owner_in_another_namespace_is_an_event_on_the_deleted_object(kcr_clock: VirtualClock) -> None:
    # Source: kubernetes/pkg/controller/garbagecollector/graph_builder.go, reportInvalidNamespaceOwnerRef.
    async with collected(kcr_clock) as cluster:
        await cluster.client.create_manifest(Namespace, {"metadata": {"name": "room"}})
        above = await make(cluster, "above")
        manifest = {"metadata": {"name": "below", "ownerReferences": [above]}}
        below = await cluster.client.create_manifest(ConfigMap, manifest, "room")
        await kcr_clock.advance(2)
        assert await cluster.client.list(ConfigMap, "room") == ()
        (event,) = await cluster.client.list(Event, "room")
        assert (event.type, event.reason) == ("Warning", "OwnerRefInvalidNamespace")
        about = event.involved_object
        assert (about.kind, about.uid, about.resource_version) == ("ConfigMap", below.metadata.uid, "")
        named = f"[v1/ConfigMap, namespace: room, name: above, uid: {above['uid']}]"
        assert event.message == f'ownerRef {named} does not exist in namespace "room"'


async def test_orphans_live_on_without_their_owner(kcr_clock: VirtualClock) -> None:
    async with collected(kcr_clock) as cluster:
        above = await make(cluster, "above")
        for number in range(3):
            await make(cluster, f"below-{number}", above)
        await cluster.client.delete(ConfigMap, Key("default", "above"), propagation="Orphan")
        await kcr_clock.settle()
        found = await cluster.client.list(ConfigMap, "default")
        assert [one.metadata.name for one in found] == ["below-0", "below-1", "below-2"]
        assert not any(one.metadata.owner_references for one in found)


async def test_kind_is_watched_from_its_first_object_on(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=random.Random(0), runtime=None) as cluster:
        await kcr_clock.settle()
        watched = {selection.kind.resource.plural for selection in cluster.manager.selections}
        assert "leases" not in watched
        above = await make(cluster, "above")
        owners, hold = [{**above, "blockOwnerDeletion": True}], ["example.dev/hold"]
        manifest = {"metadata": {"name": "below", "ownerReferences": owners, "finalizers": hold}}
        await cluster.client.create_manifest(Lease, manifest, "default")
        # The garbage collector has only just begun to watch the kind of the dependent.
        await cluster.client.delete(ConfigMap, Key("default", "above"), propagation="Foreground")
        await kcr_clock.advance(1)
        assert "above" in await names(cluster)
        await cluster.client.merge_patch(Lease, Key("default", "below"), {"metadata": {"finalizers": None}})
        await kcr_clock.advance(1)
        assert "above" not in await names(cluster)
        assert await cluster.client.list(Lease, "default") == ()
        watched = {selection.kind.resource.plural for selection in cluster.manager.selections}
        assert "leases" in watched
        assert "events" not in watched


async def test_kinds_whose_definitions_are_deleted_leave_nothing_behind(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=random.Random(0), runtime=None) as cluster:
        await kcr_clock.settle()
        with capture_logs() as logs:
            for number in range(10):
                kind = kcr.unstructured("ex.io/v1", f"Widget{number}", plural=f"widgets{number}")
                schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                made = definition(version("v1", schema), plural=kind.resource.plural, kind=kind.resource.kind)
                await cluster.client.create_manifest(CustomResourceDefinition, made)
                await kcr_clock.settle()
                named = {"apiVersion": "ex.io/v1", "kind": kind.resource.kind}
                manifest = {**named, "metadata": {"name": "a", "ownerReferences": [GHOST]}}
                await cluster.client.create_manifest(kind, manifest, "default")
                await kcr_clock.advance(1)
                # Collected, so its kind is watched.
                assert await cluster.client.list(kind, "default") == ()
                await cluster.client.create_manifest(kind, {**named, "metadata": {"name": "b"}}, "default")
                assert b"widgets" in cluster.manager.metrics.render()[0]
                await cluster.client.delete(CustomResourceDefinition, Key("", f"widgets{number}.ex.io"))
                await kcr_clock.advance(60)
        assert not [one for one in cluster.manager.selections if one.kind.resource.group == "ex.io"]
        assert b"widgets" not in cluster.manager.metrics.render()[0]
        ready = cluster.manager.health.answer("/readyz", {"verbose": ()})
        assert ready is not None
        assert "widgets" not in ready.text
        assert [line for line in logs if line["log_level"] != "debug"] == []
