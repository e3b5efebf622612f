"""Taking keys from work queues."""

from collections.abc import Hashable
from typing import TypeVar

from kcr.workqueue import WorkQueue

K = TypeVar("K", bound=Hashable)


async def take(queue: WorkQueue[K]) -> K:
    """Take a key that must be there, and give it back."""
    assert len(queue) > 0
    return await take_when_there(queue)


async def take_when_there(queue: WorkQueue[K]) -> K:
    """Wait for a key, and give it back."""
    async with queue.item() as key:
        return key
