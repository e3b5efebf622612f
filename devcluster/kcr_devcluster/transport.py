"""Transport that calls the embedded API server in the same process, without a socket."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random

from kcr.client import Request, Response
from kcr.clock import Clock
from kcr.serving.webhooks import Webhooks
from kcr_devcluster.apiserver.authentication import ADMIN, User
from kcr_devcluster.apiserver.kinds.catalogue import KINDS
from kcr_devcluster.apiserver.kinds.views import VIEWS
from kcr_devcluster.apiserver.protocol.responses import APIResponse
from kcr_devcluster.apiserver.server import APIServer, HTTPRequest
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.hosted_webhooks import HostedWebhooks
from kcr_devcluster.kinds import KindSource, define, definitions_of

# The field manager of the writes by the cluster's own controllers.
COMPONENT = "kcr-cluster"


class InProcessTransport:
    """Passes requests to an API server in the same process."""

    def __init__(self, server: APIServer, user: User = ADMIN, *, advised: bool = False) -> None:
        """Send as a user.

        Args:
            server: The server.
            user: Who sends the requests; the admin by default.
            advised: Whether responses warn of fields without effect in this cluster, as through the listener.
        """
        self._server = server
        self._user = user
        self._advised = advised

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
        try:
            yield _InProcessResponse(answer)
        finally:
            if not isinstance(answer.body, bytes):
                await answer.body.aclose()


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
