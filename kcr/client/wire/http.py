"""HTTP and TLS by aiohttp's client: the only place where its exceptions are seen."""

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from functools import lru_cache, partial
from importlib.metadata import version
from ipaddress import ip_address
from math import inf
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from msgspec.structs import replace
from multidict import CIMultiDictProxy
from yarl import URL

from kcr.arguments import checked
from kcr.client.cluster_config import ClusterConfig, expired_certificate, tls_context, tls_modified
from kcr.client.context import WRITE_CONTEXT
from kcr.client.credentials import Credential
from kcr.client.loops import HomeLoop, PerLoop
from kcr.client.wire.connections import FencedRequest, OnResolve, SilenceTimer, make_connector
from kcr.client.wire.transport import Request
from kcr.clock import TIMER_SLACK_SECONDS, SystemClock
from kcr.errors import ConfigError, TransportError
from kcr.log import about_no_object, get_logger

_log = get_logger("kcr.client")

_CONNECT_SECONDS = 10.0
# How long a server may take to answer the beginning of a WebSocket, and its end.
_UPGRADE_SECONDS, _CLOSE_SECONDS = 30.0, 1.0
# One line is one watch event, and an object may have 3 MiB as the server counts.
_LINE_BYTES = 32 * 1024 * 1024
# How often the files of certificates are checked for changes.
_CERTIFICATE_SECONDS = 60.0
_FAILURES = (aiohttp.ClientError, HttpProcessingError, TimeoutError, OSError, ValueError)


class HttpTransport:
    """Sends requests over HTTP/1.1, with one pool of connections for everything on an event loop.

    A refused credential is renewed once and the request sent again. Use it as a context, or call `aclose`. Other event
    loops may use it as well, as that of webhooks does: their connections are closed with them.

    Attributes:
        streamed_bytes: The size of all that was read line by line, mostly from watches, after decompression.
    """

    @checked
    def __init__(self, config: ClusterConfig, *, user_agent: str = "", on_resolve: OnResolve | None = None) -> None:
        """Make a transport; nothing is sent yet.

        Args:
            config: The cluster.
            user_agent: Names the program to the server, such as `website/1.2`; kcr's own name comes after it.
            on_resolve: Called when the name of the server was resolved, with the seconds, such as `metrics.resolver`.

        Raises:
            ConfigError: A certificate or key is unusable.
        """
        self.streamed_bytes: int = 0
        self._config = config
        self._on_resolve = on_resolve and partial(HomeLoop().call, on_resolve)
        self._user_agent = f"{user_agent} kcr/{version('kcr')}".lstrip()
        self._headers = (
            ("User-Agent", self._user_agent),
            ("Accept-Encoding", _encoding(config)),
            *config.headers,
        )
        url = URL(config.server, encoded=True)
        # Scheme and authority of all URLs, and how their paths begin.
        self._scheme, self._authority, self._root = url.scheme, url.raw_authority, url.raw_path.removesuffix("/")
        # The sources of the TLS context, and when its files were last checked.
        self._made_from = (tls_modified(config), "")
        self._looked_at = float("-inf")
        # Whether the server has accepted the present credentials.
        self._is_known = False
        self._tls = tls_context(config)
        self._loops = PerLoop(_Connections)

    @property
    def server(self) -> str:
        """The URL of the server."""
        return self._config.server

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections of this event loop; running requests fail."""
        await self._loops.here().aclose()

    def send(self, request: Request) -> "HttpResponse":
        """Send one request, on entering the context that it returns.

        Raises:
            TransportError: No answer came.
        """
        return HttpResponse(self, request)

    async def answer(self, exchange: "HttpResponse") -> "tuple[aiohttp.ClientResponse, _Pool]":
        """Return the answer to a request, and the pool that it has to `leave`; for `HttpResponse` alone."""
        credential = await self._config.credentials.current()
        answer, pool = await self._attempt(exchange, credential)
        if answer.status != 401:
            self._is_known = True
            return answer, pool
        if not self._config.credentials.invalidate(credential):
            self._log_expiry(credential)
            return answer, pool
        if pool.leave(exchange, answer):
            await pool.session.close()
        return await self._attempt(exchange, await self._config.credentials.current())

    def _log_expiry(self, credential: Credential) -> None:
        if self._is_known and (why := expired_certificate(self._config, credential, SystemClock().now())):
            self._is_known = False
            about_no_object(_log.error, "client certificate has expired", server=self._config.server, error=why)

    async def _attempt(
        self, exchange: "HttpResponse", credential: Credential
    ) -> "tuple[aiohttp.ClientResponse, _Pool]":
        try:
            pool = self._current_pool(credential) or await self._new_pool()
            try:
                return await self._request(pool, exchange, credential), pool
            except aiohttp.ClientSSLError:
                # Nothing was sent. Perhaps the authority was replaced: the present content of its file gets one try.
                self._refresh(credential)
                if self._tls is pool.tls:
                    raise
            pool = self._current_pool(credential) or await self._new_pool()
            return await self._request(pool, exchange, credential), pool
        except _FAILURES as error:
            if isinstance(error, aiohttp.ClientOSError):
                self._log_expiry(credential)
            raise _failure(exchange.request, error, self._config.server) from error

    async def _request(self, pool: "_Pool", exchange: "HttpResponse", credential: Credential) -> aiohttp.ClientResponse:
        request = exchange.request
        headers = request.headers
        if credential.authorization:
            headers = {**headers, "Authorization": credential.authorization}
        if request.component:
            headers = {**headers, "User-Agent": f"{self._user_agent} ({request.component})"}
        path, _, query = request.target.partition("?")
        pool.enter(exchange)
        # Read within this call only, so that without a fence there is nothing to set.
        token = None
        if request.fence is not None:
            token = WRITE_CONTEXT.set(replace(WRITE_CONTEXT.get(), fence=request.fence))
        try:
            # From its parts: parsing takes three times as long.
            url = URL.build(
                scheme=self._scheme, authority=self._authority, path=self._root + path, query_string=query, encoded=True
            )
            if "upgrade" in headers:
                return await self._upgrade(pool, exchange, url, headers)
            return await pool.session.request(
                request.method,
                url,
                headers=headers,
                data=request.body or None,
                timeout=_timeout(request.idle_seconds),
                allow_redirects=False,
                proxy=self._config.proxy or None,
                server_hostname=self._config.server_name or None,
            )
        except BaseException as error:
            if pool.leave(exchange):
                await pool.session.close()
            exchange.settle(error)
            raise
        finally:
            if token is not None:
                WRITE_CONTEXT.reset(token)

    async def _upgrade(
        self, pool: "_Pool", exchange: "HttpResponse", url: URL, headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        """Open a WebSocket, and return the answer; aiohttp drops the body of a refusal, so it is read before."""
        answers: list[aiohttp.ClientResponse] = []

        async def note(answer: aiohttp.ClientResponse) -> None:
            answers.append(answer)
            if answer.status != 101:
                exchange.upgraded = await answer.read()

        timeout = aiohttp.ClientTimeout(total=_UPGRADE_SECONDS, sock_connect=_CONNECT_SECONDS)
        session = self._new_session(pool.session.connector, raise_for_status=note, timeout=timeout)
        try:
            exchange.upgraded = await session.ws_connect(
                url,
                headers=headers,
                protocols=headers["sec-websocket-protocol"].split(","),
                timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_SECONDS),
                proxy=self._config.proxy or None,
                server_hostname=self._config.server_name or None,
            )
        except aiohttp.WSServerHandshakeError:
            if exchange.upgraded is None:
                raise
        finally:
            await session.close()  # its connections are the pool's
        return answers[0]

    def _new_session(self, connector: aiohttp.BaseConnector | None, **options: Any) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=connector,
            connector_owner=not options,
            headers=self._headers,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=True,
            request_class=FencedRequest,
            **options,
        )

    def _current_pool(self, credential: Credential) -> "_Pool | None":
        now = asyncio.get_running_loop().time()
        if now - self._looked_at >= _CERTIFICATE_SECONDS or credential.certificate != self._made_from[1]:
            self._looked_at = now
            self._refresh(credential)
        pool = self._loops.here().pool
        return pool if pool is not None and pool.tls is self._tls else None

    async def _new_pool(self) -> "_Pool":
        here, context = self._loops.here(), self._tls
        pool = _Pool(self._new_session(make_connector(context, self._on_resolve)), context)
        await here.replace(pool)
        await here.close_with_loop()
        return pool

    def _refresh(self, credential: Credential) -> None:
        made_from = (tls_modified(self._config), credential.certificate)
        if made_from == self._made_from:
            return
        try:
            self._tls = tls_context(self._config, credential)
        except ConfigError as error:
            # Perhaps the files are being written just now. The present context is tried as long as it works.
            server = self._config.server
            about_no_object(_log.warning, "certificates not reloaded", server=server, error=str(error))
            return
        self._made_from = made_from


class _Pool:
    """Connections made with one set of certificates, and the requests that run on them.

    They share a timer: one of aiohttp for each costs more than to decode its answer.

    Attributes:
        is_outdated: Whether no new request uses it: its certificates were replaced.
    """

    def __init__(self, session: aiohttp.ClientSession, context: ssl.SSLContext) -> None:
        self.session = session
        self.tls = context
        self.users = set[HttpResponse]()
        self.is_outdated = False
        self._loop = asyncio.get_running_loop()
        self._wakes_at = inf
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, exchange: "HttpResponse") -> None:
        """Begin a request; its task is cancelled when it takes too long."""
        self.users.add(exchange)
        seconds, task = exchange.request.timeout_seconds, asyncio.current_task()
        if seconds is not None and task is not None:
            exchange.task, exchange.cancelled_before = task, task.cancelling()
            exchange.due = self._loop.time() + seconds
            self._wake(exchange.due)

    def leave(self, exchange: "HttpResponse", answer: aiohttp.ClientResponse | None = None) -> bool:
        """End the use by a request, release the connection of its answer, and return whether to close the session."""
        if answer is not None:
            answer.release()
        self.users.discard(exchange)
        return self.is_outdated and not self.users

    def _wake(self, due: float) -> None:
        if due < self._wakes_at:
            if self._timer is not None:
                self._timer.cancel()
            self._wakes_at, self._timer = due, self._loop.call_at(due, self._expire)

    def _expire(self) -> None:
        """Cancel what takes too long, and come back for the next."""
        self._wakes_at, self._timer, now = inf, None, self._loop.time() + TIMER_SLACK_SECONDS
        for one in self.users:
            if one.due <= now:
                one.due, one.is_late = inf, True
                one.task.cancel()
        self._wake(min([one.due for one in self.users], default=inf))


class _Connections:
    """The connections of one event loop."""

    def __init__(self) -> None:
        # The pool that new requests use; None before the first. Pools with outdated certificates stay
        # open for requests that still run on them.
        self.pool: _Pool | None = None
        self._outdated: set[_Pool] = set()
        self._ending: AsyncGenerator[None, None] | None = None

    async def replace(self, pool: _Pool) -> None:
        """Use another pool for new requests."""
        old, self.pool = self.pool, pool
        if old is None:
            return
        old.is_outdated = True
        self._outdated = {pool for pool in (*self._outdated, old) if pool.users}
        if not old.users:
            await old.session.close()

    async def aclose(self) -> None:
        ending, self._ending = self._ending, None
        if ending is not None:
            await ending.aclose()

    async def close_with_loop(self) -> None:
        """Close all when the loop ends: asyncio closes the asynchronous generators of a loop with it."""
        if self._ending is None:
            self._ending = self._close_at_end()
            await anext(self._ending)

    async def _close_at_end(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            pools = [*self._outdated, *([self.pool] if self.pool else [])]
            self._outdated, self.pool = set(), None
            for pool in pools:
                await pool.session.close()


class HttpResponse:
    """A request on its way, as a context; within it, the answer that has begun to arrive.

    One object for both, and no generator: each layer more would cost a request more than it does.
    """

    __slots__ = (
        "_answer", "_pool", "_transport", "cancelled_before", "due", "headers", "is_late", "request", "status",
        "task", "upgraded",
    )  # fmt: skip

    _answer: aiohttp.ClientResponse
    _pool: _Pool
    request: Request
    due: float
    is_late: bool
    status: int
    headers: Mapping[str, str]
    task: asyncio.Task[Any]
    cancelled_before: int

    def __init__(self, transport: HttpTransport, request: Request) -> None:
        self._transport = transport
        self.request = request
        self.due = inf
        self.is_late = False
        # Of a request for an upgrade: the WebSocket, or the body of a refusal.
        self.upgraded: aiohttp.ClientWebSocketResponse | bytes | None = None

    def settle(self, error: BaseException | None) -> None:
        """Raise TransportError for the cancellation of a late request, unless others have cancelled it as well."""
        if self.is_late:
            self.is_late = False
            if self.task.uncancel() <= self.cancelled_before and isinstance(error, asyncio.CancelledError):
                raise _failure(self.request, TimeoutError(), self._transport.server) from error

    async def __aenter__(self) -> Self:
        """Send the request, and return when its answer has begun."""
        self._answer, self._pool = await self._transport.answer(self)
        self.status, self.headers = self._answer.status, _Headers(self._answer.headers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the connection; one whose answer was not read to its end is closed."""
        try:
            if isinstance(self.upgraded, aiohttp.ClientWebSocketResponse):
                await self.upgraded.close()
        finally:
            if self._pool.leave(self, self._answer):
                await self._pool.session.close()
        self.settle(error)

    async def read(self) -> bytes:
        """Return the whole body."""
        if isinstance(self.upgraded, bytes):
            return self.upgraded
        try:
            return await self._answer.read()
        except _FAILURES as error:
            raise _failure(self.request, error) from error
        except asyncio.CancelledError as error:
            self.settle(error)
            raise

    async def send(self, message: bytes) -> None:
        """Send a message; see `UpgradedResponse`."""
        assert isinstance(self.upgraded, aiohttp.ClientWebSocketResponse)
        try:
            await self.upgraded.send_bytes(message)
        except _FAILURES as error:
            raise _failure(self.request, error) from error

    def lines(self) -> AsyncIterator[bytes]:
        """Yield the body line by line, as it arrives; of a WebSocket its messages."""
        return self._messages() if self.status == 101 else self._lines()

    async def _messages(self) -> AsyncIterator[bytes]:
        assert isinstance(self.upgraded, aiohttp.ClientWebSocketResponse)
        async for message in self.upgraded:
            if message.type is not aiohttp.WSMsgType.BINARY:
                break
            if message.data:
                yield message.data

    async def _lines(self) -> AsyncIterator[bytes]:
        next_chunk = self._answer.content.readany
        begun, size = list[bytes](), 0
        with SilenceTimer.instead_of(self._answer, self.request.idle_seconds) as silence:
            while True:
                try:
                    chunk = await next_chunk()
                except _FAILURES as error:
                    raise _failure(self.request, error) from error
                if not chunk:
                    break
                silence.note(len(chunk))
                self._transport.streamed_bytes += len(chunk)
                if not size and chunk.find(b"\n") == len(chunk) - 1 <= _LINE_BYTES:
                    # One whole line: an event that arrives alone.
                    yield chunk[:-1]
                    continue
                first, *others = chunk.split(b"\n")
                begun.append(first)
                size += len(first)
                if size > _LINE_BYTES:
                    raise _failure(self.request, ValueError(f"a line of more than {_LINE_BYTES >> 20} MiB"))
                if others:
                    # Most chunks have many lines: each whole line costs no more than a slice.
                    yield b"".join(begun)
                    *whole, last = others
                    for line in whole:
                        yield line
                    begun, size = [last], len(last)
                    # A watch that falls silent would keep them.
                    del chunk, others, whole
        if size:
            yield b"".join(begun)


class _Headers(Mapping[str, str]):
    """Headers as `Response` has them, built when they are read: those of most responses are not."""

    __slots__ = ("_sent",)

    def __init__(self, sent: CIMultiDictProxy[str]) -> None:
        self._sent = sent

    def __getitem__(self, name: str) -> str:
        return ", ".join(self._sent.getall(name))

    def __contains__(self, name: object) -> bool:
        return name in self._sent

    def __iter__(self) -> Iterator[str]:
        return iter({name.lower(): None for name in self._sent})

    def __len__(self) -> int:
        return len([*self])


# Calls share one; a watch has one of its own.
@lru_cache(16)
def _timeout(idle: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=idle)


def _encoding(config: ClusterConfig) -> str:
    """On the same machine compressing costs more than it saves; elsewhere the client does not mind (ST-22)."""
    host = URL(config.server).host or ""
    try:
        near = ip_address(host).is_loopback
    except ValueError:
        near = host == "localhost"
    return "gzip" if config.compression and not near else "identity"


def _failure(request: Request, error: Exception, server: str = "") -> TransportError:
    path = request.target.partition("?")[0]
    match error:
        case aiohttp.SocketTimeoutError():
            why = f"nothing came for {request.idle_seconds or 0:.0f} s"
        case aiohttp.ConnectionTimeoutError():
            why = f"no connection within {_CONNECT_SECONDS:.0f} s"
        case TimeoutError():
            why = f"no answer within {request.timeout_seconds or 0:.0f} s"
        case aiohttp.ClientProxyConnectionError():
            # Its own words would show the password that may stand in the proxy's URL.
            why = f"no connection to the proxy {error.host}:{error.port}: {_reason(error.os_error)}"
        case aiohttp.ClientHttpProxyError():
            why = f"the proxy refused: {error.status} {error.message}"
        case aiohttp.ClientConnectorCertificateError():
            why = f"the server's certificate is not trusted: {_reason(error.certificate_error)}"
        case aiohttp.ClientConnectorError():
            why = f"cannot connect: {_reason(error.os_error)}"
        case _:
            why = str(error) or type(error).__name__
    return TransportError(f"{request.method} {server}{path}: {why}")


def _reason(error: Exception) -> str:
    """Return the system's words for an error; asyncio puts its own in their place."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if (
        isinstance(error, OSError)
        and error.errno is not None
        and error.errno > 0
        and not isinstance(error, ssl.SSLError)
    ):
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error)
