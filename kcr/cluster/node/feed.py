"""All pods, as they change. No pod is lost: a watch that ends is opened again where it ended."""

import asyncio
from collections.abc import Callable
from random import Random

import structlog

from kcr.api.meta import Key
from kcr.client import Client
from kcr.cluster.node.pods import RunnablePod
from kcr.errors import ApiError, GoneError, TransportError

PAGE_SIZE = 500
FIRST_PAUSE_SECONDS = 0.2
MAX_PAUSE_SECONDS = 10.0

_log = structlog.get_logger(__name__)


class PodFeed:
    """Lists and watches pods, and tells of each change: of a pod as it is now, or that it is gone."""

    def __init__(
        self,
        client: Client,
        random: Random,
        *,
        on_pod: Callable[[RunnablePod], None],
        on_gone: Callable[[str], None],
    ) -> None:
        """Make a feed.

        Args:
            client: How to reach the server.
            random: Spreads the times at which watches and attempts are renewed.
            on_pod: Called with every pod that is new or has changed.
            on_gone: Called with the uid of every pod that is no more.
        """
        self._client = client
        self._random = random
        self._on_pod = on_pod
        self._on_gone = on_gone
        # The pods that have been told of and are not gone, by key: their uids.
        self._told: dict[Key, str] = {}
        # Where the next watch begins; empty means to list first.
        self._version = ""

    async def run(self) -> None:
        """Follow the pods until cancelled."""
        pause = 0.0
        while True:
            try:
                if not self._version:
                    await self._list()
                progressed = await self._watch()
                pause = 0.0 if progressed else self._longer(pause)
            except GoneError:
                self._version, pause = "", self._longer(pause)
            except (ApiError, TransportError) as error:
                pause = self._longer(pause)
                _log.warning("pods cannot be watched", cause=str(error), retry_seconds=round(pause, 1))
            if pause:
                await asyncio.sleep(pause)

    def _longer(self, pause: float) -> float:
        longer = min(max(2 * pause, FIRST_PAUSE_SECONDS), MAX_PAUSE_SECONDS)
        return longer * self._random.uniform(0.8, 1.2)

    async def _list(self) -> None:
        found: dict[Key, RunnablePod] = {}
        continue_, version = "", ""
        while True:
            page, pods = await self._client.list_page(
                RunnablePod, "", limit=PAGE_SIZE, continue_=continue_, resource_version=""
            )
            found |= {pod.key: pod for pod in pods}
            continue_, version = page.continue_, page.resource_version
            if not continue_:
                break
        for key, uid in tuple(self._told.items()):
            if key not in found or found[key].metadata.uid != uid:
                self._gone(key)
        for pod in found.values():
            self._tell(pod)
        self._version = version

    async def _watch(self) -> bool:
        """Follow the changes until the watch ends, and return whether there were any."""
        progressed = False
        async with self._client.watch(
            RunnablePod, resource_version=self._version, timeout_seconds=self._random.uniform(300, 600)
        ) as events:
            async for event in events:
                progressed = True
                if event.type == "DELETED":
                    self._gone(event.object.key)
                elif event.type != "BOOKMARK":
                    self._tell(event.object)
                self._version = event.object.metadata.resource_version
        return progressed

    def _tell(self, pod: RunnablePod) -> None:
        known = self._told.get(pod.key)
        if known is not None and known != pod.metadata.uid:
            self._gone(pod.key)
        self._told[pod.key] = pod.metadata.uid
        self._on_pod(pod)

    def _gone(self, key: Key) -> None:
        uid = self._told.pop(key, None)
        if uid is not None:
            self._on_gone(uid)
