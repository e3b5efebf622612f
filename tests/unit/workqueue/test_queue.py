import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kcr.errors import QueueClosedError
from kcr.testing import VirtualClock
from kcr.workqueue import ItemExponential, WorkQueue
from kcr_devcluster.testing.loop import VirtualLoop
from tests.kit.work_queues import take, take_when_there

pytestmark = pytest.mark.kcr_virtual


async def test_keys_come_in_the_order_of_arrival() -> None:  # WQ-1, WQ-11
    queue = WorkQueue[str]()
    for key in ("a", "b", "c"):
        queue.add(key)
    assert [await take(queue) for _ in range(3)] == ["a", "b", "c"]


@pytest.mark.parametrize("seconds", [0.0, 0.01])
def test_key_from_another_thread_wakes_a_worker_at_once(seconds: float) -> None:
    queue = WorkQueue[str]()

    async def work() -> str:
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            worker = group.create_task(take_when_there(queue))
            await asyncio.sleep(0)  # it waits
            other = threading.Thread(target=run, args=(add(),))
            # Started by the loop's last callback before it sleeps for long.
            asyncio.get_running_loop().call_soon(other.start)
            began = asyncio.get_running_loop().time()
            await worker
            assert asyncio.get_running_loop().time() - began < 2
            return worker.result()

    async def add() -> None:
        await asyncio.sleep(0.05)
        queue.add_after("a", seconds)

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:  # real time: two threads
            return runner.run(main)

    assert run(work()) == "a"


async def test_key_added_twice_comes_once() -> None:  # WQ-2, WQ-5
    queue = WorkQueue[str]()
    queue.add("a")
    queue.add("a")
    await take(queue)
    assert len(queue) == 0


async def test_key_added_while_held_comes_round_again_after_done() -> None:  # WQ-2, WQ-4, WQ-5, WQ-6
    queue = WorkQueue[str]()
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done(key)
    assert await take(queue) == "a"
    assert len(queue) == 0


async def test_done_without_get_is_refused() -> None:  # WQ-4
    queue = WorkQueue[str]()
    queue.add("a")
    with pytest.raises(RuntimeError, match="it was not being processed"):
        queue.done("a")


async def test_failing_worker_gives_its_key_back() -> None:  # WQ-10
    queue = WorkQueue[str]()
    queue.add("a")
    with pytest.raises(ZeroDivisionError):
        async with queue.item():
            raise ZeroDivisionError
    queue.add("a")
    assert await take(queue) == "a"


async def test_sleeping_worker_gets_the_key_that_arrives(kcr_clock: VirtualClock) -> None:  # WQ-3, WQ-9
    queue = WorkQueue[str]()
    async with asyncio.TaskGroup() as group:
        worker = group.create_task(take_when_there(queue))
        await kcr_clock.settle()
        queue.add("a")
    assert worker.result() == "a"


async def test_worker_cancelled_when_woken_passes_the_key_on(kcr_clock: VirtualClock) -> None:  # WQ-9
    queue = WorkQueue[str]()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(take_when_there(queue))
        second = group.create_task(take_when_there(queue))
        await kcr_clock.settle()
        queue.add("a")
        first.cancel()
    assert first.cancelled()
    assert second.result() == "a"


async def test_worker_cancelled_asleep_takes_no_wake_up(kcr_clock: VirtualClock) -> None:  # WQ-9
    queue = WorkQueue[str]()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(take_when_there(queue))
        second = group.create_task(take_when_there(queue))
        await kcr_clock.settle()
        first.cancel()
        await kcr_clock.settle()
        queue.add("a")
    assert second.result() == "a"


async def test_shut_down_queue_hands_out_what_waits() -> None:  # WQ-2, WQ-3, WQ-7, WQ-12
    queue = WorkQueue[str]()
    queue.add("a")
    queue.shut_down()
    queue.add("b")
    queue.add_after("c", 1)
    assert await take(queue) == "a"
    with pytest.raises(QueueClosedError):
        await queue.get()


async def test_shut_down_wakes_every_sleeping_worker(kcr_clock: VirtualClock) -> None:  # WQ-7
    queue = WorkQueue[str]()

    async def closed() -> bool:
        try:
            await queue.get()
        except QueueClosedError:
            return True
        return False

    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(closed()) for _ in range(3)]
        await kcr_clock.settle()
        queue.shut_down()
        queue.shut_down()
    assert all(worker.result() for worker in workers)


async def test_discarded_keys_are_not_handed_out() -> None:  # WQ-7
    queue = WorkQueue[str]()
    queue.add("a")
    queue.add("b")
    held = await queue.get()
    queue.add(held)
    queue.shut_down(discard=True)
    queue.done(held)
    with pytest.raises(QueueClosedError):
        await queue.get()


async def test_drain_waits_for_held_keys_and_those_added_while_held(kcr_clock: VirtualClock) -> None:  # WQ-8
    queue = WorkQueue[str]()
    queue.add("a")
    held = await queue.get()
    queue.add("a")
    async with asyncio.TaskGroup() as group:
        drained = group.create_task(queue.drain())
        queue.shut_down()
        await kcr_clock.settle()
        assert not drained.done()
        queue.done(held)
        await kcr_clock.settle()
        assert not drained.done()
        await take(queue)


async def test_drain_waits_for_keys_that_no_worker_has_taken(kcr_clock: VirtualClock) -> None:  # WQ-8
    queue = WorkQueue[str]()
    queue.add("a")
    queue.shut_down()
    async with asyncio.TaskGroup() as group:
        drained = group.create_task(queue.drain())
        await kcr_clock.settle()
        assert not drained.done()
        await take(queue)


async def test_second_shut_down_lets_those_go_who_drain(kcr_clock: VirtualClock) -> None:  # WQ-7, WQ-8
    queue = WorkQueue[str]()
    queue.add("a")
    held = await queue.get()
    async with asyncio.TaskGroup() as group:
        drained = group.create_task(queue.drain())
        queue.shut_down()
        await kcr_clock.settle()
        assert not drained.done()
        queue.shut_down()
    queue.done(held)


async def test_delayed_key_comes_at_its_moment(kcr_clock: VirtualClock) -> None:  # WQ-12, WQ-6
    queue = WorkQueue[str]()
    queue.add_after("a", 10)
    await kcr_clock.advance(9.5)
    assert len(queue) == 0
    await kcr_clock.advance(0.5)
    assert len(queue) == 1


async def test_delay_of_zero_or_less_adds_at_once() -> None:  # WQ-12
    queue = WorkQueue[str]()
    queue.add_after("a", 0)
    queue.add_after("b", -1)
    assert len(queue) == 2


@pytest.mark.parametrize(
    "delays", [pytest.param((5, 60), id="later-second"), pytest.param((60, 5), id="earlier-second")]
)
async def test_earliest_of_two_delays_wins(kcr_clock: VirtualClock, delays: tuple[int, int]) -> None:  # WQ-13
    queue = WorkQueue[str]()
    for delay in delays:
        queue.add_after("a", delay)
    await kcr_clock.advance(5)
    assert await take(queue) == "a"
    await kcr_clock.advance(100)
    assert len(queue) == 0


async def test_add_leaves_the_delayed_turn_alone(kcr_clock: VirtualClock) -> None:  # WQ-14
    queue = WorkQueue[str]()
    queue.add_after("a", 5)
    queue.add("a")
    await take(queue)
    await kcr_clock.advance(5)
    assert len(queue) == 1


async def test_delayed_turn_can_be_cancelled(kcr_clock: VirtualClock) -> None:  # WQ-14
    queue = WorkQueue[str]()
    queue.cancel_after("a")
    queue.add_after("a", 5)
    queue.cancel_after("a")
    await kcr_clock.advance(10)
    assert len(queue) == 0
    queue.add_after("a", 5)
    queue.cancel_after("a")
    queue.add_after("a", 5)
    await kcr_clock.advance(5)
    assert await take(queue) == "a"
    await kcr_clock.advance(60)
    assert len(queue) == 0


async def test_cancelled_turns_are_not_kept_until_their_moment(kcr_clock: VirtualClock) -> None:
    class Key:
        """Something that can be missed."""

    queue, seen = WorkQueue[Key](), []
    for _ in range(1000):
        key = Key()
        queue.add_after(key, 1_000_000)
        queue.cancel_after(key)
        seen.append(weakref.ref(key))
    assert sum(one() is not None for one in seen) < 100


async def test_cancelled_turns_are_dropped_among_many_that_stay(kcr_clock: VirtualClock) -> None:
    class Key:
        """Something that can be missed."""

    queue = WorkQueue[Key]()
    # In no order, and each of them once.
    turns = {number * 7919 % 1103: Key() for number in range(1103)}
    for seconds, key in turns.items():
        queue.add_after(key, seconds)
    seen = weakref.WeakSet(turns.values())
    for seconds in [seconds for seconds in turns if seconds % 10]:
        queue.cancel_after(turns.pop(seconds))
    del key
    assert len(turns) <= len(seen) < 3 * len(turns)
    await kcr_clock.advance(1103)
    assert [await take(queue) for _ in range(len(queue))] == [turns[seconds] for seconds in sorted(turns)]


async def test_delays_cost_one_timer_however_many_they_are(kcr_clock: VirtualClock) -> None:  # WQ-15
    queue = WorkQueue[str]()
    for number in range(100):
        queue.add_after(f"key-{number}", 100 - number)
    moments = set[float]()

    def all_there() -> bool:
        moments.add(asyncio.get_running_loop().time())
        return len(queue) == 100

    await kcr_clock.run_until(all_there)
    # Time stood still only where a key was due: no heartbeat, and no timer of an overtaken moment.
    assert moments == {0.0, *(float(second) for second in range(1, 101))}


async def test_drain_given_up_leaves_the_queue_at_work(kcr_clock: VirtualClock) -> None:  # WQ-8
    queue = WorkQueue[str]()
    queue.add("a")
    held = await queue.get()
    queue.shut_down()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await queue.drain()
    queue.done(held)
    await queue.drain()


async def test_held_keys_can_be_named() -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    async with queue.item():
        assert queue.processing == {"a"}
    assert queue.processing == frozenset()


@pytest.mark.parametrize("key", [1, "a", ("default", "a"), frozenset({1})])
async def test_any_hashable_value_is_a_key(key: Hashable) -> None:  # WQ-1
    queue = WorkQueue[Hashable]()
    queue.add(key)
    queue.add(key)
    assert await queue.get() == key
    assert len(queue) == 0


async def test_delayed_keys_come_in_the_order_of_their_moments(kcr_clock: VirtualClock) -> None:  # WQ-12, WQ-13
    queue = WorkQueue[str]()
    for key, delay in (("late", 3), ("first", 1), ("tie", 1), ("second", 2)):
        queue.add_after(key, delay)
    await kcr_clock.advance(3)
    assert [await take(queue) for _ in range(4)] == ["first", "tie", "second", "late"]


async def test_shut_down_forgets_delayed_keys(kcr_clock: VirtualClock) -> None:  # WQ-16
    queue = WorkQueue[str]()
    queue.add_after("a", 5)
    assert queue.shut_down() == 1
    assert queue.shut_down() == 0
    await kcr_clock.advance(10)
    assert len(queue) == 0


async def test_failures_double_the_delay_until_forgotten(kcr_clock: VirtualClock) -> None:  # WQ-19, WQ-20
    queue = WorkQueue[str](ItemExponential(1, 60))
    moments = []
    for _ in range(8):
        queue.add_rate_limited("a")
        before = kcr_clock.now()
        await kcr_clock.run_until(lambda: len(queue) > 0)
        moments.append((kcr_clock.now() - before).total_seconds())
        await take(queue)
    assert moments == [1, 2, 4, 8, 16, 32, 60, 60]
    assert queue.retries("a") == 8
    queue.forget("a")
    assert queue.retries("a") == 0


async def test_server_may_ask_for_a_longer_delay(kcr_clock: VirtualClock) -> None:  # WQ-22
    queue = WorkQueue[str](ItemExponential(1, 60))
    queue.add_rate_limited("a", min_delay=30)
    await kcr_clock.advance(29)
    assert len(queue) == 0
    await kcr_clock.advance(1)
    assert len(queue) == 1


class Model(RuleBasedStateMachine):
    """WQ-5: no key twice in the queue, none processed concurrently, none lost."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.queue = WorkQueue[int]()
        self.wanted: list[int] = []  # added and not yet handed out, in the order of service
        self.again: list[int] = []  # added while held
        self.processing: list[int] = []
        self.delayed: dict[int, float] = {}
        self.now = 0.0

    def teardown(self) -> None:
        self.runner.close()

    def do(self, act: Callable[[], object]) -> None:
        async def main() -> None:
            act()

        self.runner.run(main())

    def model_add(self, key: int) -> None:
        if key in self.processing:
            if key not in self.again:
                self.again.append(key)
        elif key not in self.wanted:
            self.wanted.append(key)

    @rule(key=st.integers(0, 4))
    def add(self, key: int) -> None:
        self.do(lambda: self.queue.add(key))
        self.model_add(key)

    @rule(key=st.integers(0, 4), seconds=st.integers(1, 20))
    def add_after(self, key: int, seconds: int) -> None:
        self.do(lambda: self.queue.add_after(key, seconds))
        self.delayed.setdefault(key, self.now + seconds)
        self.delayed[key] = min(self.delayed[key], self.now + seconds)

    @rule(key=st.integers(0, 4))
    def cancel_after(self, key: int) -> None:
        self.do(lambda: self.queue.cancel_after(key))
        self.delayed.pop(key, None)

    @rule(seconds=st.integers(1, 10))
    def pass_time(self, seconds: int) -> None:
        self.now += seconds
        self.runner.run(VirtualClock().advance(seconds))
        due = [key for key, moment in self.delayed.items() if moment <= self.now]
        for key in sorted(due, key=lambda key: self.delayed[key]):
            del self.delayed[key]
            self.model_add(key)

    @precondition(lambda self: self.wanted)
    @rule()
    def get(self) -> None:
        key = self.runner.run(self.queue.get())
        assert key not in self.processing
        self.wanted.remove(key)
        self.processing.append(key)

    @precondition(lambda self: self.processing)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(self.processing))
        self.do(lambda: self.queue.done(key))
        self.processing.remove(key)
        if key in self.again:
            self.again.remove(key)
            self.wanted.append(key)

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        assert len(self.queue) == len(self.wanted)


TestLaws = Model.TestCase
TestLaws.settings = settings(stateful_step_count=40)


@given(steps=st.lists(st.sampled_from(["add", "worker", "cancel-first", "cancel-last", "settle"]), max_size=40))
async def test_cancelled_workers_lose_no_key(steps: list[str]) -> None:  # WQ-5, WQ-9
    queue = WorkQueue[int]()
    clock = VirtualClock()
    added, taken = 0, list[int]()
    workers = list[asyncio.Task[None]]()

    async def work() -> None:
        async with queue.item() as key:
            taken.append(key)

    async with asyncio.TaskGroup() as group:
        for step in steps:
            match step:
                case "add":
                    queue.add(added)
                    added += 1
                case "worker":
                    workers.append(group.create_task(work()))
                case "settle":
                    await clock.settle()
                case _ if workers:
                    workers.pop(0 if step == "cancel-first" else -1).cancel()
        await clock.settle()
        # No worker sleeps while a key waits.
        assert len(queue) == 0 or all(worker.done() for worker in workers)
        for worker in workers:
            worker.cancel()
        for _ in range(len(queue)):
            await work()
    assert sorted(taken) == list(range(added))
