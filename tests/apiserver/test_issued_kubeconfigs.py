"""Kubeconfigs that `kcr kubeconfig create` has an API server issue."""

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import yaml

from kcr.api.meta import Key
from kcr.client import Client, HttpTransport, load_config
from kcr.errors import ConfigError
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.generators.credentials import ServiceAccountLogin, UserLogin, issue_kubeconfig
from tests.kit.api import Api

pytestmark = pytest.mark.asyncio

HOUR = 3600
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


@pytest_asyncio.fixture
async def issuer() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(random=random.Random(0), runtime=None, gc=False) as issuer:
        yield issuer


@pytest_asyncio.fixture
async def admin(issuer: EmbeddedCluster, tmp_path: Path) -> str:
    """Give the path of the admin's kubeconfig."""
    path = tmp_path / "admin"
    path.write_text((await issuer.serve()).kubeconfig)
    return str(path)


async def whoami(folder: Path, kubeconfig: str) -> dict[str, Any]:
    path = folder / "issued"
    path.write_text(kubeconfig)
    async with HttpTransport(load_config(str(path))) as transport:
        answer = await Client(transport).request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", b"{}")
    user: dict[str, Any] = msgspec.json.decode(answer)["status"]["userInfo"]
    return user


async def test_service_account_gets_a_token(issuer: EmbeddedCluster, admin: str, tmp_path: Path) -> None:
    await Api(issuer.server).post("/api/v1/namespaces/kube-system/serviceaccounts", {"metadata": {"name": "builder"}})
    text = await issue_kubeconfig(ServiceAccountLogin(Key("kube-system", "builder"), HOUR), admin)
    assert (await whoami(tmp_path, text))["username"] == "system:serviceaccount:kube-system:builder"
    assert load_config(str(tmp_path / "issued")).namespace == "kube-system"


async def test_service_account_without_namespace_is_of_the_kubeconfigs(
    issuer: EmbeddedCluster, admin: str, tmp_path: Path
) -> None:
    await Api(issuer.server).post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "builder"}})
    text = await issue_kubeconfig(ServiceAccountLogin(Key("", "builder"), HOUR), admin)
    assert (await whoami(tmp_path, text))["username"] == "system:serviceaccount:default:builder"


async def test_user_gets_a_certificate_and_leaves_no_request(
    issuer: EmbeddedCluster, admin: str, tmp_path: Path
) -> None:
    text = await issue_kubeconfig(UserLogin("jane", ("dev", "ops"), HOUR), admin)
    user = await whoami(tmp_path, text)
    assert (user["username"], user["groups"]) == ("jane", ["dev", "ops", "system:authenticated"])
    assert yaml.safe_load(text)["users"][0]["name"] == "jane"
    assert (await Api(issuer.server).get(REQUESTS))["items"] == []


@pytest.mark.parametrize(
    ("login", "reason"),
    [
        pytest.param(
            ServiceAccountLogin(Key("", "ghost"), HOUR), 'serviceaccounts "ghost" not found: create it', id="account"
        ),
        pytest.param(
            ServiceAccountLogin(Key("", "builder"), 60), "less than 10 minutes: name another --duration", id="token"
        ),
        pytest.param(UserLogin("jane", (), 60), "less than 600 seconds", id="certificate"),
        pytest.param(UserLogin("jane", ("system:masters",), HOUR), "system:masters group is not allowed", id="masters"),
        pytest.param(UserLogin("j" * 65, (), HOUR), "user 'jjj.*length", id="name"),
    ],
)
async def test_refusal_is_one_line(
    issuer: EmbeddedCluster, admin: str, login: ServiceAccountLogin | UserLogin, reason: str
) -> None:
    await Api(issuer.server).post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "builder"}})
    with pytest.raises(ConfigError, match=reason) as refused:
        await issue_kubeconfig(login, admin)
    # The cause alone: the object that it is about is one that the user has never seen.
    assert " is invalid: " not in str(refused.value)
