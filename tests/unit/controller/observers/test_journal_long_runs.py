"""Reconciles that run for long: when they are logged, and with which line."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from kcr.api.meta import Key
from kcr.controller import Controller, ControllerOptions, Result
from kcr.testing import VirtualClock

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

A = Key("default", "a")


class Sleeps:
    async def reconcile(self, key: Key) -> Result:
        await self.wait_for_backend(float(key.name) if key.name != "a" else 10_000)
        return Result()

    async def wait_for_backend(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[tuple[Controller, list[Any]]]:
    options = {"workers": 3, "graceful_shutdown_timeout": 0, **options}
    controller = Controller("slow", Sleeps(), ControllerOptions(**options), random=random.Random(0))
    with capture_logs() as logs:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(controller.run())
            yield controller, logs
            task.cancel()


def lines(logs: list[Any]) -> list[tuple[str, float]]:
    return [(line["name"], line["after_seconds"]) for line in logs if line["event"] == "reconcile is still running"]


async def test_long_run_is_logged_with_its_line_and_again_after_twice_as_long(kcr_clock: VirtualClock) -> None:
    async with running() as (controller, logs):
        await kcr_clock.advance(1000)
        controller.queue.add(A)
        await kcr_clock.advance(299)
        assert lines(logs) == []
        await kcr_clock.advance(3000)
        assert lines(logs) == [("a", 300), ("a", 600), ("a", 1200), ("a", 2400)]
        (line, *_) = [line for line in logs if line["event"] == "reconcile is still running"]
    assert (line["controller"], line["namespace"], line["log_level"]) == ("slow", "default", "warning")
    assert "wait_for_backend" in line["where"]


async def test_each_run_of_a_key_has_a_time_of_its_own(kcr_clock: VirtualClock) -> None:
    async with running(warn_after=10) as (controller, logs):
        for _ in range(4):
            controller.queue.add(Key("default", "9"))
            controller.queue.add(Key("default", "15"))
            await kcr_clock.advance(15.5)
        assert lines(logs) == [("15", 10)] * 4


async def test_without_a_limit_nothing_is_logged(kcr_clock: VirtualClock) -> None:
    async with running(warn_after=None) as (controller, logs):
        controller.queue.add(A)
        await kcr_clock.advance(5000)
        assert lines(logs) == []
