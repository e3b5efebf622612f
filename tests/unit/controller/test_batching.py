import pytest

from kcr.api.meta import Key
from kcr.controller import Batching
from kcr.testing import VirtualClock
from kcr.workqueue import WorkQueue

pytestmark = pytest.mark.kcr_virtual

KEY, OTHER = Key("default", "a"), Key("default", "b")


async def taken(queue: WorkQueue[Key]) -> int:
    """Take all keys that are queued, and return how many they were."""
    count = len(queue)
    for _ in range(count):
        queue.done(await queue.get())
    return count


async def test_quiet_object_is_enqueued_at_once_and_a_busy_one_once_per_period(kcr_clock: VirtualClock) -> None:
    queue = WorkQueue[Key]()
    batching = Batching(queue, 1.0)
    for _ in range(5):
        batching.enqueue(KEY)
        assert await taken(queue) == 1
        batching.spend(KEY)
    for _ in range(3):
        batching.enqueue(KEY)
    assert await taken(queue) == 0
    batching.enqueue(OTHER)
    assert await taken(queue) == 1
    await kcr_clock.advance(0.9)
    assert await taken(queue) == 0
    await kcr_clock.advance(0.1)
    assert await taken(queue) == 1


async def test_reconcile_without_a_token_takes_none_of_the_future(kcr_clock: VirtualClock) -> None:
    queue = WorkQueue[Key]()
    batching = Batching(queue, 1.0)
    for _ in range(50):
        batching.spend(KEY)
    batching.enqueue(KEY)
    await kcr_clock.advance(1.0)
    assert await taken(queue) == 1


async def test_object_that_is_forgotten_starts_with_a_full_bucket(kcr_clock: VirtualClock) -> None:
    queue = WorkQueue[Key]()
    batching = Batching(queue, 1.0)
    for _ in range(5):
        batching.spend(KEY)
    batching.forget(KEY)
    batching.enqueue(KEY)
    assert await taken(queue) == 1


async def test_period_zero_never_waits(kcr_clock: VirtualClock) -> None:
    queue = WorkQueue[Key]()
    batching = Batching(queue, 0.0)
    for _ in range(50):
        batching.spend(KEY)
    batching.enqueue(KEY)
    assert await taken(queue) == 1
