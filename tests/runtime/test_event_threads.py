"""Events of webhooks, which run on a thread and an event loop of their own."""

import asyncio
import threading
from random import Random

import pytest

from kcr.api.core import ConfigMap, Event
from kcr.api.meta import ObjectMeta
from kcr.client import Client
from kcr.clock import SystemClock
from kcr.events import EventRecorder
from kcr.testing import FakeManager, eventually

ABOUT = ConfigMap(metadata=ObjectMeta(name="web", namespace="default", uid="1"))


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
