"""Laws of slots, by seed: never more keys of a group in flight, no key lost or starved, no worker idle for nothing."""

import asyncio
import random
from collections import Counter

import pytest

from kcr.api.meta import Key
from kcr.errors import QueueClosedError
from kcr.workqueue import LOW_PRIORITY, WorkQueue
from kcr_devcluster.testing.loop import VirtualLoop

pytestmark = pytest.mark.law

SOAKED = [pytest.param(range(first, first + 300), marks=pytest.mark.soak) for first in range(60, 3000, 300)]


def key(namespace: str, name: object = "x") -> Key:
    return Key(namespace, str(name))


async def scenario(draw: random.Random) -> None:
    """Random keys, groups, priorities, delays and cancelled workers, with the laws checked at each step."""
    most, workers, groups = draw.randint(1, 3), draw.randint(1, 6), "abcd"[: draw.randint(1, 4)]
    queue = WorkQueue[Key](in_flight=("namespace", most), fair_by=draw.choice((None, "namespace")))
    running, owed = Counter[str](), set[Key]()

    async def worker() -> None:
        while True:
            try:
                async with queue.item() as one:
                    owed.discard(one)
                    running[one.namespace] += 1
                    assert running[one.namespace] <= most
                    await asyncio.sleep(draw.choice((0.1, 0.7, 1)))
                    running[one.namespace] -= 1
            except QueueClosedError:
                return

    def add() -> None:
        one = key(draw.choice(groups), draw.randrange(6))
        owed.add(one)
        queue.add(one, draw.choice((LOW_PRIORITY, 0, 0, 7)))

    async with asyncio.timeout(3600), asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(worker())
        for _ in range(draw.randint(1, 120)):
            for _ in range(draw.choice((1, 1, 10))):
                add()
            await asyncio.sleep(draw.choice((0, 0, 0.05, 2)))
        # As many as can be are in flight: no worker rests while a key has a slot.
        for _ in range(50):
            await asyncio.sleep(0)
        if running.total() < workers:
            assert not [one for one in owed - queue.processing if running[one.namespace] < most]
        queue.shut_down()
        await queue.drain()
    assert not owed, "lost"
    assert not len(queue)


@pytest.mark.parametrize("seeds", [range(60), *SOAKED], ids=str)
def test_no_group_has_more_and_no_key_is_lost(seeds: range) -> None:
    for seed in seeds:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(scenario(random.Random(seed)))


async def flood() -> Counter[str]:
    """A flood of one group and of high priorities beside a single key of low priority."""
    queue, seen = WorkQueue[Key](in_flight=("namespace", 1)), Counter[str]()

    async def worker() -> None:
        while True:
            async with queue.item() as one:
                seen[one.namespace] += 1
                await asyncio.sleep(1)
                if one.namespace != "quiet":
                    queue.add(one, 5)

    for number in range(5):
        queue.add(key("busy", number), 5)
        queue.add(key("other", number), 5)
    queue.add(key("quiet"), LOW_PRIORITY)
    queue.add(key("busy", "low"), LOW_PRIORITY)
    tasks = [asyncio.get_running_loop().create_task(worker()) for _ in range(2)]  # they never end
    await asyncio.sleep(400)
    for task in tasks:
        task.cancel()
    return seen


def test_key_of_low_priority_does_not_starve() -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(flood())["quiet"] == 1
