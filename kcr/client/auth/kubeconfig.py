"""From a merged kubeconfig to one cluster, one user and their credentials."""

import base64
import binascii
import os
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn
from urllib.parse import quote, urlsplit

from kcr.client.auth.exec_policy import ExecPolicy, check_plugin, find_program
from kcr.client.auth.oidc import OidcCredentials, OidcSpec
from kcr.client.cluster_config import NO_PEM, ClusterConfig, PemSource, is_server
from kcr.client.credentials import (
    Credential,
    Credentials,
    FixedCredentials,
    PluginCredentials,
    PluginSpec,
    TokenFile,
    redacted,
)
from kcr.client.wire.connections import proxy_for, without_password
from kcr.errors import ConfigError

_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class Entry(NamedTuple):
    """One entry of a kubeconfig, and the file it stands in: relative paths start there."""

    path: str
    value: Mapping[str, Any]

    def __repr__(self) -> str:
        return redacted(self, "path")


class Merged(NamedTuple):
    """One or several kubeconfigs, merged."""

    source: str
    current_context: str
    contexts: Mapping[str, Entry]
    clusters: Mapping[str, Entry]
    users: Mapping[str, Entry]


class _Section(NamedTuple):
    """An entry, and how to speak of it."""

    origin: str
    entry: Entry

    def text(self, name: str) -> str:
        value = self.entry.value.get(name)
        if value is None or isinstance(value, str):
            return value or ""
        if isinstance(value, dict | list):
            self.fail(name, "must be text")
        return str(value)

    def flag(self, name: str) -> bool:
        """Return a boolean; a text is refused, since `"false"` would be true."""
        value = self.entry.value.get(name) or False
        if value not in (True, False):
            self.fail(name, "must be true or false, without quotes")
        return bool(value)

    def file(self, name: str) -> str:
        """Return a path, relative ones taken from the kubeconfig's folder."""
        path = self.text(name)
        return os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(self.entry.path)), path)) if path else ""

    def pem(self, name: str) -> PemSource:
        """Return a valid certificate or key; data takes precedence over a path."""
        field = f"{self.origin}: {name}"
        data = self.text(f"{name}-data")
        if not data:
            path = self.file(name)
            found = PemSource(path, field=field) if path else NO_PEM
        else:
            try:
                found = PemSource(
                    text=base64.b64decode("".join(data.split()), validate=True).decode("ascii"), field=f"{field}-data"
                )
            except (binascii.Error, UnicodeDecodeError):
                self.fail(f"{name}-data", "is not base64 of a PEM block")
        if found:
            found.read()
        return found

    def fail(self, name: str, why: str) -> NoReturn:
        raise ConfigError(f"{self.origin}: {name} {why}")


def resolve(
    merged: Merged, context: str | None, environ: Mapping[str, str], exec_plugins: ExecPolicy | None = None
) -> ClusterConfig:
    """Return the cluster that a context stands for.

    Args:
        merged: The kubeconfig.
        context: The context's name; None for the current one.
        environ: Where proxies, and the policy and the programs of credential plugins, are looked up.
        exec_plugins: Whether a credential plugin may run; None for the policy of the user's kuberc.

    Raises:
        ConfigError: Something is missing, unusable or not allowed; the message names file, context and field.
    """
    name = context or merged.current_context
    if not name:
        raise ConfigError(f"kubeconfig {merged.source} has no current-context; {_choice(merged.contexts)}")
    if name not in merged.contexts:
        raise ConfigError(f"kubeconfig {merged.source} has no context {name!r}; {_choice(merged.contexts)}")
    origin = f"kubeconfig {merged.source}, context {name}"
    chosen = _Section(origin, merged.contexts[name])
    cluster = _referred(chosen, "cluster", merged.clusters)
    user = _referred(chosen, "user", merged.users) if chosen.text("user") else _Section(origin, Entry("", {}))
    server, authority = _server(cluster), cluster.pem("certificate-authority")
    certificate, key = user.pem("client-certificate"), user.pem("client-key")
    if certificate and not key and "PRIVATE KEY" not in certificate.read():
        user.fail("client-key", "is missing beside client-certificate")
    credentials = _credentials(user, cluster, server, environ)
    if isinstance(credentials, PluginCredentials):
        check_plugin(credentials.spec, user.origin, exec_plugins, environ)
    return ClusterConfig(
        server=server,
        origin=origin,
        credentials=credentials,
        ca=authority,
        certificate=certificate,
        key=key,
        verify=not cluster.flag("insecure-skip-tls-verify"),
        server_name=cluster.text("tls-server-name"),
        proxy=_proxy(cluster, server, environ),
        headers=_impersonation(user),
        compression=not cluster.flag("disable-compression"),
        namespace=chosen.text("namespace") or "default",
        extensions=_extensions(cluster),
    )


def _extensions(cluster: _Section) -> Mapping[str, object]:
    found = cluster.entry.value.get("extensions")
    entries = found if isinstance(found, list) else []
    named = [one for one in entries if isinstance(one, dict) and isinstance(one.get("name"), str)]
    return {one["name"]: one.get("extension") for one in named}


def _choice(known: Mapping[str, Entry]) -> str:
    return f"name one of its contexts: {', '.join(known)}" if known else "it has no contexts at all"


def _referred(chosen: _Section, kind: str, known: Mapping[str, Entry]) -> _Section:
    name = chosen.text(kind)
    if not name:
        chosen.fail(kind, "is missing; a context names one")
    if name not in known:
        chosen.fail(kind, f"{name!r} is not defined; known are: {', '.join(known) or 'none'}")
    return _Section(f"{chosen.origin}, {kind} {name}", known[name])


def _server(cluster: _Section) -> str:
    server = cluster.text("server").rstrip("/")
    if not server:
        cluster.fail("server", "is missing; it is the URL of the API server")
    if "://" not in server:
        server = f"https://{server}" if "certificate-authority" in "".join(cluster.entry.value) else f"http://{server}"
    if not is_server(server):
        cluster.fail("server", f"{server!r} is not a URL of an API server")
    return server


def _proxy(cluster: _Section, server: str, environ: Mapping[str, str]) -> str:
    said = cluster.text("proxy-url")
    proxy = said or proxy_for(server, environ)
    if proxy and not is_server(proxy):
        where = "proxy-url" if said else "the environment's proxy"
        cluster.fail(where, f"{without_password(proxy)!r} is not supported; use an HTTP proxy")
    return proxy


def _credentials(user: _Section, cluster: _Section, server: str, environ: Mapping[str, str]) -> Credentials:
    if user.text("tokenFile"):
        return TokenFile(user.file("tokenFile"))
    if user.text("token"):
        return FixedCredentials(Credential.bearer(user.text("token")))
    if user.entry.value.get("exec") is not None:
        return PluginCredentials(_plugin(user, cluster, server, environ))
    if user.entry.value.get("auth-provider"):
        return _provider(user, environ)
    if user.text("username"):
        return FixedCredentials(Credential.basic(user.text("username"), user.text("password")))
    return FixedCredentials()


def _provider(user: _Section, environ: Mapping[str, str]) -> Credentials:
    provider = user.entry.value["auth-provider"]
    config = provider.get("config") if isinstance(provider, dict) else None
    section = _Section(f"{user.origin}, auth-provider", Entry(user.entry.path, config or {}))
    token, refresh_token = section.text("id-token"), section.text("refresh-token")
    if not token and not refresh_token:
        user.fail("auth-provider", "is outdated and not supported; use a credential plugin (exec) or a token")
    issuer, client_id = section.text("idp-issuer-url"), section.text("client-id")
    if not refresh_token:
        return FixedCredentials(Credential.bearer(token))
    if urlsplit(issuer).scheme != "https":
        section.fail("idp-issuer-url", f"{issuer!r} is not an https URL; tokens are renewed there")
    if not client_id:
        section.fail("client-id", "is missing; tokens are renewed in its name")
    return OidcCredentials(
        OidcSpec(
            issuer=issuer,
            client_id=client_id,
            client_secret=section.text("client-secret"),
            id_token=token,
            refresh_token=refresh_token,
            ca=section.pem("idp-certificate-authority"),
            proxy=proxy_for(issuer, environ),
        )
    )


def _plugin(user: _Section, cluster: _Section, server: str, environ: Mapping[str, str]) -> PluginSpec:
    value = user.entry.value["exec"]
    if not isinstance(value, dict) or not value.get("command"):
        user.fail("exec.command", "is missing; it names the credential plugin")
    section = _Section(f"{user.origin}, exec", Entry(user.entry.path, value))
    if section.text("interactiveMode") == "Always":
        user.fail(
            "exec.interactiveMode", "is Always, and there is no terminal to answer it; use another plugin or a token"
        )
    command = section.text("command")
    variables = value.get("env") or []
    if not isinstance(variables, list) or not all(isinstance(v, dict) and "name" in v for v in variables):
        user.fail("exec.env", "must be a list of name and value")
    if not isinstance(arguments := value.get("args") or [], list):
        user.fail("exec.args", "must be a list")
    return PluginSpec(
        command=section.file("command") if "/" in command else find_program(command, environ),
        args=tuple(str(argument) for argument in arguments),
        env={str(v["name"]): str(v.get("value") or "") for v in variables},
        api_version=section.text("apiVersion") or "client.authentication.k8s.io/v1",
        cluster=_cluster_info(cluster, server) if section.flag("provideClusterInfo") else None,
        hint=section.text("installHint"),
    )


def _cluster_info(cluster: _Section, server: str) -> Mapping[str, object]:
    """Return the cluster as a plugin gets it.

    Source: kubernetes/staging/src/k8s.io/client-go/pkg/apis/clientauthentication/v1/types.go, Cluster.
    """
    told: dict[str, object] = {"server": server}
    authority = cluster.pem("certificate-authority")
    if authority:
        told["certificate-authority-data"] = base64.b64encode(authority.read().encode()).decode()
    for name in ("tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression"):
        if cluster.entry.value.get(name):
            told[name] = cluster.entry.value[name]
    for extension in cluster.entry.value.get("extensions") or ():
        if isinstance(extension, dict) and extension.get("name") == _EXEC_EXTENSION:
            told["config"] = extension.get("extension")
    return told


def _impersonation(user: _Section) -> tuple[tuple[str, str], ...]:
    """Return the headers that make a request another's.

    Source: kubernetes/staging/src/k8s.io/client-go/transport/round_trippers.go, impersonatingRoundTripper.
    """
    groups = user.entry.value.get("as-groups") or ()
    extra = user.entry.value.get("as-user-extra") or {}
    lists = [groups, *extra.values()] if isinstance(extra, dict) else [extra]
    if not all(isinstance(one, list | tuple) for one in lists):
        user.fail("as-groups and as-user-extra", "must be a list and a map of lists")
    headers = [("Impersonate-User", user.text("as")), ("Impersonate-Uid", user.text("as-uid"))]
    headers += [("Impersonate-Group", str(group)) for group in groups]
    for key, values in extra.items():
        headers += [(f"Impersonate-Extra-{quote(str(key), safe='')}", str(value)) for value in values]
    return tuple(header for header in headers if header[1])
