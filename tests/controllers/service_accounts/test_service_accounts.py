"""Each namespace has the account `default`, and with a listener the certificate authority and token Secrets.

Source: kubernetes/pkg/controller/serviceaccount/{serviceaccounts,tokens}_controller_test.go,
pkg/controller/certificates/rootcacertpublisher/publisher_test.go.
"""

import random
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from kcr.api.core import Secret
from kcr.api.meta import Key
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.listener import ServerAddress
from kcr_devcluster.testing.loop import eventually
from tests.kit.api import Api, exists

pytestmark = pytest.mark.asyncio

NAMESPACES = "/api/v1/namespaces"
ACCOUNTS = f"{NAMESPACES}/default/serviceaccounts"
SECRETS = f"{NAMESPACES}/default/secrets"
FIRST = ("default", "kube-system", "kube-public", "kube-node-lease")
SECRET: dict[str, Any] = {
    "metadata": {"name": "builder-token", "annotations": {"kubernetes.io/service-account.name": "builder"}},
    "type": "kubernetes.io/service-account-token",
}


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(random=random.Random(0), runtime=None, service_accounts="accounts") as cluster:
        yield cluster


@pytest_asyncio.fixture
async def listening(cluster: EmbeddedCluster) -> ServerAddress:
    """Have the cluster listen."""
    return await cluster.serve()


@pytest.fixture
def api(cluster: EmbeddedCluster) -> Api:
    return Api(cluster.server)


async def uid_of(api: Api, path: str) -> str:
    reply = await api.call("GET", path)
    return str(reply.body["metadata"]["uid"]) if reply.status == 200 else ""


async def secret_data(api: Api) -> dict[str, Any]:
    data: dict[str, Any] = (await api.get(f"{SECRETS}/builder-token")).get("data") or {}
    return data


async def make_token_secret(api: Api) -> None:
    await api.post(ACCOUNTS, {"metadata": {"name": "builder"}})
    await api.post(SECRETS, SECRET)
    await eventually(lambda: secret_data(api))


async def test_each_namespace_has_its_default_account(api: Api) -> None:
    await api.post(NAMESPACES, {"metadata": {"name": "later"}})
    for name in (*FIRST, "later"):
        await eventually(partial(exists, api, f"{NAMESPACES}/{name}/serviceaccounts/default"))


async def test_deleted_default_account_is_made_anew(api: Api) -> None:
    await eventually(lambda: exists(api, f"{ACCOUNTS}/default"))
    before = await uid_of(api, f"{ACCOUNTS}/default")
    await api.delete(f"{ACCOUNTS}/default")
    await eventually(lambda: uid_of(api, f"{ACCOUNTS}/default"))
    assert await uid_of(api, f"{ACCOUNTS}/default") != before


async def test_namespace_ends_with_its_account(api: Api, listening: ServerAddress) -> None:
    await api.post(NAMESPACES, {"metadata": {"name": "brief"}})
    await eventually(lambda: exists(api, f"{NAMESPACES}/brief/configmaps/kube-root-ca.crt"))
    await api.delete(f"{NAMESPACES}/brief")

    async def is_gone() -> bool:
        return not await exists(api, f"{NAMESPACES}/brief")

    await eventually(is_gone)


async def test_authority_of_the_listener_is_published(api: Api, listening: ServerAddress) -> None:
    path = f"{NAMESPACES}/kube-system/configmaps/kube-root-ca.crt"
    await eventually(lambda: exists(api, path))
    found = await api.get(path)
    assert found["data"] == {"ca.crt": listening.ca_pem}
    assert found["metadata"]["annotations"]["kubernetes.io/description"].startswith("Contains a CA bundle")


async def test_published_authority_is_corrected(api: Api, listening: ServerAddress) -> None:
    path = f"{NAMESPACES}/default/configmaps/kube-root-ca.crt"
    await eventually(lambda: exists(api, path))
    await api.put(path, {"metadata": {"name": "kube-root-ca.crt"}, "data": {"other": "x"}})

    async def is_corrected() -> bool:
        return bool((await api.get(path))["data"] == {"ca.crt": listening.ca_pem})

    await eventually(is_corrected)


async def test_token_secret_is_filled(cluster: EmbeddedCluster, api: Api, listening: ServerAddress) -> None:
    await make_token_secret(api)
    secret = await cluster.client.get(Secret, Key("default", "builder-token"))
    assert secret.metadata.annotations["kubernetes.io/service-account.uid"] == await uid_of(api, f"{ACCOUNTS}/builder")
    assert secret.data["ca.crt"].decode() == listening.ca_pem
    assert secret.data["namespace"] == b"default"
    user = cluster.server.authenticate(secret.data["token"].decode())
    assert user is not None
    assert user.username == "system:serviceaccount:default:builder"


async def test_token_that_is_removed_from_a_secret_is_made_anew(api: Api, listening: ServerAddress) -> None:
    await make_token_secret(api)
    await api.patch(f"{SECRETS}/builder-token", {"data": {"token": None, "ca.crt": "b2xk"}})

    async def is_whole() -> bool:
        data = await secret_data(api)
        return "token" in data and data["ca.crt"] != "b2xk"

    await eventually(is_whole)


async def test_token_secret_ends_with_its_account(api: Api, listening: ServerAddress) -> None:
    await make_token_secret(api)
    await api.delete(f"{ACCOUNTS}/builder")

    async def is_gone() -> bool:
        return not await exists(api, f"{SECRETS}/builder-token")

    await eventually(is_gone)


async def test_secrets_of_other_types_are_left_alone(api: Api, listening: ServerAddress) -> None:
    await api.post(SECRETS, {**SECRET, "type": "Opaque", "metadata": {**SECRET["metadata"], "name": "plain"}})
    await make_token_secret(api)
    assert "data" not in await api.get(f"{SECRETS}/plain")
