"""A handler's place at an informer."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Generic, TypeVar

import structlog

from kcr.api.meta import Resource
from kcr.informer.handlers import Handler
from kcr.informer.listener import Listener
from kcr.informer.store import Store

R = TypeVar("R", bound=Resource)

# A usual period for those who resync at all. Source: controller-runtime, cache.Options.SyncPeriod.
RESYNC_SECONDS = 36_000.0
_SHORTEST_RESYNC_SECONDS = 1.0
# What share of the period the objects of one resync are spread over.
_SPREAD = 0.05
_SLICE = 100

_log = structlog.get_logger("kcr.informer")


class Registration(Generic[R]):
    """A handler's place at an informer, for as long as it is not removed.

    Attributes:
        handler: Whom the informer tells: the handler, or what stands before it.
        is_removed: Whether the informer tells it nothing more.
    """

    def __init__(
        self,
        handler: Handler[R],
        listener: Listener[R] | None,
        failed: Callable[[], None],
        removed: "Callable[[Registration[R], Listener[R] | None], None]",
    ) -> None:
        self.handler = handler
        self.is_removed = False
        self._failed = failed
        self._removed = removed
        self._listener = listener
        self._synced = asyncio.Event() if listener is None else listener.synced
        # What runs on behalf of the handler and has to end with it, beside the listener.
        self._resync: asyncio.Task[None] | None = None

    @property
    def synced(self) -> bool:
        """Whether the handler has heard all that was there at first: it has finished, not only been told."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until the handler has heard all that was there at first."""
        await self._synced.wait()

    def remove(self) -> None:
        """Tell the handler nothing more. A call of an `AsyncHandler` that runs goes on to its end."""
        self.is_removed = True
        self._removed(self, self._listener)
        if self._resync is not None:
            self._resync.cancel()
        if self._listener is not None:
            self._listener.close()

    async def remove_and_wait(self) -> None:
        """Remove the handler, and return when its last call has ended."""
        self.remove()
        if self._listener is not None:
            await self._listener.ended.wait()

    # What follows is the informer's.

    def tell(self, call: Callable[..., None], *arguments: object) -> None:
        """Tell the handler something, unless it is removed. Its mistakes are its own: nobody else misses a change."""
        if self.is_removed:
            return
        try:
            call(*arguments)
        except Exception:
            self._failed()
            _log.exception("handler failed", handler=getattr(call, "__qualname__", str(call)))

    def told_initial(self) -> None:
        """Note that the informer has told all that was there at first."""
        if self._listener is None:
            self._synced.set()
        else:
            self._listener.told_initial()

    async def room(self) -> None:
        """Wait until the handler can be told more."""
        if self._listener is not None:
            await self._listener.room()

    def start(self, group: asyncio.TaskGroup, resync: "Resync[R] | None") -> None:
        """Start what runs on behalf of the handler."""
        if self._listener is not None:
            group.create_task(self._listener.run(), name="listener")
        if resync is not None:
            self._resync = group.create_task(resync.run(self), name="resync")


class Resync(Generic[R]):
    """Tells a handler every object again from time to time, as an update from itself to itself.

    It lists nothing, so it shows no change that the watch has missed. It is no substitute for a reconciler's
    `requeue_after` either, since it brings back all keys.

    Source: client-go/tools/cache/shared_informer.go, AddEventHandlerWithResyncPeriod (IN-16, IN-17). There a
    handler hears of all objects at once.
    """

    def __init__(self, seconds: float, store: Store[R], idle: asyncio.Event, random: Random) -> None:
        """Make a resync.

        Args:
            seconds: The period; each is lengthened or shortened by chance, up to a tenth.
            store: What is told.
            idle: Set while handlers are not hearing of a list; before that one is told, objects may be news.
            random: Spreads the periods.

        Raises:
            ValueError: The period is below a second.
        """
        if seconds < _SHORTEST_RESYNC_SECONDS:
            raise ValueError(f"a resync every {seconds} s: the shortest period is {_SHORTEST_RESYNC_SECONDS:.0f} s")
        self._seconds = seconds
        self._store = store
        self._idle = idle
        self._random = random

    async def run(self, registration: Registration[R]) -> None:
        """Resync until cancelled."""
        await registration.wait_synced()
        while True:
            period = self._seconds * (0.9 + 0.2 * self._random.random())
            await asyncio.sleep(period * (1 - _SPREAD))
            await self._tell_all(registration, period * _SPREAD)

    async def _tell_all(self, registration: Registration[R], seconds: float) -> None:
        keys = tuple(obj.key for obj in self._store.known())
        slices = range(0, len(keys), _SLICE)
        for first in slices:
            await self._idle.wait()
            for key in keys[first : first + _SLICE]:
                obj = self._store.get(key)
                if obj is not None:
                    registration.tell(registration.handler.on_update, obj, obj)
            await registration.room()
            await asyncio.sleep(seconds / len(slices))
