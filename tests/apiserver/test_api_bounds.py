"""What no client can do to the server: values of the wrong type, too deep, or far larger than the request.

Source: Go's encoding/json; kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go, applyJSPatch;
evanphx/json-patch, AccumulatedCopySizeLimit; apimachinery/pkg/api/resource/quantity.go.
"""

from time import process_time
from typing import Any

import pytest

from tests.kit.api import Api, config_map, job, pod, pod_binding
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, definition, version
from tests.kit.protobuf import PROTOBUF

pytestmark = pytest.mark.kcr_virtual
ROOT = "/api/v1/namespaces/default"
SERVICE = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}
CONFIG_MAPS, PODS, SERVICES = f"{ROOT}/configmaps", f"{ROOT}/pods", f"{ROOT}/services"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"


@pytest.mark.parametrize(
    ("method", "target", "body", "message"),
    [
        ("PUT", f"{PODS}/a", {"metadata": "x"}, "string into Go struct field Pod.metadata of type v1.ObjectMeta"),
        ("PUT", f"{PODS}/a", {"metadata": []}, "array into Go struct field Pod.metadata of type v1.ObjectMeta"),
        ("PUT", f"{PODS}/a/status", {"metadata": 1}, "number into Go struct field Pod.metadata of type v1.ObjectMeta"),
        ("PUT", f"{PODS}/a", {"metadata": {"name": "a"}, "spec": "x"}, "Pod.spec of type v1.PodSpec"),
        ("PUT", f"{SERVICES}/a", {"metadata": {"name": "a"}, "spec": []}, "Service.spec of type v1.ServiceSpec"),
        ("POST", JOBS, {"metadata": {"name": "a"}, "spec": 1}, "Job.spec of type v1.JobSpec"),
        ("POST", f"{PODS}/a/eviction", {"metadata": "x"}, "Eviction.metadata of type v1.ObjectMeta"),
        ("POST", f"{PODS}/a/eviction", {"metadata": {"name": "a"}, "deleteOptions": 1}, "Eviction.deleteOptions of"),
        ("POST", f"{PODS}/a/binding", {"target": "x"}, "Binding.target of type v1.ObjectReference"),
        ("POST", f"{PODS}/a/binding", {"metadata": [], "target": {"name": "n"}}, "Binding.metadata of"),
        ("PUT", f"{ROOT}/finalize", {"metadata": {"name": "default"}, "spec": "x"}, "Namespace.spec of"),
        ("DELETE", f"{PODS}/a", {"preconditions": "x"}, "DeleteOptions.preconditions"),
        ("DELETE", f"{PODS}/a", {"gracePeriodSeconds": "1"}, "DeleteOptions.gracePeriodSeconds of type int64"),
        ("POST", REVIEWS, {"spec": "x"}, "string into Go struct field SelfSubjectAccessReview.spec"),
        ("POST", CONFIG_MAPS, {"kind": 5}, "number into Go struct field .kind of type string"),
        ("POST", CONFIG_MAPS, "text", "string into Go value of type struct"),
    ],
)  # fmt: skip
async def test_value_of_the_wrong_type_is_a_bad_request(
    api: Api, method: str, target: str, body: Any, message: str
) -> None:
    await api.post(PODS, pod("a"))
    await api.post(SERVICES, SERVICE)
    reply = await api.call(method, target, body)
    assert (reply.status, reply.body["reason"]) == (400, "BadRequest")
    assert "json: cannot unmarshal" in reply.body["message"]
    assert message in reply.body["message"]


def deep(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


@pytest.mark.parametrize("levels", [10_001, 1_000_000])
@pytest.mark.parametrize(
    ("method", "target", "before", "after", "form"),
    [
        pytest.param("POST", SERVICES, b'{"metadata":{"name":"b"},"spec":{"x":', b"}}", "", id="object"),
        pytest.param("POST", PODS, b'{"metadata":{"name":"b","managedFields":', b"}}", "", id="dropped"),
        pytest.param("PUT", f"{SERVICES}/a", b'{"metadata":{"name":"a"},"spec":{"x":', b"}}", "", id="put"),
        pytest.param("PATCH", f"{SERVICES}/a", b'{"spec":{"x":', b"}}", MERGE_PATCH, id="merge-patch"),
        pytest.param(
            "PATCH", f"{SERVICES}/a", b'{"spec":{"x":', b"}}", "application/strategic-merge-patch+json", id="strategic"
        ),
        pytest.param(
            "PATCH", f"{SERVICES}/a", b'[{"op":"add","path":"/spec","value":', b"}]", JSON_PATCH, id="json-patch"
        ),
        pytest.param("DELETE", f"{SERVICES}/a", b'{"x":', b"}", "", id="options"),
        pytest.param("POST", REVIEWS, b'{"spec":', b"}", "", id="review"),
        pytest.param("POST", SERVICES, b"", b"", "application/yaml", id="yaml"),
        pytest.param("POST", SERVICES, b"- " * 100_000, b"", "application/yaml", id="yaml-blocks"),
    ],
)
async def test_body_that_is_too_deep_is_a_bad_request(
    api: Api, levels: int, method: str, target: str, before: bytes, after: bytes, form: str
) -> None:
    await api.post(SERVICES, SERVICE)
    reply = await api.call(method, target, before + deep(levels) + after, content_type=form)
    assert (reply.status, reply.body["reason"]) == (400, "BadRequest")
    assert "exceeded max depth" in reply.body["message"]


DEEP_VALUES = {"lists": deep(9_990), "objects": b'{"a":' * 9_990 + b"1" + b"}" * 9_990}


@pytest.mark.parametrize("value", DEEP_VALUES.values(), ids=DEEP_VALUES)
async def test_unknown_fields_may_be_nested_ten_thousand_deep(api: Api, value: bytes) -> None:
    config = b'{"metadata":{"name":"a","labels":{"l":"1"},"odd":' + value + b'},"data":{"k":"v"},"more":' + value + b"}"
    made = await api.call("POST", CONFIG_MAPS, config)
    assert (made.status, made.body["data"], made.body["metadata"]["labels"]) == (201, {"k": "v"}, {"l": "1"})
    assert made.headers["Warning"] == '299 - "unknown field \\"metadata.odd\\"", 299 - "unknown field \\"more\\""'
    strict = await api.call("PUT", f"{CONFIG_MAPS}/a?fieldValidation=Strict", config)
    assert (strict.status, "unknown field" in strict.body["message"]) == (400, True)
    patch = b'{"data":{"k":"w"},"more":' + value + b"}"
    changed = await api.call("PATCH", f"{CONFIG_MAPS}/a", patch, content_type=MERGE_PATCH)
    assert (changed.status, changed.body["data"]) == (200, {"k": "w"})
    inner = b'{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","x]":' + value + b"}]}}"
    assert (await api.call("POST", PODS, inner)).status == 201


async def test_custom_resource_loses_deep_fields_that_it_does_not_keep(api: Api) -> None:
    keeps = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"kept": keeps}}}}
    await api.post(DEFINITIONS, definition(version("v1", schema)))
    begin = b'{"apiVersion":"ex.io/v1","kind":"Widget","metadata":{"name":"w"},"spec":{'
    made = await api.call("POST", WIDGETS, begin + b'"kept":{"a":[[1]]},"other":' + deep(5_000) + b"}}")
    assert (made.status, made.body["spec"]) == (201, {"kept": {"a": [[1]]}})
    kept = await api.call("POST", WIDGETS, begin + b'"kept":{"a":' + deep(5_000) + b"}}}")
    assert (kept.status, "exceeded max depth" in kept.body["message"]) == (400, True)


async def test_deep_object_is_stored_shown_and_deleted(api: Api) -> None:
    body = b'{"metadata":{"name":"a"},"spec":{"ports":[{"port":80}],"x":' + deep(150) + b"}}"
    assert (await api.call("POST", SERVICES, body)).status == 201
    for accept in ("application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"):
        await api.get(SERVICES, accept=accept)
    await api.delete(f"{SERVICES}/a")


@pytest.mark.parametrize(
    ("body", "form", "message"),
    [
        pytest.param(b'{"a" 1}', "", "invalid character '1' after object key", id="colon"),
        pytest.param(b'{"a":1,}', "", "invalid character '}' looking for beginning of object key string", id="comma"),
        pytest.param(b"[1 2]", "", "invalid character '2' after array element", id="array"),
        pytest.param(b"{} x", "", "invalid character 'x' after top-level value", id="trailing"),
        pytest.param(b"{", "", "unexpected end of JSON input", id="cut"),
        pytest.param(b"", "", "unexpected end of JSON input", id="nothing"),
        pytest.param(b"hope", "", "invalid character 'h' looking for beginning of value", id="word"),
        pytest.param(
            b'{"metadata": {"generation": 1e999}}',
            "",
            "cannot unmarshal number 1e999 into Go struct field ObjectMeta.metadata.generation of type int64",
            id="number",
        ),
        pytest.param(b"a: [", "application/yaml", "yaml: line 1: did not find expected node content", id="yaml"),
        pytest.param(b"a: !!int x", "application/yaml", "yaml: cannot decode !!str `x` as a !!int", id="tag"),
        pytest.param(b"k8s\x00\xff", PROTOBUF, "unexpected EOF", id="protobuf"),
    ],
)
async def test_error_of_a_decoder_is_in_words_of_the_server(api: Api, body: bytes, form: str, message: str) -> None:
    reply = await api.call("POST", CONFIG_MAPS, body, content_type=form)
    assert (reply.status, reply.body["reason"]) == (400, "BadRequest")
    assert message in reply.body["message"]


async def test_bytes_that_are_no_text_become_the_replacement_character(api: Api) -> None:
    body = b'{"metadata":{"name":"a"},"data":{"x":"\xff"}}'
    assert (await api.call("POST", CONFIG_MAPS, body)).body["data"] == {"x": "\ufffd"}
    assert (await api.call("GET", "/api/v1/namespaces/default/configmaps/\udcff")).status == 404
    reply = await api.call("POST", CONFIG_MAPS, b'metadata: {name: "\\ud800"}', content_type="application/yaml")
    assert (reply.status, "found invalid Unicode character escape code" in reply.body["message"]) == (400, True)


def doubling(times: int) -> list[Any]:
    return [{"op": "add", "path": "/data", "value": {"a": "x" * 500}}] + [
        {"op": "copy", "from": "/data", "path": f"/data/{number}"} for number in range(times)
    ]


def laughs(levels: int, width: int) -> bytes:
    lines = [f"l0: &l0 [{','.join(['x'] * width)}]"]
    lines += [f"l{one}: &l{one} [{','.join([f'*l{one - 1}'] * width)}]" for one in range(1, levels)]
    return "\n".join(lines).encode()


def merges(levels: int, width: int) -> bytes:
    lines = ["l0: &l0 {a: 1, b: 2}"]
    lines += [f"l{one}: &l{one} {{<<: [{','.join([f'*l{one - 1}'] * width)}]}}" for one in range(1, levels)]
    return "\n".join(lines).encode()


LONG = b"a: &a '" + b"x" * 500 + b"'\nb: &b [" + b",".join([b"*a"] * 100) + b"]\nc: ["


@pytest.mark.parametrize(
    ("method", "target", "body", "form", "code"),
    [
        pytest.param("PATCH", f"{CONFIG_MAPS}/a", doubling(40), JSON_PATCH, 422, id="doubling-copies"),
        pytest.param(
            "PATCH", f"{CONFIG_MAPS}/a",
            [{"op": "add", "path": "/x", "value": ["x"]}] + [{"op": "copy", "from": "/x", "path": "/x/-"}] * 40,
            JSON_PATCH, 422, id="nesting-copies",
        ),
        pytest.param("PATCH", f"{CONFIG_MAPS}/a", [{"op": "test"}] * 10_001, JSON_PATCH, 413, id="operations"),
        pytest.param("POST", CONFIG_MAPS, laughs(12, 9), "application/yaml", 400, id="aliases"),
        pytest.param("POST", CONFIG_MAPS, merges(12, 9), "application/yaml", 400, id="merge-keys"),
        pytest.param("POST", CONFIG_MAPS, LONG + b"*b," * 100 + b"]", "application/yaml", 400, id="long-aliases"),
        pytest.param("POST", CONFIG_MAPS, b"a: &a [*a]", "application/yaml", 400, id="circle"),
        pytest.param("POST", CONFIG_MAPS, b"a: " + b"9" * 100_000 + b"{", "application/yaml", 422, id="digits"),
    ],
)  # fmt: skip
async def test_small_request_cannot_become_large(
    api: Api, method: str, target: str, body: Any, form: str, code: int
) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    began = process_time()
    reply = await api.call(method, target, body, content_type=form)
    assert reply.status == code, reply.body
    # Of its own CPU, which other processes do not lengthen: a tenth of a second as a rule, minutes without the bounds.
    assert process_time() - began < 3


async def test_copies_within_the_limit_are_made(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    copies = [{"op": "copy", "from": "/data/a", "path": f"/data/{number}"} for number in range(1_000)]
    reply = await api.call("PATCH", f"{CONFIG_MAPS}/a", copies, content_type=JSON_PATCH)
    assert (reply.status, len(reply.body["data"])) == (200, 1_001)


async def test_aliases_within_reason_are_followed(api: Api) -> None:
    text = b"metadata: {name: a, labels: &labels {app: x}}\ndata: {<<: *labels, b: z}\n"
    reply = await api.call("POST", CONFIG_MAPS, text, content_type="application/yaml")
    assert (reply.status, reply.body["data"]) == (201, {"app": "x", "b": "z"})


@pytest.mark.parametrize(
    ("text", "stored"),
    [("1e99999999", "1e99999999"), ("1e-99999999", "1e-3"), ("8Ei", "9223372036854775807")],
)
async def test_amount_out_of_range_is_kept_or_cut_to_it(api: Api, text: str, stored: str) -> None:
    quota = {"metadata": {"name": "a"}, "spec": {"hard": {"cpu": text}}}
    assert (await api.post(f"{ROOT}/resourcequotas", quota))["spec"]["hard"] == {"cpu": stored}


@pytest.mark.parametrize(
    "query", [f"limit={2**63}", f"resourceVersion={'9' * 5000}", f"timeout={'9' * 400}h", f"limit={'9' * 5000}"]
)
async def test_number_out_of_range_is_a_bad_request(api: Api, query: str) -> None:
    reply = await api.call("GET", f"{PODS}?{query}")
    assert (reply.status, reply.body["reason"]) == (400, "BadRequest")


async def test_grace_of_a_million_years_is_granted(api: Api) -> None:
    await api.post(PODS, pod("a"))
    await api.post(f"{PODS}/a/binding", pod_binding("a", "n"))
    assert (await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 2**62}))["metadata"]["deletionGracePeriodSeconds"]
    assert (await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 5}))["metadata"]["deletionGracePeriodSeconds"] == 5


NULLS = ("labels", "annotations", "finalizers", "ownerReferences", "uid", "generateName", "managedFields", "namespace",
         "creationTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "generation", "selfLink")  # fmt: skip


@pytest.mark.parametrize("member", NULLS)
async def test_null_in_metadata_is_absent(api: Api, member: str) -> None:
    made = await api.post(f"{CONFIG_MAPS}?fieldValidation=Strict", {"metadata": {"name": "a", member: None}})
    assert made["metadata"].get(member, "") is not None
    put = {"metadata": {"name": "a", member: None}, "data": {"a": "1"}}
    assert (await api.put(f"{CONFIG_MAPS}/a", put))["data"] == {"a": "1"}
    operation = [{"op": "add", "path": f"/metadata/{member}", "value": None}]
    await api.patch(f"{CONFIG_MAPS}/a", operation, "json-patch")


async def test_null_inside_metadata_is_the_zero_value(api: Api) -> None:
    body = {"metadata": {"name": "a", "labels": {"app": None}, "annotations": {"b": None}}, "data": {"c": None}}
    made = await api.post(CONFIG_MAPS, body)
    assert (made["metadata"]["labels"], made["metadata"]["annotations"]) == ({"app": ""}, {"b": ""})
    assert made["data"] == {"c": ""}
    for member, value in (("finalizers", [None]), ("ownerReferences", [None]), ("ownerReferences", [{"uid": None}])):
        reply = await api.call("POST", CONFIG_MAPS, {"metadata": {"name": "b", member: value}})
        assert (reply.status, reply.body["reason"]) == (422, "Invalid")


async def test_null_in_a_spec_is_absent(api: Api) -> None:
    body = job("a")
    body["spec"] |= {"parallelism": None, "suspend": None, "selector": None, "podFailurePolicy": None}
    body["spec"]["template"] |= {"metadata": None}
    body["spec"]["template"]["spec"] |= {"volumes": None, "nodeSelector": None, "initContainers": None}
    made = await api.post(f"{JOBS}?fieldValidation=Strict", body)
    assert (made["spec"]["parallelism"], made["spec"]["suspend"]) == (1, False)
    spec = {"clusterIP": None, "selector": {"a": None}, "ports": [{"port": 80, "name": None}]}
    service = {"metadata": None, "spec": spec, "status": None}
    made = await api.post(SERVICES, service | {"metadata": {"name": "a"}})
    # In a map, null is the zero value of what the map holds.
    assert (made["spec"]["selector"], made["spec"]["ports"], made["status"]) == (
        {"a": ""}, [{"port": 80, "protocol": "TCP", "targetPort": 80}], {"loadBalancer": {}},
    )  # fmt: skip


async def test_template_with_empty_yaml_members_is_taken(api: Api) -> None:
    text = b"metadata:\n  name: a\n  labels:\n  annotations:\ndata:\nimmutable:\n"
    reply = await api.call("POST", CONFIG_MAPS, text, content_type="application/yaml")
    assert (reply.status, "labels" in reply.body["metadata"], "data" in reply.body) == (201, False, False)


async def test_label_of_the_wrong_type_is_named_by_go(api: Api) -> None:
    for labels, message in (
        ("x", "string into Go struct field ObjectMeta.metadata.labels of type map[string]string"),
        ({"a": 1}, "number into Go struct field ObjectMeta.metadata.labels of type string"),
    ):
        reply = await api.call("POST", CONFIG_MAPS, {"metadata": {"name": "a", "labels": labels}})
        assert reply.body["message"] == (
            f'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal {message}'
        )
