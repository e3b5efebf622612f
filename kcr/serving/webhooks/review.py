"""AdmissionReviews: the request as a value, and the response as bytes."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from kcr.api import codec
from kcr.api.meta import Object, Resource, Status, StatusCause, StatusDetails
from kcr.arguments import checked_on_failure
from kcr.errors import ApiError, BadRequestError, Cause

R = TypeVar("R", bound=Resource)

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]

# An older API server, or one whose configuration lists it first, sends v1beta1: the fields are the same.
_API_VERSIONS = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
# Source: kubernetes/staging/src/k8s.io/api/admission/v1/types.go, AdmissionResponse.Warnings.
_WARNING_CHARACTERS, _ALL_WARNINGS_CHARACTERS = 256, 4096
_NOTHING = (b"", b"null")
# msgspec's words.
_MISSING = re.compile("Object missing required field `(.+)`")


class UserInfo(Object):
    """The user who sends the reviewed request; `name` is the username."""

    name: str = msgspec.field(default="", name="username")
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


class GroupVersionKind(Object):
    """A kind."""

    group: str = ""
    version: str = ""
    kind: str = ""

    def __str__(self) -> str:
        """Return it as in manifests: `apps/v1 Deployment`."""
        return f"{self.group}/{self.version} {self.kind}" if self.group else f"{self.version} {self.kind}"


class WebhookRequest(Object):
    """The request that a webhook reviews.

    Attributes:
        uid: Identifies this review.
        operation: `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
        user: Who sends the request.
        dry_run: Whether nothing will be stored. The manager's client makes dry runs of all writes then.
        namespace: The namespace of the object; empty for cluster-scoped kinds.
        name: The name of the object; empty if the server generates it.
        kind: The kind of the object, as the webhook is registered for.
        subresource: The subresource, such as `scale`; empty for the object itself.
        request_kind: The kind as the user has sent it: another version, for example.
        raw_object: The new object as JSON; `b"null"` or empty on DELETE.
        raw_old_object: The old object as JSON; `b"null"` or empty on CREATE and CONNECT.
        raw_options: The options as JSON.
    """

    uid: str
    operation: Operation
    user: UserInfo = msgspec.field(default_factory=UserInfo, name="userInfo")
    dry_run: bool | None = None
    namespace: str = ""
    name: str = ""
    kind: GroupVersionKind = GroupVersionKind()
    subresource: str = msgspec.field(default="", name="subResource")
    request_kind: GroupVersionKind | None = None
    raw_object: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name="object")
    raw_old_object: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name="oldObject")
    raw_options: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name="options")

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of the request, such as CreateOptions; each call decodes them."""
        return codec.decode(dict, bytes(self.raw_options)) if has_value(self.raw_options) else {}

    @checked_on_failure
    def old(self, kind: type[R]) -> R | None:
        """Return the old object, for a defaulter; None on CREATE.

        Args:
            kind: The type to decode it as.

        Raises:
            BadRequestError: It does not fit the type.
        """
        return decode_object(kind, self.raw_old_object) if has_value(self.raw_old_object) else None


class _Review(Object):
    api_version: str
    kind: str
    request: WebhookRequest | None = None


class AdmissionResponse(Object):
    """The answer of a webhook.

    Attributes:
        uid: That of the request.
        allowed: Whether the request is admitted.
        status: Why it is not.
        patch: A JSON patch of the object; None for no change.
        patch_type: `JSONPatch` with a patch.
        warnings: For the user, whether the request is admitted or not.
    """

    uid: str
    allowed: bool
    status: Status | None = None
    patch: bytes | None = None
    patch_type: str = ""
    warnings: tuple[str, ...] = ()


def decode_review(body: bytes) -> tuple[str, WebhookRequest]:
    """Return the apiVersion and the request of an AdmissionReview.

    Raises:
        BadRequestError: The body is none.
    """
    try:
        review = codec.decode(_Review, body)
    except msgspec.DecodeError as error:
        raise bad_request(f"the body is not an AdmissionReview: {error}") from error
    if review.kind != "AdmissionReview" or review.api_version not in _API_VERSIONS:
        found = f"{review.api_version[:253]} {review.kind[:253]}"
        raise bad_request(f"the body is a {found}, and no AdmissionReview of admission.k8s.io/v1 or v1beta1")
    if review.request is None or not review.request.uid:
        raise bad_request("the AdmissionReview has no request" if review.request is None else "request.uid is empty")
    return review.api_version, review.request


def encode_review(api_version: str, response: AdmissionResponse) -> bytes:
    """Return the AdmissionReview that answers one of this apiVersion."""
    head = f'{{"apiVersion":"{api_version}","kind":"AdmissionReview","response":'.encode()
    return head + codec.encode(response) + b"}"


def encode_status(error: ApiError) -> bytes:
    """Return an error as the body of an HTTP response: the API server shows its message to the user."""
    return b'{"kind":"Status","apiVersion":"v1",' + codec.encode(status_of((error,)))[1:]


class MisfitError(ApiError):
    """A reviewed object does not fit the type of its webhook."""


def decode_object(kind: type[R], raw: msgspec.Raw | bytes) -> R:
    """Return a reviewed object as a value.

    Raises:
        MisfitError: It does not fit the type: 422 where a field is at fault, as the API server refuses it, else 400.
    """
    try:
        return codec.decode(kind, bytes(raw))
    except msgspec.DecodeError as error:
        text = str(error)
        what, _, path = text.partition(" - at `$")
        field, missing = path.strip(".`"), _MISSING.fullmatch(what)
        if missing is not None:
            field, what = f"{field}.{missing[1]}".lstrip("."), "Required value"
        # Objects are defaulted before the API server validates them, so this may be all that the user gets to read.
        if field:
            cause = Cause(field, "FieldValueInvalid", what)
            raise MisfitError(422, "Invalid", f"{field}: {what}", causes=(cause,)) from error
        what = f"the object is not a {kind.resource.api_version} {kind.resource.kind}: {text}"
        raise MisfitError(400, "BadRequest", what) from error


def has_value(raw: msgspec.Raw) -> bool:
    """Return whether the field has a value: Go writes null for an absent object."""
    return bytes(raw) not in _NOTHING


def bad_request(message: str) -> BadRequestError:
    """Return the error of a request that cannot be reviewed."""
    return BadRequestError(400, "BadRequest", message)


def status_of(denials: Sequence[ApiError]) -> Status:
    """Return the Status of one or more denials: the code and reason of the first, the messages and causes of all."""
    first = denials[0]
    causes = [
        cause
        for one in denials
        for cause in one.causes or ([Cause("", one.reason, one.message)] if len(denials) > 1 else ())
    ]
    details = StatusDetails(
        causes=tuple(StatusCause(reason=one.reason, message=_text(one.message), field=one.field) for one in causes)
        or None,
        retry_after_seconds=int(first.retry_after_seconds),
    )
    return Status(
        status="Failure", message="; ".join(dict.fromkeys(_text(one.message) for one in denials)), reason=first.reason,
        code=first.code, details=details if causes or first.retry_after_seconds else None,
    )  # fmt: skip


def _text(message: str) -> str:
    """Return a message that can be encoded: paths and names of files may have surrogates."""
    return message.encode(errors="replace").decode()


def limited_warnings(warnings: Sequence[str]) -> tuple[str, ...]:
    """Return the warnings that the API server takes: each cut to 256 characters, all of them to 4,096."""
    kept, left = [], _ALL_WARNINGS_CHARACTERS
    for warning in dict.fromkeys(_text(one[:_WARNING_CHARACTERS]) for one in warnings if one):
        left -= len(warning)
        if left < 0:
            break
        kept.append(warning)
    return tuple(kept)
