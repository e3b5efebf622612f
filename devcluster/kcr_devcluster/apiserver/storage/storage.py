"""The storage: one resourceVersion counter for all kinds, and per kind a watch cache with its recent history.

Objects are kept as encoded bytes beside their typed metadata. Every transition is synchronous, therefore atomic: to
read, decide and commit without an await in between is a compare-and-swap (optimistic concurrency). A watch cache calls
its subscribers synchronously on every change, in order of resourceVersion, each change exactly once. It keeps the last
10,000 changes: a watch or list at an older resourceVersion gets 410 Expired. So does a list at a resourceVersion that a
real server has had compacted, after five to ten minutes.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

import msgspec

from kcr.api.equality import same_json
from kcr.api.meta import ObjectMeta
from kcr.clock import Clock, SystemClock
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.gojson import unescaped_length
from kcr_devcluster.apiserver.protocol.manifests import Manifest, in_order
from kcr_devcluster.apiserver.protocol.responses import StatusError, no_such_resource, too_large_version
from kcr_devcluster.apiserver.storage.records import (
    FIRST_REVISION,
    Change,
    Record,
    StoredRow,
    encode,
    in_version,
    key_of,
)
from kcr_devcluster.apiserver.storage.watch_cache import WatchCache

if TYPE_CHECKING:  # loads sqlite3
    from kcr_devcluster.apiserver.storage.journal import Journal

_REVISION_TIMEOUT_SECONDS = 3.0
_COMPACTION_SECONDS = 300.0
# The default limit of etcd, 1.5 MiB.
_LARGEST_OBJECT = 3 << 19
# The most that upstream's client sends to etcd at all, 2 MiB.
_LARGEST_MESSAGE = 1 << 21
_NOT_IN_BODY = ("metadata", "kind", "apiVersion")


def _check_size(size: int) -> None:
    if size > _LARGEST_MESSAGE:
        words = f"trying to send message larger than max ({size} vs. {_LARGEST_MESSAGE})"
        raise StatusError(500, "", f"rpc error: code = ResourceExhausted desc = {words}")
    if size > _LARGEST_OBJECT:
        raise StatusError(500, "", "etcdserver: request is too large")


class StorageReader(Protocol):
    """The source that requests read from: the storage, or a view of it."""

    @property
    def revision(self) -> int:
        """The resourceVersion of the newest change of any kind."""
        ...

    @property
    def compacted_revision(self) -> int:
        """The oldest revision at which lists can be read."""
        ...

    def cache(self, kind: Kind) -> WatchCache:
        """Return the watch cache of a kind."""
        ...

    def get(self, kind: Kind, namespace: str, name: str) -> Record | None:
        """Return an object, None where there is none."""
        ...

    def revision_to_read(self, kind: Kind, exact: int = 0) -> int:
        """Return the revision at which a read shows the objects of a kind: the requested one, or the newest."""
        ...

    async def wait_for_revision(self, revision: int) -> None:
        """Wait until a revision has been reached."""
        ...


class _Compaction:
    """The compactions of a real server: every five minutes, of what was old already at the last one.

    No timer runs: a write notes the revision that was the newest at the moments that have passed.

    Source: kubernetes/staging/src/k8s.io/apiserver/pkg/storage/etcd3/compact.go.
    """

    def __init__(self, clock: Clock, revision: int) -> None:
        self._clock = clock
        self._due = clock.boottime() + _COMPACTION_SECONDS
        self._noted = revision
        self.revision = 0

    def pass_time(self, newest: int) -> None:
        """Compact as often as it was due.

        Args:
            newest: The newest revision; it has been so since the last call.
        """
        passed = self._clock.boottime() - self._due
        if passed < 0:
            return
        rounds = int(passed // _COMPACTION_SECONDS) + 1
        self._due += rounds * _COMPACTION_SECONDS
        self.revision = self._noted if rounds == 1 else newest
        self._noted = newest


class Storage:
    """The watch caches of all kinds, and the resourceVersion counter."""

    def __init__(self, journal: "Journal | None" = None, clock: Clock | None = None) -> None:
        """Make a storage.

        Args:
            journal: Where the objects are that there are already, and where changes are written; None for memory only.
            clock: The time, for compactions; that of the machine by default.

        Raises:
            ConfigError: The journal is damaged.
        """
        self._journal = journal
        # The stored rows of kinds that nothing has asked for yet.
        self._rows: dict[str, list[StoredRow]] = {}
        # The resourceVersion of the newest change of any kind; never reused.
        self.revision: int = FIRST_REVISION
        # The watch caches begin with the changes after this one.
        self._compacted_revision = 0
        if journal is not None:
            self.revision, self._compacted_revision, self._rows = journal.read()
        self._compaction = _Compaction(clock or SystemClock(), self.revision)
        self._caches: dict[str, WatchCache] = {}
        # Reads that ask for a revision which has not been reached. Most storages never have one.
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        # Called with each change of any kind, before anything reacts to it. They must not write.
        self.observers: list[Callable[[Change], None]] = []

    @property
    def compacted_revision(self) -> int:
        """The oldest revision at which lists can be read."""
        self._compaction.pass_time(self.revision)
        return self._compaction.revision

    def cache(self, kind: Kind) -> WatchCache:
        """Return the watch cache of a kind.

        Raises:
            StatusError: 404, it is a custom resource whose definition was deleted while a request waited.
        """
        cache = self._caches.get(kind.stored_name)
        if cache is None:
            kind = kind.stored
            if kind.custom is not None:
                raise no_such_resource()
            cache = self._new_cache(kind)
        return cache

    def _new_cache(self, kind: Kind) -> WatchCache:
        name = kind.type.display
        cache = self._caches[name] = WatchCache(kind)
        cache.restore(self._rows.pop(name, ()), self._compacted_revision)
        return cache

    def install(self, kind: Kind) -> None:
        """Store the objects of a kind that a definition makes, as the definition has it now."""
        name = kind.type.display
        # The three cases differ in the revisions that older watches may still ask for.
        if name in self._caches:
            self._caches[name].install(kind, self.revision)
        elif name in self._rows:
            # The definition is older than this process.
            self._new_cache(kind)
        else:
            # There may have been objects of such a kind before, and they are not these.
            self._new_cache(kind).compact(self.revision)

    def drop(self, kind: Kind) -> None:
        """Remove a kind with the objects that it still has: its definition was deleted without its finalizer."""
        # Each removal is a change of its own, so that watchers see every object go.
        for record in tuple(self.cache(kind).records.values()):
            self.remove(record)
        del self._caches[kind.type.display]

    def records(self) -> Iterator[Record]:
        """Yield the newest versions of all objects, of all kinds that something has asked for."""
        for cache in self._caches.values():
            yield from cache.records.values()

    def get(self, kind: Kind, namespace: str, name: str) -> Record | None:
        """Return the newest version of an object, None where there is none."""
        return self.cache(kind).records.get(key_of(namespace, name))

    def revision_to_read(self, kind: Kind, exact: int = 0) -> int:
        """Return the revision at which a read shows the objects of a kind.

        Args:
            kind: The kind.
            exact: The requested revision; 0 for the newest.
        """
        return exact or self.revision

    def build_record(self, kind: Kind, manifest: Manifest, revision: int) -> Record:
        """Return the record that a manifest would be at a revision; 0 writes no resourceVersion."""
        metadata = in_order({**manifest["metadata"], "resourceVersion": str(revision)})
        if not revision:
            del metadata["resourceVersion"]
        rest = {name: value for name, value in manifest.items() if name not in _NOT_IN_BODY}
        body = encode({"metadata": metadata, **rest})
        return Record(kind, body, msgspec.convert(metadata, ObjectMeta), revision)

    def put(self, kind: Kind, manifest: Manifest, old: Record | None) -> Record:
        """Store a new object, or a new version of `old`; those of a view are converted.

        Raises:
            PendingError: A webhook converts it, and has to be called.
            StatusError: 500, the object is larger than etcd takes, or the webhook failed.
        """
        shown = kind
        if kind.conversion is not None:
            kind.conversion.to_hub(manifest)
            kind = kind.stored
        old = old and self._stored(old)
        # Compare-and-swap: the caller has compared with `old`, and nothing was awaited since. Invariant: `old` is the
        # newest version of the object.
        record = self.build_record(kind, manifest, self.revision + 1)
        if len(record.body) > _LARGEST_OBJECT:
            _check_size(len(record.body) if kind.custom else unescaped_length(record.body))
        if shown.converter is not None:
            # The object of the response: nothing may fail after the commit.
            in_version(record, shown)
        self._commit(Change(record.revision, old, record))
        return record

    def preview(self, kind: Kind, manifest: Manifest, revision: int) -> Record:
        """Return the record that a dry run shows: the one that `put` would store, converted back."""
        if kind.converter is not None and kind.conversion is not None:
            manifest = dict(manifest)
            kind.conversion.to_hub(manifest)
            return in_version(self.build_record(kind.stored, manifest, revision), kind)
        return self.build_record(kind, manifest, revision)

    def is_stored(self, old: Record, new: Manifest) -> bool:
        """Return whether a new version of an object is stored already, in the version in which it would be stored.

        Source: kubernetes/staging/src/k8s.io/apiserver/pkg/storage/etcd3/store.go, GuaranteedUpdate, which compares the
        encoded objects: so a write that changes nothing migrates an object to a new storage version.
        """
        new = dict(new)
        if old.kind.conversion is not None:
            old.kind.conversion.to_hub(new)
        # An object in an older version has another apiVersion.
        return same_json(new, self._stored(old).manifest())

    def remove(self, old: Record) -> Record:
        """Remove an object, and return its last content under the revision of its removal."""
        change = Change(self.revision + 1, self._stored(old), None)
        self._commit(change)
        return change.deleted_record()

    def _stored(self, record: Record) -> Record:
        """Return the version of an object that a record of a view, or one that was converted, shows."""
        if record.kind.conversion is None and record.kind.converter is None:
            return record
        return self.cache(record.kind).records[record.key]

    def _commit(self, change: Change) -> None:
        # First on disk: a client must not see a change that a crash could take back. If this raises, nothing
        # has changed.
        if self._journal is not None:
            self._journal.append(change)
        self._compaction.pass_time(self.revision)
        self.revision = change.revision
        cache = self.cache(change.record.kind)
        # The revision moves with the object, in one step: a list can never show an object that is newer than itself.
        cache.apply(change)
        if self._waiting:
            self._wake()
        for observe in self.observers:
            observe(change)
        # Last, for it may write: a change that it makes comes after this one for every subscriber.
        for follow in tuple(cache.after_commit):
            follow(change)

    def _wake(self) -> None:
        for revision, future in self._waiting:
            # A waiter may have timed out, and not run since.
            if revision <= self.revision and not future.done():
                future.set_result(None)

    def compact(self) -> None:
        """Compact the history of all kinds; older watches, pages and versions get 410 from then on."""
        for cache in self._caches.values():
            cache.compact(self.revision)

    async def wait_for_revision(self, revision: int) -> None:
        """Wait until a revision has been reached.

        Raises:
            StatusError: 504, it was not within three seconds.
        """
        if revision <= self.revision:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (revision, future)
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(_REVISION_TIMEOUT_SECONDS):
                await future
        except TimeoutError:
            raise too_large_version(revision, self.revision) from None
        finally:
            self._waiting.remove(waiter)
