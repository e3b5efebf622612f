"""Upstream's end-to-end tests of admission policies, by the facts that they assert.

Source: kubernetes/test/e2e/apimachinery/{validatingadmissionpolicy,mutatingadmissionpolicy}.go. The tests of
effects are in `test_validating_policies.py`, `test_mutating_policies.py` and `test_policy_type_checking.py`.
"""

from copy import deepcopy
from typing import Any

import pytest

from tests.kit.api import Api
from tests.kit.policies import DEPLOYMENTS, GROUP, bind, configuration, deployment, matched, validate, validation

pytestmark = pytest.mark.kcr_virtual
ANNOTATE = "Object{metadata: Object.metadata{annotations: {'my-foo-annotation': 'myAnnotationValue'}}}"
SPECS: dict[str, dict[str, Any]] = {
    "validatingadmissionpolicies": {
        "matchConstraints": matched("deployments", "apps"),
        "validations": [validation("object.spec.replicas <= 100", messageExpression="'too many replicas'")],
    },
    "validatingadmissionpolicybindings": {
        "policyName": "replicalimit-policy.example.com", "validationActions": ["Deny"],
    },
    "mutatingadmissionpolicies": {
        "matchConstraints": matched("deployments", "apps", ["CREATE"]),
        "mutations": [configuration(ANNOTATE)],
        "reinvocationPolicy": "Never",
    },
    "mutatingadmissionpolicybindings": {"policyName": "replicalimit-policy.example.com"},
}  # fmt: skip


async def test_expressions_refer_to_variables(api: Api) -> None:
    await api.patch("/api/v1/namespaces/default", {"metadata": {"labels": {"unique": "true"}}})
    selector: dict[str, Any] = {"namespaceSelector": {"matchLabels": {"unique": "true"}}}
    await validate(
        api,
        validation("variables.replicas > 1"),
        validation("variables.oddReplicas"),
        matchConstraints=matched("deployments", "apps", **selector),
        variables=[
            {"name": "replicas", "expression": "object.spec.replicas"},
            {"name": "oddReplicas", "expression": "variables.replicas % 2 == 1"},
        ],
    )
    await bind(api, matchResources=selector)
    for name, replicas, reason in (("one", 1, "Invalid"), ("two", 2, "Invalid"), ("three", 3, None)):
        reply = await api.call("POST", DEPLOYMENTS, deployment(name, replicas))
        assert reply.body.get("reason") == reason
    replica_set = deployment("single", 1, "ReplicaSet")
    assert (await api.call("POST", "/apis/apps/v1/namespaces/default/replicasets", replica_set)).status == 201


@pytest.mark.parametrize("plural", SPECS)
async def test_objects_support_all_operations(api: Api, plural: str) -> None:
    groups = {one["name"]: one for one in (await api.get("/apis"))["groups"]}
    assert "v1" in [one["version"] for one in groups["admissionregistration.k8s.io"]["versions"]]
    assert plural in [one["name"] for one in (await api.get(GROUP))["resources"]]
    path, selected = f"{GROUP}/{plural}", f"{GROUP}/{plural}?labelSelector=e2e%3Dx"
    template = {"metadata": {"generateName": "e2e-example-", "labels": {"e2e": "x"}}, "spec": deepcopy(SPECS[plural])}
    created = [await api.post(path, template) for _ in range(3)][-1]
    one = f"{path}/{created['metadata']['name']}"
    assert (await api.get(one))["metadata"]["uid"] == created["metadata"]["uid"]
    listed = await api.get(selected)
    assert len(listed["items"]) == 3
    events = await api.watch(f"{selected}&resourceVersion={listed['metadata']['resourceVersion']}&")
    has_failure_policy = plural.endswith("policies")
    changed = {"spec": {"failurePolicy": "Ignore"}} if has_failure_policy else {}
    patched = await api.patch(one, {"metadata": {"annotations": {"patched": "true"}}, **changed})
    assert patched["metadata"]["annotations"] == {"patched": "true"}
    assert not has_failure_policy or patched["spec"]["failurePolicy"] == "Ignore"
    patched["metadata"]["annotations"]["updated"] = "true"
    updated = await api.put(one, patched)
    assert updated["metadata"]["annotations"] == {"patched": "true", "updated": "true"}
    event = await events.next()
    assert (event["type"], event["object"]["metadata"]["annotations"]) == ("MODIFIED", {"patched": "true"})
    await events.close()
    await api.delete(one)
    assert (await api.call("GET", one)).status == 404
    assert len((await api.get(selected))["items"]) == 2
    await api.delete(selected)
    assert (await api.get(selected))["items"] == []


async def test_status_of_a_validating_policy_is_written_apart(api: Api) -> None:
    await validate(api, *SPECS["validatingadmissionpolicies"]["validations"])
    status = f"{GROUP}/validatingadmissionpolicies/p/status"
    condition = {
        "type": "StatusPatched", "status": "True", "reason": "E2E", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    patched = await api.patch(status, {"status": {"conditions": [condition]}})
    assert patched["status"]["conditions"] == [condition]
    patched["status"]["conditions"].append({**condition, "type": "StatusUpdate"})
    patched["spec"]["failurePolicy"] = "Ignore"
    updated = await api.put(status, patched)
    assert [one["type"] for one in updated["status"]["conditions"]] == ["StatusPatched", "StatusUpdate"]
    assert updated["spec"]["failurePolicy"] == "Fail"
    assert await api.get(status) == updated
