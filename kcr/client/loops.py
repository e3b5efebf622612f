"""State of a client for each event loop: webhooks, on a thread and a loop of their own, use the same client.

Connections, semaphores and locks of asyncio belong to one loop, so each loop has its own. Metrics and other callbacks
are not thread-safe, so they are called on one loop only.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary, ref

T = TypeVar("T")


class PerLoop(Generic[T]):
    """A value for each event loop, made on first use."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._values: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()
        # The loop that asked first and its value: most programs have one, and this takes a quarter of the time.
        self._first: tuple[ref[asyncio.AbstractEventLoop], T] | None = None

    def here(self) -> T:
        """Return the value of the running loop."""
        loop = asyncio.get_running_loop()
        first = self._first
        if first is not None and first[0]() is loop:
            return first[1]
        found = self._values.get(loop)
        if found is None:
            # No other thread runs this loop, so no other makes its value.
            found = self._values[loop] = self._make()
            if first is None or first[0]() is None:
                self._first = ref(loop), found
        return found

    def all(self) -> list[T]:
        """Return the values of all loops that exist; to be called in any thread."""
        return list(self._values.values())


class HomeLoop:
    """The event loop on which callbacks are called, whatever loop they come from: the first that calls one."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function on the home loop: at once, or soon when this is another loop."""
        here = asyncio.get_running_loop()
        if here is not self._loop:
            if self._loop is not None and not self._loop.is_closed():
                with suppress(RuntimeError):  # it has just been closed: no one reads the metrics any more
                    self._loop.call_soon_threadsafe(function, *arguments)
                return
            self._loop = here
        function(*arguments)
