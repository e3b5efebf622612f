"""The API of certificate signing requests.

Source: kubernetes/pkg/apis/certificates/validation/validation_test.go; pkg/registry/certificates/certificates/
strategy_test.go; test/integration/certificates/{admission_approval,admission_subjectrestriction}_test.go.
"""

from base64 import b64encode
from typing import Any

import msgspec
import pytest

from kcr_devcluster.apiserver import APIServer
from kcr_devcluster.apiserver.authentication import ADMIN, User
from kcr_devcluster.apiserver.server import HTTPRequest
from tests.kit.api import TABLE, Api, Reply
from tests.kit.client_certificates import certificate_request

pytestmark = pytest.mark.kcr_virtual

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SIGNER = "kubernetes.io/kube-apiserver-client"
JANE = User("jane", "7", ("dev", "system:authenticated"), {"acme.io/a": ("b",)})
APPROVED = {"type": "Approved", "status": "True", "reason": "Manual", "message": "ok"}


def signing_request(name: str = "jane", *, groups: tuple[str, ...] = (), **spec: Any) -> dict[str, Any]:
    pem = certificate_request("jane", *groups)[1]
    given = {"request": b64encode(pem.encode()).decode(), "signerName": SIGNER, "usages": ["client auth"], **spec}
    return {"metadata": {"name": name}, "spec": given}


async def send(server: APIServer, method: str, path: str, body: object, user: User = ADMIN) -> Reply:
    answer = await server.handle(HTTPRequest(method, path, {}, msgspec.json.encode(body), user))
    assert isinstance(answer.body, bytes)
    return Reply(answer.status, answer.headers, msgspec.json.decode(answer.body))


async def approve(api: Api, condition: dict[str, Any] = APPROVED, user: User = ADMIN) -> Reply:
    found = await api.get(f"{REQUESTS}/jane")
    changed = {**found, "status": {**found["status"], "conditions": [condition], "certificate": "bm9uZQ=="}}
    return await send(api.server, "PUT", f"{REQUESTS}/jane/approval", changed, user)


async def test_requester_is_the_user_of_the_request(api: Api) -> None:
    body = signing_request(username="another-user")
    reply = await send(api.server, "POST", REQUESTS, body, JANE)
    assert reply.status == 201
    spec = reply.body["spec"]
    assert (spec["username"], spec["uid"], spec["groups"]) == ("jane", "7", ["dev", "system:authenticated"])
    assert (spec["extra"], reply.body["status"]) == ({"acme.io/a": ["b"]}, {})


async def test_request_does_not_change(api: Api) -> None:
    made = await api.post(REQUESTS, signing_request())
    changed = {**made, "spec": {**made["spec"], "usages": ["server auth"]}, "status": {"conditions": [APPROVED]}}
    after = await api.put(f"{REQUESTS}/jane", changed)
    assert (after["spec"], after["status"]) == (made["spec"], {})


async def test_approval_sets_conditions_and_their_times_alone(api: Api) -> None:
    made = await api.post(REQUESTS, signing_request())
    reply = await approve(api)
    assert reply.status == 200
    (condition,) = reply.body["status"]["conditions"]
    now = made["metadata"]["creationTimestamp"]
    assert condition == {**APPROVED, "lastUpdateTime": now, "lastTransitionTime": now}
    assert "certificate" not in reply.body["status"]
    table = await api.get(REQUESTS, accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition",
    ]  # fmt: skip
    assert table["rows"][0]["cells"] == ["jane", "0s", SIGNER, "system:admin", "<none>", "Approved"]


async def test_approval_is_for_ever(api: Api) -> None:
    await api.post(REQUESTS, signing_request())
    await approve(api)
    reply = await approve(api, {**APPROVED, "type": "Denied"})
    assert (reply.status, reply.body["message"]) == (
        422,
        'CertificateSigningRequest.certificates.k8s.io "jane" is invalid: status.conditions: Forbidden: '
        'updates may not remove a condition of type "Approved"',
    )


async def test_status_sets_no_approval(api: Api) -> None:
    made = await api.post(REQUESTS, signing_request())
    reply = await api.call("PUT", f"{REQUESTS}/jane/status", {**made, "status": {"conditions": [APPROVED]}})
    assert (reply.status, reply.body["message"]) == (
        422,
        'CertificateSigningRequest.certificates.k8s.io "jane" is invalid: status.conditions: Forbidden: '
        'updates may not add a condition of type "Approved"',
    )


async def test_certificate_is_written_once(api: Api) -> None:
    await api.post(REQUESTS, signing_request())
    pem = b64encode(b"-----BEGIN CERTIFICATE-----").decode()
    await api.patch(f"{REQUESTS}/jane/status", {"status": {"certificate": pem}})
    change = {"status": {"certificate": "Yg=="}}
    reply = await api.call("PATCH", f"{REQUESTS}/jane/status", change, content_type="application/merge-patch+json")
    assert (reply.status, reply.body["details"]["causes"][0]["message"]) == (
        422, "Forbidden: updates may not modify existing certificate content",
    )  # fmt: skip


async def test_certificate_is_pem(api: Api) -> None:
    await api.post(REQUESTS, signing_request())
    change = {"status": {"certificate": "Yg=="}}
    reply = await api.call("PATCH", f"{REQUESTS}/jane/status", change, content_type="application/merge-patch+json")
    assert (reply.status, reply.body["details"]["causes"][0]["message"]) == (
        422, 'Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block',
    )  # fmt: skip


async def test_request_that_was_changed_is_refused(api: Api) -> None:
    pem = certificate_request("jane")[1]
    other = certificate_request("joe")[1]
    mixed = "\n".join([*pem.splitlines()[:3], *other.splitlines()[3:]])
    body = signing_request(request=b64encode(mixed.encode()).decode())
    assert (await api.call("POST", REQUESTS, body)).status == 422


async def test_group_of_masters_cannot_be_requested(api: Api) -> None:
    reply = await api.call("POST", REQUESTS, signing_request(groups=("system:masters",)))
    assert (reply.status, reply.body["message"]) == (
        403,
        'certificatesigningrequests.certificates.k8s.io "jane" is forbidden: use of '
        "kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed",
    )


@pytest.mark.parametrize(
    ("signer", "status"),
    [
        pytest.param(SIGNER, 200, id="this"),
        pytest.param("kubernetes.io/*", 200, id="all-of-the-domain"),
        pytest.param("example.com/other", 403, id="another"),
    ],
)
async def test_approval_needs_a_right_on_the_signer(guarded: Api, signer: str, status: int) -> None:
    await guarded.post(REQUESTS, signing_request())
    group = "rbac.authorization.k8s.io"
    certificates = {"apiGroups": ["certificates.k8s.io"]}
    rules = [
        {**certificates, "verbs": ["update"], "resources": ["certificatesigningrequests/approval"]},
        {**certificates, "verbs": ["approve"], "resources": ["signers"], "resourceNames": [signer]},
    ]
    await guarded.post(f"/apis/{group}/v1/clusterroles", {"metadata": {"name": "approver"}, "rules": rules})
    bound = {"kind": "ClusterRole", "name": "approver", "apiGroup": group}
    subject = {"kind": "User", "name": "jane", "apiGroup": group}
    binding = {"metadata": {"name": "approver"}, "roleRef": bound, "subjects": [subject]}
    await guarded.post(f"/apis/{group}/v1/clusterrolebindings", binding)
    reply = await approve(guarded, user=JANE)
    assert reply.status == status
    if status == 403:
        assert reply.body["message"] == (
            'certificatesigningrequests.certificates.k8s.io "jane" is forbidden: user not permitted to approve '
            'requests with signerName "kubernetes.io/kube-apiserver-client"'
        )


async def test_request_without_a_spec_is_refused_field_by_field(api: Api) -> None:
    body = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "a"}}
    for reply in (await api.call("POST", REQUESTS, body), await api.apply(f"{REQUESTS}/a", body)):
        assert (reply.status, reply.body["message"]) == (
            422,
            'CertificateSigningRequest.certificates.k8s.io "a" is invalid: [spec.request: Invalid value: null: PEM '
            "block type must be CERTIFICATE REQUEST, spec.usages: Required value, spec.signerName: Required value]",
        )
