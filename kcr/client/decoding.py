"""Answers to values: pages, watch lines and errors, and what to do with an object that does not fit its type.

One bad object must not hide the others (ST-6), so pages and events that are refused as a whole are looked at
again object by object. Of the bad one, what names it is kept.
"""

import re
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar, cast

import msgspec

from kcr.api import codec
from kcr.api.codec import WatchEvent
from kcr.api.meta import Key, ListMeta, Object, ObjectMeta, Resource, Status
from kcr.errors import ApiError, Cause, TransportError, error_for

R = TypeVar("R", bound=Resource)

# Code, agent, and the text between quotes, in which a backslash takes the next character as it is.
_WARNING = re.compile(r'(?:^|,)\s*299 \S+ "((?:[^"\\]|\\.)*)"')


class Refused(NamedTuple):
    """An object that does not fit its type, as far as it could be read.

    Attributes:
        type: The type of the watch event it came in, `""` when it came in a list.
        metadata: Name, namespace, uid, resourceVersion and annotations; nothing else.
        why: The path in the object, and what is wrong there.
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
    refused: tuple[Refused, ...] = ()


class _Identity(Object):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: Mapping[str, str] = {}


class _Named(Object):
    metadata: _Identity = _Identity()


class _Envelope(Object):
    type: str
    object: msgspec.Raw = msgspec.Raw(b"{}")


class _RawItems(Object):
    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] | None = None


def read_object(kind: type[R], body: bytes) -> R:
    """Decode the object in the answer to a call.

    Raises:
        ApiError: The server's object does not fit the type; the message has the path.
    """
    try:
        return codec.decode(kind, body)
    except msgspec.DecodeError as error:
        raise misfit(kind, error) from error


def misfit(kind: type[Resource], error: msgspec.DecodeError) -> ApiError:
    """Return the error that says that an answer does not fit the type it was asked as."""
    return ApiError(200, "", f"{kind.resource.display}: the server's answer does not fit {kind.__name__}: {error}")


def read_page(kind: type[R], body: bytes) -> Page[R]:
    """Decode one page of a list; objects that do not fit are set apart.

    Raises:
        ApiError: The answer is no list at all.
    """
    try:
        return Page(*codec.decode_items(kind, body))
    except msgspec.ValidationError:
        pass
    except msgspec.DecodeError as error:
        raise misfit(kind, error) from error
    try:
        page = codec.decoder(_RawItems).decode(body)
    except msgspec.DecodeError as error:
        raise misfit(kind, error) from error
    objects: list[R] = []
    refused: list[Refused] = []
    for raw in page.items or ():
        try:
            objects.append(codec.decode(kind, raw))
        except msgspec.DecodeError as error:
            refused.append(_refused("", raw, error))
    return Page(page.metadata, tuple(objects), tuple(refused))


def read_event(kind: type[R], line: bytes) -> WatchEvent[R] | Refused:
    """Decode one line of a watch.

    A BOOKMARK of a kind with required fields comes as an event whose object has only metadata, and so does
    the DELETED of an object that does not fit: of both, nothing else counts.

    Raises:
        ApiError: The line is an ERROR event; this is what its Status says.
        TransportError: The line is no JSON: the stream broke off inside it.
    """
    try:
        event = codec.decode_event(kind, line)
    except msgspec.ValidationError as error:
        return _second_look(kind, line, error)
    except msgspec.DecodeError as error:
        raise TransportError(f"{kind.resource.display}: the watch broke off inside a line: {error}") from error
    if event.type == "ERROR":
        raise _event_error(line)
    return event


def _second_look(kind: type[R], line: bytes, error: msgspec.ValidationError) -> WatchEvent[R] | Refused:
    try:
        envelope = codec.decoder(_Envelope).decode(line)
    except msgspec.DecodeError:
        raise TransportError(f"{kind.resource.display}: the watch sent no event: {line[:256]!r}") from error
    if envelope.type == "ERROR":
        raise _event_error(line) from None
    refused = _refused(envelope.type, envelope.object, error)
    if envelope.type in ("BOOKMARK", "DELETED"):
        # Not of the kind, but a Resource: nothing but its metadata is looked at.
        return WatchEvent(type=envelope.type, object=cast("R", Resource(metadata=refused.metadata)))
    return refused


def _refused(type_: str, raw: bytes, error: msgspec.DecodeError) -> Refused:
    try:
        found = codec.decoder(_Named).decode(raw).metadata
    except msgspec.DecodeError:
        found = _Identity()
    metadata = ObjectMeta(
        name=found.name, namespace=found.namespace, uid=found.uid,
        resource_version=found.resource_version, annotations=found.annotations,
    )  # fmt: skip
    return Refused(type_, metadata, str(error))


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
        headers: The answer's headers; `retry-after` goes before what the Status says.
    """
    details = status.details
    causes = tuple(Cause(c.field, c.reason, c.message) for c in (details.causes if details else None) or ())
    after = retry_after(headers) or float(details.retry_after_seconds if details else 0)
    message = status.message or status.reason or f"HTTP {code}"
    return error_for(status.code or code, status.reason, message, causes=causes, retry_after_seconds=after)


def error_from(code: int, headers: Mapping[str, str], body: bytes, target: str = "") -> ApiError:
    """Return the error that an answer of 300 and above stands for, whatever its body is.

    Args:
        code: The HTTP status code.
        headers: The answer's headers.
        body: A Status, mostly; or the page of some proxy.
        target: What was asked for, to name a kind that the server does not have.
    """
    try:
        status = codec.decode(Status, body)
    except msgspec.DecodeError:
        status = Status()
    if code == 404 and target.startswith("/api") and not (status.details and status.details.name):
        # For an unknown group the server sends a page, for an unknown resource a Status that names nothing.
        path = target.partition("?")[0]
        status = Status(
            reason=status.reason,
            message=f"HTTP 404: the server does not know {path}; is the kind installed there, and are its "
            "api_version, plural and namespace right?",
        )
    if not (status.message or status.reason):
        said = body[:256].decode(errors="replace").strip()
        status = Status(message=f"HTTP {code}: {said}" if said else f"HTTP {code}")
    return error_of(status, code, headers)


def warnings_in(header: str) -> list[str]:
    """Return the texts of a Warning header, without those that are not the server's own (code 299).

    Source: apimachinery/pkg/util/net/http.go, ParseWarningHeaders.
    """
    return [re.sub(r"\\(.)", r"\1", text) for text in _WARNING.findall(header)]


def retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds of a Retry-After header, 0 when it is absent or a date."""
    text: Any = headers.get("retry-after", "")
    return float(text) if text.isdigit() else 0.0
