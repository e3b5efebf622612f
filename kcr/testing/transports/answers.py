"""Made-up responses of a transport."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, get_args

import msgspec

from kcr.client import Request, Response
from kcr.errors import ApiError, TransportError

# What becomes of the reply to a request that the server has executed: none comes (`silence`), half of its body (`cut`),
# a success or refusal that is no JSON (`garbage`) or another object (`other`), or a proxy's page with code 404 or 502.
Loss = Literal["silence", "cut", "garbage", "other", "404", "502"]
LOSSES: tuple[Loss, ...] = get_args(Loss)

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


def page(code: int) -> MadeUp:
    """Return the page of a proxy that has not reached the API server, or has lost its reply."""
    body = f"<html><head><title>{code}</title></head><body><center>nginx</center></body></html>\n"
    return MadeUp(code, body.encode(), {"content-type": "text/html"})


async def lost(request: Request, response: Response, loss: Loss) -> MadeUp:
    """Return the rest of a reply.

    Raises:
        TransportError: Nothing is.
    """
    match loss:
        case "silence":
            raise TransportError(f"{request.method} {request.target}: the reply was lost")
        case "cut":
            body = await response.read()
            return MadeUp(response.status, body[: len(body) // 2], response.headers)
        case "garbage":
            return MadeUp(response.status, b"\x1f\x8b\xff garbage", response.headers)
        case "other":
            return MadeUp(response.status, b'{"metadata":{"name":"other"}}', response.headers)
    return page(int(loss))


def made(error: type[ApiError] | ApiError, retry_after_seconds: float = 0.0) -> ApiError:
    """Return an error as servers give it; one that is made already stays as it is."""
    if isinstance(error, ApiError):
        return error
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
