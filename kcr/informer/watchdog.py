"""Finds watches that are dead although their connection is open: no event ever comes.

Source: the reports of operators that "stop reacting", kopf#1276 and kubernetes-client/python#2284 (RF-19).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from kcr.client.wire.transport import IDLE_SECONDS
from kcr.clock import TIMER_SLACK_SECONDS
from kcr.errors import KcrError, TransportError

# A server that sends bookmarks does so at its own pace; one is allowed to be late by half.
_PATIENCE = 1.5
# Bookmarks come about once a minute.
_USUAL_SECONDS = 65.0


class Watchdog:
    """Cuts a watch that has been silent for long, when the server has newer changes than it sent.

    Attributes:
        last_event_time: The loop's time of the last event; `-inf` before the first.
        has_cut: Whether the last stream ended by being cut.
    """

    def __init__(self, is_behind: Callable[[], Awaitable[bool]]) -> None:
        """Make a watchdog; `is_behind` asks the server whether the stream has missed something."""
        self.last_event_time: float = float("-inf")
        self.has_cut: bool = False
        self._is_behind = is_behind
        # The timeout that cuts the present stream; None while there is none.
        self._stream: asyncio.Timeout | None = None
        self._begun = asyncio.Event()
        # When the server was last found to have no newer version than the stream.
        self._cleared_at = float("-inf")
        # The time of the stream's last bookmark, and how long after the one before it that was.
        self._bookmark_at: float | None = None
        self._interval = 0.0
        # The error that ends the present stream; None for its silence.
        self._error: KcrError | None = None

    @property
    def limit_seconds(self) -> float:
        """The time that a stream may be silent before the server is queried."""
        return max(IDLE_SECONDS, _PATIENCE * self._interval)

    @property
    def silent_seconds(self) -> float:
        """For how long the stream has been silent, if that is longer than between two bookmarks; else 0."""
        now = asyncio.get_running_loop().time()
        silent = now - max(self.last_event_time, self._cleared_at)
        return silent if self._stream is not None and silent > max(_USUAL_SECONDS, self._interval) else 0.0

    @asynccontextmanager
    async def over_stream(self) -> AsyncIterator[None]:
        """Supervise the stream that the body reads.

        Raises:
            TransportError: The stream was dead, and has been cut.
            KcrError: The argument of `cut`.
        """
        self.last_event_time = asyncio.get_running_loop().time()
        self._bookmark_at, self.has_cut, self._error = None, False, None
        try:
            async with asyncio.timeout(None) as stream:
                self._stream = stream
                self._begun.set()
                yield
        except TimeoutError:
            if self._error is not None:
                raise self._error from None
            self.has_cut = True
            raise TransportError(f"nothing came for {self.limit_seconds:.0f} s, though there was news") from None
        finally:
            self._stream = None

    def note_event(self, *, is_bookmark: bool) -> None:
        """Note that an event came."""
        self.last_event_time = asyncio.get_running_loop().time()
        if is_bookmark:
            if self._bookmark_at is not None:
                self._interval = self.last_event_time - self._bookmark_at
            self._bookmark_at = self.last_event_time

    def cut(self, error: KcrError) -> None:
        """End the present stream, which raises an error then; nothing happens when there is none."""
        if self._stream is not None:
            self._error = error
            self._stream.reschedule(asyncio.get_running_loop().time())
            self._stream = None

    async def run(self) -> None:
        """Supervise one stream after the other until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            stream = self._stream
            if stream is None:
                self._begun.clear()
                await self._begun.wait()
                continue
            due = max(self.last_event_time, self._cleared_at) + self.limit_seconds
            if due - loop.time() > TIMER_SLACK_SECONDS:
                await asyncio.sleep(due - loop.time())
                continue
            last_event_time = self.last_event_time
            is_behind = await self._is_behind()
            self._cleared_at = loop.time()
            # Meanwhile the stream may have come to life, or made way for another.
            if is_behind and stream is self._stream and self.last_event_time == last_event_time:
                stream.reschedule(loop.time())
                self._stream = None
