"""No secret shows: neither values of the environment in signatures, nor credentials in reprs and errors."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import kcr
from kcr.client.auth.config import load_config
from kcr.client.auth.kubeconfig import Entry
from kcr.client.auth.oidc import OidcSpec
from kcr.client.cluster_config import ClusterConfig, PemSource
from kcr.client.credentials import Credential, FixedCredentials, PluginSpec
from kcr.controllers import cronjob, job
from kcr.errors import ConfigError
from kcr_devcluster.apiserver.server import HTTPRequest
from kcr_devcluster.authentication import TokenRequest, TokenRequestStatus
from kcr_devcluster.cluster.client_certificates import ClientAuthority
from kcr_devcluster.cluster.listener import ServerAddress
from kcr_devcluster.cluster.node.runtime import NodeInfo
from kcr_devcluster.generators.credentials import Issued

SECRET = "hunter2hunter2"


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "https://a"}}]
users: [{name: a, user: {}}]
"""


def signatures(package: ModuleType) -> Iterator[tuple[str, str]]:
    """Yield the signatures of all functions and methods, private ones too, as `help` shows them."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(found.name)
        kinds = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == found.name]
        for holder in (module, *kinds):
            for name, one in vars(holder).items():
                if inspect.isfunction(one):
                    yield f"{found.name}.{name}", str(inspect.signature(one))


@pytest.mark.timeout(60)
def test_help_shows_no_value_of_the_environment() -> None:
    shown = [one for package in (kcr, job, cronjob) for one in signatures(package)]
    assert "kcr.client.auth.config.load_config" in dict(shown)
    assert not [name for name, signature in shown if "environ(" in signature]


@pytest.mark.parametrize(
    "value",
    [
        Credential(f"Bearer {SECRET}", SECRET, SECRET),
        FixedCredentials(Credential.bearer(SECRET)),
        PemSource(text=SECRET, field="client-key-data"),
        PluginSpec(command="aws", args=(SECRET,), env={"TOKEN": SECRET}, cluster={"config": SECRET}),
        OidcSpec(issuer="https://a", client_id="kcr", client_secret=SECRET, id_token=SECRET, refresh_token=SECRET),
        Entry("config", {"token": SECRET}),
        ClusterConfig(
            server="https://a", credentials=FixedCredentials(Credential.bearer(SECRET)), key=PemSource(text=SECRET),
            proxy=f"http://me:{SECRET}@proxy",
        ),
        Issued("a", {"token": SECRET}),
        TokenRequest(status=TokenRequestStatus(token=SECRET)),
        NodeInfo("node", kubeconfig=SECRET),
        HTTPRequest("GET", "/api", {"Authorization": f"Bearer {SECRET}"}, SECRET.encode()),
        ServerAddress("https://a", SECRET, "ca", SECRET, ClientAuthority("ca", SECRET)),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_repr_of_a_credential_shows_no_secret(value: object) -> None:
    assert SECRET not in repr(value)
    assert type(value).__name__ in repr(value)


def test_unsupported_proxy_is_named_without_its_password(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(KUBECONFIG)
    environ = {"HTTPS_PROXY": f"socks5://me:{SECRET}@proxy:1080"}
    with pytest.raises(ConfigError, match=r"'socks5://proxy:1080' is not supported") as caught:
        load_config(str(config), environ=environ)
    assert SECRET not in str(caught.value)
