"""Responses that a test makes up."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from kcr.annotations import shown
from kcr.arguments import refuse
from kcr.errors import ApiError

# The code and the reason with which servers answer.
_SPOKEN: Mapping[str, tuple[int, str]] = {
    "BadRequestError": (400, "BadRequest"),
    "UnauthorizedError": (401, "Unauthorized"),
    "ForbiddenError": (403, "Forbidden"),
    "NotFoundError": (404, "NotFound"),
    "AlreadyExistsError": (409, "AlreadyExists"),
    "ConflictError": (409, "Conflict"),
    "GoneError": (410, "Expired"),
    "InvalidError": (422, "Invalid"),
    "TooManyRequestsError": (429, "TooManyRequests"),
    "ServerError": (500, "InternalError"),
}


class MadeUp:
    """A response with a given body."""

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.headers: dict[str, str] = {name.lower(): value for name, value in (headers or {}).items()}
        self._body = body

    async def read(self) -> bytes:
        """Return the whole body."""
        return self._body

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the body line by line."""
        for line in self._body.splitlines():
            yield line


def made(error: type[ApiError] | ApiError, retry_after_seconds: float = 0.0) -> ApiError:
    """Return an error as servers give it; one that is made already stays as it is."""
    if isinstance(error, ApiError):
        return error
    if error.__name__ not in _SPOKEN:
        refuse(f"error is {shown(error)}: give it one of {', '.join(_SPOKEN)}, or an object with a code")
    code, reason = _SPOKEN[error.__name__]
    return error(code, reason, "a fault, as the test asked", retry_after_seconds=retry_after_seconds)


def refusal(error: ApiError) -> MadeUp:
    """Return the response that a client decodes to this error."""
    details: dict[str, Any] = {}
    headers = {"Content-Type": "application/json"}
    if error.causes:
        details["causes"] = [cause._asdict() for cause in error.causes]
    if seconds := round(error.retry_after_seconds):
        details["retryAfterSeconds"] = seconds
        headers["Retry-After"] = str(seconds)
    status = {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": error.message,
        "reason": error.reason, "details": details, "code": error.code,
    }  # fmt: skip
    return MadeUp(error.code, msgspec.json.encode(status), headers)
