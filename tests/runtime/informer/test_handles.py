"""Informers that come and go while the manager runs: who keeps them, and what is left behind."""

import asyncio
import gc
import random
from collections import Counter
from typing import Any

import pytest

import kcr
from kcr.api.core import ConfigMap, Namespace
from kcr.api.meta import Key, ObjectMeta
from kcr.errors import ForbiddenError
from kcr.informer import Handler, InformerHandle
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.dynamic_watches import Absent, Names, OpenWatches, create_config_maps, manager_on
from tests.kit.transports import late_watches

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]


class Closing(Handler[ConfigMap]):
    """Closes its own handle when it is called for the first time."""

    def __init__(self) -> None:
        self.calls = 0
        self.handle: InformerHandle[ConfigMap] | None = None

    def on_add(self, obj: ConfigMap, initial: bool) -> None:
        self.calls += 1
        assert self.handle is not None
        self.handle.close()


def series(manager: kcr.Manager) -> bool:
    return b'kcr_cache_objects{group="",name="configmaps"' in manager.metrics.render()[0]


def readiness(manager: kcr.Manager) -> str:
    result = manager.health.answer("/readyz", {"verbose": ()})
    assert result is not None
    return result.text


async def test_last_handle_takes_watch_store_metrics_and_readiness_along(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # IN-42
    wire = OpenWatches(kcr_cluster.transport)
    manager, names, controller = manager_on(wire, kcr_clock)
    await create_config_maps(kcr_cluster, "first")
    async with manager.running():
        watch = manager.add_watch(controller, kcr.watch(ConfigMap))
        async with manager.open_informer(ConfigMap) as handle:
            store = handle.store
            assert store.get(Key("default", "first")) is not None
            watch.close()
            await kcr_clock.settle()
            assert wire.open["configmaps"] == 1
            assert series(manager)
            assert "informer-configmaps ok" in readiness(manager)
        await kcr_clock.settle()
        assert wire.open["configmaps"] == 0
        assert not series(manager)
        assert "configmaps" not in readiness(manager)
        assert len(store) == 0
        assert "first" in names.seen
        before = len(names.seen)
        await create_config_maps(kcr_cluster, "second")
        await kcr_clock.advance(10)
        assert len(names.seen) == before


async def test_watches_of_two_controllers_end_one_by_one(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    wire = OpenWatches(kcr_cluster.transport)
    manager, first, controller = manager_on(wire, kcr_clock)
    second = Names()
    async with manager.running():
        one = manager.add_watch(controller, kcr.watch(ConfigMap))
        other = manager.add_watch(manager.add_controller("second", second), kcr.watch(ConfigMap))
        await kcr_clock.settle()
        one.close()
        one.close()
        await create_config_maps(kcr_cluster, "shared")
        await kcr_clock.settle()
        assert "shared" not in first.seen
        assert "shared" in second.seen
        other.close()
        await kcr_clock.settle()
        assert wire.open["configmaps"] == 0


async def test_store_of_the_manager_and_declared_watches_keep_the_informer(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await create_config_maps(kcr_cluster, "first")
    manager, names, _ = manager_on(kcr_cluster.transport, kcr_clock)
    manager.add_controller("declared", names, watches=[kcr.watch(ConfigMap)])
    store = manager.store(kcr.metadata_only(ConfigMap))
    async with manager.running():
        for kind in (ConfigMap, kcr.metadata_only(ConfigMap)):
            async with manager.open_informer(kind) as handle:
                found = len(handle.store)
            assert len(manager.store(kind).list()) == found > 0
        assert manager.store(kcr.metadata_only(ConfigMap)) is store


async def test_closed_store_refuses_reads_in_handlers_too(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    manager, _, _ = manager_on(kcr_cluster.transport, kcr_clock)
    async with manager.running():
        async with manager.open_informer(ConfigMap) as handle:
            store = handle.store
        assert not store.synced
        for read in (lambda: store.get(Key("default", "a")), store.list, lambda: store.by_index("owner", "u")):
            with pytest.raises(kcr.NotSyncedError, match="read too late: configmaps: its informer was removed"):
                read()
        with pytest.raises(kcr.NotSyncedError, match="configmaps: this handle of its informer was closed"):
            handle.store.list()
        with pytest.raises(kcr.NotSyncedError, match="closed"):
            await handle.wait_synced()
        reached: list[str] = []
        store.notify_at_version(10**9, lambda: reached.append("at once"))
        assert reached == ["at once"]

        class Reads(Handler[Namespace]):
            def on_add(self, obj: Namespace, initial: bool) -> None:
                store.list()

        informer = manager.informer(Namespace)
        informer.add_handler(Reads())
        await kcr_clock.settle()
        assert informer.counts["handler_errors"] > 0


async def test_reopened_informer_begins_with_a_new_list(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    manager, _, _ = manager_on(kcr_cluster.transport, kcr_clock)
    await create_config_maps(kcr_cluster, "old")
    async with manager.running():
        async with manager.open_informer(ConfigMap):
            pass
        await kcr_cluster.client.delete(ConfigMap, Key("default", "old"))
        await create_config_maps(kcr_cluster, "new")
        handle = manager.open_informer(ConfigMap)
        with pytest.raises(kcr.NotSyncedError, match="read before it is synced: configmaps: "):
            handle.store.list()
        await handle.wait_synced()
        assert {"new"} <= {one.metadata.name for one in handle.store.list()}
        assert handle.store.get(Key("default", "old")) is None
        assert series(manager)
        handle.close()


async def test_informer_closed_in_the_middle_of_a_list_stays_closed(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await create_config_maps(kcr_cluster, *(f"c{number}" for number in range(20)))
    slow = late_watches(kcr_cluster.transport, random.Random(0), {"configmaps": 10.0})
    manager, names, controller = manager_on(slow, kcr_clock)
    async with manager.running():
        watch = manager.add_watch(controller, kcr.watch(ConfigMap))
        store = watch.store
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(waited(watch)) for _ in range(2)]
            await kcr_clock.advance(1)
            watch.close()
            await kcr_clock.advance(60)
        assert [task.result() for task in waits] == ["configmaps: this handle of its informer was closed"] * 2
        assert not store.synced
        assert len(store) == 0
        assert names.seen == []


async def waited(handle: InformerHandle[Any]) -> str:
    with pytest.raises(kcr.NotSyncedError) as raised:
        await handle.wait_synced()
    return str(raised.value)


async def test_waiting_for_one_handle_ends_though_the_other_stays(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    manager, _, _ = manager_on(kcr_cluster.transport, kcr_clock)
    async with manager.running():
        one, other = manager.open_informer(Absent), manager.open_informer(Absent)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(waited(one))
            await kcr_clock.advance(10)
            one.close()
            await kcr_clock.settle()
            assert waiting.done()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10), other:
                pass
        assert other.is_closed
        assert "gadgets" not in readiness(manager)


async def test_handler_that_closes_its_handle_is_called_no_more(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await create_config_maps(kcr_cluster, "a", "b", "c")
    manager, _, _ = manager_on(kcr_cluster.transport, kcr_clock)
    async with manager.running():
        closing = Closing()
        closing.handle = handle = manager.open_informer(ConfigMap)
        handle.add_handler(closing)
        store = handle.store
        await kcr_clock.advance(10)
        assert closing.calls == 1
        assert not store.synced
        assert len(store) == 0


async def test_queued_keys_of_a_removed_watch_are_reconciled(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await create_config_maps(kcr_cluster, "a", "b", "c")
    manager, names, controller = manager_on(kcr_cluster.transport, kcr_clock)
    names.gate.clear()
    async with manager.running():
        watch = manager.add_watch(controller, kcr.watch(ConfigMap))
        await kcr_clock.settle()
        watch.close()
        names.gate.set()
        await kcr_clock.settle()
        assert {"a", "b", "c"} <= set(names.seen)


async def test_controller_waits_no_longer_for_a_removed_informer(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    manager, names, _ = manager_on(kcr_cluster.transport, kcr_clock)
    manager.add_controller("waits", names, watches=[kcr.watch(Absent), kcr.watch(ConfigMap)])
    async with manager.running():
        await create_config_maps(kcr_cluster, "a")
        await kcr_clock.advance(10)
        assert names.seen == []
        manager.remove_informer(Absent)
        await kcr_clock.settle()
        assert "a" in names.seen


async def test_removed_informer_leaves_its_handles_closed_and_a_new_one_alone(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    manager, _, _ = manager_on(kcr_cluster.transport, kcr_clock)
    async with manager.running():
        old = manager.open_informer(ConfigMap)
        manager.remove_informer(ConfigMap)
        assert old.is_closed
        async with manager.open_informer(ConfigMap) as new:
            old.close()
            assert new.store.synced
            assert not new.is_closed


async def test_watch_added_late_makes_readiness_fail_after_a_minute_only(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    wire = FaultyTransport(kcr_cluster.transport)
    for verb in ("list", "watch"):
        wire.on(verb, ConfigMap).fail(ForbiddenError)
    manager, _, controller = manager_on(wire, kcr_clock)
    async with manager.running():
        watch = manager.add_watch(controller, kcr.watch(ConfigMap))
        await kcr_clock.advance(50)
        assert "[+]informer-configmaps ok: configmaps: forbidden, list and watch are needed" in readiness(manager)
        await kcr_clock.advance(15)
        assert "[-]informer-configmaps failed: configmaps: forbidden, list and watch are needed" in readiness(manager)
        watch.close()
        assert "readyz check passed" in readiness(manager)


async def test_kind_that_cannot_be_listed_holds_up_no_other_controller(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    wire = FaultyTransport(kcr_cluster.transport)
    for verb in ("list", "watch"):
        wire.on(verb, ConfigMap).fail(ForbiddenError)
    manager, _, controller = manager_on(wire, kcr_clock)
    late = Names()
    async with manager.running():
        manager.add_watch(controller, kcr.watch(ConfigMap))
        await kcr_clock.advance(1)
        manager.add_controller("late", late, watches=[kcr.watch(Namespace)])
        await kcr_clock.advance(1)
        assert "default" in late.seen
        await kcr_clock.advance(300)
        late.seen.clear()
        await kcr_cluster.client.create(Namespace(metadata=ObjectMeta(name="team")))
        await kcr_clock.advance(1)
        assert late.seen == ["team"]


async def test_handle_closed_before_the_manager_runs_lists_nothing(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    wire = OpenWatches(kcr_cluster.transport)
    manager, _, controller = manager_on(wire, kcr_clock)
    manager.add_watch(controller, kcr.watch(ConfigMap)).close()
    async with manager.running():
        await kcr_clock.advance(5)
        assert "configmaps" not in wire.open


# All objects of a worker that has run thousands of tests are counted.
@pytest.mark.timeout(60)
async def test_many_rounds_leave_nothing_behind(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await create_config_maps(kcr_cluster, *(f"c{number}" for number in range(5)))
    manager, names, controller = manager_on(kcr_cluster.transport, kcr_clock)

    async def objects_after(rounds: int) -> Counter[str]:
        for _ in range(rounds):
            watch = manager.add_watch(controller, kcr.watch(ConfigMap))
            async with manager.open_informer(ConfigMap):
                watch.close()
        names.seen.clear()
        await kcr_clock.settle()
        gc.collect()
        # Tuples and strings: the query strings of the last requests are remembered.
        return Counter(type(one).__name__ for one in gc.get_objects() if not isinstance(one, tuple))

    async with manager.running():
        before = await objects_after(20)
        more = await objects_after(120) - before
    assert not {"Informer", "Reflector", "Store", "Task", "InformerHandle", "EnqueueRequests"} & more.keys()
    # Timers that are cancelled stay with the loop for a while.
    assert more.total() < 300


async def test_controller_added_late_waits_for_stores_without_a_handle(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # IN-42
    faults = FaultyTransport(kcr_cluster.transport)
    manager, _, _ = manager_on(faults, kcr_clock)
    await create_config_maps(kcr_cluster, "first")
    async with manager.running():
        faults.on("watch", ConfigMap).delay(10)
        store, names = manager.store(ConfigMap), Names()
        manager.add_controller("late", names, watches=[kcr.watch(Namespace)])
        await kcr_clock.advance(9)
        assert (store.synced, names.seen) == (False, [])
        await kcr_clock.advance(2)
        assert store.get(Key("default", "first")) is not None
        assert "default" in names.seen
