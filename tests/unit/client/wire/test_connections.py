import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trustme
from aiohttp import web

from kcr.api.core import ConfigMap
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client, ClusterConfig, Credential, HttpTransport, Request
from kcr.client.wire.connections import TimedResolver
from kcr.errors import LeadershipLostError
from tests.kit.http_servers import read, serving, trusting

pytestmark = pytest.mark.asyncio


async def test_resolved_names_are_timed() -> None:
    heard = list[tuple[str, float]]()
    resolver = TimedResolver(lambda host, seconds: heard.append((host, seconds)))
    addresses = {found["host"] for found in await resolver.resolve("localhost", 443)}
    await resolver.close()
    assert "127.0.0.1" in addresses
    ((host, seconds),) = heard
    assert host == "localhost"
    assert seconds >= 0


async def test_name_that_cannot_be_resolved_is_timed_too() -> None:
    heard = list[str]()
    with pytest.raises(OSError, match=r".+"):
        await TimedResolver(lambda host, _: heard.append(host)).resolve("name.invalid", 443)
    assert heard == ["name.invalid"]


class Lease:
    """A lease that a test loses, and a server that notes what arrives."""

    def __init__(self) -> None:
        self.checks = 0
        self.lost_at: float = float("inf")
        self.arrived = list[str]()

    def fence(self) -> None:
        self.checks += 1
        if self.checks >= self.lost_at:
            raise LeadershipLostError("lost")

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.arrived.append(f"{request.method} {request.path}")
        return web.json_response({"metadata": {"name": "a"}})

    @asynccontextmanager
    async def cluster(self, authority: trustme.CA) -> AsyncIterator[ClusterConfig]:
        async with serving(self.handle, authority) as url:
            yield trusting(url, authority)


class SlowCredentials:
    """Credentials that take a moment, after which the test loses its lease."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    async def current(self) -> Credential:
        await asyncio.sleep(0)
        self._then()
        return Credential.bearer("t")

    def invalidate(self, credential: Credential) -> bool:
        return False


@pytest.mark.parametrize("method", ["POST", "DELETE"])
@pytest.mark.parametrize("reused", [False, True], ids=["new", "reused"])
async def test_fence_is_checked_once_there_is_a_connection(authority: trustme.CA, method: str, reused: bool) -> None:
    # CM-36
    lease = Lease()
    lease.lost_at = 1
    async with lease.cluster(authority) as config, HttpTransport(config) as transport:
        if reused:
            await read(transport, Request("GET", "/first"))
        with pytest.raises(LeadershipLostError):
            await read(transport, Request(method, "/a", {}, b"{}" if method == "POST" else b"", fence=lease.fence))
        await read(transport, Request("GET", "/last"))
    assert lease.arrived == ["GET /first"] * reused + ["GET /last"]


async def test_head_that_waits_for_its_body_is_fenced_again(authority: trustme.CA) -> None:  # CM-36
    lease = Lease()
    lease.lost_at = 2
    async with lease.cluster(authority) as config, HttpTransport(config) as transport:
        with pytest.raises(LeadershipLostError):
            await read(transport, Request("POST", "/a", {}, b"{}", fence=lease.fence))
        await read(transport, Request("GET", "/last"))
    assert lease.arrived == ["GET /last"]


async def test_write_is_not_sent_when_the_lease_ended_before_its_connection(authority: trustme.CA) -> None:
    lease = Lease()

    def lose() -> None:
        lease.lost_at = 0

    async with lease.cluster(authority) as config:
        slow = ClusterConfig(server=config.server, ca=config.ca, credentials=SlowCredentials(lose))
        async with HttpTransport(slow) as transport:
            client = Client(transport).with_options(fence=lease.fence)
            with pytest.raises(LeadershipLostError):
                await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
            await client.get(ConfigMap, Key("default", "a"))
    assert lease.arrived == ["GET /api/v1/namespaces/default/configmaps/a"]


async def test_fence_that_is_open_lets_writes_pass(authority: trustme.CA) -> None:
    lease = Lease()
    async with lease.cluster(authority) as config, HttpTransport(config) as transport:
        for method in ("POST", "DELETE"):
            body = b"{}" if method == "POST" else b""
            assert b'"a"' in await read(transport, Request(method, "/a", {}, body, fence=lease.fence))
    assert lease.arrived == ["POST /a", "DELETE /a"]
