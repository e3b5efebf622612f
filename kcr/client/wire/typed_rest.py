"""kubernetes-asyncio's `ApiClient` without its own connections: a client of kcr sends the requests (ST-32).

`kcr.client.typed_apis` imports it when it is needed: that takes a quarter of a second and some 39 MB (ST-1).
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from http.client import responses
from typing import Any
from urllib.parse import urlencode

import aiohttp
import msgspec
from kubernetes_asyncio.client import ApiClient, Configuration
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.client.rest import RESTClientObject
from multidict import CIMultiDict, CIMultiDictProxy

from kcr.client.wire import decoding
from kcr.client.wire.pressure import CALL_SECONDS, with_retries
from kcr.client.wire.transport import IDLE_SECONDS, JSON, Request, Response
from kcr.errors import ApiError, KcrError, TransportError

# Sends one request, under the client's limits.
Exchange = Callable[[Request], AbstractAsyncContextManager[Response]]


class TypedApiClient(ApiClient):
    """An `ApiClient` whose requests a client of kcr sends; the APIs of `kubernetes.aio` may use it, too.

    Its `configuration` has neither server nor credentials: those are the transport's.
    """

    def __init__(self, exchange: Exchange, component: str) -> None:
        """Make an ApiClient.

        Args:
            exchange: Sends one request.
            component: The part of the program that asks, for the User-Agent; empty for the whole.
        """
        # Not the library's own: that opens a session, and reads the machine's certificates, 20 ms each.
        # The host is asked for by the library's `DynamicClient` alone.
        self.configuration: Configuration = Configuration(host="kcr")
        self.client_side_validation: bool = self.configuration.client_side_validation
        self.rest_client: RestClient = RestClient(exchange, component, _refusal)
        self.default_headers: dict[str, str] = {}
        self.cookie: Any = None
        self.pool_threads = 1

    @cached_property
    def _official(self) -> Any:
        from kcr.client.wire.official_rest import OfficialApiClient  # noqa: PLC0415  # the package is optional

        return OfficialApiClient(self.rest_client, self.default_headers)

    def call_api(self, resource_path: str, method: str, *args: Any, **options: Any) -> Any:
        """Send a request: kubernetes-asyncio gives its path first, and `kubernetes.aio` its method."""
        if resource_path.startswith("/"):
            return super().call_api(resource_path, method, *args, **{**options, "_host": ""})
        return self._official.call_api(resource_path, method, *args, **options)

    async def param_serialize(self, *args: Any, **options: Any) -> Any:
        """Return what `kubernetes.aio` gives to `call_api`."""
        return await self._official.param_serialize(*args, **options)

    def response_deserialize(self, *args: Any, **options: Any) -> Any:
        """Return an answer as a model of `kubernetes.aio`."""
        return self._official.response_deserialize(*args, **options)


def _refusal(error: KcrError, answer: Any) -> ApiException:
    refusal = ApiException(0, str(error), answer)
    # The library decodes it.
    refusal.body = refusal.body or b""
    return refusal


class Answer(msgspec.Struct):
    """A whole response, as the libraries' `RESTResponse`; kubernetes-asyncio decodes `data` in place."""

    status: int
    reason: str
    headers: CIMultiDictProxy[str]
    data: Any = b""

    @property
    def response(self) -> "Answer":
        """The response itself."""
        return self

    async def read(self) -> Any:
        """Return the body."""
        return self.data

    async def json(self) -> Any:
        """Return the body of JSON; the libraries' `DynamicClient` asks for it."""
        return msgspec.json.decode(await self.read())

    def getheaders(self) -> CIMultiDictProxy[str]:
        """Return the headers."""
        return self.headers

    def getheader(self, name: str, default: Any = None) -> Any:
        """Return one header."""
        return self.headers.get(name, default)


# Makes the library's exception for an error of kcr, and for the answer if there is one.
Refusal = Callable[[KcrError, Answer | None], Any]


class RestClient(RESTClientObject):
    """The libraries' `RESTClientObject`."""

    def __init__(self, exchange: Exchange, component: str, refusal: Refusal) -> None:
        self._exchange = exchange
        self._component = component
        self._refusal = refusal

    def refusing(self, refusal: Refusal) -> "RestClient":
        """Return one with other exceptions."""
        return RestClient(self._exchange, self._component, refusal)

    def _refused(self, error: KcrError, answer: Answer | None) -> Any:
        refused = self._refusal(error, answer)
        # A reconcile that raises the exception fails as with that.
        refused.kcr_error = error
        return refused

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
        """Send one request; see kubernetes-asyncio's `RESTClientObject.request`.

        Raises:
            ApiException: The server refuses, or no answer came (`status` is 0 then).
        """
        if post_params:
            raise ValueError(f"{method} {url}: the Kubernetes API takes no forms")
        sent = {"Content-Type": JSON, **(headers or {})}
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

    async def _call(self, request: Request) -> Answer:
        refused: Answer | None = None

        async def send(request: Request) -> Answer:
            nonlocal refused
            async with self._exchange(request) as response:
                answer = Answer(*_head(response), await response.read())
            if answer.status >= 300:
                refused = answer
                raise _error_from(request, response, answer.data)
            return answer

        try:
            return await with_retries(request, send)
        except KcrError as error:
            raise self._refused(error, refused if isinstance(error, ApiError) else None) from error

    async def _stream(self, request: Request, timeout: Any) -> "_Stream":
        total, idle = _timeouts(timeout) if timeout else (None, None)
        if "allowwatchbookmarks=true" in request.target.lower():
            # Something comes once a minute then, so silence is a dead connection.
            idle = idle or IDLE_SECONDS
        parts = _parts(self._exchange, request._replace(timeout_seconds=total, idle_seconds=idle))
        try:
            response = await anext(parts)
            if response.status >= 300:
                answer = Answer(*_head(response), await response.read())
                await parts.aclose()
                raise self._refused(_error_from(request, response, answer.data), answer)
        except TransportError as error:
            raise self._refused(error, None) from error
        return _Stream(*_head(response), parts=parts)


class _Stream(Answer):
    """The result of a call with `_preload_content=False`: the used part of aiohttp's response interface.

    `close` is no coroutine, as there, so it drops the generator that holds the connection; the event loop closes it.
    """

    parts: AsyncIterator[bytes] | None = None

    @property
    def content(self) -> "_Stream":
        """The body."""
        return self

    async def readline(self) -> bytes:
        """Return the next line, and nothing at the end.

        Raises:
            TimeoutError: Nothing came for too long.
            aiohttp.ClientPayloadError: The connection was cut.
        """
        if self.parts is None:
            return b""
        try:
            return await anext(self.parts, b"")
        except TransportError as error:
            if isinstance(error.__cause__, TimeoutError):
                raise TimeoutError(str(error)) from error
            raise aiohttp.ClientPayloadError(str(error)) from error

    async def read(self) -> Any:
        """Return the rest of the body."""
        lines = []
        while line := await self.readline():
            lines.append(line)
        self.data = self.data or b"".join(lines)
        return self.data

    def close(self) -> None:
        """Close the connection."""
        self.parts = None

    release = close


async def _parts(exchange: Exchange, request: Request) -> AsyncGenerator[Any, None]:
    async with exchange(request) as response:
        yield response
        lines = response.lines()
        try:
            async for line in lines:
                yield line + b"\n"
        finally:
            if isinstance(lines, AsyncGenerator):
                await lines.aclose()


def _head(response: Response) -> tuple[int, str, CIMultiDictProxy[str]]:
    phrase = responses.get(response.status, "")
    return response.status, phrase, CIMultiDictProxy(CIMultiDict(response.headers))


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
    raise ValueError(f"_request_timeout is {asked!r}: give it seconds, (connect, read) or an aiohttp.ClientTimeout")


def _error_from(request: Request, response: Response, body: bytes) -> ApiError:
    return decoding.error_from(response.status, response.headers, body, request.method, request.target)
