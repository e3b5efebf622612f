import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr.api.meta import Key
from kcr.errors import QueueClosedError
from kcr.testing import VirtualClock
from kcr.workqueue import LOW_PRIORITY, ItemExponential, WorkQueue
from kcr.workqueue.priorities import PriorityFIFO
from tests.kit.work_queues import take, take_when_there

pytestmark = pytest.mark.kcr_virtual


async def take_all(queue: WorkQueue[str]) -> str:
    return " ".join([await take(queue) for _ in range(len(queue))])


async def test_higher_priorities_are_handed_out_first() -> None:  # WQ-25
    queue = WorkQueue[str]()
    for key, priority in (("low", LOW_PRIORITY), ("normal", 0), ("high", 5), ("higher", 10), ("lower", -101)):
        queue.add(key, priority=priority)
    assert await take_all(queue) == "higher high normal low lower"


async def test_equal_priorities_are_handed_out_in_order_of_arrival() -> None:  # WQ-25, WQ-36: c-r#3330, c-r#3408
    queue = WorkQueue[str]()
    for number in range(6):
        queue.add(f"low-{number}", priority=LOW_PRIORITY)
        queue.add(f"high-{number}", priority=1)
    assert await take_all(queue) == " ".join(f"{name}-{number}" for name in ("high", "low") for number in range(6))


async def test_change_raises_a_queued_key_to_the_end_of_its_new_priority() -> None:  # WQ-26
    queue = WorkQueue[str]()
    for key in ("a", "b", "c"):
        queue.add(key, priority=LOW_PRIORITY)
    queue.add("x")
    queue.add("b")
    assert len(queue) == 4
    assert await take_all(queue) == "x b a c"


async def test_add_never_lowers_a_priority() -> None:  # WQ-26
    queue = WorkQueue[str]()
    queue.add("a", priority=5)
    queue.add("b", priority=5)
    queue.add("a", priority=LOW_PRIORITY)
    queue.add("a")
    assert queue.state("a").queued == 5
    assert await take_all(queue) == "a b"


async def test_raised_key_leaves_nothing_behind() -> None:  # WQ-5, WQ-26
    queue = WorkQueue[str]()
    queue.add("first", priority=LOW_PRIORITY)
    for _ in range(3):
        queue.add("a", priority=LOW_PRIORITY)
        queue.add("a")
        assert await take(queue) == "a"
    queue.add("last", priority=LOW_PRIORITY)
    queue.add("a", priority=LOW_PRIORITY)
    assert len(queue) == 3
    assert await take_all(queue) == "first last a"


async def test_key_raised_while_processed_comes_again_at_the_new_priority() -> None:  # WQ-27
    queue = WorkQueue[str]()
    queue.add("a", priority=LOW_PRIORITY)
    held = await queue.get()
    queue.add("b", priority=LOW_PRIORITY)
    queue.add("a", priority=LOW_PRIORITY)
    queue.add("a")
    assert (len(queue), queue.priority("a"), queue.state("a").queued) == (1, LOW_PRIORITY, 0)
    queue.done(held)
    assert await take_all(queue) == "a b"


async def test_delayed_key_keeps_its_priority(kcr_clock: VirtualClock) -> None:  # WQ-25, WQ-31
    queue = WorkQueue[str](ItemExponential(1, 60))
    queue.add_after("later", 2, priority=LOW_PRIORITY)
    queue.add_rate_limited("failed", priority=7)
    queue.add_after("normal", 2)
    await kcr_clock.advance(2)
    assert await take_all(queue) == "failed normal later"


@pytest.mark.parametrize(
    "delays", [pytest.param(((5, -1), (60, 3)), id="later-is-higher"), pytest.param(((60, 3), (5, -1)), id="lower")]
)
async def test_earliest_delay_and_highest_priority_count(
    kcr_clock: VirtualClock, delays: tuple[tuple[int, int], ...]
) -> None:  # WQ-13, WQ-26
    queue = WorkQueue[str]()
    for delay, priority in delays:
        queue.add_after("a", delay, priority=priority)
    await kcr_clock.advance(5)
    assert queue.state("a").queued == 3
    await take(queue)
    await kcr_clock.advance(100)
    assert len(queue) == 0


async def test_delay_ends_in_fifo_order_of_its_priority(kcr_clock: VirtualClock) -> None:  # WQ-26: c-r#3408
    queue = WorkQueue[str]()
    queue.add_after("late", 5, priority=LOW_PRIORITY)
    queue.add_after("soon", 1, priority=LOW_PRIORITY)
    await kcr_clock.advance(3)
    queue.add("between", priority=LOW_PRIORITY)
    await kcr_clock.advance(3)
    assert await take_all(queue) == "soon between late"


async def test_shut_down_serves_all_priorities_and_then_ends() -> None:  # WQ-29, WQ-36: c-r#3540
    queue = WorkQueue[str]()
    queue.add("low", priority=LOW_PRIORITY)
    queue.add("high", priority=1)
    queue.shut_down()
    queue.add("late", priority=2)
    assert await take_all(queue) == "high low"
    with pytest.raises(QueueClosedError):
        await queue.get()


async def test_queue_without_priorities_is_a_plain_one_again() -> None:
    fifo = PriorityFIFO[str]()
    for key, priority in (("a", 0), ("b", 1), ("c", LOW_PRIORITY)):
        fifo.push(key, priority)
    assert fifo.plain is None
    assert [fifo.pop() for _ in range(3)] == ["b", "a", "c"]
    assert fifo.plain is not None


async def test_discarded_keys_of_all_priorities_are_gone() -> None:  # WQ-29
    queue = WorkQueue[str]()
    for priority in (LOW_PRIORITY, 0, 1):
        queue.add(f"key{priority}", priority=priority)
    queue.shut_down(discard=True)
    assert len(queue) == 0
    with pytest.raises(QueueClosedError):
        await queue.get()


async def test_priority_that_is_no_whole_number_is_refused() -> None:
    queue = WorkQueue[str]()
    for wrong in ("high", 0.5):
        with pytest.raises(TypeError, match="give it a whole number"):
            queue.add("a", priority=wrong)  # type: ignore[arg-type]  # what is tested
        with pytest.raises(TypeError, match="give it a whole number"):
            queue.add_after("a", 1, priority=wrong)  # type: ignore[arg-type]  # what is tested
    assert len(queue) == 0


async def test_sleeping_worker_gets_a_key_of_low_priority(kcr_clock: VirtualClock) -> None:  # WQ-9
    queue = WorkQueue[str]()
    async with asyncio.TaskGroup() as group:
        worker = group.create_task(take_when_there(queue))
        await kcr_clock.settle()
        queue.add("a", priority=LOW_PRIORITY)
    assert worker.result() == "a"


async def serve(queue: WorkQueue[str], clock: VirtualClock, seconds: int, load: int = 0) -> list[str]:
    """Hand out a key each second, while as many of a priority are added as are handed out."""
    handed = []
    for second in range(seconds):
        queue.add(f"load-{second}", priority=load)
        handed.append(await take(queue))
        await clock.advance(1)
    return handed


# Ages are counted from the arrival of a key, and not from the start of the loop.
AT_ANY_TIME = pytest.mark.parametrize("begin", [0, 1000])


@AT_ANY_TIME
async def test_low_priority_waits_two_minutes_under_constant_load(kcr_clock: VirtualClock, begin: int) -> None:  # WQ-32
    queue = WorkQueue[str]()
    await kcr_clock.advance(begin)
    queue.add("low", priority=LOW_PRIORITY)
    handed = await serve(queue, kcr_clock, 130)
    assert handed.index("low") == 120


@AT_ANY_TIME
async def test_normal_priority_ages_under_a_load_of_higher_ones(kcr_clock: VirtualClock, begin: int) -> None:  # WQ-32
    queue = WorkQueue[str]()
    await kcr_clock.advance(begin)
    queue.add("normal")
    handed = await serve(queue, kcr_clock, 130, load=51)
    # Three steps of 25, for two of them leave it one short.
    assert handed.index("normal") == 90


async def test_aged_keys_and_changes_take_turns(kcr_clock: VirtualClock) -> None:  # WQ-32
    queue = WorkQueue[str]()
    for number in range(50):
        queue.add(f"low-{number}", priority=LOW_PRIORITY)
    await kcr_clock.advance(3600)
    for number in range(3):
        queue.add(f"change-{number}")
    assert [await take(queue) for _ in range(8)] == [
        "low-0", "change-0", "low-1", "change-1", "low-2", "change-2", "low-3", "low-4",
    ]  # fmt: skip


async def test_longest_waiting_of_several_aged_priorities_comes_first(kcr_clock: VirtualClock) -> None:  # WQ-32
    queue = WorkQueue[str]()
    queue.add("lower", priority=-200)
    await kcr_clock.advance(60)
    queue.add("low", priority=LOW_PRIORITY)
    await kcr_clock.advance(3600)
    queue.add("a")
    queue.add("b")
    assert await take_all(queue) == "lower a low b"


@given(
    priorities=st.lists(st.integers(-200, 50), min_size=1, max_size=12),
    load=st.integers(0, 60),
)
async def test_no_key_starves_under_any_load(priorities: list[int], load: int) -> None:  # WQ-32
    queue, clock = WorkQueue[str](), VirtualClock()
    for number, priority in enumerate(priorities):
        queue.add(f"key-{number}", priority=priority)
    slowest = -(-(load - min(priorities)) // 25) * 30
    handed = await serve(queue, clock, max(slowest, 0) + 2 * len(priorities) + 2, load)
    assert {f"key-{number}" for number in range(len(priorities))} <= set(handed)


@given(backlog=st.integers(0, 60), waited=st.integers(0, 300), before=st.integers(0, 5))
async def test_change_waits_for_no_more_than_twice_the_changes_before_it(
    backlog: int, waited: int, before: int
) -> None:  # WQ-32
    queue, clock = WorkQueue[str](), VirtualClock()
    for number in range(backlog):
        queue.add(f"low-{number}", priority=LOW_PRIORITY)
    await clock.advance(waited)
    for number in range(before):
        queue.add(f"change-{number}")
    queue.add("change")
    handed = [await take(queue) for _ in range(len(queue))]
    assert handed.index("change") <= 2 * before + 1


async def test_key_of_a_small_group_waits_for_one_key_of_a_large_one() -> None:
    queue = WorkQueue[Key](fair_by="namespace")
    for number in range(100):
        queue.add(Key("large", str(number)))
    queue.add(Key("small", "a"))
    queue.add(Key("small", "b"))
    assert [(await take(queue)).namespace for _ in range(5)] == ["large", "small", "large", "small", "large"]


async def test_groups_may_be_any_function_of_a_key() -> None:
    queue = WorkQueue[str](fair_by=lambda key: key[0])
    for key in ("a1", "a2", "a3", "b1"):
        queue.add(key)
    assert await take_all(queue) == "a1 b1 a2 a3"


async def test_no_key_is_lost_by_a_function_of_groups_that_fails_or_changes_its_mind() -> None:
    answers: Iterator[Any] = iter(("a", [], "b", "a"))
    queue = WorkQueue[str](fair_by=lambda key: next(answers))
    for key in ("1", "2", "3", "4", "5"):
        queue.add(key)
    queue.add("3", 1)
    assert await take_all(queue) == "3 1 2 4 5"


async def test_aged_keys_of_groups_alternate_with_changes(kcr_clock: VirtualClock) -> None:  # WQ-32
    queue = WorkQueue[Key](fair_by="namespace")
    for name in ("first", "second"):
        queue.add(Key("a", name), LOW_PRIORITY)
        queue.add(Key("b", name), LOW_PRIORITY)
    await kcr_clock.advance(120)
    for number in range(3):
        queue.add(Key("c", str(number)))
    assert [await take(queue) for _ in range(5)] == [
        Key("a", "first"),
        Key("c", "0"),
        Key("b", "first"),
        Key("c", "1"),
        Key("a", "second"),
    ]


async def test_normal_keys_of_groups_age_once_something_is_above_them(kcr_clock: VirtualClock) -> None:  # WQ-32
    queue = WorkQueue[Key](fair_by="namespace")
    for namespace in "ab":
        queue.add(Key(namespace, "normal"))
    queue.add(Key("c", "high"), 25)
    await kcr_clock.advance(30)
    for number in range(3):
        queue.add(Key("c", str(number)), 25)
    assert [await take(queue) for _ in range(4)] == [
        Key("a", "normal"),
        Key("c", "high"),
        Key("b", "normal"),
        Key("c", "0"),
    ]
