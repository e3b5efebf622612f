"""GET and LIST: versions, pages, selectors. Sources: kubernetes/staging/src/k8s.io/apiserver/pkg/storage."""

import base64
from typing import Any

import msgspec
import pytest

from kcr.testing import VirtualClock
from kcr_devcluster.apiserver.server import HTTPRequest
from tests.kit.api import Api, config_map, job, names, pod, pod_binding

pytestmark = pytest.mark.kcr_virtual
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


async def make(api: Api, *wanted: str) -> None:
    for name in wanted:
        await api.post(CONFIG_MAPS, config_map(name))


async def test_list_is_sorted_and_items_are_untyped(api: Api) -> None:
    await make(api, "b", "a-x", "a")
    answer = await api.get(CONFIG_MAPS)
    assert (answer["kind"], answer["apiVersion"]) == ("ConfigMapList", "v1")
    assert names(answer) == ["a", "a-x", "b"]
    assert "kind" not in answer["items"][0]
    assert all(
        int(i["metadata"]["resourceVersion"]) <= int(answer["metadata"]["resourceVersion"]) for i in answer["items"]
    )


async def test_empty_list_has_items_all_the_same(api: Api) -> None:
    assert (await api.get(JOBS))["items"] == []


async def test_namespaces_sort_by_the_whole_key(api: Api) -> None:
    for namespace in ("default", "default-b"):
        if namespace != "default":
            await api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        await api.post(f"/api/v1/namespaces/{namespace}/configmaps", config_map("x"))
    found = await api.get("/api/v1/configmaps")
    assert [item["metadata"]["namespace"] for item in found["items"]] == ["default-b", "default"]


async def test_pages_come_from_one_snapshot(api: Api) -> None:
    await make(api, "a", "b", "d")
    first = await api.get(f"{CONFIG_MAPS}?limit=2")
    await make(api, "c")
    await api.delete(f"{CONFIG_MAPS}/d")
    second = await api.get(f"{CONFIG_MAPS}?limit=2&continue={first['metadata']['continue']}")
    assert (names(first), names(second)) == (["a", "b"], ["d"])
    assert first["metadata"]["remainingItemCount"] == 1
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    assert "continue" not in second["metadata"]


async def test_continue_token_has_the_form_of_upstream(api: Api) -> None:
    await make(api, "a", "b")
    page = await api.get(f"{CONFIG_MAPS}?limit=1")
    token = page["metadata"]["continue"]
    content = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    assert content == {"v": "meta.k8s.io/v1", "rv": int(page["metadata"]["resourceVersion"]), "start": "a\0"}


async def test_expired_continue_brings_a_token_that_goes_on(api: Api, bare: Any) -> None:
    await make(api, "a", "b", "c")
    token = (await api.get(f"{CONFIG_MAPS}?limit=1"))["metadata"]["continue"]
    await make(api, "d")
    bare.storage.compact()
    reply = await api.call("GET", f"{CONFIG_MAPS}?limit=1&continue={token}")
    assert (reply.status, reply.body["reason"]) == (410, "Expired")
    rest = await api.get(f"{CONFIG_MAPS}?continue={reply.body['metadata']['continue']}")
    assert names(rest) == ["b", "c", "d"]


async def test_lists_of_the_past_expire_as_a_server_compacts(api: Api, bare: Any, kcr_clock: VirtualClock) -> None:
    """Source: apiserver/pkg/storage/etcd3/compact.go; kubernetes/test/e2e/apimachinery/chunking.go."""
    await make(api, *(f"a{number:02}" for number in range(40)))
    first = (await api.get(f"{CONFIG_MAPS}?limit=4"))["metadata"]
    exact = f"{CONFIG_MAPS}?resourceVersionMatch=Exact&resourceVersion={first['resourceVersion']}"
    second = f"{CONFIG_MAPS}?limit=4&continue={first['continue']}"
    # Nothing has changed: the revision is the newest one.
    await kcr_clock.advance(1000)
    await api.get(second)
    await make(api, "b")
    await kcr_clock.advance(290)
    assert (len(names(await api.get(exact))), first["remainingItemCount"]) == (40, 36)
    watch = f"{CONFIG_MAPS}?watch=true&timeoutSeconds=1&resourceVersion={first['resourceVersion']}"
    await kcr_clock.advance(310)
    reply = await api.call("GET", second)
    assert (reply.status, reply.body["reason"]) == (410, "Expired")
    assert (await api.call("GET", exact)).status == 410
    # From the last key on, at the newest version, which all further pages have.
    rest = await api.get(f"{CONFIG_MAPS}?limit=4&continue={reply.body['metadata']['continue']}")
    assert names(rest) == ["a04", "a05", "a06", "a07"]
    assert rest["metadata"]["remainingItemCount"] == 33
    assert rest["metadata"]["resourceVersion"] != first["resourceVersion"]
    last = await api.get(f"{CONFIG_MAPS}?limit=50&continue={rest['metadata']['continue']}")
    assert (len(names(last)), last["metadata"]["resourceVersion"]) == (33, rest["metadata"]["resourceVersion"])
    # Watches are served from the recent changes.
    assert (await api.server.handle(HTTPRequest("GET", watch, {}, b""))).status == 200


async def test_version_zero_ignores_the_limit(api: Api) -> None:
    await make(api, "a", "b")
    answer = await api.get(f"{CONFIG_MAPS}?limit=1&resourceVersion=0")
    assert names(answer) == ["a", "b"]
    assert "continue" not in answer["metadata"]


async def test_selectors_suppress_the_remaining_count(api: Api) -> None:
    for name in "ab":
        await api.post(CONFIG_MAPS, config_map(name, app="x"))
    metadata = (await api.get(f"{CONFIG_MAPS}?limit=1&labelSelector=app%3Dx"))["metadata"]
    assert "continue" in metadata
    assert "remainingItemCount" not in metadata


async def test_full_page_is_continued_where_anything_follows(api: Api) -> None:
    """Source: apiserver/pkg/storage/cacher/cacher.go, GetList: the next object shows that there is more."""
    for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
        await api.post(CONFIG_MAPS, config_map(name, app=app))
    for selected, limit, continued in (("x", 2, True), ("x", 3, False), ("y", 1, False)):
        page = await api.get(f"{CONFIG_MAPS}?labelSelector=app%3D{selected}&limit={limit}")
        assert ("continue" in page["metadata"]) is continued
    token = (await api.get(f"{CONFIG_MAPS}?labelSelector=app%3Dx&limit=2"))["metadata"]["continue"]
    last = await api.get(f"{CONFIG_MAPS}?labelSelector=app%3Dx&limit=2&continue={token}")
    assert (names(last), "continue" in last["metadata"]) == ([], False)


async def test_exact_match_shows_the_state_of_then(api: Api) -> None:
    await make(api, "a", "b")
    then = (await api.get(CONFIG_MAPS))["metadata"]["resourceVersion"]
    await api.delete(f"{CONFIG_MAPS}/a")
    answer = await api.get(f"{CONFIG_MAPS}?resourceVersion={then}&resourceVersionMatch=Exact")
    assert names(answer) == ["a", "b"]
    assert answer["metadata"]["resourceVersion"] == then


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        pytest.param("resourceVersion=abc", 400, 'Invalid value: "abc"', id="no-number"),
        pytest.param("resourceVersionMatch=Exact", 422, "forbidden unless resourceVersion is", id="match-alone"),
        pytest.param("resourceVersion=0&resourceVersionMatch=Exact", 422, "Forbidden", id="exact-zero"),
        pytest.param("resourceVersion=1&resourceVersionMatch=Foo", 422, "Unsupported value", id="unknown-match"),
        pytest.param("continue=x&resourceVersionMatch=Exact&resourceVersion=1", 422, "Forbidden", id="match-continue"),
        pytest.param("continue=x", 400, "invalid continue token", id="garbage-token"),
        pytest.param("continue=x&resourceVersion=3", 400, "invalid continue token", id="continue-version"),
        pytest.param("sendInitialEvents=true", 422, "sendInitialEvents", id="initial-events"),
        pytest.param("limit=x", 400, "strconv.ParseInt", id="limit"),
        pytest.param("labelSelector=a+in+(b", 400, "found '', expected: ',' or ')'", id="labels"),
        pytest.param("labelSelector=-bad", 400, 'Invalid value: "-bad"', id="label-key"),
        pytest.param("fieldSelector=metadata.name", 400, "can't understand 'metadata.name'", id="fields"),
        pytest.param("fieldSelector=data.a%3D1", 400, '"data.a" is not a known field selector', id="unknown-field"),
    ],
)  # fmt: skip
async def test_nonsense_in_the_query_is_refused(api: Api, query: str, code: int, message: str) -> None:
    reply = await api.call("GET", f"{CONFIG_MAPS}?{query}")
    assert reply.status == code
    assert message in reply.body["message"]


async def test_future_version_is_waited_for_then_refused(api: Api, kcr_clock: Any) -> None:
    before = kcr_clock.now()
    reply = await api.call("GET", f"{CONFIG_MAPS}?resourceVersion=9999")
    assert (kcr_clock.now() - before).total_seconds() == 3
    assert (reply.status, reply.body["reason"]) == (504, "Timeout")
    assert reply.body["details"]["causes"] == [
        {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    ]
    assert reply.headers["Retry-After"] == "1"


async def test_request_ends_when_its_time_is_up(api: Api, kcr_clock: Any) -> None:
    # AS 1.5
    before = kcr_clock.now()
    reply = await api.call("GET", f"{CONFIG_MAPS}?resourceVersion=9999&timeout=1s500ms")
    assert (kcr_clock.now() - before).total_seconds() == 1.5
    assert (reply.status, reply.body["reason"]) == (504, "Timeout")
    assert reply.body["message"] == "Timeout: request did not complete within the allotted timeout"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        pytest.param(f"{CONFIG_MAPS}?timeout=banana", 'invalid duration "banana"', id="read"),
        pytest.param("/version?timeout=5", 'missing unit in duration "5"', id="document"),
    ],
)
async def test_timeout_that_is_no_duration_is_refused(api: Api, path: str, why: str) -> None:
    reply = await api.call("GET", path)
    message = f"invalid timeout specified in the request URL - time: {why}"
    assert (reply.status, reply.body["message"]) == (400, message)


async def test_watch_does_not_heed_the_timeout(api: Api, kcr_clock: Any) -> None:
    events = await api.watch(f"{CONFIG_MAPS}?timeout=1s&timeoutSeconds=7&")
    before = kcr_clock.now()
    with pytest.raises(StopAsyncIteration):
        await events.next()
    assert (kcr_clock.now() - before).total_seconds() == 7


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param("app=x", ["a"], id="equal"),
        pytest.param("app!=x", ["b", "c"], id="unequal-matches-absent"),
        pytest.param("app+in+(x,y)", ["a", "b"], id="in"),
        pytest.param("app+notin+(x)", ["b", "c"], id="notin-matches-absent"),
        pytest.param("app", ["a", "b"], id="exists"),
        pytest.param("!app", ["c"], id="exists-not"),
        pytest.param("app,tier=1", ["a"], id="all-terms"),
    ],
)
async def test_label_selectors_select(api: Api, selector: str, expected: list[str]) -> None:
    await api.post(CONFIG_MAPS, config_map("a", app="x", tier="1"))
    await api.post(CONFIG_MAPS, config_map("b", app="y"))
    await api.post(CONFIG_MAPS, config_map("c"))
    assert names(await api.get(f"{CONFIG_MAPS}?labelSelector={selector}")) == expected


async def test_pods_are_selected_by_phase_and_node(api: Api) -> None:
    for name in "ab":
        await api.post(PODS, pod(name))
    await api.post(f"{PODS}/a/binding", pod_binding("a"))
    await api.patch(f"{PODS}/b/status", {"status": {"phase": "Failed"}})
    assert names(await api.get(f"{PODS}?fieldSelector=spec.nodeName%3Dn1")) == ["a"]
    assert names(await api.get(f"{PODS}?fieldSelector=spec.nodeName%21%3Dn1")) == ["b"]
    assert names(await api.get(f"{PODS}?fieldSelector=status.phase!=Failed,metadata.name=a")) == ["a"]
    reply = await api.call("GET", f"{PODS}?fieldSelector=spec.foo%3D1")
    assert reply.body["message"] == "field label not supported: spec.foo"


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        pytest.param("spec.type=NodePort", ["b"], id="type"),
        pytest.param("spec.type!=NodePort", ["a"], id="other-type"),
        pytest.param("spec.clusterIP=10.96.1.1", ["a"], id="address"),
    ],
)
async def test_services_are_selected_by_type_and_address(api: Api, selector: str, found: list[str]) -> None:
    """Source: kubernetes/pkg/apis/core/v1/conversion.go, addFieldLabelConversionsForService."""
    for name, kind in (("a", "ClusterIP"), ("b", "NodePort")):
        await api.post(SERVICES, {"metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 80}]}})
    assert names(await api.get(f"{SERVICES}?fieldSelector={selector}")) == found
    reply = await api.call("GET", f"{SERVICES}?fieldSelector=spec.foo=1")
    assert (reply.status, reply.body["message"]) == (400, "field label not supported: spec.foo")


async def test_controllers_are_selected_by_replicas_and_no_pod_by_its_addresses(api: Api) -> None:
    """Source: kubernetes/pkg/apis/core/v1/conversion.go; pkg/registry/core/pod/strategy.go, ToSelectableFields."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"] | {"restartPolicy": "Always"}}
    place = "/api/v1/namespaces/default/replicationcontrollers"
    await api.post(place, {"metadata": {"name": "rc"}, "spec": {"template": template}})
    assert names(await api.get(f"{place}?fieldSelector=status.replicas=0")) == ["rc"]
    assert names(await api.get(f"{place}?fieldSelector=status.replicas=1")) == []
    await api.post(PODS, pod("a"))
    await api.patch(f"{PODS}/a/status", {"status": {"podIPs": [{"ip": "1.2.3.4"}]}})
    assert names(await api.get(f"{PODS}?fieldSelector=status.podIPs=1.2.3.4")) == []


async def test_jobs_are_selected_by_successes_alone(api: Api) -> None:
    await api.post(JOBS, job("a"))
    assert names(await api.get(f"{JOBS}?fieldSelector=status.successful%3D0")) == ["a"]
    assert names(await api.get(f"{JOBS}?fieldSelector=status.successful%3D1")) == []
    reply = await api.call("GET", f"{JOBS}?fieldSelector=spec.x%3D1")
    assert reply.body["message"] == 'field label "spec.x" not supported for Job'


async def test_absent_object_is_not_found(api: Api) -> None:
    reply = await api.call("GET", f"{JOBS}/none")
    assert reply.status == 404
    assert reply.body == {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": 'jobs.batch "none" not found', "reason": "NotFound",
        "details": {"name": "none", "group": "batch", "kind": "jobs"}, "code": 404,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("target", "status", "said"),
    [
        pytest.param("/api/v1//pods", 404, "Status", id="double-slash"),
        pytest.param("/apis/nope", 404, b"404 page not found\n", id="unknown-group"),
        pytest.param("/apis/nope/v1/things", 404, b"404 page not found\n", id="resource-of-unknown-group"),
        pytest.param("/apis/batch/v7/jobs", 404, "Status", id="unknown-version"),
        pytest.param("/api/v1/things", 404, "Status", id="unknown-resource"),
        pytest.param("/api/v1/pods/x", 404, "Status", id="pod-without-namespace"),
        pytest.param("/api/v1/namespaces/default/nodes", 404, "Status", id="node-in-namespace"),
        pytest.param(f"{JOBS}/x/scale", 404, "Status", id="jobs-have-no-scale"),
        pytest.param(f"{JOBS}/", 200, "JobList", id="trailing-slash"),
    ],
)
async def test_paths_lead_where_upstreams_do(api: Api, target: str, status: int, said: object) -> None:
    reply = await api.call("GET", target)
    assert reply.status == status
    assert (reply.body if isinstance(reply.body, bytes) else reply.body["kind"]) == said


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("PUT", CONFIG_MAPS), ("POST", f"{CONFIG_MAPS}/x"), ("POST", "/api/v1/configmaps"),
        ("DELETE", "/api/v1/configmaps"), ("DELETE", "/api/v1/namespaces"), ("PUT", f"{PODS}/x/log"),
    ],
)  # fmt: skip
async def test_method_the_path_lacks_is_not_allowed(api: Api, method: str, target: str) -> None:
    reply = await api.call(method, target)
    assert (reply.status, reply.body["reason"], reply.body["details"]) == (405, "MethodNotAllowed", {})


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        pytest.param("", "JobList", id="none"),
        pytest.param("*/*", "JobList", id="anything"),
        pytest.param("application/vnd.kubernetes.protobuf,application/json", "JobList", id="protobuf-first"),
        pytest.param("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "Table", id="table"),
        pytest.param("application/json;as=Pie;v=v1;g=meta.k8s.io,application/json", "JobList", id="unknown-form"),
        pytest.param(
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            "PartialObjectMetadataList",
            id="partial",
        ),
    ],
)
async def test_accept_header_chooses_the_form(api: Api, accept: str, kind: str) -> None:
    reply = await api.call("GET", JOBS, accept=accept)
    assert (reply.status, reply.body["kind"]) == (200, kind)
    assert reply.headers["Content-Type"] == "application/json"
