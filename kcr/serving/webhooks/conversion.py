"""Conversion of objects between the versions of a kind: `@kcr.converts`, and the answer to a ConversionReview.

A conversion takes at most two steps: a registered function, or two of them with the hub in between, so n versions need
2·(n-1) functions. A function changes spec, status, labels and annotations, and keeps the other metadata.

All objects of a review are converted or none. A required field that an object lacks has its zero value, as in Go: the
server converts parts of objects, too. Metadata that kcr has no field for, such as managed fields, is kept.
Other fields that the class of the source version lacks are dropped, as in Go: an object that the API server has pruned
with the schema of the class has none.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec.structs import fields

from kcr.annotations import check_of_function
from kcr.api import codec
from kcr.api.meta import Object, ObjectMeta, Resource
from kcr.arguments import checked, error_of
from kcr.errors import described
from kcr.log import get_logger
from kcr.serving.webhooks.review import bad_request

_log = get_logger()

A = TypeVar("A", bound=Resource)
B = TypeVar("B", bound=Resource)
Converter = Callable[[Any], Resource]

# Fields of the metadata that a conversion may change.
MUTABLE = ("labels", "annotations")
# The functions by the classes of their source and target.
_FUNCTIONS: dict[type[Resource], dict[type[Resource], Converter]] = {}


class ConversionError(Exception):
    """An object cannot be converted; the message is for the client of the API server."""


@checked
def converts(source: type[A], target: type[B]) -> Callable[[Callable[[A], B]], Callable[[A], B]]:
    """Register a function that converts objects of one version of a kind to another.

    ```python
    @kcr.converts(WebsiteV1Beta1, Website)
    def upgraded(old: WebsiteV1Beta1) -> Website:
        return Website(metadata=old.metadata, spec=WebsiteSpec(hosts=(old.spec.host,)))
    ```

    Each direction has its own function. With three versions and more, convert each to the hub and back: the others are
    reached through it. `manager.add_conversion(Website)` serves the conversions, `kcr crd generate` declares them,
    and `kcr.testing.check_round_trip` tests them.

    Args:
        source: The class of the argument.
        target: The class of the result; another version of the same kind.

    Raises:
        TypeError: The classes are no two versions of one kind, or have such a function; or it is a coroutine.
    """
    if source.resource._replace(version="") != target.resource._replace(version=""):
        raise TypeError(
            f"{source.__name__} and {target.__name__} are not versions of one kind: give both the same group, kind "
            "(kind=), plural and scope"
        )
    if source.resource == target.resource:
        raise TypeError(
            f"{source.__name__} and {target.__name__} are both {source.resource.version}: name two versions"
        )

    def register(function: Callable[[A], B]) -> Callable[[A], B]:
        fault = check_of_function([source], target).fault(function)
        if fault is not None:
            raise error_of("converts", "function", fault)
        name = getattr(function, "__name__", "?")
        known = _FUNCTIONS.setdefault(source, {}).setdefault(target, function)
        if known is not function:
            raise TypeError(
                f"{name}: {getattr(known, '__name__', '?')} converts {source.__name__} to {target.__name__} already"
            )
        return function

    return register


class Conversions:
    """All conversions of a kind, checked: every version is converted to every other.

    Attributes:
        versions: The classes of the versions.
    """

    def __init__(self, versions: tuple[type[Resource], ...], paths: Mapping[Any, tuple[Converter, ...]]) -> None:
        self.versions = versions
        # The functions to call in turn, by the classes of source and target.
        self._paths = paths
        # The failures that have been logged.
        self._logged: set[tuple[Converter, type[Exception]]] = set()

    @classmethod
    def of(cls, kind: type[Resource], *others: type[Resource]) -> Self | None:
        """Return the conversions of a kind; None where no function is registered for any of these classes.

        Args:
            kind: The class of one of its versions.
            others: Classes of versions that must be converted, too.

        Raises:
            TypeError: A version is not converted to another, or in several ways; the message has the remedy.
        """
        versions = _connected((kind, *others))
        if not any(_FUNCTIONS.get(one) for one in versions):
            return None
        named: dict[str, type[Resource]] = {}
        for one in versions:
            twin = named.setdefault(one.resource.version, one)
            if twin is not one:
                raise TypeError(
                    f"{twin.__name__} and {one.__name__} are both {one.resource.version}: convert one of them only"
                )
        return cls(versions, {(a, b): _path(a, b, versions) for a in versions for b in versions if a is not b})

    def convert(self, obj: Resource, target: type[B]) -> B:
        """Return an object in another version, with its metadata.

        Raises:
            ConversionError: A function raises, returns another class, or changes metadata that it must not.
        """
        result: Any = obj
        for function in self._paths.get((type(obj), target), ()):
            result = self._converted(function, result)
        if type(result) is not target:
            raise ConversionError(f"{_name(obj)}: converted to {type(result).__name__}, not to {target.__name__}")
        return result

    def _converted(self, function: Converter, obj: Resource) -> Resource:
        """Return the result of one function, with the metadata checked.

        Source: apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go, restoreObjectMeta.
        """
        name = getattr(function, "__name__", "?")
        place = f"{_name(obj)}, {name}"
        try:
            new = function(obj)
        except Exception as error:
            # Whatever a user's function may raise: the client gets the error, the log has the stack. Once, because an
            # object that cannot be converted fails each list and watch.
            if (function, type(error)) not in self._logged:
                self._logged.add((function, type(error)))
                _log.exception("conversion failed", object=_name(obj), function=name)
            raise ConversionError(f"{place}: {described(error)}") from error
        if not isinstance(new, Resource):
            raise ConversionError(f"{place}: it returned {type(new).__name__} instead of an object")
        old, now = obj.metadata, new.metadata
        kept = [one for one in ObjectMeta.__struct_fields__ if one not in MUTABLE]
        if changed := [one for one in kept if getattr(old, one) != getattr(now, one)]:
            raise ConversionError(
                f"{place}: it changed metadata ({', '.join(changed)}): return the object with metadata=old.metadata; "
                "only labels and annotations may differ"
            )
        return new

    def version(self, name: str) -> type[Resource]:
        """Return the class of a version.

        Raises:
            ConversionError: No class has this version.
        """
        for one in self.versions:
            if one.resource.version == name:
                return one
        known = " and ".join(sorted(one.resource.version for one in self.versions))
        raise ConversionError(f"{self.versions[0].resource.kind} is converted between {known}, not {name}")


def is_registered_in(module: str) -> bool:
    """Return whether a module has registered a function."""
    return any(one.__module__ == module for targets in _FUNCTIONS.values() for one in targets.values())


def _connected(kinds: tuple[type[Resource], ...]) -> tuple[type[Resource], ...]:
    pairs = [(source, target) for source, targets in _FUNCTIONS.items() for target in targets]
    found = dict.fromkeys(kinds)
    while more := [one for pair in pairs if not found.keys().isdisjoint(pair) for one in pair if one not in found]:
        found |= dict.fromkeys(more)
    return tuple(found)


def _path(
    source: type[Resource], target: type[Resource], versions: tuple[type[Resource], ...]
) -> tuple[Converter, ...]:
    direct = _FUNCTIONS.get(source, {}).get(target)
    if direct is not None:
        return (direct,)
    paths = dict(_paths(source, target, versions))
    if len(paths) == 1:
        return next(iter(paths.values()))
    remedy = f"register @kcr.converts({source.__name__}, {target.__name__})"
    if paths:
        raise TypeError(
            f"{source.__name__} is converted to {target.__name__} through {' or '.join(paths)}: {remedy}, or "
            "remove one of these ways"
        )
    raise TypeError(
        f"{source.__name__} is not converted to {target.__name__}: {remedy}, or convert both to "
        "and from a third version, the hub"
    )


def _paths(
    source: type[Resource], target: type[Resource], versions: tuple[type[Resource], ...]
) -> Iterator[tuple[str, tuple[Converter, ...]]]:
    for middle in versions:
        first, second = _FUNCTIONS.get(source, {}).get(middle), _FUNCTIONS.get(middle, {}).get(target)
        if first is not None and second is not None:
            yield middle.__name__, (first, second)


def _name(obj: Resource) -> str:
    return f"{obj.resource.version} {obj.resource.kind} {obj.key}"


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
