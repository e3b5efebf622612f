import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kcr.api.batch import Job, JobSpec, JobStatus
from kcr.api.core import ConfigMap, Pod, Secret, Service
from kcr.api.full import core_v1 as full
from kcr.api.meta import Key, ObjectMeta
from kcr.api.unstructured import unstructured
from kcr.client import Client
from tests.kit.scripted_transport import Say, Script

pytestmark = pytest.mark.kcr_virtual

LABELED = {"metadata": {"name": "a", "namespace": "default", "labels": {"k": "v"}}}
SUCCESS = {"kind": "Status", "status": "Success"}
_KEY = Key("default", "j")
POD = {"metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7"}}


async def test_create_posts_the_whole_object() -> None:
    script = Script(Say(POD, status=201))
    await Client(script, field_manager="me").create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
    request = script.requests[0]
    assert (request.method, request.target) == ("POST", "/api/v1/namespaces/default/configmaps?fieldManager=me")
    assert request.headers["content-type"] == "application/json"
    sent = json.loads(request.body)
    assert (sent["apiVersion"], sent["kind"], sent["metadata"]["name"]) == ("v1", "ConfigMap", "a")


async def test_manifest_is_sent_with_fields_the_type_lacks() -> None:
    script = Script(Say(POD, status=201))
    await Client(script).create_manifest(Pod, {**POD, "spec": {"hostNetwork": True}}, "default")
    assert json.loads(script.requests[0].body)["spec"] == {"hostNetwork": True}


@pytest.mark.parametrize("as_json", [False, True])
async def test_manifest_is_created_in_its_own_namespace_or_in_the_given_one(as_json: bool) -> None:
    script = Script(Say(POD, status=201), Say(POD, status=201))
    manifests: list[dict[str, object]] = [{"metadata": {"name": "a", "namespace": "own"}}, {"metadata": {"name": "a"}}]
    for manifest, namespace in zip(manifests, ("", "other"), strict=True):
        given = json.dumps(manifest).encode() if as_json else manifest
        await Client(script).create_manifest(Pod, given, namespace)
    targets = [request.target.partition("?")[0] for request in script.requests]
    assert targets == ["/api/v1/namespaces/own/pods", "/api/v1/namespaces/other/pods"]


async def test_patch_sends_the_difference_with_its_precondition() -> None:
    # CL-8: resourceVersion is the lock, and lists are replaced whole (CL-9).
    script = Script(Say({"metadata": {"name": "j"}}))
    old = Job(metadata=ObjectMeta(name="j", namespace="default", resource_version="5"))
    new = replace(old, status=JobStatus(active=2, ready=0))
    await Client(script).patch_status(old, new)
    request = script.requests[0]
    assert request.method == "PATCH"
    assert request.target == "/apis/batch/v1/namespaces/default/jobs/j/status?fieldManager=kcr"
    assert request.headers["content-type"] == "application/merge-patch+json"
    assert json.loads(request.body) == {"metadata": {"resourceVersion": "5"}, "status": {"active": 2, "ready": 0}}


async def test_patch_without_difference_sends_nothing() -> None:
    # CL-8: the anchors send an empty patch.
    script = Script()
    old = Job(metadata=ObjectMeta(name="j", namespace="default"))
    assert await Client(script).patch(old, replace(old)) is old
    assert script.requests == []


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        pytest.param({"spec": JobSpec(parallelism=2)}, "jobs.batch default/j: the server would drop spec", id="spec"),
        pytest.param(
            {"metadata": ObjectMeta(name="j", namespace="default", labels={"a": "b"}), "spec": JobSpec(parallelism=2)},
            "jobs.batch default/j: the server would drop metadata and spec",
            id="metadata-and-spec",
        ),
    ],
)
async def test_status_write_refuses_what_it_would_drop(changes: dict[str, Any], named: str) -> None:
    script = Script()
    old = Job(metadata=ObjectMeta(name="j", namespace="default"))
    with pytest.raises(ValueError, match=named):
        await Client(script).patch_status(old, replace(old, status=JobStatus(active=2), **changes))
    assert script.requests == []


_STATUS_WRITES: tuple[Callable[[Client, Job, Job], Awaitable[object]], ...] = (
    lambda client, old, new: client.patch(old, new),
    lambda client, old, new: client.merge_patch(Job, old.key, {"status": {"active": 2}}),
    lambda client, old, new: client.strategic_patch(Job, old.key, {"status": {"active": 2}}),
    lambda client, old, new: client.json_patch(
        Job, old.key, [{"op": "test", "path": "", "value": {}}, {"op": "add", "path": "/status/active", "value": 2}]
    ),
)


@pytest.mark.parametrize("write", _STATUS_WRITES, ids=("patch", "merge_patch", "strategic_patch", "json_patch"))
async def test_status_that_the_server_would_drop_is_refused(
    write: Callable[[Client, Job, Job], Awaitable[object]],
) -> None:
    old = Job(metadata=ObjectMeta(name="j", namespace="default", resource_version="5"))
    new = replace(old, status=JobStatus(active=2))
    jobs, status = ({"name": name, "kind": "Job", "namespaced": True} for name in ("jobs", "jobs/status"))
    script = Script(Say({"resources": [jobs, status]}))
    client = Client(script)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"jobs.batch default/j: the server would drop status: .* patch_status\("):
            await write(client, old, new)
    # It is asked once, and nothing was written.
    assert [request.target for request in script.requests] == ["/apis/batch/v1"]
    # A kind without the subresource has its status in the object; that is asked once as well.
    written = {"metadata": {"name": "j", "namespace": "default", "resourceVersion": "6"}, "status": {"active": 2}}
    client = Client(script := Script(Say({"resources": [jobs]}), Say(written), Say(written)))
    for _ in range(2):
        await write(client, old, new)
    assert [request.method for request in script.requests] == ["GET", "PATCH", "PATCH"]


_OTHER_WRITES: tuple[Callable[[Client], Awaitable[object]], ...] = (
    lambda client: client.merge_patch(Job, _KEY, {"spec": {"suspend": True}}, subresource="status"),
    lambda client: client.strategic_patch(Job, _KEY, {"spec": {"suspend": True}}, subresource="status"),
    lambda client: client.json_patch(
        Job, _KEY, [{"op": "add", "path": "/spec/suspend", "value": True}], subresource="status"
    ),
)


@pytest.mark.parametrize("write", _OTHER_WRITES, ids=("merge_patch", "strategic_patch", "json_patch"))
async def test_status_write_of_another_field_is_refused(write: Callable[[Client], Awaitable[object]]) -> None:
    script = Script()
    with pytest.raises(ValueError, match=r"jobs.batch default/j: the server would drop spec: write it with patch\("):
        await write(Client(script))
    assert script.requests == []


async def test_status_write_without_difference_sends_nothing() -> None:
    script = Script()
    old = Job(metadata=ObjectMeta(name="j", namespace="default"), status=JobStatus(active=2))
    assert await Client(script).patch_status(old, replace(old)) is old
    assert script.requests == []


async def test_strategic_patch_says_what_it_is() -> None:
    # CL-8.
    script = Script(Say(POD))
    await Client(script).strategic_patch(Pod, Key("default", "a"), {"metadata": {"uid": "u"}})
    assert script.requests[0].headers["content-type"] == "application/strategic-merge-patch+json"


async def test_delete_carries_preconditions_and_policy() -> None:
    # CL-15.
    script = Script(Say(SUCCESS))
    await Client(script).delete(Pod, Key("default", "a"), uid="u", propagation="Background", grace_period_seconds=0)
    assert json.loads(script.requests[0].body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u"},
        "propagationPolicy": "Background",
        "gracePeriodSeconds": 0,
    }


async def test_json_patch_sends_its_operations() -> None:
    # CL-8: each form of a patch under its own content type (ST-24).
    script = Script(Say(POD))
    operations = [
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ]
    pod = await Client(script).json_patch(Pod, Key("default", "a"), operations)
    request = script.requests[0]
    assert (request.method, request.target) == ("PATCH", "/api/v1/namespaces/default/pods/a?fieldManager=kcr")
    assert request.headers["content-type"] == "application/json-patch+json"
    assert json.loads(request.body) == operations
    assert pod.metadata.uid == "u"


async def test_apply_says_whose_fields_these_are() -> None:
    # CL-10.
    script = Script(Say(POD), Say(POD), Say(POD))
    client = Client(script, field_manager="me")
    pod = unstructured("v1", "Pod", plural="pods").of(LABELED)
    await client.apply(pod, field_owner="website", force=True)
    await client.apply(pod, subresource="status")
    await client.apply_manifest(Pod, LABELED)
    assert script.targets == [
        "/api/v1/namespaces/default/pods/a?fieldManager=website&force=true",
        "/api/v1/namespaces/default/pods/a/status?fieldManager=me",
        "/api/v1/namespaces/default/pods/a?fieldManager=me",
    ]
    assert {request.headers["content-type"] for request in script.requests} == {"application/apply-patch+yaml"}
    assert json.loads(script.requests[2].body) == {
        "apiVersion": "v1", "kind": "Pod", **LABELED,
    }  # fmt: skip


async def test_update_puts_the_whole_object() -> None:
    script = Script(Say(POD), Say(POD))
    whole = unstructured("v1", "Pod", plural="pods").of({**POD, "spec": {"hostNetwork": True}})
    answer = await Client(script).update(whole)
    await Client(script).update(whole, subresource="status")
    assert [request.method for request in script.requests] == ["PUT", "PUT"]
    assert script.targets == [
        "/api/v1/namespaces/default/pods/a?fieldManager=kcr",
        "/api/v1/namespaces/default/pods/a/status?fieldManager=kcr",
    ]
    assert json.loads(script.requests[0].body) == {
        "apiVersion": "v1", "kind": "Pod", **POD, "spec": {"hostNetwork": True},
    }  # fmt: skip
    assert type(answer) is type(whole)


async def test_mapping_is_put_as_it_is_and_read_as_a_type() -> None:
    script = Script(Say(POD))
    manifest = {"metadata": {**POD["metadata"], "managedFields": []}, "spec": {"hostNetwork": True}}
    pod = await Client(script).update_manifest(Pod, manifest)
    assert json.loads(script.requests[0].body) == {"apiVersion": "v1", "kind": "Pod", **manifest}
    assert isinstance(pod, Pod)


async def test_partial_type_is_never_put() -> None:
    script = Script(Say(POD))
    with pytest.raises(TypeError, match=r"update: Pod has only .*; use patch\(old, new\), or a type with all"):
        await Client(script).update(Pod(metadata=ObjectMeta(name="a")))  # type: ignore[type-var]  # what this is about
    assert script.requests == []


@pytest.mark.parametrize("verb", ["create", "apply"])
async def test_view_is_never_sent_whole(verb: str) -> None:
    script = Script(Say(POD))
    view = Service(metadata=ObjectMeta(name="a", namespace="default"))
    remedy = rf"{verb}: kcr.api.core.Service has some fields .* use kcr.api.full.core_v1.Service, or {verb}_manif"
    with pytest.raises(TypeError, match=remedy):
        await getattr(Client(script), verb)(view)
    assert script.requests == []


async def test_complete_type_is_created_and_put() -> None:
    whole = {**POD, "spec": {"containers": []}}
    script = Script(Say(whole, status=201), Say(whole))
    pod = full.Pod(metadata=ObjectMeta(name="a", namespace="default"), spec=full.PodSpec(containers=()))
    assert isinstance(await Client(script).create(pod), full.Pod)
    await Client(script).update(pod)
    assert [request.method for request in script.requests] == ["POST", "PUT"]


async def test_manifest_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the manifest has no metadata\.name"):
        await Client(Script()).update_manifest(Pod, {"metadata": {}})


async def test_unstructured_difference_is_patched() -> None:
    script = Script(Say(POD))
    old = unstructured("v1", "Pod", plural="pods").of({**POD, "spec": {"nodeName": "n", "hostNetwork": True}})
    await Client(script).patch(old, old.changed(spec={"nodeName": "m", "hostNetwork": True}))
    assert json.loads(script.requests[0].body) == {"metadata": {"resourceVersion": "7"}, "spec": {"nodeName": "m"}}


async def test_deletion_may_depend_on_the_version() -> None:
    # CL-15.
    script = Script(Say(SUCCESS))
    await Client(script).delete(Pod, Key("default", "a"), resource_version="7")
    assert json.loads(script.requests[0].body)["preconditions"] == {"resourceVersion": "7"}


async def test_options_go_with_every_write() -> None:
    # CL-11, CL-19.
    script = Script(*(Say(POD) for _ in range(9)))
    client = Client(script).with_options(field_manager="website", field_validation="Strict", dry_run=True)
    key, pod = Key("default", "a"), Pod(metadata=ObjectMeta(name="a", namespace="default"))
    whole = unstructured("v1", "Pod", plural="pods").of(POD)
    await client.create(whole)
    await client.create_manifest(Pod, POD, "default")
    await client.update(whole)
    await client.apply(whole)
    await client.patch(pod, replace(pod, metadata=replace(pod.metadata, labels={"k": "v"})))
    await client.strategic_patch(Pod, key, {})
    await client.json_patch(Pod, key, [])
    for target in script.targets:
        assert target.endswith("?fieldManager=website&fieldValidation=Strict&dryRun=All")
    script.answers.insert(0, Say(SUCCESS))
    await client.delete(Pod, key)
    await client.get(Pod, Key("", "a"))
    # Beside its body a DELETE has no query: the server would not read it.
    assert script.targets[-2:] == ["/api/v1/namespaces/default/pods/a", "/api/v1/pods/a"]
    assert json.loads(script.requests[-2].body) == {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}


async def test_options_leave_the_client_they_come_from_alone() -> None:
    script = Script(Say(POD), Say(POD))
    client = Client(script)
    other = client.with_options(dry_run=True)
    await client.create(ConfigMap())
    await other.with_options(field_manager="x").create(ConfigMap())
    assert script.targets == ["/api/v1/configmaps?fieldManager=kcr", "/api/v1/configmaps?fieldManager=x&dryRun=All"]


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda client, secret: client.create(secret), id="create"),
        pytest.param(lambda client, secret: client.apply(secret), id="apply"),
        pytest.param(lambda client, secret: client.update(secret), id="update"),
        pytest.param(lambda client, secret: client.patch(replace(secret, data={}), secret), id="patch"),
        # Another fault than the text.
        pytest.param(lambda client, secret: client.create(replace(secret, type=object())), id="type"),
    ],
)
@pytest.mark.parametrize("kind", [Secret, full.Secret])
async def test_refused_secret_does_not_show_its_values(kind: Any, write: Any) -> None:
    script = Script()
    secret = kind(metadata=ObjectMeta(name="a", namespace="b", resource_version="5"), data={"key": "hunter2hunter2"})
    with pytest.raises(TypeError) as refused:
        await write(Client(script), secret)
    assert script.requests == []
    assert "hunter2" not in str(refused.value)
