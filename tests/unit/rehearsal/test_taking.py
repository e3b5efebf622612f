"""What is read of a cluster for controllers, and by which requests."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import msgspec
import pytest

import kcr
from kcr.api.batch import Job
from kcr.api.core import ConfigMap, Namespace, Pod, Secret
from kcr.api.full.apps_v1 import Deployment
from kcr.client import Client, Request, Response, Transport
from kcr.errors import ConfigError, ForbiddenError
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.rehearsal.hiding import DataHider
from kcr_devcluster.rehearsal.taking import Query, Taken, take, wanted_by

pytestmark = pytest.mark.kcr_virtual


class ShopSpec(kcr.Object):
    replicas: int = 1


class Shop(kcr.Resource, api_version="example.dev/v1", plural="shops"):
    spec: ShopSpec


class Seen:
    """A transport that notes the requests."""

    def __init__(self, way: Transport) -> None:
        self._way = way
        self.requests: list[Request] = []

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        self.requests.append(request)
        async with self._way.send(request) as response:
            yield response


class Idle:
    """A reconciler that never runs."""

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        return kcr.Result()


def operator(*sources: Any, rights: frozenset[Any] = frozenset(), namespace: str = "") -> kcr.Manager:
    manager = kcr.Manager(Client(Seen.__new__(Seen)), random=Random(0), namespace=namespace)
    manager.add_controller("shop", Idle(), watches=sources, rights=rights)
    return manager


def names(taken: Taken) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in taken.objects:
        found.setdefault(one["kind"], []).append(one["metadata"]["name"])
    return {kind: sorted(those) for kind, those in found.items() if kind not in ("Namespace", "PriorityClass")}


def config_map(name: str, namespace: str = "default", **labels: str) -> ConfigMap:
    return ConfigMap(metadata=kcr.ObjectMeta(name=name, namespace=namespace, labels=labels))


async def create_pod(client: Client, name: str) -> None:
    spec = {"containers": [{"name": "c", "image": "nginx"}]}
    await client.create_manifest(Pod, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


DEPLOYMENT = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]},
        },
    },
}  # fmt: skip


async def shop_with_children(client: Client) -> None:
    shop = await client.create(Shop(metadata=kcr.ObjectMeta(name="blue", namespace="default"), spec=ShopSpec()))
    owner = {
        "apiVersion": "example.dev/v1", "kind": "Shop", "name": "blue", "uid": shop.metadata.uid, "controller": True,
    }  # fmt: skip
    metadata = {"name": "web", "namespace": "default", "ownerReferences": [owner]}
    await client.create_manifest(Deployment, {**DEPLOYMENT, "metadata": metadata})


@pytest.mark.kcr_cluster(kinds=[Shop])
async def test_definitions_owners_and_children_come_with_the_objects(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    client = kcr_cluster.client
    await shop_with_children(client)
    await create_pod(client, "stray")
    await kcr_clock.advance(5)
    # The Deployments alone are watched: their owner's kind and its definition are found by the reference.
    taken = await take(client, wanted_by(operator(kcr.watch(Deployment))), DataHider(()))
    found = names(taken)
    assert found["Shop"] == ["blue"]
    assert found["CustomResourceDefinition"] == ["shops.example.dev"]
    assert found["Deployment"] == ["web"]
    assert len(found["ReplicaSet"]) == 1
    assert len(found["Pod"]) == 2
    assert "stray" not in found["Pod"]
    assert {kind.plural: kind.whole for kind in taken.kinds}["deployments"]
    assert not {kind.plural: kind.whole for kind in taken.kinds}["pods"]
    assert sum(kind.count for kind in taken.kinds) == len(taken.objects)


@pytest.mark.kcr_cluster(kinds=[Shop])
async def test_objects_are_those_of_the_server(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await shop_with_children(kcr_cluster.client)
    await kcr_clock.advance(5)
    taken = await take(kcr_cluster.client, wanted_by(operator(kcr.watch(Shop))), DataHider(()))
    for one in taken.objects:
        kind = next(kind for kind in taken.kinds if kind.kind == one["kind"])
        metadata = one["metadata"]
        path = kind.resource.path(metadata.get("namespace", ""), metadata["name"])
        assert msgspec.json.decode(await kcr_cluster.client.request("GET", path)) == one


@pytest.mark.kcr_cluster
async def test_only_reads_are_sent_in_pages_and_slowly(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    for number in range(600):
        await kcr_cluster.client.create(config_map(f"settings-{number}"))
    seen, began = Seen(kcr_cluster.transport), kcr_clock.now()
    wanted = wanted_by(operator(kcr.watch(ConfigMap), kcr.watch(Job)))
    taken = await take(Client(seen), wanted, DataHider(()))
    assert len(names(taken)["ConfigMap"]) == 600
    assert {request.method for request in seen.requests} == {"GET"}
    assert not [request for request in seen.requests if "watch" in request.target]
    pages = [request for request in seen.requests if request.target.startswith("/api/v1/configmaps")]
    assert len(pages) == 3
    assert all("limit=250" in page.target for page in pages)
    # Five at once after a pause, and then five a second.
    assert (kcr_clock.now() - began).total_seconds() >= (len(seen.requests) - 5) / 5 - 0.01


@pytest.mark.kcr_cluster
async def test_list_begins_again_when_its_version_is_compacted(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    for number in range(300):
        await kcr_cluster.client.create(config_map(f"settings-{number}"))

    class Compacted(Seen):
        @asynccontextmanager
        async def send(self, request: Request) -> AsyncIterator[Response]:
            async with super().send(request) as response:
                yield response
            if len(self.requests) == 1:
                await kcr_cluster.client.create(config_map("late"))
                kcr_cluster.storage.compact()

    seen = Compacted(kcr_cluster.transport)
    taken = await take(Client(seen), wanted_by(operator(kcr.watch(ConfigMap))), DataHider(()))
    assert Counter(one["metadata"]["name"] for one in taken.objects).most_common(1)[0][1] == 1
    assert len(names(taken)["ConfigMap"]) == 301


@pytest.mark.kcr_cluster
async def test_selected_objects_alone_are_read(kcr_cluster: EmbeddedCluster) -> None:
    for name, labels in (("blue", {"team": "blue"}), ("red", {"team": "red"})):
        await kcr_cluster.client.create(config_map(name, **labels))
    manager = kcr.Manager(kcr_cluster.client)
    manager.select(kcr.Selection(ConfigMap, labels="team=blue"))
    manager.store(ConfigMap)
    wanted = wanted_by(manager)
    assert wanted.queries == {"configmaps": {Query(labels="team=blue")}}
    taken = await take(kcr_cluster.client, wanted, DataHider(()))
    assert names(taken)["ConfigMap"] == ["blue"]


@pytest.mark.kcr_cluster
async def test_declared_rights_are_read_and_named_objects_alone(kcr_cluster: EmbeddedCluster) -> None:
    for name in ("settings", "other"):
        await kcr_cluster.client.create(
            Secret(metadata=kcr.ObjectMeta(name=name, namespace="default"), data={"password": b"hunter2"})
        )
    await create_pod(kcr_cluster.client, "web")
    rights = kcr.rights(Secret, "get", names=["settings"]) | kcr.rights(Pod, "create")
    taken = await take(kcr_cluster.client, wanted_by(operator(kcr.watch(Job), rights=rights)), DataHider(()))
    assert names(taken) == {"Secret": ["settings"], "Pod": ["web"]}


@pytest.mark.kcr_cluster
async def test_namespace_limits_what_is_read(kcr_cluster: EmbeddedCluster) -> None:
    await kcr_cluster.client.create(Namespace(metadata=kcr.ObjectMeta(name="team")))
    for namespace in ("default", "team"):
        await kcr_cluster.client.create(config_map("settings", namespace=namespace))
    taken = await take(kcr_cluster.client, wanted_by(operator(kcr.watch(ConfigMap), namespace="team")), DataHider(()))
    assert [one["metadata"]["namespace"] for one in taken.objects if one["kind"] == "ConfigMap"] == ["team"]


@pytest.mark.kcr_cluster
async def test_kind_without_a_definition_is_named(kcr_cluster: EmbeddedCluster) -> None:
    with pytest.raises(ConfigError, match=r"shops\.example\.dev is neither built in nor defined by a Custom"):
        await take(kcr_cluster.client, wanted_by(operator(kcr.watch(Shop))), DataHider(()))


@pytest.mark.kcr_cluster(authorization="rbac")
async def test_forbidden_list_of_a_watched_kind_is_an_error_and_others_are_left_out(
    kcr_cluster: EmbeddedCluster,
) -> None:
    reader = kcr_cluster.client_as("alice")
    with pytest.raises(ForbiddenError, match="cannot list resource"):
        await take(reader, wanted_by(operator(kcr.watch(ConfigMap))), DataHider(()))
    role = {"metadata": {"name": "reader"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps", "namespaces"], "verbs": ["list"]},
    ]}  # fmt: skip
    subject = {"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {
        "metadata": {"name": "reader"}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
    }  # fmt: skip
    for plural, body in (("clusterroles", role), ("clusterrolebindings", binding)):
        path = f"/apis/rbac.authorization.k8s.io/v1/{plural}"
        await kcr_cluster.client.request("POST", path, msgspec.json.encode(body))
    wanted = wanted_by(operator(kcr.watch(ConfigMap), rights=kcr.rights(Secret, "create")))
    taken = await take(reader, wanted, DataHider(()))
    assert [words.partition(":")[0] for words in taken.left_out] != []
    assert any("secrets" in words for words in taken.left_out)
