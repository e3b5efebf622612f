"""Server-side apply as a controller does it: `client.apply` on the embedded server."""

from typing import Any

import pytest

import kcr
from kcr.api.apps import Deployment
from kcr.api.core import ConfigMap
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client
from kcr.errors import ConflictError
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = pytest.mark.kcr_virtual

KEY = Key("default", "a")
META = ObjectMeta(name="a", namespace="default")


class Settings(kcr.Resource, api_version="v1", kind="ConfigMap", plural="configmaps"):
    """A view of a ConfigMap that knows nothing of its data."""

    immutable: bool | None = None


class Ready(kcr.Object):
    replicas: int | None = None
    ready_replicas: int | None = None


class Scaled(kcr.Resource, api_version="apps/v1", kind="Deployment", plural="deployments"):
    """A view of a Deployment that knows nothing of its spec."""

    status: Ready = Ready()


@pytest.fixture
def client(bare: EmbeddedCluster) -> Client:
    return bare.client.with_options(field_manager="website")


def deployment(**members: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template, **members}
    return {"metadata": {"name": "a", "namespace": "default"}, "spec": spec}


async def test_typed_object_is_created_and_changed(client: Client) -> None:
    made = await client.apply(ConfigMap(metadata=META, data={"a": "1", "b": "1"}))
    assert (made.metadata.uid != "", made.data) == (True, {"a": "1", "b": "1"})
    changed = await client.apply(ConfigMap(metadata=META, data={"a": "2"}))
    assert changed.data == {"a": "2"}
    again = await client.apply(ConfigMap(metadata=META, data={"a": "2"}))
    assert again.metadata.resource_version == changed.metadata.resource_version


async def test_conflict_names_owner_and_field_and_force_takes_over(client: Client) -> None:
    await client.apply(ConfigMap(metadata=META, data={"a": "1"}), field_owner="other")
    mine = ConfigMap(metadata=META, data={"a": "2"})
    with pytest.raises(ConflictError, match=r'conflict with "other": \.data\.a') as caught:
        await client.apply(mine)
    assert [(cause.message, cause.field) for cause in caught.value.causes] == [('conflict with "other"', ".data.a")]
    assert (await client.apply(mine, force=True)).data == {"a": "2"}


async def test_lean_type_leaves_alone_what_it_does_not_know(client: Client) -> None:
    await client.apply(ConfigMap(metadata=META, data={"a": "1"}), field_owner="other")
    assert (await client.apply(Settings(metadata=META, immutable=False))).immutable is False
    assert (await client.get(ConfigMap, KEY)).data == {"a": "1"}
    await client.apply_manifest(Deployment, deployment(replicas=3))
    await client.apply(Scaled(metadata=META, status=Ready(replicas=1, ready_replicas=1)), subresource="status")
    found = await client.get(Deployment, KEY)
    assert (found.spec.replicas, found.status.ready_replicas) == (3, 1)


async def test_mapping_says_no_more_than_it_holds(client: Client) -> None:
    await client.apply_manifest(Deployment, deployment(replicas=3))
    scaled = await client.apply_manifest(Deployment, deployment(), field_owner="other")
    assert scaled.spec.replicas == 3
    status = {"metadata": {"name": "a", "namespace": "default"}, "status": {"replicas": 2, "readyReplicas": 2}}
    assert (await client.apply_manifest(Deployment, status, subresource="status")).status.ready_replicas == 2


async def test_unstructured_objects_are_applied_as_they_are(client: Client) -> None:
    loose = kcr.unstructured("v1", "ConfigMap", plural="configmaps")
    made = await client.apply(loose.of({"metadata": {"name": "a", "namespace": "default"}, "data": {"a": "1"}}))
    assert made.get("data") == {"a": "1"}


async def test_version_of_what_was_read_is_a_precondition(client: Client) -> None:
    old = await client.apply(ConfigMap(metadata=META, data={"a": "1"}))
    await client.apply(ConfigMap(metadata=META, data={"a": "2"}))
    with pytest.raises(ConflictError, match="the object has been modified"):
        await client.apply(old)
