"""Reviews of access tell the truth in both modes (api-server §23.5).

Source: kubernetes/pkg/registry/authorization/{selfsubjectaccessreview,subjectaccessreview,localsubjectaccessreview,
selfsubjectrulesreview}/rest.go.
"""

from typing import Any

import pytest

from tests.kit.api import Api, binding, role

pytestmark = pytest.mark.kcr_virtual
REVIEWS = "/apis/authorization.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
HERE = f"{RBAC}/namespaces/default"
LIST_PODS = {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "default"}}
LIST_SECRETS = {"resourceAttributes": {"verb": "list", "resource": "secrets", "namespace": "default"}}


async def status(api: Api, plural: str, spec: object, namespace: str = "") -> Any:
    target = f"{REVIEWS}/namespaces/{namespace}/{plural}" if namespace else f"{REVIEWS}/{plural}"
    return (await api.post(target, {"spec": spec}))["status"]


async def let_alice_read(guarded: Api) -> str:
    """Bind a role to alice, and return what reasons say of it."""
    await guarded.post(f"{HERE}/roles", role("reader", "get list", "pods"))
    await guarded.post(f"{HERE}/rolebindings", binding("readers", "Role", "reader", "User:alice"))
    return 'RBAC: allowed by RoleBinding "readers/default" of Role "reader" to User "alice"'


async def test_user_asks_what_he_may_do(guarded: Api) -> None:
    reason, alice = await let_alice_read(guarded), guarded.as_user("alice")
    assert await status(alice, "selfsubjectaccessreviews", LIST_PODS) == {"allowed": True, "reason": reason}
    assert await status(alice, "selfsubjectaccessreviews", LIST_SECRETS) == {"allowed": False}
    path = {"nonResourceAttributes": {"path": "/api", "verb": "get"}}
    assert await status(alice, "selfsubjectaccessreviews", path) == {
        "allowed": True,
        "reason": 'RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to '
        'Group "system:authenticated"',
    }
    # The group system:masters needs no role.
    assert await status(guarded, "selfsubjectaccessreviews", LIST_SECRETS) == {"allowed": True}


async def test_decision_of_a_review_is_that_of_the_request(guarded: Api) -> None:
    await let_alice_read(guarded)
    alice = guarded.as_user("alice")
    for resource in ("pods", "secrets", "nodes", "nothing"):
        spec = {"resourceAttributes": {"verb": "list", "resource": resource, "namespace": "default"}}
        code = (await alice.call("GET", f"/api/v1/namespaces/default/{resource}")).status
        assert (await status(alice, "selfsubjectaccessreviews", spec))["allowed"] is (code != 403)


async def test_others_are_asked_about_by_who_may(guarded: Api) -> None:
    reason = await let_alice_read(guarded)
    spec = {"user": "alice", **LIST_PODS}
    assert await status(guarded, "subjectaccessreviews", spec) == {"allowed": True, "reason": reason}
    assert await status(guarded, "subjectaccessreviews", {"user": "bob", **LIST_PODS}) == {"allowed": False}
    assert await status(guarded, "localsubjectaccessreviews", spec, "default") == {"allowed": True, "reason": reason}
    reply = await guarded.as_user("alice").call("POST", f"{REVIEWS}/subjectaccessreviews", {"spec": spec})
    assert (reply.status, reply.body["details"]["kind"]) == (403, "subjectaccessreviews")
    await guarded.post(f"{HERE}/rolebindings", binding("admins", "ClusterRole", "admin", "User:carol"))
    carol = guarded.as_user("carol")
    assert (await status(carol, "localsubjectaccessreviews", spec, "default"))["allowed"] is True
    assert (await carol.call("POST", f"{REVIEWS}/subjectaccessreviews", {"spec": spec})).status == 403


async def test_local_review_is_about_its_namespace(guarded: Api) -> None:
    target = f"{REVIEWS}/namespaces/default/localsubjectaccessreviews"
    body = {"metadata": {"namespace": "other"}, "spec": {"user": "alice", **LIST_PODS}}
    assert (await guarded.call("POST", target, body)).status == 400
    made = await guarded.post(target, {"spec": {"user": "alice", **LIST_PODS}})
    assert (made["kind"], made["metadata"]) == ("LocalSubjectAccessReview", {"namespace": "default"})


async def test_rules_are_those_of_all_bindings(guarded: Api) -> None:
    await let_alice_read(guarded)
    await guarded.post(f"{HERE}/rolebindings", binding("broken", "ClusterRole", "nope", "User:alice"))
    found = await status(guarded.as_user("alice"), "selfsubjectrulesreviews", {"namespace": "default"})
    assert {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]} in found["resourceRules"]
    assert any("/version" in rule["nonResourceURLs"] for rule in found["nonResourceRules"])
    assert found["incomplete"] is False
    assert found["evaluationError"] == 'clusterrole.rbac.authorization.k8s.io "nope" not found'
    elsewhere = await status(guarded.as_user("alice"), "selfsubjectrulesreviews", {"namespace": "kube-system"})
    assert all(rule["resources"] != ["pods"] for rule in elsewhere["resourceRules"])


async def test_everybody_may_everything_by_default(api: Api) -> None:
    alice = api.as_user("alice")
    assert await status(alice, "selfsubjectaccessreviews", LIST_SECRETS) == {"allowed": True}
    assert await status(alice, "subjectaccessreviews", {"user": "bob", **LIST_SECRETS}) == {"allowed": True}
    assert await status(alice, "selfsubjectrulesreviews", {"namespace": "default"}) == {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        pytest.param("application/json;as=Table;v=v1;g=meta.k8s.io", 406, id="table"),
        pytest.param("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", 201, id="or-else-json"),
        pytest.param("application/yaml", 201, id="yaml"),
    ],
)
async def test_reviews_have_no_table(api: Api, accept: str, status: int) -> None:
    """Source: test/e2e/apimachinery/table_conversion.go, should return a 406 for a backend …."""
    body = {"spec": LIST_PODS}
    reply = await api.call("POST", f"{REVIEWS}/selfsubjectaccessreviews", body, accept=accept)
    assert reply.status == status
    if status == 406:
        assert reply.body["reason"] == "NotAcceptable"


async def test_reviews_are_discovered_and_only_created(api: Api) -> None:
    """Source: kubernetes/pkg/registry/authorization/rest/storage_authorization.go."""
    found = (await api.get(REVIEWS))["resources"]
    assert {one["name"]: (one["namespaced"], one["verbs"]) for one in found} == {
        "localsubjectaccessreviews": (True, ["create"]),
        "selfsubjectaccessreviews": (False, ["create"]),
        "selfsubjectrulesreviews": (False, ["create"]),
        "subjectaccessreviews": (False, ["create"]),
    }
    for method in ("GET", "DELETE", "PUT"):
        assert (await api.call(method, f"{REVIEWS}/subjectaccessreviews")).status == 405
    assert (await api.call("GET", f"{REVIEWS}/namespaces/default/localsubjectaccessreviews?watch=1")).status == 405
