"""Store writers: the seam between a reflector and the store that it fills.

A reflector lists and watches, and writes to a `StoreWriter`. `DispatchingWriter` changes the store and calls the
handlers, as client-go's `HandleDeltas` does; where an informer watches several selections, each reflector writes to a
`NamespacedShard` of it. Invariant: the store changes before a handler is called, and its version increases afterwards:
a caller that waits for a version finds that the handlers have been called with every change up to it.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from kcr.api.codec import WatchEvent
from kcr.api.meta import Key, Resource
from kcr.informer.handlers import Registration
from kcr.informer.selection import Selection
from kcr.informer.store import Changes, Store, version_of

R = TypeVar("R", bound=Resource)

# After so many calls of handlers the event loop may go on.
_SLICE = 200


class StoreWriter(Protocol[R]):
    """Interface of a reflector's output; called on the event loop, in the server's order."""

    def share(self, obj: R) -> R:
        """Return an object that is about to be stored, made of parts that are stored already (structural sharing)."""
        ...

    def replace(self, objects: Iterable[R], undecodable: Mapping[Key, str], version: str) -> Iterator[None]:
        """Replace everything by a list, in slices: between two items of the iterator the loop may run."""
        ...

    def apply(self, event: WatchEvent[R]) -> None:
        """Apply one ADDED, MODIFIED or DELETED event."""
        ...

    def advance(self, version: str) -> None:
        """Note that nothing else happened up to a version (bookmark)."""
        ...

    def on_decode_error(self, key: Key, error: str, version: str) -> None:
        """Note that the newest version of an object cannot be decoded."""
        ...


class DispatchingWriter(Generic[R]):
    """The store writer of an informer: changes the store, then calls the handlers.

    Attributes:
        store: The store.
        registrations: The handlers. Replaced when one is added or removed and never changed, so that a handler that
            does so while it is called disturbs no iteration.
        synced: Set once the store holds the initial list and every handler has been called with it, or at the end.
        has_ended: Whether the informer has ended: no handler is called any more.
    """

    def __init__(self, kind: type[R], store: Store[R]) -> None:
        """Write to an empty store of a kind, and call no handlers yet."""
        self.store = store
        self.registrations: tuple[Registration[R], ...] = ()
        self.synced: asyncio.Event = asyncio.Event()
        self.has_ended = False
        self._kind = kind

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
        # Those of this moment: a handler that is added from now on starts with the new content of the store.
        calls = self._dispatch(changes, initial=initial, registrations=self.registrations)
        for number, _ in enumerate(calls, 1):
            if number % _SLICE == 0:
                yield

    def _dispatch(
        self, changes: Changes[R], *, initial: bool, registrations: tuple[Registration[R], ...]
    ) -> Iterator[None]:
        for registration in registrations:
            # Deletions first: an object may have been created again under the name of a deleted one.
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
        for registration in self.registrations:
            registration.declare_synced()
        self.synced.set()

    def apply(self, event: WatchEvent[R]) -> None:
        """Apply one ADDED, MODIFIED or DELETED event."""
        self.apply_object(event)
        self.store.advance(event.object.metadata.resource_version)

    def apply_object(self, event: WatchEvent[R]) -> None:
        """Apply the object of an event, and leave the version of the store as it is."""
        if self.has_ended:
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
        for registration in self.registrations:
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
        for registration in self.registrations:
            # A deletion whose object cannot be decoded shows metadata alone: the last good version stands for it.
            registration.deleted(obj if isinstance(obj, self._kind) else known, False)


class NamespacedShard(Generic[R]):
    """The store writer of one of an informer's selections; objects of the other selections stay as they are.

    Each shard has a watch of its own, and these run ahead of each other. So the store has reached a version once
    all shards have.
    """

    def __init__(
        self, writer: DispatchingWriter[R], selection: Selection[R], shards: "list[NamespacedShard[R]]"
    ) -> None:
        """Make a shard and add it to the others.

        Args:
            writer: The informer's.
            selection: The objects of this shard.
            shards: All shards of the informer, as far as they are made.
        """
        self._writer = writer
        self._namespace = selection.namespace
        self._shards = shards
        self._version = 0
        self._is_filled = False
        shards.append(self)

    def share(self, obj: R) -> R:
        """Return an object that is about to be stored, made of parts that are stored already."""
        return self._writer.share(obj)

    def replace(self, objects: Iterable[R], undecodable: Mapping[Key, str], version: str) -> Iterator[None]:
        """Replace everything of this shard by a list."""
        covers, store = self._covers(), self._writer.store
        kept = (obj for obj in store.snapshot() if not covers(obj.metadata.namespace))
        kept_undecodable = {key: error for key, error in store.undecodable.items() if not covers(key.namespace)}
        yield from self._writer.replace_shard((*objects, *kept), {**undecodable, **kept_undecodable})
        self._is_filled = True
        if all(shard._is_filled for shard in self._shards):
            self._writer.declare_synced()
        self.advance(version)

    def apply(self, event: WatchEvent[R]) -> None:
        """Apply one ADDED, MODIFIED or DELETED event."""
        self._writer.apply_object(event)
        self.advance(event.object.metadata.resource_version)

    def advance(self, version: str) -> None:
        """Note that nothing else happened in this shard up to a version."""
        self._writer.advance(self._min_version(version))

    def on_decode_error(self, key: Key, error: str, version: str) -> None:
        """Note that the newest version of an object cannot be decoded."""
        self._writer.on_decode_error(key, error, self._min_version(version))

    def _covers(self) -> Callable[[str], bool]:
        if self._namespace:
            return lambda namespace: namespace == self._namespace
        others = {shard._namespace for shard in self._shards}
        return lambda namespace: namespace not in others

    def _min_version(self, version: str) -> str:
        """Return the version that all shards have reached."""
        self._version = max(self._version, version_of(version))
        return str(min(shard._version for shard in self._shards))
