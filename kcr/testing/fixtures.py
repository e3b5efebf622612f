"""Fixtures of tests in virtual time: their clock, their seed, and the checks at their end."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kcr.stacks import await_stack
from kcr.testing.loop import VirtualClock, VirtualLoop
from kcr.testing.plugin import SEED


@pytest_asyncio.fixture(loop_scope="function")
async def kcr_clock(request: pytest.FixtureRequest) -> AsyncIterator[VirtualClock]:
    """Give the virtual clock of the test; at the end no task may be left.

    Raises:
        pytest.UsageError: The test has no virtual loop.
    """
    clock, loop = VirtualClock(), asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        remedy = "make it an `async def`, and mark it with pytest.mark.kcr_virtual"
        raise pytest.UsageError(f"{request.node.nodeid}: kcr_clock needs a test that runs in virtual time: {remedy}")
    yield clock
    if not loop.stalled:
        await clock.settle()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        left = sorted(f"{task.get_name()}: {await_stack(task)}" for task in tasks)
        if left:
            pytest.fail(f"tasks left behind: {', '.join(left)}")


@pytest.fixture
def kcr_seed(pytestconfig: pytest.Config) -> int:
    """Give the seed of `--kcr-seed`, for a test that draws by itself: `random.Random(kcr_seed)`."""
    return pytestconfig.stash[SEED]
