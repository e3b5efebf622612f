"""Calls of webhooks over HTTPS, with the error messages of Go's HTTP client.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/util/webhook/client.go; net/http; crypto/x509/verify.go.
"""

import asyncio
import base64
import binascii
import os
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING

from kcr_devcluster.apiserver.admission.caller import NoClientError, Target, WebhookCallError, target_of
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.cluster.webhooks.services import Services, WebhookAddress

if TYPE_CHECKING:  # loaded with the first call
    import aiohttp

_HEADERS = {
    "Accept": "application/json, */*",
    "Content-Type": "application/json",
    "User-Agent": "kube-apiserver-admission",
}
# Codes of OpenSSL: the certificate has expired, is not valid yet, is for another name or address.
_TIMES, _NAMES = (9, 10), (62, 64)
# Bundles change when certificates are rotated: those of before are forgotten together.
_MOST_CONTEXTS = 64
_PORTS = range(65_536)
_UNVERIFIED = "tls: failed to verify certificate: x509: "


class HTTPCaller:
    """Calls webhooks over HTTPS. Connections are kept for the next call."""

    def __init__(self, services: Services) -> None:
        """Make the caller; it connects with the first call.

        Args:
            services: Resolves the Services of webhooks.
        """
        self._services = services
        self._session: aiohttp.ClientSession | None = None
        # By caBundle.
        self._contexts: dict[str, ssl.SSLContext] = {}

    async def call(self, client_config: Manifest, body: bytes, seconds: float) -> tuple[int, bytes]:
        """Send a POST and return the HTTP status and the body of the response.

        Args:
            client_config: Where the webhook is served, and the authority of its certificate.
            body: The body, JSON.
            seconds: How long the server waits, as the URL says; the caller ends the call by then.

        Raises:
            WebhookCallError: There is no response.
        """
        target = target_of(client_config)
        address = self._services.resolve(target) if target.service else WebhookAddress(target.host, target.port)
        if address.port not in _PORTS:
            raise WebhookCallError(f"dial tcp: address {address.port}: invalid port")
        context = self._context(client_config.get("caBundle") or "")
        import aiohttp  # noqa: PLC0415  # takes 0.1 s, and most clusters have no webhooks

        for is_last in (False, True):
            try:
                return await self._post(target, address, context, body, seconds)
            except aiohttp.ServerDisconnectedError:
                # The server has closed a kept connection, perhaps in this moment: a new one shows that.
                if is_last:
                    break
            except (OSError, aiohttp.ClientError, ValueError) as error:
                raise WebhookCallError(await _words(error, target, address, context)) from None
        raise WebhookCallError("EOF")

    async def _post(
        self, target: Target, address: WebhookAddress, context: ssl.SSLContext, body: bytes, seconds: float
    ) -> tuple[int, bytes]:
        if self._session is None:
            import aiohttp  # noqa: PLC0415  # as above

            connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=1)
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=None)
            )
        host = f"[{address.host}]" if ":" in address.host else address.host
        named = target.base.removeprefix("https://").removesuffix(":443")
        async with self._session.post(
            target._replace(base=f"https://{host}:{address.port}").url(seconds),
            data=body,
            headers={**_HEADERS, "Host": named},
            ssl=context,
            server_hostname=target.host,
            allow_redirects=False,
        ) as response:
            return response.status, await response.read()

    def _context(self, ca_bundle: str) -> ssl.SSLContext:
        """Return how the certificate is verified: by the authorities of the bundle, or by those of the machine."""
        context = self._contexts.get(ca_bundle)
        if context is None:
            try:
                pem = base64.b64decode(ca_bundle).decode() if ca_bundle else None
                context = ssl.create_default_context(cadata=pem)
            except (ssl.SSLError, binascii.Error, ValueError):
                raise NoClientError("unable to load root certificates: unable to parse bytes as PEM block") from None
            # As Go, which demands no key identifiers.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            if len(self._contexts) >= _MOST_CONTEXTS:
                self._contexts.clear()
            self._contexts[ca_bundle] = context
        return context

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()


async def _words(error: Exception, target: Target, address: WebhookAddress, context: ssl.SSLContext) -> str:
    """Return the message of Go for a failure of a connection."""
    import aiohttp  # noqa: PLC0415  # as above

    place = f"{address.host}:{address.port}"
    match error:
        case aiohttp.ClientConnectorCertificateError(certificate_error=ssl.SSLCertVerificationError() as cause):
            return await _why_unverified(cause.verify_code, target, address, context)
        case aiohttp.ClientConnectorSSLError(os_error=ssl.SSLError(reason=reason)):
            if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
                return "http: server gave HTTP response to HTTPS client"
            return f"remote error: tls: {(reason or 'handshake failure').lower().replace('_', ' ')}"
        case aiohttp.ClientConnectorDNSError():
            return f"dial tcp: lookup {address.host}: no such host"
        case aiohttp.ClientConnectorError(os_error=OSError(errno=number)) if number:
            return f"dial tcp {place}: connect: {os.strerror(number).lower()}"
        case ConnectionResetError() | aiohttp.ClientOSError():
            return f"read tcp {place}: read: connection reset by peer"
        case aiohttp.ClientPayloadError():
            return "unexpected EOF"
    return str(error) or type(error).__name__


async def _why_unverified(code: int, target: Target, address: WebhookAddress, context: ssl.SSLContext) -> str:
    if code in _TIMES:
        return f"{_UNVERIFIED}certificate has expired or is not yet valid"
    if code not in _NAMES:
        return f"{_UNVERIFIED}certificate signed by unknown authority"
    names = await _names_in_certificate(address, context)
    valid = f"valid for {', '.join(names)}, not" if names else "not valid for any names, but wanted to match"
    return f"{_UNVERIFIED}certificate is {valid} {target.host}"


async def _names_in_certificate(address: WebhookAddress, context: ssl.SSLContext) -> list[str]:
    """Return the names in a certificate that is trusted, and for another name than the one asked for."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.load_verify_locations(cadata="".join(map(ssl.DER_cert_to_PEM_cert, context.get_ca_certs(True))))
    trusting.check_hostname = False
    with suppress(OSError):
        _, writer = await asyncio.open_connection(address.host, address.port, ssl=trusting)
        try:
            found = writer.get_extra_info("peercert") or {}
        finally:
            writer.close()
        return [value for kind, value in found.get("subjectAltName", ()) if kind in ("DNS", "IP WebhookAddress")]
    return []
