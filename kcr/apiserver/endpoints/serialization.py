"""Negotiated serializers: objects as JSON or YAML, whole or their metadata alone. Tables are in `printers.tables`.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/{response,negotiation/negotiate}.go.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import yaml

from kcr.apiserver.kinds.catalogue import Kind
from kcr.apiserver.responses import JSON, APIResponse, StatusError
from kcr.apiserver.storage.records import Change, Record, in_version

_YAML = "application/yaml"
_ANY = ("*/*", "application/*", "application/json", _YAML)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_INITIAL_END = {"k8s.io/initial-events-end": "true"}


class MediaType(NamedTuple):
    """A negotiated media type.

    Attributes:
        transformation: `""`, `Table`, `PartialObjectMetadata` or `PartialObjectMetadataList`.
        version: The version of meta.k8s.io.
        yaml: Whether as YAML, not JSON.
    """

    transformation: str
    version: str = "v1"
    yaml: bool = False


def negotiate(accept: str) -> MediaType:
    """Return the first media type of an Accept header that the server can encode.

    Protobuf is passed over where JSON is also accepted: clients choose the decoder by the response's header.

    Raises:
        StatusError: 406, no media type can be encoded.
    """
    if not accept or accept in _ANY:
        return MediaType("", yaml=accept == _YAML)
    for entry in _by_quality(accept):
        media, *parameters = (part.strip() for part in entry.split(";"))
        if media not in _ANY:
            continue
        named = dict(part.split("=", 1) for part in parameters if "=" in part)
        transformation = named.get("as", "")
        if not transformation:
            return MediaType("", yaml=media == _YAML)
        if _is_known(transformation, named.get("g", ""), named.get("v", "v1")):
            return MediaType(transformation, named.get("v", "v1"), yaml=media == _YAML)
    raise not_acceptable("application/json, application/yaml")


def not_acceptable(accepted: str) -> StatusError:
    """406: no media type can be encoded."""
    return StatusError(406, "NotAcceptable", f"only the following media types are accepted: {accepted}")


def as_yaml(response: APIResponse, accept: str) -> APIResponse:
    """Return an response in YAML, if that is what the Accept header asks for first; streams are never."""
    if _YAML not in accept or not isinstance(response.body, bytes) or response.headers.get("Content-Type") != JSON:
        return response
    try:
        if not negotiate(accept).yaml:
            return response
        value = msgspec.json.decode(response.body)
        text = yaml.dump(value, Dumper=_DUMPER, default_flow_style=False, allow_unicode=True)
    except (StatusError, RecursionError):
        # The error of an Accept header that cannot be satisfied is sent in JSON.
        return response
    return APIResponse(response.status, {**response.headers, "Content-Type": _YAML}, text.encode())


def _by_quality(accept: str) -> list[str]:
    entries = accept.split(",")
    return sorted(entries, key=_quality, reverse=True) if ";q=" in accept else entries


def _quality(entry: str) -> float:
    try:
        return float(entry.partition(";q=")[2].partition(";")[0] or 1)
    except ValueError:
        return 1.0


def _is_known(transformation: str, group: str, version: str) -> bool:
    known = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
    return transformation in known and group == "meta.k8s.io" and version in ("v1", "v1beta1")


class ObjectEncoder:
    """Encodes the objects of one response, as they are; the lines of a watch once for all watchers."""

    # Tells the lines of this encoding from others of the same change.
    _encoding = ""

    def encode_object(self, record: Record) -> bytes:
        """Return the body with one object."""
        return self._data(record) + b"\n"

    def encode_list(self, kind: Kind, metadata: Mapping[str, Any], records: Sequence[Record]) -> bytes:
        """Return the body with a list; items of built-in kinds have neither kind nor apiVersion."""
        head = f'{{"kind":"{kind.list_kind}","apiVersion":"{kind.type.api_version}","metadata":'.encode()
        if kind.custom is None:
            items = b",".join(record.body for record in records)
        else:
            items = b",".join(record.data for record in records)
            metadata = {"continue": "", **metadata}
        return b"".join((head, msgspec.json.encode(metadata), b',"items":[', items, b"]}\n"))

    def encode_event(self, event: str, record: Record, change: Change | None) -> bytes:
        """Return the line of a watch event; `change` is None for the initial state."""
        lines = {} if change is None else change.lines
        key = event + self._encoding
        if key not in lines:
            lines[key] = b'{"type":"%s","object":%s}\n' % (event.encode(), self._data(record))
        return lines[key]

    def encode_bookmark(self, kind: Kind, revision: int, *, initial_end: bool) -> bytes:
        """Return the line that has nothing but a resourceVersion."""
        return event_line("BOOKMARK", {**self._type_meta(kind), **bookmark_metadata(revision, initial_end)})

    def _data(self, record: Record) -> bytes:
        return record.data

    def _type_meta(self, kind: Kind) -> dict[str, str]:
        return {"kind": kind.type.kind, "apiVersion": kind.type.api_version}


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw


_metadata_of = msgspec.json.Decoder(_Metadata).decode


class MetadataEncoder(ObjectEncoder):
    """Encodes objects as PartialObjectMetadata."""

    def __init__(self, version: str) -> None:
        self._type = {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}"}
        self._encoding = f" {version}"

    def encode_list(self, kind: Kind, metadata: Mapping[str, Any], records: Sequence[Record]) -> bytes:
        """Return the list of metadata."""
        items = [msgspec.Raw(self._data(record)) for record in records]
        shown = {**self._type, "kind": "PartialObjectMetadataList", "metadata": metadata, "items": items}
        return msgspec.json.encode(shown) + b"\n"

    def _data(self, record: Record) -> bytes:
        return msgspec.json.encode({**self._type, "metadata": _metadata_of(record.body).metadata})

    def _type_meta(self, kind: Kind) -> dict[str, str]:
        return self._type


def bookmark_metadata(revision: int, initial_end: bool) -> dict[str, Any]:
    """Return the metadata of a bookmark; `initial_end` marks the end of the initial state."""
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if initial_end:
        metadata["annotations"] = _INITIAL_END
    return {"metadata": metadata}


def event_line(event: str, shown: object) -> bytes:
    """Return one line of a watch."""
    return msgspec.json.encode({"type": event, "object": shown}) + b"\n"


class ConvertingEncoder(ObjectEncoder):
    """Objects converted to another version, in one of the other encodings."""

    def __init__(self, kind: Kind, encoder: ObjectEncoder) -> None:
        self._kind = kind
        self._encoder = encoder

    def encode_object(self, record: Record) -> bytes:
        """Return the object."""
        return self._encoder.encode_object(self._shown(record))

    def encode_list(self, kind: Kind, metadata: Mapping[str, Any], records: Sequence[Record]) -> bytes:
        """Return the list."""
        return self._encoder.encode_list(self._kind, metadata, [self._shown(record) for record in records])

    def encode_event(self, event: str, record: Record, change: Change | None) -> bytes:
        """Return the line; the lines that watchers share are in the storage version."""
        return self._encoder.encode_event(event, self._shown(record), None)

    def encode_bookmark(self, kind: Kind, revision: int, *, initial_end: bool) -> bytes:
        """Return the bookmark as an object of the version."""
        return self._encoder.encode_bookmark(self._kind, revision, initial_end=initial_end)

    def _shown(self, record: Record) -> Record:
        return in_version(record, self._kind)


def encoder_of(kind: Kind, encoder: ObjectEncoder) -> ObjectEncoder:
    """Return an encoder that shows objects in the version of a kind."""
    return encoder if kind.conversion is None else ConvertingEncoder(kind, encoder)
