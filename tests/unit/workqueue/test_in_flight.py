"""At most so many keys of a group in flight: what a queue with slots promises."""

import asyncio

import pytest

from kcr.api.meta import Key
from kcr.errors import QueueClosedError
from kcr.metrics import Metrics
from kcr.workqueue import LOW_PRIORITY, FairBy, WorkQueue

pytestmark = pytest.mark.asyncio


def key(namespace: str, name: object = "x") -> Key:
    return Key(namespace, str(name))


async def taken(queue: WorkQueue[Key]) -> list[str]:
    """Return the keys that workers can take just now, without an end of any."""
    keys = []
    while True:
        try:
            async with asyncio.timeout(0):
                keys.append(str(await queue.get()))
        except TimeoutError:
            return keys


def queue_of(most: int, *names: str, fair_by: FairBy[Key] | None = None) -> WorkQueue[Key]:
    queue = WorkQueue[Key](in_flight=("namespace", most), fair_by=fair_by)
    for name in names:
        queue.add(Key.parse(name))
    return queue


async def test_keys_of_a_full_group_wait_and_others_pass() -> None:
    queue = queue_of(2, "a/1", "a/2", "a/3", "b/1", "a/4")
    assert await taken(queue) == ["a/1", "a/2", "b/1"]
    assert len(queue) == 2
    queue.done(Key.parse("a/2"))
    assert await taken(queue) == ["a/3"]
    queue.done(Key.parse("b/1"))
    assert await taken(queue) == []


async def test_held_key_is_next_once_a_slot_is_free() -> None:
    queue = queue_of(1, "a/1", "a/2")
    assert await taken(queue) == ["a/1"]
    for name in ("b/1", "b/2", "a/3"):
        queue.add(Key.parse(name))
    queue.done(Key.parse("a/1"))
    assert await taken(queue) == ["a/2", "b/1"]


async def test_higher_priorities_pass_a_held_key() -> None:
    queue = queue_of(1)
    for name, priority in (("a/1", 0), ("a/2", LOW_PRIORITY), ("a/3", 0)):
        queue.add(Key.parse(name), priority)
    assert await taken(queue) == ["a/1"]
    queue.add(Key.parse("b/1"), 5)
    queue.done(Key.parse("a/1"))
    assert await taken(queue) == ["b/1", "a/3"]


async def test_held_key_is_raised() -> None:
    queue = queue_of(1, "a/1", "a/2", "a/3")
    assert await taken(queue) == ["a/1"]
    queue.add(Key.parse("a/3"), 5)
    queue.done(Key.parse("a/1"))
    assert await taken(queue) == ["a/3"]


async def test_key_added_while_it_is_processed_yields_to_held_ones() -> None:
    queue = queue_of(1, "a/1", "a/2")
    assert await taken(queue) == ["a/1"]
    queue.add(Key.parse("a/1"))
    queue.done(Key.parse("a/1"))
    assert await taken(queue) == ["a/2"]
    queue.done(Key.parse("a/2"))
    assert await taken(queue) == ["a/1"]


async def test_held_keys_count_as_queued() -> None:
    metrics = Metrics()
    queue = WorkQueue[Key](in_flight=("namespace", 1), metrics=metrics.queue("web"))
    for number in range(3):
        queue.add(key("a", number), LOW_PRIORITY if number else 0)
    await taken(queue)
    assert queue.state(key("a", 2)).queued == LOW_PRIORITY
    depth = {"name": "web", "controller": "web", "priority": str(LOW_PRIORITY)}
    assert metrics.registry.get_sample_value("workqueue_depth", depth) == 2


async def test_shut_down_hands_out_held_keys_and_ends_the_waiting_workers() -> None:
    queue, seen = queue_of(1, "a/1", "a/2", "a/3", "b/1"), []

    async def worker() -> None:
        while True:
            try:
                async with queue.item() as one:
                    seen.append(str(one))
                    await asyncio.sleep(0)
            except QueueClosedError:
                return

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(worker())
        queue.shut_down()
        await queue.drain()
    assert sorted(seen) == ["a/1", "a/2", "a/3", "b/1"]


async def test_discarded_keys_are_held_no_longer() -> None:
    queue = queue_of(1, "a/1", "a/2")
    assert await taken(queue) == ["a/1"]
    queue.shut_down(discard=True)
    queue.done(Key.parse("a/1"))
    async with asyncio.timeout(5):
        await queue.drain()
    with pytest.raises(QueueClosedError):
        await queue.get()
