"""A controller on `kcr.dependents` may crash after any write and restart: it makes what was asked for, and no more."""

from contextlib import AbstractAsyncContextManager
from random import Random

import pytest

from examples.expectations.controller import OF, owner, setup
from kcr.api.core import ConfigMap
from kcr.client import Client, Transport
from kcr.manager import Manager
from kcr.testing import VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.crash import WriteFault, crash_after_writes, lose_replies, surviving


async def live(fault: WriteFault) -> int:
    """Ask for three replicas, then for one, then for none, and return the number of writes."""
    clock = VirtualClock()
    cluster = EmbeddedCluster(clock=clock, random=Random(0), runtime=None)
    wanted = owner("a", {"count": "3", "color": "red"})

    def controller(transport: Transport, seed: int) -> AbstractAsyncContextManager[object]:
        manager = Manager(Client(transport), clock=clock, random=Random(seed))
        setup(manager)
        return manager.running()

    async def colors() -> list[str]:
        return [obj.data["color"] for obj in await cluster.client.list(ConfigMap) if OF in obj.metadata.labels]

    async def are(*expected: str) -> None:
        async def hold() -> bool:
            return await colors() == list(expected)

        await eventually(hold, seconds=900)
        await clock.advance(1)
        assert await colors() == list(expected)

    async with cluster:
        await cluster.client.create(wanted)
        async with surviving(cluster.transport, fault, controller, lambda: clock.now().minute > 1) as transport:
            await are("red", "red", "red")
            await cluster.client.merge_patch(ConfigMap, wanted.key, {"data": {"count": "1", "color": "blue"}})
            await are("blue")
            await cluster.client.delete(ConfigMap, wanted.key)
            await are()
    return transport.writes


@pytest.mark.timeout(60)
def test_crash_after_any_write_leaves_what_was_asked_for() -> None:
    crash_after_writes(live)


@pytest.mark.soak
@pytest.mark.timeout(60)
def test_lost_reply_of_any_write_leaves_what_was_asked_for() -> None:
    lose_replies(live)
