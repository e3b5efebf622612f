"""Faults of bodies: watches that are cut, silent, late or doubled; bodies that end early or come slowly."""

import asyncio
from collections.abc import AsyncIterator

from kcr_devcluster.apiserver.protocol.responses import APIResponse, Stream
from kcr_devcluster.cluster.faults.rules import FaultRule

# A slow body is sent in so many pieces a second.
_PIECES_PER_SECOND = 10


class ConnectionLostError(Exception):
    """The connection is to be closed at once, without the rest of the response."""


def disturbed(response: APIResponse, rule: FaultRule) -> APIResponse:
    """Return a response with the fault of a rule, if that is one of bodies."""
    body, headers = response.body, response.headers
    if rule.truncate is None and rule.throttle is None:
        return response if isinstance(body, bytes) else response._replace(body=_DisturbedWatch(body, rule))
    if isinstance(body, bytes):
        headers = {**headers, "Content-Length": str(len(body))}
        body = Whole(body)
    return response._replace(body=_DisturbedBody(body, rule), headers=headers)


class Whole:
    """A complete body, as a stream."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def aclose(self) -> None:
        """Do nothing: no one is behind it."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


class _Disturbed:
    """What is sent, with a fault."""

    def __init__(self, inner: Stream, rule: FaultRule) -> None:
        self._inner = inner
        self._rule = rule

    async def aclose(self) -> None:
        await self._inner.aclose()


class _DisturbedBody(_Disturbed):
    """A body that ends early, or comes slowly."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._rule.truncate
        async for chunk in self._inner:
            if left is None:
                async for piece in self._pieces(chunk):
                    yield piece
                continue
            if left:
                yield chunk[:left]
            left -= len(chunk)
            if left <= 0:
                raise ConnectionLostError

    async def _pieces(self, chunk: bytes) -> AsyncIterator[bytes]:
        per_second = self._rule.throttle or 1
        size = max(1, per_second // _PIECES_PER_SECOND)
        for start in range(0, len(chunk), size):
            piece = chunk[start : start + size]
            await asyncio.sleep(len(piece) / per_second)
            yield piece


class _DisturbedWatch(_Disturbed):
    """The lines of a watch, with one fault."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        after = self._rule.cut if self._rule.freeze is None else self._rule.freeze
        left = -1 if after is None else after
        if left == 0:
            await self._end()
        async for chunk in self._inner:
            if self._rule.lag:
                await asyncio.sleep(self._rule.lag)
            # Parts of a watch end with a line.
            lines = chunk.splitlines(keepends=True)
            if 0 < left <= len(lines):
                yield b"".join(lines[:left])
                await self._end()
            left -= len(lines) if left > 0 else 0
            yield b"".join(line + line for line in lines) if self._rule.repeat else chunk

    async def _end(self) -> None:
        if self._rule.freeze is not None:
            # Until the server ends the watch: a connection that is dead in truth stays so.
            async for _ in self._inner:
                pass
        raise ConnectionLostError
