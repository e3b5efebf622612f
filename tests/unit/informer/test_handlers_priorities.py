"""Priority and reason of the keys that handlers enqueue: those of the event."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from kcr.api.core import Pod
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client
from kcr.informer import Handler, Informer, Trigger
from kcr.testing import VirtualClock
from kcr.testing.fakes import FakeSource
from kcr.workqueue import LOW_PRIORITY, WorkQueue

pytestmark = pytest.mark.kcr_virtual

A, B, C = (Key("default", name) for name in "abc")


def pod(name: str) -> Pod:
    return Pod(metadata=ObjectMeta(namespace="default", name=name))


class Enqueuing(Handler[Pod]):
    """A user's handler, which passes on the event of each call."""

    def __init__(self) -> None:
        self.queue = WorkQueue[Key]()

    def on_add(self, obj: Pod, initial: bool) -> None:
        self.queue.add(obj.key, *Trigger.added(obj, initial))

    def on_update(self, old: Pod, new: Pod) -> None:
        self.queue.add_after(new.key, 0 if new.metadata.labels else 30, *Trigger.updated(old, new))

    def on_delete(self, obj: Pod, final_state_unknown: bool) -> None:
        self.queue.add(obj.key, *Trigger.deleted(obj))

    def of(self, key: Key) -> tuple[int | None, list[str]]:
        state = self.queue.state(key)
        return state.queued, [str(reason) for reason in state.reasons]

    async def take_all(self) -> list[str]:
        taken = []
        while len(self.queue):
            async with self.queue.item() as key:
                taken.append(key.name)
        return taken


@asynccontextmanager
async def watching(source: FakeSource[Pod], clock: VirtualClock) -> AsyncIterator[tuple[Informer[Pod], Enqueuing]]:
    informer, handler = Informer(Client(source), Pod), Enqueuing()
    informer.add_handler(handler)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await informer.wait_synced()
        await clock.settle()
        yield informer, handler
        task.cancel()


async def test_keys_of_the_initial_list_have_low_priority(kcr_clock: VirtualClock) -> None:  # WQ-30, CM-16
    async with watching(FakeSource(Pod, pod("a"), pod("b")), kcr_clock) as (_, handler):
        assert handler.of(A) == handler.of(B) == (LOW_PRIORITY, ["Pod initial list"])


async def test_changes_come_before_the_initial_list(kcr_clock: VirtualClock) -> None:  # WQ-30
    source = FakeSource(Pod, pod("a"), pod("b"))
    async with watching(source, kcr_clock) as (_, handler):
        source.add(pod("c"))
        source.delete(pod("b"))
        await kcr_clock.settle()
        assert handler.of(C) == (0, ["Pod add default/c 1003"])
        assert handler.of(B) == (0, ["Pod initial list", "Pod delete default/b 1004"])
        assert await handler.take_all() == ["c", "b", "a"]


async def test_relist_enqueues_changes_at_normal_priority_and_nothing_else(kcr_clock: VirtualClock) -> None:  # WQ-30
    source = FakeSource(Pod, pod("a"), pod("b"))
    async with watching(source, kcr_clock) as (_, handler):
        await handler.take_all()
        source.modify(replace(pod("b"), metadata=replace(pod("b").metadata, labels={"app": "web"})), silent=True)
        source.add(pod("c"), silent=True)
        source.reset()
        await kcr_clock.advance(60)
        assert source.lists == 2
        assert handler.of(A) == (None, [])
        assert handler.of(B) == (0, ["Pod update default/b 1002→1003"])
        assert handler.of(C) == (0, ["Pod add default/c 1004"])


async def test_handler_added_later_starts_with_low_priority(kcr_clock: VirtualClock) -> None:  # WQ-30
    async with watching(FakeSource(Pod, pod("a")), kcr_clock) as (informer, _):
        late = Enqueuing()
        informer.add_handler(late)
        assert late.of(A) == (LOW_PRIORITY, ["Pod initial list"])


async def test_delay_that_a_handler_asks_for_keeps_the_reason(kcr_clock: VirtualClock) -> None:  # WQ-31, WQ-38
    source = FakeSource(Pod, pod("a"))
    async with watching(source, kcr_clock) as (_, handler):
        await handler.take_all()
        source.modify(pod("a"))
        await kcr_clock.advance(30)
        assert handler.of(A) == (0, ["Pod update default/a 1001→1002"])
