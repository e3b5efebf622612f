"""Wires between a controller and the network: a fault at one watch event, reads of older replicas.

A watch may lose an event without a sign: then no client can know of it before it reads the objects again. So the law of
a lost event is that nothing that was counted is wrong, and that the Job ends after the next list at the latest.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from random import Random

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.client import Request, Response, Transport
from kcr.testing import FaultyTransport
from kcr_devcluster.apiserver.server import HTTPRequest
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.faults.past_storage import PastStorage
from kcr_devcluster.testing.rules import Rule
from kcr_devcluster.transport import InProcessTransport
from tests.chaos.tally import met
from tests.kit.transports import ChangedResponse, Lines, watched

# `cut` is lost with the connection; `lost` without a sign.
EVENT_FAULTS = ("cut", "delayed", "doubled", "reordered", "lost")
PLURALS: Mapping[str, type[Job] | type[Pod]] = {"jobs": Job, "pods": Pod}
_DELAY_SECONDS = 5.0
_VERSION = re.compile(rb'"resourceVersion":"([0-9]+)"')


class SingleEvent(FaultyTransport):
    """A transport on which one event of the watches of a kind is lost, delayed, doubled or reordered.

    Within a watch the order is the server's (HTTP sends one stream), so a late event delays those behind it. Reordered
    is an event that arrives after a later one of the other kind.

    Attributes:
        events: How many events of each kind have arrived; bookmarks are none.
    """

    def __init__(self, inner: Transport, plural: str = "", number: int = 0, how: str = "") -> None:
        """Disturb the event of a number, from 1, among those of the watches of a plural; 0 for none."""
        super().__init__(inner)
        self.events: Counter[str] = Counter()
        self._how = how
        self._other = asyncio.Event()
        for name, kind in PLURALS.items():
            self.on("event", kind).then(partial(self._count, name, is_other=name != plural))
            if name == plural and number:
                self.on("event", kind, nth=number).then(self._hold)
                self._disturb(self.on("event", kind, nth=number))

    def _disturb(self, rule: Rule) -> None:
        match self._how:
            case "cut":
                rule.cut()
            case "lost":
                rule.drop()
            case "doubled":
                rule.repeat()
            case _:
                rule.delay(_DELAY_SECONDS if self._how == "delayed" else 0)

    async def _count(self, plural: str, *, is_other: bool) -> None:
        self.events[plural] += 1
        if is_other:
            # The next step of the loop: this event has arrived by then.
            self._other.set()

    async def _hold(self) -> None:
        met(f"watch event: {self._how}")
        if self._how == "reordered":
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
    what the client was shown before, and a read of one object is never old: every replica reads it from etcd. It reads
    the past of the embedded storage, so it is no part of the public kit: `kcr dev` has the fault `older`.
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
