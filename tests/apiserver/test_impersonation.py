"""Users who act as others.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation/{impersonation,
constrained_impersonation}_test.go; api-server §23.1.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from multidict import CIMultiDict

from kcr_devcluster.apiserver import APIServer
from kcr_devcluster.apiserver.authentication import ADMIN, User
from kcr_devcluster.apiserver.server import HTTPRequest
from tests.kit.api import Api, Reply

pytestmark = pytest.mark.kcr_virtual

Headers = Sequence[tuple[str, str]]
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
BOB = User("bob", groups=("system:authenticated",))
JANE = ("Impersonate-User", "jane")
ACCOUNT = "system:serviceaccount:default:builder"


async def send(server: APIServer, headers: Headers, target: str = PODS, user: User = ADMIN) -> Reply:
    """Send a GET, or a POST of a review."""
    method = "POST" if "reviews" in target else "GET"
    body = b"{}" if method == "POST" else b""
    answer = await server.handle(HTTPRequest(method, target, CIMultiDict(headers), body, user))
    assert isinstance(answer.body, bytes)
    return Reply(answer.status, answer.headers, msgspec.json.decode(answer.body))


async def grant(api: Api, *rules: dict[str, Any]) -> None:
    """Let bob do more."""
    await api.post(f"{RBAC}/clusterroles", {"metadata": {"name": "more"}, "rules": rules})
    bound = {"kind": "ClusterRole", "name": "more", "apiGroup": "rbac.authorization.k8s.io"}
    subject = {"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "more"}, "roleRef": bound, "subjects": [subject]}
    await api.post(f"{RBAC}/clusterrolebindings", binding)


def rule(verb: str, resource: str, group: str = "", **more: Any) -> dict[str, Any]:
    return {"verbs": [verb], "resources": [resource], "apiGroups": [group], **more}


@pytest.mark.parametrize(
    ("headers", "user"),
    [
        pytest.param([JANE], {"username": "jane", "groups": ["system:authenticated"]}, id="name"),
        pytest.param(
            [JANE, ("Impersonate-Group", "dev"), ("Impersonate-Group", "ops")],
            {"username": "jane", "groups": ["dev", "ops", "system:authenticated"]}, id="groups",
        ),
        pytest.param(
            [("Impersonate-User", ACCOUNT)],
            {"username": ACCOUNT, "groups": [
                "system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated",
            ]}, id="account",
        ),
        pytest.param(
            [("Impersonate-User", ACCOUNT), ("Impersonate-Group", "dev")],
            {"username": ACCOUNT, "groups": ["dev", "system:authenticated"]}, id="account-with-groups",
        ),
        pytest.param(
            [("Impersonate-User", "system:serviceaccount:default")],
            {"username": "system:serviceaccount:default", "groups": ["system:authenticated"]}, id="no-account",
        ),
        pytest.param(
            [("Impersonate-User", "system:anonymous")],
            {"username": "system:anonymous", "groups": ["system:unauthenticated"]}, id="anonymous",
        ),
        pytest.param(
            [JANE, ("Impersonate-Group", "system:unauthenticated")],
            {"username": "jane", "groups": ["system:unauthenticated"]}, id="unauthenticated",
        ),
        pytest.param(
            [JANE, ("Impersonate-Group", "system:masters")],
            {"username": "jane", "groups": ["system:masters", "system:authenticated"]}, id="masters",
        ),
        pytest.param(
            [("Impersonate-User", "system:node:n1")],
            {"username": "system:node:n1", "groups": ["system:nodes", "system:authenticated"]}, id="node",
        ),
        pytest.param(
            [JANE, ("impersonate-uid", "7"), ("Impersonate-Extra-Acme.io%2fScopes", "a"),
             ("Impersonate-Extra-acme.io%2Fscopes", "b")],
            {"username": "jane", "uid": "7", "groups": ["system:authenticated"],
             "extra": {"acme.io/scopes": ["a", "b"]}},
            id="uid-and-extra",
        ),
        pytest.param(
            [], {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]}, id="no-user"
        ),
    ],
)  # fmt: skip
async def test_request_is_that_of_the_other_user(api: Api, headers: Headers, user: dict[str, Any]) -> None:
    reply = await send(api.server, headers, REVIEWS)
    assert reply.status == 201
    assert reply.body["status"]["userInfo"] == user


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        pytest.param(
            ("Impersonate-Group", "dev"),
            '&user.DefaultInfo{Name:"", UID:"", Groups:[]string{"dev"}, Extra:map[string][]string(nil)}', id="group",
        ),
        pytest.param(
            ("Impersonate-Uid", "7"),
            '&user.DefaultInfo{Name:"", UID:"7", Groups:[]string(nil), Extra:map[string][]string(nil)}', id="uid",
        ),
        pytest.param(
            ("Impersonate-Extra-Scopes", "view"),
            '&user.DefaultInfo{Name:"", UID:"", Groups:[]string(nil), '
            'Extra:map[string][]string{"scopes":[]string{"view"}}}', id="extra",
        ),
    ],
)  # fmt: skip
async def test_headers_without_a_user_are_refused(api: Api, header: tuple[str, str], shown: str) -> None:
    reply = await send(api.server, [header])
    assert (reply.status, reply.body["reason"]) == (400, "BadRequest")
    assert reply.body["message"] == f"requested {shown} without impersonating a user name"


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        pytest.param(
            [JANE],
            'pods is forbidden: User "bob" cannot impersonate-on:user-info:list resource "pods" in API group "" '
            'in the namespace "default"', id="user",
        ),
        pytest.param(
            [("Impersonate-User", ACCOUNT)],
            'pods is forbidden: User "bob" cannot impersonate-on:serviceaccount:list resource "pods" in API group "" '
            'in the namespace "default"', id="account",
        ),
        pytest.param(
            [("Impersonate-User", ACCOUNT), ("Impersonate-Group", "dev")],
            'serviceaccounts "builder" is forbidden: User "bob" cannot impersonate resource "serviceaccounts" '
            'in API group "" in the namespace "default"', id="account-with-groups",
        ),
        pytest.param(
            [("Impersonate-User", "system:node:n1")],
            'pods is forbidden: User "bob" cannot impersonate-on:arbitrary-node:list resource "pods" in API group "" '
            'in the namespace "default"', id="node",
        ),
    ],
)  # fmt: skip
async def test_user_without_rights_acts_as_nobody_else(guarded: Api, headers: Headers, message: str) -> None:
    reply = await send(guarded.server, headers, user=BOB)
    assert (reply.status, reply.body["reason"], reply.body["message"]) == (403, "Forbidden", message)


async def test_verb_impersonate_allows_all_that_the_other_may(guarded: Api) -> None:
    await grant(guarded, rule("impersonate", "users", resourceNames=["jane"]))
    reply = await send(guarded.server, [JANE], REVIEWS, user=BOB)
    assert reply.body["status"]["userInfo"] == {"username": "jane", "groups": ["system:authenticated"]}
    # What jane may not do, bob may not do as jane.
    refused = await send(guarded.server, [JANE], user=BOB)
    assert (refused.status, 'User "jane" cannot list resource "pods"' in refused.body["message"]) == (403, True)


@pytest.mark.parametrize(
    "header",
    [("Impersonate-Group", "system:masters"), ("Impersonate-Uid", "7"), ("Impersonate-Extra-Acme.io%2fa", "b")],
)
async def test_each_part_needs_a_right_of_its_own(guarded: Api, header: tuple[str, str]) -> None:
    await grant(guarded, rule("impersonate", "users"))
    assert (await send(guarded.server, [JANE, header], user=BOB)).status == 403


async def test_rights_to_groups_uids_and_extras_allow_them(guarded: Api) -> None:
    reviews = "authentication.k8s.io"
    await grant(
        guarded,
        rule("impersonate", "users"),
        rule("impersonate", "groups", resourceNames=["system:masters"]),
        rule("impersonate", "uids", reviews),
        rule("impersonate", "userextras/acme.io/a", reviews, resourceNames=["b"]),
    )
    extra = ("Impersonate-Extra-Acme.io%2fa", "b")
    headers = [JANE, ("Impersonate-Group", "system:masters"), ("Impersonate-Uid", "7"), extra]
    assert (await send(guarded.server, headers, user=BOB)).status == 200


async def test_constrained_right_is_for_some_requests_only(guarded: Api) -> None:
    await grant(
        guarded,
        rule("impersonate:user-info", "users", "authentication.k8s.io", resourceNames=["jane"]),
        rule("impersonate:user-info", "groups", "authentication.k8s.io"),
        rule("impersonate-on:user-info:list", "pods"),
        rule("list", "pods"),
        rule("list", "secrets"),
    )
    authenticated = {"kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"}
    bound = {"kind": "ClusterRole", "name": "more", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "all"}, "roleRef": bound, "subjects": [authenticated]}
    await guarded.post(f"{RBAC}/clusterrolebindings", binding)
    assert (await send(guarded.server, [JANE], user=BOB)).status == 200
    assert (await send(guarded.server, [("Impersonate-User", "joe")], user=BOB)).status == 403
    assert (await send(guarded.server, [JANE], "/api/v1/namespaces/default/secrets", user=BOB)).status == 403
    masters = await send(guarded.server, [JANE, ("Impersonate-Group", "system:masters")], user=BOB)
    assert masters.body["message"] == (
        'groups.authentication.k8s.io "system:masters" is forbidden: User "bob" cannot impersonate:user-info resource '
        '"groups" in API group "authentication.k8s.io" at the cluster scope: impersonating the system:masters group is '
        "not allowed"
    )
