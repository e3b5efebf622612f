"""Sockets of HTTP connections."""

import asyncio
import os
import socket
from collections.abc import Callable

import pytest

from kcr.client.wire.connections import make_socket

ADDRESS = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1))
NewLoop = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(params=["asyncio", "uvloop"])
def new_loop(request: pytest.FixtureRequest) -> NewLoop:
    loops: NewLoop = pytest.importorskip(request.param).new_event_loop
    return loops


async def lose_a_number() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1")
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    number: int = writer.get_extra_info("socket").fileno()
    # The loop's transport lives on, and the system hands the number out again: it is the lowest that is free.
    kept = os.dup(number)
    os.close(number)
    try:
        with socket.socket() as plain:
            assert plain.fileno() == number
        with make_socket(ADDRESS) as made:
            assert made.fileno() != number
            assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert not made.getblocking()
    finally:
        os.dup2(kept, number)
        os.close(kept)
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()


def test_number_that_the_loop_takes_for_open_is_passed_over(new_loop: NewLoop) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(lose_a_number())


async def refuse_options() -> None:
    before = os.listdir("/proc/self/fd")
    try:
        # It is no TCP socket, so it has none of their options.
        make_socket((socket.AF_UNIX, socket.SOCK_STREAM, 0, "", ""))
    except OSError as error:
        # The traceback, which holds the socket, still lives.
        assert error.__traceback__ is not None
        assert os.listdir("/proc/self/fd") == before
    else:
        pytest.fail("the options were taken")


def test_socket_that_takes_no_options_is_closed(new_loop: NewLoop) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(refuse_options())
