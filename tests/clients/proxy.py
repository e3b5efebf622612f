"""A proxy between a client and a server: it records requests and plays faults, so that both servers play the same."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
from aiohttp import web

HOP_HEADERS = {"host", "authorization", "content-length", "transfer-encoding", "accept-encoding"}
EXPIRED = {
    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410,
    "message": "The provided continue parameter is too old to display a consistent list result.",
}  # fmt: skip


class Seen(NamedTuple):
    """A request as the client sent it.

    Attributes:
        method: The method.
        path: The path.
        query: The options.
        content_type: The type of its body.
        authorization: The credentials.
        body: Its body, decoded where it is JSON.
    """

    method: str
    path: str
    query: Mapping[str, str]
    content_type: str
    authorization: str
    body: Any


class Fault:
    """What the proxy does to the requests of one thing; by itself nothing."""

    def query(self, seen: Seen, number: int) -> Mapping[str, str]:
        """Return the options to send to the server."""
        return seen.query

    def answer(self, seen: Seen, number: int) -> web.Response | None:
        """Return an answer that the server is not asked for, None to ask it."""
        return None

    def body(self, seen: Seen, body: bytes) -> bytes:
        """Return what the client gets of an answer."""
        return body

    def line(self, number: int) -> bytes:
        """Return what follows the first event of a watch."""
        return b""

    def last(self, number: int) -> bytes:
        """Return what ends a watch."""
        return b""


class Proxy:
    """Forwards requests to a server as its administrator.

    Attributes:
        seen: The requests since the fault was set, discovery aside.
        began: The first watch has begun.
        ended: The first watch has ended.
    """

    def __init__(self, session: aiohttp.ClientSession, server: str, token: str) -> None:
        self._session = session
        self._server = server
        self._token = token
        self.play(Fault())

    def play(self, fault: Fault) -> None:
        """Begin a thing: play this fault from now on, and forget what was seen."""
        self._fault = fault
        self.seen: list[Seen] = []
        self.began, self.ended = asyncio.Event(), asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        seen = Seen(
            request.method, request.path, dict(request.query), request.headers.get("Content-Type", ""),
            request.headers.get("Authorization", ""), _decoded(await request.read()),
        )  # fmt: skip
        fault, number = self._fault, 0
        if "/namespaces/" in seen.path:
            self.seen.append(seen)
            number = sum(one[:2] == seen[:2] for one in self.seen)
            answer = fault.answer(seen, number)
            if answer is not None:
                return answer
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_HEADERS}
        headers["Authorization"] = f"Bearer {self._token}"
        query = fault.query(seen, number)
        sent = await request.read()
        url = self._server + seen.path
        # aiohttp would name a type where the client has named none.
        skipped = ["Content-Type"]
        async with self._session.request(
            seen.method, url, params=query, headers=headers, data=sent or None, skip_auto_headers=skipped
        ) as got:
            content_type = got.headers.get("Content-Type", "")
            kept = {name: value for name, value in got.headers.items() if name in ("Retry-After", "Warning")}
            kept["Content-Type"] = content_type
            if query.get("watch", "").lower() in ("true", "1"):
                return await self._watch(request, got, kept, number)
            return web.Response(status=got.status, body=fault.body(seen, await got.read()), headers=kept)

    async def _watch(
        self, request: web.Request, got: aiohttp.ClientResponse, headers: Mapping[str, str], number: int
    ) -> web.StreamResponse:
        fault, began, ended = self._fault, self.began, self.ended
        answer = web.StreamResponse(status=got.status, headers=headers)
        await answer.prepare(request)
        began.set()
        first = True
        while line := await got.content.readuntil():
            await answer.write(line)
            if first and (more := fault.line(number)):
                await answer.write(more)
            first = False
        if last := fault.last(number):
            await answer.write(last)
        await answer.write_eof()
        ended.set()
        return answer


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")


@asynccontextmanager
async def proxied(session: aiohttp.ClientSession, server: str, token: str) -> AsyncIterator[tuple[Proxy, str]]:
    """Serve a proxy, and give it with its URL."""
    proxy = Proxy(session, server, token)
    application = web.Application(client_max_size=1 << 26)
    application.router.add_route("*", "/{path:.*}", _quiet(proxy.handle))
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield proxy, f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _quiet(handle: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> Any:
    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return await handle(request)
        except (ConnectionError, aiohttp.ClientError, asyncio.IncompleteReadError):
            # The client has gone.
            return web.Response(status=502)

    return answer
