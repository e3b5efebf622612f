"""A manager with a debug port, and a reader in another thread."""

import asyncio
import queue
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.message import Message
from typing import Any

import msgspec

import kcr
from kcr.api.core import ConfigMap
from kcr.serving.debug.access import DebugOptions
from kcr.workqueue import WorkQueue
from kcr_devcluster.cluster import EmbeddedCluster

# The longest that a test blocks the loop for, should nothing end it before.
BLOCKED_SECONDS = 8.0


class BlockingReconciler:
    """A reconciler that blocks the event loop for the key `block`, until it is released."""

    def __init__(self) -> None:
        # Unlike an event's, its methods are C: the innermost line of the thread stays that of `hold_up`.
        self._releases: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.is_blocked = threading.Event()

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        if key.name == "block":
            self.is_blocked.set()
            self.hold_up()
        if key.name == "bad":
            raise kcr.TerminalError("no such zone")
        return kcr.Result()

    def release(self) -> None:
        """Let the loop go on; from any thread."""
        self._releases.put(None)

    def hold_up(self) -> None:
        end = time.perf_counter() + BLOCKED_SECONDS
        while self._releases.empty() and time.perf_counter() < end:
            sum(range(1000))

    async def explain(self, key: kcr.Key) -> kcr.Explanation:
        if key.name == "bad":
            raise LookupError("no such object")
        return kcr.Explanation(kcr.Code.WAITING, "all is well", steps=(kcr.Step("nothing happens"),))


class PortReader:
    """Reads from the port in a thread, as another process does."""

    def __init__(self, base: str) -> None:
        self._base = base

    def read_now(self, path: str, **headers: str) -> tuple[int, str]:
        request = urllib.request.Request(f"http://{self._base}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    async def read(self, path: str, **headers: str) -> tuple[int, str]:
        return await asyncio.to_thread(self.read_now, path, **headers)

    async def headers(self, path: str) -> Message:
        def read() -> Message:
            try:
                with urllib.request.urlopen(f"http://{self._base}{path}", timeout=20) as answer:
                    found: Message = answer.headers
            except urllib.error.HTTPError as error:
                with error:
                    found = error.headers
            return found

        return await asyncio.to_thread(read)

    async def json(self, path: str) -> Any:
        status, text = await self.read(path)
        assert status == 200, text
        return msgspec.json.decode(text)


@asynccontextmanager
async def debugged(reconciler: object, **options: Any) -> AsyncIterator[tuple[PortReader, WorkQueue[kcr.Key]]]:
    addresses: list[str] = []
    async with EmbeddedCluster(runtime=None) as cluster:
        manager = kcr.Manager(kcr.Client(cluster.transport), random=random.Random(0))
        manager.expose(probes="127.0.0.1:0", debug=DebugOptions(on_listening=addresses.append, **options))
        controller = manager.add_controller("test", reconciler, watches=[kcr.watch(ConfigMap)])  # type: ignore[arg-type]
        async with manager.running():
            yield PortReader(addresses[0]), controller.queue
