import asyncio
import threading
from typing import Any

import pytest
from structlog.contextvars import bind_contextvars, get_contextvars
from structlog.testing import capture_logs

from kcr.runnables import RunnableGroup, running
from kcr.testing import VirtualClock

pytestmark = pytest.mark.kcr_virtual


class Part:
    """Runs until cancelled, and notes when."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self._name = name
        self._notes = notes

    async def run(self) -> None:
        self._notes.append(f"{self._name} runs")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._notes.append(f"{self._name} ends")


async def test_late_runnable_has_the_context_of_its_group(kcr_clock: VirtualClock) -> None:
    found: list[dict[str, object]] = []
    group = RunnableGroup("informers")

    async def informer() -> None:
        found.append(get_contextvars())

    async def reconcile() -> None:
        bind_contextvars(reconcile_id="1")
        group.add(informer, "late")

    bind_contextvars(program="mine")
    async with group, asyncio.TaskGroup() as workers:
        workers.create_task(reconcile())
    assert found == [{"program": "mine"}]


async def test_runnable_of_another_thread_is_refused_by_name(kcr_clock: VirtualClock) -> None:
    refused: list[RuntimeError] = []
    group = RunnableGroup("components")

    def add() -> None:
        try:
            group.add(Part("late", []).run, "late")
        except RuntimeError as error:
            refused.append(error)

    async with group:
        thread = threading.Thread(target=add)
        thread.start()
        thread.join()
    assert str(refused[0]).startswith("components late: add it before the manager runs, or on its thread")


async def test_inner_stage_ends_before_the_outer_one(kcr_clock: VirtualClock) -> None:  # CM-20, CM-22
    notes: list[str] = []
    outer, inner = RunnableGroup("outer"), RunnableGroup("inner")
    outer.add(Part("informer", notes).run, "informer")
    inner.add(Part("controller", notes).run, "controller")

    async def main() -> None:
        async with outer:
            await asyncio.sleep(1)
            async with inner:
                inner.add(Part("late", notes).run, "late")
                await asyncio.get_running_loop().create_future()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(main())
        await kcr_clock.advance(2)
        task.cancel()
    assert notes[:3] == ["informer runs", "controller runs", "late runs"]
    # Those of one stage end together, in no order.
    assert sorted(notes[3:5]) == ["controller ends", "late ends"]
    assert notes[5:] == ["informer ends"]


async def test_stage_that_is_over_takes_nothing_in() -> None:  # CM-21
    stage = RunnableGroup("controllers")
    async with stage:
        pass
    with pytest.raises(RuntimeError, match="controllers late: the manager is stopping"):
        stage.add(Part("late", []).run, "late")


async def test_component_runs_while_the_context_lives(kcr_clock: VirtualClock) -> None:
    notes: list[str] = []
    async with running(Part("controller", notes), kcr_clock.settle) as part:
        notes.append("body")
        assert isinstance(part, Part)
    assert notes == ["controller runs", "body", "controller ends"]


async def test_failure_of_the_body_is_raised_as_it_is(kcr_clock: VirtualClock) -> None:
    notes: list[str] = []
    with pytest.raises(AssertionError, match="not ready"):
        async with running(Part("controller", notes), kcr_clock.settle):
            raise AssertionError("not ready")
    assert notes == ["controller runs", "controller ends"]


class Broken:
    """Fails after a second."""

    async def run(self) -> None:
        await asyncio.sleep(1)
        raise OSError("port taken")


@pytest.mark.parametrize("ready_after", [0, 60], ids=["running", "starting"])
async def test_failure_of_the_component_ends_the_body_and_is_raised_as_it_is(ready_after: float) -> None:
    with pytest.raises(OSError, match="port taken"):
        async with running(Broken(), lambda: asyncio.sleep(ready_after)):
            await asyncio.sleep(60)
    assert asyncio.get_running_loop().time() == 1


def test_component_that_exits_is_named() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    tasks: list[asyncio.Task[Any] | None] = []

    async def run() -> None:
        tasks.append(asyncio.current_task())
        group = RunnableGroup("components")
        group.add(leave, "website")
        async with group:
            await asyncio.get_running_loop().create_future()

    with capture_logs() as logs, pytest.raises(SystemExit):
        asyncio.run(run())
    (task,) = tasks
    # Or it is told when the task is collected, in the middle of another test.
    assert task is not None
    assert isinstance(task.exception(), SystemExit)
    assert [(line["event"], line["component"]) for line in logs] == [("component ends the process", "website")]
