"""The kinds of admissionregistration.k8s.io/v1: discovery, columns, defaults, generations and the policies' status.

Source: kubernetes/api/discovery/apis__admissionregistration.k8s.io__v1.json;
pkg/apis/admissionregistration/v1/defaults.go; pkg/registry/admissionregistration/*/strategy.go;
pkg/printers/internalversion/printers.go.
"""

from typing import Any

import pytest

from tests.kit.api import TABLE, Api
from tests.kit.valid_objects import valid_object

pytestmark = pytest.mark.kcr_virtual
GROUP = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
POLICIES = f"{GROUP}/validatingadmissionpolicies"


async def test_kinds_are_discovered_as_extensions(api: Api) -> None:
    resources = {one["name"]: one for one in (await api.get(GROUP))["resources"]}
    assert set(resources) == {*PLURALS.values(), "validatingadmissionpolicies/status"}
    for kind, plural in PLURALS.items():
        found = resources[plural]
        assert (found["kind"], found["singularName"], found["namespaced"]) == (kind, kind.lower(), False)
        assert (found["categories"], "shortNames" in found) == (["api-extensions"], False)


@pytest.mark.parametrize(
    ("kind", "columns", "cells"),
    [
        ("MutatingAdmissionPolicy", "Name,Mutations,ParamKind,Age", ["a", 1, "v1/ConfigMap", "0s"]),
        ("MutatingAdmissionPolicyBinding", "Name,PolicyName,ParamRef,Age", ["a", "a", "default/p", "0s"]),
        ("MutatingWebhookConfiguration", "Name,Webhooks,Age", ["a", 1, "0s"]),
        ("ValidatingAdmissionPolicy", "Name,Validations,ParamKind,Age", ["a", 1, "<unset>", "0s"]),
        (
            "ValidatingAdmissionPolicyBinding",
            "Name,PolicyName,ParamRef,Age",
            [
                "a",
                "a",
                "&LabelSelector{MatchLabels:map[string]string{a: 1,},MatchExpressions:[]LabelSelectorRequirement{},}",
                "0s",
            ],
        ),
        ("ValidatingWebhookConfiguration", "Name,Webhooks,Age", ["a", 2, "0s"]),
    ],
)
async def test_kinds_have_upstreams_columns(api: Api, kind: str, columns: str, cells: list[Any]) -> None:
    await api.post(f"{GROUP}/{PLURALS[kind]}", valid_object(kind))
    table = await api.get(f"{GROUP}/{PLURALS[kind]}", accept=TABLE)
    assert ",".join(one["name"] for one in table["columnDefinitions"]) == columns
    assert table["rows"][0]["cells"] == cells


async def test_webhooks_are_defaulted(api: Api) -> None:
    made = await api.post(f"{GROUP}/mutatingwebhookconfigurations", valid_object("MutatingWebhookConfiguration"))
    (hook,) = made["webhooks"]
    assert (hook["failurePolicy"], hook["matchPolicy"], hook["timeoutSeconds"]) == ("Fail", "Equivalent", 10)
    assert (hook["namespaceSelector"], hook["reinvocationPolicy"]) == ({}, "IfNeeded")
    assert (hook["rules"][0]["scope"], hook["clientConfig"]["service"]["port"]) == ("*", 443)
    made = await api.post(f"{GROUP}/validatingwebhookconfigurations", valid_object("ValidatingWebhookConfiguration"))
    first, second = made["webhooks"]
    assert (first["timeoutSeconds"], second["failurePolicy"], second["matchPolicy"]) == (1, "Ignore", "Exact")
    assert "reinvocationPolicy" not in first


async def test_policies_are_defaulted(api: Api) -> None:
    made = await api.post(f"{GROUP}/mutatingadmissionpolicies", valid_object("MutatingAdmissionPolicy"))
    matched = made["spec"]["matchConstraints"]
    assert (made["spec"]["failurePolicy"], matched["matchPolicy"], matched["objectSelector"]) == (
        "Fail", "Equivalent", {},
    )  # fmt: skip
    policy = valid_object("ValidatingAdmissionPolicy")
    del policy["spec"]["matchConstraints"]["resourceRules"][0]["scope"]
    made = await api.post(POLICIES, policy)
    assert made["spec"]["matchConstraints"]["resourceRules"][0]["scope"] == "*"


@pytest.mark.parametrize("kind", list(PLURALS))
async def test_change_of_the_rules_is_a_new_generation(api: Api, kind: str) -> None:
    place = f"{GROUP}/{PLURALS[kind]}"
    made = await api.post(place, valid_object(kind))
    assert made["metadata"]["generation"] == 1
    made["metadata"]["labels"] = {"a": "b"}
    made = await api.put(f"{place}/a", made)
    assert made["metadata"]["generation"] == 1
    if "webhooks" in made:
        made["webhooks"][0]["timeoutSeconds"] = 7
    elif "policyName" in made["spec"]:
        made["spec"]["policyName"] = "other"
    else:
        made["spec"]["failurePolicy"] = "Fail" if made["spec"]["failurePolicy"] == "Ignore" else "Ignore"
    assert (await api.put(f"{place}/a", made))["metadata"]["generation"] == 2


@pytest.mark.parametrize("kind", list(PLURALS))
async def test_update_without_resource_version_is_refused(api: Api, kind: str) -> None:
    place = f"{GROUP}/{PLURALS[kind]}"
    await api.post(place, valid_object(kind))
    reply = await api.call("PUT", f"{place}/a", valid_object(kind))
    assert reply.status == 422
    assert "metadata.resourceVersion: Invalid value" in reply.body["message"]


async def test_status_of_a_policy_has_its_own_path(api: Api) -> None:
    policy = valid_object("ValidatingAdmissionPolicy")
    made = await api.post(POLICIES, {**policy, "status": {"observedGeneration": 9}})
    assert made["status"] == {}
    checked = {"observedGeneration": 1, "typeChecking": {}}
    made["spec"]["failurePolicy"] = "Fail"
    written = await api.put(f"{POLICIES}/a/status", {**made, "status": checked})
    assert (written["status"], written["spec"]["failurePolicy"]) == (checked, "Ignore")
    assert written["metadata"]["generation"] == 1
