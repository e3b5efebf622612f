"""Fairness between groups of keys: nothing is lost, a group is FIFO, and no group waits for two keys of another."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr.api.meta import Key
from kcr.workqueue import LOW_PRIORITY, WorkQueue
from kcr.workqueue.priorities import PriorityFIFO

pytestmark = pytest.mark.law

GROUPS = st.sampled_from("abcd")
# A push of a key of a group, or a pop.
STEPS = st.lists(st.none() | GROUPS, max_size=80)


def group_of(key: tuple[str, int]) -> str:
    return key[0]


@given(STEPS)
def test_groups_take_turns_and_each_is_fifo(steps: list[str | None]) -> None:
    fifo = PriorityFIFO[tuple[str, int]](group_of)
    waiting: dict[str, list[tuple[str, int]]] = {}
    # For each waiting group, how many keys of each other one were taken since its own turn.
    taken: dict[str, Counter[str]] = {}
    for number, group in enumerate([*steps, *[None] * len(steps)]):
        if group is not None:
            key = (group, number)
            fifo.push(key, 0)
            waiting.setdefault(group, []).append(key)
            taken.setdefault(group, Counter())
        elif waiting:
            name, _ = key = fifo.pop()
            assert waiting[name].pop(0) == key, "a group is FIFO"
            taken[name] = Counter()
            if not waiting[name]:
                del waiting[name], taken[name]
            for other in taken.keys() - {name}:
                taken[other][name] += 1
                assert taken[other][name] <= 1, f"{other} waited for two keys of {name}"
    assert not waiting
    assert fifo.depths() == {0: 0}


@given(st.lists(st.tuples(st.integers(0, 7), st.sampled_from((LOW_PRIORITY, 0, 5)), GROUPS), max_size=40))
def test_raised_keys_are_taken_once_at_their_highest_priority(adds: list[tuple[int, int, str]]) -> None:
    async def scenario() -> None:
        queue = WorkQueue[Key](fair_by="namespace")
        highest: dict[Key, int] = {}
        for name, priority, namespace in adds:
            key = Key(namespace, str(name))
            queue.add(key, priority)
            highest[key] = max(priority, highest.get(key, priority))
        taken = []
        while len(queue):
            key = await queue.get()
            taken.append(key)
            queue.done(key)
        assert sorted(taken) == sorted(highest), "each key once"
        priorities = [highest[key] for key in taken]
        assert priorities == sorted(priorities, reverse=True)

    asyncio.run(scenario())


@given(st.lists(st.sampled_from((LOW_PRIORITY, 0, 1)), max_size=30))
def test_queue_of_one_group_is_a_plain_queue(priorities: list[int]) -> None:
    async def order(queue: WorkQueue[Key]) -> list[Key]:
        for number, priority in enumerate(priorities):
            queue.add(Key("default", str(number % 9)), priority)
        return [await queue.get() for _ in range(len(queue))]

    async def scenario() -> None:
        assert await order(WorkQueue(fair_by="namespace")) == await order(WorkQueue())

    asyncio.run(scenario())
