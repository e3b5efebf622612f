"""A store that is kept right, and those who hear of its changes."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Generic, TypeVar

from kcr.api.codec import WatchEvent
from kcr.api.meta import Key, Resource
from kcr.client import Client
from kcr.informer.buffers import SIZE, Policy
from kcr.informer.handlers import AsyncHandler, Filtered, Handler
from kcr.informer.listener import Listener, buffer_for
from kcr.informer.parts import Part
from kcr.informer.reflector import Reflector
from kcr.informer.registration import Registration, Resync
from kcr.informer.selection import Selection, disjoint
from kcr.informer.store import Changes, Store, reading_early

R = TypeVar("R", bound=Resource)

# After so many calls of handlers without a pause others get their turn.
_SLICE = 200


class Informer(Generic[R]):
    """Follows one kind: its store, and the handlers who hear of changes.

    Attributes:
        store: What is known, readable at any time once it is synced.
    """

    def __init__(
        self,
        client: Client,
        selection: Selection[R] | type[R] | Sequence[Selection[R]],
        *,
        random: Random | None = None,
    ) -> None:
        """Make an informer; it does nothing before it runs.

        Args:
            client: Where to read.
            selection: What to follow; a kind alone means all of its objects, and several selections a namespace
                each, or in one of them all other namespaces.
            random: Spreads watches and retries.

        Raises:
            ValueError: The selections overlap, or are of different kinds.
        """
        selections = disjoint(_listed(selection))
        self.store: Store[R] = Store(lambda: self.why_not_synced)
        self._kind = selections[0].kind
        self._random = random or Random()
        self._synced = asyncio.Event()
        self._counts: Counter[str] = Counter()
        parts: list[Part[R]] = []
        self._reflectors = tuple(
            # Alone, the informer is the sink itself.
            Reflector(
                client, chosen, self if len(selections) == 1 else Part(self, chosen, parts), self._random, self._counts
            )
            for chosen in selections
        )
        # Replaced, never changed: whoever walks over it is not disturbed.
        self._registrations: tuple[Registration[R], ...] = ()
        self._resyncs: dict[Registration[R], Resync[R]] = {}
        # Those whose buffers may fill up.
        self._listeners: tuple[Listener[R], ...] = ()
        # How many lists handlers are hearing of just now; not to be mixed with a resync.
        self._telling = 0
        self._idle = asyncio.Event()
        self._idle.set()
        # The tasks of the informer while it runs.
        self._group: asyncio.TaskGroup | None = None
        self._has_ended = False

    async def run(self) -> None:
        """Keep the store right until cancelled."""
        # Handlers run in this task, and may look at the stores of other kinds while those are still being filled.
        reading_early.set(True)
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for registration in self._registrations:
                    registration.start(group, self._resyncs.get(registration))
                for reflector in self._reflectors:
                    group.create_task(reflector.run(), name=f"reflector of {reflector.selection}")
        finally:
            self._group, self._has_ended = None, True

    async def wait_synced(self) -> None:
        """Return once the first list is stored, and all `Handler`s have heard of it.

        It may never be: use a timeout. An `AsyncHandler` may still be at it; see `Registration.wait_synced`.
        """
        await self._synced.wait()

    @property
    def why_not_synced(self) -> str:
        """What keeps the store from being filled, such as a missing permission; empty once it is."""
        if self.store.synced:
            return ""
        silent = "the server has not answered yet" if self._group is not None else "its informer does not run"
        return "; ".join(
            f"{reflector.selection}: {reflector.cause or reflector.progress or silent}"
            for reflector in self._reflectors
            if not reflector.is_filled
        )

    @property
    def trouble(self) -> str:
        """Why the server could not be followed at the last attempt; empty when it could.

        What is stored stays readable and grows old meanwhile.
        """
        return "; ".join(
            f"{reflector.selection}: {reflector.cause}" for reflector in self._reflectors if reflector.cause
        )

    @property
    def counts(self) -> Mapping[str, int]:
        """What happened how often, now and later: see `Reflector`, and `handler_errors`."""
        return self._counts

    @property
    def fill_seconds(self) -> float:
        """How long it took to read the whole state the last time; 0 before the first."""
        return max(reflector.fill_seconds for reflector in self._reflectors)

    @property
    def heard_at(self) -> float:
        """The loop's time when each watch had brought something, `-inf` when one has not yet."""
        return min(reflector.heard_at for reflector in self._reflectors)

    def add_handler(
        self, handler: Handler[R], *, only: Callable[[R], bool] | None = None, resync_seconds: float = 0.0
    ) -> Registration[R]:
        """Add a handler, at any time; it hears of what is stored already at once, as initial.

        Args:
            handler: Who hears.
            only: Which objects it hears of; None for all. See `Filtered`.
            resync_seconds: How often it hears of all objects again, changed or not; 0 for never.

        Raises:
            RuntimeError: The informer has ended.
        """
        return self._register(handler, None, only, resync_seconds)

    def add_listener(
        self,
        handler: AsyncHandler[R],
        *,
        only: Callable[[R], bool] | None = None,
        resync_seconds: float = 0.0,
        policy: Policy = "block",
        size: int = SIZE,
    ) -> Registration[R]:
        """Add a handler that awaits, at any time; it hears of what is stored already first, as initial.

        Args:
            handler: Who hears.
            only: Which objects it hears of; None for all. See `Filtered`.
            resync_seconds: How often it hears of all objects again, changed or not; 0 for never.
            policy: What happens when it falls behind. `block`: the informer waits, and with it all its handlers.
                `coalesce`: what it has yet to hear of one object is merged. `resnapshot`: it hears the
                difference between what it knows and what there is, once it gets to it.
            size: How many changes may wait before the policy takes effect; `coalesce` needs none.

        Raises:
            RuntimeError: The informer has ended.
        """

        def present() -> Iterable[R]:
            found = self.store.list()
            return found if only is None else filter(only, found)

        listener = Listener(handler, buffer_for(policy, present, size), self._count_failure)
        return self._register(listener, listener, only, resync_seconds)

    def _register(
        self,
        handler: Handler[R],
        listener: Listener[R] | None,
        only: Callable[[R], bool] | None,
        resync_seconds: float,
    ) -> Registration[R]:
        if self._has_ended:
            raise RuntimeError(f"{self._kind.resource.display}: the informer has ended, a handler would hear nothing")
        heard = handler if only is None else Filtered(handler, only)
        registration = Registration(heard, listener, self._count_failure, self._forget)
        if resync_seconds:
            self._resyncs[registration] = Resync(resync_seconds, self.store, self._idle, self._random)
        token = reading_early.set(True)
        # Nothing can happen in between, so it misses nothing and hears nothing twice.
        for obj in self.store.known():
            registration.tell(heard.on_add, obj, True)
        reading_early.reset(token)
        if self.store.synced:
            registration.told_initial()
        self._registrations = (*self._registrations, registration)
        self._listeners = (*self._listeners, listener) if listener is not None else self._listeners
        if self._group is not None:
            registration.start(self._group, self._resyncs.get(registration))
        return registration

    def _forget(self, registration: Registration[R], listener: Listener[R] | None) -> None:
        self._registrations = tuple(other for other in self._registrations if other is not registration)
        self._listeners = tuple(other for other in self._listeners if other is not listener)
        self._resyncs.pop(registration, None)

    def _count_failure(self) -> None:
        self._counts["handler_errors"] += 1

    # What follows is the reflector's: an informer is its `Sink`.

    @property
    def is_full(self) -> bool:
        """Whether the buffer of a handler is."""
        return any(listener.is_full for listener in self._listeners)

    async def room(self) -> None:
        """Wait until no handler's buffer is full."""
        for listener in self._listeners:
            await listener.room()

    def share(self, obj: R) -> R:
        """Return an object that is about to be stored, made of known parts."""
        return self.store.share(obj)

    def replace(self, objects: Iterable[R], stale: Mapping[Key, str], version: str) -> Iterator[None]:
        """Take the whole present state. The store has it at once, and handlers hear of it little by little."""
        yield from self.tell_replaced(objects, stale)
        self.declare_synced()
        self.store.advance(version)

    def tell_replaced(self, objects: Iterable[R], stale: Mapping[Key, str]) -> Iterator[None]:
        """Do the same, but say nothing yet of being synced."""
        initial = not self.store.synced
        changes = yield from self.store.replace(objects, stale)
        told = self._tell_changes(changes, initial=initial, registrations=self._registrations)
        self._telling += 1
        self._idle.clear()
        try:
            for number, _ in enumerate(told, 1):
                if number % _SLICE == 0:
                    yield
        finally:
            self._telling -= 1
            if not self._telling:
                self._idle.set()

    def _tell_changes(
        self, changes: Changes[R], *, initial: bool, registrations: tuple[Registration[R], ...]
    ) -> Iterator[None]:
        for registration in registrations:
            handler = registration.handler
            for gone in changes.deleted:
                registration.tell(handler.on_vanish, gone)
                yield
            for new in changes.added:
                registration.tell(handler.on_add, new, initial)
                yield
            for old, new in changes.updated:
                registration.tell(handler.on_update, old, new)
                yield

    def declare_synced(self) -> None:
        """Say that the store has the whole state, and the handlers have heard of it."""
        if self.store.synced:
            return
        self.store.synced = True
        # Also those who came while the others were told.
        for registration in self._registrations:
            registration.told_initial()
        self._synced.set()

    def apply(self, event: WatchEvent[R]) -> None:
        """Take one ADDED, MODIFIED or DELETED event."""
        self.absorb(event)
        self.store.advance(event.object.metadata.resource_version)

    def absorb(self, event: WatchEvent[R]) -> None:
        """Take what an event shows, and nothing of what its version says."""
        if event.type == "DELETED":
            self._let_go(event.object)
        else:
            self._take_in(self.store.share(event.object))

    def advance(self, version: str) -> None:
        """Hear that nothing else happened up to a version."""
        self.store.advance(version)

    def refuse(self, key: Key, why: str, version: str) -> None:
        """Hear that the newest version of an object cannot be decoded; the last good one stays."""
        self.store.stale[key] = why
        self.store.advance(version)

    def _take_in(self, obj: R) -> None:
        old = self.store.put(obj)
        if old is obj:
            # The very same version, seen again.
            return
        for registration in self._registrations:
            handler = registration.handler
            if old is None:
                registration.tell(handler.on_add, obj, False)
            elif old.metadata.uid == obj.metadata.uid:
                registration.tell(handler.on_update, old, obj)
            else:
                # The name is the same, the object is another: an update would hide a death (IN-5).
                registration.tell(handler.on_vanish, old)
                registration.tell(handler.on_add, obj, False)

    def _let_go(self, obj: R) -> None:
        known = self.store.remove(obj.key)
        if known is None:
            return
        last = obj if isinstance(obj, self._kind) else known
        for registration in self._registrations:
            registration.tell(registration.handler.on_delete, last)


def _listed(selection: Selection[R] | type[R] | Sequence[Selection[R]]) -> Sequence[Selection[R]]:
    if isinstance(selection, Selection):
        return (selection,)
    return (Selection(selection),) if isinstance(selection, type) else selection
