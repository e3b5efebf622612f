import asyncio
import itertools
import socket
import time
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import TypeVar

import pytest
from structlog.testing import capture_logs

from kcr.testing import StallError, VirtualClock
from kcr_devcluster.testing.loop import START, VirtualLoop
from tests.kit.loops import AsyncioLoop, CountingVirtualLoop, LoopFactory, on_all_loops, on_virtual_loops, run_on

T = TypeVar("T")


def run(main: Callable[[], Coroutine[None, None, T]]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())


def test_ten_hours_pass_without_waiting() -> None:
    async def main() -> float:
        await asyncio.sleep(36_000)
        return asyncio.get_running_loop().time()

    assert run(main) == 36_000


def test_centuries_later_timers_still_fire() -> None:
    async def main() -> float:
        await asyncio.sleep(1e10)
        await asyncio.sleep(0.25)
        return asyncio.get_running_loop().time()

    assert run(main) == 1e10 + 0.25


def test_no_timer_fires_early() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        early: list[float] = []

        def note(when: float) -> None:
            if loop.time() < when:
                early.append(when)

        for number in range(20):
            loop.call_at(1 + number * 1e-10, note, 1 + number * 1e-10)
        await asyncio.sleep(2)
        return early

    assert run(main) == []


def test_time_stands_at_the_timers_own_moment() -> None:
    async def main() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0.1)
        when = loop.time() + 0.2
        reached: asyncio.Future[float] = loop.create_future()
        loop.call_at(when, lambda: reached.set_result(loop.time()))
        return await reached, when

    reached, when = run(main)
    assert reached == when


def test_stall_names_the_tasks_that_wait() -> None:
    async def wait_for_nothing() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(wait_for_nothing(), name="forgotten")

    with pytest.raises(StallError, match=r"forgotten: .*wait_for_nothing > .* wait"):
        run(main)


def test_task_group_cancels_its_tasks_in_the_same_order_everywhere() -> None:
    ended: list[int] = []

    async def wait(number: int) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(number)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(wait(number))
            await asyncio.sleep(1)
            raise KeyError

    with pytest.raises(ExceptionGroup):
        run(main)
    assert ended == list(range(20))


def test_sockets_are_refused() -> None:
    async def main() -> None:
        asyncio.get_running_loop().add_reader(ours, lambda: None)

    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(RuntimeError, match="virtual time knows no sockets"):
        run(main)


def test_threads_are_refused() -> None:
    async def main() -> None:
        await asyncio.to_thread(time.perf_counter)

    with pytest.raises(RuntimeError, match="virtual time knows no threads"):
        run(main)


@pytest.mark.kcr_virtual
async def test_marked_test_runs_on_the_virtual_loop(kcr_clock: VirtualClock) -> None:
    before = kcr_clock.now()
    await kcr_clock.advance(600)
    assert (kcr_clock.now() - before).total_seconds() == 600
    assert isinstance(asyncio.get_running_loop(), VirtualLoop)


@pytest.mark.asyncio
async def test_other_tests_keep_their_loop() -> None:
    assert not isinstance(asyncio.get_running_loop(), VirtualLoop)


@pytest.mark.kcr_virtual
async def test_settle_finishes_the_moment_without_passing_time(kcr_clock: VirtualClock) -> None:
    steps: list[int] = []

    async def work() -> None:
        for step in range(20):
            await asyncio.sleep(0)
            steps.append(step)

    async with asyncio.TaskGroup() as group:
        group.create_task(work())
        await kcr_clock.settle()
        assert (len(steps), asyncio.get_running_loop().time()) == (20, 0)


@pytest.mark.kcr_virtual
async def test_run_until_stops_at_the_very_moment(kcr_clock: VirtualClock) -> None:
    done: list[bool] = []
    asyncio.get_running_loop().call_later(7.25, done.append, True)
    asyncio.get_running_loop().call_later(9, done.append, True)
    await kcr_clock.run_until(lambda: bool(done))
    assert asyncio.get_running_loop().time() == 7.25


@pytest.mark.kcr_virtual
async def test_run_until_gives_up_at_its_limit(kcr_clock: VirtualClock) -> None:
    with pytest.raises(AssertionError, match="does not hold after 60"):
        await kcr_clock.run_until(lambda: False, seconds=60)


def test_time_passes_where_work_never_ends() -> None:
    async def main() -> float:
        async with asyncio.TaskGroup() as group:
            busy = group.create_task(spin())
            await VirtualClock().advance(30)
            busy.cancel()
        return asyncio.get_running_loop().time()

    async def spin() -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    with capture_logs() as logs:
        passed = run(main)
    assert 30 <= passed < 33
    (line,) = [line for line in logs if line["log_level"] == "warning"]
    assert line["event"] == "the event loop is never idle, so virtual time passes although work is left"


def test_timers_fire_at_their_moments_while_work_never_ends() -> None:
    async def main() -> list[float]:
        loop, moments = asyncio.get_running_loop(), list[float]()
        for when in (0.0005, 0.25, 7.0):
            loop.call_at(when, lambda: moments.append(loop.time()))
        for _ in itertools.takewhile(lambda _: loop.time() < 8, itertools.count()):
            await asyncio.sleep(0)
        return moments

    assert run(main) == [0.0005, 0.25, 7.0]


def test_moment_of_much_work_takes_no_time() -> None:
    async def main() -> float:
        for _ in range(3):
            for _ in range(19_000):
                await asyncio.sleep(0)
            await VirtualClock().settle()
        return asyncio.get_running_loop().time()

    assert run(main) == 0


@on_all_loops
def test_coarse_timers_are_those_of_uvloop(loop: LoopFactory) -> None:
    async def main() -> tuple[list[bool], list[str], bool]:
        running = asyncio.get_running_loop()
        delays = (-1.0, 0.0, 0.0004, 0.0005, 0.00051, 0.0015)
        handles = [running.call_later(delay, int) for delay in delays]
        order: list[str] = []
        running.call_later(0, order.append, "timer")
        running.call_soon(order.append, "soon")
        early = False
        for _ in range(50):
            deadline = running.time() + 0.0014
            await asyncio.sleep(deadline - running.time())
            early = early or running.time() < deadline
        return [hasattr(handle, "when") for handle in handles], order, early

    uvloops = [False] * 4 + [True] * 2, ["timer", "soon"], True
    exact = [True] * 6, ["soon", "timer"], False
    assert run_on(loop, main()) == (exact if loop in (AsyncioLoop, CountingVirtualLoop) else uvloops)


@on_virtual_loops
def test_clock_of_coarse_timers_is_exact_and_reaches_each_moment(loop: LoopFactory) -> None:
    async def main() -> None:
        clock = VirtualClock()
        await clock.advance(30)
        assert 30 <= clock.boottime() < 30.001
        assert clock.now() == START + timedelta(seconds=clock.boottime())
        with pytest.raises(AssertionError, match="does not hold"):
            await clock.run_until(lambda: False, seconds=0.0003)
        begun = asyncio.get_running_loop().time()
        await clock.run_until(lambda: asyncio.get_running_loop().time() >= begun + 1.2345, seconds=1.2345)

    run_on(loop, main())
