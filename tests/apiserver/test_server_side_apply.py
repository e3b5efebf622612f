"""Server-side apply: one request, and its answer (AS 11.1, 11.4, 12).

Source: kubernetes/test/integration/apiserver/apply/apply_test.go; the words of the refusals are those of a real server.
"""

import asyncio
from typing import Any

import pytest

from tests.kit.api import Api

pytestmark = pytest.mark.kcr_virtual
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def config_map(name: str = "a", **members: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **members}


async def test_absent_object_is_created_and_owned(api: Api) -> None:
    reply = await api.apply(f"{CONFIG_MAPS}/a", config_map(data={"a": "1"}))
    assert reply.status == 201
    (entry,) = reply.body["metadata"]["managedFields"]
    assert entry.pop("time") == reply.body["metadata"]["creationTimestamp"]
    assert entry == {
        "manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}}},
    }  # fmt: skip


async def test_yaml_is_applied_as_json_is(api: Api) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: '1'}\n"
    assert (await api.apply(f"{CONFIG_MAPS}/a", text)).body["data"] == {"a": "1"}
    assert (await api.apply(f"{CONFIG_MAPS}/a", config_map(data={"a": "1"}))).status == 200


INVALID = 'PatchOptions.meta.k8s.io "" is invalid: '
TYPED = "failed to create typed patch object"
METADATA = {"name": "a"}


@pytest.mark.parametrize(
    ("body", "query", "status", "message"),
    [
        pytest.param(
            config_map(), "", 422, f"{INVALID}fieldManager: Required value: is required for apply patch",
            id="no-manager",
        ),
        pytest.param(
            config_map(), f"fieldManager={'m' * 129}", 422,
            f"{INVALID}fieldManager: Too long: may not be more than 128 bytes", id="long-manager",
        ),
        pytest.param(b"a: [", "", 400, "error decoding YAML: ", id="no-yaml"),
        pytest.param(
            b"[]", "", 400,
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go "
            "value of type map[string]interface {}", id="no-object",
        ),
        pytest.param(b"", "", 400, "invalid object type: /, Kind=", id="nothing"),
        pytest.param(
            {**config_map(), "kind": "Secret"}, "", 400, "invalid object type: /v1, Kind=Secret", id="other-kind"
        ),
        pytest.param(
            {**config_map(), "apiVersion": "a/v2"}, "", 400, "invalid object type: a/v2, Kind=ConfigMap",
            id="other-version",
        ),
        pytest.param(
            config_map(metadata={}), "", 400,
            "the name of the object (a based on URL) was undeterminable: name must be provided", id="no-name",
        ),
        pytest.param(
            config_map("b"), "", 400, "the name of the object (b) does not match the name on the URL (a)",
            id="other-name",
        ),
        pytest.param(
            config_map(metadata={**METADATA, "namespace": "b"}), "", 400,
            "the namespace of the provided object does not match the namespace sent on the request",
            id="other-namespace",
        ),
        pytest.param(
            config_map(metadata={**METADATA, "managedFields": []}), "", 400, "metadata.managedFields must be nil",
            id="managed-fields",
        ),
        pytest.param(
            config_map(metadata={**METADATA, "uid": "abc"}), "", 409,
            'Operation cannot be fulfilled on configmaps "a": uid mismatch: the provided object specified uid abc, and '
            "no existing object was found", id="uid-of-nothing",
        ),
        pytest.param(
            config_map(foo=1), "", 500, f"{TYPED} (/a; /v1, Kind=ConfigMap): .foo: field not declared in schema",
            id="unknown-field",
        ),
        pytest.param(
            config_map(foo=1), "fieldValidation=Ignore", 500,
            f"{TYPED} (/a; /v1, Kind=ConfigMap): .foo: field not declared in schema", id="unknown-field-ignored",
        ),
        pytest.param(
            config_map(foo=1, data=[]), "", 500,
            f"{TYPED} (/a; /v1, Kind=ConfigMap): errors:\n  .foo: field not declared in schema\n"
            "  .data: expected map, got &{[]}", id="several-faults",
        ),
        pytest.param(
            b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: '1'\n  a: '2'\n",
            "fieldValidation=Strict", 400,
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
            '  line 6: key "a" already set in map', id="repeated-key",
        ),
        pytest.param(
            b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"1","a":"2"}}',
            "fieldValidation=Strict", 400,
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
            '  line 1: key "a" already set in map', id="repeated-key-in-json",
        ),
    ],
)  # fmt: skip
async def test_applies_that_are_refused(api: Api, body: object, query: str, status: int, message: str) -> None:
    manager = "" if message.startswith(INVALID) else "m"
    target = f"{CONFIG_MAPS}/a?{query}&fieldManager={manager}"
    reply = await api.call("PATCH", target, body, content_type="application/apply-patch+yaml")
    assert (reply.status, reply.body["message"][: len(message)]) == (status, message)
    assert (await api.call("GET", f"{CONFIG_MAPS}/a")).status == 404


async def test_repeated_keys_of_a_scale_are_refused(api: Api) -> None:
    container = {"name": "c", "image": "busybox"}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    await api.post(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
    body = b'{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d"},"spec":{"replicas":2,"replicas":3}}'
    reply = await api.apply(f"{DEPLOYMENTS}/d/scale", body, query="force=true&fieldValidation=Strict")
    assert (reply.status, reply.body["message"].endswith('line 1: key "replicas" already set in map')) == (400, True)
    reply = await api.apply(f"{DEPLOYMENTS}/d/scale", body, query="force=true")
    assert (reply.status, reply.body["spec"]["replicas"]) == (200, 3)


async def test_repeated_keys_are_a_warning(api: Api) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: '1'\n  a: '2'\n"
    reply = await api.apply(f"{CONFIG_MAPS}/a", text)
    assert reply.headers["Warning"] == r'299 - "line 6: key \"a\" already set in map"'
    assert reply.body["data"] == {"a": "2"}


@pytest.mark.parametrize(
    ("metadata", "status", "message"),
    [
        pytest.param({"resourceVersion": "1"}, 409, "the object has been modified; please apply your", id="version"),
        pytest.param({"uid": "abc"}, 422, 'metadata.uid: Invalid value: "abc": field is immutable', id="uid"),
    ],
)
async def test_preconditions_are_checked(api: Api, metadata: Any, status: int, message: str) -> None:
    await api.post(CONFIG_MAPS, config_map())
    reply = await api.apply(f"{CONFIG_MAPS}/a", config_map(metadata={**METADATA, **metadata}, data={"a": "1"}))
    assert reply.status == status
    assert message in reply.body["message"]


async def test_preconditions_that_hold_are_no_obstacle(api: Api) -> None:
    stored = (await api.post(CONFIG_MAPS, config_map()))["metadata"]
    metadata = {**METADATA, "uid": stored["uid"], "resourceVersion": stored["resourceVersion"]}
    assert (await api.apply(f"{CONFIG_MAPS}/a", config_map(metadata=metadata, data={"a": "1"}))).status == 200


async def test_dry_run_stores_nothing(api: Api) -> None:
    reply = await api.apply(f"{CONFIG_MAPS}/a", config_map(data={"a": "1"}), query="dryRun=All")
    assert (reply.status, "resourceVersion" in reply.body["metadata"]) == (201, False)
    assert (await api.call("GET", f"{CONFIG_MAPS}/a")).status == 404
    await api.apply(f"{CONFIG_MAPS}/a", config_map(data={"a": "1"}))
    reply = await api.apply(f"{CONFIG_MAPS}/a", config_map(data={"a": "2"}), query="dryRun=All")
    assert reply.body["data"] == {"a": "2"}
    assert (await api.get(f"{CONFIG_MAPS}/a"))["data"] == {"a": "1"}


@pytest.mark.parametrize("path", ["status", "scale"])
async def test_subresource_of_an_absent_object_is_not_found(api: Api, path: str) -> None:
    kind = {"status": ("apps/v1", "Deployment"), "scale": ("autoscaling/v1", "Scale")}[path]
    body = {"apiVersion": kind[0], "kind": kind[1], "metadata": METADATA}
    assert (await api.apply(f"{DEPLOYMENTS}/a/{path}", body)).status == 404


@pytest.mark.parametrize("form", ["application/apply-patch+cbor", "application/apply-patch+json"])
async def test_other_forms_of_apply_are_refused(api: Api, form: str) -> None:
    await api.post(CONFIG_MAPS, config_map())
    reply = await api.call("PATCH", f"{CONFIG_MAPS}/a?fieldManager=m", config_map(), content_type=form)
    assert (reply.status, reply.body["message"]) == (415, "415: Unsupported Media Type")


async def test_invalid_result_is_refused_by_field(api: Api) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": METADATA, "spec": {"completions": -1}}
    reply = await api.apply("/apis/batch/v1/namespaces/default/jobs/a", job)
    assert (reply.status, reply.body["reason"]) == (422, "Invalid")
    assert "spec.completions: Invalid value: -1" in reply.body["message"]


async def test_conflicts_name_managers_and_fields(api: Api) -> None:
    # AS 11.4
    target = f"{CONFIG_MAPS}/a"
    await api.apply(target, config_map(data={"a": "1", "b": "1"}), "m1")
    one = await api.apply(target, config_map(data={"a": "2"}), "m2")
    assert one.body == {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Conflict", "code": 409,
        "message": 'Apply failed with 1 conflict: conflict with "m1": .data.a',
        "details": {
            "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "m1"', "field": ".data.a"}],
        },
    }  # fmt: skip
    await api.patch(f"{target}?fieldManager=upd", {"data": {"c": "1"}})
    more = await api.apply(target, config_map(data={"a": "2", "b": "2", "c": "2"}), "m2")
    assert more.body["message"] == (
        'Apply failed with 3 conflicts: conflicts with "m1":\n- .data.a\n- .data.b\n'
        'conflicts with "upd" using v1:\n- .data.c'
    )


async def test_large_apply_lets_other_requests_pass_and_loses_none_of_them(api: Api) -> None:
    env = [{"name": f"V{number}", "value": "1"} for number in range(3_000)]
    spec = {"containers": [{"name": "c", "image": "busybox", "env": env}]}
    large = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "a"}, "template": {"spec": spec}}
    templates, finished = "/api/v1/namespaces/default/podtemplates", list[str]()
    await api.post(templates, {"metadata": {"name": "a"}, "template": {"spec": {**spec, "containers": [{
        "name": "c", "image": "busybox"}]}}})  # fmt: skip

    async def send_large() -> None:
        reply = await api.apply(f"{templates}/a", large)
        assert (reply.status, reply.body["metadata"]["labels"]) == (200, {"l": "1"})
        finished.append("apply")

    async def send_small() -> None:
        await api.patch(f"{templates}/a", {"metadata": {"labels": {"l": "1"}}})
        finished.append("patch")

    async with asyncio.TaskGroup() as requests:
        requests.create_task(send_large())
        requests.create_task(send_small())
    assert finished == ["patch", "apply"]
    stored = await api.get(f"{templates}/a")
    assert len(stored["template"]["spec"]["containers"][0]["env"]) == 3_000


async def test_large_apply_to_the_status_of_a_deleted_object_creates_none(api: Api) -> None:
    env = [{"name": f"V{number}", "value": "1"} for number in range(3_000)]
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "busybox", "env": env}]},
    }
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    await api.post(DEPLOYMENTS, {"metadata": {"name": "a"}, "spec": spec})
    status = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "status": {"replicas": 1}}

    async with asyncio.TaskGroup() as requests:
        applied = requests.create_task(api.apply(f"{DEPLOYMENTS}/a/status", status))
        # It is sent while the apply is computed.
        requests.create_task(api.delete(f"{DEPLOYMENTS}/a"))
    assert (applied.result().status, applied.result().body["reason"]) == (404, "NotFound")
    assert (await api.get(DEPLOYMENTS))["items"] == []
