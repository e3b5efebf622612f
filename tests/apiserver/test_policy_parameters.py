"""Who writes an admission policy or a binding must be able to read its parameters.

Source: kubernetes/pkg/registry/admissionregistration/{validating,mutating}admissionpolicy{,binding}/authz_test.go.
"""

from typing import Any

import pytest
import pytest_asyncio

from tests.kit.api import Api, Reply, binding, role
from tests.kit.valid_objects import valid_object

pytestmark = pytest.mark.kcr_virtual
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{GROUP}/mutatingadmissionpolicies", f"{GROUP}/mutatingadmissionpolicybindings"


async def grant(guarded: Api, name: str, *resources: str, group: str = "", **rule: Any) -> None:
    await guarded.post(f"{RBAC}/clusterroles", role(name, "get create update", *resources, apiGroups=[group], **rule))
    await guarded.post(f"{RBAC}/clusterrolebindings", binding(name, "ClusterRole", name, "User:alice"))


@pytest_asyncio.fixture
async def alice(guarded: Api) -> Api:
    """Give the API as a user sees it who writes policies and bindings."""
    await grant(guarded, "writer", "*", group="admissionregistration.k8s.io")
    return guarded.as_user("alice", "devs")


def causes(reply: Reply) -> list[tuple[str, str]]:
    assert (reply.status, reply.body["reason"]) == (422, "Invalid"), reply.body
    return [(one["field"], one["message"]) for one in reply.body["details"]["causes"]]


async def test_policy_needs_the_right_to_read_all_parameters(guarded: Api, alice: Api) -> None:
    reply = await alice.call("POST", POLICIES, valid_object("MutatingAdmissionPolicy"))
    assert causes(reply) == [
        (
            "spec.paramKind",
            'Forbidden: user &{alice  [devs system:authenticated] map[]} must have "get" permission on all objects of '
            "the referenced paramKind (kind=ConfigMap, apiVersion=v1)",
        )
    ]
    await grant(guarded, "one", "configmaps", resourceNames=["p"])
    assert (await alice.call("POST", POLICIES, valid_object("MutatingAdmissionPolicy"))).status == 422
    await grant(guarded, "all", "configmaps")
    made = await alice.post(POLICIES, valid_object("MutatingAdmissionPolicy"))
    made["spec"]["paramKind"] = {"apiVersion": "v1", "kind": "Secret"}
    assert causes(await alice.call("PUT", f"{POLICIES}/a", made))[0][0] == "spec.paramKind"


async def test_policy_that_keeps_its_parameters_is_written(guarded: Api, alice: Api) -> None:
    made = await guarded.post(POLICIES, valid_object("MutatingAdmissionPolicy"))
    made["spec"]["failurePolicy"] = "Ignore"
    assert (await alice.call("PUT", f"{POLICIES}/a", made)).status == 200
    without = valid_object("MutatingAdmissionPolicy", "b")
    del without["spec"]["paramKind"]
    assert (await alice.call("POST", POLICIES, without)).status == 201


async def test_parameters_of_an_unknown_kind_need_all_rights_of_the_group(guarded: Api, alice: Api) -> None:
    policy = valid_object("MutatingAdmissionPolicy")
    policy["spec"]["paramKind"] = {"apiVersion": "a.io/v1", "kind": "Limit"}
    await grant(guarded, "limits", "limits", group="a.io")
    assert causes(await alice.call("POST", POLICIES, policy))[0][0] == "spec.paramKind"
    await grant(guarded, "everything", "*", group="a.io")
    assert (await alice.call("POST", POLICIES, policy)).status == 201


async def test_binding_needs_the_right_to_read_its_parameter(guarded: Api, alice: Api) -> None:
    await guarded.post(POLICIES, valid_object("MutatingAdmissionPolicy"))
    reply = await alice.call("POST", BINDINGS, valid_object("MutatingAdmissionPolicyBinding"))
    assert causes(reply) == [
        (
            "spec.paramRef",
            'Forbidden: user &{alice  [devs system:authenticated] map[]} does not have "get" permission on the object '
            "referenced by paramRef",
        )
    ]
    await grant(guarded, "one", "configmaps", resourceNames=["p"])
    made = await alice.post(BINDINGS, valid_object("MutatingAdmissionPolicyBinding"))
    made["spec"]["policyName"] = "missing"
    assert causes(await alice.call("PUT", f"{BINDINGS}/a", made))[0][0] == "spec.paramRef"
