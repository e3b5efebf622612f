import base64
from pathlib import Path
from typing import Any

import pytest
import trustme

from kcr.client.auth.kubeconfig import Entry, Merged, resolve
from kcr.client.auth.oidc import OidcCredentials
from kcr.client.credentials import Credential, FixedCredentials, PluginCredentials, TokenFile
from kcr.errors import ConfigError

CA = trustme.CA().cert_pem.bytes()


def merged(
    path: str = "/k/config", *, context: Any = None, cluster: Any = None, user: Any = None, current: str = "c"
) -> Merged:
    return Merged(
        path,
        current,
        {"c": Entry(path, {"cluster": "x", "user": "u", **(context or {})})},
        {"x": Entry(path, {"server": "https://api:6443/", **(cluster or {})})},
        {"u": Entry(path, user or {})},
    )


def data(text: bytes) -> str:
    return base64.b64encode(text).decode()


def test_cluster_and_context_become_one_value() -> None:
    config = resolve(
        merged(
            context={"namespace": "n"},
            cluster={
                "certificate-authority-data": data(CA), "tls-server-name": "name", "insecure-skip-tls-verify": True,
                "proxy-url": "http://proxy", "disable-compression": True,
            },
        ),
        None,
        {},
    )  # fmt: skip
    assert (config.server, config.namespace, config.server_name) == ("https://api:6443", "n", "name")
    assert (config.verify, config.proxy, config.compression) == (False, "http://proxy", False)
    assert config.ca.read() == CA.decode()


def test_path_of_a_certificate_starts_at_its_file(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(CA)
    config = resolve(merged(str(tmp_path / "config"), cluster={"certificate-authority": "ca.crt"}), None, {})
    assert config.ca.path == str(tmp_path / "ca.crt")


def test_context_without_user_is_anonymous() -> None:
    config = resolve(merged(context={"user": None}), None, {})
    assert isinstance(config.credentials, FixedCredentials)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("user", "authorization"),
    [
        pytest.param({"token": "t\n"}, "Bearer t", id="token"),
        pytest.param({"token": 123}, "Bearer 123", id="token-of-digits"),
        pytest.param({"username": "a", "password": "b"}, Credential.basic("a", "b").authorization, id="basic"),
        pytest.param({"auth-provider": {"config": {"id-token": "i"}}}, "Bearer i", id="id-token"),
        pytest.param({"token": "t", "exec": {"command": "x"}}, "Bearer t", id="token-before-plugin"),
    ],
)
async def test_user_proves_who_asks(user: dict[str, object], authorization: str) -> None:
    credential = await resolve(merged(user=user), None, {}).credentials.current()
    assert credential.authorization == authorization


def test_token_file_and_plugin_are_asked_when_needed() -> None:
    assert isinstance(resolve(merged(user={"tokenFile": "t", "token": "x"}), None, {}).credentials, TokenFile)
    plugin = {"command": "./bin/plugin", "args": ["a"], "env": [{"name": "A", "value": "b"}]}
    assert isinstance(resolve(merged(user={"exec": plugin}), None, {}).credentials, PluginCredentials)


def test_variable_of_a_plugin_without_a_value_is_empty() -> None:
    found = resolve(merged(user={"exec": {"command": "x", "env": [{"name": "A", "value": None}]}}), None, {})
    assert isinstance(found.credentials, PluginCredentials)
    assert found.credentials.spec.env == {"A": ""}


def test_proxy_of_the_environment_is_named_as_such() -> None:
    with pytest.raises(ConfigError, match="the environment's proxy 'socks5://x' is not supported"):
        resolve(merged(), None, {"HTTPS_PROXY": "socks5://x"})


def test_proxy_of_the_kubeconfig_goes_before_the_environment() -> None:
    # ST-19: resolved once, at the start.
    environ = {"HTTPS_PROXY": "http://environment", "NO_PROXY": "10.0.0.0/8"}
    assert resolve(merged(cluster={"proxy-url": "http://own"}), None, environ).proxy == "http://own"
    assert resolve(merged(), None, environ).proxy == "http://environment"
    assert resolve(merged(cluster={"server": "https://10.1.2.3"}), None, environ).proxy == ""


def test_impersonation_becomes_headers() -> None:
    user = {"as": "me", "as-groups": ["a", "b"], "as-user-extra": {"k/x": ["v"]}}
    assert resolve(merged(user=user), None, {}).headers == (
        ("Impersonate-User", "me"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-k%2Fx", "v"),
    )


OIDC = {"client-id": "c", "idp-issuer-url": "https://idp.example/realm", "refresh-token": "r"}


def test_identity_provider_is_asked_when_there_is_a_refresh_token() -> None:
    user = {"auth-provider": {"name": "oidc", "config": {**OIDC, "id-token": "i", "client-secret": "s"}}}
    assert isinstance(resolve(merged(user=user), None, {}).credentials, OidcCredentials)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param(
            {"idp-issuer-url": "http://idp.example"},
            "idp-issuer-url 'http://idp.example' is not an https URL",
            id="http",
        ),
        pytest.param({"client-id": ""}, "client-id is missing", id="no-client"),
        pytest.param({"idp-certificate-authority": "no.crt"}, "idp-certificate-authority /k/no.crt: No such", id="ca"),
    ],
)
def test_provider_that_cannot_be_asked_is_refused_at_the_start(changes: dict[str, str], message: str) -> None:
    user = {"auth-provider": {"name": "oidc", "config": {**OIDC, **changes}}}
    with pytest.raises(ConfigError, match=f"user u, auth-provider: {message}"):
        resolve(merged(user=user), None, {})


@pytest.mark.parametrize(
    ("changes", "context", "message"),
    [
        pytest.param({"current": ""}, None, "no current-context; name one of its contexts: c", id="no-current"),
        pytest.param({}, "d", "no context 'd'; name one of its contexts: c", id="unknown-context"),
        pytest.param(
            {"context": {"cluster": "y"}}, None, "context c: cluster 'y' is not defined; known are: x",
            id="unknown-cluster",
        ),
        pytest.param({"context": {"cluster": ""}}, None, "context c: cluster is missing", id="no-cluster"),
        pytest.param({"context": {"user": "v"}}, None, "context c: user 'v' is not defined", id="unknown-user"),
        pytest.param({"cluster": {"server": ""}}, None, "cluster x: server is missing", id="no-server"),
        pytest.param({"cluster": {"server": "ftp://x"}}, None, "server 'ftp://x' is not a URL", id="no-url"),
        pytest.param({"cluster": {"server": ["x"]}}, None, "server must be text", id="no-text"),
        pytest.param(
            {"cluster": {"proxy-url": "socks5://x"}}, None, "proxy-url 'socks5://x' is not supported", id="socks"
        ),
        pytest.param(
            {"cluster": {"certificate-authority": "no.crt"}}, None,
            r"cluster x: certificate-authority /k/no\.crt: No such file or directory; correct the path",
            id="missing-authority",
        ),
        pytest.param(
            {"cluster": {"certificate-authority-data": "!"}}, None,
            "certificate-authority-data is not base64", id="no-base64",
        ),
        pytest.param(
            {"cluster": {"certificate-authority-data": data(b"hello")}}, None,
            "certificate-authority-data: holds no PEM block", id="no-pem",
        ),
        pytest.param(
            {"user": {"client-certificate-data": data(CA)}}, None, "user u: client-key is missing", id="no-key"
        ),
        pytest.param({"user": {"exec": {"args": []}}}, None, "exec.command is missing", id="no-command"),
        pytest.param(
            {"user": {"as-user-extra": {"reason": "abc"}}}, None, "must be a list and a map of lists", id="extra-text"
        ),
        pytest.param({"user": {"auth-provider": {"name": "gcp"}}}, None, "auth-provider is outdated", id="provider"),
        pytest.param(
            {"user": {"exec": {"command": "x", "interactiveMode": "Always"}}}, None, "interactiveMode is Always",
            id="interactive",
        ),
    ],
)  # fmt: skip
def test_fault_names_file_context_and_field(changes: dict[str, Any], context: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        resolve(merged(**changes), context, {})
    assert str(caught.value).startswith("kubeconfig /k/config")


def test_extension_without_a_proper_name_is_left_out() -> None:
    extensions = [{"name": "a", "extension": 1}, {"name": ["b"], "extension": 2}, {"extension": 3}, "c"]
    assert resolve(merged(cluster={"extensions": extensions}), None, {}).extensions == {"a": 1}
