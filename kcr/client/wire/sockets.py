"""Sockets of HTTP connections: keep-alive, and descriptors that no other connection uses."""

import asyncio
import socket
from typing import Any

# Finds dead connections below HTTP: probes after 30 s of silence, and no acknowledgement awaited beyond 30 s.
# By name, because not every system has all of them.
_OPTIONS: tuple[tuple[int, str, int], ...] = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 30),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 10),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 30_000),
)
# More numbers than a program ever loses.
_TRIES = 64


def make_socket(address: Any) -> socket.socket:
    """Make a socket for a connection to an address, as `socket.getaddrinfo` gives it.

    The system hands out the lowest number that is free. Now and then uvloop holds a transport whose number is closed
    already, mostly after a server broke many connections, and refuses each socket that gets this number: "File
    descriptor 12 is used by transport". No connection would be made for as long as no lower one is free. So such a
    socket is kept until another number is found.

    Raises:
        OSError: The system gives no socket, or takes no options for it.

    Source: MagicStack/uvloop issue 653.
    """
    family, kind, protocol, _, _ = address
    refused: list[socket.socket] = []
    try:
        while True:
            made = socket.socket(family, kind, protocol)
            if not _is_refused(made) or len(refused) == _TRIES:
                break
            refused.append(made)
    finally:
        for one in refused:
            one.close()
    try:
        _configure(made)
    except OSError:
        made.close()
        raise
    return made


def _configure(made: socket.socket) -> None:
    made.setblocking(False)
    for level, name, value in _OPTIONS:
        option = getattr(socket, name, None)
        if option is not None:
            made.setsockopt(level, option, value)


def _is_refused(made: socket.socket) -> bool:
    """Return whether the event loop takes the socket for one of a connection that is open."""
    try:
        # There is no writer: it is asked for the check that comes first.
        asyncio.get_running_loop().remove_writer(made)
    except NotImplementedError:  # the proactor loop of Windows
        return False
    except RuntimeError:
        return True
    return False
