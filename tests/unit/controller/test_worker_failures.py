"""What a reconcile raises: its log line, its counters and its retry."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

import kcr
from kcr.controller import Controller, ControllerOptions
from kcr.errors import Cause
from kcr.metrics import Metrics
from kcr.testing import VirtualClock
from kcr.workqueue import ItemExponential

pytestmark = pytest.mark.kcr_virtual

A = kcr.Key("default", "a")
TABLE = {
    # What is raised: level and event, whether with a traceback, whether a panic, and when it is retried.
    "timeout": (TimeoutError("billing"), "warning", "reconcile failed", True, False, [0, 1, 3]),
    "connection": (ConnectionResetError(104, "reset"), "warning", "reconcile failed", True, False, [0, 1, 3]),
    "of-a-library": (ValueError("status 500"), "warning", "reconcile failed", True, False, [0, 1, 3]),
    "listed": (StopAsyncIteration("listed"), "warning", "reconcile failed", False, False, [0, 1, 3]),
    "bug": (AttributeError("x"), "error", "reconcile panicked", True, True, [0, 1, 3]),
    # As argparse and click end a program.
    "exit": (SystemExit(2), "error", "reconcile panicked", True, True, [0, 1, 3]),
    "bug-in-a-group": (
        ExceptionGroup("two", [TimeoutError("billing"), KeyError("x")]),
        "error", "reconcile panicked", True, True, [0, 1, 3],
    ),
    "api": (kcr.InvalidError(422, "Invalid", "no"), "warning", "reconcile failed", False, False, [0, 1, 3]),
    "retry-later": (kcr.RetryLater("no address yet"), "warning", "reconcile failed", False, False, [0, 1, 3]),
    "retry-later-after": (
        kcr.RetryLater("no address yet", after=4), "warning", "reconcile failed", False, False, [0, 4, 8]
    ),
    "retry-later-and-timeout": (
        ExceptionGroup("two", [kcr.RetryLater("x", after=1.5), TimeoutError("y")]),
        "warning", "reconcile failed", True, False, [0, 1.5, 3.5],
    ),
}  # fmt: skip


class Failing:
    """Raises the same error again and again, and notes when."""

    def __init__(self, error: BaseException) -> None:
        self._error = error
        self.times: list[float] = []

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        self.times.append(asyncio.get_running_loop().time())
        raise self._error


@asynccontextmanager
async def running(reconciler: Failing, metrics: Metrics | None = None, **options: Any) -> AsyncIterator[Controller]:
    limiter = ItemExponential[kcr.Key](1, 60)
    controller = Controller(
        "test", reconciler, ControllerOptions(limiter=limiter, **options), random=random.Random(0), metrics=metrics
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(controller.run())
        controller.queue.add(A)
        yield controller
        task.cancel()


@pytest.mark.parametrize(("error", "level", "event", "traceback", "panic", "times"), TABLE.values(), ids=TABLE)
async def test_error_decides_level_traceback_counter_and_retry(
    kcr_clock: VirtualClock,
    error: BaseException,
    level: str,
    event: str,
    traceback: bool,
    panic: bool,
    times: list[float],
) -> None:  # CM-6
    metrics, reconciler = Metrics(), Failing(error)
    with capture_logs() as logs:
        async with running(reconciler, metrics=metrics, expected_errors=[StopAsyncIteration]):
            await kcr_clock.advance(times[-1] + 0.1)
    lines = [line for line in logs if line["event"].startswith("reconcile ")]
    assert reconciler.times == times
    assert {(line["log_level"], line["event"], "exc_info" in line) for line in lines} == {(level, event, traceback)}
    assert [line["retries"] for line in lines] == [1, 2, 3]

    def count(name: str) -> float | None:
        return metrics.registry.get_sample_value(f"controller_runtime_{name}_total", {"controller": "test"})

    assert count("reconcile_errors") == len(times)
    assert count("reconcile_panics") == (len(times) if panic else 0)


async def test_error_without_a_message_is_its_class(kcr_clock: VirtualClock) -> None:
    with capture_logs() as logs:
        async with running(Failing(TimeoutError())):
            await kcr_clock.settle()
    assert [line["error"] for line in logs if "error" in line] == ["TimeoutError"]


@pytest.mark.parametrize("listed", ["ValueError", ValueError("x"), int, BaseException])
async def test_expected_error_that_is_no_exception_class_is_refused(listed: Any) -> None:
    options = ControllerOptions(expected_errors=[listed])
    with pytest.raises(
        TypeError,
        match=r"test: expected_errors\[0\] is .*: give it (a class derived from Exc|its class)",
    ):
        Controller("test", Failing(TimeoutError()), options, random=random.Random(0))


async def test_retries_in_a_terminating_namespace_are_one_line_for_each_object(kcr_clock: VirtualClock) -> None:
    cause = Cause("", "NamespaceTerminating", "namespace default is being terminated")
    reconciler = Failing(kcr.ForbiddenError(403, "Forbidden", "unable to create new content", causes=(cause,)))
    with capture_logs() as logs:
        async with running(reconciler) as controller:
            controller.queue.add(kcr.Key("default", "b"))
            await kcr_clock.advance(8)
    assert len(reconciler.times) == 8
    lines = [line for line in logs if line["log_level"] == "warning"]
    assert [(line["event"], line["error"]) for line in lines] == [
        ("reconcile failed", "ForbiddenError: unable to create new content")
    ] * 2
