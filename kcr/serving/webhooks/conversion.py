"""The answer to a ConversionReview.

All objects of a review are converted or none. A required field that an object lacks has its zero value, as in Go: the
server converts parts of objects, too. Metadata that kcr has no field for, such as managed fields, is kept.
Other fields that the class of the source version lacks are dropped, as in Go: an object that the API server has pruned
with the schema of the class has none.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from kcr.api import codec
from kcr.api.meta import Object, Resource
from kcr.api.partial import decode_partial
from kcr.serving.webhooks.converters import MUTABLE, ConversionError, Conversions
from kcr.serving.webhooks.review import bad_request

Fields = dict[str, msgspec.Raw]

API_VERSION = "apiextensions.k8s.io/v1"
PATH = "/convert"
# Written by kcr's leader, and by cert-manager: `<namespace>/<Secret>`, `<namespace>/<Certificate>`.
INJECT_CA, CERT_MANAGER = "kcr.dev/inject-ca-from", "cert-manager.io/inject-ca-from"


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
    """Return an object in another version; one in this version as it is."""
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
        fields = msgspec.json.decode(codec.encode(new), type=Fields)
    except (TypeError, NotImplementedError, msgspec.MsgspecError) as error:
        raise ConversionError(f"{target.resource.version} {head.kind} {new.key}: no JSON: {error}") from error
    return msgspec.Raw(msgspec.json.encode(fields | {"metadata": _metadata(head.metadata, old, new)}))


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
    """Return the metadata of an object with other labels and annotations; managed fields, say, are kept."""
    kept = msgspec.json.decode(raw, type=Fields)
    for name in MUTABLE:
        if getattr(old.metadata, name) != getattr(new.metadata, name):
            kept[name] = msgspec.Raw(codec.encode(getattr(new.metadata, name)))
    return msgspec.Raw(msgspec.json.encode(kept))
