"""AdmissionReview: the request that a webhook gets, and its response.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go;
pkg/admission/plugin/webhook/errors/statuserror.go.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kcr_devcluster.apiserver.admission.rules import group_version_kind
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.storage.admission import CONNECT, AdmissionAttributes

GROUP = "admission.k8s.io"
# The versions that the server speaks, best first.
VERSIONS = ("v1", "v1beta1")
JSON_PATCH = "JSONPatch"
_KIND = "AdmissionReview"
# The types that the server reads responses with.
_SCHEME = "k8s.io/apiserver/pkg/util/webhook/client.go:71"


class DenialStatus(msgspec.Struct, rename="camel"):
    """The Status of a response: why a request is denied. As in Go, any field may be null."""

    message: str | None = None
    reason: str | None = None
    details: dict[str, Any] | None = None
    code: int | None = None


class ReviewResponse(msgspec.Struct, rename="camel"):
    """The response of a webhook.

    Attributes:
        uid: That of the request.
        allowed: Whether the request is admitted.
        status: Why not.
        patch: A JSON patch; base64 on the wire.
        patch_type: `JSONPatch`; None without a patch.
        warnings: Texts for the client.
    """

    uid: str | None = None
    allowed: bool | None = None
    status: DenialStatus | None = None
    patch: bytes | None = None
    patch_type: str | None = None
    warnings: list[str | None] | None = None


class _Review(msgspec.Struct, rename="camel"):
    kind: str | None = None
    api_version: str | None = None
    response: ReviewResponse | None = None


_decode = msgspec.json.Decoder(_Review).decode


class InvalidResponseError(ValueError):
    """A response that does not follow the protocol; its text is the reason."""


def encode_request(
    version: str, uid: str, attributes: AdmissionAttributes, kind: Kind, objects: Sequence[Manifest | None]
) -> bytes:
    """Return the body of a call.

    Args:
        version: That of the AdmissionReview.
        uid: Of the request.
        attributes: The request.
        kind: The kind in the version that the webhook has asked for.
        objects: The new and the old object in that version.
    """
    user, options = attributes.user, attributes.options
    request = {
        "uid": uid,
        **request_head(attributes, kind),
        "userInfo": {} if user is None else {name: value for name, value in user.info.items() if value},
        "object": objects[0],
        "oldObject": objects[1],
        "dryRun": attributes.dry_run,
        "options": None if attributes.operation == CONNECT else options,
    }
    return msgspec.json.encode({"kind": "AdmissionReview", "apiVersion": f"{GROUP}/{version}", "request": request})


def request_head(attributes: AdmissionAttributes, kind: Kind) -> dict[str, Any]:
    """Return the first members of a request, in their order; like Go's encoder, it leaves out empty texts.

    Args:
        attributes: The request.
        kind: The kind in the version that the webhook or policy has asked for.
    """
    part, requested = attributes.subresource, attributes.requested
    members = {
        "kind": _kind(kind, part),
        "resource": _resource(kind),
        "subResource": part,
        "requestKind": _kind(requested, part),
        "requestResource": _resource(requested),
        "requestSubResource": part,
        "name": attributes.name,
        "namespace": attributes.namespace,
        "operation": attributes.operation,
    }
    return {name: value for name, value in members.items() if value}


def _kind(kind: Kind, subresource: str) -> Mapping[str, str]:
    group, version, name = group_version_kind(kind, subresource)
    return {"group": group, "version": version, "kind": name}


def _resource(kind: Kind) -> Mapping[str, str]:
    return {"group": kind.type.group, "version": kind.type.version, "resource": kind.type.plural}


def decode_response(body: bytes, version: str, status: int) -> _Review:
    """Return the review in the body of a response.

    Args:
        body: The body.
        version: The version of the AdmissionReview that was sent.
        status: The HTTP status.

    Raises:
        InvalidResponseError: The body is another object; missing names are those of the review.
        ValueError: The body is no JSON of a review.

    Source: k8s.io/client-go/rest/request.go, Result.Into; apimachinery/pkg/runtime/serializer/json, Decode.
    """
    if not body:
        words = f"0-length response with status code: {status} and content type: application/json"
        raise InvalidResponseError(words)
    review = _decode(body)
    api_version, kind = review.api_version or f"{GROUP}/{version}", review.kind or _KIND
    if kind != _KIND or api_version not in (f"{GROUP}/{one}" for one in VERSIONS):
        words = f"no kind {quoted(kind)} is registered for version {quoted(api_version)}"
        raise InvalidResponseError(f"{words} in scheme {quoted(_SCHEME)}")
    if api_version != f"{GROUP}/{version}":
        given = api_version.rpartition("/")[2]
        raise InvalidResponseError(f"converting ({given}.{_KIND}) to ({version}.{_KIND}): unknown conversion")
    return review


def verified(review: _Review, version: str, uid: str, *, is_mutating: bool) -> ReviewResponse:
    """Return the response of a review that follows the protocol.

    Raises:
        InvalidResponseError: It does not.

    Source: VerifyAdmissionResponse.
    """
    response = review.response
    if response is None:
        raise InvalidResponseError("webhook response was absent")
    if version == VERSIONS[0]:
        _check_v1(review, response, uid, is_mutating=is_mutating)
    elif is_mutating and response.patch:
        response.patch_type = JSON_PATCH
    return response


def _check_v1(review: _Review, response: ReviewResponse, uid: str, *, is_mutating: bool) -> None:
    if response.uid != uid:
        raise InvalidResponseError(f'expected response.uid="{uid}", got {quoted(response.uid or "")}')
    expected = f"{GROUP}/v1, Kind=AdmissionReview"
    group, _, version = (review.api_version or "").rpartition("/")
    found = f"{group}/{version}, Kind={review.kind or ''}"
    if found != expected:
        raise InvalidResponseError(f"expected webhook response of {expected}, got {found}")
    if not is_mutating:
        if response.patch:
            raise InvalidResponseError("validating webhook may not return response.patch")
        if response.patch_type is not None:
            raise InvalidResponseError("validating webhook may not return response.patchType")
    elif response.patch and response.patch_type is None:
        raise InvalidResponseError("webhook returned response.patch but not response.patchType")
    elif not response.patch and response.patch_type is not None:
        raise InvalidResponseError("webhook returned response.patchType but not response.patch")
    elif response.patch_type == "":
        raise InvalidResponseError('webhook returned invalid response.patchType of ""')


class DeniedError(StatusError):
    """The request is denied by a webhook, with the code that it has chosen."""


def denial(webhook: str, result: DenialStatus | None) -> DeniedError:
    """Return the error of a request that a webhook denies.

    Source: ToStatusErr.
    """
    found = result or DenialStatus()
    said = found.message or found.reason
    prefix = f"admission webhook {quoted(webhook)} denied the request"
    message = f"{prefix}: {said}" if said else f"{prefix} without explanation"
    return DeniedError(min(max(found.code or 0, 400), 999), found.reason or "", message, details=found.details)


def quoted(text: str) -> str:
    """Return a text in quotes, as Go's `%q`."""
    return msgspec.json.encode(text).decode()
