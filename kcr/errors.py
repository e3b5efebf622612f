"""The exception tree: refusals of the API server, transport errors, and errors of reconcilers.

```
KcrError
├── ApiError(code, reason, message)   the server answered, and said no
│   ├── BadRequestError 400   UnauthorizedError 401   ForbiddenError 403   NotFoundError 404
│   ├── AlreadyExistsError 409   ConflictError 409   GoneError 410   InvalidError 422
│   ├── TooManyRequestsError 429 (retry_after_seconds)   ServerError 5xx
│   └── Denied                        raised by a webhook: the request is denied
├── TransportError                    no answer; the write may have happened
├── ConfigError   NotSyncedError   LeadershipLostError   QueueClosedError
├── TerminalError                     raised by a reconciler: retrying cannot help
└── RetryLater(after)                 raised by a reconciler: an expected failure, retried later
```

The class of an `ApiError` is chosen by the Status `reason`, then by the code: `error_for`. An answer without a Status
is nearly always a `ServerError`: it proves nothing.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import NamedTuple

from kcr.arguments import checked, seconds_of


class KcrError(Exception):
    """Base of every error this library raises on purpose."""


class Cause(NamedTuple):
    """One cause of a refusal: the field, the kind of fault, and the server's message."""

    field: str = ""
    reason: str = ""
    message: str = ""


class ApiError(KcrError):
    """The server answered, and said no.

    Attributes:
        code: The HTTP status code.
        reason: The Status reason, `""` when the answer was no Status.
        message: The server's message.
        causes: The refused fields, mostly for `InvalidError`.
        retry_after_seconds: How long the server asks to wait at least; 0 when it does not say.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        causes: tuple[Cause, ...] = (),
        retry_after_seconds: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = causes
        self.retry_after_seconds = retry_after_seconds

    def has_cause(self, reason: str) -> bool:
        """Return whether one of the causes carries this reason, such as `NamespaceTerminating`."""
        return any(cause.reason == reason for cause in self.causes)


class BadRequestError(ApiError):
    """400: the request makes no sense to the server; the same request will never do."""


class UnauthorizedError(ApiError):
    """401: the server does not know who asks."""


class ForbiddenError(ApiError):
    """403: the server knows who asks and does not allow it."""


class NotFoundError(ApiError):
    """404: there is no such object, or no such kind."""


class AlreadyExistsError(ApiError):
    """409 on create: the name is taken."""


class ConflictError(ApiError):
    """409 on a write: the object has changed since it was read; read and decide again."""


class GoneError(ApiError):
    """410: the resourceVersion asked for is no longer known; list again."""


class InvalidError(ApiError):
    """422: the object was understood and refused; `causes` names the fields."""


class TooManyRequestsError(ApiError):
    """429: wait at least `retry_after_seconds`."""


class ServerError(ApiError):
    """5xx: the server failed; the write may or may not have happened.

    Also any other code whose answer is not the API server's own: a proxy's page, for example. It has the cause
    `UnexpectedServerResponse`.
    """


class Denied(ApiError):  # noqa: N818  # read aloud where it is raised: `raise kcr.Denied(...)`
    """Raised by a webhook: the request is denied, and the user gets the message.

    ```python
    if website.spec.image.endswith(":latest"):
        raise kcr.Denied("must not be latest", field="spec.image")
    ```

    With a field the client gets 422 Invalid with the field as a cause (`InvalidError`), else 403 Forbidden
    (`ForbiddenError`). An `ExceptionGroup` of them denies for several reasons at once.
    """

    @checked
    def __init__(self, message: str, *, field: str = "") -> None:
        """Make the denial.

        Args:
            message: Why, and how the user mends it.
            field: The path of the refused field, such as `spec.image`; empty when it is about none.
        """
        if field:
            cause = Cause(field, "FieldValueInvalid", message)
            super().__init__(422, "Invalid", f"{field}: {message}", causes=(cause,))
        else:
            super().__init__(403, "Forbidden", message)


class TransportError(KcrError):
    """No answer came, or none that can be read: refused, cut, garbled or timed out.

    A write may have happened all the same.
    """


class ConfigError(KcrError):
    """The configuration cannot be used; the message names the source and the remedy."""


class NotSyncedError(KcrError):
    """A store was asked before its first list was stored, or could not be filled in time."""


class LeadershipLostError(KcrError):
    """Another process leads now; this one must stop writing at once."""


class QueueClosedError(KcrError):
    """The work queue is shut down and empty; the worker may end."""


class TerminalError(KcrError):
    """Raised by a reconciler when retrying cannot help; only a change of the object can."""


class RetryLater(KcrError):  # noqa: N818  # read aloud where it is raised: `raise kcr.RetryLater(...)`
    """Raised by a reconciler for an expected failure: one warning without a traceback, and the key is retried later.

    ```python
    if certificate is None:
        raise kcr.RetryLater(f"certificate of {key} is not issued yet", after=30)
    ```

    It counts as an error of the controller, never as a panic. A successful reconcile that requeues its key
    returns `Result(requeue_after=…)` instead.

    Attributes:
        retry_after_seconds: How long the key waits; 0 for the controller's backoff.
    """

    @checked
    def __init__(self, message: str, *, after: timedelta | float | None = None) -> None:
        """Make the error.

        Args:
            message: The missing prerequisite, for the log; name the object.
            after: How long the key waits, a `timedelta` or a number of seconds. None, zero and less stand for the
                controller's backoff, which grows with each failure in a row.

        Raises:
            TypeError: `after` is no time to wait.
        """
        super().__init__(message)
        self.retry_after_seconds: float = max(0.0, seconds_of(after, "RetryLater: after") or 0.0)


# Exceptions that only a bug raises, whatever the world outside does. Not `ValueError`, `RuntimeError`, `LookupError`
# and `OSError`: libraries derive their reports of the world from these, such as `json.JSONDecodeError`.
_BUGS = (
    AssertionError, AttributeError, ImportError, NameError, NotImplementedError, RecursionError, SyntaxError,
    SystemExit, TypeError,
)  # fmt: skip
# These alone, and not their subclasses: `zoneinfo.ZoneInfoNotFoundError` is a `KeyError`, and bad input.
_BUGS_THEMSELVES = frozenset({IndexError, KeyError, OverflowError, ZeroDivisionError})


def is_bug(error: BaseException) -> bool:
    """Return whether an exception shows a bug of the program, which Go calls a panic, and no failure of operation.

    Programming errors are a closed table, so that classes of libraries need not be known: exceptions of `aiohttp`,
    `httpx`, `botocore` and others are failures, and so is every class that an author derives from `Exception`.
    """
    return isinstance(error, _BUGS) or type(error) in _BUGS_THEMSELVES


def is_namespace_ending(error: BaseException) -> bool:
    """Return whether a create was refused because its namespace is terminating, so that no retry is needed."""
    return isinstance(error, ApiError) and error.has_cause("NamespaceTerminating")


_BY_REASON: Mapping[str, type[ApiError]] = {
    "BadRequest": BadRequestError,
    "Unauthorized": UnauthorizedError,
    "Forbidden": ForbiddenError,
    "NotFound": NotFoundError,
    "AlreadyExists": AlreadyExistsError,
    "Conflict": ConflictError,
    "Gone": GoneError,
    "Expired": GoneError,
    "Invalid": InvalidError,
    "TooManyRequests": TooManyRequestsError,
    "InternalError": ServerError,
    "ServerTimeout": ServerError,
    "ServiceUnavailable": ServerError,
    "Timeout": ServerError,
}

_BY_CODE: Mapping[int, type[ApiError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
    429: TooManyRequestsError,
}


def error_for(
    code: int,
    reason: str,
    message: str,
    *,
    causes: tuple[Cause, ...] = (),
    retry_after_seconds: float = 0.0,
) -> ApiError:
    """Build the error that a Status stands for: by its reason, else by its code."""
    kind = _BY_REASON.get(reason) or _BY_CODE.get(code) or (ServerError if code >= 500 else ApiError)
    return kind(code, reason, message, causes=causes, retry_after_seconds=retry_after_seconds)


def described(error: BaseException) -> str:
    """Return the class and the text of an exception."""
    try:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    except Exception:
        return f"{type(error).__name__}, whose __str__ fails"


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors themselves, out of whatever groups they come in.

    An exception of another library that stands for an error of kcr, as `kcr.client.api_client` raises them, has that
    as its `kcr_error`.
    """
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from leaves(part)
    else:
        yield getattr(error, "kcr_error", error)
