"""Records: the versions of objects, as encoded bytes beside their typed metadata, and the changes between them."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypedDict

import msgspec

from kcr.api.meta import ObjectMeta
from kcr_devcluster.apiserver.kinds.kind import ZEROS, Kind
from kcr_devcluster.apiserver.protocol.gojson import encode_json
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.shard_selectors import NAMESPACE, fnv1a_64

encode = encode_json
_decode: Callable[[bytes], Manifest] = msgspec.json.Decoder().decode
# The revision of a storage that has seen no change.
FIRST_REVISION = 1
_STORED_HEAD = b'{"apiVersion":"'
_NOT_IN_BODY = ("apiVersion", "kind")
_namespace_hash = lru_cache(1024)(fnv1a_64)


class StoredRow(NamedTuple):
    """A change as a journal stores it: the object's key in its kind and its JSON, None for its removal."""

    revision: int
    key: str
    body: bytes | None


class Record:
    """One version of one object. Records are never changed."""

    __slots__ = ("_fields", "_head", "body", "kind", "metadata", "revision", "uid_hash")

    def __init__(self, kind: Kind, body: bytes, metadata: ObjectMeta, revision: int) -> None:
        self.kind: Kind = kind
        # The object as JSON, metadata first, without apiVersion and kind.
        self.body: bytes = body
        self.metadata: ObjectMeta = metadata
        self.revision: int = revision
        # The fields that field selectors match, beside the names; read from the body for the first selector.
        self._fields: dict[str, str] | None = None
        # The hash of the uid; computed for the first shard selector, and passed on to the next version.
        self.uid_hash: int | None = None

    @property
    def key(self) -> str:
        """The key in the kind's watch cache; its byte order is the order of lists."""
        return key_of(self.metadata.namespace, self.metadata.name)

    @property
    def data(self) -> bytes:
        """The object as JSON, with apiVersion and kind."""
        return self.kind.head + self.body[1:]

    @property
    def stored_body(self) -> bytes:
        """The body as a journal has it: a custom resource with its apiVersion, for its storage version may change."""
        return self.body if self.kind.custom is None else self.kind.stored_head + self.body[1:]

    def manifest(self) -> Manifest:
        """Return the object, decoded again for each call: the caller may change it."""
        return {"kind": self.kind.type.kind, "apiVersion": self.kind.type.api_version, **_decode(self.body)}

    def field(self, path: str) -> str:
        """Return the text of a field as field selectors see it; `""` or a zero where it is missing."""
        if path == "metadata.name":
            return self.metadata.name
        if path == "metadata.namespace":
            return self.metadata.namespace
        # Only for kinds with such selectors, and only once: most objects are never asked.
        if self._fields is None:
            content = _selectable(self.kind, self.body)
            self._fields = {path: _text_at(content, path, location) for path, location in self.kind.fields.items()}
            for name, location in self.kind.field_fallbacks.items():
                self._fields[name] = self._fields[name] or _text_at(content, name, location)
        if path not in self._fields:
            # A field that only another version of a custom resource can select by.
            self._fields[path] = _text_at(_decode(self.body), path, tuple(path.split(".")))
        return self._fields[path]

    def hash_of(self, field: str) -> int:
        """Return the hash of the field that a shard selector names."""
        if field == NAMESPACE:
            return _namespace_hash(self.metadata.namespace)
        if self.uid_hash is None:
            self.uid_hash = fnv1a_64(self.metadata.uid)
        return self.uid_hash

    def with_revision(self, revision: int) -> "Record":
        """Return the same content under another resourceVersion, as DELETED events carry it."""
        # On the bytes: to decode a large object and encode it again would cost far more.
        old, new = f'"resourceVersion":"{self.revision}"', f'"resourceVersion":"{revision}"'
        # The metadata come first, and the resourceVersion before all that clients write: `metadata.in_order`.
        body = self.body.replace(old.encode(), new.encode(), 1)
        metadata = msgspec.structs.replace(self.metadata, resource_version=str(revision))
        return Record(self.kind, body, metadata, revision)


def in_version(record: Record, kind: Kind) -> Record:
    """Return an object as one of a kind that is a view of its kind, or as it is.

    Raises:
        PendingError: A webhook converts it, and has to be called.
        StatusError: 500, the webhook failed.
    """
    if kind.converter is not None:
        return in_versions((record,), kind)[0]
    conversion = kind.conversion
    if conversion is None or record.kind is kind:
        return record
    if conversion.same_fields:
        return Record(kind, record.body, record.metadata, record.revision)
    manifest = record.manifest()
    conversion.from_hub(manifest)
    body = {name: value for name, value in manifest.items() if name not in _NOT_IN_BODY}
    return Record(kind, encode(body), record.metadata, record.revision)


def in_versions(records: Sequence[Record], kind: Kind) -> list[Record]:
    """Return objects as `in_version` does; a webhook converts all of them at once."""
    if kind.converter is None:
        return [in_version(record, kind) for record in records]
    found = kind.converter.converted([record.manifest() for record in records], kind.type.version)
    return [converted_record(old, kind, manifest) for old, manifest in zip(records, found, strict=True)]


def converted_record(record: Record, kind: Kind, manifest: Manifest) -> Record:
    """Return the record of an object that was converted by a webhook."""
    if record.kind.type == kind.type:
        return record if record.kind is kind else Record(kind, record.body, record.metadata, record.revision)
    body = encode({name: value for name, value in manifest.items() if name not in _NOT_IN_BODY})
    # A webhook may change labels and annotations.
    return Record(kind, body, metadata_of(body), record.revision)


class Change:
    """One transition: `old` is None on create, `new` is None on delete.

    `lines` keeps its encoded watch lines, so that each is encoded once for all watchers.
    """

    __slots__ = ("_deleted", "lines", "new", "old", "revision")

    def __init__(self, revision: int, old: Record | None, new: Record | None) -> None:
        self.revision: int = revision
        self.old: Record | None = old
        self.new: Record | None = new
        self._deleted: Record | None = None
        self.lines: dict[str, bytes] = {}
        if old is not None and new is not None:
            # An object keeps its uid.
            new.uid_hash = old.uid_hash

    @property
    def record(self) -> Record:
        """The content after the change, or the last one."""
        record = self.new or self.old
        assert record is not None  # a change has at least one side
        return record

    def deleted_record(self) -> Record:
        """Return the object of a DELETED event: the old content under the new resourceVersion."""
        # Made once for all watchers.
        if self._deleted is None:
            assert self.old is not None  # only a stored object is deleted
            self._deleted = self.old.with_revision(self.revision)
        return self._deleted


def _selectable(kind: Kind, body: bytes) -> Manifest:
    """Return an object with the fields alone that selectors match: a quarter of the time of a whole one."""
    try:
        return _selectable_decoder(kind).decode(body)
    except msgspec.ValidationError:
        # A custom resource may have a value where a selector looks for an object.
        return _decode(body)


@cache
def _selectable_decoder(kind: Kind) -> msgspec.json.Decoder[Manifest]:
    return msgspec.json.Decoder(_type_with((*kind.fields.values(), *kind.field_fallbacks.values())))


def _type_with(locations: Iterable[tuple[str, ...]]) -> Any:
    """Return the type of objects with values at some places alone."""
    inner: dict[str, list[tuple[str, ...]]] = {}
    for first, *rest in locations:
        inner.setdefault(first, []).append(tuple(rest))
    make: Any = TypedDict
    return make("Fields", {name: _type_with(rest) if all(rest) else Any for name, rest in inner.items()}, total=False)


def _text_at(content: Manifest, path: str, location: tuple[str, ...]) -> str:
    value: Any = content
    for step in location:
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return ZEROS.get(path, "") if value is None else str(value)


class _WithMetadata(msgspec.Struct):
    metadata: ObjectMeta


_decode_metadata = msgspec.json.Decoder(_WithMetadata).decode


def metadata_of(body: bytes) -> ObjectMeta:
    """Return the metadata of an object's JSON."""
    return _decode_metadata(body).metadata


def stored_version(body: bytes) -> tuple[str, bytes]:
    """Return the version in which a journal has an object, `""` for none, and the object without it."""
    if not body.startswith(_STORED_HEAD):
        return "", body
    end = body.index(b'"', len(_STORED_HEAD))
    return body[len(_STORED_HEAD) : end].rpartition(b"/")[2].decode(), b"{" + body[end + 2 :]


def key_of(namespace: str, name: str) -> str:
    """Return the key of an object in its cache."""
    return f"{namespace}/{name}" if namespace else name
