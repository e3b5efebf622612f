"""Who may do what, with roles (api-server §23.2).

Source: kubernetes/plugin/pkg/auth/authorizer/rbac/{rbac.go,bootstrappolicy}; apiserver/pkg/endpoints/filters/
authorization.go.
"""

from typing import Any

import pytest

from tests.kit.api import Api, binding, config_map, pod, role

pytestmark = pytest.mark.kcr_virtual
CORE = "/api/v1/namespaces/default"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
HERE = f"{RBAC}/namespaces/default"
ACCOUNT = "system:serviceaccount:default:builder"


async def code(api: Api, method: str, target: str, body: object = b"", **headers: str) -> int:
    return (await api.call(method, target, body, **headers)).status


async def let_read_pods(guarded: Api, *subjects: str) -> None:
    await guarded.post(f"{HERE}/roles", role("reader", "get list watch", "pods"))
    await guarded.post(f"{HERE}/rolebindings", binding("readers", "Role", "reader", *subjects))


async def test_user_without_rights_is_refused_before_all_else(guarded: Api) -> None:
    alice = guarded.as_user("alice")
    reply = await alice.call("GET", f"{CORE}/pods/nope")
    assert (reply.status, reply.body["reason"]) == (403, "Forbidden")
    assert reply.body["details"] == {"name": "nope", "kind": "pods"}
    assert reply.body["message"] == (
        'pods "nope" is forbidden: User "alice" cannot get resource "pods" in API group "" in the namespace "default"'
    )
    # An unknown kind, an unknown namespace, a method that is not allowed, a body that is none.
    assert await code(alice, "GET", "/apis/nope/v1/things") == 403
    assert await code(alice, "GET", "/api/v1/namespaces/nope/pods") == 403
    assert await code(alice, "PUT", f"{CORE}/pods") == 403
    assert await code(alice, "POST", f"{CORE}/pods", b"{") == 403
    assert await code(guarded, "GET", f"{CORE}/pods/nope") == 404


@pytest.mark.parametrize(
    "subject", ["User:" + ACCOUNT, "ServiceAccount:default/builder", "ServiceAccount:builder", "Group:devs"]
)
async def test_binding_is_for_users_groups_and_accounts(guarded: Api, subject: str) -> None:
    builder = guarded.as_user(ACCOUNT, "devs")
    assert await code(builder, "GET", f"{CORE}/pods") == 403
    await let_read_pods(guarded, subject)
    assert await code(builder, "GET", f"{CORE}/pods") == 200
    assert await code(builder, "GET", "/api/v1/pods") == 403
    assert await code(builder, "POST", f"{CORE}/pods", pod("a")) == 403
    assert await code(builder, "GET", f"{CORE}/pods/a/log") == 403
    assert await code(guarded.as_user("bob"), "GET", f"{CORE}/pods") == 403


@pytest.mark.parametrize("verbs", ["get", "create", "get create"])
async def test_connection_into_a_pod_needs_get_and_create(guarded: Api, verbs: str) -> None:
    # Source: the feature gate AuthorizePodWebsocketUpgradeCreatePermission, on from Kubernetes 1.35.
    await guarded.post(f"{HERE}/roles", role("shell", verbs, "pods/exec"))
    await guarded.post(f"{HERE}/rolebindings", binding("shells", "Role", "shell", "User:alice"))
    reply = await guarded.as_user("alice").call("GET", f"{CORE}/pods/a/exec?command=ls")
    assert reply.status == (404 if verbs == "get create" else 403)
    if verbs == "get":
        assert 'cannot create resource "pods/exec" in API group ""' in reply.body["message"]


async def test_group_of_accounts_is_that_of_their_namespace(guarded: Api) -> None:
    await let_read_pods(guarded, "Group:system:serviceaccounts:default")
    assert await code(guarded.as_user(ACCOUNT), "GET", f"{CORE}/pods") == 200
    assert await code(guarded.as_user("system:serviceaccount:other:builder"), "GET", f"{CORE}/pods") == 403


async def test_rights_follow_each_change_at_once(guarded: Api) -> None:
    alice = guarded.as_user("alice")
    await let_read_pods(guarded, "User:alice")
    assert await code(alice, "GET", f"{CORE}/pods") == 200
    await guarded.patch(f"{HERE}/roles/reader", {"rules": []})
    assert await code(alice, "GET", f"{CORE}/pods") == 403
    await guarded.put(f"{HERE}/roles/reader", role("reader", "list", "pods"))
    assert await code(alice, "GET", f"{CORE}/pods") == 200
    await guarded.patch(f"{HERE}/rolebindings/readers", {"subjects": [{"kind": "User", "name": "bob"}]})
    assert await code(alice, "GET", f"{CORE}/pods") == 403
    assert await code(guarded.as_user("bob"), "GET", f"{CORE}/pods") == 200
    await guarded.delete(f"{HERE}/rolebindings/readers")
    assert await code(guarded.as_user("bob"), "GET", f"{CORE}/pods") == 403


async def test_cluster_role_holds_where_it_is_bound(guarded: Api) -> None:
    await guarded.post(f"{HERE}/rolebindings", binding("a", "ClusterRole", "view", "User:alice"))
    await guarded.post(f"{RBAC}/clusterrolebindings", binding("b", "ClusterRole", "view", "User:bob"))
    alice, bob = guarded.as_user("alice"), guarded.as_user("bob")
    for target, codes in {
        f"{CORE}/pods": (200, 200),
        "/api/v1/pods": (403, 200),
        f"{CORE}/secrets": (403, 403),
    }.items():
        assert (await code(alice, "GET", target), await code(bob, "GET", target)) == codes
    # The namespace itself is in the namespace.
    assert await code(alice, "GET", CORE) == 200
    assert await code(alice, "GET", "/api/v1/namespaces/kube-system") == 403


async def test_rule_with_names_is_about_these_objects(guarded: Api) -> None:
    await guarded.post(f"{CORE}/configmaps", config_map("a"))
    await guarded.post(f"{HERE}/roles", role("one", "get list watch", "configmaps", resourceNames=["a"]))
    await guarded.post(f"{HERE}/rolebindings", binding("one", "Role", "one", "User:alice"))
    alice = guarded.as_user("alice")
    assert await code(alice, "GET", f"{CORE}/configmaps/a") == 200
    assert await code(alice, "GET", f"{CORE}/configmaps/b") == 403
    assert await code(alice, "GET", f"{CORE}/configmaps") == 403
    assert await code(alice, "GET", f"{CORE}/configmaps?fieldSelector=metadata.name=a") == 200


async def test_missing_role_is_named_in_the_refusal(guarded: Api) -> None:
    await guarded.post(f"{HERE}/rolebindings", binding("a", "ClusterRole", "nope", "User:alice"))
    reply = await guarded.as_user("alice").call("GET", f"{CORE}/pods")
    assert reply.body["message"].endswith(': RBAC: clusterrole.rbac.authorization.k8s.io "nope" not found')
    await guarded.post(f"{HERE}/rolebindings", binding("b", "Role", "no", "User:alice"))
    reply = await guarded.as_user("alice").call("GET", f"{CORE}/pods")
    assert reply.body["message"].endswith(
        'RBAC: [clusterrole.rbac.authorization.k8s.io "nope" not found, role.rbac.authorization.k8s.io "no" not found]'
    )


async def test_discovery_is_for_users_and_health_for_everybody(guarded: Api) -> None:
    anonymous = Api(guarded.server, guarded.as_user("x").user._replace(groups=("system:unauthenticated",)))
    for target in ("/api", "/apis", "/apis/batch/v1", "/openapi/v3"):
        assert (await code(guarded.as_user("alice"), "GET", target), await code(anonymous, "GET", target)) == (200, 403)
    for target in ("/version", "/healthz", "/readyz"):
        assert await code(anonymous, "GET", target) == 200
    assert await code(guarded.as_user("alice"), "POST", "/version") == 403


async def test_put_and_apply_that_create_need_to_create(guarded: Api) -> None:
    await guarded.post(f"{RBAC}/clusterroles", role("changer", "update patch", "configmaps", "events"))
    await guarded.post(f"{HERE}/rolebindings", binding("a", "ClusterRole", "changer", "User:alice"))
    alice = guarded.as_user("alice")
    target = f"{CORE}/configmaps/a"
    applied = {"apiVersion": "v1", "kind": "ConfigMap", **config_map("a")}
    reply = await alice.apply(target, applied)
    assert (reply.status, reply.body["message"].split(" resource ")[0]) == (
        403, 'configmaps "a" is forbidden: User "alice" cannot create',
    )  # fmt: skip
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}}
    assert await code(alice, "PUT", f"{CORE}/events/e", event) == 403
    await guarded.post(f"{CORE}/configmaps", config_map("a"))
    assert (await alice.apply(f"{target}", applied, query="force=1")).status == 200


async def test_custom_resources_are_in_no_default_role(guarded: Api) -> None:
    await guarded.post(f"{HERE}/rolebindings", binding("a", "ClusterRole", "admin", "User:alice"))
    alice = guarded.as_user("alice")
    assert await code(alice, "GET", "/apis/batch/v1/namespaces/default/jobs") == 200
    assert await code(alice, "GET", "/apis/example.dev/v1/namespaces/default/websites") == 403


async def test_default_roles_are_those_of_a_cluster(guarded: Api) -> None:
    roles: dict[str, Any] = {r["metadata"]["name"]: r for r in (await guarded.get(f"{RBAC}/clusterroles"))["items"]}
    assert {"cluster-admin", "admin", "edit", "view", "system:discovery", "system:controller:job-controller"} <= set(
        roles
    )
    metadata = roles["edit"]["metadata"]
    assert metadata["labels"] == {
        "kubernetes.io/bootstrapping": "rbac-defaults", "rbac.authorization.k8s.io/aggregate-to-admin": "true",
    }  # fmt: skip
    assert metadata["annotations"] == {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    # What the controller aggregates is there from the beginning: edit has all of view, admin all of edit.
    for wide, narrow in (("edit", "view"), ("admin", "edit")):
        assert [rule for rule in roles[narrow]["rules"] if rule not in roles[wide]["rules"]] == []
    bindings = {b["metadata"]["name"]: b for b in (await guarded.get(f"{RBAC}/clusterrolebindings"))["items"]}
    assert [one["name"] for one in bindings["cluster-admin"]["subjects"]] == ["system:masters"]
    assert bindings["system:controller:job-controller"]["subjects"] == [
        {"kind": "ServiceAccount", "name": "job-controller", "namespace": "kube-system"}
    ]


async def test_all_bindings_name_roles_that_are_there(guarded: Api) -> None:
    roles = {r["metadata"]["name"] for r in (await guarded.get(f"{RBAC}/clusterroles"))["items"]}
    for found in (await guarded.get(f"{RBAC}/clusterrolebindings"))["items"]:
        assert found["roleRef"]["name"] in roles


async def test_role_warns_where_everybody_may_do_everything(api: Api, guarded: Api) -> None:
    target = f"{HERE}/roles"
    warned = await api.call("POST", target, role("a", "get", "pods"))
    assert "without --authorization rbac" in warned.headers["Warning"]
    assert "Warning" not in (await guarded.call("POST", target, role("a", "get", "pods"))).headers
    assert (await api.get(f"{RBAC}/clusterroles"))["items"] == []
    assert await code(api.as_user("alice"), "DELETE", f"{CORE}/pods") == 200
