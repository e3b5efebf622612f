"""A transport that reads its answers from a script, and remembers what it was asked."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from kcr.client import Request


class Say:
    """An answer. Its lines are those of the body; then the stream ends, fails, or stays open; at once, or later.

    Lines come at once, or one in `every` seconds.
    """

    def __init__(
        self,
        body: object = b"",
        *,
        status: int = 200,
        headers: Mapping[str, str] = {},
        then: Exception | str = "end",
        seconds: float = 0.0,
        every: float = 0.0,
    ) -> None:
        self.status = status
        self.headers = headers
        self._body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._then = then
        self._seconds = seconds
        self._every = every

    async def read(self) -> bytes:
        return self._body

    async def lines(self) -> AsyncIterator[bytes]:
        for line in self._body.splitlines():
            yield line
            if self._every:
                await asyncio.sleep(self._every)
        if self._seconds:
            await asyncio.sleep(self._seconds)
        if isinstance(self._then, Exception):
            raise self._then
        if self._then == "stay":
            await asyncio.get_running_loop().create_future()


class Script:
    """Gives one answer after the other; when none is left, the answer never comes."""

    def __init__(self, *answers: Say | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []
        self.times: list[float] = []

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Say]:
        self.requests.append(request)
        self.times.append(asyncio.get_running_loop().time())
        if not self.answers:
            await asyncio.get_running_loop().create_future()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        yield answer

    @property
    def targets(self) -> list[str]:
        return [request.target for request in self.requests]


def failure(code: int, reason: str = "", message: str = "no", **details: Any) -> Say:
    """Return a Status that says no."""
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return Say({**status, "details": details}, status=code)


def events(*pairs: tuple[str, Mapping[str, object]]) -> bytes:
    """Return the lines of a watch."""
    return b"".join(json.dumps({"type": type_, "object": obj}).encode() + b"\n" for type_, obj in pairs)
