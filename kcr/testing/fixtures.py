"""Fixtures: a clock and a cluster in virtual time, and an API server in real time."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from kcr.testing.clock import VirtualClock
from kcr.testing.loop import VirtualLoop

if TYPE_CHECKING:
    from kcr.client import ClusterConfig
    from kcr.cluster import EmbeddedCluster
    from kcr.testing.apiserver import ApiServer


@pytest_asyncio.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    """Give the virtual clock of the test; at the end no task may be left, and no stored object changed."""
    from kcr.testing.mutation import unchanged_stores  # noqa: PLC0415  # brings the HTTP client

    clock = VirtualClock()
    with unchanged_stores():
        yield clock
    loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualLoop) and not loop.stalled:
        await clock.settle()
        left = sorted(task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task())
        if left:
            pytest.fail(f"tasks left behind: {', '.join(left)}")


@pytest_asyncio.fixture
async def cluster(clock: VirtualClock) -> AsyncIterator["EmbeddedCluster"]:
    """Give an embedded cluster whose node simulates its pods, in virtual time and with a fixed seed."""
    from kcr.cluster import EmbeddedCluster  # noqa: PLC0415  # most tests need no cluster

    async with EmbeddedCluster(clock=clock, random=random.Random(0), runtime="simulated") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _real_server() -> Iterator["ClusterConfig | None"]:
    """Run one kube-apiserver for all tests of the process, where there is one to run."""
    from kcr.testing.apiserver import real_server  # noqa: PLC0415  # most tests need no server

    with real_server() as config:
        yield config


@pytest_asyncio.fixture
async def apiserver(_real_server: "ClusterConfig | None") -> AsyncIterator["ApiServer"]:
    """Give an API server over TLS: the one that `KUBEBUILDER_ASSETS` names, else the embedded one.

    At the end no stored object may have been changed.
    """
    from kcr.testing.apiserver import api_server  # noqa: PLC0415  # see above
    from kcr.testing.mutation import unchanged_stores  # noqa: PLC0415  # see above

    with unchanged_stores():
        async with api_server(_real_server) as server:
            yield server
