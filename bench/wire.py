"""A transport that answers from memory: what is measured is what lies above it."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from kcr.client import Request, Response
from kcr.errors import TransportError


class Canned:
    """Serves one collection: by pages, and by one stream; then it is silent."""

    def __init__(self, bodies: list[bytes], lines: Iterable[bytes], *, streams: bool = True, page: int = 500) -> None:
        self._bodies = bodies
        self._lines = lines
        self._streams = streams
        self._page = page

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        """Answer one request."""
        if "watch=" not in request.target:
            yield _Answer(self._list(request.target), ())
        elif "sendInitialEvents" in request.target and not self._streams:
            yield _Answer(b'{"reason":"Invalid","code":422,"message":"no streams here"}', (), 422)
        else:
            yield _Answer(b"", self._lines)

    def _list(self, target: str) -> bytes:
        start = int(target.partition("continue=")[2].partition("&")[0] or 0)
        end = start + self._page
        onward = f'"continue":"{end}",' if end < len(self._bodies) else ""
        head = f'{{"kind":"PodList","metadata":{{{onward}"resourceVersion":"{len(self._bodies)}"}},"items":['
        return head.encode() + b",".join(self._bodies[start:end]) + b"]}"


class _Answer:
    def __init__(self, body: bytes, lines: Iterable[bytes], status: int = 200) -> None:
        self._body = body
        self._lines = lines
        self.status = status
        self.headers: Mapping[str, str] = {"content-type": "application/json"}

    async def read(self) -> bytes:
        # As a socket does: the answer takes its time to come, and others have their turn.
        await asyncio.sleep(0)
        return self._body

    async def lines(self) -> AsyncIterator[bytes]:
        for number, line in enumerate(self._lines):
            yield line
            if number % 64 == 63:
                # As a socket does: its buffer holds so many lines, and then the loop has to fetch more.
                await asyncio.sleep(0)
        await asyncio.get_running_loop().create_future()
        raise TransportError("a silent stream never ends")
