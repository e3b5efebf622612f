"""A port on a thread and an event loop of its own: it answers while the program's loop is busy or blocked.

The thread reads, and changes nothing. Functions for the program's loop are sent there and awaited.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Self, TypeVar

from kcr.log import get_logger
from kcr.serving.ports.server import ServerPort

T = TypeVar("T")

# Connections linger for half a second when the port is closed.
_CLOSE_SECONDS = 2.0

_log = get_logger()


class ProgramLoop:
    """The event loop of the program, as another thread sees it.

    Attributes:
        loop: The event loop.
        thread: Where it runs.
        began: When this was made, in the loop's time.
    """

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.thread: int = threading.get_ident()
        self.began: float = self.loop.time()

    def now(self) -> float:
        """Return the time of the program's loop; to be called on another one.

        The loops of all threads read the same clock, and one that is blocked may not know its time.
        """
        return asyncio.get_running_loop().time()

    async def read(self, function: Callable[[], T], seconds: float) -> T:
        """Call a plain function on the program's loop and return its result; awaited on another loop.

        It is called in the loop's next iteration, so a busy loop has no time to make it wait for long.

        Args:
            function: The function.
            seconds: How long it may take, the wait for the loop included.

        Raises:
            TimeoutError: It took longer.
            Exception: The function's exception, unchanged.
        """
        own = asyncio.get_running_loop()
        result: asyncio.Future[T] = own.create_future()

        def run() -> None:
            try:
                settle = partial(_settle, result, function())
            except Exception as error:
                settle = partial(_fail, result, error)
            with suppress(RuntimeError):  # the other loop is closed: no one waits any more
                own.call_soon_threadsafe(settle)

        self.loop.call_soon_threadsafe(run)
        async with asyncio.timeout(seconds):
            return await result

    async def call(self, function: Callable[[], Awaitable[T]], seconds: float) -> T:
        """Call a coroutine function on the program's loop and return its result; awaited on another loop.

        Args:
            function: The function; it is cancelled when the caller is.
            seconds: How long it may take, the wait for the loop included.

        Raises:
            TimeoutError: It took longer.
            Exception: The function's exception, unchanged.
        """

        async def run() -> T:
            return await function()

        running = run()
        try:
            future = asyncio.run_coroutine_threadsafe(running, self.loop)
        except RuntimeError:  # the loop is closed: the program has just ended
            running.close()
            raise
        async with asyncio.timeout(seconds):
            return await asyncio.wrap_future(future)


class ServerThread:
    """Runs an HTTP server on a thread of its own for as long as the context lives.

    Attributes:
        loop: The event loop of the thread.
    """

    def __init__(self, server: ServerPort, name: str, *, close_seconds: float = _CLOSE_SECONDS) -> None:
        """Make it; the thread starts with the context.

        Args:
            server: The server.
            name: Names the thread.
            close_seconds: How long the thread may take to end.
        """
        self._close_seconds = close_seconds
        self._server = server
        self._name = name
        self.loop: asyncio.AbstractEventLoop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._ended: asyncio.Future[None] | None = None
        self._failure: BaseException | None = None

    async def __aenter__(self) -> Self:
        """Open the port.

        Raises:
            ConfigError: The address cannot be bound.
        """
        main = asyncio.get_running_loop()
        opened: asyncio.Future[None] = main.create_future()
        ended = self._ended = main.create_future()

        def run() -> None:
            failure: BaseException | None = None
            try:
                with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
                    runner.run(self._serve(lambda: main.call_soon_threadsafe(_settle, opened, None)))
            except BaseException as error:
                failure = self._failure = error
            with suppress(RuntimeError):  # the program's loop is closed: no one waits any more
                if failure is not None:
                    main.call_soon_threadsafe(_fail, opened, failure)
                main.call_soon_threadsafe(_settle, ended, None)

        threading.Thread(target=copy_context().run, args=(run,), name=self._name, daemon=True).start()
        try:
            await opened
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *raised: object) -> None:
        assert self._ended is not None
        with suppress(RuntimeError):  # its loop is closed: it has ended by itself
            self.loop.call_soon_threadsafe(self._over.set)
        await asyncio.wait((self._ended,), timeout=self._close_seconds)
        if not self._ended.done():
            _log.warning("thread does not end", thread=self._name)

    async def watch(self) -> None:
        """Wait until the thread has ended by itself, as when a task on it raises SystemExit.

        Raises:
            RuntimeError: It has ended.
        """
        assert self._ended is not None
        await asyncio.shield(self._ended)
        raise RuntimeError(f"thread {self._name} has ended: {self._failure!r}") from self._failure

    async def _serve(self, on_open: Callable[[], object]) -> None:
        async with self._server:
            on_open()
            await self._over.wait()


def _settle(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: "asyncio.Future[T]", error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
