"""The local copy of a kind: objects by key, and indexes over them."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import Generic, NamedTuple, TypeVar

import structlog

from kcr.api.meta import Key, Resource, controller_of
from kcr.informer.sharing import share

R = TypeVar("R", bound=Resource)
# Keys inside are plain pairs: equal to `Key`, and not tracked by the garbage collector for long.
Pair = tuple[str, str]

_log = structlog.get_logger("kcr.informer")


class Changes(NamedTuple, Generic[R]):
    """What a relist brought, in the order in which handlers hear of it."""

    deleted: tuple[R, ...] = ()
    added: tuple[R, ...] = ()
    updated: tuple[tuple[R, R], ...] = ()


class Store(Generic[R]):
    """What is known of a kind. Reading is a plain call and never waits; only the informer writes.

    Attributes:
        synced: Whether the first list is stored.
        resource_version: The highest version that was processed, of a list, an event or a bookmark; 0
            before the first, and where the server's versions are no numbers.
        stale: Keys whose newest version could not be decoded, and why; the store has the last good one.
    """

    def __init__(self) -> None:
        self.synced = False
        self.resource_version = 0
        self.stale: dict[Key, str] = {}
        self._objects: dict[Pair, R] = {}
        self._indexes: dict[str, _Index[R]] = {}
        # Calls that wait for a version, the lowest first; the number in the middle keeps their order.
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        # The object that came last: much of what is new now is new there too.
        self._latest: R | None = None
        self.add_index("owner", _owner)

    def __len__(self) -> int:
        """Return how many objects there are."""
        return len(self._objects)

    def get(self, key: Key) -> R | None:
        """Return an object, or None when there is none."""
        return self._objects.get(key)

    def list(self, namespace: str | None = None) -> tuple[R, ...]:
        """Return the objects of a namespace; None for all."""
        if namespace is None:
            return tuple(self._objects.values())
        return tuple(obj for pair, obj in self._objects.items() if pair[0] == namespace)

    def by_index(self, index: str, value: str) -> tuple[R, ...]:
        """Return the objects that an index holds under a value.

        The index `owner` is built in: the uid of the object's controller, or for an object without one its
        namespace with a slash after it.

        Raises:
            KeyError: There is no such index.
        """
        return self._indexes[index].get(value)

    def add_index(self, name: str, values: Callable[[R], Iterable[str]]) -> None:
        """Add an index, or replace it; at any time.

        Args:
            name: What `by_index` calls it.
            values: Under which values an object is found. It must depend on the object alone.
        """
        index = self._indexes[name] = _Index(name, values)
        for pair, obj in self._objects.items():
            index.change(pair, None, obj)

    def call_when_at(self, resource_version: int, callback: Callable[[], None]) -> None:
        """Call back once the store has reached a version; at once if it has."""
        if resource_version <= self.resource_version:
            callback()
        else:
            heapq.heappush(self._waiting, (resource_version, next(self._order), callback))

    # What follows is the informer's.

    def share(self, obj: R) -> R:
        """Return an object that is about to be stored, made of what is stored already where it is equal."""
        metadata = obj.metadata
        old = self._objects.get((metadata.namespace, metadata.name))
        if old is not None and is_same(old, obj):
            return old
        share(obj, old or self._sibling(obj), self._latest)
        self._latest = obj
        return obj

    def put(self, obj: R) -> R | None:
        """Store an object, and return the version it replaces. The object has passed `share`."""
        metadata = obj.metadata
        pair = (metadata.namespace, metadata.name)
        old = self._objects.get(pair)
        self._objects[pair] = obj
        for index in self._indexes.values():
            index.change(pair, old, obj)
        if self.stale:
            self.stale.pop(obj.key, None)
        return old

    def remove(self, key: Key) -> R | None:
        """Remove an object, and return it; None when there is none."""
        pair = (key.namespace, key.name)
        old = self._objects.pop(pair, None)
        if old is not None:
            for index in self._indexes.values():
                index.change(pair, old, None)
        self.stale.pop(key, None)
        return old

    def replace(self, objects: Iterable[R], stale: Mapping[Key, str]) -> Changes[R]:
        """Replace everything by a list, and return what that changed.

        An object with the uid and version of the stored one is no change. One with another uid is deleted
        and added. Keys in `stale` keep what is stored.

        Args:
            objects: The list; each has passed `share`.
            stale: Objects of the list that could not be decoded, and why.
        """
        added, deleted, updated = [], [], []
        listed: set[Pair] = set(stale)
        for obj in objects:
            pair = (obj.metadata.namespace, obj.metadata.name)
            listed.add(pair)
            old = self._objects.get(pair)
            if old is None:
                added.append(obj)
            elif old.metadata.uid != obj.metadata.uid:
                deleted.append(old)
                added.append(obj)
            elif not is_same(old, obj):
                updated.append((old, obj))
        deleted += [obj for pair, obj in self._objects.items() if pair not in listed]
        for obj in deleted:
            self.remove(obj.key)
        for obj in added:
            self.put(obj)
        for _, obj in updated:
            self.put(obj)
        self.stale = dict(stale)
        return Changes(tuple(deleted), tuple(added), tuple(updated))

    def advance(self, resource_version: str) -> None:
        """Note that everything up to a version has been processed, and call those who wait for it."""
        version = version_of(resource_version)
        if version <= self.resource_version:
            return
        self.resource_version = version
        while self._waiting and self._waiting[0][0] <= version:
            callback = heapq.heappop(self._waiting)[2]
            try:
                callback()
            except Exception:
                _log.exception("callback failed", version=version)

    def _sibling(self, obj: R) -> R | None:
        owner = controller_of(obj.metadata)
        return self._indexes["owner"].newest(owner.uid) if owner is not None else None


class _Index(Generic[R]):
    """Objects by value. A value without objects is not there: values come and go for ever."""

    def __init__(self, name: str, values: Callable[[R], Iterable[str]]) -> None:
        self._name = name
        self._values = values
        self._found: dict[str, dict[Pair, R]] = {}

    def get(self, value: str) -> tuple[R, ...]:
        found = self._found.get(value)
        return tuple(found.values()) if found else ()

    def newest(self, value: str) -> R | None:
        found = self._found.get(value)
        # From the end: removed entries pile up at the other one, and would be walked over.
        return next(reversed(found.values())) if found else None

    def change(self, pair: Pair, old: R | None, new: R | None) -> None:
        before = () if old is None else self._values_of(old)
        after = () if new is None else self._values_of(new)
        for value in before:
            if value not in after:
                found = self._found.get(value, {})
                found.pop(pair, None)
                if not found:
                    self._found.pop(value, None)
        if new is not None:
            for value in after:
                self._found.setdefault(value, {})[pair] = new

    def _values_of(self, obj: R) -> tuple[str, ...]:
        try:
            return tuple(self._values(obj))
        except Exception:
            # One object that an index cannot take must not stop the others.
            _log.exception("index failed", index=self._name, key=str(obj.key))
            return ()


def _owner(obj: Resource) -> Iterator[str]:
    controller = controller_of(obj.metadata)
    yield f"{obj.metadata.namespace}/" if controller is None else controller.uid


def is_same(old: Resource, new: Resource) -> bool:
    """Return whether two values are the same version of the same object."""
    before, after = old.metadata, new.metadata
    return before.resource_version == after.resource_version and before.uid == after.uid and after.uid != ""


def version_of(resource_version: str) -> int:
    """Return a resourceVersion as a number, 0 when it is none.

    Versions are opaque but for this: positive decimal numbers without leading zeros may be compared.

    Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/util/resourceversion/resourceversion.go.
    """
    if resource_version.isdecimal() and resource_version.isascii() and resource_version[0] != "0":
        return int(resource_version)
    return 0
