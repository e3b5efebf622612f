from collections.abc import AsyncIterator
from random import Random

import pytest
import pytest_asyncio

from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.cronjob_harness import CREATED


@pytest.fixture
def kcr_clock() -> VirtualClock:
    """The clock of the rows: it starts when their CronJob is created."""
    return VirtualClock(CREATED)


@pytest_asyncio.fixture
async def server(kcr_clock: VirtualClock) -> AsyncIterator[EmbeddedCluster]:
    """A cluster without a node: Jobs are what the test makes them."""
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None) as cluster:
        yield cluster
