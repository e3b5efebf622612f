"""A member cluster: its client and its informers, from its opening to its end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from random import Random
from typing import Any, TypeVar

from structlog.contextvars import bind_contextvars

from kcr.api.meta import Resource
from kcr.arguments import checked
from kcr.client import Client, Request, Response, Transport
from kcr.client.context import WritingClient
from kcr.errors import ConfigError, NotSyncedError, TransportError
from kcr.informer import Informer, InformerHandle, Selection, Store
from kcr.informer.cache import InformerCache
from kcr.log import get_logger
from kcr.runnables import RunnableGroup

R = TypeVar("R", bound=Resource)

# A request that is not answered for so long delays all keys of its cluster.
SILENT_SECONDS = 5.0

_log = get_logger()


class AnsweredTransport:
    """A transport that knows whether its server answers: watches of a silent one fail only a minute or two later."""

    def __init__(self, inner: Transport) -> None:
        self.server: str = getattr(inner, "server", "")
        self.inner = inner
        # The times of the requests that have no answer yet, in their order.
        self._began: dict[object, float] = {}
        self._has_failed = False

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        """Send one request."""
        request_id = object()
        if request.timeout_seconds is not None:
            self._began[request_id] = asyncio.get_running_loop().time()
        try:
            async with self.inner.send(request) as response:
                self._began.pop(request_id, None)
                self._has_failed = False
                yield response
        except TransportError:
            self._has_failed = True
            raise
        finally:
            self._began.pop(request_id, None)

    @property
    def is_silent(self) -> bool:
        """Whether a request waits for long already, or for any time after one that had no answer: the probe."""
        oldest = next(iter(self._began.values()), None)
        return oldest is not None and (self._has_failed or asyncio.get_running_loop().time() - oldest > SILENT_SECONDS)


class MemberCluster:
    """A member cluster, in the reconciles of its keys: `clusters[key.cluster]`.

    Attributes:
        name: Its name, the `cluster` of its keys.
        is_closed: Whether it was closed; another one of this name may be open.
    """

    def __init__(self, name: str, *, namespace: str, random: Random, fence: Callable[[], None] | None) -> None:
        """Make one that has no client yet.

        Args:
            name: Its name.
            namespace: The namespace to watch, or several, separated by commas; empty for all.
            random: Spreads watches and retries.
            fence: Called before each write, as of `Client.with_options`; None for a program that runs once.
        """
        self.name: str = name
        self.is_closed: bool = False
        self._random = random
        self._fence = fence
        self._transport: AnsweredTransport | None = None
        self._client: Client | None = None
        self._connect_error = ""
        self._cache = InformerCache(namespace, self._make_informer, lambda kind: None)
        self._running = RunnableGroup(f"cluster {name}")
        self._task: asyncio.Task[Any] | None = None
        self._at_close: list[Callable[[], None]] = []

    @property
    def client(self) -> Client:
        """Talks to the API server of this cluster; its writes end when it is closed, or another replica leads.

        Raises:
            NotSyncedError: It is not connected yet, or its configuration cannot be used.
        """
        if self._client is None:
            raise NotSyncedError(f"cluster {self.name}: {self._connect_error or 'not connected yet'}")
        return self._client

    @checked
    def store(self, kind: type[R]) -> Store[R]:
        """Return the cached objects of a kind in this cluster, for as long as it is open.

        Its `get` takes keys with the cluster, and keys without. Watch the kind (`Clusters.watch`), and its store is
        synced in every reconcile; that of another kind begins with the first call, and raises `NotSyncedError` until it
        is synced.

        Raises:
            NotSyncedError: It is closed, or not connected yet.
        """
        self._check_open()
        return self._cache.informer(kind).store

    @checked
    def open_informer(self, kind: type[R]) -> InformerHandle[R]:
        """Open a handle of the informer of a kind in this cluster; see `Manager.open_informer`.

        Raises:
            NotSyncedError: It is closed, or not connected yet.
        """
        self._check_open()
        return self._cache.open(kind)

    @property
    def trouble(self) -> str:
        """Why some of its watches do not work just now, or have no list yet; empty when all do."""
        return self._connect_error or "; ".join(filter(None, map(trouble_of, self._cache)))

    @property
    def objects(self) -> int:
        """How many objects it has in its stores."""
        return sum(len(informer.store) for informer in self._cache)

    # The methods below are those of `Clusters` and of controllers.

    @property
    def is_silent(self) -> bool:
        """Whether its server does not answer just now, and another request may not have an answer either."""
        return self._transport is not None and self._transport.is_silent

    def is_server_of(self, client: WritingClient) -> bool:
        """Return whether a client talks to this cluster."""
        return self._client is not None and self._client.has_same_server(client)

    def informers_of(self, kind: type[Resource]) -> Iterator[Informer[Any]]:
        """Return the informers of a kind in this cluster, in any form."""
        return self._cache.all_of(kind)

    def spawn(self, run: Callable[[], Awaitable[None]], name: str) -> None:
        """Run a component for as long as it is open."""
        self._running.add(run, name)

    def call_at_close(self, call: Callable[[], None]) -> None:
        """Call a function when it is closed."""
        self._at_close.append(call)

    async def run(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Transport]],
        client_of: Callable[[Transport], Client],
        joined: "Callable[[MemberCluster], None]",
    ) -> None:
        """Connect, and run the informers until it is closed.

        Args:
            connect: Connects to the cluster.
            client_of: Makes its client.
            joined: Called with this, once it has a client.
        """
        self._task = asyncio.current_task()
        if self.is_closed:
            return
        try:
            async with connect() as transport:
                self._transport = AnsweredTransport(transport)
                self._client = client_of(self._transport).with_options(fence=self._check_writable)
                async with self._running:
                    joined(self)
                    # Ends by cancellation only.
                    await asyncio.get_running_loop().create_future()
        except ConfigError as error:
            # Its health says so as well. No retry would change the configuration.
            self._connect_error = str(error)
            _log.error("member cluster not opened", cluster=self.name, error=str(error))

    def close(self) -> None:
        """End the informers and the writes, at once."""
        self.is_closed = True
        for call in self._at_close:
            call()
        for kind in self._cache.kinds:
            self._cache.remove(kind)
        if self._task is not None:
            self._task.cancel()

    def _make_informer(self, selections: tuple[Selection[Any], ...]) -> Informer[Any]:
        informer: Informer[Any] = Informer(self.client, selections, random=self._random, is_member=True)
        self._running.add(partial(_run_in, self.name, informer), selections[0].kind.resource.display)
        return informer

    def _check_open(self) -> None:
        if self.is_closed:
            raise NotSyncedError(f"cluster {self.name}: it was closed")

    def _check_writable(self) -> None:
        self._check_open()
        if self._fence is not None:
            self._fence()


def trouble_of(informer: Informer[Any]) -> str:
    """Return why an informer does not work just now, or has no list yet; empty when it works."""
    return informer.last_error or informer.not_synced_reason


async def _run_in(cluster: str, informer: Informer[Any]) -> None:
    bind_contextvars(cluster=cluster)
    await informer.run()
