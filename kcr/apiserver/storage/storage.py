"""The storage: one resourceVersion counter for all kinds, and per kind a watch cache with its recent history.

Objects are kept as encoded bytes beside their typed metadata. Every transition is synchronous, therefore atomic: to
read, decide and commit without an await in between is a compare-and-swap (optimistic concurrency). A watch cache calls
its subscribers synchronously on every change, in order of resourceVersion, each change exactly once. It keeps the last
10,000 changes: a watch or list at an older resourceVersion gets 410 Expired.
"""

import asyncio
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from kcr.api.meta import ObjectMeta
from kcr.apiserver.kinds.catalogue import ZEROS, Kind
from kcr.apiserver.kinds.strategy import Manifest
from kcr.apiserver.registry.metadata import in_order
from kcr.apiserver.responses import expired, too_large_version

HISTORY = 10_000
_REVISION_TIMEOUT_SECONDS = 3.0
_NOT_IN_BODY = ("metadata", "kind", "apiVersion")
_encode = msgspec.json.Encoder().encode
_decode: Callable[[bytes], Manifest] = msgspec.json.Decoder().decode


class Record:
    """One version of one object. Records are never changed."""

    __slots__ = ("_fields", "_head", "body", "kind", "metadata", "revision")

    def __init__(self, kind: Kind, body: bytes, metadata: ObjectMeta, revision: int) -> None:
        self.kind = kind
        # The object as JSON, metadata first, without apiVersion and kind.
        self.body = body
        self.metadata = metadata
        self.revision = revision
        # What field selectors ask for, beside the names; read out of the body when the first one does.
        self._fields: dict[str, str] | None = None

    @property
    def key(self) -> str:
        """The key in the kind's watch cache; its byte order is the order of lists."""
        return key_of(self.metadata.namespace, self.metadata.name)

    @property
    def data(self) -> bytes:
        """The object as JSON, with apiVersion and kind."""
        return self.kind.head + self.body[1:]

    def manifest(self) -> Manifest:
        """Return the object decoded anew, the caller's to change."""
        return {"kind": self.kind.type.kind, "apiVersion": self.kind.type.api_version, **_decode(self.body)}

    def field(self, path: str) -> str:
        """Return the text of a field as field selectors see it; `""` or a zero where it is missing."""
        if path == "metadata.name":
            return self.metadata.name
        if path == "metadata.namespace":
            return self.metadata.namespace
        if self._fields is None:
            content = _decode(self.body)
            self._fields = {path: _text_at(content, path, location) for path, location in self.kind.fields.items()}
        if path not in self._fields:
            # A field that only another version of a custom resource can select by.
            self._fields[path] = _text_at(_decode(self.body), path, tuple(path.split(".")))
        return self._fields[path]

    def with_revision(self, revision: int) -> "Record":
        """Return the same content under another resourceVersion, as DELETED events carry it."""
        old, new = f'"resourceVersion":"{self.revision}"', f'"resourceVersion":"{revision}"'
        # The metadata come first, and the resourceVersion before all that clients write: `metadata.in_order`.
        body = self.body.replace(old.encode(), new.encode(), 1)
        metadata = msgspec.structs.replace(self.metadata, resource_version=str(revision))
        return Record(self.kind, body, metadata, revision)


def in_version(record: Record, kind: Kind) -> Record:
    """Return an object as one of a kind that is a view of its kind, or as it is."""
    conversion = kind.conversion
    if conversion is None or record.kind is kind:
        return record
    if conversion.same_fields:
        return Record(kind, record.body, record.metadata, record.revision)
    return _changed(record, kind, conversion.from_hub)


def _changed(record: Record, kind: Kind, change: Callable[[Manifest], object]) -> Record:
    manifest = record.manifest()
    change(manifest)
    body = {name: value for name, value in manifest.items() if name not in ("apiVersion", "kind")}
    return Record(kind, _encode(body), record.metadata, record.revision)


class Change:
    """One transition: `old` is None on create, `new` is None on delete.

    `lines` keeps the watch lines made of it, so that each is encoded once for all watchers.
    """

    __slots__ = ("_deleted", "lines", "new", "old", "revision")

    def __init__(self, revision: int, old: Record | None, new: Record | None) -> None:
        self.revision = revision
        self.old = old
        self.new = new
        self._deleted: Record | None = None
        self.lines: dict[str, bytes] = {}

    @property
    def record(self) -> Record:
        """The content after the change, or the last one."""
        record = self.new or self.old
        assert record is not None  # a change has at least one side
        return record

    def deleted_record(self) -> Record:
        """Return the object of a DELETED event: the old content under the new resourceVersion."""
        if self._deleted is None:
            assert self.old is not None  # only what was there departs
            self._deleted = self.old.with_revision(self.revision)
        return self._deleted


Subscriber = Callable[[Change], None]


class WatchCache:
    """Watch cache: all objects of one kind and their recent changes."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.records: dict[str, Record] = {}
        # The keys in order; always exactly those of `records`.
        self.keys: list[str] = []
        # Changes in order of their revision, at most HISTORY of them.
        self.history: deque[Change] = deque()
        # Everything after this revision is in the history.
        self.compacted_revision = 0
        # A dict for its order: subscribers are called in the order in which they subscribed.
        self.subscribers: dict[Subscriber, None] = {}
        # Called after a change when all subscribers have been, and may write: they see the changes in their order.
        self.after_commit: Subscriber | None = None

    def select(self, namespace: str = "", after: str = "") -> Iterable[Record]:
        """Yield the records of a namespace (empty: of all) in order, those behind the key `after` only."""
        return ordered(self.records, self.keys, namespace, after)

    def changes_since(self, revision: int) -> list[Change]:
        """Return the changes after a revision.

        Raises:
            StatusError: 410, the history does not reach back so far.
        """
        if revision < self.compacted_revision:
            raise expired(f"too old resource version: {revision} ({self.compacted_revision})")
        found = []
        for change in reversed(self.history):
            if change.revision <= revision:
                break
            found.append(change)
        return found[::-1]

    def snapshot_at(self, revision: int) -> tuple[dict[str, Record], list[str]]:
        """Return records and ordered keys as they were at a revision.

        Raises:
            StatusError: 410, the history does not reach back so far.
        """
        changes = self.changes_since(revision)
        if not changes:
            return self.records, self.keys
        records = dict(self.records)
        for change in reversed(changes):
            key = change.record.key
            if change.old is None:
                records.pop(key, None)
            else:
                records[key] = change.old
        return records, sorted(records)

    def compact(self, revision: int) -> None:
        """Drop the history up to a revision; older watches and lists get 410 from then on."""
        while self.history and self.history[0].revision <= revision:
            self.history.popleft()
        self.compacted_revision = max(self.compacted_revision, revision)

    def install(self, kind: Kind, revision: int) -> None:
        """Keep the objects as those of another kind of the same name: a definition changed.

        Its defaults apply to what was stored before. Older watches get 410 where the history cannot be shown so.

        Args:
            kind: The kind from now on.
            revision: The newest of the storage.
        """
        before, self.kind = self.kind, kind
        if before.type.version != kind.type.version or before.fields != kind.fields:
            self.compact(revision)
        change = kind.shape.conform if before.openapi_schema != kind.openapi_schema else bool
        self.records = {key: _changed(record, kind, change) for key, record in self.records.items()}

    def apply(self, change: Change) -> None:
        """Apply one change, and call the subscribers."""
        key = change.record.key
        if change.new is None:
            del self.records[key]
            del self.keys[bisect_left(self.keys, key)]
        else:
            if change.old is None:
                insort(self.keys, key)
            self.records[key] = change.new
        self.history.append(change)
        if len(self.history) > HISTORY:
            self.compacted_revision = self.history.popleft().revision
        for subscriber in tuple(self.subscribers):
            subscriber(change)
        # All watchers have their line by now; the history keeps no second copy of every object.
        change.lines.clear()


class Storage:
    """The watch caches of all kinds, and the resourceVersion counter."""

    def __init__(self) -> None:
        # The resourceVersion of the newest change of any kind; never reused.
        self.revision = 1
        self._caches: dict[str, WatchCache] = {}
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def cache(self, kind: Kind) -> WatchCache:
        """Return the watch cache of a kind."""
        kind = kind.stored
        name = kind.type.display
        cache = self._caches.get(name)
        if cache is None:
            cache = self._caches[name] = WatchCache(kind)
        return cache

    def install(self, kind: Kind) -> None:
        """Store the objects of a kind that a definition makes, as the definition has it now."""
        cache = self._caches.get(kind.type.display)
        if cache is None:
            # There may have been objects of such a kind before, and they are not these.
            self.cache(kind).compact(self.revision)
        else:
            cache.install(kind, self.revision)

    def drop(self, kind: Kind) -> None:
        """Forget a kind that has no objects any more."""
        del self._caches[kind.type.display]

    def get(self, kind: Kind, namespace: str, name: str) -> Record | None:
        """Return the newest version of an object, or None."""
        return self.cache(kind).records.get(key_of(namespace, name))

    def build_record(self, kind: Kind, manifest: Manifest, revision: int) -> Record:
        """Return the record that a manifest would be at a revision; 0 writes no resourceVersion."""
        metadata = in_order({**manifest["metadata"], "resourceVersion": str(revision)})
        if not revision:
            del metadata["resourceVersion"]
        rest = {name: value for name, value in manifest.items() if name not in _NOT_IN_BODY}
        body = _encode({"metadata": metadata, **rest})
        return Record(kind, body, msgspec.convert(metadata, ObjectMeta), revision)

    def put(self, kind: Kind, manifest: Manifest, old: Record | None) -> Record:
        """Store a new object, or a new version of `old`; those of a view are converted."""
        if kind.conversion is not None:
            kind.conversion.to_hub(manifest)
            kind, old = kind.stored, old and self._stored(old)
        record = self.build_record(kind, manifest, self.revision + 1)
        self._commit(Change(record.revision, old, record))
        return record

    def remove(self, old: Record) -> Record:
        """Remove an object, and return its last content under the revision of its removal."""
        change = Change(self.revision + 1, self._stored(old), None)
        self._commit(change)
        return change.deleted_record()

    def _stored(self, record: Record) -> Record:
        """Return the version of an object that a record of a view shows."""
        return record if record.kind.conversion is None else self.cache(record.kind).records[record.key]

    def _commit(self, change: Change) -> None:
        self.revision = change.revision
        cache = self.cache(change.record.kind)
        cache.apply(change)
        if self._waiting:
            self._wake()
        if cache.after_commit is not None:
            cache.after_commit(change)

    def _wake(self) -> None:
        for revision, future in self._waiting:
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


def _text_at(content: Manifest, path: str, location: tuple[str, ...]) -> str:
    value: Any = content
    for step in location:
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return ZEROS.get(path, "") if value is None else str(value)


def key_of(namespace: str, name: str) -> str:
    """Return the key of an object in its cache."""
    return f"{namespace}/{name}" if namespace else name


def ordered(records: dict[str, Record], keys: list[str], namespace: str, after: str) -> Iterable[Record]:
    """Yield records in the order of their keys: those of one namespace, and behind one key."""
    prefix = f"{namespace}/" if namespace else ""
    start = bisect_left(keys, max(prefix, after))
    for position in range(start, len(keys)):
        key = keys[position]
        if not key.startswith(prefix):
            return
        if key != after:
            yield records[key]
