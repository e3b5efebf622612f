"""Responses, and the errors that are sent as a Status."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

from kcr.api.meta import Key
from kcr.api.resources import ResourceType
from kcr.errors import KcrError
from kcr_devcluster.apiserver.protocol.field_errors import FieldError
from kcr_devcluster.apiserver.protocol.gojson import encode_json
from kcr_devcluster.apiserver.protocol.gotexts import quoted

JSON = "application/json"
# Characters of all warnings of a response together, and of one where they are more.
_LONGEST_WARNINGS, _LONGEST_WARNING = 4096, 256


class Stream(Protocol):
    """A body that comes in parts. It must be closed, whether or not it was read."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Return the iterator over the parts."""
        ...

    async def aclose(self) -> None:
        """Close the stream before its end."""
        ...


class PodStream(NamedTuple):
    """The parameters of a connection into a pod, used once it has been upgraded.

    Attributes:
        subresource: `exec`, `attach` or `portforward`.
        key: The pod.
        uid: The uid of the pod.
        protocol: The subprotocol of the WebSocket; empty for none.
        container: The container; empty for `portforward`.
        command: The command that `exec` runs.
        stdin: Whether the client sends standard input.
        stdout: Whether the client takes standard output.
        stderr: Whether the client takes standard error.
        tty: Whether `exec` runs the command in a terminal.
        ports: The ports that `portforward` forwards to, where the client does not name one for each connection.
    """

    subresource: str
    key: Key
    uid: str
    protocol: str
    container: str = ""
    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False
    ports: tuple[int, ...] = ()


class APIResponse(NamedTuple):
    """A response of the server.

    Attributes:
        status: The HTTP status code.
        headers: Its headers.
        body: The body: a stream for watches and logs that follow.
        upgrade: With code 101: the stream that the connection becomes.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes | Stream
    upgrade: PodStream | None = None


class StatusError(KcrError):
    """A request that fails with a Status, as apimachinery's errors.StatusError.

    Attributes:
        code: The HTTP status code.
        reason: The Status reason, `""` for none.
        message: The message of the Status.
        details: The Status details.
        retry_after_seconds: Sent as header and in the details when above zero.
        metadata: The Status metadata; an expired list puts its replacement token there.
        warnings: Texts for `Warning` headers.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after_seconds: int = 0,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after_seconds = retry_after_seconds
        self.metadata = metadata or {}
        self.warnings: tuple[str, ...] = ()

    def status(self) -> dict[str, Any]:
        """Return the Status, as it also stands in a watch event of type ERROR."""
        status: dict[str, Any] = {
            "kind": "Status", "apiVersion": "v1", "metadata": self.metadata, "status": "Failure",
            "message": self.message,
        }  # fmt: skip
        if self.reason:
            status["reason"] = self.reason
        details = dict(self.details or {})
        if self.retry_after_seconds:
            details["retryAfterSeconds"] = self.retry_after_seconds
        if details or self.details is not None:
            status["details"] = details
        status["code"] = self.code
        return status

    def response(self) -> APIResponse:
        """Return the response with the Status."""
        headers = {"Content-Type": JSON, "Cache-Control": "no-cache, private"}
        if self.retry_after_seconds:
            headers["Retry-After"] = str(self.retry_after_seconds)
        return APIResponse(self.code, headers | warning_headers(self.warnings), encoded(self.status()))


class Warned(NamedTuple):
    """A context in which refusals carry warnings, which a success gets with the response.

    Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/filters/warning.go: they are headers of any response.
    """

    texts: Sequence[str]

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _: object, error: BaseException | None, traceback: object) -> None:
        """Add the warnings to a refusal."""
        if isinstance(error, StatusError):
            error.warnings = (*self.texts, *error.warnings)


def encoded(value: object) -> bytes:
    """Return compact JSON and the newline that ends every response."""
    return encode_json(value) + b"\n"


def json_response(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> APIResponse:
    """Return a response whose body is JSON already."""
    return APIResponse(status, {"Content-Type": JSON, "Cache-Control": "no-cache, private", **(headers or {})}, body)


def text_response(status: int, text: str) -> APIResponse:
    """Return a response in plain text."""
    headers = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}
    return APIResponse(status, headers, text.encode())


def warning_headers(warnings: Sequence[str]) -> dict[str, str]:
    """Return the `Warning` header for some texts, or nothing; texts that no header can carry are left out.

    Equal texts are sent once. Where all together are too long, each is cut, and those beyond the limit are left out.

    Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/filters/warning.go.
    """
    if not warnings:
        return {}
    texts = [text for text in dict.fromkeys(warnings) if text and text.isprintable()]
    if sum(map(len, texts)) > _LONGEST_WARNINGS:
        cut = [text[:_LONGEST_WARNING] for text in texts]
        # As long as those before are below the limit: the last one may pass it.
        ends = accumulate(map(len, cut))
        texts = [text for text, end in zip(cut, ends, strict=True) if end - len(text) < _LONGEST_WARNINGS]
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in texts]
    if not quoted:
        return {}
    return {"Warning": ", ".join(f'299 - "{text}"' for text in quoted)}


def add_warning(response: APIResponse, text: str) -> APIResponse:
    """Return a response with one more warning, before those it has."""
    found = (warning_headers([text]).get("Warning"), response.headers.get("Warning"))
    return response._replace(headers={**response.headers, "Warning": ", ".join(filter(None, found))})


def add_warnings(response: APIResponse, texts: Sequence[str]) -> APIResponse:
    """Return a response with more warnings, behind those it has."""
    found = (response.headers.get("Warning"), warning_headers(texts).get("Warning"))
    said = ", ".join(filter(None, found))
    return response._replace(headers={**response.headers, "Warning": said}) if said else response


def _details(resource: ResourceType, name: str) -> dict[str, Any]:
    """Return the details of most refusals: name, group and the plural as kind, the empty ones left out."""
    members = {"name": name, "group": resource.group, "kind": resource.plural}
    return {key: value for key, value in members.items() if value}


def bad_request(message: str) -> StatusError:
    """400: the request is invalid."""
    return StatusError(400, "BadRequest", message)


def not_found(resource: ResourceType, name: str) -> StatusError:
    """404: there is no such object."""
    return StatusError(
        404, "NotFound", f"{resource.display} {quoted(name)} not found", details=_details(resource, name)
    )


def no_such_resource() -> StatusError:
    """404: the group is served, the version or the resource is not."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", details={})


def method_not_allowed() -> StatusError:
    """405: the path exists and does not support this method."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, details={})


def already_exists(resource: ResourceType, name: str, *, terminating: bool = False) -> StatusError:
    """409 on create: the name is taken."""
    prefix = "object is being deleted: " if terminating else ""
    message = f'{prefix}{resource.display} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, details=_details(resource, name))


def name_not_found_in_time(resource: ResourceType, name: str) -> StatusError:
    """409 on create: no free name was drawn for a `generateName`."""
    message = (
        f'{resource.display} "{name}" already exists, the server was not able to generate a unique name for the object'
    )
    return StatusError(409, "AlreadyExists", message, details=_details(resource, name), retry_after_seconds=1)


def conflict(resource: ResourceType, name: str, why: str) -> StatusError:
    """409 on a write: the object is not as the request takes it to be."""
    message = f'Operation cannot be fulfilled on {resource.display} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=_details(resource, name))


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def forbidden(resource: ResourceType, name: str, why: str, causes: Sequence[Mapping[str, str]] = ()) -> StatusError:
    """403: understood, and not allowed."""
    details = _details(resource, name)
    if causes:
        details["causes"] = causes
    return StatusError(403, "Forbidden", f'{resource.display} "{name}" is forbidden: {why}', details=details)


def expired(message: str, metadata: Mapping[str, Any] | None = None) -> StatusError:
    """410: the requested resourceVersion is no longer known."""
    return StatusError(410, "Expired", message, metadata=metadata)


def too_large_version(requested: int, current: int) -> StatusError:
    """504: the requested resourceVersion is not there yet, and did not come in time."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {requested}, current: {current}"
    return StatusError(504, "Timeout", message, details={"causes": [cause]}, retry_after_seconds=1)


def request_timeout() -> StatusError:
    """504: the request took longer than its timeout."""
    return StatusError(504, "Timeout", "Timeout: request did not complete within the allotted timeout", details={})


def internal(message: str) -> StatusError:
    """500: an internal error."""
    details = {"causes": [{"message": message}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", details=details)


def invalid(kind: str, group: str, name: str, errors: Iterable[FieldError]) -> StatusError:
    """422: the object was understood and refused, field by field.

    Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go, NewInvalid.
    """
    found = tuple(errors)
    # Equal errors are one part of the message, and separate causes.
    words = tuple(dict.fromkeys(f"{error.field}: {error.message}" for error in found))
    said = words[0] if len(words) == 1 else f"[{', '.join(words)}]"
    shown = f"{kind}.{group}" if group else kind
    members = {"name": name, "group": group, "kind": kind}
    details: dict[str, Any] = {key: value for key, value in members.items() if value}
    details["causes"] = [{"reason": e.reason, "message": e.message, "field": e.field} for e in found]
    return StatusError(422, "Invalid", f'{shown} "{name}" is invalid: {said}', details=details)


def unprocessable() -> StatusError:
    """422: a JSON patch does not apply; upstream does not say why, yet sends details."""
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", details={})


def invalid_option(options: str, error: FieldError) -> StatusError:
    """422: a query parameter or delete option is refused, such as `ListOptions`."""
    return invalid(options, "meta.k8s.io", "", [error])


def success(resource: ResourceType, name: str, uid: str) -> bytes:
    """Return the Status for a DELETE that removed the object."""
    details = {**_details(resource, name), "uid": uid}
    return encoded({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
