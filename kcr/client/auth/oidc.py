"""OpenID Connect: id tokens, renewed with the refresh token of a kubeconfig."""

import base64
from datetime import UTC, datetime
from typing import TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from kcr.client.cluster_config import NO_PEM, ClusterConfig, PemSource
from kcr.client.credentials import Credential, RenewedCredentials, redacted
from kcr.client.wire.http import HttpTransport
from kcr.client.wire.transport import Request
from kcr.clock import Clock
from kcr.errors import TransportError

T = TypeVar("T")

_FORM = "application/x-www-form-urlencoded"


class OidcSpec(msgspec.Struct, frozen=True, kw_only=True):
    """An identity provider, as the kubeconfig describes it.

    Attributes:
        issuer: The URL of the provider; https.
        client_id: The client's id.
        client_secret: The client's secret; empty for public clients.
        id_token: The present token; empty for none.
        refresh_token: Requests new tokens.
        ca: The authorities that may sign for the provider; without one, the system's.
        proxy: The URL of an HTTP proxy, or empty.
    """

    issuer: str
    client_id: str
    client_secret: str = ""
    id_token: str = ""
    refresh_token: str
    ca: PemSource = NO_PEM
    proxy: str = ""

    def __repr__(self) -> str:
        return redacted(self, "issuer", "client_id")


class _Discovery(msgspec.Struct):
    token_endpoint: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class _Tokens(msgspec.Struct):
    id_token: str = ""
    refresh_token: str = ""

    def __repr__(self) -> str:
        return redacted(self)


class _Claims(msgspec.Struct):
    exp: float | None = None


class OidcCredentials(RenewedCredentials):
    """The id token of a provider, renewed shortly before it expires and when the server refuses it.

    A provider that hands out a new refresh token with each renewal makes the old one useless. The new one is
    kept in memory only: a kubeconfig is read, never written.

    Source: kubernetes/staging/src/k8s.io/client-go/plugin/pkg/client/auth/oidc/oidc.go.
    """

    def __init__(self, spec: OidcSpec, *, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self._spec = spec
        self._refresh_token = spec.refresh_token
        if spec.id_token:
            self._credential, self._expires = Credential.bearer(spec.id_token), expiry(spec.id_token)

    async def _obtain(self) -> tuple[Credential, datetime | None]:
        issuer = self._spec.issuer
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        found = self._decoded(await self._call("GET", url), _Discovery, url)
        tokens = await self._request_tokens(found)
        if not tokens.id_token:
            raise TransportError(f"identity provider {issuer}: its answer holds no id token")
        self._refresh_token = tokens.refresh_token or self._refresh_token
        return Credential.bearer(tokens.id_token), expiry(tokens.id_token)

    async def _request_tokens(self, provider: _Discovery) -> _Tokens:
        spec = self._spec
        form = {"grant_type": "refresh_token", "refresh_token": self._refresh_token}
        headers = {"content-type": _FORM, "accept": "application/json"}
        if spec.client_secret and "client_secret_basic" in provider.token_endpoint_auth_methods_supported:
            # Name and secret are percent-encoded before they become a header. Source: RFC 6749, 2.3.1.
            name, secret = quote(spec.client_id, safe=""), quote(spec.client_secret, safe="")
            headers["Authorization"] = Credential.basic(name, secret).authorization
        else:
            form["client_id"] = spec.client_id
            if spec.client_secret:
                form["client_secret"] = spec.client_secret
        url = provider.token_endpoint
        return self._decoded(await self._call("POST", url, headers, urlencode(form).encode()), _Tokens, url)

    async def _call(self, method: str, url: str, headers: dict[str, str] | None = None, body: bytes = b"") -> bytes:
        parts = urlsplit(url)
        if parts.scheme != "https":
            raise TransportError(f"identity provider {self._spec.issuer}: {url!r} is not an https URL")
        config = ClusterConfig(server=f"https://{parts.netloc}", ca=self._spec.ca, proxy=self._spec.proxy)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path or "/"
        async with (
            HttpTransport(config) as transport,
            transport.send(Request(method, target, headers or {}, body)) as r,
        ):
            answer = await r.read()
            if r.status != 200:
                said = " ".join(answer[:256].decode(errors="replace").split())
                raise TransportError(f"identity provider {url}: HTTP {r.status}: {said}")
            return answer

    def _decoded(self, body: bytes, wanted: type[T], url: str) -> T:
        try:
            return msgspec.json.decode(body, type=wanted)
        except ValueError as error:
            raise TransportError(f"identity provider {url}: its answer cannot be read: {error}") from error


def expiry(token: str) -> datetime | None:
    """Return when a token ends, None when it does not say so in a way we understand."""
    try:
        payload = token.split(".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=_Claims)
        return None if claims.exp is None else datetime.fromtimestamp(claims.exp, UTC)
    except (IndexError, ValueError, OverflowError):
        return None
