"""Wall time that follows a virtual loop, and ways to let it pass."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from kcr.testing.loop import VirtualLoop

START = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualClock:
    """A clock that shows `start` when its loop begins, and moves only as the loop's time does."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start

    def now(self) -> datetime:
        """Return the present moment of the running loop, timezone-aware UTC."""
        return self._start + timedelta(seconds=asyncio.get_running_loop().time())

    async def advance(self, seconds: float) -> None:
        """Let time pass, and return when everything due by then has been done."""
        await self.settle()
        await asyncio.sleep(seconds)
        await self.settle()

    async def settle(self) -> None:
        """Return when nothing is left to do at the present moment; no time passes."""
        await _virtual_loop().settled()

    async def run_until(self, check: Callable[[], bool], *, seconds: float = 3600) -> None:
        """Let time pass until `check` holds, and stop at the very moment.

        Raises:
            AssertionError: It still does not hold after `seconds`.
        """
        loop = _virtual_loop()
        limit = loop.time() + seconds
        await loop.settled()
        while not check():
            if loop.time() >= limit:
                raise AssertionError(f"{check} does not hold after {seconds} s of virtual time")
            await loop.jumped(limit)
            await loop.settled()


def _virtual_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise RuntimeError("time passes by itself on this loop: mark the test with pytest.mark.virtual")
    return loop
