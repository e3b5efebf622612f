"""Answers and log lines for requests that cannot be served, and for more connections than there are descriptors."""

import asyncio
import gc
import json
import resource
import select
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import aiohttp
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from kcr.api.bindaddress import MAX_CONNECTIONS
from kcr.serving.httpserver import MAX_HEADER_BYTES, MAX_HEADERS, Patience, Server, Site
from kcr.serving.ports.certificate import SecureServing, ServerCertificate
from kcr.testing import eventually

pytestmark = pytest.mark.asyncio

# Each connection is served before the next is made. The client keeps them until its input ends.
CLIENT = """
import contextlib, socket, sys
kept = []
with contextlib.suppress(ConnectionError):
    for _ in range(int(sys.argv[2])):
        kept.append(socket.create_connection(("127.0.0.1", int(sys.argv[1]))))
        kept[-1].sendall(b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
        kept[-1].recv(1000)
sys.stdin.read()
"""

STREAMED, BIG = 20_000_000, 50_000_000
REASONS = {400: "BadRequest", 431: "RequestHeaderFieldsTooLarge", 500: "InternalError"}


async def answer(request: web.BaseRequest) -> web.StreamResponse:
    if request.path == "/broken":
        raise ZeroDivisionError("no such number")
    if request.path == "/body":
        await request.read()
    if request.path == "/big":
        return web.Response(body=bytes(BIG))
    if request.path == "/stream":
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(STREAMED // 1_000_000):
            await response.write(bytes(1_000_000))
        return response
    return web.Response(text="ok")


@asynccontextmanager
async def serving(
    *, patience: Patience | None = None, most: int = 1000,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:  # fmt: skip
    server = Server(answer, max_body=100_000, max_connections=most, patience=patience)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await Site(runner, "127.0.0.1", 0, tls=tls).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def get(port: int, path: str = "/", headers: dict[str, str] | None = None) -> tuple[int, str]:
    timeout = aiohttp.ClientTimeout(total=5)
    url = f"http://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url, headers=headers) as response:
        if response.content_type != "application/json":
            return response.status, await response.text()
        status = await response.json()
        assert (status["kind"], status["code"]) == ("Status", response.status)
        assert status["reason"] == REASONS[response.status]
        return response.status, status["message"]


async def test_handler_that_raises_is_a_status_and_one_line() -> None:
    async with serving() as port:
        with capture_logs() as lines:
            assert await get(port, "/broken") == (500, "Internal error occurred: ZeroDivisionError")
        (line,) = lines
        assert (line["log_level"], line["event"]) == ("error", "GET /broken failed")
        assert isinstance(line["exc_info"], ZeroDivisionError)
        assert (await get(port))[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({f"X-{number}": "a" for number in range(MAX_HEADERS + 1)}, id="many"),
        pytest.param({"X-Long": "a" * (MAX_HEADER_BYTES + 1)}, id="long"),
    ],
)
async def test_oversized_headers_are_431_without_a_traceback(headers: dict[str, str]) -> None:
    async with serving() as port:
        with capture_logs() as lines:
            assert (await get(port, headers=headers))[0] == 431
        (line,) = lines
        assert (line["log_level"], line["event"], line["code"]) == ("warning", "request refused", 431)
        assert "exc_info" not in line


async def test_request_that_cannot_be_read_is_a_bad_request() -> None:
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/9.9.9\r\n\r\n")
        head, _, body = (await asyncio.wait_for(reader.read(), 5)).partition(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()
    assert head.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
    status = json.loads(body)
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 400, REASONS[400])


@contextmanager
def descriptors(count: int) -> Iterator[None]:
    """Limit the descriptors of this process."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n"
SOON = 0.05


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ", id="half-a-head"),
        pytest.param(b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf", id="half-a-body"),
        pytest.param(REQUEST + b"GET / HTTP/1.1\r\nX-Slow: ", id="half-of-a-second-head"),
    ],
)
async def test_connection_that_does_not_go_on_is_closed(said: bytes) -> None:
    patience = Patience(speak=SOON, head=SOON, body=SOON, response=SOON, idle=SOON)
    async with serving(patience=patience) as port:
        client = socket.create_connection(("127.0.0.1", port))
        client.sendall(said)
        await eventually(lambda: not is_open(client))
        client.close()
        assert await get(port) == (200, "ok")


def is_open(client: socket.socket) -> bool:
    """Whether a server has not closed a connection; what it sent stays unread."""
    client.setblocking(False)
    events = select.poll()
    events.register(client, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
    return not events.poll(0)


async def test_connection_with_a_request_may_be_silent() -> None:
    async with serving(patience=Patience(head=SOON, body=SOON)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for pause in (0.1, 0):
            writer.write(REQUEST)
            assert b"ok" in await reader.readuntil(b"ok")
            await asyncio.sleep(pause)  # in real time, beyond the limit
        writer.close()


async def test_response_that_is_not_read_ends() -> None:
    async with serving(patience=Patience(response=SOON)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.sleep(0.2)  # in real time, beyond the limit
        with suppress(ConnectionResetError):
            assert len(await asyncio.wait_for(reader.read(), 10)) < BIG
        writer.close()


async def test_stream_that_is_not_read_goes_on() -> None:
    async with serving(patience=Patience(response=SOON)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        await asyncio.sleep(0.2)  # in real time, beyond the limit
        rest = await asyncio.wait_for(reader.read(), 10)
        assert len(rest) > STREAMED
        writer.close()


@pytest.mark.parametrize(("most", "count"), [(20, 30), (10_000, MAX_CONNECTIONS + 10)])
async def test_first_of_those_that_say_nothing_makes_room(most: int, count: int) -> None:
    async with serving(most=most, patience=Patience(speak=3600)) as port:
        silent = []
        for number in range(count):
            silent.append(socket.create_connection(("127.0.0.1", port)))
            if number % 100 == 0:  # the backlog of the port is no longer than this
                await asyncio.sleep(0)
        assert await get(port) == (200, "ok")
        await eventually(lambda: not is_open(silent[0]))
        assert is_open(silent[-1])
        for one in silent:
            one.close()


async def test_connection_that_idles_longest_makes_room_and_is_told() -> None:
    async with serving(most=10) as port:
        kept = []
        with capture_logs() as lines:
            for _ in range(11):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(REQUEST)
                await reader.readuntil(b"ok")
                kept.append((reader, writer))
            with suppress(ConnectionResetError):
                assert await kept[0][0].read() == b""
        (line,) = lines
        assert (line["event"], line["connections_limit"]) == ("too many connections, closing idle ones", 10)
        for _, writer in kept:
            writer.close()


async def test_handshake_that_does_not_end_makes_room() -> None:
    certificate = ServerCertificate(SecureServing()).context()
    async with serving(tls=certificate, most=5, patience=Patience(handshake=60)) as port:
        stuck = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
        for one in stuck:
            one.sendall(b"\x16")
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        writer.write(REQUEST)
        assert b"ok" in await asyncio.wait_for(reader.readuntil(b"ok"), 10)
        writer.close()
        for one in stuck:
            one.close()


async def test_port_that_is_only_tried_costs_nothing() -> None:
    async with serving() as port:
        with capture_logs() as lines:
            for _ in range(50):
                socket.create_connection(("127.0.0.1", port)).close()
            assert await get(port) == (200, "ok")
        assert lines == []


async def test_connections_leave_descriptors_to_the_process() -> None:
    async with serving() as port:
        with descriptors(160), capture_logs() as lines:
            client = await asyncio.create_subprocess_exec(
                sys.executable, "-SIc", CLIENT, str(port), "97", stdin=asyncio.subprocess.PIPE
            )
            await eventually(lambda: lines)
            assert await get(port) == (200, "ok")
            await client.communicate(b"")
    (line,) = lines
    assert (line["log_level"], line["event"]) == ("error", "too many connections, closing idle ones")
    assert line["connections_limit"] == 96


@pytest.mark.parametrize("pauses", range(6))
async def test_handshake_that_may_not_have_begun_is_closed(pauses: int) -> None:
    async with serving(tls=ServerCertificate(SecureServing()).context(), most=2) as port:
        begun = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
        for one in begun:
            one.sendall(b"\x16")
        for _ in range(pauses):
            await asyncio.sleep(0)
    gc.collect()  # an unclosed socket is a warning, and so an error
    for one in begun:
        one.close()
