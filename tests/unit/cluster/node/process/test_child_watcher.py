"""Processes of the program beside those of its node."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.node_pods import create, get

pytestmark = pytest.mark.asyncio


@asynccontextmanager
async def node() -> AsyncIterator[None]:
    """Give a node that has run a process."""
    async with EmbeddedCluster(runtime="process") as cluster:
        await create(cluster.client, "a", containers=[{"name": "main", "image": "x", "command": ["true"]}])

        async def has_ended() -> bool:
            return (await get(cluster.client, "a")).status.phase == "Succeeded"

        await eventually(has_ended)
        yield


async def start() -> asyncio.subprocess.Process:
    """Start a process that ends with its input."""
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(sys.executable, "-c", "import sys; sys.stdin.read()", stdin=pipe)


async def code_of(process: asyncio.subprocess.Process) -> int:
    assert process.stdin is not None
    process.stdin.close()
    return await asyncio.wait_for(process.wait(), 8)


async def test_node_that_ends_leaves_processes_of_the_program_alone() -> None:
    async with node():
        process = await start()
    assert await code_of(process) == 0


async def test_process_of_the_program_may_be_older_than_its_node() -> None:
    process = await start()
    async with node():
        assert await code_of(process) == 0


async def test_one_of_two_nodes_ends_alone() -> None:
    async with node():
        async with node():
            process = await start()
        assert await code_of(process) == 0
        assert await code_of(await start()) == 0
