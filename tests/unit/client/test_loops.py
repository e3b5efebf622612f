"""One client on two event loops, as a program with webhooks has them."""

import asyncio
import gc
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

import pytest
import trustme
from aiohttp import web

from kcr.api.bindaddress import BindAddress
from kcr.client import Client, Credential, HttpTransport, RateLimit
from kcr.client.credentials import RenewedCredentials
from kcr.client.loops import HomeLoop, PerLoop
from kcr.metrics import Metrics
from kcr.serving.ports import ServerPort, ServerThread
from tests.kit.http_servers import trusting

pytestmark = pytest.mark.asyncio


async def answer(request: web.BaseRequest) -> web.StreamResponse:
    return web.json_response({"gitVersion": threading.current_thread().name})


@asynccontextmanager
async def server_on_a_thread(authority: trustme.CA) -> AsyncIterator[str]:

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    port = ServerPort("test", BindAddress("127.0.0.1", 0), answer, context)
    async with ServerThread(port, "server"):
        yield f"https://127.0.0.1:{port.port}"


async def test_client_works_on_another_loop_while_its_own_is_blocked() -> None:
    # WH-13.
    authority, metrics = trustme.CA(), Metrics()
    async with server_on_a_thread(authority) as url, HttpTransport(trusting(url, authority)) as transport:
        limit = RateLimit(0.001, 3, on_wait=metrics.rate_limiter("host"))
        client = Client(transport, observer=metrics.requests("host"), limiter=limit)
        assert await client.server_version() == "server"
        await client.server_version()
        found: list[str] = []

        async def ask() -> None:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(client.server_version()) for _ in range(3)]
            found.extend(task.result() for task in tasks)

        thread = threading.Thread(target=lambda: asyncio.run(ask()))
        thread.start()
        thread.join(5)  # blocks the loop of the program
        assert found == ["server"] * 3
        # The connections of this loop are as they were, and the one token that was left to it.
        assert await client.server_version() == "server"
        assert b'rest_client_requests_total{code="200",host="host",method="GET"} 6.0' in metrics.render()[0]


async def test_connections_are_closed_with_a_loop_that_sent_first() -> None:
    authority = trustme.CA()
    async with server_on_a_thread(authority) as url, HttpTransport(trusting(url, authority)) as transport:
        client = Client(transport)
        await asyncio.to_thread(lambda: asyncio.run(client.server_version()))
        # Connections that were left open are a warning now, which fails the test.
        gc.collect()
        assert await client.server_version() == "server"


async def test_value_belongs_to_one_loop() -> None:
    values = PerLoop(object)

    async def here() -> object:
        return values.here()

    assert values.here() is await here()
    assert await asyncio.to_thread(lambda: asyncio.run(here())) is not values.here()


async def test_callbacks_run_on_the_loop_that_had_the_first() -> None:
    home, seen = HomeLoop(), list[tuple[str, int]]()
    home.call(lambda name: seen.append((name, threading.get_ident())), "first")

    async def elsewhere() -> None:
        home.call(lambda name: seen.append((name, threading.get_ident())), "second")

    await asyncio.to_thread(lambda: asyncio.run(elsewhere()))
    await asyncio.sleep(0)
    assert seen == [("first", threading.get_ident()), ("second", threading.get_ident())]


async def test_home_that_is_closed_is_given_up() -> None:
    home, seen = HomeLoop(), list[int]()

    async def call() -> None:
        home.call(seen.append, 1)

    await asyncio.to_thread(lambda: asyncio.run(call()))
    home.call(seen.append, 2)
    assert seen == [1, 2]


class Slow(RenewedCredentials):
    """Credentials that take a while to be obtained, so that callers of several loops wait at once."""

    def __init__(self) -> None:
        super().__init__(None)
        self.obtained = 0

    async def _obtain(self) -> tuple[Credential, datetime | None]:
        await asyncio.sleep(0.05)
        self.obtained += 1
        return Credential.bearer("token"), None


async def test_credentials_are_obtained_once_on_each_loop() -> None:
    credentials = Slow()

    async def use() -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(credentials.current()) for _ in range(5)]
        assert {task.result() for task in tasks} == {Credential.bearer("token")}

    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.to_thread(lambda: asyncio.run(use())))
        group.create_task(use())
    assert credentials.obtained <= 2
