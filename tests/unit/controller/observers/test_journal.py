"""What a controller tells of its reconciles."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kcr.api.meta import Key
from kcr.controller import Controller, ControllerOptions, Result
from kcr.controller.observers import ReconcileRun
from kcr.controller.observers.journal import MAX_FAILING, MAX_RUNS, MAX_TEXT, ReconcileJournal
from kcr.errors import ConflictError, TerminalError
from kcr.stacks import await_stack
from kcr.testing import VirtualClock
from kcr.workqueue import ItemExponential

pytestmark = pytest.mark.kcr_virtual

A, B = Key("default", "a"), Key("default", "b")


class Outcomes:
    """A reconciler whose results and errors are given by key, in order; it takes two seconds for each."""

    def __init__(self, **outcomes: list[Result | Exception]) -> None:
        self._outcomes = outcomes

    async def reconcile(self, key: Key) -> Result:
        await asyncio.sleep(2)
        outcome = self._outcomes[key.name].pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@asynccontextmanager
async def running(reconciler: Outcomes) -> AsyncIterator[Controller]:
    limiter = ItemExponential[Key](10, 60)
    controller = Controller("test", reconciler, ControllerOptions(limiter=limiter), random=random.Random(0))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(controller.run())
        yield controller
        task.cancel()


async def test_each_reconcile_is_recorded_with_its_outcome(kcr_clock: VirtualClock) -> None:
    reconciler = Outcomes(a=[ConflictError(409, "Conflict", "changed"), Result(requeue_after=300), Result()])
    async with running(reconciler) as controller:
        controller.queue.add(A)
        await kcr_clock.advance(400)
    recorded = [(run.key, run.ended, run.seconds, run.outcome, run.text) for run in controller.journal.runs]
    assert recorded == [
        (A, 2.0, 2.0, "error", "ConflictError: changed"),
        (A, 14.0, 2.0, "requeue_after", "requeue after 300 s"),
        (A, 316.0, 2.0, "success", ""),
    ]


async def test_key_fails_until_it_succeeds(kcr_clock: VirtualClock) -> None:
    reconciler = Outcomes(a=[TerminalError("no such zone"), Result()], b=[ValueError("b" * 1000)] * 9)
    async with running(reconciler) as controller:
        controller.queue.add(A)
        controller.queue.add(B)
        await kcr_clock.advance(5)
        failing = controller.journal.failing
        assert {key: run.text[:20] for key, run in failing.items()} == {
            A: "TerminalError: no su",
            B: "ValueError: bbbbbbbb",
        }
        assert len(failing[B].text) == MAX_TEXT
        controller.queue.add(A)
        await kcr_clock.advance(5)
        assert list(failing) == [B]


async def test_running_reconcile_has_its_task(kcr_clock: VirtualClock) -> None:
    async with running(Outcomes(a=[Result()])) as controller:
        controller.queue.add(A)
        await kcr_clock.advance(1)
        ((key, task),) = controller.journal.running.items()
        assert key == A
        assert task is not None
        assert " reconcile > " in await_stack(task)
        await kcr_clock.advance(2)
        assert controller.journal.running == {}


def failed(name: str) -> ReconcileRun:
    return ReconcileRun(Key("", name), "", 0.0, outcome="error", error=TerminalError("no"))


def test_oldest_reconciles_give_way() -> None:
    journal = ReconcileJournal()
    for number in range(MAX_RUNS + 5):
        journal.end(ReconcileRun(Key("", str(number)), "", 0.0, outcome="success"))
    assert len(journal.runs) == MAX_RUNS
    assert journal.runs[0].key.name == "5"


def test_key_that_failed_first_gives_way_to_the_next() -> None:
    journal = ReconcileJournal()
    for number in (*range(MAX_FAILING), 0):
        journal.end(failed(str(number)))
    # A key that fails again takes no other's place.
    assert [key.name for key in journal.failing][:2] == ["0", "1"]
    journal.end(failed("next"))
    assert len(journal.failing) == MAX_FAILING
    assert next(iter(journal.failing)).name == "1"
