"""Client-side rate limit: requests per second, with bursts."""

import asyncio
from collections.abc import Callable
from typing import Annotated

from msgspec import Meta

from kcr.annotations import Positive
from kcr.arguments import checked
from kcr.client.loops import HomeLoop, PerLoop
from kcr.log import get_logger
from kcr.tokenbucket import TokenBucket

# Shorter waits are not logged.
_TOLD_SECONDS = 0.05

_log = get_logger("kcr.client")


class RateLimit:
    """A token bucket on the loop's time. Requests that wait are sent in the order in which they came.

    Each event loop has a bucket of its own: webhooks, which have a loop of their own, never wait for reconciles.

    Each that waits for longer than 50 ms is logged, with the controller and the key that its reconcile is about.
    """

    @checked
    def __init__(
        self,
        qps: Positive,
        burst: Annotated[int, Meta(ge=1)],
        *,
        on_wait: Callable[[str, float], None] | None = None,
    ) -> None:
        """Start with a full bucket.

        Args:
            qps: How many requests per second in the long run; above zero.
            burst: How many may be sent at once after a pause; at least one.
            on_wait: Called for every request, with its method and the seconds it has waited, which may be 0.
        """
        self._on_wait = on_wait
        self._buckets = PerLoop(lambda: TokenBucket(qps, burst))
        self._home = HomeLoop()

    async def wait(self, method: str = "") -> None:
        """Return when the next request may be sent.

        Args:
            method: The request's, such as `GET`; only `on_wait` asks for it.
        """
        now = asyncio.get_running_loop().time
        began = now()
        seconds = self._buckets.here().reserve(began)
        if seconds > _TOLD_SECONDS:
            _log.debug("waited due to client-side throttling", seconds=round(seconds, 3))
        if seconds > 0:
            await asyncio.sleep(seconds)
        if self._on_wait is not None:
            self._home.call(self._on_wait, method, now() - began)
