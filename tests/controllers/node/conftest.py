"""Pods that run as processes, a client that reaches into them, and the history of pods."""

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.node_pods import History
from tests.kit.pod_connections import PodClient, pod_client, running_pod


@pytest_asyncio.fixture
async def process_cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(runtime="process") as cluster:
        yield cluster


@pytest_asyncio.fixture
async def pods(process_cluster: EmbeddedCluster) -> AsyncIterator[PodClient]:
    """A client, and the pod `a`, which runs for long."""
    async with pod_client(await process_cluster.serve()) as client:
        await running_pod(process_cluster, "a")
        yield client


@pytest_asyncio.fixture
async def history(kcr_cluster: EmbeddedCluster) -> AsyncIterator[History]:
    history = History(kcr_cluster.client)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(history.run())
        yield history
        task.cancel()
