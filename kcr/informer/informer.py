"""A store that is kept right, and those who hear of its changes."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Generic, TypeVar

import structlog

from kcr.api.codec import WatchEvent
from kcr.api.meta import Key, Resource
from kcr.client import Client
from kcr.informer.reflector import Reflector, Selection
from kcr.informer.store import Store

R = TypeVar("R", bound=Resource)

_log = structlog.get_logger("kcr.informer")


class Handler(Generic[R]):
    """Hears of changes; override what is of interest.

    The calls are synchronous and come after the store changed: a handler that reads the store sees this
    state or a newer one. Of several changes to one object in quick succession, some may be left out.
    """

    def on_add(self, obj: R, initial: bool) -> None:
        """Hear of a new object; `initial` when it was there before the informer or the handler was."""

    def on_update(self, old: R, new: R) -> None:
        """Hear that an object has changed. Both have the same uid."""

    def on_delete(self, obj: R) -> None:
        """Hear that an object is gone; this is its last known state, which may not be its last."""


class Informer(Generic[R]):
    """Follows one kind: its store, and the handlers who hear of changes.

    Attributes:
        store: What is known, readable at any time.
    """

    def __init__(self, client: Client, selection: Selection[R] | type[R], *, random: Random | None = None) -> None:
        """Make an informer; it does nothing before it runs.

        Args:
            client: Where to read.
            selection: What to follow; a kind alone means all of its objects.
            random: Spreads watches and retries.
        """
        self.store: Store[R] = Store()
        self._selection: Selection[R] = selection if isinstance(selection, Selection) else Selection(selection)
        self._handlers: list[Handler[R]] = []
        self._synced = asyncio.Event()
        self._reflector = Reflector(client, self._selection, self, random or Random())

    async def run(self) -> None:
        """Keep the store right until cancelled."""
        await self._reflector.run()

    async def wait_synced(self) -> None:
        """Return once the first list is stored and all handlers have heard of it. It may never be: use a timeout."""
        await self._synced.wait()

    @property
    def why_not_synced(self) -> str:
        """What keeps the store from being filled, such as a missing permission; empty once it is."""
        if self.store.synced:
            return ""
        return f"{self._selection.kind.resource.display}: {self._reflector.cause or 'the server has not answered yet'}"

    @property
    def counts(self) -> Mapping[str, int]:
        """What happened how often; see `Reflector`."""
        return self._reflector.counts

    def add_handler(self, handler: Handler[R]) -> None:
        """Add a handler; it hears of what is stored already at once, as initial."""
        self._handlers.append(handler)
        for obj in self.store.list():
            _tell(handler.on_add, obj, True)

    # What follows is the reflector's: an informer is its `Sink`.

    def share(self, obj: R) -> R:
        """Return an object that is about to be stored, made of known parts."""
        return self.store.share(obj)

    def replace(self, objects: Iterable[R], stale: Mapping[Key, str], version: str) -> None:
        """Take the whole present state."""
        initial = not self.store.synced
        changes = self.store.replace(objects, stale)
        for handler in self._handlers:
            for gone in changes.deleted:
                _tell(handler.on_delete, gone)
            for new in changes.added:
                _tell(handler.on_add, new, initial)
            for old, new in changes.updated:
                _tell(handler.on_update, old, new)
        self.store.synced = True
        self.store.advance(version)
        self._synced.set()

    def apply(self, event: WatchEvent[R]) -> None:
        """Take one ADDED, MODIFIED or DELETED event."""
        if event.type == "DELETED":
            self._remove(event.object)
        else:
            self._put(self.store.share(event.object))
        self.store.advance(event.object.metadata.resource_version)

    def advance(self, version: str) -> None:
        """Hear that nothing else happened up to a version."""
        self.store.advance(version)

    def refuse(self, key: Key, why: str, version: str) -> None:
        """Hear that the newest version of an object cannot be decoded; the last good one stays."""
        self.store.stale[key] = why
        self.store.advance(version)

    def _put(self, obj: R) -> None:
        old = self.store.put(obj)
        if old is obj:
            # The very same version, seen again.
            return
        for handler in self._handlers:
            if old is None:
                _tell(handler.on_add, obj, False)
            elif old.metadata.uid == obj.metadata.uid:
                _tell(handler.on_update, old, obj)
            else:
                # The name is the same, the object is another: an update would hide a death (IN-5).
                _tell(handler.on_delete, old)
                _tell(handler.on_add, obj, False)

    def _remove(self, obj: R) -> None:
        known = self.store.remove(obj.key)
        if known is None:
            return
        last = obj if isinstance(obj, self._selection.kind) else known
        for handler in self._handlers:
            _tell(handler.on_delete, last)


def _tell(call: Callable[..., None], *arguments: object) -> None:
    try:
        call(*arguments)
    except Exception:
        # One handler's mistake must not keep the change from the others.
        _log.exception("handler failed", handler=getattr(call, "__qualname__", str(call)))
