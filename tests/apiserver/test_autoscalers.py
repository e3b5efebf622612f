"""HorizontalPodAutoscalers in both versions.

Source: kubernetes/pkg/apis/autoscaling/v1/conversion.go; pkg/apis/autoscaling/v2/defaults.go.
"""

from typing import Any

import pytest

from tests.kit.api import TABLE, Api

pytestmark = pytest.mark.kcr_virtual

V1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
V2 = V1.replace("v1", "v2", 1)
WARNING = (
    "horizontalpodautoscalers.autoscaling are stored by this server, and nothing here acts on them: "
    "no controller scales their targets"
)
PODS = {"type": "Pods", "pods": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "1k"}}}


def scaler(**spec: Any) -> dict[str, Any]:
    """Return an autoscaler."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {"metadata": {"name": "web"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3, **spec}}


async def test_autoscaler_is_stored_with_defaults_and_a_warning(api: Api) -> None:
    reply = await api.call("POST", V2, scaler(behavior={}))
    assert (reply.status, reply.headers["Warning"]) == (201, f'299 - "{WARNING}"')
    spec = reply.body["spec"]
    assert spec["minReplicas"] == 1
    assert spec["metrics"][0]["resource"]["target"] == {"type": "Utilization", "averageUtilization": 80}
    assert spec["behavior"]["scaleUp"]["stabilizationWindowSeconds"] == 0
    assert [one["type"] for one in spec["behavior"]["scaleDown"]["policies"]] == ["Percent"]
    (row,) = (await api.get(V2, accept=TABLE))["rows"]
    assert row["cells"][:6] == ["web", "Deployment/web", "cpu: <unknown>/80%", "1", 3, 0]


async def test_annotations_that_hold_something_else_are_dropped(api: Api) -> None:
    for value in ("5", "[1]", "{", '"a"'):
        annotations = {
            f"autoscaling.alpha.kubernetes.io/{name}": value for name in ("metrics", "behavior", "conditions")
        }
        reply = await api.call("POST", V1, {**scaler(), "metadata": {"name": "web", "annotations": annotations}})
        assert (reply.status, reply.body["spec"]["targetCPUUtilizationPercentage"]) == (201, 80)
        await api.delete(f"{V1}/web")
    for metadata in ([1], True, "x", {"annotations": 5}):
        assert (await api.call("POST", V1, {**scaler(), "metadata": metadata})).status in (400, 422)


async def test_both_versions_can_be_applied(api: Api) -> None:
    for version in ("v2", "v1", "v2"):
        target = f"{V1.replace('v1', version, 1)}/web"
        obj = {**scaler(), "apiVersion": f"autoscaling/{version}", "kind": "HorizontalPodAutoscaler"}
        reply = await api.apply(target, obj, manager=version)
        assert reply.status in (200, 201), reply.body


async def test_older_version_shows_the_cpu_alone(api: Api) -> None:
    await api.post(V1, scaler(targetCPUUtilizationPercentage=50))
    newer = await api.get(f"{V2}/web")
    assert newer["spec"]["metrics"] == [
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
    ]
    older = await api.get(f"{V1}/web")
    assert older["spec"]["targetCPUUtilizationPercentage"] == 50
    assert "metrics" not in older["spec"]
    (row,) = (await api.get(V1, accept=TABLE))["rows"]
    assert row["cells"][2] == "cpu: <unknown>/50%"


@pytest.mark.parametrize(
    "metric",
    [
        PODS,
        {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1"}}},
        {
            "type": "Object",
            "object": {
                "describedObject": {"kind": "Ingress", "name": "i", "apiVersion": "networking.k8s.io/v1"},
                "metric": {"name": "q", "selector": {"matchLabels": {"a": "b"}}},
                "target": {"type": "Value", "value": "2"},
            },
        },
    ],
    ids=lambda metric: str(metric["type"]),
)
async def test_change_through_the_older_version_loses_nothing(api: Api, metric: dict[str, Any]) -> None:
    made = await api.post(V2, scaler(metrics=[metric], behavior={"scaleDown": {"selectPolicy": "Disabled"}}))
    older = await api.get(f"{V1}/web")
    assert "autoscaling.alpha.kubernetes.io/metrics" in older["metadata"]["annotations"]
    assert await api.put(f"{V1}/web", older) == older
    await api.patch(f"{V1}/web", {"spec": {"maxReplicas": 5}})
    newer = await api.get(f"{V2}/web")
    assert newer["spec"] == {**made["spec"], "maxReplicas": 5}
    assert "annotations" not in newer["metadata"]
