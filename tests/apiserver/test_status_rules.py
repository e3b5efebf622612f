"""Writes to the status beside those of parity/requests/validation/status.yaml: after another one, and a long one.

Source: kubernetes/pkg/apis/apps/validation/validation_test.go, TestValidateDeploymentStatus;
pkg/apis/policy/validation/validation_test.go, TestValidatePodDisruptionBudgetStatus.
"""

import pytest

from tests.kit.api import Api, Reply
from tests.kit.workloads import deployment

pytestmark = pytest.mark.kcr_virtual
MERGE = "application/merge-patch+json"


async def written(api: Api, path: str, **status: object) -> Reply:
    return await api.call("PATCH", f"{path}/web/status", {"status": status}, content_type=MERGE)


async def test_message_of_a_condition_has_a_limit(api: Api) -> None:
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    await api.post(path, {"metadata": {"name": "web"}, "spec": {"minAvailable": 1}})
    condition = {
        "type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": "x" * 32_769,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    (cause,) = (await written(api, path, conditions=[condition])).body["details"]["causes"]
    assert cause["field"] == "status.conditions[0].message"
    assert cause["message"].endswith("may not be more than 32768 bytes")


async def test_collisions_are_never_counted_down(api: Api) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    await api.post(path, deployment())
    assert (await written(api, path, collisionCount=2)).status == 200
    for count in (1, None):
        reply = await written(api, path, collisionCount=count)
        assert reply.body["details"]["causes"][0]["message"] == f"Invalid value: {count or 0}: cannot be decremented"
