"""kubernetes-asyncio's `ApiClient` without its own connections: a client of kcr sends the requests (ST-32).

The one module beside `kcr.client.auth.config` that knows the library. `kcr.client.typed_apis` imports it when it is
needed: that takes a quarter of a second and some 39 MB (ST-1).
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlencode

import aiohttp
import msgspec
from kubernetes_asyncio.client import ApiClient, Configuration
from kubernetes_asyncio.client.exceptions import ApiException, ApiValueError
from kubernetes_asyncio.client.rest import RESTClientObject
from multidict import CIMultiDict, CIMultiDictProxy

from kcr.client.wire import decoding
from kcr.client.wire.requests import IDLE_SECONDS
from kcr.client.wire.retry import CALL_SECONDS, with_retries
from kcr.client.wire.transport import Request, Response
from kcr.errors import ApiError, KcrError, TransportError

# Sends one request, under the client's limits.
Exchange = Callable[[Request], AbstractAsyncContextManager[Response]]

_JSON = "application/json"


class TypedApiClient(ApiClient):
    """An `ApiClient` whose requests a client of kcr sends.

    Its `configuration` has neither server nor credentials: those are the transport's.
    """

    def __init__(self, exchange: Exchange, component: str) -> None:
        """Make an ApiClient.

        Args:
            exchange: Sends one request.
            component: The part of the program that asks, for the User-Agent; empty for the whole.
        """
        # Not the library's own: that opens a session, and reads the machine's certificates, 20 ms each.
        self.configuration: Configuration = Configuration(host="")
        self.client_side_validation: bool = self.configuration.client_side_validation
        self.rest_client: _RestClient = _RestClient(exchange, component)
        self.default_headers: dict[str, str] = {}
        self.cookie: Any = None
        self.pool_threads = 1


class _TypedApiError(ApiException):
    """The library's exception for an error of kcr.

    Attributes:
        kcr_error: That error: a reconcile that raises the exception fails as with it.
    """

    def __init__(self, error: KcrError, answer: "_Answer | None") -> None:
        super().__init__(status=0, reason=str(error))
        self.kcr_error = error
        # The library decodes it.
        self.body: Any = b""
        if answer is not None:
            self.status, self.reason, self.headers = answer.status, answer.reason, answer.headers
            self.body = answer.data


class _Head(NamedTuple):
    """Status, reason phrase and headers of a response."""

    status: int
    reason: str
    headers: CIMultiDictProxy[str]


class _Answer:
    """A whole response, as the library's `RESTResponse`; the library decodes `data` in place."""

    def __init__(self, head: _Head, data: bytes) -> None:
        self.status, self.reason, self.headers = head
        self.data: Any = data

    def getheaders(self) -> CIMultiDictProxy[str]:
        """Return the headers."""
        return self.headers

    def getheader(self, name: str, default: Any = None) -> Any:
        """Return one header."""
        return self.headers.get(name, default)


class _RestClient(RESTClientObject):
    def __init__(self, exchange: Exchange, component: str) -> None:
        self._exchange = exchange
        self._component = component

    async def close(self) -> None:
        """Close nothing: the connections are the transport's."""

    async def request(  # the library's own signature
        self,
        method: str,
        url: str,
        query_params: Any = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        post_params: Any = None,
        _preload_content: bool = True,
        _request_timeout: Any = None,
    ) -> Any:
        """Send one request; see the library's `RESTClientObject.request`.

        Raises:
            ApiException: The server refuses, or no answer came (`status` is 0 then).
        """
        if post_params:
            raise ApiValueError(f"{method} {url}: the Kubernetes API takes no forms")
        sent = {"Content-Type": _JSON, **(headers or {})}
        # The transport names the program.
        sent.pop("User-Agent", None)
        total, idle = _timeouts(_request_timeout)
        request = Request(
            method.upper(),
            f"{url}?{urlencode(query_params)}" if query_params else url,
            {name.lower(): value for name, value in sent.items()},
            b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body),
            total,
            idle,
            self._component,
        )
        return await (self._call(request) if _preload_content else self._stream(request, _request_timeout))

    async def _call(self, request: Request) -> _Answer:
        refused: _Answer | None = None

        async def send(request: Request) -> _Answer:
            nonlocal refused
            async with self._exchange(request) as response:
                answer = _Answer(_head(response), await response.read())
            if answer.status >= 300:
                refused = answer
                raise _error_from(request, response, answer.data)
            return answer

        try:
            return await with_retries(request, send)
        except KcrError as error:
            raise _TypedApiError(error, refused if isinstance(error, ApiError) else None) from error

    async def _stream(self, request: Request, timeout: Any) -> "_Stream":
        """Send a request whose answer the caller reads: a watch, or the log of a container."""
        total, idle = _timeouts(timeout) if timeout else (None, None)
        if "allowWatchBookmarks=True" in request.target:
            # Something comes once a minute then, so silence is a dead connection.
            idle = idle or IDLE_SECONDS
        parts = _parts(self._exchange, request._replace(timeout_seconds=total, idle_seconds=idle))
        try:
            response = await anext(parts)
            if response.status >= 300:
                answer = _Answer(_head(response), await response.read())
                await parts.aclose()
                raise _TypedApiError(_error_from(request, response, answer.data), answer)
        except TransportError as error:
            raise _TypedApiError(error, None) from error
        return _Stream(_head(response), parts)


class _Stream:
    """The result of a call with `_preload_content=False`: the used part of aiohttp's response interface.

    `close` is no coroutine, as there, so it drops the generator that holds the connection; the event loop closes it.
    """

    def __init__(self, head: _Head, parts: AsyncGenerator[Any, None]) -> None:
        self.status, self.reason, self.headers = head
        self._parts: AsyncIterator[bytes] | None = parts
        self.content = self

    async def readline(self) -> bytes:
        """Return the next line, and nothing at the end.

        Raises:
            TimeoutError: Nothing came for too long.
            aiohttp.ClientPayloadError: The connection was cut.
        """
        if self._parts is None:
            return b""
        try:
            return await anext(self._parts, b"")
        except TransportError as error:
            if isinstance(error.__cause__, TimeoutError):
                raise TimeoutError(str(error)) from error
            raise aiohttp.ClientPayloadError(str(error)) from error

    async def read(self) -> bytes:
        """Return the rest of the body."""
        lines = []
        while line := await self.readline():
            lines.append(line)
        return b"".join(lines)

    def close(self) -> None:
        """Close the connection."""
        self._parts = None

    release = close


async def _parts(exchange: Exchange, request: Request) -> AsyncGenerator[Any, None]:
    """Yield the response, then the lines of its body."""
    async with exchange(request) as response:
        yield response
        lines = response.lines()
        if isinstance(lines, AsyncGenerator):
            async with aclosing(lines):
                async for line in lines:
                    yield line + b"\n"
        else:
            async for line in lines:
                yield line + b"\n"


def _head(response: Response) -> _Head:
    try:
        phrase = HTTPStatus(response.status).phrase
    except ValueError:
        phrase = ""
    return _Head(response.status, phrase, CIMultiDictProxy(CIMultiDict(response.headers)))


def _timeouts(asked: Any) -> tuple[float | None, float | None]:
    """Return how many seconds the whole exchange may take, and a silence within it."""
    match asked:
        case None | 0:
            return CALL_SECONDS, None
        case int() | float():
            return float(asked), None
        case (_, idle):
            return CALL_SECONDS, idle
        case aiohttp.ClientTimeout():
            return asked.total, asked.sock_read
    raise ApiValueError(f"_request_timeout is {asked!r}: give it seconds, (connect, read) or an aiohttp.ClientTimeout")


def _error_from(request: Request, response: Response, body: bytes) -> ApiError:
    return decoding.error_from(response.status, response.headers, body, request.method, request.target)
