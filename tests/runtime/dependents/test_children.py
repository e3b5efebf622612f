"""The children of an owner: applied as wanted, left alone while unchanged, deleted when no longer wanted."""

import random
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

import kcr
from kcr.api.core import ConfigMap, Event, Namespace
from kcr.api.full.apps_v1 import Deployment, DeploymentSpec
from kcr.api.full.core_v1 import Container, PodSpec, PodTemplateSpec, Service, ServicePort, ServiceSpec
from kcr.api.meta import Key, ObjectMeta, is_controlled_by
from kcr.api.selectors import LabelSelector
from kcr.api.slots import SLOT_LABEL, slot_of
from kcr.client import Client, Transport
from kcr.scopes.leaderelection import LeaderElectionConfig
from kcr.scopes.sharding import ShardedReplica
from kcr.testing import FakeManager, FaultyTransport, VirtualClock, build, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.crash import WriteFault, crash_after_writes, lose_replies, surviving
from tests.kit.replicas import same_loop

OWNER, NAME = Key("default", "shop"), Key("default", "site")
ALL = ("config", "service", "deployment")


pytestmark = pytest.mark.kcr_virtual


class SiteSpec(kcr.Object):
    color: str = "red"
    parts: tuple[str, ...] = ALL


class Site(kcr.Resource, api_version="example.dev/v1", plural="sites"):
    spec: SiteSpec = SiteSpec()


class SiteReconciler:
    """Ensures the parts of a site; notes the writes of each reconcile that had some."""

    def __init__(self, manager: kcr.Manager, own_writes: kcr.OwnWrites) -> None:
        self._sites, self._own_writes = manager.store(Site), own_writes
        # Of Deployments the metadata is enough.
        informers = [manager.informer(kind) for kind in (ConfigMap, Service, kcr.metadata_only(Deployment))]
        self._children = kcr.Children(manager.client, manager.recorder("site"), informers, own_writes=own_writes)
        self.writes: list[tuple[list[str], list[str]]] = []

    async def reconcile(self, key: Key) -> kcr.Result:
        site = self._sites.get(key)
        if site is None:
            self._own_writes.forget(key)
            return kcr.Result()
        applied, deleted = await self._children.ensure(site, children_of(site.spec))
        if applied or deleted:
            self.writes.append(([obj.resource.kind for obj in applied], [obj.resource.kind for obj in deleted]))
        return kcr.Result()


def children_of(spec: SiteSpec) -> list[kcr.Resource]:
    metadata, app = ObjectMeta(name=NAME.name, namespace=NAME.namespace), {"app": "site"}
    pod = PodSpec(containers=(Container(name="c", image=spec.color),))
    template = PodTemplateSpec(metadata=ObjectMeta(labels=app), spec=pod)
    port = ServicePort(port=80)
    made: dict[str, kcr.Resource] = {
        "config": ConfigMap(metadata=metadata, data={"color": spec.color}),
        "service": Service(metadata=metadata, spec=ServiceSpec(ports=(port,), selector=app)),
        "deployment": Deployment(
            metadata=replace(metadata, labels={"color": spec.color}),
            spec=DeploymentSpec(selector=LabelSelector(match_labels=app), replicas=0, template=template),
        ),
    }
    return [made[part] for part in spec.parts]


def content_of(obj: kcr.Resource) -> dict[str, object]:
    return {name: getattr(obj, name) for name in obj.__struct_fields__ if name not in ("metadata", "status")}


def setup(manager: kcr.Manager) -> SiteReconciler:
    own_writes = kcr.OwnWrites()
    reconciler = SiteReconciler(manager, own_writes)
    kinds = (ConfigMap, Service, kcr.metadata_only(Deployment))
    watches = [kcr.watch(Site), *(kcr.owned(kind, by=Site) for kind in kinds)]
    manager.add_controller("site", reconciler, watches=watches, own_writes=own_writes)
    return reconciler


class Running:
    """A running controller of sites, and its transport, which counts writes and has faults."""

    def __init__(self, cluster: EmbeddedCluster, clock: VirtualClock, reconciler: SiteReconciler) -> None:
        self.cluster, self.client, self._clock = cluster, cluster.client, clock
        self.writes = reconciler.writes

    async def writes_after(self, patch: dict[str, Any], kind: type[kcr.Resource] = Site) -> list[Any]:
        """The writes of the reconciles that follow a change."""
        self.writes.clear()
        await self.client.merge_patch(kind, OWNER if kind is Site else NAME, patch)
        await self._clock.advance(5)
        return [*self.writes]

    async def present(self) -> list[str]:
        kinds: tuple[type[kcr.Resource], ...] = (ConfigMap, Service, Deployment)
        found = [obj for kind in kinds for obj in await self.client.list(kind, "default")]
        return [obj.resource.kind for obj in found if obj.key == NAME]


@asynccontextmanager
async def cluster_of_sites(clock: VirtualClock) -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(clock=clock, random=Random(0), runtime=None, kinds=[Site]) as cluster:
        yield cluster


@asynccontextmanager
async def running(
    cluster: EmbeddedCluster, clock: VirtualClock, transport: Transport | None = None
) -> AsyncIterator[Running]:
    manager = kcr.Manager(Client(transport or cluster.transport), clock=clock, random=random.Random(0))
    reconciler = setup(manager)
    async with manager.running():
        yield Running(cluster, clock, reconciler)


async def create_site(cluster: EmbeddedCluster, *parts: str) -> Site:
    metadata = ObjectMeta(name=OWNER.name, namespace=OWNER.namespace)
    return await cluster.client.create(Site(metadata=metadata, spec=SiteSpec(parts=parts or ALL)))


async def test_children_are_applied_in_order_once(kcr_clock: VirtualClock) -> None:
    async with cluster_of_sites(kcr_clock) as cluster, running(cluster, kcr_clock) as run:
        site = await create_site(cluster)
        await kcr_clock.advance(60)
        assert run.writes == [(["ConfigMap", "Service", "Deployment"], [])]
        deployment = await run.client.get(Deployment, NAME)
        assert is_controlled_by(deployment, site)
        assert SLOT_LABEL not in deployment.metadata.labels
        # The owner changes otherwise, and so do the children's status and labels of other clients.
        assert await run.writes_after({"metadata": {"labels": {"a": "b"}}}) == []
        assert await run.writes_after({"metadata": {"labels": {"other": "x"}}}, Deployment) == []


async def test_only_a_changed_child_is_applied_again(kcr_clock: VirtualClock) -> None:
    async with cluster_of_sites(kcr_clock) as cluster, running(cluster, kcr_clock) as run:
        await create_site(cluster)
        await kcr_clock.advance(5)
        assert await run.writes_after({"spec": {"color": "blue"}}) == [(["ConfigMap", "Deployment"], [])]
        assert (await run.client.get(ConfigMap, NAME)).data == {"color": "blue"}


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        pytest.param(ConfigMap, {"data": {"color": "green"}}, id="content"),
        pytest.param(Deployment, {"spec": {"replicas": 3}}, id="spec"),
        pytest.param(Deployment, {"metadata": {"labels": {"color": None}}}, id="label"),
        pytest.param(Service, {"spec": {"selector": {"app": "other"}}}, id="selector"),
    ],
)
async def test_change_by_another_client_is_undone(
    kcr_clock: VirtualClock, kind: type[kcr.Resource], patch: dict[str, Any]
) -> None:
    async with cluster_of_sites(kcr_clock) as cluster, running(cluster, kcr_clock) as run:
        await create_site(cluster)
        await kcr_clock.advance(5)
        before = await run.client.get(kind, NAME)
        assert await run.writes_after(patch, kind) == [([kind.resource.kind], [])]
        after = await run.client.get(kind, NAME)
        assert after.metadata.labels == before.metadata.labels
        assert content_of(after) == content_of(before)


async def test_deleted_child_is_created_again(kcr_clock: VirtualClock) -> None:
    async with cluster_of_sites(kcr_clock) as cluster, running(cluster, kcr_clock) as run:
        await create_site(cluster)
        await kcr_clock.advance(5)
        await run.client.delete(Service, NAME)
        await kcr_clock.advance(5)
        assert run.writes[1:] == [(["Service"], [])]


async def test_child_that_is_being_deleted_is_applied_when_it_is_gone(kcr_clock: VirtualClock) -> None:
    async with cluster_of_sites(kcr_clock) as cluster, running(cluster, kcr_clock) as run:
        await create_site(cluster, "config")
        await kcr_clock.advance(5)
        await run.writes_after({"metadata": {"finalizers": ["example.dev/keep"]}}, ConfigMap)
        await run.client.delete(ConfigMap, NAME)
        assert await run.writes_after({"spec": {"color": "blue"}}) == []
        assert await run.writes_after({"metadata": {"finalizers": None}}, ConfigMap) == [(["ConfigMap"], [])]


async def test_children_no_longer_wanted_are_deleted_in_reverse_order(kcr_clock: VirtualClock) -> None:
    async with cluster_of_sites(kcr_clock) as cluster, running(cluster, kcr_clock) as run:
        await create_site(cluster)
        await kcr_clock.advance(5)
        assert await run.writes_after({"spec": {"parts": ["service"]}}) == [([], ["Deployment", "ConfigMap"])]
        assert await run.present() == ["Service"]
        deleted = [one for one in await run.client.list(Event) if one.reason == "SuccessfulDelete"]
        assert [one.message for one in deleted] == ["Deleted deployment: site", "Deleted configmap: site"]


async def test_objects_of_others_are_never_deleted(kcr_clock: VirtualClock) -> None:
    async with cluster_of_sites(kcr_clock) as cluster, running(cluster, kcr_clock) as run:
        other = await run.client.create(build.config_map("other", uid="", resource_version=""))
        await run.client.create(kcr.set_controller(build.config_map("theirs", uid="", resource_version=""), other))
        await create_site(cluster, "config")
        await kcr_clock.advance(5)
        await run.writes_after({"spec": {"parts": ["service"]}})
        assert [obj.metadata.name for obj in await run.client.list(ConfigMap, "default")] == ["other", "theirs"]


async def test_refused_deletion_is_an_event_and_tried_again(kcr_clock: VirtualClock) -> None:
    async with cluster_of_sites(kcr_clock) as cluster:
        faults = FaultyTransport(cluster.transport)
        async with running(cluster, kcr_clock, faults) as run:
            await create_site(cluster)
            await kcr_clock.advance(5)
            faults.on("delete", Service).fail(kcr.ForbiddenError(403, "Forbidden", "services are protected"))
            await run.writes_after({"spec": {"parts": ["deployment"]}})
            # The ConfigMap may be needed by the Service.
            assert await run.present() == ["ConfigMap", "Service", "Deployment"]
            faults.heal()
            await kcr_clock.advance(60)
            assert run.writes == [([], ["Service", "ConfigMap"])]
        (event,) = [one for one in await cluster.client.list(Event) if one.reason == "FailedDelete"]
        assert event.message == "Error deleting service site: services are protected"


async def test_refused_child_ends_the_rest_and_deletes_nothing(kcr_clock: VirtualClock) -> None:
    async with cluster_of_sites(kcr_clock) as cluster:
        faults = FaultyTransport(cluster.transport)
        async with running(cluster, kcr_clock, faults) as run:
            await create_site(cluster, "config")
            await kcr_clock.advance(5)
            faults.on("patch", Service).fail(kcr.ForbiddenError(403, "Forbidden", "no services"))
            await run.writes_after({"spec": {"parts": ["service", "deployment"]}})
            assert await run.present() == ["ConfigMap"]
            faults.heal()
            await kcr_clock.advance(60)
            assert await run.present() == ["Service", "Deployment"]
        assert {one.message for one in await cluster.client.list(Event) if one.reason == "FailedApply"} == {
            "Error applying service site: no services"
        }


async def test_object_of_another_owner_is_refused(kcr_clock: VirtualClock) -> None:
    async with cluster_of_sites(kcr_clock) as cluster, running(cluster, kcr_clock) as run:
        other = await run.client.create(build.config_map("other", uid="", resource_version=""))
        theirs = build.config_map(NAME.name, {"color": "theirs"}, uid="", resource_version="")
        await run.client.create(kcr.set_controller(theirs, other))
        await create_site(cluster)
        await kcr_clock.advance(5)
        assert (await run.client.get(ConfigMap, NAME)).data == {"color": "theirs"}
        assert run.writes == []
        reasons = [one.reason for one in await run.client.list(Event) if one.involved_object.name == OWNER.name]
        assert set(reasons) == {"FailedApply"}


async def test_next_process_applies_each_child_once_and_changes_none(kcr_clock: VirtualClock) -> None:
    async with cluster_of_sites(kcr_clock) as cluster:
        async with running(cluster, kcr_clock) as run:
            await create_site(cluster)
            await kcr_clock.advance(5)
            before = await run.client.get(ConfigMap, NAME)
        async with running(cluster, kcr_clock) as run:
            await kcr_clock.advance(60)
            assert run.writes == [(["ConfigMap", "Service", "Deployment"], [])]
            assert (await run.client.get(ConfigMap, NAME)).metadata.resource_version == before.metadata.resource_version


async def test_stale_store_repeats_no_write(kcr_clock: VirtualClock) -> None:
    async with cluster_of_sites(kcr_clock) as cluster:
        late = FaultyTransport(cluster.transport)
        late.on("watch", ConfigMap).lag(0.3)
        async with running(cluster, kcr_clock, late) as run:
            await create_site(cluster, "config")
            for number in range(20):
                await kcr_clock.advance(0.05)
                await run.client.merge_patch(Site, OWNER, {"metadata": {"labels": {"a": str(number)}}})
            await run.client.merge_patch(Site, OWNER, {"spec": {"parts": []}})
            for number in range(20):
                await kcr_clock.advance(0.05)
                await run.client.merge_patch(Site, OWNER, {"metadata": {"labels": {"a": str(number)}}})
            await kcr_clock.advance(5)
            assert run.writes == [(["ConfigMap"], []), ([], ["ConfigMap"])]
        place = (ConfigMap.resource.group, ConfigMap.resource.version, ConfigMap.resource.plural)
        sent = [one.verb for one in late.calls if one.resource == place and one.verb not in ("list", "watch")]
        assert sent == ["patch", "delete"]


async def test_children_of_a_sharded_owner_carry_its_slot(kcr_clock: VirtualClock) -> None:
    async with cluster_of_sites(kcr_clock) as cluster:
        config = LeaderElectionConfig(name="site", identity="a")
        connect = same_loop(Client(cluster.transport))
        replica = ShardedReplica(connect, config, 8, clock=kcr_clock, random=random.Random(0), on_thread=False)
        manager = kcr.Manager(
            Client(cluster.transport), clock=kcr_clock, random=random.Random(0), leader_election=replica
        )
        reconciler = setup(manager)
        async with manager.running():
            site = await create_site(cluster)
            await kcr_clock.advance(60)
            child = await cluster.client.get(Service, NAME)
            assert child.metadata.labels[SLOT_LABEL] == str(slot_of(site.metadata))
            assert len(reconciler.writes) == 1
            await cluster.client.merge_patch(Site, OWNER, {"spec": {"parts": ["service"]}})
            await kcr_clock.advance(5)
            assert reconciler.writes[1:] == [([], ["Deployment", "ConfigMap"])]


async def test_owner_that_is_being_deleted_gets_no_children(kcr_clock: VirtualClock) -> None:
    async with cluster_of_sites(kcr_clock) as cluster, running(cluster, kcr_clock) as run:
        metadata = ObjectMeta(name=OWNER.name, namespace=OWNER.namespace, finalizers=("example.dev/keep",))
        await run.client.create(Site(metadata=metadata, spec=SiteSpec(parts=("config",))))
        await kcr_clock.advance(5)
        await run.client.delete(Site, OWNER)
        assert await run.writes_after({"metadata": {"annotations": {"a": "b"}}}) == []


@pytest.mark.parametrize(
    ("child", "message"),
    [
        pytest.param(build.config_map(""), "a child needs a name", id="no-name"),
        pytest.param(build.job("site"), "its kind is not among the informers of Children", id="kind"),
        pytest.param(build.config_map("twice"), "configmaps default/twice: wanted twice", id="twice"),
    ],
)
async def test_wrong_child_is_refused_before_anything_is_sent(child: kcr.Resource, message: str) -> None:
    manager = FakeManager(kinds=[Site])
    children = kcr.Children(
        manager.client, manager.recorder("site"), [manager.informer(ConfigMap)], own_writes=kcr.OwnWrites()
    )
    owner = Site(metadata=ObjectMeta(name="shop", namespace="default", uid="u"))
    with pytest.raises(ValueError, match=message):
        await children.ensure(owner, [build.config_map("twice"), child])
    assert await manager.client.list(ConfigMap, "default") == ()


async def live(fault: WriteFault) -> int:
    """Let a site have all parts, then another color and one part, and return the number of writes."""
    clock = VirtualClock()

    def controller(transport: Transport, seed: int) -> AbstractAsyncContextManager[object]:
        manager = kcr.Manager(Client(transport), clock=clock, random=Random(seed))
        setup(manager)
        return manager.running()

    async with cluster_of_sites(clock) as cluster:
        run = Running(cluster, clock, SiteReconciler(FakeManager(), kcr.OwnWrites()))

        async def has(*kinds: str) -> None:
            async def holds() -> bool:
                return await run.present() == list(kinds)

            await eventually(holds, seconds=900)
            await clock.advance(1)
            assert await run.present() == list(kinds)

        await create_site(cluster)
        async with surviving(cluster.transport, fault, controller, lambda: clock.now().minute > 1) as transport:
            await has("ConfigMap", "Service", "Deployment")
            await cluster.client.merge_patch(Site, OWNER, {"spec": {"parts": ["service"], "color": "blue"}})
            await has("Service")
    return transport.writes


@pytest.mark.timeout(60)
def test_crash_after_any_write_leaves_the_wanted_children() -> None:
    crash_after_writes(live)


@pytest.mark.soak
@pytest.mark.timeout(60)
def test_lost_reply_of_any_write_leaves_the_wanted_children() -> None:
    lose_replies(live)


class Tenant(kcr.Resource, api_version="example.dev/v1", plural="tenants", namespaced=False):
    """An owner without a namespace."""


async def test_refusal_of_a_terminating_namespace_is_no_failure_of_an_owner_in_it() -> None:
    manager = FakeManager(kinds=[Site, Tenant])
    client, recorder = manager.client, manager.recorder("site")
    children = kcr.Children(client, recorder, [manager.informer(ConfigMap)], own_writes=kcr.OwnWrites())
    await client.create(Namespace(metadata=ObjectMeta(name="ending")))
    site = await client.create(Site(metadata=ObjectMeta(name="shop", namespace="ending")))
    tenant = await client.create(Tenant(metadata=ObjectMeta(name="shop")))
    await client.delete(Namespace, Key("", "ending"))
    wanted = [ConfigMap(metadata=ObjectMeta(name="page", namespace="ending"))]
    assert await children.ensure(site, wanted) == ((), ())
    assert manager.recorder("site").events == []
    # Its namespace may be created again, without a change of the owner.
    with pytest.raises(kcr.ForbiddenError, match="being terminated"):
        await children.ensure(tenant, wanted)


async def test_children_in_a_namespace_that_is_a_child_wait_for_its_end() -> None:
    manager = FakeManager(kinds=[Tenant], follow_writes=True)
    kinds = manager.informer(Namespace), manager.informer(ConfigMap)
    children = kcr.Children(manager.client, manager.recorder("tenant"), kinds, own_writes=kcr.OwnWrites())
    tenant = await manager.client.create(Tenant(metadata=ObjectMeta(name="shop")))
    page = ConfigMap(metadata=ObjectMeta(name="page", namespace="shop"))
    wanted = [Namespace(metadata=ObjectMeta(name="shop")), page]
    assert [child.key for child in (await children.ensure(tenant, wanted)).applied] == [Key("", "shop"), page.key]
    await manager.client.delete(Namespace, Key("", "shop"))
    await manager.client.delete(ConfigMap, page.key)
    assert await children.ensure(tenant, wanted) == ((), ())
    assert not manager.recorder("tenant").find("FailedApply")


async def create_child_of_an_older_controller(cluster: EmbeddedCluster) -> None:
    """Write a child with create_or_patch, with a key of its data that the controller has no more."""
    other = cluster.client.with_options(field_manager="other")
    metadata = ObjectMeta(name=NAME.name, namespace=NAME.namespace)
    # A server that has seen no apply keeps no managed fields of an object.
    await other.apply(ConfigMap(metadata=replace(metadata, labels={"of": "others"})))
    data = {"color": "red", "old": "x"}
    older = Client(cluster.transport)
    await kcr.create_or_patch(older, ConfigMap(metadata=metadata), lambda found: replace(found, data=data))


async def test_field_of_an_older_controller_is_removed(kcr_clock: VirtualClock) -> None:
    async with cluster_of_sites(kcr_clock) as cluster:
        await create_child_of_an_older_controller(cluster)
        async with running(cluster, kcr_clock) as run:
            await create_site(cluster, "config")
            await kcr_clock.advance(5)
            assert run.writes == [(["ConfigMap"], [])]
            found = await run.client.get(ConfigMap, NAME)
            assert (found.data, found.metadata.labels) == ({"color": "red"}, {"of": "others"})
            assert await run.writes_after({"metadata": {"labels": {"a": "b"}}}) == []


async def live_after_an_older_controller(fault: WriteFault) -> int:
    clock = VirtualClock()

    def controller(transport: Transport, seed: int) -> AbstractAsyncContextManager[object]:
        return running(cluster, clock, transport)

    async with cluster_of_sites(clock) as cluster:
        await create_child_of_an_older_controller(cluster)
        await create_site(cluster, "config")
        async with surviving(cluster.transport, fault, controller, lambda: clock.now().minute > 1) as transport:
            await clock.advance(60)
            found = await cluster.client.get(ConfigMap, NAME)
            assert (found.data, found.metadata.labels) == ({"color": "red"}, {"of": "others"})
    return transport.writes


@pytest.mark.timeout(60)
def test_fault_at_any_write_removes_the_field_of_an_older_controller() -> None:
    crash_after_writes(live_after_an_older_controller)
    lose_replies(live_after_an_older_controller)
