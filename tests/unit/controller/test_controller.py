import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from kcr.api.meta import Key
from kcr.controller import Controller, ControllerOptions, Result
from kcr.controller.reconcile import requeue_seconds
from kcr.errors import (
    ConflictError,
    ForbiddenError,
    ServerError,
    TerminalError,
    TooManyRequestsError,
    TransportError,
    leaves,
)
from kcr.metrics import Metrics
from kcr.testing import VirtualClock
from kcr.workqueue import ItemExponential

pytestmark = pytest.mark.kcr_virtual

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
async def running(script: Script, *, metrics: Metrics | None = None, **options: Any) -> AsyncIterator[Controller]:
    limiter = ItemExponential[Key](1, 60)
    given = ControllerOptions(limiter=limiter, **options)
    controller = Controller("test", script, given, random=random.Random(0), metrics=metrics)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(controller.run())
        yield controller
        task.cancel()


async def test_controller_without_workers_is_refused() -> None:
    with pytest.raises(ValueError, match="workers is 0: give it a whole number from 1 to 10000"):
        Controller("test", Script(), ControllerOptions(workers=0), random=random.Random(0))


async def test_controller_is_complete_when_it_exists(kcr_clock: VirtualClock) -> None:
    async with running(Script(), max_retries=3) as controller:
        born = set(vars(controller))
        controller.queue.add(A)
        await kcr_clock.advance(1)
    assert set(vars(controller)) == born
    assert len(born) <= 15


async def test_key_is_reconciled_once_when_all_goes_well(kcr_clock: VirtualClock) -> None:  # CM-4
    script = Script()
    async with running(script) as controller:
        controller.queue.add(A)
        await kcr_clock.advance(3600)
    assert script.runs == [(A, 0)]


async def test_workers_take_different_keys_at_once(kcr_clock: VirtualClock) -> None:  # WQ-5
    script = Script(*[work(10)] * 4)
    async with running(script, workers=2) as controller:
        for name in ("a", "b", "c", "d"):
            controller.queue.add(Key("default", name))
        await kcr_clock.advance(60)
    assert script.most == 2
    assert [moment for _, moment in script.runs] == [0, 0, 10, 10]


async def test_failing_and_deferred_keys_free_their_slots(kcr_clock: VirtualClock) -> None:
    script = Script(fail(TransportError("away")), work(1), work(1), work(1))
    async with running(script, workers=5, in_flight=("namespace", 1)) as controller:
        for key in (A, B, Key("other", "a")):
            controller.queue.add(key)
        await kcr_clock.advance(0)
        assert script.running == 2
        await kcr_clock.advance(10)
    assert (script.most, script.running) == (2, 0)
    assert sorted(key for key, _ in script.runs) == sorted([A, A, B, Key("other", "a")])


async def test_key_changed_meanwhile_waits_for_its_own_end(kcr_clock: VirtualClock) -> None:  # WQ-4, WQ-5
    script = Script(work(10))
    async with running(script, workers=5) as controller:
        controller.queue.add(A)
        await kcr_clock.advance(1)
        controller.queue.add(A)
        await kcr_clock.advance(60)
    assert script.runs == [(A, 0), (A, 10)]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ServerError(500, "InternalError", "no"), id="server-error"),
        pytest.param(ConflictError(409, "Conflict", "newer"), id="conflict"),
        pytest.param(ZeroDivisionError("bug"), id="bug"),
        pytest.param(ExceptionGroup("two", [TransportError("cut"), TerminalError("no")]), id="mixed-group"),
    ],
)
async def test_failed_key_comes_back_later_each_time(kcr_clock: VirtualClock, error: Exception) -> None:
    # WQ-19, CM-2, PY-6
    script = Script(fail(error), fail(error), fail(error))
    async with running(script) as controller:
        controller.queue.add(A)
        await kcr_clock.advance(600)
        assert controller.queue.retries(A) == 0
    assert script.runs == [(A, 0), (A, 1), (A, 3), (A, 7)]


async def test_server_that_asks_to_wait_is_given_the_time(kcr_clock: VirtualClock) -> None:  # WQ-22
    error = TooManyRequestsError(429, "TooManyRequests", "slow down", retry_after_seconds=30)
    script = Script(fail(error))
    async with running(script) as controller:
        controller.queue.add(A)
        await kcr_clock.advance(60)
    assert script.runs == [(A, 0), (A, 30)]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(TerminalError("never"), id="alone"),
        pytest.param(ExceptionGroup("both", [TerminalError("never"), TerminalError("nor")]), id="in-a-group"),
    ],
)
async def test_terminal_failure_rests_until_the_next_change(kcr_clock: VirtualClock, error: Exception) -> None:  # CM-4
    script = Script(fail(error))
    async with running(script) as controller:
        controller.queue.add(A)
        await kcr_clock.advance(3600)
        assert len(script.runs) == 1
        controller.queue.add(A)
        await kcr_clock.settle()
    assert len(script.runs) == 2


async def test_requeue_after_brings_the_key_back_and_forgets_failures(kcr_clock: VirtualClock) -> None:  # CM-4, WQ-19
    script = Script(fail(TransportError("cut")), ask(Result(timedelta(seconds=90))))
    async with running(script) as controller:
        controller.queue.add(A)
        await kcr_clock.advance(2)
        assert controller.queue.retries(A) == 0
        await kcr_clock.advance(300)
    assert script.runs == [(A, 0), (A, 1), (A, 91)]


async def test_requeue_after_nothing_means_at_once(kcr_clock: VirtualClock) -> None:
    script = Script(ask(Result(timedelta(0))), ask(Result(timedelta(seconds=-5))))
    async with running(script) as controller:
        controller.queue.add(A)
        await kcr_clock.advance(1)
    assert script.runs == [(A, 0), (A, 0), (A, 0)]


async def test_task_cancelled_by_the_reconciler_itself_is_a_failure(kcr_clock: VirtualClock) -> None:  # CM-6
    async def step() -> Result:
        inner = asyncio.get_running_loop().create_future()
        inner.cancel()
        await inner
        return Result()

    script = Script(step)
    async with running(script) as controller:
        controller.queue.add(A)
        await kcr_clock.advance(60)
    assert script.runs == [(A, 0), (A, 1)]


async def test_stopping_lets_running_reconciles_finish(kcr_clock: VirtualClock) -> None:  # CM-24, WQ-8
    finished = []

    async def step() -> Result:
        await asyncio.sleep(1)
        finished.append(True)
        return Result()

    script = Script(step)
    async with running(script) as controller:
        controller.queue.add(A)
        controller.queue.add(B)
        await kcr_clock.settle()
    assert finished == [True]
    assert [key for key, _ in script.runs] == [A]


async def test_stopping_cuts_off_what_hangs(kcr_clock: VirtualClock) -> None:  # CM-23
    script = Script(work(3600))
    async with running(script) as controller:
        controller.queue.add(A)
        await kcr_clock.advance(1)
    assert asyncio.get_running_loop().time() <= 1 + 5
    assert script.running == 0


async def test_reconciles_that_never_wait_leave_room_for_others(kcr_clock: VirtualClock) -> None:
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
    kcr_clock: VirtualClock, error: Exception, level: str, has_traceback: bool
) -> None:  # CM-6, CM-8
    script = Script(fail(error))
    with capture_logs(processors=[merge_contextvars]) as lines:
        async with running(script) as controller:
            controller.queue.add(A)
            await kcr_clock.settle()
    (line,) = [line for line in lines if "error" in line]
    assert line["log_level"] == level
    assert ("exc_info" in line) == has_traceback
    assert line["error"] == f"{type(error).__name__}: {error}"
    assert (line["controller"], line["namespace"], line["name"]) == ("test", "default", "a")
    assert len(line["reconcile_id"]) == 16


async def test_tiny_delay_is_long_enough_to_move_a_clock(kcr_clock: VirtualClock) -> None:  # CM-4
    script = Script(ask(Result(timedelta(microseconds=1))))
    async with running(script) as controller:
        controller.queue.add(A)
        await kcr_clock.advance(1)
    assert script.runs == [(A, 0), (A, 0.001)]


async def test_reconcile_that_takes_too_long_is_cut_off_and_fails(kcr_clock: VirtualClock) -> None:  # CM-9
    metrics, script = Metrics(), Script(work(3600), work(9))
    with capture_logs() as lines:
        async with running(script, reconcile_timeout=10, metrics=metrics) as controller:
            controller.queue.add(A)
            await kcr_clock.advance(60)
    assert script.runs == [(A, 0), (A, 11)]
    assert metrics.registry.get_sample_value(*series("reconcile_timeouts_total")) == 1
    cut, failed = (line for line in lines if line["log_level"] == "warning")
    assert cut["event"] == "reconcile timed out"
    assert "exc_info" in cut
    assert failed["error"] == "DeadlineError: took longer than 10 s"


async def test_timeout_of_the_reconcilers_own_is_an_ordinary_failure(kcr_clock: VirtualClock) -> None:  # CM-9
    metrics, script = Metrics(), Script(fail(TimeoutError("its own")))
    async with running(script, reconcile_timeout=10, metrics=metrics) as controller:
        controller.queue.add(A)
        await kcr_clock.advance(60)
    assert script.runs == [(A, 0), (A, 1)]
    assert metrics.registry.get_sample_value(*series("reconcile_timeouts_total")) == 0


@pytest.mark.parametrize(
    ("grace", "ends_at"),
    [
        pytest.param(2.0, 3, id="cut-off"),
        pytest.param(0.0, 1, id="no-waiting"),
        pytest.param(-1.0, 61, id="as-long-as-it-takes"),
    ],
)
async def test_grace_bounds_the_end(kcr_clock: VirtualClock, grace: float, ends_at: float) -> None:  # CM-23
    script = Script(work(61))
    with capture_logs() as lines:
        async with running(script, graceful_shutdown_timeout=grace) as controller:
            controller.queue.add(A)
            await kcr_clock.advance(1)
    assert asyncio.get_running_loop().time() == ends_at
    cut_off = [line["keys"] for line in lines if line["event"] == "reconciles cancelled, shutdown timed out"]
    assert cut_off == ([["default/a"]] if grace >= 0 else [])


async def test_reconcile_that_ends_with_the_grace_is_not_cut_off(kcr_clock: VirtualClock) -> None:  # CM-23
    script = Script(work(3))
    with capture_logs() as lines:
        async with running(script, graceful_shutdown_timeout=2.0) as controller:
            controller.queue.add(A)
            await kcr_clock.advance(1)
    assert asyncio.get_running_loop().time() == 3
    assert [line for line in lines if line["event"] == "reconciles cancelled, shutdown timed out"] == []


async def test_delayed_keys_dropped_at_the_end_are_counted(kcr_clock: VirtualClock) -> None:  # WQ-16
    with capture_logs() as lines:
        async with running(Script()) as controller:
            controller.queue.add_after(A, 60)
            controller.queue.add_after(B, 60)
            await kcr_clock.settle()
    assert [line["delayed_keys_dropped"] for line in lines if line["event"] == "controller stops"] == [2]


def series(name: str, **labels: str) -> tuple[str, dict[str, str]]:
    return f"controller_runtime_{name}", {"controller": "test", **labels}


@pytest.mark.parametrize(
    ("step", "result", "counted"),
    [
        pytest.param(work(1), "success", [], id="success"),
        pytest.param(ask(Result(timedelta(hours=2))), "requeue_after", [], id="requeue-after"),
        pytest.param(fail(TransportError("cut")), "error", ["reconcile_errors_total"], id="error"),
        pytest.param(
            fail(TerminalError("never")),
            "error",
            ["reconcile_errors_total", "terminal_reconcile_errors_total"],
            id="terminal",
        ),
        pytest.param(
            fail(ExceptionGroup("two", [TransportError("cut"), KeyError("bug")])),
            "error",
            ["reconcile_errors_total", "reconcile_panics_total"],
            id="bug-in-a-group",
        ),
    ],
)
async def test_what_became_of_a_reconcile_is_counted(
    kcr_clock: VirtualClock, step: Callable[[], Awaitable[Result]], result: str, counted: list[str]
) -> None:  # CM-56, CM-6
    metrics = Metrics()
    async with running(Script(step), metrics=metrics) as controller:
        controller.queue.add(A)
        await kcr_clock.advance(0.5)

        def value(name: str, **labels: str) -> float | None:
            return metrics.registry.get_sample_value(*series(name, **labels))

        assert value("active_workers") == (1 if result == "success" else 0)
        await kcr_clock.advance(0.5)
        assert value("active_workers") == 0
        assert value("reconcile_total", result=result) == 1
        assert value("reconcile_time_seconds_sum") == (1 if result == "success" else 0)
        for name in ("reconcile_errors_total", "terminal_reconcile_errors_total", "reconcile_panics_total"):
            assert value(name) == (1 if name in counted else 0)


async def test_reconcile_ended_by_the_stop_is_no_error(kcr_clock: VirtualClock) -> None:  # CM-4
    metrics = Metrics()
    async with running(Script(work(3600)), metrics=metrics) as controller:
        controller.queue.add(A)
        await kcr_clock.settle()
    assert metrics.registry.get_sample_value(*series("reconcile_total", result="cancelled")) == 1
    assert metrics.registry.get_sample_value(*series("reconcile_errors_total")) == 0


async def test_second_controller_of_a_name_is_refused_by_the_metrics() -> None:  # CM-3
    metrics = Metrics()
    Controller("test", Script(), random=random.Random(0), metrics=metrics)
    with pytest.raises(ValueError, match="test: there is one of this name already"):
        Controller("test", Script(), random=random.Random(0), metrics=metrics)


WRONG_RESULTS = [
    pytest.param(None, "reconcile returned None, not a kcr.Result", id="none"),
    pytest.param(5, "reconcile returned 5, not a kcr.Result", id="number"),
    pytest.param(Result(requeue_after="5s"), "requeue_after is '5s': give it a timedelta", id="text"),  # type: ignore[arg-type]  # what is tested
    pytest.param(Result(requeue_after=True), "requeue_after is True", id="bool"),
    pytest.param(Result(requeue_after=float("nan")), "requeue_after is nan", id="nan"),
    pytest.param(Result(requeue_after=float("inf")), "requeue_after is inf", id="infinite"),
    pytest.param(Result(1, jitter=-0.1), "jitter is -0.1: give it a part of requeue_after", id="negative-jitter"),
    pytest.param(Result(1, jitter="10%"), "jitter is '10%'", id="jitter-text"),  # type: ignore[arg-type]  # what is tested
]


@pytest.mark.parametrize(("returned", "said"), WRONG_RESULTS)
async def test_wrong_result_fails_its_key_only(returned: Any, said: str, kcr_clock: VirtualClock) -> None:
    script = Script(ask(returned))
    with capture_logs() as logs:
        async with running(script) as controller:
            controller.queue.add(A)
            controller.queue.add(B)
            await kcr_clock.advance(3)
    assert [key for key, _ in script.runs] == [A, B, A]
    (failure,) = [line for line in logs if line["event"] == "reconcile panicked"]
    assert said in failure["error"]


async def test_requeue_after_may_be_a_number_of_seconds(kcr_clock: VirtualClock) -> None:
    script = Script(ask(Result(requeue_after=5)), ask(Result(requeue_after=0.5)))
    async with running(script) as controller:
        controller.queue.add(A)
        await kcr_clock.advance(10)
    began = script.runs[0][1]
    assert [at - began for _, at in script.runs] == pytest.approx([0.0, 5.0, 5.5])


async def test_jitter_lengthens_the_wait_by_a_random_part_of_it(kcr_clock: VirtualClock) -> None:
    keys = [Key("default", f"key-{number}") for number in range(20)]
    script = Script(*(ask(Result(requeue_after=100, jitter=0.1)) for _ in keys))
    async with running(script) as controller:
        for key in keys:
            controller.queue.add(key)
        await kcr_clock.advance(111)
    again = [at for _, at in script.runs[len(keys) :]]
    assert len(set(again)) == len(keys)
    assert min(again) >= 100
    assert max(again) <= 110.1


@pytest.mark.parametrize("after", [None, 0, -1])
def test_jitter_changes_no_wait_that_is_none(after: float | None) -> None:
    waited = requeue_seconds(Result(after, jitter=0.5), random.Random(0))
    assert waited is None if after is None else waited is not None and waited <= 0


async def test_key_of_another_type_is_dropped_with_a_line(kcr_clock: VirtualClock) -> None:
    script, metrics = Script(), Metrics()
    with capture_logs() as logs:
        async with running(script, metrics=metrics) as controller:
            controller.queue.add(B)
            controller.queue.add("default/a")  # type: ignore[arg-type]  # what is tested
            await kcr_clock.advance(3)
    assert [key for key, _ in script.runs] == [B]
    (line,) = [line for line in logs if line["log_level"] == "error"]
    assert (line["event"], line["key"], line["type"]) == ("key is of the wrong type, dropped", "'default/a'", "str")
    assert "kcr.Key" in line["expected"]


class BrokenLimiter(ItemExponential[Key]):
    def when(self, key: Key) -> float:
        raise LookupError("no delay")


async def test_failure_around_a_reconcile_names_controller_and_key(kcr_clock: VirtualClock) -> None:
    controller = Controller(
        "test", Script(fail(OSError("down"))), ControllerOptions(limiter=BrokenLimiter(1, 60)), random=random.Random(0)
    )
    controller.queue.add(A)
    with pytest.raises(BaseExceptionGroup) as caught:
        await controller.run()
    (error,) = leaves(caught.value)
    assert isinstance(error, LookupError)
    assert error.__notes__ == ["controller test, key default/a"]
