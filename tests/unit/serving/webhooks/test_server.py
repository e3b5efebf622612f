"""The HTTPS port of webhooks, as the API server calls it, and as others may."""

import asyncio
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme

from kcr.api.bindaddress import BindAddress
from kcr.serving.ports import PortCertificate
from kcr.serving.webhooks.server import WebhookServer, WebhookServing
from kcr.serving.webhooks.webhooks import MAX_BODY_BYTES
from kcr.testing import eventually
from tests.kit.connections import closed_first

pytestmark = pytest.mark.asyncio

LOCAL = WebhookServing(BindAddress("127.0.0.1", 0), shutdown_delay=0)
Handle = Callable[[str, float, bytes, str], Awaitable[tuple[int, bytes]]]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def issued(authority: trustme.CA) -> bytes:
    leaf = authority.issue_cert("127.0.0.1")
    return b"".join(pem.bytes() for pem in leaf.cert_chain_pems) + leaf.private_key_pem.bytes()


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())


async def echo(path: str, seconds: float, body: bytes, content_type: str) -> tuple[int, bytes]:
    return 200, f"{path} {seconds:.2g} {content_type} {threading.current_thread().name} ".encode() + body


@asynccontextmanager
async def server(
    authority: trustme.CA, handle: Handle = echo, *, reviews: bool = True, client_ca: str = "", **options: Any
) -> AsyncIterator[WebhookServer]:
    certificate = PortCertificate("webhooks", client_ca)
    certificate.load(issued(authority))
    made = WebhookServer(handle, LOCAL._replace(**options), certificate)
    async with made.serving():
        if not reviews:
            yield made
            return
        async with made.reviewing():
            yield made


@asynccontextmanager
async def session(authority: trustme.CA) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=trusting(authority))
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as made:
        yield made


async def post(
    made: WebhookServer, caller: aiohttp.ClientSession, body: Any = b"{}", path: str = "/validate?timeout=10s"
) -> tuple[int, bytes]:
    async with caller.post(f"https://127.0.0.1:{made.port}{path}", data=body) as response:
        return response.status, await response.read()


async def test_request_is_answered_on_the_servers_own_thread(authority: trustme.CA) -> None:  # WH-1, WH-13
    async with server(authority) as made, session(authority) as caller:
        answer = await post(made, caller, b"[1]")
        assert answer == (200, b"/validate 10 application/json webhooks [1]")
        async with caller.get(f"https://127.0.0.1:{made.port}/validate") as response:
            assert response.status == 405


async def test_blocked_loop_of_the_program_delays_no_review(authority: trustme.CA) -> None:
    async with server(authority) as made:
        seconds: list[float] = []

        async def call() -> None:
            async with session(authority) as caller:
                await post(made, caller)
                for _ in range(20):
                    began = time.perf_counter()
                    await post(made, caller)
                    seconds.append(time.perf_counter() - began)

        thread = threading.Thread(target=lambda: asyncio.run(call()))
        thread.start()
        thread.join(20)  # the loop is blocked
        assert len(seconds) == 20
        assert sorted(seconds)[10] < 0.5


@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunked"])
async def test_body_beyond_the_limit_is_413(authority: trustme.CA, is_chunked: bool) -> None:  # WH-3
    async def pieces() -> AsyncIterator[bytes]:
        with suppress(ConnectionError):
            for _ in range(8):
                yield b" " * 1024 * 1024

    async with server(authority) as made, session(authority) as caller:
        assert (await post(made, caller, BytesIO(b" " * MAX_BODY_BYTES)))[0] == 200
        with suppress(aiohttp.ClientConnectionError):  # closed while the rest is sent
            body = pieces() if is_chunked else BytesIO(b" " * (MAX_BODY_BYTES + 1))
            assert (await post(made, caller, body))[0] == 413


async def test_reviews_beyond_the_limit_wait_no_longer_than_their_callers(
    authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcr.serving.webhooks.server.CONCURRENT", 1)
    running, over = threading.Event(), threading.Event()

    async def wait(path: str, seconds: float, body: bytes, content_type: str) -> tuple[int, bytes]:
        running.set()
        await asyncio.to_thread(over.wait)
        return 200, b"{}"

    async with server(authority, wait) as made, session(authority) as caller, asyncio.TaskGroup() as group:
        first = group.create_task(post(made, caller))
        await eventually(running.is_set)
        status, body = await post(made, caller, path="/validate?timeout=200ms")
        assert (status, b"waited 0.18 s for its turn" in body) == (504, True)
        over.set()
        assert (await first)[0] == 200


async def test_time_that_was_waited_is_taken_from_the_webhook(authority: trustme.CA) -> None:
    async with server(authority, reviews=False) as made, session(authority) as caller, asyncio.TaskGroup() as group:
        await post(made, caller, path="/convert")  # the connection stands: a handshake would take a part of the time
        waiting = group.create_task(post(made, caller, path="/validate?timeout=10s"))
        await asyncio.sleep(0.5)
        async with made.reviewing():
            query = (await waiting)[1].split()[1].decode()
    assert 9 < float(query) < 10


async def test_reviews_wait_for_the_caches_and_conversions_do_not(authority: trustme.CA) -> None:
    async with server(authority, reviews=False) as made, session(authority) as caller:
        status, body = await post(made, caller, path="/validate?timeout=100ms")
        assert (status, b"the caches, which are not synced" in body) == (504, True)
        assert (await post(made, caller, path="/convert"))[0] == 200


async def test_slow_body_is_cut_at_the_deadline(authority: trustme.CA) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(30)

    async with server(authority) as made, session(authority) as caller:
        async with asyncio.timeout(5):
            assert (await post(made, caller, slow(), path="/validate?timeout=100ms"))[0] == 504


async def test_bodies_beyond_the_memory_are_refused(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcr.serving.webhooks.server._HELD_BYTES", 1000)
    async with server(authority) as made, session(authority) as caller:
        assert (await post(made, caller, b" " * 1001))[0] == 503
        assert (await post(made, caller, b" " * 999))[0] == 200


async def test_connections_that_send_no_body_hold_no_memory(
    authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcr.serving.webhooks.server._HELD_BYTES", 1000)
    monkeypatch.setattr("kcr.serving.webhooks.server._READ_SECONDS", 0.2)
    head = b"POST /validate?timeout=30s HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n"
    async with server(authority) as made, session(authority) as caller:
        streams = [await asyncio.open_connection("127.0.0.1", made.port, ssl=trusting(authority)) for _ in range(3)]
        for _, writer in streams:
            writer.write(head)
            await writer.drain()
        assert (await post(made, caller, b" " * 999))[0] == 200
        async with asyncio.timeout(5):
            answers = [await reader.readuntil(b"waited 0.2 s for the body") for reader, _ in streams]
        assert all(answer.startswith(b"HTTP/1.1 504") for answer in answers)
        for _, writer in streams:
            writer.close()


async def test_review_whose_time_is_over_is_not_begun(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcr.serving.webhooks.server.CONCURRENT", 1)
    queries: list[float] = []
    over = threading.Event()

    async def block(path: str, seconds: float, body: bytes, content_type: str) -> tuple[int, bytes]:
        queries.append(seconds)
        await asyncio.to_thread(over.wait)
        time.sleep(0.5)  # noqa: ASYNC251  # the loop is blocked until the other's time is over
        return 200, b"{}"

    async with server(authority, block) as made, session(authority) as caller, asyncio.TaskGroup() as group:
        first = group.create_task(post(made, caller))
        await eventually(lambda: bool(queries))
        second = group.create_task(post(made, caller, path="/validate?timeout=400ms"))
        await eventually(lambda: made._held == 4)  # two bodies: the second one waits
        over.set()
    assert (first.result()[0], second.result()[0]) == (200, 504)
    assert queries == [pytest.approx(10, abs=0.1)]


async def test_thread_that_ends_by_itself_ends_the_program(authority: trustme.CA) -> None:
    async def leave() -> None:
        raise SystemExit(3)

    async def handle(path: str, seconds: float, body: bytes, content_type: str) -> tuple[int, bytes]:
        kept.append(asyncio.get_running_loop().create_task(leave()))
        return 200, b"{}"

    kept: list[asyncio.Task[None]] = []
    with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match=r"thread webhooks has ended: SystemExit\(3\)")):
        async with asyncio.timeout(5), server(authority, handle) as made, session(authority) as caller:
            with suppress(aiohttp.ClientError):
                await post(made, caller)
            await asyncio.get_running_loop().create_future()
    # Retrieved, or it is logged whenever the task is collected, as an error of another test.
    assert isinstance(kept[0].exception(), SystemExit)


async def test_connection_is_kept_for_the_next_request(authority: trustme.CA) -> None:
    handshakes = list[int]()
    async with server(authority) as made, session(authority) as caller:
        for _ in range(3):
            await post(made, caller)
            assert caller.connector is not None
            handshakes.append(len(caller.connector._conns))  # only to count them
    assert handshakes == [1, 1, 1]


async def test_end_serves_on_and_lets_reviews_finish(authority: trustme.CA) -> None:  # WH-12
    running = threading.Event()

    async def slow(path: str, seconds: float, body: bytes, content_type: str) -> tuple[int, bytes]:
        running.set()
        await asyncio.sleep(0.4)
        return 200, b"done"

    async with session(authority) as caller, asyncio.TaskGroup() as group:
        async with server(authority, slow, shutdown_delay=0.2) as made:
            await eventually(lambda: made.check() == "")
            ending = group.create_task(until_ending(made))
            group.create_task(asyncio.sleep(0))
        late = await ending
        assert late == (200, b"done")
        with pytest.raises(aiohttp.ClientConnectionError):
            await post(made, caller)


async def until_ending(made: WebhookServer) -> tuple[int, bytes]:
    """Call the server once it is not ready any more."""
    await eventually(lambda: made.check() == "is shutting down")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    headers = {"Content-Type": "application/json"}
    url = f"https://127.0.0.1:{made.port}/validate"
    async with aiohttp.ClientSession(headers=headers) as caller, caller.post(url, data=b"{}", ssl=context) as response:
        assert response.headers["Connection"] == "close"
        return response.status, await response.read()


async def test_readiness_waits_for_a_certificate_and_a_dial(authority: trustme.CA) -> None:  # WH-12
    certificate = PortCertificate("webhooks")
    made = WebhookServer(echo, LOCAL, certificate)
    async with made.serving():
        assert made.check() == "there is no certificate yet"
        async with session(authority) as caller:
            with pytest.raises(aiohttp.ClientConnectorError):
                await post(made, caller)
        certificate.load(issued(authority))
        await eventually(lambda: made.check() == "")
        certificate.load(b"no certificate")
        assert (made.check(), bool(made.certificate_error())) == ("", True)


async def test_only_clients_with_a_certificate_may_connect(authority: trustme.CA, tmp_path: Path) -> None:  # WH-1
    (tmp_path / "ca.crt").write_bytes(authority.cert_pem.bytes())
    async with server(authority, client_ca=str(tmp_path / "ca.crt")) as made:
        async with session(authority) as caller:
            with pytest.raises(aiohttp.ClientError):
                await post(made, caller)
        context = trusting(authority)
        authority.issue_cert("api-server").configure_cert(context)
        connector = aiohttp.TCPConnector(ssl=context)
        headers = {"Content-Type": "application/json"}
        async with aiohttp.ClientSession(connector=connector, headers=headers) as known:
            assert (await post(made, known))[0] == 200
        stranger = trusting(authority)
        trustme.CA().issue_cert("stranger").configure_cert(stranger)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=stranger)) as unknown:
            with pytest.raises(aiohttp.ClientError):
                await post(made, unknown)


async def test_old_protocols_are_refused(authority: trustme.CA) -> None:  # WH-1
    context = trusting(authority)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with server(authority) as made:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as caller:
            assert (await post(made, caller))[0] == 200
        listening = made._certificate.context()
        assert listening.minimum_version == ssl.TLSVersion.TLSv1_2


async def test_no_request_fails_across_rotations_under_load(authority: trustme.CA) -> None:  # WH-11
    certificate, authorities = PortCertificate("webhooks"), [trustme.CA() for _ in range(6)]
    certificate.load(issued(authorities[0]))
    made = WebhookServer(echo, LOCAL, certificate)
    connected = list[aiohttp.ClientSession]()
    trusted, over, answered = {"pem": authorities[0].cert_pem.bytes().decode()}, threading.Event(), list[int]()

    async def load() -> None:
        """Call the server on new connections and on one that stays, as several API servers do."""
        async with session(authorities[0]) as kept:
            await post(made, kept)
            connected.append(kept)
            while not over.is_set():
                context = ssl.create_default_context(cadata=trusted["pem"])
                connector = aiohttp.TCPConnector(ssl=context)
                async with aiohttp.ClientSession(connector=connector) as caller:
                    answered.append((await post(made, caller))[0])
                answered.append((await post(made, kept))[0])

    async with made.serving(), made.reviewing(), asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(load())
        await eventually(lambda: len(connected) == 3)
        for old, new in pairwise(authorities):
            trusted["pem"] = old.cert_pem.bytes().decode() + new.cert_pem.bytes().decode()
            seen = len(answered)
            await eventually(lambda seen=seen: len(answered) > seen + 10)  # type: ignore[misc]  # a value of now
            certificate.load(issued(new))
            seen = len(answered)
            await eventually(lambda seen=seen: len(answered) > seen + 10)  # type: ignore[misc]  # a value of now
        over.set()
    assert set(answered) == {200}
    assert certificate.errors == 0


async def test_oldest_connection_makes_room(authority: trustme.CA) -> None:
    async with server(authority, reviews=False, max_connections=2) as made:
        # The server dials itself now and then.
        await eventually(lambda: closed_first(made.port))
