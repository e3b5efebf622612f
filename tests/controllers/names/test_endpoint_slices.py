"""EndpointSlices on the embedded cluster, in virtual time, with simulated pods.

Source: kubernetes/pkg/controller/endpointslice/endpointslice_controller.go.
"""

from typing import Any

import pytest

from kcr.api.core import Namespace, Pod, Service
from kcr.api.meta import Key
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.names.objects import CONTROLLER, MANAGED_BY, EndpointSlice
from tests.kit.node_pods import create

pytestmark = pytest.mark.kcr_virtual
KEY = Key("default", "web")


async def make_service(cluster: EmbeddedCluster, **spec: Any) -> None:
    given = {"selector": {"app": "web"}, "ports": [{"port": 80}], **spec}
    await cluster.client.create_manifest(Service, {"metadata": {"name": "web"}, "spec": given}, "default")


async def make_pod(cluster: EmbeddedCluster, name: str) -> None:
    manifest = {
        "metadata": {"name": name, "labels": {"app": "web"}, "annotations": {"sim.kcr.dev/run-for": "600"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    await cluster.client.create_manifest(Pod, manifest, "default")


async def slices(cluster: EmbeddedCluster) -> list[EndpointSlice]:
    return list(await cluster.client.list(EndpointSlice, "default"))


async def ready(cluster: EmbeddedCluster) -> list[str | None]:
    """The names of the pods that are ready, as the slices have them."""
    return [
        endpoint.target_ref.name
        for found in await slices(cluster)
        for endpoint in found.endpoints
        if endpoint.target_ref is not None and endpoint.conditions.ready
    ]


async def test_slices_follow_the_pods(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await make_pod(kcr_cluster, "before")
    await make_service(kcr_cluster)
    await make_pod(kcr_cluster, "after")
    await create(kcr_cluster.client, "other")
    await kcr_clock.advance(5)
    (found,) = await slices(kcr_cluster)
    service = await kcr_cluster.client.get(Service, KEY)
    assert found.metadata.name.startswith("web-")
    assert found.metadata.labels[MANAGED_BY] == CONTROLLER
    (owner,) = found.metadata.owner_references
    assert (owner.kind, owner.uid, owner.controller) == ("Service", service.metadata.uid, True)
    assert [port.port for port in found.ports] == [80]
    assert await ready(kcr_cluster) == ["after", "before"]
    addresses = [endpoint.addresses[0] for endpoint in found.endpoints]
    assert all(address.startswith("10.244.") for address in addresses)
    await kcr_cluster.client.merge_patch(Pod, Key("default", "before"), {"metadata": {"labels": {"app": None}}})
    await kcr_clock.advance(1)
    assert await ready(kcr_cluster) == ["after"]
    await kcr_cluster.client.delete(Pod, Key("default", "after"))
    await kcr_clock.advance(60)
    assert [one.endpoints for one in await slices(kcr_cluster)] == [()]


async def test_slices_are_repaired_and_go_with_their_service(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await make_service(kcr_cluster)
    await make_pod(kcr_cluster, "a")
    await kcr_clock.advance(5)
    (found,) = await slices(kcr_cluster)
    await kcr_cluster.client.merge_patch(EndpointSlice, found.key, {"endpoints": []})
    await kcr_clock.advance(1)
    assert await ready(kcr_cluster) == ["a"]
    await kcr_cluster.client.delete(EndpointSlice, found.key)
    await kcr_clock.advance(1)
    assert await ready(kcr_cluster) == ["a"]
    await kcr_cluster.client.delete(Service, KEY)
    await kcr_clock.advance(5)
    assert await slices(kcr_cluster) == []


async def test_slices_of_users_are_left_alone(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    labels = {"kubernetes.io/service-name": "web"}
    endpoints = [{"addresses": ["192.0.2.1"]}]
    manifest = {"metadata": {"name": "own", "labels": labels}, "addressType": "IPv4", "endpoints": endpoints}
    await kcr_cluster.client.create_manifest(EndpointSlice, manifest, "default")
    await make_service(kcr_cluster, selector=None)
    await make_pod(kcr_cluster, "a")
    await kcr_clock.advance(5)
    assert [found.metadata.name for found in await slices(kcr_cluster)] == ["own"]


async def test_namespace_with_a_service_ends(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await kcr_cluster.client.create_manifest(Namespace, {"metadata": {"name": "room"}})
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    await kcr_cluster.client.create_manifest(Service, {"metadata": {"name": "web"}, "spec": spec}, "room")
    await kcr_clock.advance(5)
    await kcr_cluster.client.delete(Namespace, Key("", "room"))
    await kcr_clock.advance(30)
    assert "room" not in {found.metadata.name for found in await kcr_cluster.client.list(Namespace)}
