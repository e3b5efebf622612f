"""Shared informer: lists and watches one kind into a store and dispatches events to handlers."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Generic, TypeVar

from kcr.api.codec import WatchEvent
from kcr.api.meta import Key, Resource
from kcr.client import Client
from kcr.errors import NotSyncedError
from kcr.informer.handlers import Handler, Registration
from kcr.informer.reflector import Reflector
from kcr.informer.selection import Selection, as_selections, disjoint
from kcr.informer.store import Changes, Store, allow_unsynced_reads, version_of

R = TypeVar("R", bound=Resource)

# After so many calls of handlers the event loop may go on.
_SLICE = 200
# How long a watch may fail after the first sync: a restart of the server takes less.
_FAILING_SECONDS = 60.0


class Informer(Generic[R]):
    """Shared informer of one kind: a store, filled by reflectors, and the handlers of its changes.

    The package's docstring says what it guarantees. Every failure is retried: only cancellation or `close` ends it.

    Attributes:
        kind: What is watched.
        store: The local copy, readable at any time once it is synced.
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
            client: Lists and watches.
            selection: Which objects; a kind alone means all of them, and several selections a namespace each, or in
                one of them all other namespaces.
            random: Spreads watches and retries.

        Raises:
            ValueError: The selections overlap, or are of different kinds.
        """
        selections = disjoint(as_selections(selection))
        self.store: Store[R] = Store(lambda: self.not_synced_reason)
        self.kind = selections[0].kind
        self._random = random or Random()
        self._synced = asyncio.Event()
        self._counts: Counter[str] = Counter()
        shards: list[NamespacedShard[R]] = []
        self._reflectors = tuple(
            # A single selection writes to the informer itself.
            Reflector(
                client,
                chosen,
                self if len(selections) == 1 else NamespacedShard(self, chosen, shards),
                self._random,
                self._counts,
            )
            for chosen in selections
        )
        self._registrations: tuple[Registration[R], ...] = ()  # replaced, never changed, so iterations are undisturbed
        # Those of the reflectors, while it runs.
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._has_ended = False

    async def run(self) -> None:
        """List and watch until cancelled or closed."""
        # Handlers run in this task, and may read the stores of other kinds that are not synced yet.
        allow_unsynced_reads.set(True)
        try:
            async with asyncio.TaskGroup() as group:
                if not self.store.is_closed:
                    self._tasks = tuple(
                        group.create_task(reflector.run(), name=f"reflector of {reflector.selection}")
                        for reflector in self._reflectors
                    )
        finally:
            self._tasks, self._has_ended = (), True

    def close(self) -> None:
        """Stop permanently: close the watches, remove the handlers and drop the objects.

        It takes effect at once, also in the middle of a list and when a handler calls it: no handler is called any
        more, and whoever waits for the store or reads it gets a `NotSyncedError`.
        """
        self.store.close()
        for registration in self._registrations:
            registration.remove()
        # Directly, and not by way of the group, so that no reflector takes another step.
        for task in self._tasks:
            task.cancel()
        self._has_ended = True
        self._synced.set()

    async def wait_synced(self) -> None:
        """Return once the first list is stored and every handler was called with it. It may never be: use a timeout.

        Raises:
            NotSyncedError: The informer was closed.
        """
        await self._synced.wait()
        if self.store.is_closed:
            raise NotSyncedError(self.not_synced_reason)

    @property
    def not_synced_reason(self) -> str:
        """The reason why the store is not synced, such as a missing permission; empty once it is."""
        if self.store.synced:
            return ""
        if self.store.is_closed:
            return f"{self.kind.resource.display}: its informer was removed"
        silent = "the server has not answered yet" if self._tasks else "its informer does not run"
        return "; ".join(
            f"{reflector.selection}: {reflector.last_error or reflector.list_progress or silent}"
            for reflector in self._reflectors
            if not reflector.is_filled
        )

    @property
    def is_absent(self) -> bool:
        """Whether the server does not have the kind: its CustomResourceDefinition may not be installed yet."""
        return any(reflector.is_absent for reflector in self._reflectors)

    @property
    def unready_reason(self) -> str:
        """The reason for failing readiness: not synced, or a watch has failed for a minute; else empty.

        A kind that the server has never had keeps nothing but its own controllers waiting.
        """
        if not self.store.synced:
            return "" if self.is_absent else self.not_synced_reason
        return self.last_error if any(one.failing_seconds > _FAILING_SECONDS for one in self._reflectors) else ""

    @property
    def last_error(self) -> str:
        """Why the last attempt to list or watch failed, and for how long they have been failing; empty once one works.

        What is stored stays readable and grows old meanwhile.
        """
        return "; ".join(
            f"{reflector.selection}: {reflector.last_error} (failing for {reflector.failing_seconds:.0f} s)"
            for reflector in self._reflectors
            if reflector.last_error
        )

    @property
    def silence(self) -> str:
        """Which watches have been silent for longer than is usual, and for how long; empty for none.

        A frozen server shows as this first: the connection is open, and the next look at it fails only later.
        """
        return "; ".join(f"{one.selection}: {one.silence}" for one in self._reflectors if one.silence)

    @property
    def counts(self) -> Mapping[str, int]:
        """How often lists, watches, relists and errors happened, by name: see `Reflector`; and `handler_errors`."""
        return self._counts

    @property
    def list_duration_seconds(self) -> float:
        """How long the last list took; 0 before the first."""
        return max(reflector.list_duration_seconds for reflector in self._reflectors)

    @property
    def last_event_time(self) -> float:
        """The loop's time of the last watch event; of several watches the oldest, `-inf` when one has had none."""
        return min(reflector.last_event_time for reflector in self._reflectors)

    def note_lost_event(self, why: str) -> None:
        """Relist, because the watch has lost an event: the store is older than its resourceVersion.

        Nothing happens while a list is under way. Relists that follow each other back off.

        Args:
            why: What shows that, for the log.
        """
        for reflector in self._reflectors:
            reflector.relist(why)

    def add_handler(self, handler: Handler[R]) -> Registration[R]:
        """Add a handler, at any time; it is called at once with the stored objects, as initial.

        Raises:
            RuntimeError: The informer has ended.
        """
        if self._has_ended:
            raise RuntimeError(f"{self.kind.resource.display}: the informer has ended, no handler would be called")
        registration = Registration(handler, self._count_failure, self._forget)
        token = allow_unsynced_reads.set(True)
        # No await in between: the handler misses no change and is called for none twice.
        for obj in self.store.snapshot():
            registration.added(obj, True)
        allow_unsynced_reads.reset(token)
        if self.store.synced:
            registration.declare_synced()
        self._registrations = (*self._registrations, registration)
        return registration

    def _forget(self, registration: Registration[R]) -> None:
        self._registrations = tuple(other for other in self._registrations if other is not registration)

    def _count_failure(self) -> None:
        self._counts["handler_errors"] += 1

    # What follows is the reflector's: an informer is its `StoreWriter`.

    def share(self, obj: R) -> R:
        """Return an object that is about to be stored, made of parts that are stored already."""
        return self.store.share(obj)

    def replace(self, objects: Iterable[R], undecodable: Mapping[Key, str], version: str) -> Iterator[None]:
        """Replace everything by a list: in a synced store as one change; handlers are called little by little."""
        yield from self.replace_shard(objects, undecodable)
        self.declare_synced()
        self.store.advance(version)

    def replace_shard(self, objects: Iterable[R], undecodable: Mapping[Key, str]) -> Iterator[None]:
        """Do the same without declaring the store synced."""
        initial = not self.store.synced
        changes = yield from self.store.replace(objects, undecodable)
        calls = self._dispatch_changes(changes, initial=initial, registrations=self._registrations)
        for number, _ in enumerate(calls, 1):
            if number % _SLICE == 0:
                yield

    def _dispatch_changes(
        self, changes: Changes[R], *, initial: bool, registrations: tuple[Registration[R], ...]
    ) -> Iterator[None]:
        for registration in registrations:
            for gone in changes.deleted:
                registration.deleted(gone, True)
                yield
            for new in changes.added:
                registration.added(new, initial)
                yield
            for old, new in changes.updated:
                registration.updated(old, new)
                yield

    def declare_synced(self) -> None:
        """Declare that the store holds the initial list, and that every handler has been called with it."""
        if self.store.synced or self.store.is_closed:
            return
        self.store.synced = True
        # Also the handlers added while the others were called.
        for registration in self._registrations:
            registration.declare_synced()
        self._synced.set()

    def apply(self, event: WatchEvent[R]) -> None:
        """Apply one ADDED, MODIFIED or DELETED event."""
        self.apply_object(event)
        self.store.advance(event.object.metadata.resource_version)

    def apply_object(self, event: WatchEvent[R]) -> None:
        """Apply the object of an event, and leave the version of the store as it is."""
        if self._has_ended:
            return
        if event.type == "DELETED":
            self._remove(event.object)
        else:
            self._put(self.store.share(event.object))

    def advance(self, version: str) -> None:
        """Note that nothing else happened up to a version."""
        self.store.advance(version)

    def on_decode_error(self, key: Key, error: str, version: str) -> None:
        """Note that the newest version of an object cannot be decoded; the store keeps the last good one."""
        self.store.undecodable[key] = error
        self.store.advance(version)

    def _put(self, obj: R) -> None:
        old = self.store.put(obj)
        if old is obj:  # the same version once more
            return
        for registration in self._registrations:
            if old is None:
                registration.added(obj, False)
            elif old.metadata.uid == obj.metadata.uid:
                registration.updated(old, obj)
            else:
                # Another object of the same name: an update would hide the deletion (IN-5).
                registration.deleted(old, True)
                registration.added(obj, False)

    def _remove(self, obj: R) -> None:
        known = self.store.remove(obj.key)
        if known is None:
            return
        for registration in self._registrations:
            registration.deleted(obj if isinstance(obj, self.kind) else known, False)


class NamespacedShard(Generic[R]):
    """The store writer of one of an informer's selections; objects of the other selections stay as they are.

    Each shard has a watch of its own, and these run ahead of each other. So the store has reached a version once
    all shards have.
    """

    def __init__(self, informer: Informer[R], selection: Selection[R], shards: "list[NamespacedShard[R]]") -> None:
        """Make a shard and add it to the others.

        Args:
            informer: The informer.
            selection: What this shard covers.
            shards: All shards of the informer, as far as they are made.
        """
        self._informer = informer
        self._namespace = selection.namespace
        self._shards = shards
        self._version = 0
        self._is_filled = False
        shards.append(self)

    def share(self, obj: R) -> R:
        """Return an object that is about to be stored, made of parts that are stored already."""
        return self._informer.share(obj)

    def replace(self, objects: Iterable[R], undecodable: Mapping[Key, str], version: str) -> Iterator[None]:
        """Replace everything of this shard by a list."""
        covers, store = self._namespace_filter(), self._informer.store
        kept = (obj for obj in store.snapshot() if not covers(obj.metadata.namespace))
        kept_undecodable = {key: error for key, error in store.undecodable.items() if not covers(key.namespace)}
        yield from self._informer.replace_shard((*objects, *kept), {**undecodable, **kept_undecodable})
        self._is_filled = True
        if all(shard._is_filled for shard in self._shards):
            self._informer.declare_synced()
        self.advance(version)

    def apply(self, event: WatchEvent[R]) -> None:
        """Apply one ADDED, MODIFIED or DELETED event."""
        self._informer.apply_object(event)
        self.advance(event.object.metadata.resource_version)

    def advance(self, version: str) -> None:
        """Note that nothing else happened in this shard up to a version."""
        self._informer.advance(self._min_version(version))

    def on_decode_error(self, key: Key, error: str, version: str) -> None:
        """Note that the newest version of an object cannot be decoded."""
        self._informer.on_decode_error(key, error, self._min_version(version))

    def _namespace_filter(self) -> Callable[[str], bool]:
        if self._namespace:
            return lambda namespace: namespace == self._namespace
        others = {shard._namespace for shard in self._shards}
        return lambda namespace: namespace not in others

    def _min_version(self, version: str) -> str:
        """Return the version that all shards have reached."""
        self._version = max(self._version, version_of(version))
        return str(min(shard._version for shard in self._shards))
