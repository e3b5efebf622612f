"""Transports that see or change each response, and shorthands for faults of `kcr.testing.FaultyTransport`."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any

from kcr.api.batch import CronJob, Job
from kcr.api.core import ConfigMap, Namespace, Pod
from kcr.client import Request, Response, Transport
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


def of_metadata(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], object]:
    """Return a change of an object, for `Rule.change`, of one of its metadata."""
    return lambda obj: change(obj["metadata"])


def disown(metadata: dict[str, Any]) -> None:
    """Take the owner reference away, as a webhook may."""
    del metadata["ownerReferences"]


def unfinalize(metadata: dict[str, Any]) -> None:
    """Take the finalizers away."""
    del metadata["finalizers"]


def watched(request: Request) -> str:
    """Return the plural that a request watches, or empty."""
    path, _, query = request.target.partition("?")
    return path.rpartition("/")[2] if "watch=" in query else ""
