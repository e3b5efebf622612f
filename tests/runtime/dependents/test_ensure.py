from collections.abc import Mapping

import msgspec
import pytest
from msgspec.structs import replace

from kcr.api import codec
from kcr.api.core import ConfigMap, Pod
from kcr.api.full.apps_v1 import Deployment
from kcr.api.meta import Key
from kcr.api.unstructured import Unstructured, unstructured
from kcr.client import Client
from kcr.dependents import create_or_patch
from kcr.errors import AlreadyExistsError, ConflictError, TransportError
from kcr.testing import FaultyTransport, build
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = pytest.mark.kcr_virtual

SEED = build.config_map("settings", uid="", resource_version="")


async def ensure(client: Client, **data: str) -> tuple[str, Mapping[str, str]]:
    ensured = await create_or_patch(client, SEED, lambda found: replace(found, data={**found.data, **data}))
    return ensured.result, ensured.object.data


async def test_object_is_created_then_updated_then_left_alone(kcr_cluster: EmbeddedCluster) -> None:  # EX-39
    faults = FaultyTransport(kcr_cluster.transport)
    client = Client(faults)
    assert await ensure(client, a="1") == ("created", {"a": "1"})
    assert await ensure(client, b="2") == ("updated", {"a": "1", "b": "2"})
    faults.calls.clear()
    assert await ensure(client, b="2") == ("unchanged", {"a": "1", "b": "2"})
    assert [call.verb for call in faults.calls] == ["get"]


def deployment(image: str) -> Deployment:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]}}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    return msgspec.convert({"metadata": {"name": "web", "namespace": "default"}, "spec": spec}, Deployment)


async def test_difference_that_the_server_fills_up_is_sent_once(kcr_cluster: EmbeddedCluster) -> None:
    faults = FaultyTransport(kcr_cluster.transport)
    client = Client(faults)

    async def reconcile(image: str) -> tuple[str, list[str]]:
        faults.calls.clear()
        wanted = deployment(image)
        ensured = await create_or_patch(client, wanted, lambda found: replace(found, spec=wanted.spec))
        return ensured.result, [call.verb for call in faults.calls]

    assert await reconcile("web:1") == ("created", ["get", "create"])
    assert await reconcile("web:1") == ("unchanged", ["get", "patch"])
    assert await reconcile("web:1") == ("unchanged", ["get"])
    assert await reconcile("web:2") == ("updated", ["get", "patch"])
    assert await reconcile("web:2") == ("unchanged", ["get", "patch"])
    # Another's change is another version.
    await kcr_cluster.client.merge_patch(Deployment, Key("default", "web"), {"spec": {"replicas": 3}})
    assert await reconcile("web:2") == ("updated", ["get", "patch"])
    found = await kcr_cluster.client.get(Deployment, Key("default", "web"))
    assert found.spec.replicas == 1


async def test_difference_is_sent_again_unless_it_is_known_to_change_nothing(kcr_cluster: EmbeddedCluster) -> None:
    faults = FaultyTransport(kcr_cluster.transport)
    client = Client(faults)
    made = await client.create(deployment("web:1"))
    wanted = replace(made, spec=deployment("web:1").spec)

    async def sent(by: Client) -> bool:
        faults.calls.clear()
        await by.patch(made, wanted)
        return bool(faults.calls)

    dry = client.with_options(dry_run=True)
    assert [await sent(dry), await sent(dry)] == [True, True]
    faults.on("patch", nth=1).lose_reply("cut")
    with pytest.raises(TransportError):
        await client.patch(made, wanted)
    assert [await sent(client), await sent(client)] == [True, False]
    assert await sent(client.with_options(field_manager="another"))


async def test_fields_the_type_does_not_know_are_kept(kcr_cluster: EmbeddedCluster) -> None:  # EX-39
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}
    managed = {"metadata": {"labels": {"others": "keep"}, "annotations": {"x": "y"}}}
    made = await kcr_cluster.client.create_manifest(ConfigMap, whole, "default")
    await kcr_cluster.client.merge_patch(ConfigMap, made.key, managed)
    await ensure(kcr_cluster.client, a="2")
    found = await kcr_cluster.client.get(ConfigMap, Key("default", "settings"))
    assert (found.metadata.labels, found.metadata.annotations) == ({"others": "keep"}, {"x": "y"})


async def test_status_is_written_by_itself(kcr_cluster: EmbeddedCluster) -> None:  # EX-39
    pod = await kcr_cluster.client.create_manifest(
        Pod, codec.encode(build.pod("p", node="elsewhere", uid="", resource_version="")), "default"
    )
    seed = replace(pod, status=type(pod.status)())

    async def ensure_pod(phase: str, **labels: str) -> tuple[str, Pod]:
        def mutate(found: Pod) -> Pod:
            metadata = replace(found.metadata, labels={**found.metadata.labels, **labels})
            return replace(found, metadata=metadata, status=replace(found.status, phase=phase))

        ensured = await create_or_patch(kcr_cluster.client, seed, mutate)
        return ensured.result, await kcr_cluster.client.get(Pod, Key("default", "p"))

    result, found = await ensure_pod("Running")
    assert (result, found.status.phase) == ("updatedStatusOnly", "Running")
    result, found = await ensure_pod("Succeeded", a="b")
    assert (result, found.status.phase, found.metadata.labels) == ("updatedStatus", "Succeeded", {"a": "b"})
    result, found = await ensure_pod("Succeeded", a="b")
    assert result == "unchanged"


async def test_object_keeps_its_name(kcr_cluster: EmbeddedCluster) -> None:  # EX-39
    other = build.config_map("other")
    with pytest.raises(ValueError, match="configmaps default/settings: mutated into default/other"):
        await create_or_patch(kcr_cluster.client, SEED, lambda _: other)


async def test_change_in_between_is_a_conflict(kcr_cluster: EmbeddedCluster) -> None:  # EX-39
    await ensure(kcr_cluster.client, a="1")
    faults = FaultyTransport(kcr_cluster.transport)
    faults.on("patch").then(lambda: kcr_cluster.client.merge_patch(ConfigMap, SEED.key, {"data": {"b": "3"}}))
    with pytest.raises(ConflictError):
        await ensure(Client(faults), a="2")


async def test_creation_in_between_is_told(kcr_cluster: EmbeddedCluster) -> None:  # EX-39
    faults = FaultyTransport(kcr_cluster.transport)
    faults.on("create", ConfigMap).then(lambda: kcr_cluster.client.create(SEED))
    with pytest.raises(AlreadyExistsError):
        await ensure(Client(faults), a="2")


async def test_unstructured_objects_are_ensured_as_well(kcr_cluster: EmbeddedCluster) -> None:  # EX-39
    kind = unstructured("v1", "Pod", plural="pods")
    await kcr_cluster.client.create_manifest(
        Pod, codec.encode(build.pod("p", node="elsewhere", uid="", resource_version="")), "default"
    )
    seed = kind.of({"metadata": {"name": "p", "namespace": "default"}})

    async def ensure_pod(phase: str, **labels: str) -> str:
        def mutate(found: Unstructured) -> Unstructured:
            metadata = replace(found.metadata, labels={**found.metadata.labels, **labels})
            status = msgspec.json.decode(found.fields["status"]) | {"phase": phase}
            fields = {**found.fields, "status": msgspec.json.encode(status)}
            return replace(found, metadata=metadata, fields=fields)

        return (await create_or_patch(kcr_cluster.client, seed, mutate)).result

    assert await ensure_pod("Running") == "updatedStatusOnly"
    assert await ensure_pod("Running", a="b") == "updated"
    assert (await kcr_cluster.client.get(Pod, Key("default", "p"))).status.phase == "Running"
    assert await ensure_pod("Running", a="b") == "unchanged"
