"""Reconcilers that record no writes: their client reports them, and a key waits until the stores show them (CL-21)."""

import random
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

import kcr
from kcr.api.core import ConfigMap
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client, Transport
from kcr.errors import ServerError
from kcr.informer import Selection
from kcr.testing import FaultyTransport, VirtualClock, build, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.crash import EVERY_LOSS, WriteFault, crash_after_writes, lose_replies, surviving

POOL = Key("default", "pool")

pytestmark = pytest.mark.kcr_virtual


class PoolSpec(kcr.Object):
    size: int = 3


class PoolStatus(kcr.Object):
    members: int = 0
    counted: int = 0


class Pool(kcr.Resource, api_version="example.dev/v1", plural="pools"):
    spec: PoolSpec = PoolSpec()
    status: PoolStatus = PoolStatus()


class PoolReconciler:
    """Keeps `size` members under names that the server draws, and counts its status writes; it trusts its stores."""

    def __init__(self, manager: kcr.Manager) -> None:
        self._client = manager.client
        self._pools, self._members = manager.store(Pool), manager.store(ConfigMap)
        self.failures: list[Exception] = []

    async def reconcile(self, key: Key) -> kcr.Result:
        try:
            await self._reconcile(key)
        except Exception as error:
            self.failures.append(error)
            raise
        return kcr.Result()

    async def _reconcile(self, key: Key) -> None:
        pool = self._pools.get(key)
        if pool is None:
            return
        members = self._members.by_index("owner", pool.metadata.uid)
        for _ in range(pool.spec.size - len(members)):
            metadata = ObjectMeta(generate_name="member-", namespace=key.namespace)
            await self._client.create(kcr.set_controller(ConfigMap(metadata=metadata), pool))
        for surplus in members[pool.spec.size :]:
            await self._client.delete(ConfigMap, surplus.key, uid=surplus.metadata.uid)
        if pool.status.members != len(members):
            counted = PoolStatus(members=len(members), counted=pool.status.counted + 1)
            await self._client.patch_status(pool, replace(pool, status=counted))


def setup(manager: kcr.Manager, own_writes: bool = True) -> PoolReconciler:
    reconciler = PoolReconciler(manager)
    watches = [kcr.watch(Pool), kcr.owned(ConfigMap, by=Pool)]
    manager.add_controller("pool", reconciler, watches=watches, own_writes=own_writes)
    return reconciler


@asynccontextmanager
async def cluster_of_pools(clock: VirtualClock) -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(clock=clock, random=Random(0), runtime=None, kinds=[Pool]) as cluster:
        yield cluster


def manager_on(transport: Transport, clock: VirtualClock, seed: int = 0) -> kcr.Manager:
    return kcr.Manager(Client(transport), clock=clock, random=random.Random(seed))


async def create_pool(cluster: EmbeddedCluster) -> Pool:
    return await cluster.client.create(Pool(metadata=ObjectMeta(name=POOL.name, namespace=POOL.namespace)))


async def poke(cluster: EmbeddedCluster, clock: VirtualClock, times: int = 20) -> None:
    """Change the pool again and again, so that its key is enqueued while stores lag."""
    for number in range(times):
        await cluster.client.merge_patch(Pool, POOL, {"metadata": {"labels": {"poked": str(number)}}})
        await clock.advance(0.05)


async def members_of(cluster: EmbeddedCluster) -> list[str]:
    found = await cluster.client.list(ConfigMap, "default")
    return [one.metadata.name for one in found if one.metadata.owner_references]


def sent(faults: FaultyTransport, verbs: Iterable[str] = ("create", "delete")) -> list[str]:
    """The writes of members."""
    place = (ConfigMap.resource.group, ConfigMap.resource.version, ConfigMap.resource.plural)
    return [call.verb for call in faults.calls if call.resource == place and call.verb in verbs]


@pytest.mark.parametrize(("own_writes", "creates"), [(True, 3), (False, 6)], ids=["tracked", "switched-off"])
async def test_late_watch_makes_surplus_members_only_when_switched_off(
    kcr_clock: VirtualClock, own_writes: bool, creates: int
) -> None:
    async with cluster_of_pools(kcr_clock) as cluster:
        late = FaultyTransport(cluster.transport)
        late.on("watch", ConfigMap).lag(0.3)
        manager = manager_on(late, kcr_clock)
        setup(manager, own_writes)
        async with manager.running():
            await create_pool(cluster)
            await poke(cluster, kcr_clock)
            assert sent(late).count("create") >= creates
            assert (sent(late).count("create") == 3) is own_writes
            assert len(await members_of(cluster)) == 3 or not own_writes


async def test_deleted_member_is_not_deleted_again(kcr_clock: VirtualClock) -> None:
    async with cluster_of_pools(kcr_clock) as cluster:
        late = FaultyTransport(cluster.transport)
        late.on("watch", ConfigMap).lag(0.3)
        manager = manager_on(late, kcr_clock)
        reconciler = setup(manager)
        async with manager.running():
            await create_pool(cluster)
            await kcr_clock.advance(5)
            await cluster.client.merge_patch(Pool, POOL, {"spec": {"size": 1}})
            await poke(cluster, kcr_clock)
            assert sent(late) == ["create"] * 3 + ["delete"] * 2
            assert reconciler.failures == []
        assert len(await members_of(cluster)) == 1


async def test_status_is_written_without_conflicts(kcr_clock: VirtualClock) -> None:
    async with cluster_of_pools(kcr_clock) as cluster:
        late = FaultyTransport(cluster.transport)
        late.on("watch", Pool).lag(0.3)
        manager = manager_on(late, kcr_clock)
        reconciler = setup(manager)
        async with manager.running():
            await create_pool(cluster)
            await kcr_clock.advance(10)
            assert (await cluster.client.get(Pool, POOL)).status.members == 3
        assert reconciler.failures == []


@pytest.mark.parametrize("loss", EVERY_LOSS)
def test_lost_reply_of_any_write_makes_no_surplus_member(loss: str | None) -> None:
    lose_replies(live, loss=loss, late={"configmaps": 0.2})


def test_crash_after_any_write_makes_no_surplus_member() -> None:
    crash_after_writes(live, late={"configmaps": 0.2})


async def live(fault: WriteFault) -> int:
    """Let a pool have three members and then five, and return the number of writes."""
    clock = VirtualClock()

    def controller(transport: Transport, seed: int) -> AbstractAsyncContextManager[object]:
        manager = manager_on(transport, clock, seed)
        setup(manager)
        return manager.running()

    async with cluster_of_pools(clock) as cluster:
        calls = FaultyTransport(cluster.transport)
        await create_pool(cluster)

        async def has(count: int) -> None:
            async def holds() -> bool:
                return len(await members_of(cluster)) == count

            await eventually(holds, seconds=600)
            await clock.advance(30)
            # A surplus member would have been deleted by now.
            assert sent(calls) == ["create"] * count

        async with surviving(calls, fault, controller, lambda: clock.now().minute > 1) as transport:
            await has(3)
            await cluster.client.merge_patch(Pool, POOL, {"spec": {"size": 5}})
            await poke(cluster, clock, 5)
            await has(5)
    return transport.writes


async def test_reconcile_waits_for_the_server_after_a_lost_reply(kcr_clock: VirtualClock) -> None:
    async with cluster_of_pools(kcr_clock) as cluster:
        faults = FaultyTransport(cluster.transport)
        manager = manager_on(faults, kcr_clock)
        reconciler = setup(manager)
        async with manager.running():
            faults.on("create", ConfigMap, nth=1).lose_reply()
            faults.on("watch", ConfigMap).lag(0.3)
            down = faults.on("list", ConfigMap)
            down.fail(ServerError(500, "InternalError", "down"))
            await create_pool(cluster)
            await kcr_clock.advance(1)
            # The list that looks the create up fails, and nothing else is sent.
            assert down.met > 1
            assert len(reconciler.failures) == 1
            assert sent(faults) == ["create"]
            faults.heal()
            await kcr_clock.advance(30)
        assert sent(faults) == ["create"] * 3
        assert len(await members_of(cluster)) == 3


async def test_object_outside_the_selection_defers_no_key(kcr_clock: VirtualClock) -> None:
    async with cluster_of_pools(kcr_clock) as cluster:
        manager = manager_on(cluster.transport, kcr_clock)
        manager.select(Selection(ConfigMap, labels="app=other"))

        class Labeller:
            """Writes an object that its store never shows, and wants its key back."""

            runs = 0

            async def reconcile(self, key: Key) -> kcr.Result:
                self.runs += 1
                name = f"unseen-{self.runs}"
                await manager.client.create(build.config_map(name, uid="", resource_version=""))
                return kcr.Result(requeue_after=0.0 if self.runs < 3 else None)

        labeller = Labeller()
        manager.add_controller("labeller", labeller, watches=[kcr.watch(Pool), kcr.owned(ConfigMap, by=Pool)])
        with capture_logs() as logs:
            async with manager.running():
                await create_pool(cluster)
                await kcr_clock.settle()
                assert labeller.runs == 3
                await kcr_clock.advance(5)
        assert [line for line in logs if line["log_level"] in ("warning", "error")] == []


async def test_write_to_another_server_defers_no_key(kcr_clock: VirtualClock) -> None:
    async with cluster_of_pools(kcr_clock) as cluster, cluster_of_pools(kcr_clock) as other:
        manager = manager_on(cluster.transport, kcr_clock)
        elsewhere = Client(other.transport)

        class Copier:
            """Writes the same object elsewhere, where versions are higher."""

            runs = 0

            async def reconcile(self, key: Key) -> kcr.Result:
                self.runs += 1
                await elsewhere.apply(build.config_map("copy", {"run": str(self.runs)}, uid="", resource_version=""))
                return kcr.Result(requeue_after=0.0 if self.runs < 3 else None)

        for number in range(50):
            await other.client.create(build.config_map(f"filler-{number}", uid="", resource_version=""))
        copier = Copier()
        manager.add_controller("copier", copier, watches=[kcr.watch(Pool), kcr.owned(ConfigMap, by=Pool)])
        async with manager.running():
            await create_pool(cluster)
            await kcr_clock.settle()
            assert copier.runs == 3


async def test_create_that_was_not_sent_has_not_to_be_settled(kcr_clock: VirtualClock) -> None:
    def refuse() -> None:
        raise kcr.ConfigError("writes nothing")

    async with cluster_of_pools(kcr_clock) as cluster:
        manager = kcr.Manager(Client(cluster.transport).with_options(fence=refuse), clock=kcr_clock, random=Random(0))
        reconciler = setup(manager)
        async with manager.running():
            await create_pool(cluster)
            await kcr_clock.settle()
            assert [type(error) for error in reconciler.failures[:1]] == [kcr.ConfigError]
            own_writes = manager.controllers["pool"].own_writes
            assert own_writes is not None
            # Or no Lease would be released at the end.
            assert own_writes.unsettled == ()
