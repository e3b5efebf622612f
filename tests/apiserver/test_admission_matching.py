"""Which requests a webhook reviews, and in which version.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/generic/webhook_test.go;
pkg/admission/plugin/webhook/predicates/rules/rules_test.go.
"""

from typing import Any

import pytest

from tests.kit.api import Api, pod, pod_binding
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, definition, version, widget
from tests.kit.webhooks import Webhooks, denied, json_patch

pytestmark = pytest.mark.kcr_virtual
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
SCALERS = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"


def rule(*resources: str, **fields: Any) -> dict[str, Any]:
    return {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": list(resources), **fields}


def seen(webhooks: Webhooks, name: str = "one") -> list[str]:
    """Return the operations and resources that a webhook was asked about."""
    return [
        "/".join(filter(None, (request["operation"], request["resource"]["resource"], request.get("subResource"))))
        for request in webhooks.requests[name]
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"resources": ["pods"]}, ["CREATE/pods"], id="resource"),
        pytest.param(
            {"resources": ["pods/*"]}, ["CREATE/pods", "CREATE/pods/binding", "UPDATE/pods/status"], id="parts"
        ),
        pytest.param({"resources": ["pods/status"]}, ["UPDATE/pods/status"], id="part"),
        pytest.param({"resources": ["*"]}, ["CREATE/pods", "CREATE/configmaps"], id="all"),
        pytest.param(
            {"resources": ["*/*"]},
            ["CREATE/pods", "CREATE/pods/binding", "UPDATE/pods/status", "CREATE/configmaps"],
            id="all-parts",
        ),
        pytest.param({"resources": ["*/status"]}, ["UPDATE/pods/status"], id="all-status"),
        pytest.param({"resources": ["*"], "operations": ["UPDATE"]}, [], id="operation"),
        pytest.param({"resources": ["*"], "apiGroups": ["apps"]}, [], id="group"),
        pytest.param({"resources": ["*"], "apiVersions": ["v2"]}, [], id="version"),
        pytest.param({"resources": ["*"], "scope": "Cluster"}, [], id="scope"),
        pytest.param({"resources": ["pods"], "scope": "Namespaced"}, ["CREATE/pods"], id="namespaced"),
    ],
)
async def test_rules_select_requests(api: Api, webhooks: Webhooks, fields: Any, expected: list[str]) -> None:
    await webhooks.add("Validating", "one", rules=[{**rule(), **fields}])
    await api.post(PODS, pod("pa"))
    await api.post(f"{PODS}/pa/binding", pod_binding("pa"))
    await api.patch(f"{PODS}/pa/status", {"status": {"phase": "Running"}})
    await api.post(MAPS, {"metadata": {"name": "ma"}})
    assert seen(webhooks) == expected


async def test_namespace_is_in_the_scope_of_the_cluster(api: Api, webhooks: Webhooks) -> None:
    await webhooks.add("Validating", "one", rules=[rule("*", scope="Cluster")])
    await webhooks.add("Validating", "two", rules=[rule("*", scope="Namespaced")])
    await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    (request,) = webhooks.requests["one"]
    assert (request["name"], request["namespace"]) == ("team", "team")
    assert webhooks.requests["two"] == []


async def test_namespace_selector_reads_the_labels_of_the_namespace(api: Api, webhooks: Webhooks) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "team", "labels": {"env": "prod"}}})
    await webhooks.add("Validating", "one", namespaceSelector={"matchLabels": {"env": "prod"}}, rules=[rule("*")])
    await api.post("/api/v1/namespaces/team/configmaps", {"metadata": {"name": "ma"}})
    await api.post(MAPS, {"metadata": {"name": "mb"}})
    await api.post("/api/v1/nodes", {"metadata": {"name": "na"}})
    await api.post("/api/v1/namespaces", {"metadata": {"name": "new", "labels": {"env": "prod"}}})
    await api.post("/api/v1/namespaces", {"metadata": {"name": "newer", "labels": {"env": "test"}}})
    assert [request["name"] for request in webhooks.requests["one"]] == ["ma", "na", "new"]


async def test_object_selector_reads_old_and_new_labels(api: Api, webhooks: Webhooks) -> None:
    await webhooks.add("Validating", "one", objectSelector={"matchLabels": {"app": "web"}}, rules=[rule("configmaps")])
    await api.post(MAPS, {"metadata": {"name": "ma"}})
    await api.patch(f"{MAPS}/ma", {"metadata": {"labels": {"app": "web"}}})
    await api.patch(f"{MAPS}/ma", {"metadata": {"labels": {"app": None}}})
    await api.patch(f"{MAPS}/ma", {"data": {"a": "1"}})
    assert seen(webhooks) == ["UPDATE/configmaps"] * 2


async def test_equivalent_version_is_converted_for_the_webhook(api: Api, webhooks: Webhooks) -> None:
    label = json_patch({"op": "add", "path": "/spec/maxReplicas", "value": 7})
    rules = [rule("horizontalpodautoscalers", apiGroups=["autoscaling"], apiVersions=["v1"])]
    await webhooks.add("Mutating", "one", lambda request: label, rules=rules)
    metrics = [{"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]  # fmt: skip
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    made = await api.post(
        SCALERS.format("v2"),
        {"metadata": {"name": "ha"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3, "metrics": metrics}},
    )
    (request,) = webhooks.requests["one"]
    assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "HorizontalPodAutoscaler"}
    assert request["requestKind"] == {"group": "autoscaling", "version": "v2", "kind": "HorizontalPodAutoscaler"}
    assert request["resource"]["version"] == "v1"
    shown = request["object"]
    assert (shown["apiVersion"], shown["spec"]["targetCPUUtilizationPercentage"]) == ("autoscaling/v1", 50)
    assert (made["apiVersion"], made["spec"]["maxReplicas"], made["spec"]["metrics"]) == ("autoscaling/v2", 7, metrics)


async def test_exact_version_is_not_converted(api: Api, webhooks: Webhooks) -> None:
    rules = [rule("horizontalpodautoscalers", apiVersions=["v1"])]
    await webhooks.add("Validating", "one", rules=rules, matchPolicy="Exact")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    body = {"metadata": {"name": "ha"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3}}
    await api.post(SCALERS.format("v2"), body)
    assert webhooks.requests["one"] == []
    await api.post(SCALERS.format("v1"), {**body, "metadata": {"name": "hb"}})
    (request,) = webhooks.requests["one"]
    assert (request["kind"]["version"], request["object"]["apiVersion"]) == ("v1", "autoscaling/v1")


async def test_configurations_are_called_by_name_then_by_list(api: Api, webhooks: Webhooks) -> None:
    order: list[str] = []

    def answer(name: str) -> Any:
        def note(request: dict[str, Any]) -> dict[str, Any]:
            order.append(name)
            return {}

        return note

    for name in ("cc", "aa"):
        await webhooks.add("Mutating", name, answer(name))
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    both = [webhooks.webhook("b2", answer("b2")), webhooks.webhook("b1", answer("b1"))]
    await api.post(path, {"metadata": {"name": "bb"}, "webhooks": both})
    await api.post(PODS, pod("pa"))
    assert order == ["aa", "b2", "b1", "cc"]


async def test_changed_configuration_counts_from_the_next_write(api: Api, webhooks: Webhooks) -> None:
    await webhooks.add("Validating", "one", lambda request: denied("no"), rules=[rule("configmaps")])
    assert (await api.call("POST", MAPS, {"metadata": {"name": "ma"}})).status == 400
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/one"
    stored = await api.get(path)
    stored["webhooks"][0]["rules"] = [rule("secrets")]
    await api.put(path, stored)
    await api.post(MAPS, {"metadata": {"name": "ma"}})


async def test_rules_of_a_kind_defined_later_match_its_objects(api: Api, webhooks: Webhooks) -> None:
    await webhooks.add("Validating", "one", rules=[rule("widgets", apiGroups=["ex.io"], apiVersions=["v2"])])
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await api.post(DEFINITIONS, definition(version("v1", schema)))
    await api.post(WIDGETS, widget("wa"))
    assert webhooks.requests["one"] == []
    # The version that the rule names is added: the former answer, that no rule matches, is no longer true.
    both = definition(version("v1", schema), version("v2", schema, storage=False))
    await api.patch(f"{DEFINITIONS}/widgets.ex.io", {"spec": {"versions": both["spec"]["versions"]}})
    await api.post(WIDGETS, widget("wb"))
    assert [request["name"] for request in webhooks.requests["one"]] == ["wb"]
