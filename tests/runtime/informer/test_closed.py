"""Informers that are closed by those who use them without a handle."""

import pytest

import kcr
from kcr.api.core import ConfigMap
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.dynamic_watches import manager_on

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]


async def test_informer_that_is_closed_early_holds_up_no_start(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    manager, _, controller = manager_on(kcr_cluster.transport, kcr_clock)
    manager.informer(ConfigMap).close()
    controller.queue.add(kcr.Key("default", "a"))
    async with manager.running():
        await kcr_clock.settle()
        assert len(controller.queue) == 0
