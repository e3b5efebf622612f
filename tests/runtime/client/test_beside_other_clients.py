"""A program that uses kcr together with another client on one object: a Lease, a ConfigMap, a finalizer."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from random import Random
from types import SimpleNamespace
from typing import Any

import kubernetes.aio
import kubernetes_asyncio
import pytest
from msgspec.structs import replace

import kcr
from kcr.api.coordination import Lease
from kcr.api.core import ConfigMap
from kcr.api.meta import ObjectMeta
from kcr.client import Client, ConflictRetry, api_client, retry_on_conflict
from kcr.clock import Clock
from kcr.dependents import remove_finalizer
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = pytest.mark.kcr_virtual

KEY = kcr.Key("default", "shared")
FINALIZER = "example.dev/cleanup"


@pytest.fixture(
    params=[
        pytest.param(kubernetes_asyncio, id="kubernetes-asyncio"),
        pytest.param(kubernetes.aio, id="kubernetes.aio"),
    ]
)
def library(request: pytest.FixtureRequest) -> Any:
    return request.param


def shared_configmap(**data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=KEY.name, namespace=KEY.namespace), data=data)


@asynccontextmanager
async def leading(client: Client, clock: Clock) -> AsyncIterator[LeaderElector]:
    """Give an elector that holds the Lease; leaving fails if it has lost it meanwhile."""
    config = LeaderElectionConfig(
        name=KEY.name, namespace=KEY.namespace, identity="kcr", lease_duration=15, renew_deadline=10, retry_period=2
    )
    elector = LeaderElector(client, config, clock=clock, random=Random(1))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(elector.run())
        await elector.elected.wait()
        yield elector
        assert not running.done()
        running.cancel()


async def renewals(client: Client, clock: VirtualClock, seconds: float = 4.5) -> int:
    """Return how many times the Lease is renewed in so many seconds, at most one per second seen."""
    times = set()
    for _ in range(int(seconds * 2)):
        await clock.advance(0.5)
        times.add((await client.get(Lease, KEY)).spec.renew_time)
    return len(times) - 1


async def replace_by_turns(leases: Any, clock: VirtualClock, change: Callable[[Any, int], None]) -> None:
    """Change the Lease ten times through another client, at every phase of a second: none may be a whole one."""
    for turn in range(10):
        await clock.advance(1.3)
        read = await leases.read_namespaced_lease(KEY.name, KEY.namespace)
        change(read, turn)
        await leases.replace_namespaced_lease(KEY.name, KEY.namespace, read)


async def test_lease_that_another_client_writes_back_is_renewed(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, library: Any
) -> None:
    def label(lease: Any, turn: int) -> None:
        lease.metadata.labels = {"turn": str(turn)}

    leases = library.client.CoordinationV1Api(api_client(kcr_cluster.client))
    async with leading(Client(kcr_cluster.transport), kcr_clock):
        await replace_by_turns(leases, kcr_clock, label)
        assert await renewals(kcr_cluster.client, kcr_clock) >= 2
        lease = await kcr_cluster.client.get(Lease, KEY)
        assert (lease.metadata.labels, lease.spec.holder_identity) == ({"turn": "9"}, "kcr")


async def test_lease_that_another_client_renews_for_the_same_holder_is_renewed(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, library: Any
) -> None:
    def renew(lease: Any, turn: int) -> None:
        lease.spec.renew_time = kcr_clock.now().replace(microsecond=turn + 1)

    leases = library.client.CoordinationV1Api(api_client(kcr_cluster.client))
    async with leading(Client(kcr_cluster.transport), kcr_clock):
        await replace_by_turns(leases, kcr_clock, renew)
        assert await renewals(kcr_cluster.client, kcr_clock) >= 2
        assert (await kcr_cluster.client.get(Lease, KEY)).spec.lease_transitions == 0


async def test_lease_that_another_client_replaces_with_an_old_version_is_a_conflict_there(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, library: Any
) -> None:
    leases = library.client.CoordinationV1Api(api_client(kcr_cluster.client))
    async with leading(Client(kcr_cluster.transport), kcr_clock):
        read = await leases.read_namespaced_lease(KEY.name, KEY.namespace)
        await kcr_clock.advance(3)
        with pytest.raises(library.client.ApiException) as refused:
            await leases.replace_namespaced_lease(KEY.name, KEY.namespace, read)
        assert refused.value.status == 409
        assert await renewals(kcr_cluster.client, kcr_clock) >= 2


async def test_lease_is_led_by_turns_with_the_librarys_election(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, led = kcr_cluster.client, asyncio.Event()

    async def lead() -> None:
        led.set()

    async def holder_after(seconds: float) -> str | None:
        await kcr_clock.advance(seconds)
        return (await client.get(Lease, KEY)).spec.holder_identity

    package = f"{library.__name__}.leaderelection"
    election = import_module(f"{package}.leaderelection")
    monkeypatch.setattr(election, "time", SimpleNamespace(time=lambda: kcr_clock.now().timestamp()))
    locks = import_module(f"{package}.resourcelock.leaselock")
    config = import_module(f"{package}.electionconfig").Config(
        locks.LeaseLock(KEY.name, KEY.namespace, "other", api_client(client)),
        lease_duration=15,
        renew_deadline=10,
        retry_period=2,
        onstarted_leading=lead,
        onstopped_leading=None,
    )
    # The library does not write the time of a whole second.
    await kcr_clock.advance(0.3)
    async with asyncio.TaskGroup() as group:
        async with leading(client, kcr_clock):
            other = group.create_task(election.LeaderElection(config).run())
            assert (await holder_after(60), led.is_set()) == ("kcr", False)
        assert (await holder_after(20), led.is_set()) == ("other", True)
        asyncio.get_running_loop().call_later(60, other.cancel)
        started = kcr_clock.now()
        async with leading(client, kcr_clock):
            assert 70 < (kcr_clock.now() - started).total_seconds() < 85
            assert await holder_after(60) == "kcr"


async def test_configmap_that_both_count_in_loses_no_count(kcr_cluster: EmbeddedCluster, library: Any) -> None:
    client, core = kcr_cluster.client, library.client.CoreV1Api(api_client(kcr_cluster.client))
    await client.create(shared_configmap(count="0"))
    conflicts, chance = {"kcr": 0, "other": 0}, Random(0)

    async def with_kcr() -> None:
        async def write(read: ConfigMap) -> None:
            await asyncio.sleep(chance.uniform(0.01, 0.05))
            try:
                await client.update(replace(read, data={"count": str(int(read.data["count"]) + 1)}))
            except kcr.ConflictError:
                conflicts["kcr"] += 1
                raise

        for _ in range(10):
            await retry_on_conflict(
                client, ConfigMap, KEY, write, retry=ConflictRetry(tries=100, factor=1, seconds=0.001)
            )

    async def with_the_other() -> None:
        done = 0
        while done < 10:
            read = await core.read_namespaced_config_map(KEY.name, KEY.namespace)
            read.data["count"] = str(int(read.data["count"]) + 1)
            await asyncio.sleep(chance.uniform(0.01, 0.05))
            try:
                await core.replace_namespaced_config_map(KEY.name, KEY.namespace, read)
                done += 1
            except library.client.ApiException as error:
                assert error.status == 409
                conflicts["other"] += 1

    async with asyncio.TaskGroup() as group:
        group.create_task(with_kcr())
        group.create_task(with_the_other())
    assert (await client.get(ConfigMap, KEY)).data == {"count": "20"}
    assert all(conflicts.values())


async def test_patch_of_kcr_beside_a_patch_of_the_other_client_is_a_conflict_at_most(
    kcr_cluster: EmbeddedCluster, library: Any
) -> None:
    client, core = kcr_cluster.client, library.client.CoreV1Api(api_client(kcr_cluster.client))
    old = await client.create(shared_configmap(a="1"))
    await core.patch_namespaced_config_map(KEY.name, KEY.namespace, {"data": {"b": "2"}})

    async def write(read: ConfigMap) -> None:
        await client.patch(read, replace(read, data={**read.data, "a": "3"}))

    with pytest.raises(kcr.ConflictError):
        await write(old)
    await retry_on_conflict(client, ConfigMap, KEY, write)
    assert (await client.get(ConfigMap, KEY)).data == {"a": "3", "b": "2"}


async def finalizers(client: Client) -> tuple[str, ...]:
    return (await client.get(ConfigMap, KEY)).metadata.finalizers


async def without(core: Any, name: str) -> None:
    """Remove a finalizer as programs of the other client do: read, change, replace."""
    read = await core.read_namespaced_config_map(KEY.name, KEY.namespace)
    read.metadata.finalizers = [one for one in read.metadata.finalizers if one != name] or None
    await core.replace_namespaced_config_map(KEY.name, KEY.namespace, read)


async def test_finalizer_of_kcr_that_the_other_client_removes_lets_the_object_go(
    kcr_cluster: EmbeddedCluster, library: Any
) -> None:
    client, core = kcr_cluster.client, library.client.CoreV1Api(api_client(kcr_cluster.client))
    made = await client.create(shared_configmap())
    cleanups: list[str] = []
    assert not await kcr.finalized(client, made, FINALIZER, lambda: cleanups.append("too early"))
    assert await finalizers(client) == (FINALIZER,)
    await core.delete_namespaced_config_map(KEY.name, KEY.namespace)
    ending = await client.get(ConfigMap, KEY)
    await without(core, FINALIZER)
    with pytest.raises(kcr.NotFoundError):
        await client.get(ConfigMap, KEY)
    # The store of the reconcile is behind: it still shows the finalizer.
    assert not await kcr.finalized(client, ending, FINALIZER, lambda: cleanups.append("once"))
    assert cleanups == ["once"]


async def test_finalizer_that_both_remove_is_a_conflict_where_others_are_left(
    kcr_cluster: EmbeddedCluster, library: Any
) -> None:
    client, core = kcr_cluster.client, library.client.CoreV1Api(api_client(kcr_cluster.client))
    made = await client.create(shared_configmap())
    await kcr.finalized(client, made, FINALIZER, lambda: None)
    # Lists of finalizers are merged by a strategic merge patch, so this one is added, in front.
    await core.patch_namespaced_config_map(
        KEY.name, KEY.namespace, {"metadata": {"finalizers": ["other.example.dev/x"]}}
    )
    await core.delete_namespaced_config_map(KEY.name, KEY.namespace)
    ending = await client.get(ConfigMap, KEY)
    await without(core, FINALIZER)
    with pytest.raises(kcr.ConflictError):
        await kcr.finalized(client, ending, FINALIZER, lambda: None)
    assert not await kcr.finalized(client, await client.get(ConfigMap, KEY), FINALIZER, lambda: None)
    assert await finalizers(client) == ("other.example.dev/x",)


async def test_finalizer_of_the_other_client_is_removed_by_kcr(kcr_cluster: EmbeddedCluster, library: Any) -> None:
    client, core = kcr_cluster.client, library.client.CoreV1Api(api_client(kcr_cluster.client))
    models = library.client
    metadata = models.V1ObjectMeta(name=KEY.name, finalizers=[FINALIZER, "other.example.dev/x"])
    await core.create_namespaced_config_map(KEY.namespace, models.V1ConfigMap(metadata=metadata))
    old = await client.get(ConfigMap, KEY)
    # Meanwhile the other one adds one more.
    read = await core.read_namespaced_config_map(KEY.name, KEY.namespace)
    read.metadata.finalizers.append("other.example.dev/y")
    await core.replace_namespaced_config_map(KEY.name, KEY.namespace, read)

    async def remove(read: ConfigMap) -> None:
        await client.patch(read, remove_finalizer(read, FINALIZER))

    with pytest.raises(kcr.ConflictError):
        await remove(old)
    await retry_on_conflict(client, ConfigMap, KEY, remove)
    assert await finalizers(client) == ("other.example.dev/x", "other.example.dev/y")
