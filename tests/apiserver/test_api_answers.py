"""Answers that a comparison with a real server (1.36) found different, a row or a test each."""

from typing import Any

import pytest
import yaml

from kcr_devcluster.testing.loop import VirtualClock
from kcr_devcluster.yaml_json import load_yaml
from tests.kit.api import TABLE, Api, config_map, job, names, pod, pod_binding

pytestmark = pytest.mark.kcr_virtual
ROOT = "/api/v1/namespaces/default"
CONFIG_MAPS, PODS, SERVICES = f"{ROOT}/configmaps", f"{ROOT}/pods", f"{ROOT}/services"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


async def test_collection_is_deleted_up_to_the_limit(api: Api) -> None:  # AS 13.7
    for name in "abcde":
        await api.post(CONFIG_MAPS, config_map(name, app="x" if name < "d" else "y"))
    gone = await api.delete(f"{CONFIG_MAPS}?limit=2")
    assert names(gone) == ["a", "b"]
    assert gone["metadata"]["remainingItemCount"] == 3
    assert names(await api.get(CONFIG_MAPS)) == ["c", "d", "e"]
    assert names(await api.delete(f"{CONFIG_MAPS}?limit=1&continue={gone['metadata']['continue']}")) == ["c"]
    assert names(await api.delete(f"{CONFIG_MAPS}?labelSelector=app=y&limit=1")) == ["d"]
    assert names(await api.delete(f"{CONFIG_MAPS}?limit=0")) == ["e"]
    reply = await api.call("DELETE", f"{CONFIG_MAPS}?limit=x")
    assert (reply.status, reply.body["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize("bound", [pytest.param(False, id="at-once"), pytest.param(True, id="by-the-kubelet")])
async def test_pod_is_marked_before_it_goes(api: Api, bound: bool) -> None:
    # kubernetes/staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go, Delete
    made = await api.post(PODS, pod("a"))
    if bound:
        await api.post(f"{PODS}/a/binding", pod_binding("a", "n"))
        made = await api.delete(f"{PODS}/a")
    events = await api.watch(f"{PODS}?resourceVersion={made['metadata']['resourceVersion']}&")
    await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 0} if bound else b"")
    seen = [await events.next() for _ in range(2)]
    assert [event["type"] for event in seen] == ["MODIFIED", "DELETED"]
    for event in seen:
        metadata = event["object"]["metadata"]
        assert (metadata["deletionTimestamp"] != "", metadata["deletionGracePeriodSeconds"]) == (True, 0)
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    assert versions[1] == versions[0] + 1
    await events.close()


async def test_deletion_that_is_only_tried_shows_the_mark(api: Api) -> None:
    await api.post(PODS, pod("a"))
    tried = await api.delete(f"{PODS}/a?dryRun=All")
    assert (tried["metadata"]["deletionGracePeriodSeconds"], "deletionTimestamp" in tried["metadata"]) == (0, True)
    assert "deletionTimestamp" not in (await api.get(f"{PODS}/a"))["metadata"]


async def test_copy_of_an_absent_member_is_null(api: Api) -> None:
    # evanphx/json-patch.v4, patch.go, copy
    await api.post(CONFIG_MAPS, config_map("a"))
    patch = [{"op": "copy", "from": "/binaryData", "path": "/immutable"}]
    changed = await api.patch(f"{CONFIG_MAPS}/a", patch, "json-patch")
    assert "immutable" not in changed
    for lost in ("/nowhere/x", "/data/a/x"):
        patch = [{"op": "copy", "from": lost, "path": "/immutable"}]
        reply = await api.call("PATCH", f"{CONFIG_MAPS}/a", patch, content_type="application/json-patch+json")
        assert reply.status == 422


EVENT = {"involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}}


@pytest.mark.parametrize(
    ("plural", "body"),
    [("services", {"spec": {"ports": [{"port": 80}]}}), ("limitranges", {"spec": {"limits": []}}), ("events", EVENT)],
)
@pytest.mark.parametrize("version", ["", "0", "12345"])
async def test_put_creates_what_is_absent(api: Api, plural: str, body: dict[str, Any], version: str) -> None:
    # AS 5; store.go, Update: of a new object only the uid is a precondition
    target = f"{ROOT}/{plural}/a"
    reply = await api.call("PUT", target, body | {"metadata": {"name": "a", "resourceVersion": version}})
    assert (reply.status, reply.body["metadata"]["name"]) == (201, "a")
    assert (await api.get(target))["metadata"]["resourceVersion"] != version
    reply = await api.call("PUT", f"{ROOT}/{plural}/b", body | {"metadata": {"name": "b", "uid": "x"}})
    assert (reply.status, reply.body["reason"]) == (409, "Conflict")
    assert "Precondition failed: UID in precondition: x, UID in object meta: " in reply.body["message"]


async def test_put_of_another_absent_kind_is_not_found(api: Api) -> None:
    reply = await api.call("PUT", f"{CONFIG_MAPS}/a", config_map("a"))
    assert (reply.status, reply.body["reason"]) == (404, "NotFound")


async def test_yaml_is_served_to_those_who_ask(api: Api) -> None:  # AS 6.1
    made = await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"umlaut": "ä", "number": "1"}})
    for target, value in ((f"{CONFIG_MAPS}/a", made), (CONFIG_MAPS, await api.get(CONFIG_MAPS))):
        reply = await api.call("GET", target, accept="application/yaml")
        assert (reply.status, reply.headers["Content-Type"]) == (200, "application/yaml")
        assert yaml.safe_load(reply.body) == value
        assert reply.body.startswith(b"apiVersion: v1\n")
    await api.patch(f"{CONFIG_MAPS}/a", {"data": {"y": "1e3", "off": "08", "lines": "a: b\n- c\n"}})
    reply = await api.call("GET", f"{CONFIG_MAPS}/a", accept="application/yaml")
    assert load_yaml(reply.body) == await api.get(f"{CONFIG_MAPS}/a")
    reply = await api.call("GET", f"{CONFIG_MAPS}/b", accept="application/yaml;q=1,application/json;q=0.5")
    assert (reply.status, yaml.safe_load(reply.body)["reason"]) == (404, "NotFound")
    reply = await api.call("GET", CONFIG_MAPS, accept="application/json,application/yaml")
    assert reply.headers["Content-Type"] == "application/json"
    reply = await api.call("POST", CONFIG_MAPS, config_map("c"), accept="application/yaml")
    assert (reply.status, yaml.safe_load(reply.body)["metadata"]["name"]) == (201, "c")
    reply = await api.call("GET", f"{CONFIG_MAPS}?watch=true", accept="application/yaml")
    assert (reply.status, yaml.safe_load(reply.body)["reason"]) == (406, "NotAcceptable")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("target", ["/version", "/version/", "/api", "/api/v1", "/apis/batch/v1"])
async def test_documents_can_only_be_read(api: Api, method: str, target: str) -> None:
    reply = await api.call(method, target)
    assert (reply.status, reply.body["reason"]) == (405, "MethodNotAllowed")
    assert (await api.call("GET", target)).status == 200
    assert (await api.call(method, "/nowhere")).status == 404


async def test_answers_to_head_have_no_body(api: Api) -> None:
    assert [(await api.call("HEAD", target)).status for target in ("/apis", "/version", "/nowhere")] == [200, 405, 404]
    assert (await api.call("HEAD", "/apis")).body == b""


@pytest.mark.parametrize(
    ("method", "query", "options", "field", "message"),
    [
        ("POST", f"fieldManager={'a' * 129}", "CreateOptions", "fieldManager", "Too long: may not be more than 128"),
        ("PUT", f"fieldManager={'%C3%A4' * 65}", "UpdateOptions", "fieldManager", "Too long: may not be more than 128"),
        ("PATCH", "fieldManager=a%0Ab", "PatchOptions", "fieldManager", "invalid character U+000A (at position 1)"),
        ("PATCH", "force=true", "PatchOptions", "force", "Forbidden: may not be specified for non-apply patch"),
        ("PATCH", "force=false", "PatchOptions", "force", "Forbidden: may not be specified for non-apply patch"),
    ],
)  # fmt: skip
async def test_options_of_writes_are_checked(
    api: Api, method: str, query: str, options: str, field: str, message: str
) -> None:  # AS 11.1, 12.3
    await api.post(CONFIG_MAPS, config_map("a"))
    target = CONFIG_MAPS if method == "POST" else f"{CONFIG_MAPS}/a"
    form = "application/merge-patch+json" if method == "PATCH" else ""
    reply = await api.call(method, f"{target}?{query}", config_map("a"), content_type=form)
    assert (reply.status, reply.body["reason"]) == (422, "Invalid")
    assert reply.body["message"].startswith(f'{options}.meta.k8s.io "" is invalid: ')
    (cause,) = reply.body["details"]["causes"]
    assert (cause["field"], message in cause["message"]) == (field, True)


async def test_unknown_choice_of_row_objects_is_a_bad_request(api: Api) -> None:
    reply = await api.call("GET", f"{PODS}?includeObject=All", accept=TABLE)
    assert (reply.status, reply.body["message"]) == (
        400,
        'Unable to convert to Table as requested: includeObject: Invalid value: "All": '
        "must be 'Metadata', 'Object', 'None', or empty",
    )
    assert (await api.call("GET", f"{PODS}?includeObject=All")).status == 200


async def test_watch_of_negative_length_ends_at_once(api: Api, kcr_clock: VirtualClock) -> None:
    await api.post(PODS, pod("a"))
    began = kcr_clock.now()
    events = await api.watch(f"{PODS}?timeoutSeconds=-1&")
    assert (await events.next())["type"] == "ADDED"
    with pytest.raises(StopAsyncIteration):
        await events.next()
    assert kcr_clock.now() == began


@pytest.mark.parametrize(
    ("name", "priority"), [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000), ("", 0)]
)
async def test_priority_classes_of_the_system_have_their_values(api: Api, name: str, priority: int) -> None:
    # kubernetes/plugin/pkg/admission/priority/admission.go
    body = pod("a")
    body["spec"]["priorityClassName"] = name
    made = await api.post(PODS, body)
    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (priority, "PreemptLowerPriority")
    template = job("a")
    template["spec"]["template"]["spec"]["priorityClassName"] = name
    assert "priority" not in (await api.post(JOBS, template))["spec"]["template"]["spec"]
