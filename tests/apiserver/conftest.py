"""A cluster without a node, and its API."""

import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.loop import VirtualClock
from kcr_devcluster.versions import DEFAULT, VERSIONS
from tests.kit.api import Api
from tests.kit.webhooks import Webhooks


@pytest_asyncio.fixture
async def bare(request: pytest.FixtureRequest, kcr_clock: VirtualClock) -> AsyncIterator[EmbeddedCluster]:
    """Give a cluster without a node.

    It has controllers for garbage, namespaces, quotas and budgets where the mark `collects` asks for them: they take
    three quarters of a test's time. The mark `recorded` makes it the version that answers were recorded from.
    """
    collects, recorded = (request.node.get_closest_marker(one) is not None for one in ("collects", "recorded"))
    version = VERSIONS[0] if recorded else DEFAULT
    async with EmbeddedCluster(
        clock=kcr_clock, random=random.Random(0), runtime=None, gc=collects, kubernetes_version=version
    ) as cluster:
        yield cluster


@pytest.fixture
def api(bare: EmbeddedCluster) -> Api:
    """Give the API of a cluster without a node."""
    return Api(bare.server)


@pytest.fixture
def webhooks(api: Api) -> Webhooks:
    """Give the admission webhooks of a cluster without a node: none at first."""
    return Webhooks(api)


@pytest_asyncio.fixture
async def guarded(kcr_clock: VirtualClock) -> AsyncIterator[Api]:
    """Give the API, as the admin sees it, of a cluster where users may do what roles grant."""
    made = EmbeddedCluster(clock=kcr_clock, random=random.Random(0), runtime=None, gc=False, authorization="rbac")
    async with made as cluster:
        yield Api(cluster.server)
