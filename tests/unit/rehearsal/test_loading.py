"""A snapshot as a data folder of an embedded cluster: its objects are those that the live cluster had."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import kcr
from kcr.api.core import ConfigMap, Pod, Secret
from kcr.api.crd import crd_manifest
from kcr.errors import ConfigError
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.rehearsal.loading import load
from kcr_devcluster.rehearsal.snapshot_file import Head, Snapshot, SnapshotKind

Manifest = dict[str, Any]
UID = "11111111-1111-4111-8111-11111111111"


class ShopSpec(kcr.Object):
    color: str = ""


class Shop(kcr.Resource, api_version="example.dev/v1", plural="shops"):
    spec: ShopSpec


DEFINITION: Manifest = {
    **crd_manifest(Shop),
    "metadata": {"name": "shops.example.dev", "uid": f"{UID}0", "resourceVersion": "10", "generation": 1},
    "status": {
        "conditions": [{"type": one, "status": "True"} for one in ("NamesAccepted", "Established")],
        "acceptedNames": crd_manifest(Shop)["spec"]["names"], "storedVersions": ["v1"],
    },
}  # fmt: skip
NAMESPACE: Manifest = {
    "apiVersion": "v1", "kind": "Namespace", "status": {"phase": "Active"},
    "metadata": {"name": "shop", "uid": f"{UID}1", "resourceVersion": "7"},
}  # fmt: skip
SHOP: Manifest = {
    "apiVersion": "example.dev/v1", "kind": "Shop",
    "metadata": {
        "name": "blue", "namespace": "shop", "uid": f"{UID}2", "resourceVersion": "40", "generation": 3,
        "creationTimestamp": "2020-01-01T00:00:00Z", "finalizers": ["example.dev/shop"],
    },
    "spec": {"color": "blue"},
}  # fmt: skip


def pod(name: str, number: int, spec: Mapping[str, Any], **metadata: Any) -> Manifest:
    container = {"name": "c", "image": "nginx"}
    running = {"name": "c", "ready": True, "restartCount": 4, "image": "nginx", "imageID": "", "started": True}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "shop", "uid": f"{UID}{number}", "resourceVersion": str(50 + number), **metadata,
        },
        "spec": {"containers": [container], "nodeName": "prod-17", "restartPolicy": "Never", **spec},
        "status": {
            "phase": "Running",
            "containerStatuses": [{**running, "state": {"running": {"startedAt": "2020-01-01T00:00:00Z"}}}],
        },
    }  # fmt: skip


def snapshot(*objects: Manifest, whole: tuple[str, ...] = ()) -> Snapshot:
    plurals = {"Shop": "shops", "CustomResourceDefinition": "customresourcedefinitions"}
    kinds = {(one["apiVersion"], one["kind"]): 0 for one in objects}
    head = Head(
        kcr="", kubernetes="", server="", time=datetime(2026, 1, 1, tzinfo=UTC), controllers=(),
        kinds=tuple(
            SnapshotKind(
                version, kind, plurals.get(kind, f"{kind.lower()}s"), namespaced="namespace" in str(objects),
                whole=kind in whole,
            )
            for version, kind in kinds
        ),
    )  # fmt: skip
    return Snapshot(head, objects)


def cluster(folder: Path, clock: VirtualClock, nodes: int) -> EmbeddedCluster:
    return EmbeddedCluster(clock=clock, random=Random(0), data_dir=folder, nodes=nodes)


@pytest.mark.kcr_virtual
async def test_objects_are_those_of_the_snapshot(tmp_path: Path, kcr_clock: VirtualClock) -> None:
    nodes = load(snapshot(SHOP, NAMESPACE, DEFINITION), tmp_path / "data")
    async with cluster(tmp_path / "data", kcr_clock, nodes) as loaded:
        body = await loaded.client.request("GET", "/apis/example.dev/v1/namespaces/shop/shops/blue")
        assert msgspec.json.decode(body) == SHOP
        namespace = msgspec.json.decode(await loaded.client.request("GET", "/api/v1/namespaces/shop"))
        assert namespace["metadata"]["uid"] == NAMESPACE["metadata"]["uid"]
        # New versions continue behind the newest.
        created = await loaded.client.create(ConfigMap(metadata=kcr.ObjectMeta(name="new", namespace="shop")))
        assert int(created.metadata.resource_version) > 40


@pytest.mark.kcr_virtual
async def test_pods_run_on_as_if_nothing_had_happened(tmp_path: Path, kcr_clock: VirtualClock) -> None:
    ended = pod("ended", 4, {})
    ended["status"] = {"phase": "Succeeded"}
    nodes = load(snapshot(pod("web", 3, {}), ended, NAMESPACE), tmp_path / "data")
    async with cluster(tmp_path / "data", kcr_clock, nodes) as loaded:
        await kcr_clock.advance(5)
        web = await loaded.client.get(Pod, kcr.Key("shop", "web"))
        assert web.spec.node_name in loaded.nodes
        assert (web.metadata.uid, web.status.phase) == (f"{UID}3", "Running")
        assert [(one.restart_count, one.ready) for one in web.status.container_statuses] == [(4, True)]
        await kcr_clock.advance(3600)
        assert (await loaded.client.get(Pod, kcr.Key("shop", "ended"))).status.phase == "Succeeded"
        assert (await loaded.client.get(Pod, kcr.Key("shop", "web"))).status.phase == "Running"


@pytest.mark.kcr_virtual
async def test_volumes_of_kinds_that_were_not_read_are_empty(tmp_path: Path, kcr_clock: VirtualClock) -> None:
    volumes = [
        {"name": "a", "configMap": {"name": "settings", "items": [{"key": "mode", "path": "mode"}]}},
        {"name": "b", "projected": {"sources": [{"secret": {"name": "password"}}, {"downwardAPI": {"items": []}}]}},
    ]
    mounts = [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in volumes]
    container = {"name": "c", "image": "nginx", "volumeMounts": mounts}
    mounting = pod("web", 3, {"volumes": volumes, "containers": [container]})
    nodes = load(snapshot(mounting, NAMESPACE), tmp_path / "data")
    async with cluster(tmp_path / "data", kcr_clock, nodes) as loaded:
        await kcr_clock.advance(5)
        ready = await loaded.client.get(Pod, kcr.Key("shop", "web"))
        assert [one.ready for one in ready.status.container_statuses] == [True]
        assert dict((await loaded.client.get(ConfigMap, kcr.Key("shop", "settings"))).data) == {"mode": ""}
        assert await loaded.client.get(Secret, kcr.Key("shop", "password"))


@pytest.mark.kcr_virtual
async def test_missing_secret_of_a_kind_that_was_read_stays_missing(tmp_path: Path, kcr_clock: VirtualClock) -> None:
    other: Manifest = {
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "other", "namespace": "shop", "uid": f"{UID}5", "resourceVersion": "9"},
    }  # fmt: skip
    volumes = [{"name": "b", "secret": {"secretName": "password"}}]
    nodes = load(snapshot(pod("web", 3, {"volumes": volumes}), other, NAMESPACE, whole=("Secret",)), tmp_path / "data")
    async with cluster(tmp_path / "data", kcr_clock, nodes) as loaded:
        with pytest.raises(kcr.NotFoundError):
            await loaded.client.get(Secret, kcr.Key("shop", "password"))


@pytest.mark.kcr_virtual
async def test_owner_that_was_not_read_is_no_owner_and_one_that_is_gone_takes_its_child_with_it(
    tmp_path: Path, kcr_clock: VirtualClock
) -> None:
    foreign = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": f"{UID}8"}
    gone = {"apiVersion": "example.dev/v1", "kind": "Shop", "name": "red", "uid": f"{UID}9"}
    objects = (
        pod("kept", 3, {}, ownerReferences=[foreign]),
        pod("orphan", 4, {}, ownerReferences=[gone]),
        SHOP, NAMESPACE, DEFINITION,
    )  # fmt: skip
    nodes = load(snapshot(*objects, whole=("Shop",)), tmp_path / "data")
    async with cluster(tmp_path / "data", kcr_clock, nodes) as loaded:
        await kcr_clock.advance(120)
        assert [one.metadata.name for one in await loaded.client.list(Pod, "shop")] == ["kept"]


@pytest.mark.kcr_virtual
async def test_versions_that_two_objects_share_are_told_apart(tmp_path: Path, kcr_clock: VirtualClock) -> None:
    # As behind an aggregated API, or with a second etcd for some kinds.
    objects = [
        {**SHOP, "metadata": {**SHOP["metadata"], "name": name, "uid": f"{UID}{number}", "resourceVersion": version}}
        for number, (name, version) in enumerate([("a", "40"), ("b", "40"), ("c", "41"), ("d", "odd")], 3)
    ]
    nodes = load(snapshot(*objects, NAMESPACE, DEFINITION), tmp_path / "data")
    async with cluster(tmp_path / "data", kcr_clock, nodes) as loaded:
        found = {one.metadata.name: one.metadata.resource_version for one in await loaded.client.list(Shop)}
        assert len(set(found.values())) == 4
        assert int(found["d"]) < int(found["a"]) < int(found["b"]) < int(found["c"])


def test_snapshot_without_a_definition_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the snapshot has no CustomResourceDefinition shops\.example\.dev"):
        load(snapshot(SHOP, NAMESPACE), tmp_path / "data")


@pytest.mark.parametrize(("pods", "nodes"), [(0, 3), (1499, 3), (5000, 10), (100_000, 100)])
def test_nodes_are_as_many_as_the_pods_need(tmp_path: Path, pods: int, nodes: int) -> None:
    found = snapshot(NAMESPACE)
    kinds = (SnapshotKind("v1", "Pod", "pods", namespaced=True, whole=True, count=pods),)
    head = msgspec.structs.replace(found.head, kinds=(*found.head.kinds, *kinds))
    assert load(Snapshot(head, found.objects), tmp_path / "data") == nodes
