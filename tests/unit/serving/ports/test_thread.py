import asyncio
import threading
from contextvars import ContextVar

import aiohttp
import pytest

from kcr.api.bindaddress import BindAddress
from kcr.errors import ConfigError
from kcr.serving.ports import HTTPServer, ProbeRequest, ProbeResponse, ProgramLoop, ServerThread
from kcr.testing import eventually

pytestmark = pytest.mark.asyncio

HERE = BindAddress("127.0.0.1", 0)


async def say_thread(request: ProbeRequest) -> ProbeResponse:
    return ProbeResponse(200, threading.current_thread().name.encode())


async def get(port: int) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/") as answer:
        return await answer.text()


async def test_server_answers_in_its_own_thread_until_the_end() -> None:
    server = HTTPServer("test", HERE, say_thread)
    async with ServerThread(server, "reader"):
        assert await get(server.port) == "reader"
    with pytest.raises(aiohttp.ClientConnectionError):
        await get(server.port)
    await eventually(lambda: "reader" not in {thread.name for thread in threading.enumerate()})


PROGRAM: ContextVar[str] = ContextVar("program", default="none")


async def say_program(request: ProbeRequest) -> ProbeResponse:
    return ProbeResponse(200, PROGRAM.get().encode())


async def test_thread_has_the_context_of_the_program() -> None:
    server = HTTPServer("test", HERE, say_program)
    PROGRAM.set("shop")
    async with ServerThread(server, "reader"):
        assert await get(server.port) == "shop"


async def test_taken_port_is_the_error_of_the_server() -> None:
    async with HTTPServer("first", HERE, say_thread) as first:
        second = HTTPServer("second", BindAddress("127.0.0.1", first.port), say_thread)
        with pytest.raises(ConfigError, match=r"second: cannot listen on .*: Address already in use"):
            async with ServerThread(second, "reader"):
                pass


async def test_function_runs_on_the_loop_of_the_program() -> None:
    program, here = ProgramLoop(), threading.get_ident()

    async def slow() -> int:
        await asyncio.sleep(0.01)
        return threading.get_ident()

    async def elsewhere() -> tuple[int, int, int]:
        return await program.read(threading.get_ident, 5), await program.call(slow, 5), threading.get_ident()

    read, called, other = await asyncio.to_thread(asyncio.run, elsewhere())
    assert (read, called) == (here, here)
    assert other != here


async def test_failure_of_a_function_is_the_callers() -> None:
    program = ProgramLoop()

    def fail() -> None:
        raise LookupError("no such key")

    async def fail_later() -> None:
        fail()

    async def elsewhere() -> None:
        with pytest.raises(LookupError, match="no such key"):
            await program.read(fail, 5)
        with pytest.raises(LookupError, match="no such key"):
            await program.call(fail_later, 5)

    await asyncio.to_thread(asyncio.run, elsewhere())


async def test_function_that_takes_too_long_is_cancelled() -> None:
    program, cancelled = ProgramLoop(), asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def elsewhere() -> bool:
        try:
            await program.call(wait, 0.05)
        except TimeoutError:
            return True
        return False

    assert await asyncio.to_thread(asyncio.run, elsewhere())
    async with asyncio.timeout(5):
        await cancelled.wait()
