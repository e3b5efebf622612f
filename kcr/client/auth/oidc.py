"""OpenID Connect: id tokens, renewed with the refresh token of a kubeconfig."""

import asyncio
import base64
import binascii
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from kcr.client.auth.cluster import NO_PEM, ClusterConfig, PemSource
from kcr.client.auth.credentials import Credential, redacted
from kcr.client.wire.http import HttpTransport
from kcr.client.wire.transport import Request
from kcr.clock import Clock, SystemClock
from kcr.errors import TransportError

T = TypeVar("T")

# A token is renewed this long before it ends.
_MARGIN = timedelta(seconds=10)
_FORM = "application/x-www-form-urlencoded"


class OidcSpec(msgspec.Struct, frozen=True, kw_only=True):
    """An identity provider, as the kubeconfig describes it.

    Attributes:
        issuer: The URL of the provider; https.
        client_id: The client's id.
        client_secret: The client's secret; empty for public clients.
        id_token: The present token; empty for none.
        refresh_token: Requests new tokens; empty when the token cannot be renewed.
        ca: The authorities that may sign for the provider; without one, the system's.
        proxy: The URL of an HTTP proxy, or empty.
    """

    issuer: str
    client_id: str
    client_secret: str = ""
    id_token: str = ""
    refresh_token: str = ""
    ca: PemSource = NO_PEM
    proxy: str = ""

    def __repr__(self) -> str:
        """Show who is asked, and for whom."""
        return redacted(self, "issuer", "client_id")


class _Discovery(msgspec.Struct):
    token_endpoint: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class _Tokens(msgspec.Struct):
    id_token: str = ""
    refresh_token: str = ""

    def __repr__(self) -> str:
        """Show nothing but the type."""
        return redacted(self)


class _Claims(msgspec.Struct):
    exp: float | None = None


class OidcCredentials:
    """The id token of a provider, renewed shortly before it expires and when the server refuses it.

    A provider that hands out a new refresh token with each renewal makes the old one useless. The new one is
    kept in memory only: a kubeconfig is read, never written.

    Source: kubernetes/staging/src/k8s.io/client-go/plugin/pkg/client/auth/oidc/oidc.go.
    """

    def __init__(self, spec: OidcSpec, *, clock: Clock | None = None) -> None:
        self._spec = spec
        self._clock = clock or SystemClock()
        self._refresh_token = spec.refresh_token
        # Empty when there is none, or the server has refused it.
        self._id_token = spec.id_token
        # Held while a token is renewed: concurrent callers wait for the same one.
        self._renewing = asyncio.Lock()

    async def current(self) -> Credential:
        """Return the token; asks the provider when there is none, or none for much longer.

        Raises:
            TransportError: The provider gives none.
        """
        async with self._renewing:
            if not self._id_token or self._is_old():
                await self._renew()
            return Credential.bearer(self._id_token)

    def invalidate(self, credential: Credential) -> bool:
        """Drop the token, unless it has been replaced already; return whether another can be had."""
        if not self._refresh_token:
            return False
        if Credential.bearer(self._id_token) == credential:
            self._id_token = ""
        return True

    def _is_old(self) -> bool:
        expires = expiry(self._id_token)
        return expires is not None and self._clock.now() >= expires - _MARGIN

    async def _renew(self) -> None:
        issuer = self._spec.issuer
        if not self._refresh_token:
            raise TransportError(
                f"identity provider {issuer}: the token has expired and cannot be renewed; log in again"
            )
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        found = self._decoded(await self._call("GET", url), _Discovery, url)
        tokens = await self._ask(found)
        if not tokens.id_token:
            raise TransportError(f"identity provider {issuer}: its answer holds no id token")
        self._id_token = tokens.id_token
        self._refresh_token = tokens.refresh_token or self._refresh_token

    async def _ask(self, provider: _Discovery) -> _Tokens:
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
        """Send a request to the provider, whose certificate is always checked."""
        parts = urlsplit(url)
        if parts.scheme != "https":
            raise TransportError(f"identity provider {self._spec.issuer}: {url!r} is no https URL")
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
        except msgspec.DecodeError as error:
            raise TransportError(f"identity provider {url}: its answer cannot be read: {error}") from error


def expiry(token: str) -> datetime | None:
    """Return when a token ends, None when it does not say so in a way we understand."""
    try:
        payload = token.split(".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=_Claims)
        return None if claims.exp is None else datetime.fromtimestamp(claims.exp, UTC)
    except (IndexError, binascii.Error, msgspec.DecodeError, ValueError, OverflowError):
        return None
