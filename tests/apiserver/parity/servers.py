"""The two servers that the corpus is asked on: the embedded one, and a real one where `KUBEBUILDER_ASSETS` names it."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from kcr.client import HttpTransport
from kcr.client.wire.transport import Request, Transport
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.controlplane import real_server
from kcr_devcluster.transport import InProcessTransport

# How many requests a real server is sent at a time.
TOGETHER = 8

# Sends a request: method, target, body; returns code and body.
Send = Callable[[str, str, Any], Awaitable[tuple[int, Any]]]


def sender(transport: Transport, together: int) -> Send:
    """Return what sends requests with bodies of JSON."""
    free = asyncio.Semaphore(together)

    async def send(method: str, target: str, body: Any) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        data = b"" if body is None else msgspec.json.encode(body)
        async with free, transport.send(Request(method, target, headers, data)) as answer:
            read = await answer.read()
            try:
                return answer.status, msgspec.json.decode(read)
            except msgspec.DecodeError:
                return answer.status, read.decode()

    return send


@asynccontextmanager
async def embedded() -> AsyncIterator[Send]:
    """Give the embedded server."""
    async with EmbeddedCluster(random=random.Random(0), runtime=None, gc=False) as cluster:
        yield sender(InProcessTransport(cluster.server), 1)


@asynccontextmanager
async def real() -> AsyncIterator[Send | None]:
    """Give the real server, None where there is none."""
    with real_server() as config:
        if config is None:
            yield None
            return
        async with HttpTransport(config) as transport:
            yield sender(transport, TOGETHER)
