"""Priorities and reasons of keys that workers retry, requeue and defer."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from kcr.api.core import Pod
from kcr.api.meta import Key, ObjectMeta
from kcr.controller import Batching, Controller, ControllerOptions, OwnWrites, Result, channel
from kcr.controller.sources import ChannelSource
from kcr.errors import KcrError, TransportError
from kcr.testing import FakeInformer, VirtualClock
from kcr.workqueue import LOW_PRIORITY, ItemExponential, KeyState, Reason, WorkQueue

pytestmark = pytest.mark.kcr_virtual

A, B = Key("default", "a"), Key("default", "b")

Step = Callable[[Key], Awaitable[Result]]


class Script:
    """A reconciler that takes a second for each step, and notes the state that the queue has of its key."""

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)
        self.queue: WorkQueue[Key]
        self.runs: list[tuple[str, int | None, list[str]]] = []

    async def reconcile(self, key: Key) -> Result:
        state = self.queue.state(key)
        self.runs.append((key.name, state.processing, [str(reason) for reason in state.processing_reasons]))
        await asyncio.sleep(1)
        return await self._steps.pop(0)(key) if self._steps else Result()


def returns(result: Any) -> Step:
    async def step(key: Key) -> Any:
        return result

    return step


def raises(error: Exception) -> Step:
    async def step(key: Key) -> Result:
        raise error

    return step


@asynccontextmanager
async def running(script: Script, **options: Any) -> AsyncIterator[WorkQueue[Key]]:
    given = ControllerOptions(limiter=ItemExponential[Key](1, 60), **options)
    controller = Controller("test", script, given, random=random.Random(0))
    script.queue = controller.queue
    async with asyncio.TaskGroup() as group:
        task = group.create_task(controller.run())
        yield controller.queue
        task.cancel()


async def test_failed_key_is_retried_at_its_priority(kcr_clock: VirtualClock) -> None:  # WQ-31, WQ-36: c-r#3157
    script = Script(raises(KcrError("pods a: modified")), raises(ValueError("odd")))
    async with running(script) as queue:
        queue.add(A, priority=LOW_PRIORITY)
        await kcr_clock.advance(60)
    assert script.runs == [
        ("a", LOW_PRIORITY, []),
        ("a", LOW_PRIORITY, ["reconcile error: KcrError: pods a: modified"]),
        ("a", LOW_PRIORITY, ["reconcile error: ValueError: odd"]),
    ]


async def test_requeued_key_keeps_its_priority(kcr_clock: VirtualClock) -> None:  # WQ-31, WQ-36: c-r#3157
    script = Script(returns(Result(requeue_after=5)), returns(Result(requeue_after=0)))
    async with running(script) as queue:
        queue.add(A, priority=7)
        await kcr_clock.advance(60)
    assert [priority for _, priority, _ in script.runs] == [7, 7, 7]
    assert script.runs[1][2] == script.runs[2][2] == ["reconcile requeue_after"]


async def test_result_may_give_another_priority(kcr_clock: VirtualClock) -> None:  # WQ-31, CM-4
    script = Script(returns(Result(requeue_after=5, priority=LOW_PRIORITY)), returns(Result(requeue_after=5)))
    async with running(script) as queue:
        queue.add(A)
        await kcr_clock.advance(60)
    assert [priority for _, priority, _ in script.runs] == [0, LOW_PRIORITY, LOW_PRIORITY]


async def test_result_with_an_odd_priority_fails_its_key(kcr_clock: VirtualClock) -> None:
    script = Script(returns(Result(priority="high")))  # type: ignore[arg-type]  # what is tested
    with capture_logs() as logs:
        async with running(script) as queue:
            queue.add(A)
            await kcr_clock.advance(10)
    assert len(script.runs) == 2
    assert "priority is 'high': give it a whole number" in next(
        line["error"] for line in logs if line["event"] == "reconcile panicked"
    )


async def test_change_raises_a_key_that_waits_for_its_retry(kcr_clock: VirtualClock) -> None:  # WQ-26, WQ-31
    script = Script(raises(KcrError("modified")))
    async with running(script) as queue:
        queue.add(A, priority=LOW_PRIORITY)
        await kcr_clock.advance(1.5)
        queue.add(A)
        await kcr_clock.advance(0.1)
    assert [priority for _, priority, _ in script.runs] == [LOW_PRIORITY, 0]


async def test_keys_of_an_outage_are_retried_at_their_priorities(kcr_clock: VirtualClock) -> None:
    script = Script(*[raises(TransportError("refused"))] * 8)
    async with running(script) as queue:
        queue.add(B)
        queue.add(A, priority=LOW_PRIORITY)
        await kcr_clock.advance(60)
    assert {(name, priority) for name, priority, _ in script.runs} == {("a", LOW_PRIORITY), ("b", 0)}
    assert any("reconcile retry: the API server answers again" in reasons for _, _, reasons in script.runs)


async def test_key_deferred_for_a_store_keeps_priority_and_reasons(kcr_clock: VirtualClock) -> None:  # WQ-31, WQ-38
    pods, own_writes, script = FakeInformer(Pod), OwnWrites(), Script()
    pushed = Reason("webhook", "push")
    async with running(script, own_writes=own_writes) as queue:
        own_writes.wrote(
            A, pods.store, Pod(metadata=ObjectMeta(name="pi-0", namespace="default", resource_version="2000"))
        )
        queue.add(A, priority=LOW_PRIORITY, reason=pushed)
        await kcr_clock.advance(0.1)
        assert script.runs == []
        pods.store.advance("2000")
        await kcr_clock.advance(0.1)
    stale = "reconcile deferred: a store did not show our own write yet"
    assert script.runs == [("a", LOW_PRIORITY, ["webhook push", stale])]


async def test_channel_adds_keys_at_normal_priority(kcr_clock: VirtualClock) -> None:
    async def keys() -> AsyncIterator[Key]:
        yield A

    queue = WorkQueue[Key]()
    await ChannelSource("test", channel(keys()), queue).run()
    assert queue.state(A) == KeyState(0, None, None, 0, (Reason("channel"),), ())


async def test_batched_key_keeps_the_priority_that_was_asked_for(kcr_clock: VirtualClock) -> None:
    queue = WorkQueue[Key]()
    batching = Batching(queue, 1.0)
    for _ in range(6):
        batching.spend(A)
    batching.enqueue(A, LOW_PRIORITY)
    batching.enqueue(B, LOW_PRIORITY)
    await kcr_clock.advance(10)
    assert [queue.state(key).queued for key in (A, B)] == [LOW_PRIORITY, LOW_PRIORITY]


async def test_debug_log_tells_why_a_key_is_reconciled(kcr_clock: VirtualClock) -> None:  # WQ-38
    script = Script()
    with capture_logs() as logs:
        async with running(script) as queue:
            queue.add(A, priority=LOW_PRIORITY, reason=Reason("Pod", "initial list"))
            await kcr_clock.advance(2)
    assert [line for line in logs if line["event"] == "reconciling"] == [
        {"event": "reconciling", "log_level": "debug", "priority": LOW_PRIORITY, "reasons": ["Pod initial list"]}
    ]
