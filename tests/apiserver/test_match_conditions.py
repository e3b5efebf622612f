"""Match conditions of webhooks.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/generic/webhook.go, ShouldCallHook.
"""

import pytest

from tests.kit.api import Api, pod
from tests.kit.webhooks import Webhooks

pytestmark = pytest.mark.kcr_virtual
PODS = "/api/v1/namespaces/default/pods"


def conditions(*expressions: str) -> list[dict[str, str]]:
    return [{"name": f"c{position}", "expression": one} for position, one in enumerate(expressions)]


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
@pytest.mark.parametrize(
    ("expressions", "calls"),
    [
        pytest.param(["object.metadata.name == 'a'", "request.operation == 'CREATE'"], 1, id="all-hold"),
        pytest.param(["true", "oldObject != null"], 0, id="one-is-false"),
        pytest.param(["object.x == 1", "false"], 0, id="false-outweighs-error"),
        pytest.param(["namespaceObject.metadata.name == 'default'"], 1, id="namespace"),
        pytest.param(["authorizer.requestResource.check('create').allowed()"], 1, id="authorizer"),
    ],
)
async def test_webhook_is_called_where_all_hold(api: Api, kind: str, expressions: list[str], calls: int) -> None:
    webhooks = Webhooks(api)
    await webhooks.add(kind, "hook", matchConditions=conditions(*expressions))
    await api.post(PODS, pod("a"))
    assert len(webhooks.requests["hook"]) == calls


@pytest.mark.parametrize(("policy", "status"), [("Fail", 403), ("Ignore", 201)])
async def test_failure_policy_decides_about_errors(api: Api, policy: str, status: int) -> None:
    webhooks = Webhooks(api)
    await webhooks.add("Validating", "hook", matchConditions=conditions("true", "object.x == 1"), failurePolicy=policy)
    reply = await api.call("POST", PODS, pod("a"))
    assert (reply.status, webhooks.requests["hook"]) == (status, [])
    if status == 403:
        assert reply.body["message"] == (
            "pods \"a\" is forbidden: expression 'object.x == 1' resulted in error: no such key: x"
        )
