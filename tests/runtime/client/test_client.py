"""The client against the embedded server: in process, and over TLS as against any other."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace
from structlog.testing import capture_logs

import kcr
from kcr.api import codec
from kcr.api.batch import Job
from kcr.api.core import ConfigMap, Pod, Secret, Service
from kcr.api.full.apiextensions_v1 import CustomResourceDefinition
from kcr.api.meta import Key, ObjectMeta
from kcr.api.unstructured import unstructured
from kcr.client import (
    Client,
    LogOptions,
    retry_on_conflict,
)
from kcr.errors import AlreadyExistsError, ApiError, BadRequestError, ConflictError, InvalidError, NotFoundError
from kcr.informer import Handler, Informer, Selection
from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from kcr_devcluster.kinds import install
from tests.kit.custom_resources import definition, spec_schema, version
from tests.kit.http_servers import client_of
from tests.kit.owners import Website

pytestmark = pytest.mark.asyncio

Whole = unstructured("v1", "ConfigMap", plural="configmaps")
KEY = Key("default", "a")
POD_SPEC = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}


@pytest_asyncio.fixture(params=["in-process", "tls"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """Give a client of a cluster whose pods print two lines and end."""
    outcome = RunResult(logs="hello\n", last_logs="bye\n", run_for=0.05)
    async with (
        EmbeddedCluster(random=Random(0), on_run=lambda pod, container, attempt: outcome) as cluster,
        client_of(cluster, request.param) as client,
    ):
        yield client


def config_map(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "namespace": "default"}, "data": {"n": "0"}, **fields}


async def test_object_without_a_type_is_written_back_whole(client: Client) -> None:
    # ST-10, CL-6.
    made = await client.create(Whole.of(config_map(binaryData={"b": "AAE="})))
    again = await client.update(made.changed(data={"n": "1"}))
    assert again.get("data") == {"n": "1"}
    typed = await client.get(ConfigMap, Key("default", "a"))
    assert (typed.data, typed.binary_data) == ({"n": "1"}, {"b": "AAE="})
    with pytest.raises(ConflictError):
        await client.update(made.changed(data={"n": "2"}))
    assert (await client.patch(again, again.changed(data={"n": "3", "m": "4"}))).get("data") == {"n": "3", "m": "4"}
    assert [obj.get("data") for obj in await client.list(Whole, "default") if obj.key == KEY] == [{"n": "3", "m": "4"}]


async def test_mapping_is_put_whole(client: Client) -> None:
    await client.create_manifest(ConfigMap, config_map(), "default")
    after = await client.update_manifest(ConfigMap, config_map(data={"n": "1"}))
    assert after.data == {"n": "1"}


async def test_store_of_a_kind_without_a_type_follows_it(client: Client) -> None:
    changes: list[tuple[str, Any]] = []

    class Noting(Handler[Any]):
        def on_add(self, obj: Any, initial: bool) -> None:
            changes.append(("add", obj.get("data")))

        def on_update(self, old: Any, new: Any) -> None:
            changes.append(("update", new.get("data")))

        def on_delete(self, obj: Any, final_state_unknown: bool) -> None:
            changes.append(("delete", obj.get("data")))

    made = await client.create(Whole.of(config_map()))
    # Not that of kube-system, which a cluster that listens has.
    informer = Informer(client, (Selection(Whole, namespace="default"),), random=Random(0))
    informer.add_handler(Noting())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await informer.wait_synced()
        await client.update(made.changed(data={"n": "1"}))
        await client.delete(Whole, KEY)
        await eventually(lambda: len(changes) == 3)
        assert informer.store.get(KEY) is None
        task.cancel()
    assert changes == [("add", {"n": "0"}), ("update", {"n": "1"}), ("delete", {"n": "1"})]


async def test_status_of_a_kind_without_a_type_is_put(client: Client) -> None:
    # CL-5.
    kind = unstructured("v1", "Namespace", plural="namespaces", namespaced=False)
    made = await client.create(kind.of({"metadata": {"name": "room"}}))
    conditions = [{"type": "Tidy", "status": "True"}]
    after = await client.update(
        made.changed(status={"phase": "Active", "conditions": conditions}), subresource="status"
    )
    assert [condition["type"] for condition in after.get("status")["conditions"]] == ["Tidy"]


async def test_json_patch_holds_only_while_its_test_does(client: Client) -> None:
    # CL-8.
    made = await client.create_manifest(ConfigMap, config_map(), "default")
    test = {"op": "test", "path": "/metadata/uid", "value": made.metadata.uid}
    change = {"op": "replace", "path": "/data/n", "value": "1"}
    assert (await client.json_patch(ConfigMap, KEY, [test, change])).data == {"n": "1"}
    said = "^configmaps default/a: it has changed: the patch tests /metadata/uid$"
    with pytest.raises(ConflictError, match=said):
        await client.json_patch(ConfigMap, KEY, [{**test, "value": "another"}, {**change, "value": "2"}])
    assert (await client.get(ConfigMap, Key("default", "a"))).data == {"n": "1"}


class Widget(kcr.Resource, api_version="ex.io/v1", plural="widgets"):
    """Of a definition that has no subresource `status`."""

    status: dict[str, str] = {}


async def test_status_that_a_definition_does_not_have_is_said_to_be_missing(client: Client) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await install(client, [definition(version("v1", schema))])
    made = await client.create(Widget(metadata=ObjectMeta(name="w", namespace="default")))
    said = (
        "widgets.ex.io default/w: there is no status, because widgets of ex.io/v1 have no subresource "
        "'status': add `subresources: {status: {}}` to this version in their CustomResourceDefinition"
    )
    for status_of in (made, replace(made, metadata=replace(made.metadata, name="gone"))):
        with pytest.raises(ApiError) as refused:
            await client.patch_status(status_of, replace(status_of, status={"ready": "1"}))
        # A reconciler would take that for an object that is deleted.
        assert not isinstance(refused.value, NotFoundError)
        assert str(refused.value) == said.replace("default/w", str(status_of.key))


async def test_manifest_of_a_custom_resource_needs_no_kind(client: Client) -> None:
    kind = kcr.unstructured("ex.io/v1", "Widget", plural="widgets")
    await client.create_manifest(CustomResourceDefinition, definition(version("v1", spec_schema({}))))
    made = await client.create_manifest(kind, {"metadata": {"name": "a", "namespace": "default"}})
    assert (made.metadata.name, type(made)) == ("a", kind)


async def test_status_of_a_deleted_object_is_not_found(client: Client) -> None:
    made = await client.create_manifest(Job, {"metadata": {"name": "a", "namespace": "default"}, "spec": {
        "suspend": True, "template": {"spec": POD_SPEC}}}, "default")  # fmt: skip
    gone = replace(made, metadata=replace(made.metadata, name="gone"))
    for _ in range(2):
        with pytest.raises(NotFoundError, match=r'jobs\.batch "gone" not found'):
            await client.patch_status(gone, replace(gone, status=replace(gone.status, failed=1)))


async def test_selector_that_the_server_refuses_is_named_with_its_kind(client: Client) -> None:
    said = r"^pods: the server refuses the selector labels='a in \(': unable to parse requirement"
    with pytest.raises(BadRequestError, match=said):
        await client.list(Pod, labels="a in (")
    with pytest.raises(BadRequestError, match=r"^pods: the server refuses the selector fields='spec.x=1': "):
        async with client.watch(Pod, resource_version="0", timeout_seconds=1, fields="spec.x=1"):
            pass


async def test_json_patch_without_a_test_that_fails_is_invalid(client: Client) -> None:
    await client.create_manifest(ConfigMap, config_map(), "default")
    with pytest.raises(InvalidError):
        await client.json_patch(ConfigMap, KEY, [{"op": "remove", "path": "/data/none"}])


async def test_dry_run_changes_nothing(client: Client) -> None:
    # CL-11.
    trial = client.with_options(dry_run=True)
    assert (await trial.create_manifest(ConfigMap, config_map(), "default")).metadata.uid
    with pytest.raises(NotFoundError, match=r'^configmaps "a" not found$'):
        await client.get(ConfigMap, Key("default", "a"))
    made = await client.create_manifest(ConfigMap, config_map(), "default")
    await trial.delete(ConfigMap, KEY)
    changed = await trial.patch(made, replace(made, data={"n": "1"}))
    assert (changed.data, (await client.get(ConfigMap, Key("default", "a"))).data) == ({"n": "1"}, {"n": "0"})


async def test_unknown_fields_are_refused_logged_or_dropped(client: Client) -> None:
    # CL-11, CL-14.
    pod = {"metadata": {"name": "a"}, "spec": {**POD_SPEC, "colour": "red"}}
    with pytest.raises(BadRequestError, match=r'unknown field "spec\.colour"'):
        await client.with_options(field_validation="Strict").create_manifest(Pod, pod, "default")
    with capture_logs() as logs:
        for name in ("a", "b"):
            named = {**pod, "metadata": {"name": name}}
            await client.with_options(field_validation="Warn").create_manifest(Pod, named, "default")
        await client.with_options(field_validation="Ignore").create_manifest(
            Pod, {**pod, "metadata": {"name": "c"}}, "default"
        )
    assert [entry["warning"] for entry in logs if "warning" in entry] == ['unknown field "spec.colour"']


async def test_deletion_spares_what_is_not_meant(client: Client) -> None:
    # CL-15.
    made = await client.create_manifest(ConfigMap, config_map(), "default")
    with pytest.raises(ConflictError):
        await client.delete(ConfigMap, KEY, uid="another")
    with pytest.raises(ConflictError):
        await client.delete(ConfigMap, KEY, resource_version="1")
    metadata = made.metadata
    await client.delete(ConfigMap, KEY, uid=metadata.uid, resource_version=metadata.resource_version)
    with pytest.raises(NotFoundError):
        await client.delete(ConfigMap, KEY)


async def test_object_is_deleted_and_not_its_successor_of_the_same_name(client: Client) -> None:
    first = await client.create_manifest(ConfigMap, config_map(), "default")
    await client.delete(first)
    second = await client.create_manifest(ConfigMap, config_map(), "default")
    with pytest.raises(ConflictError):
        await client.delete(first)
    await client.delete(await client.merge_patch(ConfigMap, second.key, {"data": {"changed": "since"}}))
    assert await client.list(ConfigMap, "default") == ()


async def test_writers_in_conflict_all_get_through(client: Client) -> None:
    # CL-13.
    await client.create_manifest(ConfigMap, config_map(), "default")

    async def increment(found: ConfigMap) -> ConfigMap:
        return await client.patch(found, replace(found, data={"n": str(int(found.data["n"]) + 1)}))

    async with asyncio.TaskGroup() as group:
        for seed in range(4):
            group.create_task(retry_on_conflict(client, ConfigMap, KEY, increment, random=Random(seed)))
    assert (await client.get(ConfigMap, Key("default", "a"))).data == {"n": "4"}


async def test_log_is_read_and_followed_to_its_end(client: Client) -> None:
    # CL-5.
    await client.create_manifest(Pod, {"metadata": {"name": "a"}, "spec": POD_SPEC}, "default")

    async def started() -> bool:
        return (await client.get(Pod, Key("default", "a"))).status.phase in ("Running", "Succeeded")

    await eventually(started)
    async with client.follow_log(KEY, LogOptions("main")) as lines:
        assert [line async for line in lines] == [b"hello", b"bye"]
    assert await client.log(KEY) == "hello\nbye\n"
    assert await client.log(KEY, LogOptions(tail_lines=1)) == "bye\n"
    with pytest.raises(BadRequestError, match="container other is not valid for pod a"):
        await client.log(KEY, LogOptions("other"))


async def test_kind_that_is_not_installed_is_named(client: Client) -> None:
    with pytest.raises(NotFoundError, match=r"the server does not know /apis/example\.dev/v1/websites; is the kind"):
        await client.list(Website)
    with pytest.raises(NotFoundError, match=r"/apis/batch/v1/namespaces/default/jubs/a; is the kind installed"):
        await client.get(unstructured("batch/v1", "Jub", plural="jubs"), Key("default", "a"))


async def test_object_without_namespace_is_told_to_have_one(client: Client) -> None:
    with pytest.raises(ApiError, match=r"^ConfigMap a has no namespace: give it one") as caught:
        await client.create(ConfigMap(metadata=ObjectMeta(name="a")))
    assert caught.value.code == 405


@pytest.mark.parametrize("encode", [dict, codec.encode], ids=["mapping", "json"])
async def test_manifest_of_another_namespace_is_not_sent(client: Client, encode: Any) -> None:
    manifest = encode({"metadata": {"name": "a", "namespace": "kube-system"}})
    said = "ConfigMap a: namespace is 'default', and its metadata.namespace 'kube-system': leave one out"
    with pytest.raises(ValueError, match=said):
        await client.create_manifest(ConfigMap, manifest, "default")
    assert (await client.create_manifest(ConfigMap, manifest)).key == Key("kube-system", "a")
    with pytest.raises(AlreadyExistsError):
        await client.create_manifest(ConfigMap, manifest, "kube-system")


async def test_typed_kinds_travel_both_ways(client: Client) -> None:
    metadata = ObjectMeta(name="a", namespace="default")
    secret = await client.create(Secret(metadata=metadata, data={"password": b"\x00\xff"}, type="Opaque"))
    assert secret.data == {"password": b"\x00\xff"}
    changed = await client.patch(secret, replace(secret, data={"password": b"new"}))
    assert changed.data == {"password": b"new"}
    manifest = {"metadata": {"name": "a"}, "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}}
    service = await client.create_manifest(Service, manifest, "default")
    assert (service.spec.selector, service.spec.ports[0].port) == ({"app": "a"}, 80)


async def test_server_warns_of_what_it_does_not_like(client: Client) -> None:
    # CL-14: over the wire as well as in process.
    job = {"metadata": {"name": "a"}, "spec": {"template": {"spec": POD_SPEC}}}
    await client.create_manifest(Job, job, "default")
    with capture_logs() as logs:
        await client.delete(Job, KEY)
    assert [entry["warning"][:38] for entry in logs if "warning" in entry] == ["child pods are preserved by default wh"]
