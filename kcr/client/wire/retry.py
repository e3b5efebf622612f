"""Which failed calls are sent again, and when.

The first attempt costs nothing extra: the policy is entered only after a failure that may be retried (ST-40).
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, TypeVar

from kcr.client.wire.decoding import UNEXPECTED_RESPONSE
from kcr.client.wire.pressure import Pressure
from kcr.client.wire.transport import Request
from kcr.errors import ApiError, KcrError, TransportError

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")

# How long one call may take, its retries included; the caller decides about longer waits.
CALL_SECONDS = 30.0
_TRIES = 10
# A read whose connection failed is sent again this often; the pauses double from the first on.
_CONNECTION_TRIES = 3
_FIRST_PAUSE_SECONDS = 0.1
# A pause is up to so much longer, lest all that were refused at once come back at once.
_JITTER = 0.2


async def with_retries(request: Request, send: Callable[[Request], Awaitable[T]]) -> T:
    """Send a request, and again where that is safe; see `send_again`."""
    began = asyncio.get_running_loop().time()
    try:
        return await send(request)
    except (ApiError, TransportError) as error:
        return await send_again(request, send, error, began)


async def send_again(
    request: Request,
    send: Callable[[Request], Awaitable[T]],
    first: ApiError | TransportError,
    began: float,
    pressure: Pressure | None = None,
) -> T:
    """Send a request that has failed again, where that is safe; raise its error where it is not.

    429 and 5xx are tried up to ten times when the answer names a time to wait, for the server promises then
    that it did nothing. A proxy's promise counts for GET only, and so does a failed connection: any other method may
    have done its work.

    Args:
        request: The request.
        send: Sends it once, and waits for a place of its own each time.
        first: The error of the first try.
        began: When the first try began; all have to end within 30 s.
        pressure: Spreads the pauses, and has a budget of them: beyond it the error is raised, so that no more workers
            sleep. Their keys are delayed then, and others have their turn. None for neither.
    """
    if pause(request, first, 1) is None:
        raise first
    deadline = began + CALL_SECONDS
    if pressure is None:
        return await _again(request, send, first, deadline, None)
    with pressure.here().retrying() as is_within_budget:
        if not is_within_budget:
            raise first
        return await _again(request, send, first, deadline, pressure.random)


def pause(request: Request, error: BaseException | None, tries: int) -> float | None:
    """Return how many seconds to wait before the next try, or None when there is none.

    Args:
        request: The request.
        error: How the last try failed.
        tries: How often it has been sent.
    """
    match error:
        case ApiError() if error.has_cause(UNEXPECTED_RESPONSE) and request.method != "GET":
            return None
        case ApiError() if error.retry_after_seconds > 0 and (error.code == 429 or error.code >= 500):
            return error.retry_after_seconds if tries < _TRIES else None
        case TransportError() if request.method == "GET":
            return _FIRST_PAUSE_SECONDS * 2 ** (tries - 1) if tries < _CONNECTION_TRIES else None
    return None


async def _again(
    request: Request, send: Callable[[Request], Awaitable[T]], first: KcrError, deadline: float, random: Random | None
) -> T:
    # Imported when something fails: most processes never need it.
    import tenacity  # noqa: PLC0415  # see above

    now = asyncio.get_running_loop().time

    def error_of(state: "RetryCallState") -> BaseException:
        return (state.outcome.exception() if state.outcome else None) or first

    def wait(state: "RetryCallState") -> float:
        seconds = pause(request, error_of(state), state.attempt_number) or 0.0
        return seconds * (1 + random.random() * _JITTER) if random is not None else seconds

    def is_over(state: "RetryCallState") -> bool:
        seconds = pause(request, error_of(state), state.attempt_number)
        return seconds is None or now() + seconds >= deadline

    # The plain call before this policy was its first attempt.
    past, sent = [first], 1

    async def attempt() -> T:
        nonlocal sent
        if past:
            raise past.pop()
        sent += 1
        return await send(request._replace(resend_count=sent - 1))

    policy = tenacity.AsyncRetrying(sleep=asyncio.sleep, wait=wait, stop=is_over, reraise=True)
    answer: T = await policy(attempt)
    return answer
