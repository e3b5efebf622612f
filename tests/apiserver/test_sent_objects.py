"""Envelopes of what is sent to subresources: Bindings, Evictions, Scales, TokenRequests, and namespaces to finalize.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/{create,update}.go;
pkg/registry/core/pod/storage/{storage,eviction}.go; pkg/registry/core/serviceaccount/storage/token.go;
pkg/apis/core/validation/validation.go, ValidateNamespaceFinalizeUpdate.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.kit.api import Api, pod, pod_binding
from tests.kit.workloads import deployment

pytestmark = pytest.mark.kcr_virtual
DEFAULT = "/api/v1/namespaces/default"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
# Method, target, apiVersion, kind, and a valid body without those two.
SENT: Mapping[str, tuple[str, str, str, str, Mapping[str, Any]]] = {
    "binding": ("POST", f"{DEFAULT}/pods/pa/binding", "v1", "Binding", pod_binding("pa")),
    "eviction": ("POST", f"{DEFAULT}/pods/pa/eviction", "policy/v1", "Eviction", {"metadata": {"name": "pa"}}),
    "scale": (
        "PUT", f"{DEPLOYMENTS}/web/scale", "autoscaling/v1", "Scale",
        {"metadata": {"name": "web"}, "spec": {"replicas": 2}},
    ),
    "token": (
        "POST", f"{DEFAULT}/serviceaccounts/ann/token", "authentication.k8s.io/v1", "TokenRequest",
        {"metadata": {"name": "ann"}, "spec": {"expirationSeconds": 600}},
    ),
    "finalize": (
        "PUT", "/api/v1/namespaces/nsx/finalize", "v1", "Namespace",
        {"metadata": {"name": "nsx"}, "spec": {"finalizers": ["a.io/b"]}},
    ),
}  # fmt: skip
MISMATCH = "the namespace of the provided object does not match the namespace sent on the request"


async def send(api: Api, of: str, query: str = "", **members: Any) -> Any:
    """Send an object to a subresource; metadata are added to its own, other members replace them."""
    await api.post(f"{DEFAULT}/pods", pod("pa"))
    await api.post(f"{DEFAULT}/serviceaccounts", {"metadata": {"name": "ann"}})
    await api.post(DEPLOYMENTS, deployment())
    await api.post("/api/v1/namespaces", {"metadata": {"name": "nsx"}})
    method, target, api_version, kind, body = SENT[of]
    metadata = {**body["metadata"], **members.pop("metadata", {})}
    sent = {"apiVersion": api_version, "kind": kind, **body, "metadata": metadata, **members}
    return await api.call(method, target + query, sent)


@pytest.mark.parametrize("of", SENT)
async def test_valid_object_is_taken_with_and_without_its_type(api: Api, of: str) -> None:
    dry = await send(api, of, "?dryRun=All" if of != "token" else "")
    method, target, *_, body = SENT[of]
    assert (dry.status, (await api.call(method, target, body)).status) in ((200, 200), (201, 201))


@pytest.mark.parametrize("of", SENT)
@pytest.mark.parametrize(
    ("members", "words"),
    [
        pytest.param({"kind": "Foo"}, 'cannot be handled as a {kind}: no kind "Foo" is registered', id="kind"),
        pytest.param({"apiVersion": "v7"}, 'no kind "{kind}" is registered for version "v7"', id="version"),
        pytest.param(
            {"kind": 7}, "json: cannot unmarshal number into Go struct field .kind of type string", id="number"
        ),
    ],
)
async def test_object_of_another_type_is_refused(api: Api, of: str, members: dict[str, Any], words: str) -> None:
    reply = await send(api, of, **members)
    assert (reply.status, reply.body["reason"]) == (400, "BadRequest")
    assert words.format(kind=SENT[of][3]) in reply.body["message"]


@pytest.mark.parametrize("of", [one for one in SENT if one != "finalize"])
async def test_object_of_another_namespace_is_refused(api: Api, of: str) -> None:
    reply = await send(api, of, metadata={"namespace": "kube-system"})
    assert (reply.status, reply.body["message"]) == (400, MISMATCH)


@pytest.mark.parametrize(
    ("of", "code", "words"),
    [
        pytest.param("binding", 400, "name in URL does not match name in Binding object", id="binding"),
        pytest.param("eviction", 400, "name in URL does not match name in Eviction object", id="eviction"),
        pytest.param("scale", 400, "the name of the object (x) does not match the name on the URL (web)", id="scale"),
        pytest.param("finalize", 400, "the name of the object (x) does not match the name on the URL (nsx)", id="put"),
        pytest.param(
            "token", 422,
            'TokenRequest.authentication.k8s.io "ann" is invalid: metadata.name: Invalid value: "x": must match the '
            "service account name if specified", id="token",
        ),
    ],
)  # fmt: skip
async def test_object_of_another_name_is_refused(api: Api, of: str, code: int, words: str) -> None:
    reply = await send(api, of, metadata={"name": "x"})
    assert (reply.status, reply.body["message"]) == (code, words)


async def test_binding_without_a_name_is_refused(api: Api) -> None:
    reply = await send(api, "binding", metadata={"name": ""})
    assert (reply.status, reply.body["message"]) == (400, "name in URL does not match name in Binding object")


@pytest.mark.parametrize("of", SENT)
async def test_unknown_fields_are_warned_of_or_refused(api: Api, of: str) -> None:
    strict = await send(api, of, "?fieldValidation=Strict", foo=1)
    assert (strict.status, strict.body["message"].rpartition("error: ")[2]) == (400, 'unknown field "foo"')
    method, target, *_, body = SENT[of]
    warned = await api.call(method, target, {**body, "foo": 1})
    assert warned.status < 300
    assert 'unknown field \\"foo\\"' in warned.headers["Warning"]


async def test_unknown_fields_of_a_patched_scale_are_warned_of(api: Api) -> None:
    await api.post(DEPLOYMENTS, deployment())
    body = {"spec": {"replicas": 2, "foo": 1}}
    reply = await api.call("PATCH", f"{DEPLOYMENTS}/web/scale", body, content_type="application/merge-patch+json")
    assert (reply.status, reply.body["spec"]) == (200, {"replicas": 2})
    assert 'unknown field \\"spec.foo\\"' in reply.headers["Warning"]


async def test_binding_made_from_another_version_is_refused(api: Api) -> None:
    reply = await send(api, "binding", metadata={"resourceVersion": "1"})
    assert (reply.status, reply.body["reason"]) == (409, "Conflict")


async def test_finalize_writes_metadata_as_any_update(api: Api) -> None:
    await send(api, "finalize", metadata={"labels": {"a": "b"}})
    found = await api.get("/api/v1/namespaces/nsx")
    assert (found["metadata"]["labels"]["a"], found["spec"]) == ("b", {"finalizers": ["a.io/b"]})


@pytest.mark.parametrize(
    ("members", "code", "words"),
    [
        pytest.param({"metadata": {"resourceVersion": "1"}}, 409, "the object has been modified", id="stale"),
        pytest.param({"metadata": {"labels": {"-": ""}}}, 422, "metadata.labels: Invalid value", id="metadata"),
        pytest.param(
            {"spec": {"finalizers": ["x"]}}, 422,
            'spec.finalizers[0]: Invalid value: "x": name is neither a standard finalizer name nor is it fully',
            id="finalizer",
        ),
    ],
)  # fmt: skip
async def test_finalize_is_validated_as_an_update(api: Api, members: dict[str, Any], code: int, words: str) -> None:
    reply = await send(api, "finalize", **members)
    assert reply.status == code
    assert words in reply.body["message"]
