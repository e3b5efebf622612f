"""HTTP ports for metrics and probes."""

import os
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NamedTuple, Self

from kcr.api.bindaddress import MAX_CONNECTIONS, BindAddress
from kcr.client.credentials import redacted
from kcr.errors import ConfigError
from kcr.log import get_logger

if TYPE_CHECKING:
    from aiohttp import web

    from kcr.serving.httpserver import Handler

_log = get_logger()

# At shutdown, open connections are closed after it.
_LINGER_SECONDS = 0.5
# Those of `BrowserHeaders`.
_BROWSER = ("Sec-Fetch-Site", "Sec-Fetch-Mode", "User-Agent")


class ProbeResponse(NamedTuple):
    """The response to a GET.

    Attributes:
        status: The status code.
        body: The body.
        content_type: The media type of the body.
        headers: Other headers.
    """

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = {}


class BrowserHeaders(NamedTuple):
    """The headers of a request that no page can forge.

    Attributes:
        site: `Sec-Fetch-Site`: `same-origin`, `same-site`, `cross-site`, or `none` for an address that the user typed.
        mode: `Sec-Fetch-Mode`: `navigate` when a window or frame is to show the response.
        user_agent: `User-Agent`, which begins with `Mozilla/` in all browsers.
    """

    site: str = ""
    mode: str = ""
    user_agent: str = ""


class ProbeRequest(NamedTuple):
    """A GET or HEAD request.

    Attributes:
        path: The path, decoded.
        query: The query parameters, each with all its values.
        accept: The `Accept` header.
        method: `GET` or `HEAD`.
        authorization: The `Authorization` header.
        client: The address of the client, without its port.
        host: The `Host` header.
        browser: The browser's headers about itself and the origin of the request.
    """

    path: str
    query: Mapping[str, Sequence[str]] = {}
    accept: str = ""
    method: str = "GET"
    authorization: str = ""
    client: str = ""
    host: str = ""
    browser: BrowserHeaders = BrowserHeaders()

    def __repr__(self) -> str:
        return redacted(self, "method", "path")


class PortLimits(NamedTuple):
    """What the clients of a port may ask of it.

    Attributes:
        max_connections: How many connections may be open; the oldest idle one makes room for a new one.
        max_body: The maximum size of a body, in bytes.
        linger_seconds: How long running requests may take once the port closes; new ones are not accepted.
    """

    max_connections: int = MAX_CONNECTIONS
    max_body: int = 0
    linger_seconds: float = _LINGER_SECONDS


class ServerPort:
    """Listens for as long as the context lives, and calls a handler for each request.

    Attributes:
        port: The port it listens on.
    """

    def __init__(
        self, what: str, address: BindAddress, answer: "Handler", tls: ssl.SSLContext | None = None,
        *, limits: PortLimits = PortLimits()  # noqa: B008,
    ) -> None:  # fmt: skip
        """Make a port; it does not listen yet.

        Args:
            what: Its purpose, for the log.
            address: Where to listen.
            answer: Answers a request.
            tls: With its certificate; None for plain HTTP.
            limits: What clients may ask of it.
        """
        self.port: int = address.port
        self._what = what
        self._address = address
        self._handler = answer
        self._tls = tls
        self._limits = limits
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Open the port.

        Raises:
            ConfigError: The address cannot be bound.
        """
        from aiohttp import web  # noqa: PLC0415  # most processes that import this never listen

        from kcr.serving.httpserver import Server, Site  # noqa: PLC0415  # see above

        server = Server(self._handler, max_body=self._limits.max_body, max_connections=self._limits.max_connections)
        runner = web.ServerRunner(server, shutdown_timeout=self._limits.linger_seconds)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(server.wait_closed, _LINGER_SECONDS)
            stack.push_async_callback(runner.cleanup)
            await runner.setup()
            try:
                await Site(runner, self._address.host or None, self._address.port, tls=self._tls).start()
            except OSError as error:
                reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
                raise ConfigError(
                    f"{self._what}: cannot listen on {self._address}: {reason}: name another address, or 0 for none"
                ) from error
            self._open = stack.pop_all()
        self.port = runner.addresses[0][1]
        address = str(self._address._replace(port=self.port))
        _log.info("listening", what=self._what, address=address, secure=self._tls is not None)
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._open.aclose()


class HTTPServer(ServerPort):
    """Listens for as long as the context lives, and answers GET."""

    def __init__(
        self,
        what: str,
        address: BindAddress,
        page: Callable[[ProbeRequest], Awaitable[ProbeResponse | None]],
        tls: ssl.SSLContext | None = None,
        *,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        """Make a server; it does not listen yet.

        Args:
            what: Its purpose, for the log.
            address: Where to listen.
            page: Returns the response; None for 404.
            tls: With its certificate; None for plain HTTP.
            max_connections: How many connections may be open.
        """
        super().__init__(what, address, self._answer, tls, limits=PortLimits(max_connections))
        self._page = page

    async def _answer(self, request: "web.BaseRequest") -> "web.Response":
        from aiohttp import web  # noqa: PLC0415  # see above

        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, headers={"Allow": "GET, HEAD"}, text="405: Method Not Allowed\n")
        query = {name: request.query.getall(name) for name in request.query}
        accept, authorization, host = (request.headers.get(name, "") for name in ("Accept", "Authorization", "Host"))
        browser = BrowserHeaders(*(request.headers.get(name, "") for name in _BROWSER))
        client = request.remote or ""
        page = await self._page(
            ProbeRequest(request.path, query, accept, request.method, authorization, client, host, browser)
        )
        if page is None:
            page = ProbeResponse(404, b"404 page not found\n")
        headers = {**page.headers, "Content-Type": page.content_type}
        return web.Response(status=page.status, body=page.body, headers=headers)
