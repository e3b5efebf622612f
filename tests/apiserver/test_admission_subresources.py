"""Reviews of subresources, of connections, and of writes that create or update by other methods than POST.

Source: kubernetes/test/integration/apiserver/admissionwebhook/admission_test.go, testSubresourceUpdate,
testPodsBinding, testPodEviction, testPodConnectSubresource, testServiceAccountToken.
"""

from typing import Any

import pytest

from tests.kit.api import Api, pod, pod_binding
from tests.kit.webhooks import Webhooks, denied, json_patch

pytestmark = pytest.mark.kcr_virtual
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
APPLY = "application/apply-patch+yaml"
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web"}]}}
DEPLOYMENT = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
    "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
}  # fmt: skip


def rule(resource: str, *operations: str) -> dict[str, Any]:
    return {
        "operations": list(operations) or ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": [resource],
    }  # fmt: skip


def shown(request: dict[str, Any]) -> tuple[Any, ...]:
    """Return operation, resource, kind, name, and the kinds of objects and options of a review."""
    kinds = [(request[name] or {}).get("kind") for name in ("object", "oldObject", "options")]
    resource = "/".join(filter(None, (request["resource"]["resource"], request.get("subResource"))))
    kind = "/".join(filter(None, request["kind"].values()))
    return request["operation"], resource, kind, request.get("name"), *kinds


async def test_status_is_reviewed_as_an_update(api: Api, webhooks: Webhooks) -> None:
    await api.post(PODS, pod("pa"))
    phase = json_patch({"op": "add", "path": "/status/message", "value": "seen"})
    await webhooks.add("Mutating", "one", lambda request: phase, rules=[rule("pods/status")])
    await api.patch(f"{PODS}/pa/status", {"status": {"phase": "Running"}})
    (request,) = webhooks.requests["one"]
    assert shown(request) == ("UPDATE", "pods/status", "v1/Pod", "pa", "Pod", "Pod", "UpdateOptions")
    assert (await api.get(f"{PODS}/pa"))["status"]["message"] == "seen"


@pytest.mark.parametrize("method", ["PUT", "PATCH", "apply"])
async def test_scale_is_reviewed_as_a_scale(api: Api, webhooks: Webhooks, method: str) -> None:
    await api.post(DEPLOYMENTS, DEPLOYMENT)
    five = json_patch({"op": "replace", "path": "/spec/replicas", "value": 5})
    await webhooks.add("Mutating", "one", lambda request: five, rules=[rule("deployments/scale")])
    await webhooks.add("Validating", "two", rules=[rule("deployments/*")])
    scale = {
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 3},
    }  # fmt: skip
    path = f"{DEPLOYMENTS}/web/scale"
    match method:
        case "PUT":
            made = await api.put(path, scale)
        case "PATCH":
            made = await api.patch(path, {"spec": {"replicas": 3}})
        case _:
            reply = await api.call("PATCH", f"{path}?fieldManager=me&force=true", scale, content_type=APPLY)
            assert reply.status == 200, reply.body
            made = reply.body
    assert made["spec"]["replicas"] == 5
    assert (await api.get(f"{DEPLOYMENTS}/web"))["spec"]["replicas"] == 5
    (first,), (second,) = webhooks.requests["one"], webhooks.requests["two"]
    expected = ("UPDATE", "deployments/scale", "autoscaling/v1/Scale", "web", "Scale", "Scale", "UpdateOptions")
    assert shown(first) == shown(second) == expected
    assert (first["object"]["spec"]["replicas"], first["oldObject"]["spec"]["replicas"]) == (3, 1)
    assert second["object"]["spec"]["replicas"] == 5


async def test_binding_is_reviewed_as_a_creation(api: Api, webhooks: Webhooks) -> None:
    await api.post(PODS, pod("pa"))
    node = json_patch({"op": "replace", "path": "/target/name", "value": "nb"})
    await webhooks.add("Mutating", "one", lambda request: node, rules=[rule("pods/binding")])
    await api.post(f"{PODS}/pa/binding", pod_binding("pa"))
    (request,) = webhooks.requests["one"]
    assert shown(request) == ("CREATE", "pods/binding", "v1/Binding", "pa", "Binding", None, "CreateOptions")
    assert (await api.get(f"{PODS}/pa"))["spec"]["nodeName"] == "nb"


async def test_denied_eviction_leaves_pod_and_budget(api: Api, webhooks: Webhooks) -> None:
    await api.post(PODS, pod("pa"))
    before = await api.get(f"{PODS}/pa")
    await webhooks.add("Validating", "one", lambda request: denied("stay"), rules=[rule("pods/eviction")])
    await webhooks.add("Validating", "two", rules=[rule("pods", "DELETE")])
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "pa"}}
    reply = await api.call("POST", f"{PODS}/pa/eviction", body)
    assert (reply.status, reply.body["message"]) == (
        400, 'admission webhook "one.example.com" denied the request: stay',
    )  # fmt: skip
    (request,) = webhooks.requests["one"]
    assert shown(request) == ("CREATE", "pods/eviction", "policy/v1/Eviction", "pa", "Eviction", None, "CreateOptions")
    assert await api.get(f"{PODS}/pa") == before
    await api.delete("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/one")
    await api.post(f"{PODS}/pa/eviction", body)
    # The deletion is the server's own.
    assert webhooks.requests["two"] == []


async def test_token_request_is_reviewed(api: Api, webhooks: Webhooks) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await api.post(accounts, {"metadata": {"name": "robot"}})
    short = json_patch({"op": "replace", "path": "/spec/expirationSeconds", "value": 600})
    await webhooks.add("Mutating", "one", lambda request: short, rules=[rule("serviceaccounts/token")])
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    made = await api.post(f"{accounts}/robot/token", body)
    assert made["spec"]["expirationSeconds"] == 600
    (request,) = webhooks.requests["one"]
    expected = "serviceaccounts/token", "authentication.k8s.io/v1/TokenRequest", "robot", "TokenRequest", None
    assert shown(request) == ("CREATE", *expected, "CreateOptions")


@pytest.mark.parametrize(
    ("path", "kind", "options"),
    [
        pytest.param(
            "exec?command=sh&command=-c&stdin=true&tty=1", "PodExecOptions",
            {"stdin": True, "tty": True, "command": ["sh", "-c"]}, id="exec",
        ),
        pytest.param("attach?container=main", "PodAttachOptions", {"container": "main"}, id="attach"),
        pytest.param("portforward?ports=80,81", "PodPortForwardOptions", {"ports": [80, 81]}, id="portforward"),
    ],
)  # fmt: skip
async def test_connection_is_reviewed_before_it_is_made(
    api: Api, webhooks: Webhooks, path: str, kind: str, options: dict[str, Any]
) -> None:
    await api.post(PODS, pod("pa"))
    part = path.partition("?")[0]
    await webhooks.add("Validating", "one", lambda request: denied("no shells"), rules=[rule("pods/*", "CONNECT")])
    reply = await api.call("POST", f"{PODS}/pa/{path}")
    assert reply.body["message"] == 'admission webhook "one.example.com" denied the request: no shells'
    (request,) = webhooks.requests["one"]
    assert shown(request) == ("CONNECT", f"pods/{part}", f"v1/{kind}", "pa", kind, None, None)
    assert request["object"] == {"kind": kind, "apiVersion": "v1", **options}


async def test_put_that_creates_is_a_creation(api: Api, webhooks: Webhooks) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    await webhooks.add("Validating", "one", rules=[rule("leases")])
    await api.put(f"{leases}/la", {"metadata": {"name": "la"}})
    (request,) = webhooks.requests["one"]
    assert shown(request)[0] == "CREATE"
    assert shown(request)[3:] == ("la", "Lease", None, "CreateOptions")


async def test_apply_is_a_creation_then_an_update(api: Api, webhooks: Webhooks) -> None:
    label = json_patch({"op": "add", "path": "/data/by", "value": "webhook"})
    await webhooks.add("Mutating", "one", lambda request: label, rules=[rule("configmaps")])
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ma"}, "data": {"a": "1"}}
    for value in ("1", "2"):
        config["data"] = {"a": value}
        reply = await api.call("PATCH", f"{MAPS}/ma?fieldManager=me", config, content_type=APPLY)
        assert reply.body["data"] == {"a": value, "by": "webhook"}
    assert [shown(request)[0] for request in webhooks.requests["one"]] == ["CREATE", "UPDATE"]
    options = [request["options"] for request in webhooks.requests["one"]]
    assert options == [
        {"kind": kind, "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"}
        for kind in ("CreateOptions", "UpdateOptions")
    ]


async def test_large_apply_loses_no_update_of_a_rival(api: Api, webhooks: Webhooks) -> None:
    await api.post(MAPS, {"metadata": {"name": "ma"}, "data": {"a": "1"}})
    rivals = iter([{"data": {"b": "1"}}])

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        if request["userInfo"]["username"] == "ann" and (rival := next(rivals, None)):
            await api.patch(f"{MAPS}/ma", rival)
        return {}

    await webhooks.add("Validating", "one", answer, rules=[rule("configmaps")])
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ma"}, "data": {"large": "x" * 70_000}}
    reply = await api.as_user("ann").call("PATCH", f"{MAPS}/ma?fieldManager=me", config, content_type=APPLY)
    assert reply.status == 200
    assert set((await api.get(f"{MAPS}/ma"))["data"]) == {"a", "b", "large"}


async def test_pod_that_is_terminating_is_not_reviewed_again(api: Api, webhooks: Webhooks) -> None:
    await api.post(PODS, pod("pa"))
    await api.post(f"{PODS}/pa/binding", pod_binding("pa"))
    await webhooks.add("Validating", "one", rules=[rule("pods", "DELETE")])
    await api.delete(f"{PODS}/pa")
    await api.delete(f"{PODS}/pa")
    assert len(webhooks.requests["one"]) == 1
    await api.delete(f"{PODS}/pa", {"gracePeriodSeconds": 0})
    assert [request["options"].get("gracePeriodSeconds") for request in webhooks.requests["one"]] == [None, 0]


async def test_object_held_by_finalizers_is_reviewed_again(api: Api, webhooks: Webhooks) -> None:
    await api.post(MAPS, {"metadata": {"name": "ma", "finalizers": ["example.com/hold"]}})
    await api.delete(f"{MAPS}/ma")
    await webhooks.add("Validating", "one", lambda request: denied("stay", code=403), rules=[rule("configmaps")])
    assert (await api.call("DELETE", f"{MAPS}/ma")).status == 403
    assert (await api.call("DELETE", MAPS)).status == 403
    assert len(webhooks.requests["one"]) == 2


async def test_namespace_that_is_being_emptied_is_not_reviewed_again(api: Api, webhooks: Webhooks) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "na"}})
    await webhooks.add("Validating", "one", rules=[rule("namespaces", "DELETE")])
    await api.delete("/api/v1/namespaces/na")
    await api.delete("/api/v1/namespaces/na")
    assert len(webhooks.requests["one"]) == 1


async def test_removal_of_the_last_finalizer_is_an_update(api: Api, webhooks: Webhooks) -> None:
    await api.post(MAPS, {"metadata": {"name": "ma", "finalizers": ["example.com/hold"]}})
    await webhooks.add("Validating", "one", rules=[rule("configmaps")])
    await api.delete(f"{MAPS}/ma")
    await api.patch(f"{MAPS}/ma", {"metadata": {"finalizers": None}})
    assert [shown(request)[0] for request in webhooks.requests["one"]] == ["DELETE", "UPDATE"]
    assert (await api.call("GET", f"{MAPS}/ma")).status == 404


async def test_quota_counts_the_object_that_webhooks_leave(api: Api, webhooks: Webhooks) -> None:
    await api.post("/api/v1/namespaces/default/resourcequotas", {
        "metadata": {"name": "qa"}, "spec": {"hard": {"requests.cpu": "1"}},
    })  # fmt: skip
    more = json_patch({"op": "add", "path": "/spec/containers/0/resources", "value": {"requests": {"cpu": "2"}}})
    await webhooks.add("Mutating", "one", lambda request: more)
    await webhooks.add("Validating", "two")
    reply = await api.call("POST", PODS, pod("pa"))
    assert (reply.status, "exceeded quota: qa" in reply.body["message"]) == (403, True)
    assert len(webhooks.requests["two"]) == 1
