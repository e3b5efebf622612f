"""HTTP ports for metrics and probes.

`ServerThread` serves a port on a thread and an event loop of its own: it answers while the program's loop is busy or
blocked. The thread reads, and changes nothing. Functions for the program's loop are sent there and awaited.
"""

import asyncio
import os
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

from kcr.api.bindaddress import MAX_CONNECTIONS, BindAddress
from kcr.client.credentials import redacted
from kcr.errors import ConfigError
from kcr.log import get_logger

if TYPE_CHECKING:
    from aiohttp import web

    from kcr.serving.httpserver import Handler

T = TypeVar("T")

_log = get_logger()

# At shutdown, open connections are closed after it.
_LINGER_SECONDS = 0.5
# Closing the port of a thread may take so long, and connections linger for half a second of it.
_CLOSE_SECONDS = 2.0
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


class ProgramLoop:
    """The event loop of the program, as another thread sees it.

    Attributes:
        loop: The event loop.
        thread: Where it runs.
        began: When this was made, in the loop's time.
    """

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.thread: int = threading.get_ident()
        self.began: float = self.loop.time()

    def now(self) -> float:
        """Return the time of the program's loop; to be called on another one.

        The loops of all threads read the same clock, and one that is blocked may not know its time.
        """
        return asyncio.get_running_loop().time()

    async def read(self, function: Callable[[], T], seconds: float) -> T:
        """Call a plain function on the program's loop and return its result; awaited on another loop.

        It is called in the loop's next iteration, so a busy loop has no time to make it wait for long.

        Args:
            function: The function.
            seconds: How long it may take, the wait for the loop included.

        Raises:
            TimeoutError: It took longer.
            Exception: The function's exception, unchanged.
        """
        own = asyncio.get_running_loop()
        result: asyncio.Future[T] = own.create_future()

        def run() -> None:
            try:
                settle = partial(_settle, result, function())
            except Exception as error:
                settle = partial(_fail, result, error)
            with suppress(RuntimeError):  # the other loop is closed: no one waits any more
                own.call_soon_threadsafe(settle)

        self.loop.call_soon_threadsafe(run)
        async with asyncio.timeout(seconds):
            return await result

    async def call(self, function: Callable[[], Awaitable[T]], seconds: float) -> T:
        """Call a coroutine function on the program's loop and return its result; awaited on another loop.

        Args:
            function: The function; it is cancelled when the caller is.
            seconds: How long it may take, the wait for the loop included.

        Raises:
            TimeoutError: It took longer.
            Exception: The function's exception, unchanged.
        """

        async def run() -> T:
            return await function()

        running = run()
        try:
            future = asyncio.run_coroutine_threadsafe(running, self.loop)
        except RuntimeError:  # the loop is closed: the program has just ended
            running.close()
            raise
        async with asyncio.timeout(seconds):
            return await asyncio.wrap_future(future)


class ServerThread:
    """Runs an HTTP server on a thread of its own for as long as the context lives.

    Attributes:
        loop: The event loop of the thread.
    """

    def __init__(self, server: ServerPort, name: str, *, close_seconds: float = _CLOSE_SECONDS) -> None:
        """Make it; the thread starts with the context.

        Args:
            server: The server.
            name: Names the thread.
            close_seconds: How long the thread may take to end.
        """
        self._close_seconds = close_seconds
        self._server = server
        self._name = name
        self.loop: asyncio.AbstractEventLoop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._ended: asyncio.Future[None] | None = None
        self._failure: BaseException | None = None

    async def __aenter__(self) -> Self:
        """Open the port.

        Raises:
            ConfigError: The address cannot be bound.
        """
        main = asyncio.get_running_loop()
        opened: asyncio.Future[None] = main.create_future()
        ended = self._ended = main.create_future()

        def run() -> None:
            failure: BaseException | None = None
            try:
                with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
                    runner.run(self._serve(lambda: main.call_soon_threadsafe(_settle, opened, None)))
            except BaseException as error:
                failure = self._failure = error
            with suppress(RuntimeError):  # the program's loop is closed: no one waits any more
                if failure is not None:
                    main.call_soon_threadsafe(_fail, opened, failure)
                main.call_soon_threadsafe(_settle, ended, None)

        threading.Thread(target=copy_context().run, args=(run,), name=self._name, daemon=True).start()
        try:
            await opened
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *raised: object) -> None:
        assert self._ended is not None
        with suppress(RuntimeError):  # its loop is closed: it has ended by itself
            self.loop.call_soon_threadsafe(self._over.set)
        await asyncio.wait((self._ended,), timeout=self._close_seconds)
        if not self._ended.done():
            _log.warning("thread does not end", thread=self._name)

    async def watch(self) -> None:
        """Wait until the thread has ended by itself, as when a task on it raises SystemExit.

        Raises:
            RuntimeError: It has ended.
        """
        assert self._ended is not None
        await asyncio.shield(self._ended)
        raise RuntimeError(f"thread {self._name} has ended: {self._failure!r}") from self._failure

    async def _serve(self, on_open: Callable[[], object]) -> None:
        async with self._server:
            on_open()
            await self._over.wait()


def _settle(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: "asyncio.Future[T]", error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
