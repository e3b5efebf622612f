"""The stations of a key: gates, the reconcile, its outcome, observers."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from kcr.api.meta import Key
from kcr.client.context import WriteContext
from kcr.controller import Result
from kcr.controller.gates import GateDecision
from kcr.controller.observers import Observer, ReconcileRun
from kcr.controller.observers.journal import ReconcileJournal
from kcr.controller.outcome import Outcomes
from kcr.controller.worker import Worker
from kcr.errors import KcrError
from kcr.metrics import ControllerMetrics
from kcr.testing import VirtualClock
from kcr.workqueue import ItemExponential, WorkQueue

pytestmark = pytest.mark.kcr_virtual

A = Key("default", "a")


class Log(list[str]):
    """What has happened, in order; a reconciler as well."""

    async def reconcile(self, key: Key) -> Result:
        self.append("reconcile")
        return Result()


class Noting(Observer):
    """Notes begin and end under a name; with a delay it lets the worker wait that long each time."""

    def __init__(self, log: Log, name: str, delay: float = 0.0) -> None:
        self._log, self._name, self._delay = log, name, delay

    def begin(self, run: ReconcileRun) -> Awaitable[None] | None:
        return self._note("begins")

    def end(self, run: ReconcileRun) -> Awaitable[None] | None:
        assert run.outcome == "success"
        self.began = run.began
        return self._note("ends")

    def _note(self, what: str) -> Awaitable[None] | None:
        self._log.append(f"{self._name} {what}")
        return self._wait(what) if self._delay else None

    async def _wait(self, what: str) -> None:
        await asyncio.sleep(self._delay)
        self._log.append(f"{self._name} waited when it {what}")


class Asking:
    """A gate that asks a function."""

    def __init__(self, decide: Callable[[], GateDecision]) -> None:
        self._decide = decide

    def check(self, key: Key) -> GateDecision:
        return self._decide()


async def processed(log: Log, *gates: Asking, observers: tuple[Observer, ...] = (), retries: int = 0) -> WorkQueue[Key]:
    """Let a worker process a key that has failed so often, and return the queue."""
    queue = WorkQueue[Key](ItemExponential(10, 60))
    for _ in range(retries):
        queue.add_rate_limited(A)
    queue.cancel_after(A)
    metrics, journal = ControllerMetrics(1), ReconcileJournal()
    outcomes = Outcomes(queue, metrics, random=random.Random(0))
    worker = Worker(
        "test", queue, log, context_of=WriteContext,
        gates=gates, outcomes=outcomes, observers=(journal, *observers), journal=journal, random=random.Random(0),
    )  # fmt: skip
    queue.add(A)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(worker.run())
        await asyncio.sleep(5)
        task.cancel()
    return queue


async def test_observers_nest_around_the_reconcile(kcr_clock: VirtualClock) -> None:
    log = Log()
    await processed(log, observers=(Noting(log, "outer"), Observer(), Noting(log, "inner")))
    assert log == ["outer begins", "inner begins", "reconcile", "inner ends", "outer ends"]


async def test_worker_waits_for_an_observer_outside_of_the_reconcile(kcr_clock: VirtualClock) -> None:
    log = Log()
    inner = Noting(log, "inner")
    await processed(log, observers=(Noting(log, "outer", delay=1.0), inner))
    assert inner.began == 1.0
    assert log == [
        "outer begins", "outer waited when it begins", "inner begins", "reconcile", "inner ends", "outer ends",
        "outer waited when it ends",
    ]  # fmt: skip


async def test_first_gate_that_does_not_admit_decides(kcr_clock: VirtualClock) -> None:
    log = Log()

    def never() -> GateDecision:
        raise AssertionError("the gate before has decided")

    queue = await processed(log, Asking(lambda: GateDecision.DEFER), Asking(never), retries=2)
    assert (log, queue.retries(A)) == ([], 2)


async def test_key_that_a_gate_drops_loses_its_backoff(kcr_clock: VirtualClock) -> None:
    log = Log()
    queue = await processed(log, Asking(lambda: GateDecision.ADMIT), Asking(lambda: GateDecision.DROP), retries=2)
    assert (log, queue.retries(A), queue.state(A).delay) == ([], 0, None)


async def test_gate_that_fails_retries_its_key_with_backoff(kcr_clock: VirtualClock) -> None:
    log = Log()

    def late() -> GateDecision:
        raise KcrError("the watch is late")

    queue = await processed(log, Asking(late), observers=(Noting(log, "observer"),), retries=1)
    assert (log, queue.retries(A)) == ([], 2)
    assert queue.state(A).delay == pytest.approx(15.0)
