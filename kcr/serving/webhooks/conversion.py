"""The answer to a ConversionReview.

All objects of a review are converted or none. A required field that an object lacks has its zero value, as in Go: the
server converts parts of objects, too. Metadata that kcr has no field for, such as managed fields, is kept.
Other fields that the class of the source version lacks are dropped, as in Go: an object that the API server has pruned
with the schema of the class has none.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec.structs import fields

from kcr.api import codec
from kcr.api.meta import Object, Resource
from kcr.serving.webhooks.converters import MUTABLE, ConversionError, Conversions
from kcr.serving.webhooks.review import bad_request

T = TypeVar("T")

Fields = dict[str, msgspec.Raw]

API_VERSION = "apiextensions.k8s.io/v1"
PATH = "/convert"
# Written by kcr's leader, and by cert-manager: `<namespace>/<Secret>`, `<namespace>/<Certificate>`.
INJECT_CA, CERT_MANAGER = "kcr.dev/inject-ca-from", "cert-manager.io/inject-ca-from"

_ZEROS: Mapping[Any, Any] = {
    str: "", bytes: b"", int: 0, float: 0.0, bool: False, tuple: (), dict: {}, Any: None,
    datetime: datetime(1, 1, 1, tzinfo=UTC),
}  # fmt: skip


class _Request(Object):
    uid: str
    desired_api_version: str = msgspec.field(name="desiredAPIVersion")
    objects: tuple[msgspec.Raw, ...]


class _Review(Object):
    """A ConversionReview as the API server sends it."""

    api_version: str
    kind: str
    request: _Request


class _Head(Object):
    api_version: str
    kind: str
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


async def answer_review(kinds: Mapping[tuple[str, str], Conversions], body: bytes) -> bytes:
    """Return the ConversionReview that answers one.

    An object that cannot be converted fails the review; the client receives the message of its result.

    Args:
        kinds: The conversions by group and kind.
        body: The request's body.

    Raises:
        BadRequestError: The body is not a ConversionReview.

    Source: controller-runtime/pkg/webhook/conversion/conversion.go, ServeHTTP.
    """
    try:
        review = codec.decode(_Review, body)
    except msgspec.DecodeError as error:
        raise bad_request(f"no ConversionReview: {error}") from error
    if (review.api_version, review.kind) != (API_VERSION, "ConversionReview"):
        raise bad_request(f"{review.api_version} {review.kind} is not a ConversionReview of {API_VERSION}")
    response: dict[str, Any] = {"uid": review.request.uid, "convertedObjects": [], "result": {"status": "Success"}}
    try:
        desired = review.request.desired_api_version
        response["convertedObjects"] = [_one(kinds, data, desired) for data in review.request.objects]
    except ConversionError as error:
        response["result"] = {"status": "Failure", "message": str(error)}
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": review.kind, "response": response})


class WebhookService(NamedTuple):
    """The Service of webhooks, and who writes the `caBundle` of the manifests that refer to it.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        secret: The Secret of the certificate, or cert-manager's Certificate, in the same namespace; empty for the
            Service's name.
        cert_manager: Whether cert-manager writes the `caBundle`, and not kcr.
    """

    namespace: str = "default"
    name: str = "kcr-webhooks"
    secret: str = ""
    cert_manager: bool = False

    def annotations(self) -> dict[str, str]:
        """Return the annotation that asks for a `caBundle`."""
        return {CERT_MANAGER if self.cert_manager else INJECT_CA: f"{self.namespace}/{self.secret or self.name}"}

    def client_config(self, path: str) -> dict[str, Any]:
        """Return a `clientConfig` of a path."""
        return {"service": {"namespace": self.namespace, "name": self.name, "path": path}}


def _one(kinds: Mapping[tuple[str, str], Conversions], data: msgspec.Raw, desired: str) -> msgspec.Raw:
    head = _decode(_Head, data, "an object")
    (group, _, given), (other, _, wanted) = (one.rpartition("/") for one in (head.api_version, desired))
    conversions = kinds.get((group, head.kind))
    if conversions is None or group != other:
        raise ConversionError(f"no conversion of {head.api_version} {head.kind} to {desired} is registered")
    source, target = conversions.version(given), conversions.version(wanted)
    if source is target:
        return data
    old = _decode_version(source, data)
    new = conversions.convert(old, target)
    try:
        written = msgspec.json.decode(codec.encode(new), type=Fields)
    except (TypeError, ValueError) as error:
        raise ConversionError(f"{target.resource.version} {head.kind} {new.key}: no JSON: {error}") from error
    return msgspec.Raw(msgspec.json.encode(written | {"metadata": _metadata(head.metadata, old, new)}))


def _decode(kind: type[Any], data: msgspec.Raw, what: str) -> Any:
    try:
        return codec.decode(kind, bytes(data))
    except msgspec.DecodeError as error:
        raise ConversionError(f"{what}: {error}") from error


def _decode_version(kind: type[Resource], data: msgspec.Raw) -> Resource:
    """Return an object, or a part of one: for server-side apply, parts are converted as well."""
    try:
        return codec.decode(kind, bytes(data))
    except msgspec.DecodeError as error:
        try:
            return decode_partial(kind, bytes(data))
        except msgspec.DecodeError:
            raise ConversionError(f"{kind.resource.version} {kind.resource.kind}: {error}") from error


def _metadata(raw: msgspec.Raw, old: Resource, new: Resource) -> msgspec.Raw:
    kept = msgspec.json.decode(raw, type=Fields)
    for name in MUTABLE:
        if getattr(old.metadata, name) != getattr(new.metadata, name):
            kept[name] = msgspec.Raw(codec.encode(getattr(new.metadata, name)))
    return msgspec.Raw(msgspec.json.encode(kept))


def decode_partial(kind: type[T], data: bytes) -> T:
    """Return a value whose required fields may be missing in the JSON; a zero value is not validated.

    Raises:
        msgspec.DecodeError: A field does not fit its type, or a missing one has no zero value.
    """
    try:
        found: T = _decoded(kind, data)
    except msgspec.DecodeError:
        raise
    except Exception as error:
        # Of a `__post_init__`, say, that takes no zero values.
        raise msgspec.ValidationError(f"{type(error).__name__}: {error}") from error
    return found


class _Type(NamedTuple):
    """A type without annotations and None: `plain` is a class, `tuple`, or a mapping of `items`."""

    plain: Any
    items: Any
    has_null: bool


def _type_of(kind: Any) -> _Type:
    if get_origin(kind) is Annotated:
        return _type_of(get_args(kind)[0])
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType) and NoneType in arguments:
        (plain, items, _) = _type_of(next(one for one in arguments if one is not NoneType))
        return _Type(plain, items, has_null=True)
    if origin is tuple and arguments[-1] is Ellipsis:
        return _Type(tuple, arguments[0], has_null=False)
    if origin in (dict, Mapping):
        return _Type(dict, arguments[1], has_null=False)
    return _Type(str if origin is Literal else kind, None, has_null=False)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _decoded(kind: Any, data: bytes) -> Any:
    wanted = _type_of(kind)
    if data == b"null":
        return codec.decoder(kind).decode(data)
    if _is_struct(wanted.plain):
        given = codec.decoder(Fields).decode(data)
        found = {}
        for one in fields(wanted.plain):
            if one.encode_name in given:
                found[one.name] = _decoded(one.type, bytes(given[one.encode_name]))
            elif one.required:
                found[one.name] = _zero(one.type, one.encode_name)
        return wanted.plain(**found)
    if wanted.plain is tuple:
        return tuple(_decoded(wanted.items, bytes(one)) for one in codec.decoder(list[msgspec.Raw]).decode(data))
    if wanted.plain is dict:
        members = codec.decoder(Fields).decode(data)
        return {name: _decoded(wanted.items, bytes(one)) for name, one in members.items()}
    return codec.decoder(kind).decode(data)


def _zero(kind: Any, name: str) -> Any:
    wanted = _type_of(kind)
    if wanted.has_null:
        return None
    if _is_struct(wanted.plain):
        return _decoded(wanted.plain, b"{}")
    if wanted.plain not in _ZEROS:
        raise msgspec.ValidationError(f"Object missing required field `{name}`")
    return _ZEROS[wanted.plain]
