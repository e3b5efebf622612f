"""A node's connection to the server, for network partitions: while it is cut, requests and watch events wait."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from kcr.client import Request, Response, Transport


class NodeConnection:
    """Passes requests, answers and watch events on while it is up; else they wait until it is up again."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._up = asyncio.Event()
        self._up.set()

    def cut(self) -> None:
        """Let nothing pass any more."""
        self._up.clear()

    def restore(self) -> None:
        """Let everything pass again, including the requests, responses and watch events that wait."""
        self._up.set()

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Send one request."""
        return self._exchange(request)

    @asynccontextmanager
    async def _exchange(self, request: Request) -> AsyncGenerator[Response, None]:
        await self._up.wait()
        async with self._transport.send(request) as response:
            await self._up.wait()
            yield _HeldResponse(response, self._up)


class _HeldResponse:
    def __init__(self, response: Response, up: asyncio.Event) -> None:
        self._response = response
        self._up = up

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    async def read(self) -> bytes:
        return await self._response.read()

    async def lines(self) -> AsyncIterator[bytes]:
        async for line in self._response.lines():
            if not self._up.is_set():
                await self._up.wait()
            yield line
