"""The handlers httpGet and tcpSocket, against sockets of this machine."""

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import trustme

from kcr_devcluster.cluster.node.pods import HTTPGetAction, HTTPHeader
from kcr_devcluster.cluster.node.probes.network import connect, probe_get
from kcr_devcluster.cluster.node.probes.results import HandlerResult

pytestmark = pytest.mark.asyncio

HEADERS = (HTTPHeader(name="X-Sent", value="yes"), HTTPHeader(name="Host", value="example.dev"))


class Replies:
    """Answers each request with the next text, the last one again and again; None never answers."""

    def __init__(self, *texts: str | None) -> None:
        self._texts = list(texts)
        self.requests: list[str] = []
        self.answered = asyncio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        text = self._texts.pop(0) if len(self._texts) > 1 else self._texts[0]
        with suppress(EOFError, OSError):
            self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(text.encode() if text is not None else await reader.read())
        writer.close()
        self.answered.set()


@asynccontextmanager
async def served(*texts: str | None, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[int, Replies]]:
    replies = Replies(*texts)
    async with await asyncio.start_server(replies.answer, "127.0.0.1", 0, ssl=tls) as server:
        yield server.sockets[0].getsockname()[1], replies
        await replies.answered.wait()


def reply(status: str, *headers: str, body: str = "") -> str:
    return "\r\n".join((f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", body))


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


async def get(port: int, path: str = "/", scheme: str = "http", timeout: float = 5) -> HandlerResult:
    action = HTTPGetAction(path=path, port=port, http_headers=HEADERS)
    result = await probe_get(f"{scheme}://127.0.0.1:{port}{path}", action, timeout)
    return result._replace(message=re.sub(r":\d{2,5}\b", ":PORT", result.message))


@pytest.mark.parametrize(
    ("status", "result"),
    [
        pytest.param("200 OK", HandlerResult("success", "body"), id="ok"),
        pytest.param("399 Odd", HandlerResult("warning", "Probe terminated redirects, Response body: body"), id="odd"),
        pytest.param("404 No", HandlerResult("failure", "HTTP probe failed with statuscode: 404"), id="not-found"),
        pytest.param("503 No", HandlerResult("failure", "HTTP probe failed with statuscode: 503"), id="unavailable"),
    ],
)
async def test_code_decides_a_get(status: str, result: HandlerResult) -> None:
    async with served(reply(status, body="body")) as (port, _):
        assert await get(port) == result


async def test_get_sends_the_headers_of_the_probe() -> None:
    async with served(reply("200 OK")) as (port, replies):
        await get(port, "/a?b=c")
    request, *headers = replies.requests[0].strip().split("\r\n")
    assert request == "GET /a?b=c HTTP/1.1"
    assert {"Host: example.dev", "X-Sent: yes", "User-Agent: kube-probe/1.36", "Accept: */*"} <= set(headers)
    assert not any(header.startswith("Accept-Encoding") for header in headers)


async def test_redirect_is_followed_on_the_same_host_only() -> None:
    async with served(reply("302 F", "Location: /there"), reply("200 OK", body="there")) as (port, replies):
        assert await get(port) == HandlerResult("success", "there")
        assert len(replies.requests) == 2
    async with served(reply("302 F", "Location: http://example.dev/", body="go")) as (port, _):
        message = "Probe terminated redirects, Response body: go"
        assert await get(port) == HandlerResult("warning", message)
    async with served(reply("302 F", "Location: /again")) as (port, _):
        assert (await get(port)).message == 'Get "http://127.0.0.1:PORT/": stopped after 10 redirects'


@pytest.mark.parametrize(
    ("text", "scheme", "words"),
    [
        pytest.param(
            None, "http", "context deadline exceeded (Client.Timeout exceeded while awaiting headers)", id="silent"
        ),
        pytest.param("", "http", "EOF", id="closed"),
    ],
)
async def test_get_without_a_response_fails(text: str | None, scheme: str, words: str) -> None:
    async with served(text) as (port, _):
        assert await get(port, scheme=scheme, timeout=0.2) == HandlerResult(
            "failure", f'Get "{scheme}://127.0.0.1:PORT/": {words}'
        )


async def test_certificate_is_not_verified() -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("example.dev").configure_cert(tls)
    async with served(reply("200 OK", body="safe"), tls=tls) as (port, _):
        assert await get(port, scheme="https") == HandlerResult("success", "safe")


async def test_refused_connection_is_named_as_go_names_it() -> None:
    port = closed_port()
    words = "dial tcp 127.0.0.1:PORT: connect: connection refused"
    assert await get(port) == HandlerResult("failure", f'Get "http://127.0.0.1:PORT/": {words}')
    assert (await connect("127.0.0.1", port, 1)).message == words.replace("PORT", str(port))
    assert (await connect("no.such.invalid", port, 5)).message == "dial tcp: lookup no.such.invalid: no such host"


async def test_accepted_connection_is_a_success() -> None:
    async with served("") as (port, _):
        assert await connect("127.0.0.1", port, 1) == HandlerResult("success")
