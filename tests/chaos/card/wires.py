"""Wires between a controller and the network: a fault at one watch event, reads of older replicas, lost rights.

A watch may lose an event without a sign: then no client can know of it before it reads the objects again. So the law of
a lost event is that nothing that was counted is wrong, and that the Job ends after the next list at the latest.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from kcr.client import Request, Response, Transport
from kcr.errors import ForbiddenError, TransportError
from kcr.testing.source import made, refusal
from kcr_devcluster.apiserver.server import HTTPRequest
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.faults.past_storage import PastStorage
from kcr_devcluster.transport import InProcessTransport
from tests.chaos.tally import met
from tests.kit.transports import ChangedResponse, Lines, watched

# `cut` is lost with the connection; `lost` without a sign.
EVENT_FAULTS = ("cut", "delayed", "doubled", "reordered", "lost")
PLURALS = ("jobs", "pods")
_DELAY_SECONDS = 5.0
_VERSION = re.compile(rb'"resourceVersion":"([0-9]+)"')


class SingleEvent:
    """A transport on which one event of the watches of a kind is lost, delayed, doubled or reordered.

    Within a watch the order is the server's (HTTP sends one stream), so a late event delays those behind it. Reordered
    is an event that arrives after a later one of the other kind.

    Attributes:
        seen: How many events of each kind have arrived; bookmarks are none.
    """

    def __init__(self, inner: Transport, plural: str = "", number: int = 0, how: str = "") -> None:
        """Disturb the event of a number, from 1, among those of the watches of a plural; 0 for none."""
        self.inner = inner
        self._plural, self._number, self._how = plural, number, how
        self.seen: Counter[str] = Counter()
        self._other = asyncio.Event()

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        plural = watched(request)
        async with self.inner.send(request) as response:
            yield ChangedResponse(response, lambda lines: self._lines(lines, plural)) if plural in PLURALS else response

    async def _lines(self, lines: Lines, plural: str) -> Lines:
        async for line in lines:
            if b'"BOOKMARK"' in line[:20]:
                yield line
                continue
            self.seen[plural] += 1
            if plural == self._plural and self.seen[plural] == self._number:
                met(f"watch event: {self._how}")
                if self._how == "cut":
                    raise TransportError("the watch was cut")
                if self._how == "lost":
                    continue
                await self._hold()
                if self._how == "doubled":
                    yield line
            yield line
            if plural != self._plural:
                self._other.set()

    async def _hold(self) -> None:
        if self._how == "delayed":
            await asyncio.sleep(_DELAY_SECONDS)
        elif self._how == "reordered":
            self._other.clear()
            try:
                async with asyncio.timeout(_DELAY_SECONDS):
                    await self._other.wait()
            except TimeoutError:
                met("watch event: reordered, and no other came")


class OlderReplicas:
    """A transport whose lists and watches come from replicas of the API server that are some changes behind the others.

    Watches are cut now and then, and lists refused, so that the client reads again: each read from a replica of its own
    age. A replica that is behind shows the past, and then the changes since. As with real ones, no list is older than
    what the client was shown before, and a read of one object is never old: every replica reads it from etcd.
    """

    def __init__(self, inner: Transport, cluster: EmbeddedCluster, random: Random) -> None:
        self.inner = inner
        self._random = random
        self._cluster = cluster
        # The newest version that the client was shown, by kind.
        self._shown: Counter[str] = Counter()
        self.healed = False

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        plural = watched(request)
        if plural not in PLURALS or self.healed:
            async with self.inner.send(request) as response:
                yield response
            return
        revision = self._cluster.storage.revision
        older = min(self._random.choice((0, 1, 2, 5, 10, 20, 40)), revision - self._shown[plural])
        if older:
            met("read of an older replica")
        async with InProcessTransport(_Older(self._cluster, older)).send(request) as response:  # type: ignore[arg-type]
            yield ChangedResponse(response, lambda lines: self._cut(lines, plural))

    async def _cut(self, lines: Lines, plural: str) -> Lines:
        left = self._random.choice((3, 10, 30, 1000))
        async for line in lines:
            if (version := _VERSION.search(line)) is not None:
                self._shown[plural] = max(self._shown[plural], int(version[1]))
            yield line
            left -= 1
            if left == 0 and not self.healed:
                # The history is too short to resume: the client lists again.
                met("watch: history compacted")
                yield b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}'
                return


class _Older:
    """A server that is some changes behind, as far as it is read."""

    def __init__(self, cluster: EmbeddedCluster, older: int) -> None:
        self._cluster, self._older = cluster, older

    async def handle(self, request: HTTPRequest) -> object:
        reads = PastStorage(self._cluster.storage, self._older)
        return await self._cluster.server.handle(request._replace(reads=reads))


class LostRights:
    """A transport whose server refuses what the client has no right to, for as long as it was taken.

    Attributes:
        taken: The method, and a part of the path, of the requests that are refused.
    """

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.taken: set[tuple[str, str]] = set()

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        path = request.target.partition("?")[0]
        if any(method == request.method and part in path for method, part in self.taken):
            met("rights: refused")
            yield refusal(made(ForbiddenError))
            return
        async with self.inner.send(request) as response:
            yield response
