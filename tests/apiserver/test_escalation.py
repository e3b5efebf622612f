"""A user grants only rights that he has himself (api-server §23.2).

Source: kubernetes/pkg/registry/rbac/{escalation_check,helpers}.go, validation/rule.go, ConfirmNoEscalation, and
{role,clusterrole,rolebinding,clusterrolebinding}/policybased/storage.go.
"""

from typing import Any

import pytest

from tests.kit.api import Api, Reply, binding, role

pytestmark = pytest.mark.kcr_virtual
RBAC = "/apis/rbac.authorization.k8s.io/v1"
HERE = f"{RBAC}/namespaces/default"
ROLE_KINDS = ("roles", "rolebindings")


@pytest.fixture
def alice(guarded: Api) -> Api:
    """Give the API as a user sees it who writes roles, and reads pods."""
    return guarded.as_user("alice", "devs")


async def may(guarded: Api, name: str, verbs: str, *resources: str, group: str = "", **rule: Any) -> None:
    await guarded.post(f"{RBAC}/clusterroles", role(name, verbs, *resources, apiGroups=[group], **rule))
    await guarded.post(f"{RBAC}/clusterrolebindings", binding(name, "ClusterRole", name, "User:alice"))


async def may_write_roles(guarded: Api) -> None:
    kinds = (*ROLE_KINDS, *(f"cluster{kind}" for kind in ROLE_KINDS))
    await may(guarded, "roles", "create update patch delete", *kinds, group="rbac.authorization.k8s.io")
    await may(guarded, "pods", "get list", "pods")


def refusal(reply: Reply) -> str:
    assert (reply.status, reply.body["reason"]) == (403, "Forbidden"), reply.body
    return str(reply.body["message"])


async def test_role_allows_no_more_than_its_author_may(guarded: Api, alice: Api) -> None:
    await may_write_roles(guarded)
    assert (await alice.call("POST", f"{HERE}/roles", role("a", "get", "pods"))).status == 201
    more = role("b", "get list", "pods", "secrets")
    assert refusal(await alice.call("POST", f"{HERE}/roles", more)) == (
        'roles.rbac.authorization.k8s.io "b" is forbidden: user "alice" (groups=["devs" "system:authenticated"]) is '
        "attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}'
    )
    for method, body in (("PUT", role("a", "get", "secrets")), ("PATCH", {"rules": role("", "*", "pods")["rules"]})):
        form = {"content_type": "application/merge-patch+json"} if method == "PATCH" else {}
        assert "not currently held" in refusal(await alice.call(method, f"{HERE}/roles/a", body, **form))
    applied = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", **role("a", "get", "nodes")}
    assert "not currently held" in refusal(await alice.apply(f"{HERE}/roles/a", applied, query="force=1"))
    assert (await alice.call("PUT", f"{HERE}/roles/a", role("a", "list", "pods"))).status == 200


async def test_role_is_bound_by_who_has_its_rights(guarded: Api, alice: Api) -> None:
    await may_write_roles(guarded)
    await guarded.post(f"{RBAC}/clusterroles", role("reads", "get", "pods"))
    target = f"{HERE}/rolebindings"
    assert (await alice.call("POST", target, binding("a", "ClusterRole", "reads", "User:bob"))).status == 201
    words = refusal(await alice.call("POST", target, binding("b", "ClusterRole", "cluster-admin", "User:alice")))
    assert words.endswith(
        '\n{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}'
    )  # fmt: skip
    missing = await alice.call("POST", target, binding("c", "ClusterRole", "nope", "User:bob"))
    assert (missing.status, missing.body["message"]) == (
        404, 'clusterrole.rbac.authorization.k8s.io "nope" not found'
    )  # fmt: skip
    strange = await alice.call("POST", target, binding("c", "Pod", "a", "User:bob"))
    assert (strange.status, strange.body["message"]) == (500, 'unsupported role reference kind: "Pod"')
    wide = await alice.call("POST", f"{RBAC}/clusterrolebindings", binding("d", "ClusterRole", "edit", "User:alice"))
    assert "not currently held" in refusal(wide)


async def test_escalate_and_bind_lift_the_checks(guarded: Api, alice: Api) -> None:
    await may_write_roles(guarded)
    group = "rbac.authorization.k8s.io"
    await may(guarded, "escalates", "escalate", "roles", group=group)
    assert (await alice.call("POST", f"{HERE}/roles", role("a", "*", "secrets"))).status == 201
    assert "not currently" in refusal(await alice.call("POST", f"{RBAC}/clusterroles", role("a", "*", "secrets")))
    await may(guarded, "binds", "bind", "clusterroles", group=group, resourceNames=["edit"])
    target = f"{HERE}/rolebindings"
    assert (await alice.call("POST", target, binding("a", "ClusterRole", "edit", "User:bob"))).status == 201
    assert "not currently" in refusal(await alice.call("POST", target, binding("b", "ClusterRole", "admin", "User:b")))


async def test_aggregation_needs_all_rights(guarded: Api, alice: Api) -> None:
    await may_write_roles(guarded)
    gathers = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    words = refusal(await alice.call("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "a"}, **gathers}))
    assert words == (
        'clusterroles.rbac.authorization.k8s.io "a" is forbidden: '
        "must have cluster-admin privileges to use the aggregationRule"
    )
    # Neither may he end it.
    await guarded.post(f"{RBAC}/clusterroles", {"metadata": {"name": "a"}, **gathers})
    assert "cluster-admin" in refusal(await alice.call("PUT", f"{RBAC}/clusterroles/a", {"metadata": {"name": "a"}}))


async def test_finalizers_of_a_wider_role_may_be_changed(guarded: Api, alice: Api) -> None:
    await may_write_roles(guarded)
    await guarded.post(f"{HERE}/roles", role("a", "*", "secrets"))
    form = "application/merge-patch+json"
    patch = {"metadata": {"finalizers": ["a.io/b"]}}
    assert (await alice.call("PATCH", f"{HERE}/roles/a", patch, content_type=form)).status == 200
    relabel = {"metadata": {"labels": {"a": "b"}}}
    assert "not currently" in refusal(await alice.call("PATCH", f"{HERE}/roles/a", relabel, content_type=form))


async def test_checks_end_where_everybody_may_do_everything(api: Api) -> None:
    alice = api.as_user("alice")
    assert (await alice.call("POST", f"{HERE}/roles", role("a", "*", "secrets"))).status == 201
    bound = binding("a", "ClusterRole", "nope", "User:alice")
    assert (await alice.call("POST", f"{HERE}/rolebindings", bound)).status == 201
