"""Watch cache: the objects of one kind, in order, and their recent changes."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from kcr.api.equality import same_json
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.responses import expired
from kcr_devcluster.apiserver.storage.records import Change, Record, StoredRow, encode, metadata_of, stored_version

HISTORY = 10_000

Subscriber = Callable[[Change], None]


class WatchCache:
    """Watch cache: all objects of one kind and their recent changes."""

    def __init__(self, kind: Kind) -> None:
        self.kind: Kind = kind
        self.records: dict[str, Record] = {}
        # The keys in order; always exactly those of `records`.
        self.keys: list[str] = []
        # Changes in order of their revision, at most HISTORY of them.
        self.history: deque[Change] = deque()
        # Everything after this revision is in the history.
        self.compacted_revision: int = 0
        # A dict for its order: subscribers are called in the order in which they subscribed.
        self.subscribers: dict[Subscriber, None] = {}
        # Called after a change when all subscribers have been, and may write: they see the changes in their order.
        self.after_commit: dict[Subscriber, None] = {}

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
        # From the newest: watches mostly resume from a moment ago, and the history may have 10,000 changes.
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
        # Undone from the present, the newest change first. Records are never changed, so old lists stay valid.
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

        Its pruning and its defaults apply to the objects stored before, without a change that a watch could send. So
        older watches and lists get 410, as upstream, where a watch cache of the new kind begins with its own list.

        Args:
            kind: The kind from now on.
            revision: The newest of the storage.
        """
        self.kind = kind
        self.compact(revision)
        for key, record in self.records.items():
            stored = _stored_kind(kind, record.kind.type.version, record.kind)
            same = same_json(record.kind.openapi_schema, stored.openapi_schema)
            body = record.body if same else _conformed(record, stored)
            self.records[key] = Record(stored, body, record.metadata, record.revision)

    def restore(self, rows: Iterable[StoredRow], compacted_revision: int) -> None:
        """Load the kind's rows from a journal, before any other change.

        Args:
            rows: In order of revision.
            compacted_revision: Changes up to this one are no history.
        """
        self.compacted_revision = compacted_revision
        for revision, key, row in rows:
            old, new = self.records.pop(key, None), None
            if row is not None:
                version, body = stored_version(row)
                # A version that has left the definition too early: its objects cannot be read until it is back.
                missing = replace(self.kind, type=self.kind.type._replace(version=version))
                kind = _stored_kind(self.kind, version, missing)
                new = Record(kind, body, metadata_of(body), revision)
                if kind.custom is not None and kind is not missing:
                    # The definition may have changed since.
                    new = Record(kind, _conformed(new, kind), new.metadata, revision)
                self.records[key] = new
            if revision > compacted_revision:
                self.history.append(Change(revision, old, new))
        self.keys = sorted(self.records)

    def apply(self, change: Change) -> None:
        """Apply one change, and call the subscribers."""
        key = change.record.key
        if change.new is None:
            del self.records[key]
            # Invariant: `keys` is sorted and has exactly the keys of `records`; lists page through it by position.
            del self.keys[bisect_left(self.keys, key)]
        else:
            if change.old is None:
                insort(self.keys, key)
            self.records[key] = change.new
        self.history.append(change)
        if len(self.history) > HISTORY:
            # A watch from before this revision would miss the change that leaves, and gets 410 instead.
            self.compacted_revision = self.history.popleft().revision
        # A copy: a subscriber may end its watch when it is called.
        for subscriber in tuple(self.subscribers):
            subscriber(change)
        # All watchers have their line by now; the history keeps no second copy of every object.
        change.lines.clear()


def _stored_kind(kind: Kind, version: str, other: Kind) -> Kind:
    """Return the kind of an object that was stored in a version.

    Args:
        kind: The kind that is stored now. Without a webhook, all objects are taken for objects of it.
        version: The version; `""` for an unknown one.
        other: The kind where the definition does not have the version any more.
    """
    return kind if kind.converter is None or not version else kind.converter.kinds.get(version, other)


def _conformed(record: Record, kind: Kind) -> bytes:
    """Return the JSON of an object, pruned and with its defaults, as one of a custom resource's kind."""
    manifest = record.manifest()
    kind.shape.conform(manifest)
    return encode({name: value for name, value in manifest.items() if name not in ("kind", "apiVersion")})


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
