"""Approved requests for client certificates are signed.

Source: kubernetes/pkg/controller/certificates/signer/signer_test.go, TestHandle.
"""

import random
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.x509.oid import NameOID

from kcr.clock import SystemClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.loop import eventually
from tests.kit.api import Api
from tests.kit.client_certificates import USAGES, certificate_request

pytestmark = pytest.mark.asyncio

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CLIENTS = "kubernetes.io/kube-apiserver-client"


@pytest_asyncio.fixture
async def signing() -> AsyncIterator[Api]:
    """Give the API of a cluster that listens, and so signs."""
    async with EmbeddedCluster(random=random.Random(0), runtime=None) as cluster:
        await cluster.serve()
        yield Api(cluster.server)


async def submit(api: Api, name: str, *usages: str, condition: str = "Approved", **spec: Any) -> None:
    """Create a request, and approve or deny it."""
    pem = certificate_request(name, "dev")[1]
    given = {"request": b64encode(pem.encode()).decode(), "signerName": CLIENTS, "usages": usages or USAGES, **spec}
    await api.post(REQUESTS, {"metadata": {"name": name}, "spec": given})
    if condition:
        conditions = [{"type": condition, "status": "True", "reason": "Manual", "message": ""}]
        await api.patch(f"{REQUESTS}/{name}/approval", {"status": {"conditions": conditions}})


async def status_of(api: Api, name: str) -> dict[str, Any]:
    status: dict[str, Any] = (await api.get(f"{REQUESTS}/{name}"))["status"]
    return status


async def signed(api: Api, name: str) -> x509.Certificate:
    async def certificate() -> str:
        return str((await status_of(api, name)).get("certificate", ""))

    return x509.load_pem_x509_certificate(b64decode(await eventually(certificate)))


async def test_approved_request_gets_its_certificate(signing: Api) -> None:
    await submit(signing, "jane")
    certificate = await signed(signing, "jane")
    names = {one.oid: one.value for one in certificate.subject}
    assert names == {NameOID.ORGANIZATION_NAME: "dev", NameOID.COMMON_NAME: "jane"}
    left = certificate.not_valid_after_utc - SystemClock().now()
    assert timedelta(days=364) < left < timedelta(days=365)


async def test_request_for_a_shorter_time_gets_it(signing: Api) -> None:
    await submit(signing, "jane", expirationSeconds=3600)
    certificate = await signed(signing, "jane")
    assert timedelta(minutes=50) < certificate.not_valid_after_utc - SystemClock().now() < timedelta(hours=1)


async def test_requests_that_are_not_approved_are_left_alone(signing: Api) -> None:
    await submit(signing, "pending", condition="")
    await submit(signing, "denied", condition="Denied")
    await submit(signing, "foreign", signerName="example.com/other")
    await submit(signing, "jane")
    await signed(signing, "jane")
    for name in ("pending", "denied", "foreign"):
        assert "certificate" not in await status_of(signing, name)


@pytest.mark.parametrize(
    ("usages", "message"),
    [
        pytest.param(("client auth", "server auth"), "invalid usage for client certificate: server auth", id="other"),
        pytest.param(("digital signature",), "missing required usage for client certificate: client auth", id="none"),
    ],
)
async def test_request_with_other_usages_fails(signing: Api, usages: tuple[str, ...], message: str) -> None:
    await submit(signing, "jane", *usages)

    async def failure() -> list[Any]:
        return [one for one in (await status_of(signing, "jane"))["conditions"] if one["type"] == "Failed"]

    (failed,) = await eventually(failure)
    assert (failed["status"], failed["reason"], failed["message"]) == ("True", "SignerValidationFailure", message)
