"""Kubeconfigs for others: credentials that an API server issues, as the text of a kubeconfig.

A service account gets a token (TokenRequest), a user a certificate (CertificateSigningRequest), on any API server.
"""

import asyncio
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kcr.api import codec
from kcr.api.meta import Key
from kcr.api.unstructured import unstructured
from kcr.client import Client, ClusterConfig, HttpTransport, load_config
from kcr.client.auth.exec_policy import ExecPolicy
from kcr.client.cluster_config import explain_failure
from kcr.errors import ApiError, ConfigError, InvalidError, NotFoundError, TransportError
from kcr_devcluster.authentication import TokenRequest
from kcr_devcluster.yaml_writer import yaml_text

SIGNER = "kubernetes.io/kube-apiserver-client"
_Request = unstructured(
    "certificates.k8s.io/v1", "CertificateSigningRequest", plural="certificatesigningrequests", namespaced=False
)
_Account = unstructured("v1", "ServiceAccount", plural="serviceaccounts")
_SIGNED_SECONDS, _POLL_SECONDS = 30.0, 0.1


class Issued(NamedTuple):
    """Credentials.

    Attributes:
        name: The user's name in the kubeconfig.
        user: The fields of the user in a kubeconfig; they are secrets.
        namespace: Where the user works unless he says so; `""` for that of the kubeconfig that was used.
    """

    name: str
    user: Mapping[str, str]
    namespace: str = ""

    def __repr__(self) -> str:
        """Show no secret."""
        return f"Issued({self.name!r})"


class ServiceAccountLogin(NamedTuple):
    """A token of a service account; the namespace `""` is that of the kubeconfig."""

    account: Key
    seconds: int

    async def issue(self, client: Client, default_namespace: str) -> Issued:
        """Return credentials.

        Raises:
            ApiError: The server refuses.
        """
        namespace = self.account.namespace or default_namespace
        path = _Account.resource.path(namespace, self.account.name, "token")
        body = codec.encode({"spec": {"expirationSeconds": self.seconds}})
        token = codec.decode(TokenRequest, await client.request("POST", path, body)).status.token
        return Issued(self.account.name, {"token": token}, namespace)


class UserLogin(NamedTuple):
    """A certificate of a user with groups."""

    user: str
    groups: tuple[str, ...]
    seconds: int

    async def issue(self, client: Client, default_namespace: str) -> Issued:
        """Return credentials. The request that is made, approved and signed for them is deleted.

        Raises:
            ApiError: The server refuses.
            ConfigError: Nothing signs such requests.
        """
        key, request = _make_request(self.user, self.groups)
        spec = {
            "request": b64encode(request).decode(),
            "signerName": SIGNER,
            "usages": ["digital signature", "key encipherment", "client auth"],
            "expirationSeconds": self.seconds,
        }
        body = {"metadata": {"generateName": "kubeconfig-"}, "spec": spec}
        made = await client.create_manifest(_Request, body)
        try:
            await client.merge_patch(
                _Request, made.key, {"status": {"conditions": [_APPROVED]}}, subresource="approval"
            )
            certificate = await _signed(client, made.key)
        finally:
            with suppress(ApiError, TransportError):
                await client.delete(_Request, made.key)
        data = {"client-certificate-data": certificate, "client-key-data": b64encode(key).decode()}
        return Issued(self.user, data)


def _make_request(user: str, groups: Sequence[str]) -> tuple[bytes, bytes]:
    """Return a key and a certificate request, PEM.

    Raises:
        ConfigError: A name is not a name.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    oid = x509.oid.NameOID
    try:
        names = [x509.NameAttribute(oid.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*names, x509.NameAttribute(oid.COMMON_NAME, user)])
    except ValueError as error:
        raise ConfigError(f"user {user!r} with groups {', '.join(groups) or 'none'}: {error}") from error
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private, request.public_bytes(pem)


_APPROVED = {
    "type": "Approved", "status": "True", "reason": "KcrKubeconfig", "message": "Approved by kcr kubeconfig create.",
}  # fmt: skip


async def _signed(client: Client, key: Key) -> str:
    """Return the certificate of an approved request, base64 of PEM."""
    loop = asyncio.get_running_loop()
    limit = loop.time() + _SIGNED_SECONDS
    while loop.time() < limit:
        status: Mapping[str, Any] = (await client.get(_Request, key)).get("status") or {}
        if certificate := status.get("certificate"):
            return str(certificate)
        for condition in status.get("conditions") or ():
            if condition.get("type") in ("Denied", "Failed"):
                raise ConfigError(f"the certificate was not signed: {condition.get('message') or condition['type']}")
        await asyncio.sleep(_POLL_SECONDS)
    raise ConfigError(f"nothing signed for {SIGNER} within {_SIGNED_SECONDS:.0f} s: see that its controller runs")


async def issue_kubeconfig(
    login: ServiceAccountLogin | UserLogin,
    kubeconfig: str | None = None,
    context: str | None = None,
    exec_plugins: ExecPolicy | None = None,
) -> str:
    """Return the text of a kubeconfig with fresh credentials; it is a secret.

    Args:
        login: Whom it is for.
        kubeconfig: The kubeconfig that may have them issued; None for the one that `kcr run` would use.
        context: The context in it; None for its current one.
        exec_plugins: Whether a credential plugin that it names may run, as of `load_config`.

    Raises:
        ConfigError: It cannot be used, or the server refuses; the message has the cause and the remedy.
    """
    config = load_config(kubeconfig, context, exec_plugins=exec_plugins)
    async with HttpTransport(config) as transport:
        client = Client(transport)
        try:
            issued = await login.issue(client, config.namespace)
        except NotFoundError as error:
            raise ConfigError(f"{config.server}: {error.message}: create it, or name another") from error
        except InvalidError as error:
            why = "; ".join(cause.message for cause in error.causes) or error.message
            raise ConfigError(f"{config.server}: {why}: name another --duration") from error
        except (ApiError, TransportError) as error:
            raise ConfigError(explain_failure(error, config)) from error
    return _text(config, issued)


def _text(config: ClusterConfig, issued: Issued) -> str:
    name = urlsplit(config.server).netloc
    cluster: dict[str, Any] = {"server": config.server}
    if config.ca:
        cluster["certificate-authority-data"] = b64encode(config.ca.read().encode()).decode()
    if not config.verify:
        cluster["insecure-skip-tls-verify"] = True
    for field, value in (("tls-server-name", config.server_name), ("proxy-url", config.proxy)):
        if value:
            cluster[field] = value
    context = {"cluster": name, "user": issued.name, "namespace": issued.namespace or config.namespace}
    return yaml_text({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": issued.name, "user": dict(issued.user)}],
        "contexts": [{"name": f"{issued.name}@{name}", "context": context}],
        "current-context": f"{issued.name}@{name}",
    })  # fmt: skip
