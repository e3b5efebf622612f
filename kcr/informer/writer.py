"""Store writers: the seam between a reflector and the store that it fills.

A reflector lists and watches, and writes to a `StoreWriter`. `DispatchingWriter` changes the store and calls the
handlers, as client-go's `HandleDeltas` does; where an informer watches several selections, each reflector writes to a
`StorePart` of it. Invariant: the store changes before a handler is called, and its version increases afterwards:
a caller that waits for a version finds that the handlers have been called with every change up to it.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from kcr.api.codec import WatchEvent
from kcr.api.meta import Key, ObjectMeta, Resource
from kcr.informer.handlers import Registration
from kcr.informer.store import Changes, Store, StoreProgress, version_of

R = TypeVar("R", bound=Resource)

# After so many calls of handlers the event loop may run other tasks.
_SLICE = 200


class StoreWriter(Protocol[R]):
    """Interface of a reflector's output; called on the event loop, in the server's order."""

    def share(self, obj: R) -> R:
        """Return an object that is about to be stored, made of parts that are stored already (structural sharing)."""
        ...

    def has(self, key: Key) -> bool:
        """Return whether an object is stored."""
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
        self.store = store
        self.registrations: tuple[Registration[R], ...] = ()
        self.synced: asyncio.Event = asyncio.Event()
        self.has_ended: bool = False
        self._kind = kind

    def register(self, registration: Registration[R]) -> None:
        """Call a handler from now on."""
        self.registrations = (*self.registrations, registration)

    def deregister(self, registration: Registration[R]) -> None:
        """Call a handler no more."""
        self.registrations = tuple(other for other in self.registrations if other is not registration)

    def end(self) -> None:
        """Call no handler any more."""
        self.has_ended = True

    def share(self, obj: R) -> R:
        """Return an object that is about to be stored, made of parts that are stored already."""
        return self.store.share(obj)

    def has(self, key: Key) -> bool:
        """Return whether an object is stored."""
        return self.store.stored(key) is not None

    def replace(self, objects: Iterable[R], undecodable: Mapping[Key, str], version: str) -> Iterator[None]:
        """Replace everything by a list: in a synced store as one change; handlers are called little by little."""
        yield from self.replace_objects(objects, undecodable)
        self.declare_synced()
        self.store.progress.advance(version_of(version), is_list=True)

    def replace_objects(self, objects: Iterable[R], undecodable: Mapping[Key, str]) -> Iterator[None]:
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
            self.remove(event.object)
        else:
            self.put(self.store.share(event.object))

    def advance(self, version: str) -> None:
        """Note that nothing else happened up to a version."""
        self.store.advance(version)

    def on_decode_error(self, key: Key, error: str, version: str) -> None:
        """Note that the newest version of an object cannot be decoded; the store keeps the last good one."""
        self.store.undecodable[key] = error
        self.store.advance(version)

    def put(self, obj: R, *, initial: bool = False) -> None:
        """Store an object, which has passed `share`, and call the handlers."""
        old = self.store.put(obj)
        if old is obj:  # the same version once more
            return
        for registration in self.registrations:
            if old is None:
                registration.added(obj, initial)
            elif old.metadata.uid == obj.metadata.uid:
                registration.updated(old, obj)
            else:
                # Another object of the same name: an update would hide the deletion (IN-5).
                registration.deleted(old, True)
                registration.added(obj, False)

    def remove(self, obj: R, *, final_state_unknown: bool = False) -> None:
        """Remove an object from the store, and call the handlers."""
        known = self.store.remove(obj.key)
        if known is None:
            return
        for registration in self.registrations:
            # A deletion whose object cannot be decoded shows metadata alone: the last good version stands for it.
            registration.deleted(obj if isinstance(obj, self._kind) else known, final_state_unknown)


class StorePart(Generic[R]):
    """The store writer of one of an informer's selections; objects of the other selections stay as they are.

    Each part has a watch of its own, and these run ahead of each other. So the store has reached a version once all
    parts have, and a write is awaited in the parts that show its object (`Store.progress_of`). An object may move from
    one part to another, as when its slot is labelled: each part shows it until it leaves, and the newer version counts.

    Attributes:
        progress: The version that this part has reached.
        filled: Set once a list has been stored, and every handler has been called with it; or at the end.
        covers: Whether an object belongs to this part.
    """

    def __init__(
        self,
        writer: DispatchingWriter[R],
        covers: Callable[[ObjectMeta], bool],
        parts: "list[StorePart[R]]",
        on_left: Callable[[R], object] | None = None,
    ) -> None:
        """Make a part and add it to the others.

        Args:
            writer: The informer's.
            covers: Whether an object belongs to this part.
            parts: All parts of the informer, as far as they are made.
            on_left: Called with a stored object that exists and belongs to no part any more; None to remove it.
        """
        self._on_left = on_left or writer.remove
        self.progress: StoreProgress = StoreProgress()
        self.filled: asyncio.Event = asyncio.Event()
        self.covers: Callable[[ObjectMeta], bool] = covers
        self._writer = writer
        self._parts = parts
        # The keys of its objects whose newest version cannot be decoded.
        self._undecodable: set[Key] = set()
        parts.append(self)

    def narrow(self, covers: Callable[[ObjectMeta], bool]) -> None:
        """Cover fewer objects from now on."""
        self.covers = covers

    def share(self, obj: R) -> R:
        """Return an object that is about to be stored, made of parts that are stored already."""
        return self._writer.share(obj)

    def has(self, key: Key) -> bool:
        """Return whether an object is stored."""
        return self._writer.has(key)

    def replace(self, objects: Iterable[R], undecodable: Mapping[Key, str], version: str) -> Iterator[None]:
        """Replace everything of this part by a list, whose slots may have been closed since it began to come."""
        store = self._writer.store
        others = {key: error for key, error in store.undecodable.items() if key not in self._undecodable}
        self._undecodable = set(undecodable)
        if store.synced and not self.filled.is_set():
            # Nothing of it is stored yet. In slices, because a synced store would change in one step.
            yield from self._fill(objects)
            store.undecodable.update(undecodable)
        else:
            mine = {obj.key: obj for obj in objects if self.covers(obj.metadata)}
            # A list is newer than what this part has shown, unless the server was restored from a backup.
            if version_of(version) >= self.progress.resource_version:
                mine = {key: self._newest(obj) for key, obj in mine.items()}
            kept = (obj for obj in store.snapshot() if obj.key not in mine and not self.covers(obj.metadata))
            yield from self._writer.replace_objects((*mine.values(), *kept), {**undecodable, **others})
        self.filled.set()
        if all(part.filled.is_set() for part in self._parts):
            self._writer.declare_synced()
        self.advance(version, is_list=True)

    def _fill(self, objects: Iterable[R]) -> Iterator[None]:
        for number, obj in enumerate(objects, 1):
            if self.covers(obj.metadata) and not self._is_older(obj):
                self._writer.put(obj, initial=True)
            if number % _SLICE == 0:
                yield

    def apply(self, event: WatchEvent[R]) -> None:
        """Apply one ADDED, MODIFIED or DELETED event."""
        obj = event.object
        if not self._is_older(obj):
            if event.type != "DELETED" and self.covers(obj.metadata):
                self._writer.apply_object(event)
            else:
                self._leave(event)
        self.advance(obj.metadata.resource_version)

    def _leave(self, event: WatchEvent[R]) -> None:
        """Apply the event of an object that is deleted, or has left this part, perhaps for another one."""
        obj, known = event.object, self._known(event.object)
        if known is not None and not self.covers(known.metadata):
            # Another part has stored it already.
            return
        if known is not None and (event.type != "DELETED" or _exists(obj)):
            self._on_left(known)
        else:
            self._writer.apply_object(WatchEvent(type="DELETED", object=obj))

    def advance(self, version: str, *, is_list: bool = False) -> None:
        """Note that nothing else happened in this part up to a version."""
        self.progress.advance(version_of(version), is_list=is_list)
        shown = min(part.progress.resource_version for part in self._parts)
        self._writer.store.progress.advance(shown, is_list=is_list)

    def on_decode_error(self, key: Key, error: str, version: str) -> None:
        """Note that the newest version of an object cannot be decoded."""
        self._undecodable.add(key)
        self._writer.store.undecodable[key] = error
        self.advance(version)

    def close(self) -> None:
        """End this part: the versions of the others decide from now on."""
        self._parts.remove(self)
        self.filled.set()
        self.progress.close()

    def _is_older(self, obj: R) -> bool:
        return self._newest(obj) is not obj

    def _newest(self, obj: R) -> R:
        known = self._known(obj)
        if known is None or _version(known) <= _version(obj):
            return obj
        return known

    def _known(self, obj: R) -> R | None:
        known = self._writer.store.stored(obj.key)
        return known if known is not None and known.metadata.uid == obj.metadata.uid else None


def _exists(obj: Resource) -> bool:
    """Return whether an object whose deletion a watch shows has left the selection instead.

    An object with finalizers is deleted only after it got a deletionTimestamp.
    """
    metadata = obj.metadata
    return bool(metadata.finalizers) and metadata.deletion_timestamp is None


def _version(obj: Resource) -> int:
    return version_of(obj.metadata.resource_version)
