"""Negotiated serializers: objects as JSON, YAML or protobuf, whole or their metadata alone.

All is made as JSON first. Tables are in `printers.tables`.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/{response,negotiation/negotiate}.go.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.gojson import encode_json
from kcr_devcluster.apiserver.protocol.responses import JSON, APIResponse, StatusError, Stream
from kcr_devcluster.apiserver.schema import protobuf_encoder
from kcr_devcluster.apiserver.schema.protobuf import UnknownMessageError
from kcr_devcluster.apiserver.storage.records import Change, Record, in_version, in_versions
from kcr_devcluster.yaml_writer import yaml_answer

YAML, PROTOBUF = "application/yaml", "application/vnd.kubernetes.protobuf"
MEDIA_TYPES = (JSON, YAML, PROTOBUF)
_ANY = ("*/*", "application/*", JSON, YAML)
WATCHED = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")
_PARTIAL = "PartialObjectMetadata"
_ERRORS, _NOT_ACCEPTABLE = 400, 406
# Upstream reads its own JSON as YAML, where some characters are refused, and one is the end of a line.
_NOT_IN_YAML, _NEXT_LINES = re.compile(r"[\x7f-\x84\x86-\x9f\ufffe\uffff]"), re.compile(r" *\x85[ \x85]*")
_INITIAL_END = {"k8s.io/initial-events-end": "true"}


class MediaType(NamedTuple):
    """A negotiated media type.

    Attributes:
        transformation: `""`, `Table`, `PartialObjectMetadata` or `PartialObjectMetadataList`.
        version: The version of meta.k8s.io.
        name: `application/json`, `application/yaml` or `application/vnd.kubernetes.protobuf`.
    """

    transformation: str
    version: str = "v1"
    name: str = JSON


@lru_cache(256)
def negotiate(accept: str, *, has_protobuf: bool = True, has_tables: bool = True) -> MediaType:
    """Return the first media type of an Accept header that the server can encode.

    Where the same is also accepted as JSON, it is JSON and not protobuf, although a real server keeps to the order:
    objects are stored as JSON, and clients choose the decoder by the response's header.

    Args:
        accept: The header, empty for none.
        has_protobuf: Whether the objects have a form in protobuf. Their metadata always have one, tables never.
        has_tables: Whether the objects have a form as tables: those that are never stored have none.

    Raises:
        StatusError: 406, no media type can be encoded.
    """
    if not accept or accept in _ANY:
        return MediaType("", name=YAML if accept == YAML else JSON)
    accepted = [one for entry in _by_quality(accept) if (one := _media_type(entry, has_protobuf)) is not None]
    if not has_tables:
        accepted = [one for one in accepted if one.transformation != "Table"]
    if not accepted:
        raise not_acceptable(", ".join(MEDIA_TYPES))
    as_json = accepted[0]._replace(name=JSON)
    return as_json if accepted[0].name == PROTOBUF and as_json in accepted else accepted[0]


def _media_type(entry: str, has_protobuf: bool) -> MediaType | None:
    """Return the media type of an entry of an Accept header, None for one that the server cannot encode."""
    media, *parameters = (part.strip() for part in entry.split(";"))
    if media not in _ANY and media != PROTOBUF:
        return None
    name = media if media in MEDIA_TYPES else JSON
    named = {key: value for key, _, value in (part.partition("=") for part in parameters) if value}
    if named.get("stream", "watch") != "watch":
        return None
    if named.keys().isdisjoint(("as", "g", "v")):
        return MediaType("", name=name) if name != PROTOBUF or has_protobuf else None
    transformation, version = named.get("as", ""), named.get("v", "")
    if not _is_known(transformation, named.get("g", ""), version):
        return None
    if transformation == "Table" and name == PROTOBUF:
        return None
    return MediaType(transformation, version, name)


def not_acceptable(accepted: str) -> StatusError:
    """406: no media type can be encoded."""
    return StatusError(406, "NotAcceptable", f"only the following media types are accepted: {accepted}")


@lru_cache(256)
def check_route(accept: str, *, watched: bool = False, known: tuple[str, ...] = MEDIA_TYPES) -> None:
    """Refuse an Accept header that no representation of a built-in resource matches: of patterns only `*/*` does.

    Args:
        accept: The header, empty for none.
        watched: Whether the resource is one that can be watched, a collection.
        known: The representations.

    Raises:
        StatusError: 406.

    Source: go-restful, jsr311.go, SelectRoute; custom resources have no such routes.
    """
    medias = [entry.partition(";")[0].strip() for entry in accept.split(",")] if accept else ["*/*"]
    if not any(media == "*/*" or media in known for media in medias):
        shown = (*known, *(WATCHED if watched else ()))
        words = f"406: Not Acceptable\n\nAvailable representations: {', '.join(shown)}"
        raise StatusError(_NOT_ACCEPTABLE, "NotAcceptable", words, details={})


def check_transformation(accepted: MediaType, kind: Kind, subresource: str, *, is_list: bool) -> None:
    """Refuse the metadata of one object where a list is sent, and those of a list where it is one object.

    Args:
        accepted: The form that is accepted.
        kind: The kind of the object.
        subresource: The subresource, empty for none.
        is_list: Whether a list is sent.

    Raises:
        StatusError: 406.

    Source: k8s.io/apiserver/pkg/endpoints/handlers/response.go, asPartialObjectMetadata and the like.
    """
    wanted = {_PARTIAL: False, f"{_PARTIAL}List": True}.get(accepted.transformation)
    if wanted is None or wanted is is_list:
        return
    package, name = kind.type.group.partition(".")[0] or "core", kind.type.kind
    if subresource == "scale":
        package, name = "autoscaling" if kind.custom is None else "v1", "Scale"
    elif kind.custom is not None:
        if wanted:
            raise StatusError(500, "", "content is not a list")
        package, name = "unstructured", "Unstructured"
    found = f"{package}.{name}"
    what = f"a list (*{found}List)" if is_list else f"not a list (*{found})"
    words = f"you requested {accepted.transformation}, but the requested object is {what}"
    raise StatusError(_NOT_ACCEPTABLE, "NotAcceptable", words)


def as_accepted(response: APIResponse, accept: str) -> APIResponse:
    """Return a JSON response in YAML or protobuf, if the Accept header asks for one of them.

    Documents that have no form in protobuf stay JSON, and so does the error of a header that cannot be satisfied.
    """
    if response.headers.get("Content-Type") != JSON or (response.status < _ERRORS and not _names_another(accept)):
        return response
    try:
        name = negotiate(accept).name
        if name == PROTOBUF and response.status != _NOT_ACCEPTABLE:
            return _as_protobuf(response)
        return _as_yaml(response) if name == YAML else response
    except StatusError:
        return _indented(response)
    except (RecursionError, UnknownMessageError):
        return response


def _names_another(accept: str) -> bool:
    return YAML in accept or PROTOBUF in accept


def _indented(response: APIResponse) -> APIResponse:
    """Return an error as upstream writes it where it cannot negotiate a form."""
    if response.status < _ERRORS or not isinstance(response.body, bytes):
        return response
    return APIResponse(response.status, response.headers, msgspec.json.format(response.body, indent=2).rstrip())


def _as_yaml(response: APIResponse) -> APIResponse:
    if not isinstance(response.body, bytes):
        return response
    text = response.body.decode()
    if _NOT_IN_YAML.search(text):
        return _as_yaml(StatusError(500, "", "yaml: control characters are not allowed").response())
    text = yaml_answer(msgspec.json.decode(_NEXT_LINES.sub(_folded, text)))
    return APIResponse(response.status, {**response.headers, "Content-Type": YAML}, text.encode())


def _folded(lines: re.Match[str]) -> str:
    return "\\n" * (lines[0].count("\x85") - 1) or " "


def _as_protobuf(response: APIResponse) -> APIResponse:
    if not isinstance(response.body, bytes):
        frames = _Frames(response.body)
        return APIResponse(response.status, {**response.headers, "Content-Type": f"{PROTOBUF};stream=watch"}, frames)
    data = protobuf_encoder.encode(msgspec.json.decode(response.body))
    return APIResponse(response.status, {**response.headers, "Content-Type": PROTOBUF}, data)


class _Frames:
    """A watch in protobuf, made of one in JSON: an iterator over chunks of whole frames."""

    def __init__(self, lines: Stream) -> None:
        self._stream = lines
        self._lines = aiter(lines)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        lines = (await anext(self._lines)).splitlines()
        return b"".join(protobuf_encoder.encode_event(msgspec.json.decode(line)) for line in lines)

    async def aclose(self) -> None:
        """Close the watch."""
        await self._stream.aclose()


def _by_quality(accept: str) -> list[str]:
    entries = accept.split(",")
    return sorted(entries, key=_quality, reverse=True) if ";q=" in accept else entries


def _quality(entry: str) -> float:
    try:
        return float(entry.partition(";q=")[2].partition(";")[0] or 1)
    except ValueError:
        return 1.0


def _is_known(transformation: str, group: str, version: str) -> bool:
    known = ("Table", _PARTIAL, f"{_PARTIAL}List")
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
        return b"".join((head, encode_json(metadata), b',"items":[', items, b"]}\n"))

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
        kept = transformed_metadata(metadata)
        shown = {**self._type, "kind": "PartialObjectMetadataList", "metadata": kept, "items": items}
        return encode_json(shown) + b"\n"

    def _data(self, record: Record) -> bytes:
        return encode_json({**self._type, "metadata": _metadata_of(record.body).metadata})

    def _type_meta(self, kind: Kind) -> dict[str, str]:
        return self._type


def transformed_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a list in another form; Tables and PartialObjectMetadataLists have no shardInfo."""
    return {name: value for name, value in metadata.items() if name != "shardInfo"}


def bookmark_metadata(revision: int, initial_end: bool) -> dict[str, Any]:
    """Return the metadata of a bookmark; `initial_end` marks the end of the initial state."""
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if initial_end:
        metadata["annotations"] = _INITIAL_END
    return {"metadata": metadata}


def event_line(event: str, shown: object) -> bytes:
    """Return one line of a watch."""
    return encode_json({"type": event, "object": shown}) + b"\n"


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
        return self._encoder.encode_list(self._kind, metadata, in_versions(records, self._kind))

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
    return encoder if kind.conversion is None and kind.converter is None else ConvertingEncoder(kind, encoder)
