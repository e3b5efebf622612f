"""Transports that delay, hold back, change or cut watches, change creates, and call a test before each request."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any

from kcr.api.batch import CronJob, Job
from kcr.api.core import ConfigMap, Namespace, Pod
from kcr.client import Request, Response, Transport
from kcr.errors import TransportError
from kcr.testing import FaultyTransport

Lines = AsyncIterator[bytes]
_KINDS = {kind.resource.plural: kind for kind in (ConfigMap, CronJob, Job, Namespace, Pod)}


class ChangedResponse:
    """A response whose lines, and whose body if so wished, pass through a function."""

    def __init__(
        self, inner: Response, lines: Callable[[Lines], Lines], body: Callable[[bytes], bytes] = lambda body: body
    ) -> None:
        self.status = inner.status
        self.headers = inner.headers
        self.inner = inner
        self._lines = lines
        self._body = body

    async def read(self) -> bytes:
        return self._body(await self.inner.read())

    def lines(self) -> Lines:
        return self._lines(self.inner.lines())


class ObservedTransport:
    """Calls a function before each request is sent, which may raise instead; and another with each response."""

    def __init__(
        self,
        inner: Transport,
        before: Callable[[Request], Awaitable[None]] | None = None,
        after: Callable[[Request, Response], Awaitable[None]] | None = None,
    ) -> None:
        self.inner = inner
        self._before = before
        self._after = after

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        if self._before is not None:
            await self._before(request)
        async with self.inner.send(request) as response:
            if self._after is not None:
                await self._after(request, response)
            yield response


def late_watches(inner: Transport, random: Random, seconds: Mapping[str, float]) -> FaultyTransport:
    """Return a transport whose watches of the plurals in `seconds` lag, each line by up to that long."""
    faults = FaultyTransport(inner)
    for plural, most in seconds.items():
        faults.on("watch", _KINDS[plural]).lag(partial(random.uniform, 0, most))
    return faults


class ChangedWatches:
    """A transport that changes or drops lines of the watches of a kind, as a broken proxy does.

    Attributes:
        changed: How many lines were changed or dropped.
    """

    def __init__(self, inner: Transport, plural: str, change: Callable[[bytes], bytes | None]) -> None:
        """Pass each line of the watches of a plural through a function, which returns None to drop it."""
        self.changed = 0
        self.inner = inner
        self._plural = plural
        self._change = change

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        async with self.inner.send(request) as response:
            yield ChangedResponse(response, self._changed) if watched(request) == self._plural else response

    async def _changed(self, lines: Lines) -> Lines:
        async for line in lines:
            changed = self._change(line)
            self.changed += changed != line
            if changed is not None:
                yield changed


class MutatedCreates:
    """A transport whose creates of a kind are changed on their way, as by a mutating webhook."""

    def __init__(self, inner: Transport, plural: str, mutate: Callable[[dict[str, Any]], object]) -> None:
        """Pass the body of each create of a plural to a function that changes it."""
        self.mutate = mutate
        self.inner = inner
        self._plural = plural

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        if request.method == "POST" and request.target.partition("?")[0].endswith(f"/{self._plural}"):
            body = json.loads(request.body)
            self.mutate(body["metadata"])
            request = request._replace(body=json.dumps(body).encode())
        async with self.inner.send(request) as response:
            yield response


def disown(metadata: dict[str, Any]) -> None:
    """Take the owner reference away, for `MutatedCreates`."""
    del metadata["ownerReferences"]


def unfinalize(metadata: dict[str, Any]) -> None:
    """Take the finalizers away."""
    del metadata["finalizers"]


class WatchGate:
    """A transport that can hold back the watches of a kind, and notes which of the Jobs' statuses were invalid.

    Attributes:
        open: By plural: set as long as the lines of its watches come through.
        invalid: What the server refused with 422.
    """

    def __init__(self, inner: Transport, *, on_cut: Callable[[], None] | None = None) -> None:
        """Make a transport.

        Args:
            inner: The way to the server.
            on_cut: Called when a gate opens again; the watches that it held back are cut then. Without it they go on.
        """
        self.inner = inner
        self._on_cut = on_cut
        self.invalid: list[str] = []
        self.open: dict[str, asyncio.Event] = defaultdict(_set_event)

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        plural = watched(request)
        async with self.inner.send(request) as response:
            if response.status == 422 and "/jobs/" in request.target:
                self.invalid.append((await response.read()).decode())
            yield ChangedResponse(response, lambda lines: self._held(lines, self.open[plural])) if plural else response

    async def _held(self, lines: Lines, opened: asyncio.Event) -> Lines:
        async for line in lines:
            if not opened.is_set():
                await opened.wait()
                if self._on_cut is not None:
                    self._on_cut()
                    raise TransportError("the watch was cut")
            yield line


def watched(request: Request) -> str:
    """Return the plural that a request watches, or empty."""
    path, _, query = request.target.partition("?")
    return path.rpartition("/")[2] if "watch=" in query else ""


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event
