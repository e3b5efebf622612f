"""Calls of webhooks over TLS, and failures in the words of Go's HTTP client.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/util/webhook/webhook_test.go; go/src/crypto/x509/verify.go.
"""

import asyncio
import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
import pytest_asyncio
import trustme
from aiohttp import web

from kcr_devcluster.apiserver.admission.caller import WebhookCallError
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.webhooks.caller import HTTPCaller
from kcr_devcluster.cluster.webhooks.services import Services
from tests.kit.api import Api
from tests.kit.conversion_webhooks import V1, V2, Converter, converted_definition, v1
from tests.kit.custom_resources import DEFINITIONS
from tests.kit.http_servers import echo, free_port, serving
from tests.kit.webhooks import CONFIGURATIONS

pytestmark = pytest.mark.asyncio
SERVICE = {"namespace": "shop", "name": "hooks"}
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    # One key for all of them: a key takes longer than a test.
    return trustme.CA(organization_name="webhooks")


@pytest_asyncio.fixture
async def caller() -> AsyncIterator[HTTPCaller]:
    made = HTTPCaller(Services(Storage()))
    yield made
    await made.close()


def bundle(authority: trustme.CA) -> str:
    return base64.b64encode(authority.cert_pem.bytes()).decode()


async def failure(caller: HTTPCaller, url: str, ca_bundle: str) -> str:
    with pytest.raises(WebhookCallError) as raised:
        await caller.call({"url": url, "caBundle": ca_bundle}, b"{}", 10)
    return str(raised.value)


async def test_webhook_gets_headers_body_and_timeout(caller: HTTPCaller, authority: trustme.CA) -> None:
    async with serving(echo, authority) as url:
        config = {"url": f"{url}/review", "caBundle": bundle(authority)}
        status, body = await caller.call(config, b'{"a":1}', 10)
    assert status == 200
    text = body.decode()
    assert '"target": "/review?timeout=10s"' in text
    assert '"user-agent": "kube-apiserver-admission"' in text
    assert '"accept": "application/json, */*"' in text
    assert '"content-type": "application/json"' in text


async def test_service_is_verified_by_its_own_name(authority: trustme.CA) -> None:
    async with serving(echo, authority, name="hooks.shop.svc") as url:
        caller = HTTPCaller(Services(Storage(), [f"shop/hooks={url}"]))
        config = {"service": SERVICE, "caBundle": bundle(authority)}
        status, body = await caller.call(config, b"{}", 10)
        await caller.close()
    assert status == 200
    assert b'"host": "hooks.shop.svc"' in body


async def test_certificate_for_another_name_is_refused(caller: HTTPCaller, authority: trustme.CA) -> None:
    async with serving(echo, authority, name="hooks.shop.svc") as url:
        said = await failure(caller, url, bundle(authority))
    assert said == (
        "tls: failed to verify certificate: x509: certificate is valid for hooks.shop.svc, not 127.0.0.1"
    )  # fmt: skip


async def test_certificate_of_another_authority_is_refused(caller: HTTPCaller, authority: trustme.CA) -> None:
    unknown = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    async with serving(echo, authority) as url:
        assert await failure(caller, url, bundle(trustme.CA())) == unknown
        assert await failure(caller, url, "") == unknown


async def test_expired_certificate_is_refused(caller: HTTPCaller, authority: trustme.CA) -> None:
    class Expired:
        """Issues certificates that have ended."""

        def issue_cert(self, name: str) -> trustme.LeafCert:
            return authority.issue_cert(name, not_before=LONG_AGO, not_after=LONG_AGO.replace(month=2))

    async with serving(echo, Expired()) as url:  # type: ignore[arg-type]  # the one method that is used
        said = await failure(caller, url, bundle(authority))
    assert said == "tls: failed to verify certificate: x509: certificate has expired or is not yet valid"


async def test_closed_port_refuses_the_connection(caller: HTTPCaller, authority: trustme.CA) -> None:
    port = free_port()
    said = await failure(caller, f"https://127.0.0.1:{port}", bundle(authority))
    assert said == f"dial tcp 127.0.0.1:{port}: connect: connection refused"


async def test_unknown_host_is_named(caller: HTTPCaller, authority: trustme.CA) -> None:
    said = await failure(caller, "https://nowhere.invalid", bundle(authority))
    assert said == "dial tcp: lookup nowhere.invalid: no such host"


async def test_server_without_tls_is_told(caller: HTTPCaller, authority: trustme.CA) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        said = await failure(caller, f"https://127.0.0.1:{port}", bundle(authority))
    assert said == "http: server gave HTTP response to HTTPS client"


async def test_connection_that_ends_without_a_response_is_eof(caller: HTTPCaller, authority: trustme.CA) -> None:
    async def hang_up(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async with serving(hang_up, authority) as url:
        assert await failure(caller, url, bundle(authority)) == "EOF"


async def test_bundle_that_is_no_certificate_is_told(caller: HTTPCaller) -> None:
    garbage = base64.b64encode(b"no certificate").decode()
    said = await failure(caller, "https://127.0.0.1:1", garbage)
    assert said == "unable to load root certificates: unable to parse bytes as PEM block"


async def test_cluster_calls_its_webhooks(authority: trustme.CA) -> None:
    async def deny(request: web.BaseRequest) -> web.StreamResponse:
        uid = (await request.json())["request"]["uid"]
        denial = {"uid": uid, "allowed": False, "status": {"message": "not today", "code": 403}}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": denial})

    async with serving(deny, authority, name="hooks.shop.svc") as url:
        made = EmbeddedCluster(runtime=None, gc=False, webhook_services=(f"shop/hooks={url}",))
        async with made as cluster:
            api = Api(cluster.server)
            rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
            webhook = {
                "name": "no.example.com", "clientConfig": {"service": SERVICE, "caBundle": bundle(authority)},
                "rules": [rule], "sideEffects": "None", "admissionReviewVersions": ["v1"],
            }  # fmt: skip
            await api.post(CONFIGURATIONS["Validating"], {"metadata": {"name": "no"}, "webhooks": [webhook]})
            reply = await api.call("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "ma"}})
    expected = 'admission webhook "no.example.com" denied the request: not today'
    assert (reply.status, reply.body["message"]) == (403, expected)


async def test_conversion_webhook_is_called_over_tls(authority: trustme.CA) -> None:
    converter = Converter()

    async def convert(request: web.BaseRequest) -> web.StreamResponse:
        status, body = await converter(request.path, await request.read(), 30)
        return web.Response(status=status, body=body, content_type="application/json")

    async with serving(convert, authority) as url, EmbeddedCluster(runtime=None, gc=False) as cluster:
        api, definition = Api(cluster.server), converted_definition()
        config = {"url": f"{url}/convert", "caBundle": bundle(authority)}
        definition["spec"]["conversion"]["webhook"]["clientConfig"] = config
        await api.post(DEFINITIONS, definition)
        await api.post(V1, v1("w"))
        assert (await api.get(f"{V2}/w"))["spec"] == {"address": "a:1"}
        (review,) = converter.reviews
        assert review["target"] == "/convert?timeout=30s"
        change = {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle(trustme.CA())}}}}}
        await api.patch(f"{DEFINITIONS}/widgets.ex.io", change)
        failed = await api.call("GET", f"{V2}/w")
        assert failed.body["message"] == (
            f'conversion webhook for ex.io/v1, Kind=Widget failed: Post "{url}/convert?timeout=30s": '
            "tls: failed to verify certificate: x509: certificate signed by unknown authority"
        )


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://h:99999", "dial tcp: address 99999: invalid port"),
        ("https://[::1", 'parse "https://[::1": '),
        # No label of DNS.
        (f"https://{'a' * 70}.example", ""),
    ],
)
async def test_address_that_cannot_be_dialed(
    caller: HTTPCaller, authority: trustme.CA, url: str, expected: str
) -> None:
    assert expected in await failure(caller, url, bundle(authority))


@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
async def test_port_out_of_range_is_a_failed_call(kind: str, policy: str) -> None:
    async with EmbeddedCluster(runtime=None, gc=False) as cluster:
        api = Api(cluster.server)
        rule = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
        hook = {"name": "a.example.com", "clientConfig": {"url": "https://h:99999/x"}, "rules": [rule]}
        hook |= {"failurePolicy": policy, "sideEffects": "None", "admissionReviewVersions": ["v1"]}
        await api.post(CONFIGURATIONS[kind], {"metadata": {"name": "a"}, "webhooks": [hook]})
        reply = await api.call("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "ma"}})
    if policy == "Ignore":
        assert reply.status == 201
    else:
        words = 'failed to call webhook: Post "https://h:99999/x?timeout=10s": dial tcp: address 99999: invalid port'
        expected = f'Internal error occurred: failed calling webhook "a.example.com": {words}'
        assert (reply.status, reply.body["message"]) == (500, expected)
