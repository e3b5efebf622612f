import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from kcr.api.meta import Key
from kcr.controller import Controller, Result
from kcr.errors import ConflictError, ForbiddenError, TerminalError, TooManyRequestsError, TransportError
from kcr.testing import VirtualClock
from kcr.workqueue import ItemExponential

pytestmark = pytest.mark.virtual

A, B = Key("default", "a"), Key("default", "b")


class Script:
    """A reconciler that does what it is told, and notes when."""

    def __init__(self, *steps: Callable[[], Awaitable[Result]]) -> None:
        self._steps = list(steps)
        self.runs: list[tuple[Key, float]] = []
        self.running = 0
        self.most = 0

    async def reconcile(self, key: Key) -> Result:
        self.runs.append((key, asyncio.get_running_loop().time()))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            return await self._steps.pop(0)() if self._steps else Result()
        finally:
            self.running -= 1


def fail(error: Exception) -> Callable[[], Awaitable[Result]]:
    async def step() -> Result:
        raise error

    return step


def work(seconds: float) -> Callable[[], Awaitable[Result]]:
    async def step() -> Result:
        await asyncio.sleep(seconds)
        return Result()

    return step


def ask(result: Result) -> Callable[[], Awaitable[Result]]:
    async def step() -> Result:
        return result

    return step


@asynccontextmanager
async def running(script: Script, *, workers: int = 1) -> AsyncIterator[Controller]:
    controller = Controller("test", script, workers=workers, limiter=ItemExponential(1, 60), random=random.Random(0))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(controller.run())
        yield controller
        task.cancel()


async def test_controller_without_workers_is_refused() -> None:
    with pytest.raises(ValueError, match="0 workers"):
        Controller("test", Script(), workers=0, random=random.Random(0))


async def test_key_is_reconciled_once_when_all_goes_well(clock: VirtualClock) -> None:
    script = Script()
    async with running(script) as controller:
        controller.queue.add(A)
        await clock.advance(3600)
    assert script.runs == [(A, 0)]


async def test_workers_take_different_keys_at_once(clock: VirtualClock) -> None:
    script = Script(*[work(10)] * 4)
    async with running(script, workers=2) as controller:
        for name in ("a", "b", "c", "d"):
            controller.queue.add(Key("default", name))
        await clock.advance(60)
    assert script.most == 2
    assert [moment for _, moment in script.runs] == [0, 0, 10, 10]


async def test_key_changed_meanwhile_waits_for_its_own_end(clock: VirtualClock) -> None:
    script = Script(work(10))
    async with running(script, workers=5) as controller:
        controller.queue.add(A)
        await clock.advance(1)
        controller.queue.add(A)
        await clock.advance(60)
    assert script.runs == [(A, 0), (A, 10)]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(TransportError("cut"), id="no-answer"),
        pytest.param(ConflictError(409, "Conflict", "newer"), id="conflict"),
        pytest.param(ZeroDivisionError("bug"), id="bug"),
        pytest.param(ExceptionGroup("two", [TransportError("cut"), TerminalError("no")]), id="mixed-group"),
    ],
)
async def test_failed_key_comes_back_later_each_time(clock: VirtualClock, error: Exception) -> None:
    script = Script(fail(error), fail(error), fail(error))
    async with running(script) as controller:
        controller.queue.add(A)
        await clock.advance(600)
        assert controller.queue.retries(A) == 0
    assert script.runs == [(A, 0), (A, 1), (A, 3), (A, 7)]


async def test_server_that_asks_to_wait_is_given_the_time(clock: VirtualClock) -> None:
    error = TooManyRequestsError(429, "TooManyRequests", "slow down", retry_after_seconds=30)
    script = Script(fail(error))
    async with running(script) as controller:
        controller.queue.add(A)
        await clock.advance(60)
    assert script.runs == [(A, 0), (A, 30)]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(TerminalError("never"), id="alone"),
        pytest.param(ExceptionGroup("both", [TerminalError("never"), TerminalError("nor")]), id="in-a-group"),
    ],
)
async def test_terminal_failure_rests_until_the_next_change(clock: VirtualClock, error: Exception) -> None:
    script = Script(fail(error))
    async with running(script) as controller:
        controller.queue.add(A)
        await clock.advance(3600)
        assert len(script.runs) == 1
        controller.queue.add(A)
        await clock.settle()
    assert len(script.runs) == 2


async def test_requeue_after_brings_the_key_back_and_forgets_failures(clock: VirtualClock) -> None:
    script = Script(fail(TransportError("cut")), ask(Result(timedelta(seconds=90))))
    async with running(script) as controller:
        controller.queue.add(A)
        await clock.advance(2)
        assert controller.queue.retries(A) == 0
        await clock.advance(300)
    assert script.runs == [(A, 0), (A, 1), (A, 91)]


async def test_requeue_after_nothing_means_at_once(clock: VirtualClock) -> None:
    script = Script(ask(Result(timedelta(0))), ask(Result(timedelta(seconds=-5))))
    async with running(script) as controller:
        controller.queue.add(A)
        await clock.advance(1)
    assert script.runs == [(A, 0), (A, 0), (A, 0)]


async def test_task_cancelled_by_the_reconciler_itself_is_a_failure(clock: VirtualClock) -> None:
    async def step() -> Result:
        inner = asyncio.get_running_loop().create_future()
        inner.cancel()
        await inner
        return Result()

    script = Script(step)
    async with running(script) as controller:
        controller.queue.add(A)
        await clock.advance(60)
    assert script.runs == [(A, 0), (A, 1)]


async def test_stopping_lets_running_reconciles_finish(clock: VirtualClock) -> None:
    finished = []

    async def step() -> Result:
        await asyncio.sleep(1)
        finished.append(True)
        return Result()

    script = Script(step)
    async with running(script) as controller:
        controller.queue.add(A)
        controller.queue.add(B)
        await clock.settle()
    assert finished == [True]
    assert [key for key, _ in script.runs] == [A]


async def test_stopping_cuts_off_what_hangs(clock: VirtualClock) -> None:
    script = Script(work(3600))
    async with running(script) as controller:
        controller.queue.add(A)
        await clock.advance(1)
    assert asyncio.get_running_loop().time() <= 1 + 5
    assert script.running == 0


async def test_reconciles_that_never_wait_leave_room_for_others(clock: VirtualClock) -> None:
    script = Script()
    async with running(script) as controller:
        for number in range(100):
            controller.queue.add(Key("default", str(number)))
        turns = 0
        while len(script.runs) < 100:
            await asyncio.sleep(0)
            turns += 1
    assert turns >= 100


@pytest.mark.parametrize(
    ("error", "level", "has_traceback"),
    [
        pytest.param(TransportError("cut"), "warning", False, id="no-answer"),
        pytest.param(ForbiddenError(403, "Forbidden", "no"), "warning", False, id="refused"),
        pytest.param(ConflictError(409, "Conflict", "newer"), "debug", False, id="conflict"),
        pytest.param(TerminalError("never"), "error", False, id="terminal"),
        pytest.param(ZeroDivisionError("bug"), "error", True, id="bug"),
    ],
)
async def test_failure_is_one_log_line_and_bugs_show_where(
    clock: VirtualClock, error: Exception, level: str, has_traceback: bool
) -> None:
    script = Script(fail(error))
    with capture_logs(processors=[merge_contextvars]) as lines:
        async with running(script) as controller:
            controller.queue.add(A)
            await clock.settle()
    (line,) = [line for line in lines if "error" in line]
    assert line["log_level"] == level
    assert ("exc_info" in line) == has_traceback
    assert line["error"] == f"{type(error).__name__}: {error}"
    assert (line["controller"], line["namespace"], line["name"]) == ("test", "default", "a")
    assert len(line["reconcile_id"]) == 16
