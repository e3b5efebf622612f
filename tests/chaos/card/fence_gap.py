"""The gap that no client can close: from the last check of the Lease to the first byte of a write at the server.

A machine that is suspended in this gap sends the write when it resumes, although another process may lead by then. The
client gives up a write without an answer after its timeout; only then can the sender look up whether it was executed.
"""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import NamedTuple

from kcr.client import ClusterConfig, HttpTransport, Request
from kcr.errors import TransportError

WRITES, TIMEOUT_SECONDS = 500, 1.0
_BODY = b'{"kind":"Status","status":"Success"}'
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)


class Gap(NamedTuple):
    """The measured gap, in milliseconds; and how long a write without an answer takes, over its timeout, in seconds."""

    median: float
    longest: float
    over_timeout: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ms in the middle, {self.longest:.1f} ms at most"


class _Server:
    """Answers each request on a thread of its own, and keeps when its first byte came."""

    def __init__(self, listener: socket.socket) -> None:
        self.arrived: list[float] = []
        self.answers = True
        self._listener = listener

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                while connection.recv(65536):
                    self.arrived.append(perf_counter())
                    if self.answers:
                        connection.sendall(_ANSWER)


@contextmanager
def _serving() -> Iterator[tuple[_Server, str]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = _Server(listener)
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        yield server, f"http://127.0.0.1:{listener.getsockname()[1]}"
        # Wakes the thread.
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


async def _measure() -> Gap:
    checks: list[float] = []
    gaps: list[float] = []
    with _serving() as (server, url):
        async with HttpTransport(ClusterConfig(server=url)) as transport:
            request = Request("PATCH", "/a", {}, b"{}", fence=lambda: checks.append(perf_counter()))
            for _ in range(WRITES):
                checks.clear()
                server.arrived.clear()
                async with transport.send(request) as response:
                    await response.read()
                gaps.append((server.arrived[0] - checks[-1]) * 1000)
            server.answers = False
            began = perf_counter()
            try:
                async with transport.send(request._replace(timeout_seconds=TIMEOUT_SECONDS)) as response:
                    await response.read()
                raise AssertionError("the server does not answer")
            except TransportError:
                over = perf_counter() - began - TIMEOUT_SECONDS
    gaps.sort()
    return Gap(gaps[len(gaps) // 2], gaps[-1], over)


def measure() -> Gap:
    """Send writes to a server on this machine, and return the gap."""
    return asyncio.run(_measure())
