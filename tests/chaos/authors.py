"""Who wrote what: the changes of the storage are signed, so that a history can say so.

This is what laws of the storage need, and no author of an operator: `kcr.testing.explore` signs its histories itself.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

from kcr.client import Request, Response, Transport

# The author of the change that the storage just records.
AUTHOR: ContextVar[str] = ContextVar("author", default="")
CONTROLLER, LATE, USER = "controller", "late", "user"


class _Sending:
    """A request whose sender waits for the answer, until it is over."""

    def __init__(self) -> None:
        self.is_over = False


_SENDING: ContextVar[_Sending | None] = ContextVar("sending", default=None)


class Sender:
    """The end of a network at which a controller sends; `Signature` is the other one."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        sending = _Sending()
        _SENDING.set(sending)
        try:
            async with self.inner.send(request) as response:
                yield response
        finally:
            sending.is_over = True


class Signature:
    """The end of a network at the server: signs what arrives, and keeps what the server refuses.

    A request that arrives when its sender has given it up has no author any more.

    Attributes:
        invalid: What the server refused with 422: no status and no pod of ours may be malformed. Patches of pods may
            come too late to be valid.
    """

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.invalid: list[str] = []

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        sending = _SENDING.get()
        token = AUTHOR.set(LATE if sending is not None and sending.is_over else CONTROLLER)
        async with self.inner.send(request) as response:
            AUTHOR.reset(token)
            if response.status == 422 and (request.method == "POST" or "/status" in request.target):
                self.invalid.append((await response.read()).decode())
            yield response
