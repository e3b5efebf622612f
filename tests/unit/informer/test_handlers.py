import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from kcr.client import Client
from kcr.errors import NotSyncedError
from kcr.informer import Informer, Registration
from kcr.testing import VirtualClock
from tests.kit.informer_pods import Pod, Told, pod, replaced
from tests.kit.scripted_transport import Script

pytestmark = pytest.mark.kcr_virtual


@asynccontextmanager
async def running(*pods: Pod) -> AsyncIterator[Informer[Pod]]:
    """An informer that runs, on a server that never answers; the pods are there."""
    informer = Informer(Client(Script()), Pod, random=Random(1))
    replaced(informer.writer.replace(pods, {}, "5"))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await asyncio.sleep(0)
        yield informer
        task.cancel()


# IN-7
async def test_handler_is_synced_when_it_has_heard_the_first_list(kcr_clock: VirtualClock) -> None:
    informer = Informer(Client(Script()), Pod)
    registration = informer.add_handler(Told())
    assert not registration.synced
    replaced(informer.writer.replace([pod("a")], {}, "5"))
    assert registration.synced
    await registration.wait_synced()


# IN-13
async def test_removed_handler_hears_nothing_more(kcr_clock: VirtualClock) -> None:
    async with running(pod("a")) as informer:
        told = Told()
        registration = informer.add_handler(told)
        registration.remove()
        replaced(informer.writer.replace([], {}, "6"))
        assert registration.is_removed
        assert told.heard == ["add a 1 initial"]


# IN-13
async def test_removed_handler_ends_the_wait_for_it(kcr_clock: VirtualClock) -> None:
    registration = Informer(Client(Script()), Pod).add_handler(Told())
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(ended_wait(registration))
        await asyncio.sleep(1)
        registration.remove()
    assert waiting.result() == "Told: the handler has been removed"
    assert not registration.synced


async def ended_wait(registration: Registration[Pod]) -> str:
    with pytest.raises(NotSyncedError) as raised:
        await registration.wait_synced()
    return str(raised.value)
