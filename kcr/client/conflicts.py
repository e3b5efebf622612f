"""Optimistic concurrency: read and write again after a conflict."""

import asyncio
import random as randomness
from collections.abc import Awaitable, Callable
from typing import Annotated, NamedTuple, TypeVar, cast

from msgspec import Meta

from kcr.annotations import NotNegative
from kcr.api.meta import Key, Resource
from kcr.arguments import awaited, checked
from kcr.client.client import Client
from kcr.errors import ConflictError

R = TypeVar("R", bound=Resource)
T = TypeVar("T")


@checked
class ConflictRetry(NamedTuple):
    """How often a write is tried, and how long the pauses are.

    Attributes:
        tries: The number of attempts.
        seconds: The first pause, in seconds.
        factor: Multiplies the pause after each attempt.
        jitter: The largest random share that is added to a pause.
    """

    tries: Annotated[int, Meta(ge=1)] = 5
    seconds: NotNegative = 0.01
    factor: NotNegative = 1.0
    jitter: NotNegative = 0.1


# Source: kubernetes/staging/src/k8s.io/client-go/util/retry/util.go, DefaultRetry and DefaultBackoff: the first
# for a rare conflict, the second for objects that many write at once.
DEFAULT_RETRY = ConflictRetry()
DEFAULT_BACKOFF = ConflictRetry(tries=4, factor=5.0)


@checked
async def retry_on_conflict(
    client: Client,
    kind: type[R],
    key: Key,
    write: Callable[[R], Awaitable[T]],
    *,
    retry: ConflictRetry = DEFAULT_RETRY,
    random: randomness.Random | None = None,
) -> T:
    """Read an object and write it, and both again when another client wrote it in between (409 Conflict).

    The object is read from the server each time, never from a store: a store that lags behind would lead
    to the same conflict again.

    Args:
        client: Reads the object.
        kind: The type of the object.
        key: Its namespace and name.
        write: Makes one attempt with the object as it is now, and lets ConflictError pass.
        retry: How often, and with which pauses.
        random: The source of the jitter.

    Returns:
        The return value of `write`.

    Raises:
        ConflictError: The last attempt conflicted as well.
        ApiError: Any other refusal, at once.
    """
    # Imported when something is written this way: most processes never need it.
    import tenacity  # noqa: PLC0415  # see above

    chance = random or randomness.Random()

    def pause(state: tenacity.RetryCallState) -> float:
        return retry.seconds * retry.factor ** (state.attempt_number - 1) * (1 + retry.jitter * chance.random())

    async def attempt() -> T:
        return cast("T", await awaited(write(await client.get(kind, key)), "retry_on_conflict: write"))

    policy = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type(ConflictError), wait=pause,
        stop=tenacity.stop_after_attempt(retry.tries), sleep=asyncio.sleep, reraise=True,
    )  # fmt: skip
    return await policy(attempt)
