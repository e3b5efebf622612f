"""The store of an informer: objects by key, and indexes over them."""

import asyncio
import heapq
import math
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from itertools import count
from typing import Generic, NamedTuple, Protocol, TypeVar

from kcr.annotations import Text
from kcr.api.meta import Key, ObjectMeta, Resource, controller_of
from kcr.arguments import check_of_call, checked, checked_on_failure
from kcr.errors import NotSyncedError
from kcr.informer.index import Index, built_in, strings_of, values_of
from kcr.informer.sharing import share, size_of
from kcr.informer.slots import dependents_metadata
from kcr.log import get_logger

_log = get_logger("kcr.informer")

R = TypeVar("R", bound=Resource)
# Keys inside are plain pairs: equal to `Key`, and not tracked by the garbage collector for long.
Pair = tuple[str, str]

# Whether the running task may read stores that are not synced: handlers may, since they are called for the rest.
allow_unsynced_reads: ContextVar[bool] = ContextVar("allow_unsynced_reads", default=False)

# How many objects are measured at a time: neighbours share parts, for each is compared with the latest one.
_RUN, _RUNS = 10, 5
# How many objects of a first list are stored before others have their turn: less than a millisecond.
_SLICE = 100


class StoreProgress:
    """The version up to which all changes of a store, or of one of its parts, are processed.

    A store under sharding, or of several namespaces, is filled by several watches, each of which runs ahead of the
    others. So a write is awaited in the part that will show it (`Store.progress_of`).

    Attributes:
        resource_version: The highest version that was processed, of a list, an event or a bookmark; 0 before the first,
            and where the server's versions are no numbers. It decreases only with a server restored from a backup.
        is_closed: Whether nothing more will be processed.
    """

    __slots__ = ("_order", "_waiting", "is_closed", "resource_version")

    def __init__(self) -> None:
        self.resource_version: int = 0
        self.is_closed: bool = False
        # Calls that wait for a version, the lowest first; the number in the middle keeps their order.
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    def notify_at_version(self, resource_version: int, callback: Callable[[], None]) -> None:
        """Call back once a version has been reached; at once if it has, or never will."""
        if resource_version <= self.resource_version or self.is_closed:
            callback()
        else:
            heapq.heappush(self._waiting, (resource_version, next(self._order), callback))

    def advance(self, version: int, *, is_list: bool = False) -> None:
        """Record that all changes up to a version are processed, and call the callbacks that wait for it."""
        if version > self.resource_version or (is_list and version):
            self.resource_version = version
            self._call_waiting(version)

    def close(self) -> None:
        """Record that nothing more will be processed, and call all callbacks."""
        self.is_closed = True
        self._call_waiting(math.inf)

    def _call_waiting(self, reached: float) -> None:
        while self._waiting and self._waiting[0][0] <= reached:
            version, _, callback = heapq.heappop(self._waiting)
            try:
                callback()
            except Exception:
                _log.exception("callback failed", version=version)


class Changes(NamedTuple, Generic[R]):
    """The changes by a list, in the order of the handler calls."""

    deleted: tuple[R, ...] = ()
    added: tuple[R, ...] = ()
    updated: tuple[tuple[R, R], ...] = ()


class Part(Protocol):
    """A part of a store, which a watch fills; see `StorePart`."""

    progress: StoreProgress
    covers: Callable[[ObjectMeta], bool]


class Store(Generic[R]):
    """The objects of one kind. Reading is a plain call and never waits; only the informer writes.

    Other threads may read while the informer writes, as webhooks do: `get`, `list` and `by_index` return the objects of
    one moment of the call, without a lock. Between two calls the store may change.

    Before the initial list is stored, "there is no such object" would be a lie: reading raises `NotSyncedError`,
    except in handlers, which see the objects so far. Once the informer is closed, reading raises it everywhere.

    Attributes:
        synced: Whether the first list is stored.
        progress: The version that all of its parts have reached.
        undecodable: Keys whose newest version could not be decoded, and the error; the store has the last good one.
    """

    def __init__(
        self, not_synced_reason: Callable[[], str] | None = None,
        parts: "Sequence[Part]" = (),
    ) -> None:  # fmt: skip
        """Make an empty store.

        Args:
            not_synced_reason: Returns why it is not synced; without it, reading never raises.
            parts: Its parts, as far as there are some by now; none where one watch fills the store.
        """
        self.synced: bool = False
        self.progress: StoreProgress = StoreProgress()
        self._parts = parts
        self._not_synced_reason = not_synced_reason
        self.undecodable: dict[Key, str] = {}
        self._objects: dict[Pair, R] = {}
        self._indexes: dict[str, Index[R]] = {}
        # Whose thread writes; None before it runs, when all happens on one thread.
        self._writer: tuple[int, asyncio.AbstractEventLoop] | None = None
        # The latest object: many of its new values recur in the next one.
        self._latest: R | None = None
        self._index_of("owner")

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def is_closed(self) -> bool:
        """Whether its informer was closed: it is empty, and is filled no more."""
        return self.progress.is_closed

    @property
    def resource_version(self) -> int:
        """The highest version up to which all changes were processed; see `StoreProgress.resource_version`."""
        return self.progress.resource_version

    def progress_of(self, obj: Resource) -> StoreProgress:
        """Return the progress of the part of the store in which an object is shown; of the whole store without parts.

        Where several parts may show it, that is the one that is behind.
        """
        if not self._parts:
            return self.progress
        return min(self._parts_of(obj.metadata), key=_version, default=self.progress)

    def version_of_dependents(self, owner: Resource) -> int:
        """Return the version up to which all changes of an owner's dependents are shown here."""
        if not self._parts:
            return self.resource_version
        shown = [part for metadata in dependents_metadata(owner) for part in self._parts_of(metadata)]
        return min(map(_version, shown), default=self.resource_version)

    def _parts_of(self, metadata: ObjectMeta) -> Iterator[StoreProgress]:
        return (part.progress for part in self._parts if part.covers(metadata))

    def get(self, key: Key) -> R | None:
        """Return an object, or None when there is none.

        It is the object that all readers share, here and in `list` and `by_index`: change a copy
        (`msgspec.structs.replace`). Its fields refuse to be assigned. Its maps, such as labels, are plain dicts that
        only the type checker protects (`Mapping`): a mutation is visible to every other reader, and never to the
        server. In tests the plugin of pytest raises `kcr.testing.MutatedError` at the end for an object that was
        changed so; a program at log level debug logs it for the object of the reconciled key.

        Raises:
            NotSyncedError: The first list is not stored yet.
        """
        # In this order: another thread may close the store meanwhile, and that leaves it without objects.
        objects = self._objects
        if not self.synced:
            self._check_early()
        try:
            found = objects.get(key)
        except TypeError:
            found = None
        if found is None and not isinstance(key, tuple):
            check_of_call(Store.get)((self, key), {})
        return found

    @checked_on_failure
    def list(self, namespace: str | None = None, *, labels: Mapping[str, str] = {}) -> tuple[R, ...]:
        """Return the objects of a namespace that carry some labels.

        Args:
            namespace: None for all. The first call that names one makes the index `namespace`.
            labels: The labels an object must have; `add_index("label:app")` makes lookups by `app` fast.

        Raises:
            NotSyncedError: The first list is not stored yet.
        """
        found = self.snapshot() if namespace is None else self._index_of("namespace").get(namespace)
        if not self.synced:
            self._check_early()
        for name, value in labels.items():
            index = self._indexes.get(f"label:{name}")
            if index is not None and len(index.get(value)) < len(found):
                found = index.get(value)
        if not found:
            check_of_call(Store.list)((self, namespace), {"labels": labels})
        if not labels:
            return found
        return tuple(
            obj
            for obj in found
            if namespace in (None, obj.metadata.namespace) and labels.items() <= obj.metadata.labels.items()
        )

    def by_index(self, index: str, value: str) -> tuple[R, ...]:
        """Return the objects that an index holds under a value.

        Built in, and made when first asked for, are `namespace`; `label:app`, the value of a label;
        `field:spec.nodeName`, the text of a field; and `owner`: the uid of the object's controller, or for an
        object without one its namespace with a slash after it.

        Raises:
            KeyError: There is no such index.
            NotSyncedError: The first list is not stored yet.
        """
        if not isinstance(value, str):
            check_of_call(Store.by_index)((self, index, value), {})
        found = self._index_of(index).get(value)
        if not self.synced:
            self._check_early()
        return found

    @checked
    def add_index(self, name: Text, values: Callable[[R], Iterable[str]] | None = None) -> None:
        """Add an index, or replace it; at any time, on the thread of the informer.

        ```python
        pods.add_index("image", lambda pod: {container.image for container in pod.spec.containers})
        pods.by_index("image", "busybox")
        ```

        Args:
            name: Its name for `by_index`.
            values: Under which values an object is found. It must depend on the object alone. None for a
                built-in index; see `by_index`.

        Raises:
            KeyError: There is no built-in index of this name.
            RuntimeError: This is another thread.
        """
        if self._is_other_thread():
            raise RuntimeError(f"index {name}: add it before the manager runs, not on another thread, as in a webhook")
        index = self._filled(Index(name, built_in(name) if values is None else partial(strings_of, values)))
        # Another thread, and the informer, iterate over the indexes of before.
        self._indexes = {**self._indexes, name: index}

    def own(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note that the informer writes on this thread from now on, on its loop."""
        self._writer = (threading.get_ident(), loop)

    def _is_other_thread(self) -> bool:
        return self._writer is not None and self._writer[0] != threading.get_ident()

    def _index_of(self, name: str) -> Index[R]:
        index = self._indexes.get(name)
        if index is not None:
            return index
        if self._writer is None or not self._is_other_thread():
            self.add_index(name)
            return self._indexes[name]
        # The informer's thread makes it when it has time; until then, each call here makes one for itself.
        index = self._filled(Index(name, built_in(name)))
        with suppress(RuntimeError):  # its loop is closed
            self._writer[1].call_soon_threadsafe(self._index_of, name)
        return index

    def _filled(self, index: Index[R]) -> Index[R]:
        for obj in self.snapshot():
            index.change((obj.metadata.namespace, obj.metadata.name), None, obj)
        return index

    def _check_early(self) -> None:
        if self.is_closed and self._not_synced_reason is not None:
            raise NotSyncedError(f"read too late: {self._not_synced_reason()}")
        if self._not_synced_reason is not None and not allow_unsynced_reads.get():
            raise NotSyncedError(f"read before it is synced: {self._not_synced_reason()}")

    def notify_at_version(self, resource_version: int, callback: Callable[[], None]) -> None:
        """Call back once the store has reached a version; at once if it has, or never will."""
        self.progress.notify_at_version(resource_version, callback)

    # The methods below are the informer's.

    def close(self) -> None:
        """Drop everything, and call the callbacks that wait for a version."""
        self.synced, self.progress.is_closed = False, True
        self._objects, self._indexes, self.undecodable, self._latest = {}, {}, {}, None
        self._index_of("owner")
        self.progress.close()

    def stored(self, key: Key) -> R | None:
        """Return an object, whether or not the store is synced."""
        return self._objects.get(key)

    def snapshot(self) -> tuple[R, ...]:
        """Return all objects, whether or not these are all there are."""
        return values_of(self._objects)

    def estimate_bytes(self) -> float:
        """Return how much memory the objects take, as if all were like those of some runs; parts are counted once."""
        objects, seen, sizes = self.snapshot(), set[int](), list[int]()
        for start in range(0, len(objects), max(_RUN, len(objects) // _RUNS + 1)):
            run = [size_of(one, seen) for one in objects[start : start + _RUN]]
            # In a large store the parts that all share are next to nothing: the first of a run has them.
            sizes += run[len(objects) > _RUN * _RUNS :]
        return sum(sizes) * len(objects) / (len(sizes) or 1)

    def share(self, obj: R) -> R:
        """Return an object with its equal parts replaced by stored ones (structural sharing)."""
        metadata = obj.metadata
        old = self._objects.get((metadata.namespace, metadata.name))
        if old is not None and is_same(old, obj):
            return old
        try:
            share(obj, old or self._sibling(obj), self._latest)
        except RecursionError:
            # Nested deeper than values can be compared. Sharing only saves memory, so this object does without.
            return obj
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
        if self.undecodable:
            self.undecodable.pop(obj.key, None)
        return old

    def remove(self, key: Key) -> R | None:
        """Remove an object, and return it; None when there is none."""
        pair = (key.namespace, key.name)
        old = self._objects.pop(pair, None)
        if old is not None:
            for index in self._indexes.values():
                index.change(pair, old, None)
        self.undecodable.pop(key, None)
        return old

    def replace(self, objects: Iterable[R], undecodable: Mapping[Key, str]) -> Generator[None, None, Changes[R]]:
        """Replace everything by a list, and return the changes.

        An object with the uid and version of the stored one is no change. One with another uid is deleted
        and added. Keys in `undecodable` keep their stored object. A synced store changes in one step; before
        that it cannot be read, and filling it pauses now and then, so that a large initial list does not block the
        loop.

        Args:
            objects: The list; each has passed `share`.
            undecodable: Objects of the list that could not be decoded, and the errors.
        """
        added: list[R] = []
        deleted: list[R] = []
        updated: list[tuple[R, R]] = []
        listed: set[Pair] = set(undecodable)
        for number, obj in enumerate(objects, 1):
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
            if not self.synced and number % _SLICE == 0:
                yield
        deleted += [obj for pair, obj in self._objects.items() if pair not in listed]
        for obj in deleted:
            self.remove(obj.key)
        for number, obj in enumerate((*added, *(new for _, new in updated)), 1):
            self.put(obj)
            if not self.synced and number % _SLICE == 0:
                yield
        self.undecodable = dict(undecodable)
        return Changes(tuple(deleted), tuple(added), tuple(updated))

    def advance(self, resource_version: str) -> None:
        """Record that all changes up to a version are processed, and call the callbacks that wait for it."""
        self.progress.advance(version_of(resource_version))

    def _sibling(self, obj: R) -> R | None:
        owner = controller_of(obj.metadata)
        return self._indexes["owner"].newest(owner.uid) if owner is not None else None


class MemberStore(Store[R]):
    """The store of a member cluster; its objects are found by keys with their cluster, and by `obj.key`."""

    def get(self, key: Key) -> R | None:
        """Return an object, or None when there is none; see `Store.get`."""
        return super().get(key.local if isinstance(key, Key) else key)


def _version(progress: StoreProgress) -> int:
    return progress.resource_version


def is_same(old: Resource, new: Resource) -> bool:
    """Return whether two values are the same version of the same object; without versions, whether they are equal."""
    before, after = old.metadata, new.metadata
    if before.resource_version != after.resource_version or before.uid != after.uid or after.uid == "":
        return False
    return after.resource_version != "" or old == new


def version_of(resource_version: str) -> int:
    """Return a resourceVersion as a number, 0 when it is none.

    Versions are opaque but for this: positive decimal numbers without leading zeros may be compared. Of more digits
    than Python converts they count as none.

    Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/util/resourceversion/resourceversion.go (RF-5).
    """
    if resource_version.isdecimal() and resource_version.isascii() and resource_version[0] != "0":
        try:
            return int(resource_version)
        except ValueError:
            pass
    return 0
