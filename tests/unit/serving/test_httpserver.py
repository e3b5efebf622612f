"""Answers and log lines for requests that cannot be served, and for more connections than there are descriptors."""

import asyncio
import json
import resource
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import aiohttp
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from kcr.serving.httpserver import MAX_HEADER_BYTES, MAX_HEADERS, Server
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

REASONS = {400: "BadRequest", 431: "RequestHeaderFieldsTooLarge", 500: "InternalError"}


async def answer(request: web.BaseRequest) -> web.StreamResponse:
    if request.path == "/broken":
        raise ZeroDivisionError("no such number")
    return web.Response(text="ok")


@asynccontextmanager
async def serving() -> AsyncIterator[int]:
    runner = web.ServerRunner(Server(answer, max_body=1000, keepalive_seconds=10), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
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


async def test_connection_without_a_request_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcr.serving.httpserver.HEADER_SECONDS", 0.05)
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ")
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()


async def test_connection_with_a_request_may_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcr.serving.httpserver.HEADER_SECONDS", 0.05)
    request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for pause in (0.1, 0):
            writer.write(request)
            assert b"ok" in await reader.readuntil(b"ok")
            await asyncio.sleep(pause)  # in real time, beyond the limit
        writer.close()


async def test_connections_leave_descriptors_to_the_process() -> None:
    async with serving() as port:
        with descriptors(160), capture_logs() as lines:
            client = await asyncio.create_subprocess_exec(
                sys.executable, "-SIc", CLIENT, str(port), "97", stdin=asyncio.subprocess.PIPE
            )
            await eventually(lambda: lines)
            with pytest.raises(aiohttp.ClientError):
                await get(port)
            await client.communicate(b"")
            assert await eventually(lambda: get(port)) == (200, "ok")
    (line,) = lines
    assert (line["log_level"], line["event"]) == ("error", "too many connections, closing new ones")
    assert line["connections_limit"] == 96
