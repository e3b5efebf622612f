"""A handler that awaits, between its buffer and its task."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import structlog

from kcr.api.meta import Resource
from kcr.informer.buffers import SIZE, Added, Block, Buffer, Coalesce, Gone, Notice, Policy, Resnapshot, Synced, Updated
from kcr.informer.handlers import AsyncHandler, Handler

R = TypeVar("R", bound=Resource)

# How long a full buffer may hold the informer up before the handler is named.
SLOW_SECONDS = 1.0

_log = structlog.get_logger("kcr.informer")


class Listener(Handler[R], Generic[R]):
    """Writes down what an informer tells, and tells it to an `AsyncHandler` from a task of its own.

    Attributes:
        synced: Set once the handler has heard all that was there at first.
        ended: Set once the handler will not be called again.
    """

    def __init__(self, handler: AsyncHandler[R], buffer: Buffer[R], failed: Callable[[], None]) -> None:
        """Make a listener; it tells nothing before it runs.

        Args:
            handler: Who is told.
            buffer: What waits to be told.
            failed: Called when the handler raised.
        """
        self.synced = asyncio.Event()
        self.ended = asyncio.Event()
        self._handler = handler
        self._buffer = buffer
        self._failed = failed
        self._is_closed = False
        self._arrived = asyncio.Event()
        self._has_room = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether the informer should wait."""
        return not self._is_closed and self._buffer.is_full

    def on_add(self, obj: R, initial: bool) -> None:
        """Write down an addition."""
        self._put(Added(obj, initial))

    def on_update(self, old: R, new: R) -> None:
        """Write down a change."""
        self._put(Updated(old, new))

    def on_delete(self, obj: R) -> None:
        """Write down a deletion."""
        self._put(Gone(obj, seen=True))

    def on_vanish(self, obj: R) -> None:
        """Write down a deletion that nobody saw."""
        self._put(Gone(obj, seen=False))

    def told_initial(self) -> None:
        """Write down that all that was there at first is written down."""
        self._put(Synced())

    async def room(self) -> None:
        """Wait until the buffer has room."""
        if not self.is_full:
            return
        self._has_room.clear()
        slow = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._warn)
        try:
            await self._has_room.wait()
        finally:
            slow.cancel()

    async def run(self) -> None:
        """Tell the handler what is written down, until closed or cancelled."""
        try:
            await self._tell_all()
        finally:
            self.close()
            self.ended.set()

    def close(self) -> None:
        """Tell nothing more; a call that runs goes on to its end."""
        self._is_closed = True
        self._arrived.set()
        self._has_room.set()

    async def _tell_all(self) -> None:
        while not self._is_closed:
            notice = self._buffer.take()
            if not self._buffer.is_full:
                self._has_room.set()
            if notice is None:
                self._arrived.clear()
                await self._arrived.wait()
            else:
                await self._tell(notice)

    def _put(self, notice: Notice[R]) -> None:
        self._buffer.put(notice)
        self._arrived.set()

    async def _tell(self, notice: Notice[R]) -> None:
        try:
            match notice:
                case Added(obj, initial):
                    await self._handler.on_add(obj, initial)
                case Updated(old, new):
                    await self._handler.on_update(old, new)
                case Gone(obj, seen):
                    await (self._handler.on_delete(obj) if seen else self._handler.on_vanish(obj))
                case Synced():
                    self.synced.set()
        except Exception:
            self._failed()
            _log.exception("handler failed", handler=type(self._handler).__qualname__)

    def _warn(self) -> None:
        _log.warning(
            "slow handler holds its informer up", handler=type(self._handler).__qualname__, seconds=SLOW_SECONDS
        )


def buffer_for(policy: Policy, present: Callable[[], Iterable[R]], size: int = SIZE) -> Buffer[R]:
    """Return an empty buffer of a policy.

    Args:
        policy: What happens when the handler falls behind.
        present: Returns all objects the handler may see, as they are now.
        size: How many notices wait at most.
    """
    match policy:
        case "block":
            return Block(size)
        case "coalesce":
            return Coalesce()
        case "resnapshot":
            return Resnapshot(size, present)
