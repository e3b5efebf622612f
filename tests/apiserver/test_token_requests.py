"""Tokens of service accounts: how they are issued, and for how long they are valid (api-server §§23.1, 23.5)."""

import base64
from typing import Any

import msgspec
import pytest

from kcr.testing import VirtualClock
from kcr_devcluster.apiserver.authentication import AUDIENCE, User
from tests.kit.api import Api

pytestmark = pytest.mark.kcr_virtual

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
TOKENS = f"{ACCOUNTS}/builder/token"
PODS = "/api/v1/namespaces/default/pods"
CONTAINERS = [{"name": "c", "image": "i"}]
POD: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"serviceAccountName": "builder", "containers": CONTAINERS}}
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated")


async def make_account(api: Api) -> Any:
    return (await api.post(ACCOUNTS, {"metadata": {"name": "builder"}}))["metadata"]


async def test_token_names_its_account(api: Api) -> None:
    account = await make_account(api)
    reply = await api.call("POST", TOKENS, {"spec": {"expirationSeconds": 700}})
    assert (reply.status, reply.body["kind"], reply.body["metadata"]["name"]) == (201, "TokenRequest", "builder")
    assert reply.body["spec"] == {
        "audiences": ["https://kubernetes.default.svc.cluster.local"], "boundObjectRef": None, "expirationSeconds": 700,
    }  # fmt: skip
    token = reply.body["status"]["token"]
    extra = {"authentication.kubernetes.io/credential-id": (f"JTI={claims_of(token)['jti']}",)}
    user = User("system:serviceaccount:default:builder", account["uid"], GROUPS, extra)
    assert api.server.authenticate(token) == user


def claims_of(token: str) -> Any:
    payload = token.split(".")[1]
    return msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


async def bound_token(api: Api, **spec: Any) -> str:
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    reply = await api.post(TOKENS, {"spec": {"boundObjectRef": bound, **spec}})
    return str(reply["status"]["token"])


async def test_token_of_a_running_pod_names_the_node(api: Api) -> None:
    await make_account(api)
    node = await api.post("/api/v1/nodes", {"metadata": {"name": "n1"}})
    await api.post(PODS, {**POD, "spec": {**POD["spec"], "nodeName": "n1"}})
    token = await bound_token(api)
    user = api.server.authenticate(token)
    assert user is not None
    assert user.extra["authentication.kubernetes.io/node-name"] == ("n1",)
    assert user.extra["authentication.kubernetes.io/node-uid"] == (node["metadata"]["uid"],)
    await api.delete("/api/v1/nodes/n1")
    assert api.server.authenticate(token) is not None


async def test_token_that_pods_get_by_themselves_is_valid_for_a_year(api: Api, kcr_clock: VirtualClock) -> None:
    await make_account(api)
    await api.post(PODS, POD)
    by_itself, other = await bound_token(api, expirationSeconds=3607), await bound_token(api, expirationSeconds=3608)
    claims = claims_of(by_itself)
    assert claims["kubernetes.io"]["warnafter"] == claims["iat"] + 3607
    assert claims["exp"] == claims["iat"] + 365 * 24 * 3600
    await kcr_clock.advance(2 * 3600)
    assert api.server.authenticate(by_itself) is not None
    assert api.server.authenticate(other) is None


async def test_token_ends_with_its_time(api: Api, kcr_clock: VirtualClock) -> None:
    await make_account(api)
    token = (await api.post(TOKENS, {}))["status"]["token"]
    await kcr_clock.advance(3599)
    assert api.server.authenticate(token) is not None
    await kcr_clock.advance(1)
    assert api.server.authenticate(token) is None


async def test_token_ends_with_its_account(api: Api) -> None:
    await make_account(api)
    token = (await api.post(TOKENS, {}))["status"]["token"]
    await api.delete(f"{ACCOUNTS}/builder")
    await api.post(ACCOUNTS, {"metadata": {"name": "builder"}})
    assert api.server.authenticate(token) is None


async def test_bound_token_names_its_pod_and_ends_with_it(api: Api) -> None:
    await make_account(api)
    uid = (await api.post(PODS, POD))["metadata"]["uid"]
    bound = {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": uid}}}
    token = (await api.post(TOKENS, bound))["status"]["token"]
    user = api.server.authenticate(token)
    assert user is not None
    assert user.extra["authentication.kubernetes.io/pod-name"] == ("p",)
    await api.delete(f"{PODS}/p")
    assert api.server.authenticate(token) is None


@pytest.mark.parametrize("change", ["payload", "signature", "nonsense", "empty"])
async def test_token_that_was_not_issued_here_is_refused(api: Api, change: str) -> None:
    await make_account(api)
    token = (await api.post(TOKENS, {}))["status"]["token"]
    header, payload, signature = token.split(".")
    forged = {
        "payload": f"{header}.{payload[:-4]}AAAA.{signature}", "signature": f"{header}.{payload}.{signature[:-4]}AAAA",
        "nonsense": "täglich", "empty": "",
    }  # fmt: skip
    assert api.server.authenticate(forged[change]) is None


async def test_token_for_others_is_not_for_this_server(api: Api) -> None:
    await make_account(api)
    token = (await api.post(TOKENS, {"spec": {"audiences": ["vault"]}}))["status"]["token"]
    assert api.server.authenticate(token) is None


@pytest.mark.parametrize(
    ("path", "spec", "status", "message"),
    [
        pytest.param("none", {}, 404, 'serviceaccounts "none" not found', id="absent"),
        pytest.param(
            "builder", {"expirationSeconds": 599}, 422,
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 599: '
            "may not specify a duration less than 10 minutes", id="short",
        ),
        pytest.param(
            "builder", {"expirationSeconds": 0}, 422,
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 0: '
            "may not specify a duration less than 10 minutes", id="zero",
        ),
        pytest.param(
            "builder", {"expirationSeconds": (1 << 32) + 1}, 422,
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 4294967297: '
            "may not specify a duration larger than 2^32 seconds", id="long",
        ),
        pytest.param(
            "builder", {"boundObjectRef": {"kind": "Pod", "name": "p"}}, 404, 'pods "p" not found', id="no-such-pod"
        ),
        pytest.param(
            "builder", {"boundObjectRef": {"kind": "Job", "apiVersion": "batch/v1", "name": "p"}}, 400,
            "cannot bind token to object of type batch/v1, Kind=Job", id="job",
        ),
        pytest.param(
            "builder", {"boundObjectRef": {"kind": "Pod", "name": "other"}}, 400,
            'cannot bind token for serviceaccount "builder" to pod running with different serviceaccount name.',
            id="pod-of-another-account",
        ),
    ],
)  # fmt: skip
async def test_request_is_refused(api: Api, path: str, spec: dict[str, Any], status: int, message: str) -> None:
    await make_account(api)
    await api.post(PODS, {"metadata": {"name": "other"}, "spec": {"containers": CONTAINERS}})
    reply = await api.call("POST", f"{ACCOUNTS}/{path}/token", {"spec": spec})
    assert (reply.status, reply.body["message"]) == (status, message)


async def test_subresource_is_discovered(api: Api) -> None:
    resources = (await api.get("/api/v1"))["resources"]
    (token,) = [one for one in resources if one["name"] == "serviceaccounts/token"]
    assert (token["group"], token["version"], token["kind"], token["verbs"]) == (
        "authentication.k8s.io", "v1", "TokenRequest", ["create"],
    )  # fmt: skip


async def review(api: Api, **spec: Any) -> Any:
    return await api.post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": spec})


async def test_review_shows_whose_token_it_is(api: Api) -> None:
    account = await make_account(api)
    token = (await api.post(TOKENS, {"spec": {"audiences": ["vault", AUDIENCE]}}))["status"]["token"]
    answer = await review(api, token=token)
    assert answer["spec"] == {"token": token}
    assert answer["status"] == {
        "authenticated": True,
        "user": {
            "username": "system:serviceaccount:default:builder", "uid": account["uid"], "groups": list(GROUPS),
            "extra": {"authentication.kubernetes.io/credential-id": [f"JTI={claims_of(token)['jti']}"]},
        },
        "audiences": [AUDIENCE],
    }  # fmt: skip
    assert (await review(api, token=token, audiences=["vault", "other"]))["status"]["audiences"] == ["vault"]


async def test_review_of_an_invalid_token_says_why(api: Api, kcr_clock: VirtualClock) -> None:
    assert (await review(api, token="nonsense"))["status"] == {"user": {}, "error": "invalid bearer token"}
    await make_account(api)
    token = (await api.post(TOKENS, {"spec": {"audiences": ["vault"]}}))["status"]["token"]
    assert (await review(api, token=token))["status"]["error"] == (
        f'[invalid bearer token, token audiences ["vault"] is invalid for the target audiences ["{AUDIENCE}"]]'
    )
    own = (await api.post(TOKENS, {"spec": {"expirationSeconds": 600}}))["status"]["token"]
    await kcr_clock.advance(600)
    assert (await review(api, token=own))["status"]["error"] == (
        "[invalid bearer token, service account token has expired]"
    )


async def test_review_without_a_token_is_refused(api: Api) -> None:
    reply = await api.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {}})
    assert (reply.status, reply.body["message"]) == (400, "token is required for TokenReview in authentication")
