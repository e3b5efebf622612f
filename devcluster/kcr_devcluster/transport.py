"""Transport that calls the embedded API server in the same process, without a socket."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random
from typing import Protocol

from kcr.client import Request, Response
from kcr.clock import Clock
from kcr.serving.webhooks import Webhooks
from kcr_devcluster.apiserver.authentication import ADMIN, User
from kcr_devcluster.apiserver.kinds.catalogue import KINDS
from kcr_devcluster.apiserver.kinds.views import VIEWS
from kcr_devcluster.apiserver.protocol.responses import APIResponse, PodStream
from kcr_devcluster.apiserver.server import APIServer, HTTPRequest
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.hosted_webhooks import HostedWebhooks
from kcr_devcluster.kinds import KindSource, define, definitions_of

# The field manager of the writes by the cluster's own controllers.
COMPONENT = "kcr-cluster"


class Connection(Protocol):
    """The client's end of a connection into a pod."""

    async def send(self, message: bytes) -> None:
        """Send a message."""
        ...

    def messages(self) -> AsyncIterator[bytes]:
        """Yield what the server sends."""
        ...


class Connections(Protocol):
    """Serves connections into pods."""

    def refusal(self, stream: PodStream) -> str:
        """Return why a connection is refused; empty for none."""
        ...

    def connect(self, stream: PodStream) -> AbstractAsyncContextManager[Connection]:
        """Serve a connection for as long as the context lives."""
        ...


class InProcessTransport:
    """Passes requests to an API server in the same process."""

    def __init__(
        self,
        server: APIServer,
        user: User = ADMIN,
        *,
        advised: bool = False,
        connections: Callable[[], Connections] | None = None,
    ) -> None:
        """Send as a user.

        Args:
            server: The server.
            user: Who sends the requests; the admin by default.
            advised: Whether responses warn of fields without effect in this cluster, as through the listener.
            connections: Called for what serves connections into pods; None where there are none.
        """
        self._server = server
        self._user = user
        self._advised = advised
        self._connections = connections

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Send one request."""
        return self._exchange(request)

    def host_webhooks(self, webhooks: Webhooks) -> HostedWebhooks:
        """Return how the server calls the webhooks of a manager in this process."""
        return HostedWebhooks(self._server, webhooks)

    @asynccontextmanager
    async def _exchange(self, request: Request) -> AsyncGenerator[Response, None]:
        # As on a network: other tasks run before the request is sent, and it may be cancelled before.
        await asyncio.sleep(0)
        if request.fence is not None:
            request.fence()
        arrived = HTTPRequest(
            request.method, request.target, request.headers, request.body, self._user, advised=self._advised
        )
        answer = await self._server.handle(arrived)
        if request.component == COMPONENT and "Warning" in answer.headers:
            # A user can correct nothing there: the end of a namespace lists Endpoints, which are deprecated.
            answer = answer._replace(headers={name: text for name, text in answer.headers.items() if name != "Warning"})
        if answer.upgrade is not None and self._connections is not None:
            async with self._upgraded(answer.upgrade, self._connections()) as response:
                yield response
            return
        try:
            yield _InProcessResponse(answer)
        finally:
            if not isinstance(answer.body, bytes):
                await answer.body.aclose()

    @asynccontextmanager
    async def _upgraded(self, stream: PodStream, connections: Connections) -> AsyncGenerator[Response, None]:
        if refusal := connections.refusal(stream):
            yield _InProcessResponse(APIResponse(500, {"Content-Type": "text/plain"}, f"{refusal}\n".encode()))
            return
        async with connections.connect(stream) as connection:
            yield _Upgraded(connection, stream.protocol)


class _Upgraded:
    """The answer to a request that has become a connection into a pod."""

    status = 101

    def __init__(self, connection: Connection, protocol: str) -> None:
        self.headers = {"sec-websocket-protocol": protocol}
        self.send = connection.send
        self.lines = connection.messages

    async def read(self) -> bytes:
        """Return nothing: a connection has no body."""
        return b""


class _InProcessResponse:
    def __init__(self, answer: APIResponse) -> None:
        self._answer = answer
        self._headers = {name.lower(): value for name, value in answer.headers.items()}

    @property
    def status(self) -> int:
        """The HTTP status code."""
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, names in lower case."""
        return self._headers

    async def read(self) -> bytes:
        """Return the whole body."""
        body = self._answer.body
        return body if isinstance(body, bytes) else b"".join([chunk async for chunk in body])

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the body line by line as it arrives."""
        if isinstance(self._answer.body, bytes):
            for line in self._answer.body.splitlines():
                yield line
            return
        rest = b""
        async for chunk in self._answer.body:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line
        if rest:
            yield rest


def serve_in_process(kinds: Sequence[KindSource] = (), *, clock: Clock, random: Random) -> InProcessTransport:
    """Make an API server in memory, without controllers and nodes, and return the way to it.

    Args:
        kinds: Kinds that it serves beside the built-in ones.
        clock: The source of time.
        random: Where names and uids come from.

    Raises:
        ConfigError: A kind cannot be served.
    """
    server = APIServer(Storage(clock=clock), clock=clock, random=random, kinds=(*KINDS, *VIEWS))
    define(server, definitions_of(kinds))
    return InProcessTransport(server)
