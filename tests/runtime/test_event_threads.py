"""Events of webhooks, which run on a thread and an event loop of their own."""

import asyncio
import threading
from collections.abc import Callable
from random import Random

import pytest

from kcr.api.core import ConfigMap, Event
from kcr.api.meta import ObjectMeta
from kcr.client import Client
from kcr.clock import SystemClock
from kcr.events import EventRecorder
from kcr.testing import FakeManager, eventually

ABOUT = ConfigMap(metadata=ObjectMeta(name="web", namespace="default", uid="1"))


@pytest.mark.asyncio
async def test_loop_that_is_woken_too_late_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    client: Client = FakeManager().client
    recorder, loop = EventRecorder(client, "test", clock=SystemClock(), random=Random(1)), asyncio.get_running_loop()
    woken = list[Callable[[], object]]()

    async def is_written(count: int) -> bool:
        return len(await client.list(Event)) == count

    async with asyncio.TaskGroup() as group:
        task = group.create_task(recorder.run())
        await asyncio.sleep(0)
        # The other thread loses the processor between the note and the call that wakes the loop.
        with monkeypatch.context() as patch:
            patch.setattr(loop, "call_soon_threadsafe", woken.append)
            thread = threading.Thread(target=recorder.event, args=(ABOUT, "Normal", "Seen", "by a thread"), daemon=True)
            thread.start()
            thread.join()
        recorder.event(ABOUT, "Normal", "Seen", "by the loop")
        await eventually(lambda: is_written(2), seconds=5)
        for callback in woken:
            callback()
        # The recorder wakes up, and finds nothing.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        recorder.event(ABOUT, "Normal", "Seen", "later")
        await eventually(lambda: is_written(3), seconds=5)
        task.cancel()


@pytest.mark.timeout(20)
@pytest.mark.asyncio
async def test_event_of_another_thread_is_written() -> None:
    client: Client = FakeManager().client
    recorder = EventRecorder(client, "test", clock=SystemClock(), random=Random(1))
    # In debug mode a loop refuses calls of other threads, which would not wake it.
    asyncio.get_running_loop().set_debug(True)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(recorder.run())
        await asyncio.sleep(0)
        notes = [(ABOUT, "Normal", "Seen", f"by {number}") for number in range(3)]
        threads = [threading.Thread(target=recorder.event, args=note, daemon=True) for note in notes]
        for thread in threads:
            thread.start()

        async def messages() -> bool:
            return {event.message for event in await client.list(Event)} == {"by 0", "by 1", "by 2"}

        await eventually(messages, seconds=5)
        for thread in threads:
            thread.join()
        task.cancel()
