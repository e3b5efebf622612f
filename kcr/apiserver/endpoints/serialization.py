"""The forms in which objects are shown: as they are, or as their metadata alone. Tables are in `tables`.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/{response,negotiation/negotiate}.go.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import yaml

from kcr.apiserver.kinds.catalogue import Kind, View
from kcr.apiserver.responses import JSON, Answer, RefusedError
from kcr.apiserver.storage.storage import Change, Record

_YAML = "application/yaml"
_ANY = ("*/*", "application/*", "application/json", _YAML)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_INITIAL_END = {"k8s.io/initial-events-end": "true"}


class Form(Protocol):
    """How one answer shows objects. One form serves one request."""

    def one(self, record: Record) -> bytes:
        """Return the body that shows one object."""
        ...

    def many(self, kind: Kind, metadata: Mapping[str, Any], records: Sequence[Record]) -> bytes:
        """Return the body that shows a list."""
        ...

    def event(self, event: str, record: Record, change: Change | None) -> bytes:
        """Return the line of a watch; `change` is None for the state at its start."""
        ...

    def bookmark(self, kind: Kind, revision: int, *, initial_end: bool) -> bytes:
        """Return the line that carries nothing but a resourceVersion."""
        ...


class Wanted(NamedTuple):
    """What the Accept header asks for.

    Attributes:
        transformation: `""`, `Table`, `PartialObjectMetadata` or `PartialObjectMetadataList`.
        version: The version of meta.k8s.io.
        yaml: Whether as YAML, not JSON.
    """

    transformation: str
    version: str = "v1"
    yaml: bool = False


def wanted(accept: str) -> Wanted:
    """Return the first form of an Accept header that this server has.

    Protobuf is passed over where JSON is also accepted: clients choose the decoder by the answer's header.

    Raises:
        RefusedError: 406, nothing that is asked for can be given.
    """
    if not accept or accept in _ANY:
        return Wanted("", yaml=accept == _YAML)
    for entry in _by_quality(accept):
        media, *parameters = (part.strip() for part in entry.split(";"))
        if media not in _ANY:
            continue
        named = dict(part.split("=", 1) for part in parameters if "=" in part)
        transformation = named.get("as", "")
        if not transformation:
            return Wanted("", yaml=media == _YAML)
        if _is_known(transformation, named.get("g", ""), named.get("v", "v1")):
            return Wanted(transformation, named.get("v", "v1"), yaml=media == _YAML)
    raise not_acceptable("application/json, application/yaml")


def not_acceptable(accepted: str) -> RefusedError:
    """406: nothing that is asked for can be given."""
    return RefusedError(406, "NotAcceptable", f"only the following media types are accepted: {accepted}")


def as_yaml(answer: Answer, accept: str) -> Answer:
    """Return an answer in YAML, if that is what the Accept header asks for first; streams are never."""
    if _YAML not in accept or not isinstance(answer.body, bytes) or answer.headers.get("Content-Type") != JSON:
        return answer
    try:
        if not wanted(accept).yaml:
            return answer
        value = msgspec.json.decode(answer.body)
        text = yaml.dump(value, Dumper=_DUMPER, default_flow_style=False, allow_unicode=True)
    except (RefusedError, RecursionError):
        # Whoever wants what cannot be given is told so in JSON.
        return answer
    return Answer(answer.status, {**answer.headers, "Content-Type": _YAML}, text.encode())


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


class Plain:
    """Objects as they are. Lines of watches are encoded once for all watchers."""

    def one(self, record: Record) -> bytes:
        """Return the object."""
        return record.data + b"\n"

    def many(self, kind: Kind, metadata: Mapping[str, Any], records: Sequence[Record]) -> bytes:
        """Return the list; items of built-in kinds name neither kind nor apiVersion."""
        head = f'{{"kind":"{kind.type.kind}List","apiVersion":"{kind.type.api_version}","metadata":'.encode()
        items = b",".join(record.body for record in records)
        return b"".join((head, msgspec.json.encode(metadata), b',"items":[', items, b"]}\n"))

    def event(self, event: str, record: Record, change: Change | None) -> bytes:
        """Return the line."""
        line = None if change is None else change.lines.get(event)
        if line is None:
            line = b'{"type":"%s","object":%s}\n' % (event.encode(), record.data)
            if change is not None:
                change.lines[event] = line
        return line

    def bookmark(self, kind: Kind, revision: int, *, initial_end: bool) -> bytes:
        """Return the bookmark as an object of the kind."""
        shown = {"kind": kind.type.kind, "apiVersion": kind.type.api_version, **bookmark_members(revision, initial_end)}
        return line_of("BOOKMARK", shown)


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw


_metadata_of = msgspec.json.Decoder(_Metadata).decode


class MetadataOnly:
    """Objects as PartialObjectMetadata. Lines of watches are encoded once for all watchers."""

    def __init__(self, version: str) -> None:
        self._type = {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}"}

    def one(self, record: Record) -> bytes:
        """Return the metadata."""
        return msgspec.json.encode(self._partial(record)) + b"\n"

    def many(self, kind: Kind, metadata: Mapping[str, Any], records: Sequence[Record]) -> bytes:
        """Return the list of metadata."""
        items = [self._partial(record) for record in records]
        shown = {**self._type, "kind": "PartialObjectMetadataList", "metadata": metadata, "items": items}
        return msgspec.json.encode(shown) + b"\n"

    def event(self, event: str, record: Record, change: Change | None) -> bytes:
        """Return the line."""
        name = f"{event} {self._type['apiVersion']}"
        line = None if change is None else change.lines.get(name)
        if line is None:
            line = line_of(event, self._partial(record))
            if change is not None:
                change.lines[name] = line
        return line

    def bookmark(self, kind: Kind, revision: int, *, initial_end: bool) -> bytes:
        """Return the bookmark in the same form."""
        return line_of("BOOKMARK", {**self._type, **bookmark_members(revision, initial_end)})

    def _partial(self, record: Record) -> dict[str, Any]:
        return {**self._type, "metadata": _metadata_of(record.body).metadata}


def bookmark_members(revision: int, initial_end: bool) -> dict[str, Any]:
    """Return the metadata of a bookmark; `initial_end` says that the state at the start is complete."""
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if initial_end:
        metadata["annotations"] = _INITIAL_END
    return {"metadata": metadata}


def line_of(event: str, shown: object) -> bytes:
    """Return one line of a watch."""
    return msgspec.json.encode({"type": event, "object": shown}) + b"\n"


class Viewed:
    """Objects as a view shows them, in one of the other forms."""

    def __init__(self, kind: Kind, view: View, form: Form) -> None:
        self._kind = kind
        self._view = view
        self._form = form

    def one(self, record: Record) -> bytes:
        """Return the object."""
        return self._form.one(self._shown(record))

    def many(self, kind: Kind, metadata: Mapping[str, Any], records: Sequence[Record]) -> bytes:
        """Return the list."""
        return self._form.many(self._kind, metadata, [self._shown(record) for record in records])

    def event(self, event: str, record: Record, change: Change | None) -> bytes:
        """Return the line; it is made anew for each watcher, because those of a change are in the stored version."""
        return self._form.event(event, self._shown(record), None)

    def bookmark(self, kind: Kind, revision: int, *, initial_end: bool) -> bytes:
        """Return the bookmark as an object of the version."""
        return self._form.bookmark(self._kind, revision, initial_end=initial_end)

    def _shown(self, record: Record) -> Record:
        manifest = record.manifest()
        self._view.show(manifest)
        body = {name: value for name, value in manifest.items() if name not in ("apiVersion", "kind")}
        return Record(self._kind, msgspec.json.encode(body), record.metadata, record.revision)


def of_version(kind: Kind, form: Form) -> Form:
    """Return a form that shows objects in the version of a kind."""
    return form if kind.view is None else Viewed(kind, kind.view, form)
