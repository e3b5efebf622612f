"""Validation of the kinds of admissionregistration.k8s.io/v1, in upstream's words.

Source: kubernetes/pkg/apis/admissionregistration/validation/validation_test.go;
staging/src/k8s.io/apiserver/pkg/util/webhook/validation_test.go.
"""

from copy import deepcopy

import pytest

from kcr_devcluster.apiserver.kinds.admission.webhooks import WebhookConfigurationStrategy
from tests.kit.api import Api
from tests.kit.valid_objects import valid_object

pytestmark = pytest.mark.kcr_virtual
GROUP = "/apis/admissionregistration.k8s.io/v1"


def path_of(kind: str) -> str:
    """The collection of a kind."""
    plural = kind.lower().replace("policy", "policies") if kind.endswith("Policy") else f"{kind.lower()}s"
    return f"{GROUP}/{plural}"


def test_update_may_keep_what_new_webhooks_may_not_have() -> None:
    strategy = WebhookConfigurationStrategy()
    old = valid_object("ValidatingWebhookConfiguration")
    first, second = old["webhooks"]
    first |= {"sideEffects": "Unknown", "admissionReviewVersions": ["v2"], "matchConditions": [{"name": "a"}]}
    first["objectSelector"] = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["-"]}]}
    second["name"] = first["name"]
    fields = [
        "webhooks[0].sideEffects", "webhooks[0].objectSelector.matchExpressions[0].values[0]",
        "webhooks[0].matchConditions[0].expression", "webhooks[0].admissionReviewVersions", "webhooks[1].name",
    ]  # fmt: skip
    assert [one.field for one in strategy.validate(old)] == fields
    assert strategy.validate_update({**old, "metadata": {"name": "a", "labels": {"a": "b"}}}, old) == []
    new = deepcopy(old)
    new["webhooks"][0]["matchConditions"] = [{"name": "a", "expression": " "}]
    assert [one.field for one in strategy.validate_update(new, old)] == ["webhooks[0].matchConditions[0].expression"]


async def test_name_for_static_files_is_warned_about(api: Api) -> None:
    kind = "ValidatingAdmissionPolicyBinding"
    reply = await api.call("POST", path_of(kind), {**valid_object(kind), "metadata": {"name": "a.static.k8s.io"}})
    assert reply.status == 201
    assert "will be reserved for static manifest-based configurations" in reply.headers["Warning"]
