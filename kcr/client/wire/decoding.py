"""Decoding of responses: pages, watch lines, errors, and undecodable objects.

One bad object must not hide the others (ST-6), whatever is wrong with it: a field of another type, a byte that is
no UTF-8, half a surrogate pair, nesting too deep for Python's C stack. So pages and events that are refused as a whole
are decoded again object by object. Of the bad one, its names are kept.

An answer's body decides its value as proof, for a proxy between us and the API server may have written it:

- A success code whose body is not the object that was asked for proves nothing. It raises `TransportError`, as a
  lost reply does: a write may have happened.
- A refusal whose body is a Status is the API server's, and raises the class of its reason.
- Any other refusal raises `ServerError`, whatever its code, with the cause `UnexpectedServerResponse`: no caller may
  conclude from it that an object is missing, exists or has changed, nor that a write did not happen. Three exceptions:
  401 and 429, which the API server's own filters may answer in plain text, keep their classes, and so does the plain
  "404 page not found" to a list or watch, which is how it says that it does not have the group.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar, cast

import msgspec

from kcr.api import codec
from kcr.api.codec import WatchEvent
from kcr.api.durations import parse_int
from kcr.api.meta import Key, ListMeta, Object, ObjectMeta, Resource, Status
from kcr.errors import ApiError, Cause, ForbiddenError, ServerError, TransportError, error_for

R = TypeVar("R", bound=Resource)

# The cause of an error that is not the API server's own.
# Source: apimachinery/pkg/apis/meta/v1/types.go, CauseTypeUnexpectedServerResponse.
UNEXPECTED_RESPONSE = "UnexpectedServerResponse"
# The answer of any server written in Go to a path that it does not know.
_PAGE_NOT_FOUND = b"404 page not found"
# The class of these is chosen by the code, whatever the body is.
_PLAIN_TEXT_CODES = (401, 429)

_MISSING_RIGHT = re.compile(r'User ".*?" cannot (\S+) resource "([^"]+)" in API group "([^"]*)"')
_PLACE = re.compile(r" \(byte \d+\)$")
# Code, agent, and the text between quotes, in which a backslash takes the next character as it is.
_WARNING = re.compile(r'(?:^|,)\s*299 \S+ "((?:[^"\\]|\\.)*)"')


# The names of an object: the field here, the field on the wire and its type.
_IDENTITY: Mapping[str, tuple[bytes, Any]] = {
    "name": (b"name", str),
    "namespace": (b"namespace", str),
    "uid": (b"uid", str),
    "resource_version": (b"resourceVersion", str),
    "annotations": (b"annotations", dict[str, str]),
}


class Undecodable(NamedTuple):
    """An undecodable object, as far as it could be read.

    Attributes:
        type: The type of the watch event it came in, `""` when it came in a list.
        metadata: Name, namespace, uid, resourceVersion and annotations; nothing else.
        why: The path in the object, and the error.
    """

    type: str
    metadata: ObjectMeta
    why: str

    @property
    def key(self) -> Key:
        """The namespace and name of the object."""
        return Key(self.metadata.namespace, self.metadata.name)


class Page(NamedTuple, Generic[R]):
    """One page of a list: the objects that fit their type, and those that do not."""

    metadata: ListMeta
    objects: tuple[R, ...]
    undecodable: tuple[Undecodable, ...] = ()


class _RawItems(Object):
    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] | None


class _Name(Object):
    name: str = ""


class _Named(Object):
    metadata: _Name = _Name()


class _Answer(Object):
    kind: str


class _Status(Status):
    kind: str = ""


def read_object(kind: type[R], body: bytes, name: str = "") -> R:
    """Decode the object in the answer to a call.

    Args:
        kind: The type of the object.
        body: The body of an answer with a success code.
        name: The object's name; empty when the server chooses it, or when the kind has none.

    Raises:
        TransportError: This is not the object; a write may have happened. The message has the path.
    """
    try:
        obj = codec.decode(kind, body)
    except msgspec.DecodeError as error:
        raise unreadable(kind, error) from error
    if name and obj.metadata.name != name:
        raise unreadable(kind, f"it is about {obj.metadata.name or 'nothing'!r}, not about {name!r}")
    return obj


def check_answer(kind: type[Resource], body: bytes) -> None:
    """Check the answer to a write that is answered with an object or a Status, and needs neither.

    Raises:
        TransportError: It is neither; the write may have happened.
    """
    try:
        codec.decode(_Answer, body)
    except msgspec.DecodeError as error:
        raise unreadable(kind, error) from error


def name_in(manifest: bytes) -> str:
    """Return the name that a manifest states; empty when it states none, or cannot be read."""
    try:
        return codec.decode(_Named, manifest).metadata.name
    except msgspec.DecodeError:
        return ""


def metadata_in(manifest: bytes) -> ObjectMeta:
    """Return the metadata of a manifest; the name alone when the rest cannot be read."""
    try:
        return codec.decode(Resource, manifest).metadata
    except msgspec.DecodeError:
        return ObjectMeta(name=name_in(manifest))


def with_name(manifest: bytes, name: str) -> bytes:
    """Return a manifest with a name in its metadata, and all else as it is."""
    return _with_metadata(manifest, "name", name)


def with_version(manifest: bytes, resource_version: str) -> bytes:
    """Return a manifest with another resourceVersion; as it is when it has none."""
    if b'"resourceVersion"' not in manifest or not metadata_in(manifest).resource_version:
        return manifest
    return _with_metadata(manifest, "resourceVersion", resource_version)


def _with_metadata(manifest: bytes, field: str, value: str) -> bytes:
    fields = msgspec.json.decode(manifest, type=dict[str, msgspec.Raw])
    metadata = msgspec.json.decode(fields["metadata"], type=dict[str, msgspec.Raw])
    metadata[field] = msgspec.Raw(msgspec.json.encode(value))
    fields["metadata"] = msgspec.Raw(msgspec.json.encode(metadata))
    return msgspec.json.encode(fields)


def unreadable(kind: type[Resource], why: object) -> TransportError:
    """Return the error for a success response with unexpected contents."""
    return TransportError(f"{kind.resource.display}: the server's answer does not fit {kind.__name__}: {why}")


def read_page(kind: type[R], body: bytes, keeps: Callable[[bytes], bool] | None = None) -> Page[R]:
    """Decode one page of a list; objects that cannot be decoded are set apart.

    Args:
        kind: The type of the objects.
        body: The page.
        keeps: Whether an item is decoded at all; None for all of them.

    Raises:
        TransportError: This is not a list: a proxy's page, perhaps. It must not be taken for an empty one.
    """
    if keeps is None:
        try:
            return Page(*codec.decode_items(kind, body))
        except msgspec.ValidationError:
            pass
        except msgspec.DecodeError as error:
            if not _is_json(body):
                raise unreadable(kind, error) from error
    metadata, items = _raw_items(kind, body)
    objects: list[R] = []
    undecodable: list[Undecodable] = []
    for raw in items:
        try:
            if keeps is None or keeps(raw):
                objects.append(codec.decode(kind, raw))
        except msgspec.DecodeError as error:
            undecodable.append(_undecodable("", raw, error))
    return Page(metadata, tuple(objects), tuple(undecodable))


def _raw_items(kind: type[Resource], body: bytes) -> tuple[ListMeta, Sequence[bytes]]:
    try:
        page = codec.decode(_RawItems, body)
        return page.metadata, tuple(bytes(item) for item in page.items or ())
    except msgspec.DecodeError as error:
        try:
            found = members(body)
            metadata = codec.decode(ListMeta, found.get(b"metadata", b"{}"))
            return metadata, () if found.get(b"items") == b"null" else elements(found.get(b"items", b""))
        except (ValueError, msgspec.DecodeError):
            raise unreadable(kind, error) from error


def read_event(kind: type[R], line: bytes) -> WatchEvent[R] | Undecodable:
    """Decode one line of a watch.

    A BOOKMARK of a kind with required fields comes as an event whose object has only metadata, and so does
    the DELETED of an object that does not fit: of both, nothing else counts.

    Raises:
        ApiError: The line is an ERROR event; the error of its Status.
        TransportError: The line is not JSON: the stream broke off inside it.
    """
    try:
        event = codec.decode_event(kind, line)
    except msgspec.ValidationError as error:
        return _decode_by_parts(kind, line, error)
    except msgspec.DecodeError as error:
        if _is_json(line):
            return _decode_by_parts(kind, line, error)
        raise TransportError(f"{kind.resource.display}: the watch broke off inside a line: {error}") from error
    if event.type == "ERROR":
        raise _event_error(line)
    return event


def _decode_by_parts(kind: type[R], line: bytes, error: msgspec.DecodeError) -> WatchEvent[R] | Undecodable:
    try:
        type_, raw = _raw_event(line)
    except (ValueError, msgspec.DecodeError):
        raise TransportError(f"{kind.resource.display}: the watch sent no event: {line[:256]!r}") from error
    if type_ == "ERROR":
        raise _event_error(line) from None
    undecodable = _undecodable(type_, raw, error)
    if type_ in ("BOOKMARK", "DELETED"):
        # Not of the kind, but a Resource: only its metadata is decoded.
        return WatchEvent(type=type_, object=cast("R", Resource(metadata=undecodable.metadata)))
    return undecodable


def _is_json(document: bytes) -> bool:
    """Return whether a document is complete JSON. Its grammar allows half a surrogate pair, which msgspec refuses."""
    try:
        json.loads(document.decode(errors="replace"))
    except (ValueError, RecursionError):
        return False
    return True


def _raw_event(line: bytes) -> tuple[str, bytes]:
    found = members(line)
    return msgspec.json.decode(found.get(b"type", b""), type=str), found.get(b"object", b"{}")


def _undecodable(type_: str, raw: bytes, error: msgspec.DecodeError) -> Undecodable:
    # Without its place in the document, so that an object that changes has the same error.
    return Undecodable(type_, _identity(raw), _PLACE.sub("", str(error)))


def _identity(raw: bytes) -> ObjectMeta:
    """Return the identity of an object, field by field: one unreadable field hides no other."""
    try:
        metadata = members(members(raw).get(b"metadata", b"{}"))
    except ValueError:
        return ObjectMeta()
    found: dict[str, Any] = {}
    for name, (wire_name, wanted) in _IDENTITY.items():
        text = metadata.get(wire_name, b"").decode(errors="replace")
        # A name that is no text, or annotations nested too deep, are as good as absent.
        with suppress(msgspec.DecodeError, RecursionError):
            found[name] = msgspec.json.decode(text, type=wanted)
    return ObjectMeta(**found)


def _event_error(line: bytes) -> ApiError:
    try:
        status = codec.decode_error_event(line)
    except msgspec.DecodeError:
        return error_for(500, "", f"the watch reported an error: {line[:256].decode(errors='replace')}")
    return error_of(status)


def error_of(status: Status, code: int = 0, headers: Mapping[str, str] = {}) -> ApiError:
    """Return the error that a Status stands for.

    Args:
        status: The server's words.
        code: The HTTP status code, for a Status that has none of its own.
        headers: The response's headers; `retry-after` takes precedence over the Status.
    """
    details = status.details
    causes = tuple(Cause(c.field, c.reason, c.message) for c in (details.causes if details else None) or ())
    after = retry_after(headers) or float(details.retry_after_seconds if details else 0)
    message = status.message or status.reason or f"HTTP {code}"
    return error_for(status.code or code, status.reason, message, causes=causes, retry_after_seconds=after)


def error_from(code: int, headers: Mapping[str, str], body: bytes, method: str = "GET", target: str = "") -> ApiError:
    """Return the error that an answer of 300 and above stands for, whatever its body is; the module has the rule.

    Args:
        code: The HTTP status code.
        headers: The answer's headers.
        body: A Status, mostly; or the page of some proxy.
        method: The request's method.
        target: The requested resource, to name a kind that the server does not serve.
    """
    status = _status_in(body)
    is_page = not status.kind and body.strip() == _PAGE_NOT_FOUND
    names_nothing = bool(status.kind) and not (status.details and status.details.name)
    if code == 404 and target.startswith("/api") and (is_page or names_nothing):
        # For an unknown group the server sends a page, for an unknown resource a Status that names nothing.
        path = target.partition("?")[0]
        status = _Status(
            kind=status.kind,
            reason=status.reason,
            message=f"HTTP 404: the server does not know {path}; is the kind installed there (by its "
            "CustomResourceDefinition, in tests by kinds=[…]), and are its api_version, plural and namespace right?",
        )
    elif not (status.message or status.reason):
        said = body[:256].decode(errors="replace").strip()
        status = _Status(kind=status.kind, message=f"HTTP {code}: {said}" if said else f"HTTP {code}")
    if status.kind or code in _PLAIN_TEXT_CODES or (is_page and method == "GET" and _is_collection(target)):
        return error_of(status, code, headers)
    cause = Cause("", UNEXPECTED_RESPONSE, status.message)
    return ServerError(code, "", status.message, causes=(cause,), retry_after_seconds=retry_after(headers))


def _status_in(body: bytes) -> _Status:
    """Return the Status that a body is; its kind is empty when it is none, and then only its words may count."""
    try:
        status = codec.decode(_Status, body)
    except msgspec.DecodeError:
        return _Status()
    return status if status.kind == "Status" else _Status(message=status.message, details=status.details)


def _is_collection(target: str) -> bool:
    steps = target.partition("?")[0].removeprefix("/").split("/")
    rest = steps[2:] if steps[0] == "api" else steps[3:]
    return len(rest) == 1 or (len(rest) == 3 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"))


def missing_right(error: ApiError) -> tuple[str, str, str] | None:
    """Return verb, resource (with its subresource) and group of the right that a refusal asks for.

    None when it has another reason: quotas and admission refuse with the same code.

    Source: apiserver/pkg/endpoints/handlers/responsewriters/errors.go, forbiddenMessage.
    """
    found = _MISSING_RIGHT.search(error.message) if isinstance(error, ForbiddenError) else None
    return (found[1], found[2], found[3]) if found is not None else None


def warnings_in(header: str) -> list[str]:
    """Return the texts of a Warning header, without those that are not the server's own (code 299).

    Source: apimachinery/pkg/util/net/http.go, ParseWarningHeaders.
    """
    return [re.sub(r"\\(.)", r"\1", text) for text in _WARNING.findall(header)]


def retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds of a Retry-After header, 0 when it is absent or a date."""
    return float(max(0, parse_int(headers.get("retry-after", "")) or 0))


_STRING = rb'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(_STRING + rb"|[{}\[\],]", re.DOTALL)
_MEMBER = re.compile(rb"\s*(" + _STRING + rb")\s*:", re.DOTALL)


def members(document: bytes) -> dict[bytes, bytes]:
    """Split an object into its members: the names without quotes, the values as they stand.

    Raises:
        ValueError: The document is not an object, or ends inside it.
    """
    found: dict[bytes, bytes] = {}
    for part in _parts(document, b"{"):
        name = _MEMBER.match(part)
        if name is None:
            raise ValueError("no JSON: a member without a name")
        found[name[1][1:-1]] = part[name.end() :].strip()
    return found


def elements(document: bytes) -> list[bytes]:
    """Split an array into its elements, as they stand.

    Raises:
        ValueError: The document is no array, or ends inside it.
    """
    return list(_parts(document, b"["))


def _parts(document: bytes, opening: bytes) -> Iterator[bytes]:
    document = document.strip()
    if not document.startswith(opening):
        raise ValueError(f"no JSON: {opening.decode()} expected, found {document[:20]!r}")
    depth, begin = 0, 1
    for token in _TOKEN.finditer(document):
        match token[0]:
            case b"{" | b"[":
                depth += 1
            case b"}" | b"]":
                depth -= 1
                if depth == 0:
                    last = document[begin : token.start()]
                    if last.strip():
                        yield last
                    return
            case b"," if depth == 1:
                yield document[begin : token.start()]
                begin = token.end()
    raise ValueError("no JSON: it ends too early")
