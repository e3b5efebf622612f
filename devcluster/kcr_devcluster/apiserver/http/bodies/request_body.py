"""Request bodies: decoding of JSON, YAML and protobuf, kind and apiVersion, delete options.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/{create,update,delete,patch}.go.
"""

import logging
from functools import lru_cache
from typing import Any

import msgspec

from kcr_devcluster.apiserver.http.serialization import MEDIA_TYPES
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.field_errors import invalid, not_supported
from kcr_devcluster.apiserver.protocol.gojson import decode_json, kind_of
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.query import Query, dry_run_faults
from kcr_devcluster.apiserver.protocol.responses import StatusError, bad_request
from kcr_devcluster.apiserver.protocol.responses import invalid as invalid_object
from kcr_devcluster.apiserver.registry.deletion import POLICIES, DeleteOptions
from kcr_devcluster.apiserver.registry.metadata import undecodable
from kcr_devcluster.apiserver.schema import protobuf
from kcr_devcluster.apiserver.schema.builtin import encoded_shape, type_shape
from kcr_devcluster.apiserver.schema.shape import Shape
from kcr_devcluster.go_numbers import NumberRangeError
from kcr_devcluster.yaml_json import load_yaml

LIMIT = 3 * 1024 * 1024

_TYPE_META = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
NO_KIND = "couldn't get version/kind; json parse error"
# Bytes of a body that an error shows.
_SHOWN = 30

_OPTIONS = "DeleteOptions"
# Where upstream makes the scheme that knows the options of all verbs.
_SCHEME = "pkg/api/legacyscheme/scheme.go:30"
_OPTIONS_SCHEME = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"

_log = logging.getLogger(__name__)


@lru_cache(64)
def media_type(header: str) -> str:
    """Return the media type of a `Content-Type` header without its parameters; JSON when there is none.

    It is unknown where a parameter has no value.
    """
    if any(one.strip() and "=" not in one for one in header.split(";")[1:]):
        return header
    return header.partition(";")[0].strip().lower() or "application/json"


def check_size(body: bytes) -> None:
    """Refuse a body above the limit.

    Raises:
        StatusError: 413.
    """
    if len(body) > LIMIT:
        raise StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {LIMIT}")


def unsupported_media_type(accepted: str = ", ".join(MEDIA_TYPES)) -> StatusError:
    """415: the body is in a form that the server does not read here."""
    message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    return StatusError(415, "UnsupportedMediaType", message)


def _decoded(body: bytes, content_type: str, *, with_texts: bool) -> Any:
    """Decode a body.

    Raises:
        StatusError: 415, the form is not known.
        ValueError: It cannot be parsed.
    """
    match media_type(content_type):
        case "application/json":
            try:
                return decode_json(body, with_texts=with_texts)
            except NumberRangeError:
                raise
            except ValueError as error:
                raise ValueError(f"{NO_KIND}: {error}") from None
        case "application/yaml":
            # Upstream makes JSON of it first.
            return msgspec.to_builtins(load_yaml(body), order="sorted")
        case "application/vnd.kubernetes.protobuf":
            try:
                return protobuf.decode(body)
            except protobuf.UnknownMessageError as error:
                _log.warning("protobuf body refused: the schema has no numbers for %s", error)
                raise unsupported_media_type() from None
        case _:
            raise unsupported_media_type()


def decode_object(kind: Kind, body: bytes, content_type: str, *, is_update: bool = False) -> Manifest:
    """Decode the body of a create or update.

    Args:
        kind: The kind.
        body: The body.
        content_type: Its form.
        is_update: Whether the kind of a custom resource is not checked yet, see `check_custom_kind`.

    Raises:
        StatusError: 400, it is no object of the kind; 413 and 415.
    """
    try:
        value = decode_mapping(kind.type.kind, body, content_type, with_texts=kind.custom is None)
    except NumberRangeError as error:
        raise undecodable(kind, str(error)) from None
    if kind.custom is not None:
        if not value.get("kind"):
            why = f"Object 'Kind' is missing in '{body.decode('utf-8', 'replace')}'"
            raise _unrecognized(kind.type.kind, why, body)
        if not is_update:
            check_custom_kind(kind, value)
    _check_type((kind.type.api_version,), kind.type.kind, value, is_custom=kind.custom is not None)
    return value


def decode_mapping(kind: str, body: bytes, content_type: str, *, with_texts: bool = True) -> Manifest:
    """Decode a body that has to be an object, of whatever type.

    Args:
        kind: Its kind, for messages.
        body: The body.
        content_type: Its form.
        with_texts: Whether numbers in JSON keep their texts, for types that are known.

    Raises:
        NumberRangeError: A number in JSON is too large for a float.
        StatusError: 400, 413 or 415.
    """
    check_size(body)
    try:
        return _decode_mapping(body, content_type, with_texts=with_texts)
    except NumberRangeError:
        raise
    except ValueError as error:
        raise _unrecognized(kind, str(error), body) from None


def _decode_mapping(body: bytes, content_type: str, *, with_texts: bool = True) -> Manifest:
    """Return the object that a body is, with text as its type; null is an empty one.

    Raises:
        StatusError: 415.
        ValueError: It is none; the message is upstream's.
    """
    value = _decoded(body, content_type, with_texts=with_texts)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{NO_KIND}: {not_an_object(value)}")
    check_type_members(value)
    if (value.get("apiVersion") or "").count("/") > 1:
        raise ValueError(f"unexpected GroupVersion string: {value['apiVersion']}")
    return value


def check_type_members(value: Manifest) -> None:
    """Refuse an object whose apiVersion or kind is no text.

    Raises:
        ValueError: It is none; the message is upstream's.
    """
    for member in ("apiVersion", "kind"):
        if not isinstance(value.get(member), str | None):
            found = f"json: cannot unmarshal {kind_of(value[member])} into Go struct field .{member} of type string"
            raise ValueError(f"{NO_KIND}: {found}")


def not_an_object(value: object) -> str:
    """Return what a decoder says of a value that has no fields."""
    return f"json: cannot unmarshal {kind_of(value)} into Go value of type {_TYPE_META}"


def _unrecognized(kind: str, why: str, body: bytes) -> StatusError:
    """400: a body is no object of a kind; its beginning is shown.

    Source: k8s.io/apiserver/pkg/endpoints/handlers/rest.go, transformDecodeError and summarizeData.
    """
    start = body[:_SHOWN]
    shown = start.decode("utf-8", "replace") if body[:1] == b"{" else start.hex()
    summary = (shown if len(body) <= _SHOWN else f"{shown} ...") if body else "<empty>"
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): {why} ({summary})")


def decode_as(shape: Shape, api_versions: tuple[str, ...], body: bytes, content_type: str) -> Manifest:
    """Decode a body of a type that is sent and not stored, such as a review; its fields are not conformed.

    Args:
        shape: The type.
        api_versions: The versions of it that are accepted; the first one is that of a body that names none.
        body: The body.
        content_type: Its form.

    Raises:
        StatusError: 400, 413 or 415.
    """
    value = decode_mapping(shape.short_name, body, content_type)
    _check_type(api_versions, shape.short_name, value)
    return value


def _check_type(api_versions: tuple[str, ...], kind: str, value: Manifest, *, is_custom: bool = False) -> None:
    """Refuse an object whose apiVersion or kind are not the URL's; both may be absent in a built-in one."""
    version = value.get("apiVersion") or ("" if is_custom else api_versions[0])
    if not is_custom and (why := type_error(api_versions, kind, value)):
        name = value.get("kind") or kind
        raise bad_request(f'{name} in version "{version.rpartition("/")[2]}" cannot be handled as a {kind}: {why}')
    if version not in api_versions:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({api_versions[0]})"
        )


def type_error(api_versions: tuple[str, ...], kind: str, value: Manifest) -> str:
    """Return why an object cannot be one of a built-in kind; empty where it can, and for other versions of the kind.

    Args:
        api_versions: The versions of the kind; the first one is that of an object that names none.
        kind: The kind.
        value: The object.

    Source: k8s.io/apimachinery/pkg/runtime/error.go, notRegisteredErr; pkg/conversion/converter.go, Convert.
    """
    version, name = value.get("apiVersion") or api_versions[0], value.get("kind") or kind
    if name == kind and version in api_versions:
        return ""
    if encoded_shape(version, name) is None and (version, name) != ("v1", "List"):
        return f'no kind "{name}" is registered for version "{version}" in scheme "{_SCHEME}"'
    if name == kind:
        return ""
    wanted = api_versions[0].rpartition("/")[0].partition(".")[0] or "core"
    return f"converting ({version.rpartition('/')[2]}.{name}) to ({wanted}.{kind}): unknown conversion"


def check_custom_kind(kind: Kind, value: Manifest) -> None:
    """Refuse a custom resource of another kind.

    Raises:
        StatusError: 422.
    """
    if value["kind"] != kind.type.kind and value.get("apiVersion") == kind.type.api_version:
        metadata = value.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else ""
        error = invalid("kind", value["kind"], f"must be {kind.type.kind}")
        raise invalid_object(value["kind"], kind.type.group, name if isinstance(name, str) else "", [error])


def delete_options(body: bytes, content_type: str, query: Query) -> DeleteOptions:
    """Return the options of a DELETE, from its body or, where there is none, from the query.

    Raises:
        StatusError: 400 or 422, the options are invalid.
    """
    if not body:
        given = {
            "gracePeriodSeconds": query.integer("gracePeriodSeconds"),
            "propagationPolicy": query.text("propagationPolicy") if query.has("propagationPolicy") else None,
            "orphanDependents": query.flag("orphanDependents") if query.has("orphanDependents") else None,
            "dryRun": list(query.texts("dryRun")),
            "preconditions": {name: query.text(name) for name in ("uid", "resourceVersion") if query.text(name)},
        }
        return parse_delete_options(given)
    check_size(body)
    try:
        options = _decode_mapping(body, content_type)
    except ValueError as error:
        raise bad_request(str(error)) from None
    _check_options_kind(options)
    empty = {"preconditions": options.get("preconditions"), "propagationPolicy": options.get("propagationPolicy")}
    try:
        type_shape("meta.v1.DeleteOptions").conform(options)
    except ValueError as error:
        raise bad_request(str(error)) from None
    # In Go these are pointers: an empty one is given.
    return parse_delete_options({**options, **{name: value for name, value in empty.items() if value is not None}})


def _check_options_kind(options: Manifest) -> None:
    """Refuse the body of a DELETE that says it is something else; of options, any group and version is accepted.

    Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/delete.go;
    k8s.io/apimachinery/pkg/runtime/error.go, notRegisteredErr.
    """
    kind, version = options.get("kind"), options.get("apiVersion") or "meta.k8s.io/v1"
    if kind and isinstance(kind, str) and kind != _OPTIONS:
        raise bad_request(f'no kind "{kind}" is registered for version "{version}" in scheme "{_OPTIONS_SCHEME}"')


def parse_delete_options(given: Manifest) -> DeleteOptions:
    """Return delete options.

    Raises:
        StatusError: 400 or 422, they are invalid.
    """
    policy, orphan = given.get("propagationPolicy"), given.get("orphanDependents")
    dry_run = given.get("dryRun") or []
    errors = []
    if policy is not None and orphan is not None:
        words = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid("propagationPolicy", policy, words))
    elif policy is not None and policy not in POLICIES:
        errors.append(not_supported("propagationPolicy", policy, [*POLICIES, "nil"]))
    if errors := [*errors, *dry_run_faults(dry_run)]:
        raise invalid_object("DeleteOptions", "meta.k8s.io", "", errors)
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    preconditions = given.get("preconditions") or {}
    grace = given.get("gracePeriodSeconds")
    return DeleteOptions(
        grace_seconds=grace,
        policy=policy or "",
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        dry_run=bool(dry_run),
    )
