"""Namespaces that come and go: what controllers, handlers and probes see of it."""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs

import kcr
from kcr.api.core import ConfigMap, Namespace, Secret
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client
from kcr.informer import Handler, Selection
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = pytest.mark.kcr_virtual

ACCOUNT = "system:serviceaccount:ops:kcr"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
RULES = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
]


class NotServed(kcr.Resource, api_version="example.dev/v1", plural="notserved"):
    """A kind that the server does not serve."""


class Reconciler:
    """Notes the keys that it reconciles; while `blocked`, a reconcile does not end."""

    def __init__(self) -> None:
        self.reconciled: list[str] = []
        self.released: list[Key] = []
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def reconcile(self, key: Key) -> kcr.Result:
        self.reconciled.append(str(key))
        await self.may_end.wait()
        return kcr.Result()

    def release(self, key: Key) -> None:
        self.released.append(key)

    @property
    def own(self) -> list[str]:
        """The keys without those that the cluster makes."""
        return [key for key in self.reconciled if "kube-root-ca" not in key]


class Noting(Handler[ConfigMap]):
    """Notes the deletions that it sees."""

    def __init__(self) -> None:
        self.deleted: list[tuple[str, bool]] = []

    def on_delete(self, obj: ConfigMap, final_state_unknown: bool) -> None:
        self.deleted.append((str(obj.key), final_state_unknown))


def manager_of(client: Client, clock: VirtualClock, namespaces: kcr.Namespaces) -> kcr.Manager:
    return kcr.Manager(client, clock=clock, random=Random(0), namespace=namespaces)


async def create(cluster: EmbeddedCluster, *names: str, config: bool = True) -> None:
    for name in names:
        await cluster.client.create(Namespace(metadata=ObjectMeta(name=name, labels={"team": "blue"})))
        if config:
            await cluster.client.create(ConfigMap(metadata=ObjectMeta(name="one", namespace=name)))


async def label(cluster: EmbeddedCluster, name: str, labels: Mapping[str, str | None]) -> None:
    await cluster.client.merge_patch(Namespace, Key("", name), {"metadata": {"labels": labels}})


async def test_running_reconcile_ends_before_the_objects_of_its_namespace_leave(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await create(kcr_cluster, "a", "b")
    namespaces, reconciler, seen = kcr.Namespaces("a", "b"), Reconciler(), Noting()
    manager = manager_of(kcr_cluster.client, kcr_clock, namespaces)
    manager.add_controller("configs", reconciler, watches=[kcr.watch(ConfigMap)], workers=9)
    configs = manager.informer(ConfigMap)
    configs.add_handler(seen)
    async with manager.running():
        await kcr_clock.advance(1)
        reconciler.may_end.clear()
        manager.controllers["configs"].queue.add(Key("b", "one"))
        await kcr_clock.advance(1)
        before = len(reconciler.reconciled)
        namespaces.change({"a"})
        manager.controllers["configs"].queue.add(Key("b", "other"))
        await kcr_clock.advance(60)
        # It may still look at its objects, and no other key is begun.
        assert configs.store.get(Key("b", "one")) is not None
        assert (len(reconciler.reconciled), seen.deleted) == (before, [])
        reconciler.may_end.set()
        await kcr_clock.advance(1)
        assert {obj.metadata.namespace for obj in configs.store.list()} == {"a"}
        assert ("b/one", True) in seen.deleted
        # The handler of the controller has enqueued the key of the object that disappeared, and it was dropped.
        assert len(reconciler.reconciled) == before
        assert {key.namespace for key in reconciler.released} == {"b"}


async def test_keys_wait_until_the_caches_of_their_namespace_are_filled(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await create(kcr_cluster, "a", "b")
    transport = FaultyTransport(kcr_cluster.transport)
    transport.on("watch", Secret).lag(30)
    transport.on("list", Secret).lag(30)
    namespaces, reconciler = kcr.Namespaces("a"), Reconciler()
    manager = manager_of(Client(transport), kcr_clock, namespaces)
    manager.add_controller("configs", reconciler, watches=[kcr.watch(ConfigMap), kcr.owned(Secret, by=ConfigMap)])
    async with manager.running():
        await kcr_clock.advance(40)
        assert reconciler.own == ["a/one"]
        namespaces.change({"a", "b"})
        await kcr_clock.advance(20)
        assert (reconciler.own, set(namespaces.active)) == (["a/one"], {"a"})
        await kcr_clock.advance(40)
        assert (reconciler.own, set(namespaces.active)) == (["a/one", "b/one"], {"a", "b"})


async def bind(cluster: EmbeddedCluster, namespace: str) -> None:
    await manifest(cluster, "RoleBinding", {"name": "kcr", "namespace": namespace}, roleRef=role_ref("reader"))


async def manifest(cluster: EmbeddedCluster, kind: str, metadata: Mapping[str, str], **fields: Any) -> None:
    plural = f"{kind.lower()}s"
    made = kcr.unstructured("rbac.authorization.k8s.io/v1", kind, plural=plural, namespaced="namespace" in metadata)
    if "roleRef" in fields:
        fields["subjects"] = [{"kind": "ServiceAccount", "name": "kcr", "namespace": "ops"}]
    body = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": dict(metadata), **fields}
    await cluster.client.create_manifest(made, body, metadata.get("namespace", ""))


def role_ref(name: str) -> dict[str, str]:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}


@pytest.mark.kcr_cluster(authorization="rbac")
async def test_namespace_without_rights_keeps_no_other_from_being_reconciled(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    namespaces = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "watch"]}]
    await manifest(kcr_cluster, "ClusterRole", {"name": "reader"}, rules=RULES)
    await manifest(kcr_cluster, "ClusterRole", {"name": "namespaces"}, rules=namespaces)
    await manifest(kcr_cluster, "ClusterRoleBinding", {"name": "namespaces"}, roleRef=role_ref("namespaces"))
    await create(kcr_cluster, "a", "b")
    await bind(kcr_cluster, "a")
    reconciler, blue = Reconciler(), kcr.Namespaces(labels="team=blue")
    manager = manager_of(kcr_cluster.client_as(ACCOUNT), kcr_clock, blue)
    manager.add_controller("configs", reconciler, watches=[kcr.watch(ConfigMap)])
    assert {(right.resource, right.namespaced) for right in manager.rights} == {
        ("configmaps", True),
        ("namespaces", False),
    }
    with capture_logs() as logs:
        async with manager.running():
            await kcr_clock.advance(300)
            assert (set(blue.names), set(blue.active)) == ({"a", "b"}, {"a"})
            assert reconciler.own == ["a/one"]
            (line,) = [line for line in logs if line["event"] == "namespace is not ready"]
            assert line["watched"] == "b"
            assert 'cannot list resource "configmaps"' in line["error"]
            assert "kcr rbac generate --namespace-selector" in line["remedy"]
            probe = manager.health.answer("/readyz", {"verbose": [""]})
            assert probe is not None
            assert probe.status == 200
            assert "1 of 2 active; b: forbidden, list and watch are needed: configmaps is forbidden" in probe.text
            await bind(kcr_cluster, "b")
            await kcr_clock.advance(60)
            assert (set(blue.active), reconciler.own) == ({"a", "b"}, ["a/one", "b/one"])
            assert [line["watched"] for line in logs if line["event"] == "namespace is ready again"] == ["b"]


@pytest.mark.kcr_cluster(authorization="rbac")
async def test_rights_taken_from_one_namespace_leave_the_process_ready(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await manifest(kcr_cluster, "ClusterRole", {"name": "reader"}, rules=RULES)
    await create(kcr_cluster, "a", "b")
    for name in ("a", "b"):
        await bind(kcr_cluster, name)
    reconciler = Reconciler()
    manager = manager_of(kcr_cluster.client_as(ACCOUNT), kcr_clock, kcr.Namespaces("a", "b"))
    manager.add_controller("configs", reconciler, watches=[kcr.watch(ConfigMap)])
    with capture_logs() as logs:
        async with manager.running():
            await kcr_clock.advance(1)
            await kcr_cluster.client.request("DELETE", f"{RBAC}/namespaces/b/rolebindings/kcr")
            # Until the server ends the watch.
            await kcr_clock.advance(1200)
            await kcr_cluster.client.create(ConfigMap(metadata=ObjectMeta(name="two", namespace="a")))
            await kcr_clock.advance(1)
            assert reconciler.own[-1] == "a/two"
            assert not manager.health.not_ready()
    assert [line["watched"] for line in logs if line["event"] == "namespace is not ready"] == ["b"]


async def test_kind_that_is_not_served_delays_its_own_controller_only(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await create(kcr_cluster, "a")
    reconciler, other = Reconciler(), Reconciler()
    manager = manager_of(kcr_cluster.client, kcr_clock, kcr.Namespaces("a"))
    manager.add_controller("configs", reconciler, watches=[kcr.watch(ConfigMap)])
    manager.add_controller("widgets", other, watches=[kcr.watch(NotServed), kcr.watch(ConfigMap)])
    async with manager.running():
        await kcr_clock.advance(10)
        assert (reconciler.own, other.own) == (["a/one"], [])


async def test_controller_that_is_added_later_has_the_present_namespaces(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await create(kcr_cluster, "a", "b", "c")
    namespaces, reconciler = kcr.Namespaces("a", "b"), Reconciler()
    manager = manager_of(kcr_cluster.client, kcr_clock, namespaces)
    async with manager.running():
        assert namespaces.active == {"a", "b"}
        namespaces.change({"b", "c"})
        manager.add_controller("configs", reconciler, watches=[kcr.watch(ConfigMap)])
        await kcr_clock.advance(1)
        assert sorted(reconciler.own) == ["b/one", "c/one"]
        manager.remove_informer(ConfigMap)
        namespaces.change({"a"})
        await kcr_clock.advance(1)
        assert namespaces.active == {"a"}


async def test_selected_namespaces_and_kinds_without_any_are_watched_as_ever(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await create(kcr_cluster, "a", "shared")
    reconciler = Reconciler()
    manager = manager_of(kcr_cluster.client, kcr_clock, kcr.Namespaces("a"))
    manager.select(Selection(ConfigMap, "shared"))
    manager.add_controller("namespaces", reconciler, watches=[kcr.watch(Namespace)])
    configs = manager.store(ConfigMap)
    async with manager.running():
        await kcr_clock.advance(1)
        assert {obj.metadata.namespace for obj in configs.list()} == {"shared"}
        assert {"a", "shared", "default"} <= set(reconciler.reconciled)


class Unanswered(Reconciler):
    """A reconciler whose create is not answered until its namespace leaves."""

    def __init__(self, own_writes: kcr.OwnWrites, configs: kcr.Store[ConfigMap]) -> None:
        super().__init__()
        self._own_writes, self._configs = own_writes, configs
        self.settles = True

    async def reconcile(self, key: Key) -> kcr.Result:
        config = self._configs.get(key)
        if config is not None and key.name == "one":
            creates = self._own_writes.of(config).creates
            if not creates:
                creates[key] = config
            elif self.settles:
                creates.clear()
        return await super().reconcile(key)


@pytest.mark.parametrize("settles", [True, False])
async def test_unanswered_create_is_settled_before_its_namespace_leaves(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, settles: bool
) -> None:
    await create(kcr_cluster, "a")
    namespaces, own_writes = kcr.Namespaces("a"), kcr.OwnWrites()
    manager = manager_of(kcr_cluster.client, kcr_clock, namespaces)
    reconciler = Unanswered(own_writes, manager.store(ConfigMap))
    reconciler.settles = settles
    manager.add_controller("configs", reconciler, watches=[kcr.watch(ConfigMap)], own_writes=own_writes)
    async with manager.running():
        await kcr_clock.advance(1)
        assert own_writes.unconfirmed_creates == (Key("a", "one"),)
        namespaces.change(())
        await kcr_clock.advance(3)
        assert reconciler.own.count("a/one") == 2
        assert bool(own_writes.unconfirmed_creates) is not settles
        # One that cannot be settled delays this for some seconds only, and is known when the namespace returns.
        await kcr_clock.advance(3)
        assert manager.store(ConfigMap).list() == ()
        assert own_writes.unconfirmed_creates == (() if settles else (Key("a", "one"),))
        if not settles:
            reconciler.settles = True
            namespaces.change({"a"})
            await kcr_clock.advance(3)
            assert not own_writes.unconfirmed_creates


def test_namespaces_are_named_or_selected() -> None:
    with pytest.raises(ValueError, match="names or a label selector"):
        kcr.Namespaces("a", labels="team=blue")
    with pytest.raises(ValueError, match="has no name"):
        kcr.Namespaces("")
    with pytest.raises(ValueError, match="change their labels"):
        kcr.Namespaces(labels="team=blue").change({"a"})
