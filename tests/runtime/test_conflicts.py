"""Conflicts that repeat because the watch has lost an event, and those that do not."""

import random

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

import kcr
from kcr.api.core import ConfigMap
from kcr.client import Client, Transport
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.transports import late_watches

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

KEY = kcr.Key("default", "a")


class Writer:
    """Does what is wanted of a ConfigMap, with the store's version as the precondition."""

    def __init__(self, manager: kcr.Manager) -> None:
        self.wanted: str | None = None
        self._maps = manager.store(ConfigMap)
        self._client = manager.client

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        found = self._maps.get(key)
        wanted = self.wanted or (found and found.data.get("wanted"))
        if key == KEY and found is not None and wanted and found.data.get("done") != wanted:
            await self._client.patch(found, replace(found, data={**found.data, "done": wanted}))
        return kcr.Result()


def managed(transport: Transport) -> tuple[kcr.Manager, kcr.Controller, Writer]:
    manager = kcr.Manager(Client(transport), random=random.Random(1))
    writer = Writer(manager)
    return manager, manager.add_controller("writer", writer, watches=[kcr.watch(ConfigMap)]), writer


async def create(cluster: EmbeddedCluster, name: str) -> None:
    await cluster.client.create_manifest(ConfigMap, {"metadata": {"name": name}, "data": {}}, "default")


async def patch(cluster: EmbeddedCluster, **data: str) -> None:
    await cluster.client.merge_patch(ConfigMap, KEY, {"data": data})


async def data(cluster: EmbeddedCluster) -> object:
    return (await cluster.client.get(ConfigMap, KEY)).data


async def test_conflicts_after_a_lost_event_end_with_a_relist(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await create(kcr_cluster, "a")
    faults = FaultyTransport(kcr_cluster.transport)
    manager, controller, writer = managed(faults)
    with capture_logs() as logs:
        async with manager.running():
            faults.on("event", ConfigMap, nth=1).drop()
            await patch(kcr_cluster, **{"by-a-user": "1"})
            await kcr_clock.settle()
            writer.wanted = "1"
            controller.queue.add(KEY)
            await kcr_clock.advance(1)
            # So far the watch may be late. Then it delivers what is newer.
            assert await data(kcr_cluster) == {"by-a-user": "1"}
            await create(kcr_cluster, "b")
            await kcr_clock.advance(4)
            assert await data(kcr_cluster) == {"by-a-user": "1", "done": "1"}
            assert manager.informer(ConfigMap).counts["lost"] == 1
    told = [line for line in logs if line["event"] == "watch lost an event, relisting"]
    assert [line["kind"] for line in told] == ["configmaps"]
    assert "configmaps default/a is at version" in told[0]["error"]
    # A conflict is nothing unusual, many of them are.
    assert {line["log_level"] for line in logs if line["event"] == "conflict, requeuing"} == {"debug", "warning"}


class Applier(Writer):
    """Applies a ConfigMap, a field of which another manager owns."""

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        if key == KEY:
            metadata = kcr.ObjectMeta(name=key.name, namespace=key.namespace)
            await self._client.apply(ConfigMap(metadata=metadata, data={"owner": "me"}))
        return kcr.Result()


async def test_conflict_of_an_apply_is_told_at_once(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    manifest = {"metadata": {"name": "a", "namespace": "default"}, "data": {"owner": "another"}}
    await kcr_cluster.client.apply_manifest(ConfigMap, manifest, field_owner="another")
    manager = kcr.Manager(Client(kcr_cluster.transport), random=random.Random(1))
    manager.add_controller("applier", Applier(manager), watches=[kcr.watch(ConfigMap)])
    with capture_logs() as logs:
        async with manager.running():
            await kcr_clock.settle()
    told = next(line for line in logs if line["event"] == "reconcile failed")
    assert (told["log_level"], told["retries"]) == ("warning", 1)
    assert 'conflict with "another"' in told["error"]
    assert ".data.owner" in told["error"]


async def test_conflicts_of_a_late_watch_make_no_relist(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await create(kcr_cluster, "a")
    manager, _, _ = managed(late_watches(kcr_cluster.transport, random.Random(1), {"configmaps": 5.0}))
    async with manager.running():
        for number in range(10):
            await patch(kcr_cluster, wanted=str(number))
            await kcr_clock.advance(0.5)
        await kcr_clock.advance(30)
        assert await data(kcr_cluster) == {"wanted": "9", "done": "9"}
        assert manager.informer(ConfigMap).counts["relists"] == 0


async def test_single_conflict_asks_the_server_nothing(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await create(kcr_cluster, "a")
    wire = FaultyTransport(kcr_cluster.transport)
    wire.on("patch", ConfigMap, nth=1).then(lambda: patch(kcr_cluster, wanted="2"))
    manager, _, _ = managed(wire)
    async with manager.running():
        wire.calls.clear()
        await patch(kcr_cluster, wanted="1")
        await kcr_clock.advance(5)
        assert await data(kcr_cluster) == {"wanted": "2", "done": "2"}
        assert [call.verb for call in wire.calls] == ["patch", "patch"]


class Refused:
    """Meets a conflict every time, whatever the store shows: with another object, or an outside service."""

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        raise kcr.ConflictError(409, "Conflict", "the object has been modified")


async def test_conflicts_that_last_compare_an_object_ever_more_rarely(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await create(kcr_cluster, "a")
    wire, looks = FaultyTransport(kcr_cluster.transport), list[float]()
    manager = kcr.Manager(Client(wire), random=random.Random(1))
    controller = manager.add_controller("refused", Refused(), watches=[kcr.watch(ConfigMap)], retry_on_event="always")

    async def conflicts(seconds: int) -> None:
        """Let something enqueue the key ten times a second."""
        for _ in range(10 * seconds):
            controller.queue.add(KEY)
            wire.calls.clear()
            await kcr_clock.advance(0.1)
            looks.extend(kcr_clock.boottime() - began for call in wire.calls if call.verb == "list")

    async with manager.running():
        await kcr_clock.settle()
        began = kcr_clock.boottime()
        await conflicts(100)
        assert [round(look) for look in looks] == [0, 1, 3, 7, 15, 31, 61, 91]
        # A new version is news.
        looks.clear()
        await patch(kcr_cluster, changed="1")
        began = kcr_clock.boottime()
        await conflicts(5)
        assert [round(look) for look in looks] == [0, 1, 3]


async def test_conflicts_of_an_object_that_is_gone_ask_nothing(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    wire = FaultyTransport(kcr_cluster.transport)
    manager = kcr.Manager(Client(wire), random=random.Random(1))
    controller = manager.add_controller("refused", Refused(), watches=[kcr.watch(ConfigMap)])
    async with manager.running():
        await kcr_clock.settle()
        wire.calls.clear()
        controller.queue.add(KEY)
        await kcr_clock.advance(10)
        assert controller.queue.retries(KEY) > 5
    assert [call.verb for call in wire.calls] == []
