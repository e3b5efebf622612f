"""The handlers httpGet and tcpSocket, with the messages of Go's network library, which users know from events."""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from urllib.parse import urljoin, urlsplit

import aiohttp

from kcr_devcluster.cluster.node.pods import HTTPGetAction
from kcr_devcluster.cluster.node.probes.results import HandlerResult

USER_AGENT = "kube-probe/1.36"
MAX_BODY_BYTES = 10 * 1024
MAX_REDIRECTS = 10
_REDIRECTS = (301, 302, 303, 307, 308)
_OK, _REDIRECT, _BAD = 200, 300, 400


async def connect(host: str, port: int, timeout: float) -> HandlerResult:
    """Run a tcpSocket handler: open a connection, and close it.

    Source: kubernetes/pkg/probe/tcp/tcp.go, DoTCPProbe.
    """
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return HandlerResult("failure", f"dial tcp {host}:{port}: i/o timeout")
    except OSError as error:
        return HandlerResult("failure", _dial_error(host, port, error))
    writer.transport.abort()
    return HandlerResult("success")


async def probe_get(url: str, action: HTTPGetAction, timeout: float) -> HandlerResult:
    """Run the httpGet handler of a probe.

    Args:
        url: Where to.
        action: Its headers.
        timeout: In seconds, for everything.

    Source: kubernetes/pkg/probe/http/http.go, DoHTTPProbe.
    """
    try:
        async with asyncio.timeout(timeout):
            status, body = await get(url, action)
    except TimeoutError:
        words = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        return HandlerResult("failure", f'Get "{url}": {words}')
    except RequestError as error:
        return HandlerResult("failure", f'Get "{url}": {error}')
    if _OK <= status < _REDIRECT:
        return HandlerResult("success", body)
    if _REDIRECT <= status < _BAD:
        return HandlerResult("warning", f"Probe terminated redirects, Response body: {body}")
    return HandlerResult("failure", f"HTTP probe failed with statuscode: {status}")


class RequestError(Exception):
    """There is no response; the message says why, as Go says it."""


def _headers(action: HTTPGetAction) -> Mapping[str, str]:
    headers = {"User-Agent": USER_AGENT, "Accept": "*/*", "Connection": "close"}
    given = {header.name.title(): header.value for header in action.http_headers}
    return {name: value for name, value in (headers | given).items() if value}


async def get(url: str, action: HTTPGetAction) -> tuple[int, str]:
    """Return code and beginning of the body of the response to a GET.

    Certificates are not verified. Redirects are followed on the same host, as far as they lead there.

    Raises:
        RequestError: No response came.
    """
    headers = _headers(action)
    connector = aiohttp.TCPConnector(ssl=False, force_close=True)
    try:
        async with aiohttp.ClientSession(
            connector=connector, auto_decompress=False, skip_auto_headers=("Accept-Encoding",),
            timeout=aiohttp.ClientTimeout(total=None), cookie_jar=aiohttp.DummyCookieJar(),
        ) as session:  # fmt: skip
            for _ in range(MAX_REDIRECTS):
                async with session.get(url, headers=headers, allow_redirects=False) as response:
                    target = urljoin(url, response.headers.get("Location", url))
                    if response.status not in _REDIRECTS or urlsplit(target).hostname != urlsplit(url).hostname:
                        body = await response.content.read(MAX_BODY_BYTES)
                        return response.status, body.decode(errors="replace")
                url = target
    except aiohttp.ClientConnectorError as error:
        raise RequestError(_dial_error(error.host, error.port or 0, error.os_error)) from error
    except aiohttp.ServerDisconnectedError as error:
        raise RequestError("EOF") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise RequestError(str(error) or type(error).__name__) from error
    raise RequestError(f"stopped after {MAX_REDIRECTS} redirects")


def _dial_error(host: str, port: int, error: OSError) -> str:
    """Return why there is no connection, as Go's dialer says it."""
    if isinstance(error, socket.gaierror):
        return f"dial tcp: lookup {host}: no such host"
    if isinstance(error, ssl.SSLError):
        is_plain = error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
        return "http: server gave HTTP response to HTTPS client" if is_plain else str(error)
    # asyncio hides the reason of several addresses in a message of its own.
    reason = (error.strerror or str(error)).lower()
    if "connect call failed" in reason:
        reason = "connection refused"
    return f"dial tcp {host}:{port}: connect: {reason}"
