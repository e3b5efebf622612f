"""The one seam: requests go in as bytes, answers come out as bytes.

`HttpTransport` speaks HTTP; the embedded server has a `Transport` of its own that calls it without a socket.
Everything above is the same code in production and in tests.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol


class Request(NamedTuple):
    """One request.

    Attributes:
        method: `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
        target: Path and query, percent-encoded, such as `/api/v1/pods?watch=true`.
        headers: Headers of this request; the transport adds authorization and User-Agent.
        body: The body, empty for none.
        timeout_seconds: How long the whole exchange may take; None for watches and logs that follow.
        idle_seconds: How long the answer may stay silent; None for no limit. Watches set it.
        component: The part of the program that asks, for the User-Agent; empty for the whole.
        resend_count: How often it has been sent before, for metrics and traces.
        fence: Called by the transport once it has a connection, before the first byte is sent; its exception
            prevents the request, and is raised by `send`. None for no call.
    """

    method: str
    target: str
    headers: Mapping[str, str] = {}
    body: bytes = b""
    timeout_seconds: float | None = 30.0
    idle_seconds: float | None = None
    component: str = ""
    resend_count: int = 0
    fence: Callable[[], None] | None = None


class Response(Protocol):
    """A response with status and headers, whose body can be read once."""

    @property
    def status(self) -> int:
        """The HTTP status code; errors are not raised here."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, names in lower case; repeated headers are joined by commas."""
        ...

    async def read(self) -> bytes:
        """Return the whole body."""
        ...

    def lines(self) -> AsyncIterator[bytes]:
        """Yield the body line by line as it arrives; the end of the body ends the iteration."""
        ...


class Transport(Protocol):
    """Sends a request and gives its answer for as long as the context lives; one that wraps another has it as `inner`.

    Raises:
        TransportError: No answer came, or it broke off; from `send`, `read` and `lines` alike.
    """

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Send one request; one that waits, as for a connection, calls the request's fence after that."""
        ...
