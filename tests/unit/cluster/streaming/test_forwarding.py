import asyncio
import socket
import struct

import pytest

from kcr.api.meta import Key
from kcr_devcluster.cluster.streaming.forwarding import Forwarder

pytestmark = pytest.mark.asyncio


class ClientOfAReset:
    """A client that sends no more at the moment when the pod resets its connection."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server

    async def read(self) -> bytes:
        connection, _ = self._server.accept()
        # Without lingering, closing is a reset.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        return b""

    async def write(self, data: bytes) -> None:
        raise AssertionError(data)


async def test_end_of_a_connection_that_was_reset_is_its_end() -> None:
    # The other connections of a port-forward go on.
    with socket.create_server(("127.0.0.1", 0)) as server:
        forwarder = Forwarder(Key("default", "a"), "uid", lambda: True)
        async with asyncio.timeout(5):
            assert await forwarder.forward(server.getsockname()[1], ClientOfAReset(server)) == ""
