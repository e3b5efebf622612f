"""Users with client certificates at the listener.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/authentication/request/x509/x509_test.go; api-server §23.1.
"""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from kcr.clock import SystemClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.client_certificates import TRUST, make_client_authority
from kcr_devcluster.cluster.datadir import DataDir
from kcr_devcluster.cluster.listener import ServerAddress
from tests.kit.api import Api
from tests.kit.client_certificates import login

pytestmark = pytest.mark.asyncio

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@pytest_asyncio.fixture
async def served() -> AsyncIterator[ServerAddress]:
    async with EmbeddedCluster(random=Random(0), runtime=None, gc=False) as cluster:
        yield await cluster.serve()


async def whoami(url: str, context: ssl.SSLContext, token: str = "") -> tuple[int, dict[str, Any]]:
    """Return code and user of a review, or the Status."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
        session.post(url + REVIEWS, json={}, headers=headers) as response,
    ):
        body = await response.json()
        return response.status, body["status"]["userInfo"] if response.status == 201 else body


async def test_certificate_names_user_and_groups(served: ServerAddress, tmp_path: Path) -> None:
    context = login(tmp_path, served.ca_pem, served.clients, "jane", "dev", "ops")
    status, user = await whoami(served.url, context)
    assert status == 201
    assert (user["username"], user["groups"]) == ("jane", ["dev", "ops", "system:authenticated"])
    (credential,) = user["extra"]["authentication.kubernetes.io/credential-id"]
    assert credential.startswith("X509SHA256=")


async def test_certificate_for_client_auth_alone_logs_in(served: ServerAddress, tmp_path: Path) -> None:
    context = login(tmp_path, served.ca_pem, served.clients, "jane", usages=("client auth",))
    assert (await whoami(served.url, context))[1]["username"] == "jane"


async def test_certificate_goes_before_the_token(served: ServerAddress, tmp_path: Path) -> None:
    context = login(tmp_path, served.ca_pem, served.clients, "jane")
    assert (await whoami(served.url, context, served.token))[1]["username"] == "jane"


async def test_certificate_without_a_name_is_nobodys(served: ServerAddress, tmp_path: Path) -> None:
    context = login(tmp_path, served.ca_pem, served.clients, "", "dev")
    assert (await whoami(served.url, context))[0] == 401
    assert (await whoami(served.url, context, served.token))[1]["username"] == "system:admin"


async def test_certificate_of_another_authority_is_refused(served: ServerAddress, tmp_path: Path) -> None:
    other = make_client_authority(SystemClock().now())
    with pytest.raises(aiohttp.ClientError):
        await whoami(served.url, login(tmp_path, served.ca_pem, other, "jane"))


async def test_certificates_hold_after_a_restart(tmp_path: Path) -> None:
    async with EmbeddedCluster(random=Random(0), runtime=None, data_dir=tmp_path / "data") as cluster:
        address = await cluster.serve()
        context = login(tmp_path, address.ca_pem, address.clients, "jane")
    async with EmbeddedCluster(random=Random(1), runtime=None, data_dir=tmp_path / "data") as cluster:
        address = await cluster.serve()
        assert (await whoami(address.url, context))[1]["username"] == "jane"


async def test_folder_of_a_former_version_gets_an_authority_and_keeps_the_rest(tmp_path: Path) -> None:
    async with EmbeddedCluster(random=Random(0), runtime=None, data_dir=tmp_path) as cluster:
        before = await cluster.serve()
    data = DataDir(tmp_path)
    saved = data.credentials()
    assert saved is not None
    data.save_credentials(type(saved)(saved.token, saved.authority, saved.server, saved.key, saved.port))
    data.close()
    async with EmbeddedCluster(random=Random(1), runtime=None, data_dir=tmp_path) as cluster:
        after = await cluster.serve()
    assert (after.kubeconfig, after.clients == before.clients) == (before.kubeconfig, False)


async def test_components_learn_the_authority_from_a_config_map(tmp_path: Path) -> None:
    """Source: controlplane/controller/clusterauthenticationtrust/cluster_authentication_trust_controller_test.go."""
    target = f"/api/v1/namespaces/kube-system/configmaps/{TRUST}"
    for _ in range(2):
        async with EmbeddedCluster(runtime=None, gc=False, data_dir=tmp_path) as cluster:
            address, api = await cluster.serve(), Api(cluster.server)
            found = await api.get(target)
            assert found["data"] == {"client-ca-file": address.clients.certificate}
    async with EmbeddedCluster(runtime=None, gc=False, data_dir=tmp_path) as cluster:
        api = Api(cluster.server)
        await api.patch(target, {"data": {"client-ca-file": "old", "requestheader-client-ca-file": "x"}})
        address = await cluster.serve()
        data = (await api.get(target))["data"]
    assert data == {"client-ca-file": address.clients.certificate, "requestheader-client-ca-file": "x"}
