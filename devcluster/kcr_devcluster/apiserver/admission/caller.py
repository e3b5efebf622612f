"""Calls of webhooks: the protocol that the server speaks through, and a caller for handlers in the same process."""

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from kcr.errors import KcrError
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.replay import suspended

# Answers a call: gets the path, the body, and the seconds that the caller waits; returns the HTTP status and the body.
Handler = Callable[[str, bytes, float], Awaitable[tuple[int, bytes]]]
_DEFAULT_PORT = 443
_PORT = re.compile(r":([0-9]{1,18})$", re.ASCII)
_log = logging.getLogger(__name__)


class WebhookCallError(KcrError):
    """A webhook could not be called; its text is the cause, such as `connection refused`, in Go's words."""


class NoClientError(WebhookCallError):
    """The `clientConfig` of a webhook is of no use: nothing was sent."""


class WebhookCaller(Protocol):
    """Calls webhooks: an HTTP client, or handlers in the same process."""

    async def call(self, client_config: Manifest, body: bytes, seconds: float) -> tuple[int, bytes]:
        """Send a POST and return the HTTP status and the body of the response.

        Args:
            client_config: The `clientConfig`: a `url`, or a `service` with `namespace`, `name`, `port`; a `caBundle`.
            body: The body, JSON.
            seconds: How long the server waits, which the webhook is told.

        Raises:
            WebhookCallError: There is no response.
            NoClientError: Its `caBundle` cannot be read.
        """
        ...


class NoCaller:
    """The caller of a server that cannot call webhooks."""

    async def call(self, client_config: Manifest, body: bytes, seconds: float) -> tuple[int, bytes]:
        """Refuse the call."""
        raise WebhookCallError("this server has no connections to webhooks")


class InProcessCaller:
    """Calls handlers in the same process, without sockets.

    Attributes:
        handlers: The handlers: by `namespace/name` of a Service, or by the begin of a URL, as `https://127.0.0.1:9443`.
        fallback: Calls webhooks without a handler.
    """

    def __init__(self, fallback: WebhookCaller | None = None) -> None:
        self.handlers: dict[str, Handler] = {}
        self.fallback: WebhookCaller = fallback or NoCaller()

    async def call(self, client_config: Manifest, body: bytes, seconds: float) -> tuple[int, bytes]:
        """Call the handler of a webhook, or the fallback."""
        target = target_of(client_config)
        handler = self.handlers.get(target.service or target.base)
        if handler is None:
            return await self.fallback.call(client_config, body, seconds)
        try:
            with suspended():
                return await handler(target.path, body, seconds)
        except WebhookCallError:
            raise
        except Exception:
            _log.exception("webhook %s failed", target.url(seconds))
            raise WebhookCallError("EOF") from None


class Target(NamedTuple):
    """Where a webhook is served.

    Attributes:
        base: Scheme, host and port of its URL.
        path: The path.
        service: `namespace/name` of its Service, `""` where it has a URL.
        port: The port of the Service, or of the URL.
        host: The host that its certificate has to name.
    """

    base: str
    path: str
    service: str
    port: int
    host: str

    def url(self, seconds: float) -> str:
        """Return the URL of a call, which says how long the server waits."""
        return f"{self.base}{self.path}?timeout={seconds:g}s"


def target_of(client_config: Manifest) -> Target:
    """Return where a `clientConfig` points to.

    Raises:
        NoClientError: Its URL is none.

    Source: kubernetes/staging/src/k8s.io/apiserver/pkg/util/webhook/client.go, HookClient.
    """
    service: dict[str, Any] | None = client_config.get("service")
    if service is not None:
        namespace, name, port = service.get("namespace", ""), service.get("name", ""), service.get("port")
        host = f"{name}.{namespace}.svc"
        number = _DEFAULT_PORT if port is None else port
        path = "/" + (service.get("path") or "").removeprefix("/")
        return Target(f"https://{host}:{number}", path, f"{namespace}/{name}", number, host)
    url = client_config.get("url") or ""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError as error:
        raise NoClientError(f'parse "{url}": {error}') from None
    given = _PORT.search(parts.netloc)
    # Go reads any number, and refuses it when it connects.
    port = int(given[1]) if given else 80 if parts.scheme == "http" else _DEFAULT_PORT
    return Target(f"{parts.scheme}://{parts.netloc}", parts.path, "", port, host)
