"""Protobuf answers, for clients that accept nothing else.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf, pkg/util/framer;
pkg/endpoints/handlers/{response,watch}.go.
"""

from random import Random

import pytest

from kcr_devcluster.apiserver.kinds.catalogue import CUSTOM_RESOURCE_DEFINITIONS, KINDS
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.schema import protobuf
from kcr_devcluster.apiserver.schema.builtin import type_of_kind
from kcr_devcluster.apiserver.server import HTTPRequest
from tests.kit.api import Api, Reply, config_map, job, pod
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, definition, spec_schema, version
from tests.kit.drawn_objects import builtin_object
from tests.kit.protobuf import PROTOBUF, body, frames
from tests.kit.valid_objects import METADATA, VALID_OBJECTS

pytestmark = pytest.mark.kcr_virtual
CORE = "/api/v1/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
CONFIG_MAPS = f"{CORE}/configmaps"
PARTIAL = "as=PartialObjectMetadata{};g=meta.k8s.io;v={}"


async def call(api: Api, method: str, target: str, data: object = b"", accept: str = PROTOBUF, **headers: str) -> Reply:
    """Send a request that accepts protobuf alone, and decode the answer, which is protobuf."""
    reply = await api.call(method, target, data, accept=accept, **headers)
    assert reply.headers["Content-Type"] == PROTOBUF, reply.body
    return reply._replace(body=protobuf.decode(reply.body))


async def test_object_is_answered_in_protobuf_by_all_methods(api: Api) -> None:
    made = (await call(api, "POST", JOBS, job("a"))).body
    assert made == await api.get(f"{JOBS}/a") == (await call(api, "GET", f"{JOBS}/a")).body
    patch = {"content_type": "application/merge-patch+json"}
    patched = (await call(api, "PATCH", f"{JOBS}/a", {"spec": {"suspend": True}}, **patch)).body
    assert (patched["spec"]["suspend"], patched["spec"]["template"]) == (True, made["spec"]["template"])
    status = {**patched, "status": {"ready": 0, "active": 1, "startTime": "2026-01-01T00:00:00Z"}}
    written = await call(api, "PUT", f"{JOBS}/a/status", status)
    assert written.body["status"] == status["status"]
    deleted = await call(api, "DELETE", f"{JOBS}/a", {"propagationPolicy": "Background"})
    assert (deleted.body["kind"], deleted.body["status"]) == ("Status", "Success")


async def test_list_is_answered_in_protobuf(api: Api) -> None:
    for name in "abc":
        await api.post(CONFIG_MAPS, config_map(name))
    for target in (CONFIG_MAPS, f"{CONFIG_MAPS}?limit=2", f"{CONFIG_MAPS}?labelSelector=no"):
        assert (await call(api, "GET", target)).body.get("metadata") == (await api.get(target))["metadata"]
    page, same = (await call(api, "GET", f"{CONFIG_MAPS}?limit=2")).body, await api.get(f"{CONFIG_MAPS}?limit=2")
    assert {**page, "kind": "ConfigMapList"} == same
    deleted = (await call(api, "DELETE", CONFIG_MAPS)).body
    assert [one["metadata"]["name"] for one in deleted["items"]] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("method", "target", "data", "code"),
    [
        pytest.param("GET", f"{CONFIG_MAPS}/no", b"", 404, id="not-found"),
        pytest.param("POST", CONFIG_MAPS, b"{", 400, id="bad-request"),
        pytest.param("POST", CONFIG_MAPS, {"metadata": {"name": "A", "labels": {"-": "-"}}}, 422, id="causes"),
        pytest.param("GET", "/api/v1/nothing", b"", 404, id="no-resource"),
        pytest.param("GET", f"{CONFIG_MAPS}?resourceVersion=99999", b"", 504, id="retry-after"),
    ],
)
async def test_refusal_is_the_same_status(api: Api, method: str, target: str, data: object, code: int) -> None:
    in_json = await api.call(method, target, data)
    reply = await call(api, method, target, data)
    assert (reply.status, reply.body) == (code, in_json.body)


async def test_subresources_and_reviews_are_answered_in_protobuf(api: Api) -> None:
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await api.post(
        deployments,
        {"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}},
    )
    scale = (await call(api, "GET", f"{deployments}/a/scale")).body
    scale["spec"]["replicas"] = 4
    written = (await call(api, "PUT", f"{deployments}/a/scale", scale)).body
    assert (written["kind"], written["spec"], written["status"]["selector"]) == ("Scale", {"replicas": 4}, "a=b")
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    reply = await call(api, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    assert (reply.status, reply.body["status"]) == (201, {"allowed": True})
    await api.post(f"{CORE}/pods", pod("p"))
    binding = {"metadata": {"name": "p"}, "target": {"name": "n"}}
    assert (await call(api, "POST", f"{CORE}/pods/p/binding", binding)).body["status"] == "Success"


async def test_watch_is_framed(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    target = f"{CONFIG_MAPS}?watch=true&allowWatchBookmarks=true"
    answer = await api.server.handle(HTTPRequest("GET", target, {"Accept": f"{PROTOBUF};stream=watch"}))
    assert answer.headers["Content-Type"] == f"{PROTOBUF};stream=watch"
    assert not isinstance(answer.body, bytes)
    (added, bookmark) = frames(await anext(aiter(answer.body)))
    assert added == ("ADDED", await api.get(f"{CONFIG_MAPS}/a"))
    assert (bookmark[0], bookmark[1]["kind"]) == ("BOOKMARK", "ConfigMap")
    await api.put(f"{CONFIG_MAPS}/a", {**config_map("a"), "data": {"a": "2"}})
    await api.delete(f"{CONFIG_MAPS}/a")
    modified, deleted = frames(await anext(aiter(answer.body)))
    assert (modified[0], modified[1]["data"], deleted[0]) == ("MODIFIED", {"a": "2"}, "DELETED")
    await answer.body.aclose()
    assert api.server.open_watches == 0


async def test_watch_error_is_a_status_in_a_frame(api: Api) -> None:
    target = f"{CONFIG_MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=99999"
    answer = await api.server.handle(HTTPRequest("GET", target, {"Accept": PROTOBUF}))
    assert not isinstance(answer.body, bytes)
    ((event, status),) = frames(await anext(aiter(answer.body)))
    assert (event, status["kind"], status["code"]) == ("ERROR", "Status", 504)


@pytest.mark.parametrize("name", ["v1", "v1beta1"])
async def test_metadata_of_any_kind_are_answered_in_protobuf(api: Api, name: str) -> None:
    await api.post(DEFINITIONS, definition(version("v1", spec_schema({"a": {"type": "integer"}}))))
    await api.post(WIDGETS, {"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"a": 1}})
    await api.post(CONFIG_MAPS, config_map("a"))
    for path in (WIDGETS, CONFIG_MAPS):
        wanted = (await api.get(f"{path}/a"))["metadata"]
        one = (await call(api, "GET", f"{path}/a", accept=f"{PROTOBUF};{PARTIAL.format('', name)}")).body
        assert one == {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{name}", "metadata": wanted}
        found = (await call(api, "GET", path, accept=f"{PROTOBUF};{PARTIAL.format('List', name)}")).body
        assert (found["kind"], found["items"]) == ("PartialObjectMetadataList", [{"metadata": wanted}])


async def test_custom_resources_have_no_protobuf(api: Api) -> None:
    await api.post(DEFINITIONS, definition(version("v1", spec_schema({}))))
    reply = await api.call("GET", WIDGETS, accept=PROTOBUF)
    accepted = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    assert (reply.status, reply.body["reason"]) == (406, "NotAcceptable")
    assert reply.body["message"] == f"only the following media types are accepted: {accepted}"
    assert (await api.call("GET", WIDGETS, accept=f"{PROTOBUF},application/json")).status == 200
    refused = await api.call("POST", WIDGETS, body("ex.io/v1", "Widget", b""), content_type=PROTOBUF)
    assert (refused.status, refused.body["reason"]) == (415, "UnsupportedMediaType")


async def test_documents_stay_json(api: Api) -> None:
    for target in ("/api", "/apis", "/apis/batch/v1"):
        assert (await api.call("GET", target, accept=PROTOBUF)).body == await api.get(target)


def _target(kind: Kind) -> str:
    prefix = f"/apis/{kind.type.api_version}" if kind.type.group else f"/api/{kind.type.api_version}"
    return f"{prefix}{'/namespaces/default' if kind.type.namespaced else ''}/{kind.type.plural}"


@pytest.mark.parametrize(
    "kind",
    [kind for kind in KINDS if kind.has_protobuf and kind is not CUSTOM_RESOURCE_DEFINITIONS],
    ids=lambda kind: kind.type.kind,
)
async def test_object_that_is_got_and_put_in_protobuf_is_not_changed(api: Api, kind: Kind) -> None:
    type_name = type_of_kind(kind.type.api_version, kind.type.kind)
    assert type_name is not None
    drawn = [builtin_object(type_name, Random(seed)) for seed in range(4)]
    stored = 0
    for number, one in enumerate([VALID_OBJECTS[kind.type.kind]] if kind.type.kind in VALID_OBJECTS else drawn):
        target = f"{_target(kind)}/a{number}"
        told = {"apiVersion": kind.type.api_version, "kind": kind.type.kind}
        made = await api.call("POST", _target(kind), {**one, **told, "metadata": {**METADATA, "name": f"a{number}"}})
        if made.status != 201:
            continue
        stored += 1
        answer = await api.call("GET", target, accept=PROTOBUF)
        reply = await api.call("PUT", target, answer.body, content_type=PROTOBUF)
        # The same resourceVersion: nothing was written.
        assert (reply.status, reply.body) == (200, made.body)
    assert stored, made.body["message"]
