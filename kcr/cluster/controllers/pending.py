"""Places to look at, each at most once, in the order they came up."""

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Pending(Generic[K]):
    """What is to be done next, for one reader."""

    def __init__(self) -> None:
        # A dict for its order.
        self._waiting: dict[K, None] = {}
        self._filled = asyncio.Event()

    def add(self, *found: K) -> None:
        """Put at the end what does not wait already."""
        self._waiting.update(dict.fromkeys(found))
        if self._waiting:
            self._filled.set()

    async def next(self) -> K:
        """Wait for the first, and take it."""
        await self._filled.wait()
        first = next(iter(self._waiting))
        del self._waiting[first]
        if not self._waiting:
            self._filled.clear()
        return first
