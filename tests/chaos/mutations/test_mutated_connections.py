"""Mutated requests over real connections: the listener answers or closes each, and serves the next client."""

import asyncio
import ssl
from random import Random
from typing import Any

import aiohttp
import pytest

from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.listener import ServerAddress
from kcr_devcluster.testing.loop import eventually
from tests.chaos.mutations.mutations import MutatedRequests, raw_http
from tests.kit.environment import setting

pytestmark = pytest.mark.asyncio

QUICK, ALL = 40, int(setting("KCR_SEEDS", "10000")) // 5
# A server that waits for the rest of a request is left by its client after so long.
_PATIENCE_SECONDS = 1.0
_WORKERS = 8
_PATIENT_SECONDS = 20.0


async def exchange(address: ServerAddress, context: ssl.SSLContext, data: bytes) -> bytes:
    """Return what the server sends back until it closes the connection, or has nothing more to say."""
    host, _, port = address.url.removeprefix("https://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    received = b""
    try:
        writer.write(data)
        await writer.drain()
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while part := await reader.read(1 << 16):
                received += part
    except (TimeoutError, ConnectionError, ssl.SSLError):
        pass
    finally:
        writer.close()
    return received


async def lists_namespaces(address: ServerAddress, context: ssl.SSLContext) -> bool:
    """Return whether another client is served."""
    headers = {"Authorization": f"Bearer {address.token}"}
    async with (
        aiohttp.ClientSession(address.url, connector=aiohttp.TCPConnector(ssl=context)) as session,
        session.get("/api/v1/namespaces", headers=headers) as response,
    ):
        return response.status == 200 and len((await response.json())["items"]) >= 4


async def survives(seed: int, count: int) -> None:
    """Send requests over connections of their own, several at once."""
    random = Random(f"connections {seed}")
    requests = MutatedRequests(random)
    # Few controllers; those that start once a request creates what they act on have informers.
    options: dict[str, Any] = {"runtime": None, "gc": False, "deployments": False}
    async with EmbeddedCluster(random=Random(seed), legacy_apis=True, gangs=True, **options) as cluster:
        address = await cluster.serve()
        context = ssl.create_default_context(cadata=address.ca_pem)
        waiting = [raw_http(requests.request(), address.token, random) for _ in range(count)]

        async def send() -> None:
            while waiting:
                sent = waiting.pop()
                async with asyncio.timeout(_PATIENT_SECONDS):
                    received = await exchange(address, context, sent)
                assert not received or received.startswith(b"HTTP/"), (sent[:2000], received[:200])
                assert b'"InternalError"' not in received, (sent[:2000], received[:2000])

        async with asyncio.TaskGroup() as group:
            for _ in range(_WORKERS):
                group.create_task(send())
        assert await lists_namespaces(address, context)
        # Every watch of a client has ended: each that is left is one of the cluster's own informers.
        await eventually(lambda: cluster.server.open_watches == len(cluster.manager.selections))


@pytest.mark.timeout(60)
async def test_listener_survives_some_mutated_connections() -> None:
    await survives(0, QUICK)


@pytest.mark.soak
@pytest.mark.timeout(0)
async def test_listener_survives_mutated_connections() -> None:
    await survives(1, ALL)
